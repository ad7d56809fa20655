// SPDX-License-Identifier: GPL-2.0
/*
 * Provider "zone_device": page structs of our own, of type GENERIC.
 *
 * The kernel maps such pages for DMA as it maps RAM and asks nobody whether the
 * machine routes traffic between two devices; mas_route.c does.
 *
 * Unless the administrator wants that (mas_gup.c), no program can get hold of such a
 * page: they are mapped by VM_PFNMAP only. So they may be compound, which costs less
 * host RAM: the kernel keeps the page structs of a compound page's head and makes
 * the others share one page. References to any of them are those of the head then,
 * so pages that get_user_pages() may reach are single.
 */
#include <linux/huge_mm.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/pci.h>

#include "mas.h"

/* The largest compound pages that the window is made of; order 0: single pages. */
static unsigned int zone_order(const struct range *window)
{
	u64 ends = window->start | (window->end + 1);

	if (IS_ALIGNED(ends, PUD_SIZE))
		return PUD_SHIFT - PAGE_SHIFT;
	if (IS_ALIGNED(ends, PMD_SIZE))
		return PMD_SHIFT - PAGE_SHIFT;

	return 0;
}

/* Where page structs are shared, two pages of them are left of a compound page. */
static u64 zone_page_struct_bytes(struct dev_pagemap *pgmap)
{
	u64 nr = PHYS_PFN(range_len(&pgmap->range));

	if (!vmemmap_can_optimize(NULL, pgmap))
		return nr * sizeof(struct page);

	return (nr >> pgmap->vmemmap_shift) * 2 * PAGE_SIZE;
}

static int zone_add(struct mxcd_gpu *gpu)
{
	struct dev_pagemap *pgmap = &gpu->vram.pgmap;
	u64 start = pgmap->range.start, end = pgmap->range.end;
	void *va;

	pgmap->type = MEMORY_DEVICE_GENERIC;
	pgmap->nr_range = 1;
	gpu->vram.counted = mas_gup_wanted();
	pgmap->vmemmap_shift = gpu->vram.counted ? 0 : zone_order(&pgmap->range);

	va = devm_memremap_pages(&gpu->pdev->dev, pgmap);
	if (IS_ERR(va)) {
		mxcd_vram_off(gpu, "ZONE_DEVICE refused VRAM at 0x%llx-0x%llx (error %ld)",
			      start, end, PTR_ERR(va));
		return PTR_ERR(va);
	}

	gpu->vram.va = va;
	gpu->vram.page_struct_bytes = zone_page_struct_bytes(pgmap);
	return 0;
}

const struct mxcd_provider mxcd_zone_provider = {
	.name	= "zone_device",
	.add	= zone_add,
};
