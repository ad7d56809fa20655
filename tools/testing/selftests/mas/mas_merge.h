/* SPDX-License-Identifier: GPL-2.0 */
/* Adjacent reads to host RAM and to VRAM, which the block layer may make one of. */
#ifndef MAS_MERGE_H
#define MAS_MERGE_H

#include "mas_ring.h"

#include <linux/ioprio.h>

#define MERGE_BLOCK	4096U
/* That of p2p requests, see mas_io.h. Host RAM with it may be merged with VRAM. */
#define P2P_HINT	0x155U
#define P2P_PRIO	(IOPRIO_CLASS_BE << IOPRIO_CLASS_SHIFT | P2P_HINT << 3 | 4)

/* Fields of /sys/class/block/<disk>/stat, from 0. */
enum {
	STAT_READS = 0,
	STAT_READ_MERGES = 1,
	STAT_READ_SECTORS = 2,
};

/* What three reads are made of: block n of the disk goes to block 2 * n of memory. */
struct merge {
	struct ring *ring;
	int mas;
	int disk;
	const char *name;
	__u32 file;
	__u64 handle;
	unsigned char *host;
};

static inline __u64 disk_stat(const char *name, int field)
{
	unsigned long long stat[3] = {};
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/block/%s/stat", name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu %llu %llu", &stat[0], &stat[1], &stat[2]) != 3)
		stat[field] = 0;
	if (f)
		fclose(f);
	return stat[field];
}

static inline void merge_read_host(const struct merge *m, __u32 block, __u16 ioprio)
{
	struct io_uring_sqe *sqe = ring_sqe(m->ring);

	sqe->opcode = IORING_OP_READ;
	sqe->fd = m->disk;
	sqe->off = block * MERGE_BLOCK;
	sqe->addr = mas_ptr(m->host + 2 * block * MERGE_BLOCK);
	sqe->len = MERGE_BLOCK;
	sqe->ioprio = ioprio;
	sqe->user_data = block;
}

/*
 * Submits three adjacent reads in one call, so in one plug, in an order of host
 * RAM ('h') and VRAM ('v'); returns how many were merged into another.
 */
static inline int merge_three(const struct merge *m, const char *order, __u16 host_ioprio)
{
	__u64 before = disk_stat(m->name, STAT_READ_MERGES);
	struct mxcd_mas_comp comps[3];
	struct mxcd_mas_req reqs[3];
	struct io_uring_cqe cqe;
	bool failed = false;
	__u32 i;

	for (i = 0; i < 3; i++) {
		if (order[i] != 'v') {
			merge_read_host(m, i, host_ioprio);
			continue;
		}
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, m->file, i * MERGE_BLOCK, MERGE_BLOCK,
				 m->handle, 2 * i * MERGE_BLOCK);
		ring_request(m->ring, m->mas, &reqs[i], &comps[i], i);
	}
	if (ring_enter(m->ring, 3) != 3)
		return -EPROTO;
	for (i = 0; i < 3; i++)
		failed |= !ring_cqe(m->ring, &cqe) || cqe.res != MERGE_BLOCK;
	return failed ? -EIO : disk_stat(m->name, STAT_READ_MERGES) - before;
}

#endif /* MAS_MERGE_H */
