// SPDX-License-Identifier: GPL-2.0
/*
 * The ways of the bench: this driver, pread(2) and pwrite(2), io_uring.
 *
 * io_uring is driven by its system calls alone, with a registered file and a
 * registered buffer, as it is meant to be used for this.
 */
#define _GNU_SOURCE

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <linux/io_uring.h>
#include <linux/mxcd_mas.h>

#include "bench.h"

int mas_fd;
__u32 mas_handle;
char *mas_vram, *ram_small, *ram_huge;

static void mas_call(unsigned long request, void *arg, const char *what)
{
	if (ioctl(mas_fd, request, arg))
		err(1, "%s", what);
}

/* Each place is used once in a batch; the last batch leaves its data. */
static int batch_place(const struct job *job, unsigned int i)
{
	return i >= job->nr - job->qd ? (int)(i % job->qd) : -1;
}

/* --- this driver ----------------------------------------------------------- */

static void mas_fill_req(struct mxcd_mas_req *req, const struct job *job,
			 unsigned int i, unsigned int place)
{
	*req = (struct mxcd_mas_req) {
		.op = job->write ? MXCD_MAS_OP_WRITE : MXCD_MAS_OP_READ,
		.file = job->target->id,
		.handle = mas_handle,
		.file_offset = job->offsets[i],
		.length = job->bytes,
		.mem_offset = place * job->bytes,
		.user_data = place,
	};
}

static void mas_check(const struct mxcd_mas_comp *comp, const struct job *job)
{
	if (comp->result != (__s64)job->bytes || comp->route != MXCD_MAS_ROUTE_P2P)
		errx(1, "result %lld, route %u, reason %u", (long long)comp->result,
		     comp->route, comp->reason);
}

/* As many as the queue is deep by one ioctl, which waits for all of them. */
static void mas_run(const struct way *way, const struct job *job)
{
	struct mxcd_mas_req reqs[MAX_QD];
	struct mxcd_mas_comp comps[MAX_QD];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg),
		.reqs = (unsigned long)reqs,
		.comps = (unsigned long)comps,
		.nr = job->qd,
		.min_nr = job->qd,
	};
	unsigned int i, place;

	for (i = 0; i < job->nr; i += job->qd) {
		for (place = 0; place < job->qd; place++)
			mas_fill_req(&reqs[place], job, i + place, place);
		mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
		if (arg.out_completed != job->qd)
			errx(1, "%u of %u completed", arg.out_completed, job->qd);
		for (place = 0; place < job->qd; place++)
			mas_check(&comps[place], job);
		bench_lap();
	}
}

const struct way way_mas = {
	.name = "mas", .run = mas_run, .place = batch_place, .buffer = &mas_vram,
};

/* Which place an I/O gets is left to the order of completion. */
static int no_place(const struct job *job, unsigned int i)
{
	return -1;
}

/* Whatever has completed is replaced at once. */
static void mas_run_slide(const struct way *way, const struct job *job)
{
	struct mxcd_mas_req reqs[MAX_QD];
	struct mxcd_mas_comp comps[MAX_QD];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = (unsigned long)reqs, .nr = job->qd,
	};
	unsigned int i, k, done = 0;
	ssize_t ret;

	for (i = 0; i < job->qd; i++)
		mas_fill_req(&reqs[i], job, i, i);
	while (done < job->nr) {
		if (arg.nr)
			mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
		ret = read(mas_fd, comps, sizeof(comps));
		if (ret < (ssize_t)sizeof(*comps))
			err(1, "read");
		ret /= sizeof(*comps);
		done += ret;
		arg.nr = 0;
		for (k = 0; k < ret; k++) {
			mas_check(&comps[k], job);
			if (i < job->nr)
				mas_fill_req(&reqs[arg.nr++], job, i++, comps[k].user_data);
		}
	}
}

const struct way way_mas_slide = {
	.name = "mas-slide", .run = mas_run_slide, .place = no_place, .buffer = &mas_vram,
};

/* Neighbours in the file are no neighbours in VRAM. */
static int seg_place(const struct job *job, unsigned int i)
{
	return i * 1583 % MAX_SEGS;
}

/* The whole job by one request: its I/Os are neighbours in the file. */
static void mas_run_segs(const struct way *way, const struct job *job)
{
	static struct mxcd_mas_seg segs[MAX_SEGS];
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg),
		.reqs = (unsigned long)&req,
		.comps = (unsigned long)&comp,
		.nr = 1,
		.min_nr = 1,
	};
	unsigned int i;

	mas_fill_req(&req, job, 0, 0);
	req.handle = 0;
	req.length = job->bytes * job->nr;
	req.segs = (unsigned long)segs;
	req.nr_segs = job->nr;
	for (i = 0; i < job->nr; i++)
		segs[i] = (struct mxcd_mas_seg) {
			.handle = mas_handle,
			.offset = seg_place(job, i) * job->bytes,
			.length = job->bytes,
		};
	mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
	if (comp.result != (__s64)req.length || comp.route != MXCD_MAS_ROUTE_P2P)
		errx(1, "result %lld, route %u, reason %u", (long long)comp.result,
		     comp.route, comp.reason);
	bench_lap();
}

const struct way way_segs = {
	.name = "segs", .run = mas_run_segs, .place = seg_place, .buffer = &mas_vram,
};

/* --- pread and pwrite ------------------------------------------------------ */

static void psync_one(const struct job *job, unsigned int i, char *buf)
{
	ssize_t ret;

	if (job->write)
		ret = pwrite(job->target->fd, buf, job->bytes, job->offsets[i]);
	else
		ret = pread(job->target->fd, buf, job->bytes, job->offsets[i]);
	if (ret != (ssize_t)job->bytes)
		err(1, "pread or pwrite: %zd", ret);
}

static void psync_run(const struct way *way, const struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->nr; i++) {
		psync_one(job, i, *way->buffer);
		bench_lap();
	}
}

/* What is done today: by way of host memory. */
static void psync_run_vram(const struct way *way, const struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->nr; i++) {
		if (job->write)
			memcpy(ram_small, mas_vram, job->bytes);
		psync_one(job, i, ram_small);
		if (!job->write)
			memcpy(mas_vram, ram_small, job->bytes);
		bench_lap();
	}
}

const struct way way_pread = {
	.name = "pread", .run = psync_run, .place = batch_place, .buffer = &ram_small,
};

const struct way way_pread_huge = {
	.name = "pread-huge", .run = psync_run, .place = batch_place, .buffer = &ram_huge,
};

const struct way way_pread_vram = {
	.name = "pread-memcpy", .run = psync_run_vram, .place = batch_place,
	.buffer = &mas_vram,
};

/* --- many threads ---------------------------------------------------------- */

static struct share {
	pthread_t thread;
	const struct way *way;
	struct job job;
	unsigned int place;
} shares[MAX_THREADS];

static pthread_barrier_t share_start, share_done;
static bool share_quit;

static void share_mas(const struct share *share)
{
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg),
		.reqs = (unsigned long)&req,
		.comps = (unsigned long)&comp,
		.nr = 1,
		.min_nr = 1,
	};
	unsigned int i;

	for (i = 0; i < share->job.nr; i++) {
		mas_fill_req(&req, &share->job, i, share->place);
		mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
		mas_check(&comp, &share->job);
	}
}

static void share_pread(const struct share *share)
{
	unsigned int i;

	for (i = 0; i < share->job.nr; i++)
		psync_one(&share->job, i, ram_small + share->place * share->job.bytes);
}

static void *share_work(void *arg)
{
	struct share *share = arg;

	for (;;) {
		pthread_barrier_wait(&share_start);
		if (share_quit)
			return NULL;
		if (*share->way->buffer == mas_vram)
			share_mas(share);
		else
			share_pread(share);
		pthread_barrier_wait(&share_done);
	}
}

/* One context, one file; "qd" threads with one I/O each. */
static void threads_begin(const struct way *way, const struct job *job)
{
	unsigned int i, each = job->nr / job->qd;

	share_quit = false;
	pthread_barrier_init(&share_start, NULL, job->qd + 1);
	pthread_barrier_init(&share_done, NULL, job->qd + 1);
	for (i = 0; i < job->qd; i++) {
		shares[i].way = way;
		shares[i].place = i;
		shares[i].job = *job;
		shares[i].job.nr = each;
		shares[i].job.offsets += i * each;
		if (pthread_create(&shares[i].thread, NULL, share_work, &shares[i]))
			errx(1, "pthread_create");
	}
}

static void threads_run(const struct way *way, const struct job *job)
{
	pthread_barrier_wait(&share_start);
	pthread_barrier_wait(&share_done);
}

static void threads_end(const struct way *way, const struct job *job)
{
	unsigned int i;

	share_quit = true;
	pthread_barrier_wait(&share_start);
	for (i = 0; i < job->qd; i++)
		pthread_join(shares[i].thread, NULL);
	pthread_barrier_destroy(&share_start);
	pthread_barrier_destroy(&share_done);
}

static int threads_place(const struct job *job, unsigned int i)
{
	unsigned int each = job->nr / job->qd;

	return i % each == each - 1 ? (int)(i / each) : -1;
}

#define THREADS(_name, _buffer) {					\
		.name = _name, .run = threads_run, .buffer = _buffer,	\
		.place = threads_place,					\
		.begin = threads_begin, .end = threads_end,		\
	}

const struct way way_threads = THREADS("mas-threads", &mas_vram);
const struct way way_pread_threads = THREADS("pread-threads", &ram_small);

/* --- io_uring -------------------------------------------------------------- */

static struct uring {
	int fd;
	struct io_uring_params p;
	char *ring;
	size_t ring_size;
	struct io_uring_sqe *sqes;
} uring;

static void *uring_map(size_t size, off_t what)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
		       uring.fd, what);

	if (p == MAP_FAILED)
		err(1, "mmap of io_uring");
	return p;
}

static void uring_register(unsigned int what, const void *arg, unsigned int nr)
{
	if (syscall(__NR_io_uring_register, uring.fd, what, arg, nr))
		err(1, "io_uring_register %u", what);
}

static void uring_begin(const struct way *way, const struct job *job)
{
	struct iovec iov = { *way->buffer, BUFFER };

	memset(&uring.p, 0, sizeof(uring.p));
	uring.p.flags = way->arg;
	uring.fd = syscall(__NR_io_uring_setup, MAX_QD, &uring.p);
	if (uring.fd < 0)
		err(1, "io_uring_setup");
	if (!(uring.p.features & IORING_FEAT_SINGLE_MMAP))
		errx(1, "io_uring without single mmap");
	uring.ring_size = uring.p.cq_off.cqes + uring.p.cq_entries * sizeof(struct io_uring_cqe);
	if (uring.ring_size < uring.p.sq_off.array + uring.p.sq_entries * sizeof(__u32))
		uring.ring_size = uring.p.sq_off.array + uring.p.sq_entries * sizeof(__u32);
	uring.ring = uring_map(uring.ring_size, IORING_OFF_SQ_RING);
	uring.sqes = uring_map(uring.p.sq_entries * sizeof(*uring.sqes), IORING_OFF_SQES);
	uring_register(IORING_REGISTER_BUFFERS, &iov, 1);
	uring_register(IORING_REGISTER_FILES, &job->target->fd, 1);
}

static void uring_end(const struct way *way, const struct job *job)
{
	/* What is left to be freed later would be counted with the next job. */
	uring_register(IORING_UNREGISTER_BUFFERS, NULL, 0);
	uring_register(IORING_UNREGISTER_FILES, NULL, 0);
	munmap(uring.sqes, uring.p.sq_entries * sizeof(*uring.sqes));
	munmap(uring.ring, uring.ring_size);
	close(uring.fd);
}

static __u32 *uring_word(__u32 offset)
{
	return (__u32 *)(uring.ring + offset);
}

/* As many as the queue is deep by one call, which waits for all of them. */
static void uring_run(const struct way *way, const struct job *job)
{
	__u32 *sq_tail = uring_word(uring.p.sq_off.tail);
	__u32 *sq_array = uring_word(uring.p.sq_off.array);
	__u32 *cq_head = uring_word(uring.p.cq_off.head);
	__u32 *cq_tail = uring_word(uring.p.cq_off.tail);
	__u32 sq_mask = *uring_word(uring.p.sq_off.ring_mask);
	__u32 cq_mask = *uring_word(uring.p.cq_off.ring_mask);
	struct io_uring_cqe *cqes = (void *)uring_word(uring.p.cq_off.cqes);
	unsigned int i, place;
	__u32 head, tail;
	long ret;

	for (i = 0; i < job->nr; i += job->qd) {
		tail = *sq_tail;
		for (place = 0; place < job->qd; place++, tail++) {
			uring.sqes[tail & sq_mask] = (struct io_uring_sqe) {
				.opcode = job->write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED,
				.flags = IOSQE_FIXED_FILE,
				.off = job->offsets[i + place],
				.addr = (unsigned long)*way->buffer + place * job->bytes,
				.len = job->bytes,
				.user_data = place,
			};
			sq_array[tail & sq_mask] = tail & sq_mask;
		}
		__atomic_store_n(sq_tail, tail, __ATOMIC_RELEASE);
		ret = syscall(__NR_io_uring_enter, uring.fd, job->qd, job->qd,
			      IORING_ENTER_GETEVENTS, NULL, 0);
		head = *cq_head;
		if (ret != job->qd || __atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) - head < job->qd)
			err(1, "io_uring_enter: %ld", ret);
		for (place = 0; place < job->qd; place++, head++)
			if (cqes[head & cq_mask].res != (int)job->bytes)
				errx(1, "io_uring: %d", cqes[head & cq_mask].res);
		__atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
		bench_lap();
	}
}

#define DEFER	(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)

#define URING(_name, _buffer, _flags) {					\
		.name = _name, .run = uring_run, .buffer = _buffer,	\
		.place = batch_place,					\
		.begin = uring_begin, .end = uring_end, .arg = _flags,	\
	}

const struct way way_uring = URING("uring", &ram_small, 0);
const struct way way_uring_huge = URING("uring-huge", &ram_huge, 0);
const struct way way_uring_defer = URING("uring-defer", &ram_small, DEFER);
const struct way way_uring_defer_huge = URING("uring-defer-huge", &ram_huge, DEFER);

/* --- what all of them need ------------------------------------------------- */

#define HUGE	(2 * MIB)

/* A buffer, each page of it touched. */
static char *ram_buffer(int advice)
{
	char *p = mmap(NULL, BUFFER + HUGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	p = (char *)(((unsigned long)p + HUGE - 1) & ~(HUGE - 1));
	if (madvise(p, BUFFER, advice))
		err(1, "madvise");
	memset(p, 1, BUFFER);
	return p;
}

/* Bytes of this process that lie in huge pages. */
static size_t huge_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * KIB;
}

/* The buffers are what they are meant to be, and have stayed so. */
void ways_check(void)
{
	if (huge_bytes() < BUFFER)
		errx(1, "%zu of %zu bytes in huge pages", huge_bytes(), BUFFER);
}

/*
 * How many pieces of contiguous host memory is a buffer made of? What pread(2)
 * costs depends on it, and a long-running machine has few that are larger than a
 * page.
 */
static void print_pieces(const char *name, const char *buf)
{
	unsigned long long entry, last = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	unsigned int pieces = 0;
	size_t pos;

	if (fd < 0)
		err(1, "pagemap");
	for (pos = 0; pos < BUFFER; pos += PAGE) {
		if (pread(fd, &entry, sizeof(entry), ((unsigned long)buf + pos) / PAGE * 8) != 8)
			err(1, "pagemap");
		entry &= (1ULL << 55) - 1;
		if (!pos || entry != last + 1)
			pieces++;
		last = entry;
	}
	close(fd);
	printf("# %s buffer: %lu pages in %u contiguous pieces\n", name, BUFFER / PAGE, pieces);
}

/* The GPU with the most VRAM. */
static __u32 big_gpu(void)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	__u64 most = 0;
	__u32 i, gpu = 0;

	mas_call(MXCD_MAS_QUERY, &q, "QUERY");
	for (i = 0; i < 64; i++) {
		struct mxcd_mas_query_gpu g = { .size = sizeof(g), .gpu = i };

		if (!(q.out_gpus >> i & 1))
			continue;
		mas_call(MXCD_MAS_QUERY_GPU, &g, "QUERY_GPU");
		if (g.out_vram_size > most) {
			most = g.out_vram_size;
			gpu = i;
		}
	}
	return gpu;
}

void ways_open(struct target *targets, unsigned int nr)
{
	struct mxcd_mas_alloc mem = { .size = sizeof(mem), .length = BUFFER };
	unsigned int i;

	mas_fd = open("/dev/mxcd_mas", O_RDWR | O_CLOEXEC);
	if (mas_fd < 0)
		err(1, "/dev/mxcd_mas");
	mem.gpu = big_gpu();
	mas_call(MXCD_MAS_ALLOC, &mem, "ALLOC");
	mas_handle = mem.handle;
	mas_vram = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_SHARED, mas_fd,
			mem.out_mmap_offset);
	if (mas_vram == MAP_FAILED)
		err(1, "mmap of VRAM");
	memset(mas_vram, 1, BUFFER);
	for (i = 0; i < nr; i++) {
		struct mxcd_mas_register reg = { .size = sizeof(reg), .fd = targets[i].fd };

		mas_call(MXCD_MAS_REGISTER, &reg, "REGISTER");
		targets[i].id = reg.file;
	}
	ram_small = ram_buffer(MADV_NOHUGEPAGE);
	if (huge_bytes())
		errx(1, "huge pages where there are to be none");
	ram_huge = ram_buffer(MADV_HUGEPAGE);
	ways_check();
	print_pieces("small-page", ram_small);
	print_pieces("huge-page", ram_huge);
}
