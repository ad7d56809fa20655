// SPDX-License-Identifier: GPL-2.0
/*
 * Who holds the GPUs: the list of contexts, what of it sysfs shows, and the switch
 * that lets no more of them in, so that the driver can be exchanged once the last of
 * them has gone.
 */
#include <linux/sched.h>
#include <linux/string_helpers.h>
#include <linux/sysfs.h>

#include "mas.h"
#include "mas_io.h"

/* The longest line, generously. */
#define MAS_HOLDER_LINE	160

/*
 * Protects what follows. Innermost but for mas_ctx::lock and mxcd_gpu::lock; a reader
 * of sysfs takes it, and nobody who holds it waits for readers.
 */
static DEFINE_MUTEX(mas_holders_lock);
static LIST_HEAD(mas_holders);
static bool mas_draining;

/**
 * mas_holders_add - let a new context in
 * @ctx: the context; the caller is who opens it
 *
 * Context: may sleep.
 * Return: 0, or -EBUSY while the driver is being drained.
 */
int mas_holders_add(struct mas_ctx *ctx)
{
	int ret = -EBUSY;

	ctx->opener = task_tgid_nr(current);
	get_task_comm(ctx->comm, current->group_leader);

	mutex_lock(&mas_holders_lock);
	if (!mas_draining) {
		list_add_tail(&ctx->holder, &mas_holders);
		ret = 0;
	}
	mutex_unlock(&mas_holders_lock);

	return ret;
}

/**
 * mas_holders_del - a context is about to be freed
 * @ctx: a context that mas_holders_add() let in
 *
 * Context: may sleep.
 */
void mas_holders_del(struct mas_ctx *ctx)
{
	mutex_lock(&mas_holders_lock);
	list_del(&ctx->holder);
	mutex_unlock(&mas_holders_lock);
}

static u64 mas_holder_inflight(struct mas_ctx *ctx, struct mxcd_gpu *gpu)
{
	struct mas_req *req;
	u64 nr = 0;

	spin_lock_irq(&ctx->lock);
	hlist_for_each_entry(req, &ctx->inflight, node)
		nr += READ_ONCE(req->started) && READ_ONCE(req->gpu) == gpu &&
		      mas_is_transfer(req->op);
	spin_unlock_irq(&ctx->lock);

	return nr;
}

/**
 * mas_holders_inflight - count the transfers in flight
 * @gpu: the GPU
 *
 * Context: may sleep.
 * Return: how many have started and not ended.
 */
u64 mas_holders_inflight(struct mxcd_gpu *gpu)
{
	struct mas_ctx *ctx;
	u64 nr = 0;

	mutex_lock(&mas_holders_lock);
	list_for_each_entry(ctx, &mas_holders, holder)
		nr += mas_holder_inflight(ctx, gpu);
	mutex_unlock(&mas_holders_lock);

	return nr;
}

/* Each look-up takes a reference: handles may be freed meanwhile. */
static void mas_holder_mems(struct mas_ctx *ctx, struct mxcd_gpu *gpu, unsigned long *nr,
			    u64 *bytes)
{
	struct mas_mem *mem;
	unsigned long id;

	*nr = 0;
	*bytes = 0;
	xa_for_each(&ctx->mems.all, id, mem) {
		mem = mas_mem_get(ctx, id);
		if (!mem)
			continue;
		if (mem->gpu == gpu) {
			*nr += 1;
			*bytes += mem->size;
		}
		mas_mem_put_sync(mem);
		cond_resched();
	}
}

static int mas_holder_show(struct mas_ctx *ctx, struct mxcd_gpu *gpu, char *buf, int at)
{
	unsigned int inflight;
	unsigned long nr;
	u64 bytes;

	mas_holder_mems(ctx, gpu, &nr, &bytes);
	spin_lock_irq(&ctx->lock);
	inflight = ctx->nr_inflight;
	spin_unlock_irq(&ctx->lock);

	return sysfs_emit_at(buf, at, "%d %u %lu %llu %u %*pE\n", ctx->opener, ctx->id, nr,
			     bytes, inflight, (int)strlen(ctx->comm), ctx->comm);
}

/* What was freed and is pinned still; its context may be gone. */
static int mas_holders_show_pins(struct mxcd_gpu *gpu, char *buf, int at)
{
	struct mas_mem *mem;
	int len = 0;

	mutex_lock(&gpu->lock);
	list_for_each_entry(mem, &gpu->mems, node) {
		if (refcount_read(&mem->ref) || at + len > PAGE_SIZE - MAS_HOLDER_LINE)
			continue;
		len += sysfs_emit_at(buf, at + len, "%d 0 1 %llu 0 %*pE\n", mem->mapper,
				     mem->size, (int)strlen(mem->mapper_comm),
				     mem->mapper_comm);
	}
	mutex_unlock(&gpu->lock);

	return len;
}

/**
 * mas_holders_show - list the contexts that may use a GPU
 * @gpu: the GPU
 * @buf: a page
 *
 * A line for each: process that opened it, number of the context, handles and bytes
 * it has there, requests in flight, name of the process. "..." if not all fit. Then
 * one for each handle that was freed and whose pages are pinned still, with the
 * process that mapped it, and 0 for the context.
 *
 * Context: may sleep.
 * Return: length of the text.
 */
ssize_t mas_holders_show(struct mxcd_gpu *gpu, char *buf)
{
	struct mas_ctx *ctx;
	int len = 0;

	mutex_lock(&mas_holders_lock);
	list_for_each_entry(ctx, &mas_holders, holder) {
		if (!(READ_ONCE(ctx->gpus) & BIT_ULL(gpu->index)))
			continue;
		if (len > PAGE_SIZE - MAS_HOLDER_LINE) {
			len += sysfs_emit_at(buf, len, "...\n");
			break;
		}
		len += mas_holder_show(ctx, gpu, buf, len);
	}
	mutex_unlock(&mas_holders_lock);

	return len + mas_holders_show_pins(gpu, buf, len);
}

/**
 * mas_is_draining - is the driver being drained?
 *
 * Context: any.
 * Return: true while no new contexts are let in.
 */
bool mas_is_draining(void)
{
	return READ_ONCE(mas_draining);
}

/**
 * mas_set_draining - let no new contexts in, or let them in again
 * @draining: no new ones; all that there are have been listed on return
 *
 * Context: may sleep.
 */
void mas_set_draining(bool draining)
{
	mutex_lock(&mas_holders_lock);
	WRITE_ONCE(mas_draining, draining);
	mutex_unlock(&mas_holders_lock);
}
