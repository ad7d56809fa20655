// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/mxcd_mas and /dev/mxcd_mas<n>: file operations and the ioctl table.
 *
 * Minor 0 reaches every GPU, minor n + 1 reaches GPU n. The node of a GPU appears
 * when it is first bound and stays until the module goes: unbinding must not let a
 * program that opens it with O_CREAT make a regular file there. While MAS is off,
 * open() says -ENODEV.
 *
 * All open files share one address_space of the driver's own, whatever node and
 * whatever mount namespace they came from: unbind zaps all mappings through it.
 */
#include <linux/blkdev.h>
#include <linux/cdev.h>
#include <linux/cred.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/poll.h>
#include <linux/pseudo_fs.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>

#include "mas.h"

#define MAS_MINORS	(MXCD_MAX_GPUS + 1)
#define MAS_FS_MAGIC	0x6d617330	/* "mas0" */

static dev_t mas_devt;
static struct cdev mas_cdev;
static struct class *mas_class;
static DECLARE_BITMAP(mas_nodes, MAS_MINORS);
static struct inode *mas_inode;
static struct vfsmount *mas_mnt;

static int mas_open(struct inode *inode, struct file *filp)
{
	unsigned int minor = iminor(inode);
	u64 gpus = minor ? BIT_ULL(minor - 1) : U64_MAX;

	if (!(mxcd_gpus_enabled() & gpus))
		return -ENODEV;

	filp->private_data = mas_ctx_create(gpus);
	if (!filp->private_data)
		return -ENOMEM;

	filp->f_mapping = mas_inode->i_mapping;
	return stream_open(inode, filp);
}

static int mas_release(struct inode *inode, struct file *filp)
{
	mas_ctx_close(filp->private_data);
	return 0;
}

/*
 * A request is carried out with the rights of who calls write(). A privileged
 * program that was tricked into writing to a descriptor of somebody else's must
 * not lend them. Compared by value, so that fork and exec change nothing.
 */
static bool mas_caller_may_act(struct file *filp)
{
	const struct cred *opener = filp->f_cred;
	const struct cred *caller = current_cred();

	return caller->user_ns == opener->user_ns &&
	       uid_eq(caller->euid, opener->euid) &&
	       gid_eq(caller->egid, opener->egid) &&
	       uid_eq(caller->fsuid, opener->fsuid) &&
	       cap_issubset(caller->cap_effective, opener->cap_effective);
}

static unsigned int mas_submit_flags(struct file *filp)
{
	return filp->f_flags & O_NONBLOCK ? MAS_IO_NONBLOCK | MAS_IO_QUEUE_NOWAIT : 0;
}

/*
 * Submit requests in order. Returns how many were taken, or an error when not
 * even the first was.
 */
static long mas_submit_array(struct mas_ctx *ctx, const struct mxcd_mas_req __user *reqs,
			     unsigned int nr, struct mas_batch *batch, unsigned int how)
{
	struct mas_submit submit;
	struct mxcd_mas_req req;
	struct blk_plug plug;
	int ret = 0;

	mas_submit_begin(&submit, ctx, batch, how);
	blk_start_plug(&plug);
	while (submit.nr < nr && !ret) {
		ret = copy_from_user(&req, reqs + submit.nr, sizeof(req)) ? -EFAULT : 0;
		if (!ret)
			ret = mas_submit_one(&submit, &req);
	}
	mas_submit_end(&submit);
	blk_finish_plug(&plug);

	return submit.nr ? (long)submit.nr : ret;
}

static ssize_t mas_write(struct file *filp, const char __user *buf, size_t count, loff_t *ppos)
{
	size_t size = sizeof(struct mxcd_mas_req);
	long nr;

	if (!mas_caller_may_act(filp))
		return -EACCES;
	if (count % size)
		return -EINVAL;

	nr = mas_submit_array(filp->private_data, (const void __user *)buf,
			      min_t(size_t, count / size, MAS_MAX_QUEUE), NULL,
			      mas_submit_flags(filp) | MAS_IO_NO_FD);
	return nr < 0 ? nr : nr * (long)size;
}

static ssize_t mas_read(struct file *filp, char __user *buf, size_t count, loff_t *ppos)
{
	if (!mas_caller_may_act(filp))
		return -EACCES;
	if (count < sizeof(struct mxcd_mas_comp))
		return -EINVAL;

	return mas_ctx_read(filp->private_data, (void __user *)buf,
			    min_t(size_t, count / sizeof(struct mxcd_mas_comp), MAS_MAX_QUEUE),
			    filp->f_flags & O_NONBLOCK);
}

static __poll_t mas_poll(struct file *filp, poll_table *wait)
{
	struct mas_ctx *ctx = filp->private_data;

	poll_wait(filp, &ctx->wait, wait);
	return mas_ctx_poll(ctx);
}

static int mas_mmap(struct file *filp, struct vm_area_struct *vma)
{
	return mas_mem_mmap(filp->private_data, vma);
}

static void mas_show_fdinfo(struct seq_file *m, struct file *filp)
{
	mas_ctx_show(filp->private_data, m);
}

static int mas_ioctl_query(struct file *filp, void *args)
{
	return mas_query(filp->private_data, args);
}

static int mas_ioctl_query_gpu(struct file *filp, void *args)
{
	return mas_query_gpu(filp->private_data, args);
}

static int mas_ioctl_query_file(struct file *filp, void *args)
{
	return mas_query_file(filp->private_data, args);
}

static int mas_ioctl_alloc(struct file *filp, void *args)
{
	return mas_mem_alloc(filp->private_data, args);
}

static int mas_ioctl_free(struct file *filp, void *args)
{
	struct mxcd_mas_free *free = args;

	return mas_mem_free(filp->private_data, free->handle);
}

static int mas_ioctl_register(struct file *filp, void *args)
{
	struct mxcd_mas_register *reg = args;

	return reg->flags ? -EINVAL : mas_file_register(filp->private_data, reg->fd, &reg->file);
}

/* The caller was not told of what it got: take it back. */
static void mas_undo_alloc(struct file *filp, void *args)
{
	struct mxcd_mas_alloc *alloc = args;

	mas_mem_free(filp->private_data, alloc->handle);
}

static void mas_undo_register(struct file *filp, void *args)
{
	struct mxcd_mas_register *reg = args;

	mas_file_unregister(filp->private_data, reg->file);
}

static int mas_ioctl_unregister(struct file *filp, void *args)
{
	struct mxcd_mas_unregister *unreg = args;

	return mas_file_unregister(filp->private_data, unreg->file);
}

static int mas_check_transfer_args(const struct mxcd_mas_transfer *args)
{
	if (args->flags || !args->nr || args->min_nr > args->nr)
		return -EINVAL;
	if (args->min_nr && !args->comps)
		return -EINVAL;

	return 0;
}

static int mas_ioctl_transfer(struct file *filp, void *buf)
{
	struct mxcd_mas_transfer *args = buf;
	struct mxcd_mas_comp __user *comps = u64_to_user_ptr(args->comps);
	struct mas_ctx *ctx = filp->private_data;
	unsigned int how = mas_submit_flags(filp);
	struct mas_batch batch;
	long nr;
	int ret;

	ret = mas_check_transfer_args(args);
	if (ret)
		return ret;

	/* Who waits for a single request can as well do its work. */
	if (args->nr == 1 && args->min_nr == 1 && !args->timeout_ns && !how)
		how = MAS_IO_INLINE;

	mas_batch_init(&batch);
	nr = mas_submit_array(ctx, u64_to_user_ptr(args->reqs), args->nr,
			      comps ? &batch : NULL, how);
	if (nr < 0)
		return nr;

	args->out_submitted = nr;
	args->out_completed = 0;
	if (!comps)
		return 0;

	mas_batch_wait(ctx, &batch, min_t(unsigned int, args->min_nr, nr), args->timeout_ns);
	ret = mas_batch_collect(ctx, &batch, comps, nr);
	if (ret < 0)
		return ret;

	args->out_completed = ret;
	return 0;
}

static int mas_ioctl_eventfd(struct file *filp, void *buf)
{
	struct mxcd_mas_eventfd *args = buf;

	if (args->flags || args->__reserved)
		return -EINVAL;

	return mas_ctx_set_eventfd(filp->private_data, args->fd);
}

/* Every structure that an ioctl takes; they are handled on the stack. */
union mas_ioctl_args {
	struct mxcd_mas_query query;
	struct mxcd_mas_query_gpu query_gpu;
	struct mxcd_mas_query_file query_file;
	struct mxcd_mas_alloc alloc;
	struct mxcd_mas_free free;
	struct mxcd_mas_register reg;
	struct mxcd_mas_unregister unreg;
	struct mxcd_mas_transfer transfer;
	struct mxcd_mas_eventfd eventfd;
};

struct mas_ioctl {
	int (*fn)(struct file *filp, void *args);
	void (*undo)(struct file *filp, void *args);	/* may be NULL */
	unsigned int size;	/* of the structure, as this kernel knows it */
	unsigned int min_size;	/* of its first version */
};

/* min_size never changes, whatever is added to a structure behind it. */
static const struct mas_ioctl mas_ioctls[] = {
	[_IOC_NR(MXCD_MAS_QUERY)] = {
		.fn		= mas_ioctl_query,
		.size		= sizeof(struct mxcd_mas_query),
		.min_size	= offsetofend(struct mxcd_mas_query, out_max_files),
	},
	[_IOC_NR(MXCD_MAS_QUERY_GPU)] = {
		.fn		= mas_ioctl_query_gpu,
		.size		= sizeof(struct mxcd_mas_query_gpu),
		.min_size	= offsetofend(struct mxcd_mas_query_gpu, out_device),
	},
	[_IOC_NR(MXCD_MAS_QUERY_FILE)] = {
		.fn		= mas_ioctl_query_file,
		.size		= sizeof(struct mxcd_mas_query_file),
		.min_size	= offsetofend(struct mxcd_mas_query_file, __reserved),
	},
	[_IOC_NR(MXCD_MAS_ALLOC)] = {
		.fn		= mas_ioctl_alloc,
		.undo		= mas_undo_alloc,
		.size		= sizeof(struct mxcd_mas_alloc),
		.min_size	= offsetofend(struct mxcd_mas_alloc, __reserved),
	},
	[_IOC_NR(MXCD_MAS_FREE)] = {
		.fn		= mas_ioctl_free,
		.size		= sizeof(struct mxcd_mas_free),
		.min_size	= offsetofend(struct mxcd_mas_free, handle),
	},
	[_IOC_NR(MXCD_MAS_REGISTER)] = {
		.fn		= mas_ioctl_register,
		.undo		= mas_undo_register,
		.size		= sizeof(struct mxcd_mas_register),
		.min_size	= offsetofend(struct mxcd_mas_register, file),
	},
	[_IOC_NR(MXCD_MAS_UNREGISTER)] = {
		.fn		= mas_ioctl_unregister,
		.size		= sizeof(struct mxcd_mas_unregister),
		.min_size	= offsetofend(struct mxcd_mas_unregister, file),
	},
	[_IOC_NR(MXCD_MAS_TRANSFER)] = {
		.fn		= mas_ioctl_transfer,
		.size		= sizeof(struct mxcd_mas_transfer),
		.min_size	= offsetofend(struct mxcd_mas_transfer, out_completed),
	},
	[_IOC_NR(MXCD_MAS_EVENTFD)] = {
		.fn		= mas_ioctl_eventfd,
		.size		= sizeof(struct mxcd_mas_eventfd),
		.min_size	= offsetofend(struct mxcd_mas_eventfd, __reserved),
	},
};

static const struct mas_ioctl *mas_find_ioctl(unsigned int cmd)
{
	unsigned int nr = _IOC_NR(cmd);

	if (nr >= ARRAY_SIZE(mas_ioctls) || cmd != _IO(MXCD_MAS_IOC_TYPE, nr))
		return NULL;

	return &mas_ioctls[nr];
}

static long mas_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	const struct mas_ioctl *ioctl = mas_find_ioctl(cmd);
	void __user *user = (void __user *)arg;
	union mas_ioctl_args args = {};
	u32 size;
	int ret;

	if (!ioctl)
		return -ENOTTY;
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	if (size < ioctl->min_size)
		return -EINVAL;

	ret = copy_struct_from_user(&args, ioctl->size, user, size);
	if (!ret)
		ret = ioctl->fn(filp, &args);
	if (!ret && copy_to_user(user, &args, min(size, ioctl->size))) {
		if (ioctl->undo)
			ioctl->undo(filp, &args);
		ret = -EFAULT;
	}

	return ret;
}

static const struct file_operations mas_fops = {
	.owner		= THIS_MODULE,
	.open		= mas_open,
	.release	= mas_release,
	.read		= mas_read,
	.write		= mas_write,
	.poll		= mas_poll,
	.mmap		= mas_mmap,
	.unlocked_ioctl	= mas_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.show_fdinfo	= mas_show_fdinfo,
};

static int mas_fs_init_context(struct fs_context *fc)
{
	return init_pseudo(fc, MAS_FS_MAGIC) ? 0 : -ENOMEM;
}

static struct file_system_type mas_fs_type = {
	.name			= "mxcd_mas",
	.init_fs_context	= mas_fs_init_context,
	.kill_sb		= kill_anon_super,
};

static int mas_inode_init(void)
{
	mas_mnt = kern_mount(&mas_fs_type);
	if (IS_ERR(mas_mnt))
		return PTR_ERR(mas_mnt);

	mas_inode = alloc_anon_inode(mas_mnt->mnt_sb);
	if (IS_ERR(mas_inode)) {
		kern_unmount(mas_mnt);
		return PTR_ERR(mas_inode);
	}

	return 0;
}

static void mas_inode_exit(void)
{
	iput(mas_inode);
	kern_unmount(mas_mnt);
}

/**
 * mas_dev_zap - take VRAM out of all page tables
 *
 * What is still there is faulted in again; what is not gives SIGBUS.
 *
 * Context: may sleep.
 */
void mas_dev_zap(void)
{
	unmap_mapping_range(mas_inode->i_mapping, 0, 0, 1);
}

static int mas_make_node(unsigned int minor)
{
	struct device *dev;
	dev_t devt = MKDEV(MAJOR(mas_devt), minor);

	if (test_bit(minor, mas_nodes))
		return 0;

	dev = minor ? device_create(mas_class, NULL, devt, NULL, "mxcd_mas%u", minor - 1) :
		      device_create(mas_class, NULL, devt, NULL, "mxcd_mas");
	if (IS_ERR(dev))
		return PTR_ERR(dev);

	set_bit(minor, mas_nodes);
	return 0;
}

/**
 * mas_dev_add - make the device node of a GPU
 * @index: mgpu_id
 *
 * Context: may sleep; mxcd_gpus_lock is held.
 * Return: 0 or a negative errno.
 */
int mas_dev_add(int index)
{
	return mas_make_node(index + 1);
}

static int mas_chrdev_init(void)
{
	int ret;

	ret = alloc_chrdev_region(&mas_devt, 0, MAS_MINORS, "mxcd_mas");
	if (ret)
		return ret;

	cdev_init(&mas_cdev, &mas_fops);
	mas_cdev.owner = THIS_MODULE;
	ret = cdev_add(&mas_cdev, mas_devt, MAS_MINORS);
	if (ret)
		unregister_chrdev_region(mas_devt, MAS_MINORS);

	return ret;
}

static void mas_chrdev_exit(void)
{
	cdev_del(&mas_cdev);
	unregister_chrdev_region(mas_devt, MAS_MINORS);
}

/**
 * mas_dev_init - make /dev/mxcd_mas
 *
 * Context: module initialisation.
 * Return: 0 or a negative errno.
 */
int mas_dev_init(void)
{
	int ret;

	ret = mas_inode_init();
	if (ret)
		return ret;

	ret = mas_chrdev_init();
	if (ret)
		goto err_inode;

	mas_class = class_create("mxcd_mas");
	if (IS_ERR(mas_class)) {
		ret = PTR_ERR(mas_class);
		goto err_chrdev;
	}

	ret = mas_make_node(0);
	if (ret)
		goto err_class;

	return 0;

err_class:
	class_destroy(mas_class);
err_chrdev:
	mas_chrdev_exit();
err_inode:
	mas_inode_exit();
	return ret;
}

/**
 * mas_dev_exit - remove all device nodes
 *
 * Context: module exit; no GPU is bound and no descriptor is open.
 */
void mas_dev_exit(void)
{
	unsigned int minor;

	for_each_set_bit(minor, mas_nodes, MAS_MINORS)
		device_destroy(mas_class, MKDEV(MAJOR(mas_devt), minor));
	class_destroy(mas_class);
	mas_chrdev_exit();
	mas_inode_exit();
}
