// SPDX-License-Identifier: GPL-2.0
/*
 * The ways of the bench that go by io_uring, driven by its system calls alone:
 * READ_FIXED and WRITE_FIXED with a registered file and a registered buffer, as
 * they are meant to be used for this; this driver's requests; NVMe passthrough,
 * below which no way of the kernel's goes.
 */
#define _GNU_SOURCE

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <linux/io_uring.h>
#include <linux/mxcd_mas.h>
#include <linux/nvme_ioctl.h>

#include "bench.h"

#define NVME_CMD_WRITE	1
#define NVME_CMD_READ	2
#define SECTOR		512

/* An I/O of passthrough is as many commands as the controller needs. */
#define MAX_SQES	1024

static struct uring {
	int fd;
	struct io_uring_params p;
	char *ring;
	size_t ring_size;
	size_t sqe_size, cqe_size;
	char *sqes;
	int file;			/* registered as number 0 */
	unsigned int per_io;		/* commands */
	unsigned int nsid;
	__s32 want;			/* result of each */
	struct mxcd_mas_req reqs[MAX_QD];
	struct mxcd_mas_comp comps[MAX_QD];
} uring;

/* --- a ring --------------------------------------------------------------------- */

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

static void uring_setup(const struct way *way, const struct job *job, int file)
{
	unsigned int entries = job->qd * uring.per_io;

	if (entries > MAX_SQES)
		errx(1, "%u commands at a time", entries);
	memset(&uring.p, 0, sizeof(uring.p));
	uring.p.flags = way->arg;
	uring.sqe_size = sizeof(struct io_uring_sqe) << !!(way->arg & IORING_SETUP_SQE128);
	uring.cqe_size = sizeof(struct io_uring_cqe) << !!(way->arg & IORING_SETUP_CQE32);
	uring.fd = syscall(__NR_io_uring_setup, entries, &uring.p);
	if (uring.fd < 0)
		err(1, "io_uring_setup");
	if (!(uring.p.features & IORING_FEAT_SINGLE_MMAP))
		errx(1, "io_uring without single mmap");
	uring.ring_size = uring.p.cq_off.cqes + uring.p.cq_entries * uring.cqe_size;
	if (uring.ring_size < uring.p.sq_off.array + uring.p.sq_entries * sizeof(__u32))
		uring.ring_size = uring.p.sq_off.array + uring.p.sq_entries * sizeof(__u32);
	uring.ring = uring_map(uring.ring_size, IORING_OFF_SQ_RING);
	uring.sqes = uring_map(uring.p.sq_entries * uring.sqe_size, IORING_OFF_SQES);
	uring.file = file;
	uring_register(IORING_REGISTER_FILES, &file, 1);
}

static void uring_buffer(const struct way *way, const struct job *job)
{
	struct iovec iov = { *way->buffer, job_places(job) * job->bytes };

	uring_register(IORING_REGISTER_BUFFERS, &iov, 1);
}

static void uring_end(const struct way *way, const struct job *job)
{
	/* What is left to be freed later would be counted with the next job. */
	if (!way->handle)
		uring_register(IORING_UNREGISTER_BUFFERS, NULL, 0);
	uring_register(IORING_UNREGISTER_FILES, NULL, 0);
	munmap(uring.sqes, uring.p.sq_entries * uring.sqe_size);
	munmap(uring.ring, uring.ring_size);
	close(uring.fd);
}

static __u32 *uring_word(__u32 offset)
{
	return (__u32 *)(uring.ring + offset);
}

/* --- a batch -------------------------------------------------------------------- */

typedef void (*fill_fn)(struct io_uring_sqe *sqe, const struct way *way, const struct job *job,
			unsigned int i, unsigned int place, unsigned int part);

/* Returns the new tail. */
static inline __u32 uring_fill(const struct way *way, const struct job *job, unsigned int first,
			       __u32 tail, fill_fn fill)
{
	__u32 *sq_array = uring_word(uring.p.sq_off.array);
	__u32 slot, mask = uring.p.sq_entries - 1;
	unsigned int k, part, places = job_places(job);

	for (k = 0; k < job->qd; k++) {
		for (part = 0; part < uring.per_io; part++, tail++) {
			slot = tail & mask;
			fill((void *)(uring.sqes + slot * uring.sqe_size), way, job, first + k,
			     k < places ? k : k % places, part);
			sq_array[slot] = slot;
		}
	}
	return tail;
}

static inline void uring_reap(unsigned int nr)
{
	__u32 *cq_head = uring_word(uring.p.cq_off.head);
	__u32 *cq_tail = uring_word(uring.p.cq_off.tail);
	char *cqes = (char *)uring_word(uring.p.cq_off.cqes);
	__u32 mask = uring.p.cq_entries - 1, head = *cq_head;
	const struct io_uring_cqe *cqe;
	unsigned int k;

	if (__atomic_load_n(cq_tail, __ATOMIC_ACQUIRE) - head < nr)
		errx(1, "io_uring: fewer than %u completions", nr);
	for (k = 0; k < nr; k++, head++) {
		cqe = (void *)(cqes + (head & mask) * uring.cqe_size);
		if (cqe->res != uring.want)
			errx(1, "io_uring: %d", cqe->res);
	}
	__atomic_store_n(cq_head, head, __ATOMIC_RELEASE);
}

/* As many as the queue is deep by one call, which waits for all of them. */
static inline void uring_run(const struct way *way, const struct job *job, fill_fn fill)
{
	__u32 *sq_tail = uring_word(uring.p.sq_off.tail);
	unsigned int i, nr = job->qd * uring.per_io;
	__u32 tail;
	long ret;

	for (i = 0; i < job->nr; i += job->qd) {
		tail = uring_fill(way, job, i, *sq_tail, fill);
		__atomic_store_n(sq_tail, tail, __ATOMIC_RELEASE);
		ret = syscall(__NR_io_uring_enter, uring.fd, nr, nr, IORING_ENTER_GETEVENTS,
			      NULL, 0);
		if (ret != nr)
			err(1, "io_uring_enter: %ld", ret);
		uring_reap(nr);
		bench_lap();
	}
}

/* --- READ_FIXED and WRITE_FIXED --------------------------------------------------- */

static inline void fixed_fill(struct io_uring_sqe *sqe, const struct way *way,
			      const struct job *job, unsigned int i, unsigned int place,
			      unsigned int part)
{
	*sqe = (struct io_uring_sqe) {
		.opcode = job->write ? IORING_OP_WRITE_FIXED : IORING_OP_READ_FIXED,
		.flags = IOSQE_FIXED_FILE,
		.off = job->offsets[i],
		.addr = (unsigned long)*way->buffer + place * job->bytes,
		.len = job->bytes,
		.user_data = place,
	};
}

static void fixed_run(const struct way *way, const struct job *job)
{
	uring_run(way, job, fixed_fill);
}

static void fixed_begin(const struct way *way, const struct job *job)
{
	uring.per_io = 1;
	uring.want = job->bytes;
	uring_setup(way, job, job->target->fd);
	uring_buffer(way, job);
}

#define DEFER	(IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN)

#define URING(_name, _buffer, _flags) {					\
		.name = _name, .run = fixed_run, .buffer = _buffer,	\
		.place = batch_place,					\
		.begin = fixed_begin, .end = uring_end, .arg = _flags,	\
	}

const struct way way_uring = URING("uring", &ram_small, 0);
const struct way way_uring_huge = URING("uring-huge", &ram_huge, 0);
const struct way way_uring_defer = URING("uring-defer", &ram_small, DEFER);
const struct way way_uring_defer_huge = URING("uring-defer-huge", &ram_huge, DEFER);

/* --- requests of this driver ------------------------------------------------------ */

static inline void cmd_fill(struct io_uring_sqe *sqe, const struct way *way,
			    const struct job *job, unsigned int i, unsigned int place,
			    unsigned int part)
{
	unsigned int k = i % job->qd;
	struct mxcd_mas_uring *cmd = (void *)sqe->cmd;

	mas_fill_req(&uring.reqs[k], way, job, i, place);
	*sqe = (struct io_uring_sqe) {
		.opcode = IORING_OP_URING_CMD,
		.flags = IOSQE_FIXED_FILE,
		.cmd_op = MXCD_MAS_TRANSFER,
		.user_data = place,
	};
	cmd->req = (unsigned long)&uring.reqs[k];
	cmd->comp = (unsigned long)&uring.comps[k];
}

static void cmd_run(const struct way *way, const struct job *job)
{
	uring_run(way, job, cmd_fill);
	mas_check_comp(&uring.comps[0], job);
}

static void cmd_begin(const struct way *way, const struct job *job)
{
	uring.per_io = 1;
	uring.want = job->bytes;
	uring_setup(way, job, mas_fd);
}

#define MAS_URING(_name, _flags) {					\
		.name = _name, .run = cmd_run, .place = batch_place,	\
		.buffer = &mas_vram, .handle = &mas_handle,		\
		.begin = cmd_begin, .end = uring_end, .arg = _flags,	\
	}

const struct way way_mas_uring = MAS_URING("mas-uring", 0);
const struct way way_mas_uring_defer = MAS_URING("mas-uring-defer", DEFER);

/* --- NVMe passthrough ------------------------------------------------------------- */

/* The largest command that the kernel gives to the disk. */
static size_t command_bytes(const struct job *job)
{
	char path[128];
	unsigned long kib;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/queue/max_hw_sectors_kb", job->target->disk);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%lu", &kib) != 1)
		err(1, "%s", path);
	fclose(file);
	return kib * KIB < job->bytes ? kib * KIB : job->bytes;
}

static inline void passthru_fill(struct io_uring_sqe *sqe, const struct way *way,
				 const struct job *job, unsigned int i, unsigned int place,
				 unsigned int part)
{
	struct nvme_uring_cmd *cmd = (void *)sqe->cmd;
	size_t len = job->bytes / uring.per_io;
	__u64 sector = (job->offsets[i] + part * len) / SECTOR;

	*sqe = (struct io_uring_sqe) {
		.opcode = IORING_OP_URING_CMD,
		.flags = IOSQE_FIXED_FILE,
		.cmd_op = NVME_URING_CMD_IO,
		.uring_cmd_flags = IORING_URING_CMD_FIXED,
		.user_data = place,
	};
	*cmd = (struct nvme_uring_cmd) {
		.opcode = job->write ? NVME_CMD_WRITE : NVME_CMD_READ,
		.nsid = uring.nsid,
		.addr = (unsigned long)*way->buffer + place * job->bytes + part * len,
		.data_len = len,
		.cdw10 = (__u32)sector,
		.cdw11 = sector >> 32,
		.cdw12 = len / SECTOR - 1,
	};
}

static void passthru_run(const struct way *way, const struct job *job)
{
	uring_run(way, job, passthru_fill);
}

static void passthru_begin(const struct way *way, const struct job *job)
{
	char path[128];
	int fd, nsid;

	/* nvme0n1 is ng0n1. */
	snprintf(path, sizeof(path), "/dev/ng%s", job->target->disk + strlen("nvme"));
	fd = open(path, O_RDWR | O_CLOEXEC);
	nsid = fd < 0 ? -1 : ioctl(fd, NVME_IOCTL_ID);
	if (nsid < 1)
		err(1, "%s", path);
	uring.nsid = nsid;
	uring.per_io = job->bytes / command_bytes(job);
	uring.want = 0;
	uring_setup(way, job, fd);
	uring_buffer(way, job);
}

static void passthru_end(const struct way *way, const struct job *job)
{
	uring_end(way, job);
	close(uring.file);
}

const struct way way_passthru = {
	.name = "passthru", .run = passthru_run, .place = batch_place, .buffer = &ram_huge,
	.begin = passthru_begin, .end = passthru_end, .raw_only = true, .uncounted = true,
	.arg = DEFER | IORING_SETUP_SQE128 | IORING_SETUP_CQE32,
};
