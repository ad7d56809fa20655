// SPDX-License-Identifier: GPL-2.0
/*
 * What a context may do, and how much it may hold. A broker narrows a context
 * before it hands the descriptor on; nobody can widen it again.
 */
#include <linux/minmax.h>
#include <linux/refcount.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "mas.h"

/* In mxcd_mas_restrict::ops, where no operation has the number 0. */
#define MAS_MAY_MMAP	BIT_ULL(0)

/**
 * struct mas_quota - VRAM that a context holds
 * @ref: the context and each memory handle: a mapping keeps VRAM after its context
 * @used: bytes, handles that are freed but still used included
 * @max: no more than this, in bytes
 */
struct mas_quota {
	refcount_t ref;
	atomic64_t used;
	u64 max;
};

static struct mas_quota *mas_quota_create(void)
{
	struct mas_quota *quota = kzalloc(sizeof(*quota), GFP_KERNEL_ACCOUNT);

	if (!quota)
		return NULL;

	refcount_set(&quota->ref, 1);
	quota->max = U64_MAX;
	return quota;
}

static void mas_quota_put(struct mas_quota *quota)
{
	if (refcount_dec_and_test(&quota->ref))
		kfree(quota);
}

/**
 * mas_quota_charge - VRAM is to be allocated
 * @quota: of the context
 * @bytes: how much
 *
 * Context: any.
 * Return: 0, to be undone by mas_quota_uncharge(), or -EDQUOT.
 */
int mas_quota_charge(struct mas_quota *quota, u64 bytes)
{
	u64 max = READ_ONCE(quota->max);
	s64 used = atomic64_read(&quota->used);

	do {
		if (used > max || bytes > max - used)
			return -EDQUOT;
	} while (!atomic64_try_cmpxchg(&quota->used, &used, used + bytes));

	refcount_inc(&quota->ref);
	return 0;
}

/**
 * mas_quota_uncharge - VRAM has been freed
 * @quota: of the context that had it
 * @bytes: how much
 *
 * Context: any.
 */
void mas_quota_uncharge(struct mas_quota *quota, u64 bytes)
{
	atomic64_sub(bytes, &quota->used);
	mas_quota_put(quota);
}

/**
 * mas_quota_left - VRAM that a context may still allocate
 * @ctx: the context
 *
 * Context: any.
 * Return: bytes.
 */
u64 mas_quota_left(struct mas_ctx *ctx)
{
	u64 max = READ_ONCE(ctx->quota->max);
	u64 used = atomic64_read(&ctx->quota->used);

	return used < max ? max - used : 0;
}

/**
 * mas_may_init - a new context may do everything
 * @ctx: the context
 *
 * Context: may sleep.
 * Return: 0, to be ended by mas_may_exit(), or -ENOMEM.
 */
int mas_may_init(struct mas_ctx *ctx)
{
	ctx->quota = mas_quota_create();
	if (!ctx->quota)
		return -ENOMEM;

	ctx->ops = U64_MAX;
	ctx->req_flags = U32_MAX;
	ctx->max_files = U32_MAX;
	ctx->max_queue = MAS_MAX_QUEUE;
	return 0;
}

/**
 * mas_may_exit - the counterpart
 * @ctx: the context
 *
 * Context: any.
 */
void mas_may_exit(struct mas_ctx *ctx)
{
	mas_quota_put(ctx->quota);
}

/**
 * mas_may_op - is an operation allowed?
 * @ctx: the context
 * @op: &enum mxcd_mas_op; one that is not known is allowed, and fails later
 *
 * Context: any.
 * Return: true if so.
 */
bool mas_may_op(struct mas_ctx *ctx, unsigned int op)
{
	return op >= BITS_PER_LONG_LONG || READ_ONCE(ctx->ops) & BIT_ULL(op);
}

/**
 * mas_may_mmap - may memory handles be mapped?
 * @ctx: the context
 *
 * Context: any.
 * Return: true if so.
 */
bool mas_may_mmap(struct mas_ctx *ctx)
{
	return READ_ONCE(ctx->ops) & MAS_MAY_MMAP;
}

/**
 * mas_may_submit - is a request allowed?
 * @ctx: a context that is restricted
 * @args: the request
 *
 * Context: any.
 * Return: 0 or -EPERM.
 */
int mas_may_submit(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	return mas_may_op(ctx, args->op) && !(args->flags & ~READ_ONCE(ctx->req_flags)) ?
		       0 : -EPERM;
}

/**
 * mas_max_files - files that a context may register
 * @ctx: the context
 *
 * Context: process context of the caller, whose RLIMIT_NOFILE counts as well.
 * Return: number of files.
 */
u32 mas_max_files(struct mas_ctx *ctx)
{
	return min_t(u64, rlimit(RLIMIT_NOFILE), READ_ONCE(ctx->max_files));
}

/**
 * mas_restrict - ioctl(MXCD_MAS_RESTRICT)
 * @ctx: the context
 * @args: what stays
 *
 * Context: process context.
 * Return: 0 or -EINVAL.
 */
int mas_restrict(struct mas_ctx *ctx, const struct mxcd_mas_restrict *args)
{
	if (args->flags || args->__reserved || !args->max_queue)
		return -EINVAL;

	spin_lock_irq(&ctx->lock);
	WRITE_ONCE(ctx->gpus, ctx->gpus & args->gpus);
	WRITE_ONCE(ctx->ops, ctx->ops & args->ops);
	WRITE_ONCE(ctx->req_flags, ctx->req_flags & args->req_flags);
	WRITE_ONCE(ctx->max_files, min(ctx->max_files, args->max_files));
	WRITE_ONCE(ctx->max_queue, min(ctx->max_queue, args->max_queue));
	WRITE_ONCE(ctx->quota->max, min(ctx->quota->max, args->max_vram));
	WRITE_ONCE(ctx->restricted, true);
	spin_unlock_irq(&ctx->lock);

	return 0;
}
