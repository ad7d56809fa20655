// SPDX-License-Identifier: GPL-2.0
/*
 * The proof of writes: a part of a transfer is written p2p and read back into host
 * memory. See mas_proof.c for what comes of it.
 */
#include <linux/bitops.h>
#include <linux/bvec.h>
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init_task.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/uio.h>

#include "mas.h"
#include "mas_fault.h"
#include "mas_io.h"

/* How often: somebody else may write to the same part of the file, a disk may fail. */
#define MAS_READBACK_TRIES	3

/* How often the same bytes are written, half of them p2p, to find who is to blame. */
#define MAS_READBACK_TRIALS	32

/* Who is to blame for a write that failed, or did not arrive. */
enum readback_blame {
	BLAME_NOBODY,	/* it cannot be told */
	BLAME_WAY,
	BLAME_DISK,
};

/**
 * struct mas_readback - a part that is written and read back
 * @req: the transfer, its piece under way is the part
 * @len: bytes
 * @sent: what VRAM held before it was written
 * @got: what was read, or what VRAM holds
 * @vram: pages that nobody has mapped, in a trial
 * @filp: the file, open for reading
 * @cred: the kernel's
 */
struct mas_readback {
	struct mas_req *req;
	size_t len;
	void *sent;
	void *got;
	struct page *vram;
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

	/* Whoever has a lease on it is not waited for. */
	return dentry_open(&filp->f_path, O_RDONLY | O_LARGEFILE | O_NONBLOCK, cred);
}

static bool readback_copy(struct mas_readback *rb, void *to)
{
	struct mas_req *req = rb->req;
	struct iov_iter iter;

	mas_view_iter(req->view, req->mem_offset + req->done, rb->len, ITER_SOURCE,
		      &req->bvec, &iter);
	return copy_from_iter(to, rb->len, &iter) == rb->len;
}

/* What the controller is to fetch from VRAM. */
static void readback_iter(struct mas_readback *rb, struct iov_iter *iter)
{
	struct mas_req *req = rb->req;

	if (mas_fault_write()) {
		memset(rb->got, 0, rb->len);
		bvec_set_virt(&req->bvec, rb->got, rb->len);
		iov_iter_bvec(iter, ITER_SOURCE, &req->bvec, 1, rb->len);
	} else if (rb->vram) {
		bvec_set_page(&req->bvec, rb->vram, rb->len, 0);
		iov_iter_bvec(iter, ITER_SOURCE, &req->bvec, 1, rb->len);
	} else {
		mas_view_iter(req->view, req->mem_offset + req->done, rb->len, ITER_SOURCE,
			      &req->bvec, iter);
	}
}

static ssize_t readback_write(struct mas_readback *rb)
{
	struct mas_req *req = rb->req;
	struct iov_iter iter;

	mas_direct_kiocb(req);
	req->iocb.ki_complete = NULL;
	if (mas_fault_refuse())
		return -EIO;

	readback_iter(rb, &iter);
	return vfs_iocb_iter_write(req->file->file, &req->iocb, &iter);
}

/* The same bytes, as any program would write them with O_DIRECT. */
static ssize_t readback_write_host(struct mas_readback *rb)
{
	struct mas_req *req = rb->req;
	struct iov_iter iter;

	mas_direct_kiocb(req);
	req->iocb.ki_complete = NULL;
	req->iocb.ki_ioprio = req->ioprio;
	bvec_set_virt(&req->bvec, rb->sent, rb->len);
	iov_iter_bvec(&iter, ITER_SOURCE, &req->bvec, 1, rb->len);

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

/* A controller that cannot read VRAM may say so. Or is it the disk? */
static bool readback_refused(struct mas_readback *rb, ssize_t ret)
{
	return (ret == -EIO || ret == -EREMOTEIO || ret == -EINVAL) &&
	       rb->req->iocb.ki_flags & IOCB_DIRECT;
}

/* Set @proof unless nothing could be learnt. Returns what the write returned. */
static ssize_t readback_round(struct mas_readback *rb, enum mas_proof *proof)
{
	ssize_t ret;

	*proof = MAS_PROOF_NONE;
	if (!readback_copy(rb, rb->sent))
		return -EIO;

	ret = readback_write(rb);
	if (readback_refused(rb, ret) && mxcd_gpu_answered(rb->req->gpu, rb->req->faults))
		*proof = MAS_PROOF_FAILED;
	if (ret != rb->len || !(rb->req->iocb.ki_flags & IOCB_DIRECT) || !readback_read(rb))
		return ret;

	if (!memcmp(rb->sent, rb->got, rb->len))
		*proof = MAS_PROOF_PASSED;
	/* Whoever changes VRAM meanwhile, or resets the GPU, has shown nothing. */
	else if (readback_copy(rb, rb->got) && !memcmp(rb->sent, rb->got, rb->len) &&
		 mxcd_gpu_answered(rb->req->gpu, rb->req->faults))
		*proof = MAS_PROOF_FAILED;

	return ret;
}

/* Half of the bits, nobody knows which. */
static u32 readback_order(void)
{
	u32 order;

	do {
		order = get_random_u32();
	} while (hweight32(order) != MAS_READBACK_TRIALS / 2);

	return order;
}

/* Whom a write blames: the way, if it ends as where p2p fails and all else works. */
static enum readback_blame readback_trial(struct mas_readback *rb, bool p2p)
{
	ssize_t ret = p2p ? readback_write(rb) : readback_write_host(rb);

	if (readback_refused(rb, ret))
		return p2p ? BLAME_WAY : BLAME_DISK;
	if (ret != rb->len || !(rb->req->iocb.ki_flags & IOCB_DIRECT) || !readback_read(rb))
		return BLAME_NOBODY;

	return !memcmp(rb->sent, rb->got, rb->len) != p2p ? BLAME_WAY : BLAME_NOBODY;
}

static enum readback_blame readback_trials(struct mas_readback *rb)
{
	enum readback_blame blame = BLAME_WAY;
	u32 order = readback_order();
	int i;

	memcpy(page_address(rb->vram), rb->sent, rb->len);
	mxcd_vram_flush(rb->req->gpu);
	for (i = 0; i < MAS_READBACK_TRIALS && blame == BLAME_WAY; i++)
		blame = readback_trial(rb, order & BIT(i));

	return mxcd_gpu_answered(rb->req->gpu, rb->req->faults) ? blame : BLAME_NOBODY;
}

/*
 * What was read back is not what was written: was it lost on the way, or is somebody
 * writing to the file or to VRAM all the time? Or the write has failed: by the way, or
 * by the disk? One user, or one bad block, must not turn p2p off for all others. The
 * first unit is written again and again, p2p from VRAM that nobody else can reach, and
 * from host memory; only the way knows which is which.
 */
static enum readback_blame readback_judge(struct mas_readback *rb)
{
	enum readback_blame blame = BLAME_NOBODY;
	struct mas_req *req = rb->req;
	struct kiocb ended = req->iocb;
	size_t len = rb->len;

	rb->len = min_t(size_t, len, req->file->write_align);
	rb->vram = mxcd_vram_take_scratch(req->gpu, rb->len);
	if (rb->vram) {
		blame = readback_trials(rb);
		mxcd_vram_put_scratch(req->gpu, rb->vram, rb->len);
		rb->vram = NULL;
	}
	rb->len = len;
	req->iocb = ended;

	return blame;
}

static ssize_t readback_rounds(struct mas_readback *rb, enum mas_proof *proof)
{
	enum readback_blame blame = BLAME_WAY;
	ssize_t ret;
	int i;

	rb->filp = readback_open(rb->req->file->file, rb->cred);
	if (IS_ERR(rb->filp))
		return 0;

	for (i = 0; i < MAS_READBACK_TRIES; i++) {
		ret = readback_round(rb, proof);
		if (*proof != MAS_PROOF_FAILED)
			break;
	}
	if (*proof == MAS_PROOF_FAILED)
		blame = readback_judge(rb);
	if (blame != BLAME_WAY)
		*proof = MAS_PROOF_NONE;
	fput(rb->filp);

	return ret < 0 && blame == BLAME_NOBODY ? -EAGAIN : ret;
}

/* It is what a controller gets that gets nothing: all bits clear, or all set. */
static bool readback_is_void(const struct mas_readback *rb)
{
	const u8 *sent = rb->sent;

	return (sent[0] == 0 || sent[0] == 0xff) && !memcmp(sent, sent + 1, rb->len - 1);
}

static void readback_drop(struct mas_readback *rb)
{
	kfree(rb->got);
	kfree(rb->sent);
}

static bool readback_take(struct mas_readback *rb, size_t len)
{
	rb->len = len;
	rb->sent = kmalloc(len, GFP_KERNEL | __GFP_NOWARN);
	rb->got = kmalloc(len, GFP_KERNEL | __GFP_NOWARN);
	if (rb->sent && rb->got)
		return true;

	readback_drop(rb);
	return false;
}

/* Memory in one large piece may be hard to get: less of the transfer does as well. */
static bool readback_prepare(struct mas_readback *rb)
{
	struct mas_req *req = rb->req;

	if (readback_take(rb, req->piece_len))
		return true;

	req->piece_len = min_t(u64, req->piece_len, req->file->write_align);
	return readback_take(rb, req->piece_len);
}

/**
 * mas_readback - write a piece p2p and read it back
 * @req: a write, its piece under way is at most MAS_READBACK_MAX; may be made smaller
 * @proof: what was found out; %MAS_PROOF_NONE: nothing. With %MAS_PROOF_FAILED and an
 *	   error, the error is what the controller says of VRAM, and the disk is well
 * @telling: it says something of other writes as well
 *
 * Context: may sleep until the disk has done both.
 * Return: bytes written or a negative errno. -EAGAIN: the write failed, and it cannot be
 * told why. 0: nothing was tried, because the file could not be opened for reading.
 */
ssize_t mas_readback(struct mas_req *req, enum mas_proof *proof, bool *telling)
{
	struct mas_readback rb = { .req = req };
	ssize_t ret = -ENOMEM;

	*proof = MAS_PROOF_NONE;
	*telling = false;
	if (!readback_prepare(&rb))
		return ret;

	rb.cred = prepare_kernel_cred(&init_task);
	if (rb.cred)
		ret = readback_rounds(&rb, proof);
	if (*proof == MAS_PROOF_PASSED)
		*telling = !readback_is_void(&rb);
	else
		*telling = *proof == MAS_PROOF_FAILED;
	if (rb.cred)
		put_cred(rb.cred);
	readback_drop(&rb);

	return ret;
}
