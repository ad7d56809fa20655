// SPDX-License-Identifier: GPL-2.0
/*
 * Does the machine route DMA between a storage controller and the VRAM of a GPU?
 * The one mas_ file that knows PCI.
 *
 * The kernel maps ZONE_DEVICE pages of type GENERIC for DMA as it maps RAM and
 * asks nobody whether the machine routes traffic between the two devices, so the
 * question must be answered here, before any I/O. The rule is that of the
 * kernel's P2PDMA (Documentation/driver-api/pci/p2pdma.rst), with one addition:
 * where an IOMMU translates for the storage controller, its addresses mean
 * nothing to a switch, and all its traffic goes to the root complex.
 *
 * It is a rule, and machines exist that do not keep to it: see mas_proof.c.
 */
#include <linux/cc_platform.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/mutex.h>
#include <linux/pci.h>
#include <linux/processor.h>
#include <linux/swiotlb.h>

#include "mas.h"

/* One at a time, so that none finds the lock of a device taken by another. */
static DEFINE_MUTEX(mas_pci_lock);

/* Does this port send peer traffic up although it could turn it around? */
static bool acs_redirects(struct pci_dev *pdev)
{
	int pos = pci_find_ext_capability(pdev, PCI_EXT_CAP_ID_ACS);
	u16 ctrl;

	if (!pos)
		return false;

	pci_read_config_word(pdev, pos + PCI_ACS_CTRL, &ctrl);
	return ctrl & (PCI_ACS_RR | PCI_ACS_CR | PCI_ACS_EC);
}

/* Steps up from @pdev to @top; -1: it is not above. */
static int steps_up(struct pci_dev *pdev, struct pci_dev *top)
{
	int steps = 0;

	for (; pdev; pdev = pci_upstream_bridge(pdev), steps++)
		if (pdev == top)
			return steps;

	return -1;
}

/* On the way up to @top, @top itself included? */
static bool path_redirects(struct pci_dev *pdev, struct pci_dev *top)
{
	while (pdev != top && !acs_redirects(pdev))
		pdev = pci_upstream_bridge(pdev);

	return pdev != top || acs_redirects(top);
}

/*
 * The lowest bridge above both functions, or NULL. A bridge outlives what hangs
 * off it, and the caller holds both functions.
 */
static struct pci_dev *common_bridge(struct pci_dev *a, struct pci_dev *b)
{
	struct pci_dev *bridge;

	for (bridge = pci_upstream_bridge(a); bridge; bridge = pci_upstream_bridge(bridge))
		if (steps_up(b, bridge) >= 0)
			return bridge;

	return NULL;
}

static int steps_to_root(struct pci_dev *pdev)
{
	int steps = 0;

	while (pdev) {
		pdev = pci_upstream_bridge(pdev);
		steps++;
	}

	return steps;
}

static bool cpu_routes_peers(void)
{
#ifdef CONFIG_X86
	/* AMD since Zen */
	return boot_cpu_data.x86_vendor == X86_VENDOR_AMD && boot_cpu_data.x86 >= 0x17;
#else
	return false;
#endif
}

/* Host bridges that route traffic between their root ports. */
static const struct {
	u16 vendor;
	u16 device;
	bool same_bridge_only;
} known_host_bridges[] = {
	{ PCI_VENDOR_ID_INTEL, 0x3c00, true },	/* Xeon E5 */
	{ PCI_VENDOR_ID_INTEL, 0x3c01, true },
	{ PCI_VENDOR_ID_INTEL, 0x2f00, true },	/* Xeon E5 v3, E7 v3 */
	{ PCI_VENDOR_ID_INTEL, 0x2f01, true },
	{ PCI_VENDOR_ID_INTEL, 0x2020, false },	/* Skylake-E */
	{ PCI_VENDOR_ID_INTEL, 0x2030, false },
	{ PCI_VENDOR_ID_INTEL, 0x2031, false },
	{ PCI_VENDOR_ID_INTEL, 0x2032, false },
	{ PCI_VENDOR_ID_INTEL, 0x2033, false },
	{ PCI_VENDOR_ID_INTEL, 0x09a2, false },	/* Ice Lake and later */
};

/*
 * A host bridge is known by its first function: 00.0, or a root port. The lock of
 * pci_walk_bus() is not to be taken here: who recovers from an error holds it while he
 * waits for device locks, and the caller has one.
 */
static struct pci_dev *host_bridge_function(struct pci_host_bridge *host)
{
	struct pci_dev *pdev = NULL;

	for_each_pci_dev(pdev)
		if (pdev->bus == host->bus)
			break;
	if (!pdev || pdev->devfn == PCI_DEVFN(0, 0) ||
	    pci_pcie_type(pdev) == PCI_EXP_TYPE_ROOT_PORT)
		return pdev;

	pci_dev_put(pdev);
	return NULL;
}

static bool host_bridge_known(struct pci_host_bridge *host, bool same)
{
	struct pci_dev *pdev = host_bridge_function(host);
	bool known = false;
	int i;

	for (i = 0; pdev && !known && i < ARRAY_SIZE(known_host_bridges); i++)
		known = pdev->vendor == known_host_bridges[i].vendor &&
			pdev->device == known_host_bridges[i].device &&
			(same || !known_host_bridges[i].same_bridge_only);
	pci_dev_put(pdev);

	return known;
}

static bool host_bridges_route(struct pci_dev *a, struct pci_dev *b)
{
	struct pci_host_bridge *host_a = pci_find_host_bridge(a->bus);
	struct pci_host_bridge *host_b = pci_find_host_bridge(b->bus);
	bool same = host_a == host_b;

	if (cpu_routes_peers() || mas_policy_trusts_host_bridge())
		return true;

	return host_bridge_known(host_a, same) && host_bridge_known(host_b, same);
}

/*
 * Only while a driver is bound do the IOMMU domain and the masks of a function
 * mean anything, and only its lock keeps that driver.
 */
static bool iommu_translates(struct pci_dev *pdev)
{
	struct iommu_domain *domain;

	device_lock_assert(&pdev->dev);

	domain = iommu_get_domain_for_dev(&pdev->dev);
	return domain && domain->type != IOMMU_DOMAIN_IDENTITY;
}

/* What forbids p2p whatever the way between the two. */
static unsigned int dma_reason(struct pci_dev *storage, struct mxcd_gpu *gpu)
{
	struct device *dev = &storage->dev;
	u64 mask = min_not_zero(dma_get_mask(dev), dev->bus_dma_limit);

	if (cc_platform_has(CC_ATTR_MEM_ENCRYPT))
		return MXCD_MAS_REASON_ENCRYPTED;
	if (is_swiotlb_force_bounce(dev))
		return MXCD_MAS_REASON_SWIOTLB;
	if (!iommu_translates(storage) && gpu->vram.pgmap.range.end > mask)
		return MXCD_MAS_REASON_DMA_MASK;

	return MXCD_MAS_REASON_NONE;
}

static unsigned int path_reason(struct pci_dev *storage, struct mxcd_gpu *gpu,
				struct pci_dev *bridge)
{
	bool translates = iommu_translates(storage);
	bool redirects = bridge && (path_redirects(storage, bridge) ||
				    path_redirects(gpu->pdev, bridge));

	if (bridge && !translates && !redirects)
		return MXCD_MAS_REASON_NONE;
	if (host_bridges_route(storage, gpu->pdev))
		return MXCD_MAS_REASON_NONE;
	if (translates)
		return MXCD_MAS_REASON_IOMMU;

	return redirects ? MXCD_MAS_REASON_ACS : MXCD_MAS_REASON_HOST_BRIDGE;
}

static unsigned int bound_reason(struct pci_dev *storage, struct mxcd_gpu *gpu)
{
	unsigned int reason;

	if (!storage->dev.driver)
		return MXCD_MAS_REASON_NOT_READY;

	reason = dma_reason(storage, gpu);
	if (!reason)
		reason = path_reason(storage, gpu, common_bridge(storage, gpu->pdev));
	/* It knows nothing of trust_host_bridge, and caches its answers. */
	if (!reason && mxcd_vram_veto(gpu, storage))
		reason = MXCD_MAS_REASON_P2PDMA;

	return reason;
}

/**
 * mas_pci_peer_reason - why there is no p2p between any function and a GPU
 * @peer: the function, a reference is held
 * @gpu: the GPU
 *
 * Context: may sleep; the device lock of @peer is not held.
 * Return: &enum mxcd_mas_reason.
 */
unsigned int mas_pci_peer_reason(struct pci_dev *peer, struct mxcd_gpu *gpu)
{
	unsigned int reason = MXCD_MAS_REASON_NOT_READY;

	mutex_lock(&mas_pci_lock);
	if (device_trylock(&peer->dev)) {
		reason = bound_reason(peer, gpu);
		device_unlock(&peer->dev);
	}
	mutex_unlock(&mas_pci_lock);

	return reason;
}

/**
 * mas_pci_distance - how far apart two functions are
 * @storage: storage controller, a reference is held
 * @gpu: the GPU
 *
 * Context: any.
 * Return: PCI steps from each up to the lowest bridge above both, or to the root.
 */
unsigned int mas_pci_distance(struct pci_dev *storage, struct mxcd_gpu *gpu)
{
	struct pci_dev *bridge = common_bridge(storage, gpu->pdev);

	if (bridge)
		return steps_up(storage, bridge) + steps_up(gpu->pdev, bridge);

	return steps_to_root(storage) + steps_to_root(gpu->pdev);
}

/**
 * mas_pci_reason - why there is no p2p between a storage controller and a GPU
 * @storage: storage controller, a reference is held
 * @gpu: the GPU
 *
 * The same for both directions. A controller that a driver is just being bound to,
 * or taken from, is not waited for: %MXCD_MAS_REASON_NOT_READY.
 *
 * Context: may sleep, not for a disk; the device lock of @storage is not held.
 * Return: &enum mxcd_mas_reason.
 */
unsigned int mas_pci_reason(struct pci_dev *storage, struct mxcd_gpu *gpu)
{
	unsigned int reason = MXCD_MAS_REASON_NOT_READY;

	if (storage->class != PCI_CLASS_STORAGE_EXPRESS)
		return MXCD_MAS_REASON_STACKED;
	if (mas_policy_excludes(storage))
		return MXCD_MAS_REASON_EXCLUDED;
	if (mas_pci_distance(storage, gpu) > mas_policy_max_distance())
		return MXCD_MAS_REASON_DISTANCE;

	mutex_lock(&mas_pci_lock);
	if (device_trylock(&storage->dev)) {
		reason = bound_reason(storage, gpu);
		device_unlock(&storage->dev);
	}
	mutex_unlock(&mas_pci_lock);

	return reason;
}

/**
 * mas_pci_driver - the driver of a storage controller
 * @storage: storage controller, a reference is held
 * @buf: where its name goes, MAS_DRIVER_NAME_LEN bytes
 *
 * Context: may sleep, not for a driver that is busy with the device.
 * Return: 0, or -EAGAIN when the driver is just coming or going.
 */
int mas_pci_driver(struct pci_dev *storage, char *buf)
{
	struct device *dev = &storage->dev;
	int ret = -EAGAIN;

	mutex_lock(&mas_pci_lock);
	if (device_trylock(dev)) {
		/* The name goes with the module of the driver. */
		strscpy(buf, dev->driver ? dev->driver->name : "none", MAS_DRIVER_NAME_LEN);
		device_unlock(dev);
		ret = 0;
	}
	mutex_unlock(&mas_pci_lock);

	return ret;
}

/**
 * mas_pci_serves_disks - can disks of an NVMe controller be used, now or soon?
 * @storage: the controller, a reference is held
 *
 * Context: may sleep, not for a driver that is busy with the device.
 * Return: true if the NVMe driver has it, or a driver is just coming or going.
 */
bool mas_pci_serves_disks(struct pci_dev *storage)
{
	char driver[MAS_DRIVER_NAME_LEN];

	return mas_pci_driver(storage, driver) || !strcmp(driver, "nvme");
}
