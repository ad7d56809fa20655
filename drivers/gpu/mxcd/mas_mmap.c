// SPDX-License-Identifier: GPL-2.0
/*
 * mmap(): a handle, or a part of it, in the address space of a program.
 *
 * There are two kinds of mapping. The plain one is for the CPU alone: VM_PFNMAP, in
 * huge pages where the extents allow, and no program can pin what is behind it. The
 * other one has the page structs in it, so that direct I/O of any program can name
 * VRAM as its buffer; mas_gup.c knows when that is allowed. Which one a mapping is
 * gets decided when it is made.
 *
 * Both are write-combining, shared, not inherited by fork(), and neither moves nor
 * grows. Page faults hold the gate of the GPU: unbind closes the gate, waits for them
 * and then zaps all mappings, after which each access is a SIGBUS.
 */
#include <linux/huge_mm.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>

#include "mas_trace.h"

/* Between two looks at a storage controller whose driver is coming or going. */
#define MAS_FAULT_WAIT	msecs_to_jiffies(20)

static void mas_vm_open(struct vm_area_struct *vma)
{
	struct mas_mem *mem = vma->vm_private_data;

	refcount_inc(&mem->ref);
}

static void mas_vm_close(struct vm_area_struct *vma)
{
	mas_mem_put_sync(vma->vm_private_data);
}

/* Page tables elsewhere would have to be found when the GPU goes: they are not. */
static int mas_vm_mremap(struct vm_area_struct *vma)
{
	return -EINVAL;
}

static u64 mas_vm_offset(struct vm_area_struct *vma, unsigned long addr)
{
	struct mas_mem *mem = vma->vm_private_data;

	return PFN_PHYS(vma->vm_pgoff - mem->pgoff) + addr - vma->vm_start;
}

static vm_fault_t mas_vm_insert_one(struct vm_area_struct *vma, unsigned long addr,
				    unsigned long pfn)
{
	if (vma->vm_flags & VM_MIXEDMAP)
		return vmf_insert_page(vma, addr, pfn_to_page(pfn));

	return vmf_insert_pfn(vma, addr, pfn);
}

/*
 * Insert the page that is missing and those that follow in its extent. Not those of the
 * next page table: a huge page may be there, or another thread about to put one there,
 * and the kernel takes it for a bug when both meet.
 */
static vm_fault_t mas_vm_insert(struct mas_mem *mem, struct vm_fault *vmf)
{
	unsigned long addr = ALIGN_DOWN(vmf->address, PAGE_SIZE);
	unsigned long end = pmd_addr_end(addr, vmf->vma->vm_end);
	unsigned long contig, pfn, n, i;
	vm_fault_t ret, first = VM_FAULT_NOPAGE;

	pfn = mas_view_page(&mem->view, mas_vm_offset(vmf->vma, addr), &contig);
	n = min(contig, PHYS_PFN(end - addr));
	for (i = 0; i < n; i++) {
		ret = mas_vm_insert_one(vmf->vma, addr + i * PAGE_SIZE, pfn + i);
		if (!i)
			first = ret;
		if (ret != VM_FAULT_NOPAGE)
			break;
	}

	return first;
}

/* Insert all of a huge page if it lies in one extent as it does in the mapping. */
static vm_fault_t mas_vm_insert_huge(struct mas_mem *mem, struct vm_fault *vmf)
{
	unsigned long addr = vmf->address & PMD_MASK;
	unsigned long contig, pfn;

	pfn = mas_view_page(&mem->view, mas_vm_offset(vmf->vma, addr), &contig);
	if (contig < PHYS_PFN(PMD_SIZE) || !IS_ALIGNED(pfn, PHYS_PFN(PMD_SIZE)))
		return VM_FAULT_FALLBACK;

	return vmf_insert_pfn_pmd(vmf, pfn, vmf->flags & FAULT_FLAG_WRITE);
}

/*
 * May pages be handed out now? A mapping is made when they may, but a storage
 * controller may have come since.
 */
static vm_fault_t mas_vm_may_pin(struct mxcd_gpu *gpu)
{
	unsigned int reason;

	mas_gup_prove(gpu);
	if (!mxcd_gpu_tryenter(gpu))
		return VM_FAULT_SIGBUS;
	reason = mas_gup_reason(gpu, NULL);
	mxcd_gpu_leave(gpu);

	if (reason && reason != MXCD_MAS_REASON_NOT_READY)
		return VM_FAULT_SIGBUS;
	if (reason)
		schedule_timeout_killable(MAS_FAULT_WAIT);

	return VM_FAULT_NOPAGE; /* it will fault again */
}

static vm_fault_t mas_vm_fault_entered(struct mas_mem *mem, struct vm_fault *vmf, bool *forbidden)
{
	bool pages = vmf->vma->vm_flags & VM_MIXEDMAP;
	u32 now = mas_route_now();
	vm_fault_t ret;

	if (mxcd_gpu_has_lost(mem->gpu, mem->view.generation))
		return VM_FAULT_SIGBUS;

	*forbidden = pages && !mas_gup_mapped_stays(mem->gpu) && !mas_gup_allowed(mem->gpu);
	if (*forbidden)
		return VM_FAULT_NOPAGE;

	ret = mas_vm_insert(mem, vmf);
	/* Whoever has forbidden it meanwhile may have zapped before that. */
	smp_mb(); /* pairs with the atomic operation in mas_route_forget() */
	if (pages && mas_route_now() != now)
		mas_gup_changed();

	return ret;
}

static vm_fault_t mas_vm_fault(struct vm_fault *vmf)
{
	struct mas_mem *mem = vmf->vma->vm_private_data;
	bool forbidden = false;
	vm_fault_t ret;

	/* Unbind zaps all mappings after it has closed the gate. */
	if (!mxcd_gpu_tryenter(mem->gpu))
		return VM_FAULT_SIGBUS;
	ret = mas_vm_fault_entered(mem, vmf, &forbidden);
	mxcd_gpu_leave(mem->gpu);

	return forbidden ? mas_vm_may_pin(mem->gpu) : ret;
}

static vm_fault_t mas_vm_huge_fault(struct vm_fault *vmf, unsigned int order)
{
	struct vm_area_struct *vma = vmf->vma;
	struct mas_mem *mem = vma->vm_private_data;
	unsigned long addr = vmf->address & PMD_MASK;
	vm_fault_t ret = VM_FAULT_FALLBACK;

	/* Without a mark in huge page tables, the kernel would take it for pages. */
	if (!IS_ENABLED(CONFIG_ARCH_SUPPORTS_PMD_PFNMAP) || order != PMD_SHIFT - PAGE_SHIFT)
		return VM_FAULT_FALLBACK;
	if (vma->vm_flags & VM_MIXEDMAP || addr < vma->vm_start ||
	    addr + PMD_SIZE > vma->vm_end)
		return VM_FAULT_FALLBACK;

	if (!mxcd_gpu_tryenter(mem->gpu))
		return VM_FAULT_SIGBUS;
	if (!mxcd_gpu_has_lost(mem->gpu, mem->view.generation))
		ret = mas_vm_insert_huge(mem, vmf);
	mxcd_gpu_leave(mem->gpu);

	return ret;
}

/*
 * For debuggers, and /proc/PID/mem. The kernel has not looked at permissions: where it
 * does, not even a debugger writes to shared memory that is mapped for reading alone.
 */
static int mas_vm_access(struct vm_area_struct *vma, unsigned long addr, void *buf, int len,
			 int write)
{
	struct mas_mem *mem = vma->vm_private_data;
	unsigned long contig, pfn;
	void *vram;

	len = min_t(unsigned long, len, PAGE_SIZE - offset_in_page(addr));
	if (write && !(vma->vm_flags & VM_WRITE))
		return -EFAULT;
	if (!mas_mem_enter(mem))
		return -EFAULT;

	pfn = mas_view_page(&mem->view, mas_vm_offset(vma, addr & PAGE_MASK), &contig);
	vram = page_address(pfn_to_page(pfn)) + offset_in_page(addr);
	if (write)
		memcpy(vram, buf, len);
	else
		memcpy(buf, vram, len);
	mxcd_gpu_leave(mem->gpu);

	return len;
}

static const struct vm_operations_struct mas_vm_ops = {
	.open		= mas_vm_open,
	.close		= mas_vm_close,
	.mremap		= mas_vm_mremap,
	.fault		= mas_vm_fault,
	.huge_fault	= mas_vm_huge_fault,
	.access		= mas_vm_access,
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

/* mmap() with offset 0 on a context that has no handles. */
static int mas_mmap_alloc(struct mas_ctx *ctx, u64 length)
{
	u64 gpus = READ_ONCE(ctx->gpus) & mxcd_gpus_enabled();
	struct mxcd_mas_alloc args = { .length = length };
	struct mas_mem *mem;

	if (!mas_may_op(ctx, MXCD_MAS_OP_ALLOC))
		return -EPERM;
	if (!gpus)
		return -ENODEV;

	args.gpu = __ffs64(gpus);
	mem = mas_mem_alloc(ctx, &args, true);
	if (IS_ERR(mem))
		return PTR_ERR(mem);

	mas_mem_commit(ctx, args.handle, mem);
	return 0;
}

static struct mas_mem *mas_mmap_find(struct mas_ctx *ctx, struct vm_area_struct *vma)
{
	struct mas_mem *mem = mas_mem_get_by_pgoff(ctx, vma->vm_pgoff);
	int ret;

	if (!mem && !vma->vm_pgoff && xa_empty(&ctx->mems.all)) {
		ret = mas_mmap_alloc(ctx, vma->vm_end - vma->vm_start);
		/* Another thread may have been quicker. */
		if (ret && ret != -EEXIST)
			return ERR_PTR(ret);
		mem = mas_mem_get_by_pgoff(ctx, 0);
	}

	return mem ? mem : ERR_PTR(-ENOENT);
}

static bool mas_mmap_kind(const struct vm_area_struct *vma)
{
	return vma->vm_flags & VM_MAYSHARE && !(vma->vm_flags & VM_EXEC);
}

static bool mas_mmap_fits(const struct mas_mem *mem, struct vm_area_struct *vma)
{
	return vma->vm_pgoff >= mem->pgoff &&
	       vma->vm_pgoff - mem->pgoff + vma_pages(vma) <= PHYS_PFN(mem->size);
}

/* Shall the pages be in it? Not where it would be refused at once. */
static bool mas_mmap_pages(struct mas_mem *mem)
{
	bool pages;

	if (!mxcd_gpu_tryenter(mem->gpu))
		return false;
	pages = mas_gup_allowed(mem->gpu);
	mxcd_gpu_leave(mem->gpu);

	return pages;
}

/**
 * mas_mmap_mem - map memory
 * @mem: the memory; the reference of the caller goes to the mapping, or is dropped
 * @vma: the mapping
 *
 * Context: may sleep; mmap_lock is held for writing.
 * Return: 0 or -EINVAL (private or executable mapping, range beyond the memory).
 */
int mas_mmap_mem(struct mas_mem *mem, struct vm_area_struct *vma)
{
	vm_flags_t flags = VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY;

	if (!mas_mmap_fits(mem, vma) || !mas_mmap_kind(vma)) {
		mas_mem_put_sync(mem);
		return -EINVAL;
	}

	if (mas_mmap_pages(mem)) {
		mas_gup_mapped(mem);
		flags |= VM_MIXEDMAP;
	} else {
		flags |= VM_IO | VM_PFNMAP;
	}
	vm_flags_mod(vma, flags, VM_MAYEXEC);
	vma->vm_page_prot = pgprot_writecombine(vma->vm_page_prot);
	vma->vm_private_data = mem;
	vma->vm_ops = &mas_vm_ops;
	return 0;
}

/**
 * mas_mmap - map a handle
 * @ctx: the context
 * @vma: the mapping; its offset names the handle. Offset 0 in a context without
 *	handles allocates one.
 *
 * Context: may sleep; mmap_lock is held for writing.
 * Return: 0, -EINVAL (private or executable mapping, range beyond the handle),
 * -ENOENT, or what mas_mem_alloc() returns.
 */
int mas_mmap(struct mas_ctx *ctx, struct vm_area_struct *vma)
{
	struct mas_mem *mem;
	int ret;

	/* Before anything is allocated. */
	if (!mas_mmap_kind(vma))
		return -EINVAL;

	mem = mas_mmap_find(ctx, vma);
	if (IS_ERR(mem))
		return PTR_ERR(mem);

	ret = mas_mmap_mem(mem, vma);
	if (!ret)
		trace_mas_map(ctx, mem, PFN_PHYS(vma->vm_pgoff - mem->pgoff),
			      vma->vm_end - vma->vm_start);
	return ret;
}
