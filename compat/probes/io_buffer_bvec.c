// SPDX-License-Identifier: GPL-2.0
#include <linux/io_uring/cmd.h>

void *mxcd_probe = io_buffer_register_bvec;
