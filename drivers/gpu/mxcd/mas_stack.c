// SPDX-License-Identifier: GPL-2.0
/*
 * Block devices that are not a disk of one controller: heads of NVMe multipath, md,
 * device-mapper. Are all the disks below NVMe on PCI, and do the layers between
 * leave data alone?
 *
 * Which of the disks a request will go to cannot be told, and disks come and go
 * under such a device while it is in use. Each of these changes adds an entry to a
 * directory in sysfs or takes one away, and the kernel counts that: the counts are
 * looked at before each request.
 *
 * A new path of multipath is a new controller, whose coming the PCI bus announces
 * before there is an entry. A disk that is added to an array may be behind any
 * controller and be used at once, so the verdict for an array is the worst over all
 * NVMe controllers of the machine.
 */
#include <linux/blk-integrity.h>
#include <linux/blkdev.h>
#include <linux/file.h>
#include <linux/kernfs.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "mas.h"

/* Directories that may matter for one device, and how deep they may be. */
#define MAS_STACK_DIRS	16
#define MAS_STACK_DEPTH	4

/* Controllers that may reach one namespace. */
#define MAS_STACK_PATHS	16

/**
 * struct mas_stack_dirs - directories that list what lies below a device
 * @nr: number of @dirs
 * @dirs: references are held
 * @revs: their revisions when they were looked at last
 */
struct mas_stack_dirs {
	unsigned int nr;
	struct kernfs_node *dirs[MAS_STACK_DIRS];
	unsigned long revs[MAS_STACK_DIRS];
};

/**
 * struct mas_stack - what lies below a block device
 * @disk: the device; whoever has this has it open
 * @lock: protects the rest
 * @seen: what was looked at last
 * @any: any controller of the machine may be asked, now or soon
 * @nr_paths: number of @paths
 * @paths: the controllers that may be asked otherwise, references are held
 */
struct mas_stack {
	struct gendisk *disk;
	struct mutex lock; /* see above */
	struct mas_stack_dirs seen;
	bool any;
	unsigned int nr_paths;
	struct pci_dev *paths[MAS_STACK_PATHS];
};

static u16 stack_look(struct mas_stack *stack, struct gendisk *disk, int depth);

static bool is_class(const struct device *dev, const char *name)
{
	return dev && dev->class && !strcmp(dev->class->name, name);
}

/**
 * mas_stack_controller - the storage controller of a plain disk
 * @disk: a disk that is open
 *
 * Only a namespace holds its controller for as long as it is open. Of the stacks, dm
 * and md have no parent, and the head of a multipath namespace hangs off its
 * subsystem.
 *
 * Context: any.
 * Return: the PCI function if it is an NVMe namespace on PCI that has but one path, or
 * NULL.
 */
struct pci_dev *mas_stack_controller(struct gendisk *disk)
{
	struct device *ctrl = disk_to_dev(disk)->parent;

	if (strncmp(disk->disk_name, "nvme", 4) || !is_class(ctrl, "nvme"))
		return NULL;
	if (!ctrl->parent || !dev_is_pci(ctrl->parent))
		return NULL;

	return to_pci_dev(ctrl->parent);
}

/* Remember a directory as it is now, before it is looked at. */
static bool stack_watch(struct mas_stack_dirs *seen, struct kernfs_node *dir)
{
	if (!dir || seen->nr == MAS_STACK_DIRS)
		return false;

	kernfs_get(dir);
	seen->dirs[seen->nr] = dir;
	seen->revs[seen->nr++] = READ_ONCE(dir->dir.rev);
	smp_rmb(); /* what is found may be newer than the revision, not older */
	return true;
}

static bool dir_lists(struct kernfs_node *dir, struct device *dev)
{
	struct kernfs_node *entry = kernfs_find_and_get(dir, dev_name(dev));

	kernfs_put(entry);
	return entry;
}

/* Look at each device of @class that @dir has an entry for. */
static u16 stack_look_each(struct mas_stack *stack, struct kernfs_node *dir,
			   const struct class *class,
			   u16 (*look)(struct mas_stack *stack, struct device *dev, int depth),
			   int depth)
{
	u16 reason = MXCD_MAS_REASON_NONE;
	struct class_dev_iter iter;
	unsigned int nr = 0;
	struct device *dev;

	if (!stack_watch(&stack->seen, dir))
		return MXCD_MAS_REASON_STACKED;

	class_dev_iter_init(&iter, class, NULL, NULL);
	while (!reason && (dev = class_dev_iter_next(&iter))) {
		if (!dir_lists(dir, dev))
			continue;
		reason = look(stack, dev, depth);
		nr++;
	}
	class_dev_iter_exit(&iter);

	return nr ? reason : MXCD_MAS_REASON_STACKED;
}

static u16 look_at_path(struct mas_stack *stack, struct device *dev, int depth)
{
	if (!dev->parent || !dev_is_pci(dev->parent))
		return MXCD_MAS_REASON_NOT_PCI;
	if (stack->nr_paths == MAS_STACK_PATHS)
		return MXCD_MAS_REASON_STACKED;

	stack->paths[stack->nr_paths++] = pci_dev_get(to_pci_dev(dev->parent));
	return MXCD_MAS_REASON_NONE;
}

/*
 * Open for as long as it is looked at, or what it hangs off may go meanwhile. It is
 * closed at once: whoever wants to take it apart must not find it busy later.
 */
static u16 look_at_member(struct mas_stack *stack, struct device *dev, int depth)
{
	struct file *member = bdev_file_open_by_dev(dev->devt, BLK_OPEN_READ, NULL, NULL);
	u16 reason;

	if (IS_ERR(member))
		return MXCD_MAS_REASON_NOT_READY;

	reason = stack_look(stack, file_bdev(member)->bd_disk, depth + 1);
	__fput_sync(member);

	return reason;
}

static u16 stack_look_members(struct mas_stack *stack, struct gendisk *disk, int depth)
{
	struct kobject *slaves = READ_ONCE(disk->slave_dir);

	if (!slaves || depth == MAS_STACK_DEPTH)
		return MXCD_MAS_REASON_STACKED;

	stack->any = true;
	return stack_look_each(stack, slaves->sd, disk_to_dev(disk)->class, look_at_member,
			       depth);
}

static int take_nvme_class(struct device *dev, void *data)
{
	const struct class **class = data;

	if (is_class(dev, "nvme"))
		*class = dev->class;

	return !!*class;
}

/* There is no other way to it than by a device that has it. */
static const struct class *nvme_class(void)
{
	const struct class *class = NULL;
	struct pci_dev *pdev = NULL;

	while (!class && (pdev = pci_get_class(PCI_CLASS_STORAGE_EXPRESS, pdev)))
		device_for_each_child(&pdev->dev, &class, take_nvme_class);
	pci_dev_put(pdev);

	return class;
}

/* A namespace that several controllers may reach. */
static u16 stack_look_paths(struct mas_stack *stack, struct device *subsystem)
{
	const struct class *class = nvme_class();

	if (!class)
		return MXCD_MAS_REASON_NOT_PCI;

	return stack_look_each(stack, subsystem->kobj.sd, class, look_at_path, 0);
}

static u16 stack_look_nvme(struct mas_stack *stack, struct gendisk *disk)
{
	struct device *parent = disk_to_dev(disk)->parent;

	if (is_class(parent, "nvme-subsystem"))
		return stack_look_paths(stack, parent);
	if (is_class(parent, "nvme"))
		return look_at_path(stack, parent, 0);

	return MXCD_MAS_REASON_STACKED;
}

/* RAID with parity copies what is written. */
static bool md_copies(struct gendisk *disk)
{
	return disk->queue->limits.features & BLK_FEAT_RAID_PARTIAL_STRIPES_EXPENSIVE;
}

static u16 stack_look(struct mas_stack *stack, struct gendisk *disk, int depth)
{
	/* Made and checked by the CPU, which would have to read VRAM. */
	if (bdev_get_integrity(disk->part0))
		return MXCD_MAS_REASON_INTEGRITY;
	if (!strncmp(disk->disk_name, "nvme", 4))
		return stack_look_nvme(stack, disk);
	if (!strncmp(disk->disk_name, "md", 2) && !md_copies(disk))
		return stack_look_members(stack, disk, depth);
	if (strncmp(disk->disk_name, "dm-", 3))
		return MXCD_MAS_REASON_STACKED;

	return mas_policy_dm(disk->disk_name) ? stack_look_members(stack, disk, depth) :
						MXCD_MAS_REASON_DM;
}

static void dirs_put(struct mas_stack_dirs *seen)
{
	while (seen->nr)
		kernfs_put(seen->dirs[--seen->nr]);
}

static bool dirs_have_changed(const struct mas_stack_dirs *seen)
{
	unsigned int i;

	for (i = 0; i < seen->nr; i++)
		if (READ_ONCE(seen->dirs[i]->dir.rev) != seen->revs[i])
			return true;

	return false;
}

static void stack_forget_paths(struct mas_stack *stack)
{
	while (stack->nr_paths)
		pci_dev_put(stack->paths[--stack->nr_paths]);
	stack->any = false;
}

/**
 * mas_stack_create - what lies below a block device
 * @disk: a disk that is open for as long as this is used
 *
 * Context: may sleep.
 * Return: to be freed by mas_stack_free(), or NULL without memory.
 */
struct mas_stack *mas_stack_create(struct gendisk *disk)
{
	struct mas_stack *stack = kzalloc(sizeof(*stack), GFP_KERNEL_ACCOUNT);

	if (!stack)
		return NULL;

	stack->disk = disk;
	mutex_init(&stack->lock);
	return stack;
}

/**
 * mas_stack_free - the counterpart
 * @stack: what mas_stack_create() returned, or NULL
 *
 * Context: may sleep.
 */
void mas_stack_free(struct mas_stack *stack)
{
	if (!stack)
		return;

	dirs_put(&stack->seen);
	stack_forget_paths(stack);
	kfree(stack);
}

/**
 * struct mas_stack_look - looks at a stack
 * @work: does it
 * @stack: the stack, its lock is held
 * @reason: what was found
 */
struct mas_stack_look {
	struct work_struct work;
	struct mas_stack *stack;
	u16 reason;
};

static void stack_look_work(struct work_struct *work)
{
	struct mas_stack_look *look = container_of(work, struct mas_stack_look, work);

	look->reason = stack_look(look->stack, look->stack->disk, 0);
}

/*
 * The members are opened for it. Whether the caller's cgroup lets him open them does
 * not matter, so a work item looks.
 */
static u16 stack_look_for_all(struct mas_stack *stack)
{
	struct mas_stack_look look = { .stack = stack };

	INIT_WORK_ONSTACK(&look.work, stack_look_work);
	queue_work(system_dfl_wq, &look.work);
	flush_work(&look.work);
	destroy_work_on_stack(&look.work);

	return look.reason;
}

/**
 * mas_stack_reason - why there is no p2p below a device, whatever the controllers
 * @stack: the device
 *
 * Context: may sleep.
 * Return: &enum mxcd_mas_reason.
 */
u16 mas_stack_reason(struct mas_stack *stack)
{
	struct mas_stack_dirs before;
	u16 reason;

	mutex_lock(&stack->lock);
	before = stack->seen;
	stack->seen.nr = 0;
	stack_forget_paths(stack);
	reason = stack_look_for_all(stack);
	/*
	 * Verdicts that rest on what was there before are not to outlive it. Asked when
	 * the new look has begun: there is no moment in between that neither sees.
	 */
	if (dirs_have_changed(&before))
		mas_route_forget();
	dirs_put(&before);
	mutex_unlock(&stack->lock);

	return reason;
}

/**
 * mas_stack_changed - may the last answer of mas_stack_reason() be wrong?
 * @stack: the device
 *
 * Context: may sleep.
 * Return: true if something came or went below it since.
 */
bool mas_stack_changed(struct mas_stack *stack)
{
	bool changed;

	mutex_lock(&stack->lock);
	changed = dirs_have_changed(&stack->seen);
	mutex_unlock(&stack->lock);

	return changed;
}

/* The next in the machine that disks can be used of, now or soon. */
static struct pci_dev *next_controller(struct pci_dev *storage)
{
	do {
		storage = pci_get_class(PCI_CLASS_STORAGE_EXPRESS, storage);
	} while (storage && !mas_pci_serves_disks(storage));

	return storage;
}

static struct pci_dev *next_path(struct mas_stack *stack, struct pci_dev *storage)
{
	unsigned int i = 0;

	while (storage && i < stack->nr_paths && stack->paths[i++] != storage)
		;
	pci_dev_put(storage);

	return i < stack->nr_paths ? pci_dev_get(stack->paths[i]) : NULL;
}

/**
 * mas_stack_next - walk the storage controllers that may be asked
 * @stack: the device, mas_stack_reason() has found nothing against it
 * @storage: NULL, or the one before, whose reference is dropped
 *
 * Context: may sleep.
 * Return: the next with a reference, or NULL.
 */
struct pci_dev *mas_stack_next(struct mas_stack *stack, struct pci_dev *storage)
{
	mutex_lock(&stack->lock);
	storage = stack->any ? next_controller(storage) : next_path(stack, storage);
	mutex_unlock(&stack->lock);

	return storage;
}

/**
 * mas_stack_only - the storage controller if there is but one
 * @stack: the device
 *
 * Context: may sleep.
 * Return: the PCI function with a reference if nothing else was below since
 * mas_stack_reason() was asked, or NULL.
 */
struct pci_dev *mas_stack_only(struct mas_stack *stack)
{
	struct pci_dev *only = NULL;

	if (mas_stack_changed(stack))
		return NULL;

	mutex_lock(&stack->lock);
	if (!stack->any && stack->nr_paths == 1)
		only = pci_dev_get(stack->paths[0]);
	mutex_unlock(&stack->lock);

	return only;
}
