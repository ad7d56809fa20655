// SPDX-License-Identifier: GPL-2.0
/*
 * The same requests as commands of an io_uring.
 */
#include "mas_ring.h"

#include <signal.h>
#include <sys/wait.h>

#define ENTRIES	RING_ENTRIES
#define LEN	65536U
#define SPAN	(4 * MAS_MIB)

FIXTURE(uring) {
	struct ring ring;
	int fd;
	int target;
	__u32 file;
	struct mxcd_mas_alloc mem;
	unsigned char *vram;
	unsigned char *model;
};

FIXTURE_VARIANT(uring) {
	__u32 flags;
};

FIXTURE_VARIANT_ADD(uring, plain) {
};

FIXTURE_VARIANT_ADD(uring, deferred) {
	.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
};

FIXTURE_VARIANT_ADD(uring, polled) {
	.flags = IORING_SETUP_IOPOLL,
};

FIXTURE_VARIANT_ADD(uring, polled_deferred) {
	.flags = IORING_SETUP_IOPOLL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
};

FIXTURE_SETUP(uring)
{
	int file;

	ASSERT_EQ(0, ring_init(&self->ring, variant->flags));
	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->target = mas_temp("MAS_EXT4", O_DIRECT);
	ASSERT_LE(0, self->target);
	self->model = aligned_alloc(MAS_PAGE, SPAN);
	mas_fill(self->model, SPAN, 3);
	ASSERT_TRUE(mas_pwrite(self->target, self->model, SPAN, 0));
	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	self->file = file;
	ASSERT_EQ(0, mas_alloc(self->fd, mas_big_gpu(self->fd), SPAN, &self->mem));
	self->vram = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
}

FIXTURE_TEARDOWN(uring)
{
	close(self->ring.fd);
	close(self->target);
	close(self->fd);
}

/* Submit one, and wait for it. */
static __s32 one(struct _test_data_uring *self, const struct mxcd_mas_req *req,
		 struct mxcd_mas_comp *comp)
{
	struct io_uring_cqe cqe;

	if (comp)
		memset(comp, 0xa5, sizeof(*comp));
	ring_request(&self->ring, self->fd, req, comp, 42);
	if (ring_enter(&self->ring, 1) != 1 || ring_wait(&self->ring, &cqe))
		return -EPROTO;
	return cqe.user_data == 42 ? cqe.res : -EPROTO;
}

TEST_F(uring, many_reads_in_flight)
{
	struct mxcd_mas_req reqs[ENTRIES];
	struct mxcd_mas_comp comps[ENTRIES];
	struct io_uring_cqe cqe;
	bool seen[ENTRIES] = {};
	__u32 i, got = 0;

	for (i = 0; i < ENTRIES; i++) {
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, self->file, i * LEN, LEN,
				 self->mem.handle, i * LEN);
		reqs[i].user_data = 1000 + i;
		ring_request(&self->ring, self->fd, &reqs[i], &comps[i], i);
	}
	ASSERT_EQ(ENTRIES, ring_enter(&self->ring, ENTRIES));
	while (got < ENTRIES) {
		ASSERT_EQ(0, ring_wait(&self->ring, &cqe));
		ASSERT_GT(ENTRIES, cqe.user_data);
		EXPECT_FALSE(seen[cqe.user_data]);
		seen[cqe.user_data] = true;
		EXPECT_EQ(LEN, cqe.res);
		EXPECT_EQ(LEN, comps[cqe.user_data].result);
		EXPECT_EQ(1000 + cqe.user_data, comps[cqe.user_data].user_data);
		EXPECT_EQ(MXCD_MAS_ROUTE_P2P, comps[cqe.user_data].route);
		got++;
	}
	EXPECT_EQ(ENTRIES, got);
	EXPECT_EQ(-1, mas_diff(self->model, self->vram, SPAN));
}

TEST_F(uring, any_offset_and_both_directions)
{
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	unsigned char *back = aligned_alloc(MAS_PAGE, SPAN);

	req = mas_rw(MXCD_MAS_OP_READ, self->file, 12345, 3 * LEN + 7, self->mem.handle, 99);
	EXPECT_EQ(3 * LEN + 7, one(self, &req, &comp));
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, comp.route);
	EXPECT_EQ(-1, mas_diff(self->model + 12345, self->vram + 99, 3 * LEN + 7));
	req = mas_rw(MXCD_MAS_OP_READ, self->file, 100, 3 * LEN, self->mem.handle, 100);
	EXPECT_EQ(3 * LEN, one(self, &req, NULL));
	req = mas_rw(MXCD_MAS_OP_WRITE, self->file, 4096 + 100, 3 * LEN, self->mem.handle, 100);
	EXPECT_EQ(3 * LEN, one(self, &req, &comp));
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE | MXCD_MAS_ROUTE_P2P, comp.route);
	ASSERT_TRUE(mas_pread(self->target, back, SPAN, 0));
	EXPECT_EQ(-1, mas_diff(self->model, back, 4196));
	EXPECT_EQ(-1, mas_diff(self->model + 100, back + 4196, 3 * LEN));
	EXPECT_EQ(-1, mas_diff(self->model + 4196 + 3 * LEN, back + 4196 + 3 * LEN, LEN));
}

TEST_F(uring, control_operations_and_errors)
{
	struct mxcd_mas_req req = { .op = MXCD_MAS_OP_QUERY, .key = MXCD_MAS_KEY_VERSION };
	struct io_uring_cqe cqe;

	EXPECT_EQ(MXCD_MAS_VERSION, one(self, &req, NULL));
	req.key = 9999;
	EXPECT_EQ(-EINVAL, one(self, &req, NULL));
	req = mas_rw(MXCD_MAS_OP_READ, self->file + 1, 0, LEN, self->mem.handle, 0);
	EXPECT_EQ(-ENOENT, one(self, &req, NULL));
	req.file = self->target;
	req.flags = MXCD_MAS_REQ_FD;
	EXPECT_EQ(LEN, one(self, &req, NULL));
	req.flags |= MXCD_MAS_REQ_LINK;
	EXPECT_EQ(-EINVAL, one(self, &req, NULL));
	EXPECT_EQ(-EFAULT, one(self, (void *)4096, NULL));
	ring_request(&self->ring, self->fd, &req, NULL, 1)->cmd_op = 1;
	ASSERT_EQ(1, ring_enter(&self->ring, 1));
	ASSERT_EQ(0, ring_wait(&self->ring, &cqe));
	EXPECT_EQ(-ENOTTY, cqe.res);
	/* A completion that cannot be written is told by the CQE. */
	req.flags = MXCD_MAS_REQ_FD;
	ring_request(&self->ring, self->fd, &req, (void *)4096, 1);
	ASSERT_EQ(1, ring_enter(&self->ring, 1));
	ASSERT_EQ(0, ring_wait(&self->ring, &cqe));
	EXPECT_EQ(-EFAULT, cqe.res);
}

/* The links of the ring order requests as those of the driver do. */
TEST_F(uring, links_of_the_ring)
{
	struct mxcd_mas_req reqs[2] = {
		mas_rw(MXCD_MAS_OP_READ, self->file, 0, LEN, self->mem.handle, 0),
		mas_rw(MXCD_MAS_OP_WRITE, self->file, 8 * LEN, LEN, self->mem.handle, 0),
	};
	struct mxcd_mas_comp comps[2];
	unsigned char *back = aligned_alloc(MAS_PAGE, LEN);
	struct io_uring_cqe cqe;
	int i;

	ring_request(&self->ring, self->fd, &reqs[0], &comps[0], 0)->flags = IOSQE_IO_LINK;
	ring_request(&self->ring, self->fd, &reqs[1], &comps[1], 1);
	ASSERT_EQ(2, ring_enter(&self->ring, 2));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, ring_wait(&self->ring, &cqe));
		EXPECT_EQ(LEN, cqe.res);
	}
	ASSERT_TRUE(mas_pread(self->target, back, LEN, 8 * LEN));
	EXPECT_EQ(-1, mas_diff(self->model, back, LEN));
}

static int killed_with_requests_in_flight(struct _test_data_uring *self)
{
	struct mxcd_mas_req reqs[ENTRIES];
	struct mxcd_mas_comp comps[ENTRIES];
	__u32 i;

	for (i = 0; i < ENTRIES; i++) {
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, self->file, i * LEN, LEN - 1,
				 self->mem.handle, i * LEN);
		ring_request(&self->ring, self->fd, &reqs[i], &comps[i], i);
	}
	ring_enter(&self->ring, 0);
	return raise(SIGKILL);
}

TEST_F(uring, killed_with_requests_in_flight_leaves_nothing)
{
	__s64 before = mas_vram_free(self->fd, 0);
	pid_t pid = fork();
	int status, fd;

	if (!pid) {
		close(self->ring.fd);
		close(self->fd);
		self->fd = mas_open(0);
		self->file = mas_register(self->fd, self->target);
		if (mas_alloc(self->fd, 0, SPAN, &self->mem) ||
		    ring_init(&self->ring, variant->flags))
			_exit(1);
		killed_with_requests_in_flight(self);
		_exit(2);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
	fd = mas_open(0);
	EXPECT_EQ(before, mas_wait_vram(fd, 0, before));
}

/* Of all NVMe controllers; nobody else uses them. */
static __u64 nvme_interrupts(void)
{
	FILE *f = fopen("/proc/interrupts", "r");
	__u64 sum = 0, n;
	char line[4096], *p, *end;

	while (f && fgets(line, sizeof(line), f)) {
		if (!strstr(line, " nvme"))
			continue;
		for (p = strchr(line, ':') + 1; n = strtoull(p, &end, 10), end != p; p = end)
			sum += n;
	}
	if (f)
		fclose(f);
	return sum;
}

TEST_F(uring, polled_reads_raise_no_interrupt)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, self->file, 0, 4096,
					 self->mem.handle, 0);
	struct mxcd_mas_comp comp;
	char queues[16] = "0";
	bool polled;
	__u64 before;
	__u32 i;
	int fd;

	fd = open("/sys/module/nvme/parameters/poll_queues", O_RDONLY | O_CLOEXEC);
	ASSERT_LT(0, read(fd, queues, sizeof(queues) - 1));
	close(fd);
	/* Where the disks have no queue for it, such a ring is served all the same. */
	polled = variant->flags & IORING_SETUP_IOPOLL && atoi(queues);
	sync();
	before = nvme_interrupts();
	for (i = 0; i < ENTRIES; i++) {
		req.file_offset = i * LEN;
		ASSERT_EQ(4096, one(self, &req, &comp));
		ASSERT_EQ(MXCD_MAS_ROUTE_P2P, comp.route);
		ASSERT_EQ(-1, mas_diff(self->model + i * LEN, self->vram, 4096));
	}
	before = nvme_interrupts() - before;
	if (polled) {
		EXPECT_GT(ENTRIES / 4, before);
	} else {
		/* They would have been seen. */
		EXPECT_LE(ENTRIES / 2, before);
	}
}

TEST_HARNESS_MAIN
