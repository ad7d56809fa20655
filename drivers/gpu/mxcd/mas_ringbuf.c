// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM as a registered buffer of an io_uring: READ_FIXED and WRITE_FIXED on any file
 * move data to and from it then, without this driver in the path.
 *
 * So what mas_gup.c says of pinned pages holds here as well, whoever makes the page
 * structs: it takes the administrator's word. The ring keeps a copy of the extents and
 * tells when neither a slot nor a request refers to them any more. Until then the
 * handle counts as pinned: it lingers when it is freed, and unbind waits for it.
 */
#include <linux/io_uring/cmd.h>
#include <linux/io_uring_types.h>
#include <linux/mm.h>
#include <linux/uaccess.h>

#include "mas.h"

/* The ring keeps the length of a buffer in 32 bits. */
#define MAS_RINGBUF_MAX	(BIT_ULL(32) - PAGE_SIZE)

/**
 * mas_ringbuf_works - does this kernel let drivers register buffers?
 *
 * Context: any.
 * Return: true if so.
 */
bool mas_ringbuf_works(void)
{
#ifdef MXCD_NO_RING_BUFFERS
	return false;
#else
	return IS_ENABLED(CONFIG_IO_URING);
#endif
}

/* In any context. */
static void mas_ringbuf_release(void *priv)
{
	mas_gup_drop(priv);
}

static int mas_ringbuf_add(struct mas_mem *part, struct io_uring_cmd *cmd, unsigned int slot,
			   unsigned int issue_flags)
{
	struct mas_mem *whole = part->whole;
	int ret;

	mas_gup_hold(whole);
	ret = io_buffer_register_bvec(cmd, part->bvecs, part->nr_bvecs, mas_ringbuf_release,
				      whole, IO_BUF_DEST | IO_BUF_SOURCE, slot, issue_flags);
	if (ret)
		mas_gup_drop(whole);

	return ret;
}

static int mas_ringbuf_add_range(struct mas_mem *mem, const struct mxcd_mas_buffer *args,
				 struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct mas_mem *part;
	int ret = -EACCES;

	if (!PAGE_ALIGNED(args->offset) || !PAGE_ALIGNED(args->length) || !args->length ||
	    args->length > MAS_RINGBUF_MAX || args->offset > mem->size ||
	    args->length > mem->size - args->offset)
		return -EINVAL;
	if (!mas_mem_enter(mem))
		return -ENODEV;

	if (mas_gup_wanted() && mas_gup_allowed(mem->gpu)) {
		part = mas_mem_part(mem, args->offset, args->length, NULL);
		ret = PTR_ERR_OR_ZERO(part);
		if (!ret) {
			ret = mas_ringbuf_add(part, cmd, args->slot, issue_flags);
			mas_mem_put_sync(part);
		}
	}
	mxcd_gpu_leave(mem->gpu);

	return ret;
}

static int mas_ringbuf_read(struct io_uring_cmd *cmd, struct mxcd_mas_buffer *args)
{
	const struct mxcd_mas_uring *where = io_uring_sqe_cmd(cmd->sqe, struct mxcd_mas_uring);
	void __user *user = u64_to_user_ptr(READ_ONCE(where->req));
	u32 size;

	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	if (size < offsetofend(struct mxcd_mas_buffer, length))
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;

	return copy_struct_from_user(args, sizeof(*args), user, size);
}

/**
 * mas_ringbuf_issue - a uring_cmd with MXCD_MAS_BUFFER
 * @ctx: the context
 * @cmd: the command
 * @issue_flags: of io_uring
 *
 * Context: the submitter's, or a worker of its ring.
 * Return: 0 or an errno as documented with &struct mxcd_mas_buffer.
 */
int mas_ringbuf_issue(struct mas_ctx *ctx, struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct mxcd_mas_buffer args;
	struct mas_mem *mem;
	int ret;

	ret = mas_ringbuf_read(cmd, &args);
	if (ret)
		return ret;
	if (args.flags & ~MXCD_MAS_BUFFER_REMOVE)
		return -EINVAL;
	if (!mas_ringbuf_works())
		return -EOPNOTSUPP;
	if (!mas_may_mmap(ctx))
		return -EPERM;
	if (args.flags & MXCD_MAS_BUFFER_REMOVE)
		return io_buffer_unregister(cmd, args.slot, issue_flags);

	mem = mas_mem_get(ctx, args.handle);
	if (!mem)
		return -ENOENT;

	ret = mas_ringbuf_add_range(mem, &args, cmd, issue_flags);
	mas_mem_put_sync(mem);
	return ret;
}
