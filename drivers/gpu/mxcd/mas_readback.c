// SPDX-License-Identifier: GPL-2.0
/*
 * The proof of writes: a part of a transfer is written p2p and read back into host
 * memory. See mas_proof.c for what comes of it.
 */
#include <linux/bvec.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init_task.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "mas.h"
#include "mas_fault.h"
#include "mas_io.h"

/* How often: somebody else may write to the same part of the file. */
#define MAS_READBACK_TRIES	3

/**
 * struct mas_readback - a part that is written and read back
 * @req: the transfer, its piece under way is the part
 * @len: bytes
 * @sent: what VRAM held before it was written
 * @got: what was read, or what VRAM holds
 * @filp: the file, open for reading
 * @cred: the kernel's
 */
struct mas_readback {
	struct mas_req *req;
	size_t len;
	void *sent;
	void *got;
	struct file *filp;
	const struct cred *cred;
};

/*
 * The file may be open for writing alone. What is read is compared and thrown away,
 * so this asks nobody for permission.
 */
static struct file *readback_open(struct file *filp, const struct cred *cred)
{
	if (filp->f_mode & FMODE_READ)
		return get_file(filp);

	return dentry_open(&filp->f_path, O_RDONLY | O_LARGEFILE, cred);
}

static bool readback_copy(struct mas_readback *rb, void *to)
{
	struct mas_req *req = rb->req;
	struct iov_iter iter;

	mas_view_iter(req->view, req->mem_offset + req->done, rb->len, ITER_SOURCE,
		      &req->bvec, &iter);
	return copy_from_iter(to, rb->len, &iter) == rb->len;
}

static ssize_t readback_write(struct mas_readback *rb)
{
	struct mas_req *req = rb->req;
	struct bio_vec bvec;
	struct iov_iter iter;

	mas_direct_kiocb(req);
	req->iocb.ki_complete = NULL;
	if (mas_fault_write()) {
		memset(rb->got, 0, rb->len);
		bvec_set_virt(&bvec, rb->got, rb->len);
		iov_iter_bvec(&iter, ITER_SOURCE, &bvec, 1, rb->len);
	} else {
		mas_view_iter(req->view, req->mem_offset + req->done, rb->len, ITER_SOURCE,
			      &req->bvec, &iter);
	}

	return vfs_iocb_iter_write(req->file->file, &req->iocb, &iter);
}

static bool readback_read(struct mas_readback *rb)
{
	const struct cred *old = override_creds(rb->cred);
	struct mas_req *req = rb->req;
	struct bio_vec bvec;
	struct iov_iter iter;
	struct kiocb iocb;
	ssize_t ret;

	init_sync_kiocb(&iocb, rb->filp);
	iocb.ki_pos = req->pos + req->done;
	iocb.ki_ioprio = req->ioprio;
	iocb.ki_flags &= ~IOCB_NOWAIT;
	iocb.ki_flags |= IOCB_DIRECT;
	bvec_set_virt(&bvec, rb->got, rb->len);
	iov_iter_bvec(&iter, ITER_DEST, &bvec, 1, rb->len);

	ret = vfs_iocb_iter_read(rb->filp, &iocb, &iter);
	revert_creds(old);

	return ret == rb->len;
}

/* Set @proof unless nothing could be learnt. Returns what the write returned. */
static ssize_t readback_round(struct mas_readback *rb, enum mas_proof *proof)
{
	ssize_t ret;

	*proof = MAS_PROOF_NONE;
	if (!readback_copy(rb, rb->sent))
		return -EIO;

	ret = readback_write(rb);
	if (ret != rb->len || !(rb->req->iocb.ki_flags & IOCB_DIRECT) || !readback_read(rb))
		return ret;

	if (!memcmp(rb->sent, rb->got, rb->len))
		*proof = MAS_PROOF_PASSED;
	/* Whoever changes VRAM meanwhile, or resets the GPU, has shown nothing. */
	else if (readback_copy(rb, rb->got) && !memcmp(rb->sent, rb->got, rb->len) &&
		 !mxcd_gpu_gone(rb->req->gpu, rb->req->faults))
		*proof = MAS_PROOF_FAILED;

	return ret;
}

static ssize_t readback_rounds(struct mas_readback *rb, enum mas_proof *proof)
{
	ssize_t ret;
	int i;

	rb->filp = readback_open(rb->req->file->file, rb->cred);
	if (IS_ERR(rb->filp))
		return PTR_ERR(rb->filp);

	for (i = 0; i < MAS_READBACK_TRIES; i++) {
		ret = readback_round(rb, proof);
		if (*proof != MAS_PROOF_FAILED)
			break;
	}
	fput(rb->filp);

	return ret;
}

/**
 * mas_readback - write a piece p2p and read it back
 * @req: a write, its piece under way is at most MAS_READBACK_MAX
 * @proof: what was found out; %MAS_PROOF_NONE: nothing
 *
 * Context: may sleep until the disk has done both.
 * Return: bytes written or a negative errno.
 */
ssize_t mas_readback(struct mas_req *req, enum mas_proof *proof)
{
	struct mas_readback rb = { .req = req, .len = req->piece_len };
	ssize_t ret = -ENOMEM;

	*proof = MAS_PROOF_NONE;
	rb.sent = kmalloc(rb.len, GFP_KERNEL);
	rb.got = kmalloc(rb.len, GFP_KERNEL);
	rb.cred = prepare_kernel_cred(&init_task);
	if (rb.sent && rb.got && rb.cred)
		ret = readback_rounds(&rb, proof);
	if (rb.cred)
		put_cred(rb.cred);
	kfree(rb.got);
	kfree(rb.sent);

	return ret;
}
