// SPDX-License-Identifier: GPL-2.0
/*
 * PCI errors, resets, suspend: what may swallow data on its way to VRAM, or VRAM
 * itself. Called by the PCI and PM cores with the device lock held.
 */
#include <linux/pci.h>
#include <linux/pm.h>
#include <linux/suspend.h>

#include "mas.h"
#include "mxcd.h"

static const char mxcd_due[] = "off: PCI error, a reset is due";
static const char mxcd_lost[] = "off: PCI error, the GPU does not come back";
static const char mxcd_mute[] = "off: PCI error, the GPU does not answer";
static const char mxcd_suspended[] = "off: suspended";

/**
 * mxcd_gpu_doubt - what is on its way may not arrive
 * @gpu: the GPU
 *
 * Requests in flight fail, whatever the storage controller will say of them.
 *
 * Context: the device lock of the GPU is held.
 */
void mxcd_gpu_doubt(struct mxcd_gpu *gpu)
{
	device_lock_assert(&gpu->pdev->dev);

	/* Pairs with mxcd_gpu_faults(): who misses this, sees the generation. */
	smp_store_release(&gpu->faults, gpu->faults + 1);
}

/*
 * VRAM has lost its content, or is about to: all handles become husks. Waits for
 * nothing: the disks whose requests are in flight may be part of the same reset,
 * and their drivers may go on with these requests only after it. They may then
 * still write to VRAM, but to none that has been given to somebody else: each holds
 * its handle.
 */
static void mxcd_gpu_lose(struct mxcd_gpu *gpu)
{
	if (!gpu->vram.size)
		return;

	WRITE_ONCE(gpu->generation, gpu->generation + 1);
	mxcd_gpu_doubt(gpu);
	mas_dev_zap();
}

/* Stop to use a GPU for a while. What is in flight then is in doubt. */
static void mxcd_gpu_pause(struct mxcd_gpu *gpu, const char *trouble)
{
	if (!gpu->vram.size || gpu->trouble == trouble)
		return;

	WRITE_ONCE(gpu->trouble, trouble);
	mxcd_gpu_doubt(gpu);
	mxcd_layout_state_changed(gpu);
}

/*
 * Go on. What began before and ends later is in doubt: see mxcd_gpu_gone(), which looks
 * at all this the other way round.
 */
static void mxcd_gpu_unpause(struct mxcd_gpu *gpu)
{
	/* Both pair with smp_rmb() in mxcd_gpu_gone(). */
	smp_store_release(&gpu->suspect, false);
	if (!gpu->trouble)
		return;

	mxcd_gpu_doubt(gpu);
	smp_store_release(&gpu->trouble, NULL); /* likewise */
	mxcd_layout_state_changed(gpu);
}

/**
 * mxcd_gpu_decodes - does a GPU answer to the addresses of its BARs?
 * @gpu: the GPU, a reference is held
 *
 * From a reset on it does not, until its configuration is restored.
 *
 * Context: any, hard interrupts too.
 * Return: true if so.
 */
bool mxcd_gpu_decodes(const struct mxcd_gpu *gpu)
{
	u16 command;

	return !pci_read_config_word(gpu->pdev, PCI_COMMAND, &command) &&
	       !PCI_POSSIBLE_ERROR(command) && command & PCI_COMMAND_MEMORY;
}

/**
 * mxcd_gpu_answered - did a GPU answer all the time?
 * @gpu: the GPU, its gate held
 * @faults: what mxcd_gpu_faults() returned before
 *
 * Unlike mxcd_gpu_gone(), this asks the GPU itself: the kernel tells of an error some
 * time after it. For what is not done often, and is remembered for long.
 *
 * Context: any, hard interrupts too.
 * Return: true if so.
 */
bool mxcd_gpu_answered(const struct mxcd_gpu *gpu, unsigned int faults)
{
	return mxcd_gpu_decodes(gpu) && !mxcd_gpu_gone(gpu, faults);
}

/**
 * mxcd_gpu_trouble - why a GPU that has VRAM is not to be used for the time being
 * @gpu: the GPU, a reference is held
 *
 * Context: any.
 * Return: a text for mas_state, or NULL.
 */
const char *mxcd_gpu_trouble(const struct mxcd_gpu *gpu)
{
	const char *trouble = READ_ONCE(gpu->trouble);

	if (trouble)
		return trouble;
	if (gpu->pdev->error_state == pci_channel_io_perm_failure)
		return mxcd_lost;
	if (pci_channel_offline(gpu->pdev))
		return mxcd_due;

	return mxcd_gpu_is_mute(gpu) ? mxcd_mute : NULL;
}

static pci_ers_result_t mxcd_error_detected(struct pci_dev *pdev, pci_channel_state_t state)
{
	struct mxcd_gpu *gpu = pci_get_drvdata(pdev);

	switch (state) {
	case pci_channel_io_normal:
		/*
		 * A write to VRAM may be what the error was about. VRAM itself is well,
		 * unless the driver of a device beside asks for a reset of all.
		 */
		WRITE_ONCE(gpu->suspect, true);
		mxcd_gpu_doubt(gpu);
		return PCI_ERS_RESULT_CAN_RECOVER;
	case pci_channel_io_frozen:
		mxcd_gpu_pause(gpu, mxcd_due);
		mxcd_gpu_lose(gpu);
		return PCI_ERS_RESULT_NEED_RESET;
	default:
		mxcd_gpu_pause(gpu, mxcd_lost);
		mxcd_gpu_lose(gpu);
		return PCI_ERS_RESULT_DISCONNECT;
	}
}

static pci_ers_result_t mxcd_mmio_enabled(struct pci_dev *pdev)
{
	return PCI_ERS_RESULT_RECOVERED;
}

static pci_ers_result_t mxcd_slot_reset(struct pci_dev *pdev)
{
	struct mxcd_gpu *gpu = pci_get_drvdata(pdev);

	/*
	 * After an error that was not fatal, this is how one hears of a reset. Some
	 * kernels call this without one.
	 */
	if (gpu->trouble || !mxcd_gpu_decodes(gpu))
		mxcd_gpu_lose(gpu);

	/* The BARs go back to where they were; some kernels restore only once. */
	pci_restore_state(pdev);
	pci_save_state(pdev);

	return pci_device_is_present(pdev) ? PCI_ERS_RESULT_RECOVERED :
					     PCI_ERS_RESULT_DISCONNECT;
}

/* What the error or the reset was about is over, for better or for worse. */
static void mxcd_gpu_is_back(struct mxcd_gpu *gpu)
{
	/* Once more: pages may have been faulted in meanwhile. */
	mas_dev_zap();
	/* The kernel says the same whether a reset did its work or not. */
	if (mxcd_gpu_decodes(gpu))
		mxcd_gpu_unpause(gpu);
	else
		mxcd_gpu_pause(gpu, mxcd_mute);
}

static void mxcd_error_resume(struct pci_dev *pdev)
{
	mxcd_gpu_is_back(pci_get_drvdata(pdev));
}

static void mxcd_reset_prepare(struct pci_dev *pdev)
{
	struct mxcd_gpu *gpu = pci_get_drvdata(pdev);

	mxcd_gpu_pause(gpu, "off: reset");
	mxcd_gpu_lose(gpu);
}

static void mxcd_reset_done(struct pci_dev *pdev)
{
	mxcd_gpu_is_back(pci_get_drvdata(pdev));
}

const struct pci_error_handlers mxcd_err_handler = {
	.error_detected	= mxcd_error_detected,
	.mmio_enabled	= mxcd_mmio_enabled,
	.slot_reset	= mxcd_slot_reset,
	.resume		= mxcd_error_resume,
	.reset_prepare	= mxcd_reset_prepare,
	.reset_done	= mxcd_reset_done,
};

/*
 * Suspend to idle leaves the GPU with power: the PCI core leaves functions whose
 * state was saved by their driver in D0, and the bridges above them. Where the
 * firmware takes over, power goes, and what was in VRAM with it.
 */
static int mxcd_suspend(struct device *dev)
{
	struct pci_dev *pdev = to_pci_dev(dev);
	struct mxcd_gpu *gpu = pci_get_drvdata(pdev);

	if (pm_suspend_via_firmware()) {
		if (!gpu->trouble)
			mxcd_gpu_pause(gpu, mxcd_suspended);
		mxcd_gpu_lose(gpu);
	} else {
		pci_save_state(pdev);
	}

	return 0;
}

static int mxcd_resume(struct device *dev)
{
	struct mxcd_gpu *gpu = pci_get_drvdata(to_pci_dev(dev));

	/* Other trouble is as it was. */
	if (gpu->trouble == mxcd_suspended)
		mxcd_gpu_is_back(gpu);

	return 0;
}

/* Power was off since the image was made. */
static int mxcd_restore(struct device *dev)
{
	mxcd_gpu_lose(pci_get_drvdata(to_pci_dev(dev)));
	return 0;
}

const struct dev_pm_ops mxcd_pm_ops = {
	.suspend	= pm_sleep_ptr(mxcd_suspend),
	.resume		= pm_sleep_ptr(mxcd_resume),
	.restore	= pm_sleep_ptr(mxcd_restore),
};
