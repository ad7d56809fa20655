// SPDX-License-Identifier: GPL-2.0
/*
 * The one way in, for ioctl, write() and io_uring: requests are taken one by one
 * and in order, control operations are carried out on the spot, I/O operations are
 * put into chains as their links say, and each chain is started when it is whole.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "mas.h"
#include "mas_io.h"
#include "mas_trace.h"
#include "mas_user.h"

/* Tags that the block layer may take at once; it submits as many at a time. */
#define MAS_PLUG_IOS	32U

static s64 mas_io_alloc(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	struct mxcd_mas_alloc alloc = {
		.gpu	= args->arg,
		.handle	= args->handle,
		.length	= args->length,
	};
	struct mas_mem *mem = mas_mem_alloc(ctx, &alloc);

	if (IS_ERR(mem))
		return PTR_ERR(mem);

	mas_mem_commit(ctx, alloc.handle, mem);
	return alloc.handle;
}

static s64 mas_io_register(struct mas_ctx *ctx, const struct mxcd_mas_req *args, bool wait)
{
	u32 id = args->file;
	struct mas_file *file = mas_file_register(ctx, args->arg, &id, wait);

	if (IS_ERR(file))
		return PTR_ERR(file);

	mas_file_commit(ctx, id, file);
	return id;
}

/* @wait: may wait for disks */
static s64 mas_io_control(struct mas_req *req, const struct mxcd_mas_req *args, bool wait)
{
	switch (args->op) {
	case MXCD_MAS_OP_QUERY:
		return mas_query_key(req->ctx, args, &req->reason, wait);
	case MXCD_MAS_OP_ALLOC:
		return mas_io_alloc(req->ctx, args);
	case MXCD_MAS_OP_FREE:
		return mas_mem_free(req->ctx, args->handle);
	case MXCD_MAS_OP_REGISTER:
		return mas_io_register(req->ctx, args, wait);
	case MXCD_MAS_OP_UNREGISTER:
		return mas_file_unregister(req->ctx, args->file);
	case MXCD_MAS_OP_CANCEL:
		return mas_ctx_cancel(req->ctx, args->mem_offset);
	default:
		return -EOPNOTSUPP;
	}
}

static u16 mas_caller_ioprio(void)
{
	int prio = get_current_ioprio();

	/* Class NONE would be replaced on the way down, hint and all. */
	if (IOPRIO_PRIO_CLASS(prio) == IOPRIO_CLASS_NONE)
		prio = IOPRIO_PRIO_VALUE(task_nice_ioclass(current), task_nice_ioprio(current));

	return prio;
}

/**
 * mas_submit_begin - begin with the requests of one call
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
		.ioprio	= mas_caller_ioprio(),
		.spare	= xchg(&ctx->spare, NULL),
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

static s64 mas_submit_control(struct mas_submit *submit, struct mas_req *req,
			      const struct mxcd_mas_req *args)
{
	mas_submit_forget(submit);
	return mas_io_control(req, args, !(submit->how & MAS_IO_NONBLOCK));
}

static int mas_submit_resolve(struct mas_submit *submit, struct mas_req *req,
			      const struct mxcd_mas_req *args)
{
	int ret = mas_req_resolve(submit, req, args);

	if (!ret && (submit->head || args->flags & (MXCD_MAS_REQ_LINK | MXCD_MAS_REQ_DRAIN)))
		ret = mas_io_prepare_work(req);

	return ret;
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
	bool io = mas_is_io(args->op);
	struct mas_req *req;
	s64 ret;

	req = mas_io_create(submit, args);
	if (!req)
		return -ENOMEM;

	if (submit->cmd)
		mas_uring_bind(req, submit->how);
	ret = mas_ctx_admit(submit->ctx, req, submit->how & MAS_IO_QUEUE_NOWAIT);
	if (ret) {
		mas_io_free(req);
		return ret;
	}
	trace_mas_submit(req, args);
	submit->nr++;
	submit->how |= MAS_IO_QUEUE_NOWAIT;

	ret = mas_req_check(args, submit->how);
	if (!ret && READ_ONCE(submit->ctx->restricted))
		ret = mas_may_submit(submit->ctx, args);
	if (!ret && submit->broken)
		ret = -ECANCELED;
	if (!ret)
		ret = io ? mas_submit_resolve(submit, req, args) :
			   mas_submit_control(submit, req, args);

	if (ret || !io) {
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
 * @cut: not all requests were taken; a chain that lacks its end is cancelled
 *
 * Context: as mas_submit_one().
 */
void mas_submit_end(struct mas_submit *submit, bool cut)
{
	if (cut && submit->head)
		WRITE_ONCE(submit->head->cancelled, true);
	mas_submit_start(submit);
	mas_submit_forget(submit);
	if (submit->spare)
		mas_io_keep(submit->ctx, submit->spare);
}

/* Take the next request of an array. */
static int mas_submit_next(struct mas_submit *submit, const struct mxcd_mas_req __user *reqs,
			   struct mxcd_mas_comp __user *comps)
{
	struct mxcd_mas_req req;

	if (fatal_signal_pending(current))
		return -EINTR;
	if (mas_get_words(&req, reqs + submit->nr, sizeof(req)))
		return -EFAULT;
	/* Shows as well that the result can be written there. */
	if (comps && put_user((s64)-EINPROGRESS, &comps[submit->nr].result))
		return -EFAULT;

	return mas_submit_one(submit, &req);
}

static int mas_submit_all(struct mas_submit *submit, const struct mxcd_mas_req __user *reqs,
			  struct mxcd_mas_comp __user *comps, unsigned int nr)
{
	int ret = 0;

	while (submit->nr < nr && !ret) {
		submit->last = submit->nr + 1 == nr;
		ret = mas_submit_next(submit, reqs, comps);
		if (!submit->last)
			cond_resched();
	}

	return ret;
}

/* The block layer is told how many come, and gets them in bundles. */
static int mas_submit_plugged(struct mas_submit *submit, const struct mxcd_mas_req __user *reqs,
			      struct mxcd_mas_comp __user *comps, unsigned int nr)
{
	struct blk_plug plug;
	int ret;

	blk_start_plug(&plug);
	plug.nr_ios = min(nr, MAS_PLUG_IOS);
	ret = mas_submit_all(submit, reqs, comps, nr);
	mas_submit_end(submit, ret);
	blk_finish_plug(&plug);

	return ret;
}

/**
 * mas_submit_user - submit an array of requests
 * @ctx: the context
 * @reqs: the array
 * @comps: where results will be put, or NULL
 * @nr: number of requests
 * @batch: batch of which the results become part, or NULL
 * @how: MAS_IO_* flags
 *
 * Context: as mas_submit_one().
 * Return: number of requests taken, or a negative errno when not even the first
 * was.
 */
long mas_submit_user(struct mas_ctx *ctx, const struct mxcd_mas_req __user *reqs,
		     struct mxcd_mas_comp __user *comps, unsigned int nr,
		     struct mas_batch *batch, unsigned int how)
{
	struct mas_submit submit;
	int ret;

	mas_submit_begin(&submit, ctx, batch, how);
	if (nr > 1) {
		ret = mas_submit_plugged(&submit, reqs, comps, nr);
	} else {
		ret = mas_submit_all(&submit, reqs, comps, nr);
		mas_submit_end(&submit, ret);
	}

	return submit.nr ? (long)submit.nr : ret;
}
