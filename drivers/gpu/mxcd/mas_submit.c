// SPDX-License-Identifier: GPL-2.0
/*
 * The one way in, for ioctl, write() and io_uring: requests are taken one by one
 * and in order. Each is copied: is it well formed, and what does it name? Control
 * operations are carried out on the spot, I/O operations are put into chains as their
 * links say, and each chain is started when it is whole.
 */
#include <linux/blkdev.h>
#include <linux/fs.h>
#include <linux/ioprio.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>

#include "mas.h"
#include "mas_io.h"
#include "mas_trace.h"
#include "mas_user.h"

/* Which fields an operation uses; the others must be zero. */
enum {
	USES_KEY	= 1 << 0,
	USES_FILE	= 1 << 1,
	USES_HANDLE	= 1 << 2,
	USES_FILE_OFF	= 1 << 3,
	USES_LENGTH	= 1 << 4,
	USES_MEM_OFF	= 1 << 5,
	USES_ARG	= 1 << 6,
};

#define USES_TRANSFER	(USES_FILE | USES_HANDLE | USES_FILE_OFF | USES_LENGTH | USES_MEM_OFF)
#define ORDER_FLAGS	(MXCD_MAS_REQ_LINK | MXCD_MAS_REQ_DRAIN)
#define TRANSFER_FLAGS	(MXCD_MAS_REQ_FD | MXCD_MAS_REQ_P2P_ONLY | MXCD_MAS_REQ_BOUNCE | \
			 ORDER_FLAGS)

static const struct {
	unsigned int uses;
	u32 flags;
} mas_ops[] = {
	[MXCD_MAS_OP_READ]	 = { USES_TRANSFER, TRANSFER_FLAGS | MXCD_MAS_REQ_NOFLUSH },
	[MXCD_MAS_OP_WRITE]	 = { USES_TRANSFER, TRANSFER_FLAGS },
	[MXCD_MAS_OP_QUERY]	 = { USES_KEY | USES_FILE | USES_HANDLE | USES_ARG,
				     MXCD_MAS_REQ_FD | MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_ALLOC]	 = { USES_HANDLE | USES_LENGTH | USES_ARG, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_FREE]	 = { USES_HANDLE, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_REGISTER]	 = { USES_FILE | USES_ARG, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_UNREGISTER] = { USES_FILE, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_FSYNC]	 = { USES_FILE, MXCD_MAS_REQ_FD | ORDER_FLAGS },
	[MXCD_MAS_OP_FDATASYNC]	 = { USES_FILE, MXCD_MAS_REQ_FD | ORDER_FLAGS },
	[MXCD_MAS_OP_FLUSH]	 = { USES_HANDLE, ORDER_FLAGS },
	[MXCD_MAS_OP_CANCEL]	 = { USES_MEM_OFF, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_PEEK]	 = { USES_HANDLE | USES_LENGTH | USES_MEM_OFF, MXCD_MAS_REQ_LINK },
	[MXCD_MAS_OP_POKE]	 = { USES_HANDLE | USES_LENGTH | USES_MEM_OFF | USES_ARG,
				     MXCD_MAS_REQ_LINK },
};

static unsigned int mas_fields_set(const struct mxcd_mas_req *args)
{
	return (args->key ? USES_KEY : 0) |
	       (args->file ? USES_FILE : 0) |
	       (args->handle ? USES_HANDLE : 0) |
	       (args->file_offset ? USES_FILE_OFF : 0) |
	       (args->length ? USES_LENGTH : 0) |
	       (args->mem_offset ? USES_MEM_OFF : 0) |
	       (args->arg ? USES_ARG : 0);
}

/* Is a field not zero that the operation does not use? */
static bool mas_surplus_fields(const struct mxcd_mas_req *args)
{
	/* As the table says; quicker for what is frequent. */
	if (mas_is_transfer(args->op))
		return args->key || args->arg;

	return mas_fields_set(args) & ~mas_ops[args->op].uses;
}

static int mas_check_transfer(const struct mxcd_mas_req *args)
{
	u32 exclusive = MXCD_MAS_REQ_P2P_ONLY | MXCD_MAS_REQ_BOUNCE;

	if ((args->flags & exclusive) == exclusive || !args->segs != !args->nr_segs)
		return -EINVAL;
	if (args->file_offset > LLONG_MAX || args->length > LLONG_MAX - args->file_offset)
		return -EINVAL;

	return 0;
}

/**
 * mas_check_req - is a request well formed?
 * @args: the request, copied from user space
 * @how: MAS_IO_* flags
 *
 * Context: any.
 * Return: 0, -EOPNOTSUPP (no such operation) or -EINVAL.
 */
int mas_check_req(const struct mxcd_mas_req *args, unsigned int how)
{
	if (!args->op || args->op >= ARRAY_SIZE(mas_ops))
		return -EOPNOTSUPP;
	if (args->flags & ~mas_ops[args->op].flags || mas_surplus_fields(args))
		return -EINVAL;
	if (args->flags & MXCD_MAS_REQ_FD && how & MAS_IO_NO_FD)
		return -EINVAL;
	if ((args->segs || args->nr_segs) && !mas_is_transfer(args->op))
		return -EINVAL;

	return mas_is_transfer(args->op) ? mas_check_transfer(args) : 0;
}

/* Most requests of a call name what the one before did. */
static struct mas_file *mas_submit_file(struct mas_submit *submit, u32 id)
{
	struct mas_file *file;

	if (!submit->file || submit->file_id != id) {
		if (submit->file)
			mas_file_put_sync(submit->file);
		submit->file = mas_file_get(submit->ctx, id);
		submit->file_id = id;
	}
	file = submit->file;
	if (submit->last)
		submit->file = NULL; /* handed over */
	else if (file)
		refcount_inc(&file->ref);

	return file;
}

static struct mas_mem *mas_submit_mem(struct mas_submit *submit, u32 handle)
{
	struct mas_mem *mem;

	if (!submit->mem || submit->handle != handle) {
		if (submit->mem)
			mas_mem_put_sync(submit->mem);
		submit->mem = mas_mem_get(submit->ctx, handle);
		submit->handle = handle;
	}
	mem = submit->mem;
	if (submit->last)
		submit->mem = NULL; /* handed over */
	else if (mem)
		refcount_inc(&mem->ref);

	return mem;
}

/*
 * Let go of the file and the handle that were named last: before anything that may
 * take a number from what it stands for, and at the end.
 */
static void mas_submit_forget(struct mas_submit *submit)
{
	if (submit->file)
		mas_file_put_sync(submit->file);
	if (submit->mem)
		mas_mem_put_sync(submit->mem);
	submit->file = NULL;
	submit->mem = NULL;
}

static int mas_resolve_file(struct mas_submit *submit, struct mas_req *req,
			    const struct mxcd_mas_req *args)
{
	struct mas_file *file;

	if (args->flags & MXCD_MAS_REQ_FD) {
		file = mas_file_get_fd(args->file);
		if (IS_ERR(file))
			return PTR_ERR(file);
	} else {
		file = mas_submit_file(submit, args->file);
		if (!file)
			return -ENOENT;
	}
	req->file = file;

	return 0;
}

static int mas_check_mode(struct mas_req *req)
{
	fmode_t mode = mas_is_write(req) ? FMODE_WRITE : FMODE_READ;

	return req->file->file->f_mode & mode ? 0 : -EBADF;
}

static int mas_resolve_segs(struct mas_req *req, const struct mxcd_mas_req *args)
{
	struct mas_segs *segs;

	segs = mas_segs_create(req->ctx, args);
	if (IS_ERR(segs))
		return PTR_ERR(segs);
	req->segs = segs;
	req->gpu = mas_segs_gpu(segs);
	req->view = mas_segs_view(segs);
	return 0;
}

static int mas_resolve_mem(struct mas_submit *submit, struct mas_req *req,
			   const struct mxcd_mas_req *args)
{
	struct mas_mem *mem;

	mem = mas_submit_mem(submit, args->handle);
	if (!mem)
		return -ENOENT;
	req->mem = mem;

	if (args->mem_offset > mem->size || args->length > mem->size - args->mem_offset)
		return -EINVAL;

	req->gpu = mem->gpu;
	req->view = &mem->view;
	return 0;
}

static int mas_resolve_transfer(struct mas_submit *submit, struct mas_req *req,
				const struct mxcd_mas_req *args)
{
	int ret = mas_resolve_file(submit, req, args);

	if (!ret)
		ret = mas_check_mode(req);
	if (ret)
		return ret;

	return args->nr_segs ? mas_resolve_segs(req, args) :
			       mas_resolve_mem(submit, req, args);
}

/*
 * Find what an I/O operation names, from what mas_check_req() let through. On failure
 * the references found so far stay in @req.
 */
static int mas_resolve(struct mas_submit *submit, struct mas_req *req,
		       const struct mxcd_mas_req *args)
{
	req->pos = args->file_offset;
	req->mem_offset = args->mem_offset;
	req->ioprio = submit->ioprio;
	req->fsize_limit = rlimit(RLIMIT_FSIZE);

	switch (req->op) {
	case MXCD_MAS_OP_FSYNC:
	case MXCD_MAS_OP_FDATASYNC:
		return mas_resolve_file(submit, req, args);
	case MXCD_MAS_OP_FLUSH:
		return mas_resolve_mem(submit, req, args);
	default:
		return mas_resolve_transfer(submit, req, args);
	}
}

static s64 mas_io_alloc_mem(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	struct mxcd_mas_alloc alloc = {
		.gpu	= args->arg,
		.handle	= args->handle,
		.length	= args->length,
	};
	struct mas_mem *mem = mas_mem_alloc(ctx, &alloc, false);

	if (IS_ERR(mem))
		return PTR_ERR(mem);

	mas_mem_commit(ctx, alloc.handle, mem);
	return alloc.handle;
}

static s64 mas_io_register(struct mas_ctx *ctx, const struct mxcd_mas_req *args, bool wait)
{
	u32 id = args->file;
	struct mas_file *file = mas_file_register(ctx, args->arg, &id, wait);

	if (IS_ERR(file))
		return PTR_ERR(file);

	mas_file_commit(ctx, id, file);
	return id;
}

/* @wait: may wait for disks */
static s64 mas_io_control(struct mas_req *req, const struct mxcd_mas_req *args, bool wait)
{
	switch (args->op) {
	case MXCD_MAS_OP_QUERY:
		return mas_query_key(req->ctx, args, &req->reason, wait);
	case MXCD_MAS_OP_ALLOC:
		return mas_io_alloc_mem(req->ctx, args);
	case MXCD_MAS_OP_FREE:
		return mas_mem_free(req->ctx, args->handle);
	case MXCD_MAS_OP_REGISTER:
		return mas_io_register(req->ctx, args, wait);
	case MXCD_MAS_OP_UNREGISTER:
		return mas_file_unregister(req->ctx, args->file);
	case MXCD_MAS_OP_CANCEL:
		return mas_ctx_cancel(req->ctx, args->mem_offset);
	case MXCD_MAS_OP_PEEK:
	case MXCD_MAS_OP_POKE:
		return mas_peek_req(req->ctx, args);
	default:
		return -EOPNOTSUPP;
	}
}

static u16 mas_caller_ioprio(void)
{
	int prio = get_current_ioprio();

	/* Class NONE would be replaced on the way down, hint and all. */
	if (IOPRIO_PRIO_CLASS(prio) == IOPRIO_CLASS_NONE)
		prio = IOPRIO_PRIO_VALUE(task_nice_ioclass(current), task_nice_ioprio(current));
	/* What is not p2p must not look as if it were (that of the page cache still may). */
	if (prio == mas_p2p_ioprio(prio))
		prio = IOPRIO_PRIO_VALUE(IOPRIO_PRIO_CLASS(prio), IOPRIO_PRIO_LEVEL(prio));

	return prio;
}

/**
 * mas_submit_begin - begin with the requests of one call
 * @submit: on the stack of the caller; to be ended by mas_submit_end()
 * @ctx: the context
 * @batch: batch that the results become part of, or NULL: to the context's queue
 * @how: MAS_IO_* flags
 */
void mas_submit_begin(struct mas_submit *submit, struct mas_ctx *ctx,
		      struct mas_batch *batch, unsigned int how)
{
	submit->ctx = ctx;
	submit->batch = batch;
	submit->cmd = NULL;
	submit->how = how;
	submit->ioprio = mas_caller_ioprio();
	submit->last = false;
	submit->broken = false;
	submit->nr = 0;
	submit->spare = xchg(&ctx->spare, NULL);
	submit->file = NULL;
	submit->mem = NULL;
	submit->head = NULL;
	submit->tail = NULL;
}

/* Start the chain that has been put together. */
static void mas_submit_start(struct mas_submit *submit)
{
	struct mas_req *head = submit->head;

	submit->head = NULL;
	submit->tail = NULL;
	if (head)
		mas_io_start(head, submit->how);
}

static void mas_submit_append(struct mas_submit *submit, struct mas_req *req)
{
	if (submit->head)
		submit->tail->next = req;
	else
		submit->head = req;
	submit->tail = req;
}

/* A chain ends with the first request that has no link. */
static void mas_submit_link(struct mas_submit *submit, bool link, bool failed)
{
	if (link) {
		submit->broken |= failed;
		return;
	}

	submit->broken = false;
	mas_submit_start(submit);
}

static s64 mas_submit_control(struct mas_submit *submit, struct mas_req *req,
			      const struct mxcd_mas_req *args)
{
	mas_submit_forget(submit);
	return mas_io_control(req, args, !(submit->how & MAS_IO_NONBLOCK));
}

static struct mas_req *mas_submit_create(struct mas_submit *submit,
					 const struct mxcd_mas_req *args)
{
	struct mas_req *req = submit->spare;

	if (req)
		submit->spare = req->next;
	else
		req = mas_io_alloc();
	if (!req)
		return NULL;

	req->batch = submit->batch;
	req->cmd = submit->cmd;
	req->ctx = submit->ctx;
	req->user_data = args->user_data;
	req->flags = args->flags;
	req->index = submit->nr;
	req->op = args->op;
	req->want = args->length;
	req->owner.cred = NULL;
	memset_startat(req, 0, next);
	return req;
}

static int mas_submit_resolve(struct mas_submit *submit, struct mas_req *req,
			      const struct mxcd_mas_req *args)
{
	int ret = mas_resolve(submit, req, args);

	if (!ret && (submit->head || args->flags & (MXCD_MAS_REQ_LINK | MXCD_MAS_REQ_DRAIN)))
		ret = mas_io_prepare_work(req);

	return ret;
}

/* Let a request into the queue. */
static int mas_submit_admit(struct mas_submit *submit, struct mas_req *req)
{
	struct mas_ctx *ctx = submit->ctx;
	int ret;

	if (!mas_ctx_take_place(ctx)) {
		ret = mas_ctx_wait_place(ctx, submit->how & MAS_IO_QUEUE_NOWAIT);
		if (ret)
			return ret;
	}

	spin_lock_irq(&ctx->lock);
	ctx->nr_inflight++;
	req->seq = ++ctx->nr_submitted;
	hlist_add_head(&req->node, &ctx->inflight);
	spin_unlock_irq(&ctx->lock);

	return 0;
}

static inline int mas_submit_req(struct mas_submit *submit, const struct mxcd_mas_req *args)
{
	bool io = mas_is_io(args->op);
	struct mas_req *req;
	s64 ret;

	req = mas_submit_create(submit, args);
	if (!req)
		return -ENOMEM;

	if (submit->cmd)
		mas_uring_bind(req, submit->how);
	ret = mas_submit_admit(submit, req);
	if (ret) {
		mas_io_free(req);
		return ret;
	}
	trace_mas_submit(req, args);
	submit->nr++;
	submit->how |= MAS_IO_QUEUE_NOWAIT;

	ret = mas_check_req(args, submit->how);
	if (!ret && READ_ONCE(submit->ctx->restricted))
		ret = mas_may_submit(submit->ctx, args);
	if (!ret && submit->broken)
		ret = -ECANCELED;
	if (!ret)
		ret = io ? mas_submit_resolve(submit, req, args) :
			   mas_submit_control(submit, req, args);

	if (ret || !io) {
		req->result = ret;
		mas_io_finish(req);
	} else {
		mas_submit_append(submit, req);
	}
	mas_submit_link(submit, args->flags & MXCD_MAS_REQ_LINK, ret < 0);

	return 0;
}

/**
 * mas_submit_one - submit a request
 * @submit: begun by mas_submit_begin()
 * @args: the request, copied from user space
 *
 * Errors of the request itself are in its completion.
 *
 * Context: process context of the caller; may sleep. Waits for a disk only as
 * pread(2) and pwrite(2) of the same file with O_DIRECT would, and not at all with
 * MAS_IO_NONBLOCK. Only the first request of a call may wait for room in the
 * queue.
 * Return: 0, or -EAGAIN, -ERESTARTSYS or -ENOMEM when the request was not taken.
 */
int mas_submit_one(struct mas_submit *submit, const struct mxcd_mas_req *args)
{
	return mas_submit_req(submit, args);
}

/**
 * mas_submit_end - no more requests in this call
 * @submit: begun by mas_submit_begin()
 * @cut: not all requests were taken; a chain that lacks its end is cancelled
 *
 * Context: as mas_submit_one().
 */
void mas_submit_end(struct mas_submit *submit, bool cut)
{
	if (cut && submit->head)
		WRITE_ONCE(submit->head->cancelled, true);
	mas_submit_start(submit);
	mas_submit_forget(submit);
	if (submit->spare)
		mas_io_keep(submit->ctx, submit->spare);
}

/* Take the next request of an array. */
static int mas_submit_next(struct mas_submit *submit, const struct mxcd_mas_req __user *reqs,
			   struct mxcd_mas_comp __user *comps)
{
	static const s64 pending = -EINPROGRESS;
	struct mxcd_mas_req req __uninitialized;

	if (fatal_signal_pending(current))
		return -EINTR;
	if (mas_get_words(&req, reqs + submit->nr, sizeof(req)))
		return -EFAULT;
	/* Shows as well that the result can be written there. */
	if (comps && mas_put_word(&comps[submit->nr].result, &pending))
		return -EFAULT;

	return mas_submit_req(submit, &req);
}

static int mas_submit_all(struct mas_submit *submit, const struct mxcd_mas_req __user *reqs,
			  struct mxcd_mas_comp __user *comps, unsigned int nr)
{
	int ret = 0;

	while (submit->nr < nr && !ret) {
		submit->last = submit->nr + 1 == nr;
		ret = mas_submit_next(submit, reqs, comps);
		if (!submit->last)
			cond_resched();
	}

	return ret;
}

/**
 * mas_submit_user - submit an array of requests
 * @ctx: the context
 * @reqs: the array
 * @comps: where results will be put, or NULL
 * @nr: number of requests
 * @batch: batch of which the results become part, or NULL
 * @how: MAS_IO_* flags
 *
 * Context: as mas_submit_one().
 * Return: number of requests taken, or a negative errno when not even the first
 * was.
 */
long mas_submit_user(struct mas_ctx *ctx, const struct mxcd_mas_req __user *reqs,
		     struct mxcd_mas_comp __user *comps, unsigned int nr,
		     struct mas_batch *batch, unsigned int how)
{
	struct mas_submit submit __uninitialized;
	struct blk_plug plug __uninitialized;
	int ret;

	mas_submit_begin(&submit, ctx, batch, how);
	/* The block layer is told how many come, and gets them in bundles. */
	if (nr > 1) {
		blk_start_plug(&plug);
		plug.nr_ios = min(nr, MAS_PLUG_IOS);
	}
	ret = mas_submit_all(&submit, reqs, comps, nr);
	mas_submit_end(&submit, ret);
	if (nr > 1)
		blk_finish_plug(&plug);

	return submit.nr ? (long)submit.nr : ret;
}
