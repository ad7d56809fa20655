// SPDX-License-Identifier: GPL-2.0
#include <linux/fs.h>
#include <linux/fileattr.h>

struct file_kattr mxcd_probe;
