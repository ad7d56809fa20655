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
#include <linux/fsnotify.h>
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

/* What the storage controller says it wrote to a BAR that has gone is nowhere. */
static void mas_io_lost(struct mas_req *req)
{
	req->result = -ENODEV;
	req->p2p_bytes = 0;
	req->route = 0;
}

/* Did a request do all it was asked to, so that those linked to it may start? */
static bool mas_io_succeeded(struct mas_req *req)
{
	return mas_is_transfer(req->op) ? req->result == req->want : !req->result;
}

static void mas_io_put_refs(struct mas_req *req)
{
	if (req->mem)
		mas_mem_put(req->mem);
	mas_segs_put(req->segs);
	if (req->cred)
		put_cred(req->cred);
}

/*
 * The one way out. Called in any context, once, when no piece is under way. The
 * gate goes last: behind it, unbind waits.
 */
static void mas_io_finish(struct mas_req *req)
{
	struct mas_req *next = req->next;
	struct mxcd_gpu *gpu = req->gpu;

	if (req->done)
		req->result = req->done;
	if (gpu && mxcd_gpu_gone(gpu))
		mas_io_lost(req);
	if (next && !mas_io_succeeded(req))
		WRITE_ONCE(next->cancelled, true);

	if (req->result > 0 && req->op == MXCD_MAS_OP_READ && req->p2p_bytes &&
	    !(req->flags & MXCD_MAS_REQ_NOFLUSH)) {
		req->gpu_index = gpu->index;
		req->flush = true;
	}

	mas_io_put_refs(req);
	mas_ctx_complete(req->ctx, req);
	if (next)
		mas_io_kick(next);
	if (gpu)
		mxcd_gpu_leave(gpu);
}

/**
 * mas_io_kick - go on with a request where that may sleep
 * @req: the request; not to be touched afterwards
 *
 * Context: any, hard interrupts too.
 */
void mas_io_kick(struct mas_req *req)
{
	queue_work(req->ctx->wq, &req->work);
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

	if (mas_is_write(req))
		kiocb_end_write(iocb);

	/* Without sleeping it could not be done; nothing was moved. */
	if (ret == -EAGAIN && iocb->ki_flags & IOCB_NOWAIT) {
		mas_io_kick(req);
		return;
	}

	/* The VFS notifies only of what ends before its call returns. */
	req->notify |= ret > 0;
	if (!mas_io_account(req, ret))
		mas_io_finish(req);
	else
		mas_io_kick(req);
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
static void mas_io_transfer(struct mas_req *req, unsigned int how)
{
	ssize_t ret;

	while (!mxcd_gpu_gone(req->gpu) && mas_piece_next(req)) {
		if (READ_ONCE(req->cancelled)) {
			req->result = -ECANCELED;
			break;
		}
		if (mas_io_must_punt(req, how)) {
			mas_io_kick(req);
			return;
		}

		ret = mas_piece_issue(req, how & MAS_IO_NONBLOCK);
		if (ret == -EIOCBQUEUED)
			return;
		if (ret == -EAGAIN && how & MAS_IO_NONBLOCK) {
			mas_io_kick(req);
			return;
		}
		if (!mas_io_account(req, ret))
			break;
	}

	mas_io_finish(req);
}

static void mas_io_sync(struct mas_req *req, unsigned int how)
{
	if (!(how & MAS_IO_INLINE)) {
		mas_io_kick(req);
		return;
	}

	req->result = vfs_fsync(req->file->file, req->op == MXCD_MAS_OP_FDATASYNC);
	mas_io_finish(req);
}

static void mas_io_run(struct mas_req *req, unsigned int how)
{
	switch (req->op) {
	case MXCD_MAS_OP_FLUSH:
		mxcd_vram_flush(req->gpu);
		mas_io_finish(req);
		break;
	case MXCD_MAS_OP_FSYNC:
	case MXCD_MAS_OP_FDATASYNC:
		mas_io_sync(req, how);
		break;
	default:
		mas_io_transfer(req, how);
	}
}

static bool mas_one_direct_piece(struct mas_req *req)
{
	return mas_is_transfer(req->op) && req->body_end - req->body_start == req->len &&
	       req->len <= MAS_PIECE_MAX;
}

static void mas_io_hold_cred(struct mas_req *req)
{
	if (!req->cred)
		req->cred = get_current_cred();
}

/* What a request was linked to has completed, or nothing was. */
static void mas_io_start(struct mas_req *req, unsigned int how)
{
	if (!mas_ctx_may_start(req->ctx, req))
		return;

	req->started = true;
	if (READ_ONCE(req->cancelled))
		req->result = -ECANCELED;
	else if (mas_is_transfer(req->op))
		req->result = mas_req_plan(req);
	if (req->result) {
		mas_io_finish(req);
		return;
	}

	if (how & MAS_IO_NONBLOCK || !mas_one_direct_piece(req))
		mas_io_hold_cred(req);
	mas_io_run(req, how);
}

static void mas_io_work(struct work_struct *work)
{
	struct mas_req *req = container_of(work, struct mas_req, work);
	const struct cred *cred = get_cred(req->cred);
	const struct cred *old = override_creds(cred);

	if (req->started)
		mas_io_run(req, MAS_IO_INLINE);
	else
		mas_io_start(req, MAS_IO_INLINE);

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

	return ret ? ret : (s64)alloc.handle;
}

static s64 mas_io_register(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	u32 id = args->file;
	int ret = mas_file_register(ctx, args->arg, &id);

	return ret ? ret : (s64)id;
}

/* Control operations are carried out on the spot. */
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
	case MXCD_MAS_OP_CANCEL:
		return mas_ctx_cancel(req->ctx, args->mem_offset);
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
	req->op = args->op;
	req->flags = args->flags;
	req->index = index;
	INIT_WORK(&req->work, mas_io_work);
	return req;
}

/**
 * mas_io_end_file - be done with the file of a request
 * @req: a request that is complete and being collected
 *
 * Tells those who watch the file what had not been told yet.
 *
 * Context: may sleep.
 */
void mas_io_end_file(struct mas_req *req)
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
 * mas_io_free - free a request
 * @req: a request whose result has been collected or is of no interest
 *
 * Context: any.
 */
void mas_io_free(struct mas_req *req)
{
	if (req->file)
		mas_file_put(req->file);
	kmem_cache_free(mas_req_cache, req);
}

/**
 * mas_submit_begin - the one way in, for the requests of one call
 * @submit: on the stack of the caller; to be ended by mas_submit_end()
 * @ctx: the context
 * @batch: batch that the results become part of, or NULL: to the context's queue
 * @how: MAS_IO_* flags
 */
void mas_submit_begin(struct mas_submit *submit, struct mas_ctx *ctx,
		      struct mas_batch *batch, unsigned int how)
{
	*submit = (struct mas_submit) {
		.ctx	= ctx,
		.batch	= batch,
		.how	= how,
	};
}

/* Start the chain that has been put together. */
static void mas_submit_start(struct mas_submit *submit)
{
	struct mas_req *head = submit->head;

	submit->head = NULL;
	submit->tail = NULL;
	if (head)
		mas_io_start(head, submit->how);
}

static void mas_submit_append(struct mas_submit *submit, struct mas_req *req)
{
	if (submit->head || req->flags & (MXCD_MAS_REQ_LINK | MXCD_MAS_REQ_DRAIN))
		mas_io_hold_cred(req);

	if (submit->head)
		submit->tail->next = req;
	else
		submit->head = req;
	submit->tail = req;
}

/* A chain ends with the first request that has no link. */
static void mas_submit_link(struct mas_submit *submit, bool link, bool failed)
{
	if (link) {
		submit->broken |= failed;
		return;
	}

	submit->broken = false;
	mas_submit_start(submit);
}

/**
 * mas_submit_one - submit a request
 * @submit: begun by mas_submit_begin()
 * @args: the request, copied from user space
 *
 * Errors of the request itself are in its completion.
 *
 * Context: process context of the caller; may sleep. Waits for a disk only as
 * pread(2) and pwrite(2) of the same file with O_DIRECT would, and not at all with
 * MAS_IO_NONBLOCK. Only the first request of a call may wait for room in the
 * queue.
 * Return: 0, or -EAGAIN, -ERESTARTSYS or -ENOMEM when the request was not taken.
 */
int mas_submit_one(struct mas_submit *submit, const struct mxcd_mas_req *args)
{
	struct mas_req *req;
	s64 ret;

	req = mas_io_create(submit->ctx, args, submit->nr);
	if (!req)
		return -ENOMEM;

	ret = mas_ctx_admit(submit->ctx, submit->batch, req, submit->how & MAS_IO_QUEUE_NOWAIT);
	if (ret) {
		mas_io_free(req);
		return ret;
	}
	submit->nr++;
	submit->how |= MAS_IO_QUEUE_NOWAIT;

	ret = mas_req_check(args, submit->how);
	if (!ret && submit->broken)
		ret = -ECANCELED;
	if (!ret)
		ret = mas_is_io(args->op) ? mas_req_resolve(req, args) :
					    mas_io_control(req, args);

	if (ret || !mas_is_io(args->op)) {
		req->result = ret;
		mas_io_finish(req);
	} else {
		mas_submit_append(submit, req);
	}
	mas_submit_link(submit, args->flags & MXCD_MAS_REQ_LINK, ret < 0);

	return 0;
}

/**
 * mas_submit_end - no more requests in this call
 * @submit: begun by mas_submit_begin()
 *
 * Context: as mas_submit_one().
 */
void mas_submit_end(struct mas_submit *submit)
{
	mas_submit_start(submit);
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
