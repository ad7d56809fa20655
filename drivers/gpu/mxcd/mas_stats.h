/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters of transfers, for each GPU and for each context.
 *
 * Those of a GPU are per CPU and only ever go up. Those of a context are under its
 * lock, which is held there anyway. A transfer is counted where it ends, and most go
 * p2p as a whole: these do little. What is in flight is counted when somebody asks.
 */
#ifndef _MAS_STATS_H
#define _MAS_STATS_H

#include <linux/jump_label.h>
#include <linux/percpu.h>
#include <linux/timekeeping.h>

#include "mas.h"
#include "mas_io.h"

struct kobject;

/* More than there are, see mas_route_reason(). */
#define MAS_STATS_REASONS	64

/* One bucket of the histogram for each power of two of nanoseconds, up to 2 s. */
#define MAS_STATS_BUCKETS	32

/**
 * enum mas_error - classes of errors
 * @MAS_ERROR_IO: disk or file system failed
 * @MAS_ERROR_NODEV: GPU or disk is gone
 * @MAS_ERROR_NOSPC: no room for a write: disk, quota, limit
 * @MAS_ERROR_ACCESS: not allowed
 * @MAS_ERROR_INVALID: the request was not valid
 * @MAS_ERROR_CANCELED: cancelled or interrupted
 * @MAS_ERROR_NOT_P2P: refused because it would have bounced
 * @MAS_ERROR_NOMEM: no host memory
 * @MAS_ERROR_OTHER: the rest
 * @MAS_NR_ERRORS: number of classes
 */
enum mas_error {
	MAS_ERROR_IO,
	MAS_ERROR_NODEV,
	MAS_ERROR_NOSPC,
	MAS_ERROR_ACCESS,
	MAS_ERROR_INVALID,
	MAS_ERROR_CANCELED,
	MAS_ERROR_NOT_P2P,
	MAS_ERROR_NOMEM,
	MAS_ERROR_OTHER,
	MAS_NR_ERRORS,
};

/**
 * struct mas_flow - counters of one direction
 * @requests: transfers that have ended, by the bits of &enum mxcd_mas_route
 * @p2p_bytes: bytes moved p2p
 * @bounce_bytes: bytes moved by bounce
 * @latency: transfers by whether a part bounced and by the logarithm of their
 *	duration
 */
struct mas_flow {
	u64 requests[4];
	u64 p2p_bytes;
	u64 bounce_bytes;
	u64 latency[2][MAS_STATS_BUCKETS];
};

/**
 * struct mas_stats - counters of a GPU, for one CPU
 * @flow: by direction (1: write)
 * @bounces: transfers of which a part bounced, by &enum mxcd_mas_reason
 * @errors: transfers that failed, by &enum mas_error
 * @queue_full: requests that found the queue of their context full
 */
struct mas_stats {
	struct mas_flow flow[2];
	u64 bounces[MAS_STATS_REASONS];
	u64 errors[MAS_NR_ERRORS];
	u64 queue_full;
};

#ifdef CONFIG_MXCD_STATS

/* Durations are measured. */
DECLARE_STATIC_KEY_FALSE(mas_stats_timed);

int mas_stats_init(void);
void mas_stats_exit(void);
int mas_stats_alloc(struct mxcd_gpu *gpu);
void mas_stats_free(struct mxcd_gpu *gpu);
int mas_stats_show(struct mxcd_gpu *gpu, struct kobject *dir);
void mas_stats_hide(struct mxcd_gpu *gpu);
void mas_stats_queue_full(struct mas_ctx *ctx);
void mas_stats_not_p2p(struct mas_req *req);
void mas_stats_not_p2p_ctx(struct mas_ctx *ctx, const struct mas_req *req);
void mas_stats_time(struct mas_req *req);

/**
 * mas_stats_start - a request starts
 * @req: the request; it may have started before and have waited for a proof then
 *
 * Context: any.
 */
static inline void mas_stats_start(struct mas_req *req)
{
	if (static_branch_unlikely(&mas_stats_timed) && !req->start_ns)
		req->start_ns = ktime_get_ns();
}

/**
 * mas_stats_end - a request has its result
 * @req: the request, its references still held
 *
 * Context: any, hard interrupts too.
 */
static inline void mas_stats_end(struct mas_req *req)
{
	struct mas_flow __percpu *flow;

	if (req->route == MXCD_MAS_ROUTE_P2P) {
		flow = &req->gpu->stats->flow[mas_is_write(req)];
		this_cpu_inc(flow->requests[MXCD_MAS_ROUTE_P2P]);
		this_cpu_add(flow->p2p_bytes, req->p2p_bytes);
	} else {
		mas_stats_not_p2p(req);
	}
	if (static_branch_unlikely(&mas_stats_timed))
		mas_stats_time(req);
}

/**
 * mas_stats_end_ctx - count a request that has its result in its context
 * @ctx: the context, its lock held
 * @req: the request
 *
 * Context: any, hard interrupts too.
 */
static inline void mas_stats_end_ctx(struct mas_ctx *ctx, const struct mas_req *req)
{
	if (req->route == MXCD_MAS_ROUTE_P2P)
		ctx->stats.p2p_bytes[mas_is_write(req)] += req->p2p_bytes;
	else
		mas_stats_not_p2p_ctx(ctx, req);
}

#else

static inline int mas_stats_init(void)
{
	return 0;
}

static inline void mas_stats_exit(void)
{
}

static inline int mas_stats_alloc(struct mxcd_gpu *gpu)
{
	return 0;
}

static inline void mas_stats_free(struct mxcd_gpu *gpu)
{
}

static inline int mas_stats_show(struct mxcd_gpu *gpu, struct kobject *dir)
{
	return 0;
}

static inline void mas_stats_hide(struct mxcd_gpu *gpu)
{
}

static inline void mas_stats_queue_full(struct mas_ctx *ctx)
{
}

static inline void mas_stats_start(struct mas_req *req)
{
}

static inline void mas_stats_end(struct mas_req *req)
{
}

static inline void mas_stats_end_ctx(struct mas_ctx *ctx, const struct mas_req *req)
{
}

#endif

#endif /* _MAS_STATS_H */
