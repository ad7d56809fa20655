// SPDX-License-Identifier: GPL-2.0
#include <linux/maple_tree.h>

void *mxcd_probe = mtree_dup;
