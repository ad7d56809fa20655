// SPDX-License-Identifier: GPL-2.0
/*
 * ioctl(MXCD_MAS_RESTRICT): a context is narrowed, for good, for all who have its
 * descriptor.
 */
#include "mas_utils.h"

#include <sys/wait.h>

#define NOBODY	65534

FIXTURE(restricted) {
	int fd;
	int target;
	int gpu;
	struct mxcd_mas_restrict arg;
	struct mxcd_mas_alloc mem;
	__u32 file;
};

FIXTURE_SETUP(restricted)
{
	char page[MAS_PAGE] = "content";
	int file;

	self->fd = mas_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd);
	self->gpu = mas_big_gpu(self->fd);
	ASSERT_LE(0, self->gpu);
	self->target = mas_temp("MAS_EXT4", 0);
	ASSERT_LE(0, self->target);
	ASSERT_TRUE(mas_pwrite(self->target, page, sizeof(page), 0));
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, MAS_MIB, &self->mem));
	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	self->file = file;
	mas_no_limits(&self->arg);
}

FIXTURE_TEARDOWN(restricted)
{
	close(self->target);
	close(self->fd);
}

static struct mxcd_mas_req read_page(struct _test_data_restricted *self)
{
	return mas_rw(MXCD_MAS_OP_READ, self->file, 0, MAS_PAGE, self->mem.handle, 0);
}

static int restrict_to(struct _test_data_restricted *self)
{
	return mas_ioctl(self->fd, MXCD_MAS_RESTRICT, &self->arg);
}

TEST_F(restricted, no_limit_changes_nothing)
{
	struct mxcd_mas_query before = { .size = sizeof(before) };
	struct mxcd_mas_query after = { .size = sizeof(after) };
	__s64 vram_free = mas_vram_free(self->fd, self->gpu);
	struct mxcd_mas_req req = read_page(self);

	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &before));
	ASSERT_EQ(0, restrict_to(self));
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &after));
	EXPECT_EQ(0, memcmp(&before, &after, sizeof(after)));
	EXPECT_EQ(vram_free, mas_vram_free(self->fd, self->gpu));
	EXPECT_EQ(MAS_PAGE, mas_by_ioctl(self->fd, &req).result);
	EXPECT_NE(MAP_FAILED, mas_map(self->fd, &self->mem));
}

TEST_F(restricted, queue_of_nothing_is_EINVAL)
{
	self->arg.max_queue = 0;
	EXPECT_EQ(-EINVAL, restrict_to(self));
}

/* Each operation alone is taken away, and is what fails. */
TEST_F(restricted, operation_that_is_not_allowed_is_EPERM)
{
	struct mxcd_mas_req req;
	int op, fd;

	for (op = MXCD_MAS_OP_READ; op <= MXCD_MAS_OP_POKE; op++) {
		memset(&req, 0, sizeof(req));
		req.op = op;
		if (op == MXCD_MAS_OP_QUERY)
			req.key = MXCD_MAS_KEY_VERSION;
		fd = mas_open(O_NONBLOCK);
		ASSERT_LE(0, fd);
		EXPECT_NE(-EPERM, mas_by_ioctl(fd, &req).result)
			TH_LOG("operation %d", op);
		mas_no_limits(&self->arg);
		self->arg.ops = ~(1ULL << op);
		ASSERT_EQ(0, mas_ioctl(fd, MXCD_MAS_RESTRICT, &self->arg));
		EXPECT_EQ(-EPERM, mas_by_ioctl(fd, &req).result)
			TH_LOG("operation %d", op);
		EXPECT_EQ(-EPERM, mas_by_write(fd, &req).result)
			TH_LOG("operation %d", op);
		close(fd);
	}
}

TEST_F(restricted, its_ioctl_is_EPERM_as_well)
{
	struct mxcd_mas_query_file query;
	struct mxcd_mas_query all = { .size = sizeof(all) };
	struct mxcd_mas_query_gpu gpu;
	struct mxcd_mas_alloc mem;

	self->arg.ops = 0;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(-EPERM, mas_alloc(self->fd, self->gpu, 1, &mem));
	EXPECT_EQ(-EPERM, mas_free(self->fd, self->mem.handle));
	EXPECT_EQ(-EPERM, mas_register(self->fd, self->target));
	EXPECT_EQ(-EPERM, mas_unregister(self->fd, self->file));
	EXPECT_EQ(-EPERM, mas_query_gpu(self->fd, self->gpu, &gpu));
	EXPECT_EQ(-EPERM, mas_query_file(self->fd, self->file, 0, self->gpu, &query));
	EXPECT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &all));
}

TEST_F(restricted, unknown_operation_stays_EOPNOTSUPP)
{
	struct mxcd_mas_req req = { .op = 0xfff0 };

	self->arg.ops = 0;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(-EOPNOTSUPP, mas_by_ioctl(self->fd, &req).result);
}

TEST_F(restricted, mapping_that_is_not_allowed_is_EPERM)
{
	void *before = mas_map(self->fd, &self->mem);

	ASSERT_NE(MAP_FAILED, before);
	self->arg.ops = ~1ULL;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(MAP_FAILED, mas_map(self->fd, &self->mem));
	EXPECT_EQ(EPERM, errno);
	/* What it has, it keeps. */
	memset(before, 0, self->mem.length);
}

TEST_F(restricted, flag_that_is_not_allowed_is_EPERM)
{
	struct mxcd_mas_req req = read_page(self);

	self->arg.req_flags = ~(MXCD_MAS_REQ_FD | MXCD_MAS_REQ_BOUNCE);
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(MAS_PAGE, mas_by_ioctl(self->fd, &req).result);
	req.flags = MXCD_MAS_REQ_BOUNCE;
	EXPECT_EQ(-EPERM, mas_by_ioctl(self->fd, &req).result);
	req.flags = MXCD_MAS_REQ_FD;
	req.file = self->target;
	EXPECT_EQ(-EPERM, mas_by_ioctl(self->fd, &req).result);
}

TEST_F(restricted, gpu_out_of_the_mask_is_ENOENT)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct mxcd_mas_req req = read_page(self);
	struct mxcd_mas_alloc mem;

	self->arg.gpus = ~(1ULL << self->gpu);
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(-ENOENT, mas_alloc(self->fd, self->gpu, 1, &mem));
	EXPECT_EQ(-ENOENT, mas_vram_free(self->fd, self->gpu));
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &q));
	EXPECT_EQ(0, q.out_gpus & (1ULL << self->gpu));
	EXPECT_NE(0, q.out_gpus);
	/* A broker may have allocated there before. */
	EXPECT_EQ(MAS_PAGE, mas_by_ioctl(self->fd, &req).result);
}

TEST_F(restricted, vram_beyond_the_quota_is_EDQUOT)
{
	struct mxcd_mas_alloc more, one;

	self->arg.max_vram = 3 * MAS_MIB;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(2 * MAS_MIB, mas_vram_free(self->fd, self->gpu));
	EXPECT_EQ(-EDQUOT, mas_alloc(self->fd, self->gpu, 2 * MAS_MIB + 1, &more));
	EXPECT_EQ(2 * MAS_MIB, mas_vram_free(self->fd, self->gpu));
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, 2 * MAS_MIB, &more));
	EXPECT_EQ(0, mas_vram_free(self->fd, self->gpu));
	EXPECT_EQ(-EDQUOT, mas_alloc(self->fd, self->gpu, 1, &one));
	EXPECT_EQ(0, mas_free(self->fd, more.handle));
	EXPECT_EQ(0, mas_alloc(self->fd, self->gpu, 1, &one));
}

TEST_F(restricted, freed_memory_that_is_mapped_counts)
{
	void *map = mas_map(self->fd, &self->mem);
	struct mxcd_mas_alloc mem;

	ASSERT_NE(MAP_FAILED, map);
	self->arg.max_vram = MAS_MIB;
	ASSERT_EQ(0, restrict_to(self));
	ASSERT_EQ(0, mas_free(self->fd, self->mem.handle));
	EXPECT_EQ(-EDQUOT, mas_alloc(self->fd, self->gpu, MAS_MIB, &mem));
	ASSERT_EQ(0, munmap(map, self->mem.length));
	EXPECT_EQ(0, mas_alloc(self->fd, self->gpu, MAS_MIB, &mem));
}

TEST_F(restricted, quota_below_what_there_is_takes_nothing_away)
{
	struct mxcd_mas_req req = read_page(self);
	struct mxcd_mas_alloc mem;

	self->arg.max_vram = 0;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(MAS_PAGE, mas_by_ioctl(self->fd, &req).result);
	EXPECT_EQ(-EDQUOT, mas_alloc(self->fd, self->gpu, 1, &mem));
	EXPECT_EQ(0, mas_vram_free(self->fd, self->gpu));
}

TEST_F(restricted, quota_is_of_one_context)
{
	struct mxcd_mas_alloc mem;
	int other = mas_open(0);

	self->arg.max_vram = 0;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(0, mas_alloc(other, self->gpu, MAS_MIB, &mem));
	close(other);
}

TEST_F(restricted, files_beyond_the_limit_are_EMFILE)
{
	int file;

	self->arg.max_files = 2;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(2, mas_key(self->fd, MXCD_MAS_KEY_MAX_FILES, 0, 0, 0));
	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	EXPECT_EQ(-EMFILE, mas_register(self->fd, self->target));
	EXPECT_EQ(0, mas_unregister(self->fd, file));
	EXPECT_LT(0, mas_register(self->fd, self->target));
}

TEST_F(restricted, queue_is_full_earlier)
{
	struct mxcd_mas_req reqs[3] = {
		read_page(self), read_page(self), read_page(self)
	};
	struct pollfd pfd = { .fd = self->fd, .events = POLLOUT };
	struct mxcd_mas_comp comps[3];

	self->arg.max_queue = 2;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(2, mas_key(self->fd, MXCD_MAS_KEY_MAX_QUEUE, 0, 0, 0));
	EXPECT_EQ(2 * sizeof(*reqs), write(self->fd, reqs, sizeof(reqs)));
	EXPECT_EQ(-1, write(self->fd, reqs, sizeof(*reqs)));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	pfd.events = POLLIN;
	ASSERT_EQ(1, poll(&pfd, 1, MAS_PATIENCE_MS));
	ASSERT_LT(0, read(self->fd, comps, sizeof(comps)));
	EXPECT_EQ(sizeof(*reqs), write(self->fd, reqs, sizeof(*reqs)));
}

TEST_F(restricted, there_is_no_way_back)
{
	struct mxcd_mas_req req = { .op = MXCD_MAS_OP_CANCEL };
	struct mxcd_mas_alloc mem;

	self->arg.ops = ~(1ULL << MXCD_MAS_OP_CANCEL);
	self->arg.max_vram = 2 * MAS_MIB;
	self->arg.max_files = 1;
	ASSERT_EQ(0, restrict_to(self));
	mas_no_limits(&self->arg);
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(-EPERM, mas_by_ioctl(self->fd, &req).result);
	EXPECT_EQ(-EDQUOT, mas_alloc(self->fd, self->gpu, 2 * MAS_MIB, &mem));
	EXPECT_EQ(-EMFILE, mas_register(self->fd, self->target));
	self->arg.max_vram = MAS_MIB;
	ASSERT_EQ(0, restrict_to(self));
	EXPECT_EQ(-EDQUOT, mas_alloc(self->fd, self->gpu, 1, &mem));
}

/*
 * What a broker does: prepares a context, narrows it to transfers and lets somebody
 * else have it.
 */
TEST_F(restricted, client_of_a_broker_moves_data_and_no_more)
{
	struct mxcd_mas_req req = read_page(self);
	struct mxcd_mas_alloc mem;
	int status;
	pid_t child;

	self->arg.ops = 1ULL << MXCD_MAS_OP_READ;
	self->arg.req_flags = 0;
	ASSERT_EQ(0, restrict_to(self));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(1);
		if (mas_by_ioctl(self->fd, &req).result != MAS_PAGE)
			_exit(2);
		req.op = MXCD_MAS_OP_WRITE;
		if (mas_by_ioctl(self->fd, &req).result != -EPERM)
			_exit(3);
		if (mas_alloc(self->fd, self->gpu, 1, &mem) != -EPERM)
			_exit(4);
		mas_no_limits(&self->arg);
		_exit(restrict_to(self) ? 5 : 0);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	req.op = MXCD_MAS_OP_WRITE;
	EXPECT_EQ(-EPERM, mas_by_ioctl(self->fd, &req).result);
}

TEST_HARNESS_MAIN
