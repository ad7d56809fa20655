// SPDX-License-Identifier: GPL-2.0
#include <linux/blkdev.h>

blk_features_t mxcd_probe(struct gendisk *disk);

blk_features_t mxcd_probe(struct gendisk *disk)
{
	return disk->queue->limits.features;
}
