// SPDX-License-Identifier: GPL-2.0
/*
 * layout/nodes/<n>/storage_links/<BDF>: what to expect between a GPU and each
 * storage controller of the machine.
 *
 * The directories follow the PCI bus: its notifier tells that a storage
 * controller came or went, and a work item brings all GPUs up to date. The
 * values are computed when they are read.
 */
#include <linux/device.h>
#include <linux/kobject.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "mas.h"
#include "mxcd_layout.h"

/**
 * struct mxcd_link - a directory storage_links/<BDF>
 * @kobj: the directory
 * @gpu: the GPU, valid as long as the directory can be read
 * @storage: the controller, a reference is held
 * @node: on mxcd_node::links
 * @seen: found on the bus by the look that is under way
 */
struct mxcd_link {
	struct kobject kobj;
	struct mxcd_gpu *gpu;
	struct pci_dev *storage;
	struct list_head node;
	bool seen;
};

/* Protects mxcd_link_nodes and the links of each node on it. */
static DEFINE_MUTEX(mxcd_links_lock);
static LIST_HEAD(mxcd_link_nodes);

static struct mxcd_link *to_link(struct kobject *kobj)
{
	return container_of(kobj, struct mxcd_link, kobj);
}

static ssize_t driver_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	char name[MAS_DRIVER_NAME_LEN];
	int ret = mas_pci_driver(to_link(kobj)->storage, name);

	return ret ? ret : sysfs_emit(buf, "%s\n", name);
}

static ssize_t distance_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct mxcd_link *link = to_link(kobj);

	return sysfs_emit(buf, "%u\n", mas_pci_distance(link->storage, link->gpu));
}

static ssize_t link_route(struct mxcd_link *link, bool write, char *buf)
{
	struct mas_route route = mas_route_eval(link->storage, link->gpu, write);

	return sysfs_emit(buf, "%s\n", route.route == MXCD_MAS_ROUTE_P2P ? "p2p" : "bounce");
}

static ssize_t route_read_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return link_route(to_link(kobj), false, buf);
}

static ssize_t route_write_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return link_route(to_link(kobj), true, buf);
}

static ssize_t reason_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct mxcd_link *link = to_link(kobj);
	struct mas_route route = mas_route_eval(link->storage, link->gpu, false);

	if (route.route == MXCD_MAS_ROUTE_P2P)
		route = mas_route_eval(link->storage, link->gpu, true);

	return sysfs_emit(buf, "%s\n", mas_route_reason(route.reason));
}

static ssize_t link_proof(struct mxcd_link *link, bool write, char *buf)
{
	static const char * const words[] = {
		[MAS_PROOF_NONE]	= "none",
		[MAS_PROOF_PASSED]	= "passed",
		[MAS_PROOF_FAILED]	= "failed",
	};

	return sysfs_emit(buf, "%s\n",
			  words[mas_proof_state(link->gpu, link->storage, write)]);
}

static ssize_t proof_read_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return link_proof(to_link(kobj), false, buf);
}

static ssize_t proof_write_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return link_proof(to_link(kobj), true, buf);
}

static struct kobj_attribute driver_attr = __ATTR_RO(driver);
static struct kobj_attribute distance_attr = __ATTR_RO(distance);
static struct kobj_attribute route_read_attr = __ATTR_RO(route_read);
static struct kobj_attribute route_write_attr = __ATTR_RO(route_write);
static struct kobj_attribute proof_read_attr = __ATTR_RO(proof_read);
static struct kobj_attribute proof_write_attr = __ATTR_RO(proof_write);
static struct kobj_attribute reason_attr = __ATTR_RO(reason);

static struct attribute *link_attrs[] = {
	&driver_attr.attr,
	&distance_attr.attr,
	&route_read_attr.attr,
	&route_write_attr.attr,
	&proof_read_attr.attr,
	&proof_write_attr.attr,
	&reason_attr.attr,
	NULL
};
ATTRIBUTE_GROUPS(link);

static void link_release(struct kobject *kobj)
{
	struct mxcd_link *link = to_link(kobj);

	pci_dev_put(link->storage);
	kfree(link);
}

static const struct kobj_type link_ktype = {
	.release	= link_release,
	.sysfs_ops	= &kobj_sysfs_ops,
	.default_groups	= link_groups,
};

static bool is_storage(struct pci_dev *pdev)
{
	return pdev->class >> 16 == PCI_BASE_CLASS_STORAGE;
}

static int link_create(struct mxcd_node *node, struct pci_dev *storage)
{
	struct mxcd_link *link;
	int ret;

	link = kzalloc(sizeof(*link), GFP_KERNEL);
	if (!link)
		return -ENOMEM;

	link->gpu = node->gpu;
	link->storage = pci_dev_get(storage);
	link->seen = true;

	ret = kobject_init_and_add(&link->kobj, &link_ktype, node->links_dir, "%s",
				   pci_name(storage));
	if (ret) {
		kobject_put(&link->kobj);
		return ret;
	}

	list_add_tail(&link->node, &node->links);
	return 0;
}

static void link_destroy(struct mxcd_link *link)
{
	list_del(&link->node);
	kobject_del(&link->kobj);
	kobject_put(&link->kobj);
}

static struct mxcd_link *link_find(struct mxcd_node *node, struct pci_dev *storage)
{
	struct mxcd_link *link;

	list_for_each_entry(link, &node->links, node)
		if (link->storage == storage)
			return link;

	return NULL;
}

static void links_mark(struct mxcd_node *node)
{
	struct mxcd_link *link;
	struct pci_dev *pdev = NULL;

	list_for_each_entry(link, &node->links, node)
		link->seen = false;

	for_each_pci_dev(pdev) {
		link = link_find(node, pdev);
		if (link)
			link->seen = true;
	}
}

static void links_sweep(struct mxcd_node *node)
{
	struct mxcd_link *link, *next;

	list_for_each_entry_safe(link, next, &node->links, node)
		if (!link->seen)
			link_destroy(link);
}

/*
 * One directory for each storage controller on the bus. Those that are gone go
 * first: a controller that came back has the same name.
 */
static void links_sync(struct mxcd_node *node)
{
	struct pci_dev *pdev = NULL;

	lockdep_assert_held(&mxcd_links_lock);

	links_mark(node);
	links_sweep(node);
	for_each_pci_dev(pdev)
		if (is_storage(pdev) && !link_find(node, pdev) && link_create(node, pdev))
			pci_warn(node->gpu->pdev, "no storage_links for %s: out of memory\n",
				 pci_name(pdev));
}

static void links_notify_readers(struct mxcd_node *node)
{
	struct mxcd_link *link;

	list_for_each_entry(link, &node->links, node) {
		sysfs_notify(&link->kobj, NULL, "route_read");
		sysfs_notify(&link->kobj, NULL, "route_write");
	}
}

static void links_sync_all(struct work_struct *work)
{
	struct mxcd_node *node;

	mutex_lock(&mxcd_links_lock);
	list_for_each_entry(node, &mxcd_link_nodes, all)
		links_sync(node);
	list_for_each_entry(node, &mxcd_link_nodes, all)
		links_notify_readers(node);
	mutex_unlock(&mxcd_links_lock);
	mxcd_layout_uevent();
}

static DECLARE_WORK(links_work, links_sync_all);

/* Parameters are set before anything else is there, and when it has gone. */
static bool links_ready;
static DEFINE_SPINLOCK(links_ready_lock);

static void links_set_ready(bool ready)
{
	spin_lock(&links_ready_lock);
	links_ready = ready;
	spin_unlock(&links_ready_lock);
}

/**
 * mxcd_links_changed - what storage_links say may have changed
 *
 * Brings the directories up to date and tells those who poll the routes or hear
 * uevents, a little later.
 *
 * Context: process.
 */
void mxcd_links_changed(void)
{
	spin_lock(&links_ready_lock);
	if (links_ready)
		queue_work(mas_wq, &links_work);
	spin_unlock(&links_ready_lock);
}

static int links_notify(struct notifier_block *nb, unsigned long action, void *data)
{
	struct pci_dev *pdev = to_pci_dev(data);

	if (!is_storage(pdev))
		return NOTIFY_DONE;

	switch (action) {
	case BUS_NOTIFY_BIND_DRIVER:
	case BUS_NOTIFY_UNBIND_DRIVER:
	case BUS_NOTIFY_UNBOUND_DRIVER:
		mas_proof_drop_storage(pdev);
		fallthrough;
	case BUS_NOTIFY_ADD_DEVICE:
	case BUS_NOTIFY_BOUND_DRIVER:
	case BUS_NOTIFY_DRIVER_NOT_BOUND:
	case BUS_NOTIFY_REMOVED_DEVICE:
		mas_route_changed();
	}

	return NOTIFY_OK;
}

static struct notifier_block links_nb = {
	.notifier_call = links_notify,
};

/**
 * mxcd_links_init - begin to follow the PCI bus
 *
 * Context: module initialisation.
 * Return: 0 or a negative errno.
 */
int mxcd_links_init(void)
{
	int ret = bus_register_notifier(&pci_bus_type, &links_nb);

	if (!ret)
		links_set_ready(true);
	return ret;
}

/**
 * mxcd_links_exit - stop to follow the PCI bus
 *
 * Context: module exit; no GPU is bound.
 */
void mxcd_links_exit(void)
{
	links_set_ready(false);
	bus_unregister_notifier(&pci_bus_type, &links_nb);
	cancel_work_sync(&links_work);
}

/**
 * mxcd_links_add - make storage_links of a GPU
 * @node: the GPU's directory
 *
 * Without memory it is incomplete, and the log says so: not a reason not to bind.
 *
 * Context: may sleep.
 */
void mxcd_links_add(struct mxcd_node *node)
{
	node->links_dir = kobject_create_and_add("storage_links", &node->kobj);
	if (!node->links_dir) {
		pci_warn(node->gpu->pdev, "no storage_links: out of memory\n");
		return;
	}

	mutex_lock(&mxcd_links_lock);
	list_add_tail(&node->all, &mxcd_link_nodes);
	links_sync(node);
	mutex_unlock(&mxcd_links_lock);
}

/**
 * mxcd_links_del - remove storage_links of a GPU
 * @node: the GPU's directory; no file in storage_links is read afterwards
 *
 * Context: may sleep.
 */
void mxcd_links_del(struct mxcd_node *node)
{
	struct mxcd_link *link, *next;

	if (!node->links_dir)
		return;

	mutex_lock(&mxcd_links_lock);
	list_del(&node->all);
	list_for_each_entry_safe(link, next, &node->links, node)
		link_destroy(link);
	mutex_unlock(&mxcd_links_lock);

	kobject_put(node->links_dir);
	node->links_dir = NULL;
}
