// SPDX-License-Identifier: GPL-2.0
/*
 * Who may do what: a context passed to a caller with more privilege than its
 * opener, contexts over fork and exec, the node that reaches one GPU alone.
 */
#include "mas_utils.h"

#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#define NOBODY	65534

FIXTURE(cred) {
	mode_t mode;
	int socks[2];
	struct mxcd_mas_req query;
};

FIXTURE_SETUP(cred)
{
	struct stat st;

	ASSERT_EQ(0, geteuid())
		TH_LOG("this test has to be run by root");
	ASSERT_EQ(0, stat(MAS_DEV, &st));
	self->mode = st.st_mode & 07777;
	ASSERT_EQ(0, chmod(MAS_DEV, 0666));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, self->socks));
	self->query.op = MXCD_MAS_OP_QUERY;
	self->query.key = MXCD_MAS_KEY_VERSION;
}

FIXTURE_TEARDOWN_PARENT(cred)
{
	EXPECT_EQ(0, chmod(MAS_DEV, self->mode));
}

static void send_fd(int sock, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} u = {};
	char byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = u.buf, .msg_controllen = sizeof(u.buf),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	sendmsg(sock, &msg, 0);
}

static int receive_fd(int sock)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} u = {};
	char byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = u.buf, .msg_controllen = sizeof(u.buf),
	};
	int fd = -1;

	if (recvmsg(sock, &msg, 0) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

static int become_nobody(void)
{
	return setresgid(NOBODY, NOBODY, NOBODY) ||
	       setresuid(NOBODY, NOBODY, NOBODY);
}

static int drop_all_capabilities(void)
{
	struct __user_cap_header_struct head = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = {};

	return syscall(SYS_capset, &head, data);
}

static int become_group_nobody(void)
{
	return setresgid(NOBODY, NOBODY, NOBODY);
}

/*
 * A child becomes somebody else, opens a context, leaves one completion in it
 * and passes it to us.
 */
static int opened_by(struct _test_data_cred *self, int (*become)(void))
{
	pid_t child = fork();
	int fd;

	if (!child) {
		fd = become() ? -1 : mas_open(0);
		if (fd >= 0 && write(fd, &self->query, 64) == 64)
			send_fd(self->socks[1], fd);
		_exit(0);
	}
	fd = receive_fd(self->socks[0]);
	waitpid(child, NULL, 0);
	return fd;
}

static void expect_refused(struct __test_metadata *_metadata,
			   struct _test_data_cred *self, int fd)
{
	struct mxcd_mas_comp comp;

	EXPECT_EQ(-1, write(fd, &self->query, sizeof(self->query)));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-1, read(fd, &comp, sizeof(comp)));
	EXPECT_EQ(EACCES, errno);
}

static void expect_served(struct __test_metadata *_metadata,
			  struct _test_data_cred *self, int fd)
{
	struct mxcd_mas_comp comp = mas_by_write(fd, &self->query);

	EXPECT_EQ(MXCD_MAS_VERSION, comp.result);
}

TEST_F(cred, root_is_refused_on_a_context_of_nobody)
{
	int fd = opened_by(self, become_nobody);

	ASSERT_LE(0, fd);
	expect_refused(_metadata, self, fd);
}

TEST_F(cred, caller_with_more_capabilities_is_refused)
{
	int fd = opened_by(self, drop_all_capabilities);

	ASSERT_LE(0, fd);
	expect_refused(_metadata, self, fd);
}

TEST_F(cred, caller_of_another_group_is_refused)
{
	int fd = opened_by(self, become_group_nobody);

	ASSERT_LE(0, fd);
	expect_refused(_metadata, self, fd);
}

TEST_F(cred, refused_write_submits_nothing)
{
	int fd = opened_by(self, become_nobody);
	struct mxcd_mas_comp comps[4];
	pid_t child;
	int status;

	ASSERT_LE(0, fd);
	expect_refused(_metadata, self, fd);
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		/* As the opener again: only its own completion is there. */
		if (become_nobody())
			_exit(2);
		_exit(read(fd, comps, sizeof(comps)) != sizeof(comps[0]));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(cred, same_user_in_another_process_is_served)
{
	int fd = mas_open(0), status;
	pid_t child;

	ASSERT_LE(0, fd);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(mas_by_write(fd, &self->query).result != MXCD_MAS_VERSION);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	expect_served(_metadata, self, fd);
}

TEST_F(cred, opener_that_dropped_its_capabilities_is_served)
{
	int fd = mas_open(0);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, drop_all_capabilities());
	expect_served(_metadata, self, fd);
}

TEST_F(cred, program_started_by_the_opener_is_served)
{
	int fd = mas_open(0), in, status;
	struct mxcd_mas_comp comp;
	pid_t child;

	ASSERT_LE(0, fd);
	in = mas_temp("MAS_TMPFS", 0);
	ASSERT_LE(0, in);
	ASSERT_TRUE(mas_pwrite(in, &self->query, 64, 0));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		dup2(in, 0);
		dup2(fd, 1);
		execlp("dd", "dd", "bs=64", "count=1", "status=none", NULL);
		_exit(127);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, fcntl(fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(32, read(fd, &comp, sizeof(comp)));
	EXPECT_EQ(MXCD_MAS_VERSION, comp.result);
}

TEST_F(cred, nobody_is_served_on_a_context_of_its_own)
{
	pid_t child = fork();
	int status, fd;

	ASSERT_LE(0, child);
	if (!child) {
		fd = become_nobody() ? -1 : mas_open(0);
		_exit(mas_by_write(fd, &self->query).result != MXCD_MAS_VERSION);
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

FIXTURE(node) {
	int all;
	int one;
};

FIXTURE_VARIANT(node) {
	__u32 gpu;
};

FIXTURE_VARIANT_ADD(node, gpu0) {
	.gpu = 0,
};

FIXTURE_VARIANT_ADD(node, gpu1) {
	.gpu = 1,
};

FIXTURE_SETUP(node)
{
	char path[64];

	self->all = mas_open(0);
	ASSERT_LE(0, self->all);
	snprintf(path, sizeof(path), MAS_DEV "%u", variant->gpu);
	self->one = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->one);
}

FIXTURE_TEARDOWN(node)
{
	close(self->one);
	close(self->all);
}

TEST_F(node, reaches_its_own_gpu_alone)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	const __u32 other = 1 - variant->gpu;
	struct mxcd_mas_query_gpu a, b;
	struct mxcd_mas_alloc mem;

	ASSERT_EQ(0, mas_ioctl(self->one, MXCD_MAS_QUERY, &q));
	EXPECT_EQ(1ULL << variant->gpu, q.out_gpus);
	ASSERT_EQ(0, mas_query_gpu(self->one, variant->gpu, &a));
	ASSERT_EQ(0, mas_query_gpu(self->all, variant->gpu, &b));
	EXPECT_EQ(0, memcmp(&a, &b, sizeof(a)));
	EXPECT_EQ(0, mas_alloc(self->one, variant->gpu, 1, &mem));

	EXPECT_EQ(-ENOENT, mas_query_gpu(self->one, other, &a));
	EXPECT_EQ(-ENOENT, mas_alloc(self->one, other, 1, &mem));
	EXPECT_EQ(-ENOENT,
		  mas_key(self->one, MXCD_MAS_KEY_VRAM_FREE, 0, 0, other));
}

TEST_F(node, its_memory_can_be_mapped_and_written)
{
	struct mxcd_mas_alloc mem;
	char *map;

	ASSERT_EQ(0, mas_alloc(self->one, variant->gpu, MAS_PAGE, &mem));
	map = mas_map(self->one, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	memset(map, 1, MAS_PAGE);
	EXPECT_EQ(-1, mas_not_all(map, MAS_PAGE, 1));
}

TEST_HARNESS_MAIN
