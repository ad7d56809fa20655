// SPDX-License-Identifier: GPL-2.0
/*
 * The cases of the bench and how they are measured.
 *
 * Every case of a group does the same job, and they take turns: one measurement
 * of each, then the next of each. Of the measurements the median counts. The
 * first turn, which touches and caches what there is, does not; it is used to see
 * that the data is right, and to count commands and interrupts.
 */
#define _GNU_SOURCE

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "bench_count.h"
#include "bench_icount.h"

#define MAX_CASES	11
#define MAX_TURNS	99
#define MAX_TRIES	20
/* For large I/Os, which vary less and take longer, and on other than the raw disk. */
#define FEW_TURNS	3
#define COUNTED_IOS	16

#define SGL_THRESHOLD	"/sys/module/nvme/parameters/sgl_threshold"

#define FILES		(ON_RAW | ON_EXT4)
#define KINDS		(ON_PRP | ON_MDTS5)

/* Ways to compare, the last one is empty; a depth if it is not the group's. */
struct entry {
	const struct way *way;
	unsigned int qd;
};

static const struct entry sync_ways[] = {
	{ &way_mas }, { &way_mas_frag }, { &way_pread }, { &way_pread_huge }, { &way_pread_vram },
	{ &way_pread_mmap }, { &way_passthru }, { }
};

static const struct entry queued_ways[] = {
	{ &way_mas }, { &way_mas_slide }, { &way_mas_frag },
	{ &way_mas_uring }, { &way_mas_uring_defer },
	{ &way_uring }, { &way_uring_huge }, { &way_uring_defer }, { &way_uring_defer_huge },
	{ &way_passthru }, { }
};

static const struct entry large_ways[] = {
	{ &way_mas }, { &way_mas_uring_defer }, { &way_uring_defer }, { &way_uring_defer_huge },
	{ &way_passthru }, { }
};

static const struct entry kind_ways[] = {
	{ &way_mas }, { &way_uring_defer }, { &way_uring_defer_huge }, { }
};

static const struct entry kind_sync_ways[] = {
	{ &way_mas }, { &way_pread }, { &way_pread_huge }, { }
};

static const struct entry seg_ways[] = {
	{ &way_segs }, { &way_mas }, { &way_mas, 32 }, { }
};

static const struct entry thread_ways[] = {
	{ &way_threads }, { &way_threads, 64 },
	{ &way_pread_threads }, { &way_pread_threads, 64 }, { }
};

static const struct entry around_ways[] = {
	{ &way_around }, { &way_around_fd }, { &way_around_pread }, { &way_around_pread_huge },
	{ }
};

static const struct entry alloc_ways[] = {
	{ &way_alloc }, { }
};

static const struct group {
	unsigned int bytes;
	unsigned int qd;
	unsigned int nr;	/* I/Os of one measurement */
	unsigned int on;	/* targets */
	const struct entry *entries;
	bool slow;		/* for the disk that is slower than the CPU */
	bool in_order;		/* neighbours in the file follow each other */
	bool reads_only;
	bool few;		/* turns */
} groups[] = {
	{ 4 * KIB, 1, 128, FILES, sync_ways, .slow = true },
	{ 64 * KIB, 1, 96, FILES, sync_ways, .slow = true },
	{ MIB, 1, 16, FILES, sync_ways, .slow = true },
	{ 16 * MIB, 1, 4, FILES, sync_ways, .slow = true, .few = true },
	{ 4 * KIB, 8, 512, FILES, queued_ways, .few = true },
	{ 64 * KIB, 8, 256, FILES, queued_ways, .few = true },
	{ MIB, 8, 32, FILES, queued_ways },
	{ 16 * MIB, 8, 8, FILES, large_ways, .few = true },
	{ 4 * KIB, 32, 512, FILES, queued_ways },
	{ 64 * KIB, 32, 512, FILES, queued_ways },
	{ MIB, 32, 32, FILES, large_ways, .few = true },
	{ 16 * MIB, 32, 32, FILES, large_ways, .few = true },
	{ MIB, 1, 16, KINDS, kind_sync_ways, .slow = true },
	{ 64 * KIB, 32, 512, KINDS, kind_ways },
	{ MIB, 8, 32, KINDS, kind_ways },
	{ 4 * KIB, 1, MAX_SEGS, ON_RAW, seg_ways, .slow = true, .in_order = true,
	  .reads_only = true, .few = true },
	{ 4 * KIB, 8, 512, ON_RAW, thread_ways, .slow = true, .reads_only = true },
	{ 4 * MIB, 1, 8, FILES, around_ways, .slow = true, .reads_only = true },
	{ GIB, 1, 1, ON_VRAM, alloc_ways, .reads_only = true, .few = true },
};

static struct icount icount;

/* --- what is done when ---------------------------------------------------------- */

/* No two of a batch are neighbours, so that the block layer merges none. */
static void make_offsets(struct job *job, bool in_order)
{
	static off_t offsets[4096];
	unsigned long slots = AREA / job->bytes, step = slots * 618 / 1000 | 1;
	unsigned int i;

	for (i = 0; i < job->nr && slots; i++)
		offsets[i] = (in_order ? i : i * step % slots) * job->bytes;
	job->offsets = offsets;
}

static unsigned int entry_qd(const struct group *g, unsigned int i)
{
	return g->entries[i].qd ? g->entries[i].qd : g->qd;
}

/* Names are <target>.<direction>.<bytes>.<qd>.<way>, with ".seq" if in order. */
static void case_name(char *name, size_t size, const struct group *g, unsigned int i,
		      const struct job *job)
{
	snprintf(name, size, "%s.%s.%s%zu.qd%u.%s", job->target->name,
		 !job->target->env ? "alloc" : job->write ? "write" : "read",
		 g->in_order ? "seq." : "", job->bytes, job->qd, g->entries[i].way->name);
}

static void set_sgl_threshold(const char *value)
{
	FILE *file = fopen(SGL_THRESHOLD, "w");

	if (!file || fputs(value, file) < 0 || fclose(file))
		err(1, SGL_THRESHOLD);
}

static bool has_tensors(const struct target *target)
{
	return target->kind & FILES && !target->slow;
}

/* --- instructions --------------------------------------------------------------- */

void bench_lap(void)
{
	if (!count_only)
		icount_lap(&icount);
}

static unsigned long count_sleeps(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

/* Instructions per I/O. Repeated until enough has been seen of who sleeps. */
static double measure(const struct way *way, const struct job *job)
{
	double total, cost = 0;
	unsigned long sleeps, slept = 0, enough = 0;
	unsigned int tries;

	for (tries = 0; tries < MAX_TRIES; tries++) {
		icount_sleep(5000000); /* let others finish what they put off */
		sleeps = count_sleeps();
		syscall(__NR_sched_get_priority_max, 0);
		icount_begin(&icount);
		way->run(way, job);
		total = icount_end(&icount);
		syscall(__NR_sched_get_priority_max, 0);
		sleeps = count_sleeps() - sleeps;
		if (!icount.laps) {
			if (!job->target->slow || sleeps > job->nr * 80 / 100)
				return total / job->nr;
			continue;
		}
		cost += icount.slept_cost;
		slept += icount.slept;
		enough = icount.laps / 8;
		if (slept && slept >= enough)
			return cost / slept / (job->nr / icount.laps);
	}
	errx(1, "%s: the disk is faster than the CPU (%lu sleeps, %lu laps of %lu)", way->name,
	     sleeps, slept, enough);
}

/* --- commands, interrupts ----------------------------------------------------------- */

/* Commands that a disk was given so far, as the kernel counts them. */
static unsigned long disk_commands(const struct job *job)
{
	unsigned long read, written;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/block/%s/stat", job->target->disk);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%lu %*u %*u %*u %lu", &read, &written) != 2)
		err(1, "%s", path);
	fclose(file);
	return job->write ? written : read;
}

/* Interrupts of NVMe controllers so far, on the only CPU. */
static unsigned long nvme_interrupts(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	unsigned long value, sum = 0;
	char line[256];

	if (!file)
		err(1, "/proc/interrupts");
	while (fgets(line, sizeof(line), file))
		if (strstr(line, "nvme") && sscanf(line, " %*[^:]: %lu", &value) == 1)
			sum += value;
	fclose(file);
	return sum;
}

/* --- one case ------------------------------------------------------------------------- */

struct seen {
	double values[MAX_TURNS];
	double commands;
	double interrupts;
};

static void first_run(const struct way *way, const struct job *job, struct seen *seen)
{
	unsigned long commands, interrupts;

	if (!job->target->env)
		return way->run(way, job);
	prepare_data(way, job);
	commands = disk_commands(job);
	interrupts = nvme_interrupts();
	way->run(way, job);
	seen->interrupts = (double)(nvme_interrupts() - interrupts) / job->nr;
	seen->commands = (double)(disk_commands(job) - commands) / job->nr;
	if (way->uncounted)
		seen->commands = 0;
	check_data(way, job);
}

/* The first turn, 0, checks the data. */
static void take_turn(const struct way *way, struct job *job, unsigned int turn,
		      struct seen *seen)
{
	if (way->begin)
		way->begin(way, job);
	if (!turn) {
		first_run(way, job, seen);
	} else {
		/* Rings and threads are new each time. */
		if (way->begin)
			way->run(way, job);
		seen->values[turn - 1] = measure(way, job);
	}
	if (way->end) {
		way->end(way, job);
		/* A ring is taken apart later, which is not to be the next one's cost. */
		icount_sleep(100000000);
	}
}

void count_begin(const char *name, size_t bytes, unsigned int nr)
{
	sync();
	icount_sleep(20000000);
	printf("counted: %s %zu %u\n", name, bytes, nr);
	fflush(stdout);
	count_mark_begin();
}

void count_end(void)
{
	count_mark_end();
}

/* For the emulator's eyes: few I/Os, between marks. */
static void count_case(const struct way *way, const struct job *job, const char *name)
{
	struct seen seen;

	if (way->begin)
		way->begin(way, job);
	first_run(way, job, &seen);
	count_begin(name, job->bytes, job->nr);
	way->run(way, job);
	count_end();
	if (way->end)
		way->end(way, job);
}

/* --- a group ---------------------------------------------------------------------------- */

/* Can this be done here at all? */
static bool is_possible(const struct way *way, const struct job *job, const char *name)
{
	int error = way->probe ? way->probe(job) : 0;

	if (error)
		printf("# %s: not possible here: errno %d (%s)\n", name, error, strerror(error));
	return !error;
}

static bool is_for(const struct group *g, const struct target *target, bool write)
{
	return g->slow == target->slow && g->on & target->kind && !(g->reads_only && write);
}

/* The cases of a group that are wanted, as bits. */
static unsigned int choose_cases(const struct group *g, struct job *job, char names[][64])
{
	unsigned int i, chosen = 0;

	for (i = 0; g->entries[i].way; i++) {
		const struct way *way = g->entries[i].way;

		job->qd = entry_qd(g, i);
		if (way->raw_only && job->target->dir)
			continue;
		if (way == &way_mas_frag && job->bytes * job->qd > FRAG_BUFFER)
			continue;
		case_name(names[i], 64, g, i, job);
		if (is_wanted(names[i]))
			chosen |= 1 << i;
	}
	return chosen;
}

/* Those of them that can be done here at all. */
static unsigned int possible_cases(const struct group *g, const struct job *job,
				   unsigned int chosen, char names[][64])
{
	unsigned int i;

	for (i = 0; i < MAX_CASES; i++)
		if (chosen >> i & 1 && !is_possible(g->entries[i].way, job, names[i]))
			chosen &= ~(1 << i);
	return chosen;
}

bool is_target_wanted(const struct target *target)
{
	char names[MAX_CASES][64];
	unsigned int g, write;
	struct job job = { target };

	for (g = 0; g < sizeof(groups) / sizeof(*groups); g++) {
		for (write = 0; write < 2; write++) {
			job.write = write;
			job.bytes = groups[g].bytes;
			if (is_for(&groups[g], target, write) &&
			    choose_cases(&groups[g], &job, names))
				return true;
		}
	}
	return has_tensors(target) && tensors_wanted(target);
}

static void measure_group(const struct group *g, struct job *job, unsigned int chosen,
			  char names[][64])
{
	unsigned int i, turn, turns = nr_turns;
	static struct seen seen[MAX_CASES];

	if ((g->few || job->target->kind != ON_RAW) && turns > FEW_TURNS)
		turns = FEW_TURNS;
	for (turn = 0; turn <= turns; turn++) {
		for (i = 0; i < MAX_CASES; i++) {
			if (!(chosen >> i & 1))
				continue;
			job->qd = entry_qd(g, i);
			take_turn(g->entries[i].way, job, turn, &seen[i]);
		}
	}
	for (i = 0; i < MAX_CASES; i++)
		if (chosen >> i & 1)
			add_result(names[i], job, seen[i].values, turns, seen[i].commands,
				   seen[i].interrupts);
}

static void count_group(const struct group *g, struct job *job, unsigned int chosen,
			char names[][64])
{
	unsigned int i, nr = job->nr;

	for (i = 0; i < MAX_CASES; i++) {
		if (!(chosen >> i & 1))
			continue;
		job->qd = entry_qd(g, i);
		job->nr = nr;
		if (!g->in_order && nr > COUNTED_IOS)
			job->nr = job->qd > COUNTED_IOS ? job->qd : COUNTED_IOS;
		count_case(g->entries[i].way, job, names[i]);
	}
}

static void run_group(const struct group *g, const struct target *target, bool write)
{
	struct job job = { target, write, g->bytes, .nr = g->nr };
	char names[MAX_CASES][64];
	unsigned int i, chosen;

	if (!is_for(g, target, write))
		return;
	chosen = choose_cases(g, &job, names);
	for (i = 0; i < MAX_CASES && list_only; i++)
		if (chosen >> i & 1)
			puts(names[i]);
	if (list_only || !chosen)
		return;
	make_offsets(&job, g->in_order);
	chosen = possible_cases(g, &job, chosen, names);
	if (count_only)
		count_group(g, &job, chosen, names);
	else
		measure_group(g, &job, chosen, names);
}

/* All cases of a target that are wanted; or list them. */
void run_target(const struct target *target, bool write)
{
	unsigned int g;

	/* Another target on the same disk may have written there. */
	if (!write && !list_only && target->fd)
		target_fill(target);
	if (target->prp && !list_only)
		set_sgl_threshold("0");
	for (g = 0; g < sizeof(groups) / sizeof(*groups); g++)
		run_group(&groups[g], target, write);
	if (has_tensors(target) && !write)
		run_tensors(target);
	if (target->prp && !list_only)
		set_sgl_threshold("32768");
}

/* First of all: what a fork shares is copied later, and huge pages go. */
void run_begin(void)
{
	icount_init(&icount);
	printf("# idle: %.4f instructions each turn; %u measurements of a case, or %u\n",
	       icount.per_turn, nr_turns, nr_turns < FEW_TURNS ? nr_turns : FEW_TURNS);
}

void run_end(void)
{
	icount_exit(&icount);
}
