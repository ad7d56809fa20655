// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel's own tracing tells of the driver: when the BAR is read after p2p
 * reads, and what is allocated on the way of a request.
 */
#include "mas_utils.h"

#include <sys/eventfd.h>

#define TRACING		"/sys/kernel/tracing"
#define PROBE		"mas_selftest"
#define LEN		8192U
#define NR		32U
#define IOS		10000U

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = strlen(text);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, len) == len ? 0 : -errno;
	close(fd);
	return ret;
}

static int append(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	ssize_t len = strlen(text);
	int ret;

	if (fd < 0)
		return -errno;
	ret = write(fd, text, len) == len ? 0 : -errno;
	close(fd);
	return ret;
}

struct side {
	int fd;
	int disk;
	int plain;
	__u32 file;
	__u32 gpu;
	struct mxcd_mas_alloc mem[2];
	struct mxcd_mas_req reqs[NR];
	struct mxcd_mas_comp comps[NR];
};

static void side_setup(struct __test_metadata *_metadata, struct side *s)
{
	char *zeros = aligned_alloc(MAS_PAGE, NR * LEN);
	int file;

	s->fd = mas_open(0);
	ASSERT_LE(0, s->fd);
	ASSERT_NE(NULL, getenv("MAS_NVME512"));
	s->disk = open(getenv("MAS_NVME512"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, s->disk);
	ASSERT_NE(NULL, zeros);
	memset(zeros, 0, NR * LEN);
	ASSERT_TRUE(mas_pwrite(s->disk, zeros, NR * LEN, 0));
	free(zeros);
	file = mas_register(s->fd, s->disk);
	ASSERT_LT(0, file);
	s->file = file;
	s->gpu = mas_big_gpu(s->fd);
	ASSERT_EQ(0, mas_alloc(s->fd, s->gpu, NR * LEN, &s->mem[0]));
	ASSERT_EQ(0, mas_alloc(s->fd, !s->gpu, NR * LEN, &s->mem[1]));
}

static void side_fill(struct side *s, int op, __u32 flags)
{
	__u32 i;

	for (i = 0; i < NR; i++) {
		s->reqs[i] = mas_rw(op, s->file, i * LEN, LEN, s->mem[0].handle, i * LEN);
		s->reqs[i].flags = flags;
	}
}

/* All in one call, results in place. */
static int side_batch(struct side *s, __u32 nr)
{
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(s->reqs), .comps = mas_ptr(s->comps),
		.nr = nr, .min_nr = nr,
	};
	int ret = mas_ioctl(s->fd, MXCD_MAS_TRANSFER, &arg);
	__u32 i;

	for (i = 0; i < nr && !ret; i++)
		if (s->comps[i].result != s->reqs[i].length)
			ret = -EIO;
	return ret ? ret : arg.out_completed == nr ? 0 : -EPROTO;
}

/* --- the read of the BAR ------------------------------------------------------- */

FIXTURE(flush) {
	struct side s;
};

FIXTURE_SETUP(flush)
{
	side_setup(_metadata, &self->s);
	ASSERT_EQ(0, append(TRACING "/kprobe_events", "p:" PROBE "/flush mxcd_vram_flush\n"));
	ASSERT_EQ(0, put(TRACING "/events/" PROBE "/flush/enable", "1"));
}

FIXTURE_TEARDOWN(flush)
{
	put(TRACING "/events/" PROBE "/flush/enable", "0");
	append(TRACING "/kprobe_events", "-:" PROBE "/flush\n");
	close(self->s.disk);
	close(self->s.fd);
}

/* How often the BAR was read since the probe was set. */
static long flushes(void)
{
	FILE *f = fopen(TRACING "/kprobe_profile", "r");
	long nr = -1, n;
	char name[128];

	while (f && fscanf(f, "%127s %ld %*d", name, &n) == 2)
		if (!strcmp(name, "flush"))
			nr = n;
	if (f)
		fclose(f);
	return nr;
}

TEST_F(flush, is_once_for_all_p2p_reads_that_are_collected_together)
{
	struct side *s = &self->s;
	long before = flushes();

	ASSERT_LE(0, before);
	side_fill(s, MXCD_MAS_OP_READ, 0);
	ASSERT_EQ(0, side_batch(s, NR));
	EXPECT_EQ(1, flushes() - before);
	ASSERT_EQ(0, side_batch(s, 1));
	EXPECT_EQ(2, flushes() - before);
	/* A batch with one p2p read among others needs it as well. */
	side_fill(s, MXCD_MAS_OP_WRITE, 0);
	s->reqs[NR / 2].op = MXCD_MAS_OP_READ;
	ASSERT_EQ(0, side_batch(s, NR));
	EXPECT_EQ(3, flushes() - before);
}

TEST_F(flush, is_once_for_each_read_of_completions)
{
	struct side *s = &self->s;
	long before = flushes();
	struct mxcd_mas_eventfd arg = { .size = sizeof(arg), .fd = eventfd(0, EFD_CLOEXEC) };
	__u64 done = 0, n;

	ASSERT_EQ(0, mas_ioctl(s->fd, MXCD_MAS_EVENTFD, &arg));
	side_fill(s, MXCD_MAS_OP_READ, 0);
	ASSERT_EQ(sizeof(s->reqs), write(s->fd, s->reqs, sizeof(s->reqs)));
	for (; done < NR; done += n)
		ASSERT_EQ(sizeof(n), read(arg.fd, &n, sizeof(n)));
	EXPECT_EQ(0, flushes() - before);
	ASSERT_EQ(sizeof(s->comps), read(s->fd, s->comps, sizeof(s->comps)));
	EXPECT_EQ(1, flushes() - before);
}

TEST_F(flush, is_for_each_gpu_that_was_read_to)
{
	struct side *s = &self->s;
	long before = flushes();

	side_fill(s, MXCD_MAS_OP_READ, 0);
	s->reqs[3].handle = s->mem[1].handle;
	s->reqs[9].handle = s->mem[1].handle;
	ASSERT_EQ(0, side_batch(s, NR));
	EXPECT_EQ(2, flushes() - before);
}

TEST_F(flush, is_not_for_writes_bounce_or_who_does_not_want_it)
{
	struct side *s = &self->s;
	struct mxcd_mas_req req = { .op = MXCD_MAS_OP_FLUSH, .handle = s->mem[0].handle };
	long before = flushes();

	side_fill(s, MXCD_MAS_OP_WRITE, 0);
	ASSERT_EQ(0, side_batch(s, NR));
	side_fill(s, MXCD_MAS_OP_READ, MXCD_MAS_REQ_BOUNCE);
	ASSERT_EQ(0, side_batch(s, NR));
	side_fill(s, MXCD_MAS_OP_READ, MXCD_MAS_REQ_NOFLUSH);
	ASSERT_EQ(0, side_batch(s, NR));
	EXPECT_EQ(0, flushes() - before);
	/* They can ask for it later. */
	EXPECT_EQ(0, mas_by_ioctl(s->fd, &req).result);
	EXPECT_EQ(1, flushes() - before);
}

/* --- allocations ----------------------------------------------------------------- */

static const char * const alloc_events[] = {
	TRACING "/events/kmem/kmalloc/trigger",
	TRACING "/events/kmem/kmem_cache_alloc/trigger",
	TRACING "/events/percpu/percpu_alloc_percpu/trigger",
};

FIXTURE(alloc) {
	struct side s;
};

FIXTURE_SETUP(alloc)
{
	unsigned int i;

	side_setup(_metadata, &self->s);
	for (i = 0; i < ARRAY_SIZE(alloc_events); i++)
		ASSERT_EQ(0, append(alloc_events[i], "hist:keys=call_site.sym:size=4096\n"));
}

FIXTURE_TEARDOWN(alloc)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(alloc_events); i++)
		append(alloc_events[i], "!hist:keys=call_site.sym:size=4096\n");
	close(self->s.disk);
	close(self->s.fd);
}

static void alloc_clear(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(alloc_events); i++)
		append(alloc_events[i], "hist:keys=call_site.sym:size=4096:clear\n");
}

/*
 * Allocations by functions of the driver, of any kind; those of the request itself
 * apart. Negative: could not be counted.
 */
static long allocations(long *requests)
{
	char path[128], line[512], *hit;
	unsigned int i;
	long sum = 0;
	FILE *f;

	*requests = 0;
	for (i = 0; i < ARRAY_SIZE(alloc_events); i++) {
		snprintf(path, sizeof(path), "%.*shist",
			 (int)(strlen(alloc_events[i]) - strlen("trigger")), alloc_events[i]);
		f = fopen(path, "r");
		if (!f)
			return -errno;
		while (fgets(line, sizeof(line), f)) {
			hit = strstr(line, "hitcount:");
			if (strstr(line, "Dropped:") && atol(strstr(line, "Dropped:") + 8))
				sum = LONG_MIN / 2;
			if (!hit || !strstr(line, "[mxcd]"))
				continue;
			printf("#%s", line);
			/* Where mas_io_alloc() is called, which is a jump to the allocator. */
			if (strstr(line, "mas_io_alloc") || strstr(line, "mas_submit_"))
				*requests += atol(hit + 9);
			else
				sum += atol(hit + 9);
		}
		fclose(f);
	}
	return sum;
}

TEST_F_TIMEOUT(alloc, nothing_but_the_request_is_allocated_on_the_way, 120)
{
	static const struct {
		int op;
		__u32 flags;
	} kinds[] = {
		{ MXCD_MAS_OP_READ, 0 }, { MXCD_MAS_OP_WRITE, 0 },
		{ MXCD_MAS_OP_READ, MXCD_MAS_REQ_NOFLUSH }, { MXCD_MAS_OP_READ, 0 },
	};
	struct side *s = &self->s;
	long requests;
	__u32 ios = 0, i;

	/* What is made once for a context. */
	side_fill(s, MXCD_MAS_OP_READ, MXCD_MAS_REQ_BOUNCE);
	ASSERT_EQ(0, side_batch(s, NR));
	alloc_clear();
	while (ios < IOS) {
		for (i = 0; i < ARRAY_SIZE(kinds); i++) {
			side_fill(s, kinds[i].op, kinds[i].flags);
			ASSERT_EQ(0, side_batch(s, i < 3 ? NR : 1));
			ios += i < 3 ? NR : 1;
		}
	}
	EXPECT_EQ(0, allocations(&requests));
	EXPECT_GE(ios, requests);
	/* It would have been seen: a segment list has to be kept. */
	alloc_clear();
	for (i = 0; i < 2; i++) {
		struct mxcd_mas_seg segs[2] = {
			{ s->mem[0].handle, 0, 0, LEN }, { s->mem[0].handle, 0, LEN, LEN },
		};

		side_fill(s, MXCD_MAS_OP_READ, 0);
		s->reqs[0].handle = 0;
		s->reqs[0].length = 2 * LEN;
		s->reqs[0].segs = mas_ptr(segs);
		s->reqs[0].nr_segs = 2;
		ASSERT_EQ(0, side_batch(s, 1));
	}
	EXPECT_LT(0, allocations(&requests));
}

TEST_HARNESS_MAIN
