/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads that are in flight, p2p, on a disk that has stopped to answer: what the
 * tests of lifetime share.
 */
#ifndef MAS_LIFE_H
#define MAS_LIFE_H

#include "mas_host.h"

#include <sys/sysmacros.h>

#define LIFE_LEN	MAS_PAGE
#define LIFE_BASE	(64ULL * MAS_MIB)	/* where on the disk */
#define LIFE_MAX	1024U
#define LIFE_AT_ONCE_MS	1000
#define LIFE_IO_TIMEOUT	"120000"	/* of the block layer, ms: longer than a test */
#define LIFE_CANARY	0xc0ffee0ddba11ad5ULL

struct life {
	const char *drive;	/* QEMU's name for the disk */
	int disk;		/* O_DIRECT */
	__u64 base;		/* where the content begins on it */
	int watch;		/* a context to look with */
	int gpu;
	__s64 vram_free;
	int mas;
	__u32 file;
	struct mxcd_mas_alloc mem;
	char *vram;
	char *model;		/* what the disk holds */
};

/* What is to be in a place that a read has not reached yet. */
#define LIFE_POISON	0xd7

/* The GPU with the least VRAM: tests that fill all of it are quick. */
static inline int life_small_gpu(int fd)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct mxcd_mas_query_gpu g;
	__u64 least = ~0ULL;
	int gpu, best = -ENODEV;

	if (mas_ioctl(fd, MXCD_MAS_QUERY, &q))
		return -ENODEV;
	for (gpu = 0; gpu < 64; gpu++) {
		if (!(q.out_gpus & (1ULL << gpu)) || mas_query_gpu(fd, gpu, &g) ||
		    g.out_vram_size >= least)
			continue;
		least = g.out_vram_size;
		best = gpu;
	}
	return best;
}

/* A context with memory and the file; returns it or a negative errno. */
static inline int life_context(struct life *l, __u32 *file, struct mxcd_mas_alloc *mem)
{
	int fd = mas_open(O_NONBLOCK), ret;

	if (fd < 0)
		return fd;
	ret = mas_alloc(fd, l->gpu, 4 * MAS_MIB, mem);
	if (!ret)
		ret = mas_register(fd, l->disk);
	if (ret < 0) {
		close(fd);
		return ret;
	}
	*file = ret;
	return fd;
}

/* The disk that a file is on, or is. */
static inline void life_patience(int disk)
{
	struct stat st;
	dev_t dev;

	if (fstat(disk, &st))
		return;
	dev = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	mas_shell("echo %s >/sys/dev/block/%u:%u/queue/io_timeout", LIFE_IO_TIMEOUT,
		  major(dev), minor(dev));
}

/*
 * The first reads and writes of a GPU and a controller are proofs, which a worker
 * does and waits for. Have them behind us: requests are to be with the disk.
 */
static inline bool life_prove(struct life *l)
{
	const int ops[] = { MXCD_MAS_OP_READ, MXCD_MAS_OP_WRITE };
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int i;

	for (i = 0; i < 2; i++) {
		req = mas_rw(ops[i], l->file, l->base, LIFE_LEN, l->mem.handle, 0);
		req.flags = MXCD_MAS_REQ_P2P_ONLY;
		comp = mas_by_ioctl(l->mas, &req);
		if (comp.result != LIFE_LEN) {
			printf("# proof %d: %lld, reason %u\n", i, (long long)comp.result,
			       comp.reason);
			return false;
		}
	}
	return true;
}

/* @gpu is the index of the GPU, or negative: the one with the least VRAM. */
static inline void life_setup(struct __test_metadata *_metadata, struct life *l,
			      const char *drive, int disk, __u64 base, int gpu)
{
	size_t len = LIFE_MAX * LIFE_LEN;

	l->drive = drive;
	l->disk = disk;
	l->base = base;
	ASSERT_LE(0, disk);
	life_patience(disk);
	l->model = aligned_alloc(MAS_PAGE, len);
	ASSERT_NE(NULL, l->model);
	mas_fill(l->model, len, mas_seed());
	ASSERT_TRUE(mas_pwrite(disk, l->model, len, base));
	ASSERT_EQ(0, fsync(disk));
	l->watch = mas_open(0);
	ASSERT_LE(0, l->watch);
	l->gpu = gpu < 0 ? life_small_gpu(l->watch) : gpu;
	ASSERT_LE(0, l->gpu);
	l->vram_free = mas_vram_free(l->watch, l->gpu);
	l->mas = life_context(l, &l->file, &l->mem);
	ASSERT_LE(0, l->mas);
	l->vram = mas_map(l->mas, &l->mem);
	ASSERT_NE(MAP_FAILED, (void *)l->vram);
	ASSERT_TRUE(life_prove(l));
	memset(l->vram, LIFE_POISON, l->mem.length);
	ASSERT_EQ(0, mas_stall(drive, disk));
}

static inline void life_teardown(struct life *l)
{
	mas_unstall(l->drive);
	if (l->vram)
		munmap(l->vram, l->mem.length);
	close(l->mas);
	close(l->watch);
	close(l->disk);
	free(l->model);
}

/* Submits @n reads, each of its own page. Returns true if all were taken. */
static inline bool life_submit_to(struct life *l, int mas, __u32 file, __u32 handle,
				  int op, unsigned int n)
{
	static struct mxcd_mas_req reqs[LIFE_MAX];
	unsigned int i;

	for (i = 0; i < n; i++) {
		reqs[i] = mas_rw(op, file, l->base + (__u64)i * LIFE_LEN, LIFE_LEN,
				 handle, (__u64)i * LIFE_LEN);
		reqs[i].user_data = i;
		reqs[i].flags = MXCD_MAS_REQ_P2P_ONLY;
	}
	return write(mas, reqs, n * sizeof(*reqs)) == (ssize_t)(n * sizeof(*reqs));
}

static inline bool life_submit(struct life *l, unsigned int n)
{
	return life_submit_to(l, l->mas, l->file, l->mem.handle, MXCD_MAS_OP_READ, n);
}

/* From /proc/self/fdinfo. */
static inline int life_inflight(int mas)
{
	char path[64], line[256];
	int inflight = -1;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", mas);
	info = fopen(path, "r");
	if (!info)
		return -1;
	while (fgets(line, sizeof(line), info))
		sscanf(line, "mas-inflight: %d", &inflight);
	fclose(info);
	return inflight;
}

/* Collects @n results, all of them @result; returns how many there were. */
static inline unsigned int life_collect(int mas, unsigned int n, __s64 result)
{
	struct pollfd pfd = { .fd = mas, .events = POLLIN };
	struct mxcd_mas_comp comp;
	unsigned int got;

	for (got = 0; got < n; got++) {
		if (poll(&pfd, 1, MAS_PATIENCE_MS) != 1 ||
		    read(mas, &comp, sizeof(comp)) != sizeof(comp)) {
			printf("# %u of %u completions\n", got, n);
			break;
		}
		if (comp.result != result) {
			printf("# request %llu: %lld, route %u, reason %u\n",
			       (unsigned long long)comp.user_data,
			       (long long)comp.result, comp.route, comp.reason);
			break;
		}
	}
	return got;
}

/* All VRAM that is free, filled with something to recognise. */
struct canary {
	int mas;
	__u64 *words;
	__u64 nr;
};

static inline int canary_put(struct canary *c, int gpu)
{
	struct mxcd_mas_alloc mem;
	__s64 room;
	__u64 i;
	int ret;

	c->mas = mas_open(0);
	if (c->mas < 0)
		return c->mas;
	room = mas_vram_free(c->mas, gpu);
	ret = room <= 0 ? -ENOSPC : mas_alloc(c->mas, gpu, room, &mem);
	if (ret)
		return ret;
	c->nr = mem.length / sizeof(*c->words);
	c->words = mas_map(c->mas, &mem);
	if (c->words == MAP_FAILED)
		return -ENOMEM;
	for (i = 0; i < c->nr; i++)
		c->words[i] = LIFE_CANARY;
	return 0;
}

/* Number of words that are not as they were put; the memory is free afterwards. */
static inline __u64 canary_take(struct canary *c)
{
	__u64 i, dead = 0;

	for (i = 0; i < c->nr; i++)
		dead += c->words[i] != LIFE_CANARY;
	munmap(c->words, c->nr * sizeof(*c->words));
	close(c->mas);
	return dead;
}

#endif /* MAS_LIFE_H */
