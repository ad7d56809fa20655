/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the MAS selftests share. To be included before any other header.
 *
 * Every helper that can fail returns a negative errno, so that a test names the
 * value it expects: EXPECT_EQ(-ENOENT, mas_free(fd, 7)).
 */
#ifndef MAS_UTILS_H
#define MAS_UTILS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#define _FILE_OFFSET_BITS 64

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <linux/mxcd_mas.h>

/* Only one source file of a program can have the harness. */
#ifdef MAS_NO_HARNESS
#include "kselftest.h"
#else
#include "kselftest_harness.h"
#endif

#define MAS_DEV		"/dev/mxcd_mas"
#define MAS_PAGE	4096U
#define MAS_KIB		1024U
#define MAS_MIB		(1024U * 1024U)
/* How many times slower than a stock kernel the one is that this is built for. */
#ifndef MAS_SLOW
#define MAS_SLOW	1
#endif
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	(30 * MAS_SLOW)
#undef TEST_F_TIMEOUT
#define TEST_F_TIMEOUT(fixture_name, test_name, timeout) \
	__TEST_F_IMPL(fixture_name, test_name, -1, (timeout) * MAS_SLOW)
/* Less than the harness gives a test, so that a test can tell what it waited for. */
#define MAS_PATIENCE_MS	(8000 * MAS_SLOW)

static inline __u64 mas_ptr(const void *p)
{
	return (uintptr_t)p;
}

static inline int mas_ioctl(int fd, unsigned long cmd, void *arg)
{
	return ioctl(fd, cmd, arg) < 0 ? -errno : 0;
}

static inline int mas_open(int flags)
{
	int fd = open(MAS_DEV, O_RDWR | O_CLOEXEC | flags);

	return fd < 0 ? -errno : fd;
}

static inline __u64 mas_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

static inline void mas_sleep_ms(unsigned int ms)
{
	struct timespec ts = { ms / 1000, (ms % 1000) * 1000000L };

	nanosleep(&ts, NULL);
}

static inline int mas_query_gpu(int fd, __u32 gpu,
				struct mxcd_mas_query_gpu *arg)
{
	memset(arg, 0, sizeof(*arg));
	arg->size = sizeof(*arg);
	arg->gpu = gpu;
	return mas_ioctl(fd, MXCD_MAS_QUERY_GPU, arg);
}

static inline __s64 mas_vram_free(int fd, __u32 gpu)
{
	struct mxcd_mas_query_gpu arg;
	int ret = mas_query_gpu(fd, gpu, &arg);

	return ret ? ret : (__s64)arg.out_vram_free;
}

/* The GPU with the most VRAM among those that the context reaches. */
static inline int mas_big_gpu(int fd)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct mxcd_mas_query_gpu g;
	int ret = mas_ioctl(fd, MXCD_MAS_QUERY, &q);
	__u64 most = 0;
	int gpu, best = -ENODEV;

	if (ret)
		return ret;
	for (gpu = 0; gpu < 64; gpu++) {
		if (!(q.out_gpus & (1ULL << gpu)) || mas_query_gpu(fd, gpu, &g))
			continue;
		if (g.out_vram_size > most) {
			most = g.out_vram_size;
			best = gpu;
		}
	}
	return best;
}

static inline int mas_query_file(int fd, __u32 file, __u32 flags, __u32 gpu,
				 struct mxcd_mas_query_file *arg)
{
	memset(arg, 0, sizeof(*arg));
	arg->size = sizeof(*arg);
	arg->flags = flags;
	arg->file = file;
	arg->gpu = gpu;
	return mas_ioctl(fd, MXCD_MAS_QUERY_FILE, arg);
}

static inline int mas_alloc_id(int fd, __u32 gpu, __u64 length, __u32 handle,
			       struct mxcd_mas_alloc *arg)
{
	memset(arg, 0, sizeof(*arg));
	arg->size = sizeof(*arg);
	arg->gpu = gpu;
	arg->handle = handle;
	arg->length = length;
	return mas_ioctl(fd, MXCD_MAS_ALLOC, arg);
}

static inline int mas_alloc(int fd, __u32 gpu, __u64 length,
			    struct mxcd_mas_alloc *arg)
{
	return mas_alloc_id(fd, gpu, length, 0, arg);
}

static inline int mas_free(int fd, __u32 handle)
{
	struct mxcd_mas_free arg = { .size = sizeof(arg), .handle = handle };

	return mas_ioctl(fd, MXCD_MAS_FREE, &arg);
}

/* Returns the file id. */
static inline int mas_register_id(int fd, int target, __u32 id)
{
	struct mxcd_mas_register arg = {
		.size = sizeof(arg), .fd = target, .file = id,
	};
	int ret = mas_ioctl(fd, MXCD_MAS_REGISTER, &arg);

	return ret ? ret : (int)arg.file;
}

static inline int mas_register(int fd, int target)
{
	return mas_register_id(fd, target, 0);
}

static inline int mas_unregister(int fd, __u32 file)
{
	struct mxcd_mas_unregister arg = { .size = sizeof(arg), .file = file };

	return mas_ioctl(fd, MXCD_MAS_UNREGISTER, &arg);
}

/* What changes nothing; a test narrows what it is about. */
static inline void mas_no_limits(struct mxcd_mas_restrict *arg)
{
	memset(arg, 0, sizeof(*arg));
	arg->size = sizeof(*arg);
	arg->gpus = ~0ULL;
	arg->ops = ~0ULL;
	arg->req_flags = ~0U;
	arg->max_files = ~0U;
	arg->max_vram = ~0ULL;
	arg->max_queue = ~0U;
}

static inline void *mas_map(int fd, const struct mxcd_mas_alloc *mem)
{
	return mmap(NULL, mem->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    mem->out_mmap_offset);
}

/* One request through ioctl(MXCD_MAS_TRANSFER), its result in place. */
static inline struct mxcd_mas_comp mas_by_ioctl(int fd,
						const struct mxcd_mas_req *req)
{
	struct mxcd_mas_comp comp;
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(req),
		.comps = mas_ptr(&comp), .nr = 1, .min_nr = 1,
	};
	int ret;

	memset(&comp, 0xa5, sizeof(comp));
	ret = mas_ioctl(fd, MXCD_MAS_TRANSFER, &arg);
	if (ret)
		comp.result = ret;
	else if (arg.out_submitted != 1 || arg.out_completed != 1)
		comp.result = -EPROTO;
	return comp;
}

/* One request through write(2), its result through read(2). */
static inline struct mxcd_mas_comp mas_by_write(int fd,
						const struct mxcd_mas_req *req)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct mxcd_mas_comp comp;
	ssize_t ret;

	memset(&comp, 0xa5, sizeof(comp));
	ret = write(fd, req, sizeof(*req));
	if (ret != (ssize_t)sizeof(*req)) {
		comp.result = ret < 0 ? -errno : -EPROTO;
		return comp;
	}
	if (poll(&pfd, 1, MAS_PATIENCE_MS) != 1) {
		comp.result = -ETIMEDOUT;
		return comp;
	}
	ret = read(fd, &comp, sizeof(comp));
	if (ret != (ssize_t)sizeof(comp))
		comp.result = ret < 0 ? -errno : -EPROTO;
	return comp;
}

static inline struct mxcd_mas_req mas_rw(int op, __u32 file, __u64 file_offset,
					 __u64 length, __u32 handle,
					 __u64 mem_offset)
{
	struct mxcd_mas_req req = {
		.op = op, .file = file, .handle = handle,
		.file_offset = file_offset, .length = length,
		.mem_offset = mem_offset,
	};

	return req;
}

static inline __s64 mas_key(int fd, __u16 key, __u32 file, __u32 handle,
			    __u32 arg)
{
	struct mxcd_mas_req req = {
		.op = MXCD_MAS_OP_QUERY, .key = key, .file = file,
		.handle = handle, .arg = arg,
	};

	return mas_by_ioctl(fd, &req).result;
}

/* Waits until GPU @gpu has @bytes free again; returns what it had last. */
static inline __s64 mas_wait_vram(int fd, __u32 gpu, __s64 bytes)
{
	__u64 end = mas_now_ms() + MAS_PATIENCE_MS;
	__s64 now;

	do {
		now = mas_vram_free(fd, gpu);
		if (now == bytes || now < 0)
			break;
		mas_sleep_ms(20);
	} while (mas_now_ms() < end);
	return now;
}

static inline __u64 mas_rand(__u64 *state)
{
	__u64 z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* A number from 0 to @n - 1. */
static inline __u64 mas_below(__u64 *state, __u64 n)
{
	return mas_rand(state) % n;
}

/* Seed of this run: MAS_SEED or the clock. Printed, so that it can be repeated. */
static inline __u64 mas_seed(void)
{
	const char *text = getenv("MAS_SEED");
	__u64 seed = text ? strtoull(text, NULL, 0) : (__u64)time(NULL);

	printf("# MAS_SEED=%llu\n", (unsigned long long)seed);
	return seed;
}

static inline void mas_fill(void *buf, size_t len, __u64 seed)
{
	unsigned char *p = buf;
	__u64 word;
	size_t n;

	for (; len; p += n, len -= n) {
		word = mas_rand(&seed);
		n = len < sizeof(word) ? len : sizeof(word);
		memcpy(p, &word, n);
	}
}

/* Index of the first byte that differs, or -1. */
static inline long mas_diff(const void *a, const void *b, size_t len)
{
	const unsigned char *x = a, *y = b;
	size_t i;

	if (!memcmp(a, b, len))
		return -1;
	for (i = 0; i < len && x[i] == y[i]; i++)
		;
	return i;
}

/* Index of the first byte that is not @value, or -1. */
static inline long mas_not_all(const void *buf, size_t len, unsigned char value)
{
	const unsigned char *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		if (p[i] != value)
			return i;
	return -1;
}

/* Opens a new file in the directory that environment variable @env names. */
static inline int mas_temp(const char *env, int flags)
{
	const char *dir = getenv(env);
	char path[PATH_MAX];
	int fd;

	if (!dir || !*dir) {
		printf("# %s is not set\n", env);
		return -ENOENT;
	}
	snprintf(path, sizeof(path), "%s/mas_selftest.%d", dir, getpid());
	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | flags, 0600);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

/* The same open file description once more, with other @flags. */
static inline int mas_reopen(int fd, int flags)
{
	char path[64];
	int ret;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ret = open(path, flags | O_CLOEXEC);
	return ret < 0 ? -errno : ret;
}

/* pread(2) and pwrite(2) of the whole range, or false. */
static inline bool mas_pread(int fd, void *buf, size_t len, off_t off)
{
	return pread(fd, buf, len, off) == (ssize_t)len;
}

static inline bool mas_pwrite(int fd, const void *buf, size_t len, off_t off)
{
	return pwrite(fd, buf, len, off) == (ssize_t)len;
}

#endif /* MAS_UTILS_H */
