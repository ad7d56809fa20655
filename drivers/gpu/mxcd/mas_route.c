// SPDX-License-Identifier: GPL-2.0
/*
 * The verdict: may this storage controller DMA straight to and from the VRAM of
 * this GPU? The one mas_ file that knows PCI.
 *
 * The kernel maps ZONE_DEVICE pages of type GENERIC for DMA as it maps RAM and
 * asks nobody whether the machine routes traffic between the two devices, so the
 * question must be answered here, before any I/O. The rule is that of the
 * kernel's P2PDMA (Documentation/driver-api/pci/p2pdma.rst), with one addition:
 * where an IOMMU translates for the storage controller, its addresses mean
 * nothing to a switch, and all its traffic goes to the root complex.
 */
#include <linux/cc_platform.h>
#include <linux/dma-mapping.h>
#include <linux/iommu.h>
#include <linux/pci.h>
#include <linux/processor.h>
#include <linux/swiotlb.h>

#include "mas.h"

/* Raised whenever a cached verdict may be wrong. Never 0. */
static atomic_t mas_route_generation = ATOMIC_INIT(1);

static const char * const mas_reasons[] = {
	[MXCD_MAS_REASON_NONE]		= "none",
	[MXCD_MAS_REASON_EDGE]		= "edge",
	[MXCD_MAS_REASON_MEM_ALIGN]	= "memory alignment",
	[MXCD_MAS_REASON_REQUESTED]	= "requested",
	[MXCD_MAS_REASON_APPEND]	= "append",
	[MXCD_MAS_REASON_NO_DIO]	= "no direct I/O",
	[MXCD_MAS_REASON_FS]		= "file system",
	[MXCD_MAS_REASON_STACKED]	= "not a plain NVMe disk",
	[MXCD_MAS_REASON_REALTIME]	= "realtime device",
	[MXCD_MAS_REASON_IOMMU]		= "IOMMU translates and host bridge not known",
	[MXCD_MAS_REASON_HOST_BRIDGE]	= "no common switch and host bridge not known",
	[MXCD_MAS_REASON_DMA_MASK]	= "DMA mask",
	[MXCD_MAS_REASON_SWIOTLB]	= "swiotlb",
	[MXCD_MAS_REASON_ENCRYPTED]	= "memory encryption",
	[MXCD_MAS_REASON_FELL_BACK]	= "fell back",
	[MXCD_MAS_REASON_INTEGRITY]	= "block integrity",
};

/**
 * mas_route_reason - a reason in words
 * @reason: &enum mxcd_mas_reason
 *
 * Context: any.
 * Return: a string as it appears in sysfs.
 */
const char *mas_route_reason(unsigned int reason)
{
	return reason < ARRAY_SIZE(mas_reasons) ? mas_reasons[reason] : "unknown";
}

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

static int pci_steps(struct pci_dev *a, struct pci_dev *b, struct pci_dev *bridge)
{
	if (bridge)
		return steps_up(a, bridge) + steps_up(b, bridge);

	return steps_to_root(a) + steps_to_root(b);
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

static int take_first_function(struct pci_dev *pdev, void *data)
{
	struct pci_dev **first = data;

	if (pdev->devfn == PCI_DEVFN(0, 0) || pci_pcie_type(pdev) == PCI_EXP_TYPE_ROOT_PORT)
		*first = pci_dev_get(pdev);
	return 1;
}

/* A host bridge is known by its first function: 00.0, or a root port. */
static struct pci_dev *host_bridge_function(struct pci_host_bridge *host)
{
	struct pci_dev *first = NULL;

	pci_walk_bus(host->bus, take_first_function, &first);
	return first;
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

	if (cpu_routes_peers())
		return true;

	return host_bridge_known(host_a, same) && host_bridge_known(host_b, same);
}

static bool iommu_translates(struct pci_dev *pdev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&pdev->dev);

	return domain && domain->type != IOMMU_DOMAIN_IDENTITY;
}

/* What forbids p2p whatever the way between the two. */
static unsigned int dma_reason(struct pci_dev *storage, struct mxcd_gpu *gpu)
{
	struct device *dev = &storage->dev;
	u64 mask = min_not_zero(dma_get_mask(dev), dev->bus_dma_limit);

	if (storage->class != PCI_CLASS_STORAGE_EXPRESS)
		return MXCD_MAS_REASON_STACKED;
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

	if (bridge && !translates && !path_redirects(storage, bridge) &&
	    !path_redirects(gpu->pdev, bridge))
		return MXCD_MAS_REASON_NONE;

	if (host_bridges_route(storage, gpu->pdev))
		return MXCD_MAS_REASON_NONE;

	return translates ? MXCD_MAS_REASON_IOMMU : MXCD_MAS_REASON_HOST_BRIDGE;
}

/**
 * mas_route_eval - work out a verdict
 * @storage: storage controller, a reference is held
 * @gpu: the GPU
 * @write: from VRAM to storage; today the answer is the same either way
 * @distance: if not NULL, set to the number of PCI steps between the two
 *
 * Context: may sleep.
 * Return: the verdict.
 */
struct mas_route mas_route_eval(struct pci_dev *storage, struct mxcd_gpu *gpu,
				bool write, int *distance)
{
	struct pci_dev *bridge = common_bridge(storage, gpu->pdev);
	unsigned int reason = dma_reason(storage, gpu);

	if (!reason)
		reason = path_reason(storage, gpu, bridge);
	if (distance)
		*distance = pci_steps(storage, gpu->pdev, bridge);

	return (struct mas_route) {
		.route	= reason ? MXCD_MAS_ROUTE_BOUNCE : MXCD_MAS_ROUTE_P2P,
		.reason	= reason,
	};
}

/*
 * A cached verdict: generation in the upper half, then reason for writes and for
 * reads. p2p is reason 0.
 */
static u64 route_pack(u32 generation, struct mas_route read, struct mas_route write)
{
	return (u64)generation << 32 | write.reason << 16 | read.reason;
}

static struct mas_route route_unpack(u64 packed, bool write)
{
	u16 reason = write ? packed >> 16 : packed;

	return (struct mas_route) {
		.route	= reason ? MXCD_MAS_ROUTE_BOUNCE : MXCD_MAS_ROUTE_P2P,
		.reason	= reason,
	};
}

/**
 * mas_route_get - the verdict for a registered file
 * @file: the file
 * @gpu: the GPU, its gate held
 * @write: from VRAM to the file
 *
 * Cached in the file; worked out anew after mas_route_invalidate().
 *
 * Context: may sleep.
 * Return: the verdict for I/O that is aligned.
 */
struct mas_route mas_route_get(struct mas_file *file, struct mxcd_gpu *gpu,
			       bool write)
{
	u32 generation = atomic_read(&mas_route_generation);
	u64 packed = READ_ONCE(file->routes[gpu->index]);

	if (!file->pdev)
		return (struct mas_route) { MXCD_MAS_ROUTE_BOUNCE, file->reason };

	if (packed >> 32 != generation) {
		packed = route_pack(generation,
				    mas_route_eval(file->pdev, gpu, false, NULL),
				    mas_route_eval(file->pdev, gpu, true, NULL));
		WRITE_ONCE(file->routes[gpu->index], packed);
	}

	return route_unpack(packed, write);
}

/**
 * mas_route_invalidate - forget cached verdicts
 *
 * To be called when a GPU or a storage controller came or went.
 *
 * Context: any.
 */
void mas_route_invalidate(void)
{
	if (!atomic_inc_return(&mas_route_generation))
		atomic_inc(&mas_route_generation);
}
