// SPDX-License-Identifier: GPL-2.0
/*
 * Who a work item works for.
 *
 * A kernel worker has none of the submitter's rights and none of its limits: what
 * it did by itself would pass by file permissions, I/O control and memory limits.
 * So a request that may need a worker takes along who submitted it.
 */
#include <linux/cgroup.h>
#include <linux/cred.h>
#include <linux/kthread.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>

#include "mas_io.h"

#ifdef CONFIG_BLK_CGROUP
static struct cgroup_subsys_state *mas_current_blkcg(void)
{
	return task_get_css(current, io_cgrp_id);
}
#else
static struct cgroup_subsys_state *mas_current_blkcg(void)
{
	return NULL;
}
#endif

#ifdef CONFIG_MEMCG
static void mas_memcg_get(struct mem_cgroup *memcg)
{
	if (memcg)
		css_get(&memcg->css);
}
#else
static void mas_memcg_get(struct mem_cgroup *memcg)
{
}
#endif

/**
 * mas_owner_hold - take the calling task as owner, once
 * @owner: zeroed, or held already
 *
 * Context: the submitter's.
 */
void mas_owner_hold(struct mas_owner *owner)
{
	if (owner->cred)
		return;

	owner->cred = get_current_cred();
	owner->blkcg = mas_current_blkcg();
	owner->memcg = get_mem_cgroup_from_mm(current->mm);
}

/**
 * mas_owner_put - let go of the owner
 * @owner: held, or zeroed
 *
 * Context: any, hard interrupts too.
 */
void mas_owner_put(struct mas_owner *owner)
{
	if (!owner->cred)
		return;

	put_cred(owner->cred);
	if (owner->blkcg)
		css_put(owner->blkcg);
	mem_cgroup_put(owner->memcg);
	owner->cred = NULL;
}

/**
 * mas_owner_enter - work for an owner
 * @owner: held
 * @work: to be given to mas_owner_leave(); has references of its own, since the
 *	request may be gone by then
 *
 * Context: a kernel worker.
 */
void mas_owner_enter(const struct mas_owner *owner, struct mas_owner_work *work)
{
	work->owner = *owner;
	get_cred(owner->cred);
	if (owner->blkcg)
		css_get(owner->blkcg);
	mas_memcg_get(owner->memcg);

	work->old_cred = override_creds(owner->cred);
	kthread_associate_blkcg(owner->blkcg);
	work->old_memcg = set_active_memcg(owner->memcg);
}

/**
 * mas_owner_leave - end what mas_owner_enter() began
 * @work: as it was given there
 *
 * Context: the same worker.
 */
void mas_owner_leave(struct mas_owner_work *work)
{
	set_active_memcg(work->old_memcg);
	kthread_associate_blkcg(NULL);
	revert_creds(work->old_cred);
	mas_owner_put(&work->owner);
}
