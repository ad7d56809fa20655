// SPDX-License-Identifier: GPL-2.0
/*
 * Good and bad requests: the same result through ioctl(MXCD_MAS_TRANSFER) as
 * through write(2) and read(2), and what these two system calls refuse.
 */
#include "mas_utils.h"

#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/time.h>

#define FILE_LEN	(64 * MAS_KIB)
#define MEM_LEN		(64 * MAS_KIB)
#define COOKIE		0xfeedfacecafef00dULL

FIXTURE(request) {
	int fd;
	int target;
	__u32 file;
	__u32 handle;
	__u64 mem_len;
	char *map;
	struct mxcd_mas_req read;	/* a good request */
	struct mxcd_mas_comp (*run)(int fd, const struct mxcd_mas_req *req);
};

FIXTURE_VARIANT(request) {
	bool by_write;
};

FIXTURE_VARIANT_ADD(request, ioctl) {
	.by_write = false,
};

FIXTURE_VARIANT_ADD(request, write) {
	.by_write = true,
};

FIXTURE_SETUP(request)
{
	struct mxcd_mas_alloc mem;
	char buf[FILE_LEN];
	int file;

	self->run = variant->by_write ? mas_by_write : mas_by_ioctl;
	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->target = mas_temp("MAS_EXT4", 0);
	ASSERT_LE(0, self->target);
	mas_fill(buf, sizeof(buf), 1);
	ASSERT_TRUE(mas_pwrite(self->target, buf, sizeof(buf), 0));
	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	ASSERT_EQ(0, mas_alloc(self->fd, 0, MEM_LEN, &mem));
	self->map = mas_map(self->fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
	self->file = file;
	self->handle = mem.handle;
	self->mem_len = mem.length;
	self->read = mas_rw(MXCD_MAS_OP_READ, file, 0, 4096, mem.handle, 0);
	self->read.user_data = COOKIE;
}

FIXTURE_TEARDOWN(request)
{
	close(self->target);
	close(self->fd);
}

/* Runs a request that has to fail and looks at the rest of its completion. */
static __s64 failing(struct __test_metadata *_metadata,
		     struct _test_data_request *self, struct mxcd_mas_req *req)
{
	struct mxcd_mas_comp comp = self->run(self->fd, req);

	EXPECT_EQ(req->user_data, comp.user_data);
	EXPECT_EQ(0, comp.p2p_bytes);
	EXPECT_EQ(0, comp.route);
	EXPECT_EQ(0, comp.__reserved);
	return comp.result;
}

TEST_F(request, good_request_moves_the_data)
{
	struct mxcd_mas_comp comp = self->run(self->fd, &self->read);
	char buf[4096];

	mas_fill(buf, sizeof(buf), 1);
	EXPECT_EQ(4096, comp.result);
	EXPECT_EQ(COOKIE, comp.user_data);
	EXPECT_EQ(0, comp.__reserved);
	EXPECT_EQ(-1, mas_diff(buf, self->map, sizeof(buf)));
	EXPECT_EQ(0, self->map[sizeof(buf)]);
}

TEST_F(request, unknown_op_is_EOPNOTSUPP)
{
	static const __u16 ops[] = {
		0, MXCD_MAS_OP_POKE + 1, 0x100, 0x7fff, 0xffff
	};
	struct mxcd_mas_req req;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		req = self->read;
		req.op = ops[i];
		EXPECT_EQ(-EOPNOTSUPP, failing(_metadata, self, &req))
			TH_LOG("op %#x", ops[i]);
	}
}

TEST_F(request, unknown_flag_is_EINVAL)
{
	struct mxcd_mas_req req;
	unsigned int bit;

	for (bit = 6; bit < 32; bit++) {
		req = self->read;
		req.flags = 1U << bit;
		EXPECT_EQ(-EINVAL, failing(_metadata, self, &req))
			TH_LOG("flag %u", bit);
	}
}

TEST_F(request, flag_of_another_op_is_EINVAL)
{
	struct mxcd_mas_req req = self->read;

	req.op = MXCD_MAS_OP_WRITE;
	req.flags = MXCD_MAS_REQ_NOFLUSH;
	EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));

	req = (struct mxcd_mas_req){
		.op = MXCD_MAS_OP_QUERY, .key = MXCD_MAS_KEY_VERSION,
		.flags = MXCD_MAS_REQ_BOUNCE,
	};
	EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));

	req = (struct mxcd_mas_req){
		.op = MXCD_MAS_OP_ALLOC, .length = 1,
		.flags = MXCD_MAS_REQ_P2P_ONLY,
	};
	EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));

	req = (struct mxcd_mas_req){
		.op = MXCD_MAS_OP_UNREGISTER, .file = self->file,
		.flags = MXCD_MAS_REQ_FD,
	};
	EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));
}

TEST_F(request, field_that_read_does_not_use_must_be_zero)
{
	struct mxcd_mas_req req = self->read;

	req.key = 1;
	EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));
	req = self->read;
	req.arg = 1;
	EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));
	/* Without a list, its address has no use either. */
	req = self->read;
	req.segs = mas_ptr(&req);
	EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));
}

/* For each other operation every field that it does not use, one by one. */
TEST_F(request, field_that_another_op_does_not_use_must_be_zero)
{
	enum { KEY = 1, FILE_ = 2, HANDLE = 4, RANGE = 8, MEM = 16, ARG = 32 };
	static const struct {
		__u16 op;
		unsigned int unused;
	} ops[] = {
		{ MXCD_MAS_OP_QUERY, FILE_ | HANDLE | RANGE | MEM | ARG },
		{ MXCD_MAS_OP_ALLOC, KEY | FILE_ | MEM },
		{ MXCD_MAS_OP_FREE, KEY | FILE_ | RANGE | MEM | ARG },
		{ MXCD_MAS_OP_REGISTER, KEY | HANDLE | RANGE | MEM },
		{ MXCD_MAS_OP_UNREGISTER, KEY | HANDLE | RANGE | MEM | ARG },
		{ MXCD_MAS_OP_FSYNC, KEY | HANDLE | RANGE | MEM | ARG },
		{ MXCD_MAS_OP_FDATASYNC, KEY | HANDLE | RANGE | MEM | ARG },
		{ MXCD_MAS_OP_FLUSH, KEY | FILE_ | RANGE | MEM | ARG },
		{ MXCD_MAS_OP_CANCEL, KEY | FILE_ | HANDLE | RANGE | ARG },
	};
	struct mxcd_mas_req req;
	unsigned int i, bit;

	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		for (bit = 1; bit <= ARG; bit <<= 1) {
			if (!(ops[i].unused & bit))
				continue;
			memset(&req, 0, sizeof(req));
			req.op = ops[i].op;
			if (req.op == MXCD_MAS_OP_QUERY)
				req.key = MXCD_MAS_KEY_VERSION;
			if (req.op == MXCD_MAS_OP_ALLOC)
				req.length = 1;
			if (req.op == MXCD_MAS_OP_FREE ||
			    req.op == MXCD_MAS_OP_FLUSH)
				req.handle = self->handle;
			if (req.op == MXCD_MAS_OP_REGISTER)
				req.arg = self->target;
			if (req.op == MXCD_MAS_OP_UNREGISTER ||
			    req.op == MXCD_MAS_OP_FSYNC ||
			    req.op == MXCD_MAS_OP_FDATASYNC)
				req.file = self->file;
			req.key |= !!(bit & KEY);
			req.file |= !!(bit & FILE_);
			req.handle |= !!(bit & HANDLE);
			req.length |= !!(bit & RANGE);
			req.mem_offset |= !!(bit & MEM);
			req.arg |= !!(bit & ARG);
			EXPECT_EQ(-EINVAL, failing(_metadata, self, &req))
				TH_LOG("op %u field %#x", req.op, bit);
		}
	}
	/* Nothing of this did what it was told. */
	EXPECT_EQ(4096, self->run(self->fd, &self->read).result);
}

TEST_F(request, segment_list_is_served_where_the_feature_says_so)
{
	struct mxcd_mas_seg segs[2] = {
		{ .handle = self->handle, .offset = 8192, .length = 1024 },
		{ .handle = self->handle, .offset = 0, .length = 3072 },
	};
	struct mxcd_mas_req req = self->read;
	char buf[4096];

	req.handle = 0;
	req.segs = mas_ptr(segs);
	req.nr_segs = ARRAY_SIZE(segs);
	if (!(mas_key(self->fd, MXCD_MAS_KEY_FEATURES, 0, 0, 0) &
	      MXCD_MAS_FEATURE_SEGS)) {
		EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));
		return;
	}
	mas_fill(buf, sizeof(buf), 1);
	EXPECT_EQ(4096, self->run(self->fd, &req).result);
	EXPECT_EQ(-1, mas_diff(buf, self->map + 8192, 1024));
	EXPECT_EQ(-1, mas_diff(buf + 1024, self->map, 3072));
	EXPECT_EQ(-1, mas_not_all(self->map + 3072, 8192 - 3072, 0));
}

TEST_F(request, bad_handle_is_ENOENT)
{
	const __u32 bad[] = {
		0, self->handle + 1, MXCD_MAS_ID_MAX, MXCD_MAS_ID_MAX + 1,
		INT_MAX, 1U << 31, UINT_MAX,
	};
	struct mxcd_mas_req req;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		req = self->read;
		req.handle = bad[i];
		EXPECT_EQ(-ENOENT, failing(_metadata, self, &req))
			TH_LOG("READ, handle %#x", bad[i]);
		req = (struct mxcd_mas_req){
			.op = MXCD_MAS_OP_FREE, .handle = bad[i],
		};
		EXPECT_EQ(-ENOENT, failing(_metadata, self, &req))
			TH_LOG("FREE, handle %#x", bad[i]);
	}
	ASSERT_EQ(0, mas_free(self->fd, self->handle));
	EXPECT_EQ(-ENOENT, failing(_metadata, self, &self->read));
	EXPECT_EQ(-ENOENT, mas_free(self->fd, self->handle));
}

TEST_F(request, bad_file_id_is_ENOENT)
{
	const __u32 bad[] = {
		0, self->file + 1, MXCD_MAS_ID_MAX, MXCD_MAS_ID_MAX + 1,
		INT_MAX, 1U << 31, UINT_MAX,
	};
	struct mxcd_mas_req req;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		req = self->read;
		req.file = bad[i];
		EXPECT_EQ(-ENOENT, failing(_metadata, self, &req))
			TH_LOG("READ, file %#x", bad[i]);
		req = (struct mxcd_mas_req){
			.op = MXCD_MAS_OP_UNREGISTER, .file = bad[i],
		};
		EXPECT_EQ(-ENOENT, failing(_metadata, self, &req))
			TH_LOG("UNREGISTER, file %#x", bad[i]);
	}
	ASSERT_EQ(0, mas_unregister(self->fd, self->file));
	EXPECT_EQ(-ENOENT, failing(_metadata, self, &self->read));
	EXPECT_EQ(-ENOENT, mas_unregister(self->fd, self->file));
}

TEST_F(request, range_past_the_handle_is_EINVAL)
{
	const __u64 len = self->mem_len;
	const struct {
		__u64 offset, length;
	} bad[] = {
		{ 0, len + 1 }, { len - 1, 2 }, { len, 1 }, { len + 1, 0 },
		{ UINT64_MAX, 1 }, { 1, UINT64_MAX }, { UINT64_MAX, UINT64_MAX },
		{ 1ULL << 63, 1ULL << 63 }, { 0, 1ULL << 32 },
		{ 1ULL << 32, 4096 }, { UINT64_MAX - 4095, 4096 },
	};
	struct mxcd_mas_req req;
	unsigned int i, op;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		for (op = MXCD_MAS_OP_READ; op <= MXCD_MAS_OP_WRITE; op++) {
			req = self->read;
			req.op = op;
			req.mem_offset = bad[i].offset;
			req.length = bad[i].length;
			EXPECT_EQ(-EINVAL, failing(_metadata, self, &req))
				TH_LOG("op %u, row %u", op, i);
		}
	}
	EXPECT_EQ(-1, mas_not_all(self->map, len, 0));
}

TEST_F(request, range_past_the_largest_file_is_EINVAL)
{
	const __u64 max = INT64_MAX;
	const struct {
		__u64 offset, length;
	} bad[] = {
		{ max, 1 }, { max - 4095, 4097 }, { max + 1, 0 },
		{ max + 1, 4096 }, { UINT64_MAX, 1 }, { UINT64_MAX, 0 },
		{ UINT64_MAX - 4095, 4096 },
	};
	struct mxcd_mas_req req;
	unsigned int i, op;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		for (op = MXCD_MAS_OP_READ; op <= MXCD_MAS_OP_WRITE; op++) {
			req = self->read;
			req.op = op;
			req.file_offset = bad[i].offset;
			req.length = bad[i].length;
			EXPECT_EQ(-EINVAL, failing(_metadata, self, &req))
				TH_LOG("op %u, row %u", op, i);
		}
	}
	/* The last byte that has an offset lies past the end of any file. */
	req = self->read;
	req.file_offset = max - req.length;
	EXPECT_EQ(0, self->run(self->fd, &req).result);
	req.op = MXCD_MAS_OP_WRITE;
	EXPECT_EQ(-EFBIG, self->run(self->fd, &req).result);
}

TEST_F(request, nothing_to_move_moves_nothing)
{
	struct mxcd_mas_req req = self->read;
	struct mxcd_mas_comp comp;
	unsigned int op;

	req.length = 0;
	req.mem_offset = self->mem_len;
	for (op = MXCD_MAS_OP_READ; op <= MXCD_MAS_OP_WRITE; op++) {
		req.op = op;
		comp = self->run(self->fd, &req);
		EXPECT_EQ(0, comp.result);
		EXPECT_EQ(0, comp.route);
		EXPECT_EQ(0, comp.p2p_bytes);
		EXPECT_EQ(MXCD_MAS_REASON_NONE, comp.reason);
	}
}

TEST_F(request, descriptor_in_place_of_a_file_id)
{
	struct mxcd_mas_req req = self->read;

	req.file = self->target;
	req.flags = MXCD_MAS_REQ_FD;
	if (variant->by_write) {
		EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));
		return;
	}
	EXPECT_EQ(4096, self->run(self->fd, &req).result);
	req.file = 9999;
	EXPECT_EQ(-EBADF, failing(_metadata, self, &req));
	req.file = UINT_MAX;
	EXPECT_EQ(-EBADF, failing(_metadata, self, &req));
	req.file = self->fd;
	EXPECT_EQ(-EINVAL, failing(_metadata, self, &req));
}

FIXTURE(device) {
	int fd;
	int target;
	char *page;		/* behind it one without access */
	struct mxcd_mas_req query;
};

FIXTURE_SETUP(device)
{
	self->fd = mas_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd);
	self->target = mas_temp("MAS_TMPFS", 0);
	ASSERT_LE(0, self->target);
	self->page = mmap(NULL, 2 * MAS_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->page);
	ASSERT_EQ(0, mprotect(self->page + MAS_PAGE, MAS_PAGE, PROT_NONE));
	self->query.op = MXCD_MAS_OP_QUERY;
	self->query.key = MXCD_MAS_KEY_VERSION;
	self->query.user_data = COOKIE;
}

FIXTURE_TEARDOWN(device)
{
	close(self->target);
	close(self->fd);
}

static void mas_nothing(int sig)
{
}

static ssize_t read_comps(int fd, void *buf, size_t len)
{
	ssize_t ret = read(fd, buf, len);

	return ret < 0 ? -errno : ret;
}

static ssize_t write_reqs(int fd, const void *buf, size_t len)
{
	ssize_t ret = write(fd, buf, len);

	return ret < 0 ? -errno : ret;
}

TEST_F(device, write_of_a_partial_request_is_EINVAL_and_submits_nothing)
{
	static const unsigned int bad[] = { 1, 32, 63, 65, 96, 127, 129 };
	struct mxcd_mas_req reqs[3] = { self->query, self->query, self->query };
	struct mxcd_mas_comp comp;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, write_reqs(self->fd, reqs, bad[i]))
			TH_LOG("%u bytes", bad[i]);
		EXPECT_EQ(-EAGAIN, read_comps(self->fd, &comp, sizeof(comp)))
			TH_LOG("%u bytes", bad[i]);
	}
}

TEST_F(device, write_of_nothing_is_0_and_submits_nothing)
{
	struct mxcd_mas_comp comp;

	EXPECT_EQ(0, write_reqs(self->fd, &self->query, 0));
	EXPECT_EQ(-EAGAIN, read_comps(self->fd, &comp, sizeof(comp)));
}

TEST_F(device, read_with_too_little_room_is_EINVAL_and_loses_nothing)
{
	struct mxcd_mas_comp comps[2];
	unsigned int len;

	ASSERT_EQ(64, write_reqs(self->fd, &self->query, 64));
	for (len = 0; len < sizeof(comps[0]); len++) {
		EXPECT_EQ(-EINVAL, read_comps(self->fd, comps, len))
			TH_LOG("%u bytes", len);
	}
	EXPECT_EQ(32, read_comps(self->fd, comps, 63));
	EXPECT_EQ(COOKIE, comps[0].user_data);
	EXPECT_EQ(MXCD_MAS_VERSION, comps[0].result);
	EXPECT_EQ(-EAGAIN, read_comps(self->fd, comps, sizeof(comps)));
}

TEST_F(device, read_with_nothing_there)
{
	struct itimerval soon = { .it_value = { .tv_usec = 200000 } };
	struct sigaction act = { .sa_handler = mas_nothing };
	struct mxcd_mas_comp comp;

	EXPECT_EQ(-EAGAIN, read_comps(self->fd, &comp, sizeof(comp)));
	/* Without O_NONBLOCK it waits; a signal ends the wait. */
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
	ASSERT_EQ(0, sigaction(SIGALRM, &act, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &soon, NULL));
	EXPECT_EQ(-EINTR, read_comps(self->fd, &comp, sizeof(comp)));
}

TEST_F(device, buffers_out_of_reach_are_EFAULT)
{
	char *end = self->page + MAS_PAGE;
	struct mxcd_mas_comp comp;

	EXPECT_EQ(-EFAULT, write_reqs(self->fd, end, 64));
	EXPECT_EQ(-EFAULT, write_reqs(self->fd, end - 32, 64));
	EXPECT_EQ(-EAGAIN, read_comps(self->fd, &comp, sizeof(comp)));

	ASSERT_EQ(64, write_reqs(self->fd, &self->query, 64));
	EXPECT_EQ(-EFAULT, read_comps(self->fd, end, 32));
	EXPECT_EQ(-EFAULT, read_comps(self->fd, end - 16, 32));
	/* The completion is still there. */
	EXPECT_EQ(32, read_comps(self->fd, &comp, sizeof(comp)));
	EXPECT_EQ(COOKIE, comp.user_data);
}

TEST_F(device, write_takes_what_it_can_read)
{
	char *end = self->page + MAS_PAGE;
	struct mxcd_mas_comp comps[3];

	memcpy(end - 128, &self->query, 64);
	memcpy(end - 64, &self->query, 64);
	EXPECT_EQ(128, write_reqs(self->fd, end - 128, 192));
	EXPECT_EQ(64, read_comps(self->fd, comps, sizeof(comps)));
}

TEST_F(device, bad_request_spoils_itself_only)
{
	struct mxcd_mas_req reqs[3] = { self->query, self->query, self->query };
	struct mxcd_mas_comp comps[3];
	unsigned int i;

	for (i = 0; i < 3; i++)
		reqs[i].user_data = i;
	reqs[1].op = 99;
	EXPECT_EQ(sizeof(reqs), write_reqs(self->fd, reqs, sizeof(reqs)));
	ASSERT_EQ(sizeof(comps), read_comps(self->fd, comps, sizeof(comps)));
	for (i = 0; i < 3; i++) {
		ASSERT_LT(comps[i].user_data, 3);
		EXPECT_EQ(comps[i].user_data == 1 ? -EOPNOTSUPP :
			  MXCD_MAS_VERSION, comps[i].result);
	}
}

TEST_F(device, poll_and_epoll_tell_of_completions)
{
	struct epoll_event ev = { .events = EPOLLIN };
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN | POLLOUT };
	struct mxcd_mas_comp comp;
	int ep = epoll_create1(EPOLL_CLOEXEC);

	ASSERT_LE(0, ep);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->fd, &ev));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(POLLOUT, pfd.revents);
	EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	ASSERT_EQ(64, write_reqs(self->fd, &self->query, 64));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(POLLIN | POLLOUT, pfd.revents);
	EXPECT_EQ(1, epoll_wait(ep, &ev, 1, 0));
	EXPECT_EQ(32, read_comps(self->fd, &comp, sizeof(comp)));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(POLLOUT, pfd.revents);
	EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
}

TEST_F(device, completion_wakes_a_sleeper)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int ep = epoll_create1(EPOLL_CLOEXEC);
	struct mxcd_mas_comp comp;
	pid_t child;

	ASSERT_LE(0, ep);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->fd, &ev));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		mas_sleep_ms(100);
		write_reqs(self->fd, &self->query, 64);
		mas_sleep_ms(100);
		write_reqs(self->fd, &self->query, 64);
		_exit(0);
	}
	EXPECT_EQ(1, epoll_wait(ep, &ev, 1, MAS_PATIENCE_MS));
	EXPECT_EQ(32, read_comps(self->fd, &comp, sizeof(comp)));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
	EXPECT_EQ(32, read_comps(self->fd, &comp, sizeof(comp)));
	EXPECT_EQ(child, waitpid(child, NULL, 0));
}

TEST_F(device, has_no_position)
{
	struct mxcd_mas_comp comp;

	EXPECT_EQ(-1, lseek(self->fd, 0, SEEK_SET));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pwrite(self->fd, &self->query, 64, 0));
	EXPECT_EQ(ESPIPE, errno);
	EXPECT_EQ(-1, pread(self->fd, &comp, 32, 0));
	EXPECT_EQ(ESPIPE, errno);
}

TEST_F(device, is_no_end_of_a_splice)
{
	int pipe_fd[2];

	ASSERT_EQ(0, pipe(pipe_fd));
	ASSERT_EQ(64, write_reqs(pipe_fd[1], &self->query, 64));
	EXPECT_EQ(-1, splice(pipe_fd[0], NULL, self->fd, NULL, 64, 0));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, splice(self->fd, NULL, pipe_fd[1], NULL, 64, 0));
	EXPECT_EQ(EINVAL, errno);
	ASSERT_TRUE(mas_pwrite(self->target, &self->query, 64, 0));
	EXPECT_EQ(-1, sendfile(self->fd, self->target, NULL, 64));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, sendfile(self->target, self->fd, NULL, 64));
	EXPECT_EQ(EINVAL, errno);
}

TEST_HARNESS_MAIN
