/* SPDX-License-Identifier: GPL-2.0 */
/* Faults for tests to ask for, in builds with CONFIG_MXCD_DEBUG alone. */
#ifndef _MAS_FAULT_H
#define _MAS_FAULT_H

#include <linux/types.h>

#ifdef CONFIG_MXCD_DEBUG
bool mas_fault_read(void);
bool mas_fault_write(void);
bool mas_fault_refuse(void);
bool mas_fault_no_proof(void);
#else
static inline bool mas_fault_read(void)
{
	return false;
}

static inline bool mas_fault_write(void)
{
	return false;
}

static inline bool mas_fault_refuse(void)
{
	return false;
}

static inline bool mas_fault_no_proof(void)
{
	return false;
}
#endif

#endif /* _MAS_FAULT_H */
