// SPDX-License-Identifier: GPL-2.0
/*
 * dma-buf: a handle, or a range of it, in the hands of another process or of another
 * driver.
 *
 * A process passes the descriptor on, and whoever gets it makes a handle of it in a
 * context of its own (import), or maps it. The memory lives until the last of them
 * lets go. Buffers of other drivers cannot be imported: they have no page structs
 * that the block layer could be given.
 *
 * A driver whose device is to reach VRAM attaches to the buffer. It must be able to
 * address a peer and to give the mapping up when it is told to. Each of its mappings
 * holds the gate of the GPU: unbind closes the gate, tells all of them, and waits for
 * the gate as it does for requests.
 */
#include <linux/dma-buf-mapping.h>
#include <linux/dma-buf.h>
#include <linux/dma-resv.h>
#include <linux/fcntl.h>
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/pci-p2pdma.h>
#include <linux/slab.h>

#include "mas.h"

/**
 * struct mas_dmabuf - memory that was exported
 * @dmabuf: the buffer, whose private data this is
 * @mem: the memory, a reference is held
 * @node: on mas_dmabufs
 */
struct mas_dmabuf {
	struct dma_buf *dmabuf;
	struct mas_mem *mem;
	struct list_head node;
};

/*
 * Protects the list. Outside of the reservation lock of a buffer. Who holds it keeps
 * the buffers on the list: their release takes it.
 */
static DEFINE_MUTEX(mas_dmabufs_lock);
static LIST_HEAD(mas_dmabufs);

/**
 * mas_dmabuf_prepare - let other drivers attach to dma-bufs of a GPU, if the kernel can
 * @gpu: a GPU that is being bound
 *
 * What that takes goes with the binding.
 *
 * Context: probe() of the driver of @gpu; may sleep.
 */
void mas_dmabuf_prepare(struct mxcd_gpu *gpu)
{
	gpu->vram.peers = !pcim_p2pdma_init(gpu->pdev);
}

static int mas_dmabuf_attach(struct dma_buf *dmabuf, struct dma_buf_attachment *attach)
{
	struct mas_dmabuf *buf = dmabuf->priv;
	struct mxcd_gpu *gpu = buf->mem->gpu;
	int ret = 0;

	if (!attach->peer2peer || !dma_buf_attach_revocable(attach))
		return -EOPNOTSUPP;
	if (!gpu->vram.peers)
		return -EREMOTEIO;
	if (!mxcd_gpu_tryenter(gpu))
		return -ENODEV;

	/* Otherwise the kernel asks when the buffer is mapped. */
	if (!IS_ENABLED(CONFIG_PCI_P2PDMA) &&
	    (!dev_is_pci(attach->dev) || mas_pci_peer_reason(to_pci_dev(attach->dev), gpu)))
		ret = -EREMOTEIO;
	mxcd_gpu_leave(gpu);

	return ret;
}

/* Memory of a handle never moves. */
static int mas_dmabuf_pin(struct dma_buf_attachment *attach)
{
	return 0;
}

static void mas_dmabuf_unpin(struct dma_buf_attachment *attach)
{
}

static struct sg_table *mas_dmabuf_to_sgt(struct dma_buf_attachment *attach,
					  struct mas_mem *mem, enum dma_data_direction dir)
{
	struct p2pdma_provider *provider;
	struct phys_vec *vec;
	struct sg_table *sgt;
	unsigned int i;

	provider = pcim_p2pdma_provider(mem->gpu->pdev, mem->gpu->chip->bar);
	if (!provider)
		return ERR_PTR(-EREMOTEIO);

	vec = kvmalloc_array(mem->nr_bvecs, sizeof(*vec), GFP_KERNEL);
	if (!vec)
		return ERR_PTR(-ENOMEM);

	for (i = 0; i < mem->nr_bvecs; i++) {
		vec[i].paddr = page_to_phys(mem->bvecs[i].bv_page);
		vec[i].len = mem->bvecs[i].bv_len;
	}
	sgt = dma_buf_phys_vec_to_sgt(attach, provider, vec, mem->nr_bvecs, mem->size, dir);
	kvfree(vec);

	return sgt;
}

static struct sg_table *mas_dmabuf_map(struct dma_buf_attachment *attach,
				       enum dma_data_direction dir)
{
	struct mas_dmabuf *buf = attach->dmabuf->priv;
	struct mas_mem *mem = buf->mem;
	struct sg_table *sgt;

	if (!mas_mem_enter(mem))
		return ERR_PTR(-ENODEV);

	sgt = mas_dmabuf_to_sgt(attach, mem, dir);
	if (IS_ERR(sgt))
		mxcd_gpu_leave(mem->gpu);

	return sgt;
}

static void mas_dmabuf_unmap(struct dma_buf_attachment *attach, struct sg_table *sgt,
			     enum dma_data_direction dir)
{
	struct mas_dmabuf *buf = attach->dmabuf->priv;

	/* 0 tells that there are no pages, and frees no entry: they would be lost. */
	if (!sgt->orig_nents)
		sgt->orig_nents = sgt->nents;
	dma_buf_free_sgt(attach, sgt, dir);
	mxcd_gpu_leave(buf->mem->gpu);
}

static int mas_dmabuf_begin_cpu(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	struct mas_dmabuf *buf = dmabuf->priv;

	if (!mxcd_gpu_tryenter(buf->mem->gpu))
		return -ENODEV;
	mxcd_vram_flush(buf->mem->gpu);
	mxcd_gpu_leave(buf->mem->gpu);

	return 0;
}

static int mas_dmabuf_end_cpu(struct dma_buf *dmabuf, enum dma_data_direction dir)
{
	wmb(); /* drain the write-combining buffers before a device looks */
	return 0;
}

static int mas_dmabuf_mmap(struct dma_buf *dmabuf, struct vm_area_struct *vma)
{
	struct mas_dmabuf *buf = dmabuf->priv;

	refcount_inc(&buf->mem->ref);
	return mas_mmap_mem(buf->mem, vma);
}

static void mas_dmabuf_release(struct dma_buf *dmabuf)
{
	struct mas_dmabuf *buf = dmabuf->priv;

	mutex_lock(&mas_dmabufs_lock);
	list_del(&buf->node);
	mutex_unlock(&mas_dmabufs_lock);

	mas_mem_put_sync(buf->mem);
	kfree(buf);
}

static const struct dma_buf_ops mas_dmabuf_ops = {
	.attach			= mas_dmabuf_attach,
	.pin			= mas_dmabuf_pin,
	.unpin			= mas_dmabuf_unpin,
	.map_dma_buf		= mas_dmabuf_map,
	.unmap_dma_buf		= mas_dmabuf_unmap,
	.begin_cpu_access	= mas_dmabuf_begin_cpu,
	.end_cpu_access		= mas_dmabuf_end_cpu,
	.mmap			= mas_dmabuf_mmap,
	.release		= mas_dmabuf_release,
};

/* Takes over the reference to @mem, but for an error. */
static struct dma_buf *mas_dmabuf_create(struct mas_mem *mem)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct mas_dmabuf *buf;
	struct dma_buf *dmabuf;

	buf = kzalloc(sizeof(*buf), GFP_KERNEL_ACCOUNT);
	if (!buf)
		return ERR_PTR(-ENOMEM);

	buf->mem = mem;
	info.exp_name = MXCD_NAME;
	info.ops = &mas_dmabuf_ops;
	info.size = mem->size;
	info.flags = O_RDWR | O_CLOEXEC;
	info.priv = buf;

	mutex_lock(&mas_dmabufs_lock);
	dmabuf = dma_buf_export(&info);
	if (!IS_ERR(dmabuf)) {
		buf->dmabuf = dmabuf;
		mas_dev_adopt(dmabuf->file);
		list_add_tail(&buf->node, &mas_dmabufs);
	}
	mutex_unlock(&mas_dmabufs_lock);
	if (IS_ERR(dmabuf))
		kfree(buf);

	return dmabuf;
}

static bool mas_dmabuf_range(const struct mxcd_mas_export *args, const struct mas_mem *mem)
{
	return PAGE_ALIGNED(args->offset) && PAGE_ALIGNED(args->length) && args->length &&
	       args->offset <= mem->size && args->length <= mem->size - args->offset;
}

static struct dma_buf *mas_dmabuf_export_mem(struct mas_mem *mem,
					     const struct mxcd_mas_export *args)
{
	struct dma_buf *dmabuf;
	struct mas_mem *part;

	if (!mas_dmabuf_range(args, mem))
		return ERR_PTR(-EINVAL);
	if (!mas_mem_enter(mem))
		return ERR_PTR(-ENODEV);

	/* Charged to the handle's context, for as long as this lives. */
	part = mas_mem_part(mem, args->offset, args->length, NULL);
	mxcd_gpu_leave(mem->gpu);
	if (IS_ERR(part))
		return ERR_CAST(part);

	dmabuf = mas_dmabuf_create(part);
	if (IS_ERR(dmabuf))
		mas_mem_put_sync(part);

	return dmabuf;
}

/**
 * mas_dmabuf_export - ioctl(MXCD_MAS_EXPORT)
 * @ctx: the context
 * @args: in and out, &struct mxcd_mas_export
 *
 * Context: may sleep.
 * Return: the buffer, to be given to the caller by mas_dmabuf_end(), or an errno as
 * documented there.
 */
struct dma_buf *mas_dmabuf_export(struct mas_ctx *ctx, struct mxcd_mas_export *args)
{
	struct dma_buf *dmabuf;
	struct mas_mem *mem;

	if (args->flags)
		return ERR_PTR(-EINVAL);

	mem = mas_mem_get(ctx, args->handle);
	if (!mem)
		return ERR_PTR(-ENOENT);

	dmabuf = mas_dmabuf_export_mem(mem, args);
	mas_mem_put_sync(mem);
	if (IS_ERR(dmabuf))
		return dmabuf;

	args->out_fd = get_unused_fd_flags(O_CLOEXEC);
	if (args->out_fd < 0) {
		dma_buf_put(dmabuf);
		return ERR_PTR(args->out_fd);
	}

	return dmabuf;
}

/**
 * mas_dmabuf_end - end of mas_dmabuf_export()
 * @args: as given to it
 * @dmabuf: what it returned; not to be touched afterwards
 * @told: the caller knows its descriptor
 *
 * Context: may sleep.
 */
void mas_dmabuf_end(const struct mxcd_mas_export *args, struct dma_buf *dmabuf, bool told)
{
	if (told) {
		fd_install(args->out_fd, dmabuf->file);
	} else {
		put_unused_fd(args->out_fd);
		dma_buf_put(dmabuf);
	}
}

static struct mas_mem *mas_dmabuf_part(struct mas_ctx *ctx, struct dma_buf *dmabuf)
{
	struct mas_dmabuf *buf = dmabuf->priv;
	struct mas_mem *part;

	if (dmabuf->ops != &mas_dmabuf_ops)
		return ERR_PTR(-EOPNOTSUPP);
	if (!(READ_ONCE(ctx->gpus) & BIT_ULL(buf->mem->gpu->index)))
		return ERR_PTR(-ENOENT);
	if (!mas_mem_enter(buf->mem))
		return ERR_PTR(-ENODEV);

	part = mas_mem_part(buf->mem, 0, buf->mem->size, ctx->quota);
	mxcd_gpu_leave(buf->mem->gpu);

	return part;
}

static struct mas_mem *mas_dmabuf_import_fd(struct mas_ctx *ctx, int fd)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct mas_mem *mem;
	int ret;

	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);

	mem = mas_dmabuf_part(ctx, dmabuf);
	dma_buf_put(dmabuf);
	if (IS_ERR(mem))
		return mem;

	ret = mas_mem_place(ctx, mem, false);
	if (ret) {
		mas_mem_put_sync(mem);
		return ERR_PTR(ret);
	}

	return mem;
}

/**
 * mas_dmabuf_import - ioctl(MXCD_MAS_IMPORT)
 * @ctx: the context
 * @args: in and out, &struct mxcd_mas_import
 *
 * Context: may sleep.
 * Return: the memory, for mas_mem_commit() or mas_mem_abort(), or an errno as
 * documented there.
 */
struct mas_mem *mas_dmabuf_import(struct mas_ctx *ctx, struct mxcd_mas_import *args)
{
	struct mas_mem *mem;
	int ret;

	if (args->flags)
		return ERR_PTR(-EINVAL);

	ret = mas_id_reserve(&ctx->mems, &args->handle);
	if (ret)
		return ERR_PTR(ret);

	mem = mas_dmabuf_import_fd(ctx, args->fd);
	if (IS_ERR(mem)) {
		mas_id_release(&ctx->mems, args->handle);
		return mem;
	}

	args->out_length = mem->size;
	args->out_mmap_offset = PFN_PHYS(mem->pgoff);
	args->out_gpu = mem->gpu->index;
	args->out_extents = mem->nr_bvecs;
	return mem;
}

/**
 * mas_dmabuf_revoke - have drivers give up what they have mapped
 * @gpu: a GPU whose gate is closed
 *
 * Each of their mappings holds the gate; they end theirs soon.
 *
 * Context: may sleep.
 */
void mas_dmabuf_revoke(struct mxcd_gpu *gpu)
{
	struct mas_dmabuf *buf;

	mutex_lock(&mas_dmabufs_lock);
	list_for_each_entry(buf, &mas_dmabufs, node) {
		if (buf->mem->gpu != gpu)
			continue;
		dma_resv_lock(buf->dmabuf->resv, NULL);
		dma_buf_invalidate_mappings(buf->dmabuf);
		dma_resv_wait_timeout(buf->dmabuf->resv, DMA_RESV_USAGE_BOOKKEEP, false,
				      MAX_SCHEDULE_TIMEOUT);
		dma_resv_unlock(buf->dmabuf->resv);
	}
	mutex_unlock(&mas_dmabufs_lock);
}

MODULE_IMPORT_NS("DMA_BUF");
