// SPDX-License-Identifier: GPL-2.0
/*
 * The queue of a context.
 *
 * A request is counted in the queue from mas_submit_admit() until its completion
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
#include "mas_stats.h"
#include "mas_trace.h"

static void mas_ctx_release_places(struct mas_ctx *ctx, unsigned int nr)
{
	if (nr && atomic_fetch_sub(nr, &ctx->nr_queued) >= READ_ONCE(ctx->max_queue))
		wake_up(&ctx->wait);
}

/**
 * mas_ctx_wait_place - the queue is full: wait for room
 * @ctx: the context
 * @nowait: do not
 *
 * Context: may sleep.
 * Return: 0: there is a place, and it is taken; -EAGAIN, or -ERESTARTSYS when a signal
 * arrived.
 */
int mas_ctx_wait_place(struct mas_ctx *ctx, bool nowait)
{
	mas_stats_queue_full(ctx);
	if (nowait)
		return -EAGAIN;

	return wait_event_interruptible(ctx->wait, mas_ctx_take_place(ctx));
}

/* The oldest comes last, see mas_ctx::inflight. */
static bool mas_is_oldest(const struct mas_req *req)
{
	return !req->node.next;
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
	may = req->cancelled || mas_is_oldest(req);
	req->draining = !may;
	spin_unlock_irq(&ctx->lock);

	return may;
}

/*
 * Take a request out of those in flight. Returns the one that is the oldest now, if
 * it has waited to be that.
 */
static struct mas_req *mas_ctx_take_out(struct mas_ctx *ctx, struct mas_req *req)
{
	struct hlist_node **link = req->node.pprev;
	bool was_oldest = mas_is_oldest(req);
	struct mas_req *oldest;

	ctx->nr_inflight--;
	hlist_del(&req->node);
	if (!was_oldest || link == &ctx->inflight.first)
		return NULL;

	oldest = hlist_entry(link, struct mas_req, node.next);
	if (!oldest->draining)
		return NULL;

	oldest->draining = false;
	return oldest;
}

static void mas_chain_append(struct mas_chain *chain, struct mas_req *req)
{
	req->next = NULL;
	*chain->end = req;
	chain->end = &req->next;
}

static void mas_batch_add_done(struct mas_batch *batch, struct mas_req *req)
{
	struct task_struct *submitter = batch->submitter;
	unsigned int nr = batch->nr_done + 1;
	bool wake = nr == batch->wake_at;

	mas_chain_append(&batch->done, req);
	/* With the last one the batch is the submitter's, without the lock. */
	smp_store_release(&batch->nr_done, nr);
	/* It may exit meanwhile, but a task is freed by RCU, which the lock holds off. */
	if (wake)
		wake_up_process(submitter);
}

static void mas_ctx_add_done(struct mas_ctx *ctx, struct mas_req *req)
{
	mas_chain_append(&ctx->done, req);
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
	mas_stats_end_ctx(ctx, req);
	drained = mas_ctx_take_out(ctx, req);
	last = !ctx->nr_inflight;
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
	hlist_for_each_entry(req, &ctx->inflight, node) {
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
	hlist_for_each_entry(req, &ctx->inflight, node)
		if (req->cmd == cmd)
			mas_cancel(req);
	spin_unlock_irq(&ctx->lock);

	return 0;
}

/* Order the data of p2p reads before what the caller tells the GPU next. */
static void mas_flush(const struct mas_req *req)
{
	u64 todo = 0;

	for (; req; req = req->next)
		if (req->flush)
			todo |= BIT_ULL(req->gpu_index);

	for (; todo; todo &= todo - 1)
		mxcd_gpu_flush(__ffs64(todo));
}

static inline int mas_copy_comp(struct mas_req *req, struct mxcd_mas_comp __user *comp)
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
static void mas_ctx_put_back(struct mas_ctx *ctx, struct mas_req *reqs, bool announce)
{
	struct mas_req *last = reqs;
	unsigned int nr = 1;

	for (; last->next; last = last->next)
		nr++;

	spin_lock_irq(&ctx->lock);
	last->next = ctx->done.first;
	if (!last->next)
		ctx->done.end = &last->next;
	ctx->done.first = reqs;
	for (; ctx->eventfd && announce && nr; nr--)
		eventfd_signal(ctx->eventfd);
	wake_up(&ctx->wait);
	spin_unlock_irq(&ctx->lock);
}

/*
 * Copy completions to user space, in order or each to the place of its request, and
 * be done with their requests, a chain. Returns the number copied.
 */
static unsigned int mas_deliver(struct mas_ctx *ctx, struct mas_req *reqs,
				struct mxcd_mas_comp __user *comps, bool by_index)
{
	struct mas_req **pos, *req, *rest;
	unsigned int nr = 0;

	mas_flush(reqs);
	for (pos = &reqs; (req = *pos); pos = &req->next, nr++) {
		if (mas_copy_comp(req, comps + (by_index ? req->index : nr)))
			break;
		trace_mas_collect(req);
		mas_io_end_file(req);
	}
	rest = *pos;
	*pos = NULL;
	if (nr)
		mas_io_keep(ctx, reqs);
	if (rest)
		mas_ctx_put_back(ctx, rest, by_index);
	mas_ctx_release_places(ctx, nr);

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
	int ret = 0;

	req->next = NULL;
	mas_flush(req);
	if (comp)
		ret = mas_copy_comp(req, comp);
	trace_mas_collect(req);
	mas_io_end_file(req);
	mas_io_free(req);
	mas_ctx_release_places(ctx, 1);

	return ret;
}

/* Take up to @max completions, a chain, from the context. */
static struct mas_req *mas_ctx_take_done(struct mas_ctx *ctx, unsigned int max)
{
	struct mas_req *reqs, *last;

	spin_lock_irq(&ctx->lock);
	reqs = ctx->done.first;
	for (last = reqs; last && --max && last->next; )
		last = last->next;
	if (last) {
		ctx->done.first = last->next;
		if (!last->next)
			ctx->done.end = &ctx->done.first;
		last->next = NULL;
	}
	spin_unlock_irq(&ctx->lock);

	return reqs;
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
	struct mas_req *reqs = mas_ctx_take_done(ctx, max);
	unsigned int nr;
	int ret;

	if (!reqs) {
		if (nonblock)
			return -EAGAIN;
		ret = wait_event_interruptible(ctx->wait, (reqs = mas_ctx_take_done(ctx, max)));
		if (ret)
			return ret;
	}

	nr = mas_deliver(ctx, reqs, buf, false);
	return nr ? (ssize_t)(nr * sizeof(*buf)) : -EFAULT;
}

/* Wait for as many of @nr requests as the batch is to wait for. */
static void mas_batch_wait(struct mas_ctx *ctx, struct mas_batch *batch, unsigned int nr,
			   u64 timeout_ns)
{
	unsigned int min_nr = batch->wake_at;
	long timeout = 0;

	if (timeout_ns)
		timeout = min_t(u64, nsecs_to_jiffies64(timeout_ns) + 1, MAX_SCHEDULE_TIMEOUT);

	if (min_nr > nr) {
		min_nr = nr;
		spin_lock_irq(&ctx->lock);
		batch->wake_at = nr;
		spin_unlock_irq(&ctx->lock);
	}

	for (;;) {
		set_current_state(TASK_KILLABLE | TASK_FREEZABLE);
		if (READ_ONCE(batch->nr_done) >= min_nr || fatal_signal_pending(current) ||
		    (timeout_ns && !timeout))
			break;
		if (timeout_ns)
			timeout = schedule_timeout(timeout);
		else
			schedule();
	}
	__set_current_state(TASK_RUNNING);
}

static void mas_batch_detach(struct mas_ctx *ctx, struct mas_batch *batch)
{
	struct mas_req *req;

	spin_lock_irq(&ctx->lock);
	hlist_for_each_entry(req, &ctx->inflight, node)
		if (req->batch == batch)
			req->batch = NULL;
	spin_unlock_irq(&ctx->lock);
}

/**
 * mas_batch_end - end a batch: wait for its requests and hand out their results
 * @ctx: the context
 * @batch: the batch; nobody refers to it afterwards
 * @comps: one entry for each request that was submitted, marked -EINPROGRESS
 * @nr: number of them; no more are waited for
 * @timeout_ns: wait no longer than this, rounded up to a timer tick; 0: no limit
 *
 * What has not completed, and what cannot be written, is left to read().
 *
 * Context: may sleep; waits no longer when the caller is killed.
 * Return: number of results in @comps.
 */
unsigned int mas_batch_end(struct mas_ctx *ctx, struct mas_batch *batch,
			   struct mxcd_mas_comp __user *comps, unsigned int nr, u64 timeout_ns)
{
	mas_batch_wait(ctx, batch, nr, timeout_ns);
	if (smp_load_acquire(&batch->nr_done) < nr) /* with it, the chain */
		mas_batch_detach(ctx, batch);

	return mas_deliver(ctx, batch->done.first, comps, true);
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
	if (ctx->done.first)
		events |= EPOLLIN | EPOLLRDNORM;
	spin_unlock_irq(&ctx->lock);
	if (atomic_read(&ctx->nr_queued) < READ_ONCE(ctx->max_queue))
		events |= EPOLLOUT | EPOLLWRNORM;

	return events;
}
