// SPDX-License-Identifier: GPL-2.0
/*
 * What the bench's figures are to show: each ratio beside what is aimed at.
 */
#define _GNU_SOURCE

#include <stdio.h>
#include <string.h>

#include "bench.h"

static const struct result *results;
static unsigned int nr_results;

static const struct result *find_result(const char *name)
{
	unsigned int i;

	for (i = 0; i < nr_results; i++)
		if (!strcmp(results[i].name, name))
			return &results[i];
	return NULL;
}

/* The cheaper one, if there is a choice; 0 if one is missing. */
static double result_value(const char *prefix, const char *name, const char *other)
{
	const struct result *a, *b;
	char full[80];

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

/* For comparison: nothing was promised. */
static void tell(const char *what, double value)
{
	printf("ratio: %-64s %7.3f (no aim)\n", what, value);
}

/* --- reads of a raw disk ------------------------------------------------------- */

static const struct aim {
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

#define NR_AIMS	(sizeof(aims) / sizeof(*aims))

/* 0: not measured. */
static double aim_ratio(const struct aim *aim, const char *target, const char *direction)
{
	double value, base;
	char prefix[64];

	snprintf(prefix, sizeof(prefix), "%s.%s.%s", target, direction, aim->job);
	value = result_value(prefix, aim->name, NULL);
	base = result_value(prefix, aim->base, aim->other);
	return value && base ? value / base : 0;
}

static void judge_reads(void)
{
	unsigned int i;
	char what[128];
	double ratio;

	for (i = 0; i < NR_AIMS; i++) {
		ratio = aim_ratio(&aims[i], "raw", "read");
		snprintf(what, sizeof(what), "raw.read.%s: %s / %s", aims[i].job, aims[i].name,
			 aims[i].base);
		if (ratio)
			judge(what, ratio, aims[i].limit);
	}
}

/* --- the same elsewhere, beside what was measured there -------------------------- */

static void judge_like(const char *target, const char *direction, const char *like_target,
		       const char *like_direction, double more)
{
	double ratio, like;
	unsigned int i;
	char what[128];

	for (i = 0; i < NR_AIMS; i++) {
		ratio = aim_ratio(&aims[i], target, direction);
		like = aim_ratio(&aims[i], like_target, like_direction);
		snprintf(what, sizeof(what), "%s.%s.%s: %s / %s", target, direction, aims[i].job,
			 aims[i].name, aims[i].base);
		if (ratio && like)
			judge(what, ratio, like * more);
	}
}

static void judge_others(void)
{
	printf("# writes: the reads' ratio and 10 %%\n");
	judge_like("raw", "write", "raw", "read", 1.10);
	printf("# ext4: the ratio of the raw disk and 15 %%\n");
	judge_like("ext4", "read", "raw", "read", 1.15);
	judge_like("ext4", "write", "raw", "write", 1.15);
}

/* --- ways of this driver beside each other ---------------------------------------- */

/* The batch is as cheap as io_uring. */
static void judge_batch(void)
{
	static const char *const jobs[] = {
		"raw.read.4096.qd8", "raw.read.4096.qd32", "raw.read.65536.qd8",
		"raw.read.65536.qd32", "raw.read.1048576.qd8",
	};
	double batch, uring;
	unsigned int i;
	char what[128];

	for (i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
		batch = result_value(jobs[i], "mas", NULL);
		uring = result_value(jobs[i], "mas-uring", "mas-uring-defer");
		snprintf(what, sizeof(what), "%s: mas / mas-uring", jobs[i]);
		if (batch && uring)
			judge(what, batch / uring, 1.05);
	}
}

static void judge_segs(void)
{
	const struct result *segs = find_result("raw.read.seq.4096.qd1.segs");
	const struct result *one = find_result("raw.read.seq.4096.qd1.mas");
	const struct result *batch = find_result("raw.read.seq.4096.qd32.mas");

	if (!segs)
		return;
	judge("10 MiB into 2560 segments: commands", segs->commands * MAX_SEGS, 25);
	if (one)
		judge("10 MiB into 2560 segments / 2560 requests, each by itself",
		      segs->value / one->value, 1.0 / 20);
	if (batch)
		tell("10 MiB into 2560 segments / 2560 requests, 32 at a time",
		     segs->value / batch->value);
}

static void judge_threads(const char *way, double limit)
{
	static const char *const forms[] = {
		"raw.read.4096.qd1.%s", "raw.read.4096.qd8.%s-threads",
		"raw.read.4096.qd64.%s-threads",
	};
	double least = 0, most = 0;
	const struct result *r;
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
	if (limit)
		judge(text, most / least, limit);
	else
		tell(text, most / least);
}

/* Lines for those aims whose cases were measured. */
void judge_all(const struct result *all, unsigned int nr)
{
	results = all;
	nr_results = nr;
	judge_reads();
	judge_others();
	judge_batch();
	judge_segs();
	judge_threads("mas", 1.10);
	judge_threads("pread", 0);
}
