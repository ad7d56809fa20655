/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by the two files behind /sys/class/mxcd/mxcd/layout. */
#ifndef _MXCD_LAYOUT_H
#define _MXCD_LAYOUT_H

#include <linux/kobject.h>
#include <linux/list.h>

struct mxcd_gpu;

/**
 * struct mxcd_node - a directory layout/nodes/<n>
 * @kobj: the directory
 * @gpu: the GPU, valid until mxcd_layout_del(); NULL for a CPU node
 * @numa_node: the NUMA node it is, or is near to; -1: not known
 * @links_dir: storage_links; NULL for a CPU node
 * @links: directories in it, &struct mxcd_link; under mxcd_links_lock
 * @all: on the list of nodes that have links; under mxcd_links_lock
 */
struct mxcd_node {
	struct kobject kobj;
	struct mxcd_gpu *gpu;
	int numa_node;
	struct kobject *links_dir;
	struct list_head links;
	struct list_head all;
};

/* mxcd_layout.c */
void mxcd_layout_uevent(void);

/* mxcd_links.c */
int mxcd_links_init(void);
void mxcd_links_exit(void);
void mxcd_links_add(struct mxcd_node *node);
void mxcd_links_del(struct mxcd_node *node);

#endif /* _MXCD_LAYOUT_H */
