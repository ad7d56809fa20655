// SPDX-License-Identifier: GPL-2.0
#include <linux/workqueue.h>

struct workqueue_struct **mxcd_probe = &system_dfl_wq;
