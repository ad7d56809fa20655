// SPDX-License-Identifier: GPL-2.0
#include <linux/memremap.h>
#include <linux/mm.h>

bool mxcd_probe(struct dev_pagemap *pgmap);
bool mxcd_probe(struct dev_pagemap *pgmap)
{
	return vmemmap_can_optimize(NULL, pgmap);
}
