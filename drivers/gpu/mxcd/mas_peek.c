// SPDX-License-Identifier: GPL-2.0
/*
 * Peeks and pokes: VRAM of a handle for who cannot map it. By ioctl any number of
 * bytes; by a request up to four, as a number, which a shell can print.
 */
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/unaligned.h>

#include "mas.h"

/* Bytes that go through host memory at a time: the GPU is not kept while user space is. */
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

	*len = min_t(u64, *len, PFN_PHYS(contig) - offset_in_page(offset));
	return page_address(pfn_to_page(pfn)) + offset_in_page(offset);
}

static void mas_peek_move(struct mas_mem *mem, u64 offset, void *buf, u64 length, bool write)
{
	void *vram;
	u64 len;

	for (; length; offset += len, buf += len, length -= len) {
		len = length;
		vram = mas_peek_at(mem, offset, &len);
		if (write)
			memcpy(vram, buf, len);
		else
			memcpy(buf, vram, len);
	}
	if (write)
		wmb(); /* drain the write-combining buffers before a disk looks */
}

/* Between VRAM and host memory of ours. */
static int mas_peek_vram(struct mas_mem *mem, u64 offset, void *buf, u64 length, bool write)
{
	unsigned int faults = mxcd_gpu_faults(mem->gpu);
	bool gone;

	if (!mas_mem_enter(mem))
		return -ENODEV;

	mas_peek_move(mem, offset, buf, length, write);
	gone = mxcd_gpu_gone(mem->gpu, faults);
	mxcd_gpu_leave(mem->gpu);

	return gone ? -ENODEV : 0;
}

/* One step of at most MAS_PEEK_STEP bytes; a page fault of the caller may take for ever. */
static int mas_peek_step(struct mas_mem *mem, u64 offset, void *buf, void __user *user,
			 u64 length, bool write)
{
	int ret;

	if (fatal_signal_pending(current))
		return -EINTR;
	if (write && copy_from_user(buf, user, length))
		return -EFAULT;

	ret = mas_peek_vram(mem, offset, buf, length, write);
	if (!ret && !write && copy_to_user(user, buf, length))
		ret = -EFAULT;

	return ret;
}

static int mas_peek_user(struct mas_mem *mem, u64 offset, void __user *user, u64 length,
			 bool write)
{
	void *buf = kmalloc(min_t(u64, length, MAS_PEEK_STEP), GFP_KERNEL_ACCOUNT);
	int ret = 0;
	u64 len;

	if (!buf)
		return -ENOMEM;

	for (; length && !ret; offset += len, user += len, length -= len) {
		len = min_t(u64, length, MAS_PEEK_STEP);
		ret = mas_peek_step(mem, offset, buf, user, len, write);
		cond_resched();
	}
	kfree(buf);

	return ret;
}

static struct mas_mem *mas_peek_find(struct mas_ctx *ctx, u32 handle, u64 offset, u64 length)
{
	struct mas_mem *mem = mas_mem_get(ctx, handle);

	if (!mem)
		return ERR_PTR(-ENOENT);
	if (!mas_peek_in_range(mem, offset, length)) {
		mas_mem_put_sync(mem);
		return ERR_PTR(-EINVAL);
	}

	return mem;
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

	mem = mas_peek_find(ctx, args->handle, args->offset, args->length);
	if (IS_ERR(mem))
		return PTR_ERR(mem);

	ret = mas_peek_user(mem, args->offset, u64_to_user_ptr(args->buf), args->length, write);
	mas_mem_put_sync(mem);
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
	struct mas_mem *mem;
	int ret;

	if (!args->length || args->length > MAS_PEEK_MAX)
		return -EINVAL;

	mem = mas_peek_find(ctx, args->handle, args->mem_offset, args->length);
	if (IS_ERR(mem))
		return PTR_ERR(mem);

	if (write)
		put_unaligned_le32(args->arg, bytes);
	ret = mas_peek_vram(mem, args->mem_offset, bytes, args->length, write);
	mas_mem_put_sync(mem);
	if (ret)
		return ret;

	return write ? args->length : get_unaligned_le32(bytes);
}
