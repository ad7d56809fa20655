// SPDX-License-Identifier: GPL-2.0
/*
 * Contexts: what an open descriptor holds, and how it goes.
 *
 * Closing the descriptor waits for nothing. What is in flight holds all it needs;
 * the last request to complete frees the context.
 */
#include <linux/eventfd.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "mas.h"
#include "mas_io.h"
#include "mas_trace.h"

/* What one context may have at work at a time. */
#define MAS_MAX_WORKERS	32

/*
 * Contexts, the closed ones with requests in flight too: these do not hold the
 * module, so unloading waits for them.
 */
static atomic_t mas_nr_ctxs;

static atomic_t mas_last_ctx_id;

static void mas_ctx_free(struct mas_ctx *ctx)
{
	mas_holders_del(ctx);
	mas_io_keep(ctx, NULL);
	if (ctx->wq)
		destroy_workqueue(ctx->wq);
	mas_may_exit(ctx);
	kfree(ctx);
	if (atomic_dec_and_test(&mas_nr_ctxs))
		wake_up_var(&mas_nr_ctxs);
}

static void mas_ctx_free_work(struct work_struct *work)
{
	mas_ctx_free(container_of(work, struct mas_ctx, free_work));
}

/**
 * mas_ctx_wait_all - wait until all contexts are gone
 *
 * Context: module exit; no descriptor is open. Waits for requests of closed
 * contexts that are with a file system or a disk.
 */
void mas_ctx_wait_all(void)
{
	wait_var_event(&mas_nr_ctxs, !atomic_read(&mas_nr_ctxs));
}

/**
 * mas_ctx_wq - the workqueue of a context
 * @ctx: the context
 *
 * Context: may sleep the first time; any, when it has been called before.
 * Return: the workqueue, or NULL without memory.
 */
struct workqueue_struct *mas_ctx_wq(struct mas_ctx *ctx)
{
	struct workqueue_struct *new, *wq = READ_ONCE(ctx->wq);

	if (wq)
		return wq;

	new = alloc_workqueue("mas/%d", WQ_UNBOUND, MAS_MAX_WORKERS, current->pid);
	if (!new)
		return NULL;
	wq = cmpxchg(&ctx->wq, NULL, new);
	if (wq)
		destroy_workqueue(new);

	return wq ? wq : new;
}

/**
 * mas_ctx_create - a context for a descriptor that is being opened
 * @gpus: bit n: it may use GPU n
 *
 * Context: may sleep.
 * Return: the context, ended by mas_ctx_close(), -ENOMEM, or -EBUSY while the driver
 * is being drained.
 */
struct mas_ctx *mas_ctx_create(u64 gpus)
{
	struct mas_ctx *ctx;
	int ret;

	ctx = kzalloc(sizeof(*ctx), GFP_KERNEL_ACCOUNT);
	if (!ctx)
		return ERR_PTR(-ENOMEM);
	ret = mas_may_init(ctx);
	if (ret)
		goto err_free;

	ctx->id = atomic_inc_return(&mas_last_ctx_id);
	ctx->gpus = gpus;
	xa_init_flags(&ctx->mems.all, XA_FLAGS_ALLOC1);
	mt_init_flags(&ctx->maps, MT_FLAGS_ALLOC_RANGE | MT_FLAGS_USE_RCU);
	xa_init_flags(&ctx->files.all, XA_FLAGS_ALLOC1);
	spin_lock_init(&ctx->lock);
	INIT_HLIST_HEAD(&ctx->inflight);
	mas_chain_init(&ctx->done);
	init_waitqueue_head(&ctx->wait);
	INIT_WORK(&ctx->free_work, mas_ctx_free_work);

	/* Last: others see it from now on. */
	ret = mas_holders_add(ctx);
	if (ret)
		goto err_may;
	atomic_inc(&mas_nr_ctxs);

	return ctx;

err_may:
	mas_may_exit(ctx);
err_free:
	kfree(ctx);
	return ERR_PTR(ret);
}

/**
 * mas_id_reserve - take a number for an object that is not ready yet
 * @ids: mas_ctx::mems or mas_ctx::files
 * @id: in: number wanted, 0: any; out: the number
 *
 * Nobody finds anything under the number until mas_id_commit() puts it there.
 *
 * Context: may sleep.
 * Return: 0, -EINVAL (out of range), -EEXIST (taken), -EBUSY (all taken) or
 * -ENOMEM.
 */
int mas_id_reserve(struct mas_ids *ids, u32 *id)
{
	int ret;

	if (!*id)
		return xa_alloc(&ids->all, id, XA_ZERO_ENTRY, XA_LIMIT(1, MXCD_MAS_ID_MAX),
				GFP_KERNEL_ACCOUNT);
	if (*id > MXCD_MAS_ID_MAX)
		return -EINVAL;

	ret = xa_insert(&ids->all, *id, XA_ZERO_ENTRY, GFP_KERNEL_ACCOUNT);
	return ret == -EBUSY ? -EEXIST : ret;
}

/**
 * mas_id_release - undo mas_id_reserve()
 * @ids: mas_ctx::mems or mas_ctx::files
 * @id: the number
 *
 * Context: may sleep.
 */
void mas_id_release(struct mas_ids *ids, u32 id)
{
	xa_release(&ids->all, id);
}

/**
 * mas_id_commit - put an object where it is found
 * @ids: mas_ctx::mems or mas_ctx::files
 * @id: its number, reserved
 * @object: the object; who finds it looks at its reference count under RCU
 *
 * Context: may sleep.
 */
void mas_id_commit(struct mas_ids *ids, u32 id, void *object)
{
	/* The place is reserved: this cannot fail. */
	xa_lock(&ids->all);
	__xa_store(&ids->all, id, object, 0);
	if (id < MAS_LOW_IDS)
		rcu_assign_pointer(ids->low[id], object);
	xa_unlock(&ids->all);
}

/**
 * mas_id_remove - take the object away that a number stands for
 * @ids: mas_ctx::mems or mas_ctx::files
 * @id: the number; one that is only reserved stays so
 *
 * Context: may sleep.
 * Return: the object, its reference is the caller's now, or NULL.
 */
void *mas_id_remove(struct mas_ids *ids, u32 id)
{
	void *object;

	xa_lock(&ids->all);
	object = xa_load(&ids->all, id);
	if (object) {
		__xa_erase(&ids->all, id);
		if (id < MAS_LOW_IDS)
			RCU_INIT_POINTER(ids->low[id], NULL);
	}
	xa_unlock(&ids->all);

	return object;
}

static void mas_ctx_drop_objects(struct mas_ctx *ctx)
{
	struct mas_file *file;
	struct mas_mem *mem;
	unsigned long id;

	mtree_destroy(&ctx->maps);
	/* mas_holders may be looking at them. */
	xa_for_each(&ctx->mems.all, id, mem) {
		trace_mas_free(ctx, id, mem);
		mas_id_remove(&ctx->mems, id);
		mas_mem_put_sync(mem);
	}
	xa_destroy(&ctx->mems.all);

	xa_for_each(&ctx->files.all, id, file) {
		trace_mas_unregister(ctx, id);
		mas_file_put_sync(file);
	}
	xa_destroy(&ctx->files.all);
}

/**
 * mas_ctx_close - the last descriptor of a context is gone
 * @ctx: the context; not to be touched afterwards
 *
 * Does not wait for requests in flight. What has not started does not start, and
 * transfers end with the piece that is under way.
 *
 * Context: may sleep.
 */
void mas_ctx_close(struct mas_ctx *ctx)
{
	struct eventfd_ctx *eventfd;
	struct mas_req *req, *done;
	bool last;

	mas_ctx_drop_objects(ctx);

	spin_lock_irq(&ctx->lock);
	done = ctx->done.first;
	mas_chain_init(&ctx->done);
	last = !ctx->nr_inflight;
	eventfd = ctx->eventfd;
	ctx->eventfd = NULL;
	ctx->closed = true;
	hlist_for_each_entry(req, &ctx->inflight, node)
		mas_cancel(req);
	spin_unlock_irq(&ctx->lock);

	while ((req = done)) {
		done = req->next;
		mas_io_end_file(req);
		mas_io_free(req);
	}
	if (eventfd)
		eventfd_ctx_put(eventfd);
	if (last)
		mas_ctx_free(ctx);
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

/* Each look-up takes a reference: ids may be freed while they are listed. */
static void mas_ctx_show_files(struct mas_ctx *ctx, struct seq_file *m)
{
	struct mas_file *file;
	unsigned long id;

	xa_for_each(&ctx->files.all, id, file) {
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

	xa_for_each(&ctx->mems.all, id, mem) {
		mem = mas_mem_get(ctx, id);
		if (!mem)
			continue;
		seq_printf(m, "mas-handle:\t%lu gpu %d bytes %llu\n", id,
			   mem->gpu->index, mem->size);
		mas_mem_put_sync(mem);
	}
}

static void mas_ctx_show_stats(const struct mas_ctx_stats *stats, struct seq_file *m)
{
	seq_printf(m, "mas-read-p2p:\t%llu bytes\n", stats->p2p_bytes[0]);
	seq_printf(m, "mas-read-bounce:\t%llu bytes\n", stats->bounce_bytes[0]);
	seq_printf(m, "mas-write-p2p:\t%llu bytes\n", stats->p2p_bytes[1]);
	seq_printf(m, "mas-write-bounce:\t%llu bytes\n", stats->bounce_bytes[1]);
	seq_printf(m, "mas-errors:\t%llu\n", stats->errors);
	seq_printf(m, "mas-queue-full:\t%llu\n", stats->queue_full);
}

/**
 * mas_ctx_show - what a context holds and has done, for /proc/PID/fdinfo
 * @ctx: the context
 * @m: where to print it
 *
 * Context: may sleep.
 */
void mas_ctx_show(struct mas_ctx *ctx, struct seq_file *m)
{
	struct mas_ctx_stats stats;
	unsigned int inflight;
	u64 submitted;

	seq_printf(m, "mas-context:\t%u\n", ctx->id);
	mas_ctx_show_files(ctx, m);
	mas_ctx_show_mems(ctx, m);

	spin_lock_irq(&ctx->lock);
	inflight = ctx->nr_inflight;
	submitted = ctx->nr_submitted;
	stats = ctx->stats;
	spin_unlock_irq(&ctx->lock);
	seq_printf(m, "mas-inflight:\t%u\nmas-queued:\t%d\nmas-submitted:\t%llu\n",
		   inflight, atomic_read(&ctx->nr_queued), submitted);
	if (IS_ENABLED(CONFIG_MXCD_STATS))
		mas_ctx_show_stats(&stats, m);
}
