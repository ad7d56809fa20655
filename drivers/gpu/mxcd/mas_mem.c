// SPDX-License-Identifier: GPL-2.0
/*
 * Memory handles: VRAM that a context has allocated.
 *
 * A handle is referenced by the context, by each request in flight and by each
 * mapping; the last of them gives the VRAM back. When the GPU is unbound its
 * handles lose their VRAM at once (nothing is in flight then and all mappings
 * are zapped) and live on as husks until their owners let go of them. When VRAM
 * loses its content they become husks as well, but keep the VRAM: requests that
 * are in flight may still write there.
 */
#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "mas_trace.h"

/* Pages inserted by one page fault, at most. */
#define MAS_FAULT_PAGES	512

static void mas_mem_free_now(struct mas_mem *mem)
{
	struct mxcd_gpu *gpu = mem->gpu;

	mutex_lock(&gpu->lock);
	if (!list_empty(&mem->node)) {
		list_del_init(&mem->node);
		mxcd_vram_free(gpu, mem->bvecs, mem->nr_bvecs);
	}
	mutex_unlock(&gpu->lock);

	mxcd_gpu_put(gpu);
	mas_quota_uncharge(mem->quota, mem->size);
	kvfree(mem->bvecs);
	kvfree(mem->starts);
	kfree_rcu(mem, rcu);
}

static void mas_mem_free_work(struct work_struct *work)
{
	mas_mem_free_now(container_of(work, struct mas_mem, free_work));
}

/**
 * mas_mem_put_sync - drop a reference to a handle
 * @mem: the handle
 *
 * Context: may sleep. If it is the last, the VRAM is free on return.
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
	struct mas_mem *mem;
	int ret;

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
	if (ret)
		goto err_vram;

	kref_get(&gpu->ref);
	mutex_lock(&gpu->lock);
	list_add_tail(&mem->node, &gpu->mems);
	mutex_unlock(&gpu->lock);
	return mem;

err_vram:
	mxcd_vram_free(gpu, mem->bvecs, mem->nr_bvecs);
	kvfree(mem->bvecs);
err_quota:
	mas_quota_uncharge(quota, size);
err_free:
	kfree(mem);
	return ERR_PTR(ret);
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

/*
 * Give a handle an offset for mmap(). A page behind each range stays free, so that
 * running over the end of one handle is an error and not the next handle.
 */
static int mas_mem_place(struct mas_ctx *ctx, struct mas_mem *mem)
{
	return mtree_alloc_range(&ctx->maps, &mem->pgoff, mem, PHYS_PFN(mem->size) + 1, 1,
				 PHYS_PFN(LLONG_MAX), GFP_KERNEL_ACCOUNT);
}

/**
 * mas_mem_alloc - ioctl(MXCD_MAS_ALLOC)
 * @ctx: the context
 * @args: in and out, &struct mxcd_mas_alloc
 *
 * The handle is not in use before mas_mem_commit(), which must follow, or
 * mas_mem_abort().
 *
 * Context: may sleep; killable while the VRAM is cleared.
 * Return: the memory or an errno as documented there; then nothing is allocated.
 */
struct mas_mem *mas_mem_alloc(struct mas_ctx *ctx, struct mxcd_mas_alloc *args)
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

	ret = mas_mem_place(ctx, mem);
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
 * @gpu: a GPU whose gate is drained and whose mappings are zapped
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

static void mas_vm_open(struct vm_area_struct *vma)
{
	struct mas_mem *mem = vma->vm_private_data;

	refcount_inc(&mem->ref);
}

static void mas_vm_close(struct vm_area_struct *vma)
{
	mas_mem_put_sync(vma->vm_private_data);
}

/* Insert the page that is missing and those that follow in its extent. */
static vm_fault_t mas_vm_insert(struct mas_mem *mem, struct vm_fault *vmf)
{
	u64 offset = PFN_PHYS(vmf->pgoff - mem->pgoff);
	unsigned long addr = ALIGN_DOWN(vmf->address, PAGE_SIZE);
	unsigned long contig, pfn = mas_view_page(&mem->view, offset, &contig);
	unsigned long n = min3(contig, PHYS_PFN(vmf->vma->vm_end - addr),
			       (unsigned long)MAS_FAULT_PAGES);
	vm_fault_t ret, first = VM_FAULT_NOPAGE;
	unsigned long i;

	for (i = 0; i < n; i++) {
		ret = vmf_insert_pfn(vmf->vma, addr + i * PAGE_SIZE, pfn + i);
		if (!i)
			first = ret;
		if (ret != VM_FAULT_NOPAGE)
			break;
	}

	return first;
}

static vm_fault_t mas_vm_fault(struct vm_fault *vmf)
{
	struct mas_mem *mem = vmf->vma->vm_private_data;
	vm_fault_t ret;

	/* Unbind zaps all mappings after it has closed the gate. */
	if (!mxcd_gpu_tryenter(mem->gpu))
		return VM_FAULT_SIGBUS;
	ret = mxcd_gpu_has_lost(mem->gpu, mem->view.generation) ? VM_FAULT_SIGBUS :
								   mas_vm_insert(mem, vmf);
	mxcd_gpu_leave(mem->gpu);

	return ret;
}

static const struct vm_operations_struct mas_vm_ops = {
	.open	= mas_vm_open,
	.close	= mas_vm_close,
	.fault	= mas_vm_fault,
};

static struct mas_mem *mas_mem_get_by_pgoff(struct mas_ctx *ctx, unsigned long pgoff)
{
	struct mas_mem *mem;

	rcu_read_lock();
	mem = mtree_load(&ctx->maps, pgoff);
	if (mem && !refcount_inc_not_zero(&mem->ref))
		mem = NULL;
	rcu_read_unlock();

	return mem;
}

/**
 * mas_mem_mmap - map a handle
 * @ctx: the context
 * @vma: the mapping; its offset names the handle
 *
 * The CPU's view only: VM_PFNMAP, write-combining. Direct I/O of other programs
 * cannot name it.
 *
 * Context: may sleep; mmap_lock is held for writing.
 * Return: 0, -EINVAL (private or executable mapping, range beyond the handle) or
 * -ENOENT.
 */
int mas_mem_mmap(struct mas_ctx *ctx, struct vm_area_struct *vma)
{
	struct mas_mem *mem;

	if (!(vma->vm_flags & VM_MAYSHARE) || vma->vm_flags & VM_EXEC)
		return -EINVAL;

	mem = mas_mem_get_by_pgoff(ctx, vma->vm_pgoff);
	if (!mem)
		return -ENOENT;

	if (vma->vm_pgoff - mem->pgoff + vma_pages(vma) > PHYS_PFN(mem->size)) {
		mas_mem_put_sync(mem);
		return -EINVAL;
	}

	vm_flags_mod(vma, VM_IO | VM_PFNMAP | VM_DONTEXPAND | VM_DONTDUMP, VM_MAYEXEC);
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_private_data = mem;
	vma->vm_ops = &mas_vm_ops;
	trace_mas_map(ctx, mem, PFN_PHYS(vma->vm_pgoff - mem->pgoff),
		      vma->vm_end - vma->vm_start);
	return 0;
}
