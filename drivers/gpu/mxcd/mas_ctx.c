// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts and their queues.
 *
 * A request is counted in the queue from mas_ctx_reserve() until its completion
 * is collected, either by read() from the context's list of completions or in
 * place by the ioctl that submitted it (a batch). Completions arrive in
 * any context, hard interrupts too.
 *
 * Closing the descriptor waits for nothing. What is in flight holds all it needs;
 * the last request to complete frees the context.
 */
#include <linux/file.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "mas.h"
#include "mas_io.h"

static void mas_ctx_free(struct work_struct *work)
{
	struct mas_ctx *ctx = container_of(work, struct mas_ctx, free_work);

	kfree(ctx);
}

/**
 * mas_ctx_create - a context for a descriptor that is being opened
 * @gpus: bit n: it may use GPU n
 *
 * Context: may sleep.
 * Return: the context, ended by mas_ctx_close(), or NULL without memory.
 */
struct mas_ctx *mas_ctx_create(u64 gpus)
{
	struct mas_ctx *ctx;

	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	if (!ctx)
		return NULL;

	ctx->gpus = gpus;
	xa_init_flags(&ctx->mems, XA_FLAGS_ALLOC1);
	xa_init_flags(&ctx->files, XA_FLAGS_ALLOC1);
	spin_lock_init(&ctx->lock);
	INIT_LIST_HEAD(&ctx->inflight);
	INIT_LIST_HEAD(&ctx->done);
	init_waitqueue_head(&ctx->wait);
	INIT_WORK(&ctx->free_work, mas_ctx_free);

	return ctx;
}

static void mas_ctx_drop_objects(struct mas_ctx *ctx)
{
	struct mas_file *file;
	struct mas_mem *mem;
	unsigned long id;

	xa_for_each(&ctx->mems, id, mem)
		mas_mem_put_sync(mem);
	xa_destroy(&ctx->mems);

	xa_for_each(&ctx->files, id, file)
		mas_file_put_sync(file);
	xa_destroy(&ctx->files);
}

/**
 * mas_ctx_close - the last descriptor of a context is gone
 * @ctx: the context; not to be touched afterwards
 *
 * Does not wait for requests in flight.
 *
 * Context: may sleep.
 */
void mas_ctx_close(struct mas_ctx *ctx)
{
	struct mas_req *req, *next;
	LIST_HEAD(done);
	bool last;

	mas_ctx_drop_objects(ctx);

	spin_lock_irq(&ctx->lock);
	list_splice_init(&ctx->done, &done);
	last = !ctx->nr_inflight;
	ctx->closed = true;
	spin_unlock_irq(&ctx->lock);

	list_for_each_entry_safe(req, next, &done, node)
		mas_io_free(req);
	if (last)
		kfree(ctx);
}

static bool mas_ctx_try_reserve(struct mas_ctx *ctx)
{
	bool room;

	spin_lock_irq(&ctx->lock);
	room = ctx->nr_queued < MAS_MAX_QUEUE;
	if (room)
		ctx->nr_queued++;
	spin_unlock_irq(&ctx->lock);

	return room;
}

/**
 * mas_ctx_reserve - take a place in the queue
 * @ctx: the context
 * @nowait: do not wait for one
 *
 * Context: may sleep.
 * Return: 0, -EAGAIN, or -ERESTARTSYS when a signal arrived.
 */
int mas_ctx_reserve(struct mas_ctx *ctx, bool nowait)
{
	if (mas_ctx_try_reserve(ctx))
		return 0;
	if (nowait)
		return -EAGAIN;

	return wait_event_interruptible(ctx->wait, mas_ctx_try_reserve(ctx));
}

static void mas_ctx_release_places(struct mas_ctx *ctx, unsigned int nr)
{
	unsigned long flags;

	spin_lock_irqsave(&ctx->lock, flags);
	if (nr && ctx->nr_queued == MAS_MAX_QUEUE)
		wake_up(&ctx->wait);
	ctx->nr_queued -= nr;
	spin_unlock_irqrestore(&ctx->lock, flags);
}

/**
 * mas_ctx_unreserve - give an unused place in the queue back
 * @ctx: the context
 *
 * Context: any.
 */
void mas_ctx_unreserve(struct mas_ctx *ctx)
{
	mas_ctx_release_places(ctx, 1);
}

/**
 * mas_ctx_start - a request is about to be carried out
 * @ctx: the context, a place in the queue is reserved
 * @batch: the batch that it belongs to, or NULL
 * @req: the request
 *
 * Context: process context.
 */
void mas_ctx_start(struct mas_ctx *ctx, struct mas_batch *batch,
		   struct mas_req *req)
{
	spin_lock_irq(&ctx->lock);
	req->batch = batch;
	list_add_tail(&req->node, batch ? &batch->pending : &ctx->inflight);
	ctx->nr_inflight++;
	spin_unlock_irq(&ctx->lock);
}

static void mas_batch_add_done(struct mas_batch *batch, struct mas_req *req)
{
	list_move_tail(&req->node, &batch->done);
	if (++batch->nr_done == batch->wake_at)
		wake_up(&batch->wait);
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
	unsigned long flags;
	bool closed, last;

	spin_lock_irqsave(&ctx->lock, flags);
	last = !--ctx->nr_inflight;
	closed = ctx->closed;
	if (closed) {
		list_del(&req->node);
	} else if (req->batch) {
		mas_batch_add_done(req->batch, req);
	} else {
		list_move_tail(&req->node, &ctx->done);
		wake_up(&ctx->wait);
	}
	spin_unlock_irqrestore(&ctx->lock, flags);

	if (!closed)
		return;
	mas_io_free(req);
	if (last)
		queue_work(mas_wq, &ctx->free_work);
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
		if (!gpu)
			continue;
		mxcd_vram_flush(gpu);
		mxcd_gpu_leave(gpu);
	}
}

static int mas_copy_comp(struct mas_req *req, struct mxcd_mas_comp __user *comp)
{
	struct mxcd_mas_comp c = {
		.user_data	= req->user_data,
		.result		= req->result,
		.p2p_bytes	= req->p2p_bytes,
		.route		= req->route,
		.reason		= req->reason,
	};

	return copy_to_user(comp, &c, sizeof(c)) ? -EFAULT : 0;
}

/*
 * Copy completions to user space and free them, in order or each to the place of
 * its request. What could not be copied goes back to the context: a result is
 * never lost. Returns the number copied.
 */
static unsigned int mas_deliver(struct mas_ctx *ctx, struct list_head *reqs,
				struct mxcd_mas_comp __user *comps, bool by_index)
{
	struct mas_req *req, *next;
	unsigned int nr = 0;

	mas_flush(reqs);
	list_for_each_entry_safe(req, next, reqs, node) {
		if (mas_copy_comp(req, comps + (by_index ? req->index : nr)))
			break;
		list_del(&req->node);
		mas_io_free(req);
		nr++;
	}
	mas_ctx_release_places(ctx, nr);

	if (!list_empty(reqs)) {
		spin_lock_irq(&ctx->lock);
		list_splice(reqs, &ctx->done);
		wake_up(&ctx->wait);
		spin_unlock_irq(&ctx->lock);
	}

	return nr;
}

/* Move up to @max completions from the context to @reqs. */
static bool mas_ctx_take_done(struct mas_ctx *ctx, struct list_head *reqs,
			      unsigned int max)
{
	struct list_head *pos = &ctx->done;

	spin_lock_irq(&ctx->lock);
	while (max-- && pos->next != &ctx->done)
		pos = pos->next;
	list_cut_position(reqs, &ctx->done, pos);
	spin_unlock_irq(&ctx->lock);

	return !list_empty(reqs);
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
	return nr ? nr * sizeof(*buf) : -EFAULT;
}

/**
 * mas_batch_init - prepare a batch
 * @batch: on the stack of the submitter
 *
 * To be ended by mas_batch_collect().
 */
void mas_batch_init(struct mas_batch *batch)
{
	INIT_LIST_HEAD(&batch->pending);
	INIT_LIST_HEAD(&batch->done);
	batch->nr_done = 0;
	batch->wake_at = 0;
	init_waitqueue_head(&batch->wait);
}

static bool mas_batch_ready(struct mas_ctx *ctx, struct mas_batch *batch)
{
	bool ready;

	spin_lock_irq(&ctx->lock);
	ready = batch->nr_done >= batch->wake_at;
	spin_unlock_irq(&ctx->lock);

	return ready;
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
	unsigned long timeout = MAX_SCHEDULE_TIMEOUT;

	if (timeout_ns)
		timeout = min_t(u64, nsecs_to_jiffies64(timeout_ns) + 1, MAX_SCHEDULE_TIMEOUT);

	spin_lock_irq(&ctx->lock);
	batch->wake_at = min_nr;
	spin_unlock_irq(&ctx->lock);

	wait_event_killable_timeout(batch->wait, mas_batch_ready(ctx, batch), timeout);
}

/**
 * mas_batch_collect - end a batch: hand out its results
 * @ctx: the context
 * @batch: the batch; nobody refers to it afterwards
 * @comps: one entry for each request that was submitted
 * @nr: number of them
 *
 * What has not completed is left to read().
 *
 * Context: may sleep.
 * Return: number of results in @comps, or -EFAULT.
 */
int mas_batch_collect(struct mas_ctx *ctx, struct mas_batch *batch,
		      struct mxcd_mas_comp __user *comps, unsigned int nr)
{
	unsigned int i, nr_done;
	struct mas_req *req;
	int ret = 0;

	spin_lock_irq(&ctx->lock);
	list_for_each_entry(req, &batch->pending, node)
		req->batch = NULL;
	list_splice_tail_init(&batch->pending, &ctx->inflight);
	nr_done = batch->nr_done;
	spin_unlock_irq(&ctx->lock);

	for (i = 0; i < nr && nr_done < nr && !ret; i++)
		ret = put_user((s64)-EINPROGRESS, &comps[i].result);

	if (mas_deliver(ctx, &batch->done, comps, true) < nr_done)
		ret = -EFAULT;

	return ret ? ret : nr_done;
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
	if (ctx->nr_queued < MAS_MAX_QUEUE)
		events |= EPOLLOUT | EPOLLWRNORM;
	spin_unlock_irq(&ctx->lock);

	return events;
}

/* Each look-up takes a reference: ids may be freed while they are listed. */
static void mas_ctx_show_files(struct mas_ctx *ctx, struct seq_file *m)
{
	struct mas_file *file;
	unsigned long id;

	xa_for_each(&ctx->files, id, file) {
		struct inode *inode;

		file = mas_file_get(ctx, id);
		if (!file)
			continue;
		inode = file_inode(file->file);
		seq_printf(m, "mas-file:\t%lu dev %u:%u ino %lu\n", id,
			   MAJOR(inode->i_sb->s_dev), MINOR(inode->i_sb->s_dev),
			   (unsigned long)inode->i_ino);
		mas_file_put_sync(file);
	}
}

static void mas_ctx_show_mems(struct mas_ctx *ctx, struct seq_file *m)
{
	struct mas_mem *mem;
	unsigned long id;

	xa_for_each(&ctx->mems, id, mem) {
		mem = mas_mem_get(ctx, id);
		if (!mem)
			continue;
		seq_printf(m, "mas-handle:\t%lu gpu %d bytes %llu\n", id,
			   mem->gpu->index, mem->size);
		mas_mem_put_sync(mem);
	}
}

/**
 * mas_ctx_show - what a context holds, for /proc/PID/fdinfo
 * @ctx: the context
 * @m: where to print it
 *
 * Context: may sleep.
 */
void mas_ctx_show(struct mas_ctx *ctx, struct seq_file *m)
{
	unsigned int inflight, queued;

	mas_ctx_show_files(ctx, m);
	mas_ctx_show_mems(ctx, m);

	spin_lock_irq(&ctx->lock);
	inflight = ctx->nr_inflight;
	queued = ctx->nr_queued;
	spin_unlock_irq(&ctx->lock);
	seq_printf(m, "mas-inflight:\t%u\nmas-queued:\t%u\n", inflight, queued);
}
