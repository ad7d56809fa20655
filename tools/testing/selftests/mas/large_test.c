// SPDX-License-Identifier: GPL-2.0
/*
 * Requests larger than 2 GiB and 4 GiB. Needs a GPU with 8 GiB of VRAM and a disk of
 * 8 GiB, see check-all.sh.
 */
#include "mas_ring.h"

#include <linux/fs.h>

#define GIB	(1024ULL * MAS_MIB)
#define VRAM	(6 * GIB + 64 * MAS_MIB)
#define STAMP	4096U
#define BASE	(64ULL * MAS_KIB)

/* Where blocks that can be told apart are put, from the start of the request. */
static const __u64 places[] = {
	0, 4096, MAS_MIB - 4096, 1 * GIB - 4096, 1 * GIB, 2 * GIB - 8192, 2 * GIB - 4096,
	2 * GIB, 3 * GIB - 4096, 3 * GIB, 4 * GIB - 4096, 4 * GIB, 4 * GIB + 4096,
	5 * GIB + 512 * MAS_KIB, 6 * GIB - 8192, 6 * GIB - 4096,
};

FIXTURE(large) {
	int fd;
	int disk;
	__u32 file;
	struct mxcd_mas_alloc mem;
	unsigned char *vram;
	unsigned char stamp[STAMP];
	unsigned char back[STAMP];
};

static unsigned char *stamp_of(struct _test_data_large *self, __u64 place)
{
	mas_fill(self->stamp, STAMP, place + 1);
	return self->stamp;
}

FIXTURE_SETUP(large)
{
	__u64 size = 0;
	int file;

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_NE(NULL, getenv("MAS_NVME512"));
	self->disk = open(getenv("MAS_NVME512"), O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	ASSERT_EQ(0, ioctl(self->disk, BLKGETSIZE64, &size));
	ASSERT_LE(8 * GIB, size)
		TH_LOG("the disk is too small");
	file = mas_register(self->fd, self->disk);
	ASSERT_LT(0, file);
	self->file = file;
	ASSERT_EQ(0, mas_alloc(self->fd, mas_big_gpu(self->fd), VRAM, &self->mem))
		TH_LOG("not enough VRAM");
	self->vram = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
}

FIXTURE_TEARDOWN(large)
{
	close(self->disk);
	close(self->fd);
}

static void put_stamps(struct __test_metadata *_metadata, struct _test_data_large *self,
		       int fd, __u64 base, __u64 len)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(places) && places[i] + STAMP <= len; i++)
		ASSERT_TRUE(mas_pwrite(fd, stamp_of(self, places[i]), STAMP, base + places[i]));
	ASSERT_EQ(0, fsync(fd));
}

static void expect_stamps(struct __test_metadata *_metadata, struct _test_data_large *self,
			  __u64 mem, __u64 len)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(places) && places[i] + STAMP <= len; i++)
		EXPECT_EQ(-1, mas_diff(stamp_of(self, places[i]), self->vram + mem + places[i],
				       STAMP))
			TH_LOG("at %llu", places[i]);
	EXPECT_EQ(-1, mas_not_all(self->vram + mem + len, 65536, 0));
}

TEST_F_TIMEOUT(large, six_gib_in_one_request, 600)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, self->file, BASE, 6 * GIB,
					 self->mem.handle, 0);
	struct mxcd_mas_comp comp;

	put_stamps(_metadata, self, self->disk, BASE, 6 * GIB);
	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	comp = mas_by_ioctl(self->fd, &req);
	EXPECT_EQ(6 * GIB, comp.result);
	EXPECT_EQ(6 * GIB, comp.p2p_bytes);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, comp.route);
	expect_stamps(_metadata, self, 0, 6 * GIB);
}

/* The ring's own result ends at 2^31 - 1, the driver's does not. */
TEST_F_TIMEOUT(large, five_gib_with_odd_ends_by_ring, 600)
{
	__u64 len = 5 * GIB + 12345;
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, self->file, BASE + 7, len,
					 self->mem.handle, 4096 + 7);
	struct mxcd_mas_comp comp;
	struct io_uring_cqe cqe;
	struct ring ring;

	put_stamps(_metadata, self, self->disk, BASE, 6 * GIB);
	ASSERT_EQ(0, ring_init(&ring, 0));
	ring_request(&ring, self->fd, &req, &comp, 0);
	ASSERT_EQ(1, ring_enter(&ring, 1));
	ASSERT_TRUE(ring_cqe(&ring, &cqe));
	EXPECT_EQ(INT_MAX, cqe.res);
	EXPECT_EQ(len, comp.result);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P | MXCD_MAS_ROUTE_BOUNCE, comp.route);
	EXPECT_GE(1024, len - comp.p2p_bytes);
	EXPECT_EQ(-1, mas_not_all(self->vram, 4096 + 7, 0));
	EXPECT_EQ(-1, mas_diff(stamp_of(self, 0) + 7, self->vram + 4096 + 7, STAMP - 7));
	EXPECT_EQ(-1, mas_diff(stamp_of(self, 4 * GIB), self->vram + 4096 + 4 * GIB, STAMP));
	EXPECT_EQ(-1, mas_diff(stamp_of(self, 2 * GIB), self->vram + 4096 + 2 * GIB, STAMP));
	EXPECT_EQ(-1, mas_not_all(self->vram + 4096 + 7 + len, 65536, 0));
}

TEST_F_TIMEOUT(large, write_of_more_than_two_gib_across_the_fourth, 600)
{
	__u64 len = 2 * GIB + 64 * MAS_KIB, at = 3 * GIB, i;
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, self->file, at, len,
					 self->mem.handle, 0);
	struct mxcd_mas_comp comp;

	for (i = 0; i < ARRAY_SIZE(places) && places[i] + STAMP <= len; i++)
		memcpy(self->vram + places[i], stamp_of(self, places[i] + 99), STAMP);
	comp = mas_by_ioctl(self->fd, &req);
	EXPECT_EQ(len, comp.result);
	EXPECT_EQ(len, comp.p2p_bytes);
	for (i = 0; i < ARRAY_SIZE(places) && places[i] + STAMP <= len; i++) {
		ASSERT_TRUE(mas_pread(self->disk, self->back, STAMP, at + places[i]));
		EXPECT_EQ(-1, mas_diff(stamp_of(self, places[i] + 99), self->back, STAMP))
			TH_LOG("at %llu", places[i]);
	}
}

/* A file that is nearly all holes: beyond 2 GiB by bounce, beyond 4 GiB p2p. */
TEST_F_TIMEOUT(large, sparse_file_on_both_routes, 600)
{
	__u64 len = 2 * GIB + 4097;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int fd, file;

	fd = mas_temp("MAS_EXT4", 0);
	ASSERT_LE(0, fd);
	put_stamps(_metadata, self, fd, 0, 6 * GIB);
	ASSERT_EQ(0, ftruncate(fd, 6 * GIB));
	file = mas_register(self->fd, fd);
	ASSERT_LT(0, file);
	req = mas_rw(MXCD_MAS_OP_READ, file, 2 * GIB, len, self->mem.handle, 0);
	req.flags = MXCD_MAS_REQ_BOUNCE;
	comp = mas_by_ioctl(self->fd, &req);
	EXPECT_EQ(len, comp.result);
	EXPECT_EQ(0, comp.p2p_bytes);
	EXPECT_EQ(-1, mas_diff(stamp_of(self, 2 * GIB), self->vram, STAMP));
	EXPECT_EQ(-1, mas_diff(stamp_of(self, 3 * GIB), self->vram + GIB, STAMP));
	EXPECT_EQ(-1, mas_diff(stamp_of(self, 4 * GIB), self->vram + 2 * GIB, STAMP));
	EXPECT_EQ(stamp_of(self, 4 * GIB + 4096)[0], self->vram[2 * GIB + 4096]);
	EXPECT_EQ(-1, mas_not_all(self->vram + len, 65536, 0));

	/* The handle is longer than what is left of the file: a short count. */
	req = mas_rw(MXCD_MAS_OP_READ, file, 0, VRAM, self->mem.handle, 0);
	comp = mas_by_ioctl(self->fd, &req);
	EXPECT_EQ(6 * GIB, comp.result);
	EXPECT_EQ(6 * GIB, comp.p2p_bytes);
	expect_stamps(_metadata, self, 0, 6 * GIB);
	close(fd);
}

TEST_HARNESS_MAIN
