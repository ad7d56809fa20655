// SPDX-License-Identifier: GPL-2.0
/*
 * What is paid around an I/O: opening and registering a file for one transfer,
 * allocating VRAM. And what is paid for odd offsets: a file of many tensors.
 */
#define _GNU_SOURCE

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/mxcd_mas.h>

#include "bench.h"

/* --- one transfer and all that it needs --------------------------------------- */

static int open_target(const struct target *target, int flags)
{
	int fd = open(target->path, O_RDWR | O_CLOEXEC | flags);

	if (fd < 0)
		err(1, "%s", target->path);
	return fd;
}

static void transfer(const struct mxcd_mas_req *reqs, struct mxcd_mas_comp *comps,
		     unsigned int nr)
{
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg),
		.reqs = (unsigned long)reqs,
		.comps = (unsigned long)comps,
		.nr = nr,
		.min_nr = nr,
	};

	mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
	if (arg.out_completed != nr)
		errx(1, "%u of %u completed", arg.out_completed, nr);
}

/* Open, register, transfer, unregister, close; or without a registration. */
static void around_run(const struct way *way, const struct job *job)
{
	struct mxcd_mas_unregister unreg = { .size = sizeof(unreg) };
	bool by_fd = way == &way_around_fd;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	unsigned int i;
	int fd;

	for (i = 0; i < job->nr; i++) {
		fd = open_target(job->target, O_DIRECT);
		mas_fill_req(&req, way, job, i, 0);
		req.file = by_fd ? fd : mas_add_file(fd);
		req.flags = by_fd ? MXCD_MAS_REQ_FD : 0;
		transfer(&req, &comp, 1);
		mas_check_comp(&comp, job);
		unreg.file = req.file;
		if (!by_fd)
			mas_call(MXCD_MAS_UNREGISTER, &unreg, "UNREGISTER");
		close(fd);
		bench_lap();
	}
}

static void around_pread_run(const struct way *way, const struct job *job)
{
	unsigned int i;
	ssize_t ret;
	int fd;

	for (i = 0; i < job->nr; i++) {
		fd = open_target(job->target, O_DIRECT);
		ret = pread(fd, *way->buffer, job->bytes, job->offsets[i]);
		if (ret != (ssize_t)job->bytes)
			err(1, "pread: %zd", ret);
		close(fd);
		bench_lap();
	}
}

const struct way way_around = {
	.name = "mas-around", .run = around_run, .place = batch_place,
	.buffer = &mas_vram, .handle = &mas_handle,
};

const struct way way_around_fd = {
	.name = "mas-around-fd", .run = around_run, .place = batch_place,
	.buffer = &mas_vram, .handle = &mas_handle,
};

const struct way way_around_pread = {
	.name = "pread-around", .run = around_pread_run, .place = batch_place,
	.buffer = &ram_small,
};

const struct way way_around_pread_huge = {
	.name = "pread-huge-around", .run = around_pread_run, .place = batch_place,
	.buffer = &ram_huge,
};

/* --- memory ----------------------------------------------------------------------- */

static void alloc_run(const struct way *way, const struct job *job)
{
	struct mxcd_mas_alloc mem;
	struct mxcd_mas_free arg = { .size = sizeof(arg) };
	unsigned int i;

	for (i = 0; i < job->nr; i++) {
		mem = (struct mxcd_mas_alloc) {
			.size = sizeof(mem), .gpu = mas_gpu, .length = job->bytes,
		};
		mas_call(MXCD_MAS_ALLOC, &mem, "ALLOC");
		arg.handle = mem.handle;
		mas_call(MXCD_MAS_FREE, &arg, "FREE");
	}
}

const struct way way_alloc = { .name = "mas", .run = alloc_run };

/* --- tensors ---------------------------------------------------------------------- */

#define NR_TENSORS	300
#define TENSORS_A_CALL	30
#define TENSOR_MAX	(256 * KIB)
/* What a program that packs tensors aligns them to. */
#define TENSOR_ALIGN	256

struct tensor {
	off_t offset;
	size_t length;
	size_t place;		/* in VRAM */
};

/*
 * Every other one of 600 tensors of any length that follow each other in the
 * file, as a program reads that needs a part of a model.
 */
static size_t tensors_make(struct tensor *tensors, unsigned int shift_mask)
{
	unsigned int i, seed = 1;
	size_t place = 0, sum = 0;
	off_t offset = 1;

	for (i = 0; i < NR_TENSORS; i++) {
		tensors[i].offset = offset;
		tensors[i].length = 1 + (seed = seed * 1103515245 + 12345) / 65536 * 4 % TENSOR_MAX;
		tensors[i].place = place + (offset & shift_mask);
		sum += tensors[i].length;
		place = tensors[i].place + tensors[i].length;
		place = (place + TENSOR_ALIGN - 1) & -TENSOR_ALIGN;
		offset += tensors[i].length;
		offset += 1 + (seed = seed * 1103515245 + 12345) / 65536 * 4 % TENSOR_MAX;
	}
	if (offset > (off_t)AREA || place > BUFFER)
		errx(1, "tensors of %lu bytes", (unsigned long)offset);
	return sum;
}

static void tensors_read(const struct target *target, const struct tensor *tensors)
{
	struct mxcd_mas_req reqs[TENSORS_A_CALL];
	struct mxcd_mas_comp comps[TENSORS_A_CALL];
	unsigned int i, k;

	for (i = 0; i < NR_TENSORS; i += TENSORS_A_CALL) {
		for (k = 0; k < TENSORS_A_CALL; k++)
			reqs[k] = (struct mxcd_mas_req) {
				.op = MXCD_MAS_OP_READ,
				.file = target->id,
				.handle = mas_handle,
				.file_offset = tensors[i + k].offset,
				.length = tensors[i + k].length,
				.mem_offset = tensors[i + k].place,
			};
		transfer(reqs, comps, TENSORS_A_CALL);
		for (k = 0; k < TENSORS_A_CALL; k++)
			if (comps[k].result != (__s64)reqs[k].length)
				errx(1, "result %lld", (long long)comps[k].result);
	}
}

/* The page cache neither has them before nor keeps them. */
static void drop_cache(int fd)
{
	if (posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		errx(1, "posix_fadvise");
}

static void tensors_check(int fd, const struct tensor *tensors)
{
	char *data = malloc(TENSOR_MAX);
	unsigned int i;

	for (i = 0; i < NR_TENSORS; i++) {
		if (pread(fd, data, tensors[i].length, tensors[i].offset) !=
		    (ssize_t)tensors[i].length)
			err(1, "pread");
		if (memcmp(data, mas_vram + tensors[i].place, tensors[i].length))
			errx(1, "tensor %u is wrong", i);
	}
	free(data);
}

static void count_tensors(const struct target *target, const char *name, unsigned int shift_mask)
{
	static struct tensor tensors[NR_TENSORS];
	size_t sum = tensors_make(tensors, shift_mask);
	int fd;

	fd = open_target(target, 0);
	memset(mas_vram, 0xff, BUFFER);
	drop_cache(fd);
	count_begin(name, sum / NR_TENSORS, NR_TENSORS);
	tensors_read(target, tensors);
	count_end();
	tensors_check(fd, tensors);
	drop_cache(fd);
	close(fd);
}

/*
 * Once with each tensor where the disk can put it, modulo 4 as in the file, and
 * once packed without a thought for the disk.
 */
static const struct {
	const char *way;
	unsigned int shift_mask;
} tensor_ways[] = {
	{ "mas", 3 },
	{ "mas-packed", 0 },
};

static bool tensors_name(const struct target *target, unsigned int i, char name[64])
{
	snprintf(name, 64, "%s.read.tensors.%s", target->name, tensor_ways[i].way);
	return is_wanted(name);
}

bool tensors_wanted(const struct target *target)
{
	char name[64];

	return tensors_name(target, 0, name) || tensors_name(target, 1, name);
}

/* Only counted: what matters is how much the disk is asked for. */
void run_tensors(const struct target *target)
{
	unsigned int i;
	char name[64];

	for (i = 0; i < sizeof(tensor_ways) / sizeof(*tensor_ways); i++) {
		if (!tensors_name(target, i, name))
			continue;
		if (list_only)
			puts(name);
		else if (count_only)
			count_tensors(target, name, tensor_ways[i].shift_mask);
	}
}
