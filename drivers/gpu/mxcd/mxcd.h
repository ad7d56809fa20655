/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The GPU side of the driver: PCI function, VRAM, sysfs.
 *
 * Lock order, of the whole driver, outermost first:
 *
 *	mxcd_gpus_lock -> mxcd_gpu::lock
 *
 *	mxcd_gpus_lock -> mxcd_links_lock
 *
 *	mas_holders_lock -> mxcd_gpu::lock
 *
 *	mmap_lock -> mxcd_gpu::lock, and what verdicts and proofs take
 *
 *	mmap_lock, the device lock of a storage controller, mxcd_gpus_lock ->
 *	mas_gup_zap_lock -> the lock of the address_space that all mappings are in
 *
 *	the list of dma-bufs -> the reservation lock of one
 *
 *	mas_stack::lock -> mas_pci_lock -> the device lock of a storage controller,
 *	which is only tried
 *
 * The kernel waits for device locks with pci_bus_sem held, so that one is not to be taken
 * inside any of these: no pci_walk_bus(), no pci_get_slot().
 *
 * mas_ctx::lock is taken with interrupts off; inside it, only those of wait
 * queues, eventfds and the scheduler are. No mutex is taken on the I/O path, but
 * where a verdict has to be worked out or a stacked block device is looked at.
 * Removing a file from sysfs waits for its readers: none of them waits for a lock
 * that is held meanwhile, and whoever holds mas_pci_lock waits for nothing.
 */
#ifndef _MXCD_H
#define _MXCD_H

#include <linux/bits.h>
#include <linux/completion.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mas_gpu.h>
#include <linux/memremap.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/percpu-refcount.h>
#include <linux/types.h>

struct bio_vec;
struct dentry;
struct gen_pool;
struct mas_stats;
struct mxcd_gpu;
struct mxcd_node;

#define MXCD_NAME	"mxcd"

/* Minor 0 is every GPU, minor n + 1 is GPU n; an s64 names a set of GPUs. */
#define MXCD_MAX_GPUS	32

/* VRAM is handed out in multiples of this (64 KiB). */
#define MXCD_GRANULE_SHIFT	16
#define MXCD_GRANULE		BIT(MXCD_GRANULE_SHIFT)

/* At the end of the window, for the driver itself; a bit for each page. */
#define MXCD_SCRATCH		MXCD_GRANULE

/**
 * struct mxcd_chip - what the driver knows about a kind of GPU
 * @name: as printed in the log
 * @bar: PCI BAR that VRAM is behind
 * @head: bytes at the start of VRAM that are not ours (firmware)
 * @tail: bytes at the end of VRAM that are not ours
 */
struct mxcd_chip {
	const char *name;
	int bar;
	u64 head;
	u64 tail;
};

/**
 * struct mxcd_provider - who makes the page structs of VRAM
 * @name: in the module parameter and in sysfs
 * @unusable: if not NULL, why this kernel does not have it; returns NULL if it does
 * @add: make the pages of the window, which is reserved as write-combining. Sets
 *	va, page_struct_bytes and what else is the provider's in &struct mxcd_vram.
 *	May sleep. Returns 0, or a negative errno, after mxcd_vram_off() with the
 *	reason; what devres holds is undone by the caller.
 * @del: if not NULL, undo what devres does not; all of VRAM is free. May sleep.
 * @veto: if not NULL, true if the kernel will not let this storage controller
 *	reach these pages. The GPU is bound. May sleep.
 */
struct mxcd_provider {
	const char *name;
	const char *(*unusable)(void);
	int (*add)(struct mxcd_gpu *gpu);
	void (*del)(struct mxcd_gpu *gpu);
	bool (*veto)(struct mxcd_gpu *gpu, struct pci_dev *storage);
};

/**
 * struct mxcd_vram - the VRAM window of a GPU that MAS serves
 * @provider: who makes the page structs; NULL while MAS is off
 * @ops: who has it: mxcd_vram.c, or another driver
 * @priv: given to them
 * @pgmap: its range is the window; the rest belongs to zone_device
 * @page_base: references of a page while p2pdma has it
 * @page_struct_bytes: host RAM that the page structs take
 * @pool: free space, in physical addresses
 * @va: the window in the kernel's direct map, write-combining
 * @base: physical address of the window
 * @size: bytes in the window that can be allocated; 0 while MAS is off
 * @scratch_base: physical address of what the driver has for itself
 * @scratch: one bit for each page there that is in use, see mxcd_vram_take_scratch()
 * @counted: each page has references of its own, so that programs may pin it; one
 *	while nobody does
 * @peers: dma-bufs can be attached to, see mas_dmabuf_prepare()
 * @gup_allowed: what mas_route_now() was when that was found to be all right
 */
struct mxcd_vram {
	const struct mxcd_provider *provider;
	const struct mas_vram_ops *ops;
	void *priv;
	struct dev_pagemap pgmap;
	int page_base;
	u64 page_struct_bytes;
	struct gen_pool *pool;
	void *va;
	phys_addr_t base;
	u64 size;
	phys_addr_t scratch_base;
	unsigned long scratch;
	bool counted;
	bool peers;
	u32 gup_allowed;
};

/**
 * struct mxcd_gpu - a GPU that the driver is bound to
 * @ref: memory handles outlive the binding; the last one frees this
 * @pdev: the PCI function; not to be touched without @gate after unbind
 * @chip: kind of GPU
 * @foreign: that of another driver's
 * @index: mgpu_id, minor - 1; kept from bind to unbind
 * @vram: what MAS serves
 * @gate: held by whatever uses VRAM: each request, each allocation, each page
 *	fault. Killed at unbind, when nothing new may start. Initialised only
 *	where MAS is enabled.
 * @drained: completed when @gate was killed and the last user is gone
 * @lock: protects @mems and the extents of each memory handle on it
 * @mems: memory handles of this GPU, &struct mas_mem
 * @faults: counts what may have swallowed data on its way to VRAM, see
 *	mxcd_gpu_gone()
 * @generation: counts how often the content of VRAM was lost; each memory handle
 *	has the one it was made in
 * @trouble: why the GPU is not to be used for the time being, a text for mas_state,
 *	or NULL
 * @suspect: there was a PCI error, and a reset may follow that nobody announces
 * @node: the GPU in sysfs
 * @stats: counters, mas_stats.h; NULL without CONFIG_MXCD_STATS
 * @debugfs: directory
 * @state: text of mas_state; does not change once the GPU is published
 *
 * @faults, @generation, @trouble and @suspect are written with the device lock of @pdev
 * held and read without.
 */
struct mxcd_gpu {
	struct kref ref;
	struct pci_dev *pdev;
	const struct mxcd_chip *chip;
	struct mxcd_chip foreign;
	int index;
	struct mxcd_vram vram;
	struct percpu_ref gate;
	struct completion drained;
	struct mutex lock; /* see above */
	struct list_head mems;
	unsigned int faults;
	unsigned int generation;
	const char *trouble;
	bool suspect;
	struct mxcd_node *node;
	struct mas_stats __percpu *stats;
	struct dentry *debugfs;
	char state[160];
};

/* mxcd_drv.c */
void mxcd_gpu_put(struct mxcd_gpu *gpu);
struct mxcd_gpu *mxcd_gpu_enter(unsigned int index);
void mxcd_gpu_flush(unsigned int index);
u64 mxcd_gpus_enabled(void);

/* mxcd_zone.c, mxcd_p2pdma.c */
extern const struct mxcd_provider mxcd_zone_provider;
extern const struct mxcd_provider mxcd_p2pdma_provider;

/* mxcd_vram.c */
__printf(2, 3) void mxcd_vram_off(struct mxcd_gpu *gpu, const char *fmt, ...);
bool mxcd_vram_veto(struct mxcd_gpu *gpu, struct pci_dev *storage);
int mxcd_vram_add(struct mxcd_gpu *gpu);
int mxcd_vram_clear(const struct bio_vec *bvecs, unsigned int nr_bvecs);
void mxcd_vram_flush(struct mxcd_gpu *gpu);
struct page *mxcd_vram_take_scratch(struct mxcd_gpu *gpu, unsigned int len);
void mxcd_vram_put_scratch(struct mxcd_gpu *gpu, struct page *page, unsigned int len);

/* mxcd_seam.c */
int mxcd_vram_alloc(struct mxcd_gpu *gpu, u64 size, struct bio_vec **bvecs,
		    unsigned int *nr_bvecs);
void mxcd_vram_free(struct mxcd_gpu *gpu, struct bio_vec *bvecs,
		    unsigned int nr_bvecs);
u64 mxcd_vram_used(struct mxcd_gpu *gpu);
void mxcd_vram_revoked(struct mxcd_gpu *gpu);
int mxcd_vram_adopt(struct mxcd_gpu *gpu, const struct mas_vram_desc *desc);

/* mxcd_layout.c */
int mxcd_layout_init(void);
void mxcd_layout_exit(void);
int mxcd_layout_add(struct mxcd_gpu *gpu);
void mxcd_layout_del(struct mxcd_gpu *gpu);
void mxcd_layout_changed(void);
void mxcd_layout_state_changed(struct mxcd_gpu *gpu);

/* mxcd_reset.c */
extern const struct pci_error_handlers mxcd_err_handler;
extern const struct dev_pm_ops mxcd_pm_ops;
void mxcd_gpu_doubt(struct mxcd_gpu *gpu);
bool mxcd_gpu_decodes(const struct mxcd_gpu *gpu);
bool mxcd_gpu_answered(const struct mxcd_gpu *gpu, unsigned int faults);
const char *mxcd_gpu_trouble(const struct mxcd_gpu *gpu);

/**
 * mxcd_gpu_is_mute - was a GPU reset without a word?
 * @gpu: the GPU, a reference is held
 *
 * Context: any.
 * Return: true if it was, and is not ready again.
 */
static inline bool mxcd_gpu_is_mute(const struct mxcd_gpu *gpu)
{
	return READ_ONCE(gpu->suspect) && !mxcd_gpu_decodes(gpu);
}

/**
 * mxcd_gpu_is_enabled - does MAS serve this GPU at this moment?
 * @gpu: the GPU
 *
 * Context: any.
 * Return: true if so, as far as its gate does not say otherwise.
 */
static inline bool mxcd_gpu_is_enabled(const struct mxcd_gpu *gpu)
{
	return gpu->vram.size && !READ_ONCE(gpu->trouble) &&
	       !pci_channel_offline(gpu->pdev) && !mxcd_gpu_is_mute(gpu);
}

/* mxcd_links.c */
void mxcd_links_changed(void);

/**
 * mxcd_gpu_tryenter - begin to use the VRAM of a GPU that is at hand
 * @gpu: the GPU, a reference is held
 *
 * Context: any.
 * Return: false when the GPU is being unbound or was.
 */
static inline bool mxcd_gpu_tryenter(struct mxcd_gpu *gpu)
{
	return percpu_ref_tryget_live(&gpu->gate);
}

/**
 * mxcd_gpu_leave - end of the use that mxcd_gpu_enter() or mxcd_gpu_tryenter() began
 * @gpu: the GPU; not to be touched afterwards
 *
 * Context: any.
 */
static inline void mxcd_gpu_leave(struct mxcd_gpu *gpu)
{
	percpu_ref_put(&gpu->gate);
}

/**
 * mxcd_gpu_faults - what to compare with later
 * @gpu: the GPU; to be called before its gate is entered, or mxcd_gpu_gone() is asked
 *	before anything is begun
 *
 * Context: any.
 * Return: a number for mxcd_gpu_gone().
 */
static inline unsigned int mxcd_gpu_faults(const struct mxcd_gpu *gpu)
{
	/* Pairs with mxcd_gpu_doubt(): who sees the new count sees the generation. */
	return smp_load_acquire(&gpu->faults);
}

/**
 * mxcd_gpu_has_lost - has VRAM lost what was in it?
 * @gpu: the GPU, its gate held
 * @generation: mxcd_gpu::generation when that was put there
 *
 * A loss that is not seen here is seen by mxcd_gpu_gone(), with a number that was
 * taken before.
 *
 * Context: any.
 * Return: true if so.
 */
static inline bool mxcd_gpu_has_lost(const struct mxcd_gpu *gpu, unsigned int generation)
{
	return READ_ONCE(gpu->generation) != generation;
}

/**
 * mxcd_gpu_gone - may data have been lost on its way to or from VRAM?
 * @gpu: the GPU, its gate held
 * @faults: what mxcd_gpu_faults() returned before the transfer began
 *
 * A posted write to a BAR that does not answer is lost without an error, so what
 * the storage controller says of a transfer does not count if the GPU was unbound,
 * was reset or had a PCI error meanwhile, or is in trouble still.
 *
 * Context: any.
 * Return: true if so.
 */
static inline bool mxcd_gpu_gone(const struct mxcd_gpu *gpu, unsigned int faults)
{
	if (READ_ONCE(gpu->trouble) || pci_channel_offline(gpu->pdev) || mxcd_gpu_is_mute(gpu))
		return true;

	/* What is over by now was counted before it was: see mxcd_gpu_unpause(). */
	smp_rmb();
	return READ_ONCE(gpu->faults) != faults;
}

#endif /* _MXCD_H */
