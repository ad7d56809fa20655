/* SPDX-License-Identifier: GPL-2.0 */
/* The request, shared by those who carry it: plan, pieces, engine and queue. */
#ifndef _MAS_IO_H
#define _MAS_IO_H

#include <linux/atomic.h>
#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/fsnotify.h>
#include <linux/ioprio.h>
#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>
#include <uapi/linux/mxcd_mas.h>

#include "mas.h"
#include "mxcd.h"

struct cgroup_subsys_state;
struct cred;
struct io_uring_cmd;
struct mas_batch;
struct mas_ctx;
struct mas_file;
struct mas_mem;
struct mas_segs;
struct mas_submit;
struct mas_view;
struct mem_cgroup;
struct mxcd_gpu;

/**
 * enum mas_piece - how the next piece of a transfer is moved
 * @MAS_PIECE_DIRECT: the storage controller reaches VRAM (p2p)
 * @MAS_PIECE_PROOF: so, and what was written is read back
 * @MAS_PIECE_EDGE: read one direct unit into host memory, copy what was asked for
 * @MAS_PIECE_CACHED: through the page cache, which the CPU copies to or from
 * @MAS_PIECE_STAGED: through a buffer in host memory, where the file system may
 *	not see VRAM
 */
enum mas_piece {
	MAS_PIECE_DIRECT,
	MAS_PIECE_PROOF,
	MAS_PIECE_EDGE,
	MAS_PIECE_CACHED,
	MAS_PIECE_STAGED,
};

/**
 * struct mas_owner - who submitted a request
 * @cred: credentials; NULL: not held
 * @blkcg: I/O control group, or NULL
 * @memcg: memory control group, or NULL
 */
struct mas_owner {
	const struct cred *cred;
	struct cgroup_subsys_state *blkcg;
	struct mem_cgroup *memcg;
};

/**
 * struct mas_owner_work - a worker that works for an owner
 * @owner: references of its own
 * @old_cred: the worker's
 * @old_memcg: the worker's
 */
struct mas_owner_work {
	struct mas_owner owner;
	const struct cred *old_cred;
	struct mem_cgroup *old_memcg;
};

/**
 * struct mas_req - a request on its way
 * @node: on mas_ctx::inflight until it is complete; under mas_ctx::lock
 * @batch: whose submitter waits for it, or NULL; under mas_ctx::lock
 * @cmd: the command of a ring that it came by, or NULL
 * @next: the I/O operation that is linked behind this one, or NULL; starts when
 *	this one has completed. Then the next one in the chain of completions, then
 *	in that of requests kept for later.
 * @ctx: the context; cannot go while this is in flight
 * @file: the file, a reference is held until the completion is collected, or NULL
 * @mem: the handle, a reference is held, or NULL
 * @segs: the segment list, or NULL
 * @view: the VRAM
 * @bvec: the VRAM of the piece under way where it lies in one extent
 * @iocb: for direct pieces
 * @gpu: the GPU, or NULL
 * @entered: its gate is held: from the start of the request to its end, but not
 *	while a file system that is not known has a part of it
 * @lost: the GPU was gone when that was over, or its VRAM had been lost before
 * @faults: of the GPU when the request started, see mxcd_gpu_gone()
 * @owner: the submitter, held where a work item may be needed
 * @work: starts or continues the request where that may sleep; initialised when it
 *	is queued
 * @seq: number of the request in its context
 * @start_ns: when it started, if that is to be known, else 0
 * @user_data: as in the request
 * @ioprio: I/O priority of the submitter
 * @flags: as in the request
 * @index: position in the batch
 * @op: as in the request
 * @started: it is planned and its first piece was chosen
 * @draining: waits to be the first on mas_ctx::inflight; under mas_ctx::lock
 * @cancelled: begin no further piece
 * @polled: who waits for it polls the disk
 * @edge_direct: move edges by MAS_PIECE_EDGE
 * @prove: p2p writes on this way are not proved: read the next piece back
 * @asked: a proof of reads was waited for
 * @flush: read the BAR when the completion is collected
 * @notify: tell those who watch the file when the completion is collected
 * @fsize_limit: RLIMIT_FSIZE of the submitter
 * @pos: first byte in the file
 * @mem_offset: first byte in @view
 * @want: bytes asked for
 * @len: bytes to move; for a read that may go p2p, not beyond the end of the file
 * @body_start: file offset where the direct part begins
 * @body_end: where it ends; @body_start if there is none
 * @pins: who still uses @iocb: the call that issued it, and its completion
 * @piece_ret: what the completion said
 * @piece: the piece under way
 * @piece_len: bytes in it
 * @done: bytes moved so far
 * @p2p_bytes: of these, p2p
 * @result: of the completion; while in flight, error that ended the transfer
 * @bounce_reason: why what bounces does
 * @route: of the completion
 * @reason: of the completion
 * @gpu_index: GPU to flush
 *
 * One owner at a time: the submitter, then whoever moves the current piece (a
 * work item or the completion of a kiocb), then the queue, then who collects it.
 */
struct mas_req {
	struct hlist_node node;
	struct mas_batch *batch;
	struct io_uring_cmd *cmd;
	struct mas_ctx *ctx;
	u64 seq;
	u64 user_data;
	u32 flags;
	u32 index;
	u16 op;
	u16 ioprio;
	enum mas_piece piece;
	u64 piece_len;
	long piece_ret;
	atomic_t pins;
	unsigned int faults;
	unsigned long fsize_limit;
	u64 pos;
	u64 mem_offset;
	u64 want;
	u64 len;
	u64 body_start;
	u64 body_end;
	const struct mas_view *view;
	struct bio_vec bvec;
	struct kiocb iocb;
	struct work_struct work;
	struct mas_owner owner;

	/* What is above is set before it is used, from here on all is zero at first. */
	struct mas_req *next;
	struct mas_file *file;
	struct mas_mem *mem;
	struct mas_segs *segs;
	struct mxcd_gpu *gpu;
	u64 start_ns;
	u64 done;
	u64 p2p_bytes;
	s64 result;
	u16 bounce_reason;
	u16 route;
	u16 reason;
	u16 gpu_index;
	bool entered;
	bool lost;
	bool started;
	bool draining;
	bool cancelled;
	bool polled;
	bool edge_direct;
	bool prove;
	bool asked;
	bool flush;
	bool notify;
};

/* Tags that the block layer may take at once; it submits as many at a time. */
#define MAS_PLUG_IOS	32U

/* Longest direct piece; keeps each byte count within MAX_RW_COUNT. */
#define MAS_PIECE_MAX	SZ_1G

/* Longest piece that the CPU copies: how long cancelling and unbind may take. */
#define MAS_CACHED_MAX	SZ_4M

/* Longest piece that is read back. */
#define MAS_READBACK_MAX SZ_64K

/* Longest piece that goes through a buffer. */
#define MAS_STAGE_MAX	SZ_64K

/* mas_plan.c */
int mas_req_plan(struct mas_req *req);

/* mas_piece.c */
bool mas_piece_next(struct mas_req *req);
ssize_t mas_piece_issue(struct mas_req *req, unsigned int how);

/* mas_readback.c */
ssize_t mas_readback(struct mas_req *req, enum mas_proof *proof, bool *telling);

/* mas_owner.c */
void mas_owner_hold(struct mas_owner *owner);
void mas_owner_put(struct mas_owner *owner);
void mas_owner_enter(const struct mas_owner *owner, struct mas_owner_work *work);
void mas_owner_leave(struct mas_owner_work *work);

/* mas_io.c */
int mas_io_errno(int ret);
struct mas_req *mas_io_alloc(void);
int mas_io_prepare_work(struct mas_req *req);
void mas_io_start(struct mas_req *req, unsigned int how);
void mas_io_finish(struct mas_req *req);
void mas_io_complete(struct kiocb *iocb, long ret);
void mas_io_kick(struct mas_req *req);

/* mas_ctx.c */
struct workqueue_struct *mas_ctx_wq(struct mas_ctx *ctx);

/* mas_queue.c */
int mas_ctx_wait_place(struct mas_ctx *ctx, bool nowait);
bool mas_ctx_may_start(struct mas_ctx *ctx, struct mas_req *req);
void mas_ctx_complete(struct mas_ctx *ctx, struct mas_req *req);
void mas_cancel(struct mas_req *req);
int mas_ctx_cancel(struct mas_ctx *ctx, u64 user_data);
int mas_ctx_cancel_cmd(struct mas_ctx *ctx, struct io_uring_cmd *cmd);
int mas_ctx_deliver_one(struct mas_req *req, struct mxcd_mas_comp __user *comp);

/* mas_uring.c */
void mas_uring_bind(struct mas_req *req, unsigned int how);
void mas_uring_complete(struct mas_req *req);

static inline bool mas_is_write(const struct mas_req *req)
{
	return req->op == MXCD_MAS_OP_WRITE;
}

static inline bool mas_is_transfer(u16 op)
{
	return op == MXCD_MAS_OP_READ || op == MXCD_MAS_OP_WRITE;
}

/* The other operations are control operations. */
static inline bool mas_is_io(u16 op)
{
	return mas_is_transfer(op) || op == MXCD_MAS_OP_FSYNC ||
	       op == MXCD_MAS_OP_FDATASYNC || op == MXCD_MAS_OP_FLUSH;
}

/**
 * mas_io_enter - begin to use the VRAM of a request
 * @req: the request, its gate not held
 *
 * Context: any.
 * Return: false when the GPU is gone; then @req is lost.
 */
static inline bool mas_io_enter(struct mas_req *req)
{
	req->entered = !req->gpu || mxcd_gpu_tryenter(req->gpu);
	req->lost = !req->entered;
	return req->entered;
}

/**
 * mas_io_leave - end what mas_io_enter() began
 * @req: the request
 *
 * Context: any.
 */
static inline void mas_io_leave(struct mas_req *req)
{
	if (req->entered && req->gpu)
		mxcd_gpu_leave(req->gpu);
	req->entered = false;
}

/**
 * mas_io_end_file - be done with the file of a request
 * @req: a request that is complete and being collected
 *
 * Tells those who watch the file what had not been told yet.
 *
 * Context: may sleep.
 */
static inline void mas_io_end_file(struct mas_req *req)
{
	if (!req->file)
		return;

	if (req->notify && mas_is_write(req))
		fsnotify_modify(req->file->file);
	else if (req->notify)
		fsnotify_access(req->file->file);
	mas_file_put_sync(req->file);
	req->file = NULL;
}

/**
 * mas_ctx_take_place - take a place in the queue of a context, if there is one
 * @ctx: the context
 *
 * Context: any.
 * Return: true if so.
 */
static inline bool mas_ctx_take_place(struct mas_ctx *ctx)
{
	int nr = atomic_read(&ctx->nr_queued);

	do {
		if (nr >= READ_ONCE(ctx->max_queue))
			return false;
	} while (!atomic_try_cmpxchg(&ctx->nr_queued, &nr, nr + 1));

	return true;
}

/* No meaning, see mas_p2p_ioprio(). */
#define MAS_IOPRIO_HINT	0x155

/*
 * The block layer merges adjacent bios whatever their pages are, and newer
 * kernels decide by the first page of a request how all of it is mapped for DMA.
 * It never merges bios of different priority, so p2p bios carry a hint that has no
 * meaning and that nobody else has a reason to set. The caller's class and level
 * stay.
 */
static inline u16 mas_p2p_ioprio(u16 prio)
{
	return IOPRIO_PRIO_VALUE_HINT(IOPRIO_PRIO_CLASS(prio), IOPRIO_PRIO_LEVEL(prio),
				      MAS_IOPRIO_HINT);
}

/**
 * mas_direct_kiocb - prepare the kiocb of a request for its piece
 * @req: a transfer, its piece under way is to go p2p
 *
 * Context: any.
 */
static inline void mas_direct_kiocb(struct mas_req *req)
{
	struct file *filp = req->file->file;

	req->iocb = (struct kiocb) {
		.ki_filp	= filp,
		.ki_pos		= req->pos + req->done,
		.ki_complete	= mas_io_complete,
		.ki_flags	= filp->f_iocb_flags | IOCB_DIRECT | IOCB_ALLOC_CACHE,
		.ki_ioprio	= mas_p2p_ioprio(req->ioprio),
	};
	if (mas_is_write(req))
		req->iocb.ki_flags |= IOCB_WRITE;
}

#endif /* _MAS_IO_H */
