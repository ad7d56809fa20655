/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lets the sources, which are written for the newest kernel, be built for older
 * ones. Force-included by the out-of-tree Makefile; not part of a kernel tree.
 *
 * What a kernel has is found out by compiling small programs (compat/probes),
 * which define MXCD_HAVE_*. Version numbers would not do: distribution kernels
 * carry backports.
 */
#ifndef _MXCD_COMPAT_H
#define _MXCD_COMPAT_H

#include <linux/blk_types.h>
#include <linux/bvec.h>
#include <linux/device/class.h>
#include <linux/eventfd.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/maple_tree.h>
#include <linux/memremap.h>
#include <linux/mm.h>

/* 6.3: the names of bvec_set_virt() and vm_flags_mod(). */
#ifndef MXCD_HAVE_BVEC_SET_VIRT
static inline void bvec_set_virt(struct bio_vec *bv, void *vaddr, unsigned int len)
{
	bvec_set_page(bv, virt_to_page(vaddr), len, offset_in_page(vaddr));
}
#endif

/*
 * 6.2: a bio from the cache of a CPU may be given back in an interrupt; before, that is
 * warned about. Told by what came one release later.
 */
#ifndef MXCD_HAVE_BVEC_SET_VIRT
#undef IOCB_ALLOC_CACHE
#define IOCB_ALLOC_CACHE	0
#endif

#ifndef MXCD_HAVE_VM_FLAGS_MOD
static inline void vm_flags_mod(struct vm_area_struct *vma, vm_flags_t set,
				vm_flags_t clear)
{
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
}
#endif

/* 6.4: class_create() lost the module. */
#ifndef MXCD_HAVE_CLASS_CREATE
#undef class_create
#define class_create(name)				\
({							\
	static struct lock_class_key __key;		\
							\
	__class_create(THIS_MODULE, name, &__key);	\
})
#endif

/*
 * 6.5: ten bits of an I/O priority became a hint. Before, they were part of a
 * level of which only the low three bits were looked at; that two bios with
 * different ones are not merged has always been so.
 */
#ifndef IOPRIO_HINT_SHIFT
#define IOPRIO_LEVEL_NR_BITS		3
#define IOPRIO_PRIO_LEVEL(prio)		((prio) & (IOPRIO_NR_LEVELS - 1))
#define IOPRIO_PRIO_VALUE_HINT(class, level, hint)	\
	IOPRIO_PRIO_VALUE(class, (hint) << IOPRIO_LEVEL_NR_BITS | (level))
#endif

/* 6.8: eventfd_signal() always adds 1. */
#ifndef MXCD_HAVE_EVENTFD_SIGNAL
#define eventfd_signal(ctx)	((eventfd_signal)(ctx, 1))
#endif

/*
 * mtree_alloc_range() of 6.1 fails, and then breaks the tree. When it was mended is
 * nothing that a compiler can see; mtree_dup() is of 6.8. The lock is not to be let
 * go between the search and the store, so there is no waiting for memory.
 */
#ifndef MXCD_HAVE_MTREE_DUP
static inline int
mxcd_compat_mtree_alloc_range(struct maple_tree *mt, unsigned long *startp, void *entry,
			      unsigned long size, unsigned long min, unsigned long max,
			      gfp_t gfp)
{
	MA_STATE(mas, mt, 0, 0);
	int ret;

	mtree_lock(mt);
	ret = mas_empty_area(&mas, min, max, size);
	if (!ret) {
		*startp = mas.index;
		mas_set_range(&mas, *startp, *startp + size - 1);
		ret = mas_store_gfp(&mas, entry, (gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN);
	}
	mtree_unlock(mt);

	return ret;
}

#define mtree_alloc_range mxcd_compat_mtree_alloc_range
#endif

/*
 * 6.8: vfs_iocb_iter_write() holds off the freezing of the file system; before, its
 * caller did. No compiler can see that. The header that is probed for is of the
 * same release and the same author's work on the same function.
 */
#ifndef MXCD_HAVE_BACKING_FILE
static inline ssize_t mxcd_compat_iocb_iter_write(struct file *file, struct kiocb *iocb,
						  struct iov_iter *iter)
{
	ssize_t ret;

	kiocb_start_write(iocb);
	ret = vfs_iocb_iter_write(file, iocb, iter);
	if (ret != -EIOCBQUEUED)
		kiocb_end_write(iocb);

	return ret;
}

#define vfs_iocb_iter_write mxcd_compat_iocb_iter_write
#endif

/* 6.9: who opens a block device gets a file. What looks like one here is the device. */
#ifndef MXCD_HAVE_BDEV_FILE
#include <linux/blkdev.h>
#include <linux/file.h>

#define BLK_OPEN_READ	FMODE_READ

static inline struct file *bdev_file_open_by_dev(dev_t dev, fmode_t mode, void *holder,
						 const void *hops)
{
	return (struct file *)blkdev_get_by_dev(dev, mode, holder);
}

static inline struct block_device *file_bdev(struct file *file)
{
	return (struct block_device *)file;
}

#define __fput_sync(file)	blkdev_put(file_bdev(file), FMODE_READ)
#endif

/*
 * 6.16 and 6.17 tell P2P pages by a flag of the request, which only pages of user
 * space get: those of a bio_vec of ours would be mapped as host memory. The flag is
 * gone since.
 */
#ifdef REQ_P2PDMA
#define MXCD_P2PDMA_UNUSABLE	"this kernel maps P2P pages of kernel I/O as host memory"
#endif

/* 6.3: the question whether page structs of a pagemap are shared, as 6.1 asks it. */
#ifndef MXCD_HAVE_VMEMMAP_CAN_OPTIMIZE
static inline bool vmemmap_can_optimize(struct vmem_altmap *altmap,
					struct dev_pagemap *pgmap)
{
	return !altmap && pgmap_vmemmap_nr(pgmap) > 1 && is_power_of_2(sizeof(struct page));
}
#endif

/* 6.17: struct fileattr became struct file_kattr. */
#ifndef MXCD_HAVE_FILE_KATTR
#define file_kattr fileattr
#endif

/*
 * Up to 6.18 the kernel warns when the last reference to a GENERIC page goes and
 * its pagemap has no page_free(). There is nothing to do then.
 */
#ifdef MXCD_HAVE_PAGE_FREE
static inline void mxcd_compat_page_free(struct page *page)
{
}

static const struct dev_pagemap_ops mxcd_compat_pagemap_ops __maybe_unused = {
	.page_free = mxcd_compat_page_free,
};

static inline void *mxcd_compat_memremap_pages(struct device *dev, struct dev_pagemap *pgmap)
{
	pgmap->ops = &mxcd_compat_pagemap_ops;
	return devm_memremap_pages(dev, pgmap);
}

#define devm_memremap_pages mxcd_compat_memremap_pages
#endif

/*
 * 6.18: the callback of a uring_cmd's task work got a wrapped request and a token;
 * before, it had the command and the issue flags. The end of the command's pdu
 * keeps the callback meanwhile.
 */
#ifndef MXCD_HAVE_IO_TW_REQ
#include <linux/io_uring/cmd.h>

struct io_tw_req {
	struct io_uring_cmd *cmd;
};

#define io_tw_token_t	unsigned int

struct mxcd_compat_pdu {
	u8 pdu[24];
	void (*fn)(struct io_tw_req tw_req, io_tw_token_t tw);
};

static inline void mxcd_compat_tw(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct io_tw_req tw_req = { .cmd = cmd };

	io_uring_cmd_to_pdu(cmd, struct mxcd_compat_pdu)->fn(tw_req, issue_flags);
}

static inline void
mxcd_compat_complete_in_task(struct io_uring_cmd *cmd,
			     void (*fn)(struct io_tw_req tw_req, io_tw_token_t tw))
{
	io_uring_cmd_to_pdu(cmd, struct mxcd_compat_pdu)->fn = fn;
	io_uring_cmd_complete_in_task(cmd, mxcd_compat_tw);
}

#define io_uring_cmd_complete_in_task		mxcd_compat_complete_in_task
#define io_uring_cmd_from_tw(tw_req)		((tw_req).cmd)
#define IO_URING_CMD_TASK_WORK_ISSUE_FLAGS	(tw)
#define io_uring_cmd_done(cmd, ret, flags)	((io_uring_cmd_done)(cmd, ret, 0, flags))
#define io_uring_sqe_cmd(sqe, type)		((const type *)(io_uring_sqe_cmd)(sqe))
#endif

/* 6.4: classes are constant. */
#ifndef MXCD_HAVE_CLASS_CONST
#include <linux/device/class.h>

static inline void mxcd_compat_class_dev_iter_init(struct class_dev_iter *iter,
						   const struct class *class,
						   struct device *start,
						   const struct device_type *type)
{
	class_dev_iter_init(iter, (struct class *)class, start, type);
}

#define class_dev_iter_init mxcd_compat_class_dev_iter_init
#endif

/* 6.11: flags of queue limits became bits. */
#ifndef MXCD_HAVE_QUEUE_FEATURES
#include <linux/blkdev.h>

#define BLK_FEAT_RAID_PARTIAL_STRIPES_EXPENSIVE	1
#define features raid_partial_stripes_expensive
#endif

/* 6.17: system_unbound_wq got a name that says what it is for. */
#ifndef MXCD_HAVE_SYSTEM_DFL_WQ
#define system_dfl_wq system_unbound_wq
#endif

/* 6.13: the name of a namespace became a string. */
#include <linux/module.h>

#undef MODULE_IMPORT_NS
#define MODULE_IMPORT_NS(ns)	MODULE_INFO(import_ns, ns)

/* 6.15: drivers may register buffers of a ring. */
#ifndef MXCD_HAVE_IO_BUFFER_BVEC
#include <linux/io_uring/cmd.h>

#define MXCD_NO_RING_BUFFERS
#define IO_BUF_DEST	1
#define IO_BUF_SOURCE	2

static inline int io_buffer_register_bvec(struct io_uring_cmd *cmd, const struct bio_vec *bvs,
					  unsigned int nr_bvecs, void (*release)(void *),
					  void *priv, u8 dir, unsigned int index,
					  unsigned int issue_flags)
{
	return -EOPNOTSUPP;
}

static inline int io_buffer_unregister(struct io_uring_cmd *cmd, unsigned int index,
				       unsigned int issue_flags)
{
	return -EOPNOTSUPP;
}
#endif

/* 6.17: page frame numbers lost their type. */
#ifndef MXCD_HAVE_INSERT_PFN_PMD
#include <linux/huge_mm.h>
#include <linux/pfn_t.h>

#define vmf_insert_pfn_pmd(vmf, pfn, write)	\
	((vmf_insert_pfn_pmd)(vmf, pfn_to_pfn_t(pfn), write))
#endif

#endif /* _MXCD_COMPAT_H */
