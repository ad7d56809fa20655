// SPDX-License-Identifier: GPL-2.0
/*
 * The ways of the bench that wait for each I/O by itself: pread(2) and pwrite(2),
 * and threads.
 */
#define _GNU_SOURCE

#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include <linux/mxcd_mas.h>

#include "bench.h"

/* --- pread and pwrite ------------------------------------------------------ */

static void psync_one(const struct job *job, unsigned int i, char *buf)
{
	ssize_t ret;

	if (job->write)
		ret = pwrite(job->target->fd, buf, job->bytes, job->offsets[i]);
	else
		ret = pread(job->target->fd, buf, job->bytes, job->offsets[i]);
	if (ret != (ssize_t)job->bytes)
		err(1, "pread or pwrite: %zd", ret);
}

static void psync_run(const struct way *way, const struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->nr; i++) {
		psync_one(job, i, *way->buffer);
		bench_lap();
	}
}

/* What is done today: by way of host memory. */
static void psync_run_vram(const struct way *way, const struct job *job)
{
	unsigned int i;

	for (i = 0; i < job->nr; i++) {
		if (job->write)
			memcpy(ram_small, mas_vram, job->bytes);
		psync_one(job, i, ram_small);
		if (!job->write)
			memcpy(mas_vram, ram_small, job->bytes);
		bench_lap();
	}
}

const struct way way_pread = {
	.name = "pread", .run = psync_run, .place = batch_place, .buffer = &ram_small,
};

const struct way way_pread_huge = {
	.name = "pread-huge", .run = psync_run, .place = batch_place, .buffer = &ram_huge,
};

const struct way way_pread_vram = {
	.name = "pread-memcpy", .run = psync_run_vram, .place = batch_place,
	.buffer = &mas_vram,
};

/* Direct I/O of any program, where mappings of VRAM can be named to it. */
static int probe_mmap(const struct job *job)
{
	ssize_t ret;

	if (job->write)
		ret = pwrite(job->target->fd, mas_vram, PAGE, AREA);
	else
		ret = pread(job->target->fd, mas_vram, PAGE, 0);
	return ret < 0 ? errno : 0;
}

const struct way way_pread_mmap = {
	.name = "pread-mmap", .run = psync_run, .place = batch_place, .buffer = &mas_vram,
	.probe = probe_mmap,
};

/* --- many threads ---------------------------------------------------------- */

static struct share {
	pthread_t thread;
	const struct way *way;
	struct job job;
	unsigned int place;
} shares[MAX_THREADS];

static pthread_barrier_t share_start, share_done;
static bool share_quit;

static void share_mas(const struct share *share)
{
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg),
		.reqs = (unsigned long)&req,
		.comps = (unsigned long)&comp,
		.nr = 1,
		.min_nr = 1,
	};
	unsigned int i;

	for (i = 0; i < share->job.nr; i++) {
		mas_fill_req(&req, share->way, &share->job, i, share->place);
		mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
		mas_check_comp(&comp, &share->job);
	}
}

static void share_pread(const struct share *share)
{
	unsigned int i;

	for (i = 0; i < share->job.nr; i++)
		psync_one(&share->job, i, ram_small + share->place * share->job.bytes);
}

static void *share_work(void *arg)
{
	struct share *share = arg;

	for (;;) {
		pthread_barrier_wait(&share_start);
		if (share_quit)
			return NULL;
		if (share->way->handle)
			share_mas(share);
		else
			share_pread(share);
		pthread_barrier_wait(&share_done);
	}
}

/* One context, one file; "qd" threads with one I/O each. */
static void threads_begin(const struct way *way, const struct job *job)
{
	unsigned int i, each = job->nr / job->qd;

	share_quit = false;
	pthread_barrier_init(&share_start, NULL, job->qd + 1);
	pthread_barrier_init(&share_done, NULL, job->qd + 1);
	for (i = 0; i < job->qd; i++) {
		shares[i].way = way;
		shares[i].place = i;
		shares[i].job = *job;
		shares[i].job.nr = each;
		shares[i].job.offsets += i * each;
		if (pthread_create(&shares[i].thread, NULL, share_work, &shares[i]))
			errx(1, "pthread_create");
	}
}

static void threads_run(const struct way *way, const struct job *job)
{
	pthread_barrier_wait(&share_start);
	pthread_barrier_wait(&share_done);
}

static void threads_end(const struct way *way, const struct job *job)
{
	unsigned int i;

	share_quit = true;
	pthread_barrier_wait(&share_start);
	for (i = 0; i < job->qd; i++)
		pthread_join(shares[i].thread, NULL);
	pthread_barrier_destroy(&share_start);
	pthread_barrier_destroy(&share_done);
}

static int threads_place(const struct job *job, unsigned int i)
{
	unsigned int each = job->nr / job->qd;

	return i % each == each - 1 ? (int)(i / each) : -1;
}

#define THREADS(_name, _buffer, _handle) {				\
		.name = _name, .run = threads_run, .buffer = _buffer,	\
		.place = threads_place, .handle = _handle,		\
		.begin = threads_begin, .end = threads_end,		\
	}

const struct way way_threads = THREADS("mas-threads", &mas_vram, &mas_handle);
const struct way way_pread_threads = THREADS("pread-threads", &ram_small, NULL);
