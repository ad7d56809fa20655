/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks by which the bench tells the emulator what to count.
 *
 * They are instructions that do nothing: no-operations with an address that
 * nobody computes. bench_plugin.c knows them by their bytes. Where it is not
 * loaded they cost one instruction each.
 */
#ifndef MAS_BENCH_COUNT_H
#define MAS_BENCH_COUNT_H

/* nopl <code>(%rax) is 0f 1f 80 and the code. */
#define COUNT_NOP_SIZE	7
#define COUNT_NOP_0	0x0f
#define COUNT_NOP_1	0x1f
#define COUNT_NOP_2	0x80

#define COUNT_BEGIN	0x4d415301
#define COUNT_END	0x4d415302
/* The instruction behind this one reads VRAM. */
#define COUNT_LEARN	0x4d415303

#ifdef __x86_64__

static inline void count_mark_begin(void)
{
	__asm__ volatile("nopl %c0(%%rax)" : : "i" (COUNT_BEGIN) : "memory");
}

static inline void count_mark_end(void)
{
	__asm__ volatile("nopl %c0(%%rax)" : : "i" (COUNT_END) : "memory");
}

/* Show the emulator where VRAM is. */
static inline void count_learn(const void *vram)
{
	unsigned int value;

	__asm__ volatile("nopl %c2(%%rax)\n\tmovl (%1), %0" : "=r" (value)
			 : "r" (vram), "i" (COUNT_LEARN) : "memory");
}

#else

/* The bench is for x86-64, as the driver is; elsewhere it is only compiled. */
static inline void count_mark_begin(void)
{
}

static inline void count_mark_end(void)
{
}

static inline void count_learn(const void *vram)
{
}

#endif

#endif /* MAS_BENCH_COUNT_H */
