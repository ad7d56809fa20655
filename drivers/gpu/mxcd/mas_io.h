/* SPDX-License-Identifier: GPL-2.0 */
/* The request, shared by the engine (mas_io.c) and the queue (mas_ctx.c). */
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
 * @MAS_PIECE_CACHED: through the page cache
 */
enum mas_piece {
	MAS_PIECE_DIRECT,
	MAS_PIECE_EDGE,
	MAS_PIECE_CACHED,
};

/**
 * struct mas_req - a request on its way
 * @iocb: for direct pieces; its priority is fixed at submission
 * @node: on a list of the context or of a batch; under mas_ctx::lock
 * @batch: whose submitter waits for it, or NULL; under mas_ctx::lock
 * @ctx: the context; cannot go while this is in flight
 * @file: the file, a reference is held; NULL for control operations
 * @mem: the VRAM, a reference is held; NULL for control operations
 * @gpu: the GPU, its gate is held; NULL for control operations
 * @cred: the submitter's, where a work item may need them
 * @work: continues the transfer where that may sleep
 * @user_data: as in the request
 * @flags: as in the request
 * @index: position in the batch
 * @write: VRAM to file
 * @edge_direct: move edges by MAS_PIECE_EDGE
 * @pos: first byte in the file
 * @mem_offset: first byte in the handle
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
 * @gpu_index: VRAM to flush when the completion is collected
 * @flush: do so
 *
 * One owner at a time: the submitter, then whoever moves the current piece (a
 * work item or the completion of a kiocb), then the queue, then who collects it.
 */
struct mas_req {
	struct kiocb iocb;
	struct list_head node;
	struct mas_batch *batch;
	struct mas_ctx *ctx;
	struct mas_file *file;
	struct mas_mem *mem;
	struct mxcd_gpu *gpu;
	const struct cred *cred;
	struct work_struct work;
	u64 user_data;
	u32 flags;
	u32 index;
	bool write;
	bool edge_direct;
	u64 pos;
	u64 mem_offset;
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
	bool flush;
};

/* Longest piece; keeps each byte count within MAX_RW_COUNT. */
#define MAS_PIECE_MAX	SZ_1G

/* mas_plan.c */
int mas_req_check(const struct mxcd_mas_req *args, unsigned int how);
int mas_req_plan(struct mas_req *req, const struct mxcd_mas_req *args,
		 unsigned int how);

/* mas_piece.c */
bool mas_piece_next(struct mas_req *req);
ssize_t mas_piece_issue(struct mas_req *req, bool nowait);

/* mas_io.c */
void mas_io_complete(struct kiocb *iocb, long ret);

/**
 * mas_is_transfer - does a request move data?
 * @args: the request
 *
 * Return: true for READ and WRITE; the other operations are control operations.
 */
static inline bool mas_is_transfer(const struct mxcd_mas_req *args)
{
	return args->op == MXCD_MAS_OP_READ || args->op == MXCD_MAS_OP_WRITE;
}

#endif /* _MAS_IO_H */
