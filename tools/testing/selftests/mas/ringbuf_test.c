// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM as a registered buffer of a ring: I/O on any file, without the driver in the path.
 * With gup=1, or all of it is refused.
 */
#include "mas_host.h"
#include "mas_ring.h"

#define LEN	(4U * MAS_MIB)
#define PART	(64U * MAS_KIB)

FIXTURE(ringbuf) {
	struct ring ring;
	int fd;
	int gpu;
	int disk;
	bool allowed;
	__s64 vram_free;
	struct mxcd_mas_alloc mem;
	char *map;
	char *model;
};

FIXTURE_SETUP(ringbuf)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct io_uring_rsrc_register table = { .nr = 4, .flags = IORING_RSRC_REGISTER_SPARSE };

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &q));
	if (!(q.out_features & MXCD_MAS_FEATURE_BUFFER))
		SKIP(return, "this kernel lets no driver register buffers");
	self->allowed = !mas_shell("grep -q Y /sys/module/mxcd/parameters/gup");
	self->gpu = mas_big_gpu(self->fd);
	self->vram_free = mas_vram_free(self->fd, self->gpu);
	self->disk = open(getenv("MAS_NVME4K"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, LEN, &self->mem));
	self->map = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
	self->model = aligned_alloc(MAS_PAGE, LEN);
	mas_fill(self->model, LEN, mas_seed());
	ASSERT_EQ(0, ring_init(&self->ring, 0));
	ASSERT_EQ(0, syscall(__NR_io_uring_register, self->ring.fd, IORING_REGISTER_BUFFERS2,
			     &table, sizeof(table)));
}

FIXTURE_TEARDOWN(ringbuf)
{
	if (!self->map)
		return;
	close(self->ring.fd);
	close(self->disk);
	close(self->fd);
}

static int command(struct _test_data_ringbuf *self, struct mxcd_mas_buffer *arg)
{
	struct mxcd_mas_uring cmd = { .req = mas_ptr(arg) };
	struct io_uring_sqe *sqe = ring_sqe(&self->ring);
	struct io_uring_cqe cqe;
	int ret;

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = self->fd;
	sqe->cmd_op = MXCD_MAS_BUFFER;
	memcpy(sqe->cmd, &cmd, sizeof(cmd));
	ret = ring_wait(&self->ring, &cqe);
	return ret ? ret : cqe.res;
}

static int put(struct _test_data_ringbuf *self, __u32 slot, __u64 offset, __u64 length)
{
	struct mxcd_mas_buffer arg = {
		.size = sizeof(arg), .handle = self->mem.handle, .slot = slot,
		.offset = offset, .length = length,
	};

	return command(self, &arg);
}

static int take(struct _test_data_ringbuf *self, __u32 slot)
{
	struct mxcd_mas_buffer arg = {
		.size = sizeof(arg), .slot = slot, .flags = MXCD_MAS_BUFFER_REMOVE,
	};

	return command(self, &arg);
}

static int fixed(struct _test_data_ringbuf *self, int op, __u32 slot, __u64 addr, __u32 len,
		 __u64 offset)
{
	struct io_uring_sqe *sqe = ring_sqe(&self->ring);
	struct io_uring_cqe cqe;
	int ret;

	sqe->opcode = op;
	sqe->fd = self->disk;
	sqe->addr = addr;
	sqe->len = len;
	sqe->off = offset;
	sqe->buf_index = slot;
	ret = ring_wait(&self->ring, &cqe);
	return ret ? ret : cqe.res;
}

TEST_F(ringbuf, without_gup_it_is_EACCES)
{
	if (self->allowed)
		SKIP(return, "gup is 1");
	EXPECT_EQ(-EACCES, put(self, 0, 0, LEN));
	EXPECT_EQ(-EINVAL, take(self, 0));
}

TEST_F(ringbuf, bad_arguments_are_refused)
{
	struct mxcd_mas_buffer arg = {
		.size = sizeof(arg), .handle = self->mem.handle + 1, .length = LEN,
	};

	if (!self->allowed)
		SKIP(return, "gup is 0");
	EXPECT_EQ(-ENOENT, command(self, &arg));
	arg.size = sizeof(arg) - 1;
	EXPECT_EQ(-EINVAL, command(self, &arg));
	arg.size = sizeof(arg);
	arg.flags = 2;
	EXPECT_EQ(-EINVAL, command(self, &arg));
	EXPECT_EQ(-EINVAL, put(self, 0, 0, 0));
	EXPECT_EQ(-EINVAL, put(self, 0, 1, MAS_PAGE));
	EXPECT_EQ(-EINVAL, put(self, 0, 0, LEN + MAS_PAGE));
	EXPECT_EQ(-EINVAL, put(self, 0, LEN, MAS_PAGE));
	EXPECT_EQ(-EINVAL, put(self, 4, 0, LEN));
	EXPECT_EQ(0, put(self, 1, 0, LEN));
	EXPECT_EQ(-EBUSY, put(self, 1, 0, LEN));
	EXPECT_EQ(0, take(self, 1));
	EXPECT_EQ(-EINVAL, take(self, 1));
}

TEST_F(ringbuf, fixed_reads_and_writes_move_data_to_and_from_vram)
{
	const __u64 skip = MAS_PAGE, len = LEN - 2 * MAS_PAGE;

	if (!self->allowed)
		SKIP(return, "gup is 0");
	ASSERT_TRUE(mas_pwrite(self->disk, self->model, LEN, 0));
	ASSERT_EQ(0, put(self, 2, skip, len));
	memset(self->map, 0x11, LEN);
	ASSERT_EQ(PART, fixed(self, IORING_OP_READ_FIXED, 2, PART, PART, PART));
	EXPECT_EQ(-1, mas_diff(self->model + PART, self->map + skip + PART, PART));
	EXPECT_EQ(-1, mas_not_all(self->map, skip + PART, 0x11));
	EXPECT_EQ(-1, mas_not_all(self->map + skip + 2 * PART, LEN - skip - 2 * PART, 0x11));
	ASSERT_EQ(len, fixed(self, IORING_OP_READ_FIXED, 2, 0, len, 0));
	EXPECT_EQ(-1, mas_diff(self->model, self->map + skip, len));
	ASSERT_EQ(len, fixed(self, IORING_OP_WRITE_FIXED, 2, 0, len, 2 * LEN));
	memset(self->model + len, 0, LEN - len);
	ASSERT_TRUE(mas_pread(self->disk, self->model, len, 2 * LEN));
	EXPECT_EQ(-1, mas_diff(self->model, self->map + skip, len));
	/* Beyond its end. */
	EXPECT_EQ(-EFAULT, fixed(self, IORING_OP_READ_FIXED, 2, len, MAS_PAGE, 0));
	EXPECT_EQ(0, take(self, 2));
	EXPECT_EQ(-EFAULT, fixed(self, IORING_OP_READ_FIXED, 2, 0, MAS_PAGE, 0));
}

TEST_F(ringbuf, memory_stays_until_slot_and_handle_are_gone)
{
	if (!self->allowed)
		SKIP(return, "gup is 0");
	ASSERT_EQ(0, put(self, 0, 0, LEN));
	ASSERT_EQ(0, munmap(self->map, LEN));
	ASSERT_EQ(0, mas_free(self->fd, self->mem.handle));
	mas_sleep_ms(200);
	EXPECT_EQ(self->vram_free - LEN, mas_vram_free(self->fd, self->gpu));
	ASSERT_EQ(PART, fixed(self, IORING_OP_READ_FIXED, 0, 0, PART, 0));
	/* The end of the ring empties it. */
	ring_exit(&self->ring);
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu, self->vram_free));
}

TEST_F(ringbuf, unbind_waits_for_the_slot_and_names_who_has_it)
{
	struct mxcd_mas_query_gpu gpu;
	char bdf[24];

	if (!self->allowed)
		SKIP(return, "gup is 0");
	ASSERT_EQ(0, mas_query_gpu(self->fd, self->gpu, &gpu));
	snprintf(bdf, sizeof(bdf), "%04x:%02x:%02x.%x", gpu.out_domain, gpu.out_bdf >> 8,
		 gpu.out_bdf >> 3 & 31, gpu.out_bdf & 7);
	ASSERT_EQ(0, put(self, 0, 0, LEN));
	unlink("/tmp/unbound");
	ASSERT_EQ(0, mas_shell("{ mas_unbind %s; echo >/tmp/unbound; } >/dev/null 2>&1 &", bdf));
	while (mas_shell("dmesg | grep -q 'unbind waits .* mapped by ringbuf_test\\[%d\\]'",
			 getpid()))
		mas_sleep_ms(100);
	EXPECT_NE(0, access("/tmp/unbound", F_OK));
	EXPECT_EQ(0, take(self, 0));
	while (access("/tmp/unbound", F_OK))
		mas_sleep_ms(50);
	ASSERT_EQ(0, mas_shell("mas_bind %s", bdf));
}

TEST_HARNESS_MAIN
