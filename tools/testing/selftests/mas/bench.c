// SPDX-License-Identifier: GPL-2.0
/*
 * What an I/O costs, in instructions: this driver beside pread(2), pwrite(2) and
 * io_uring. bench.sh runs it in a guest.
 *
 * usage: bench [-l] [-c] [-n TURNS] [CASE]...
 *
 * CASE is as printed, or the start of it. -l lists the cases. -c does each case a
 * few times between marks, for an emulator that counts (bench_count.h), and
 * measures nothing. Each measurement is preceded and followed by a call of
 * sched_get_priority_max(2), for the eyes of a tracer.
 */
#define _GNU_SOURCE

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define MAX_RESULTS	800
#define MAX_TURNS	99

static struct target targets[] = {
	{ .name = "raw", .kind = ON_RAW, .env = "MAS_RAW" },
	{ .name = "raw", .kind = ON_RAW, .env = "MAS_RAW_SLOW", .slow = true },
	{ .name = "ext4", .kind = ON_EXT4, .env = "MAS_EXT4_DISK", .dir = "/mnt/bench" },
	{ .name = "ext4", .kind = ON_EXT4, .env = "MAS_EXT4_SLOW", .slow = true,
	  .dir = "/mnt/bench-slow" },
	{ .name = "raw-prp", .kind = ON_PRP, .env = "MAS_RAW", .prp = true },
	{ .name = "raw-prp", .kind = ON_PRP, .env = "MAS_RAW_SLOW", .slow = true, .prp = true },
	{ .name = "raw-mdts5", .kind = ON_MDTS5, .env = "MAS_MDTS5" },
	{ .name = "raw-mdts5", .kind = ON_MDTS5, .env = "MAS_MDTS5_SLOW", .slow = true },
	{ .name = "vram", .kind = ON_VRAM },
};

#define NR_TARGETS	(sizeof(targets) / sizeof(*targets))

unsigned int nr_turns = 7;
bool list_only, count_only;

static struct result results[MAX_RESULTS];
static unsigned int nr_results;
static char **wanted;

/* --- results ------------------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void add_result(const char *name, const struct job *job, double *values, unsigned int nr,
		double commands, double interrupts)
{
	struct result *r = &results[nr_results++];
	double median, spread;

	if (nr_results > MAX_RESULTS)
		errx(1, "more than %u results", MAX_RESULTS);
	qsort(values, nr, sizeof(*values), compare);
	median = values[nr / 2];
	spread = 100 * (values[nr - 1] - values[0]) / median;
	r->name = strdup(name);
	r->value = median;
	r->commands = commands;
	printf("  %-38s %10.0f  +- %4.1f %%", name, median, spread / 2);
	if (commands)
		printf("  %8.3f commands", commands);
	if (job->target->env)
		printf("  %8.3f interrupts", interrupts);
	printf("\nbench: %s %zu instructions %.0f\n", name, job->bytes, median);
	printf("bench: %s %zu spread %.0f\n", name, job->bytes, spread * median / 100);
	if (commands)
		printf("bench: %s %zu commands %.4f\n", name, job->bytes, commands);
	if (job->target->env)
		printf("bench: %s %zu interrupts %.4f\n", name, job->bytes, interrupts);
	fflush(stdout);
}

bool is_wanted(const char *name)
{
	char **w;

	for (w = wanted; *w; w++)
		if (!strncmp(name, *w, strlen(*w)))
			return true;
	return !*wanted;
}

/* --- the run --------------------------------------------------------------------- */

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

	while ((opt = getopt(argc, argv, "lcn:")) != -1) {
		if (opt == 'l')
			list_only = true;
		else if (opt == 'c')
			count_only = true;
		else if (opt == 'n')
			nr_turns = atoi(optarg);
		else
			errx(1, "usage: bench [-l] [-c] [-n TURNS] [CASE]...");
	}
	if (!nr_turns || nr_turns > MAX_TURNS)
		errx(1, "1 to %u turns", MAX_TURNS);
	wanted = argv + optind;
}

static void open_target(struct target *t)
{
	t->disk = need_env(t->env) + strlen("/dev/");
	snprintf(t->path, sizeof(t->path), "/dev/%s", t->disk);
	if (t->dir)
		snprintf(t->path, sizeof(t->path), "%s/bench", t->dir);
	t->fd = open(t->path, O_RDWR | O_DIRECT | O_CLOEXEC | (t->dir ? O_CREAT : 0), 0600);
	if (t->fd < 0)
		err(1, "%s", t->path);
	t->id = mas_add_file(t->fd);
}

static void run_targets(void)
{
	unsigned int t, w;

	for (t = 0; t < NR_TARGETS; t++)
		for (w = 0; w < 2; w++)
			run_target(&targets[t], w);
}

static void open_targets(void)
{
	unsigned int t;

	for (t = 0; t < NR_TARGETS; t++)
		if (targets[t].env && is_target_wanted(&targets[t]))
			open_target(&targets[t]);
}

int main(int argc, char **argv)
{
	parse_options(argc, argv);
	setlinebuf(stdout);
	if (list_only) {
		run_targets();
		return 0;
	}
	run_begin();
	mem_open();
	open_targets();
	run_targets();
	run_end();
	mem_check();
	if (!count_only)
		judge_all(results, nr_results);
	return 0;
}
