// SPDX-License-Identifier: GPL-2.0
/*
 * When a transfer starts, which for one that waits for others is later than when it
 * was submitted: which part of it can go p2p, and why not the rest?
 */
#include <linux/cred.h>
#include <linux/fs.h>
#include <linux/sched/signal.h>

#include "mas.h"
#include "mas_io.h"
#include "mas_trace.h"

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

	if (limit == RLIM_INFINITY || !S_ISREG(inode->i_mode) || !req->len)
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
	req->prove = reason == MXCD_MAS_REASON_NOT_PROVED &&
		     mas_route_can_prove_writes(req->file);
	return req->prove;
}

/* Why all of a transfer must bounce, or MXCD_MAS_REASON_NONE. */
static unsigned int mas_whole_reason(struct mas_req *req, bool write)
{
	unsigned int reason;

	if (req->flags & MXCD_MAS_REQ_BOUNCE)
		return MXCD_MAS_REASON_REQUESTED;

	reason = mas_route_get(req->file, req->gpu, write);
	if (unlikely(reason) && write && mas_writes_prove(req, reason))
		reason = MXCD_MAS_REASON_NONE;
	trace_mas_route(req, reason ? MXCD_MAS_ROUTE_BOUNCE : MXCD_MAS_ROUTE_P2P, reason);
	if (!reason && write && req->file->file->f_flags & O_APPEND)
		return MXCD_MAS_REASON_APPEND;

	return reason;
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
static void mas_find_body(struct mas_req *req, bool write)
{
	struct mas_file *file = req->file;
	u64 unit = write ? file->write_align : file->read_align;
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

/* -EAGAIN: a proof may change the answer. */
static int mas_split(struct mas_req *req, bool write)
{
	unsigned int reason = mas_whole_reason(req, write);

	req->body_start = req->pos;
	req->body_end = req->pos;
	req->bounce_reason = reason;
	if (reason == MXCD_MAS_REASON_NOT_PROVED && !write && !req->asked)
		return -EAGAIN;
	if (reason)
		return 0;

	req->edge_direct = !write;
	if (!write)
		mas_clamp_to_eof(req);
	mas_find_body(req, write);
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
	bool write = mas_is_write(req);
	int ret;

	req->len = req->want;
	ret = write ? mas_limit_fsize(req) : 0;
	if (ret)
		return ret;

	ret = mas_split(req, write);
	if (ret)
		return ret;

	if (req->flags & MXCD_MAS_REQ_P2P_ONLY && req->body_end - req->body_start < req->len) {
		req->reason = req->bounce_reason;
		return -EXDEV;
	}

	return 0;
}
