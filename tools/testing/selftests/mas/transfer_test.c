// SPDX-License-Identifier: GPL-2.0
/*
 * What a transfer moves: byte for byte against a model in host memory, on every
 * kind of file, at any offset and length, with guards around.
 */
#include "mas_target.h"

FIXTURE(any) {
	struct target t;
};

FIXTURE_VARIANT(any) {
	struct target_kind kind;
};

FIXTURE_VARIANT_ADD(any, raw512) {
	.kind = { .env = "MAS_NVME512", .raw = true, .dio = true },
};

FIXTURE_VARIANT_ADD(any, raw4k) {
	.kind = { .env = "MAS_NVME4K", .raw = true, .dio = true },
};

FIXTURE_VARIANT_ADD(any, raw512_direct) {
	.kind = { .env = "MAS_NVME512", .flags = O_DIRECT, .raw = true,
	       .dio = true },
};

FIXTURE_VARIANT_ADD(any, ext4) {
	.kind = { .env = "MAS_EXT4", .dio = true },
};

FIXTURE_VARIANT_ADD(any, ext4_direct) {
	.kind = { .env = "MAS_EXT4", .flags = O_DIRECT, .dio = true },
};

FIXTURE_VARIANT_ADD(any, xfs) {
	.kind = { .env = "MAS_XFS", .dio = true },
};

FIXTURE_VARIANT_ADD(any, xfs_direct) {
	.kind = { .env = "MAS_XFS", .flags = O_DIRECT, .dio = true },
};

FIXTURE_VARIANT_ADD(any, tmpfs) {
	.kind = { .env = "MAS_TMPFS" },
};

FIXTURE_SETUP(any)
{
	target_setup(_metadata, &self->t, &variant->kind);
}

FIXTURE_TEARDOWN(any)
{
	target_teardown(&self->t);
}

TEST_F(any, whole_file_of_odd_size)
{
	static const __u32 sizes[] = {
		1, 2, 511, 512, 513, 4095, 4096, 4097, 8191, 65535, 65536,
		65537, 131071, 1000003,
	};
	struct target *t = &self->t;
	unsigned int i;

	target_put(_metadata, t, SPAN);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		target_put(_metadata, t, sizes[i]);
		check_read(_metadata, t, 0, sizes[i], GUARD, 0);
		check_write(_metadata, t, 0, sizes[i], GUARD, 0);
	}
}

static __u64 any_length(__u64 *seed)
{
	static const __u64 limits[] = { 16, 600, 5000, 20000, 300000 };
	__u64 len = 1 + mas_below(seed, limits[mas_below(seed, ARRAY_SIZE(limits))]);

	/* Every third is a multiple of something that disks like. */
	if (!mas_below(seed, 3))
		len = (len + 511) & ~511ULL;
	return len;
}

static __u64 any_offset(__u64 *seed, __u64 room)
{
	__u64 off = mas_below(seed, room);

	switch (mas_below(seed, 4)) {
	case 0:
		return off & ~4095ULL;
	case 1:
		return off & ~511ULL;
	case 2:
		return off & ~3ULL;
	}
	return off;
}

TEST_F_TIMEOUT(any, random_reads_and_writes, 60)
{
	struct target *t = &self->t;
	__u64 off, len, mem;
	int i;

	target_put(_metadata, t, SPAN);
	for (i = 0; i < 150; i++) {
		len = any_length(&t->seed);
		off = any_offset(&t->seed, SPAN - len);
		mem = any_offset(&t->seed, SPAN - len);
		if (mas_below(&t->seed, 2))
			check_read(_metadata, t, off, len, mem, 0);
		else
			check_write(_metadata, t, off, len, mem, 0);
	}
	ASSERT_TRUE(mas_pread(t->fd, t->buf, SPAN, t->base));
	EXPECT_EQ(-1, mas_diff(t->model, t->buf, SPAN));
}

TEST_F(any, random_reads_and_writes_by_bounce)
{
	struct target *t = &self->t;
	__u64 off, len, mem;
	int i;

	target_put(_metadata, t, SPAN);
	for (i = 0; i < 50; i++) {
		len = any_length(&t->seed);
		off = any_offset(&t->seed, SPAN - len);
		mem = any_offset(&t->seed, SPAN - len);
		if (mas_below(&t->seed, 2))
			check_read(_metadata, t, off, len, mem, MXCD_MAS_REQ_BOUNCE);
		else
			check_write(_metadata, t, off, len, mem, MXCD_MAS_REQ_BOUNCE);
	}
}

TEST_F(any, every_residue_of_the_vram_offset)
{
	struct target *t = &self->t;
	unsigned int r;

	target_put(_metadata, t, 256 * MAS_KIB);
	for (r = 0; r < 8; r++) {
		check_read(_metadata, t, 8192, 65536, 3 * MAS_PAGE + r, 0);
		check_write(_metadata, t, 8192, 65536, 3 * MAS_PAGE + r, 0);
		check_read(_metadata, t, 4096 + r, 20000, 3 * MAS_PAGE + r, 0);
	}
}

TEST_F(any, first_and_last_byte_of_the_handle)
{
	struct target *t = &self->t;

	target_put(_metadata, t, 256 * MAS_KIB);
	check_read(_metadata, t, 0, 4096, 0, 0);
	check_read(_metadata, t, 0, 4096, SPAN - 4096, 0);
	check_read(_metadata, t, 5, 1, SPAN - 1, 0);
	check_write(_metadata, t, 77, 1, 0, 0);
	check_write(_metadata, t, 4096, 8192, SPAN - 8192, 0);
}

TEST_F(any, registered_file_and_descriptor_are_the_same)
{
	struct target *t = &self->t;
	struct mxcd_mas_req req;

	target_put(_metadata, t, 65536);
	req = mas_rw(MXCD_MAS_OP_READ, t->fd, t->base, 65536,
		     t->mem.handle, 0);
	req.flags = MXCD_MAS_REQ_FD;
	EXPECT_EQ(65536, mas_by_ioctl(t->mas, &req).result);
	EXPECT_EQ(-1, mas_diff(t->model, t->vram, 65536));
	EXPECT_EQ(65536, target_run(_metadata, t, MXCD_MAS_OP_READ, 0, 65536,
				    65536, 0).result);
	EXPECT_EQ(-1, mas_diff(t->model, t->vram + 65536, 65536));
}

TEST_F(any, read_sees_what_is_dirty_in_the_page_cache)
{
	struct target *t = &self->t;
	int i;

	target_put(_metadata, t, 256 * MAS_KIB);
	for (i = 0; i < 8; i++) {
		mas_fill(t->model + 4096, 65536, mas_rand(&t->seed));
		ASSERT_TRUE(mas_pwrite(t->fd, t->model + 4096, 65536,
				       t->base + 4096));
		check_read(_metadata, t, 0, 131072, 0, 0);
	}
}

TEST_F(any, write_shows_in_a_mapping_of_the_file)
{
	struct target *t = &self->t;
	char *map;

	target_put(_metadata, t, 256 * MAS_KIB);
	map = mmap(NULL, 256 * MAS_KIB, PROT_READ | PROT_WRITE, MAP_SHARED,
		   t->fd, t->base);
	ASSERT_NE(MAP_FAILED, (void *)map);
	EXPECT_EQ(-1, mas_diff(t->model, map, 256 * MAS_KIB));
	check_write(_metadata, t, 8192, 65536, 0, 0);
	EXPECT_EQ(-1, mas_diff(t->model, map, 256 * MAS_KIB));
	check_write(_metadata, t, 1111, 77777, 5, 0);
	EXPECT_EQ(-1, mas_diff(t->model, map, 256 * MAS_KIB));
	/* And the other way round. */
	mas_fill(t->model + 16384, 8192, mas_rand(&t->seed));
	memcpy(map + 16384, t->model + 16384, 8192);
	check_read(_metadata, t, 0, 65536, 0, 0);
}

/* Cuts @len bytes into @nr pieces of odd lengths and writes them in one batch. */
static void write_tiles(struct __test_metadata *_metadata,
			struct target *t, __u64 len, unsigned int nr)
{
	struct mxcd_mas_comp comps[32];
	struct mxcd_mas_req reqs[32];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs),
		.comps = mas_ptr(comps), .nr = nr, .min_nr = nr,
	};
	__u64 off = 0, piece;
	unsigned int i;

	for (i = 0; i < nr; i++) {
		piece = (len / nr - 999 + mas_below(&t->seed, 1998)) | 1;
		if (i == nr - 1 || off + piece > len)
			piece = len - off;
		reqs[i] = mas_rw(MXCD_MAS_OP_WRITE, t->file, t->base + off,
				 piece, t->mem.handle, off);
		reqs[i].user_data = piece;
		off += piece;
	}
	ASSERT_EQ(0, mas_ioctl(t->mas, MXCD_MAS_TRANSFER, &arg));
	ASSERT_EQ(nr, arg.out_submitted);
	ASSERT_EQ(nr, arg.out_completed);
	for (i = 0; i < nr; i++) {
		EXPECT_EQ(comps[i].user_data, comps[i].result)
			TH_LOG("piece %u", i);
	}
}

TEST_F_TIMEOUT(any, adjacent_odd_writes_in_flight_together_lose_nothing, 60)
{
	struct target *t = &self->t;
	const __u64 len = 384 * MAS_KIB;
	int round;

	target_put(_metadata, t, len);
	for (round = 0; round < 10; round++) {
		mas_fill(t->model, len, mas_rand(&t->seed));
		memcpy(t->vram, t->model, len);
		write_tiles(_metadata, t, len, 32);
		ASSERT_TRUE(mas_pread(t->fd, t->buf, len, t->base));
		ASSERT_EQ(-1, mas_diff(t->model, t->buf, len))
			TH_LOG("round %d", round);
		check_read(_metadata, t, 0, len, 0, 0);
	}
}

TEST_HARNESS_MAIN
