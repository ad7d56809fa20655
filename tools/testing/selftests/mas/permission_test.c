// SPDX-License-Identifier: GPL-2.0
/*
 * What pread(2) and pwrite(2) of a file are refused, a transfer is refused as well,
 * whoever forbids it: a listener that is asked (fanotify, at the hook where security
 * modules are asked), or the administrator who makes a disk read-only. Each has the
 * same file without that beside it.
 */
#include "mas_target.h"

#include <linux/fs.h>
#include <sys/fanotify.h>

#define LEN	(64 * MAS_KIB)

FIXTURE(listener) {
	int fan;
	int disk;
	int mas;
	__u32 file;
	struct mxcd_mas_alloc mem;
	char *vram;
	char *model;
	pid_t child;
	bool *deny;
};

/* Answers whoever wants to read, until it is killed. */
static void answer(int fan, bool *deny)
{
	struct fanotify_event_metadata event[16];
	struct fanotify_response response;
	ssize_t len;
	int i;

	while ((len = read(fan, event, sizeof(event))) > 0) {
		for (i = 0; FAN_EVENT_OK(&event[i], len); i++) {
			len -= event[i].event_len;
			response.fd = event[i].fd;
			response.response = *deny ? FAN_DENY : FAN_ALLOW;
			if (write(fan, &response, sizeof(response)) != sizeof(response))
				_exit(1);
			close(event[i].fd);
		}
	}
	_exit(1);
}

static int listener_file(struct _test_data_listener *self)
{
	int fd = mas_temp("MAS_EXT4", 0), ret = -EIO;
	char link[64];

	if (fd < 0)
		return fd;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	if (mas_pwrite(fd, self->model, LEN, 0) && !fsync(fd))
		ret = fanotify_mark(self->fan, FAN_MARK_ADD, FAN_ACCESS_PERM, AT_FDCWD,
				    link) ? -errno : 0;
	/* What is listened to is looked up when a file is opened. */
	self->disk = ret ? ret : mas_reopen(fd, O_RDWR | O_DIRECT);
	close(fd);
	return self->disk;
}

FIXTURE_SETUP(listener)
{
	int file;

	self->fan = fanotify_init(FAN_CLASS_CONTENT | FAN_CLOEXEC, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->fan);
	self->deny = mmap(NULL, sizeof(*self->deny), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->deny);
	self->model = aligned_alloc(MAS_PAGE, LEN);
	ASSERT_NE(NULL, self->model);
	mas_fill(self->model, LEN, mas_seed());
	ASSERT_LE(0, listener_file(self));
	self->child = fork();
	ASSERT_LE(0, self->child);
	if (!self->child)
		answer(self->fan, self->deny);

	self->mas = mas_open(0);
	ASSERT_LE(0, self->mas);
	ASSERT_EQ(0, mas_alloc(self->mas, 0, LEN, &self->mem));
	self->vram = mas_map(self->mas, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
	memset(self->vram, POISON, LEN);
	file = mas_register(self->mas, self->disk);
	ASSERT_LT(0, file);
	self->file = file;
}

FIXTURE_TEARDOWN(listener)
{
	int status;

	close(self->mas);
	close(self->disk);
	kill(self->child, SIGKILL);
	waitpid(self->child, &status, 0);
	close(self->fan);
	free(self->model);
}

static struct mxcd_mas_req whole(struct _test_data_listener *self, int flags)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, self->file, 0, LEN,
					 self->mem.handle, 0);

	req.flags = flags;
	return req;
}

/* With this, the others show that it is the listener who refuses. */
TEST_F(listener, that_allows_a_read_lets_it_through)
{
	struct mxcd_mas_req p2p = whole(self, MXCD_MAS_REQ_P2P_ONLY);
	struct mxcd_mas_req bounce = whole(self, MXCD_MAS_REQ_BOUNCE);

	EXPECT_EQ(LEN, mas_by_ioctl(self->mas, &p2p).result);
	EXPECT_EQ(-1, mas_diff(self->model, self->vram, LEN));
	memset(self->vram, POISON, LEN);
	EXPECT_EQ(LEN, mas_by_ioctl(self->mas, &bounce).result);
	EXPECT_EQ(-1, mas_diff(self->model, self->vram, LEN));
}

TEST_F(listener, that_denies_it_is_EPERM_on_either_route)
{
	struct mxcd_mas_req p2p = whole(self, 0), bounce = whole(self, MXCD_MAS_REQ_BOUNCE);
	char *buf = aligned_alloc(MAS_PAGE, LEN);

	ASSERT_NE(NULL, buf);
	*self->deny = true;
	EXPECT_EQ(-1, pread(self->disk, buf, LEN, 0));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-EPERM, mas_by_ioctl(self->mas, &p2p).result);
	EXPECT_EQ(-EPERM, mas_by_ioctl(self->mas, &bounce).result);
	EXPECT_EQ(-EPERM, mas_by_write(self->mas, &p2p).result);
	EXPECT_EQ(-EPERM, mas_by_write(self->mas, &bounce).result);
	EXPECT_EQ(-1, mas_not_all(self->vram, LEN, POISON));
	free(buf);
}

/* Head and tail of an odd request go another way through the kernel. */
TEST_F(listener, that_denies_it_is_EPERM_for_odd_pieces)
{
	struct mxcd_mas_req req = whole(self, 0);

	*self->deny = true;
	req.file_offset = 1;
	req.length = 5000;
	EXPECT_EQ(-EPERM, mas_by_ioctl(self->mas, &req).result);
	req.length = 3;
	EXPECT_EQ(-EPERM, mas_by_ioctl(self->mas, &req).result);
	EXPECT_EQ(-1, mas_not_all(self->vram, LEN, POISON));
}

FIXTURE(disk) {
	struct target t;
};

FIXTURE_SETUP(disk)
{
	const struct target_kind kind = {
		.env = "MAS_NVME512", .flags = O_DIRECT, .raw = true, .dio = true,
	};

	target_setup(_metadata, &self->t, &kind);
}

static int read_only(struct target *t, int on)
{
	return ioctl(t->fd, BLKROSET, &on) ? -errno : 0;
}

FIXTURE_TEARDOWN(disk)
{
	read_only(&self->t, 0);
	target_teardown(&self->t);
}

/* Whoever has it open for writing already keeps his descriptor. */
TEST_F(disk, that_becomes_read_only_is_EPERM)
{
	struct target *t = &self->t;
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, t->file, t->base, LEN,
					 t->mem.handle, 0);

	target_put(_metadata, t, LEN);
	memset(t->vram, POISON, LEN);
	ASSERT_EQ(0, read_only(t, 1));
	EXPECT_EQ(-1, pwrite(t->fd, t->model, LEN, t->base));
	EXPECT_EQ(EPERM, errno);
	EXPECT_EQ(-EPERM, mas_by_ioctl(t->mas, &req).result);
	req.flags = MXCD_MAS_REQ_BOUNCE;
	EXPECT_EQ(-EPERM, mas_by_ioctl(t->mas, &req).result);
	req.flags = 0;
	req.file_offset += 1;
	EXPECT_EQ(-EPERM, mas_by_write(t->mas, &req).result);

	req.op = MXCD_MAS_OP_READ;
	req.file_offset = t->base;
	EXPECT_EQ(LEN, mas_by_ioctl(t->mas, &req).result);
	EXPECT_EQ(-1, mas_diff(t->model, t->vram, LEN));
	ASSERT_EQ(0, read_only(t, 0));
	memset(t->vram, POISON, LEN);
	memset(t->model, POISON, LEN);
	req.op = MXCD_MAS_OP_WRITE;
	EXPECT_EQ(LEN, mas_by_ioctl(t->mas, &req).result);
	ASSERT_TRUE(mas_pread(t->fd, t->buf, LEN, t->base));
	EXPECT_EQ(-1, mas_diff(t->model, t->buf, LEN));
}

TEST_HARNESS_MAIN
