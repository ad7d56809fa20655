// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of VRAM: memory that mmap() allocates, what a mapping refuses, what
 * debuggers see of it, and whether direct I/O of any program can name it.
 */
#include "mas_ring.h"
#include "mas_bus.h"
#include "mas_sysfs.h"

#include <signal.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#define SMALL	(256U * MAS_KIB)
#define ODD	100001U

FIXTURE(mmap) {
	int fd;
	int gpu;
	__s64 vram_free;
	bool pages;	/* others can pin what is mapped */
	int why_not;
};

FIXTURE_SETUP(mmap)
{
	struct mxcd_mas_req req = { .op = MXCD_MAS_OP_QUERY, .key = MXCD_MAS_KEY_GUP };
	struct mxcd_mas_comp comp;

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->gpu = mas_big_gpu(self->fd);
	ASSERT_LE(0, self->gpu);
	self->vram_free = mas_vram_free(self->fd, self->gpu);
	req.arg = self->gpu;
	comp = mas_by_ioctl(self->fd, &req);
	ASSERT_LE(0, comp.result);
	self->pages = comp.result;
	self->why_not = comp.reason;
}

FIXTURE_TEARDOWN(mmap)
{
	close(self->fd);
}

static void *map_at(int fd, size_t len, off_t offset)
{
	return mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
}

TEST_F(mmap, offset_0_of_a_fresh_descriptor_allocates_what_is_mapped)
{
	const __u64 len = (ODD / (64 * MAS_KIB) + 1) * 64 * MAS_KIB;
	char node[32], *map, *again;
	int fd;

	snprintf(node, sizeof(node), MAS_DEV "%d", self->gpu);
	fd = open(node, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	map = map_at(fd, ODD, 0);
	ASSERT_NE(MAP_FAILED, (void *)map);
	EXPECT_EQ(-1, mas_not_all(map, ODD, 0));
	EXPECT_EQ(self->vram_free - (__s64)len, mas_vram_free(self->fd, self->gpu));
	/* It is a handle as any other. */
	EXPECT_EQ(len, mas_key(fd, MXCD_MAS_KEY_HANDLE_SIZE, 0, 1, 0));
	EXPECT_EQ(0, mas_key(fd, MXCD_MAS_KEY_HANDLE_MMAP, 0, 1, 0));

	again = map_at(fd, len, 0);
	ASSERT_NE(MAP_FAILED, (void *)again);
	mas_fill(map, ODD, 5);
	EXPECT_EQ(-1, mas_diff(map, again, ODD));
	EXPECT_EQ(MAP_FAILED, map_at(fd, len + MAS_PAGE, 0));
	EXPECT_EQ(EINVAL, errno);
	munmap(again, len);
	munmap(map, ODD);
	EXPECT_EQ(self->vram_free - (__s64)len, mas_vram_free(self->fd, self->gpu));
	close(fd);
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu, self->vram_free));
}

TEST_F(mmap, offset_0_of_a_used_descriptor_is_refused)
{
	struct mxcd_mas_alloc mem;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	EXPECT_EQ(MAP_FAILED, map_at(self->fd, SMALL, 0));
	EXPECT_EQ(ENOENT, errno);
}

TEST_F(mmap, node_of_a_gpu_allocates_there)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	char node[32];
	__s64 before;
	void *map;
	int gpu, fd;

	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &q));
	for (gpu = 0; gpu < 64; gpu++) {
		if (!(q.out_gpus & (1ULL << gpu)))
			continue;
		before = mas_vram_free(self->fd, gpu);
		snprintf(node, sizeof(node), MAS_DEV "%d", gpu);
		fd = open(node, O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, fd);
		map = map_at(fd, SMALL, 0);
		EXPECT_NE(MAP_FAILED, map);
		EXPECT_EQ(before - SMALL, mas_vram_free(self->fd, gpu));
		munmap(map, SMALL);
		close(fd);
	}
}

TEST_F(mmap, more_than_there_is_cannot_be_allocated)
{
	EXPECT_EQ(MAP_FAILED, map_at(self->fd, 1ULL << 40, 0));
	EXPECT_EQ(ENOSPC, errno);
}

TEST_F(mmap, restricted_context_allocates_no_more_by_mmap_than_otherwise)
{
	struct mxcd_mas_restrict arg;

	mas_no_limits(&arg);
	arg.max_vram = SMALL;
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_RESTRICT, &arg));
	EXPECT_EQ(MAP_FAILED, map_at(self->fd, SMALL + 1, 0));
	EXPECT_EQ(EDQUOT, errno);
	arg.ops = ~(1ULL << MXCD_MAS_OP_ALLOC);
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_RESTRICT, &arg));
	EXPECT_EQ(MAP_FAILED, map_at(self->fd, SMALL, 0));
	EXPECT_EQ(EPERM, errno);
}

TEST_F(mmap, mapping_is_not_inherited_by_fork)
{
	struct mxcd_mas_alloc mem;
	int status;
	pid_t child;
	char *map;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	map[0] = 1;
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		map[0] = 2;
		_exit(0);
	}
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	EXPECT_EQ(1, map[0]);
}

TEST_F(mmap, mapping_neither_moves_nor_runs_code)
{
	struct mxcd_mas_alloc mem;
	void *map, *place;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, map);
	memset(map, 0x44, SMALL);
	place = mmap(NULL, SMALL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_EQ(MAP_FAILED, mremap(map, SMALL, SMALL, MREMAP_MAYMOVE | MREMAP_FIXED, place));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, mas_not_all(map, SMALL, 0x44));
	EXPECT_EQ(-1, mprotect(map, SMALL, PROT_READ | PROT_EXEC));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, SMALL, PROT_READ | PROT_EXEC, MAP_SHARED, self->fd,
				   mem.out_mmap_offset));
}

TEST_F(mmap, debugger_reads_and_writes_a_mapping)
{
	struct mxcd_mas_alloc mem;
	char *map, buf[3 * MAS_PAGE];
	int fd;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	mas_fill(map, SMALL, 6);
	fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(sizeof(buf), pread(fd, buf, sizeof(buf), (uintptr_t)map + 77));
	EXPECT_EQ(-1, mas_diff(map + 77, buf, sizeof(buf)));
	EXPECT_EQ(5, pwrite(fd, "hello", 5, (uintptr_t)map + MAS_PAGE - 2));
	EXPECT_EQ(0, memcmp(map + MAS_PAGE - 2, "hello", 5));
}

/* Whoever was given VRAM to look at gets no way to change it. */
TEST_F(mmap, debugger_does_not_write_to_what_is_mapped_for_reading)
{
	struct mxcd_mas_alloc mem;
	char *map, *view, buf[MAS_PAGE];
	int fd;

	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	mas_fill(map, SMALL, 7);
	view = mmap(NULL, SMALL, PROT_READ, MAP_SHARED, self->fd, mem.out_mmap_offset);
	ASSERT_NE(MAP_FAILED, (void *)view);
	memcpy(buf, map, sizeof(buf));
	fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-1, pwrite(fd, "hello", 5, (uintptr_t)view));
	EXPECT_EQ(EIO, errno);
	EXPECT_EQ(-1, mas_diff(buf, map, sizeof(buf)));
	memset(buf, 0, sizeof(buf));
	EXPECT_EQ(sizeof(buf), pread(fd, buf, sizeof(buf), (uintptr_t)view));
	EXPECT_EQ(-1, mas_diff(map, buf, sizeof(buf)));
}

/* In kB. */
static long page_tables(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "VmPTE:", 6))
			kib = atol(line + 6);
	if (f)
		fclose(f);
	return kib;
}

static bool has_huge_mappings(void)
{
	int major = 0, minor = 0;
	struct utsname uts;

	uname(&uts);
	return sscanf(uts.release, "%d.%d", &major, &minor) == 2 && major * 100 + minor >= 612;
}

TEST_F(mmap, plain_mapping_is_in_huge_pages)
{
	const size_t len = 32 * MAS_MIB;
	struct mxcd_mas_alloc mem;
	long before, taken;
	size_t off;
	char *map;

	if (self->pages)
		SKIP(return, "what is mapped here has page structs");
	if (!has_huge_mappings())
		SKIP(return, "kernels before 6.12 have no mark for it in page tables");
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, len, &mem));
	before = page_tables();
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	EXPECT_EQ(0, (uintptr_t)map % (2 * MAS_MIB));
	for (off = 0; off < len; off += MAS_PAGE)
		map[off] = off / MAS_PAGE;
	taken = page_tables() - before;
	printf("# %ld KiB of page tables for %zu MiB\n", taken, len / MAS_MIB);
	/* Small pages would take 64 KiB. */
	EXPECT_GE(16, taken);
	for (off = 0; off < len; off += MAS_PAGE)
		ASSERT_EQ((char)(off / MAS_PAGE), map[off]);
	/* A part of a huge page goes. */
	EXPECT_EQ(0, munmap(map + MAS_MIB, MAS_PAGE));
	EXPECT_EQ((char)(MAS_MIB / MAS_PAGE - 1), map[MAS_MIB - MAS_PAGE]);
	EXPECT_EQ((char)(MAS_MIB / MAS_PAGE + 1), map[MAS_MIB + MAS_PAGE]);
}

/* Its first MiB is in small pages, which end where the first huge page begins. */
TEST_F(mmap, mapping_that_begins_within_a_huge_page_is_huge_behind_it)
{
	const size_t skip = MAS_MIB, len = 32 * MAS_MIB;
	struct mxcd_mas_alloc mem;
	long before, taken;
	size_t off;
	char *map;
	int down;

	if (self->pages)
		SKIP(return, "what is mapped here has page structs");
	if (!has_huge_mappings())
		SKIP(return, "kernels before 6.12 have no mark for it in page tables");
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, len, &mem));
	for (down = 0; down < 2; down++) {
		before = page_tables();
		map = map_at(self->fd, len - skip, mem.out_mmap_offset + skip);
		ASSERT_NE(MAP_FAILED, (void *)map);
		for (off = 0; off < len - skip; off += MAS_PAGE)
			map[down ? len - skip - MAS_PAGE - off : off] = 1;
		taken = page_tables() - before;
		printf("# %ld KiB of page tables\n", taken);
		EXPECT_GE(16, taken);
		munmap(map, len - skip);
	}
}

/* The kernel asks P2PDMA at each use of its pages. */
static bool kernel_asks(void)
{
	char provider[32] = "";
	glob_t nodes;

	if (glob(MAS_NODES "/*/mas_provider", 0, NULL, &nodes))
		return false;
	mas_get_text(nodes.gl_pathv[0], provider, sizeof(provider));
	globfree(&nodes);
	return !strcmp(provider, "p2pdma");
}

/*
 * Direct I/O through our own pages would lose data that the driver knows to be lost.
 * P2PDMA's stay: what the CPU does with them goes on.
 */
TEST_F(mmap, proof_that_fails_takes_only_our_own_pages_out_of_mappings)
{
	bool stays = kernel_asks();
	struct mxcd_mas_alloc mem;
	int disk, file;
	char *map;

	if (!self->pages)
		SKIP(return, "what is mapped here has no page structs");
	if (access(MAS_PARAMETERS "/fault", F_OK))
		SKIP(return, "built without CONFIG_MXCD_DEBUG");
	disk = open(getenv("MAS_NVME4K"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, disk);
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	memset(map, 0x22, SMALL - MAS_PAGE);

	ASSERT_EQ(0, mas_set_fault(FAULT_READ));
	file = mas_register(self->fd, disk);
	EXPECT_LT(0, file);
	EXPECT_EQ(!stays, is_bus_error(map));
	/* This page was not touched before. */
	EXPECT_EQ(!stays, is_bus_error(map + SMALL - MAS_PAGE));
	if (!stays) {
		EXPECT_EQ(-1, pread(disk, map, SMALL, 0));
		EXPECT_EQ(EFAULT, errno);
	}

	ASSERT_EQ(0, mas_set_fault(0));
	EXPECT_FALSE(is_bus_error(map));
	EXPECT_EQ(-1, mas_not_all(map, SMALL - MAS_PAGE, 0x22));
	EXPECT_EQ(SMALL, pread(disk, map, SMALL, 0));
}

TEST_F(mmap, direct_io_names_a_mapping_or_is_refused_with_the_reason)
{
	struct mxcd_mas_alloc mem;
	char *map, *model;
	int disk;

	ASSERT_NE(NULL, getenv("MAS_NVME4K"));
	disk = open(getenv("MAS_NVME4K"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, disk);
	model = aligned_alloc(MAS_PAGE, SMALL);
	mas_fill(model, SMALL, mas_seed());
	ASSERT_TRUE(mas_pwrite(disk, model, SMALL, 0));
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	memset(map, 0x11, SMALL);
	if (!self->pages) {
		EXPECT_EQ(-1, pread(disk, map, SMALL, 0));
		EXPECT_EQ(EFAULT, errno);
		EXPECT_NE(MXCD_MAS_REASON_NONE, self->why_not);
		EXPECT_EQ(-1, mas_not_all(map, SMALL, 0x11));
		return;
	}
	EXPECT_EQ(MXCD_MAS_REASON_NONE, self->why_not);
	ASSERT_EQ(SMALL, pread(disk, map, SMALL, 0));
	EXPECT_EQ(-1, mas_diff(model, map, SMALL));
	mas_fill(map, SMALL, 8);
	ASSERT_EQ(SMALL, pwrite(disk, map, SMALL, 0));
	ASSERT_EQ(SMALL, pread(disk, model, SMALL, 0));
	EXPECT_EQ(-1, mas_diff(model, map, SMALL));
	munmap(map, SMALL);
	ASSERT_EQ(0, mas_free(self->fd, mem.handle));
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu, self->vram_free));
}

/* The verdict of one kernel after the other; no rule of ours. */
TEST_F(mmap, buffer_that_is_registered_for_long_does_no_harm)
{
	struct mxcd_mas_alloc mem;
	struct iovec iov;
	struct ring ring;
	int ret;

	ASSERT_EQ(0, ring_init(&ring, 0));
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, SMALL, &mem));
	iov.iov_base = mas_map(self->fd, &mem);
	iov.iov_len = SMALL;
	ASSERT_NE(MAP_FAILED, iov.iov_base);
	ret = syscall(__NR_io_uring_register, ring.fd, IORING_REGISTER_BUFFERS, &iov, 1);
	printf("# registered: %s\n", ret ? strerror(errno) : "yes");
	if (!self->pages)
		EXPECT_EQ(-1, ret);
	munmap(iov.iov_base, SMALL);
	ASSERT_EQ(0, mas_free(self->fd, mem.handle));
	if (!ret) {
		mas_sleep_ms(200);
		EXPECT_EQ(self->vram_free - SMALL, mas_vram_free(self->fd, self->gpu));
	}
	ring_exit(&ring);
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu, self->vram_free));
}

TEST_HARNESS_MAIN
