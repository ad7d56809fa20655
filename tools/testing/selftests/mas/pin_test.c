// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM that direct I/O of a program has pinned while its handle is freed, others
 * allocate, and the GPU is unbound. The disk does not answer meanwhile.
 */
#include "mas_life.h"
#include "mas_ring.h"
#include "mas_bus.h"

#define DRIVE	"mas512-1"
#define LEN	(4 * MAS_MIB)
#define READ	(64 * MAS_KIB)

FIXTURE(pin) {
	struct ring ring;
	int watch;
	int mas;
	int disk;
	int gpu;
	char bdf[24];
	__s64 vram_free;
	struct mxcd_mas_alloc mem;
	char *map;
	char *model;
};

/* A read that is on its way into VRAM, and will not end before the disk may. */
FIXTURE_SETUP(pin)
{
	struct mxcd_mas_query_gpu gpu;
	struct io_uring_sqe *sqe;

	if (!mas_has_host())
		SKIP(return, "no host to ask");
	self->watch = mas_open(0);
	ASSERT_LE(0, self->watch);
	self->gpu = life_small_gpu(self->watch);
	if (mas_key(self->watch, MXCD_MAS_KEY_GUP, 0, 0, self->gpu) != 1)
		SKIP(return, "programs cannot pin VRAM here");
	ASSERT_EQ(0, mas_query_gpu(self->watch, self->gpu, &gpu));
	snprintf(self->bdf, sizeof(self->bdf), "%04x:%02x:%02x.%x", gpu.out_domain,
		 gpu.out_bdf >> 8, gpu.out_bdf >> 3 & 31, gpu.out_bdf & 7);
	self->vram_free = mas_vram_free(self->watch, self->gpu);
	self->disk = open(getenv("MAS_NVME512"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	life_patience(self->disk);
	self->model = aligned_alloc(MAS_PAGE, READ);
	mas_fill(self->model, READ, mas_seed());
	ASSERT_TRUE(mas_pwrite(self->disk, self->model, READ, 0));
	self->mas = mas_open(0);
	ASSERT_EQ(0, mas_alloc(self->mas, self->gpu, LEN, &self->mem));
	self->map = mas_map(self->mas, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
	memset(self->map, LIFE_POISON, LEN);

	ASSERT_EQ(0, ring_init(&self->ring, 0));
	ASSERT_EQ(0, mas_stall(DRIVE, self->disk));
	sqe = ring_sqe(&self->ring);
	sqe->opcode = IORING_OP_READ;
	sqe->fd = self->disk;
	sqe->addr = mas_ptr(self->map);
	sqe->len = READ;
	ASSERT_EQ(1, ring_enter(&self->ring, 0));
}

FIXTURE_TEARDOWN(pin)
{
	if (!self->map)
		return;
	mas_unstall(DRIVE);
	close(self->ring.fd);
	close(self->mas);
	close(self->watch);
	close(self->disk);
}

static bool holders_have(const char *bdf, const char *pattern)
{
	return !mas_shell("cat /sys/class/mxcd/mxcd/layout/nodes/*/mas_holders | grep -qE '%s'",
			  pattern);
}

TEST_F(pin, pinned_memory_is_given_to_nobody_before_it_is_let_go)
{
	struct canary canary;
	struct io_uring_cqe cqe;
	char line[64];

	ASSERT_EQ(0, mas_free(self->mas, self->mem.handle));
	ASSERT_EQ(0, munmap(self->map, LEN));
	close(self->mas);
	mas_sleep_ms(200);
	EXPECT_EQ(self->vram_free - LEN, mas_vram_free(self->watch, self->gpu));
	snprintf(line, sizeof(line), "^%d 0 1 %u 0 pin_test$", getpid(), LEN);
	EXPECT_TRUE(holders_have(self->bdf, line));
	ASSERT_EQ(0, canary_put(&canary, self->gpu));
	EXPECT_EQ(0, mas_vram_free(self->watch, self->gpu));

	ASSERT_EQ(0, mas_unstall(DRIVE));
	ASSERT_EQ(0, ring_wait(&self->ring, &cqe));
	EXPECT_EQ(READ, cqe.res);
	EXPECT_EQ(LEN, mas_wait_vram(self->watch, self->gpu, LEN));
	EXPECT_EQ(0, canary_take(&canary));
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->watch, self->gpu, self->vram_free));
	EXPECT_FALSE(holders_have(self->bdf, line));
}

TEST_F(pin, unbind_waits_for_who_has_pinned_and_names_it)
{
	struct io_uring_cqe cqe;

	unlink("/tmp/unbound");
	ASSERT_EQ(0, mas_shell("{ mas_unbind %s; echo >/tmp/unbound; } >/dev/null 2>&1 &",
			       self->bdf));
	while (mas_shell("dmesg | grep -q 'unbind waits .* mapped by pin_test\\[%d\\]'",
			 getpid()))
		mas_sleep_ms(100);
	mas_sleep_ms(300);
	EXPECT_NE(0, access("/tmp/unbound", F_OK));
	EXPECT_TRUE(is_bus_error(self->map));

	ASSERT_EQ(0, mas_unstall(DRIVE));
	ASSERT_EQ(0, ring_wait(&self->ring, &cqe));
	EXPECT_EQ(READ, cqe.res);
	while (access("/tmp/unbound", F_OK))
		mas_sleep_ms(50);
	EXPECT_TRUE(is_bus_error(self->map));
	ASSERT_EQ(0, mas_shell("mas_bind %s", self->bdf));
}

/* Killed while its read is under way: nobody is left who could let go. */
TEST_F(pin, memory_of_a_killed_program_comes_back_when_its_io_has_ended)
{
	struct mxcd_mas_alloc mem;
	struct io_uring_sqe *sqe;
	struct ring ring;
	int status, mas;
	pid_t child;
	void *map;

	mas_unstall(DRIVE);
	ASSERT_EQ(0, munmap(self->map, LEN));
	close(self->mas);
	ASSERT_EQ(self->vram_free, mas_wait_vram(self->watch, self->gpu, self->vram_free));
	ASSERT_EQ(0, mas_stall(DRIVE, self->disk));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		mas = mas_open(0);
		map = mas_alloc(mas, self->gpu, LEN, &mem) ? MAP_FAILED : mas_map(mas, &mem);
		if (map == MAP_FAILED || ring_init(&ring, 0))
			_exit(1);
		sqe = ring_sqe(&ring);
		sqe->opcode = IORING_OP_READ;
		sqe->fd = self->disk;
		sqe->addr = mas_ptr(map);
		sqe->len = READ;
		if (ring_enter(&ring, 0) != 1)
			_exit(2);
		raise(SIGKILL);
	}
	/* Its end may wait for the disk; what it held must. */
	mas_sleep_ms(500);
	EXPECT_EQ(self->vram_free - LEN, mas_vram_free(self->watch, self->gpu));
	ASSERT_EQ(0, mas_unstall(DRIVE));
	EXPECT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->watch, self->gpu, self->vram_free));
}

TEST_HARNESS_MAIN
