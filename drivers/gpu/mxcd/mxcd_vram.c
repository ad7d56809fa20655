// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM behind a BAR: the window, who makes its pages, allocation, clearing.
 *
 * The order of registration matters. The kernel takes the memory type of a
 * direct mapping from what is reserved for the range at that moment. Without a
 * write-combining reservation the BAR would be mapped write-back on many
 * machines; a peer's DMA is not snooped then, and dirty cache lines would
 * overwrite later what a disk has written. No emulator shows that, so
 * write-combining is a condition, not a wish.
 *
 * Free space is kept by genalloc in physical addresses. An allocation is a list
 * of extents, described by one bio_vec each and never longer than 1 GiB, since
 * bv_len is 32 bits wide.
 */
#include <linux/bitmap.h>
#include <linux/bits.h>
#include <linux/bvec.h>
#include <linux/device.h>
#include <linux/genalloc.h>
#include <linux/io.h>
#include <linux/memory_hotplug.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#ifdef CONFIG_X86
#include <asm/memtype.h>
#endif

#include "mxcd.h"

#define MXCD_EXTENT_MAX	SZ_1G

/* More than any BAR has; keeps the sums below 64 bits. */
#define MXCD_MARGIN_MAX_MB	BIT_ULL(32)

/* Cleared in steps, so that a kill is heard. */
#define MXCD_CLEAR_STEP	SZ_2M

static long vram_head_mb = -1;
module_param(vram_head_mb, long, 0444);
MODULE_PARM_DESC(vram_head_mb,
		 "MiB at the start of VRAM to leave alone (default -1: as the chip needs)");

static long vram_tail_mb = -1;
module_param(vram_tail_mb, long, 0444);
MODULE_PARM_DESC(vram_tail_mb,
		 "MiB at the end of VRAM to leave alone (default -1: as the chip needs)");

/* The values of the parameter; p2pdma is what AUTO tries first. */
enum { MXCD_PROVIDER_AUTO, MXCD_PROVIDER_ZONE_DEVICE, MXCD_PROVIDER_P2PDMA };

static const char * const mxcd_provider_names[] = {
	[MXCD_PROVIDER_AUTO]		= "auto",
	[MXCD_PROVIDER_ZONE_DEVICE]	= "zone_device",
	[MXCD_PROVIDER_P2PDMA]		= "p2pdma",
};

static int mxcd_provider = MXCD_PROVIDER_AUTO;

static int mxcd_provider_set(const char *val, const struct kernel_param *kp)
{
	int ret = sysfs_match_string(mxcd_provider_names, val);

	if (ret < 0)
		return ret;

	mxcd_provider = ret;
	return 0;
}

static int mxcd_provider_get(char *buf, const struct kernel_param *kp)
{
	return sysfs_emit(buf, "%s\n", mxcd_provider_names[mxcd_provider]);
}

static const struct kernel_param_ops mxcd_provider_ops = {
	.set = mxcd_provider_set,
	.get = mxcd_provider_get,
};

module_param_cb(provider, &mxcd_provider_ops, NULL, 0444);
MODULE_PARM_DESC(provider,
		 "Who makes the page structs of VRAM: zone_device, p2pdma or auto (default: p2pdma where the kernel has it)");

/**
 * mxcd_vram_off - say why a GPU is without MAS
 * @gpu: a GPU that is being bound
 * @fmt: the reason, as for printf()
 *
 * Context: any.
 */
void mxcd_vram_off(struct mxcd_gpu *gpu, const char *fmt, ...)
{
	struct va_format vaf;
	va_list args;

	va_start(args, fmt);
	vaf.fmt = fmt;
	vaf.va = &args;
	snprintf(gpu->state, sizeof(gpu->state), "off: %pV", &vaf);
	va_end(args);
}

static u64 mxcd_vram_margin(long mb, u64 chip)
{
	return mb < 0 ? chip : min_t(u64, mb, MXCD_MARGIN_MAX_MB) << 20;
}

/* What the device says its BAR can be resized to, in MiB; 0: it cannot. */
static u64 mxcd_vram_resizable(struct mxcd_gpu *gpu)
{
	u64 sizes = pci_rebar_get_possible_sizes(gpu->pdev, gpu->chip->bar);

	return sizes ? BIT_ULL(fls64(sizes) - 1) : 0;
}

static void mxcd_vram_too_small(struct mxcd_gpu *gpu, u64 len, u64 head, u64 tail)
{
	u64 max = mxcd_vram_resizable(gpu);
	char hint[48] = "";

	if (max > len >> 20)
		snprintf(hint, sizeof(hint), "; it can be resized to %llu MiB", max);
	mxcd_vram_off(gpu, "BAR %d: of %llu MiB, %llu + %llu MiB are to be left alone%s",
		      gpu->chip->bar, len >> 20, head >> 20, tail >> 20, hint);
}

/* The part of the BAR that MAS may use, as the kernel can register it. */
static int mxcd_vram_window(struct mxcd_gpu *gpu)
{
	u64 align = max_t(u64, memremap_compat_align(), SZ_2M);
	u64 len = pci_resource_len(gpu->pdev, gpu->chip->bar);
	u64 head = mxcd_vram_margin(vram_head_mb, gpu->chip->head);
	u64 tail = mxcd_vram_margin(vram_tail_mb, gpu->chip->tail);
	u64 start, end;

	if (!len) {
		mxcd_vram_off(gpu, "BAR %d has no address", gpu->chip->bar);
		return -ENODEV;
	}
	if (head >= len || tail >= len - head) {
		mxcd_vram_too_small(gpu, len, head, tail);
		return -ENOSPC;
	}

	start = ALIGN(pci_resource_start(gpu->pdev, gpu->chip->bar) + head, align);
	end = ALIGN_DOWN(pci_resource_end(gpu->pdev, gpu->chip->bar) + 1 - tail, align);
	if (start >= end) {
		mxcd_vram_off(gpu, "%llu KiB of BAR %d hold no whole unit of %llu KiB",
			      (len - head - tail) >> 10, gpu->chip->bar, align >> 10);
		return -ENOSPC;
	}

	gpu->vram.base = start;
	gpu->vram.pgmap.range.start = start;
	gpu->vram.pgmap.range.end = end - 1;
	return 0;
}

/* Can the kernel's direct map hold the window? KASLR may have cut it short. */
static int mxcd_vram_reachable(struct mxcd_gpu *gpu)
{
	const struct range *window = &gpu->vram.pgmap.range;
	struct range map = mhp_get_pluggable_range(true);

	if (window->start >= map.start && window->end <= map.end)
		return 0;

	mxcd_vram_off(gpu, "VRAM at 0x%llx-0x%llx is beyond 0x%llx; boot with nokaslr",
		      window->start, window->end, map.end);
	return -E2BIG;
}

static bool mxcd_has_write_combining(void)
{
#ifdef CONFIG_X86
	return pat_enabled();
#else
	return false;
#endif
}

static int mxcd_vram_reserve_wc(struct mxcd_gpu *gpu)
{
	const struct range *window = &gpu->vram.pgmap.range;
	int ret;

	if (!mxcd_has_write_combining()) {
		mxcd_vram_off(gpu, "no write-combining on this machine (PAT is disabled)");
		return -EOPNOTSUPP;
	}

	ret = devm_arch_io_reserve_memtype_wc(&gpu->pdev->dev, window->start,
					      range_len(window));
	if (ret)
		mxcd_vram_off(gpu, "VRAM at 0x%llx-0x%llx is mapped otherwise already (error %d)",
			      window->start, window->end, ret);
	return ret;
}

static const struct mxcd_provider *mxcd_choose_provider(void)
{
	switch (mxcd_provider) {
	case MXCD_PROVIDER_ZONE_DEVICE:
		return &mxcd_zone_provider;
	case MXCD_PROVIDER_P2PDMA:
		return &mxcd_p2pdma_provider;
	default:
		return mxcd_p2pdma_provider.unusable() ? &mxcd_zone_provider :
							 &mxcd_p2pdma_provider;
	}
}

static int mxcd_vram_map(struct mxcd_gpu *gpu)
{
	const struct mxcd_provider *provider = mxcd_choose_provider();
	const char *why = provider->unusable ? provider->unusable() : NULL;
	int ret;

	if (why) {
		mxcd_vram_off(gpu, "provider %s: %s", provider->name, why);
		return -EOPNOTSUPP;
	}

	ret = provider->add(gpu);
	if (!ret)
		gpu->vram.provider = provider;
	return ret;
}

static void mxcd_vram_unmap(struct mxcd_gpu *gpu)
{
	const struct mxcd_provider *provider = gpu->vram.provider;

	if (provider && provider->del)
		provider->del(gpu);
	WRITE_ONCE(gpu->vram.provider, NULL);
	gpu->vram.page_struct_bytes = 0;
	gpu->vram.counted = false;
	devres_release_group(&gpu->pdev->dev, &gpu->vram);
}

static int mxcd_scratch_check(u64 *vram, u64 pattern, size_t *bad)
{
	size_t i, n = PAGE_SIZE / sizeof(*vram);

	for (i = 0; i < n; i++)
		WRITE_ONCE(vram[i], pattern ^ i);
	wmb(); /* drain the write-combining buffers, or the reads tell nothing */
	for (i = 0; i < n; i++) {
		if (READ_ONCE(vram[i]) != (pattern ^ i)) {
			*bad = i * sizeof(*vram);
			return -EIO;
		}
	}

	return 0;
}

/* Does the BAR behave as memory? The page is put back as it was. */
static int mxcd_vram_test_page(struct mxcd_gpu *gpu, u64 offset)
{
	u64 *vram = gpu->vram.va + offset;
	size_t bad = 0;
	void *saved;
	int ret;

	saved = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!saved)
		return -ENOMEM;

	memcpy(saved, vram, PAGE_SIZE);
	ret = mxcd_scratch_check(vram, 0x5a5aa5a50f0ff0f0ULL, &bad);
	if (!ret)
		ret = mxcd_scratch_check(vram, ~0x5a5aa5a50f0ff0f0ULL, &bad);
	memcpy(vram, saved, PAGE_SIZE);
	wmb(); /* the page must be back before anybody else sees it */
	kfree(saved);

	if (ret)
		mxcd_vram_off(gpu, "VRAM at 0x%llx does not read back what was written",
			      gpu->vram.base + offset + bad);
	return ret;
}

static int mxcd_vram_test(struct mxcd_gpu *gpu)
{
	int ret;

	ret = mxcd_vram_test_page(gpu, 0);
	if (!ret)
		ret = mxcd_vram_test_page(gpu, range_len(&gpu->vram.pgmap.range) - PAGE_SIZE);
	if (ret == -ENOMEM)
		mxcd_vram_off(gpu, "out of memory");
	return ret;
}

static int mxcd_vram_pool(struct mxcd_gpu *gpu)
{
	struct mxcd_vram *vram = &gpu->vram;
	struct gen_pool *pool;
	int ret;

	pool = gen_pool_create(MXCD_GRANULE_SHIFT, dev_to_node(&gpu->pdev->dev));
	if (!pool)
		goto err_nomem;

	ret = gen_pool_add(pool, vram->base, range_len(&vram->pgmap.range) - MXCD_SCRATCH,
			   NUMA_NO_NODE);
	if (ret) {
		gen_pool_destroy(pool);
		goto err_nomem;
	}

	vram->pool = pool;
	return 0;

err_nomem:
	mxcd_vram_off(gpu, "out of memory");
	return -ENOMEM;
}

/**
 * mxcd_vram_veto - may a storage controller not reach these pages?
 * @gpu: the GPU; it is bound and MAS is enabled
 * @storage: the controller, a reference is held
 *
 * What the kernel says when it is asked to map VRAM for this controller, known
 * beforehand. It keeps what it finds out until the GPU is unbound.
 *
 * Context: may sleep.
 * Return: true if the kernel forbids it; false if not, or if it does not care.
 */
bool mxcd_vram_veto(struct mxcd_gpu *gpu, struct pci_dev *storage)
{
	const struct mxcd_provider *provider = READ_ONCE(gpu->vram.provider);

	return provider && provider->veto && provider->veto(gpu, storage);
}

/* Huge page tables can map what begins where a huge page may. */
static unsigned long mxcd_vram_try(struct gen_pool *pool, u64 size)
{
	struct genpool_data_align align = { .align = PMD_SIZE };
	unsigned long addr = 0;

	if (size >= PMD_SIZE)
		addr = gen_pool_alloc_algo(pool, size, gen_pool_first_fit_align, &align);

	return addr ? addr : gen_pool_alloc(pool, size);
}

/*
 * Take one extent of @want bytes or, where space is fragmented, a smaller one:
 * half, a quarter, down to one granule. No larger one than @got, the last that was
 * taken: what was not to be had then need not be looked for again.
 */
static phys_addr_t mxcd_vram_take(struct gen_pool *pool, u64 want, u64 *got)
{
	unsigned long addr;
	u64 size = min(want, *got);

	for (;;) {
		addr = mxcd_vram_try(pool, size);
		if (addr) {
			*got = size;
			return addr;
		}
		if (size <= MXCD_GRANULE)
			return 0;
		size = ALIGN(size / 2, MXCD_GRANULE);
	}
}

/* Append an extent, or grow the last one if they meet. */
static void mxcd_extent_add(struct bio_vec *bvecs, unsigned int *nr,
			    phys_addr_t addr, u64 size)
{
	struct bio_vec *last = *nr ? &bvecs[*nr - 1] : NULL;

	if (last && page_to_phys(last->bv_page) + last->bv_len == addr &&
	    last->bv_len + size <= MXCD_EXTENT_MAX) {
		last->bv_len += size;
		return;
	}

	bvec_set_page(&bvecs[(*nr)++], pfn_to_page(PHYS_PFN(addr)), size, 0);
}

static int mxcd_extents_grow(struct bio_vec **bvecs, unsigned int *max)
{
	unsigned int new_max = *max ? *max * 2 : 8;
	struct bio_vec *new;

	new = kvmalloc_array(new_max, sizeof(*new), GFP_KERNEL_ACCOUNT);
	if (!new)
		return -ENOMEM;

	if (*max)
		memcpy(new, *bvecs, *max * sizeof(*new));
	kvfree(*bvecs);
	*bvecs = new;
	*max = new_max;
	return 0;
}

static void mxcd_vram_release(void *priv, struct bio_vec *bvecs, unsigned int nr_bvecs)
{
	struct mxcd_gpu *gpu = priv;
	unsigned int i;

	for (i = 0; i < nr_bvecs; i++)
		gen_pool_free(gpu->vram.pool, page_to_phys(bvecs[i].bv_page),
			      bvecs[i].bv_len);
}

/* mas_vram_ops::resolve */
static int mxcd_vram_resolve(void *priv, u64 size, struct bio_vec **bvecs,
			     unsigned int *nr_bvecs)
{
	struct mxcd_gpu *gpu = priv;
	unsigned int nr = 0, max = 0;
	struct bio_vec *vec = NULL;
	u64 got = MXCD_EXTENT_MAX;
	phys_addr_t addr;
	int ret = 0;

	/* Spare the search that a request beyond all free space would take. */
	if (size > gen_pool_avail(gpu->vram.pool))
		return -ENOSPC;

	while (size) {
		if (nr == max)
			ret = mxcd_extents_grow(&vec, &max);
		if (!ret && fatal_signal_pending(current))
			ret = -EINTR;
		if (ret)
			break;

		addr = mxcd_vram_take(gpu->vram.pool, size, &got);
		if (!addr) {
			ret = -ENOSPC;
			break;
		}
		mxcd_extent_add(vec, &nr, addr, got);
		size -= got;
		cond_resched();
	}

	if (ret) {
		mxcd_vram_release(gpu, vec, nr);
		kvfree(vec);
		return ret;
	}

	*bvecs = vec;
	*nr_bvecs = nr;
	return 0;
}

static u64 mxcd_vram_taken(void *priv)
{
	struct mxcd_gpu *gpu = priv;

	return gpu->vram.size - gen_pool_avail(gpu->vram.pool);
}

static void mxcd_vram_del(void *priv)
{
	struct mxcd_gpu *gpu = priv;

	gen_pool_destroy(gpu->vram.pool);
	gpu->vram.pool = NULL;
	mxcd_vram_unmap(gpu);
}

static const struct mas_vram_ops mxcd_vram_ops = {
	.resolve	= mxcd_vram_resolve,
	.release	= mxcd_vram_release,
	.used		= mxcd_vram_taken,
	.revoked	= mxcd_vram_del,
};

/**
 * mxcd_vram_add - register the VRAM of a GPU and make it ready for allocation
 * @gpu: a GPU that is being bound, its BAR requested
 *
 * On success gpu->vram.size is set. On failure nothing is left behind and
 * gpu->state tells why.
 *
 * Context: may sleep; mxcd_gpus_lock is held.
 * Return: 0 or a negative errno.
 */
int mxcd_vram_add(struct mxcd_gpu *gpu)
{
	void *group;
	int ret;

	group = devres_open_group(&gpu->pdev->dev, &gpu->vram, GFP_KERNEL);
	if (!group) {
		mxcd_vram_off(gpu, "out of memory");
		return -ENOMEM;
	}

	ret = mxcd_vram_window(gpu);
	if (!ret)
		ret = mxcd_vram_reachable(gpu);
	if (!ret)
		ret = mxcd_vram_reserve_wc(gpu);
	if (!ret)
		ret = mxcd_vram_map(gpu);
	if (!ret)
		ret = mxcd_vram_test(gpu);
	if (!ret)
		ret = mxcd_vram_pool(gpu);

	devres_close_group(&gpu->pdev->dev, group);
	if (ret) {
		mxcd_vram_unmap(gpu);
		return ret;
	}

	gpu->vram.ops = &mxcd_vram_ops;
	gpu->vram.priv = gpu;
	gpu->vram.size = range_len(&gpu->vram.pgmap.range) - MXCD_SCRATCH;
	gpu->vram.scratch_base = gpu->vram.base + gpu->vram.size;
	return 0;
}

/**
 * mxcd_vram_clear - make extents read as zeros
 * @bvecs: the extents
 * @nr_bvecs: number of them
 *
 * Context: may sleep; the GPU's gate is held.
 * Return: 0, or -EINTR when the caller was killed before the end.
 */
int mxcd_vram_clear(const struct bio_vec *bvecs, unsigned int nr_bvecs)
{
	unsigned int i, done, step;

	for (i = 0; i < nr_bvecs; i++) {
		for (done = 0; done < bvecs[i].bv_len; done += step) {
			if (fatal_signal_pending(current))
				return -EINTR;
			step = min_t(unsigned int, bvecs[i].bv_len - done, MXCD_CLEAR_STEP);
			memset(page_address(bvecs[i].bv_page) + done, 0, step);
			cond_resched();
		}
	}
	wmb(); /* drain the write-combining buffers before a disk may write there */

	return 0;
}

/**
 * mxcd_vram_flush - wait for writes of peers to have reached VRAM
 * @gpu: the GPU, its gate held or kept from draining
 *
 * The data of a read from disk and the notice that it is complete take different
 * ways: one to VRAM, the other to host memory. A PCIe read cannot pass the
 * writes before it, so when it returns they have arrived.
 *
 * Context: any.
 */
void mxcd_vram_flush(struct mxcd_gpu *gpu)
{
	mb(); /* a read of write-combining memory may be done ahead of time */
	(void)readl((void __iomem __force *)gpu->vram.va);
}

static unsigned long mxcd_scratch_bit(struct mxcd_gpu *gpu, struct page *page)
{
	return (page_to_phys(page) - gpu->vram.scratch_base) >> PAGE_SHIFT;
}

/**
 * mxcd_vram_take_scratch - VRAM to try out DMA with
 * @gpu: the GPU, its gate held
 * @len: bytes, a multiple of PAGE_SIZE
 *
 * Context: any.
 * Return: the first of adjacent pages, to be given back by mxcd_vram_put_scratch();
 * NULL when that much is not free.
 */
struct page *mxcd_vram_take_scratch(struct mxcd_gpu *gpu, unsigned int len)
{
	unsigned long nr = len >> PAGE_SHIFT, all = MXCD_SCRATCH >> PAGE_SHIFT;
	unsigned long old, bit;

	do {
		old = READ_ONCE(gpu->vram.scratch);
		bit = bitmap_find_next_zero_area(&old, all, 0, nr, 0);
		if (bit >= all)
			return NULL;
	} while (cmpxchg(&gpu->vram.scratch, old, old | GENMASK(bit + nr - 1, bit)) != old);

	return pfn_to_page(PHYS_PFN(gpu->vram.scratch_base) + bit);
}

/**
 * mxcd_vram_put_scratch - give scratch pages back
 * @gpu: the GPU, its gate held
 * @page: what mxcd_vram_take_scratch() returned
 * @len: as given to it
 *
 * Context: any.
 */
void mxcd_vram_put_scratch(struct mxcd_gpu *gpu, struct page *page, unsigned int len)
{
	unsigned long bit = mxcd_scratch_bit(gpu, page), nr = len >> PAGE_SHIFT;
	unsigned long old = READ_ONCE(gpu->vram.scratch);

	while (!try_cmpxchg(&gpu->vram.scratch, &old, old & ~GENMASK(bit + nr - 1, bit)))
		;
}
