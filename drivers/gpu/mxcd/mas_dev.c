// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/mxcd_mas and /dev/mxcd_mas<n>: the nodes and their file operations.
 *
 * Minor 0 reaches every GPU, minor n + 1 reaches GPU n. The node of a GPU appears
 * when it is first bound and stays until the module goes: unbinding must not let a
 * program that opens it with O_CREAT make a regular file there. While MAS is off,
 * open() says -ENODEV.
 *
 * All open files share one address_space of the driver's own, whatever node and
 * whatever mount namespace they came from: unbind zaps all mappings through it.
 */
#include <linux/cdev.h>
#include <linux/cred.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/huge_mm.h>
#include <linux/io_uring/cmd.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mount.h>
#include <linux/poll.h>
#include <linux/pseudo_fs.h>
#include <linux/seq_file.h>

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
	struct mas_ctx *ctx;

	if (!(mxcd_gpus_enabled() & gpus))
		return -ENODEV;

	if (!(filp->f_flags & O_NONBLOCK))
		mas_gup_prove_all(gpus);
	ctx = mas_ctx_create(gpus);
	if (IS_ERR(ctx))
		return PTR_ERR(ctx);

	filp->private_data = ctx;
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

static ssize_t mas_write(struct file *filp, const char __user *buf, size_t count, loff_t *ppos)
{
	size_t size = sizeof(struct mxcd_mas_req);
	long nr;

	if (!mas_caller_may_act(filp))
		return -EACCES;
	if (count % size)
		return -EINVAL;

	nr = mas_submit_user(filp->private_data, (const void __user *)buf, NULL,
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

static int mas_dev_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct mas_ctx *ctx = filp->private_data;

	return mas_may_mmap(ctx) ? mas_mmap(ctx, vma) : -EPERM;
}

static void mas_show_fdinfo(struct seq_file *m, struct file *filp)
{
	mas_ctx_show(filp->private_data, m);
}

static int mas_uring_cmd(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	return mas_uring_issue(cmd->file->private_data, cmd, issue_flags);
}

static const struct file_operations mas_fops = {
	.owner		= THIS_MODULE,
	.open		= mas_open,
	.release	= mas_release,
	.read		= mas_read,
	.write		= mas_write,
	.poll		= mas_poll,
	.mmap		= mas_dev_mmap,
	.get_unmapped_area = thp_get_unmapped_area,
	.unlocked_ioctl	= mas_ioctl,
	.compat_ioctl	= compat_ptr_ioctl,
	.uring_cmd	= mas_uring_cmd,
	.uring_cmd_iopoll = mas_uring_iopoll,
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
 * Context: may sleep; nothing is mapped before mas_dev_init().
 */
void mas_dev_zap(void)
{
	unmap_mapping_range(mas_inode->i_mapping, 0, 0, 1);
}

/**
 * mas_dev_adopt - let mappings of a file be zapped by mas_dev_zap()
 * @file: a file that nobody has mapped yet
 *
 * Context: any.
 */
void mas_dev_adopt(struct file *file)
{
	file->f_mapping = mas_inode->i_mapping;
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
