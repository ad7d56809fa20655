/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Count instructions by the clock.
 *
 * Where QEMU runs one CPU with "-icount shift=0,sleep=off", the clock of the
 * guest advances by 1 ns with each instruction, of whatever kind: programs, the
 * kernel, interrupts. Only while the CPU is halted it advances by itself. So a
 * child that runs when nothing else does keeps the CPU from halting, and counts
 * how often it goes round its loop. What the clock says, less what the child
 * has used, is what the work has cost.
 *
 * Who waits for a real disk falls asleep. QEMU's disk may be faster than its CPU,
 * and whether it is depends on what else the machine does. So each lap, from the
 * submission of I/O to its completion, is taken by itself, and those count in which
 * the child had its turn.
 */
#ifndef MAS_BENCH_ICOUNT_H
#define MAS_BENCH_ICOUNT_H

#include <err.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

struct icount {
	unsigned long *turns;	/* shared with the child */
	pid_t child;
	double per_turn;
	double per_lap;		/* what icount_lap() itself takes */
	unsigned long start_turns, lap_turns;
	unsigned long long start_ns, lap_ns;
	double slept_cost;	/* of the laps that count */
	unsigned long slept;	/* number of them */
	unsigned long laps;
};

static inline unsigned long long icount_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

static inline void icount_begin(struct icount *ic)
{
	ic->slept_cost = 0;
	ic->slept = 0;
	ic->laps = 0;
	ic->start_turns = __atomic_load_n(ic->turns, __ATOMIC_RELAXED);
	ic->lap_turns = ic->start_turns;
	ic->start_ns = icount_ns();
	ic->lap_ns = ic->start_ns;
}

/* Instructions since icount_begin(). */
static inline double icount_end(struct icount *ic)
{
	unsigned long long ns = icount_ns() - ic->start_ns;

	return ns - (__atomic_load_n(ic->turns, __ATOMIC_RELAXED) - ic->start_turns) * ic->per_turn;
}

static inline void icount_lap(struct icount *ic)
{
	unsigned long long ns = icount_ns();
	unsigned long turns = __atomic_load_n(ic->turns, __ATOMIC_RELAXED);

	if (turns != ic->lap_turns) {
		ic->slept_cost += ns - ic->lap_ns - ic->per_lap -
				  (turns - ic->lap_turns) * ic->per_turn;
		ic->slept++;
	}
	ic->laps++;
	ic->lap_turns = turns;
	ic->lap_ns = ns;
}

static inline void icount_sleep(long ns)
{
	struct timespec ts = { 0, ns };

	nanosleep(&ts, NULL);
}

static inline void icount_idle(unsigned long *turns)
{
	struct sched_param param = { 0 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (sched_setscheduler(0, SCHED_IDLE, &param))
		_exit(1);
	for (;;)
		__atomic_store_n(turns, *turns + 1, __ATOMIC_RELAXED);
}

/* Start the child and see what a turn of its loop takes, timer ticks included. */
static inline void icount_init(struct icount *ic)
{
	unsigned long turns;
	unsigned int i;

	ic->turns = mmap(NULL, sizeof(*ic->turns), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ic->turns == MAP_FAILED)
		err(1, "mmap");
	ic->child = fork();
	if (ic->child < 0)
		err(1, "fork");
	if (!ic->child)
		icount_idle(ic->turns);

	icount_sleep(100000000);
	turns = __atomic_load_n(ic->turns, __ATOMIC_RELAXED);
	ic->start_ns = icount_ns();
	icount_sleep(500000000);
	if (__atomic_load_n(ic->turns, __ATOMIC_RELAXED) == turns)
		errx(1, "the idle child does not run");
	turns = __atomic_load_n(ic->turns, __ATOMIC_RELAXED) - turns;
	ic->per_turn = (double)(icount_ns() - ic->start_ns) / turns;

	icount_begin(ic);
	for (i = 0; i < 1000; i++)
		icount_lap(ic);
	ic->per_lap = (double)(ic->lap_ns - ic->start_ns) / 1000;
}

static inline void icount_exit(struct icount *ic)
{
	kill(ic->child, SIGKILL);
}

#endif /* MAS_BENCH_ICOUNT_H */
