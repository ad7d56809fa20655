// SPDX-License-Identifier: GPL-2.0
/*
 * The bench's data, and whether it is where it belongs.
 */
#define _GNU_SOURCE

#include <err.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

/* Every page of a target begins with its offset. */
void target_fill(const struct target *target)
{
	unsigned long long *page = (void *)ram_huge;
	off_t base, skip;

	for (base = 0; base < (off_t)AREA; base += BUFFER) {
		for (skip = 0; skip < (off_t)BUFFER; skip += PAGE)
			page[skip / sizeof(*page)] = base + skip;
		if (pwrite(target->fd, ram_huge, BUFFER, base) != (ssize_t)BUFFER)
			err(1, "filling %s", target->name);
	}
	if (fsync(target->fd))
		err(1, "fsync");
}

/* What page @skip of place @place is to begin with in a write; no job: new ones. */
static unsigned long long write_mark(const struct job *job, unsigned int place, size_t skip)
{
	static unsigned long long epoch;

	if (!job)
		return ++epoch;
	return (epoch << 32) + place * job->bytes + skip;
}

/* Whatever was there before is not what the job is to bring. */
void prepare_data(const struct way *way, const struct job *job)
{
	size_t pos, room = *way->buffer == frag_vram ? FRAG_BUFFER : BUFFER;
	unsigned long long *mark, value;

	write_mark(NULL, 0, 0);
	for (pos = 0; pos < room; pos += PAGE) {
		mark = (void *)(*way->buffer + pos);
		value = job->write ? write_mark(job, pos / job->bytes, pos % job->bytes) : -1ULL;
		__atomic_store_n(mark, value, __ATOMIC_RELAXED);
	}
}

/* What page @skip of I/O @i begins with, now that it is done. */
static unsigned long long read_mark(const struct way *way, const struct job *job,
				    unsigned int i, unsigned int place, size_t skip)
{
	static char *data;
	unsigned long long *mark;

	if (!data)
		data = aligned_alloc(PAGE, BUFFER);
	if (!job->write) {
		mark = (void *)(*way->buffer + place * job->bytes + skip);
		return __atomic_load_n(mark, __ATOMIC_RELAXED);
	}
	if (!skip && pread(job->target->fd, data, job->bytes, job->offsets[i]) < 0)
		err(1, "pread");
	return *(unsigned long long *)(data + skip);
}

/* Is the data of a job that is done where it belongs? */
void check_data(const struct way *way, const struct job *job)
{
	unsigned long long want, got;
	unsigned int i;
	size_t skip;
	int place;

	for (i = 0; i < job->nr; i++) {
		place = way->place(job, i);
		for (skip = 0; place >= 0 && skip < job->bytes; skip += PAGE) {
			want = job->write ? write_mark(job, place, skip) : job->offsets[i] + skip;
			got = read_mark(way, job, i, place, skip);
			if (got != want)
				errx(1, "%s: I/O %u: %llx is %llx", way->name, i, want, got);
		}
	}
}
