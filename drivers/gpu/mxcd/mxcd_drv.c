// SPDX-License-Identifier: GPL-2.0
/*
 * Module, parameters, PCI bind and unbind, and the table of GPUs.
 *
 * A GPU is published in mxcd_gpus[] once all of it works and is taken out when
 * nothing of it works any more. Whoever uses its VRAM in between goes through
 * mxcd_gpu_enter() or holds a memory handle and the gate. The gate decides: once
 * it is killed nothing new starts, and unbind waits for what had started.
 */
#include <linux/crash_dump.h>
#include <linux/module.h>
#include <linux/nospec.h>
#include <linux/pci.h>
#include <linux/pm.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "mas.h"
#include "mas_stats.h"
#include "mas_trace.h"
#include "mxcd.h"
#include "mxcd_version.h"

#define PCI_VENDOR_ID_METAX	0x9999

static bool mas;
module_param(mas, bool, 0444);
MODULE_PARM_DESC(mas, "Serve VRAM to direct I/O (0: bind only, 1: serve; default 0)");

/* Frees what cannot be freed where its last reference goes; never waits for I/O. */
struct workqueue_struct *mas_wq;

/* Writers hold mxcd_gpus_lock, readers RCU. */
static struct mxcd_gpu __rcu *mxcd_gpus[MXCD_MAX_GPUS];
static DEFINE_MUTEX(mxcd_gpus_lock);

/* Indices that a GPU has had since the module was loaded. */
static DECLARE_BITMAP(mxcd_gpus_seen, MXCD_MAX_GPUS);

/*
 * Where firmware keeps its data in the VRAM of these cards is not public: the
 * first and the last GiB are left alone. The parameters vram_head_mb and
 * vram_tail_mb override that.
 */
enum { MXCD_C550, MXCD_C500, MXCD_C280, MXCD_N260 };

static const struct mxcd_chip mxcd_chips[] = {
	[MXCD_C550] = { .name = "C550", .bar = 0, .head = SZ_1G, .tail = SZ_1G },
	[MXCD_C500] = { .name = "C500", .bar = 0, .head = SZ_1G, .tail = SZ_1G },
	[MXCD_C280] = { .name = "C280", .bar = 0, .head = SZ_1G, .tail = SZ_1G },
	[MXCD_N260] = { .name = "N260", .bar = 0, .head = SZ_1G, .tail = SZ_1G },
};

static const struct pci_device_id mxcd_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_METAX, 0x4000), .driver_data = MXCD_C550 },
	{ PCI_DEVICE(PCI_VENDOR_ID_METAX, 0x4001), .driver_data = MXCD_C500 },
	{ PCI_DEVICE(PCI_VENDOR_ID_METAX, 0x4081), .driver_data = MXCD_C280 },
	{ PCI_DEVICE(PCI_VENDOR_ID_METAX, 0x4083), .driver_data = MXCD_N260 },
	{ }
};
MODULE_DEVICE_TABLE(pci, mxcd_ids);

/*
 * Stand-ins of the test bench: emulated devices with memory behind a BAR. They
 * are bound by driver_override alone, so they are in no table that user space
 * matches devices against.
 */
static const struct mxcd_chip mxcd_standin_chips[] = {
	{ .name = "bochs-display", .bar = 0 },
	{ .name = "ivshmem", .bar = 2 },
};

static const struct pci_device_id mxcd_standin_ids[] = {
	{ PCI_DEVICE(0x1234, 0x1111), .driver_data = 0 },
	{ PCI_DEVICE(0x1af4, 0x1110), .driver_data = 1 },
	{ }
};

static const struct mxcd_chip *mxcd_find_chip(struct pci_dev *pdev)
{
	const struct pci_device_id *id;

	id = pci_match_id(mxcd_ids, pdev);
	if (id)
		return &mxcd_chips[id->driver_data];

	id = pci_match_id(mxcd_standin_ids, pdev);
	if (id)
		return &mxcd_standin_chips[id->driver_data];

	return NULL;
}

static void mxcd_gate_drained(struct percpu_ref *gate)
{
	struct mxcd_gpu *gpu = container_of(gate, struct mxcd_gpu, gate);

	complete(&gpu->drained);
}

static void mxcd_gpu_release(struct kref *ref)
{
	struct mxcd_gpu *gpu = container_of(ref, struct mxcd_gpu, ref);

	percpu_ref_exit(&gpu->gate);
	mas_stats_free(gpu);
	pci_dev_put(gpu->pdev);
	kfree(gpu);
}

/**
 * mxcd_gpu_put - drop a reference to a GPU
 * @gpu: the GPU
 *
 * Context: may sleep.
 */
void mxcd_gpu_put(struct mxcd_gpu *gpu)
{
	kref_put(&gpu->ref, mxcd_gpu_release);
}

/**
 * mxcd_gpu_enter - begin to use the VRAM of a GPU
 * @index: mgpu_id
 *
 * Context: any.
 * Return: the GPU with its gate held, to be given back by mxcd_gpu_leave();
 * -ENODEV when MAS is off for it or it has been unbound, -ENOENT when there never
 * was such a GPU.
 */
struct mxcd_gpu *mxcd_gpu_enter(unsigned int index)
{
	struct mxcd_gpu *gpu;

	if (index >= MXCD_MAX_GPUS || !test_bit(index, mxcd_gpus_seen))
		return ERR_PTR(-ENOENT);

	/* A number of the caller's: not to be guessed beyond the table. */
	index = array_index_nospec(index, MXCD_MAX_GPUS);
	rcu_read_lock();
	gpu = rcu_dereference(mxcd_gpus[index]);
	if (!gpu || !mxcd_gpu_is_enabled(gpu) || !percpu_ref_tryget_live(&gpu->gate))
		gpu = ERR_PTR(-ENODEV);
	rcu_read_unlock();

	return gpu;
}

/**
 * mxcd_gpu_flush - wait for writes of peers to have reached the VRAM of a GPU
 * @index: mgpu_id
 *
 * Does nothing when the GPU is being unbound or was: then there is no data.
 *
 * Context: any.
 */
void mxcd_gpu_flush(unsigned int index)
{
	struct mxcd_gpu *gpu;

	/*
	 * Need not enter: a gate that is not dying here drains only after a grace
	 * period, which waits for this section.
	 */
	rcu_read_lock();
	gpu = rcu_dereference(mxcd_gpus[index]);
	if (gpu && mxcd_gpu_is_enabled(gpu) && !percpu_ref_is_dying(&gpu->gate))
		mxcd_vram_flush(gpu);
	rcu_read_unlock();
}

/**
 * mxcd_gpus_enabled - the GPUs that MAS serves at this moment
 *
 * Context: any.
 * Return: bit n is set for GPU n.
 */
u64 mxcd_gpus_enabled(void)
{
	struct mxcd_gpu *gpu;
	u64 set = 0;
	int i;

	rcu_read_lock();
	for (i = 0; i < MXCD_MAX_GPUS; i++) {
		gpu = rcu_dereference(mxcd_gpus[i]);
		if (gpu && mxcd_gpu_is_enabled(gpu) && !percpu_ref_is_dying(&gpu->gate))
			set |= BIT_ULL(i);
	}
	rcu_read_unlock();

	return set;
}

static struct mxcd_gpu *mxcd_gpu_create(struct pci_dev *pdev)
{
	struct mxcd_gpu *gpu;

	gpu = kzalloc(sizeof(*gpu), GFP_KERNEL);
	if (!gpu)
		return NULL;
	if (mas_stats_alloc(gpu)) {
		kfree(gpu);
		return NULL;
	}

	kref_init(&gpu->ref);
	gpu->pdev = pci_dev_get(pdev);
	init_completion(&gpu->drained);
	mutex_init(&gpu->lock);
	INIT_LIST_HEAD(&gpu->mems);

	return gpu;
}

/* Give the GPU the lowest free index and its device node. */
static int mxcd_gpu_reserve_index(struct mxcd_gpu *gpu)
{
	int i;

	lockdep_assert_held(&mxcd_gpus_lock);

	for (i = 0; i < MXCD_MAX_GPUS; i++) {
		if (!rcu_access_pointer(mxcd_gpus[i])) {
			gpu->index = i;
			return mas_dev_add(i);
		}
	}

	return -ENOSPC;
}

/*
 * Turn MAS on for this GPU. Failure is not failure to bind: the reason is left in
 * mas_state and the GPU is bound without MAS.
 */
static void mxcd_gpu_enable(struct mxcd_gpu *gpu)
{
	if (!mas) {
		strscpy(gpu->state, "off: module parameter mas is 0", sizeof(gpu->state));
		return;
	}

	if (is_kdump_kernel()) {
		strscpy(gpu->state, "off: this is a crash kernel", sizeof(gpu->state));
		return;
	}

	if (percpu_ref_init(&gpu->gate, mxcd_gate_drained, 0, GFP_KERNEL)) {
		strscpy(gpu->state, "off: out of memory", sizeof(gpu->state));
		return;
	}

	if (mxcd_vram_add(gpu)) {
		pci_warn(gpu->pdev, "MAS %s\n", gpu->state);
		return;
	}

	strscpy(gpu->state, "enabled", sizeof(gpu->state));
	trace_mas_gate(gpu, "open");
	pci_info(gpu->pdev, "%s: MAS serves %llu MiB of VRAM at %pa as GPU %d\n",
		 gpu->chip->name, gpu->vram.size >> 20, &gpu->vram.base, gpu->index);
}

/*
 * Turn MAS off: nothing new starts, what runs ends, mappings go, and only then
 * the pages. Handles stay as husks without VRAM until their owner frees them.
 */
static void mxcd_gpu_disable(struct mxcd_gpu *gpu)
{
	if (!gpu->vram.size)
		return;

	percpu_ref_kill(&gpu->gate);
	trace_mas_gate(gpu, "closed");
	mxcd_gpu_doubt(gpu);
	mas_dmabuf_revoke(gpu);
	wait_for_completion(&gpu->drained);
	trace_mas_gate(gpu, "drained");
	mas_proof_drop_gpu(gpu);
	mas_dev_zap();
	mas_gup_wait(gpu);
	mas_mem_revoke_all(gpu);
	mxcd_vram_revoked(gpu);
}

static int mxcd_publish(struct mxcd_gpu *gpu)
{
	int ret;

	lockdep_assert_held(&mxcd_gpus_lock);

	ret = mxcd_layout_add(gpu);
	if (ret)
		return ret;

	if (gpu->vram.size)
		mas_dmabuf_prepare(gpu);
	set_bit(gpu->index, mxcd_gpus_seen);
	/* Files may still have verdicts for the one that had this index before. */
	mas_route_forget();
	rcu_assign_pointer(mxcd_gpus[gpu->index], gpu);
	mas_route_changed();
	mxcd_layout_changed();

	return 0;
}

static int mxcd_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	const struct mxcd_chip *chip = mxcd_find_chip(pdev);
	struct mxcd_gpu *gpu;
	int ret;

	if (!chip)
		return -ENODEV;

	gpu = mxcd_gpu_create(pdev);
	if (!gpu)
		return -ENOMEM;
	gpu->chip = chip;

	ret = pci_enable_device_mem(pdev);
	if (ret)
		goto err_put;

	ret = pci_request_region(pdev, chip->bar, MXCD_NAME);
	if (ret)
		goto err_disable_device;

	mutex_lock(&mxcd_gpus_lock);
	ret = mxcd_gpu_reserve_index(gpu);
	if (!ret) {
		mxcd_gpu_enable(gpu);
		ret = mxcd_publish(gpu);
	}
	mutex_unlock(&mxcd_gpus_lock);
	if (ret)
		goto err_disable_gpu;

	pci_set_drvdata(pdev, gpu);
	pci_save_state(pdev); /* for mxcd_slot_reset() */
	return 0;

err_disable_gpu:
	mxcd_gpu_disable(gpu);
	pci_release_region(pdev, chip->bar);
err_disable_device:
	pci_disable_device(pdev);
err_put:
	mxcd_gpu_put(gpu);
	return ret;
}

static void mxcd_unpublish(struct mxcd_gpu *gpu)
{
	/* sysfs first: its files read what is taken down below. */
	mutex_lock(&mxcd_gpus_lock);
	mxcd_layout_del(gpu);
	mutex_unlock(&mxcd_gpus_lock);

	mxcd_gpu_disable(gpu);

	/* Only now may another GPU have the index: verdicts are kept by it. */
	mutex_lock(&mxcd_gpus_lock);
	RCU_INIT_POINTER(mxcd_gpus[gpu->index], NULL);
	mutex_unlock(&mxcd_gpus_lock);
	synchronize_rcu();
	mas_route_changed();
	mxcd_layout_changed();
}

static void mxcd_remove(struct pci_dev *pdev)
{
	struct mxcd_gpu *gpu = pci_get_drvdata(pdev);

	mxcd_unpublish(gpu);
	pci_release_region(pdev, gpu->chip->bar);
	pci_disable_device(pdev);
	mxcd_gpu_put(gpu);
}

static int mxcd_gpu_adopt(struct mxcd_gpu *gpu, const struct mas_vram_desc *desc)
{
	int ret;

	ret = mxcd_gpu_reserve_index(gpu);
	if (!ret)
		ret = percpu_ref_init(&gpu->gate, mxcd_gate_drained, 0, GFP_KERNEL);
	if (ret)
		return ret;

	strscpy(gpu->state, "enabled", sizeof(gpu->state));
	ret = mxcd_vram_adopt(gpu, desc);
	if (!ret)
		ret = mxcd_publish(gpu);
	/* Nobody has seen it. */
	if (ret)
		gpu->vram.size = 0;

	return ret;
}

/**
 * mas_gpu_register - let MAS serve the VRAM of a GPU that another driver is bound to
 * @pdev: the GPU
 * @desc: its VRAM; need not outlive the call, but for what it points to
 *
 * Context: the driver's probe(); may sleep.
 * Return: the GPU, to be ended by mas_gpu_unregister(); -EOPNOTSUPP when MAS is off,
 * -EINVAL, -ENOSPC (too many GPUs) or -ENOMEM.
 */
struct mxcd_gpu *mas_gpu_register(struct pci_dev *pdev, const struct mas_vram_desc *desc)
{
	struct mxcd_gpu *gpu;
	int ret;

	if (!mas)
		return ERR_PTR(-EOPNOTSUPP);

	gpu = mxcd_gpu_create(pdev);
	if (!gpu)
		return ERR_PTR(-ENOMEM);

	mutex_lock(&mxcd_gpus_lock);
	ret = mxcd_gpu_adopt(gpu, desc);
	mutex_unlock(&mxcd_gpus_lock);
	if (ret) {
		mxcd_gpu_put(gpu);
		return ERR_PTR(ret);
	}

	return gpu;
}
EXPORT_SYMBOL_GPL(mas_gpu_register);

/**
 * mas_gpu_unregister - take VRAM back
 * @gpu: what mas_gpu_register() returned; not to be touched afterwards
 *
 * Nothing new starts, what runs ends, mappings and dma-bufs are revoked, and pins are
 * waited for. No operation of the driver is called on return.
 *
 * Context: the driver's remove(): the device lock is held; may sleep, and is not to be
 * interrupted.
 */
void mas_gpu_unregister(struct mxcd_gpu *gpu)
{
	mxcd_unpublish(gpu);
	mxcd_gpu_put(gpu);
}
EXPORT_SYMBOL_GPL(mas_gpu_unregister);

/*
 * There is no runtime power management: the GPU stays in D0 as long as it is bound,
 * since disks may reach for its VRAM without asking.
 */
static struct pci_driver mxcd_driver = {
	.name		= MXCD_NAME,
	.id_table	= mxcd_ids,
	.probe		= mxcd_probe,
	.remove		= mxcd_remove,
	.err_handler	= &mxcd_err_handler,
	.driver		= {
		.pm	= pm_sleep_ptr(&mxcd_pm_ops),
	},
};

static int __init mxcd_init(void)
{
	int ret;

	mas_wq = alloc_workqueue("mas", WQ_UNBOUND, 0);
	if (!mas_wq)
		return -ENOMEM;

	ret = mas_io_init();
	if (ret)
		goto err_wq;

	ret = mas_proof_init();
	if (ret)
		goto err_io;

	ret = mas_stats_init();
	if (ret)
		goto err_proof;

	ret = mxcd_layout_init();
	if (ret)
		goto err_stats;

	ret = mas_dev_init();
	if (ret)
		goto err_layout;

	ret = pci_register_driver(&mxcd_driver);
	if (ret)
		goto err_dev;

	return 0;

err_dev:
	mas_dev_exit();
err_layout:
	mxcd_layout_exit();
err_stats:
	mas_stats_exit();
err_proof:
	mas_proof_exit();
err_io:
	mas_io_exit();
err_wq:
	destroy_workqueue(mas_wq);
	return ret;
}

static void __exit mxcd_exit(void)
{
	pci_unregister_driver(&mxcd_driver);
	mas_gup_stop();
	mas_dev_exit();
	mxcd_layout_exit();
	mas_stats_exit();
	mas_ctx_wait_all();
	mas_gup_exit();
	mas_proof_exit();
	destroy_workqueue(mas_wq);

	/*
	 * Every request has completed, but the task or interrupt that completed
	 * the last one may still be on its way out of our code.
	 */
	synchronize_rcu_tasks();
	rcu_barrier();
	mas_io_exit();
}

module_init(mxcd_init);
module_exit(mxcd_exit);

MODULE_DESCRIPTION("MetaX GPU memory as a target of direct I/O (MAS)");
MODULE_VERSION(MXCD_VERSION);
MODULE_LICENSE("GPL");
