// SPDX-License-Identifier: GPL-2.0
/* A machine that loses p2p traffic, for tests. See mas_proof.c. */
#include <linux/bits.h>
#include <linux/moduleparam.h>

#include "mas.h"
#include "mas_fault.h"

#define MAS_FAULT_READ		BIT(0)
#define MAS_FAULT_WRITE		BIT(1)
#define MAS_FAULT_NO_PROOF	BIT(2)
#define MAS_FAULT_REFUSE	BIT(3)

static unsigned int fault;

static int fault_set(const char *val, const struct kernel_param *kp)
{
	int ret = param_set_uint(val, kp);

	if (ret)
		return ret;

	mas_proof_drop_all();
	mas_route_changed();
	return 0;
}

static const struct kernel_param_ops fault_ops = {
	.set	= fault_set,
	.get	= param_get_uint,
};

module_param_cb(fault, &fault_ops, &fault, 0644);
MODULE_PARM_DESC(fault,
		 "For tests: 1: reads that are proved are lost, 2: so are writes, 4: nothing is proved, 8: writes that are proved fail");

/**
 * mas_fault_read - is what a controller writes to VRAM for a proof to be lost?
 *
 * Context: any.
 * Return: bit 0 of the parameter.
 */
bool mas_fault_read(void)
{
	return READ_ONCE(fault) & MAS_FAULT_READ;
}

/**
 * mas_fault_write - is a controller to read something else than VRAM for a proof?
 *
 * Context: any.
 * Return: bit 1 of the parameter.
 */
bool mas_fault_write(void)
{
	return READ_ONCE(fault) & MAS_FAULT_WRITE;
}

/**
 * mas_fault_refuse - is a controller to fail where it should read VRAM for a proof?
 *
 * Context: any.
 * Return: bit 3 of the parameter.
 */
bool mas_fault_refuse(void)
{
	return READ_ONCE(fault) & MAS_FAULT_REFUSE;
}

/**
 * mas_fault_no_proof - is the rule to be believed without a proof?
 *
 * Context: any.
 * Return: bit 2 of the parameter.
 */
bool mas_fault_no_proof(void)
{
	return READ_ONCE(fault) & MAS_FAULT_NO_PROOF;
}
