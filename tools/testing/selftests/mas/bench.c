// SPDX-License-Identifier: GPL-2.0
/*
 * What an I/O costs, in instructions: this driver beside pread(2), pwrite(2) and
 * io_uring. bench.sh runs it in a guest.
 *
 * Every case of a group does the same job, and they take turns: one measurement
 * of each, then the next of each. Of the measurements the median counts. The
 * first turn, which touches and caches what there is, does not; it is used to see
 * that the data is right.
 *
 * usage: bench [-l] [-n TURNS] [CASE]...
 *
 * CASE is as printed, or the start of it. Each measurement is preceded and
 * followed by a call of sched_get_priority_max(2), for the eyes of a tracer.
 */
#define _GNU_SOURCE

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "bench.h"
#include "bench_icount.h"

#define MAX_CASES	8
#define MAX_TURNS	99
#define MAX_TRIES	20
#define MAX_RESULTS	400

struct group {
	unsigned int bytes;
	unsigned int nr;	/* I/Os of one measurement */
	bool slow;		/* for the disk that is slower than the CPU */
	bool in_order;		/* neighbours in the file follow each other */
	bool raw_reads_only;
	struct {
		const struct way *way;
		unsigned int qd;
	} cases[MAX_CASES];
};

static const struct group groups[] = {
	{ 4 * KIB, 256, .slow = true, .cases = {
		{ &way_mas, 1 }, { &way_pread, 1 }, { &way_pread_huge, 1 } } },
	{ 64 * KIB, 128, .slow = true, .cases = {
		{ &way_mas, 1 }, { &way_pread, 1 }, { &way_pread_huge, 1 } } },
	{ MIB, 32, .slow = true, .cases = {
		{ &way_mas, 1 }, { &way_pread, 1 }, { &way_pread_huge, 1 },
		{ &way_pread_vram, 1 } } },
	{ 16 * MIB, 4, .slow = true, .cases = {
		{ &way_mas, 1 }, { &way_pread, 1 }, { &way_pread_huge, 1 } } },
	{ 4 * KIB, 512, .cases = {
		{ &way_mas, 32 }, { &way_mas_slide, 32 },
		{ &way_uring, 32 }, { &way_uring_huge, 32 },
		{ &way_uring_defer, 32 }, { &way_uring_defer_huge, 32 } } },
	{ 64 * KIB, 512, .cases = {
		{ &way_mas, 32 }, { &way_mas_slide, 32 },
		{ &way_uring, 32 }, { &way_uring_huge, 32 },
		{ &way_uring_defer, 32 }, { &way_uring_defer_huge, 32 } } },
	{ MIB, 64, .cases = {
		{ &way_mas, 8 }, { &way_mas_slide, 8 }, { &way_uring, 8 }, { &way_uring_huge, 8 },
		{ &way_uring_defer, 8 }, { &way_uring_defer_huge, 8 } } },
	{ 4 * KIB, MAX_SEGS, .slow = true, .in_order = true, .raw_reads_only = true, .cases = {
		{ &way_segs, 1 }, { &way_mas, 1 }, { &way_mas, 32 } } },
	{ 4 * KIB, 2048, .slow = true, .raw_reads_only = true, .cases = {
		{ &way_threads, 8 }, { &way_threads, 64 },
		{ &way_pread_threads, 8 }, { &way_pread_threads, 64 } } },
};

struct result {
	const char *name;
	double value;
	double commands;
};

static struct target targets[] = {
	{ .name = "raw", .env = "MAS_RAW" },
	{ .name = "raw", .env = "MAS_RAW_SLOW", .slow = true },
	{ .name = "ext4", .env = "MAS_EXT4_DISK", .dir = "/mnt/bench" },
	{ .name = "ext4", .env = "MAS_EXT4_SLOW", .slow = true, .dir = "/mnt/bench-slow" },
};

#define NR_TARGETS	(sizeof(targets) / sizeof(*targets))

static struct result results[MAX_RESULTS];
static unsigned int nr_results;
static struct icount icount;
static unsigned int nr_turns = 7;
static bool list_only;
static char **wanted;

/* --- data ------------------------------------------------------------------ */

/* Every page of a target begins with its offset. */
static void target_fill(const struct target *target)
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

static void prepare_data(const struct way *way, const struct job *job)
{
	unsigned long long *mark, value;
	size_t pos;

	write_mark(NULL, 0, 0);
	for (pos = 0; pos < BUFFER; pos += PAGE) {
		mark = (void *)(*way->buffer + pos);
		value = job->write ? write_mark(job, pos / job->bytes, pos % job->bytes) : 0;
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
static void check_data(const struct way *way, const struct job *job)
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

/* No two of a batch are neighbours, so that the block layer merges none. */
static void make_offsets(struct job *job, bool in_order)
{
	static off_t offsets[4096];
	unsigned long slots = AREA / job->bytes, step = slots * 618 / 1000 | 1;
	unsigned int i;

	for (i = 0; i < job->nr; i++)
		offsets[i] = (in_order ? i : i * step % slots) * job->bytes;
	job->offsets = offsets;
}

/* --- measurements ---------------------------------------------------------- */

/* Commands that a disk was given so far. */
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

void bench_lap(void)
{
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

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void add_result(const char *name, const struct job *job, double *values,
		       double commands)
{
	struct result *r = &results[nr_results++];
	double median, spread;

	qsort(values, nr_turns, sizeof(*values), compare);
	median = values[nr_turns / 2];
	spread = 100 * (values[nr_turns - 1] - values[0]) / median;
	r->name = strdup(name);
	r->value = median;
	r->commands = commands;
	printf("  %-36s %10.0f  +- %4.1f %%  %8.3f commands\n", name, median, spread / 2, commands);
	printf("bench: %s %zu instructions %.0f\n", name, job->bytes, median);
	printf("bench: %s %zu spread %.0f\n", name, job->bytes, spread * median / 100);
	printf("bench: %s %zu commands %.4f\n", name, job->bytes, commands);
	fflush(stdout);
}

/* Names are <target>.<direction>.<bytes>.<qd>.<way>, with ".seq" if in order. */
static void case_name(char *name, size_t size, const struct group *g, unsigned int i,
		      const struct job *job)
{
	snprintf(name, size, "%s.%s.%s%zu.qd%u.%s", job->target->name,
		 job->write ? "write" : "read", g->in_order ? "seq." : "", job->bytes,
		 g->cases[i].qd, g->cases[i].way->name);
}

static bool is_wanted(const char *name)
{
	char **w;

	for (w = wanted; *w; w++)
		if (!strncmp(name, *w, strlen(*w)))
			return true;
	return !*wanted;
}

/* One turn of a case. The first also checks the data and counts the commands. */
static double take_turn(const struct way *way, struct job *job, bool first, double *commands)
{
	unsigned long before;
	double value;

	if (way->begin)
		way->begin(way, job);
	if (first) {
		prepare_data(way, job);
		before = disk_commands(job);
		way->run(way, job);
		*commands = (double)(disk_commands(job) - before) / job->nr;
		check_data(way, job);
	} else if (way->begin) {
		/* Rings and threads are new each time. */
		way->run(way, job);
	}
	value = first ? 0 : measure(way, job);
	if (way->end)
		way->end(way, job);
	return value;
}

static void run_group(const struct group *g, const struct target *target, bool write)
{
	double values[MAX_CASES][MAX_TURNS], commands[MAX_CASES];
	struct job job = { target, write, g->bytes, .nr = g->nr };
	char names[MAX_CASES][64];
	unsigned int i, turn;

	bool raw_read = !write && !strcmp(target->name, "raw");

	if (g->slow != target->slow || (g->raw_reads_only && !raw_read))
		return;
	make_offsets(&job, g->in_order);
	for (turn = 0; turn <= nr_turns; turn++) {
		for (i = 0; i < MAX_CASES && g->cases[i].way; i++) {
			job.qd = g->cases[i].qd;
			case_name(names[i], sizeof(names[i]), g, i, &job);
			if (!is_wanted(names[i]))
				continue;
			if (list_only) {
				puts(names[i]);
				continue;
			}
			values[i][turn ? turn - 1 : 0] =
				take_turn(g->cases[i].way, &job, !turn, &commands[i]);
		}
		if (list_only)
			return;
	}
	for (i = 0; i < MAX_CASES && g->cases[i].way; i++)
		if (is_wanted(names[i]))
			add_result(names[i], &job, values[i], commands[i]);
}

/* --- what is aimed at -------------------------------------------------------- */

static struct result *find_result(const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_results; i++)
		if (!strcmp(results[i].name, name))
			return &results[i];
	return NULL;
}

/* The cheaper one, if there is a choice. */
static double result_value(const char *prefix, const char *name, const char *other)
{
	char full[64];
	struct result *a, *b;

	snprintf(full, sizeof(full), "%s.%s", prefix, name);
	a = find_result(full);
	snprintf(full, sizeof(full), "%s.%s", prefix, other ? other : name);
	b = find_result(full);
	if (!a || !b)
		return 0;
	return a->value < b->value ? a->value : b->value;
}

static void judge(const char *what, double value, double limit)
{
	printf("ratio: %-64s %7.3f (at most %.3f) %s\n", what, value, limit,
	       value <= limit ? "met" : "MISSED");
}

static const struct {
	const char *job;
	const char *name;
	const char *base;
	const char *other;	/* whichever is cheaper counts */
	double limit;
} aims[] = {
	{ "4096.qd1", "mas", "pread", NULL, 1.00 },
	{ "4096.qd32", "mas", "uring", "uring-defer", 1.10 },
	{ "65536.qd32", "mas", "uring", "uring-defer", 0.60 },
	{ "1048576.qd8", "mas", "uring", "uring-defer", 0.12 },
	{ "1048576.qd1", "mas", "pread", NULL, 0.14 },
	{ "1048576.qd1", "mas", "pread-memcpy", NULL, 1.0 / 14 },
	{ "65536.qd32", "mas", "uring-huge", "uring-defer-huge", 1.15 },
	{ "1048576.qd8", "mas", "uring-huge", "uring-defer-huge", 0.60 },
	{ "1048576.qd1", "mas", "pread-huge", NULL, 0.75 },
};

static void judge_pairs(const char *target, bool write)
{
	char what[128], prefix[64];
	double value, base;
	unsigned int i;

	for (i = 0; i < sizeof(aims) / sizeof(*aims); i++) {
		snprintf(prefix, sizeof(prefix), "%s.%s.%s", target, write ? "write" : "read",
			 aims[i].job);
		value = result_value(prefix, aims[i].name, NULL);
		base = result_value(prefix, aims[i].base, aims[i].other);
		if (!value || !base)
			continue;
		snprintf(what, sizeof(what), "%s: %s / %s", prefix, aims[i].name, aims[i].base);
		judge(what, value / base, aims[i].limit);
	}
}

static void judge_segs(void)
{
	struct result *segs = find_result("raw.read.seq.4096.qd1.segs");
	struct result *one = find_result("raw.read.seq.4096.qd1.mas");
	struct result *batch = find_result("raw.read.seq.4096.qd32.mas");

	if (!segs)
		return;
	judge("10 MiB into 2560 segments: commands", segs->commands * MAX_SEGS, 25);
	if (one)
		judge("10 MiB into 2560 segments / 2560 requests, each by itself",
		      segs->value / one->value, 1.0 / 20);
	if (batch)
		judge("10 MiB into 2560 segments / 2560 requests, 32 at a time",
		      segs->value / batch->value, 1.0 / 20);
}

static void judge_threads(const char *way)
{
	static const char *const forms[] = {
		"raw.read.4096.qd1.%s", "raw.read.4096.qd8.%s-threads",
		"raw.read.4096.qd64.%s-threads",
	};
	double least = 0, most = 0;
	struct result *r;
	unsigned int i;
	char text[64];

	for (i = 0; i < 3; i++) {
		snprintf(text, sizeof(text), forms[i], way);
		r = find_result(text);
		if (!r)
			return;
		if (!least || r->value < least)
			least = r->value;
		if (r->value > most)
			most = r->value;
	}
	snprintf(text, sizeof(text), "%s: the dearest of 1, 8 and 64 threads / the cheapest", way);
	judge(text, most / least, 1.10);
}

/* --- the run ----------------------------------------------------------------- */

static const char *need_env(const char *name)
{
	const char *value = getenv(name);

	if (!value || !*value)
		errx(1, "%s is not set", name);
	return value;
}

static void parse_options(int argc, char **argv)
{
	int opt;

	while ((opt = getopt(argc, argv, "ln:")) != -1) {
		if (opt == 'l')
			list_only = true;
		else if (opt == 'n')
			nr_turns = atoi(optarg);
		else
			errx(1, "usage: bench [-l] [-n TURNS] [CASE]...");
	}
	if (!nr_turns || nr_turns > MAX_TURNS)
		errx(1, "1 to %u turns", MAX_TURNS);
	wanted = argv + optind;
}

static void open_all(void)
{
	char path[256];
	unsigned int i;

	for (i = 0; i < NR_TARGETS; i++) {
		struct target *t = &targets[i];

		t->disk = need_env(t->env) + strlen("/dev/");
		snprintf(path, sizeof(path), "/dev/%s", t->disk);
		if (t->dir)
			snprintf(path, sizeof(path), "%s/bench", t->dir);
		t->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC | (t->dir ? O_CREAT : 0), 0600);
		if (t->fd < 0)
			err(1, "%s", path);
	}
	ways_open(targets, NR_TARGETS);
	for (i = 0; i < NR_TARGETS; i++)
		target_fill(&targets[i]);
}

int main(int argc, char **argv)
{
	unsigned int t, w, g;

	parse_options(argc, argv);
	if (!list_only) {
		/* First: what a fork shares is copied later, and huge pages go. */
		icount_init(&icount);
		open_all();
		printf("# idle: %.4f instructions each turn; %u measurements each case\n",
		       icount.per_turn, nr_turns);
	}
	for (t = 0; t < NR_TARGETS; t++)
		for (w = 0; w < 2; w++)
			for (g = 0; g < sizeof(groups) / sizeof(*groups); g++)
				run_group(&groups[g], &targets[t], w);
	if (list_only)
		return 0;
	icount_exit(&icount);
	ways_check();
	for (w = 0; w < 2; w++) {
		judge_pairs("raw", w);
		judge_pairs("ext4", w);
	}
	judge_segs();
	judge_threads("mas");
	judge_threads("pread");
	return 0;
}
