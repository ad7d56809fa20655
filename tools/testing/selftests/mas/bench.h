/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of the bench share.
 *
 * A job is a piece of work that every way of doing it does alike: the same
 * offsets of the same file in the same order, the same number at a time. A way
 * is this driver or one of those it is compared with. A target is what is read
 * and written.
 */
#ifndef MAS_BENCH_H
#define MAS_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <linux/types.h>

#define KIB		1024UL
#define MIB		(1024 * KIB)
#define GIB		(1024 * MIB)
#define PAGE		(4 * KIB)

#define MAX_QD		32
#define MAX_THREADS	64
#define MAX_SEGS	2560

/* What each target has of data, and each buffer of room. */
#define AREA		(128 * MIB)
#define BUFFER		(128 * MIB)
/* Of memory in many pieces. */
#define FRAG_BUFFER	(16 * MIB)

/* Targets, as a group of cases names them. */
enum {
	ON_RAW		= 1 << 0,
	ON_EXT4		= 1 << 1,
	ON_PRP		= 1 << 2,
	ON_MDTS5	= 1 << 3,
	ON_VRAM		= 1 << 4,
};

/**
 * struct target - what is read and written
 * @name: as in the name of a case
 * @kind: bit by which a group of cases names it
 * @env: environment variable that names the disk, or NULL: no disk
 * @dir: where its file system is mounted, or NULL: the disk itself
 * @slow: the disk is slower than the CPU
 * @prp: the kernel describes memory to the disk by PRPs only
 * @disk: name of the disk in /sys/block
 * @path: of the file
 * @fd: open with O_DIRECT
 * @id: file id
 */
struct target {
	const char *name;
	unsigned int kind;
	const char *env;
	const char *dir;
	bool slow;
	bool prp;
	const char *disk;
	char path[128];
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
 * @offsets: of these I/Os in the file. Where the I/Os of a batch are more than a
 *	buffer has room for, those that share a place also share their offset.
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
 * @handle: memory handle of @buffer, if it is VRAM
 * @begin: get ready for a job, or NULL
 * @end: the counterpart, or NULL
 * @probe: 0 or the errno for which it cannot be done here, or NULL
 * @raw_only: does not know of file systems
 * @uncounted: the kernel does not count its commands
 * @arg: what @begin and @run make of it
 */
struct way {
	const char *name;
	void (*run)(const struct way *way, const struct job *job);
	int (*place)(const struct job *job, unsigned int i);
	char **buffer;
	__u32 *handle;
	void (*begin)(const struct way *way, const struct job *job);
	void (*end)(const struct way *way, const struct job *job);
	int (*probe)(const struct job *job);
	bool raw_only;
	bool uncounted;
	unsigned int arg;
};

/**
 * struct result - of one case
 * @name: of the case
 * @value: instructions per I/O, the median
 * @commands: NVMe commands per I/O
 */
struct result {
	const char *name;
	double value;
	double commands;
};

struct mxcd_mas_req;
struct mxcd_mas_comp;

/* bench.c */
extern unsigned int nr_turns;
extern bool list_only, count_only;
bool is_wanted(const char *name);
void add_result(const char *name, const struct job *job, double *values, unsigned int nr,
		double commands, double interrupts);

/* bench_run.c: the cases and how they are measured */
bool is_target_wanted(const struct target *target);
void run_target(const struct target *target, bool write);
void run_begin(void);
void run_end(void);
/* Called by most ways whenever as many I/Os as the queue is deep have completed. */
void bench_lap(void);
void count_begin(const char *name, size_t bytes, unsigned int nr);
void count_end(void);

/* bench_data.c: is the data where it belongs? */
void target_fill(const struct target *target);
void prepare_data(const struct way *way, const struct job *job);
void check_data(const struct way *way, const struct job *job);

/* bench_aims.c */
void judge_all(const struct result *results, unsigned int nr);

/* bench_mem.c: the buffers */
extern int mas_fd;
extern __u32 mas_handle, frag_handle, mas_gpu;
extern char *mas_vram, *frag_vram, *ram_small, *ram_huge;
void mem_open(void);
void mem_check(void);

/* bench_mas.c */
extern const struct way way_mas, way_mas_slide, way_mas_frag, way_segs;
void mas_call(unsigned long request, void *arg, const char *what);
__u32 mas_add_file(int fd);
unsigned int job_places(const struct job *job);
int batch_place(const struct job *job, unsigned int i);
void mas_fill_req(struct mxcd_mas_req *req, const struct way *way, const struct job *job,
		  unsigned int i, unsigned int place);
void mas_check_comp(const struct mxcd_mas_comp *comp, const struct job *job);

/* bench_io.c */
extern const struct way way_pread, way_pread_huge, way_pread_vram, way_pread_mmap;
extern const struct way way_threads, way_pread_threads;

/* bench_uring.c */
extern const struct way way_uring, way_uring_huge, way_uring_defer, way_uring_defer_huge;
extern const struct way way_mas_uring, way_mas_uring_defer, way_passthru;

/* bench_around.c: what is paid around an I/O */
extern const struct way way_around, way_around_fd, way_around_pread, way_around_pread_huge;
extern const struct way way_alloc;
bool tensors_wanted(const struct target *target);
void run_tensors(const struct target *target);

#endif /* MAS_BENCH_H */
