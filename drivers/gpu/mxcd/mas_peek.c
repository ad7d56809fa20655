// SPDX-License-Identifier: GPL-2.0
/*
 * Peeks and pokes: VRAM of a handle for who cannot map it. By ioctl any number of
 * bytes; by a request up to four, as a number, which a shell can print.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>

#include "mas.h"

/* Between two looks whether the caller was killed. */
#define MAS_PEEK_STEP	SZ_64K

/* A request has a number of so many bytes, so that it is never an errno. */
#define MAS_PEEK_MAX	sizeof(u32)

static bool mas_peek_in_range(const struct mas_mem *mem, u64 offset, u64 length)
{
	return offset <= mem->size && length <= mem->size - offset;
}

/* Address of @offset and, in @len, how much of @len is there. */
static void *mas_peek_at(struct mas_mem *mem, u64 offset, u64 *len)
{
	unsigned long contig, pfn = mas_view_page(&mem->view, ALIGN_DOWN(offset, PAGE_SIZE),
						  &contig);

	*len = min3(*len, PFN_PHYS(contig) - offset_in_page(offset), (u64)MAS_PEEK_STEP);
	return page_address(pfn_to_page(pfn)) + offset_in_page(offset);
}

static int mas_peek_copy(struct mas_mem *mem, u64 offset, void __user *buf, u64 length,
			 bool write)
{
	u64 len;
	void *vram;
	bool failed;

	for (; length; offset += len, buf += len, length -= len) {
		if (fatal_signal_pending(current))
			return -EINTR;
		len = length;
		vram = mas_peek_at(mem, offset, &len);
		failed = write ? copy_from_user(vram, buf, len) : copy_to_user(buf, vram, len);
		if (failed)
			return -EFAULT;
		cond_resched();
	}

	return 0;
}

/* Find the handle and enter its GPU. */
static struct mas_mem *mas_peek_begin(struct mas_ctx *ctx, u32 handle, u64 offset, u64 length)
{
	struct mas_mem *mem = mas_mem_get(ctx, handle);
	int ret = -EINVAL;

	if (!mem)
		return ERR_PTR(-ENOENT);
	if (!mas_peek_in_range(mem, offset, length))
		goto err_put;

	ret = -ENODEV;
	if (!mxcd_gpu_tryenter(mem->gpu))
		goto err_put;
	if (mxcd_gpu_has_lost(mem->gpu, mem->view.generation))
		goto err_leave;

	return mem;

err_leave:
	mxcd_gpu_leave(mem->gpu);
err_put:
	mas_mem_put_sync(mem);
	return ERR_PTR(ret);
}

static void mas_peek_end(struct mas_mem *mem, bool write)
{
	if (write)
		wmb(); /* drain the write-combining buffers before a disk looks */
	mxcd_gpu_leave(mem->gpu);
	mas_mem_put_sync(mem);
}

/**
 * mas_peek - ioctl(MXCD_MAS_PEEK) and ioctl(MXCD_MAS_POKE)
 * @ctx: the context
 * @args: the arguments
 * @write: POKE
 *
 * Context: may sleep; killable.
 * Return: 0 or an errno as documented there.
 */
int mas_peek(struct mas_ctx *ctx, const struct mxcd_mas_peek *args, bool write)
{
	struct mas_mem *mem;
	int ret;

	if (args->flags || args->__reserved)
		return -EINVAL;

	mem = mas_peek_begin(ctx, args->handle, args->offset, args->length);
	if (IS_ERR(mem))
		return PTR_ERR(mem);

	ret = mas_peek_copy(mem, args->offset, u64_to_user_ptr(args->buf), args->length, write);
	mas_peek_end(mem, write);
	return ret;
}

/**
 * mas_peek_req - a PEEK or POKE request
 * @ctx: the context
 * @args: the request
 *
 * Context: may sleep.
 * Return: PEEK: the number; POKE: bytes written; or a negative errno.
 */
s64 mas_peek_req(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	bool write = args->op == MXCD_MAS_OP_POKE;
	u8 bytes[MAS_PEEK_MAX] = {};
	u64 i, one = 1;
	struct mas_mem *mem;

	if (!args->length || args->length > MAS_PEEK_MAX)
		return -EINVAL;

	mem = mas_peek_begin(ctx, args->handle, args->mem_offset, args->length);
	if (IS_ERR(mem))
		return PTR_ERR(mem);

	put_unaligned_le32(args->arg, bytes);
	for (i = 0; i < args->length; i++) {
		u8 *vram = mas_peek_at(mem, args->mem_offset + i, &one);

		if (write)
			*vram = bytes[i];
		else
			bytes[i] = *vram;
	}
	mas_peek_end(mem, write);
	if (write)
		return args->length;

	memset(bytes + args->length, 0, MAS_PEEK_MAX - args->length);
	return get_unaligned_le32(bytes);
}
