/* SPDX-License-Identifier: GPL-2.0 */
/* A ring of io_uring, without a library. */
#ifndef MAS_RING_H
#define MAS_RING_H

#include "mas_utils.h"

#include <asm/unistd.h>
#include <linux/io_uring.h>

#define RING_ENTRIES	64U

struct ring {
	int fd;
	struct io_uring_params p;
	struct io_uring_sqe *sqes;
	__u8 *sq;
	__u32 queued;
};

static inline __u32 *ring_field(struct ring *r, __u32 off)
{
	return (__u32 *)(r->sq + off);
}

static inline int ring_init(struct ring *r, __u32 flags)
{
	size_t size;

	memset(r, 0, sizeof(*r));
	r->p.flags = flags;
	r->fd = syscall(__NR_io_uring_setup, RING_ENTRIES, &r->p);
	if (r->fd < 0)
		return -errno;
	/* One mapping holds both queues. */
	size = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
	r->sq = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd,
		     IORING_OFF_SQ_RING);
	r->sqes = mmap(NULL, RING_ENTRIES * sizeof(*r->sqes), PROT_READ | PROT_WRITE, MAP_SHARED,
		       r->fd, IORING_OFF_SQES);
	return r->sq == MAP_FAILED || r->sqes == MAP_FAILED ? -ENOMEM : 0;
}

/* Its mappings hold a ring as its descriptor does. */
static inline void ring_exit(struct ring *r)
{
	munmap(r->sq, r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe));
	munmap(r->sqes, RING_ENTRIES * sizeof(*r->sqes));
	close(r->fd);
}

static inline struct io_uring_sqe *ring_sqe(struct ring *r)
{
	__u32 tail = *ring_field(r, r->p.sq_off.tail);
	__u32 slot = tail & *ring_field(r, r->p.sq_off.ring_mask);
	struct io_uring_sqe *sqe = &r->sqes[slot];

	memset(sqe, 0, sizeof(*sqe));
	ring_field(r, r->p.sq_off.array)[slot] = slot;
	__atomic_store_n(ring_field(r, r->p.sq_off.tail), tail + 1, __ATOMIC_RELEASE);
	r->queued++;
	return sqe;
}

static inline struct io_uring_sqe *ring_request(struct ring *r, int fd,
						const struct mxcd_mas_req *req,
						struct mxcd_mas_comp *comp, __u64 user_data)
{
	struct io_uring_sqe *sqe = ring_sqe(r);
	struct mxcd_mas_uring cmd = { .req = mas_ptr(req), .comp = mas_ptr(comp) };

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = fd;
	sqe->cmd_op = MXCD_MAS_TRANSFER;
	sqe->user_data = user_data;
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	return sqe;
}

static inline int ring_enter(struct ring *r, __u32 min)
{
	int ret = syscall(__NR_io_uring_enter, r->fd, r->queued, min, IORING_ENTER_GETEVENTS,
			  NULL, 0);

	if (ret > 0)
		r->queued -= ret;
	return ret < 0 ? -errno : ret;
}

static inline bool ring_cqe(struct ring *r, struct io_uring_cqe *cqe)
{
	__u32 head = *ring_field(r, r->p.cq_off.head);
	struct io_uring_cqe *cqes = (void *)(r->sq + r->p.cq_off.cqes);

	if (head == __atomic_load_n(ring_field(r, r->p.cq_off.tail), __ATOMIC_ACQUIRE))
		return false;
	*cqe = cqes[head & *ring_field(r, r->p.cq_off.ring_mask)];
	__atomic_store_n(ring_field(r, r->p.cq_off.head), head + 1, __ATOMIC_RELEASE);
	return true;
}

/* A ring that is polled may return earlier than it was asked to. */
static inline int ring_wait(struct ring *r, struct io_uring_cqe *cqe)
{
	int ret;

	while (!ring_cqe(r, cqe)) {
		ret = ring_enter(r, 1);
		if (ret < 0)
			return ret;
	}
	return 0;
}

#endif /* MAS_RING_H */
