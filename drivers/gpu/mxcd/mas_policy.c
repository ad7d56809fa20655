// SPDX-License-Identifier: GPL-2.0
/*
 * What the administrator says about routes: module parameters that can be
 * changed at any time. Each change has all verdicts worked out anew.
 */
#include <linux/moduleparam.h>
#include <linux/pci.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "mas.h"

#define MAS_NAMES_LEN	1024

/**
 * struct mas_names - a parameter that is a list of names
 * @valid: can this be a name?
 * @text: the names, separated by commas; under mas_policy_lock
 */
struct mas_names {
	bool (*valid)(const char *name);
	char text[MAS_NAMES_LEN];
};

/* Protects the lists. */
static DEFINE_SPINLOCK(mas_policy_lock);

static bool names_have(struct mas_names *names, const char *name)
{
	size_t len = strlen(name), n;
	const char *p;
	bool found = false;

	spin_lock(&mas_policy_lock);
	for (p = names->text; *p && !found; p += n + (p[n] == ',')) {
		n = strcspn(p, ",");
		found = n == len && !memcmp(p, name, n);
	}
	spin_unlock(&mas_policy_lock);

	return found;
}

static bool names_valid(struct mas_names *names, char *text)
{
	char *name;

	while ((name = strsep(&text, ",")))
		if (!names->valid(name))
			return false;

	return true;
}

static int names_set(const char *val, const struct kernel_param *kp)
{
	struct mas_names *names = kp->arg;
	char *copy, *text;
	int ret = 0;

	if (strlen(val) >= MAS_NAMES_LEN)
		return -ENOSPC;

	copy = kstrdup(val, GFP_KERNEL);
	if (!copy)
		return -ENOMEM;
	text = strim(copy);

	if (*text && !names_valid(names, text)) {
		ret = -EINVAL;
	} else {
		/* names_valid() has cut the copy into pieces. */
		spin_lock(&mas_policy_lock);
		strscpy(names->text, skip_spaces(val), MAS_NAMES_LEN);
		strim(names->text);
		spin_unlock(&mas_policy_lock);
		mas_route_changed();
	}
	kfree(copy);

	return ret;
}

static int names_get(char *buf, const struct kernel_param *kp)
{
	struct mas_names *names = kp->arg;
	int len;

	spin_lock(&mas_policy_lock);
	len = sysfs_emit(buf, "%s\n", names->text);
	spin_unlock(&mas_policy_lock);

	return len;
}

static const struct kernel_param_ops names_ops = {
	.set	= names_set,
	.get	= names_get,
};

static int changing_bool_set(const char *val, const struct kernel_param *kp)
{
	int ret = param_set_bool(val, kp);

	if (!ret)
		mas_route_changed();
	return ret;
}

static const struct kernel_param_ops changing_bool_ops = {
	.set	= changing_bool_set,
	.get	= param_get_bool,
};

static int changing_uint_set(const char *val, const struct kernel_param *kp)
{
	int ret = param_set_uint(val, kp);

	if (!ret)
		mas_route_changed();
	return ret;
}

static const struct kernel_param_ops changing_uint_ops = {
	.set	= changing_uint_set,
	.get	= param_get_uint,
};

/* As in /sys/bus/pci/devices and in storage_links. */
static bool valid_bdf(const char *name)
{
	unsigned int domain, bus, device, function;
	char text[24];

	if (sscanf(name, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
		return false;

	snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", domain, bus, device, function);
	return !strcmp(text, name);
}

/* Kernel names, such as dm-0: what is under /sys/block. */
static bool valid_disk(const char *name)
{
	return !strncmp(name, "dm-", 3) && name[3] && name[3 + strspn(name + 3, "0123456789")] == 0;
}

static bool trust_host_bridge;
module_param_cb(trust_host_bridge, &changing_bool_ops, &trust_host_bridge, 0644);
MODULE_PARM_DESC(trust_host_bridge,
		 "Take every host bridge for one that routes traffic between PCI devices (default 0)");

static bool trust_stack_writes;
module_param_cb(trust_stack_writes, &changing_bool_ops, &trust_stack_writes, 0644);
MODULE_PARM_DESC(trust_stack_writes,
		 "On stacked block devices, take writes for proved where reads are (default 0)");

static unsigned int max_distance;
module_param_cb(max_distance, &changing_uint_ops, &max_distance, 0644);
MODULE_PARM_DESC(max_distance, "No p2p over more PCI steps than this (default 0: no limit)");

static struct mas_names exclude = { .valid = valid_bdf };
module_param_cb(exclude, &names_ops, &exclude, 0644);
MODULE_PARM_DESC(exclude,
		 "Storage controllers without p2p, as domain:bus:device.function, separated by commas");

static struct mas_names dm_p2p = { .valid = valid_disk };
module_param_cb(dm_p2p, &names_ops, &dm_p2p, 0644);
MODULE_PARM_DESC(dm_p2p,
		 "Device-mapper devices that do not touch data (dm-<n>, separated by commas)");

/**
 * mas_policy_trusts_host_bridge - is every host bridge said to route traffic?
 *
 * Context: any.
 * Return: parameter trust_host_bridge.
 */
bool mas_policy_trusts_host_bridge(void)
{
	return READ_ONCE(trust_host_bridge);
}

/**
 * mas_policy_trusts_writes - are writes to stacks said to arrive where reads do?
 *
 * Context: any.
 * Return: parameter trust_stack_writes.
 */
bool mas_policy_trusts_writes(void)
{
	return READ_ONCE(trust_stack_writes);
}

/**
 * mas_policy_max_distance - the longest way for p2p
 *
 * Context: any.
 * Return: PCI steps.
 */
unsigned int mas_policy_max_distance(void)
{
	unsigned int steps = READ_ONCE(max_distance);

	return steps ? steps : UINT_MAX;
}

/**
 * mas_policy_excludes - is a storage controller excluded from p2p?
 * @storage: the controller
 *
 * Context: process.
 * Return: true if the administrator has said so.
 */
bool mas_policy_excludes(struct pci_dev *storage)
{
	return names_have(&exclude, pci_name(storage));
}

/**
 * mas_policy_dm - may this device-mapper device be seen through?
 * @name: its name, dm-<n>
 *
 * Context: process.
 * Return: true if the administrator has said so.
 */
bool mas_policy_dm(const char *name)
{
	return names_have(&dm_p2p, name);
}
