// SPDX-License-Identifier: GPL-2.0
#include <linux/io_uring/cmd.h>

struct io_tw_req mxcd_probe;
