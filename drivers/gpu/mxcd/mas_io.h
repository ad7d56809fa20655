/* SPDX-License-Identifier: GPL-2.0 */
/* The request, shared by those who carry it: plan, pieces, engine and queue. */
#ifndef _MAS_IO_H
#define _MAS_IO_H

#include <linux/fs.h>
#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>

/**
 * enum mas_piece - how the next piece of a transfer is moved
 * @MAS_PIECE_DIRECT: the storage controller reaches VRAM (p2p)
 * @MAS_PIECE_EDGE: read one direct unit into host memory, copy what was asked for
 * @MAS_PIECE_CACHED: through the page cache, which the CPU copies to or from
 * @MAS_PIECE_STAGED: through a buffer in host memory, where the file system may
 *	not see VRAM
 */
enum mas_piece {
	MAS_PIECE_DIRECT,
	MAS_PIECE_EDGE,
	MAS_PIECE_CACHED,
	MAS_PIECE_STAGED,
};

/**
 * struct mas_req - a request on its way
 * @iocb: for direct pieces; its priority is fixed at submission
 * @node: on mas_ctx::inflight, then on a list of completions; under mas_ctx::lock
 * @batch: whose submitter waits for it, or NULL; under mas_ctx::lock
 * @next: the I/O operation that is linked behind this one, or NULL; starts when
 *	this one has completed
 * @ctx: the context; cannot go while this is in flight
 * @file: the file, a reference is held until the completion is collected, or NULL
 * @mem: the handle, a reference is held, or NULL
 * @segs: the segment list, or NULL
 * @view: the VRAM
 * @gpu: the GPU, its gate is held, or NULL
 * @cred: the submitter's, where a work item may need them
 * @work: starts or continues the request where that may sleep
 * @user_data: as in the request
 * @flags: as in the request
 * @index: position in the batch
 * @op: as in the request
 * @started: it is planned and its first piece was chosen
 * @draining: waits to be the first on mas_ctx::inflight; under mas_ctx::lock
 * @cancelled: begin no further piece
 * @edge_direct: move edges by MAS_PIECE_EDGE
 * @flush: read the BAR when the completion is collected
 * @notify: tell those who watch the file when the completion is collected
 * @fsize_limit: RLIMIT_FSIZE of the submitter
 * @pos: first byte in the file
 * @mem_offset: first byte in @view
 * @want: bytes asked for
 * @len: bytes to move; for a read that may go p2p, not beyond the end of the file
 * @body_start: file offset where the direct part begins
 * @body_end: where it ends; @body_start if there is none
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
	struct kiocb iocb;
	struct list_head node;
	struct mas_batch *batch;
	struct mas_req *next;
	struct mas_ctx *ctx;
	struct mas_file *file;
	struct mas_mem *mem;
	struct mas_segs *segs;
	const struct mas_view *view;
	struct mxcd_gpu *gpu;
	const struct cred *cred;
	struct work_struct work;
	u64 user_data;
	u32 flags;
	u32 index;
	u16 op;
	bool started;
	bool draining;
	bool cancelled;
	bool edge_direct;
	bool flush;
	bool notify;
	unsigned long fsize_limit;
	u64 pos;
	u64 mem_offset;
	u64 want;
	u64 len;
	u64 body_start;
	u64 body_end;
	enum mas_piece piece;
	u64 piece_len;
	u64 done;
	u64 p2p_bytes;
	s64 result;
	u16 bounce_reason;
	u16 route;
	u16 reason;
	u16 gpu_index;
};

/* Longest piece; keeps each byte count within MAX_RW_COUNT. */
#define MAS_PIECE_MAX	SZ_1G

/* Longest piece that goes through a buffer. */
#define MAS_STAGE_MAX	SZ_64K

/* mas_plan.c */
int mas_req_check(const struct mxcd_mas_req *args, unsigned int how);
int mas_req_resolve(struct mas_req *req, const struct mxcd_mas_req *args);
int mas_req_plan(struct mas_req *req);

/* mas_piece.c */
bool mas_piece_next(struct mas_req *req);
ssize_t mas_piece_issue(struct mas_req *req, bool nowait);

/* mas_io.c */
void mas_io_complete(struct kiocb *iocb, long ret);
void mas_io_kick(struct mas_req *req);

/* mas_ctx.c */
int mas_ctx_admit(struct mas_ctx *ctx, struct mas_batch *batch,
		  struct mas_req *req, bool nowait);
bool mas_ctx_may_start(struct mas_ctx *ctx, struct mas_req *req);
void mas_ctx_complete(struct mas_ctx *ctx, struct mas_req *req);
int mas_ctx_cancel(struct mas_ctx *ctx, u64 user_data);

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

#endif /* _MAS_IO_H */
