// SPDX-License-Identifier: GPL-2.0
/*
 * Memory handles: how much there is, what it holds, who may map it and for how
 * long.
 */
#include "mas_utils.h"

#include <sys/uio.h>

#define SMALL	(16 * MAS_PAGE)

FIXTURE(mem) {
	int fd;
	__u32 gpu;
	__u64 size;
	__s64 vram_free;
	struct mxcd_mas_query q;
};

FIXTURE_VARIANT(mem) {
	bool big;
};

FIXTURE_VARIANT_ADD(mem, big_gpu) {
	.big = true,
};

FIXTURE_VARIANT_ADD(mem, small_gpu) {
	.big = false,
};

FIXTURE_SETUP(mem)
{
	struct mxcd_mas_query_gpu g;
	int big;

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	big = mas_big_gpu(self->fd);
	ASSERT_LE(0, big);
	self->gpu = variant->big ? big : 1 - big;
	ASSERT_EQ(0, mas_query_gpu(self->fd, self->gpu, &g));
	self->size = g.out_vram_size;
	self->vram_free = g.out_vram_free;
	self->q.size = sizeof(self->q);
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &self->q));
	/* The tests below want the GPU for themselves. */
	ASSERT_EQ(g.out_vram_size, g.out_vram_free);
}

/* In the parent: the test has exited, and with it all its mappings are gone. */
FIXTURE_TEARDOWN_PARENT(mem)
{
	int fd = mas_open(0);

	EXPECT_EQ(self->vram_free, mas_wait_vram(fd, self->gpu,
						 self->vram_free));
	close(fd);
}

TEST_F(mem, length_is_rounded_up_to_the_granule)
{
	const __u64 granule = self->q.out_granule;
	const __u64 lengths[] = { 1, granule - 1, granule, granule + 1 };
	struct mxcd_mas_alloc mem;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, lengths[i], &mem));
		EXPECT_EQ((lengths[i] + granule - 1) / granule * granule,
			  mem.length);
		EXPECT_LE(1, mem.out_extents);
		EXPECT_EQ(self->vram_free - (__s64)mem.length,
			  mas_vram_free(self->fd, self->gpu));
		ASSERT_EQ(0, mas_free(self->fd, mem.handle));
		EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu,
							 self->vram_free));
	}
}

TEST_F(mem, nothing_is_EINVAL)
{
	struct mxcd_mas_alloc mem;

	EXPECT_EQ(-EINVAL, mas_alloc(self->fd, self->gpu, 0, &mem));
}

TEST_F(mem, more_than_there_is_is_ENOSPC_and_takes_nothing)
{
	const __u64 lengths[] = {
		self->size + 1, self->size + self->q.out_granule, 1ULL << 40,
		1ULL << 63, UINT64_MAX - 4095, UINT64_MAX,
	};
	struct mxcd_mas_alloc mem;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lengths); i++) {
		EXPECT_EQ(-ENOSPC, mas_alloc_id(self->fd, self->gpu, lengths[i],
						3, &mem))
			TH_LOG("%llu bytes", lengths[i]);
		EXPECT_EQ(self->vram_free, mas_vram_free(self->fd, self->gpu));
	}
	/* The number that was asked for is still free. */
	EXPECT_EQ(0, mas_alloc_id(self->fd, self->gpu, 1, 3, &mem));
}

TEST_F(mem, all_of_it_can_be_allocated_and_one_byte_more_cannot)
{
	struct mxcd_mas_alloc all, more;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, self->size, &all));
	EXPECT_EQ(self->size, all.length);
	EXPECT_EQ(0, mas_vram_free(self->fd, self->gpu));
	EXPECT_EQ(-ENOSPC, mas_alloc(self->fd, self->gpu, 1, &more));
	ASSERT_EQ(0, mas_free(self->fd, all.handle));
	ASSERT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu,
						 self->vram_free));
	EXPECT_EQ(0, mas_alloc(self->fd, self->gpu, self->size, &all));
}

TEST_F(mem, unknown_gpu_is_ENOENT)
{
	struct mxcd_mas_alloc mem;

	EXPECT_EQ(-ENOENT, mas_alloc(self->fd, 2, SMALL, &mem));
	EXPECT_EQ(-ENOENT, mas_alloc(self->fd, 63, SMALL, &mem));
	EXPECT_EQ(-ENOENT, mas_alloc(self->fd, 64, SMALL, &mem));
	EXPECT_EQ(-ENOENT, mas_alloc(self->fd, UINT_MAX, SMALL, &mem));
}

TEST_F(mem, chosen_handle_is_given)
{
	struct mxcd_mas_alloc mem;

	EXPECT_EQ(0, mas_alloc_id(self->fd, self->gpu, SMALL, 777, &mem));
	EXPECT_EQ(777, mem.handle);
	EXPECT_EQ(-EEXIST, mas_alloc_id(self->fd, self->gpu, SMALL, 777, &mem));
	EXPECT_EQ(self->vram_free - SMALL, mas_wait_vram(self->fd, self->gpu,
							 self->vram_free - SMALL));
	EXPECT_EQ(0, mas_alloc_id(self->fd, self->gpu, SMALL, MXCD_MAS_ID_MAX,
				  &mem));
	EXPECT_EQ(-EINVAL, mas_alloc_id(self->fd, self->gpu, SMALL,
					MXCD_MAS_ID_MAX + 1, &mem));
	EXPECT_EQ(-EINVAL, mas_alloc_id(self->fd, self->gpu, SMALL, UINT_MAX,
					&mem));
	EXPECT_EQ(0, mas_free(self->fd, 777));
	EXPECT_EQ(0, mas_alloc_id(self->fd, self->gpu, SMALL, 777, &mem));
}

TEST_F(mem, fresh_memory_reads_zero_whatever_was_there_before)
{
	const __u64 len = self->size;
	struct mxcd_mas_alloc mem;
	__u64 off;
	char *map;
	int round;

	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, len, &mem));
		map = mas_map(self->fd, &mem);
		ASSERT_NE(MAP_FAILED, (void *)map);
		for (off = 0; off < len; off += 64 * MAS_KIB) {
			ASSERT_EQ(-1, mas_not_all(map + off, 64, 0))
				TH_LOG("round %d, offset %llu", round, off);
			ASSERT_EQ(-1, mas_not_all(map + off + 64 * MAS_KIB - 64,
						  64, 0));
			memset(map + off, 0x5a, 64);
			memset(map + off + 64 * MAS_KIB - 64, 0x5a, 64);
		}
		munmap(map, len);
		ASSERT_EQ(0, mas_free(self->fd, mem.handle));
		ASSERT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu,
							 self->vram_free));
	}
}

TEST_F(mem, one_mapping_sees_what_is_written_in_another)
{
	struct mxcd_mas_alloc mem;
	char *a, *b, *tail;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	a = mas_map(self->fd, &mem);
	b = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)a);
	ASSERT_NE(MAP_FAILED, (void *)b);
	mas_fill(a, SMALL, 3);
	EXPECT_EQ(-1, mas_diff(a, b, SMALL));
	b[SMALL - 1] ^= 1;
	EXPECT_EQ(a[SMALL - 1], b[SMALL - 1]);
	/* A part of a handle can be mapped alone. */
	tail = mmap(NULL, MAS_PAGE, PROT_READ, MAP_SHARED, self->fd,
		    mem.out_mmap_offset + SMALL - MAS_PAGE);
	ASSERT_NE(MAP_FAILED, (void *)tail);
	EXPECT_EQ(-1, mas_diff(a + SMALL - MAS_PAGE, tail, MAS_PAGE));
}

TEST_F(mem, mapping_that_is_not_shared_is_refused)
{
	struct mxcd_mas_alloc mem;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SMALL, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE, self->fd, mem.out_mmap_offset));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SMALL, PROT_READ, MAP_PRIVATE,
				   self->fd, mem.out_mmap_offset));
}

TEST_F(mem, mapping_past_the_handle_is_refused)
{
	struct mxcd_mas_alloc mem, next;
	const struct {
		__s64 offset;
		size_t length;
	} bad[] = {
		{ 0, SMALL + MAS_PAGE }, { SMALL, MAS_PAGE },
		{ SMALL - MAS_PAGE, 2 * MAS_PAGE }, { -(__s64)MAS_PAGE, MAS_PAGE },
		{ -(__s64)MAS_PAGE, 2 * MAS_PAGE }, { 1LL << 32, MAS_PAGE },
	};
	unsigned int i;

	ASSERT_EQ(0, mas_alloc_id(self->fd, self->gpu, SMALL, 100, &mem));
	ASSERT_EQ(SMALL, mem.length);
	ASSERT_EQ(0, mas_alloc_id(self->fd, self->gpu, SMALL, 102, &next));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(MAP_FAILED,
			  mmap(NULL, bad[i].length, PROT_READ | PROT_WRITE,
			       MAP_SHARED, self->fd,
			       mem.out_mmap_offset + bad[i].offset))
			TH_LOG("row %u", i);
	}
	EXPECT_EQ(MAP_FAILED, mmap(NULL, MAS_PAGE, PROT_READ, MAP_SHARED,
				   self->fd, 0));
	EXPECT_NE(MAP_FAILED, mas_map(self->fd, &mem));
	EXPECT_NE(MAP_FAILED, mas_map(self->fd, &next));
}

TEST_F(mem, mapping_cannot_grow)
{
	struct mxcd_mas_alloc mem;
	void *map;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, map);
	EXPECT_EQ(MAP_FAILED, mremap(map, SMALL, 2 * SMALL, MREMAP_MAYMOVE));
}

TEST_F(mem, read_only_descriptor_maps_for_reading_only)
{
	struct mxcd_mas_alloc mem;
	unsigned char *map;
	int fd;

	fd = open(MAS_DEV, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mas_alloc(fd, self->gpu, SMALL, &mem));
	map = mmap(NULL, SMALL, PROT_READ, MAP_SHARED, fd, mem.out_mmap_offset);
	ASSERT_NE(MAP_FAILED, (void *)map);
	EXPECT_EQ(-1, mas_not_all(map, SMALL, 0));
	EXPECT_EQ(-1, mprotect(map, SMALL, PROT_READ | PROT_WRITE));
	EXPECT_EQ(MAP_FAILED, mas_map(fd, &mem));
	EXPECT_EQ(EACCES, errno);
	close(fd);
}

TEST_F(mem, mmap_offset_is_in_reach_of_a_32_bit_caller)
{
	struct mxcd_mas_alloc mem;

	/* mmap2(2) counts pages of 4 KiB in an unsigned long. */
	ASSERT_EQ(0, mas_alloc_id(self->fd, self->gpu, SMALL, MXCD_MAS_ID_MAX,
				  &mem));
	EXPECT_EQ(0, mem.out_mmap_offset % MAS_PAGE);
	EXPECT_GT(1ULL << 44, mem.out_mmap_offset + mem.length);
}

TEST_F(mem, mapping_outlives_the_handle)
{
	struct mxcd_mas_alloc mem, other;
	char *map, buf[SMALL];

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	mas_fill(map, SMALL, 4);
	ASSERT_EQ(0, mas_free(self->fd, mem.handle));
	/* The number is free at once, the memory is not. */
	EXPECT_EQ(MAP_FAILED, mas_map(self->fd, &mem));
	EXPECT_EQ(self->vram_free - SMALL,
		  mas_vram_free(self->fd, self->gpu));
	ASSERT_EQ(0, mas_alloc_id(self->fd, self->gpu,
				  self->size - SMALL, mem.handle, &other));
	map[0] ^= 1;
	map[0] ^= 1;
	EXPECT_EQ(0, mas_free(self->fd, other.handle));
	mas_fill(buf, SMALL, 4);
	EXPECT_EQ(-1, mas_diff(buf, map, SMALL));
	munmap(map, SMALL);
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu,
						 self->vram_free));
}

TEST_F(mem, mapping_outlives_the_context)
{
	int other = mas_open(0);
	struct mxcd_mas_alloc mem;
	char *map;

	ASSERT_LE(0, other);
	ASSERT_EQ(0, mas_alloc(other, self->gpu, SMALL, &mem));
	map = mas_map(other, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	close(other);
	memset(map, 0x77, SMALL);
	EXPECT_EQ(-1, mas_not_all(map, SMALL, 0x77));
	EXPECT_EQ(self->vram_free - SMALL,
		  mas_vram_free(self->fd, self->gpu));
	munmap(map, SMALL);
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu,
						 self->vram_free));
}

/* Part by part, as an allocator does that gives back the middle of a mapping. */
TEST_F(mem, mapping_can_be_taken_apart)
{
	struct mxcd_mas_alloc mem;
	char *map;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	ASSERT_EQ(0, mas_free(self->fd, mem.handle));
	ASSERT_EQ(0, munmap(map + 4 * MAS_PAGE, MAS_PAGE));
	ASSERT_EQ(0, mprotect(map, MAS_PAGE, PROT_READ));
	map[5 * MAS_PAGE] = 1;
	ASSERT_EQ(0, munmap(map, 4 * MAS_PAGE));
	EXPECT_EQ(self->vram_free - SMALL,
		  mas_vram_free(self->fd, self->gpu));
	ASSERT_EQ(0, munmap(map + 5 * MAS_PAGE, SMALL - 5 * MAS_PAGE));
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu,
						 self->vram_free));
}

/* What debuggers and the kernel do to any mapping must not hurt here. */
TEST_F(mem, foreign_looks_at_a_mapping_do_no_harm)
{
	struct mxcd_mas_alloc mem;
	char *map, buf[MAS_PAGE];
	struct iovec local = { buf, sizeof(buf) }, remote;
	int fd, status;
	ssize_t ret;
	pid_t child;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	memset(map, 0x31, SMALL);

	/* A plain write(2) of it copies with the CPU. */
	fd = mas_temp("MAS_TMPFS", 0);
	ASSERT_LE(0, fd);
	EXPECT_TRUE(mas_pwrite(fd, map, SMALL, 0));
	EXPECT_TRUE(mas_pread(fd, buf, sizeof(buf), SMALL - sizeof(buf)));
	EXPECT_EQ(-1, mas_not_all(buf, sizeof(buf), 0x31));

	remote.iov_base = map;
	remote.iov_len = sizeof(buf);
	ret = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
	EXPECT_TRUE(ret == sizeof(buf) || (ret < 0 && errno == EFAULT));

	fd = open("/proc/self/pagemap", O_RDONLY);
	EXPECT_EQ(8, pread(fd, buf, 8, (uintptr_t)map / MAS_PAGE * 8));

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };

		/* Dumps core. */
		if (chdir(getenv("MAS_TMPFS")) == 0)
			setrlimit(RLIMIT_CORE, &lim);
		signal(SIGQUIT, SIG_DFL);
		raise(SIGQUIT);
		_exit(1);
	}
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(-1, mas_not_all(map, SMALL, 0x31));
}

TEST_HARNESS_MAIN
