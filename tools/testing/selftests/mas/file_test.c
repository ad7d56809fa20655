// SPDX-License-Identifier: GPL-2.0
/*
 * Registered files: what may be registered, identifiers, limits, access mode,
 * life time.
 */
#include "mas_utils.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define FEW_FILES	24

FIXTURE(file) {
	int fd;
	int target;
	struct mxcd_mas_alloc mem;
	char *map;
};

FIXTURE_SETUP(file)
{
	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->target = mas_temp("MAS_EXT4", 0);
	ASSERT_LE(0, self->target);
	ASSERT_EQ(0, ftruncate(self->target, 64 * MAS_KIB));
	ASSERT_EQ(0, mas_alloc(self->fd, 0, 64 * MAS_KIB, &self->mem));
	self->map = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
}

FIXTURE_TEARDOWN(file)
{
	close(self->target);
	close(self->fd);
}

static __s64 move(struct _test_data_file *self, int op, __u32 file, __u64 length)
{
	struct mxcd_mas_req req = mas_rw(op, file, 0, length, self->mem.handle,
					 0);

	return mas_by_ioctl(self->fd, &req).result;
}

TEST_F(file, no_descriptor_is_EBADF)
{
	int closed = dup(self->target);

	ASSERT_LE(0, closed);
	close(closed);
	EXPECT_EQ(-EBADF, mas_register(self->fd, closed));
	EXPECT_EQ(-EBADF, mas_register(self->fd, -1));
	EXPECT_EQ(-EBADF, mas_register(self->fd, INT_MIN));
	EXPECT_EQ(-EBADF, mas_register(self->fd, INT_MAX));
}

TEST_F(file, O_PATH_descriptor_is_EBADF)
{
	int fd = mas_reopen(self->target, O_PATH);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EBADF, mas_register(self->fd, fd));
}

TEST_F(file, pipe_and_socket_are_EINVAL)
{
	int fds[2];

	ASSERT_EQ(0, pipe(fds));
	EXPECT_EQ(-EINVAL, mas_register(self->fd, fds[0]));
	EXPECT_EQ(-EINVAL, mas_register(self->fd, fds[1]));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	EXPECT_EQ(-EINVAL, mas_register(self->fd, fds[0]));
}

TEST_F(file, directory_is_EINVAL)
{
	int fd = open(getenv("MAS_EXT4"), O_RDONLY | O_DIRECTORY);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, mas_register(self->fd, fd));
}

TEST_F(file, character_device_is_EINVAL)
{
	int fd = open("/dev/zero", O_RDWR);

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EINVAL, mas_register(self->fd, fd));
}

TEST_F(file, epoll_and_eventfd_are_EINVAL)
{
	EXPECT_EQ(-EINVAL, mas_register(self->fd, epoll_create1(0)));
	EXPECT_EQ(-EINVAL, mas_register(self->fd, eventfd(0, 0)));
}

TEST_F(file, the_mas_device_itself_is_EINVAL)
{
	int other = mas_open(0);

	ASSERT_LE(0, other);
	EXPECT_EQ(-EINVAL, mas_register(self->fd, self->fd));
	EXPECT_EQ(-EINVAL, mas_register(self->fd, other));
}

TEST_F(file, tmpfs_file_is_served_by_bounce)
{
	struct mxcd_mas_query_file q;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int fd = mas_temp("MAS_TMPFS", 0);
	char buf[8192];
	int file;

	ASSERT_LE(0, fd);
	mas_fill(buf, sizeof(buf), 7);
	ASSERT_TRUE(mas_pwrite(fd, buf, sizeof(buf), 0));
	file = mas_register(self->fd, fd);
	ASSERT_LT(0, file);
	ASSERT_EQ(0, mas_query_file(self->fd, file, 0, 0, &q));
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, q.out_route_read);
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, q.out_route_write);
	EXPECT_EQ(MXCD_MAS_REASON_NO_DIO, q.out_reason_read);
	EXPECT_EQ(MXCD_MAS_REASON_NO_DIO, q.out_reason_write);
	EXPECT_EQ(0, q.out_read_align);
	EXPECT_EQ(0, q.out_write_align);

	req = mas_rw(MXCD_MAS_OP_READ, file, 0, 8192, self->mem.handle, 0);
	comp = mas_by_ioctl(self->fd, &req);
	EXPECT_EQ(8192, comp.result);
	EXPECT_EQ(0, comp.p2p_bytes);
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, comp.route);
	EXPECT_EQ(MXCD_MAS_REASON_NO_DIO, comp.reason);
	EXPECT_EQ(-1, mas_diff(buf, self->map, sizeof(buf)));
}

TEST_F(file, read_only_file_cannot_be_written)
{
	int fd = mas_reopen(self->target, O_RDONLY);
	int file = mas_register(self->fd, fd);

	ASSERT_LT(0, file);
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_READ, file, 4096));
	EXPECT_EQ(-EBADF, move(self, MXCD_MAS_OP_WRITE, file, 4096));
	EXPECT_EQ(-EBADF, move(self, MXCD_MAS_OP_WRITE, file, 1));
}

TEST_F(file, write_only_file_cannot_be_read)
{
	int fd = mas_reopen(self->target, O_WRONLY);
	int file = mas_register(self->fd, fd);

	ASSERT_LT(0, file);
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_WRITE, file, 4096));
	EXPECT_EQ(1, move(self, MXCD_MAS_OP_WRITE, file, 1));
	EXPECT_EQ(-EBADF, move(self, MXCD_MAS_OP_READ, file, 4096));
	EXPECT_EQ(-EBADF, move(self, MXCD_MAS_OP_READ, file, 1));
}

TEST_F(file, write_sealed_memfd_is_EPERM)
{
	int fd = memfd_create("mas", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	int file;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, 8192));
	file = mas_register(self->fd, fd);
	ASSERT_LT(0, file);
	EXPECT_EQ(8192, move(self, MXCD_MAS_OP_WRITE, file, 8192));
	ASSERT_EQ(0, fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE));
	EXPECT_EQ(-EPERM, move(self, MXCD_MAS_OP_WRITE, file, 8192));
	EXPECT_EQ(8192, move(self, MXCD_MAS_OP_READ, file, 8192));
}

TEST_F(file, chosen_id_is_given)
{
	int file = mas_register_id(self->fd, self->target, 12345);

	EXPECT_EQ(12345, file);
	EXPECT_EQ(-EEXIST, mas_register_id(self->fd, self->target, 12345));
	EXPECT_EQ(1, mas_register_id(self->fd, self->target, 1));
	EXPECT_EQ(MXCD_MAS_ID_MAX,
		  mas_register_id(self->fd, self->target, MXCD_MAS_ID_MAX));
	EXPECT_EQ(-EINVAL,
		  mas_register_id(self->fd, self->target, MXCD_MAS_ID_MAX + 1));
	EXPECT_EQ(-EINVAL, mas_register_id(self->fd, self->target, UINT_MAX));
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_READ, 12345, 4096));
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_READ, MXCD_MAS_ID_MAX, 4096));
}

TEST_F(file, id_is_free_after_unregister)
{
	int i;

	for (i = 0; i < 100; i++) {
		ASSERT_EQ(9, mas_register_id(self->fd, self->target, 9));
		ASSERT_EQ(0, mas_unregister(self->fd, 9));
	}
	EXPECT_EQ(-ENOENT, mas_unregister(self->fd, 9));
}

TEST_F(file, id_chosen_by_the_kernel_is_none_that_is_taken)
{
	int i, file;

	for (i = 1; i <= 8; i++) {
		ASSERT_EQ(i, mas_register_id(self->fd, self->target, i))
			TH_LOG("id %d", i);
	}
	for (i = 0; i < 8; i++) {
		file = mas_register(self->fd, self->target);
		EXPECT_LT(8, file);
		EXPECT_GE(MXCD_MAS_ID_MAX, file);
	}
}

TEST_F(file, same_file_twice_has_two_ids)
{
	int a = mas_register(self->fd, self->target);
	int b = mas_register(self->fd, self->target);

	EXPECT_NE(a, b);
	EXPECT_EQ(0, mas_unregister(self->fd, a));
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_READ, b, 4096));
}

TEST_F(file, stays_open_when_its_descriptor_is_closed)
{
	int file = mas_register(self->fd, self->target);

	close(self->target);
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_READ, file, 4096));
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_WRITE, file, 4096));
}

/* A write lease is given only where nothing else has the file open. */
static int others_have_it_open(int fd)
{
	if (fcntl(fd, F_SETLEASE, F_WRLCK))
		return errno;
	fcntl(fd, F_SETLEASE, F_UNLCK);
	return 0;
}

TEST_F(file, is_let_go_by_unregister)
{
	int file, again = mas_reopen(self->target, O_RDWR);

	ASSERT_LE(0, again);
	file = mas_register(self->fd, self->target);
	close(self->target);
	EXPECT_EQ(EAGAIN, others_have_it_open(again));
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_READ, file, 4096));
	ASSERT_EQ(0, mas_unregister(self->fd, file));
	EXPECT_EQ(0, others_have_it_open(again));
}

TEST_F(file, is_let_go_by_close_of_the_context)
{
	int again = mas_reopen(self->target, O_RDWR);
	int file;

	ASSERT_LE(0, again);
	file = mas_register(self->fd, self->target);
	EXPECT_EQ(4096, move(self, MXCD_MAS_OP_WRITE, file, 4096));
	close(self->target);
	munmap(self->map, self->mem.length);
	EXPECT_EQ(EAGAIN, others_have_it_open(again));
	close(self->fd);
	EXPECT_EQ(0, others_have_it_open(again));
}

TEST_F(file, as_many_as_RLIMIT_NOFILE_then_EMFILE)
{
	struct rlimit lim = { FEW_FILES, FEW_FILES };
	struct mxcd_mas_query q = { .size = sizeof(q) };
	int i, last = 0;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &lim));
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &q));
	EXPECT_EQ(FEW_FILES, q.out_max_files);
	for (i = 0; i < FEW_FILES; i++) {
		last = mas_register(self->fd, self->target);
		ASSERT_LT(0, last);
	}
	EXPECT_EQ(-EMFILE, mas_register(self->fd, self->target));
	ASSERT_EQ(0, mas_unregister(self->fd, last));
	EXPECT_LT(0, mas_register(self->fd, self->target));
	EXPECT_EQ(-EMFILE, mas_register(self->fd, self->target));
}

TEST_F(file, files_and_handles_of_one_context_are_unseen_by_another)
{
	int other = mas_open(0);
	int file = mas_register_id(self->fd, self->target, 500);
	struct mxcd_mas_alloc mem;
	struct mxcd_mas_req req;

	ASSERT_LE(0, other);
	ASSERT_EQ(500, file);
	req = mas_rw(MXCD_MAS_OP_READ, 500, 0, 4096, self->mem.handle, 0);
	EXPECT_EQ(4096, mas_by_ioctl(self->fd, &req).result);
	EXPECT_EQ(-ENOENT, mas_by_ioctl(other, &req).result);
	EXPECT_EQ(-ENOENT, mas_unregister(other, 500));
	EXPECT_EQ(-ENOENT, mas_free(other, self->mem.handle));
	EXPECT_EQ(-ENOENT, mas_key(other, MXCD_MAS_KEY_HANDLE_MMAP, 0,
				   self->mem.handle, 0));
	EXPECT_EQ(MAP_FAILED, mas_map(other, &self->mem));
	/* The same numbers mean other things there. */
	EXPECT_EQ(500, mas_register_id(other, self->target, 500));
	EXPECT_EQ(0, mas_alloc_id(other, 0, 4096, self->mem.handle, &mem));
	EXPECT_EQ(0, mas_unregister(other, 500));
	EXPECT_EQ(4096, mas_by_ioctl(self->fd, &req).result);
}

/* Counts the lines of fdinfo that begin with @key; keeps the last in @line. */
static int count_fdinfo(int fd, const char *key, char *line, size_t len)
{
	char path[64], buf[512];
	FILE *info;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = fopen(path, "r");
	while (info && fgets(buf, sizeof(buf), info)) {
		if (strncmp(buf, key, strlen(key)))
			continue;
		snprintf(line, len, "%s", buf);
		n++;
	}
	if (info)
		fclose(info);
	return n;
}

TEST_F(file, fdinfo_lists_what_the_context_holds)
{
	char line[512] = "", number[32];
	struct stat st;
	int file;

	ASSERT_EQ(0, fstat(self->target, &st));
	EXPECT_EQ(0, count_fdinfo(self->fd, "mas-file:", line, sizeof(line)));
	EXPECT_EQ(1, count_fdinfo(self->fd, "mas-handle:", line, sizeof(line)));
	snprintf(number, sizeof(number), "%llu",
		 (unsigned long long)self->mem.length);
	EXPECT_NE(NULL, strstr(line, number))
		TH_LOG("length %s not in: %s", number, line);
	EXPECT_EQ(1, count_fdinfo(self->fd, "mas-inflight:", line, sizeof(line)));
	EXPECT_EQ('0', line[strcspn(line, "0123456789")])
		TH_LOG("%s", line);

	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	EXPECT_EQ(1, count_fdinfo(self->fd, "mas-file:", line, sizeof(line)));
	snprintf(number, sizeof(number), "%llu", (unsigned long long)st.st_ino);
	EXPECT_NE(NULL, strstr(line, number))
		TH_LOG("inode %s not in: %s", number, line);
	ASSERT_EQ(0, mas_unregister(self->fd, file));
	EXPECT_EQ(0, count_fdinfo(self->fd, "mas-file:", line, sizeof(line)));
	ASSERT_EQ(0, mas_free(self->fd, self->mem.handle));
	EXPECT_EQ(0, count_fdinfo(self->fd, "mas-handle:", line, sizeof(line)));
}

TEST_HARNESS_MAIN
