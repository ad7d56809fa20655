// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/class/mxcd/mxcd/layout: the machine as user space sees it.
 *
 * Existing tools read this tree, with plain text tools: its names, its order of
 * nodes (CPU nodes first, then GPUs) and the format of its property files are an
 * interface, see Documentation/ABI/testing/sysfs-class-mxcd. Checks for "mas" are
 * done by grep on layout/properties: no other key there may contain the word.
 */
#include <linux/device.h>
#include <linux/jhash.h>
#include <linux/kobject.h>
#include <linux/nodemask.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/topology.h>

#include "mas_stats.h"
#include "mxcd.h"
#include "mxcd_layout.h"
#include "mxcd_version.h"

static struct class *mxcd_class;
static struct device *mxcd_dev;
static struct kobject *mxcd_layout;
static struct kobject *mxcd_nodes;

/* CPU nodes, in the order of their directories. */
static struct mxcd_node *mxcd_cpu_nodes[MAX_NUMNODES];
static int mxcd_num_cpu_nodes;
static atomic_t mxcd_num_gpu_nodes;

static struct mxcd_node *to_node(struct kobject *kobj)
{
	return container_of(kobj, struct mxcd_node, kobj);
}

static ssize_t layout_properties_show(struct kobject *kobj, struct kobj_attribute *attr,
				      char *buf)
{
	return sysfs_emit(buf,
			  "num_cpu_nodes %d\n"
			  "num_gpu_nodes %d\n"
			  "peer_mem 0\n"
			  "mas %d\n",
			  mxcd_num_cpu_nodes, atomic_read(&mxcd_num_gpu_nodes),
			  mxcd_gpus_enabled() != 0);
}

static struct kobj_attribute layout_properties_attr =
	__ATTR(properties, 0444, layout_properties_show, NULL);

static struct attribute *layout_attrs[] = {
	&layout_properties_attr.attr,
	NULL
};

static const struct attribute_group layout_group = {
	.attrs = layout_attrs,
};

static ssize_t drain_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", mas_is_draining());
}

static ssize_t drain_store(struct device *dev, struct device_attribute *attr,
			   const char *buf, size_t count)
{
	bool draining;
	int ret = kstrtobool(buf, &draining);

	if (ret)
		return ret;

	mas_set_draining(draining);
	return count;
}

static DEVICE_ATTR_RW(drain);

static ssize_t reasons_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	const char *words;
	int i, len = 0;

	for (i = 0; strcmp(words = mas_route_reason(i), "unknown"); i++)
		len += sysfs_emit_at(buf, len, "%d %s\n", i, words);

	return len;
}

static DEVICE_ATTR_RO(reasons);

static ssize_t version_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", MXCD_VERSION);
}

static DEVICE_ATTR_RO(version);

static struct attribute *mxcd_dev_attrs[] = {
	&dev_attr_drain.attr,
	&dev_attr_reasons.attr,
	&dev_attr_version.attr,
	NULL
};
ATTRIBUTE_GROUPS(mxcd_dev);

/* Decimal, never 0, the same for a card in the same slot at every boot. */
static u32 mxcd_gpu_id(struct pci_dev *pdev)
{
	return jhash_2words(pci_domain_nr(pdev->bus), pci_dev_id(pdev), 0) | 1;
}

static ssize_t gpu_id_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct mxcd_gpu *gpu = to_node(kobj)->gpu;

	return sysfs_emit(buf, "%u\n", gpu ? mxcd_gpu_id(gpu->pdev) : 0);
}

static struct kobj_attribute gpu_id_attr = __ATTR_RO(gpu_id);

static ssize_t cpu_properties(struct mxcd_node *node, char *buf)
{
	return sysfs_emit(buf,
			  "gpu_id 0\n"
			  "numa_node %d\n"
			  "cpu_cores_count %u\n",
			  node->numa_node,
			  cpumask_weight(cpumask_of_node(node->numa_node)));
}

static ssize_t gpu_properties(struct mxcd_gpu *gpu, char *buf)
{
	struct pci_dev *pdev = gpu->pdev;

	return sysfs_emit(buf,
			  "gpu_id %u\n"
			  "mgpu_id %d\n"
			  "vendor_id %u\n"
			  "device_id %u\n"
			  "domain %d\n"
			  "location_id %u\n"
			  "numa_node %d\n"
			  "vram_size %llu\n"
			  "vram_served %llu\n"
			  "vram_used %llu\n"
			  "page_struct_bytes %llu\n"
			  "mas %d\n",
			  mxcd_gpu_id(pdev), gpu->index, pdev->vendor, pdev->device,
			  pci_domain_nr(pdev->bus), pci_dev_id(pdev),
			  dev_to_node(&pdev->dev),
			  (u64)pci_resource_len(pdev, gpu->chip->bar), gpu->vram.size,
			  mxcd_vram_used(gpu), gpu->vram.page_struct_bytes,
			  mxcd_gpu_is_enabled(gpu));
}

static ssize_t properties_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct mxcd_node *node = to_node(kobj);

	return node->gpu ? gpu_properties(node->gpu, buf) : cpu_properties(node, buf);
}

static struct kobj_attribute properties_attr = __ATTR_RO(properties);

static ssize_t mas_state_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct mxcd_gpu *gpu = to_node(kobj)->gpu;
	const char *trouble = gpu->vram.size ? mxcd_gpu_trouble(gpu) : NULL;

	return sysfs_emit(buf, "%s\n", trouble ? trouble : gpu->state);
}

static struct kobj_attribute mas_state_attr = __ATTR_RO(mas_state);

static ssize_t mas_provider_show(struct kobject *kobj, struct kobj_attribute *attr,
				 char *buf)
{
	struct mxcd_gpu *gpu = to_node(kobj)->gpu;
	const char *name = gpu->vram.provider ? gpu->vram.provider->name : gpu->foreign.name;

	return sysfs_emit(buf, "%s\n", name ? name : "none");
}

static struct kobj_attribute mas_provider_attr = __ATTR_RO(mas_provider);

static ssize_t mas_holders_show_attr(struct kobject *kobj, struct kobj_attribute *attr,
				     char *buf)
{
	return mas_holders_show(to_node(kobj)->gpu, buf);
}

static ssize_t mas_gup_show_attr(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return mas_gup_show(to_node(kobj)->gpu, buf);
}

static struct kobj_attribute mas_gup_attr = __ATTR(mas_gup, 0444, mas_gup_show_attr, NULL);

/* Processes of all containers are in it. */
static struct kobj_attribute mas_holders_attr =
	__ATTR(mas_holders, 0400, mas_holders_show_attr, NULL);

static struct attribute *node_attrs[] = {
	&gpu_id_attr.attr,
	&properties_attr.attr,
	&mas_state_attr.attr,
	&mas_provider_attr.attr,
	&mas_gup_attr.attr,
	&mas_holders_attr.attr,
	NULL
};

static umode_t node_attr_visible(struct kobject *kobj, struct attribute *attr, int n)
{
	bool of_gpu = attr == &mas_state_attr.attr || attr == &mas_provider_attr.attr ||
		      attr == &mas_gup_attr.attr || attr == &mas_holders_attr.attr;

	if (of_gpu && !to_node(kobj)->gpu)
		return 0;

	return attr->mode;
}

static const struct attribute_group node_group = {
	.attrs = node_attrs,
	.is_visible = node_attr_visible,
};

static const struct attribute_group *node_groups[] = {
	&node_group,
	NULL
};

static void node_release(struct kobject *kobj)
{
	kfree(to_node(kobj));
}

static const struct kobj_type node_ktype = {
	.release	= node_release,
	.sysfs_ops	= &kobj_sysfs_ops,
	.default_groups	= node_groups,
};

static struct mxcd_node *mxcd_node_create(int number, int numa_node, struct mxcd_gpu *gpu)
{
	struct mxcd_node *node;
	int ret;

	node = kzalloc(sizeof(*node), GFP_KERNEL);
	if (!node)
		return ERR_PTR(-ENOMEM);

	node->gpu = gpu;
	node->numa_node = numa_node;
	INIT_LIST_HEAD(&node->links);

	ret = kobject_init_and_add(&node->kobj, &node_ktype, mxcd_nodes, "%d", number);
	if (ret) {
		kobject_put(&node->kobj);
		return ERR_PTR(ret);
	}

	return node;
}

/* Waits for readers of its files: no file is being read afterwards. */
static void mxcd_node_destroy(struct mxcd_node *node)
{
	kobject_del(&node->kobj);
	kobject_put(&node->kobj);
}

/**
 * mxcd_layout_uevent - send a change uevent of the device
 *
 * Context: may sleep.
 */
void mxcd_layout_uevent(void)
{
	kobject_uevent(&mxcd_dev->kobj, KOBJ_CHANGE);
}

/**
 * mxcd_layout_changed - tell those who poll layout/properties or hear uevents
 *
 * To be called when what they will read then is true.
 *
 * Context: may sleep.
 */
void mxcd_layout_changed(void)
{
	sysfs_notify(mxcd_layout, NULL, "properties");
	mxcd_layout_uevent();
}

/**
 * mxcd_layout_state_changed - tell those who poll mas_state, and as above
 * @gpu: the GPU
 *
 * Context: may sleep; the GPU's device lock is held.
 */
void mxcd_layout_state_changed(struct mxcd_gpu *gpu)
{
	sysfs_notify(&gpu->node->kobj, NULL, "mas_state");
	mxcd_layout_changed();
}

/**
 * mxcd_layout_add - show a GPU in sysfs
 * @gpu: the GPU, complete but for being published
 *
 * Context: may sleep; mxcd_gpus_lock is held.
 * Return: 0 or a negative errno, then nothing is left behind.
 */
int mxcd_layout_add(struct mxcd_gpu *gpu)
{
	struct mxcd_node *node;

	node = mxcd_node_create(mxcd_num_cpu_nodes + gpu->index,
				dev_to_node(&gpu->pdev->dev), gpu);
	if (IS_ERR(node))
		return PTR_ERR(node);

	if (mas_stats_show(gpu, &node->kobj))
		pci_warn(gpu->pdev, "no mas_stats: out of memory\n");
	mxcd_links_add(node);
	gpu->node = node;
	atomic_inc(&mxcd_num_gpu_nodes);
	return 0;
}

/**
 * mxcd_layout_del - take a GPU out of sysfs
 * @gpu: the GPU; no sysfs file reads it afterwards
 *
 * Context: may sleep; mxcd_gpus_lock is held. No file under layout takes it.
 */
void mxcd_layout_del(struct mxcd_gpu *gpu)
{
	mas_stats_hide(gpu);
	mxcd_links_del(gpu->node);
	mxcd_node_destroy(gpu->node);
	gpu->node = NULL;
	atomic_dec(&mxcd_num_gpu_nodes);
}

static void mxcd_del_cpu_nodes(void)
{
	while (mxcd_num_cpu_nodes)
		mxcd_node_destroy(mxcd_cpu_nodes[--mxcd_num_cpu_nodes]);
}

static int mxcd_add_cpu_nodes(void)
{
	struct mxcd_node *node;
	int nid;

	for_each_online_node(nid) {
		node = mxcd_node_create(mxcd_num_cpu_nodes, nid, NULL);
		if (IS_ERR(node)) {
			mxcd_del_cpu_nodes();
			return PTR_ERR(node);
		}
		mxcd_cpu_nodes[mxcd_num_cpu_nodes++] = node;
	}

	return 0;
}

static int mxcd_add_tree(void)
{
	int ret = -ENOMEM;

	mxcd_layout = kobject_create_and_add("layout", &mxcd_dev->kobj);
	if (!mxcd_layout)
		return ret;

	mxcd_nodes = kobject_create_and_add("nodes", mxcd_layout);
	if (!mxcd_nodes)
		goto err_layout;

	ret = mxcd_add_cpu_nodes();
	if (ret)
		goto err_nodes;

	ret = sysfs_create_group(mxcd_layout, &layout_group);
	if (ret)
		goto err_cpu_nodes;

	return 0;

err_cpu_nodes:
	mxcd_del_cpu_nodes();
err_nodes:
	kobject_put(mxcd_nodes);
err_layout:
	kobject_put(mxcd_layout);
	return ret;
}

/**
 * mxcd_layout_init - make the tree with the CPU nodes
 *
 * Context: module initialisation.
 * Return: 0 or a negative errno.
 */
int mxcd_layout_init(void)
{
	int ret;

	mxcd_class = class_create("mxcd");
	if (IS_ERR(mxcd_class))
		return PTR_ERR(mxcd_class);

	mxcd_dev = device_create_with_groups(mxcd_class, NULL, MKDEV(0, 0), NULL,
					     mxcd_dev_groups, "mxcd");
	if (IS_ERR(mxcd_dev)) {
		ret = PTR_ERR(mxcd_dev);
		goto err_class;
	}

	ret = mxcd_add_tree();
	if (ret)
		goto err_device;

	ret = mxcd_links_init();
	if (ret)
		goto err_tree;

	return 0;

err_tree:
	mxcd_del_cpu_nodes();
	kobject_put(mxcd_nodes);
	kobject_put(mxcd_layout);
err_device:
	device_unregister(mxcd_dev);
err_class:
	class_destroy(mxcd_class);
	return ret;
}

/**
 * mxcd_layout_exit - remove the tree
 *
 * Context: module exit; no GPU is bound.
 */
void mxcd_layout_exit(void)
{
	mxcd_links_exit();
	mxcd_del_cpu_nodes();
	kobject_put(mxcd_nodes);
	kobject_put(mxcd_layout);
	device_unregister(mxcd_dev);
	class_destroy(mxcd_class);
}
