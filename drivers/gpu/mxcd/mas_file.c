// SPDX-License-Identifier: GPL-2.0
/*
 * Registered files: what may be registered, what direct I/O on it needs, and
 * which storage controller its data is behind.
 *
 * Direct I/O is believed only where the file system promises it through
 * STATX_DIOALIGN, or where the file is a block device. That a file can be opened
 * with O_DIRECT is no evidence: some file systems take it and copy through the
 * page cache all the same.
 */
#include <linux/blk-integrity.h>
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/fileattr.h>
#include <linux/fs.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/stat.h>
#include <linux/string.h>

#include "mas_trace.h"

/**
 * mas_file_free - close a registered file
 * @file: a file without references
 *
 * Context: may sleep.
 */
void mas_file_free(struct mas_file *file)
{
	mas_stack_free(file->stack);
	fput(file->file);
	pci_dev_put(file->pdev);
	kfree_rcu(file, rcu);
}

static void mas_file_free_work(struct work_struct *work)
{
	mas_file_free(container_of(work, struct mas_file, free_work));
}

/* The xfs data is on the realtime device, not on s_bdev. */
static u16 xfs_reason(const struct file_kattr *fa)
{
	return fa->fsx_xflags & FS_XFLAG_REALTIME ? MXCD_MAS_REASON_REALTIME :
						    MXCD_MAS_REASON_NONE;
}

/* Without extents, ext4 goes through the page cache to fill a hole, in silence. */
static u16 ext4_reason(const struct file_kattr *fa)
{
	return fa->flags & FS_EXTENT_FL ? MXCD_MAS_REASON_NONE : MXCD_MAS_REASON_FS;
}

/*
 * Is the file on one of the file systems that are known to hand the pages of a
 * direct request to s_bdev unchanged? If not, why.
 */
static u16 file_system_reason(struct file *file)
{
	const char *fs = file_inode(file)->i_sb->s_type->name;
	struct file_kattr fa = {};

	if (strcmp(fs, "ext4") && strcmp(fs, "xfs"))
		return MXCD_MAS_REASON_FS;
	/* Encrypted data would reach VRAM as it is on disk, to be decrypted there. */
	if (IS_ENCRYPTED(file_inode(file)) || vfs_fileattr_get(file->f_path.dentry, &fa))
		return MXCD_MAS_REASON_FS;

	return !strcmp(fs, "xfs") ? xfs_reason(&fa) : ext4_reason(&fa);
}

/*
 * Does I/O without IOCB_DIRECT go through the page cache? Some file systems
 * decide that for themselves (9p, fuse, network file systems) and may hand the
 * pages they are given to a device. VRAM is not for them: they get host memory.
 */
static bool has_page_cache(struct file *file)
{
	static const char * const known[] = {
		"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "tmpfs",
	};
	struct inode *inode = file->f_mapping->host;

	return S_ISBLK(inode->i_mode) ||
	       match_string(known, ARRAY_SIZE(known), inode->i_sb->s_type->name) >= 0;
}

/* What the file system promises; false if it promises no direct I/O. */
static bool regular_alignment(struct mas_file *file)
{
	struct kstat stat;

	if (vfs_getattr(&file->file->f_path, &stat, STATX_DIOALIGN, AT_STATX_DONT_SYNC) ||
	    !(stat.result_mask & STATX_DIOALIGN) || !stat.dio_offset_align)
		return false;

	file->read_align = stat.dio_offset_align;
	file->mem_align = stat.dio_mem_align;
	return true;
}

static void bdev_alignment(struct mas_file *file, struct block_device *bdev)
{
	file->read_align = bdev_logical_block_size(bdev);
	file->mem_align = bdev_dma_alignment(bdev) + 1;
}

/* Find out what there is to ask about a block device. */
static void bdev_storage(struct mas_file *file, struct block_device *bdev)
{
	struct pci_dev *pdev = mas_stack_controller(bdev->bd_disk);

	/* Made and checked by the CPU, which would have to read VRAM. */
	if (bdev_get_integrity(bdev)) {
		file->reason = MXCD_MAS_REASON_INTEGRITY;
		return;
	}

	if (pdev)
		file->pdev = pci_dev_get(pdev);
	else
		file->stack = mas_stack_create(bdev->bd_disk);
	if (!file->pdev && !file->stack)
		file->reason = MXCD_MAS_REASON_STACKED;
}

/*
 * Fill in alignments and the storage controller. A write through the page cache
 * dirties whole pages, so a direct write must not share one with it: the write-
 * back of the one would undo the other.
 */
static void mas_file_inspect(struct mas_file *file)
{
	struct inode *inode = file->file->f_mapping->host;
	struct block_device *bdev;

	file->page_cache = has_page_cache(file->file);
	file->reason = MXCD_MAS_REASON_NO_DIO;
	if (!(file->file->f_mode & FMODE_CAN_ODIRECT))
		return;

	if (S_ISBLK(inode->i_mode)) {
		bdev = I_BDEV(inode);
		bdev_alignment(file, bdev);
	} else {
		if (!regular_alignment(file))
			return;
		file->reason = file_system_reason(file->file);
		bdev = file->reason ? NULL : inode->i_sb->s_bdev;
	}

	file->write_align = max3((u32)PAGE_SIZE, (u32)i_blocksize(inode), file->read_align);
	if (!bdev)
		return;

	file->seg_align = max(bdev_logical_block_size(bdev), file->mem_align);
	file->max_command = (u64)queue_max_sectors(bdev_get_queue(bdev)) << SECTOR_SHIFT;
	file->reason = MXCD_MAS_REASON_NONE;
	bdev_storage(file, bdev);
}

static int mas_file_check(struct file *file)
{
	struct inode *inode = file->f_mapping->host;

	if (!S_ISREG(inode->i_mode) && !S_ISBLK(inode->i_mode))
		return -EINVAL;
	/* proc, sysfs, cgroups: what they do depends on who calls. */
	if (S_ISREG(inode->i_mode) && inode->i_sb->s_iflags & SB_I_NOEXEC)
		return -EINVAL;
	if (IS_DAX(inode) || !file->f_op->read_iter)
		return -EOPNOTSUPP;

	return 0;
}

/**
 * mas_file_get_fd - look at a file by descriptor
 * @fd: descriptor of the calling task
 *
 * Context: may sleep.
 * Return: the file, to be given back by mas_file_put(), or -EBADF, -EINVAL
 * (neither a regular file nor a block device), -EOPNOTSUPP (DAX) or -ENOMEM.
 */
struct mas_file *mas_file_get_fd(int fd)
{
	struct mas_file *file;
	struct file *filp;
	int ret;

	filp = fget(fd);
	if (!filp)
		return ERR_PTR(-EBADF);

	ret = mas_file_check(filp);
	if (ret)
		goto err_fput;

	file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);
	if (!file) {
		ret = -ENOMEM;
		goto err_fput;
	}

	refcount_set(&file->ref, 1);
	file->file = filp;
	INIT_WORK(&file->free_work, mas_file_free_work);
	mas_file_inspect(file);
	return file;

err_fput:
	fput(filp);
	return ERR_PTR(ret);
}

/**
 * mas_file_prove - have reads from a file to a GPU proved where they are not
 * @file: the file
 * @index: mgpu_id; nothing happens where MAS is off
 *
 * Waits for disks, but for a kill.
 *
 * Context: may sleep; no lock and no gate is held.
 */
void mas_file_prove(struct mas_file *file, unsigned int index)
{
	struct mxcd_gpu *gpu = mxcd_gpu_enter(index);

	if (IS_ERR(gpu))
		return;

	/* Disks do not keep the GPU. */
	kref_get(&gpu->ref);
	mxcd_gpu_leave(gpu);
	mas_route_prove(file, gpu);
	mxcd_gpu_put(gpu);
}

/* For all GPUs that the context reaches: whoever transfers then need not wait. */
static void mas_file_prove_all(struct mas_ctx *ctx, struct mas_file *file)
{
	unsigned int i;

	for (i = 0; i < MXCD_MAX_GPUS && !fatal_signal_pending(current); i++)
		if (ctx->gpus & BIT_ULL(i))
			mas_file_prove(file, i);
}

static int mas_file_reserve(struct mas_ctx *ctx, u32 *id)
{
	int ret = -EMFILE;

	if (atomic_inc_return(&ctx->nr_files) <= mas_max_files(ctx))
		ret = mas_id_reserve(&ctx->files, id);
	if (ret)
		atomic_dec(&ctx->nr_files);

	return ret;
}

/**
 * mas_file_register - ioctl(MXCD_MAS_REGISTER)
 * @ctx: the context
 * @fd: descriptor of the calling task
 * @id: in: id wanted, 0: any; out: the id
 * @wait: may wait for disks, for the proof of reads from the storage controllers of
 *	the file; else the first transfer does
 *
 * The id is not in use before mas_file_commit(), which must follow, or
 * mas_file_abort().
 *
 * Context: may sleep.
 * Return: the file, an error of mas_file_get_fd(), -EMFILE (mas_max_files()), or
 * -EEXIST (id taken) or -EINVAL (id out of range).
 */
struct mas_file *mas_file_register(struct mas_ctx *ctx, int fd, u32 *id, bool wait)
{
	struct mas_file *file;
	int ret;

	file = mas_file_get_fd(fd);
	if (IS_ERR(file))
		return file;

	ret = mas_file_reserve(ctx, id);
	if (ret) {
		mas_file_put_sync(file);
		return ERR_PTR(ret);
	}

	if (wait)
		mas_file_prove_all(ctx, file);
	return file;
}

/**
 * mas_file_commit - let a new file id be used
 * @ctx: the context
 * @id: the id
 * @file: what mas_file_register() returned; not to be touched afterwards
 *
 * Context: may sleep.
 */
void mas_file_commit(struct mas_ctx *ctx, u32 id, struct mas_file *file)
{
	trace_mas_register(ctx, id, file);
	mas_id_commit(&ctx->files, id, file);
}

/**
 * mas_file_abort - undo mas_file_register()
 * @ctx: the context
 * @id: the id
 * @file: what mas_file_register() returned
 *
 * Context: may sleep.
 */
void mas_file_abort(struct mas_ctx *ctx, u32 id, struct mas_file *file)
{
	mas_id_release(&ctx->files, id);
	atomic_dec(&ctx->nr_files);
	mas_file_put_sync(file);
}

/**
 * mas_file_unregister - forget a file
 * @ctx: the context
 * @id: the file's id
 *
 * Context: may sleep.
 * Return: 0 or -ENOENT.
 */
int mas_file_unregister(struct mas_ctx *ctx, u32 id)
{
	struct mas_file *file = mas_id_remove(&ctx->files, id);

	if (!file)
		return -ENOENT;

	trace_mas_unregister(ctx, id);
	atomic_dec(&ctx->nr_files);
	mas_file_put_sync(file);
	return 0;
}
