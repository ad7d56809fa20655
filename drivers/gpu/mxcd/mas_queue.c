// SPDX-License-Identifier: GPL-2.0
/*
 * The queue of a context.
 *
 * A request is counted in the queue from mas_ctx_admit() until its completion
 * is collected, either by read() from the context's list of completions or in
 * place by the ioctl that submitted it (a batch). Completions arrive in
 * any context, hard interrupts too.
 */
#include <linux/eventfd.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "mas.h"
#include "mas_io.h"

/* Requests that a context keeps for later. */
#define MAS_MAX_SPARE	64

/* Count a request in the queue and put it last of those in flight. */
static bool mas_ctx_try_admit(struct mas_ctx *ctx, struct mas_batch *batch,
			      struct mas_req *req)
{
	bool room;

	spin_lock_irq(&ctx->lock);
	room = ctx->nr_queued < ctx->max_queue;
	if (room) {
		ctx->nr_queued++;
		ctx->nr_inflight++;
		req->batch = batch;
		list_add_tail(&req->node, &ctx->inflight);
	}
	spin_unlock_irq(&ctx->lock);

	return room;
}

/**
 * mas_ctx_admit - let a request into the queue
 * @ctx: the context
 * @batch: the batch that it belongs to, or NULL
 * @req: the request
 * @nowait: do not wait for room
 *
 * Context: may sleep.
 * Return: 0, -EAGAIN, or -ERESTARTSYS when a signal arrived.
 */
int mas_ctx_admit(struct mas_ctx *ctx, struct mas_batch *batch,
		  struct mas_req *req, bool nowait)
{
	if (mas_ctx_try_admit(ctx, batch, req))
		return 0;
	if (nowait)
		return -EAGAIN;

	return wait_event_interruptible(ctx->wait, mas_ctx_try_admit(ctx, batch, req));
}

/**
 * mas_ctx_may_start - is it a request's turn?
 * @ctx: the context
 * @req: a request with MXCD_MAS_REQ_DRAIN, admitted and not started
 *
 * Context: process context.
 * Return: false when older ones are in flight; mas_io_kick() is called for it when
 * they have completed.
 */
bool mas_ctx_may_start(struct mas_ctx *ctx, struct mas_req *req)
{
	bool may;

	spin_lock_irq(&ctx->lock);
	may = req->cancelled || list_is_first(&req->node, &ctx->inflight);
	req->draining = !may;
	spin_unlock_irq(&ctx->lock);

	return may;
}

/* The oldest request in flight, if it waits to be that. */
static struct mas_req *mas_ctx_drained(struct mas_ctx *ctx)
{
	struct mas_req *req;

	req = list_first_entry_or_null(&ctx->inflight, struct mas_req, node);
	if (!req || !req->draining)
		return NULL;

	req->draining = false;
	return req;
}

static void mas_batch_add_done(struct mas_batch *batch, struct mas_req *req)
{
	list_add_tail(&req->node, &batch->done);
	WRITE_ONCE(batch->nr_done, batch->nr_done + 1);
	if (batch->nr_done == batch->wake_at)
		wake_up_process(batch->submitter);
}

static void mas_ctx_add_done(struct mas_ctx *ctx, struct mas_req *req)
{
	list_add_tail(&req->node, &ctx->done);
	wake_up(&ctx->wait);
	if (ctx->eventfd)
		eventfd_signal(ctx->eventfd);
}

/**
 * mas_ctx_complete - a request has its result
 * @ctx: the context; may be gone on return
 * @req: the request; not to be touched afterwards
 *
 * Context: any, hard interrupts too.
 */
void mas_ctx_complete(struct mas_ctx *ctx, struct mas_req *req)
{
	/* Once the lock is dropped, who collects the request may have freed it. */
	bool uring = req->cmd, closed, last;
	struct mas_req *drained;
	unsigned long flags;

	spin_lock_irqsave(&ctx->lock, flags);
	list_del(&req->node);
	last = !--ctx->nr_inflight;
	drained = mas_ctx_drained(ctx);
	closed = ctx->closed;
	if (!closed && req->batch)
		mas_batch_add_done(req->batch, req);
	else if (!closed && !uring)
		mas_ctx_add_done(ctx, req);
	spin_unlock_irqrestore(&ctx->lock, flags);

	if (drained)
		mas_io_kick(drained);
	if (uring) {
		/* The ring holds the descriptor: the context is open. */
		mas_uring_complete(req);
		return;
	}
	if (!closed)
		return;
	mas_io_free(req);
	if (last)
		queue_work(mas_wq, &ctx->free_work);
}

/**
 * mas_cancel - ask a request to end early
 * @req: a request in flight
 *
 * Context: mas_ctx::lock is held.
 */
void mas_cancel(struct mas_req *req)
{
	WRITE_ONCE(req->cancelled, true);
	if (req->draining) {
		req->draining = false;
		mas_io_kick(req);
	}
}

/**
 * mas_ctx_cancel - ask transfers to end early
 * @ctx: the context
 * @user_data: of the transfers that are meant
 *
 * Context: process context.
 * Return: number of transfers that were asked, or -ENOENT.
 */
int mas_ctx_cancel(struct mas_ctx *ctx, u64 user_data)
{
	struct mas_req *req;
	int nr = 0;

	spin_lock_irq(&ctx->lock);
	list_for_each_entry(req, &ctx->inflight, node) {
		if (req->user_data != user_data || !mas_is_transfer(req->op))
			continue;
		mas_cancel(req);
		nr++;
	}
	spin_unlock_irq(&ctx->lock);

	return nr ? nr : -ENOENT;
}

/**
 * mas_ctx_cancel_cmd - ask the request of a ring to end early
 * @ctx: the context
 * @cmd: its command; looked for, not looked at
 *
 * Context: process context.
 * Return: 0.
 */
int mas_ctx_cancel_cmd(struct mas_ctx *ctx, struct io_uring_cmd *cmd)
{
	struct mas_req *req;

	spin_lock_irq(&ctx->lock);
	list_for_each_entry(req, &ctx->inflight, node)
		if (req->cmd == cmd)
			mas_cancel(req);
	spin_unlock_irq(&ctx->lock);

	return 0;
}

/* Free places in the queue; under mas_ctx::lock. */
static void mas_ctx_release_places(struct mas_ctx *ctx, unsigned int nr)
{
	lockdep_assert_held(&ctx->lock);

	if (nr && ctx->nr_queued >= ctx->max_queue)
		wake_up(&ctx->wait);
	ctx->nr_queued -= nr;
}

/* Order the data of p2p reads before what the caller tells the GPU next. */
static void mas_flush(struct list_head *reqs)
{
	struct mas_req *req;
	struct mxcd_gpu *gpu;
	u64 todo = 0;

	list_for_each_entry(req, reqs, node)
		if (req->flush)
			todo |= BIT_ULL(req->gpu_index);

	for (; todo; todo &= todo - 1) {
		gpu = mxcd_gpu_enter(__ffs64(todo));
		if (IS_ERR(gpu))
			continue;
		mxcd_vram_flush(gpu);
		mxcd_gpu_leave(gpu);
	}
}

static int mas_copy_comp(struct mas_req *req, struct mxcd_mas_comp __user *comp)
{
	if (!user_write_access_begin(comp, sizeof(*comp)))
		return -EFAULT;

	unsafe_put_user(req->user_data, &comp->user_data, fault);
	unsafe_put_user(req->result, &comp->result, fault);
	unsafe_put_user(req->p2p_bytes, &comp->p2p_bytes, fault);
	unsafe_put_user(req->route, &comp->route, fault);
	unsafe_put_user(req->reason, &comp->reason, fault);
	unsafe_put_user(0, &comp->__reserved, fault);
	user_write_access_end();
	return 0;

fault:
	user_write_access_end();
	return -EFAULT;
}

/*
 * What could not be delivered goes back: a result is never lost. Those of a batch
 * have not been announced before.
 */
static void mas_ctx_put_back(struct mas_ctx *ctx, struct list_head *reqs, bool announce)
{
	struct mas_req *req;

	if (list_empty(reqs))
		return;

	spin_lock_irq(&ctx->lock);
	list_for_each_entry(req, reqs, node) {
		ctx->nr_queued++;
		if (ctx->eventfd && announce)
			eventfd_signal(ctx->eventfd);
	}
	list_splice(reqs, &ctx->done);
	wake_up(&ctx->wait);
	spin_unlock_irq(&ctx->lock);
}

/*
 * Copy completions to user space and free them, in order or each to the place of
 * its request. They are counted in the queue no more. Returns the number copied.
 */
static unsigned int mas_deliver(struct mas_ctx *ctx, struct list_head *reqs,
				struct mxcd_mas_comp __user *comps, bool by_index)
{
	struct mas_req *req, *next, *spare = NULL;
	unsigned int nr = 0;

	mas_flush(reqs);
	list_for_each_entry_safe(req, next, reqs, node) {
		if (mas_copy_comp(req, comps + (by_index ? req->index : nr)))
			break;
		list_del(&req->node);
		mas_io_end_file(req);
		if (nr++ < MAS_MAX_SPARE) {
			req->next = spare;
			spare = req;
		} else {
			mas_io_free(req);
		}
	}
	if (spare)
		mas_io_keep(ctx, spare);
	mas_ctx_put_back(ctx, reqs, by_index);

	return nr;
}

/**
 * mas_ctx_deliver_one - hand out the result of a request of a ring
 * @req: the request, complete; freed
 * @comp: where to put the result, or NULL
 *
 * Context: may sleep; the submitter's, if @comp is not NULL.
 * Return: 0 or -EFAULT.
 */
int mas_ctx_deliver_one(struct mas_req *req, struct mxcd_mas_comp __user *comp)
{
	struct mas_ctx *ctx = req->ctx;
	LIST_HEAD(reqs);
	int ret = 0;

	list_add(&req->node, &reqs);
	mas_flush(&reqs);
	if (comp)
		ret = mas_copy_comp(req, comp);
	mas_io_end_file(req);
	mas_io_free(req);

	spin_lock_irq(&ctx->lock);
	mas_ctx_release_places(ctx, 1);
	spin_unlock_irq(&ctx->lock);

	return ret;
}

/* Move up to @max completions from the context to @reqs. */
static bool mas_ctx_take_done(struct mas_ctx *ctx, struct list_head *reqs,
			      unsigned int max)
{
	struct list_head *pos = &ctx->done;
	unsigned int nr;

	spin_lock_irq(&ctx->lock);
	for (nr = 0; nr < max && pos->next != &ctx->done; nr++)
		pos = pos->next;
	list_cut_position(reqs, &ctx->done, pos);
	mas_ctx_release_places(ctx, nr);
	spin_unlock_irq(&ctx->lock);

	return nr;
}

/**
 * mas_ctx_read - collect completions
 * @ctx: the context
 * @buf: where to put them
 * @max: room in @buf, at least 1
 * @nonblock: do not wait for the first one
 *
 * Context: may sleep.
 * Return: bytes written to @buf, -EAGAIN, -EFAULT, or -ERESTARTSYS when a signal
 * arrived.
 */
ssize_t mas_ctx_read(struct mas_ctx *ctx, struct mxcd_mas_comp __user *buf,
		     unsigned int max, bool nonblock)
{
	LIST_HEAD(reqs);
	unsigned int nr;
	int ret;

	if (!mas_ctx_take_done(ctx, &reqs, max)) {
		if (nonblock)
			return -EAGAIN;
		ret = wait_event_interruptible(ctx->wait, mas_ctx_take_done(ctx, &reqs, max));
		if (ret)
			return ret;
	}

	nr = mas_deliver(ctx, &reqs, buf, false);
	return nr ? (ssize_t)(nr * sizeof(*buf)) : -EFAULT;
}

/**
 * mas_batch_init - prepare a batch
 * @batch: on the stack of the submitter
 *
 * To be ended by mas_batch_collect().
 */
void mas_batch_init(struct mas_batch *batch)
{
	INIT_LIST_HEAD(&batch->done);
	batch->nr_done = 0;
	batch->wake_at = 0;
	batch->submitter = current;
}

/**
 * mas_batch_wait - wait for requests of a batch
 * @ctx: the context
 * @batch: the batch
 * @min_nr: until so many have completed; no more than were submitted
 * @timeout_ns: no longer than this, rounded up to a timer tick; 0: no limit
 *
 * Context: may sleep; returns early when the caller is killed.
 */
void mas_batch_wait(struct mas_ctx *ctx, struct mas_batch *batch,
		    unsigned int min_nr, u64 timeout_ns)
{
	long timeout = MAX_SCHEDULE_TIMEOUT;

	if (timeout_ns)
		timeout = min_t(u64, nsecs_to_jiffies64(timeout_ns) + 1, MAX_SCHEDULE_TIMEOUT);

	/* Not earlier: while it submits, the submitter may sleep for other reasons. */
	spin_lock_irq(&ctx->lock);
	batch->wake_at = min_nr;
	spin_unlock_irq(&ctx->lock);

	for (;;) {
		set_current_state(TASK_KILLABLE);
		if (READ_ONCE(batch->nr_done) >= min_nr || !timeout ||
		    fatal_signal_pending(current))
			break;
		timeout = schedule_timeout(timeout);
	}
	__set_current_state(TASK_RUNNING);
}

static void mas_batch_detach(struct mas_ctx *ctx, struct mas_batch *batch)
{
	struct mas_req *req;

	lockdep_assert_held(&ctx->lock);

	list_for_each_entry(req, &ctx->inflight, node)
		if (req->batch == batch)
			req->batch = NULL;
}

/**
 * mas_batch_collect - end a batch: hand out its results
 * @ctx: the context
 * @batch: the batch; nobody refers to it afterwards
 * @comps: one entry for each request that was submitted, marked -EINPROGRESS
 * @nr: number of them
 *
 * What has not completed, and what cannot be written, is left to read().
 *
 * Context: may sleep.
 * Return: number of results in @comps.
 */
unsigned int mas_batch_collect(struct mas_ctx *ctx, struct mas_batch *batch,
			       struct mxcd_mas_comp __user *comps, unsigned int nr)
{
	spin_lock_irq(&ctx->lock);
	if (batch->nr_done < nr)
		mas_batch_detach(ctx, batch);
	mas_ctx_release_places(ctx, batch->nr_done);
	spin_unlock_irq(&ctx->lock);

	return mas_deliver(ctx, &batch->done, comps, true);
}

/**
 * mas_ctx_poll - what could be done without waiting
 * @ctx: the context
 *
 * Context: any.
 * Return: EPOLLIN when there is a completion, EPOLLOUT when there is room in the
 * queue.
 */
__poll_t mas_ctx_poll(struct mas_ctx *ctx)
{
	__poll_t events = 0;

	spin_lock_irq(&ctx->lock);
	if (!list_empty(&ctx->done))
		events |= EPOLLIN | EPOLLRDNORM;
	if (ctx->nr_queued < ctx->max_queue)
		events |= EPOLLOUT | EPOLLWRNORM;
	spin_unlock_irq(&ctx->lock);

	return events;
}
