/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For kernels before 6.8, which have no header of this name: they declare the
 * commands in <linux/io_uring.h>, keep the payload instead of the SQE, and cannot
 * cancel a command.
 */
#ifndef _MXCD_COMPAT_IO_URING_CMD_H
#define _MXCD_COMPAT_IO_URING_CMD_H

#include <linux/io_uring.h>

/* The member of struct io_uring_cmd. */
#define sqe	cmd

static inline const void *io_uring_sqe_cmd(const void *payload)
{
	return payload;
}

#define io_uring_cmd_to_pdu(cmd, type)	((type *)&(cmd)->pdu)

/* No call has this flag. */
#define IO_URING_F_CANCEL	0

static inline void io_uring_cmd_mark_cancelable(struct io_uring_cmd *cmd,
						unsigned int issue_flags)
{
}

#endif /* _MXCD_COMPAT_IO_URING_CMD_H */
