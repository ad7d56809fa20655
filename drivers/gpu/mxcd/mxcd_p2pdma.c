// SPDX-License-Identifier: GPL-2.0
/*
 * Provider "p2pdma": page structs from the kernel's PCI P2PDMA.
 *
 * The kernel knows these pages for what they are. Whoever maps one for DMA is
 * given the address that the way between the two devices needs, or an error where
 * the kernel knows of no way: its veto.
 *
 * The pool is taken whole, once, so that nobody else can allocate from it (P2PDMA
 * gives it a file in sysfs that programs can map), and VRAM is handed out from it
 * as with the other provider.
 *
 * Programs may pin these pages for direct I/O, never for longer than that, and the
 * kernel hands them to no device that cannot reach them.
 *
 * How many references an idle page has depends on the kernel: one, or none. A
 * page with none must not be referenced, not even for a moment: when the reference
 * goes, P2PDMA takes the page back although it was not freed. So pages have one
 * reference while they are ours, and what they had when the pool gets them back.
 */
#include <linux/mm.h>
#include <linux/page_ref.h>
#include <linux/pci-p2pdma.h>
#include <linux/pci.h>

#include "mxcd.h"

static struct page *p2pdma_page(struct mxcd_vram *vram, u64 nr)
{
	return pfn_to_page(PHYS_PFN(vram->pgmap.range.start) + nr);
}

static u64 p2pdma_nr_pages(const struct mxcd_vram *vram)
{
	return PHYS_PFN(range_len(&vram->pgmap.range));
}

static void p2pdma_take_pages(struct mxcd_vram *vram)
{
	u64 i;

	vram->page_base = page_ref_count(p2pdma_page(vram, 0));
	for (i = 0; i < p2pdma_nr_pages(vram); i++) {
		set_page_count(p2pdma_page(vram, i), 1);
		if (IS_ALIGNED(i, SZ_64K))
			cond_resched();
	}
}

static void p2pdma_return_pages(struct mxcd_vram *vram)
{
	struct page *page;
	u64 i;

	for (i = 0; i < p2pdma_nr_pages(vram); i++) {
		page = p2pdma_page(vram, i);
		/* mas_gup_wait() has waited for that: a bug, here or elsewhere. */
		WARN_ON_ONCE(page_ref_count(page) != 1);
		set_page_count(page, vram->page_base);
		if (IS_ALIGNED(i, SZ_64K))
			cond_resched();
	}
}

static int p2pdma_add(struct mxcd_gpu *gpu)
{
	struct mxcd_vram *vram = &gpu->vram;
	struct pci_dev *pdev = gpu->pdev;
	u64 size = range_len(&vram->pgmap.range);
	int ret;

	ret = pci_p2pdma_add_resource(pdev, gpu->chip->bar, size, vram->pgmap.range.start -
				      pci_resource_start(pdev, gpu->chip->bar));
	if (ret) {
		mxcd_vram_off(gpu, "P2PDMA refused VRAM at 0x%llx-0x%llx (error %d)",
			      vram->pgmap.range.start, vram->pgmap.range.end, ret);
		return ret;
	}

	vram->va = pci_alloc_p2pmem(pdev, size);
	if (!vram->va) {
		mxcd_vram_off(gpu, "P2PDMA does not give VRAM at 0x%llx-0x%llx away whole",
			      vram->pgmap.range.start, vram->pgmap.range.end);
		return -EBUSY;
	}

	vram->page_struct_bytes = p2pdma_nr_pages(vram) * sizeof(struct page);
	p2pdma_take_pages(vram);
	vram->counted = true;
	return 0;
}

static void p2pdma_del(struct mxcd_gpu *gpu)
{
	struct mxcd_vram *vram = &gpu->vram;

	p2pdma_return_pages(vram);
	pci_free_p2pmem(gpu->pdev, vram->va, range_len(&vram->pgmap.range));
}

static bool p2pdma_veto(struct mxcd_gpu *gpu, struct pci_dev *storage)
{
	return pci_p2pdma_distance(gpu->pdev, &storage->dev, false) < 0;
}

static const char *p2pdma_unusable(void)
{
	if (!IS_ENABLED(CONFIG_PCI_P2PDMA))
		return "the kernel has no PCI_P2PDMA";
#ifdef MXCD_P2PDMA_UNUSABLE
	return MXCD_P2PDMA_UNUSABLE;
#endif
	return NULL;
}

const struct mxcd_provider mxcd_p2pdma_provider = {
	.name		= "p2pdma",
	.add		= p2pdma_add,
	.del		= p2pdma_del,
	.unusable	= p2pdma_unusable,
	.veto		= p2pdma_veto,
};
