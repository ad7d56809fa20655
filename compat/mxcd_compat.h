/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lets the sources, which are written for the newest kernel, be built for older
 * ones. Force-included by the out-of-tree Makefile; not part of a kernel tree.
 *
 * What a kernel has is found out by compiling small programs (compat/probes),
 * which define MXCD_HAVE_*. Version numbers would not do: distribution kernels
 * carry backports.
 */
#ifndef _MXCD_COMPAT_H
#define _MXCD_COMPAT_H

#include <linux/memremap.h>

/* 6.17: struct fileattr became struct file_kattr. */
#ifndef MXCD_HAVE_FILE_KATTR
#define file_kattr fileattr
#endif

/*
 * Up to 6.18 the kernel warns when the last reference to a GENERIC page goes and
 * its pagemap has no page_free(). There is nothing to do then.
 */
#ifdef MXCD_HAVE_PAGE_FREE
static inline void mxcd_compat_page_free(struct page *page)
{
}

static const struct dev_pagemap_ops mxcd_compat_pagemap_ops __maybe_unused = {
	.page_free = mxcd_compat_page_free,
};

static inline void *mxcd_compat_memremap_pages(struct device *dev, struct dev_pagemap *pgmap)
{
	pgmap->ops = &mxcd_compat_pagemap_ops;
	return devm_memremap_pages(dev, pgmap);
}

#define devm_memremap_pages mxcd_compat_memremap_pages
#endif

/*
 * 6.18: the callback of a uring_cmd's task work got a wrapped request and a token;
 * before, it had the command and the issue flags. The end of the command's pdu
 * keeps the callback meanwhile.
 */
#ifndef MXCD_HAVE_IO_TW_REQ
#include <linux/io_uring/cmd.h>

struct io_tw_req {
	struct io_uring_cmd *cmd;
};

#define io_tw_token_t	unsigned int

struct mxcd_compat_pdu {
	u8 pdu[24];
	void (*fn)(struct io_tw_req tw_req, io_tw_token_t tw);
};

static inline void mxcd_compat_tw(struct io_uring_cmd *cmd, unsigned int issue_flags)
{
	struct io_tw_req tw_req = { .cmd = cmd };

	io_uring_cmd_to_pdu(cmd, struct mxcd_compat_pdu)->fn(tw_req, issue_flags);
}

static inline void
mxcd_compat_complete_in_task(struct io_uring_cmd *cmd,
			     void (*fn)(struct io_tw_req tw_req, io_tw_token_t tw))
{
	io_uring_cmd_to_pdu(cmd, struct mxcd_compat_pdu)->fn = fn;
	io_uring_cmd_complete_in_task(cmd, mxcd_compat_tw);
}

#define io_uring_cmd_complete_in_task		mxcd_compat_complete_in_task
#define io_uring_cmd_from_tw(tw_req)		((tw_req).cmd)
#define IO_URING_CMD_TASK_WORK_ISSUE_FLAGS	(tw)
#define io_uring_cmd_done(cmd, ret, flags)	((io_uring_cmd_done)(cmd, ret, 0, flags))
#define io_uring_sqe_cmd(sqe, type)		((const type *)(io_uring_sqe_cmd)(sqe))
#endif

#endif /* _MXCD_COMPAT_H */
