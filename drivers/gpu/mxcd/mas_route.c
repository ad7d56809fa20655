// SPDX-License-Identifier: GPL-2.0
/*
 * The verdict: may data of this file go straight between storage and the VRAM of
 * this GPU, in this direction? mas_pci.c has the rule for a storage controller,
 * mas_proof.c what was found out about it, mas_stack.c which controllers there are
 * to ask about.
 *
 * Verdicts are kept in the file, with the generation in which they were found.
 * Whatever may change one starts a new generation.
 */
#include <linux/pci.h>
#include <linux/string.h>

#include "mas.h"

/* Raised whenever a cached verdict may be wrong. Never 0. */
atomic_t mas_route_generation = ATOMIC_INIT(1);

static const char * const mas_reasons[] = {
	[MXCD_MAS_REASON_NONE]		= "none",
	[MXCD_MAS_REASON_EDGE]		= "edge",
	[MXCD_MAS_REASON_MEM_ALIGN]	= "memory alignment",
	[MXCD_MAS_REASON_REQUESTED]	= "requested",
	[MXCD_MAS_REASON_APPEND]	= "append",
	[MXCD_MAS_REASON_NO_DIO]	= "no direct I/O",
	[MXCD_MAS_REASON_FS]		= "file system",
	[MXCD_MAS_REASON_STACKED]	= "not an NVMe disk",
	[MXCD_MAS_REASON_REALTIME]	= "realtime device",
	[MXCD_MAS_REASON_IOMMU]		= "IOMMU translates and host bridge not known",
	[MXCD_MAS_REASON_HOST_BRIDGE]	= "no common switch and host bridge not known",
	[MXCD_MAS_REASON_DMA_MASK]	= "DMA mask",
	[MXCD_MAS_REASON_SWIOTLB]	= "swiotlb",
	[MXCD_MAS_REASON_ENCRYPTED]	= "memory encryption",
	[MXCD_MAS_REASON_FELL_BACK]	= "fell back",
	[MXCD_MAS_REASON_INTEGRITY]	= "block integrity",
	[MXCD_MAS_REASON_NOT_READY]	= "controller not ready",
	[MXCD_MAS_REASON_EXCLUDED]	= "excluded by the administrator",
	[MXCD_MAS_REASON_DISTANCE]	= "farther than max_distance",
	[MXCD_MAS_REASON_ACS]		= "ACS redirects and host bridge not known",
	[MXCD_MAS_REASON_NOT_PROVED]	= "not proved",
	[MXCD_MAS_REASON_PROOF_FAILED]	= "proof failed",
	[MXCD_MAS_REASON_DM]		= "dm target unknown",
	[MXCD_MAS_REASON_NOT_PCI]	= "NVMe over a network",
	[MXCD_MAS_REASON_P2PDMA]	= "refused by P2PDMA",
	[MXCD_MAS_REASON_GUP]		= "module parameter gup is 0",
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

static struct mas_route route_by_reason(unsigned int reason)
{
	return (struct mas_route) {
		.route	= reason ? MXCD_MAS_ROUTE_BOUNCE : MXCD_MAS_ROUTE_P2P,
		.reason	= reason,
	};
}

/**
 * mas_route_eval - work out the verdict for a storage controller
 * @storage: the controller, a reference is held
 * @gpu: the GPU
 * @write: from VRAM to storage
 *
 * A way that is not proved yet counts as p2p: transfers prove it.
 *
 * Context: may sleep, not for a disk.
 * Return: the verdict.
 */
struct mas_route mas_route_eval(struct pci_dev *storage, struct mxcd_gpu *gpu, bool write)
{
	unsigned int reason = mas_pci_reason(storage, gpu);

	if (!reason && mas_proof_state(gpu, storage, write) == MAS_PROOF_FAILED)
		reason = MXCD_MAS_REASON_PROOF_FAILED;

	return route_by_reason(reason);
}

/**
 * mas_route_proved - as mas_route_eval(), but only what is proved is p2p
 * @storage: the controller, a reference is held
 * @gpu: the GPU
 * @write: from VRAM to storage
 *
 * Context: may sleep, not for a disk.
 * Return: &enum mxcd_mas_reason.
 */
unsigned int mas_route_proved(struct pci_dev *storage, struct mxcd_gpu *gpu, bool write)
{
	struct mas_route route = mas_route_eval(storage, gpu, write);

	if (!route.reason && mas_proof_state(gpu, storage, write) == MAS_PROOF_NONE)
		return MXCD_MAS_REASON_NOT_PROVED;

	return route.reason;
}

/*
 * A write to a stack proves nothing: which of its disks was it? The administrator may
 * say that writes arrive where reads do.
 */
static unsigned int stack_member_reason(struct pci_dev *storage, struct mxcd_gpu *gpu,
					bool write)
{
	unsigned int reason = mas_route_proved(storage, gpu, write);

	if (reason == MXCD_MAS_REASON_NOT_PROVED && write && mas_policy_trusts_writes())
		reason = mas_route_proved(storage, gpu, false);

	return reason;
}

/* Which of the controllers a stack will use is not known. */
static unsigned int worst_reason(struct mas_stack *stack, struct mxcd_gpu *gpu, bool write,
				 struct pci_dev **worst)
{
	struct pci_dev *storage = NULL;
	unsigned int reason;

	while ((storage = mas_stack_next(stack, storage))) {
		reason = stack_member_reason(storage, gpu, write);
		if (reason) {
			*worst = storage;
			return reason;
		}
	}

	return MXCD_MAS_REASON_NONE;
}

static unsigned int stack_reason(struct mas_stack *stack, struct mxcd_gpu *gpu, bool write,
				 struct pci_dev **decider)
{
	int generation = atomic_read(&mas_route_generation);
	unsigned int reason = mas_stack_reason(stack);

	if (!reason)
		reason = worst_reason(stack, gpu, write, decider);
	/* Somebody else may have looked again, and found other controllers, meanwhile. */
	if (!reason && generation != atomic_read(&mas_route_generation))
		reason = MXCD_MAS_REASON_NOT_READY;

	return reason;
}

/* @decider: set to the controller that decides, with a reference, if one does. */
static unsigned int file_reason(struct mas_file *file, struct mxcd_gpu *gpu, bool write,
				struct pci_dev **decider)
{
	if (file->pdev) {
		*decider = pci_dev_get(file->pdev);
		return mas_route_proved(file->pdev, gpu, write);
	}

	return file->stack ? stack_reason(file->stack, gpu, write, decider) : file->reason;
}

/* Generation in the upper half, then reason for writes and for reads. */
static u64 route_pack(u32 generation, unsigned int read, unsigned int write)
{
	return (u64)generation << 32 | write << 16 | read;
}

static u64 file_routes(struct mas_file *file, struct mxcd_gpu *gpu)
{
	u32 generation = atomic_read(&mas_route_generation);
	struct pci_dev *decider[2] = {};
	unsigned int read, write;

	read = file_reason(file, gpu, false, &decider[0]);
	write = file_reason(file, gpu, true, &decider[1]);
	pci_dev_put(decider[0]);
	pci_dev_put(decider[1]);

	return route_pack(file->stack ? ~generation : generation, read, write);
}

/* Nothing tells when such a verdict changes. */
static bool is_passing(u64 packed)
{
	return (u16)packed == MXCD_MAS_REASON_NOT_READY ||
	       (u16)(packed >> 16) == MXCD_MAS_REASON_NOT_READY;
}

/* The generation last: who found a change, and is looking, forgets verdicts first. */
static bool stack_is_as_it_was(struct mas_file *file, u64 packed)
{
	return file->stack && !mas_stack_changed(file->stack) &&
	       (u32)(packed >> 32) == ~(u32)atomic_read(&mas_route_generation);
}

u64 mas_route_work_out(struct mas_file *file, struct mxcd_gpu *gpu)
{
	u64 packed = READ_ONCE(file->routes[gpu->index]);

	if (stack_is_as_it_was(file, packed))
		return packed;

	packed = file_routes(file, gpu);
	if (!is_passing(packed))
		WRITE_ONCE(file->routes[gpu->index], packed);

	return packed;
}

/**
 * mas_route_prove_storage - have reads from a controller to a GPU proved
 * @storage: the controller, a reference is held
 * @gpu: the GPU, a reference is held
 *
 * Does nothing where that is done, or where it is no use. Waits for a disk, but for
 * a kill.
 *
 * Context: may sleep; no gate is held.
 * Return: 0 or -EINTR.
 */
int mas_route_prove_storage(struct pci_dev *storage, struct mxcd_gpu *gpu)
{
	if (mas_route_proved(storage, gpu, false) != MXCD_MAS_REASON_NOT_PROVED)
		return 0;

	return mas_proof_run(gpu, storage);
}

/**
 * mas_route_prove - have reads from a file to a GPU proved where they are not
 * @file: the file
 * @gpu: the GPU, a reference is held
 *
 * Waits for disks, but for a kill.
 *
 * Context: may sleep; no lock and no gate is held.
 */
void mas_route_prove(struct mas_file *file, struct mxcd_gpu *gpu)
{
	struct pci_dev *storage = NULL;

	if (file->pdev)
		mas_route_prove_storage(file->pdev, gpu);
	if (!file->stack || mas_stack_reason(file->stack))
		return;

	while ((storage = mas_stack_next(file->stack, storage))) {
		if (mas_route_prove_storage(storage, gpu)) {
			pci_dev_put(storage);
			break;
		}
	}
}

/**
 * mas_route_only - the storage controller of a file, if there is but one
 * @file: the file
 *
 * Context: may sleep.
 * Return: the PCI function with a reference, or NULL.
 */
struct pci_dev *mas_route_only(struct mas_file *file)
{
	if (file->pdev)
		return pci_dev_get(file->pdev);

	return file->stack ? mas_stack_only(file->stack) : NULL;
}

/**
 * mas_route_can_prove_writes - would a write to a file prove anything?
 * @file: the file
 *
 * Context: may sleep.
 * Return: true if it is known which controller the write goes to.
 */
bool mas_route_can_prove_writes(struct mas_file *file)
{
	struct pci_dev *only = mas_route_only(file);

	pci_dev_put(only);
	return only;
}

/**
 * mas_route_promise - what to tell of a file that is not used yet
 * @file: the file
 * @gpu: the GPU, its gate held
 * @write: from VRAM to the file
 * @decider: set to the controller that decides, with a reference, or to NULL
 *
 * Context: may sleep, not for a disk.
 * Return: the verdict; a write that would be read back for a proof counts as p2p.
 */
struct mas_route mas_route_promise(struct mas_file *file, struct mxcd_gpu *gpu, bool write,
				   struct pci_dev **decider)
{
	unsigned int reason;

	*decider = NULL;
	reason = file_reason(file, gpu, write, decider);
	if (reason == MXCD_MAS_REASON_NOT_PROVED && write && mas_route_can_prove_writes(file))
		reason = MXCD_MAS_REASON_NONE;

	return route_by_reason(reason);
}

/**
 * mas_route_now - tells whether verdicts may have changed
 *
 * Context: any.
 * Return: a number, another one when verdicts may have changed.
 */
u32 mas_route_now(void)
{
	return atomic_read(&mas_route_generation);
}

/**
 * mas_route_forget - forget cached verdicts
 *
 * Context: any.
 */
void mas_route_forget(void)
{
	if (!atomic_inc_return(&mas_route_generation))
		atomic_inc(&mas_route_generation);
}

/**
 * mas_route_changed - forget cached verdicts, and tell who reads storage_links
 *
 * To be called when something changed that verdicts depend on: GPUs, storage
 * controllers, what was proved, what the administrator says.
 *
 * Context: process.
 */
void mas_route_changed(void)
{
	mas_route_forget();
	mas_gup_changed();
	mxcd_links_changed();
}
