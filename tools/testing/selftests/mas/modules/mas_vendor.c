// SPDX-License-Identifier: GPL-2.0
/*
 * The driver of another GPU, for the tests: it binds a stand-in by driver_override, makes
 * page structs for its BAR 0, and lets MAS serve them. Its allocator is of another kind
 * than that of mxcd: from the end, and in pieces that do not meet.
 */
#include <linux/bitmap.h>
#include <linux/bvec.h>
#include <linux/io.h>
#include <linux/mas_gpu.h>
#include <linux/memremap.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>

#define VENDOR_BAR	0
#define VENDOR_MAX	1024	/* granules */

struct vendor {
	struct mutex lock; /* protects what follows */
	DECLARE_BITMAP(taken, VENDOR_MAX);
	unsigned int nr_taken;
	unsigned int nr_held;
	unsigned int nr;	/* granules that can be handed out */
	struct dev_pagemap pgmap;
	phys_addr_t base;
	struct mxcd_gpu *gpu;
	bool revoked;
};

static void vendor_give_back(struct vendor *v, struct bio_vec *bvecs, unsigned int nr)
{
	unsigned int i, granule;

	for (i = 0; i < nr; i++) {
		granule = (page_to_phys(bvecs[i].bv_page) - v->base) / MAS_GRANULE;
		WARN_ON(!test_bit(granule, v->taken));
		clear_bit(granule, v->taken);
		v->nr_taken--;
	}
}

/* The even ones first, from the end, so that no two of them meet. */
static unsigned int vendor_take(struct vendor *v)
{
	unsigned int step, i;

	for (step = 0; step < 2; step++)
		for (i = v->nr; i-- > 0;)
			if (i % 2 == step && !test_and_set_bit(i, v->taken))
				return i;

	return v->nr;
}

static int vendor_resolve(void *priv, u64 size, struct bio_vec **bvecs, unsigned int *nr)
{
	unsigned int i, granule, count = size / MAS_GRANULE;
	struct vendor *v = priv;
	struct bio_vec *vec;

	vec = kvmalloc_array(count, sizeof(*vec), GFP_KERNEL);
	if (!vec)
		return -ENOMEM;

	mutex_lock(&v->lock);
	for (i = 0; i < count; i++) {
		granule = vendor_take(v);
		if (granule == v->nr)
			break;
		v->nr_taken++;
		bvec_set_page(&vec[i],
			      pfn_to_page(PHYS_PFN(v->base + (u64)granule * MAS_GRANULE)),
			      MAS_GRANULE, 0);
	}
	if (i < count)
		vendor_give_back(v, vec, i);
	mutex_unlock(&v->lock);
	if (i < count) {
		kvfree(vec);
		return -ENOSPC;
	}

	*bvecs = vec;
	*nr = count;
	return 0;
}

static int vendor_hold(void *priv, const struct bio_vec *bvecs, unsigned int nr)
{
	struct vendor *v = priv;

	mutex_lock(&v->lock);
	v->nr_held += nr;
	mutex_unlock(&v->lock);
	return 0;
}

static void vendor_release(void *priv, struct bio_vec *bvecs, unsigned int nr)
{
	struct vendor *v = priv;

	mutex_lock(&v->lock);
	vendor_give_back(v, bvecs, nr);
	v->nr_held -= nr;
	mutex_unlock(&v->lock);
}

static u64 vendor_used(void *priv)
{
	struct vendor *v = priv;

	return (u64)READ_ONCE(v->nr_taken) * MAS_GRANULE;
}

static void vendor_revoked(void *priv)
{
	struct vendor *v = priv;

	WARN_ON(v->nr_taken || v->nr_held || v->revoked);
	v->revoked = true;
}

static const struct mas_vram_ops vendor_ops = {
	.resolve	= vendor_resolve,
	.hold		= vendor_hold,
	.release	= vendor_release,
	.used		= vendor_used,
	.revoked	= vendor_revoked,
};

/* Write-combining before the page structs are made, or the direct map would not be. */
static void *vendor_make_pages(struct pci_dev *pdev, struct vendor *v)
{
	struct dev_pagemap *pgmap = &v->pgmap;
	u64 len = pci_resource_len(pdev, VENDOR_BAR);
	int ret;

	v->base = pci_resource_start(pdev, VENDOR_BAR);
	v->nr = min_t(u64, len / MAS_GRANULE, VENDOR_MAX) - 1;
	ret = devm_arch_io_reserve_memtype_wc(&pdev->dev, v->base, len);
	if (ret)
		return ERR_PTR(ret);

	pgmap->type = MEMORY_DEVICE_GENERIC;
	pgmap->range.start = v->base;
	pgmap->range.end = v->base + len - 1;
	pgmap->nr_range = 1;
	return devm_memremap_pages(&pdev->dev, pgmap);
}

static int vendor_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct mas_vram_desc desc = {
		.name	= "mas_vendor",
		.bar	= VENDOR_BAR,
		.ops	= &vendor_ops,
	};
	struct vendor *v;
	int ret;

	v = devm_kzalloc(&pdev->dev, sizeof(*v), GFP_KERNEL);
	if (!v)
		return -ENOMEM;
	mutex_init(&v->lock);

	ret = pcim_enable_device(pdev);
	if (!ret)
		ret = pci_request_region(pdev, VENDOR_BAR, "mas_vendor");
	if (ret)
		return ret;

	desc.va = vendor_make_pages(pdev, v);
	if (IS_ERR(desc.va)) {
		ret = PTR_ERR(desc.va);
		goto err_region;
	}

	desc.base = v->base;
	desc.size = (u64)v->nr * MAS_GRANULE;
	desc.scratch = v->base + desc.size;
	desc.priv = v;
	v->gpu = mas_gpu_register(pdev, &desc);
	if (IS_ERR(v->gpu)) {
		ret = PTR_ERR(v->gpu);
		goto err_region;
	}

	pci_set_drvdata(pdev, v);
	return 0;

err_region:
	pci_release_region(pdev, VENDOR_BAR);
	return ret;
}

static void vendor_remove(struct pci_dev *pdev)
{
	struct vendor *v = pci_get_drvdata(pdev);

	mas_gpu_unregister(v->gpu);
	WARN_ON(!v->revoked);
	pci_release_region(pdev, VENDOR_BAR);
}

/* Bound by driver_override alone. */
static const struct pci_device_id vendor_ids[] = {
	{ }
};

static struct pci_driver vendor_driver = {
	.name		= "mas_vendor",
	.id_table	= vendor_ids,
	.probe		= vendor_probe,
	.remove		= vendor_remove,
};
module_pci_driver(vendor_driver);

MODULE_DESCRIPTION("Another driver's VRAM, for the selftests of MAS");
MODULE_LICENSE("GPL");
