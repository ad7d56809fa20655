// SPDX-License-Identifier: GPL-2.0
/*
 * The way the data went, and that the completion tells it: what has to go p2p,
 * what bounces and why, what the flags of a request change.
 */
#include "mas_target.h"

#include <linux/fs.h>

FIXTURE(disk) {
	struct target t;
	struct mxcd_mas_query_file q;
};

FIXTURE_VARIANT(disk) {
	struct target_kind kind;
	__u32 block;		/* logical block of the disk */
};

FIXTURE_VARIANT_ADD(disk, raw512) {
	.kind = { .env = "MAS_NVME512", .raw = true, .dio = true },
	.block = 512,
};

FIXTURE_VARIANT_ADD(disk, raw4k) {
	.kind = { .env = "MAS_NVME4K", .raw = true, .dio = true },
	.block = 4096,
};

FIXTURE_VARIANT_ADD(disk, ext4) {
	.kind = { .env = "MAS_EXT4", .dio = true },
	.block = 512,
};

FIXTURE_VARIANT_ADD(disk, xfs) {
	.kind = { .env = "MAS_XFS", .dio = true },
	.block = 4096,
};

FIXTURE_SETUP(disk)
{
	target_setup(_metadata, &self->t, &variant->kind);
	target_put(_metadata, &self->t, 512 * MAS_KIB);
	ASSERT_EQ(0, mas_query_file(self->t.mas, self->t.file, 0, self->t.gpu,
				    &self->q));
}

FIXTURE_TEARDOWN(disk)
{
	target_teardown(&self->t);
}

static void expect_p2p(struct __test_metadata *_metadata,
		       const struct mxcd_mas_comp *comp)
{
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, comp->route);
	EXPECT_EQ(MXCD_MAS_REASON_NONE, comp->reason);
	EXPECT_EQ(comp->result, comp->p2p_bytes);
}

static void expect_bounce(struct __test_metadata *_metadata,
			  const struct mxcd_mas_comp *comp, int reason)
{
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, comp->route);
	EXPECT_EQ(reason, comp->reason);
	EXPECT_EQ(0, comp->p2p_bytes);
}

TEST_F(disk, query_promises_p2p_and_tells_the_alignments)
{
	struct mxcd_mas_query_file *q = &self->q;

	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, q->out_route_read);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, q->out_route_write);
	EXPECT_EQ(MXCD_MAS_REASON_NONE, q->out_reason_read);
	EXPECT_EQ(MXCD_MAS_REASON_NONE, q->out_reason_write);
	EXPECT_EQ(variant->block, q->out_read_align);
	/* Never less than a page: see mixed_write_in_one_page_loses_nothing. */
	EXPECT_EQ(MAS_PAGE, q->out_write_align);
	EXPECT_EQ(4, q->out_mem_align);
}

TEST_F(disk, aligned_transfers_go_p2p)
{
	static const __u32 lens[] = { 4096, 8192, 65536, 131072, 458752 };
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		comp = check_read(_metadata, t, 4096, lens[i], GUARD, 0);
		expect_p2p(_metadata, &comp);
		comp = check_write(_metadata, t, 4096, lens[i], GUARD, 0);
		expect_p2p(_metadata, &comp);
	}
}

TEST_F(disk, read_of_one_direct_unit_goes_p2p)
{
	const __u32 unit = self->q.out_read_align;
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	comp = check_read(_metadata, t, unit, unit, GUARD, 0);
	expect_p2p(_metadata, &comp);
	comp = check_read(_metadata, t, 3 * unit, 5 * unit, GUARD,
			  MXCD_MAS_REQ_P2P_ONLY);
	expect_p2p(_metadata, &comp);
}

TEST_F(disk, unaligned_ends_bounce_and_the_middle_goes_p2p)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	comp = check_read(_metadata, t, 100, 131072, GUARD + 100, 0);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P | MXCD_MAS_ROUTE_BOUNCE, comp.route);
	EXPECT_EQ(MXCD_MAS_REASON_EDGE, comp.reason);
	EXPECT_LE(131072 - 2 * 4096, comp.p2p_bytes);
	comp = check_write(_metadata, t, 100, 131072, GUARD + 100, 0);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P | MXCD_MAS_ROUTE_BOUNCE, comp.route);
	EXPECT_EQ(MXCD_MAS_REASON_EDGE, comp.reason);
	EXPECT_LE(131072 - 2 * 4096, comp.p2p_bytes);
}

TEST_F(disk, less_than_one_direct_unit_bounces)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	comp = check_read(_metadata, t, 4096, 100, GUARD, 0);
	expect_bounce(_metadata, &comp, MXCD_MAS_REASON_EDGE);
	comp = check_write(_metadata, t, 4096, 512, GUARD, 0);
	expect_bounce(_metadata, &comp, MXCD_MAS_REASON_EDGE);
}

TEST_F(disk, memory_out_of_step_with_the_file_bounces)
{
	const __u32 align = self->q.out_mem_align;
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	__u32 r;

	ASSERT_NE(0, align);
	for (r = 0; r < 8; r++) {
		comp = check_read(_metadata, t, 8192, 65536, GUARD + r, 0);
		if (r % align)
			expect_bounce(_metadata, &comp,
				      MXCD_MAS_REASON_MEM_ALIGN);
		else
			expect_p2p(_metadata, &comp);
		comp = check_write(_metadata, t, 8192, 65536, GUARD + r, 0);
		if (r % align)
			expect_bounce(_metadata, &comp,
				      MXCD_MAS_REASON_MEM_ALIGN);
		else
			expect_p2p(_metadata, &comp);
	}
}

TEST_F(disk, bounce_flag_bounces)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	comp = check_read(_metadata, t, 0, 65536, GUARD, MXCD_MAS_REQ_BOUNCE);
	expect_bounce(_metadata, &comp, MXCD_MAS_REASON_REQUESTED);
	comp = check_write(_metadata, t, 0, 65536, GUARD, MXCD_MAS_REQ_BOUNCE);
	expect_bounce(_metadata, &comp, MXCD_MAS_REASON_REQUESTED);
}

TEST_F(disk, p2p_only_is_served_where_all_goes_p2p)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	comp = check_read(_metadata, t, 0, 65536, GUARD, MXCD_MAS_REQ_P2P_ONLY);
	expect_p2p(_metadata, &comp);
	comp = check_write(_metadata, t, 0, 65536, GUARD,
			   MXCD_MAS_REQ_P2P_ONLY);
	expect_p2p(_metadata, &comp);
	comp = check_read(_metadata, t, 0, 65536, GUARD,
			  MXCD_MAS_REQ_P2P_ONLY | MXCD_MAS_REQ_NOFLUSH);
	expect_p2p(_metadata, &comp);
}

TEST_F(disk, append_bounces_and_is_refused_to_p2p_only)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int fd, file;

	fd = mas_reopen(t->fd, O_RDWR | O_APPEND);
	ASSERT_LE(0, fd);
	file = mas_register(t->mas, fd);
	ASSERT_LT(0, file);
	req = mas_rw(MXCD_MAS_OP_WRITE, file, t->base, 65536, t->mem.handle, 0);
	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	comp = mas_by_ioctl(t->mas, &req);
	EXPECT_EQ(-EXDEV, comp.result);
	EXPECT_EQ(MXCD_MAS_REASON_APPEND, comp.reason);
	check_file(_metadata, t, 0, t->len);
	if (t->kind.raw)	/* its end is the end of the disk */
		return;
	req.flags = 0;
	comp = mas_by_ioctl(t->mas, &req);
	EXPECT_EQ(65536, comp.result);
	expect_bounce(_metadata, &comp, MXCD_MAS_REASON_APPEND);
}

static void expect_refused(struct __test_metadata *_metadata, struct target *t,
			   int op, __u64 off, __u64 len, __u64 mem, int reason)
{
	struct mxcd_mas_comp comp;

	memset(t->vram, POISON, 256 * MAS_KIB);
	comp = target_run(_metadata, t, op, off, len, mem,
			  MXCD_MAS_REQ_P2P_ONLY);
	EXPECT_EQ(-EXDEV, comp.result);
	EXPECT_EQ(0, comp.route);
	EXPECT_EQ(reason, comp.reason);
	EXPECT_EQ(-1, mas_not_all(t->vram, 256 * MAS_KIB, POISON));
	check_file(_metadata, t, 0, t->len);
}

TEST_F(disk, p2p_only_moves_nothing_where_a_byte_would_bounce)
{
	struct target *t = &self->t;
	int op;

	for (op = MXCD_MAS_OP_READ; op <= MXCD_MAS_OP_WRITE; op++) {
		expect_refused(_metadata, t, op, 1, 65536, GUARD + 1,
			       MXCD_MAS_REASON_EDGE);
		expect_refused(_metadata, t, op, 0, 65537, GUARD,
			       MXCD_MAS_REASON_EDGE);
		expect_refused(_metadata, t, op, 4096, 1, GUARD,
			       MXCD_MAS_REASON_EDGE);
		expect_refused(_metadata, t, op, 0, 65536, GUARD + 2,
			       MXCD_MAS_REASON_MEM_ALIGN);
	}
}

/* Cached head, direct middle and cached tail of writes that share pages. */
TEST_F(disk, mixed_write_in_one_page_loses_nothing)
{
	struct target *t = &self->t;
	int i;

	for (i = 0; i < 16; i++) {
		check_write(_metadata, t, 512 * (1 + i % 7), 20480,
			    GUARD + 512 * (1 + i % 7), 0);
		check_write(_metadata, t, 20480 + 512 * (i % 5), 4608,
			    GUARD, 0);
		check_file(_metadata, t, 0, 65536);
	}
}

/* Leaves VRAM with holes of one granule each, then allocates across them. */
static void alloc_fragments(struct __test_metadata *_metadata, struct target *t,
			    __u32 nr, struct mxcd_mas_alloc *mem)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct mxcd_mas_alloc one, rest;
	__u32 i, first = 1000;

	ASSERT_EQ(0, mas_ioctl(t->mas, MXCD_MAS_QUERY, &q));
	for (i = 0; i < 2 * nr; i++) {
		ASSERT_EQ(0, mas_alloc_id(t->mas, t->gpu, q.out_granule,
					  first + i, &one));
	}
	ASSERT_EQ(0, mas_alloc(t->mas, t->gpu,
			       mas_vram_free(t->mas, t->gpu), &rest));
	for (i = 0; i < 2 * nr; i += 2) {
		ASSERT_EQ(0, mas_free(t->mas, first + i))
			TH_LOG("handle %u", first + i);
	}
	ASSERT_EQ((__s64)nr * q.out_granule,
		  mas_wait_vram(t->mas, t->gpu, (__s64)nr * q.out_granule));
	ASSERT_EQ(0, mas_alloc(t->mas, t->gpu, (__u64)nr * q.out_granule, mem));
	EXPECT_LT(1, mem->out_extents);
}

TEST_F(disk, memory_in_many_pieces_goes_p2p_as_one_request)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	__u64 len, off;

	alloc_fragments(_metadata, t, 24, &t->mem);
	t->vram = mas_map(t->mas, &t->mem);
	ASSERT_NE(MAP_FAILED, (void *)t->vram);
	EXPECT_EQ(-1, mas_not_all(t->vram, t->mem.length, 0));
	len = t->mem.length < t->len ? t->mem.length : t->len;
	len -= 4096;
	for (off = 0; off <= 4096; off += 4096) {
		mas_fill(t->vram, len + 4096, off);
		comp = target_run(_metadata, t, MXCD_MAS_OP_READ, 0, len, off,
				  MXCD_MAS_REQ_P2P_ONLY);
		ASSERT_EQ(len, comp.result);
		EXPECT_EQ(-1, mas_diff(t->model, t->vram + off, len));
	}
	mas_fill(t->model, len, 11);
	memcpy(t->vram, t->model, len);
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, 0, len, 0,
			  MXCD_MAS_REQ_P2P_ONLY);
	EXPECT_EQ(len, comp.result);
	check_file(_metadata, t, 0, t->len);
	/* Odd ends, an odd offset: the same bytes. */
	comp = target_run(_metadata, t, MXCD_MAS_OP_READ, 777, len - 999, 3, 0);
	EXPECT_EQ(len - 999, comp.result);
	EXPECT_EQ(-1, mas_diff(t->model + 777, t->vram + 3, len - 999));
	comp = target_run(_metadata, t, MXCD_MAS_OP_READ, 4, len - 999, 4, 0);
	EXPECT_EQ(len - 999, comp.result);
	EXPECT_EQ(-1, mas_diff(t->model + 4, t->vram + 4, len - 999));
}

TEST_F(disk, both_gpus_are_served)
{
	struct target *t = &self->t;
	struct mxcd_mas_alloc mem;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	char *map;

	ASSERT_EQ(0, mas_alloc(t->mas, 1 - t->gpu, 65536, &mem));
	map = mas_map(t->mas, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	req = mas_rw(MXCD_MAS_OP_READ, t->file, t->base, 65536, mem.handle, 0);
	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	comp = mas_by_ioctl(t->mas, &req);
	EXPECT_EQ(65536, comp.result);
	EXPECT_EQ(-1, mas_diff(t->model, map, 65536));
}

FIXTURE(tmpfs) {
	struct target t;
};

FIXTURE_SETUP(tmpfs)
{
	static const struct target_kind kind = { .env = "MAS_TMPFS" };

	target_setup(_metadata, &self->t, &kind);
	target_put(_metadata, &self->t, 256 * MAS_KIB);
}

FIXTURE_TEARDOWN(tmpfs)
{
	target_teardown(&self->t);
}

TEST_F(tmpfs, p2p_only_is_refused_for_want_of_direct_io)
{
	struct target *t = &self->t;

	expect_refused(_metadata, t, MXCD_MAS_OP_READ, 0, 65536, GUARD,
		       MXCD_MAS_REASON_NO_DIO);
	expect_refused(_metadata, t, MXCD_MAS_OP_WRITE, 0, 65536, GUARD,
		       MXCD_MAS_REASON_NO_DIO);
}

TEST_F(tmpfs, transfers_bounce_for_want_of_direct_io)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	comp = check_read(_metadata, t, 0, 65536, GUARD, 0);
	expect_bounce(_metadata, &comp, MXCD_MAS_REASON_NO_DIO);
	comp = check_write(_metadata, t, 0, 65536, GUARD, 0);
	expect_bounce(_metadata, &comp, MXCD_MAS_REASON_NO_DIO);
}

/*
 * This program lies on 9p, which hands the pages it is given to its transport,
 * direct or not: it must be given host memory.
 */
TEST(file_system_that_is_not_known_never_sees_vram)
{
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	struct mxcd_mas_alloc mem;
	unsigned char *vram, *want;
	struct stat st;
	int fd, exe, file;

	fd = mas_open(0);
	ASSERT_LE(0, fd);
	exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, exe);
	ASSERT_EQ(0, fstat(exe, &st));
	want = malloc(st.st_size);
	ASSERT_TRUE(mas_pread(exe, want, st.st_size, 0));
	ASSERT_EQ(0, mas_alloc(fd, mas_big_gpu(fd), st.st_size + MAS_PAGE, &mem));
	vram = mas_map(fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)vram);
	file = mas_register(fd, exe);
	ASSERT_LT(0, file);
	req = mas_rw(MXCD_MAS_OP_READ, file, 1, st.st_size, mem.handle, 3);
	comp = mas_by_ioctl(fd, &req);
	EXPECT_EQ(st.st_size - 1, comp.result);
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, comp.route);
	EXPECT_NE(MXCD_MAS_REASON_NONE, comp.reason);
	EXPECT_EQ(-1, mas_diff(want + 1, vram + 3, st.st_size - 1));
	EXPECT_EQ(-1, mas_not_all(vram + 2 + st.st_size, MAS_PAGE - 2, 0));
}

static void ext4_flag_off(struct __test_metadata *_metadata, int fd, int flag)
{
	int flags;

	ASSERT_EQ(0, ioctl(fd, FS_IOC_GETFLAGS, &flags));
	flags &= ~flag;
	ASSERT_EQ(0, ioctl(fd, FS_IOC_SETFLAGS, &flags));
}

/* ext4 fills the holes of such a file through the page cache and says nothing. */
TEST(ext4_file_without_extents_bounces)
{
	struct mxcd_mas_query_file q;
	int fd, target, file;

	fd = mas_open(0);
	ASSERT_LE(0, fd);
	target = mas_temp("MAS_EXT4", 0);
	ASSERT_LE(0, target);
	ext4_flag_off(_metadata, target, FS_EXTENT_FL);
	file = mas_register(fd, target);
	ASSERT_LT(0, file);
	ASSERT_EQ(0, mas_query_file(fd, file, 0, 0, &q));
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, q.out_route_write);
	EXPECT_EQ(MXCD_MAS_REASON_FS, q.out_reason_write);
}

TEST_HARNESS_MAIN
