// SPDX-License-Identifier: GPL-2.0
/*
 * Requests are with a disk that has stopped to answer, and meanwhile happens to the
 * file what can happen to a file. And a disk that stands still holds up nobody who
 * does not use it.
 */
#include "mas_life.h"

#include <sys/mount.h>

#define NR	64U

FIXTURE(file) {
	struct life l;
	char path[PATH_MAX];
	char mount[64];
};

FIXTURE_SETUP(file)
{
	int disk;

	if (!mas_has_host())
		SKIP(return, "needs the host of vmtest.sh");
	ASSERT_NE(NULL, getenv("MAS_EXT4"));
	/* The same file system once more, to be unmounted. */
	snprintf(self->mount, sizeof(self->mount), "/tmp/mas_life.%d", getpid());
	ASSERT_EQ(0, mkdir(self->mount, 0700));
	ASSERT_EQ(0, mount(getenv("MAS_EXT4"), self->mount, NULL, MS_BIND, NULL));
	snprintf(self->path, sizeof(self->path), "%s/life", self->mount);
	disk = open(self->path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	ASSERT_LE(0, disk);
	life_setup(_metadata, &self->l, "mas512-2", disk, 0, -1);
}

FIXTURE_TEARDOWN(file)
{
	if (!mas_has_host())
		return;
	life_teardown(&self->l);
	unlink(self->path);
	umount2(self->mount, MNT_DETACH);
	rmdir(self->mount);
}

TEST_F(file, may_be_unlinked)
{
	struct life *l = &self->l;
	int status;
	pid_t child;

	ASSERT_TRUE(life_submit(l, NR));
	EXPECT_EQ(NR, life_inflight(l->mas));
	ASSERT_EQ(0, mas_unregister(l->mas, l->file));
	ASSERT_EQ(0, close(l->disk));
	l->disk = -1;
	child = fork();
	ASSERT_LE(0, child);
	/* The file system itself may have to wait for the disk. */
	if (!child)
		_exit(unlink(self->path) != 0);
	mas_sleep_ms(300);
	ASSERT_EQ(0, mas_unstall(l->drive));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
}

/* The blocks may go to another file only when the disk is done with them. */
TEST_F(file, is_truncated_after_the_disk_is_done)
{
	struct life *l = &self->l;
	struct stat st;
	int status;
	pid_t child;

	ASSERT_TRUE(life_submit(l, NR));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(ftruncate(l->disk, 0) != 0);
	mas_sleep_ms(300);
	EXPECT_EQ(0, waitpid(child, &status, WNOHANG));
	EXPECT_EQ(NR, life_inflight(l->mas));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, fstat(l->disk, &st));
	EXPECT_EQ(0, st.st_size);
}

TEST_F(file, keeps_its_file_system_mounted)
{
	struct life *l = &self->l;

	ASSERT_TRUE(life_submit(l, NR));
	ASSERT_EQ(0, mas_unregister(l->mas, l->file));
	ASSERT_EQ(0, close(l->disk));
	l->disk = -1;
	EXPECT_EQ(-1, umount(self->mount));
	EXPECT_EQ(EBUSY, errno);
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
	EXPECT_EQ(0, umount(self->mount));
}

/* Freezing waits for writes that are under way; those that come later wait for it. */
TEST_F(file, is_frozen_after_the_disk_is_done)
{
	struct life *l = &self->l;
	int status;
	pid_t child;

	ASSERT_TRUE(life_submit_to(l, l->mas, l->file, l->mem.handle,
				   MXCD_MAS_OP_WRITE, NR));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(mas_shell("fsfreeze -f %s", self->mount));
	mas_sleep_ms(500);
	EXPECT_EQ(0, waitpid(child, &status, WNOHANG));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);

	/* The submitter does not wait. */
	ASSERT_TRUE(life_submit_to(l, l->mas, l->file, l->mem.handle,
				   MXCD_MAS_OP_WRITE, 1));
	mas_sleep_ms(300);
	EXPECT_EQ(1, life_inflight(l->mas));
	ASSERT_EQ(0, mas_shell("fsfreeze -u %s", self->mount));
	EXPECT_EQ(1, life_collect(l->mas, 1, LIFE_LEN));
}

FIXTURE(tenants) {
	struct life l;
	int disk;
	int mas;
	__u32 file;
	struct mxcd_mas_alloc mem;
};

/* The first has the disk that stands still, the second another one. */
FIXTURE_SETUP(tenants)
{
	struct life other = {};
	int disk;

	if (!mas_has_host())
		SKIP(return, "needs the host of vmtest.sh");
	ASSERT_NE(NULL, getenv("MAS_NVME512"));
	ASSERT_NE(NULL, getenv("MAS_NVME4K"));
	disk = open(getenv("MAS_NVME512"), O_RDWR | O_DIRECT | O_CLOEXEC);
	life_setup(_metadata, &self->l, "mas512-1", disk, LIFE_BASE, -1);
	self->disk = open(getenv("MAS_NVME4K"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	other.disk = self->disk;
	other.gpu = self->l.gpu;
	self->mas = life_context(&other, &self->file, &self->mem);
	ASSERT_LE(0, self->mas);
}

FIXTURE_TEARDOWN(tenants)
{
	if (mas_has_host())
		life_teardown(&self->l);
	close(self->mas);
	close(self->disk);
}

/* All ways that a request can take: p2p, an edge, the page cache, a work item. */
static __u64 some_work_ms(struct __test_metadata *_metadata,
			  struct _test_data_tenants *self)
{
	__u64 start = mas_now_ms();
	struct mxcd_mas_req req;
	unsigned int i;

	for (i = 0; i < 300; i++) {
		req = mas_rw(i % 3 ? MXCD_MAS_OP_READ : MXCD_MAS_OP_WRITE, self->file,
			     LIFE_BASE + i * MAS_PAGE + (i % 5 ? 0 : 100), 2 * MAS_PAGE,
			     self->mem.handle, 0);
		req.flags = i % 7 ? 0 : MXCD_MAS_REQ_BOUNCE;
		EXPECT_EQ(2 * MAS_PAGE, mas_by_write(self->mas, &req).result)
			TH_LOG("request %u", i);
	}
	return mas_now_ms() - start;
}

TEST_F(tenants, full_queue_on_a_dead_disk_does_not_slow_another)
{
	struct life *l = &self->l;
	__u64 before, with;
	int i;

	some_work_ms(_metadata, self);
	before = some_work_ms(_metadata, self);
	/* p2p until the disk takes no more, then from work items, until all is full. */
	for (i = 0; i < 4; i++)
		ASSERT_TRUE(life_submit(l, 1024));
	EXPECT_EQ(4096, life_inflight(l->mas));
	with = some_work_ms(_metadata, self);
	TH_LOG("%llu ms alone, %llu ms beside a full queue", before, with);
	/* Emulation is noisy; a wait for the disk would have no end. */
	EXPECT_GT(5 * before + 3000, with);
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(4096, life_collect(l->mas, 4096, LIFE_LEN));
}

TEST_HARNESS_MAIN
