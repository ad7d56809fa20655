// SPDX-License-Identifier: GPL-2.0
/*
 * What a program can ask: by ioctl, a structure at a time, or by a request, one
 * number at a time, for callers without ioctl.
 */
#include <linux/file.h>
#include <linux/minmax.h>
#include <linux/pci.h>

#include "mas.h"
#include "mxcd_version.h"

#define MAS_FEATURES	(MXCD_MAS_FEATURE_SEGS | \
			 (IS_ENABLED(CONFIG_IO_URING) ? MXCD_MAS_FEATURE_URING : 0) | \
			 (mas_ringbuf_works() ? MXCD_MAS_FEATURE_BUFFER : 0))

#define MAS_DRIVER_VERSION	(MXCD_VERSION_MAJOR << 16 | MXCD_VERSION_MINOR << 8 | \
				 MXCD_VERSION_PATCH)

static u64 mas_gpus(struct mas_ctx *ctx)
{
	return mxcd_gpus_enabled() & READ_ONCE(ctx->gpus);
}

/* Enter a GPU that the context may name. */
static struct mxcd_gpu *mas_gpu_enter(struct mas_ctx *ctx, u32 index)
{
	if (index >= MXCD_MAX_GPUS || !(READ_ONCE(ctx->gpus) & BIT_ULL(index)))
		return ERR_PTR(-ENOENT);

	return mxcd_gpu_enter(index);
}

static struct mas_file *mas_query_get_file(struct mas_ctx *ctx, u32 id, bool by_fd)
{
	struct mas_file *file;

	if (by_fd)
		return mas_file_get_fd(id);

	file = mas_file_get(ctx, id);
	return file ? file : ERR_PTR(-ENOENT);
}

/**
 * mas_query - ioctl(MXCD_MAS_QUERY)
 * @ctx: the context
 * @args: in and out
 *
 * Context: any process.
 * Return: 0 or -EINVAL.
 */
int mas_query(struct mas_ctx *ctx, struct mxcd_mas_query *args)
{
	if (args->flags || args->__reserved)
		return -EINVAL;

	args->out_version = MXCD_MAS_VERSION;
	args->out_granule = MXCD_GRANULE;
	args->out_features = MAS_FEATURES;
	args->out_gpus = mas_gpus(ctx);
	args->out_max_queue = READ_ONCE(ctx->max_queue);
	args->out_max_files = mas_max_files(ctx);
	args->out_driver_version = MAS_DRIVER_VERSION;
	return 0;
}

/**
 * mas_query_gpu - ioctl(MXCD_MAS_QUERY_GPU)
 * @ctx: the context
 * @args: in and out
 *
 * Context: any process.
 * Return: 0, -EINVAL, -ENOENT or -ENODEV.
 */
int mas_query_gpu(struct mas_ctx *ctx, struct mxcd_mas_query_gpu *args)
{
	struct mxcd_gpu *gpu;

	if (args->flags || args->__reserved)
		return -EINVAL;

	gpu = mas_gpu_enter(ctx, args->gpu);
	if (IS_ERR(gpu))
		return PTR_ERR(gpu);

	args->out_vram_size = gpu->vram.size;
	args->out_vram_free = min(gpu->vram.size - mxcd_vram_used(gpu), mas_quota_left(ctx));
	args->out_domain = pci_domain_nr(gpu->pdev->bus);
	args->out_bdf = pci_dev_id(gpu->pdev);
	args->out_vendor = gpu->pdev->vendor;
	args->out_device = gpu->pdev->device;
	mxcd_gpu_leave(gpu);

	return 0;
}

/* The verdicts for both directions and the controller that the worse one is due to. */
static void mas_fill_verdicts(struct mas_file *file, struct mxcd_gpu *gpu,
			      struct mxcd_mas_query_file *args)
{
	struct pci_dev *decider[2], *decides;
	struct mas_route read = mas_route_promise(file, gpu, false, &decider[0]);
	struct mas_route write = mas_route_promise(file, gpu, true, &decider[1]);

	args->out_route_read = read.route;
	args->out_reason_read = read.reason;
	args->out_route_write = write.route;
	args->out_reason_write = write.reason;

	decides = read.reason || !decider[1] ? decider[0] : decider[1];
	args->out_storage_domain = decides ? pci_domain_nr(decides->bus) : MXCD_MAS_NO_STORAGE;
	args->out_storage_bdf = decides ? pci_dev_id(decides) : MXCD_MAS_NO_STORAGE;
	pci_dev_put(decider[0]);
	pci_dev_put(decider[1]);
}

static void mas_fill_file(struct mas_file *file, struct mxcd_gpu *gpu,
			  struct mxcd_mas_query_file *args)
{
	mas_fill_verdicts(file, gpu, args);
	args->out_read_align = file->read_align;
	args->out_write_align = file->write_align;
	args->out_mem_align = file->mem_align;
}

/**
 * mas_query_file - ioctl(MXCD_MAS_QUERY_FILE)
 * @ctx: the context
 * @args: in and out
 * @wait: may wait for disks
 *
 * Context: may sleep.
 * Return: 0, -EINVAL, -EPERM (flags that mas_restrict() took away), -ENOENT, -ENODEV or
 * an error of mas_file_get_fd().
 */
int mas_query_file(struct mas_ctx *ctx, struct mxcd_mas_query_file *args, bool wait)
{
	struct mas_file *file;
	struct mxcd_gpu *gpu;

	if (args->flags & ~MXCD_MAS_REQ_FD || args->__reserved)
		return -EINVAL;
	if (args->flags & ~READ_ONCE(ctx->req_flags))
		return -EPERM;

	/* A file system may take for ever to tell: it does not keep the GPU. */
	file = mas_query_get_file(ctx, args->file, args->flags & MXCD_MAS_REQ_FD);
	if (IS_ERR(file))
		return PTR_ERR(file);

	if (wait && args->gpu < MXCD_MAX_GPUS && ctx->gpus & BIT_ULL(args->gpu))
		mas_file_prove(file, args->gpu);

	gpu = mas_gpu_enter(ctx, args->gpu);
	if (!IS_ERR(gpu)) {
		mas_fill_file(file, gpu, args);
		mxcd_gpu_leave(gpu);
	}
	mas_file_put_sync(file);

	return PTR_ERR_OR_ZERO(gpu);
}

static bool mas_is_worse(const struct mxcd_mas_query_file *a,
			 const struct mxcd_mas_register *b)
{
	return !!a->out_reason_read + !!a->out_reason_write >
	       !!b->out_reason_read + !!b->out_reason_write;
}

/**
 * mas_query_registered - tell what to expect of a file that was registered
 * @ctx: the context
 * @file: the file
 * @args: its out_* fields are set
 *
 * Context: may sleep, not for a disk.
 */
void mas_query_registered(struct mas_ctx *ctx, struct mas_file *file,
			  struct mxcd_mas_register *args)
{
	struct mxcd_mas_query_file verdicts = {};
	struct mxcd_gpu *gpu;
	unsigned int i;

	args->out_gpu = MXCD_MAS_NO_GPU;
	for (i = 0; i < MXCD_MAX_GPUS; i++) {
		gpu = mas_gpu_enter(ctx, i);
		if (IS_ERR(gpu))
			continue;

		mas_fill_verdicts(file, gpu, &verdicts);
		mxcd_gpu_leave(gpu);
		if (args->out_gpu != MXCD_MAS_NO_GPU && !mas_is_worse(&verdicts, args))
			continue;

		args->out_gpu = i;
		args->out_route_read = verdicts.out_route_read;
		args->out_reason_read = verdicts.out_reason_read;
		args->out_route_write = verdicts.out_route_write;
		args->out_reason_write = verdicts.out_reason_write;
		args->out_storage_domain = verdicts.out_storage_domain;
		args->out_storage_bdf = verdicts.out_storage_bdf;
	}
}

static s64 mas_key_gpu(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	struct mxcd_mas_query_gpu gpu = { .gpu = args->arg };
	int ret = mas_query_gpu(ctx, &gpu);

	if (ret)
		return ret;

	return args->key == MXCD_MAS_KEY_VRAM_SIZE ? gpu.out_vram_size : gpu.out_vram_free;
}

static s64 mas_key_gup(struct mas_ctx *ctx, const struct mxcd_mas_req *args, u16 *reason)
{
	struct mxcd_gpu *gpu = mas_gpu_enter(ctx, args->arg);

	if (IS_ERR(gpu))
		return PTR_ERR(gpu);

	*reason = mas_gup_reason(gpu, NULL);
	mxcd_gpu_leave(gpu);
	return !*reason;
}

static s64 mas_key_handle(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	struct mas_mem *mem = mas_mem_get(ctx, args->handle);
	s64 value;

	if (!mem)
		return -ENOENT;

	value = args->key == MXCD_MAS_KEY_HANDLE_SIZE ? mem->size : PFN_PHYS(mem->pgoff);
	mas_mem_put_sync(mem);
	return value;
}

static s64 mas_key_align(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	struct mas_file *file;
	s64 value;

	file = mas_query_get_file(ctx, args->file, args->flags & MXCD_MAS_REQ_FD);
	if (IS_ERR(file))
		return PTR_ERR(file);

	if (args->key == MXCD_MAS_KEY_FILE_READ_ALIGN)
		value = file->read_align;
	else if (args->key == MXCD_MAS_KEY_FILE_WRITE_ALIGN)
		value = file->write_align;
	else
		value = file->mem_align;
	mas_file_put_sync(file);

	return value;
}

static s64 mas_key_route(struct mas_ctx *ctx, const struct mxcd_mas_req *args, u16 *reason,
			 bool wait)
{
	struct mxcd_mas_query_file file = {
		.flags	= args->flags & MXCD_MAS_REQ_FD,
		.file	= args->file,
		.gpu	= args->arg,
	};
	bool read = args->key == MXCD_MAS_KEY_ROUTE_READ;
	int ret = mas_query_file(ctx, &file, wait);

	if (ret)
		return ret;

	*reason = read ? file.out_reason_read : file.out_reason_write;
	return read ? file.out_route_read : file.out_route_write;
}

/* What a key names besides itself; the rest must be zero. */
static bool mas_key_names(const struct mxcd_mas_req *args)
{
	bool gpu = false, file = false, handle = false;

	switch (args->key) {
	case MXCD_MAS_KEY_VRAM_SIZE:
	case MXCD_MAS_KEY_VRAM_FREE:
	case MXCD_MAS_KEY_GUP:
		gpu = true;
		break;
	case MXCD_MAS_KEY_HANDLE_SIZE:
	case MXCD_MAS_KEY_HANDLE_MMAP:
		handle = true;
		break;
	case MXCD_MAS_KEY_ROUTE_READ:
	case MXCD_MAS_KEY_ROUTE_WRITE:
		gpu = true;
		fallthrough;
	case MXCD_MAS_KEY_FILE_READ_ALIGN:
	case MXCD_MAS_KEY_FILE_WRITE_ALIGN:
	case MXCD_MAS_KEY_FILE_MEM_ALIGN:
		file = true;
		break;
	}

	return (gpu || !args->arg) && (handle || !args->handle) &&
	       (file || (!args->file && !(args->flags & MXCD_MAS_REQ_FD)));
}

/**
 * mas_query_key - answer a QUERY request
 * @ctx: the context
 * @args: the request
 * @reason: set for the keys that ask for a route, or for GUP
 * @wait: may wait for disks
 *
 * Context: may sleep.
 * Return: the number asked for, or a negative errno; -EINVAL: no such key.
 */
s64 mas_query_key(struct mas_ctx *ctx, const struct mxcd_mas_req *args,
		  u16 *reason, bool wait)
{
	if (!mas_key_names(args))
		return -EINVAL;

	switch (args->key) {
	case MXCD_MAS_KEY_VERSION:
		return MXCD_MAS_VERSION;
	case MXCD_MAS_KEY_DRIVER_VERSION:
		return MAS_DRIVER_VERSION;
	case MXCD_MAS_KEY_FEATURES:
		return MAS_FEATURES;
	case MXCD_MAS_KEY_GPUS:
		return mas_gpus(ctx);
	case MXCD_MAS_KEY_GRANULE:
		return MXCD_GRANULE;
	case MXCD_MAS_KEY_MAX_QUEUE:
		return READ_ONCE(ctx->max_queue);
	case MXCD_MAS_KEY_MAX_FILES:
		return mas_max_files(ctx);
	case MXCD_MAS_KEY_MAX_SEGS:
		return MAS_MAX_SEGS;
	case MXCD_MAS_KEY_VRAM_SIZE:
	case MXCD_MAS_KEY_VRAM_FREE:
		return mas_key_gpu(ctx, args);
	case MXCD_MAS_KEY_GUP:
		return mas_key_gup(ctx, args, reason);
	case MXCD_MAS_KEY_HANDLE_SIZE:
	case MXCD_MAS_KEY_HANDLE_MMAP:
		return mas_key_handle(ctx, args);
	case MXCD_MAS_KEY_FILE_READ_ALIGN:
	case MXCD_MAS_KEY_FILE_WRITE_ALIGN:
	case MXCD_MAS_KEY_FILE_MEM_ALIGN:
		return mas_key_align(ctx, args);
	case MXCD_MAS_KEY_ROUTE_READ:
	case MXCD_MAS_KEY_ROUTE_WRITE:
		return mas_key_route(ctx, args, reason, wait);
	default:
		return -EINVAL;
	}
}
