// SPDX-License-Identifier: GPL-2.0
/*
 * The proof: the rule of mas_pci.c says that a storage controller reaches the
 * VRAM of a GPU; does it? There are machines on which such traffic is lost while
 * the controller reports success, and a CPU cannot tell by looking.
 *
 * For each GPU, controller and direction there is a cell. Reads from disk are
 * proved before the first of them, on a block of the controller's own disk: the
 * complement of what the block holds is put into VRAM, the controller reads the
 * block there, and VRAM must hold it then. Nothing of the disk is changed and no
 * file is needed.
 *
 * A write cannot be tried out on a disk in use. The first part of each transfer
 * that is written while its cell is not proved is read back into host memory
 * before anything else happens. If that is not what VRAM held, or the disk reports an
 * error where it reports none for the same write by bounce, the part is written again
 * by bounce, which is what becomes of the rest, and the cell is not used for p2p any
 * more.
 *
 * Cells go with what they are about: with the GPU, and with the driver of the
 * controller. Work on a disk is done by work items, so that whoever waits can be
 * killed while a disk stalls.
 */
#include <linux/bio.h>
#include <linux/bitmap.h>
#include <linux/blk-integrity.h>
#include <linux/blkdev.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/pci.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "mas.h"
#include "mas_fault.h"

/* Blocks to try: one may be unreadable, or be written to all the time. */
#define MAS_PROOF_TRIES	6

/*
 * Blocks that have to be lost before reads are given up: a disk may fail once, and who
 * writes to a block in the right moments can have it look lost.
 */
#define MAS_PROOF_LOST	3

/**
 * struct mas_cell - a GPU and a storage controller
 * @ref: the list, the work item, who looks
 * @node: on mas_cells until it is dropped
 * @gpu: a reference is held
 * @storage: a reference is held
 * @state: what is known of reads and (1) of writes, &enum mas_proof
 * @running: the work item has not ended
 * @work: proves reads
 */
struct mas_cell {
	struct kref ref;
	struct list_head node;
	struct mxcd_gpu *gpu;
	struct pci_dev *storage;
	enum mas_proof state[2];
	bool running;
	struct work_struct work;
};

/* Protects the list, and state and running of the cells. Innermost. */
static DEFINE_SPINLOCK(mas_cells_lock);
static LIST_HEAD(mas_cells);
static DECLARE_WAIT_QUEUE_HEAD(mas_cells_wait);
static struct workqueue_struct *mas_proof_wq;

static void mas_cell_release(struct kref *ref)
{
	struct mas_cell *cell = container_of(ref, struct mas_cell, ref);

	mxcd_gpu_put(cell->gpu);
	pci_dev_put(cell->storage);
	kfree(cell);
}

static void mas_cell_put(struct mas_cell *cell)
{
	kref_put(&cell->ref, mas_cell_release);
}

static struct mas_cell *mas_cell_find(struct mxcd_gpu *gpu, struct pci_dev *storage)
{
	struct mas_cell *cell;

	lockdep_assert_held(&mas_cells_lock);

	list_for_each_entry(cell, &mas_cells, node)
		if (cell->gpu == gpu && cell->storage == storage)
			return cell;

	return NULL;
}

/* A block of a disk, and where it is read to. */
struct mas_probe {
	struct block_device *bdev;
	sector_t sector;
	unsigned int len;
	struct page *vram;
	struct page *lost;	/* instead of VRAM, where a fault is injected */
	void *ram;
	void *again;
};

/* Not merged with anything: see MAS_IOPRIO_HINT in mas_io.h. */
static int mas_probe_read(struct mas_probe *probe, struct page *page)
{
	struct bio_vec bvec;
	struct bio bio;

	bio_init(&bio, probe->bdev, &bvec, 1, REQ_OP_READ | REQ_NOMERGE);
	bio.bi_iter.bi_sector = probe->sector;
	bvec_set_page(&bvec, page, probe->len, 0);
	bio.bi_vcnt = 1;
	bio.bi_iter.bi_size = probe->len;

	return submit_bio_wait(&bio);
}

static void mas_probe_poison(struct mxcd_gpu *gpu, struct mas_probe *probe)
{
	u64 *to = page_address(probe->vram), *from = probe->ram;
	unsigned int i;

	for (i = 0; i < probe->len / sizeof(*to); i++)
		to[i] = ~from[i];
	mxcd_vram_flush(gpu);
}

/* One round. MAS_PROOF_NONE: it tells nothing, the block could not be read or changed. */
static enum mas_proof mas_probe_round(struct mxcd_gpu *gpu, struct mas_probe *probe)
{
	struct page *target = mas_fault_read() ? probe->lost : probe->vram;
	unsigned int faults = mxcd_gpu_faults(gpu);
	bool passed;
	int ret;

	if (mas_probe_read(probe, virt_to_page(probe->ram)))
		return MAS_PROOF_NONE;

	mas_probe_poison(gpu, probe);
	ret = mas_probe_read(probe, target);
	mxcd_vram_flush(gpu);
	passed = !ret && !memcmp(page_address(probe->vram), probe->ram, probe->len);
	if (!passed && (mas_probe_read(probe, virt_to_page(probe->again)) ||
			memcmp(probe->again, probe->ram, probe->len)))
		return MAS_PROOF_NONE;
	/* What a BAR reads as that does not answer may be what the block holds. */
	if (!mxcd_gpu_answered(gpu, faults))
		return MAS_PROOF_NONE;

	return passed ? MAS_PROOF_PASSED : MAS_PROOF_FAILED;
}

static enum mas_proof mas_probe_disk(struct mxcd_gpu *gpu, struct mas_probe *probe)
{
	u64 blocks = bdev_nr_bytes(probe->bdev) / probe->len;
	enum mas_proof proof = MAS_PROOF_NONE;
	int i, lost = 0;

	/* The first block, the last, and some in between. */
	for (i = 0; i < MAS_PROOF_TRIES && lost < MAS_PROOF_LOST; i++) {
		u64 block = div_u64((blocks - 1) * i, MAS_PROOF_TRIES - 1);

		probe->sector = block * (probe->len >> SECTOR_SHIFT);
		proof = mas_probe_round(gpu, probe);
		if (proof == MAS_PROOF_PASSED)
			return proof;
		lost += proof == MAS_PROOF_FAILED;
	}

	return lost == MAS_PROOF_LOST ? MAS_PROOF_FAILED : MAS_PROOF_NONE;
}

static enum mas_proof mas_probe_run(struct mxcd_gpu *gpu, struct gendisk *disk)
{
	unsigned int len = max_t(unsigned int, PAGE_SIZE, queue_logical_block_size(disk->queue));
	struct mas_probe probe = { .bdev = disk->part0, .len = len };
	enum mas_proof proof = MAS_PROOF_NONE;
	void *lost = kzalloc(len, GFP_KERNEL);

	probe.ram = kmalloc(len, GFP_KERNEL);
	probe.again = kmalloc(len, GFP_KERNEL);
	probe.vram = mxcd_vram_take_scratch(gpu, len);
	if (lost && probe.ram && probe.again && probe.vram) {
		probe.lost = virt_to_page(lost);
		proof = mas_probe_disk(gpu, &probe);
	}

	if (probe.vram)
		mxcd_vram_put_scratch(gpu, probe.vram, len);
	kfree(probe.again);
	kfree(probe.ram);
	kfree(lost);
	return proof;
}

/* A namespace of ours that can be read as it is. Multipath hides it; no matter. */
static int mas_take_namespace(struct device *dev, void *data)
{
	struct gendisk **disk = data;

	if (!dev->class || strcmp(dev->class->name, "block"))
		return 0;
	if (!get_capacity(dev_to_disk(dev)) || bdev_get_integrity(dev_to_disk(dev)->part0))
		return 0;

	get_device(dev);
	*disk = dev_to_disk(dev);
	return 1;
}

static int mas_search_controller(struct device *dev, void *data)
{
	if (!dev->class || strcmp(dev->class->name, "nvme"))
		return 0;

	return device_for_each_child(dev, data, mas_take_namespace);
}

static enum mas_proof mas_cell_prove(struct mas_cell *cell)
{
	enum mas_proof proof = MAS_PROOF_NONE;
	struct gendisk *disk = NULL;

	if (!mxcd_gpu_tryenter(cell->gpu))
		return proof;

	/* The reference keeps the disk's memory; I/O to one that is gone fails. */
	device_for_each_child(&cell->storage->dev, &disk, mas_search_controller);
	if (disk) {
		proof = mas_probe_run(cell->gpu, disk);
		put_device(disk_to_dev(disk));
	}
	mxcd_gpu_leave(cell->gpu);

	return proof;
}

static void mas_cell_report(struct mas_cell *cell, bool write)
{
	pci_warn(cell->gpu->pdev,
		 "p2p %s %s loses data on this machine: bounce until either is bound anew\n",
		 write ? "writes to" : "reads from", pci_name(cell->storage));
}

static void mas_cell_work(struct work_struct *work)
{
	struct mas_cell *cell = container_of(work, struct mas_cell, work);
	enum mas_proof proof = mas_cell_prove(cell);

	if (proof == MAS_PROOF_FAILED)
		mas_cell_report(cell, false);

	spin_lock(&mas_cells_lock);
	if (proof != MAS_PROOF_NONE)
		cell->state[0] = proof;
	cell->running = false;
	spin_unlock(&mas_cells_lock);

	if (proof != MAS_PROOF_NONE)
		mas_route_changed();
	wake_up_all(&mas_cells_wait);
	mas_cell_put(cell);
}

static struct mas_cell *mas_cell_create(struct mxcd_gpu *gpu, struct pci_dev *storage)
{
	struct mas_cell *cell;

	cell = kzalloc(sizeof(*cell), GFP_KERNEL);
	if (!cell)
		return NULL;

	kref_init(&cell->ref);
	kref_get(&gpu->ref);
	cell->gpu = gpu;
	cell->storage = pci_dev_get(storage);
	INIT_WORK(&cell->work, mas_cell_work);
	return cell;
}

/* The cell with a reference; it is made if there is none. */
static struct mas_cell *mas_cell_get(struct mxcd_gpu *gpu, struct pci_dev *storage)
{
	struct mas_cell *cell, *new;

	new = mas_cell_create(gpu, storage);
	if (!new)
		return NULL;

	spin_lock(&mas_cells_lock);
	cell = mas_cell_find(gpu, storage);
	if (!cell) {
		list_add(&new->node, &mas_cells);
		swap(cell, new);
	}
	kref_get(&cell->ref);
	spin_unlock(&mas_cells_lock);

	if (new)
		mas_cell_put(new);
	return cell;
}

/* Start the work item unless there is no need, or it runs. */
static void mas_cell_start(struct mas_cell *cell)
{
	spin_lock(&mas_cells_lock);
	if (cell->state[0] == MAS_PROOF_NONE && !cell->running) {
		cell->running = true;
		kref_get(&cell->ref);
		queue_work(mas_proof_wq, &cell->work);
	}
	spin_unlock(&mas_cells_lock);
}

/**
 * mas_proof_run - have reads from a storage controller to a GPU proved
 * @gpu: the GPU, a reference is held
 * @storage: the controller, a reference is held
 *
 * Waits for that, as a read(2) of a disk of the controller would, but for a kill.
 * Afterwards mas_proof_state() has the outcome, unless there is none: no disk, or
 * none that can be read.
 *
 * Context: may sleep; no lock and no gate is held.
 * Return: 0, -ENOMEM, or -EINTR when the caller was killed.
 */
int mas_proof_run(struct mxcd_gpu *gpu, struct pci_dev *storage)
{
	struct mas_cell *cell;
	int ret;

	/* Once the gate is drained no cell is made and no work item started any more. */
	if (!mxcd_gpu_tryenter(gpu))
		return 0;
	cell = mas_cell_get(gpu, storage);
	if (cell)
		mas_cell_start(cell);
	mxcd_gpu_leave(gpu);
	if (!cell)
		return -ENOMEM;

	ret = wait_event_killable(mas_cells_wait, !READ_ONCE(cell->running));
	mas_cell_put(cell);

	return ret ? -EINTR : 0;
}

/**
 * mas_proof_state - what is known of a way
 * @gpu: the GPU
 * @storage: the controller
 * @write: from VRAM to storage
 *
 * Context: process.
 * Return: &enum mas_proof.
 */
enum mas_proof mas_proof_state(struct mxcd_gpu *gpu, struct pci_dev *storage, bool write)
{
	enum mas_proof state = MAS_PROOF_NONE;
	struct mas_cell *cell;

	if (mas_fault_no_proof())
		return MAS_PROOF_PASSED;

	spin_lock(&mas_cells_lock);
	cell = mas_cell_find(gpu, storage);
	if (cell)
		state = cell->state[write];
	spin_unlock(&mas_cells_lock);

	return state;
}

/**
 * mas_proof_written - a write of a cell that was not proved has been read back
 * @gpu: the GPU, its gate held
 * @storage: the controller, a reference is held
 * @passed: it was right
 *
 * Context: process.
 */
void mas_proof_written(struct mxcd_gpu *gpu, struct pci_dev *storage, bool passed)
{
	struct mas_cell *cell = mas_cell_get(gpu, storage);
	bool changed;

	/* Not known then: the next one tries again. */
	if (!cell)
		return;

	spin_lock(&mas_cells_lock);
	changed = cell->state[1] == MAS_PROOF_NONE || !passed;
	if (changed)
		cell->state[1] = passed ? MAS_PROOF_PASSED : MAS_PROOF_FAILED;
	spin_unlock(&mas_cells_lock);

	if (!passed)
		mas_cell_report(cell, true);
	if (changed)
		mas_route_changed();
	mas_cell_put(cell);
}

static void mas_cells_drop(const void *gpu_or_storage)
{
	struct mas_cell *cell, *next;
	LIST_HEAD(dropped);

	spin_lock(&mas_cells_lock);
	list_for_each_entry_safe(cell, next, &mas_cells, node)
		if (!gpu_or_storage || cell->gpu == gpu_or_storage ||
		    cell->storage == gpu_or_storage)
			list_move(&cell->node, &dropped);
	spin_unlock(&mas_cells_lock);

	list_for_each_entry_safe(cell, next, &dropped, node) {
		list_del_init(&cell->node);
		mas_cell_put(cell);
	}
}

/**
 * mas_proof_drop_gpu - forget what was proved of a GPU
 * @gpu: the GPU
 *
 * Context: may sleep; the gate of @gpu is drained.
 */
void mas_proof_drop_gpu(struct mxcd_gpu *gpu)
{
	mas_cells_drop(gpu);
}

/**
 * mas_proof_drop_storage - forget what was proved of a storage controller
 * @storage: the controller
 *
 * Context: may sleep.
 */
void mas_proof_drop_storage(struct pci_dev *storage)
{
	mas_cells_drop(storage);
}

/**
 * mas_proof_drop_all - forget what was proved
 *
 * Context: may sleep.
 */
void mas_proof_drop_all(void)
{
	mas_cells_drop(NULL);
}

/**
 * mas_proof_init - prepare
 *
 * Context: module initialisation.
 * Return: 0 or -ENOMEM.
 */
int mas_proof_init(void)
{
	mas_proof_wq = alloc_workqueue("mas_proof", WQ_UNBOUND, 0);

	return mas_proof_wq ? 0 : -ENOMEM;
}

/**
 * mas_proof_exit - the counterpart
 *
 * Waits for what disks have been asked.
 *
 * Context: module exit; nobody asks for a proof any more.
 */
void mas_proof_exit(void)
{
	destroy_workqueue(mas_proof_wq);
	mas_proof_drop_all();
}
