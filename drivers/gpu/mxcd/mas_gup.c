// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM that other parts of the kernel may pin: get_user_pages() on a mapping with
 * page structs in it (mas_mmap.c), so that direct I/O of any program can name VRAM.
 *
 * Such I/O does not come by this driver: no verdict is asked for, nothing is proved,
 * and nobody tells when it begins and ends. With pages of P2PDMA the kernel itself
 * asks whether a device may reach them, and pins them only for as long as a transfer
 * takes. With pages of our own it takes them for RAM, hands them to any device and
 * pins them for as long as a program likes. So they are mapped this way only if the
 * administrator says so, and only while each storage controller of the machine is
 * proved to reach them. When that changes, mappings are zapped, and page faults see
 * what holds then.
 *
 * Who has pinned a page is not known, and no event tells when it is let go: its
 * reference count is all there is. VRAM that was mapped this way goes back to the
 * allocator when all counts are at rest and no mapping is left that could raise
 * them. Until then a handle that nobody refers to any more lingers, and unbind waits.
 */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/page_ref.h>
#include <linux/pci.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/workqueue.h>

#include "mas.h"

/* Between two looks at pages that are pinned. */
#define MAS_GUP_LOOK_MS	20

static bool gup;
module_param(gup, bool, 0444);
MODULE_PARM_DESC(gup,
		 "Let programs pin VRAM of provider zone_device, while all storage controllers are proved (default 0)");

/* Pages of our own have been mapped: who changes a verdict must zap, with the lock. */
static bool mas_gup_used;
static DEFINE_MUTEX(mas_gup_zap_lock);

/* Handles without an owner whose pages are pinned, by mas_mem::linger. */
static DEFINE_MUTEX(mas_lingering_lock);
static LIST_HEAD(mas_lingering);

static void mas_gup_look(struct work_struct *work);
static DECLARE_DELAYED_WORK(mas_gup_work, mas_gup_look);

/**
 * mas_gup_wanted - does the administrator let programs pin pages of our own?
 *
 * Context: any.
 * Return: true if so.
 */
bool mas_gup_wanted(void)
{
	return gup;
}

/* Without the gate, the GPU may be unbound meanwhile. */
static bool kernel_asks(const struct mxcd_gpu *gpu)
{
	const struct mxcd_provider *provider = READ_ONCE(gpu->vram.provider);

	return provider && provider->veto;
}

/* Other storage than NVMe cannot be proved. Without a driver it does nothing. */
static unsigned int other_reason(struct pci_dev *storage)
{
	char driver[MAS_DRIVER_NAME_LEN];

	if (mas_pci_driver(storage, driver))
		return MXCD_MAS_REASON_NOT_READY;

	return strcmp(driver, "none") ? MXCD_MAS_REASON_STACKED : MXCD_MAS_REASON_NONE;
}

static unsigned int storage_reason(struct mxcd_gpu *gpu, struct pci_dev *storage)
{
	if (mas_proof_state(gpu, storage, false) == MAS_PROOF_FAILED ||
	    mas_proof_state(gpu, storage, true) == MAS_PROOF_FAILED)
		return MXCD_MAS_REASON_PROOF_FAILED;
	if (kernel_asks(gpu))
		return MXCD_MAS_REASON_NONE;
	if (storage->class == PCI_CLASS_STORAGE_EXPRESS && mas_pci_serves_disks(storage))
		return mas_route_proved(storage, gpu, false);

	return other_reason(storage);
}

static struct pci_dev *next_storage(struct pci_dev *pdev)
{
	do {
		pdev = pci_get_device(PCI_ANY_ID, PCI_ANY_ID, pdev);
	} while (pdev && pdev->class >> 16 != PCI_BASE_CLASS_STORAGE);

	return pdev;
}

/**
 * mas_gup_reason - why must programs not pin VRAM of a GPU?
 * @gpu: the GPU, its gate held
 * @decider: if not NULL, set to the storage controller that decides, with a
 *	reference, or to NULL
 *
 * Context: may sleep, not for a disk.
 * Return: &enum mxcd_mas_reason; 0: they may.
 */
unsigned int mas_gup_reason(struct mxcd_gpu *gpu, struct pci_dev **decider)
{
	unsigned int reason = MXCD_MAS_REASON_NONE;
	struct pci_dev *storage = NULL;

	if (decider)
		*decider = NULL;
	if (!gpu->vram.counted)
		return MXCD_MAS_REASON_GUP;

	while (!reason && (storage = next_storage(storage)))
		reason = storage_reason(gpu, storage);

	if (decider)
		*decider = storage;
	else
		pci_dev_put(storage);

	return reason;
}

/**
 * mas_gup_allowed - may programs pin VRAM of a GPU?
 * @gpu: the GPU, its gate held
 *
 * Quick where nothing has changed since it was asked last.
 *
 * Context: may sleep, not for a disk.
 * Return: true if so.
 */
bool mas_gup_allowed(struct mxcd_gpu *gpu)
{
	u32 now = mas_route_now();

	if (READ_ONCE(gpu->vram.gup_allowed) == now)
		return true;
	if (mas_gup_reason(gpu, NULL))
		return false;

	WRITE_ONCE(gpu->vram.gup_allowed, now);
	return true;
}

/**
 * mas_gup_mapped_stays - do mappings keep their pages, whatever is found out later?
 * @gpu: the GPU, its gate held
 *
 * Those of P2PDMA do: the kernel asks at each use. A program that uses them with the CPU,
 * or with other disks, is not to be killed for a disk that came and loses data.
 *
 * Context: any.
 * Return: true if so.
 */
bool mas_gup_mapped_stays(struct mxcd_gpu *gpu)
{
	return kernel_asks(gpu);
}

/**
 * mas_gup_prove - have all storage controllers proved, if that matters
 * @gpu: the GPU, a reference is held
 *
 * Waits for disks, but for a kill.
 *
 * Context: may sleep; no gate is held.
 */
void mas_gup_prove(struct mxcd_gpu *gpu)
{
	struct pci_dev *storage = NULL;

	if (!gpu->vram.counted || kernel_asks(gpu))
		return;

	while ((storage = next_storage(storage))) {
		if (storage->class != PCI_CLASS_STORAGE_EXPRESS)
			continue;
		if (mas_pci_serves_disks(storage) && mas_route_prove_storage(storage, gpu)) {
			pci_dev_put(storage);
			break;
		}
	}
}

/**
 * mas_gup_prove_all - have all storage controllers proved, if that matters
 * @gpus: bit n: for GPU n
 *
 * Context: may sleep. Waits for disks, but for a kill.
 */
void mas_gup_prove_all(u64 gpus)
{
	struct mxcd_gpu *gpu;
	unsigned int i;

	for (i = 0; gup && i < MXCD_MAX_GPUS; i++) {
		gpu = gpus & BIT_ULL(i) ? mxcd_gpu_enter(i) : ERR_PTR(-ENOENT);
		if (IS_ERR(gpu))
			continue;
		kref_get(&gpu->ref);
		mxcd_gpu_leave(gpu);
		mas_gup_prove(gpu);
		mxcd_gpu_put(gpu);
	}
}

/**
 * mas_gup_changed - a verdict may have changed: let page faults look again
 *
 * Context: may sleep.
 */
void mas_gup_changed(void)
{
	if (!READ_ONCE(mas_gup_used))
		return;

	mutex_lock(&mas_gup_zap_lock);
	if (mas_gup_used)
		mas_dev_zap();
	mutex_unlock(&mas_gup_zap_lock);
}

/**
 * mas_gup_stop - there will be no mappings any more
 *
 * Verdicts may go on to change, by a parameter or a disk that comes.
 *
 * Context: module exit, before mas_dev_exit().
 */
void mas_gup_stop(void)
{
	mutex_lock(&mas_gup_zap_lock);
	WRITE_ONCE(mas_gup_used, false);
	mutex_unlock(&mas_gup_zap_lock);
}

/**
 * mas_gup_show - may programs pin VRAM, for sysfs
 * @gpu: the GPU
 * @buf: a page
 *
 * Context: may sleep.
 * Return: length of the text.
 */
ssize_t mas_gup_show(struct mxcd_gpu *gpu, char *buf)
{
	struct pci_dev *decider;
	unsigned int reason;
	ssize_t len;

	if (!mxcd_gpu_is_enabled(gpu) || !mxcd_gpu_tryenter(gpu))
		return sysfs_emit(buf, "no: MAS is off\n");

	reason = mas_gup_reason(gpu, &decider);
	if (!reason)
		len = sysfs_emit(buf, "yes\n");
	else if (decider)
		len = sysfs_emit(buf, "no: %s: %s\n", pci_name(decider),
				 mas_route_reason(reason));
	else
		len = sysfs_emit(buf, "no: %s\n", mas_route_reason(reason));
	pci_dev_put(decider);
	mxcd_gpu_leave(gpu);

	return len;
}

/**
 * mas_gup_mapped - a handle gets mapped with its page structs, by the caller
 * @mem: the handle
 *
 * Context: process.
 */
void mas_gup_mapped(struct mas_mem *mem)
{
	mem = mem->whole ? mem->whole : mem;
	mem->mapper = task_tgid_nr(current);
	get_task_comm(mem->mapper_comm, current->group_leader);
	WRITE_ONCE(mem->gup, true);
	if (!kernel_asks(mem->gpu))
		WRITE_ONCE(mas_gup_used, true);
}

/**
 * mas_gup_hold - count a handle as pinned, for the caller
 * @mem: a whole one, a reference and the gate of its GPU are held
 *
 * Context: process.
 */
void mas_gup_hold(struct mas_mem *mem)
{
	mas_gup_mapped(mem);
	atomic_inc(&mem->buffers);
}

/**
 * mas_gup_drop - the counterpart
 * @mem: the handle; not to be touched afterwards
 *
 * Context: any.
 */
void mas_gup_drop(struct mas_mem *mem)
{
	atomic_dec(&mem->buffers);
}

static unsigned long bvec_unpinned(const struct bio_vec *bvec, unsigned long from)
{
	unsigned long i, nr = PHYS_PFN(bvec->bv_len);

	for (i = from; i < nr && page_ref_count(bvec->bv_page + i) == 1; i++)
		if (IS_ALIGNED(i, SZ_64K))
			cond_resched();

	return i;
}

/**
 * mas_gup_pinned - does anybody have pages of a handle pinned?
 * @mem: the handle; it is not mapped any more, or its mappings are zapped for good
 *
 * Looks on where it was told so last time: what is at rest stays so. Somebody who
 * walks page tables without a lock may raise a count for a moment and find then that
 * the page is not there any more; that does no harm while the page is ours.
 *
 * Context: may sleep; mxcd_gpu::lock is held.
 * Return: true if so.
 */
bool mas_gup_pinned(struct mas_mem *mem)
{
	unsigned long start, nr;
	unsigned int i;

	lockdep_assert_held(&mem->gpu->lock);

	if (!READ_ONCE(mem->gup))
		return false;
	if (atomic_read(&mem->buffers))
		return true;

	for (i = 0; i < mem->nr_bvecs; i++) {
		start = PHYS_PFN(mem->starts[i]);
		nr = PHYS_PFN(mem->bvecs[i].bv_len);
		if (mem->unpinned >= start + nr)
			continue;
		mem->unpinned = start + bvec_unpinned(&mem->bvecs[i], mem->unpinned - start);
		if (mem->unpinned < start + nr)
			return true;
	}

	return false;
}

/**
 * mas_gup_linger - free a handle when its pages are not pinned any more
 * @mem: the handle, nobody refers to it
 *
 * Context: may sleep.
 */
void mas_gup_linger(struct mas_mem *mem)
{
	mutex_lock(&mas_lingering_lock);
	list_add_tail(&mem->linger, &mas_lingering);
	queue_delayed_work(mas_wq, &mas_gup_work, msecs_to_jiffies(MAS_GUP_LOOK_MS));
	mutex_unlock(&mas_lingering_lock);
}

static void mas_gup_look(struct work_struct *work)
{
	struct mas_mem *mem, *next;
	LIST_HEAD(look);

	mutex_lock(&mas_lingering_lock);
	list_splice_init(&mas_lingering, &look);
	mutex_unlock(&mas_lingering_lock);

	list_for_each_entry_safe(mem, next, &look, linger) {
		list_del(&mem->linger);
		if (!mas_mem_release(mem))
			mas_gup_linger(mem);
	}
}

/* Somebody who has mapped memory that is pinned, the first that is found. */
static bool mas_gup_find_holder(struct mxcd_gpu *gpu, pid_t *pid, char comm[TASK_COMM_LEN])
{
	bool found = false;
	struct mas_mem *mem;

	mutex_lock(&gpu->lock);
	list_for_each_entry(mem, &gpu->mems, node) {
		if (!mas_gup_pinned(mem))
			continue;
		*pid = mem->mapper;
		strscpy(comm, mem->mapper_comm, TASK_COMM_LEN);
		found = true;
		break;
	}
	mutex_unlock(&gpu->lock);

	return found;
}

/**
 * mas_gup_wait - wait until nobody has VRAM of a GPU pinned
 * @gpu: a GPU whose gate is drained and whose mappings are zapped
 *
 * Says in the log, once, for whom.
 *
 * Context: may sleep; not to be interrupted.
 */
void mas_gup_wait(struct mxcd_gpu *gpu)
{
	char comm[TASK_COMM_LEN];
	bool told = false;
	pid_t pid;

	/* Whoever walks page tables without a lock has interrupts off. */
	if (gpu->vram.counted)
		synchronize_rcu();

	while (mas_gup_find_holder(gpu, &pid, comm)) {
		if (!told)
			pci_warn(gpu->pdev,
				 "unbind waits for direct I/O or registered buffers in VRAM that was mapped by %*pE[%d]\n",
				 (int)strlen(comm), comm, pid);
		told = true;
		msleep(MAS_GUP_LOOK_MS);
	}
	if (told)
		pci_info(gpu->pdev, "nobody has VRAM pinned any more\n");
}

/**
 * mas_gup_exit - free what lingers
 *
 * Context: module exit; no GPU is bound, so nothing is pinned.
 */
void mas_gup_exit(void)
{
	flush_delayed_work(&mas_gup_work);
}
