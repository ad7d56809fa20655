// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of a GPU: layout/nodes/<n>/mas_stats/ in sysfs, one value per file, and
 * a histogram of durations in debugfs.
 *
 * They begin at zero when the GPU is bound and cannot be reset: who wants the
 * difference reads twice.
 */
#include <linux/ctype.h>
#include <linux/debugfs.h>
#include <linux/kobject.h>
#include <linux/log2.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "mas_stats.h"
#include "mxcd_layout.h"

DEFINE_STATIC_KEY_FALSE(mas_stats_timed);

/**
 * struct mas_stat - a file in mas_stats
 * @attr: the file
 * @offset: of the counter in &struct mas_stats; not used for "inflight"
 * @name: its name
 */
struct mas_stat {
	struct kobj_attribute attr;
	unsigned int offset;
	char name[64];
};

#define OFFSET(member)	offsetof(struct mas_stats, member)

/* What has a name of its own; the others follow. */
#define MAS_STATS_NAMED	14
#define MAS_STATS_FILES	(MAS_STATS_NAMED + MAS_STATS_REASONS + MAS_NR_ERRORS)

static struct mas_stat mas_stat_files[MAS_STATS_FILES];
static struct attribute *mas_stat_attrs[MAS_STATS_FILES + 1];

static const struct attribute_group mas_stats_group = {
	.name	= "mas_stats",
	.attrs	= mas_stat_attrs,
};

static struct dentry *mas_stats_debugfs;

static u64 mas_stats_sum(struct mxcd_gpu *gpu, unsigned int offset)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(*(u64 *)((void *)per_cpu_ptr(gpu->stats, cpu) + offset));

	return sum;
}

static struct mxcd_gpu *mas_stats_gpu(struct kobject *kobj)
{
	return container_of(kobj, struct mxcd_node, kobj)->gpu;
}

static ssize_t mas_stat_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	struct mas_stat *stat = container_of(attr, struct mas_stat, attr);

	return sysfs_emit(buf, "%llu\n", mas_stats_sum(mas_stats_gpu(kobj), stat->offset));
}

static ssize_t mas_inflight_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%llu\n", mas_holders_inflight(mas_stats_gpu(kobj)));
}

static const struct {
	const char *name;
	unsigned int offset;
} mas_stats_named[MAS_STATS_NAMED - 1] = {
	{ "read_bytes_p2p",	    OFFSET(flow[0].p2p_bytes) },
	{ "read_bytes_bounce",	    OFFSET(flow[0].bounce_bytes) },
	{ "read_requests_none",	    OFFSET(flow[0].requests[0]) },
	{ "read_requests_p2p",	    OFFSET(flow[0].requests[1]) },
	{ "read_requests_bounce",   OFFSET(flow[0].requests[2]) },
	{ "read_requests_both",	    OFFSET(flow[0].requests[3]) },
	{ "write_bytes_p2p",	    OFFSET(flow[1].p2p_bytes) },
	{ "write_bytes_bounce",	    OFFSET(flow[1].bounce_bytes) },
	{ "write_requests_none",    OFFSET(flow[1].requests[0]) },
	{ "write_requests_p2p",	    OFFSET(flow[1].requests[1]) },
	{ "write_requests_bounce",  OFFSET(flow[1].requests[2]) },
	{ "write_requests_both",    OFFSET(flow[1].requests[3]) },
	{ "queue_full",		    OFFSET(queue_full) },
};

static const char * const mas_error_names[MAS_NR_ERRORS] = {
	[MAS_ERROR_IO]		= "io",
	[MAS_ERROR_NODEV]	= "nodev",
	[MAS_ERROR_NOSPC]	= "nospc",
	[MAS_ERROR_ACCESS]	= "access",
	[MAS_ERROR_INVALID]	= "invalid",
	[MAS_ERROR_CANCELED]	= "canceled",
	[MAS_ERROR_NOT_P2P]	= "not_p2p",
	[MAS_ERROR_NOMEM]	= "nomem",
	[MAS_ERROR_OTHER]	= "other",
};

static enum mas_error mas_error_class(int err)
{
	switch (err) {
	case -EIO:
	case -EREMOTEIO:
	case -EBADMSG:
	case -EILSEQ:
	case -ENODATA:
	case -ETIMEDOUT:
	case -ENOLINK:
	case -EUCLEAN:
		return MAS_ERROR_IO;
	case -ENODEV:
	case -ENXIO:
		return MAS_ERROR_NODEV;
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return MAS_ERROR_NOSPC;
	case -EACCES:
	case -EPERM:
	case -EROFS:
	case -EBADF:
		return MAS_ERROR_ACCESS;
	case -EINVAL:
	case -EFAULT:
	case -ENOENT:
	case -EOPNOTSUPP:
		return MAS_ERROR_INVALID;
	case -ECANCELED:
	case -EINTR:
		return MAS_ERROR_CANCELED;
	case -EXDEV:
		return MAS_ERROR_NOT_P2P;
	case -ENOMEM:
		return MAS_ERROR_NOMEM;
	default:
		return MAS_ERROR_OTHER;
	}
}

/* What never started is no transfer of the GPU. */
static struct mas_flow __percpu *mas_stats_flow(const struct mas_req *req)
{
	if (!req->started || !mas_is_transfer(req->op))
		return NULL;

	return &req->gpu->stats->flow[mas_is_write(req)];
}

/**
 * mas_stats_not_p2p - count what did not go p2p as a whole, or failed
 * @req: a request that has its result
 *
 * Context: any, hard interrupts too.
 */
void mas_stats_not_p2p(struct mas_req *req)
{
	struct mas_flow __percpu *flow = mas_stats_flow(req);
	struct mas_stats __percpu *stats;

	if (!flow)
		return;

	stats = req->gpu->stats;
	this_cpu_inc(flow->requests[req->route]);
	if (req->result < 0) {
		this_cpu_inc(stats->errors[mas_error_class(req->result)]);
		return;
	}
	if (!(req->route & MXCD_MAS_ROUTE_BOUNCE))
		return;

	this_cpu_add(flow->p2p_bytes, req->p2p_bytes);
	this_cpu_add(flow->bounce_bytes, req->result - req->p2p_bytes);
	if (req->reason < MAS_STATS_REASONS)
		this_cpu_inc(stats->bounces[req->reason]);
}

/**
 * mas_stats_not_p2p_ctx - the same for the counters of the context
 * @ctx: the context, its lock held
 * @req: a request that has its result
 *
 * Context: any, hard interrupts too.
 */
void mas_stats_not_p2p_ctx(struct mas_ctx *ctx, const struct mas_req *req)
{
	bool write = mas_is_write(req);

	if (req->result < 0) {
		ctx->stats.errors++;
	} else if (mas_is_transfer(req->op)) {
		ctx->stats.p2p_bytes[write] += req->p2p_bytes;
		ctx->stats.bounce_bytes[write] += req->result - req->p2p_bytes;
	}
}

/**
 * mas_stats_time - count how long a transfer took
 * @req: a request that has its result
 *
 * Context: any, hard interrupts too.
 */
void mas_stats_time(struct mas_req *req)
{
	bool bounced = req->route & MXCD_MAS_ROUTE_BOUNCE;
	struct mas_flow __percpu *flow = mas_stats_flow(req);
	u64 ns;

	/* Begun before the switch was turned on, or failed. */
	if (!flow || !req->start_ns || req->result < 0)
		return;

	ns = ktime_get_ns() - req->start_ns;
	this_cpu_inc(flow->latency[bounced][min(ilog2(ns | 1), MAS_STATS_BUCKETS - 1)]);
}

/**
 * mas_stats_queue_full - a request found the queue of its context full
 * @ctx: the context
 *
 * What the request names is not known then: it counts for each GPU that the
 * context may use.
 *
 * Context: process context.
 */
void mas_stats_queue_full(struct mas_ctx *ctx)
{
	u64 todo = READ_ONCE(ctx->gpus) & mxcd_gpus_enabled();
	struct mxcd_gpu *gpu;

	spin_lock_irq(&ctx->lock);
	ctx->stats.queue_full++;
	spin_unlock_irq(&ctx->lock);

	for (; todo; todo &= todo - 1) {
		gpu = mxcd_gpu_enter(__ffs64(todo));
		if (IS_ERR(gpu))
			continue;
		this_cpu_inc(gpu->stats->queue_full);
		mxcd_gpu_leave(gpu);
	}
}

static int mas_latency_show(struct seq_file *m, void *unused)
{
	struct mxcd_gpu *gpu = m->private;
	int i, way;

	seq_puts(m, "below_ns read_p2p read_bounce write_p2p write_bounce\n");
	for (i = 0; i < MAS_STATS_BUCKETS; i++) {
		seq_printf(m, "%llu", 2ULL << i);
		for (way = 0; way < 4; way++)
			seq_printf(m, " %llu",
				   mas_stats_sum(gpu, OFFSET(flow[way / 2].latency[way % 2][i])));
		seq_putc(m, '\n');
	}

	return 0;
}
DEFINE_SHOW_ATTRIBUTE(mas_latency);

static int mas_timed_get(void *data, u64 *value)
{
	*value = static_key_enabled(&mas_stats_timed);
	return 0;
}

static int mas_timed_set(void *data, u64 value)
{
	if (value)
		static_branch_enable(&mas_stats_timed);
	else
		static_branch_disable(&mas_stats_timed);

	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(mas_timed_fops, mas_timed_get, mas_timed_set, "%llu\n");

/**
 * mas_stats_alloc - give a GPU its counters
 * @gpu: a new GPU
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int mas_stats_alloc(struct mxcd_gpu *gpu)
{
	gpu->stats = alloc_percpu(struct mas_stats);

	return gpu->stats ? 0 : -ENOMEM;
}

/**
 * mas_stats_free - the counterpart
 * @gpu: a GPU that nobody refers to any more
 *
 * Context: may sleep.
 */
void mas_stats_free(struct mxcd_gpu *gpu)
{
	free_percpu(gpu->stats);
}

/**
 * mas_stats_show - show the counters of a GPU
 * @gpu: the GPU
 * @dir: its node in sysfs; what is made there goes with it
 *
 * Context: may sleep.
 * Return: 0 or a negative errno.
 */
int mas_stats_show(struct mxcd_gpu *gpu, struct kobject *dir)
{
	char name[16];

	snprintf(name, sizeof(name), "gpu%d", gpu->index);
	gpu->debugfs = debugfs_create_dir(name, mas_stats_debugfs);
	debugfs_create_file("latency", 0400, gpu->debugfs, gpu, &mas_latency_fops);

	return sysfs_create_group(dir, &mas_stats_group);
}

/**
 * mas_stats_hide - no file reads the counters of a GPU in debugfs any more
 * @gpu: the GPU
 *
 * Context: may sleep.
 */
void mas_stats_hide(struct mxcd_gpu *gpu)
{
	debugfs_remove_recursive(gpu->debugfs);
}

static struct mas_stat *mas_stat_add(const char *prefix, const char *words, unsigned int offset)
{
	unsigned int n = 0;
	struct mas_stat *stat;
	char *c;

	while (mas_stat_attrs[n])
		n++;
	stat = &mas_stat_files[n];
	snprintf(stat->name, sizeof(stat->name), "%s%s", prefix, words);
	for (c = stat->name; *c; c++)
		*c = isalnum(*c) ? tolower(*c) : '_';
	stat->offset = offset;
	stat->attr.attr.name = stat->name;
	stat->attr.attr.mode = 0444;
	stat->attr.show = mas_stat_show;
	mas_stat_attrs[n] = &stat->attr.attr;

	return stat;
}

/**
 * mas_stats_init - prepare for GPUs
 *
 * Context: module initialisation.
 * Return: 0.
 */
int mas_stats_init(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(mas_stats_named); i++)
		mas_stat_add("", mas_stats_named[i].name, mas_stats_named[i].offset);
	mas_stat_add("", "inflight", 0)->attr.show = mas_inflight_show;
	for (i = 0; i < MAS_NR_ERRORS; i++)
		mas_stat_add("error_", mas_error_names[i], OFFSET(errors[i]));
	/* In the words of storage_links/<BDF>/reason. */
	for (i = 1; i < MAS_STATS_REASONS; i++)
		if (strcmp(mas_route_reason(i), "unknown"))
			mas_stat_add("bounce_", mas_route_reason(i), OFFSET(bounces[i]));

	mas_stats_debugfs = debugfs_create_dir("mxcd_mas", NULL);
	debugfs_create_file_unsafe("latency", 0600, mas_stats_debugfs, NULL, &mas_timed_fops);
	return 0;
}

/**
 * mas_stats_exit - the counterpart
 *
 * Context: module exit; no GPU is bound.
 */
void mas_stats_exit(void)
{
	debugfs_remove_recursive(mas_stats_debugfs);
}
