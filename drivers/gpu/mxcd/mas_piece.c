// SPDX-License-Identifier: GPL-2.0
/*
 * The pieces of a transfer: which comes next, and the ways to move one.
 *
 * All are calls of the VFS on the registered file; where VRAM may be named to it,
 * that is done by the handle's own extents.
 */
#include <linux/blkdev.h>
#include <linux/bvec.h>
#include <linux/fs.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "mas.h"
#include "mas_io.h"

static enum mas_piece mas_bounce_piece(struct mas_req *req)
{
	if (req->edge_direct)
		return MAS_PIECE_EDGE;

	return req->file->page_cache ? MAS_PIECE_CACHED : MAS_PIECE_STAGED;
}

/* An append through the page cache is one piece: nobody else's comes between. */
static u64 mas_piece_max(struct mas_req *req)
{
	switch (req->piece) {
	case MAS_PIECE_STAGED:
		return MAS_STAGE_MAX;
	case MAS_PIECE_PROOF:
		return MAS_READBACK_MAX;
	case MAS_PIECE_CACHED:
		return req->bounce_reason == MXCD_MAS_REASON_APPEND ? MAS_PIECE_MAX :
								      MAS_CACHED_MAX;
	default:
		return MAS_PIECE_MAX;
	}
}

/**
 * mas_piece_next - choose the next piece of a transfer
 * @req: the transfer, no piece under way
 *
 * Context: any.
 * Return: false when all is moved.
 */
bool mas_piece_next(struct mas_req *req)
{
	u64 pos = req->pos + req->done;
	u64 end = req->pos + req->len;
	u64 unit = req->file->read_align;

	if (pos >= end)
		return false;

	if (pos >= req->body_start && pos < req->body_end) {
		req->piece = req->prove ? MAS_PIECE_PROOF : MAS_PIECE_DIRECT;
		end = req->body_end;
	} else {
		req->piece = mas_bounce_piece(req);
		if (pos < req->body_start)
			end = req->body_start;
		if (req->piece == MAS_PIECE_EDGE)
			end = min(end, round_down(pos, unit) + unit);
	}
	req->piece_len = min_t(u64, end - pos, mas_piece_max(req));

	return true;
}

static ssize_t mas_vfs_iter(struct mas_req *req, struct kiocb *iocb, struct iov_iter *iter)
{
	struct file *filp = iocb->ki_filp;

	if (mas_is_write(req))
		return vfs_iocb_iter_write(filp, iocb, iter);

	return vfs_iocb_iter_read(filp, iocb, iter);
}

static void mas_piece_iter(struct mas_req *req, u64 len, struct iov_iter *iter)
{
	mas_view_iter(req->view, req->mem_offset + req->done, len,
		      mas_is_write(req) ? ITER_SOURCE : ITER_DEST, &req->bvec, iter);
}

/*
 * Some kernels leave the end of each write to a file that does not wait for it to a
 * work item of the file system, which takes more than all the rest. Who waits
 * anyway does it himself, as in pwrite(2).
 */
static bool mas_waits_in_vfs(const struct mas_req *req, unsigned int how)
{
	return how & MAS_IO_WAITS && mas_is_write(req) &&
	       S_ISREG(file_inode(req->file->file)->i_mode);
}

/* The block layer is told how many commands come, and gives them to the disk together. */
static noinline_for_stack ssize_t mas_vfs_plugged(struct mas_req *req, struct kiocb *iocb,
						  struct iov_iter *iter)
{
	struct blk_plug plug;
	ssize_t ret;

	blk_start_plug(&plug);
	plug.nr_ios = min_t(u64, DIV_ROUND_UP_ULL(req->piece_len, req->file->max_command),
			    MAS_PLUG_IOS);
	ret = mas_vfs_iter(req, iocb, iter);
	blk_finish_plug(&plug);

	return ret;
}

/* p2p: the disk moves the data. May return -EIOCBQUEUED. */
static ssize_t mas_move_direct(struct mas_req *req, unsigned int how)
{
	struct kiocb *iocb = &req->iocb;
	struct iov_iter iter __uninitialized;
	ssize_t ret;

	mas_direct_kiocb(req);
	if (mas_waits_in_vfs(req, how))
		iocb->ki_complete = NULL;
	if (how & MAS_IO_NONBLOCK) {
		iocb->ki_flags |= IOCB_NOWAIT;
		if (req->polled && iocb->ki_filp->f_op->iopoll)
			iocb->ki_flags |= IOCB_HIPRI;
	}

	mas_piece_iter(req, req->piece_len, &iter);
	/* Who falls asleep with a plug has a worker do it: file systems that wait plug. */
	if (req->piece_len > req->file->max_command && iocb->ki_complete)
		ret = mas_vfs_plugged(req, iocb, &iter);
	else
		ret = mas_vfs_iter(req, iocb, &iter);
	wmb(); /* the CPU may have filled holes; drain the write-combining buffers */

	return ret;
}

static void mas_sync_kiocb(struct mas_req *req, struct kiocb *iocb)
{
	init_sync_kiocb(iocb, req->file->file);
	iocb->ki_pos = req->pos + req->done;
	iocb->ki_flags &= ~(IOCB_DIRECT | IOCB_NOWAIT);
	iocb->ki_ioprio = req->ioprio;
	if (mas_is_write(req))
		iocb->ki_flags |= IOCB_WRITE;
}

/* Through the page cache; the CPU copies. @flags: IOCB_* beside the usual. */
static noinline_for_stack ssize_t mas_move_cached(struct mas_req *req, int flags)
{
	struct iov_iter iter;
	struct kiocb iocb;
	ssize_t ret;

	mas_sync_kiocb(req, &iocb);
	iocb.ki_flags |= flags;
	mas_piece_iter(req, req->piece_len, &iter);
	ret = mas_vfs_iter(req, &iocb, &iter);
	if (!mas_is_write(req))
		wmb(); /* drain the write-combining buffers into VRAM */

	return ret;
}

/* @ret: of what was written p2p, and is not right, or may not be. */
static ssize_t mas_write_again(struct mas_req *req, enum mas_proof proof, ssize_t ret)
{
	req->bounce_reason = MXCD_MAS_REASON_NOT_PROVED;
	if (proof == MAS_PROOF_FAILED) {
		req->bounce_reason = MXCD_MAS_REASON_PROOF_FAILED;
		req->body_end = req->body_start;
	}
	if (req->flags & MXCD_MAS_REQ_P2P_ONLY) {
		if (ret <= 0) {
			if (!req->done)
				req->reason = req->bounce_reason;
			return -EXDEV;
		}
		/* What was lost is mended, and that is all. */
		req->len = req->done + req->piece_len;
	}
	req->piece = MAS_PIECE_CACHED;

	/* The disk itself may be what failed: then it has to say so now. */
	return mas_move_cached(req, ret < 0 || proof == MAS_PROOF_FAILED ? IOCB_DSYNC : 0);
}

static void mas_report_proof(struct mas_req *req, enum mas_proof proof)
{
	struct pci_dev *storage = mas_route_only(req->file);

	/* Other paths may have come meanwhile: what is right was right by luck then. */
	if (storage && proof != MAS_PROOF_NONE) {
		mas_proof_written(req->gpu, storage, proof == MAS_PROOF_PASSED);
		req->prove = false;
	}
	pci_dev_put(storage);
}

/* The first part of a write on a way that is not proved. */
static noinline_for_stack ssize_t mas_move_proof(struct mas_req *req)
{
	enum mas_proof proof;
	bool telling;
	ssize_t ret = mas_readback(req, &proof, &telling);

	if (telling)
		mas_report_proof(req, proof);
	if (ret < 0 && ret != -EAGAIN && proof != MAS_PROOF_FAILED)
		return ret;
	if (ret > 0 && (proof == MAS_PROOF_PASSED || !(req->iocb.ki_flags & IOCB_DIRECT))) {
		req->piece = MAS_PIECE_DIRECT;
		return ret;
	}

	return mas_write_again(req, proof, ret);
}

static ssize_t mas_stage_read(struct mas_req *req, struct kiocb *iocb, struct kvec *buf)
{
	struct iov_iter file, vram;
	ssize_t ret;

	iov_iter_kvec(&file, ITER_DEST, buf, 1, buf->iov_len);
	mas_io_leave(req);
	ret = mas_vfs_iter(req, iocb, &file);
	if (!mas_io_enter(req))
		return -ENODEV;
	if (ret <= 0)
		return ret;

	mas_piece_iter(req, ret, &vram);
	if (copy_to_iter(buf->iov_base, ret, &vram) != (size_t)ret)
		return -EIO;
	wmb(); /* drain the write-combining buffers into VRAM */
	return ret;
}

static ssize_t mas_stage_write(struct mas_req *req, struct kiocb *iocb, struct kvec *buf)
{
	struct iov_iter file, vram;
	ssize_t ret;

	mas_piece_iter(req, buf->iov_len, &vram);
	if (copy_from_iter(buf->iov_base, buf->iov_len, &vram) != buf->iov_len)
		return -EIO;

	iov_iter_kvec(&file, ITER_SOURCE, buf, 1, buf->iov_len);
	mas_io_leave(req);
	ret = mas_vfs_iter(req, iocb, &file);

	return mas_io_enter(req) ? ret : -ENODEV;
}

/*
 * Through a buffer of our own. The file system may take for ever (a network, a
 * program in user space): it does not keep the GPU.
 */
static noinline_for_stack ssize_t mas_move_staged(struct mas_req *req)
{
	struct kvec buf = { .iov_len = req->piece_len };
	struct kiocb iocb;
	ssize_t ret;

	buf.iov_base = kvmalloc(req->piece_len, GFP_KERNEL);
	if (!buf.iov_base)
		return -ENOMEM;

	mas_sync_kiocb(req, &iocb);
	if (mas_is_write(req))
		ret = mas_stage_write(req, &iocb, &buf);
	else
		ret = mas_stage_read(req, &iocb, &buf);
	kvfree(buf.iov_base);

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
	iocb.ki_ioprio = req->ioprio;
	iocb.ki_flags &= ~IOCB_NOWAIT;
	iocb.ki_flags |= IOCB_DIRECT;
	bvec_set_virt(&bvec, buf, req->file->read_align);
	iov_iter_bvec(&iter, ITER_DEST, &bvec, 1, req->file->read_align);

	return vfs_iocb_iter_read(filp, &iocb, &iter);
}

/* The edge of a read: one block into host memory, the part asked for to VRAM. */
static noinline_for_stack ssize_t mas_move_edge(struct mas_req *req)
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

/**
 * mas_piece_issue - move the piece that mas_piece_next() chose
 * @req: the transfer
 * @how: MAS_IO_* flags; a direct piece heeds MAS_IO_NONBLOCK and MAS_IO_WAITS
 *
 * Context: process context; may sleep, for other than a direct piece until the
 * data is moved.
 * Return: bytes moved, a negative errno, or -EIOCBQUEUED: mas_io_complete() has
 * the result and @req is not to be touched.
 */
ssize_t mas_piece_issue(struct mas_req *req, unsigned int how)
{
	switch (req->piece) {
	case MAS_PIECE_DIRECT:
		return mas_move_direct(req, how);
	case MAS_PIECE_PROOF:
		return mas_move_proof(req);
	case MAS_PIECE_EDGE:
		return mas_move_edge(req);
	case MAS_PIECE_STAGED:
		return mas_move_staged(req);
	default:
		return mas_move_cached(req, 0);
	}
}
