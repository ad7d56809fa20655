// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctls: one table, one way to take a structure and to give it back.
 *
 * What an ioctl makes is not in use before the caller has been told of it: if
 * that fails, it is undone, and nobody can have got hold of it meanwhile.
 */
#include <linux/fs.h>
#include <linux/nospec.h>
#include <linux/uaccess.h>

#include "mas.h"
#include "mas_user.h"

/* One call: its arguments, and what it has made. */
struct mas_call {
	union {
		struct mxcd_mas_query query;
		struct mxcd_mas_query_gpu query_gpu;
		struct mxcd_mas_query_file query_file;
		struct mxcd_mas_alloc alloc;
		struct mxcd_mas_free free;
		struct mxcd_mas_register reg;
		struct mxcd_mas_unregister unreg;
		struct mxcd_mas_transfer transfer;
		struct mxcd_mas_eventfd eventfd;
		struct mxcd_mas_restrict restrict_to;
		struct mxcd_mas_export export;
		struct mxcd_mas_import import;
		struct mxcd_mas_peek peek;
	};
	unsigned int how;	/* MAS_IO_* flags, by the file's */
	struct mas_mem *mem;
	struct mas_file *file;
	struct dma_buf *dmabuf;
};

struct mas_ioctl {
	int (*fn)(struct mas_ctx *ctx, struct mas_call *call);
	void (*end)(struct mas_ctx *ctx, struct mas_call *call, bool told);
	unsigned int size;	/* of the structure, as this kernel knows it */
	unsigned int min_size;	/* of its first version */
	u16 op;			/* the operation it is, if that is one */
};

static int mas_ioctl_query(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_query(ctx, &call->query);
}

static int mas_ioctl_query_gpu(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_query_gpu(ctx, &call->query_gpu);
}

static int mas_ioctl_query_file(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_query_file(ctx, &call->query_file, !(call->how & MAS_IO_NONBLOCK));
}

static int mas_ioctl_alloc(struct mas_ctx *ctx, struct mas_call *call)
{
	call->mem = mas_mem_alloc(ctx, &call->alloc, false);

	return PTR_ERR_OR_ZERO(call->mem);
}

static void mas_end_alloc(struct mas_ctx *ctx, struct mas_call *call, bool told)
{
	if (told)
		mas_mem_commit(ctx, call->alloc.handle, call->mem);
	else
		mas_mem_abort(ctx, call->alloc.handle, call->mem);
}

static int mas_ioctl_free(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_mem_free(ctx, call->free.handle);
}

static int mas_ioctl_register(struct mas_ctx *ctx, struct mas_call *call)
{
	if (call->reg.flags || call->reg.__reserved)
		return -EINVAL;

	call->file = mas_file_register(ctx, call->reg.fd, &call->reg.file,
				       !(call->how & MAS_IO_NONBLOCK));
	if (IS_ERR(call->file))
		return PTR_ERR(call->file);

	mas_query_registered(ctx, call->file, &call->reg);
	return 0;
}

static void mas_end_register(struct mas_ctx *ctx, struct mas_call *call, bool told)
{
	if (told)
		mas_file_commit(ctx, call->reg.file, call->file);
	else
		mas_file_abort(ctx, call->reg.file, call->file);
}

static int mas_ioctl_unregister(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_file_unregister(ctx, call->unreg.file);
}

static int mas_check_transfer(const struct mxcd_mas_transfer *args)
{
	if (args->flags || !args->nr || args->min_nr > args->nr)
		return -EINVAL;
	if (args->min_nr && !args->comps)
		return -EINVAL;

	return 0;
}

static int mas_transfer(struct mas_ctx *ctx, struct mxcd_mas_transfer *args, unsigned int how)
{
	struct mxcd_mas_comp __user *comps = u64_to_user_ptr(args->comps);
	struct mas_batch batch __uninitialized;
	long nr;
	int ret;

	ret = mas_check_transfer(args);
	if (ret)
		return ret;

	/* Who waits for a single request can as well do its work. */
	if (args->nr == 1 && args->min_nr == 1 && !args->timeout_ns && !how)
		how = MAS_IO_INLINE | MAS_IO_WAITS;

	mas_batch_init(&batch, args->min_nr);
	nr = mas_submit_user(ctx, u64_to_user_ptr(args->reqs), comps, args->nr,
			     comps ? &batch : NULL, how);
	if (nr < 0)
		return nr;

	args->out_submitted = nr;
	args->out_completed = comps ? mas_batch_end(ctx, &batch, comps, nr, args->timeout_ns) : 0;
	return 0;
}

static int mas_ioctl_transfer(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_transfer(ctx, &call->transfer, call->how);
}

static int mas_ioctl_eventfd(struct mas_ctx *ctx, struct mas_call *call)
{
	if (call->eventfd.flags || call->eventfd.__reserved)
		return -EINVAL;

	return mas_ctx_set_eventfd(ctx, call->eventfd.fd);
}

static int mas_ioctl_restrict(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_restrict(ctx, &call->restrict_to);
}

static int mas_ioctl_export(struct mas_ctx *ctx, struct mas_call *call)
{
	call->dmabuf = mas_dmabuf_export(ctx, &call->export);

	return PTR_ERR_OR_ZERO(call->dmabuf);
}

static void mas_end_export(struct mas_ctx *ctx, struct mas_call *call, bool told)
{
	mas_dmabuf_end(&call->export, call->dmabuf, told);
}

static int mas_ioctl_import(struct mas_ctx *ctx, struct mas_call *call)
{
	call->mem = mas_dmabuf_import(ctx, &call->import);

	return PTR_ERR_OR_ZERO(call->mem);
}

static void mas_end_import(struct mas_ctx *ctx, struct mas_call *call, bool told)
{
	if (told)
		mas_mem_commit(ctx, call->import.handle, call->mem);
	else
		mas_mem_abort(ctx, call->import.handle, call->mem);
}

static int mas_ioctl_peek(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_peek(ctx, &call->peek, false);
}

static int mas_ioctl_poke(struct mas_ctx *ctx, struct mas_call *call)
{
	return mas_peek(ctx, &call->peek, true);
}

/* min_size never changes, whatever is added to a structure behind it. */
static const struct mas_ioctl mas_ioctls[] = {
	[_IOC_NR(MXCD_MAS_QUERY)] = {
		.fn		= mas_ioctl_query,
		.size		= sizeof(struct mxcd_mas_query),
		.min_size	= offsetofend(struct mxcd_mas_query, out_max_files),
	},
	[_IOC_NR(MXCD_MAS_QUERY_GPU)] = {
		.fn		= mas_ioctl_query_gpu,
		.size		= sizeof(struct mxcd_mas_query_gpu),
		.min_size	= offsetofend(struct mxcd_mas_query_gpu, out_device),
		.op		= MXCD_MAS_OP_QUERY,
	},
	[_IOC_NR(MXCD_MAS_QUERY_FILE)] = {
		.fn		= mas_ioctl_query_file,
		.size		= sizeof(struct mxcd_mas_query_file),
		.min_size	= offsetofend(struct mxcd_mas_query_file, __reserved),
		.op		= MXCD_MAS_OP_QUERY,
	},
	[_IOC_NR(MXCD_MAS_ALLOC)] = {
		.fn		= mas_ioctl_alloc,
		.end		= mas_end_alloc,
		.size		= sizeof(struct mxcd_mas_alloc),
		.min_size	= offsetofend(struct mxcd_mas_alloc, __reserved),
		.op		= MXCD_MAS_OP_ALLOC,
	},
	[_IOC_NR(MXCD_MAS_FREE)] = {
		.fn		= mas_ioctl_free,
		.size		= sizeof(struct mxcd_mas_free),
		.min_size	= offsetofend(struct mxcd_mas_free, handle),
		.op		= MXCD_MAS_OP_FREE,
	},
	[_IOC_NR(MXCD_MAS_REGISTER)] = {
		.fn		= mas_ioctl_register,
		.end		= mas_end_register,
		.size		= sizeof(struct mxcd_mas_register),
		.min_size	= offsetofend(struct mxcd_mas_register, file),
		.op		= MXCD_MAS_OP_REGISTER,
	},
	[_IOC_NR(MXCD_MAS_UNREGISTER)] = {
		.fn		= mas_ioctl_unregister,
		.size		= sizeof(struct mxcd_mas_unregister),
		.min_size	= offsetofend(struct mxcd_mas_unregister, file),
		.op		= MXCD_MAS_OP_UNREGISTER,
	},
	[_IOC_NR(MXCD_MAS_TRANSFER)] = {
		.fn		= mas_ioctl_transfer,
		.size		= sizeof(struct mxcd_mas_transfer),
		.min_size	= offsetofend(struct mxcd_mas_transfer, out_completed),
	},
	[_IOC_NR(MXCD_MAS_EVENTFD)] = {
		.fn		= mas_ioctl_eventfd,
		.size		= sizeof(struct mxcd_mas_eventfd),
		.min_size	= offsetofend(struct mxcd_mas_eventfd, __reserved),
	},
	[_IOC_NR(MXCD_MAS_RESTRICT)] = {
		.fn		= mas_ioctl_restrict,
		.size		= sizeof(struct mxcd_mas_restrict),
		.min_size	= offsetofend(struct mxcd_mas_restrict, __reserved),
	},
	[_IOC_NR(MXCD_MAS_EXPORT)] = {
		.fn		= mas_ioctl_export,
		.end		= mas_end_export,
		.size		= sizeof(struct mxcd_mas_export),
		.min_size	= offsetofend(struct mxcd_mas_export, length),
		.op		= MXCD_MAS_OP_EXPORT,
	},
	[_IOC_NR(MXCD_MAS_IMPORT)] = {
		.fn		= mas_ioctl_import,
		.end		= mas_end_import,
		.size		= sizeof(struct mxcd_mas_import),
		.min_size	= offsetofend(struct mxcd_mas_import, out_extents),
		.op		= MXCD_MAS_OP_IMPORT,
	},
	[_IOC_NR(MXCD_MAS_PEEK)] = {
		.fn		= mas_ioctl_peek,
		.size		= sizeof(struct mxcd_mas_peek),
		.min_size	= offsetofend(struct mxcd_mas_peek, buf),
		.op		= MXCD_MAS_OP_PEEK,
	},
	[_IOC_NR(MXCD_MAS_POKE)] = {
		.fn		= mas_ioctl_poke,
		.size		= sizeof(struct mxcd_mas_peek),
		.min_size	= offsetofend(struct mxcd_mas_peek, buf),
		.op		= MXCD_MAS_OP_POKE,
	},
};

static const struct mas_ioctl *mas_find_ioctl(unsigned int cmd)
{
	unsigned int nr = _IOC_NR(cmd);

	if (nr >= ARRAY_SIZE(mas_ioctls) || cmd != _IO(MXCD_MAS_IOC_TYPE, nr))
		return NULL;

	return &mas_ioctls[array_index_nospec(nr, ARRAY_SIZE(mas_ioctls))];
}

static int mas_ioctl_run(struct mas_ctx *ctx, const struct mas_ioctl *ioctl,
			 struct mas_call *call, void __user *user, u32 size)
{
	int ret;

	ret = copy_struct_from_user(call, ioctl->size, user, size);
	if (!ret && ioctl->op && !mas_may_op(ctx, ioctl->op))
		ret = -EPERM;
	if (!ret)
		ret = ioctl->fn(ctx, call);
	if (ret)
		return ret;

	/* A caller of an older version gets what fits into its structure. */
	ret = copy_to_user(user, call, min(size, ioctl->size)) ? -EFAULT : 0;
	if (ioctl->end)
		ioctl->end(ctx, call, !ret);

	return ret;
}

static long mas_ioctl_any(struct file *filp, unsigned int cmd, void __user *user)
{
	const struct mas_ioctl *ioctl = mas_find_ioctl(cmd);
	struct mas_call call;
	u32 size;

	if (!ioctl)
		return -ENOTTY;
	if (get_user(size, (u32 __user *)user))
		return -EFAULT;
	if (size < ioctl->min_size)
		return -EINVAL;
	if (size > PAGE_SIZE)
		return -E2BIG;

	call.how = mas_submit_flags(filp);
	return mas_ioctl_run(filp->private_data, ioctl, &call, user, size);
}

/*
 * The one that is called for each I/O, from who was built for this version: there is
 * nothing to look up, and few words to copy.
 */
static long mas_ioctl_hot(struct file *filp, struct mxcd_mas_transfer __user *user)
{
	struct mxcd_mas_transfer args __uninitialized;
	int ret;

	if (mas_get_words(&args, user, sizeof(args)) || args.size != sizeof(args))
		return mas_ioctl_any(filp, MXCD_MAS_TRANSFER, user);

	ret = mas_transfer(filp->private_data, &args, mas_submit_flags(filp));
	if (ret)
		return ret;

	/* Both numbers. */
	return mas_put_word(&user->out_submitted, &args.out_submitted);
}

/**
 * mas_ioctl - file operation
 * @filp: the file
 * @cmd: number
 * @arg: address of the structure, at least 32 bits of size
 *
 * Context: may sleep.
 * Return: 0 or an errno as documented with each ioctl.
 */
long mas_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	if (cmd == MXCD_MAS_TRANSFER)
		return mas_ioctl_hot(filp, (void __user *)arg);

	return mas_ioctl_any(filp, cmd, (void __user *)arg);
}
