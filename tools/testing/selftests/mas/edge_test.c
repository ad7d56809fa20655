// SPDX-License-Identifier: GPL-2.0
/*
 * Where files end, have holes or refuse to grow: byte counts as of pread(2) and
 * pwrite(2), on both routes.
 */
#include "mas_target.h"

#include <linux/fs.h>
#include <sys/mount.h>

#define SMALL_FS	(64 * MAS_KIB)

FIXTURE(fs) {
	struct target t;
};

FIXTURE_VARIANT(fs) {
	struct target_kind kind;
	__u32 flags;		/* of every request */
};

FIXTURE_VARIANT_ADD(fs, ext4) {
	.kind = { .env = "MAS_EXT4", .dio = true },
};

FIXTURE_VARIANT_ADD(fs, ext4_direct) {
	.kind = { .env = "MAS_EXT4", .flags = O_DIRECT, .dio = true },
};

FIXTURE_VARIANT_ADD(fs, ext4_bounce) {
	.kind = { .env = "MAS_EXT4", .dio = true },
	.flags = MXCD_MAS_REQ_BOUNCE,
};

FIXTURE_VARIANT_ADD(fs, xfs) {
	.kind = { .env = "MAS_XFS", .dio = true },
};

FIXTURE_VARIANT_ADD(fs, xfs_direct) {
	.kind = { .env = "MAS_XFS", .flags = O_DIRECT, .dio = true },
};

FIXTURE_VARIANT_ADD(fs, tmpfs) {
	.kind = { .env = "MAS_TMPFS" },
};

FIXTURE_SETUP(fs)
{
	target_setup(_metadata, &self->t, &variant->kind);
}

FIXTURE_TEARDOWN(fs)
{
	target_teardown(&self->t);
}

TEST_F(fs, read_across_the_end_is_short)
{
	static const __u32 sizes[] = { 1, 511, 512, 4095, 4096, 4097, 70001 };
	struct target *t = &self->t;
	unsigned int i;
	__u32 size;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		size = sizes[i];
		target_put(_metadata, t, size);
		check_read(_metadata, t, 0, size + 1, GUARD, variant->flags);
		check_read(_metadata, t, 0, 128 * MAS_KIB, GUARD,
			   variant->flags);
		check_read(_metadata, t, size / 2, 65536, GUARD + 3,
			   variant->flags);
		check_read(_metadata, t, size & ~4095U, 65536, GUARD,
			   variant->flags);
		check_read(_metadata, t, size - 1, 4096, GUARD, variant->flags);
	}
}

TEST_F(fs, read_at_and_past_the_end_moves_nothing)
{
	static const __u32 sizes[] = { 0, 1, 4095, 4096, 4097 };
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		target_put(_metadata, t, sizes[i]);
		comp = check_read(_metadata, t, sizes[i], 1, GUARD,
				  variant->flags);
		EXPECT_EQ(0, comp.result);
		EXPECT_EQ(0, comp.route);
		check_read(_metadata, t, sizes[i], 65536, GUARD, variant->flags);
		check_read(_metadata, t, 8192, 65536, GUARD, variant->flags);
		check_read(_metadata, t, 1000001, 65536, GUARD, variant->flags);
	}
}

TEST_F(fs, write_past_the_end_leaves_a_gap_of_zeros)
{
	static const __u32 offs[] = { 4096, 8192, 5000, 100000, 131072 };
	struct target *t = &self->t;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(offs); i++) {
		memset(t->model, 0, SPAN);
		target_put(_metadata, t, 777);
		check_write(_metadata, t, offs[i], 65536, GUARD, variant->flags);
		check_file(_metadata, t, 0, t->len);
		check_read(_metadata, t, 0, t->len, GUARD, variant->flags);
	}
}

TEST_F(fs, write_that_grows_the_file_by_odd_pieces)
{
	struct target *t = &self->t;
	__u64 len;
	int i;

	target_put(_metadata, t, 0);
	for (i = 0; i < 20; i++) {
		len = 1 + mas_below(&t->seed, 40000);
		check_write(_metadata, t, t->len, len, GUARD, variant->flags);
	}
	check_file(_metadata, t, 0, t->len);
}

TEST_F(fs, holes_read_as_zeros)
{
	struct target *t = &self->t;

	target_put(_metadata, t, 0);
	memset(t->model, 0, SPAN);
	ASSERT_EQ(0, ftruncate(t->fd, 300000));
	t->len = 300000;
	check_read(_metadata, t, 0, t->len, GUARD, variant->flags);
	mas_fill(t->model + 65536, 4096, 5);
	ASSERT_TRUE(mas_pwrite(t->fd, t->model + 65536, 4096, 65536));
	check_read(_metadata, t, 0, 131072, GUARD, variant->flags);
	check_read(_metadata, t, 60000, 10000, GUARD + 1, variant->flags);
	check_read(_metadata, t, 131072, 262144, GUARD, variant->flags);
}

TEST_F(fs, allocated_but_unwritten_blocks_read_as_zeros)
{
	struct target *t = &self->t;

	target_put(_metadata, t, 0);
	memset(t->model, 0, SPAN);
	ASSERT_EQ(0, fallocate(t->fd, 0, 0, 256 * MAS_KIB));
	t->len = 256 * MAS_KIB;
	check_read(_metadata, t, 0, t->len, GUARD, variant->flags);
	check_write(_metadata, t, 65536, 8192, GUARD, variant->flags);
	check_write(_metadata, t, 100001, 3, GUARD, variant->flags);
	check_file(_metadata, t, 0, t->len);
	check_read(_metadata, t, 0, t->len, GUARD, variant->flags);
}

TEST_F(fs, write_into_a_hole_leaves_the_rest_of_it)
{
	struct target *t = &self->t;

	target_put(_metadata, t, 0);
	memset(t->model, 0, SPAN);
	ASSERT_EQ(0, ftruncate(t->fd, 512 * MAS_KIB));
	t->len = 512 * MAS_KIB;
	check_write(_metadata, t, 65536, 65536, GUARD, variant->flags);
	check_write(_metadata, t, 262144 + 100, 30000, GUARD, variant->flags);
	check_file(_metadata, t, 0, t->len);
}

TEST_F(fs, append_goes_to_the_end_whatever_the_offset)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int fd, file;

	target_put(_metadata, t, 12345);
	fd = mas_reopen(t->fd, O_RDWR | O_APPEND | t->kind.flags);
	ASSERT_LE(0, fd);
	file = mas_register(t->mas, fd);
	ASSERT_LT(0, file);
	mas_fill(t->model + 12345, 65536, 6);
	memcpy(t->vram, t->model + 12345, 65536);
	req = mas_rw(MXCD_MAS_OP_WRITE, file, 0, 65536, t->mem.handle, 0);
	comp = mas_by_ioctl(t->mas, &req);
	EXPECT_EQ(65536, comp.result);
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, comp.route);
	EXPECT_NE(MXCD_MAS_REASON_NONE, comp.reason);
	t->len += 65536;
	check_file(_metadata, t, 0, t->len);
	/* Reads go by their offset as ever. */
	check_read(_metadata, t, 100, 70000, GUARD, variant->flags);
}

TEST_F(fs, write_stops_at_RLIMIT_FSIZE)
{
	struct rlimit lim = { 100000, 100000 };
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	target_put(_metadata, t, 0);
	ASSERT_NE(SIG_ERR, signal(SIGXFSZ, SIG_IGN));
	ASSERT_EQ(0, setrlimit(RLIMIT_FSIZE, &lim));
	mas_fill(t->model, SPAN, 8);
	memcpy(t->vram, t->model, SPAN);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, 65536, 65536, 65536,
			  variant->flags);
	EXPECT_EQ(100000 - 65536, comp.result);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, 100000, 1, 0,
			  variant->flags);
	EXPECT_EQ(-EFBIG, comp.result);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, 131072, 65536, 0,
			  variant->flags);
	EXPECT_EQ(-EFBIG, comp.result);
	memset(t->model, 0, 65536);
	t->len = 100000;
	check_file(_metadata, t, 0, t->len);
}

/* The whole handle, and the file longer than it, in one request. */
TEST_F(fs, largest_request_that_the_handle_takes)
{
	struct target *t = &self->t;

	target_put(_metadata, t, SPAN);
	check_read(_metadata, t, 0, SPAN, 0, variant->flags);
	check_write(_metadata, t, 0, SPAN, 0, variant->flags);
}

FIXTURE(full) {
	struct target t;
	char dir[PATH_MAX];
};

FIXTURE_SETUP(full)
{
	static const struct target_kind kind = { .env = "MAS_FULL" };

	ASSERT_NE(NULL, getenv("MAS_TMPFS"));
	snprintf(self->dir, sizeof(self->dir), "%s/mas_full.%d",
		 getenv("MAS_TMPFS"), getpid());
	ASSERT_EQ(0, mkdir(self->dir, 0700));
	ASSERT_EQ(0, mount("tmpfs", self->dir, "tmpfs", 0, "size=64k"));
	ASSERT_EQ(0, setenv(kind.env, self->dir, 1));
	target_setup(_metadata, &self->t, &kind);
}

FIXTURE_TEARDOWN(full)
{
	target_teardown(&self->t);
	umount2(self->dir, MNT_DETACH);
	rmdir(self->dir);
}

TEST_F(full, write_is_short_and_the_next_meets_ENOSPC)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	mas_fill(t->model, 2 * SMALL_FS, 9);
	memcpy(t->vram, t->model, 2 * SMALL_FS);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, 0, 2 * SMALL_FS, 0,
			  0);
	EXPECT_LT(0, comp.result);
	EXPECT_GE(SMALL_FS, comp.result);
	t->len = comp.result;
	check_file(_metadata, t, 0, t->len);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, t->len, SMALL_FS,
			  t->len, 0);
	EXPECT_EQ(-ENOSPC, comp.result);
	check_file(_metadata, t, 0, t->len);
}

/* A disk ends too. */
FIXTURE(disk) {
	struct target t;
	__u64 size;
};

FIXTURE_VARIANT(disk) {
	struct target_kind kind;
};

FIXTURE_VARIANT_ADD(disk, nvme512) {
	.kind = { .env = "MAS_NVME512", .raw = true, .dio = true },
};

FIXTURE_VARIANT_ADD(disk, nvme4k) {
	.kind = { .env = "MAS_NVME4K", .raw = true, .dio = true },
};

FIXTURE_SETUP(disk)
{
	target_setup(_metadata, &self->t, &variant->kind);
	ASSERT_EQ(0, ioctl(self->t.fd, BLKGETSIZE64, &self->size));
	/* The model is of the last bytes of the disk. */
	self->t.base = self->size - 256 * MAS_KIB;
	target_put(_metadata, &self->t, 256 * MAS_KIB);
}

FIXTURE_TEARDOWN(disk)
{
	target_teardown(&self->t);
}

TEST_F(disk, read_across_the_end_is_short)
{
	struct target *t = &self->t;

	check_read(_metadata, t, t->len - 4096, 65536, GUARD, 0);
	check_read(_metadata, t, t->len - 100, 65536, GUARD + 5, 0);
	check_read(_metadata, t, t->len - 70000, 140000, GUARD + 5, 0);
	check_read(_metadata, t, t->len - 1, 1, GUARD, 0);
	check_read(_metadata, t, t->len, 4096, GUARD, 0);
	check_read(_metadata, t, t->len + 4096, 1, GUARD, 0);
}

TEST_F(disk, write_stops_at_the_end)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	mas_fill(t->model + t->len - 10000, 10000, 10);
	memcpy(t->vram, t->model + t->len - 10000, 10000);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, t->len - 10000,
			  65536, 0, 0);
	EXPECT_EQ(10000, comp.result);
	check_file(_metadata, t, 0, t->len);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, t->len, 4096, 0, 0);
	EXPECT_EQ(-ENOSPC, comp.result);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, t->len, 1, 0, 0);
	EXPECT_EQ(-ENOSPC, comp.result);
}

TEST_HARNESS_MAIN
