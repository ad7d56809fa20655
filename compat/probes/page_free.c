// SPDX-License-Identifier: GPL-2.0
#include <linux/memremap.h>

struct dev_pagemap_ops mxcd_probe = { .page_free = NULL };
