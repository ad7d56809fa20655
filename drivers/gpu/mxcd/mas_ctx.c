// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts and their queues.
 *
 * A request is counted in the queue from mas_ctx_admit() until its completion
 * is collected, either by read() from the context's list of completions or in
 * place by the ioctl that submitted it (a batch). Completions arrive in
 * any context, hard interrupts too.
 *
 * Closing the descriptor waits for nothing. What is in flight holds all it needs;
 * the last request to complete frees the context.
 */
#include <linux/eventfd.h>
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

	destroy_workqueue(ctx->wq);
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

	ctx->wq = alloc_workqueue("mas/%d", WQ_UNBOUND, 0, current->pid);
	if (!ctx->wq) {
		kfree(ctx);
		return NULL;
	}

	ctx->gpus = gpus;
	xa_init_flags(&ctx->mems, XA_FLAGS_ALLOC1);
	mt_init_flags(&ctx->maps, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
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

	mtree_destroy(&ctx->maps);
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
	struct eventfd_ctx *eventfd;
	struct mas_req *req, *next;
	LIST_HEAD(done);
	bool last;

	mas_ctx_drop_objects(ctx);

	spin_lock_irq(&ctx->lock);
	list_splice_init(&ctx->done, &done);
	last = !ctx->nr_inflight;
	eventfd = ctx->eventfd;
	ctx->eventfd = NULL;
	ctx->closed = true;
	spin_unlock_irq(&ctx->lock);

	list_for_each_entry_safe(req, next, &done, node)
		mas_io_free(req);
	if (eventfd)
		eventfd_ctx_put(eventfd);
	if (last)
		mas_ctx_free(&ctx->free_work);
}

/* Count a request in the queue and put it last of those in flight. */
static bool mas_ctx_try_admit(struct mas_ctx *ctx, struct mas_batch *batch,
			      struct mas_req *req)
{
	bool room;

	spin_lock_irq(&ctx->lock);
	room = ctx->nr_queued < MAS_MAX_QUEUE;
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
 * @req: the request, admitted and not started
 *
 * Context: process context.
 * Return: false for a request with MXCD_MAS_REQ_DRAIN when older ones are in
 * flight; mas_io_kick() is called for it when they have completed.
 */
bool mas_ctx_may_start(struct mas_ctx *ctx, struct mas_req *req)
{
	bool may;

	if (!(req->flags & MXCD_MAS_REQ_DRAIN))
		return true;

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
	if (++batch->nr_done == batch->wake_at)
		wake_up(&batch->wait);
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
	struct mas_req *drained;
	unsigned long flags;
	bool closed, last;

	spin_lock_irqsave(&ctx->lock, flags);
	list_del(&req->node);
	last = !--ctx->nr_inflight;
	drained = mas_ctx_drained(ctx);
	closed = ctx->closed;
	if (!closed && req->batch)
		mas_batch_add_done(req->batch, req);
	else if (!closed)
		mas_ctx_add_done(ctx, req);
	spin_unlock_irqrestore(&ctx->lock, flags);

	if (drained)
		mas_io_kick(drained);
	if (!closed)
		return;
	mas_io_free(req);
	if (last)
		queue_work(mas_wq, &ctx->free_work);
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
		WRITE_ONCE(req->cancelled, true);
		nr++;
		if (req->draining) {
			req->draining = false;
			mas_io_kick(req);
		}
	}
	spin_unlock_irq(&ctx->lock);

	return nr ? nr : -ENOENT;
}

/**
 * mas_ctx_set_eventfd - choose what is raised for completions
 * @ctx: the context
 * @fd: an eventfd of the calling task, or -1: none
 *
 * Context: may sleep.
 * Return: 0, -EBADF or -EINVAL.
 */
int mas_ctx_set_eventfd(struct mas_ctx *ctx, int fd)
{
	struct eventfd_ctx *eventfd = NULL;

	if (fd < -1)
		return -EBADF;
	if (fd >= 0)
		eventfd = eventfd_ctx_fdget(fd);
	if (IS_ERR(eventfd))
		return PTR_ERR(eventfd);

	spin_lock_irq(&ctx->lock);
	swap(ctx->eventfd, eventfd);
	spin_unlock_irq(&ctx->lock);

	if (eventfd)
		eventfd_ctx_put(eventfd);
	return 0;
}

/* Free places in the queue; under mas_ctx::lock. */
static void mas_ctx_release_places(struct mas_ctx *ctx, unsigned int nr)
{
	lockdep_assert_held(&ctx->lock);

	if (nr && ctx->nr_queued >= MAS_MAX_QUEUE)
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
	struct mxcd_mas_comp c = {
		.user_data	= req->user_data,
		.result		= req->result,
		.p2p_bytes	= req->p2p_bytes,
		.route		= req->route,
		.reason		= req->reason,
	};

	return copy_to_user(comp, &c, sizeof(c)) ? -EFAULT : 0;
}

/* What could not be delivered goes back: a result is never lost. */
static void mas_ctx_put_back(struct mas_ctx *ctx, struct list_head *reqs)
{
	struct mas_req *req;

	if (list_empty(reqs))
		return;

	spin_lock_irq(&ctx->lock);
	list_for_each_entry(req, reqs, node) {
		ctx->nr_queued++;
		if (ctx->eventfd)
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
	struct mas_req *req, *next;
	unsigned int nr = 0;

	mas_flush(reqs);
	list_for_each_entry_safe(req, next, reqs, node) {
		if (mas_copy_comp(req, comps + (by_index ? req->index : nr)))
			break;
		list_del(&req->node);
		mas_io_end_file(req);
		mas_io_free(req);
		nr++;
	}
	mas_ctx_put_back(ctx, reqs);

	return nr;
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
	int ret = 0;

	spin_lock_irq(&ctx->lock);
	nr_done = batch->nr_done;
	if (nr_done < nr)
		mas_batch_detach(ctx, batch);
	mas_ctx_release_places(ctx, nr_done);
	spin_unlock_irq(&ctx->lock);

	for (i = 0; i < nr && nr_done < nr && !ret; i++)
		ret = put_user((s64)-EINPROGRESS, &comps[i].result);

	if (mas_deliver(ctx, &batch->done, comps, true) < nr_done)
		ret = -EFAULT;

	return ret ? ret : (int)nr_done;
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
