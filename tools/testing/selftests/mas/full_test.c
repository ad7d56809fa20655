// SPDX-License-Identifier: GPL-2.0
/*
 * A file system or a quota that is full: a write fills the room there is, on either
 * route, says how much that was, and the next one meets the error.
 */
#include "mas_utils.h"

#include <linux/dqblk_xfs.h>
#include <sys/mount.h>
#include <sys/quota.h>
#include <sys/statvfs.h>

/* xfs makes room for a cached write in steps of 4 MiB, and so counts in them. */
#define ROOM	(6 * MAS_MIB)
#define WANT	(16 * MAS_MIB)
/* Of the room, ext4 may need some for its maps: of what the direct write left behind. */
#define MAPS	(4 * 4096)
#define OWNER	4242		/* of the file that meets its quota */

FIXTURE(full) {
	char dir[64];
	const char *disk;
	int mas;
	int dir_fd;
	struct mxcd_mas_alloc mem;
	char *vram;
	char *data;
	char *back;
};

FIXTURE_VARIANT(full) {
	const char *env;
	const char *mkfs;
	const char *type;
	const char *options;
	int error;
};

FIXTURE_VARIANT_ADD(full, ext4) {
	.env = "MAS_NVME512", .mkfs = "mkfs.ext4 -q -F -b 4096 %s 200M", .type = "ext4",
	.options = "", .error = -ENOSPC,
};

FIXTURE_VARIANT_ADD(full, ext4_small_blocks) {
	.env = "MAS_NVME512", .mkfs = "mkfs.ext4 -q -F -b 1024 %s 200M", .type = "ext4",
	.options = "", .error = -ENOSPC,
};

FIXTURE_VARIANT_ADD(full, xfs) {
	.env = "MAS_NVME4K", .mkfs = "mkfs.xfs -q -f -d size=320m %s", .type = "xfs",
	.options = "", .error = -ENOSPC,
};

FIXTURE_VARIANT_ADD(full, xfs_quota) {
	.env = "MAS_NVME4K", .mkfs = "mkfs.xfs -q -f -d size=320m %s", .type = "xfs",
	.options = "uquota", .error = -EDQUOT,
};

/* All of the file system but ROOM is taken. */
static int fill_up(int dir_fd)
{
	int fd = openat(dir_fd, "filler", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	off_t step = 64 * MAS_MIB, size = 0;

	if (fd < 0)
		return -errno;
	while (step >= 4096) {
		if (!fallocate(fd, 0, size, step))
			size += step;
		else if (errno == ENOSPC)
			step /= 2;
		else
			return -errno;
	}
	if (size <= ROOM || ftruncate(fd, size - ROOM) || syncfs(fd))
		return -errno;
	close(fd);
	return 0;
}

static int limit_blocks(const char *disk)
{
	struct fs_disk_quota q = {
		.d_version = FS_DQUOT_VERSION, .d_flags = FS_USER_QUOTA, .d_id = OWNER,
		.d_fieldmask = FS_DQ_BHARD, .d_blk_hardlimit = ROOM / 512,
	};

	return quotactl(QCMD(Q_XSETQLIM, USRQUOTA), disk, OWNER, (void *)&q) ? -errno : 0;
}

FIXTURE_SETUP(full)
{
	char command[128];

	self->disk = getenv(variant->env);
	ASSERT_NE(NULL, self->disk);
	snprintf(command, sizeof(command), variant->mkfs, self->disk);
	ASSERT_EQ(0, system(command));
	snprintf(self->dir, sizeof(self->dir), "/tmp/mas_full.%d", getpid());
	ASSERT_EQ(0, mkdir(self->dir, 0700));
	ASSERT_EQ(0, mount(self->disk, self->dir, variant->type, 0, variant->options))
		TH_LOG("%s", strerror(errno));
	self->dir_fd = open(self->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT_LE(0, self->dir_fd);
	ASSERT_EQ(0, variant->error == -EDQUOT ? limit_blocks(self->disk) :
						 fill_up(self->dir_fd));
	self->mas = mas_open(0);
	ASSERT_LE(0, self->mas);
	ASSERT_EQ(0, mas_alloc(self->mas, mas_big_gpu(self->mas), WANT, &self->mem));
	self->vram = mas_map(self->mas, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
	self->data = aligned_alloc(MAS_PAGE, WANT);
	self->back = aligned_alloc(MAS_PAGE, WANT);
	mas_fill(self->data, WANT, 21);
	memcpy(self->vram, self->data, WANT);
}

FIXTURE_TEARDOWN(full)
{
	close(self->mas);
	close(self->dir_fd);
	EXPECT_EQ(0, umount(self->dir));
	rmdir(self->dir);
}

static int new_file(struct _test_data_full *self)
{
	int fd = openat(self->dir_fd, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);

	return fd < 0 || fchown(fd, OWNER, OWNER) ? -errno : fd;
}

/* Gives the room back at once; xfs would do that a little later by itself. */
static void drop_file(struct _test_data_full *self, int fd)
{
	if (ftruncate(fd, 0) || syncfs(self->dir_fd))
		printf("# %s\n", strerror(errno));
	close(fd);
	syncfs(self->dir_fd);
}

/* The first write of a way is read back, so it may move something before it fails. */
static void prove_way(struct __test_metadata *_metadata, struct _test_data_full *self)
{
	int fd = new_file(self), file = mas_register(self->mas, fd);
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, file, 0, 64 * MAS_KIB,
					 self->mem.handle, 0);

	ASSERT_EQ(64 * MAS_KIB, mas_by_ioctl(self->mas, &req).result);
	ASSERT_EQ(0, mas_unregister(self->mas, file));
	drop_file(self, fd);
}

/* What pwrite(2) moves where there is as little room. */
static ssize_t as_pwrite(struct _test_data_full *self, off_t at)
{
	int fd = new_file(self);
	ssize_t ret = pwrite(fd, self->data, WANT, at);

	ret = ret < 0 ? -errno : ret;
	drop_file(self, fd);
	return ret;
}

static void check_offset(struct __test_metadata *_metadata, struct _test_data_full *self,
			 off_t at, int error)
{
	ssize_t want = as_pwrite(self, at);
	int fd = new_file(self), file;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	struct stat st;

	ASSERT_LE(0, fd);
	file = mas_register(self->mas, fd);
	ASSERT_LT(0, file);
	ASSERT_LT(0, want);
	ASSERT_GT(WANT, want);
	req = mas_rw(MXCD_MAS_OP_WRITE, file, at, WANT, self->mem.handle, 0);
	comp = mas_by_ioctl(self->mas, &req);
	EXPECT_GE(want, comp.result)
		TH_LOG("at %lld", (long long)at);
	EXPECT_LE(want - MAPS, comp.result)
		TH_LOG("at %lld", (long long)at);
	ASSERT_LT(0, comp.result);
	EXPECT_EQ(0, comp.p2p_bytes);
	EXPECT_NE(MXCD_MAS_REASON_NONE, comp.reason);
	ASSERT_EQ(0, fsync(fd));
	ASSERT_EQ(0, fstat(fd, &st));
	EXPECT_EQ(at + comp.result, st.st_size);
	ASSERT_TRUE(mas_pread(fd, self->back, comp.result, at));
	EXPECT_EQ(-1, mas_diff(self->data, self->back, comp.result));

	req = mas_rw(MXCD_MAS_OP_WRITE, file, at + comp.result, WANT, self->mem.handle, 0);
	EXPECT_EQ(error, mas_by_ioctl(self->mas, &req).result);
	req.flags = MXCD_MAS_REQ_BOUNCE;
	EXPECT_EQ(error, mas_by_ioctl(self->mas, &req).result);
	ASSERT_EQ(0, fstat(fd, &st));
	EXPECT_EQ(at + comp.result, st.st_size);
	EXPECT_EQ(0, mas_unregister(self->mas, file));
	drop_file(self, fd);
}

/* What goes by write(2) meets the end of the room in a work item. */
static void check_unwaited(struct __test_metadata *_metadata, struct _test_data_full *self)
{
	ssize_t want = as_pwrite(self, 0);
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int fd, file;

	fd = new_file(self);
	ASSERT_LE(0, fd);
	file = mas_register(self->mas, fd);
	ASSERT_LT(0, file);
	req = mas_rw(MXCD_MAS_OP_WRITE, file, 0, WANT, self->mem.handle, 0);
	comp = mas_by_write(self->mas, &req);
	EXPECT_GE(want, comp.result);
	EXPECT_LE(want - MAPS, comp.result);
	EXPECT_EQ(0, mas_unregister(self->mas, file));
	drop_file(self, fd);
}

/* Into a hole, where there is room for a part. */
static void check_hole(struct __test_metadata *_metadata, struct _test_data_full *self)
{
	int fd = new_file(self), file;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	ssize_t want;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, WANT));
	want = pwrite(fd, self->data, WANT, 0);
	ASSERT_LT(0, want);
	drop_file(self, fd);
	fd = new_file(self);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, WANT));
	file = mas_register(self->mas, fd);
	ASSERT_LT(0, file);
	req = mas_rw(MXCD_MAS_OP_WRITE, file, 0, WANT, self->mem.handle, 0);
	comp = mas_by_ioctl(self->mas, &req);
	EXPECT_GE(want, comp.result);
	ASSERT_LE(want - MAPS, comp.result);
	ASSERT_TRUE(mas_pread(fd, self->back, WANT, 0));
	EXPECT_EQ(-1, mas_diff(self->data, self->back, comp.result));
	EXPECT_EQ(-1, mas_not_all(self->back + comp.result, WANT - comp.result, 0));
	EXPECT_EQ(0, mas_unregister(self->mas, file));
	drop_file(self, fd);
}

/* Who refuses bounce is told, and has what is whole. */
static void check_p2p_only(struct __test_metadata *_metadata, struct _test_data_full *self,
			   int error)
{
	int fd = new_file(self), file;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;

	ASSERT_LE(0, fd);
	file = mas_register(self->mas, fd);
	ASSERT_LT(0, file);
	req = mas_rw(MXCD_MAS_OP_WRITE, file, 0, WANT, self->mem.handle, 0);
	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	comp = mas_by_ioctl(self->mas, &req);
	EXPECT_EQ(error, comp.result);
	EXPECT_EQ(0, comp.route);
	EXPECT_EQ(0, mas_unregister(self->mas, file));
	drop_file(self, fd);
}

/* One test, for one file system: to make and to fill it is what takes time. */
TEST_F_TIMEOUT(full, write_moves_what_pwrite_would, 120)
{
	prove_way(_metadata, self);
	check_offset(_metadata, self, 0, variant->error);
	check_offset(_metadata, self, 64 * MAS_KIB, variant->error);
	check_offset(_metadata, self, 4096 + 100, variant->error);
	check_unwaited(_metadata, self);
	check_hole(_metadata, self);
	check_p2p_only(_metadata, self, variant->error);
}

TEST_HARNESS_MAIN
