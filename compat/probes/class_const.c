// SPDX-License-Identifier: GPL-2.0
#include <linux/device/class.h>

void mxcd_probe(struct class_dev_iter *iter, const struct class *class);

void mxcd_probe(struct class_dev_iter *iter, const struct class *class)
{
	class_dev_iter_init(iter, class, NULL, NULL);
}
