/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the bench share.
 *
 * A job is a piece of work that every way of doing it does alike: the same
 * offsets of the same file in the same order, the same number at a time. A way
 * is this driver or one of those it is compared with.
 */
#ifndef MAS_BENCH_H
#define MAS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <linux/types.h>

#define KIB		1024UL
#define MIB		(1024 * KIB)
#define PAGE		(4 * KIB)

#define MAX_QD		32
#define MAX_THREADS	64
#define MAX_SEGS	2560

/* What each target has of data, and each buffer of room. */
#define AREA		(128 * MIB)
#define BUFFER		(16 * MIB)

/**
 * struct target - what is read and written
 * @name: as in the name of a case
 * @env: environment variable that names the disk
 * @dir: where its file system is mounted, or NULL: the disk itself
 * @slow: the disk is slower than the CPU
 * @disk: name of the disk in /sys/block
 * @fd: open with O_DIRECT
 * @id: file id
 */
struct target {
	const char *name;
	const char *env;
	const char *dir;
	bool slow;
	const char *disk;
	int fd;
	__u32 id;
};

/**
 * struct job - work to be done
 * @target: where
 * @write: direction
 * @bytes: of one I/O
 * @qd: I/Os that are submitted by one call and waited for by the same; or threads
 * @nr: I/Os of one measurement, a multiple of @qd
 * @offsets: of these I/Os in the file
 */
struct job {
	const struct target *target;
	bool write;
	size_t bytes;
	unsigned int qd;
	unsigned int nr;
	off_t *offsets;
};

/**
 * struct way - a way to do a job
 * @name: as in the name of a case
 * @run: do it
 * @place: where an I/O of a job that is done has its data, in units of its size,
 *	or -1 if a later one has overwritten it
 * @buffer: where places are counted from
 * @begin: get ready for a job, or NULL
 * @end: the counterpart, or NULL
 * @arg: what @begin and @run make of it
 */
struct way {
	const char *name;
	void (*run)(const struct way *way, const struct job *job);
	int (*place)(const struct job *job, unsigned int i);
	char **buffer;
	void (*begin)(const struct way *way, const struct job *job);
	void (*end)(const struct way *way, const struct job *job);
	unsigned int arg;
};

extern int mas_fd;
extern __u32 mas_handle;
extern char *mas_vram, *ram_small, *ram_huge;

extern const struct way way_mas, way_mas_slide, way_segs, way_threads;
extern const struct way way_pread, way_pread_huge, way_pread_vram, way_pread_threads;
extern const struct way way_uring, way_uring_huge, way_uring_defer, way_uring_defer_huge;

/* Called by most ways whenever as many I/Os as the queue is deep have completed. */
void bench_lap(void);

void ways_open(struct target *targets, unsigned int nr);
void ways_check(void);

#endif /* MAS_BENCH_H */
