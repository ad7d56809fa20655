/* SPDX-License-Identifier: GPL-2.0 */
/* Is a mapping there, or does an access raise SIGBUS? Include mas_utils.h first. */
#ifndef MAS_BUS_H
#define MAS_BUS_H

#include <setjmp.h>
#include <signal.h>

static sigjmp_buf mas_bus;

static inline void mas_on_bus(int sig)
{
	siglongjmp(mas_bus, 1);
}

static inline bool is_bus_error(const char *p)
{
	signal(SIGBUS, mas_on_bus);
	if (sigsetjmp(mas_bus, 1))
		return true;
	__atomic_load_n(p, __ATOMIC_RELAXED);
	return false;
}

#endif /* MAS_BUS_H */
