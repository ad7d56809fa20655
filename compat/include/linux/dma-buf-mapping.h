/* SPDX-License-Identifier: GPL-2.0 */
/*
 * 6.19: how exporters of memory without page structs give it to another device. Kernels
 * before find this file instead of theirs: memory of this driver has page structs, so
 * the mapping is made by these.
 */
#ifndef _MXCD_COMPAT_DMA_BUF_MAPPING_H
#define _MXCD_COMPAT_DMA_BUF_MAPPING_H

#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/pci.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>

struct phys_vec {
	phys_addr_t	paddr;
	size_t		len;
};

struct p2pdma_provider {
	int unused;
};

static inline int pcim_p2pdma_init(struct pci_dev *pdev)
{
	return 0;
}

static inline struct p2pdma_provider *pcim_p2pdma_provider(struct pci_dev *pdev, int bar)
{
	static struct p2pdma_provider provider;

	return &provider;
}

static inline bool dma_buf_attach_revocable(struct dma_buf_attachment *attach)
{
	return attach->importer_ops && attach->importer_ops->move_notify;
}

#define dma_buf_invalidate_mappings	dma_buf_move_notify
#define invalidate_mappings		move_notify

static inline struct sg_table *
dma_buf_phys_vec_to_sgt(struct dma_buf_attachment *attach, struct p2pdma_provider *provider,
			struct phys_vec *vec, size_t nr, size_t size,
			enum dma_data_direction dir)
{
	struct sg_table *sgt = kzalloc(sizeof(*sgt), GFP_KERNEL);
	struct scatterlist *sg;
	unsigned int i;
	int ret;

	if (!sgt)
		return ERR_PTR(-ENOMEM);

	ret = sg_alloc_table(sgt, nr, GFP_KERNEL);
	if (ret)
		goto err_free;
	for_each_sgtable_sg(sgt, sg, i)
		sg_set_page(sg, pfn_to_page(PHYS_PFN(vec[i].paddr)), vec[i].len, 0);

	ret = dma_map_sgtable(attach->dev, sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
	if (ret)
		goto err_table;

	return sgt;

err_table:
	sg_free_table(sgt);
err_free:
	kfree(sgt);
	return ERR_PTR(ret);
}

static inline void dma_buf_free_sgt(struct dma_buf_attachment *attach, struct sg_table *sgt,
				    enum dma_data_direction dir)
{
	dma_unmap_sgtable(attach->dev, sgt, dir, DMA_ATTR_SKIP_CPU_SYNC);
	sg_free_table(sgt);
	kfree(sgt);
}

#endif /* _MXCD_COMPAT_DMA_BUF_MAPPING_H */
