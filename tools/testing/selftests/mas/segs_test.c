// SPDX-License-Identifier: GPL-2.0
/*
 * Segment lists: one range of a file, many pieces of VRAM.
 */
#include "mas_utils.h"

#define PIECE	4096U
#define NR	2560U
#define SPAN	(NR * PIECE)

FIXTURE(segs) {
	int fd;
	int disk;
	int gpu;
	__u32 file;
	struct mxcd_mas_alloc mem;
	unsigned char *vram;
	unsigned char *model;
	struct mxcd_mas_seg *list;
	struct mxcd_mas_req req;
};

FIXTURE_SETUP(segs)
{
	int file;

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->disk = open(getenv("MAS_NVME512"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	file = mas_register(self->fd, self->disk);
	ASSERT_LT(0, file);
	self->file = file;
	self->gpu = mas_big_gpu(self->fd);
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, 2 * SPAN, &self->mem));
	self->vram = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
	self->model = aligned_alloc(MAS_PAGE, SPAN);
	self->list = calloc(65536, sizeof(*self->list));
	ASSERT_NE(NULL, self->model);
	ASSERT_NE(NULL, self->list);
	mas_fill(self->model, SPAN, 7);
	ASSERT_TRUE(mas_pwrite(self->disk, self->model, SPAN, 0));
	self->req = (struct mxcd_mas_req){
		.op = MXCD_MAS_OP_READ, .file = self->file, .length = SPAN,
		.segs = mas_ptr(self->list), .nr_segs = NR,
	};
}

FIXTURE_TEARDOWN(segs)
{
	close(self->disk);
	close(self->fd);
}

/* Piece i of the file goes to the place that is i turned around. */
static void scatter(struct _test_data_segs *self, __u32 piece, __u32 nr)
{
	__u32 i;

	for (i = 0; i < nr; i++)
		self->list[i] = (struct mxcd_mas_seg){
			.handle = self->mem.handle, .length = piece,
			.offset = (__u64)(nr - 1 - i) * 2 * piece,
		};
	self->req.nr_segs = nr;
	self->req.length = (__u64)nr * piece;
}

static __u64 disk_commands(const char *name)
{
	unsigned long long reads = 0, writes = 0;
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/block/%s/stat", name);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu %*u %*u %*u %llu", &reads, &writes) != 2)
		reads = 0;
	if (f)
		fclose(f);
	return reads + writes;
}

TEST_F(segs, paged_cache_is_one_request_and_few_commands)
{
	const char *name = strrchr(getenv("MAS_NVME512"), '/') + 1;
	struct mxcd_mas_comp comp;
	__u64 before;
	__u32 i;

	scatter(self, PIECE, NR);
	before = disk_commands(name);
	comp = mas_by_ioctl(self->fd, &self->req);
	EXPECT_GE(25, disk_commands(name) - before);
	EXPECT_LT(0, disk_commands(name) - before);
	EXPECT_EQ(SPAN, comp.result);
	EXPECT_EQ(SPAN, comp.p2p_bytes);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, comp.route);
	for (i = 0; i < NR; i++) {
		ASSERT_EQ(-1, mas_diff(self->model + i * PIECE,
				       self->vram + (NR - 1 - i) * 2 * PIECE, PIECE))
			TH_LOG("piece %u", i);
		ASSERT_EQ(-1, mas_not_all(self->vram + (NR - 1 - i) * 2 * PIECE + PIECE,
					  PIECE, 0));
	}
}

TEST_F(segs, write_gathers_what_read_scattered)
{
	unsigned char *back = aligned_alloc(MAS_PAGE, SPAN);
	struct mxcd_mas_comp comp;

	scatter(self, PIECE, NR);
	EXPECT_EQ(SPAN, mas_by_ioctl(self->fd, &self->req).result);
	self->req.op = MXCD_MAS_OP_WRITE;
	self->req.file_offset = SPAN;
	comp = mas_by_write(self->fd, &self->req);
	EXPECT_EQ(SPAN, comp.result);
	EXPECT_EQ(SPAN, comp.p2p_bytes);
	ASSERT_TRUE(mas_pread(self->disk, back, SPAN, SPAN));
	EXPECT_EQ(-1, mas_diff(self->model, back, SPAN));
}

/* Odd pieces bounce, and are as right as even ones. */
TEST_F(segs, pieces_of_any_size_at_any_place)
{
	__u64 state = mas_seed(), at = 0, mem = 0, off;
	struct mxcd_mas_comp comp;
	__u32 nr = 0, i;

	while (nr < 500) {
		self->list[nr] = (struct mxcd_mas_seg){
			.handle = self->mem.handle, .length = 1 + mas_below(&state, 5000),
			.offset = mem + mas_below(&state, 100),
		};
		mem = self->list[nr].offset + self->list[nr].length;
		at += self->list[nr++].length;
	}
	self->req.nr_segs = nr;
	self->req.length = at;
	self->req.file_offset = 12345;
	comp = mas_by_ioctl(self->fd, &self->req);
	EXPECT_EQ(at, comp.result);
	for (i = 0, off = 12345; i < nr; off += self->list[i++].length)
		ASSERT_EQ(-1, mas_diff(self->model + off, self->vram + self->list[i].offset,
				       self->list[i].length))
			TH_LOG("piece %u", i);
}

TEST_F(segs, pieces_of_several_handles)
{
	struct mxcd_mas_alloc other;
	unsigned char *vram;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, MAS_MIB, &other));
	vram = mas_map(self->fd, &other);
	ASSERT_NE(MAP_FAILED, (void *)vram);
	self->list[0] = (struct mxcd_mas_seg){ self->mem.handle, 0, 8192, 4096 };
	self->list[1] = (struct mxcd_mas_seg){ other.handle, 0, 0, 65536 };
	self->list[2] = (struct mxcd_mas_seg){ self->mem.handle, 0, 0, 4096 };
	self->req.nr_segs = 3;
	self->req.length = 4096 + 65536 + 4096;
	EXPECT_EQ(self->req.length, mas_by_ioctl(self->fd, &self->req).result);
	EXPECT_EQ(-1, mas_diff(self->model, self->vram + 8192, 4096));
	EXPECT_EQ(-1, mas_diff(self->model + 4096, vram, 65536));
	EXPECT_EQ(-1, mas_diff(self->model + 69632, self->vram, 4096));
	/* Freeing a handle while its number is in a list does not hurt. */
	EXPECT_EQ(0, mas_free(self->fd, other.handle));
	EXPECT_EQ(-ENOENT, mas_by_ioctl(self->fd, &self->req).result);
}

TEST_F(segs, bad_lists)
{
	struct mxcd_mas_alloc other;
	int small = 1 - self->gpu;

	scatter(self, PIECE, 4);
	self->req.length += 1;
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
	self->req.length -= 1;
	self->req.handle = self->mem.handle;
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
	self->req.handle = 0;
	self->list[2].__reserved = 1;
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
	self->list[2].__reserved = 0;
	self->list[2].handle = 0;
	EXPECT_EQ(-ENOENT, mas_by_ioctl(self->fd, &self->req).result);
	self->list[2].handle = self->mem.handle;
	self->list[3].offset = 2 * SPAN - 1;
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
	self->list[3].offset = ~0ULL;
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
	self->list[3].length = 0;
	self->req.length = 3 * PIECE;
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
	scatter(self, PIECE, 4);
	self->req.segs = 4096;
	EXPECT_EQ(-EFAULT, mas_by_ioctl(self->fd, &self->req).result);
	self->req.segs = mas_ptr(self->list);
	ASSERT_EQ(0, mas_alloc(self->fd, small, MAS_MIB, &other));
	self->list[1].handle = other.handle;
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
	self->list[1].handle = self->mem.handle;
	EXPECT_EQ(4 * PIECE, mas_by_ioctl(self->fd, &self->req).result);
}

TEST_F(segs, longest_list_is_served_and_a_longer_one_is_EINVAL)
{
	__u32 max = mas_key(self->fd, MXCD_MAS_KEY_MAX_SEGS, 0, 0, 0);
	struct mxcd_mas_comp comp;

	ASSERT_GT(65536, max);
	scatter(self, 64, max);
	comp = mas_by_ioctl(self->fd, &self->req);
	EXPECT_EQ(max * 64, comp.result);
	EXPECT_EQ(-1, mas_diff(self->model, self->vram + (max - 1) * 128, 64));
	EXPECT_EQ(-1, mas_diff(self->model + (max - 1) * 64, self->vram, 64));
	scatter(self, 64, max + 1);
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
}

/* Few segments may still name more extents than one request can have. */
TEST_F(segs, too_many_extents_are_EINVAL)
{
	struct mxcd_mas_alloc hole[64], big;
	__u32 i;

	/* Every other granule of VRAM is free then: a handle of many extents. */
	for (i = 0; i < 64; i++)
		ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, 65536, &hole[i]));
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu,
			       mas_vram_free(self->fd, self->gpu), &big));
	for (i = 0; i < 64; i += 2)
		ASSERT_EQ(0, mas_free(self->fd, hole[i].handle));
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, 32 * 65536, &big));
	ASSERT_EQ(32, big.out_extents);
	for (i = 0; i < 65535 / 32 + 1; i++)
		self->list[i] = (struct mxcd_mas_seg){
			.handle = big.handle, .length = 32 * 65536,
		};
	self->req.nr_segs = i;
	self->req.length = (__u64)i * 32 * 65536;
	EXPECT_EQ(-EINVAL, mas_by_ioctl(self->fd, &self->req).result);
	self->req.nr_segs = 2;
	self->req.length = 2 * 32 * 65536;
	EXPECT_EQ(self->req.length, mas_by_ioctl(self->fd, &self->req).result);
}

TEST_HARNESS_MAIN
