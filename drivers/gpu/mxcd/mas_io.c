// SPDX-License-Identifier: GPL-2.0
/*
 * The request on its way, from mas_io_start() to mas_io_finish().
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
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "mas.h"
#include "mas_io.h"
#include "mas_stats.h"
#include "mas_trace.h"

/* Requests that a context keeps for later. */
#define MAS_MAX_SPARE	64

static struct kmem_cache *mas_req_cache;

static void mas_io_work(struct work_struct *work);

/**
 * mas_io_errno - an errno that can be told to user space
 * @ret: what the VFS returned
 *
 * The call that submitted a request cannot be restarted: it may have returned
 * long ago.
 *
 * Context: any.
 * Return: @ret, or -EINTR.
 */
int mas_io_errno(int ret)
{
	if (ret == -ERESTARTSYS || ret == -ERESTARTNOINTR || ret == -ERESTARTNOHAND ||
	    ret == -ERESTART_RESTARTBLOCK)
		return -EINTR;

	return ret;
}

/*
 * On a full disk a direct write fails as a whole, whatever fitted. The page cache
 * counts in blocks: what is left goes through it.
 */
static bool mas_io_full(struct mas_req *req, ssize_t ret)
{
	if ((ret != -ENOSPC && ret != -EDQUOT) || req->flags & MXCD_MAS_REQ_P2P_ONLY)
		return false;
	if ((req->piece != MAS_PIECE_DIRECT && req->piece != MAS_PIECE_PROOF) ||
	    !req->owner.cred)
		return false;

	req->body_end = req->body_start;
	req->bounce_reason = MXCD_MAS_REASON_FELL_BACK;
	return true;
}

/*
 * Take the outcome of a piece into account. Returns true when the transfer goes
 * on.
 */
static bool mas_io_account(struct mas_req *req, ssize_t ret)
{
	bool direct = req->piece == MAS_PIECE_DIRECT;

	if (ret <= 0) {
		if (mas_io_full(req, ret))
			return true;
		req->result = mas_io_errno(ret);
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
		trace_mas_bounce(req, ret,
				 direct ? MXCD_MAS_REASON_FELL_BACK : req->bounce_reason);
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
	if (req->segs)
		mas_segs_put(req->segs);
	if (req->owner.cred)
		mas_owner_put(&req->owner);
}

/**
 * mas_io_finish - the one way out
 * @req: a request with no piece under way; not to be touched afterwards
 *
 * The gate goes last: behind it, unbind waits.
 *
 * Context: any, hard interrupts too.
 */
void mas_io_finish(struct mas_req *req)
{
	struct mas_req *next = req->next;
	struct mxcd_gpu *gpu = req->entered ? req->gpu : NULL;

	if (req->done)
		req->result = req->done;
	if (req->lost || (gpu && mxcd_gpu_gone(gpu, req->faults)))
		mas_io_lost(req);
	if (next && !mas_io_succeeded(req))
		WRITE_ONCE(next->cancelled, true);

	if (req->result > 0 && req->op == MXCD_MAS_OP_READ && req->p2p_bytes &&
	    !(req->flags & MXCD_MAS_REQ_NOFLUSH)) {
		req->gpu_index = gpu->index;
		req->flush = true;
	}

	mas_stats_end(req);
	trace_mas_complete(req);
	mas_io_put_refs(req);
	mas_ctx_complete(req->ctx, req);
	if (next)
		mas_io_kick(next);
	if (gpu)
		mxcd_gpu_leave(gpu);
}

/* Where the block layer has left a bio that is gone, and somebody polls. */
static void mas_io_forget_bio(struct mas_req *req)
{
	WRITE_ONCE(req->iocb.private, NULL);
}

/**
 * mas_io_kick - go on with a request where that may sleep
 * @req: the request; not to be touched afterwards
 *
 * Context: any, hard interrupts too.
 */
void mas_io_kick(struct mas_req *req)
{
	mas_io_forget_bio(req);
	INIT_WORK(&req->work, mas_io_work);
	queue_work(mas_ctx_wq(req->ctx), &req->work);
}

/*
 * Without sleeping it could not be done, or the disk has no queue to poll; nothing was
 * moved. Some file systems and devices say that they do not support it.
 */
static bool mas_io_needs_worker(long ret)
{
	return ret == -EAGAIN || ret == -EOPNOTSUPP;
}

static void mas_io_direct_done(struct mas_req *req)
{
	long ret = req->piece_ret;

	if (mas_io_needs_worker(ret) && req->iocb.ki_flags & IOCB_NOWAIT) {
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

/*
 * Somebody may have read the old content of a block device into the page cache
 * while the piece was written. File systems drop such pages when the write ends; for
 * a block device that is done only if it ends before its call returns. A later
 * cached write to one of these pages would write the old content back.
 */
static bool mas_io_cache_is_stale(struct mas_req *req)
{
	struct address_space *mapping = req->file->file->f_mapping;

	return mas_is_write(req) && req->piece_ret > 0 && S_ISBLK(mapping->host->i_mode) &&
	       mapping->nrpages;
}

static void mas_io_invalidate(struct mas_req *req)
{
	loff_t first = req->pos + req->done, last = first + req->piece_ret - 1;

	invalidate_inode_pages2_range(req->file->file->f_mapping, first >> PAGE_SHIFT,
				      last >> PAGE_SHIFT);
}

static void mas_io_direct_work(struct work_struct *work)
{
	struct mas_req *req = container_of(work, struct mas_req, work);

	if (mas_io_cache_is_stale(req))
		mas_io_invalidate(req);
	mas_io_direct_done(req);
}

/* A direct piece is over, and nobody uses its kiocb any more. */
static void mas_io_direct_end(struct mas_req *req)
{
	/* A GPU that may be in a reset is asked, and not with interrupts off. */
	if (!mas_io_cache_is_stale(req) && !READ_ONCE(req->gpu->suspect)) {
		mas_io_direct_done(req);
		return;
	}

	mas_io_forget_bio(req);
	/* Needs nobody's rights, and the context may have no workqueue. */
	INIT_WORK(&req->work, mas_io_direct_work);
	queue_work(system_dfl_wq, &req->work);
}

/*
 * A file system may use the kiocb after it has queued the I/O, until its call
 * returns, and the I/O may be complete by then: the last of the two goes on.
 */
static inline void mas_io_unpin(struct mas_req *req)
{
	if (atomic_dec_and_test(&req->pins))
		mas_io_direct_end(req);
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

	req->piece_ret = ret;
	mas_io_unpin(req);
}

/* Would even an I/O with IOCB_NOWAIT wait? A write does for a frozen file system. */
static bool mas_io_would_wait(struct mas_req *req)
{
	struct file *filp = req->file->file;

	return !(filp->f_mode & FMODE_NOWAIT) ||
	       (mas_is_write(req) &&
		file_inode(filp)->i_sb->s_writers.frozen != SB_UNFROZEN);
}

static bool mas_io_must_punt(struct mas_req *req, unsigned int how)
{
	if (how & MAS_IO_INLINE)
		return false;
	if (req->piece != MAS_PIECE_DIRECT)
		return true;

	return how & MAS_IO_NONBLOCK && mas_io_would_wait(req);
}

/* Move pieces until one is left to a completion or a work item. */
static void mas_io_transfer(struct mas_req *req, unsigned int how)
{
	ssize_t ret;

	while (!req->lost && !mxcd_gpu_gone(req->gpu, req->faults) && mas_piece_next(req)) {
		if (READ_ONCE(req->cancelled)) {
			req->result = -ECANCELED;
			break;
		}
		if (mas_io_must_punt(req, how)) {
			mas_io_kick(req);
			return;
		}

		trace_mas_issue(req);
		atomic_set(&req->pins, 2);
		ret = mas_piece_issue(req, how);
		if (ret == -EIOCBQUEUED) {
			mas_io_unpin(req);
			return;
		}
		if (mas_io_needs_worker(ret) && how & MAS_IO_NONBLOCK) {
			mas_io_kick(req);
			return;
		}
		if (!mas_io_account(req, ret))
			break;
		/* Who is killed moves no more than pwrite(2) would. */
		if (fatal_signal_pending(current))
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

	req->result = mas_io_errno(vfs_fsync(req->file->file,
					     req->op == MXCD_MAS_OP_FDATASYNC));
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

/* A write to a disk finds its blocks there, one to a file may look for some. */
static bool mas_may_be_full(struct mas_req *req)
{
	return mas_is_write(req) && S_ISREG(file_inode(req->file->file)->i_mode);
}

/* Whatever happens, is a request no more than one direct piece? */
static bool mas_one_direct_piece(struct mas_req *req)
{
	if (mas_may_be_full(req))
		return false;

	return mas_is_transfer(req->op) && req->body_end - req->body_start == req->len &&
	       req->len <= MAS_PIECE_MAX && !req->prove;
}

/**
 * mas_io_prepare_work - a work item may be needed for a request
 * @req: the request
 *
 * Remembers who it works for, and makes sure that there is a place to run.
 *
 * Context: the submitter's; may sleep.
 * Return: 0 or -ENOMEM.
 */
int mas_io_prepare_work(struct mas_req *req)
{
	mas_owner_hold(&req->owner);
	return mas_ctx_wq(req->ctx) ? 0 : -ENOMEM;
}

/* The GPU is there, and its VRAM has kept what was put there. */
static bool mas_io_enter_first(struct mas_req *req)
{
	if (req->gpu)
		req->faults = mxcd_gpu_faults(req->gpu);
	if (!mas_io_enter(req))
		return false;

	req->lost = req->gpu && mxcd_gpu_has_lost(req->gpu, req->view->generation);
	return !req->lost;
}

/* May a request have waited for others? Those behind a link start in a work item. */
static bool mas_io_waited(const struct mas_req *req, unsigned int how)
{
	return req->flags & MXCD_MAS_REQ_DRAIN ||
	       (how & (MAS_IO_INLINE | MAS_IO_WAITS)) == MAS_IO_INLINE;
}

static int mas_io_plan(struct mas_req *req, unsigned int how)
{
	int ret = 0;

	if (READ_ONCE(req->cancelled))
		return -ECANCELED;
	if (!mas_io_enter_first(req))
		return -ENODEV;

	/* What a read that this waited for has put into VRAM may be on its way still. */
	if (mas_is_write(req) && mas_io_waited(req, how))
		mxcd_vram_flush(req->gpu);
	if (mas_is_transfer(req->op))
		ret = mas_req_plan(req);
	if (!ret && (how & MAS_IO_NONBLOCK || !mas_one_direct_piece(req)))
		ret = mas_io_prepare_work(req);

	return ret;
}

/*
 * Reads on this way are not proved yet. That waits for a disk, and must not keep the
 * GPU: it starts anew then.
 */
static void mas_io_prove(struct mas_req *req, unsigned int how)
{
	mas_io_leave(req);
	if (!(how & MAS_IO_NONBLOCK)) {
		mas_route_prove(req->file, req->gpu);
		req->asked = true;
		mas_io_start(req, how);
		return;
	}

	req->result = mas_io_prepare_work(req);
	if (req->result) {
		mas_io_finish(req);
		return;
	}
	req->started = false;
	mas_io_kick(req);
}

/**
 * mas_io_start - start a request
 * @req: a request that is resolved; what it was linked to has completed
 * @how: MAS_IO_* flags
 *
 * Context: may sleep.
 */
void mas_io_start(struct mas_req *req, unsigned int how)
{
	if (req->flags & MXCD_MAS_REQ_DRAIN && !mas_ctx_may_start(req->ctx, req))
		return;

	req->started = true;
	mas_stats_start(req);
	req->result = mas_io_plan(req, how);
	if (req->result == -EAGAIN)
		mas_io_prove(req, how);
	else if (req->result)
		mas_io_finish(req);
	else
		mas_io_run(req, how);
}

static void mas_io_work(struct work_struct *work)
{
	struct mas_req *req = container_of(work, struct mas_req, work);
	struct mas_owner_work owner;

	mas_owner_enter(&req->owner, &owner);
	if (req->started)
		mas_io_run(req, MAS_IO_INLINE);
	else
		mas_io_start(req, MAS_IO_INLINE);
	mas_owner_leave(&owner);
}

/**
 * mas_io_alloc - get memory for a request
 *
 * Context: may sleep.
 * Return: the request, not initialised, or NULL without memory.
 */
struct mas_req *mas_io_alloc(void)
{
	return kmem_cache_alloc(mas_req_cache, GFP_KERNEL);
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

static void mas_io_free_chain(struct mas_req *req)
{
	struct mas_req *next;

	for (; req; req = next) {
		next = req->next;
		mas_io_free(req);
	}
}

/* End a chain after MAS_MAX_SPARE requests; returns the others. */
static struct mas_req *mas_io_cut(struct mas_req *req)
{
	struct mas_req *rest;
	unsigned int nr;

	for (nr = 1; req->next && nr < MAS_MAX_SPARE; nr++)
		req = req->next;
	rest = req->next;
	req->next = NULL;

	return rest;
}

/**
 * mas_io_keep - keep free requests for the next ones
 * @ctx: the context
 * @chain: requests whose results have been collected, by mas_req::next, or NULL;
 *	those that were kept before are freed, and those that are too many
 *
 * Context: any.
 */
void mas_io_keep(struct mas_ctx *ctx, struct mas_req *chain)
{
	if (chain)
		mas_io_free_chain(mas_io_cut(chain));
	mas_io_free_chain(xchg(&ctx->spare, chain));
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
