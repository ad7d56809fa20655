// SPDX-License-Identifier: GPL-2.0
/*
 * Order among requests: links, drains, fsync, cancelling; and who is told of
 * completions: eventfd, inotify.
 */
#include "mas_utils.h"

#include <sys/eventfd.h>
#include <sys/inotify.h>

#define LEN	65536U
#define SPAN	(4 * MAS_MIB)

FIXTURE(order) {
	int fd;
	int target;
	__u32 file;
	struct mxcd_mas_alloc mem;
	unsigned char *vram;
};

FIXTURE_SETUP(order)
{
	int file;

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->target = mas_temp("MAS_EXT4", O_DIRECT);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ftruncate(self->target, SPAN));
	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	self->file = file;
	ASSERT_EQ(0, mas_alloc(self->fd, mas_big_gpu(self->fd), SPAN, &self->mem));
	self->vram = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
}

FIXTURE_TEARDOWN(order)
{
	close(self->target);
	close(self->fd);
}

static struct mxcd_mas_req rw(struct _test_data_order *self, int op, __u64 off, __u64 len,
			      __u64 mem, __u32 flags)
{
	struct mxcd_mas_req req = mas_rw(op, self->file, off, len, self->mem.handle, mem);

	req.flags = flags;
	return req;
}

/* Submit, and wait for all results. */
static void run(struct __test_metadata *_metadata, int fd, struct mxcd_mas_req *reqs,
		struct mxcd_mas_comp *comps, __u32 nr)
{
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = nr, .min_nr = nr,
	};

	ASSERT_EQ(0, mas_ioctl(fd, MXCD_MAS_TRANSFER, &arg));
	ASSERT_EQ(nr, arg.out_submitted);
	ASSERT_EQ(nr, arg.out_completed);
}

/* Each link reads back what the one before wrote, through the file. */
TEST_F(order, linked_requests_run_one_after_the_other)
{
	struct mxcd_mas_req reqs[16];
	struct mxcd_mas_comp comps[16];
	int i, round;

	for (round = 0; round < 8; round++) {
		memset(self->vram, 0, 9 * LEN);
		mas_fill(self->vram, LEN, round);
		for (i = 0; i < 8; i++) {
			reqs[2 * i] = rw(self, MXCD_MAS_OP_WRITE, i * LEN, LEN, i * LEN,
					 MXCD_MAS_REQ_LINK);
			reqs[2 * i + 1] = rw(self, MXCD_MAS_OP_READ, i * LEN, LEN,
					     (i + 1) * LEN, MXCD_MAS_REQ_LINK);
		}
		reqs[15].flags = 0;
		run(_metadata, self->fd, reqs, comps, 16);
		for (i = 0; i < 16; i++)
			EXPECT_EQ(LEN, comps[i].result);
		EXPECT_EQ(-1, mas_diff(self->vram, self->vram + 8 * LEN, LEN));
	}
}

TEST_F(order, what_is_linked_behind_a_failure_is_cancelled)
{
	struct mxcd_mas_req reqs[5] = {
		rw(self, MXCD_MAS_OP_WRITE, 0, LEN, 0, MXCD_MAS_REQ_LINK),
		/* Falls short: the file ends there. */
		rw(self, MXCD_MAS_OP_READ, SPAN - LEN / 2, LEN, 0, MXCD_MAS_REQ_LINK),
		rw(self, MXCD_MAS_OP_WRITE, LEN, LEN, 0, MXCD_MAS_REQ_LINK),
		rw(self, MXCD_MAS_OP_READ, 0, LEN, 0, 0),
		rw(self, MXCD_MAS_OP_READ, 0, LEN, LEN, 0),
	};
	struct mxcd_mas_comp comps[5];

	run(_metadata, self->fd, reqs, comps, 5);
	EXPECT_EQ(LEN, comps[0].result);
	EXPECT_EQ(LEN / 2, comps[1].result);
	EXPECT_EQ(-ECANCELED, comps[2].result);
	EXPECT_EQ(0, comps[2].route);
	EXPECT_EQ(-ECANCELED, comps[3].result);
	/* No link leads here. */
	EXPECT_EQ(LEN, comps[4].result);
}

TEST_F(order, one_call_registers_transfers_and_unregisters)
{
	struct mxcd_mas_req reqs[3] = {
		{ .op = MXCD_MAS_OP_REGISTER, .file = 77, .arg = self->target,
		  .flags = MXCD_MAS_REQ_LINK },
		mas_rw(MXCD_MAS_OP_WRITE, 77, 0, LEN, self->mem.handle, 0),
		{ .op = MXCD_MAS_OP_UNREGISTER, .file = 77 },
	};
	struct mxcd_mas_comp comps[3];

	reqs[1].flags = MXCD_MAS_REQ_LINK;
	run(_metadata, self->fd, reqs, comps, 3);
	EXPECT_EQ(77, comps[0].result);
	EXPECT_EQ(LEN, comps[1].result);
	EXPECT_EQ(0, comps[2].result);
	EXPECT_EQ(-ENOENT, mas_unregister(self->fd, 77));

	/* Where registering fails, nothing that hangs on it is done. */
	reqs[0].arg = 9999;
	run(_metadata, self->fd, reqs, comps, 3);
	EXPECT_EQ(-EBADF, comps[0].result);
	EXPECT_EQ(-ECANCELED, comps[1].result);
	EXPECT_EQ(-ECANCELED, comps[2].result);
}

TEST_F(order, drained_request_sees_all_that_came_before)
{
	struct mxcd_mas_req reqs[33];
	struct mxcd_mas_comp comps[33];
	int i, round;

	for (round = 0; round < 8; round++) {
		mas_fill(self->vram, 32 * LEN, round);
		memset(self->vram + 32 * LEN, 0, 32 * LEN);
		for (i = 0; i < 32; i++)
			reqs[i] = rw(self, MXCD_MAS_OP_WRITE, i * LEN, LEN, i * LEN, 0);
		reqs[32] = rw(self, MXCD_MAS_OP_READ, 0, 32 * LEN, 32 * LEN,
			      MXCD_MAS_REQ_DRAIN);
		run(_metadata, self->fd, reqs, comps, 33);
		for (i = 0; i < 32; i++)
			EXPECT_EQ(LEN, comps[i].result);
		EXPECT_EQ(32 * LEN, comps[32].result);
		EXPECT_EQ(-1, mas_diff(self->vram, self->vram + 32 * LEN, 32 * LEN));
	}
}

TEST_F(order, fsync_fdatasync_and_flush)
{
	struct mxcd_mas_req reqs[4] = {
		rw(self, MXCD_MAS_OP_WRITE, 100, LEN, 0, MXCD_MAS_REQ_LINK),
		{ .op = MXCD_MAS_OP_FSYNC, .file = self->file, .flags = MXCD_MAS_REQ_LINK },
		{ .op = MXCD_MAS_OP_FDATASYNC, .file = self->file,
		  .flags = MXCD_MAS_REQ_DRAIN | MXCD_MAS_REQ_LINK },
		{ .op = MXCD_MAS_OP_FLUSH, .handle = self->mem.handle },
	};
	struct mxcd_mas_comp comps[4];
	int i;

	run(_metadata, self->fd, reqs, comps, 4);
	EXPECT_EQ(LEN, comps[0].result);
	for (i = 1; i < 4; i++)
		EXPECT_EQ(0, comps[i].result);
	/* Nothing is left for sync_file_range() to do. */
	EXPECT_EQ(0, sync_file_range(self->target, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE));

	reqs[1].file = self->file + 1;
	reqs[3].handle = self->mem.handle + 1;
	EXPECT_EQ(-ENOENT, mas_by_ioctl(self->fd, &reqs[1]).result);
	EXPECT_EQ(-ENOENT, mas_by_ioctl(self->fd, &reqs[3]).result);
	reqs[1].file = self->target;
	reqs[1].flags = MXCD_MAS_REQ_FD;
	EXPECT_EQ(0, mas_by_ioctl(self->fd, &reqs[1]).result);
}

/* The second waits for the first, and is told meanwhile that it is not wanted. */
TEST_F(order, waiting_transfer_can_be_cancelled)
{
	struct mxcd_mas_req reqs[3] = {
		rw(self, MXCD_MAS_OP_WRITE, 0, SPAN / 2, 0, MXCD_MAS_REQ_BOUNCE),
		rw(self, MXCD_MAS_OP_READ, 0, LEN, SPAN / 2, MXCD_MAS_REQ_DRAIN),
		{ .op = MXCD_MAS_OP_CANCEL, .mem_offset = 0xcafe },
	};
	struct mxcd_mas_comp comps[3];

	mas_fill(self->vram, LEN, 5);
	reqs[1].user_data = 0xcafe;
	run(_metadata, self->fd, reqs, comps, 3);
	EXPECT_EQ(SPAN / 2, comps[0].result);
	EXPECT_EQ(-ECANCELED, comps[1].result);
	EXPECT_EQ(1, comps[2].result);
	EXPECT_EQ(-1, mas_not_all(self->vram + SPAN / 2, LEN, 0));
	EXPECT_EQ(-ENOENT, mas_by_ioctl(self->fd, &reqs[2]).result);
}

TEST_F(order, eventfd_counts_what_read_can_collect)
{
	struct mxcd_mas_eventfd arg = { .size = sizeof(arg) };
	struct mxcd_mas_req reqs[8];
	struct mxcd_mas_comp comps[8];
	struct pollfd pfd;
	__u64 sum = 0, n;
	int i;

	arg.fd = eventfd(0, EFD_CLOEXEC);
	ASSERT_LE(0, arg.fd);
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_EVENTFD, &arg));
	for (i = 0; i < 8; i++)
		reqs[i] = rw(self, MXCD_MAS_OP_WRITE, i * LEN, LEN, i * LEN, 0);
	ASSERT_EQ(sizeof(reqs), write(self->fd, reqs, sizeof(reqs)));
	pfd = (struct pollfd){ .fd = arg.fd, .events = POLLIN };
	while (sum < 8) {
		ASSERT_EQ(1, poll(&pfd, 1, MAS_PATIENCE_MS));
		ASSERT_EQ(8, read(arg.fd, &n, 8));
		sum += n;
	}
	EXPECT_EQ(8, sum);
	EXPECT_EQ(sizeof(comps), read(self->fd, comps, sizeof(comps)));
	/* Results in place are not announced. */
	run(_metadata, self->fd, reqs, comps, 8);
	EXPECT_EQ(0, poll(&pfd, 1, 0));

	arg.fd = self->target;
	EXPECT_EQ(-EINVAL, mas_ioctl(self->fd, MXCD_MAS_EVENTFD, &arg));
	arg.fd = 9999;
	EXPECT_EQ(-EBADF, mas_ioctl(self->fd, MXCD_MAS_EVENTFD, &arg));
	arg.fd = -1;
	EXPECT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_EVENTFD, &arg));
}

/* Results that move from a batch to the queue are announced there. */
TEST_F(order, results_not_waited_for_raise_the_eventfd)
{
	struct mxcd_mas_eventfd event = { .size = sizeof(event) };
	struct mxcd_mas_req req = rw(self, MXCD_MAS_OP_WRITE, 0, SPAN / 2, 0,
				     MXCD_MAS_REQ_BOUNCE);
	struct mxcd_mas_comp comp;
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(&req), .comps = mas_ptr(&comp),
		.nr = 1,
	};
	struct pollfd pfd;
	__u64 n = 0;

	event.fd = eventfd(0, EFD_CLOEXEC);
	ASSERT_LE(0, event.fd);
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_EVENTFD, &event));
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	EXPECT_EQ(1, arg.out_submitted);
	if (arg.out_completed)
		return;
	EXPECT_EQ(-EINPROGRESS, comp.result);
	pfd = (struct pollfd){ .fd = event.fd, .events = POLLIN };
	ASSERT_EQ(1, poll(&pfd, 1, MAS_PATIENCE_MS));
	EXPECT_EQ(8, read(event.fd, &n, 8));
	EXPECT_EQ(1, n);
	ASSERT_EQ(32, read(self->fd, &comp, sizeof(comp)));
	EXPECT_EQ(SPAN / 2, comp.result);
}

/* What cannot be told is not done. */
TEST_F(order, results_without_a_place_are_EFAULT_before_anything_is_done)
{
	struct mxcd_mas_req reqs[2] = {
		rw(self, MXCD_MAS_OP_WRITE, 0, LEN, 0, 0),
		rw(self, MXCD_MAS_OP_WRITE, LEN, LEN, 0, 0),
	};
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = 4096, .nr = 2,
		.min_nr = 2,
	};
	struct mxcd_mas_comp *comps;
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };
	char *pages, byte;

	mas_fill(self->vram, LEN, 9);
	EXPECT_EQ(-EFAULT, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	EXPECT_EQ(0, poll(&pfd, 1, 100));
	ASSERT_EQ(1, pread(mas_reopen(self->target, O_RDONLY), &byte, 1, 1));
	EXPECT_EQ(0, byte);
	/* Room for one of two: one is done. */
	pages = mmap(NULL, 2 * MAS_PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_EQ(0, munmap(pages + MAS_PAGE, MAS_PAGE));
	comps = (void *)(pages + MAS_PAGE - sizeof(*comps));
	arg.comps = mas_ptr(comps);
	EXPECT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	EXPECT_EQ(1, arg.out_submitted);
	EXPECT_EQ(1, arg.out_completed);
	EXPECT_EQ(LEN, comps->result);
	/* A chain that is cut there is cancelled: its order could not be kept. */
	reqs[0].flags = MXCD_MAS_REQ_LINK;
	EXPECT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	EXPECT_EQ(1, arg.out_submitted);
	EXPECT_EQ(-ECANCELED, comps->result);
}

static __u32 events_of(int notify)
{
	union {
		struct inotify_event event;
		char bytes[4096];
	} buf;
	ssize_t len = read(notify, &buf, sizeof(buf));
	__u32 mask = 0;
	ssize_t i;

	for (i = 0; i < len; i += sizeof(struct inotify_event) +
	     ((struct inotify_event *)(buf.bytes + i))->len)
		mask |= ((struct inotify_event *)(buf.bytes + i))->mask;
	return mask;
}

TEST_F(order, who_watches_the_file_is_told)
{
	static const __u32 flags[] = { MXCD_MAS_REQ_P2P_ONLY, MXCD_MAS_REQ_BOUNCE };
	struct mxcd_mas_req req;
	char path[64];
	int notify, i;

	notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	ASSERT_LE(0, notify);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", self->target);
	ASSERT_LE(0, inotify_add_watch(notify, path, IN_ACCESS | IN_MODIFY));
	for (i = 0; i < 2; i++) {
		req = rw(self, MXCD_MAS_OP_WRITE, 0, LEN, 0, flags[i]);
		EXPECT_EQ(LEN, mas_by_ioctl(self->fd, &req).result);
		EXPECT_EQ(IN_MODIFY, events_of(notify));
		req.op = MXCD_MAS_OP_READ;
		EXPECT_EQ(LEN, mas_by_write(self->fd, &req).result);
		EXPECT_EQ(IN_ACCESS, events_of(notify));
	}
}

TEST_HARNESS_MAIN
