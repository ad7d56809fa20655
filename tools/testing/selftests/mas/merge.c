// SPDX-License-Identifier: GPL-2.0
/*
 * What becomes of a read to host RAM between two reads to VRAM, as another user of the
 * same disk might ask for it: alone, and merged with them.
 *
 *	merge [-g GPU] DISK
 *
 * prints for each how many reads were merged, and how many blocks of host RAM and of
 * VRAM are not what is on the disk. It writes to the beginning of the disk.
 */
#define MAS_NO_HARNESS
#include "mas_merge.h"

#define ROUNDS	20U

static unsigned char *model;
static unsigned char *vram;

static int fail(const char *what, int error)
{
	printf("failed: %s: %s\n", what, strerror(error));
	return 1;
}

static bool is_wrong(const struct merge *m, char where, __u32 block)
{
	unsigned char *mem = where == 'v' ? vram : m->host;

	return mas_diff(model + block * MERGE_BLOCK, mem + 2 * block * MERGE_BLOCK,
			MERGE_BLOCK) >= 0;
}

static int try(const struct merge *m, const char *name, __u16 host_ioprio)
{
	static const char order[] = "vhv";
	unsigned int merged = 0, failed = 0, bad_host = 0, bad_vram = 0, round;
	int ret;

	for (round = 0; round < ROUNDS; round++) {
		memset(m->host, 0, 6 * MERGE_BLOCK);
		memset(vram, 0, 6 * MERGE_BLOCK);
		ret = merge_three(m, order, host_ioprio);
		failed += ret < 0;
		merged += ret < 0 ? 0 : ret;
		bad_host += is_wrong(m, 'h', 1);
		bad_vram += is_wrong(m, 'v', 0) + is_wrong(m, 'v', 2);
	}
	printf("%s: rounds=%u merged=%u failed=%u host-wrong=%u vram-wrong=%u\n", name, ROUNDS,
	       merged, failed, bad_host, bad_vram);
	return 0;
}

int main(int argc, char **argv)
{
	struct mxcd_mas_alloc mem;
	struct merge m = {};
	struct ring ring;
	int opt, ret, gpu = 0;

	while ((opt = getopt(argc, argv, "g:")) != -1) {
		if (opt != 'g')
			return 2;
		gpu = atoi(optarg);
	}
	if (optind + 1 != argc)
		return 2;
	m.name = strrchr(argv[optind], '/') + 1;
	m.disk = open(argv[optind], O_RDWR | O_DIRECT);
	m.mas = mas_open(0);
	if (m.disk < 0 || m.mas < 0)
		return fail("open", errno);
	ret = mas_register(m.mas, m.disk);
	if (ret < 0)
		return fail("REGISTER", -ret);
	m.file = ret;
	ret = mas_alloc(m.mas, gpu, 6 * MERGE_BLOCK, &mem);
	if (ret)
		return fail("ALLOC", -ret);
	m.handle = mem.handle;
	vram = mas_map(m.mas, &mem);
	m.host = aligned_alloc(MAS_PAGE, 6 * MERGE_BLOCK);
	model = aligned_alloc(MAS_PAGE, 3 * MERGE_BLOCK);
	m.ring = &ring;
	ret = ring_init(&ring, 0);
	if (vram == MAP_FAILED || !m.host || !model || ret)
		return fail("memory", ENOMEM);
	mas_fill(model, 3 * MERGE_BLOCK, 11);
	if (!mas_pwrite(m.disk, model, 3 * MERGE_BLOCK, 0))
		return fail("write", EIO);
	return try(&m, "apart", 0) || try(&m, "merged", P2P_PRIO);
}
