// SPDX-License-Identifier: GPL-2.0
/* Peeks and pokes: VRAM for who cannot map it. */
#include "mas_life.h"

#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/syscall.h>

#define LEN	(2U * MAS_MIB)
#define ROUNDS	200U

FIXTURE(peek) {
	int fd;
	struct mxcd_mas_alloc mem;
	unsigned char *map;
	unsigned char *model;
	unsigned char *buf;
};

FIXTURE_SETUP(peek)
{
	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, mas_alloc(self->fd, mas_big_gpu(self->fd), LEN, &self->mem));
	self->map = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
	self->model = malloc(LEN);
	self->buf = malloc(LEN);
	mas_fill(self->model, LEN, 4);
	memcpy(self->map, self->model, LEN);
}

FIXTURE_TEARDOWN(peek)
{
	close(self->fd);
}

static int peek(int fd, unsigned long cmd, __u32 handle, __u64 offset, __u64 length,
		const void *buf)
{
	struct mxcd_mas_peek arg = {
		.size = sizeof(arg), .handle = handle, .offset = offset, .length = length,
		.buf = mas_ptr(buf),
	};

	return mas_ioctl(fd, cmd, &arg);
}

TEST_F(peek, any_range_is_read_and_written)
{
	__u64 seed = mas_seed(), offset, len;
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		offset = mas_below(&seed, LEN);
		len = mas_below(&seed, i % 10 ? 5000 : LEN);
		len = len < LEN - offset ? len : LEN - offset;
		if (i % 2) {
			mas_fill(self->model + offset, len, seed);
			ASSERT_EQ(0, peek(self->fd, MXCD_MAS_POKE, self->mem.handle, offset, len,
					  self->model + offset));
			ASSERT_EQ(-1, mas_diff(self->model, self->map, LEN));
		} else {
			memset(self->buf, 0, len);
			ASSERT_EQ(0, peek(self->fd, MXCD_MAS_PEEK, self->mem.handle, offset, len,
					  self->buf));
			ASSERT_EQ(-1, mas_diff(self->model + offset, self->buf, len));
		}
	}
}

TEST_F(peek, range_beyond_the_handle_is_refused)
{
	const struct {
		__u64 offset, length;
	} bad[] = {
		{ LEN, 1 }, { 0, LEN + 1 }, { LEN - 1, 2 }, { ~0ULL, 1 }, { 1, ~0ULL },
	};
	struct mxcd_mas_peek arg = { .size = sizeof(arg), .handle = self->mem.handle };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, peek(self->fd, MXCD_MAS_PEEK, self->mem.handle, bad[i].offset,
					bad[i].length, self->buf));
		EXPECT_EQ(-EINVAL, peek(self->fd, MXCD_MAS_POKE, self->mem.handle, bad[i].offset,
					bad[i].length, self->buf));
	}
	EXPECT_EQ(-ENOENT, peek(self->fd, MXCD_MAS_PEEK, self->mem.handle + 1, 0, 1, self->buf));
	EXPECT_EQ(-EFAULT, peek(self->fd, MXCD_MAS_PEEK, self->mem.handle, 0, 1, (void *)1));
	EXPECT_EQ(0, peek(self->fd, MXCD_MAS_PEEK, self->mem.handle, LEN, 0, NULL));
	arg.flags = 1;
	EXPECT_EQ(-EINVAL, mas_ioctl(self->fd, MXCD_MAS_PEEK, &arg));
	EXPECT_EQ(-1, mas_diff(self->model, self->map, LEN));
}

static __s64 request(int fd, int op, __u32 handle, __u64 offset, __u64 length, __u32 arg)
{
	struct mxcd_mas_req req = {
		.op = op, .handle = handle, .mem_offset = offset, .length = length, .arg = arg,
	};

	return mas_by_write(fd, &req).result;
}

TEST_F(peek, request_carries_a_number_of_one_to_four_bytes)
{
	__u32 handle = self->mem.handle;

	memcpy(self->map + MAS_PAGE - 2, "\x11\x22\x33\xf4", 4);
	EXPECT_EQ(0x11, request(self->fd, MXCD_MAS_OP_PEEK, handle, MAS_PAGE - 2, 1, 0));
	EXPECT_EQ(0x2211, request(self->fd, MXCD_MAS_OP_PEEK, handle, MAS_PAGE - 2, 2, 0));
	EXPECT_EQ(0x332211, request(self->fd, MXCD_MAS_OP_PEEK, handle, MAS_PAGE - 2, 3, 0));
	EXPECT_EQ(0xf4332211LL, request(self->fd, MXCD_MAS_OP_PEEK, handle, MAS_PAGE - 2, 4, 0));
	EXPECT_EQ(3, request(self->fd, MXCD_MAS_OP_POKE, handle, MAS_PAGE - 2, 3, 0x0a0b0c0d));
	EXPECT_EQ(0, memcmp(self->map + MAS_PAGE - 2, "\x0d\x0c\x0b\xf4", 4));
	EXPECT_EQ(1, request(self->fd, MXCD_MAS_OP_POKE, handle, LEN - 1, 1, 0xff));
	EXPECT_EQ(0xff, self->map[LEN - 1]);

	EXPECT_EQ(-EINVAL, request(self->fd, MXCD_MAS_OP_PEEK, handle, 0, 0, 0));
	EXPECT_EQ(-EINVAL, request(self->fd, MXCD_MAS_OP_PEEK, handle, 0, 5, 0));
	EXPECT_EQ(-EINVAL, request(self->fd, MXCD_MAS_OP_PEEK, handle, 0, 1, 1));
	EXPECT_EQ(-EINVAL, request(self->fd, MXCD_MAS_OP_PEEK, handle, LEN - 1, 2, 0));
	EXPECT_EQ(-ENOENT, request(self->fd, MXCD_MAS_OP_POKE, handle + 1, 0, 1, 0));
	EXPECT_EQ(-EOPNOTSUPP, request(self->fd, MXCD_MAS_OP_EXPORT, handle, 0, 1, 0));
}

/* Memory whose pages come when the test says so, or never. */
static void *late_page(int *uffd)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range.len = MAS_PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	void *page = mmap(NULL, MAS_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	reg.range.start = mas_ptr(page);
	if (*uffd < 0 || ioctl(*uffd, UFFDIO_API, &api) || ioctl(*uffd, UFFDIO_REGISTER, &reg))
		return NULL;
	return page;
}

struct slow_peek {
	int fd;
	unsigned long cmd;
	__u32 handle;
	void *page;
	int ret;
};

static void *slow_peek(void *arg)
{
	struct slow_peek *p = arg;

	p->ret = peek(p->fd, p->cmd, p->handle, 0, MAS_PAGE, p->page);
	return NULL;
}

/* What has been read is delivered, what is to be written finds no GPU. */
TEST_F(peek, memory_of_the_caller_that_never_comes_does_not_keep_the_gpu)
{
	const unsigned long cmds[] = { MXCD_MAS_PEEK, MXCD_MAS_POKE };
	const int results[] = { 0, -ENODEV };
	struct mxcd_mas_query_gpu q;
	struct mxcd_mas_alloc mem;
	struct slow_peek p;
	pthread_t thread;
	int gpu, uffd, status, waited;
	pid_t child;
	__u32 i;

	gpu = life_small_gpu(self->fd);
	ASSERT_LE(0, gpu);
	ASSERT_EQ(0, mas_query_gpu(self->fd, gpu, &q));
	for (i = 0; i < ARRAY_SIZE(cmds); i++) {
		struct uffdio_zeropage zero = { .range.len = MAS_PAGE };
		struct pollfd event = { .events = POLLIN };

		ASSERT_EQ(0, mas_alloc(self->fd, gpu, 2 * MAS_MIB, &mem));
		p = (struct slow_peek){ .fd = self->fd, .cmd = cmds[i], .handle = mem.handle };
		p.page = late_page(&uffd);
		ASSERT_NE(NULL, p.page);
		event.fd = uffd;
		ASSERT_EQ(0, pthread_create(&thread, NULL, slow_peek, &p));
		ASSERT_EQ(1, poll(&event, 1, MAS_PATIENCE_MS));
		child = fork();
		ASSERT_LE(0, child);
		if (!child)
			_exit(mas_shell("mas_unbind %04x:%02x:%02x.%x", q.out_domain,
					q.out_bdf >> 8, q.out_bdf >> 3 & 31, q.out_bdf & 7));
		for (waited = 0; !waitpid(child, &status, WNOHANG); waited += 10) {
			ASSERT_GT(MAS_PATIENCE_MS, waited)
				TH_LOG("the GPU is kept");
			mas_sleep_ms(10);
		}
		EXPECT_EQ(0, status);
		zero.range.start = mas_ptr(p.page);
		ASSERT_EQ(0, ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
		ASSERT_EQ(0, pthread_join(thread, NULL));
		EXPECT_EQ(results[i], p.ret);
		ASSERT_EQ(0, mas_shell("mas_ready"));
		EXPECT_EQ(0, mas_free(self->fd, mem.handle));
		close(uffd);
	}
}

TEST_HARNESS_MAIN
