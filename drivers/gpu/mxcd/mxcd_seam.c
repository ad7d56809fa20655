// SPDX-License-Identifier: GPL-2.0
/*
 * The seam: VRAM as the rest of MAS sees it, whoever has it. mxcd_vram.c is the first
 * to be behind it, with the BAR of a GPU that this driver is bound to; the driver of
 * another GPU is behind it when it has registered that. The functions that begin with
 * mas_gpu_ are in mxcd_drv.c, where GPUs come and go.
 */
#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "mxcd.h"

/**
 * mxcd_vram_alloc - allocate VRAM, contiguous or not
 * @gpu: the GPU, its gate held
 * @size: bytes, a multiple of MXCD_GRANULE and not 0
 * @bvecs: on success, the extents; end them with mxcd_vram_free() and kvfree()
 * @nr_bvecs: on success, their number
 *
 * The content is whatever was there: see mxcd_vram_clear().
 *
 * Context: may sleep.
 * Return: 0, -ENOSPC when there is not enough VRAM, -ENOMEM, or -EINTR when the
 * caller was killed. On failure nothing is allocated.
 */
int mxcd_vram_alloc(struct mxcd_gpu *gpu, u64 size, struct bio_vec **bvecs,
		    unsigned int *nr_bvecs)
{
	const struct mas_vram_ops *ops = gpu->vram.ops;
	int ret;

	ret = ops->resolve(gpu->vram.priv, size, bvecs, nr_bvecs);
	if (ret || !ops->hold)
		return ret;

	ret = ops->hold(gpu->vram.priv, *bvecs, *nr_bvecs);
	if (ret) {
		ops->release(gpu->vram.priv, *bvecs, *nr_bvecs);
		kvfree(*bvecs);
	}

	return ret;
}

/**
 * mxcd_vram_free - give extents back
 * @gpu: the GPU; its VRAM is still registered
 * @bvecs: extents that mxcd_vram_alloc() returned; the array stays
 * @nr_bvecs: number of them
 *
 * Context: may sleep.
 */
void mxcd_vram_free(struct mxcd_gpu *gpu, struct bio_vec *bvecs, unsigned int nr_bvecs)
{
	gpu->vram.ops->release(gpu->vram.priv, bvecs, nr_bvecs);
}

/**
 * mxcd_vram_used - VRAM that is allocated
 * @gpu: the GPU; its VRAM is registered, or vram.size is 0
 *
 * Context: any.
 * Return: bytes.
 */
u64 mxcd_vram_used(struct mxcd_gpu *gpu)
{
	return gpu->vram.size ? gpu->vram.ops->used(gpu->vram.priv) : 0;
}

/**
 * mxcd_vram_revoked - nothing uses the VRAM of a GPU any more
 * @gpu: a GPU whose gate is drained and whose VRAM is all freed
 *
 * Context: may sleep.
 */
void mxcd_vram_revoked(struct mxcd_gpu *gpu)
{
	gpu->vram.size = 0;
	gpu->vram.ops->revoked(gpu->vram.priv);
}

static bool mxcd_desc_is_sane(const struct mas_vram_desc *desc)
{
	const struct mas_vram_ops *ops = desc->ops;

	return desc->name && desc->bar >= 0 && desc->bar < PCI_STD_NUM_BARS && desc->va &&
	       ops && ops->resolve && ops->release && ops->used &&
	       ops->revoked && desc->size && IS_ALIGNED(desc->size | desc->base, MXCD_GRANULE) &&
	       IS_ALIGNED(desc->scratch, PAGE_SIZE) && desc->scratch >= desc->base + desc->size;
}

/**
 * mxcd_vram_adopt - take the VRAM of another driver for that of a GPU
 * @gpu: a GPU that is not published yet
 * @desc: the VRAM
 *
 * Context: any.
 * Return: 0 or -EINVAL.
 */
int mxcd_vram_adopt(struct mxcd_gpu *gpu, const struct mas_vram_desc *desc)
{
	struct mxcd_vram *vram = &gpu->vram;

	if (!mxcd_desc_is_sane(desc))
		return -EINVAL;

	gpu->foreign.name = desc->name;
	gpu->foreign.bar = desc->bar;
	gpu->chip = &gpu->foreign;
	vram->ops = desc->ops;
	vram->priv = desc->priv;
	vram->base = desc->base;
	vram->va = desc->va;
	vram->size = desc->size;
	vram->scratch_base = desc->scratch;
	vram->counted = desc->counted;
	vram->pgmap.range.start = desc->base;
	vram->pgmap.range.end = desc->scratch + MXCD_SCRATCH - 1;
	return 0;
}
