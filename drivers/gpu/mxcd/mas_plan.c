// SPDX-License-Identifier: GPL-2.0
/*
 * Before a request starts. In the submitter's context, from a copy of the request:
 * is it well formed, and what does it name? When it starts, which for a request
 * that waits for others is later: which part of it can go p2p, and why not the
 * rest?
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/sched/signal.h>

#include "mas.h"
#include "mas_io.h"
#include "mas_trace.h"

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
#define ORDER_FLAGS	(MXCD_MAS_REQ_LINK | MXCD_MAS_REQ_DRAIN)
#define TRANSFER_FLAGS	(MXCD_MAS_REQ_FD | MXCD_MAS_REQ_P2P_ONLY | MXCD_MAS_REQ_BOUNCE | \
			 ORDER_FLAGS)

static const struct {
	unsigned int uses;
	u32 flags;
} mas_ops[] = {
	[MXCD_MAS_OP_READ]	 = { USES_TRANSFER, TRANSFER_FLAGS | MXCD_MAS_REQ_NOFLUSH },
	[MXCD_MAS_OP_WRITE]	 = { USES_TRANSFER, TRANSFER_FLAGS },
	[MXCD_MAS_OP_QUERY]	 = { USES_KEY | USES_FILE | USES_HANDLE | USES_ARG,
				     MXCD_MAS_REQ_FD | MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_ALLOC]	 = { USES_HANDLE | USES_LENGTH | USES_ARG, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_FREE]	 = { USES_HANDLE, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_REGISTER]	 = { USES_FILE | USES_ARG, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_UNREGISTER] = { USES_FILE, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_FSYNC]	 = { USES_FILE, MXCD_MAS_REQ_FD | ORDER_FLAGS },
	[MXCD_MAS_OP_FDATASYNC]	 = { USES_FILE, MXCD_MAS_REQ_FD | ORDER_FLAGS },
	[MXCD_MAS_OP_FLUSH]	 = { USES_HANDLE, ORDER_FLAGS },
	[MXCD_MAS_OP_CANCEL]	 = { USES_MEM_OFF, MXCD_MAS_REQ_LINK },
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

/* Is a field not zero that the operation does not use? */
static bool mas_surplus_fields(const struct mxcd_mas_req *args)
{
	/* As the table says; quicker for what is frequent. */
	if (mas_is_transfer(args->op))
		return args->key || args->arg;

	return mas_fields_set(args) & ~mas_ops[args->op].uses;
}

static int mas_check_transfer(const struct mxcd_mas_req *args)
{
	u32 exclusive = MXCD_MAS_REQ_P2P_ONLY | MXCD_MAS_REQ_BOUNCE;

	if ((args->flags & exclusive) == exclusive || !args->segs != !args->nr_segs)
		return -EINVAL;
	if (args->file_offset > LLONG_MAX || args->length > LLONG_MAX - args->file_offset)
		return -EINVAL;

	return 0;
}

/**
 * mas_req_check - is a request well formed?
 * @args: the request, copied from user space
 * @how: MAS_IO_* flags
 *
 * Context: any.
 * Return: 0, -EOPNOTSUPP (no such operation) or -EINVAL.
 */
int mas_req_check(const struct mxcd_mas_req *args, unsigned int how)
{
	if (!args->op || args->op >= ARRAY_SIZE(mas_ops))
		return -EOPNOTSUPP;
	if (args->flags & ~mas_ops[args->op].flags || mas_surplus_fields(args))
		return -EINVAL;
	if (args->flags & MXCD_MAS_REQ_FD && how & MAS_IO_NO_FD)
		return -EINVAL;
	if ((args->segs || args->nr_segs) && !mas_is_transfer(args->op))
		return -EINVAL;

	return mas_is_transfer(args->op) ? mas_check_transfer(args) : 0;
}

/* Most requests of a call name what the one before did. */
static struct mas_file *mas_submit_file(struct mas_submit *submit, u32 id)
{
	struct mas_file *file;

	if (!submit->file || submit->file_id != id) {
		if (submit->file)
			mas_file_put_sync(submit->file);
		submit->file = mas_file_get(submit->ctx, id);
		submit->file_id = id;
	}
	file = submit->file;
	if (submit->last)
		submit->file = NULL; /* handed over */
	else if (file)
		refcount_inc(&file->ref);

	return file;
}

static struct mas_mem *mas_submit_mem(struct mas_submit *submit, u32 handle)
{
	struct mas_mem *mem;

	if (!submit->mem || submit->handle != handle) {
		if (submit->mem)
			mas_mem_put_sync(submit->mem);
		submit->mem = mas_mem_get(submit->ctx, handle);
		submit->handle = handle;
	}
	mem = submit->mem;
	if (submit->last)
		submit->mem = NULL; /* handed over */
	else if (mem)
		refcount_inc(&mem->ref);

	return mem;
}

/**
 * mas_submit_forget - let go of the file and the handle that were named last
 * @submit: the requests of a call
 *
 * To be called before anything that may take a number from what it stands for, and
 * at the end.
 *
 * Context: may sleep.
 */
void mas_submit_forget(struct mas_submit *submit)
{
	if (submit->file)
		mas_file_put_sync(submit->file);
	if (submit->mem)
		mas_mem_put_sync(submit->mem);
	submit->file = NULL;
	submit->mem = NULL;
}

static int mas_resolve_file(struct mas_submit *submit, struct mas_req *req,
			    const struct mxcd_mas_req *args)
{
	struct mas_file *file;

	if (args->flags & MXCD_MAS_REQ_FD) {
		file = mas_file_get_fd(args->file);
		if (IS_ERR(file))
			return PTR_ERR(file);
	} else {
		file = mas_submit_file(submit, args->file);
		if (!file)
			return -ENOENT;
	}
	req->file = file;

	return 0;
}

static int mas_check_mode(struct mas_req *req)
{
	fmode_t mode = mas_is_write(req) ? FMODE_WRITE : FMODE_READ;

	return req->file->file->f_mode & mode ? 0 : -EBADF;
}

static int mas_resolve_segs(struct mas_req *req, const struct mxcd_mas_req *args)
{
	struct mas_segs *segs;

	segs = mas_segs_create(req->ctx, args);
	if (IS_ERR(segs))
		return PTR_ERR(segs);
	req->segs = segs;
	req->gpu = mas_segs_gpu(segs);
	req->view = mas_segs_view(segs);
	return 0;
}

static int mas_resolve_mem(struct mas_submit *submit, struct mas_req *req,
			   const struct mxcd_mas_req *args)
{
	struct mas_mem *mem;

	mem = mas_submit_mem(submit, args->handle);
	if (!mem)
		return -ENOENT;
	req->mem = mem;

	if (args->mem_offset > mem->size || args->length > mem->size - args->mem_offset)
		return -EINVAL;

	req->gpu = mem->gpu;
	req->view = &mem->view;
	return 0;
}

static int mas_resolve_transfer(struct mas_submit *submit, struct mas_req *req,
				const struct mxcd_mas_req *args)
{
	int ret = mas_resolve_file(submit, req, args);

	if (!ret)
		ret = mas_check_mode(req);
	if (ret)
		return ret;

	return args->nr_segs ? mas_resolve_segs(req, args) :
			       mas_resolve_mem(submit, req, args);
}

/**
 * mas_req_resolve - find what an I/O operation names
 * @submit: the requests of this call
 * @req: a new request; gets references to file and VRAM
 * @args: what mas_req_check() let through
 *
 * On failure the references found so far stay in @req.
 *
 * Context: the submitter's; may sleep.
 * Return: 0 or the errno that the request completes with.
 */
int mas_req_resolve(struct mas_submit *submit, struct mas_req *req,
		    const struct mxcd_mas_req *args)
{
	req->pos = args->file_offset;
	req->mem_offset = args->mem_offset;
	req->ioprio = submit->ioprio;
	req->fsize_limit = rlimit(RLIMIT_FSIZE);

	switch (req->op) {
	case MXCD_MAS_OP_FSYNC:
	case MXCD_MAS_OP_FDATASYNC:
		return mas_resolve_file(submit, req, args);
	case MXCD_MAS_OP_FLUSH:
		return mas_resolve_mem(submit, req, args);
	default:
		return mas_resolve_transfer(submit, req, args);
	}
}

static struct inode *mas_req_inode(struct mas_req *req)
{
	return req->file->file->f_mapping->host;
}

/* As generic_write_checks() would, which the limits of a work item would fool. */
static int mas_limit_fsize(struct mas_req *req)
{
	struct inode *inode = mas_req_inode(req);
	u64 limit = req->fsize_limit;
	u64 pos = req->pos;

	if (!mas_is_write(req) || limit == RLIM_INFINITY || !S_ISREG(inode->i_mode) || !req->len)
		return 0;

	if (req->file->file->f_flags & O_APPEND)
		pos = i_size_read(inode);
	if (pos >= limit) {
		if (!(current->flags & PF_KTHREAD))
			send_sig(SIGXFSZ, current, 0);
		return -EFBIG;
	}
	req->len = min(req->len, limit - pos);

	return 0;
}

/* A write on a way that is not proved goes p2p, and is the proof. */
static bool mas_writes_prove(struct mas_req *req, unsigned int reason)
{
	req->prove = reason == MXCD_MAS_REASON_NOT_PROVED && mas_is_write(req) &&
		     mas_route_can_prove_writes(req->file);
	return req->prove;
}

/* Why all of a transfer must bounce, or MXCD_MAS_REASON_NONE. */
static unsigned int mas_whole_reason(struct mas_req *req)
{
	struct mas_route route;

	if (req->flags & MXCD_MAS_REQ_BOUNCE)
		return MXCD_MAS_REASON_REQUESTED;

	route = mas_route_get(req->file, req->gpu, mas_is_write(req));
	if (unlikely(route.reason) && mas_writes_prove(req, route.reason))
		route.reason = MXCD_MAS_REASON_NONE;
	trace_mas_route(req, route.reason ? MXCD_MAS_ROUTE_BOUNCE : MXCD_MAS_ROUTE_P2P,
			route.reason);
	if (!route.reason && mas_is_write(req) && req->file->file->f_flags & O_APPEND)
		return MXCD_MAS_REASON_APPEND;

	return route.reason;
}

/*
 * Direct I/O fills whole blocks, and what a file has of its last one is only known
 * to the file system: a read ends at the end of the file as it is now.
 */
static void mas_clamp_to_eof(struct mas_req *req)
{
	u64 size = i_size_read(mas_req_inode(req));

	req->len = req->pos >= size ? 0 : min(req->len, size - req->pos);
}

/* Find the part that the storage controller can move itself. */
static void mas_find_body(struct mas_req *req)
{
	struct mas_file *file = req->file;
	u64 unit = mas_is_write(req) ? file->write_align : file->read_align;
	u64 start = round_up(req->pos, unit);
	u64 end = round_down(req->pos + req->len, unit);

	req->bounce_reason = MXCD_MAS_REASON_EDGE;
	if (start >= end)
		return;

	if (!mas_view_fits(req->view, req->mem_offset + start - req->pos, end - start,
			   file->mem_align, file->seg_align)) {
		req->bounce_reason = MXCD_MAS_REASON_MEM_ALIGN;
		req->edge_direct = false;
		return;
	}

	req->body_start = start;
	req->body_end = end;
}

static bool mas_proof_helps(struct mas_req *req, unsigned int reason)
{
	return reason == MXCD_MAS_REASON_NOT_PROVED && !mas_is_write(req) && !req->asked;
}

/* -EAGAIN: a proof may change the answer. */
static int mas_split(struct mas_req *req)
{
	unsigned int reason = mas_whole_reason(req);

	req->body_start = req->pos;
	req->body_end = req->pos;
	req->bounce_reason = reason;
	if (reason)
		return mas_proof_helps(req, reason) ? -EAGAIN : 0;

	req->edge_direct = !mas_is_write(req);
	if (req->edge_direct)
		mas_clamp_to_eof(req);
	mas_find_body(req);
	return 0;
}

/**
 * mas_req_plan - split a transfer into the parts that go p2p and those that bounce
 * @req: a transfer that is resolved and about to start
 *
 * Context: may sleep, not for a disk.
 * Return: 0, the errno that the request completes with, or -EAGAIN: reads on this way
 * are not proved, see mas_route_prove().
 */
int mas_req_plan(struct mas_req *req)
{
	int ret;

	req->len = req->want;
	ret = mas_limit_fsize(req);
	if (ret)
		return ret;

	ret = mas_split(req);
	if (ret)
		return ret;

	if (req->flags & MXCD_MAS_REQ_P2P_ONLY && req->body_end - req->body_start < req->len) {
		req->reason = req->bounce_reason;
		return -EXDEV;
	}

	return 0;
}
