// SPDX-License-Identifier: GPL-2.0
/*
 * Frozen file systems: no transfer writes to one, and none keeps one from freezing
 * once it is over.
 */
#include "mas_utils.h"

#include <linux/fs.h>

#define LEN	(64U * MAS_KIB)

FIXTURE(freeze) {
	int fd;
	int target;
	bool frozen;
	__u32 file;
	struct mxcd_mas_alloc mem;
	unsigned char *vram;
	unsigned char old[LEN];
	unsigned char want[LEN];
	unsigned char found[LEN];
};

FIXTURE_VARIANT(freeze) {
	const char *env;
	__u32 flags;
};

FIXTURE_VARIANT_ADD(freeze, ext4_p2p) {
	.env = "MAS_EXT4",
};

FIXTURE_VARIANT_ADD(freeze, ext4_bounce) {
	.env = "MAS_EXT4", .flags = MXCD_MAS_REQ_BOUNCE,
};

FIXTURE_VARIANT_ADD(freeze, xfs_p2p) {
	.env = "MAS_XFS",
};

FIXTURE_SETUP(freeze)
{
	int file;

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->target = mas_temp(variant->env, 0);
	ASSERT_LE(0, self->target);
	mas_fill(self->old, LEN, 1);
	mas_fill(self->want, LEN, 2);
	ASSERT_TRUE(mas_pwrite(self->target, self->old, LEN, 0));
	ASSERT_EQ(0, fsync(self->target));
	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	self->file = file;
	ASSERT_EQ(0, mas_alloc(self->fd, mas_big_gpu(self->fd), LEN, &self->mem));
	self->vram = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
	memcpy(self->vram, self->want, LEN);
}

FIXTURE_TEARDOWN(freeze)
{
	if (self->frozen)
		ioctl(self->target, FITHAW, 0);
	close(self->target);
	close(self->fd);
}

static struct mxcd_mas_req a_write(struct _test_data_freeze *self, __u32 flags)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, self->file, 0, LEN,
					 self->mem.handle, 0);

	req.flags = flags;
	return req;
}

/* A write that did not let go, or let go twice, would show here. */
TEST_F(freeze, writes_that_are_over_do_not_hold_it_off)
{
	struct mxcd_mas_req req = a_write(self, variant->flags);
	int i;

	for (i = 0; i < 8; i++) {
		ASSERT_EQ(LEN, mas_by_ioctl(self->fd, &req).result);
		ASSERT_EQ(LEN, mas_by_write(self->fd, &req).result);
		ASSERT_EQ(0, ioctl(self->target, FIFREEZE, 0));
		self->frozen = true;
		ASSERT_EQ(0, ioctl(self->target, FITHAW, 0));
		self->frozen = false;
	}
}

TEST_F(freeze, a_write_waits_for_thaw)
{
	struct mxcd_mas_req req = a_write(self, variant->flags);
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, ioctl(self->target, FIFREEZE, 0));
	self->frozen = true;
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	ASSERT_EQ((ssize_t)sizeof(req), write(self->fd, &req, sizeof(req)));
	EXPECT_EQ(0, poll(&pfd, 1, 500));

	ASSERT_EQ(0, ioctl(self->target, FITHAW, 0));
	self->frozen = false;
	ASSERT_EQ(1, poll(&pfd, 1, MAS_PATIENCE_MS));
	ASSERT_EQ((ssize_t)sizeof(comp), read(self->fd, &comp, sizeof(comp)));
	EXPECT_EQ(LEN, comp.result);
	ASSERT_TRUE(mas_pread(self->target, self->found, LEN, 0));
	EXPECT_EQ(-1, mas_diff(self->want, self->found, LEN));
}

TEST_HARNESS_MAIN
