// SPDX-License-Identifier: GPL-2.0
/*
 * Before a transfer: is the request well formed, what does it name, which part of
 * it can go p2p, and why not the rest. All of it in the submitter's context, from
 * a copy of the request.
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/sched/signal.h>

#include "mas.h"
#include "mas_io.h"

/*
 * The block layer merges adjacent bios whatever their pages are, and newer
 * kernels decide by the first page of a request how all of it is mapped for DMA.
 * It never merges bios of different priority, so p2p bios carry a hint that
 * nobody else's have. The caller's class and level stay.
 */
#define MAS_IOPRIO_HINT	0x155

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

/* Find what a transfer names. */
static int mas_resolve(struct mas_req *req, const struct mxcd_mas_req *args)
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
static int mas_limit_fsize(struct mas_req *req)
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
static unsigned int mas_whole_reason(struct mas_req *req)
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
static void mas_clamp_to_eof(struct mas_req *req)
{
	u64 size = i_size_read(mas_req_inode(req));

	req->len = req->pos >= size ? 0 : min(req->len, size - req->pos);
}

/* Find the part that the storage controller can move itself. */
static void mas_find_body(struct mas_req *req)
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

static int mas_plan(struct mas_req *req)
{
	unsigned int reason = mas_whole_reason(req);

	req->body_start = req->pos;
	req->body_end = req->pos;
	req->bounce_reason = reason;

	if (!reason) {
		req->edge_direct = !req->write;
		if (!req->write)
			mas_clamp_to_eof(req);
		mas_find_body(req);
	}

	if (req->flags & MXCD_MAS_REQ_P2P_ONLY && req->body_end - req->body_start < req->len) {
		req->reason = req->bounce_reason;
		return -EXDEV;
	}

	return 0;
}

static u16 mas_ioprio(void)
{
	int prio = get_current_ioprio();

	/* Class NONE would be replaced on the way down, hint and all. */
	if (IOPRIO_PRIO_CLASS(prio) == IOPRIO_CLASS_NONE)
		prio = IOPRIO_PRIO_VALUE(task_nice_ioclass(current), task_nice_ioprio(current));

	return IOPRIO_PRIO_VALUE_HINT(IOPRIO_PRIO_CLASS(prio), IOPRIO_PRIO_LEVEL(prio),
				      MAS_IOPRIO_HINT);
}

static bool mas_one_direct_piece(struct mas_req *req)
{
	return req->body_end - req->body_start == req->len && req->len <= MAS_PIECE_MAX;
}

/**
 * mas_req_plan - find what a transfer names and split it
 * @req: a request without references; gets those to file, handle and gate
 * @args: a request that mas_req_check() let through
 * @how: MAS_IO_* flags
 *
 * On failure the references found so far stay in @req.
 *
 * Context: the submitter's; may sleep.
 * Return: 0 or the errno that the request completes with.
 */
int mas_req_plan(struct mas_req *req, const struct mxcd_mas_req *args,
		 unsigned int how)
{
	int ret;

	req->write = args->op == MXCD_MAS_OP_WRITE;
	req->pos = args->file_offset;
	req->mem_offset = args->mem_offset;
	req->len = args->length;

	ret = mas_check_transfer(args);
	if (!ret)
		ret = mas_resolve(req, args);
	if (!ret)
		ret = mas_limit_fsize(req);
	if (!ret)
		ret = mas_plan(req);
	if (ret)
		return ret;

	req->iocb.ki_ioprio = mas_ioprio();
	if (how & MAS_IO_NONBLOCK || !mas_one_direct_piece(req))
		req->cred = get_current_cred();

	return 0;
}
