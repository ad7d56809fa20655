// SPDX-License-Identifier: GPL-2.0
#include <linux/eventfd.h>

void mxcd_probe(struct eventfd_ctx *ctx);
void mxcd_probe(struct eventfd_ctx *ctx)
{
	eventfd_signal(ctx);
}
