// SPDX-License-Identifier: GPL-2.0
/*
 * The request: checked, split, submitted, completed. One way in, mas_io_submit(),
 * and one way out, mas_io_finish().
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
#include <linux/bvec.h>
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "mas.h"
#include "mas_io.h"

/* Longest piece; keeps each byte count within MAX_RW_COUNT. */
#define MAS_PIECE_MAX	SZ_1G

/*
 * The block layer merges adjacent bios whatever their pages are, and newer
 * kernels decide by the first page of a request how all of it is mapped for DMA.
 * It never merges bios of different priority, so p2p bios carry a hint that
 * nobody else's have. The caller's class and level stay.
 */
#define MAS_IOPRIO_HINT	0x155

static struct kmem_cache *mas_req_cache;

/* Which fields an operation uses; the others must be zero. */
enum {
	USES_KEY	= 1 << 0,
	USES_FILE	= 1 << 1,
	USES_HANDLE	= 1 << 2,
	USES_FILE_OFF	= 1 << 3,
	USES_LENGTH	= 1 << 4,
	USES_MEM_OFF	= 1 << 5,
	USES_ARG	= 1 << 6,
};

#define USES_TRANSFER	(USES_FILE | USES_HANDLE | USES_FILE_OFF | USES_LENGTH | USES_MEM_OFF)
#define TRANSFER_FLAGS	(MXCD_MAS_REQ_FD | MXCD_MAS_REQ_P2P_ONLY | MXCD_MAS_REQ_BOUNCE | \
			 MXCD_MAS_REQ_NOFLUSH)

static const struct {
	unsigned int uses;
	u32 flags;
} mas_ops[] = {
	[MXCD_MAS_OP_READ]	 = { USES_TRANSFER, TRANSFER_FLAGS },
	[MXCD_MAS_OP_WRITE]	 = { USES_TRANSFER, TRANSFER_FLAGS },
	[MXCD_MAS_OP_QUERY]	 = { USES_KEY | USES_FILE | USES_HANDLE | USES_ARG,
				     MXCD_MAS_REQ_FD },
	[MXCD_MAS_OP_ALLOC]	 = { USES_HANDLE | USES_LENGTH | USES_ARG },
	[MXCD_MAS_OP_FREE]	 = { USES_HANDLE },
	[MXCD_MAS_OP_REGISTER]	 = { USES_FILE | USES_ARG },
	[MXCD_MAS_OP_UNREGISTER] = { USES_FILE },
};

static unsigned int mas_fields_set(const struct mxcd_mas_req *args)
{
	return (args->key ? USES_KEY : 0) |
	       (args->file ? USES_FILE : 0) |
	       (args->handle ? USES_HANDLE : 0) |
	       (args->file_offset ? USES_FILE_OFF : 0) |
	       (args->length ? USES_LENGTH : 0) |
	       (args->mem_offset ? USES_MEM_OFF : 0) |
	       (args->arg ? USES_ARG : 0);
}

static bool mas_is_transfer(const struct mxcd_mas_req *args)
{
	return args->op == MXCD_MAS_OP_READ || args->op == MXCD_MAS_OP_WRITE;
}

static int mas_check_request(const struct mxcd_mas_req *args, unsigned int how)
{
	if (!args->op || args->op >= ARRAY_SIZE(mas_ops))
		return -EOPNOTSUPP;
	if (args->flags & ~mas_ops[args->op].flags ||
	    mas_fields_set(args) & ~mas_ops[args->op].uses)
		return -EINVAL;
	if (args->flags & MXCD_MAS_REQ_FD && how & MAS_IO_NO_FD)
		return -EINVAL;
	if (args->segs || args->nr_segs)
		return mas_is_transfer(args) ? -EOPNOTSUPP : -EINVAL;

	return 0;
}

static int mas_check_transfer(const struct mxcd_mas_req *args)
{
	u32 exclusive = MXCD_MAS_REQ_P2P_ONLY | MXCD_MAS_REQ_BOUNCE;

	if ((args->flags & exclusive) == exclusive)
		return -EINVAL;
	if (args->file_offset > LLONG_MAX || args->length > LLONG_MAX - args->file_offset)
		return -EINVAL;

	return 0;
}

/* Find what a transfer names; on failure mas_io_finish() drops what was found. */
static int mas_io_resolve(struct mas_req *req, const struct mxcd_mas_req *args)
{
	struct mas_file *file;

	if (args->flags & MXCD_MAS_REQ_FD) {
		file = mas_file_get_fd(args->file);
		if (IS_ERR(file))
			return PTR_ERR(file);
	} else {
		file = mas_file_get(req->ctx, args->file);
		if (!file)
			return -ENOENT;
	}
	req->file = file;

	if (!(file->file->f_mode & (req->write ? FMODE_WRITE : FMODE_READ)))
		return -EBADF;

	req->mem = mas_mem_get(req->ctx, args->handle);
	if (!req->mem)
		return -ENOENT;
	if (args->mem_offset > req->mem->size ||
	    args->length > req->mem->size - args->mem_offset)
		return -EINVAL;

	if (!mxcd_gpu_tryenter(req->mem->gpu))
		return -ENODEV;
	req->gpu = req->mem->gpu;

	return 0;
}

static struct inode *mas_req_inode(struct mas_req *req)
{
	return req->file->file->f_mapping->host;
}

/* As generic_write_checks() would, which a work item's own limits would fool. */
static int mas_io_limit_fsize(struct mas_req *req)
{
	unsigned long limit = rlimit(RLIMIT_FSIZE);
	struct inode *inode = mas_req_inode(req);
	u64 pos = req->pos;

	if (!req->write || limit == RLIM_INFINITY || !S_ISREG(inode->i_mode) || !req->len)
		return 0;

	if (req->file->file->f_flags & O_APPEND)
		pos = i_size_read(inode);
	if (pos >= limit) {
		send_sig(SIGXFSZ, current, 0);
		return -EFBIG;
	}
	req->len = min_t(u64, req->len, limit - pos);

	return 0;
}

/* Why all of a transfer must bounce, or MXCD_MAS_REASON_NONE. */
static unsigned int mas_io_whole_reason(struct mas_req *req)
{
	if (req->flags & MXCD_MAS_REQ_BOUNCE)
		return MXCD_MAS_REASON_REQUESTED;
	if (req->write && req->file->file->f_flags & O_APPEND)
		return MXCD_MAS_REASON_APPEND;

	return mas_route_get(req->file, req->gpu, req->write).reason;
}

/*
 * Direct I/O fills whole blocks, and what a file has of its last one is only known
 * to the file system: a read ends at the end of the file as it is now.
 */
static void mas_io_clamp_to_eof(struct mas_req *req)
{
	u64 size = i_size_read(mas_req_inode(req));

	req->len = req->pos >= size ? 0 : min(req->len, size - req->pos);
}

/* Find the part that the storage controller can move itself. */
static void mas_io_find_body(struct mas_req *req)
{
	struct mas_file *file = req->file;
	u64 unit = req->write ? file->write_align : file->read_align;
	u64 start = round_up(req->pos, unit);
	u64 end = round_down(req->pos + req->len, unit);

	req->bounce_reason = MXCD_MAS_REASON_EDGE;
	if (start >= end)
		return;

	if (!mas_mem_fits(req->mem, req->mem_offset + start - req->pos, end - start,
			  file->mem_align, file->seg_align)) {
		req->bounce_reason = MXCD_MAS_REASON_MEM_ALIGN;
		req->edge_direct = false;
		return;
	}

	req->body_start = start;
	req->body_end = end;
}

static int mas_io_plan(struct mas_req *req)
{
	unsigned int reason = mas_io_whole_reason(req);

	req->body_start = req->pos;
	req->body_end = req->pos;
	req->bounce_reason = reason;

	if (!reason) {
		req->edge_direct = !req->write;
		if (!req->write)
			mas_io_clamp_to_eof(req);
		mas_io_find_body(req);
	}

	if (req->flags & MXCD_MAS_REQ_P2P_ONLY && req->body_end - req->body_start < req->len) {
		req->reason = req->bounce_reason;
		return -EXDEV;
	}

	return 0;
}

static u16 mas_io_ioprio(void)
{
	int prio = get_current_ioprio();

	/* Class NONE would be replaced on the way down, hint and all. */
	if (IOPRIO_PRIO_CLASS(prio) == IOPRIO_CLASS_NONE)
		prio = IOPRIO_PRIO_VALUE(task_nice_ioclass(current), task_nice_ioprio(current));

	return IOPRIO_PRIO_VALUE_HINT(IOPRIO_PRIO_CLASS(prio), IOPRIO_PRIO_LEVEL(prio),
				      MAS_IOPRIO_HINT);
}

static bool mas_io_one_direct_piece(struct mas_req *req)
{
	return req->body_end - req->body_start == req->len && req->len <= MAS_PIECE_MAX;
}

/* All of a transfer that needs the submitter's context. */
static int mas_io_prepare(struct mas_req *req, const struct mxcd_mas_req *args,
			  unsigned int how)
{
	int ret;

	req->write = args->op == MXCD_MAS_OP_WRITE;
	req->pos = args->file_offset;
	req->mem_offset = args->mem_offset;
	req->len = args->length;

	ret = mas_check_transfer(args);
	if (!ret)
		ret = mas_io_resolve(req, args);
	if (!ret)
		ret = mas_io_limit_fsize(req);
	if (!ret)
		ret = mas_io_plan(req);
	if (ret)
		return ret;

	req->iocb.ki_ioprio = mas_io_ioprio();
	if (how & MAS_IO_NONBLOCK || !mas_io_one_direct_piece(req))
		req->cred = get_current_cred();

	return 0;
}

/* Choose the next piece; false when there is none. */
static bool mas_io_next(struct mas_req *req)
{
	u64 pos = req->pos + req->done;
	u64 end = req->pos + req->len;
	u64 unit = req->file->read_align;

	if (pos >= end)
		return false;

	if (pos >= req->body_start && pos < req->body_end) {
		req->piece = MAS_PIECE_DIRECT;
		end = req->body_end;
	} else {
		req->piece = req->edge_direct ? MAS_PIECE_EDGE : MAS_PIECE_CACHED;
		if (pos < req->body_start)
			end = req->body_start;
		if (req->edge_direct)
			end = min(end, round_down(pos, unit) + unit);
	}
	req->piece_len = min_t(u64, end - pos, MAS_PIECE_MAX);

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

static void mas_io_complete(struct kiocb *iocb, long ret)
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

static ssize_t mas_vfs_iter(struct mas_req *req, struct kiocb *iocb, struct iov_iter *iter)
{
	struct file *filp = iocb->ki_filp;

	if (req->write)
		return vfs_iocb_iter_write(filp, iocb, iter);

	return vfs_iocb_iter_read(filp, iocb, iter);
}

static void mas_piece_iter(struct mas_req *req, u64 len, struct iov_iter *iter)
{
	mas_mem_iter(req->mem, req->mem_offset + req->done, len,
		     req->write ? ITER_SOURCE : ITER_DEST, iter);
}

/* p2p: the disk moves the data. May return -EIOCBQUEUED. */
static ssize_t mas_io_direct(struct mas_req *req, bool nowait)
{
	struct kiocb *iocb = &req->iocb;
	struct file *filp = req->file->file;
	struct iov_iter iter;

	iocb->ki_filp = filp;
	iocb->ki_pos = req->pos + req->done;
	iocb->ki_complete = mas_io_complete;
	iocb->private = NULL;
	iocb->ki_flags = filp->f_iocb_flags | IOCB_DIRECT | IOCB_ALLOC_CACHE;
	if (req->write)
		iocb->ki_flags |= IOCB_WRITE;
	if (nowait)
		iocb->ki_flags |= IOCB_NOWAIT;

	mas_piece_iter(req, req->piece_len, &iter);
	return mas_vfs_iter(req, iocb, &iter);
}

/* Through the page cache; the CPU copies. */
static ssize_t mas_io_cached(struct mas_req *req)
{
	struct file *filp = req->file->file;
	struct iov_iter iter;
	struct kiocb iocb;
	ssize_t ret;

	init_sync_kiocb(&iocb, filp);
	iocb.ki_pos = req->pos + req->done;
	iocb.ki_flags &= ~(IOCB_DIRECT | IOCB_NOWAIT);
	if (req->write)
		iocb.ki_flags |= IOCB_WRITE;

	mas_piece_iter(req, req->piece_len, &iter);
	ret = mas_vfs_iter(req, &iocb, &iter);
	if (!req->write)
		wmb(); /* drain the write-combining buffers into VRAM */

	return ret;
}

/* Read the block @base of the file into @buf. */
static ssize_t mas_read_block(struct mas_req *req, void *buf, loff_t base)
{
	struct file *filp = req->file->file;
	struct iov_iter iter;
	struct bio_vec bvec;
	struct kiocb iocb;

	init_sync_kiocb(&iocb, filp);
	iocb.ki_pos = base;
	iocb.ki_flags &= ~IOCB_NOWAIT;
	iocb.ki_flags |= IOCB_DIRECT;
	bvec_set_virt(&bvec, buf, req->file->read_align);
	iov_iter_bvec(&iter, ITER_DEST, &bvec, 1, req->file->read_align);

	return vfs_iocb_iter_read(filp, &iocb, &iter);
}

/* The edge of a read: one block into host memory, the part asked for to VRAM. */
static ssize_t mas_io_edge(struct mas_req *req)
{
	u64 pos = req->pos + req->done;
	u64 base = round_down(pos, (u64)req->file->read_align);
	u64 skip = pos - base;
	struct iov_iter iter;
	ssize_t ret;
	void *buf;

	buf = kmalloc(req->file->read_align, GFP_KERNEL);
	if (!buf)
		return -ENOMEM;

	ret = mas_read_block(req, buf, base);
	if (ret > 0) {
		ret = ret > skip ? min_t(u64, ret - skip, req->piece_len) : 0;
		mas_piece_iter(req, req->piece_len, &iter);
		if (copy_to_iter(buf + skip, ret, &iter) != ret)
			ret = -EIO;
		wmb(); /* drain the write-combining buffers into VRAM */
	}
	kfree(buf);

	return ret;
}

static bool mas_io_must_punt(struct mas_req *req, unsigned int how)
{
	if (how & MAS_IO_INLINE)
		return false;
	if (req->piece != MAS_PIECE_DIRECT)
		return true;

	return how & MAS_IO_NONBLOCK && !(req->file->file->f_mode & FMODE_NOWAIT);
}

static ssize_t mas_io_issue(struct mas_req *req, unsigned int how)
{
	switch (req->piece) {
	case MAS_PIECE_DIRECT:
		return mas_io_direct(req, how & MAS_IO_NONBLOCK);
	case MAS_PIECE_EDGE:
		return mas_io_edge(req);
	default:
		return mas_io_cached(req);
	}
}

/* Move pieces until one is left to a completion or a work item. */
static void mas_io_run(struct mas_req *req, unsigned int how)
{
	ssize_t ret;

	while (mas_io_next(req)) {
		if (mas_io_must_punt(req, how)) {
			mas_io_punt(req);
			return;
		}

		ret = mas_io_issue(req, how);
		if (ret == -EIOCBQUEUED)
			return;
		if (ret == -EAGAIN && how & MAS_IO_NONBLOCK) {
			mas_io_punt(req);
			return;
		}
		if (!mas_io_account(req, ret) || mxcd_gpu_gone(req->gpu))
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
	ret = mas_check_request(args, how);
	if (!ret && mas_is_transfer(args)) {
		ret = mas_io_prepare(req, args, how);
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
