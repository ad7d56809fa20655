// SPDX-License-Identifier: GPL-2.0
/*
 * Memory handles: VRAM that a context has allocated.
 *
 * A handle is referenced by the context, by each request in flight and by each
 * mapping; the last of them gives the VRAM back, once nobody has its pages pinned
 * (mas_gup.c). When the GPU is unbound its
 * handles lose their VRAM at once (nothing is in flight then and all mappings
 * are zapped) and live on as husks until their owners let go of them. When VRAM
 * loses its content they become husks as well, but keep the VRAM: requests that
 * are in flight may still write there.
 */
#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "mas_trace.h"

/**
 * mas_mem_enter - begin to use the VRAM of a handle
 * @mem: the handle, a reference is held
 *
 * Context: any.
 * Return: true, and the gate of its GPU is held until mxcd_gpu_leave(); false if the GPU
 * is gone or VRAM has lost its content.
 */
bool mas_mem_enter(struct mas_mem *mem)
{
	if (!mxcd_gpu_tryenter(mem->gpu))
		return false;
	if (!mxcd_gpu_has_lost(mem->gpu, mem->view.generation))
		return true;

	mxcd_gpu_leave(mem->gpu);
	return false;
}

/**
 * mas_mem_release - free a handle that nobody refers to
 * @mem: the handle; gone on success
 *
 * Context: may sleep.
 * Return: false, and nothing was done, if somebody has its pages pinned.
 */
bool mas_mem_release(struct mas_mem *mem)
{
	struct mxcd_gpu *gpu = mem->gpu;
	bool pinned = false;

	mutex_lock(&gpu->lock);
	if (!list_empty(&mem->node)) {
		pinned = mas_gup_pinned(mem);
		if (!pinned) {
			list_del_init(&mem->node);
			mxcd_vram_free(gpu, mem->bvecs, mem->nr_bvecs);
		}
	}
	mutex_unlock(&gpu->lock);
	if (pinned)
		return false;

	mxcd_gpu_put(gpu);
	if (mem->quota)
		mas_quota_uncharge(mem->quota, mem->size);
	kvfree(mem->bvecs);
	kvfree(mem->starts);
	if (mem->whole)
		mas_mem_put_sync(mem->whole);
	kfree_rcu(mem, rcu);
	return true;
}

static void mas_mem_free_now(struct mas_mem *mem)
{
	if (!mas_mem_release(mem))
		mas_gup_linger(mem);
}

static void mas_mem_free_work(struct work_struct *work)
{
	mas_mem_free_now(container_of(work, struct mas_mem, free_work));
}

/**
 * mas_mem_put_sync - drop a reference to a handle
 * @mem: the handle
 *
 * Context: may sleep. If it is the last, the VRAM is free on return, or as soon as
 * nobody has it pinned.
 */
void mas_mem_put_sync(struct mas_mem *mem)
{
	if (refcount_dec_and_test(&mem->ref))
		mas_mem_free_now(mem);
}

static int mas_mem_index(struct mas_mem *mem)
{
	unsigned int i;
	u64 start = 0;

	mem->starts = kvmalloc_array(mem->nr_bvecs, sizeof(*mem->starts), GFP_KERNEL_ACCOUNT);
	if (!mem->starts)
		return -ENOMEM;

	for (i = 0; i < mem->nr_bvecs; i++) {
		mem->starts[i] = start;
		start += mem->bvecs[i].bv_len;
	}

	mem->view.bvecs = mem->bvecs;
	mem->view.starts = mem->starts;
	mem->view.nr_bvecs = mem->nr_bvecs;
	mem->view.borders = MXCD_GRANULE;
	return 0;
}

/* The gate of @gpu is held. */
static struct mas_mem *mas_mem_create(struct mxcd_gpu *gpu, u64 size,
				      struct mas_quota *quota)
{
	unsigned int faults = mxcd_gpu_faults(gpu);
	struct mas_mem *mem;
	int ret;

	if (mxcd_gpu_gone(gpu, faults))
		return ERR_PTR(-ENODEV);

	mem = kzalloc(sizeof(*mem), GFP_KERNEL_ACCOUNT);
	if (!mem)
		return ERR_PTR(-ENOMEM);

	ret = mas_quota_charge(quota, size);
	if (ret)
		goto err_free;

	mem->quota = quota;
	refcount_set(&mem->ref, 1);
	mem->gpu = gpu;
	mem->size = size;
	mem->view.generation = READ_ONCE(gpu->generation);
	INIT_WORK(&mem->free_work, mas_mem_free_work);

	ret = mxcd_vram_alloc(gpu, size, &mem->bvecs, &mem->nr_bvecs);
	if (ret)
		goto err_quota;

	ret = mxcd_vram_clear(mem->bvecs, mem->nr_bvecs);
	if (!ret)
		ret = mas_mem_index(mem);
	/* The zeros may not have arrived, and what was there before is not the caller's. */
	if (!ret && mxcd_gpu_gone(gpu, faults))
		ret = -ENODEV;
	if (ret)
		goto err_vram;

	kref_get(&gpu->ref);
	mutex_lock(&gpu->lock);
	list_add_tail(&mem->node, &gpu->mems);
	mutex_unlock(&gpu->lock);
	return mem;

err_vram:
	mxcd_vram_free(gpu, mem->bvecs, mem->nr_bvecs);
	kvfree(mem->starts);
	kvfree(mem->bvecs);
err_quota:
	mas_quota_uncharge(quota, size);
err_free:
	kfree(mem);
	return ERR_PTR(ret);
}

/* Copy the extents of a range. */
static int mas_mem_cut(struct mas_mem *mem, const struct mas_view *view, u64 offset)
{
	u64 at, skip, end = offset + mem->size;
	struct bio_vec *bvec;
	unsigned int i;

	mem->bvecs = kvmalloc_array(view->nr_bvecs, sizeof(*bvec), GFP_KERNEL_ACCOUNT);
	if (!mem->bvecs)
		return -ENOMEM;

	for (i = 0; i < view->nr_bvecs && view->starts[i] < end; i++) {
		at = view->starts[i];
		if (at + view->bvecs[i].bv_len <= offset)
			continue;
		skip = offset > at ? offset - at : 0;
		bvec = &mem->bvecs[mem->nr_bvecs++];
		bvec_set_page(bvec, view->bvecs[i].bv_page + PHYS_PFN(skip),
			      min_t(u64, view->bvecs[i].bv_len, end - at) - skip, 0);
	}

	return mas_mem_index(mem);
}

/**
 * mas_mem_part - memory that is a part of another
 * @mem: the other; a reference is taken to it, or to what it is a part of itself
 * @offset: in bytes, a multiple of PAGE_SIZE
 * @size: in bytes, likewise, not 0; @offset + @size is within @mem
 * @quota: that it is charged to, or NULL
 *
 * Context: may sleep.
 * Return: the part, to be given back by mas_mem_put(), -ENOMEM or -EDQUOT.
 */
struct mas_mem *mas_mem_part(struct mas_mem *mem, u64 offset, u64 size,
			     struct mas_quota *quota)
{
	struct mas_mem *part = kzalloc(sizeof(*part), GFP_KERNEL_ACCOUNT);
	int ret = -ENOMEM;

	if (!part)
		return ERR_PTR(-ENOMEM);

	refcount_set(&part->ref, 1);
	part->gpu = mem->gpu;
	part->size = size;
	part->view.generation = mem->view.generation;
	INIT_LIST_HEAD(&part->node);
	INIT_WORK(&part->free_work, mas_mem_free_work);

	ret = mas_mem_cut(part, &mem->view, offset);
	if (!ret && quota)
		ret = mas_quota_charge(quota, size);
	if (ret) {
		kvfree(part->starts);
		kvfree(part->bvecs);
		kfree(part);
		return ERR_PTR(ret);
	}

	part->quota = quota;
	part->whole = mem->whole ? mem->whole : mem;
	refcount_inc(&part->whole->ref);
	kref_get(&part->gpu->ref);
	return part;
}

static int mas_mem_check(struct mas_ctx *ctx, const struct mxcd_mas_alloc *args)
{
	if (args->flags || args->__reserved || !args->length)
		return -EINVAL;
	if (args->gpu >= MXCD_MAX_GPUS || !(READ_ONCE(ctx->gpus) & BIT_ULL(args->gpu)))
		return -ENOENT;

	return 0;
}

static struct mas_mem *mas_mem_alloc_on(u32 index, u64 length, struct mas_quota *quota)
{
	struct mxcd_gpu *gpu = mxcd_gpu_enter(index);
	struct mas_mem *mem = ERR_PTR(-ENOSPC);

	if (IS_ERR(gpu))
		return ERR_CAST(gpu);

	if (length <= gpu->vram.size)
		mem = mas_mem_create(gpu, ALIGN(length, MXCD_GRANULE), quota);
	mxcd_gpu_leave(gpu);

	return mem;
}

/**
 * mas_mem_place - give a handle an offset for mmap()
 * @ctx: the context
 * @mem: the handle
 * @first: offset 0, which is that of memory that mmap() has allocated
 *
 * A page behind each range stays free, so that running over the end of one handle is
 * an error and not the next handle. What has room for a huge page gets an offset that
 * is a multiple of one.
 *
 * Context: may sleep.
 * Return: 0, to be undone by mas_mem_abort(), -ENOMEM, or -EEXIST for @first.
 */
int mas_mem_place(struct mas_ctx *ctx, struct mas_mem *mem, bool first)
{
	unsigned long pages = PHYS_PFN(mem->size), align = 1;
	int ret;

	if (first)
		return mtree_insert_range(&ctx->maps, 0, pages, mem, GFP_KERNEL_ACCOUNT);

	if (mem->size >= PMD_SIZE)
		align = PHYS_PFN(PMD_SIZE);
	ret = mtree_alloc_range(&ctx->maps, &mem->pgoff, mem, pages + align, 1,
				PHYS_PFN(LLONG_MAX), GFP_KERNEL_ACCOUNT);
	if (!ret)
		mem->pgoff = ALIGN(mem->pgoff, align);

	return ret;
}

/**
 * mas_mem_alloc - ioctl(MXCD_MAS_ALLOC)
 * @ctx: the context
 * @args: in and out, &struct mxcd_mas_alloc
 * @first: for mmap(), at offset 0; -EEXIST when there is something
 *
 * The handle is not in use before mas_mem_commit(), which must follow, or
 * mas_mem_abort().
 *
 * Context: may sleep; killable while the VRAM is cleared.
 * Return: the memory or an errno as documented there; then nothing is allocated.
 */
struct mas_mem *mas_mem_alloc(struct mas_ctx *ctx, struct mxcd_mas_alloc *args, bool first)
{
	struct mas_mem *mem;
	int ret;

	ret = mas_mem_check(ctx, args);
	if (!ret)
		ret = mas_id_reserve(&ctx->mems, &args->handle);
	if (ret)
		return ERR_PTR(ret);

	mem = mas_mem_alloc_on(args->gpu, args->length, ctx->quota);
	if (IS_ERR(mem))
		goto err_id;

	ret = mas_mem_place(ctx, mem, first);
	if (ret)
		goto err_mem;

	args->length = mem->size;
	args->out_extents = mem->nr_bvecs;
	args->out_mmap_offset = PFN_PHYS(mem->pgoff);
	return mem;

err_mem:
	mas_mem_put_sync(mem);
	mem = ERR_PTR(ret);
err_id:
	mas_id_release(&ctx->mems, args->handle);
	return mem;
}

/**
 * mas_mem_commit - let a new handle be used
 * @ctx: the context
 * @handle: its number
 * @mem: what mas_mem_alloc() returned; not to be touched afterwards
 *
 * Context: may sleep.
 */
void mas_mem_commit(struct mas_ctx *ctx, u32 handle, struct mas_mem *mem)
{
	trace_mas_alloc(ctx, handle, mem);
	/* The place is reserved: this cannot fail. */
	mas_id_commit(&ctx->mems, handle, mem);
}

/**
 * mas_mem_abort - undo mas_mem_alloc()
 * @ctx: the context
 * @handle: its number
 * @mem: what mas_mem_alloc() returned
 *
 * Context: may sleep.
 */
void mas_mem_abort(struct mas_ctx *ctx, u32 handle, struct mas_mem *mem)
{
	mas_id_release(&ctx->mems, handle);
	mtree_erase(&ctx->maps, mem->pgoff);
	mas_mem_put_sync(mem);
}

/**
 * mas_mem_free - ioctl(MXCD_MAS_FREE)
 * @ctx: the context
 * @handle: the handle
 *
 * Context: may sleep.
 * Return: 0 or -ENOENT.
 */
int mas_mem_free(struct mas_ctx *ctx, u32 handle)
{
	struct mas_mem *mem = mas_id_remove(&ctx->mems, handle);

	if (!mem)
		return -ENOENT;

	trace_mas_free(ctx, handle, mem);
	mtree_erase(&ctx->maps, mem->pgoff);
	mas_mem_put_sync(mem);
	return 0;
}

/**
 * mas_mem_revoke_all - take the VRAM from all handles of a GPU
 * @gpu: a GPU whose gate is drained, whose mappings are zapped and whose pages
 *	nobody has pinned
 *
 * Context: may sleep.
 */
void mas_mem_revoke_all(struct mxcd_gpu *gpu)
{
	struct mas_mem *mem, *next;

	mutex_lock(&gpu->lock);
	list_for_each_entry_safe(mem, next, &gpu->mems, node) {
		list_del_init(&mem->node);
		mxcd_vram_free(gpu, mem->bvecs, mem->nr_bvecs);
		cond_resched();
	}
	mutex_unlock(&gpu->lock);
}
