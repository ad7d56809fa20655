/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The seam between MAS and the driver of a GPU: whoever has VRAM with page structs lets
 * MAS serve it. See Documentation/gpu/mxcd/porting.rst.
 */
#ifndef _LINUX_MAS_GPU_H
#define _LINUX_MAS_GPU_H

#include <linux/types.h>

struct bio_vec;
struct mxcd_gpu;
struct pci_dev;

/* VRAM is handed out in multiples of this. */
#define MAS_GRANULE	0x10000

/**
 * struct mas_vram_ops - what MAS asks the driver of a GPU to do
 * @resolve: find VRAM for a new handle of @size bytes, a multiple of MAS_GRANULE. Sets
 *	*@bvecs to an array of extents, to be freed by kvfree(): adjacent pages of one
 *	pagemap, each extent a multiple of MAS_GRANULE, at such an address and at most
 *	1 GiB; and *@nr to their number. The content does not matter. May sleep. Returns
 *	0, -ENOSPC, -ENOMEM or -EINTR.
 * @hold: NULL, or: these extents stay where they are until @release, since disks may
 *	write there at any time. May sleep. Returns 0 or a negative errno; then @release
 *	follows.
 * @release: no disk, no program and no other driver reaches these extents any more.
 *	The array stays MAS's. In any context that may sleep.
 * @used: bytes that are not free. In any context.
 * @revoked: last call: MAS has let go of everything. May sleep.
 *
 * @priv is &struct mas_vram_desc.priv. @resolve, @hold and @release of different handles
 * may run at the same time.
 */
struct mas_vram_ops {
	int (*resolve)(void *priv, u64 size, struct bio_vec **bvecs, unsigned int *nr);
	int (*hold)(void *priv, const struct bio_vec *bvecs, unsigned int nr);
	void (*release)(void *priv, struct bio_vec *bvecs, unsigned int nr);
	u64 (*used)(void *priv);
	void (*revoked)(void *priv);
};

/**
 * struct mas_vram_desc - VRAM that a driver lets MAS serve
 * @name: who makes the page structs, for mas_provider in sysfs; stays
 * @bar: BAR that it is behind
 * @base: physical address of the window; write-combining, with page structs
 * @va: the window in the kernel's direct map
 * @size: bytes of it that @resolve may hand out
 * @scratch: physical address of MAS_GRANULE more bytes that are for MAS itself, to try
 *	out DMA; in the window, behind @size
 * @counted: page structs are single, and idle with one reference, so that programs may
 *	pin them; then MAS waits until they have one again before it calls @release
 * @ops: what MAS asks for
 * @priv: given to them
 */
struct mas_vram_desc {
	const char *name;
	int bar;
	phys_addr_t base;
	void *va;
	u64 size;
	phys_addr_t scratch;
	bool counted;
	const struct mas_vram_ops *ops;
	void *priv;
};

struct mxcd_gpu *mas_gpu_register(struct pci_dev *pdev, const struct mas_vram_desc *desc);
void mas_gpu_unregister(struct mxcd_gpu *gpu);

#endif /* _LINUX_MAS_GPU_H */
