// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring: the same request as a uring_cmd.
 *
 * The request is copied when it is issued. It is tried without sleeping first;
 * what cannot be done so goes on in the work items of the context, so that the
 * ring is never held up. It completes in task work of the submitter: interrupt
 * context must not touch the ring, and the completion may have to be copied to
 * the submitter's memory.
 *
 * A ring with IORING_SETUP_IOPOLL asks for completions instead, and has nothing to do
 * with task work: when such a ring goes, it asks until everything is complete, and
 * runs none meanwhile. The question goes on to the file of the request. Who asks ends
 * the command as well, under the lock of the ring.
 */
#include <linux/io_uring/cmd.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "mas.h"
#include "mas_io.h"

/**
 * struct mas_uring_pdu - in the command, while it is under way
 * @req: the request
 * @comp: where to put the result, or NULL
 * @mm: the memory that @comp is in; compared, not looked at
 * @done: for who polls: @req is complete
 */
struct mas_uring_pdu {
	struct mas_req *req;
	struct mxcd_mas_comp __user *comp;
	struct mm_struct *mm;
	bool done;
};

static struct mas_uring_pdu *mas_uring_pdu(struct io_uring_cmd *cmd)
{
	return io_uring_cmd_to_pdu(cmd, struct mas_uring_pdu);
}

/**
 * mas_uring_bind - a request serves a command of a ring
 * @req: a new request, its command set
 * @how: MAS_IO_* flags
 *
 * Context: any.
 */
void mas_uring_bind(struct mas_req *req, unsigned int how)
{
	struct mas_uring_pdu *pdu = mas_uring_pdu(req->cmd);

	pdu->req = req;
	pdu->done = false;
	req->polled = how & MAS_IO_POLLED;
	/* It may be polled before it has been issued. */
	req->iocb.private = NULL;
}

/* The result of the request, as far as a completion of the ring can hold it. */
static s32 mas_uring_deliver(struct io_uring_cmd *cmd)
{
	struct mas_uring_pdu *pdu = mas_uring_pdu(cmd);
	s64 result = pdu->req->result;
	bool elsewhere;

	/*
	 * A task that is exiting has its work done by a kernel thread, and a child may
	 * poll a ring that it inherited.
	 */
	elsewhere = pdu->comp && (current->mm != pdu->mm || current->flags & PF_EXITING);
	if (mas_ctx_deliver_one(pdu->req, elsewhere ? NULL : pdu->comp) || elsewhere)
		return -EFAULT;

	return min_t(s64, result, INT_MAX);
}

static void mas_uring_done(struct io_tw_req tw_req, io_tw_token_t tw)
{
	struct io_uring_cmd *cmd = io_uring_cmd_from_tw(tw_req);

	io_uring_cmd_done(cmd, mas_uring_deliver(cmd), IO_URING_CMD_TASK_WORK_ISSUE_FLAGS);
}

/**
 * mas_uring_complete - a request of a ring has its result
 * @req: the request; not to be touched afterwards
 *
 * Context: any, hard interrupts too.
 */
void mas_uring_complete(struct mas_req *req)
{
	if (req->polled)
		/* Whoever sees it frees the request. */
		smp_store_release(&mas_uring_pdu(req->cmd)->done, true);
	else
		io_uring_cmd_complete_in_task(req->cmd, mas_uring_done);
}

static int mas_uring_read(struct io_uring_cmd *cmd, struct mxcd_mas_req *args)
{
	const struct mxcd_mas_uring *where = io_uring_sqe_cmd(cmd->sqe, struct mxcd_mas_uring);
	u64 req = READ_ONCE(where->req);
	u64 comp = READ_ONCE(where->comp);

	if (copy_from_user(args, u64_to_user_ptr(req), sizeof(*args)))
		return -EFAULT;
	/* Rings have links and drains of their own. */
	if (args->flags & (MXCD_MAS_REQ_LINK | MXCD_MAS_REQ_DRAIN))
		return -EINVAL;

	mas_uring_pdu(cmd)->comp = u64_to_user_ptr(comp);
	mas_uring_pdu(cmd)->mm = current->mm;
	return 0;
}

/**
 * mas_uring_issue - issue a uring_cmd
 * @ctx: the context
 * @cmd: the command
 * @issue_flags: of io_uring
 *
 * Context: the submitter's, or a worker of its ring.
 * Return: -EIOCBQUEUED, or a negative errno when the request was not taken;
 * -EAGAIN makes io_uring try again where it may wait.
 */
int mas_uring_issue(struct mas_ctx *ctx, struct io_uring_cmd *cmd,
		    unsigned int issue_flags)
{
	bool nonblock = issue_flags & IO_URING_F_NONBLOCK;
	bool polled = issue_flags & IO_URING_F_IOPOLL;
	struct mas_submit submit;
	struct mxcd_mas_req args;
	int ret;

	if (issue_flags & IO_URING_F_CANCEL)
		return mas_ctx_cancel_cmd(ctx, cmd);
	if (cmd->cmd_op == MXCD_MAS_BUFFER)
		return mas_ringbuf_issue(ctx, cmd, issue_flags);
	if (cmd->cmd_op != MXCD_MAS_TRANSFER)
		return -ENOTTY;

	ret = mas_uring_read(cmd, &args);
	if (ret)
		return ret;

	mas_submit_begin(&submit, ctx, NULL,
			 MAS_IO_NONBLOCK | (nonblock ? MAS_IO_QUEUE_NOWAIT : 0) |
			 (polled ? MAS_IO_POLLED : 0));
	submit.cmd = cmd;
	submit.last = true;
	ret = mas_submit_one(&submit, &args);
	mas_submit_end(&submit, ret);
	if (ret)
		return mas_io_errno(ret);

	/* Here the task work that ends the command cannot run before this returns. */
	if (nonblock && !polled)
		io_uring_cmd_mark_cancelable(cmd, issue_flags);
	return -EIOCBQUEUED;
}

/**
 * mas_uring_iopoll - look for the completion of a command, and end it
 * @cmd: a command of a ring with IORING_SETUP_IOPOLL that is not complete
 * @iob: of the block layer
 * @poll_flags: of the block layer
 *
 * Context: process context; the lock of the ring is held.
 * Return: number of completions that were found, of this command or of others.
 */
int mas_uring_iopoll(struct io_uring_cmd *cmd, struct io_comp_batch *iob,
		     unsigned int poll_flags)
{
	struct mas_uring_pdu *pdu = mas_uring_pdu(cmd);
	struct file *filp = pdu->req->file ? pdu->req->file->file : NULL;
	int ret = 0;

	if (!READ_ONCE(pdu->done) && filp && filp->f_op->iopoll)
		ret = filp->f_op->iopoll(&pdu->req->iocb, iob, poll_flags);
	if (smp_load_acquire(&pdu->done)) /* with it, the result */
		io_uring_cmd_done(cmd, mas_uring_deliver(cmd), 0);

	return ret;
}
