// SPDX-License-Identifier: GPL-2.0
/*
 * The request on its way. One way in, mas_io_submit(), and one way out,
 * mas_io_finish().
 *
 * A transfer is moved in pieces, one after the other from the first byte to the
 * last, so that a short count always means "the first n bytes". Where p2p is
 * possible the pieces are a head edge, a body that is aligned as direct I/O
 * needs it, and a tail edge. Otherwise everything goes through the page cache, in
 * the same VFS calls with IOCB_DIRECT cleared: the CPU copies between the page
 * cache and VRAM, and all that the page cache knows how to do comes with it.
 *
 * Edges of a read are read directly into one block of host memory and copied
 * from there, so no more is read from disk than the blocks asked for. Edges of a
 * write go through the page cache. The body of a write never shares a page
 * with it (see mas_file.c).
 *
 * Each piece either ends at once or in mas_io_complete(), which may run in a
 * hard interrupt. What may sleep then goes on in a work item, with the
 * credentials of the submitter.
 */
#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/fs.h>
#include <linux/slab.h>

#include "mas.h"
#include "mas_io.h"

static struct kmem_cache *mas_req_cache;

/*
 * Take the outcome of a piece into account. Returns true when the transfer goes
 * on.
 */
static bool mas_io_account(struct mas_req *req, ssize_t ret)
{
	bool direct = req->piece == MAS_PIECE_DIRECT;

	if (ret <= 0) {
		/* The call cannot be restarted: it may have returned long ago. */
		if (ret == -ERESTARTSYS || ret == -ERESTARTNOINTR ||
		    ret == -ERESTARTNOHAND || ret == -ERESTART_RESTARTBLOCK)
			ret = -EINTR;
		req->result = ret;
		return false;
	}

	req->done += ret;
	if (direct && req->iocb.ki_flags & IOCB_DIRECT) {
		req->p2p_bytes += ret;
		req->route |= MXCD_MAS_ROUTE_P2P;
	} else {
		req->route |= MXCD_MAS_ROUTE_BOUNCE;
		if (!req->reason)
			req->reason = direct ? MXCD_MAS_REASON_FELL_BACK : req->bounce_reason;
	}

	return ret == req->piece_len && req->done < req->len;
}

/*
 * The one way out. Called in any context, once, when no piece is under way. The
 * gate goes last: behind it, unbind waits.
 */
static void mas_io_finish(struct mas_req *req)
{
	struct mxcd_gpu *gpu = req->gpu;

	if (req->done)
		req->result = req->done;
	if (gpu && mxcd_gpu_gone(gpu))
		req->result = -ENODEV;

	if (req->result > 0 && !req->write && req->p2p_bytes &&
	    !(req->flags & MXCD_MAS_REQ_NOFLUSH)) {
		req->gpu_index = gpu->index;
		req->flush = true;
	}

	if (req->mem)
		mas_mem_put(req->mem);
	if (req->file)
		mas_file_put(req->file);
	if (req->cred)
		put_cred(req->cred);

	mas_ctx_complete(req->ctx, req);
	if (gpu)
		mxcd_gpu_leave(gpu);
}

static void mas_io_punt(struct mas_req *req)
{
	queue_work(mas_wq, &req->work);
}

/**
 * mas_io_complete - a direct piece has ended
 * @iocb: mas_req::iocb
 * @ret: bytes moved or a negative errno
 *
 * Context: any, hard interrupts too; possibly before the call that submitted the
 * piece has returned.
 */
void mas_io_complete(struct kiocb *iocb, long ret)
{
	struct mas_req *req = container_of(iocb, struct mas_req, iocb);

	if (req->write)
		kiocb_end_write(iocb);

	/* Without sleeping it could not be done; nothing was moved. */
	if (ret == -EAGAIN && iocb->ki_flags & IOCB_NOWAIT) {
		mas_io_punt(req);
		return;
	}

	if (!mas_io_account(req, ret))
		mas_io_finish(req);
	else
		mas_io_punt(req);
}

static bool mas_io_must_punt(struct mas_req *req, unsigned int how)
{
	if (how & MAS_IO_INLINE)
		return false;
	if (req->piece != MAS_PIECE_DIRECT)
		return true;

	return how & MAS_IO_NONBLOCK && !(req->file->file->f_mode & FMODE_NOWAIT);
}

/* Move pieces until one is left to a completion or a work item. */
static void mas_io_run(struct mas_req *req, unsigned int how)
{
	ssize_t ret;

	while (!mxcd_gpu_gone(req->gpu) && mas_piece_next(req)) {
		if (mas_io_must_punt(req, how)) {
			mas_io_punt(req);
			return;
		}

		ret = mas_piece_issue(req, how & MAS_IO_NONBLOCK);
		if (ret == -EIOCBQUEUED)
			return;
		if (ret == -EAGAIN && how & MAS_IO_NONBLOCK) {
			mas_io_punt(req);
			return;
		}
		if (!mas_io_account(req, ret))
			break;
	}

	mas_io_finish(req);
}

static void mas_io_work(struct work_struct *work)
{
	struct mas_req *req = container_of(work, struct mas_req, work);
	const struct cred *cred = get_cred(req->cred);
	const struct cred *old = override_creds(cred);

	mas_io_run(req, MAS_IO_INLINE);

	revert_creds(old);
	put_cred(cred);
}

static s64 mas_io_alloc(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	struct mxcd_mas_alloc alloc = {
		.gpu	= args->arg,
		.handle	= args->handle,
		.length	= args->length,
	};
	int ret = mas_mem_alloc(ctx, &alloc);

	return ret ? ret : alloc.handle;
}

static s64 mas_io_register(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	u32 id = args->file;
	int ret = mas_file_register(ctx, args->arg, &id);

	return ret ? ret : id;
}

/* Everything but READ and WRITE is done on the spot. */
static s64 mas_io_control(struct mas_req *req, const struct mxcd_mas_req *args)
{
	switch (args->op) {
	case MXCD_MAS_OP_QUERY:
		return mas_query_key(req->ctx, args, &req->reason);
	case MXCD_MAS_OP_ALLOC:
		return mas_io_alloc(req->ctx, args);
	case MXCD_MAS_OP_FREE:
		return mas_mem_free(req->ctx, args->handle);
	case MXCD_MAS_OP_REGISTER:
		return mas_io_register(req->ctx, args);
	case MXCD_MAS_OP_UNREGISTER:
		return mas_file_unregister(req->ctx, args->file);
	default:
		return -EOPNOTSUPP;
	}
}

static struct mas_req *mas_io_create(struct mas_ctx *ctx, const struct mxcd_mas_req *args,
				     u32 index)
{
	struct mas_req *req;

	req = kmem_cache_zalloc(mas_req_cache, GFP_KERNEL);
	if (!req)
		return NULL;

	req->ctx = ctx;
	req->user_data = args->user_data;
	req->flags = args->flags;
	req->index = index;
	INIT_WORK(&req->work, mas_io_work);
	return req;
}

/**
 * mas_io_free - free a request
 * @req: a request whose result has been collected or is of no interest
 *
 * Context: any.
 */
void mas_io_free(struct mas_req *req)
{
	kmem_cache_free(mas_req_cache, req);
}

/**
 * mas_io_submit - the one way in
 * @ctx: the context
 * @args: the request, copied from user space
 * @batch: batch of which the result becomes part, or NULL: to the context's queue
 * @index: position in the batch
 * @how: MAS_IO_* flags
 *
 * Errors of the request itself are in its completion.
 *
 * Context: process context of the caller; may sleep. Waits for a disk only as
 * pread(2) and pwrite(2) of the same file with O_DIRECT would, and not at all with
 * MAS_IO_NONBLOCK.
 * Return: 0, or -EAGAIN, -ERESTARTSYS or -ENOMEM when the request was not taken.
 */
int mas_io_submit(struct mas_ctx *ctx, const struct mxcd_mas_req *args,
		  struct mas_batch *batch, u32 index, unsigned int how)
{
	struct mas_req *req;
	int ret;

	ret = mas_ctx_reserve(ctx, how & MAS_IO_QUEUE_NOWAIT);
	if (ret)
		return ret;

	req = mas_io_create(ctx, args, index);
	if (!req) {
		mas_ctx_unreserve(ctx);
		return -ENOMEM;
	}

	mas_ctx_start(ctx, batch, req);
	ret = mas_req_check(args, how);
	if (!ret && mas_is_transfer(args)) {
		ret = mas_req_plan(req, args, how);
		if (!ret) {
			mas_io_run(req, how);
			return 0;
		}
	}

	req->result = ret ? ret : mas_io_control(req, args);
	mas_io_finish(req);
	return 0;
}

/**
 * mas_io_init - prepare for requests
 *
 * Context: module initialisation.
 * Return: 0 or -ENOMEM.
 */
int mas_io_init(void)
{
	mas_req_cache = KMEM_CACHE(mas_req, SLAB_HWCACHE_ALIGN | SLAB_ACCOUNT);

	return mas_req_cache ? 0 : -ENOMEM;
}

/**
 * mas_io_exit - the counterpart
 *
 * Context: module exit; no request exists.
 */
void mas_io_exit(void)
{
	kmem_cache_destroy(mas_req_cache);
}
