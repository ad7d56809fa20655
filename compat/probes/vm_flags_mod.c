// SPDX-License-Identifier: GPL-2.0
#include <linux/mm.h>

void *mxcd_probe = vm_flags_mod;
