// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that are collected, and freed, while somebody else still has his hands on
 * them: the call that submitted them (a file system looks at its kiocb until it
 * returns) or the interrupt that completes them. A kernel with KASAN tells what a
 * stock kernel lets pass.
 */
#include "mas_utils.h"

#include <pthread.h>
#include <sched.h>

#define SPAN		(256U * MAS_KIB)
#define FILE_BASE	(96ULL * MAS_MIB)
#define REQUESTS	1500

struct collector {
	pthread_t thread;
	int mas;
	int cpu;
	bool spin;
	int collected;
	__s64 wrong;
	bool stop;
};

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

/* On another CPU it spins; on the submitter's it takes over as soon as it can. */
static void *collect(void *arg)
{
	struct collector *c = arg;
	struct sched_param param = { .sched_priority = 1 };
	struct pollfd pfd = { .fd = c->mas, .events = POLLIN };
	struct mxcd_mas_comp comp;
	ssize_t n;

	run_on(c->cpu);
	if (!c->spin)
		sched_setscheduler(0, SCHED_FIFO, &param);
	while (c->collected < REQUESTS && !__atomic_load_n(&c->stop, __ATOMIC_RELAXED)) {
		if (!c->spin && poll(&pfd, 1, 100) != 1)
			continue;
		n = read(c->mas, &comp, sizeof(comp));
		if (n != sizeof(comp))
			continue;
		if (comp.result != MAS_PAGE)
			c->wrong = comp.result;
		c->collected++;
	}
	return NULL;
}

FIXTURE(race) {
	int mas;
	int target;
	__u32 file;
	__u64 base;
	struct mxcd_mas_alloc mem;
};

FIXTURE_VARIANT(race) {
	const char *env;
	bool write;
	bool spin;
};

FIXTURE_VARIANT_ADD(race, raw_other_cpu) {
	.env = "MAS_NVME512",
	.spin = true,
};

FIXTURE_VARIANT_ADD(race, raw_same_cpu) {
	.env = "MAS_NVME512",
};

FIXTURE_VARIANT_ADD(race, ext4_other_cpu) {
	.env = "MAS_EXT4",
	.spin = true,
};

FIXTURE_VARIANT_ADD(race, ext4_same_cpu) {
	.env = "MAS_EXT4",
};

FIXTURE_VARIANT_ADD(race, ext4_writes_same_cpu) {
	.env = "MAS_EXT4",
	.write = true,
};

FIXTURE_VARIANT_ADD(race, xfs_same_cpu) {
	.env = "MAS_XFS",
};

static int open_target(const char *env)
{
	const char *path = getenv(env);
	int fd, direct;

	if (path && !strncmp(path, "/dev/", 5))
		return open(path, O_RDWR | O_CLOEXEC | O_DIRECT);
	fd = mas_temp(env, 0);
	if (fd < 0)
		return fd;
	direct = mas_reopen(fd, O_RDWR | O_DIRECT);
	close(fd);
	return direct;
}

FIXTURE_SETUP(race)
{
	const char *path = getenv(variant->env);
	int file, plain;
	char *buf;

	ASSERT_NE(NULL, path);
	self->base = strncmp(path, "/dev/", 5) ? 0 : FILE_BASE;
	self->mas = mas_open(variant->spin ? O_NONBLOCK : 0);
	ASSERT_LE(0, self->mas);
	self->target = open_target(variant->env);
	ASSERT_LE(0, self->target);
	plain = mas_reopen(self->target, O_RDWR);
	ASSERT_LE(0, plain);
	buf = calloc(1, SPAN);
	ASSERT_TRUE(mas_pwrite(plain, buf, SPAN, self->base));
	ASSERT_EQ(0, fsync(plain));
	close(plain);
	free(buf);
	file = mas_register(self->mas, self->target);
	ASSERT_LT(0, file);
	self->file = file;
	ASSERT_EQ(0, mas_alloc(self->mas, mas_big_gpu(self->mas), SPAN, &self->mem));
}

FIXTURE_TEARDOWN(race)
{
	close(self->mas);
	close(self->target);
}

TEST_F(race, collected_while_it_is_submitted)
{
	struct collector c = {
		.mas = self->mas,
		.cpu = variant->spin,
		.spin = variant->spin,
	};
	__u64 end = mas_now_ms() + MAS_PATIENCE_MS, seed = 1, off;
	struct mxcd_mas_req req;
	ssize_t n;
	int i;

	run_on(0);
	ASSERT_EQ(0, pthread_create(&c.thread, NULL, collect, &c));
	for (i = 0; i < REQUESTS && mas_now_ms() < end; ) {
		off = mas_below(&seed, SPAN / MAS_PAGE) * MAS_PAGE;
		req = mas_rw(variant->write ? MXCD_MAS_OP_WRITE : MXCD_MAS_OP_READ, self->file,
			     self->base + off, MAS_PAGE, self->mem.handle, off);
		n = write(self->mas, &req, sizeof(req));
		if (n == sizeof(req))
			i++;
	}
	while (__atomic_load_n(&c.collected, __ATOMIC_RELAXED) < i && mas_now_ms() < end)
		mas_sleep_ms(1);
	__atomic_store_n(&c.stop, true, __ATOMIC_RELAXED);
	pthread_join(c.thread, NULL);
	EXPECT_EQ(0, c.wrong);
	EXPECT_EQ(i, c.collected);
	EXPECT_LT(0, i);
}

TEST_HARNESS_MAIN
