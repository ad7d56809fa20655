// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation that the driver makes, or has made for it, fails in turn: the
 * call ends with -ENOMEM or does without, nothing is left over, and the next call
 * works. Wants a kernel with fault injection.
 */
#include "mas_inject.h"
#include "mas_ring.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>

#define SPAN		(64U * MAS_KIB)
#define FILE_BASE	(64ULL * MAS_MIB)	/* on a raw disk */
#define ENDLESS		5000

/* What a call needs; made anew for each try. */
struct scene {
	int mas;
	int target;		/* a file, and ... */
	__u32 file;		/* ... its id */
	struct mxcd_mas_alloc mem;
	int gpu;
	__u64 base;		/* where in the file to work */
	struct ring *ring;
	int event;
};

static int scene_reset(struct scene *s)
{
	int file;

	s->mas = mas_open(0);
	if (s->mas < 0)
		return s->mas;
	file = mas_register(s->mas, s->target);
	if (file < 0)
		return file;
	s->file = file;
	return mas_alloc(s->mas, s->gpu, 2 * SPAN, &s->mem);
}

/* Lines of fdinfo that begin with @key, or the number behind the first of them. */
static int held(int fd, const char *key, bool number)
{
	char path[64], line[256];
	int n = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, strlen(key)))
			continue;
		n = number ? atoi(line + strlen(key)) : n + 1;
	}
	fclose(f);
	return n;
}

static int held_in_all(int fd)
{
	return held(fd, "mas-file:", false) + held(fd, "mas-handle:", false);
}

/* --- the calls ------------------------------------------------------------- */

static int call_open(struct scene *s)
{
	int fd = mas_open(0);

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

static int call_query(struct scene *s)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };

	return mas_ioctl(s->mas, MXCD_MAS_QUERY, &q);
}

static int call_query_gpu(struct scene *s)
{
	struct mxcd_mas_query_gpu q;

	return mas_query_gpu(s->mas, s->gpu, &q);
}

static int call_query_file(struct scene *s)
{
	struct mxcd_mas_query_file q;
	int ret = mas_query_file(s->mas, s->file, 0, s->gpu, &q);

	return ret ? ret : mas_query_file(s->mas, s->target, MXCD_MAS_REQ_FD, s->gpu, &q);
}

static int call_alloc(struct scene *s)
{
	struct mxcd_mas_alloc made;

	return mas_alloc(s->mas, s->gpu, SPAN, &made);
}

static int call_alloc_with_a_number(struct scene *s)
{
	static __u32 handle = 1000;
	struct mxcd_mas_alloc made;

	return mas_alloc_id(s->mas, s->gpu, SPAN, handle++, &made);
}

static int call_free(struct scene *s)
{
	/* The next try finds nothing left. */
	int ret = mas_free(s->mas, s->mem.handle);

	return ret == -ENOENT ? 0 : ret;
}

static int call_register(struct scene *s)
{
	int ret = mas_register(s->mas, s->target);

	return ret < 0 ? ret : 0;
}

static int call_unregister(struct scene *s)
{
	int ret = mas_unregister(s->mas, s->file);

	return ret == -ENOENT ? 0 : ret;
}

static int call_eventfd(struct scene *s)
{
	struct mxcd_mas_eventfd arg = { .size = sizeof(arg), .fd = s->event };

	return mas_ioctl(s->mas, MXCD_MAS_EVENTFD, &arg);
}

/* The fault of a page is tried again by the kernel until there is memory. */
static int call_mmap(struct scene *s)
{
	unsigned char *p = mas_map(s->mas, &s->mem);

	if (p == MAP_FAILED)
		return -errno;
	p[0] = 1;
	p[SPAN] = 1;
	munmap(p, s->mem.length);
	return 0;
}

static int call_fdinfo(struct scene *s)
{
	int n = held_in_all(s->mas);

	return n < 0 ? n : 0;
}

static int outcome(const struct mxcd_mas_comp *comp, __u64 want)
{
	if (comp->result < 0)
		return comp->result;
	/* What was moved before there was no memory for more is told. */
	if (comp->result && (__u64)comp->result < want)
		return -ENOMEM;
	return (__u64)comp->result == want ? 0 : -EPROTO;
}

static int transfer(struct scene *s, int op, __u64 off, __u64 len, __u32 flags)
{
	struct mxcd_mas_req req = mas_rw(op, s->file, s->base + off, len, s->mem.handle, off);
	struct mxcd_mas_comp comp;

	req.flags = flags;
	comp = mas_by_ioctl(s->mas, &req);
	return outcome(&comp, len);
}

static int call_read(struct scene *s)
{
	return transfer(s, MXCD_MAS_OP_READ, 0, SPAN, 0);
}

static int call_read_odd(struct scene *s)
{
	return transfer(s, MXCD_MAS_OP_READ, 0, SPAN - 1, 0);
}

static int call_read_bounce(struct scene *s)
{
	return transfer(s, MXCD_MAS_OP_READ, 0, SPAN, MXCD_MAS_REQ_BOUNCE);
}

static int call_write(struct scene *s)
{
	return transfer(s, MXCD_MAS_OP_WRITE, 0, SPAN, 0);
}

static int call_write_odd(struct scene *s)
{
	return transfer(s, MXCD_MAS_OP_WRITE, 1, SPAN - 2, 0);
}

static int call_read_segments(struct scene *s)
{
	struct mxcd_mas_seg segs[] = {
		{ .handle = s->mem.handle, .offset = SPAN / 2, .length = SPAN / 2 },
		{ .handle = s->mem.handle, .offset = 0, .length = SPAN / 2 },
	};
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, s->file, s->base, SPAN, 0, 0);
	struct mxcd_mas_comp comp;

	req.segs = mas_ptr(segs);
	req.nr_segs = 2;
	comp = mas_by_ioctl(s->mas, &req);
	return outcome(&comp, SPAN);
}

static int call_fsync(struct scene *s)
{
	struct mxcd_mas_req req = { .op = MXCD_MAS_OP_FSYNC, .file = s->file };
	struct mxcd_mas_comp comp = mas_by_ioctl(s->mas, &req);

	return outcome(&comp, 0);
}

static int call_flush(struct scene *s)
{
	struct mxcd_mas_req req = { .op = MXCD_MAS_OP_FLUSH, .handle = s->mem.handle };
	struct mxcd_mas_comp comp = mas_by_ioctl(s->mas, &req);

	return outcome(&comp, 0);
}

/* A batch with links and a drain; what was not taken counts as failed. */
static int call_batch(struct scene *s)
{
	struct mxcd_mas_req reqs[6];
	struct mxcd_mas_comp comps[6];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = 6, .min_nr = 6,
	};
	int i, ret, len = SPAN / 4;

	for (i = 0; i < 6; i++)
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, s->file, s->base + i % 4 * len, len,
				 s->mem.handle, i % 4 * len);
	reqs[0].flags = MXCD_MAS_REQ_LINK;
	reqs[1].flags = MXCD_MAS_REQ_LINK;
	reqs[4].flags = MXCD_MAS_REQ_DRAIN;
	reqs[5].flags = MXCD_MAS_REQ_FD;
	reqs[5].file = s->target;
	ret = mas_ioctl(s->mas, MXCD_MAS_TRANSFER, &arg);
	if (ret)
		return ret;
	if (arg.out_submitted < 6)
		return -ENOMEM;
	for (i = 0; i < 6 && !ret; i++)
		ret = outcome(&comps[i], len);
	/* Those behind a link tell of the one in front. */
	return ret == -ECANCELED ? -ENOMEM : ret;
}

static int collect(struct scene *s, __u64 *sum)
{
	struct pollfd pfd = { .fd = s->mas, .events = POLLIN };
	struct mxcd_mas_comp comp;

	if (poll(&pfd, 1, MAS_PATIENCE_MS) != 1)
		return -ETIMEDOUT;
	if (read(s->mas, &comp, sizeof(comp)) != sizeof(comp))
		return -errno;
	if (comp.result < 0)
		return comp.result;
	*sum += comp.result;
	return 0;
}

static int call_write_and_read(struct scene *s)
{
	struct mxcd_mas_req reqs[3] = {
		mas_rw(MXCD_MAS_OP_READ, s->file, s->base, SPAN / 2, s->mem.handle, 0),
		mas_rw(MXCD_MAS_OP_READ, s->file, s->base + SPAN / 2, SPAN / 2, s->mem.handle,
		       SPAN / 2),
		{ .op = MXCD_MAS_OP_QUERY, .key = MXCD_MAS_KEY_VERSION },
	};
	ssize_t n = write(s->mas, reqs, sizeof(reqs)), i;
	__u64 sum = 0;
	int ret = 0, one;

	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(reqs))
		ret = -ENOMEM;
	for (i = 0; i < n / (ssize_t)sizeof(reqs[0]); i++) {
		one = collect(s, &sum);
		if (one)
			ret = one;
	}
	if (!ret && sum != SPAN + MXCD_MAS_VERSION)
		ret = -EPROTO;
	return ret;
}

static int call_control_by_write(struct scene *s)
{
	struct mxcd_mas_req reqs[2] = {
		{ .op = MXCD_MAS_OP_ALLOC, .length = SPAN, .arg = s->gpu },
		{ .op = MXCD_MAS_OP_REGISTER, .arg = s->target },
	};
	ssize_t n = write(s->mas, reqs, sizeof(reqs)), i;
	int ret = 0, one;
	__u64 ids;

	if (n < 0)
		return -errno;
	if (n < (ssize_t)sizeof(reqs))
		ret = -ENOMEM;
	for (i = 0; i < n / (ssize_t)sizeof(reqs[0]); i++) {
		one = collect(s, &ids);
		if (one)
			ret = one;
	}
	return ret;
}

static int call_uring(struct scene *s)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, s->file, s->base, SPAN,
					 s->mem.handle, 0);
	struct mxcd_mas_comp comp = {};
	struct io_uring_cqe cqe;
	int ret;

	ring_request(s->ring, s->mas, &req, &comp, 1);
	ret = ring_enter(s->ring, 1);
	if (ret < 0)
		return ret;
	if (!ring_cqe(s->ring, &cqe))
		return -ETIMEDOUT;
	if (cqe.res < 0)
		return cqe.res;
	return outcome(&comp, SPAN);
}

/* --- the sweep ---------------------------------------------------------------- */

FIXTURE(nth) {
	struct scene s;
	struct ring ring;
	unsigned char *content;
	__s64 vram_free;
	int watch;		/* a context that nothing happens to */
};

FIXTURE_VARIANT(nth) {
	int (*call)(struct scene *s);
	const char *env;	/* of the file; NULL: the raw disk */
	int flags;
	bool reads;		/* SPAN bytes, less one perhaps */
	bool may_be_none;	/* no allocation is made, as far as this task sees */
};

FIXTURE_VARIANT_ADD(nth, open) {
	.call = call_open,
};

FIXTURE_VARIANT_ADD(nth, query) {
	.call = call_query,
	.may_be_none = true,
};

FIXTURE_VARIANT_ADD(nth, query_gpu) {
	.call = call_query_gpu,
	.may_be_none = true,
};

FIXTURE_VARIANT_ADD(nth, query_file) {
	.call = call_query_file,
};

FIXTURE_VARIANT_ADD(nth, alloc) {
	.call = call_alloc,
};

FIXTURE_VARIANT_ADD(nth, alloc_with_a_number) {
	.call = call_alloc_with_a_number,
};

FIXTURE_VARIANT_ADD(nth, free) {
	.call = call_free,
	.may_be_none = true,
};

FIXTURE_VARIANT_ADD(nth, register_raw) {
	.call = call_register,
};

FIXTURE_VARIANT_ADD(nth, register_ext4) {
	.call = call_register,
	.env = "MAS_EXT4",
	.flags = O_DIRECT,
};

FIXTURE_VARIANT_ADD(nth, register_xfs) {
	.call = call_register,
	.env = "MAS_XFS",
	.flags = O_DIRECT,
};

FIXTURE_VARIANT_ADD(nth, register_tmpfs) {
	.call = call_register,
	.env = "MAS_TMPFS",
};

FIXTURE_VARIANT_ADD(nth, unregister) {
	.call = call_unregister,
	.may_be_none = true,
};

FIXTURE_VARIANT_ADD(nth, eventfd) {
	.call = call_eventfd,
	.may_be_none = true,
};

FIXTURE_VARIANT_ADD(nth, mmap) {
	.call = call_mmap,
	.may_be_none = true,
};

FIXTURE_VARIANT_ADD(nth, fdinfo) {
	.call = call_fdinfo,
	.may_be_none = true,
};

FIXTURE_VARIANT_ADD(nth, read_raw) {
	.call = call_read,
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, read_ext4) {
	.call = call_read,
	.env = "MAS_EXT4",
	.flags = O_DIRECT,
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, read_xfs) {
	.call = call_read,
	.env = "MAS_XFS",
	.flags = O_DIRECT,
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, read_tmpfs) {
	.call = call_read,
	.env = "MAS_TMPFS",
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, read_odd) {
	.call = call_read_odd,
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, read_odd_ext4) {
	.call = call_read_odd,
	.env = "MAS_EXT4",
	.flags = O_DIRECT,
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, read_bounce) {
	.call = call_read_bounce,
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, read_segments) {
	.call = call_read_segments,
};

FIXTURE_VARIANT_ADD(nth, write_raw) {
	.call = call_write,
};

FIXTURE_VARIANT_ADD(nth, write_ext4) {
	.call = call_write,
	.env = "MAS_EXT4",
	.flags = O_DIRECT,
};

FIXTURE_VARIANT_ADD(nth, write_xfs) {
	.call = call_write,
	.env = "MAS_XFS",
	.flags = O_DIRECT,
};

FIXTURE_VARIANT_ADD(nth, write_tmpfs) {
	.call = call_write,
	.env = "MAS_TMPFS",
};

FIXTURE_VARIANT_ADD(nth, write_odd) {
	.call = call_write_odd,
};

FIXTURE_VARIANT_ADD(nth, fsync) {
	.call = call_fsync,
	.may_be_none = true,
};

FIXTURE_VARIANT_ADD(nth, flush) {
	.call = call_flush,
};

FIXTURE_VARIANT_ADD(nth, batch) {
	.call = call_batch,
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, write_and_read) {
	.call = call_write_and_read,
	.reads = true,
};

FIXTURE_VARIANT_ADD(nth, control_by_write) {
	.call = call_control_by_write,
};

FIXTURE_VARIANT_ADD(nth, uring) {
	.call = call_uring,
	.reads = true,
};

static int open_target(const char *env, int flags)
{
	const char *raw = getenv("MAS_NVME512");
	int fd, again;

	if (!env) {
		fd = open(raw ? raw : "", O_RDWR | O_CLOEXEC | O_DIRECT);
		return fd < 0 ? -errno : fd;
	}
	fd = mas_temp(env, 0);
	if (fd < 0)
		return fd;
	again = mas_reopen(fd, O_RDWR | flags);
	close(fd);
	return again;
}

FIXTURE_SETUP(nth)
{
	int plain;

	if (nth_open())
		SKIP(return, "this kernel injects no faults");
	ASSERT_EQ(0, inject_prepare());

	self->watch = mas_open(0);
	ASSERT_LE(0, self->watch);
	self->s.gpu = mas_big_gpu(self->watch);
	ASSERT_LE(0, self->s.gpu);
	ASSERT_EQ(0, ring_init(&self->ring, 0));
	self->s.ring = &self->ring;
	self->s.event = eventfd(0, EFD_CLOEXEC);
	self->s.target = open_target(variant->env, variant->flags);
	ASSERT_LE(0, self->s.target);
	self->s.base = variant->env ? 0 : FILE_BASE;

	self->content = malloc(SPAN);
	mas_fill(self->content, SPAN, 7);
	plain = mas_reopen(self->s.target, O_RDWR);
	ASSERT_LE(0, plain);
	ASSERT_TRUE(mas_pwrite(plain, self->content, SPAN, self->s.base));
	ASSERT_EQ(0, fsync(plain));
	close(plain);
	self->vram_free = mas_vram_free(self->watch, self->s.gpu);
}

FIXTURE_TEARDOWN(nth)
{
	close(self->s.target);
	close(self->watch);
	close(nth_fd);
}

/* Right data where the call was a success. */
static bool data_is_right(struct scene *s, const unsigned char *content)
{
	unsigned char *p = mas_map(s->mas, &s->mem);
	long diff;

	if (p == MAP_FAILED)
		return false;
	diff = mas_diff(content, p, SPAN - 1);
	munmap(p, s->mem.length);
	return diff == -1;
}

TEST_F_TIMEOUT(nth, each_failure_is_clean, 300)
{
	unsigned int n, failed = 0;
	struct scene *s = &self->s;
	int ret, before;
	bool fired;

	for (n = 1; n < ENDLESS; n++) {
		ASSERT_EQ(0, scene_reset(s));
		before = held_in_all(s->mas);
		ASSERT_EQ(2, before);

		nth_arm(n);
		ret = variant->call(s);
		fired = nth_disarm();

		if (!fired) {
			ASSERT_EQ(0, ret);
		} else if (ret) {
			failed++;
			ASSERT_EQ(-ENOMEM, ret)
				TH_LOG("allocation %u", n);
		}
		if (!ret && variant->reads)
			ASSERT_TRUE(data_is_right(s, self->content));

		/* Nothing half made, nothing under way, and it works now. */
		if (ret && variant->call != call_control_by_write)
			ASSERT_EQ(before, held_in_all(s->mas));
		ASSERT_EQ(0, held(s->mas, "mas-inflight:", true));
		ASSERT_EQ(0, held(s->mas, "mas-queued:", true));
		ASSERT_EQ(0, variant->call(s))
			TH_LOG("after allocation %u", n);
		if (variant->reads)
			ASSERT_TRUE(data_is_right(s, self->content));
		close(s->mas);
		ASSERT_EQ(self->vram_free, mas_wait_vram(self->watch, s->gpu, self->vram_free));
		if (!fired)
			break;
	}
	ASSERT_GT(ENDLESS, n);
	printf("# %u allocations failed in turn; %u of them made the call fail\n", n - 1, failed);
	if (!variant->may_be_none)
		EXPECT_LT(1, n);
}

FIXTURE(large) {
	struct scene s;
};

FIXTURE_SETUP(large)
{
	if (nth_open())
		SKIP(return, "this kernel injects no faults");
	ASSERT_EQ(0, inject_prepare());
	self->s.target = open_target(NULL, O_DIRECT);
	ASSERT_LE(0, self->s.target);
	ASSERT_EQ(0, scene_reset(&self->s));
}

FIXTURE_TEARDOWN(large)
{
	number_to_file("fail_page_alloc", "probability", 0);
	number_to_file("fail_page_alloc", "min-order", 0);
	close(self->s.mas);
	close(self->s.target);
	close(nth_fd);
}

/* Memory may be in small pieces only. The proof of writes does with these. */
TEST_F(large, first_write_needs_no_large_piece_of_memory)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, self->s.file, FILE_BASE, SPAN,
					 self->s.mem.handle, 0);
	unsigned char *vram = mas_map(self->s.mas, &self->s.mem), *got = malloc(SPAN);
	struct mxcd_mas_comp comp;

	ASSERT_NE(MAP_FAILED, (void *)vram);
	mas_fill(vram, SPAN, 9);
	ASSERT_EQ(0, mas_set_fault(0)); /* nothing is proved */
	ASSERT_EQ(0, number_to_file("fail_page_alloc", "min-order", 4));
	ASSERT_EQ(0, number_to_file("fail_page_alloc", "times", 1));
	ASSERT_EQ(0, number_to_file("fail_page_alloc", "probability", 100));
	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	comp = mas_by_ioctl(self->s.mas, &req);
	EXPECT_EQ(SPAN, comp.result);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, comp.route);
	EXPECT_EQ(0, number_of_file("fail_page_alloc", "times"))
		TH_LOG("no such allocation was made");
	ASSERT_TRUE(mas_pread(self->s.target, got, SPAN, FILE_BASE));
	EXPECT_EQ(-1, mas_diff(vram, got, SPAN));
	munmap(vram, self->s.mem.length);
	free(got);
}

TEST_HARNESS_MAIN
