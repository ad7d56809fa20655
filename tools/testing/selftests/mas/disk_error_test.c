// SPDX-License-Identifier: GPL-2.0
/*
 * A disk that fails: the errno is the disk's, the count is that of the bytes in
 * front of the error, nothing old is seen afterwards, and nothing is tried for ever.
 * Wants a kernel with fault injection (fail_make_request).
 */
#include "mas_inject.h"
#include "mas_target.h"

#include <glob.h>

#define LEN		(256U * MAS_KIB)
#define BLOCK		512U
#define MANY		100

static const char *disk;	/* its name in sysfs */

static void disk_make_it_fail(bool fail)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/block/%s/make-it-fail", disk);
	if (mas_put_text(path, fail ? "1" : "0"))
		abort();
}

/* The bios of the disk fail once @pass bytes have gone by, @times times. */
static int disk_fail(__u64 pass, int times)
{
	int ret = number_to_file("fail_make_request", "probability", 100);

	if (!ret)
		ret = number_to_file("fail_make_request", "interval", 1);
	if (!ret)
		ret = number_to_file("fail_make_request", "verbose", 0);
	if (!ret)
		ret = number_to_file("fail_make_request", "space", pass ? pass + 1 : 0);
	if (!ret)
		ret = number_to_file("fail_make_request", "times", times);
	if (!ret)
		disk_make_it_fail(true);
	return ret;
}

/* Returns how often it had failed, of MANY. */
static int disk_heal(void)
{
	char text[16] = "";
	int fd = open(DEBUGFS "fail_make_request/times", O_RDONLY | O_CLOEXEC);

	disk_make_it_fail(false);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		abort();
	close(fd);
	return MANY - atoi(text);
}

/* Proofs read by whatever namespace the controller has, and below multipath. */
static int controller_make_it_fail(struct target *t, bool fail)
{
	struct mxcd_mas_query_file q;
	glob_t found;
	char path[128];
	size_t i;
	int ret = mas_query_file(t->mas, t->file, 0, t->gpu, &q);

	if (ret)
		return ret;
	snprintf(path, sizeof(path),
		 "/sys/bus/pci/devices/%04x:%02x:%02x.%x/nvme/nvme*/nvme*n*/make-it-fail",
		 q.out_storage_domain, q.out_storage_bdf >> 8, q.out_storage_bdf >> 3 & 31,
		 q.out_storage_bdf & 7);
	if (glob(path, 0, NULL, &found))
		return -ENOENT;
	for (i = 0; !ret && i < found.gl_pathc; i++)
		ret = mas_put_text(found.gl_pathv[i], fail ? "1" : "0");
	globfree(&found);
	return ret;
}

static const struct target_kind raw = {
	.env = "MAS_NVME512", .flags = O_DIRECT, .raw = true, .dio = true,
};

FIXTURE(error) {
	struct target t;
};

FIXTURE_SETUP(error)
{
	const char *path = getenv(raw.env);

	if (access(DEBUGFS "fail_make_request", F_OK))
		SKIP(return, "this kernel injects no faults");
	ASSERT_NE(NULL, path);
	disk = strrchr(path, '/') + 1;
	target_setup(_metadata, &self->t, &raw);
	target_put(_metadata, &self->t, 2 * LEN);
	/* An error of a write that is the proof for others would be seen otherwise. */
	check_write(_metadata, &self->t, 0, LEN, 0, 0);
	ASSERT_EQ(0, posix_fadvise(self->t.fd, 0, 0, POSIX_FADV_DONTNEED));
}

FIXTURE_TEARDOWN(error)
{
	if (!disk)
		return;
	disk_make_it_fail(false);
	target_teardown(&self->t);
}

static struct mxcd_mas_comp run(struct target *t, int op, __u64 off, __u64 len, __u32 flags)
{
	struct mxcd_mas_req req = mas_rw(op, t->file, t->base + off, len, t->mem.handle, off);

	req.flags = flags;
	return mas_by_ioctl(t->mas, &req);
}

/* What the disk holds, past and through the page cache. */
static void expect_on_disk(struct __test_metadata *_metadata, struct target *t,
			   const void *want, __u64 off, __u64 len)
{
	void *buf;

	ASSERT_EQ(0, posix_memalign(&buf, MAS_PAGE, LEN));
	ASSERT_TRUE(mas_pread(t->fd, buf, len, t->base + off));
	EXPECT_EQ(-1, mas_diff(want, buf, len));
	ASSERT_EQ(0, off % BLOCK);
	ASSERT_TRUE(mas_pread(t->registered, buf, len & -BLOCK, t->base + off));
	EXPECT_EQ(-1, mas_diff(want, buf, len & -BLOCK));
	free(buf);
}

TEST_F(error, p2p_read_fails_once_and_works_again)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, disk_fail(0, MANY));
	comp = run(t, MXCD_MAS_OP_READ, 0, LEN, MXCD_MAS_REQ_P2P_ONLY);
	EXPECT_EQ(1, disk_heal())
		TH_LOG("it was tried again");
	EXPECT_EQ(-EIO, comp.result);
	EXPECT_EQ(0, comp.p2p_bytes);
	EXPECT_EQ(0, comp.route);
	check_read(_metadata, t, 0, LEN, 0, 0);
}

TEST_F(error, read_counts_what_came_before)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	/* One block for the head edge passes, the body does not. */
	ASSERT_EQ(0, disk_fail(BLOCK, MANY));
	comp = run(t, MXCD_MAS_OP_READ, 100, LEN, 0);
	EXPECT_EQ(1, disk_heal());
	EXPECT_EQ(BLOCK - 100, comp.result);
	EXPECT_EQ(0, comp.p2p_bytes);
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, comp.route);
	EXPECT_EQ(-1, mas_diff(t->model + 100, t->vram + 100, BLOCK - 100));

	/* Head and body pass, the tail does not. */
	memset(t->vram, POISON, SPAN);
	ASSERT_EQ(0, disk_fail(LEN, MANY));
	comp = run(t, MXCD_MAS_OP_READ, 100, LEN, 0);
	EXPECT_EQ(1, disk_heal());
	EXPECT_EQ(LEN - 100, comp.result);
	EXPECT_EQ(LEN - BLOCK, comp.p2p_bytes);
	EXPECT_EQ(-1, mas_diff(t->model + 100, t->vram + 100, LEN - 100));
	EXPECT_EQ(-1, mas_not_all(t->vram + LEN, GUARD, POISON));
}

TEST_F(error, bounced_read_counts_what_came_before)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	memset(t->vram, POISON, SPAN);
	ASSERT_EQ(0, disk_fail(LEN / 2, -1));
	comp = run(t, MXCD_MAS_OP_READ, 0, 2 * LEN, MXCD_MAS_REQ_BOUNCE);
	disk_heal();
	ASSERT_LT(0, comp.result);
	ASSERT_GT(2 * LEN, comp.result);
	EXPECT_EQ(-1, mas_diff(t->model, t->vram, comp.result));
	EXPECT_EQ(-1, mas_not_all(t->vram + comp.result, 2 * LEN - comp.result, POISON));
	check_read(_metadata, t, 0, 2 * LEN, 0, MXCD_MAS_REQ_BOUNCE);
}

TEST_F(error, bounced_read_that_finds_nothing_fails)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, disk_fail(0, -1));
	comp = run(t, MXCD_MAS_OP_READ, 0, MAS_PAGE, MXCD_MAS_REQ_BOUNCE);
	disk_heal();
	EXPECT_EQ(-EIO, comp.result);
	check_read(_metadata, t, 0, MAS_PAGE, 0, MXCD_MAS_REQ_BOUNCE);
}

TEST_F(error, p2p_write_that_fails_leaves_the_old_bytes)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	/* The page cache holds what the disk holds, and has to go on doing so. */
	ASSERT_TRUE(mas_pread(t->fd, t->buf, LEN, t->base));
	memset(t->vram, POISON, LEN);
	ASSERT_EQ(0, disk_fail(0, MANY));
	comp = run(t, MXCD_MAS_OP_WRITE, 0, LEN, MXCD_MAS_REQ_P2P_ONLY);
	EXPECT_EQ(1, disk_heal());
	EXPECT_EQ(-EIO, comp.result);
	EXPECT_EQ(0, comp.route);
	expect_on_disk(_metadata, t, t->model, 0, LEN);
	check_write(_metadata, t, 0, LEN, 0, 0);
}

/* The block is read to host memory, and the read to VRAM fails. */
TEST_F(error, disk_that_fails_during_the_proof_of_reads_fails_no_proof)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, disk_fail(MAS_PAGE, 1));
	ASSERT_EQ(0, controller_make_it_fail(t, true));
	ASSERT_EQ(0, mas_set_fault(0));		/* nothing is proved now */
	comp = check_read(_metadata, t, 0, LEN, 0, MXCD_MAS_REQ_P2P_ONLY);
	EXPECT_EQ(0, controller_make_it_fail(t, false));
	EXPECT_EQ(MANY, disk_heal())
		TH_LOG("nothing has failed");
	EXPECT_EQ(LEN, comp.p2p_bytes);
}

/* What one bad block says of the disk is nothing that the way to VRAM has to do with. */
TEST_F(error, disk_that_fails_during_the_proof_of_writes_fails_no_proof)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, mas_set_fault(0));		/* nothing is proved now */
	ASSERT_EQ(0, disk_fail(0, 1));
	comp = check_write(_metadata, t, 0, LEN, 0, MXCD_MAS_REQ_P2P_ONLY);
	EXPECT_EQ(MANY, disk_heal())
		TH_LOG("nothing has failed");
	EXPECT_EQ(LEN, comp.p2p_bytes);

	ASSERT_EQ(0, mas_set_fault(0));
	memset(t->vram, POISON, LEN);
	ASSERT_EQ(0, disk_fail(0, MANY));
	comp = run(t, MXCD_MAS_OP_WRITE, 0, LEN, 0);
	EXPECT_GT(MANY / 2, disk_heal())
		TH_LOG("it was tried again and again");
	EXPECT_EQ(-EIO, comp.result);
	expect_on_disk(_metadata, t, t->model, 0, LEN);
	comp = check_write(_metadata, t, 0, LEN, 0, 0);
	EXPECT_EQ(LEN, comp.p2p_bytes);
	EXPECT_EQ(MXCD_MAS_REASON_NONE, comp.reason);
}

/* One good block in front of bad ones says nothing against the way, and nothing for them. */
TEST_F(error, error_of_a_write_that_is_not_proved_is_told)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	int i;

	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, mas_set_fault(0));
		ASSERT_EQ(0, disk_fail(MAS_PAGE, MANY));
		comp = run(t, MXCD_MAS_OP_WRITE, 0, LEN, 0);
		disk_heal();
		EXPECT_EQ(-EIO, comp.result)
			TH_LOG("round %d", i);
	}
	check_write(_metadata, t, 0, LEN, 0, 0);
	check_read(_metadata, t, 0, LEN, 0, 0);
}

TEST_F(error, write_counts_what_came_before)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	memset(t->vram, POISON, LEN);
	ASSERT_EQ(0, disk_fail(MAS_PAGE, MANY));
	comp = run(t, MXCD_MAS_OP_WRITE, 4000, LEN, 0);
	EXPECT_EQ(1, disk_heal());
	EXPECT_EQ(96, comp.result);
	EXPECT_EQ(0, comp.p2p_bytes);
	ASSERT_EQ(0, fsync(t->fd));
	memset(t->model + 4000, POISON, 96);
	expect_on_disk(_metadata, t, t->model, 0, LEN);
}

TEST_F(error, fsync_tells_once_what_was_not_written)
{
	struct target *t = &self->t;
	struct mxcd_mas_req sync = { .op = MXCD_MAS_OP_FSYNC, .file = t->file };

	memset(t->vram, POISON, LEN);
	ASSERT_EQ(LEN, run(t, MXCD_MAS_OP_WRITE, 0, LEN, MXCD_MAS_REQ_BOUNCE).result);
	ASSERT_EQ(0, disk_fail(0, -1));
	EXPECT_EQ(-EIO, mas_by_ioctl(t->mas, &sync).result);
	disk_heal();
	EXPECT_EQ(0, mas_by_ioctl(t->mas, &sync).result);
}

/* One of many fails; the others do not hear of it. */
TEST_F(error, one_of_a_batch_fails_alone)
{
	struct mxcd_mas_req reqs[16];
	struct mxcd_mas_comp comps[16];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = 16, .min_nr = 16,
	};
	struct target *t = &self->t;
	int i, failed = 0;

	for (i = 0; i < 16; i++)
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, t->file, t->base + i * MAS_PAGE, MAS_PAGE,
				 t->mem.handle, i * MAS_PAGE);
	memset(t->vram, POISON, 16 * MAS_PAGE);
	ASSERT_EQ(0, disk_fail(5 * MAS_PAGE, 1));
	ASSERT_EQ(0, mas_ioctl(t->mas, MXCD_MAS_TRANSFER, &arg));
	disk_heal();
	ASSERT_EQ(16, arg.out_completed);
	for (i = 0; i < 16; i++) {
		if (comps[i].result == -EIO) {
			failed++;
			continue;
		}
		EXPECT_EQ(MAS_PAGE, comps[i].result);
		EXPECT_EQ(-1, mas_diff(t->model + i * MAS_PAGE, t->vram + i * MAS_PAGE,
				       MAS_PAGE));
	}
	EXPECT_EQ(1, failed);
}

TEST_F(error, links_behind_a_failure_are_cancelled)
{
	struct mxcd_mas_req reqs[3];
	struct mxcd_mas_comp comps[3];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = 3, .min_nr = 3,
	};
	struct target *t = &self->t;
	int i;

	for (i = 0; i < 3; i++) {
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, t->file, t->base, MAS_PAGE, t->mem.handle, 0);
		reqs[i].flags = i < 2 ? MXCD_MAS_REQ_LINK : 0;
	}
	ASSERT_EQ(0, disk_fail(MAS_PAGE, MANY));
	ASSERT_EQ(0, mas_ioctl(t->mas, MXCD_MAS_TRANSFER, &arg));
	EXPECT_EQ(1, disk_heal());
	ASSERT_EQ(3, arg.out_completed);
	EXPECT_EQ(MAS_PAGE, comps[0].result);
	EXPECT_EQ(-EIO, comps[1].result);
	EXPECT_EQ(-ECANCELED, comps[2].result);
}

TEST_HARNESS_MAIN
