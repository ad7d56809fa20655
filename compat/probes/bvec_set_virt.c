// SPDX-License-Identifier: GPL-2.0
#include <linux/bvec.h>

void *mxcd_probe = bvec_set_virt;
