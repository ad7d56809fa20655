// SPDX-License-Identifier: GPL-2.0
/*
 * The ways of the bench that are this driver's, by its own calls.
 */
#define _GNU_SOURCE

#include <err.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <linux/mxcd_mas.h>

#include "bench.h"

void mas_call(unsigned long request, void *arg, const char *what)
{
	if (ioctl(mas_fd, request, arg))
		err(1, "%s", what);
}

__u32 mas_add_file(int fd)
{
	struct mxcd_mas_register reg = { .size = sizeof(reg), .fd = fd };

	mas_call(MXCD_MAS_REGISTER, &reg, "REGISTER");
	return reg.file;
}

/* I/Os that a buffer has room for. */
unsigned int job_places(const struct job *job)
{
	return job->bytes * job->qd <= BUFFER ? job->qd : BUFFER / job->bytes;
}

/* The last batch leaves its data. */
int batch_place(const struct job *job, unsigned int i)
{
	return i >= job->nr - job->qd ? (int)(i % job->qd % job_places(job)) : -1;
}

void mas_fill_req(struct mxcd_mas_req *req, const struct way *way, const struct job *job,
		  unsigned int i, unsigned int place)
{
	*req = (struct mxcd_mas_req) {
		.op = job->write ? MXCD_MAS_OP_WRITE : MXCD_MAS_OP_READ,
		.file = job->target->id,
		.handle = *way->handle,
		.file_offset = job->offsets[i],
		.length = job->bytes,
		.mem_offset = place * job->bytes,
		.user_data = place,
	};
}

void mas_check_comp(const struct mxcd_mas_comp *comp, const struct job *job)
{
	if (comp->result != (__s64)job->bytes || comp->route != MXCD_MAS_ROUTE_P2P)
		errx(1, "result %lld, route %u, reason %u", (long long)comp->result,
		     comp->route, comp->reason);
}

/* As many as the queue is deep by one ioctl, which waits for all of them. */
static void mas_run(const struct way *way, const struct job *job)
{
	struct mxcd_mas_req reqs[MAX_QD];
	struct mxcd_mas_comp comps[MAX_QD];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg),
		.reqs = (unsigned long)reqs,
		.comps = (unsigned long)comps,
		.nr = job->qd,
		.min_nr = job->qd,
	};
	unsigned int i, k, places = job_places(job);

	for (i = 0; i < job->nr; i += job->qd) {
		for (k = 0; k < job->qd; k++)
			mas_fill_req(&reqs[k], way, job, i + k, k < places ? k : k % places);
		mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
		if (arg.out_completed != job->qd)
			errx(1, "%u of %u completed", arg.out_completed, job->qd);
		for (k = 0; k < job->qd; k++)
			mas_check_comp(&comps[k], job);
		bench_lap();
	}
}

const struct way way_mas = {
	.name = "mas", .run = mas_run, .place = batch_place,
	.buffer = &mas_vram, .handle = &mas_handle,
};

const struct way way_mas_frag = {
	.name = "mas-frag", .run = mas_run, .place = batch_place,
	.buffer = &frag_vram, .handle = &frag_handle,
};

/* Which place an I/O gets is left to the order of completion. */
static int no_place(const struct job *job, unsigned int i)
{
	return -1;
}

/* Whatever has completed is replaced at once. */
static void mas_run_slide(const struct way *way, const struct job *job)
{
	struct mxcd_mas_req reqs[MAX_QD];
	struct mxcd_mas_comp comps[MAX_QD];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = (unsigned long)reqs, .nr = job->qd,
	};
	unsigned int i, k, done = 0;
	ssize_t ret;

	for (i = 0; i < job->qd; i++)
		mas_fill_req(&reqs[i], way, job, i, i);
	while (done < job->nr) {
		if (arg.nr)
			mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
		ret = read(mas_fd, comps, sizeof(comps));
		if (ret < (ssize_t)sizeof(*comps))
			err(1, "read");
		ret /= sizeof(*comps);
		done += ret;
		arg.nr = 0;
		for (k = 0; k < ret; k++) {
			mas_check_comp(&comps[k], job);
			if (i < job->nr)
				mas_fill_req(&reqs[arg.nr++], way, job, i++, comps[k].user_data);
		}
	}
}

const struct way way_mas_slide = {
	.name = "mas-slide", .run = mas_run_slide, .place = no_place,
	.buffer = &mas_vram, .handle = &mas_handle,
};

/* Neighbours in the file are no neighbours in VRAM. */
static int seg_place(const struct job *job, unsigned int i)
{
	return i * 1583 % MAX_SEGS;
}

/* The whole job by one request: its I/Os are neighbours in the file. */
static void mas_run_segs(const struct way *way, const struct job *job)
{
	static struct mxcd_mas_seg segs[MAX_SEGS];
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg),
		.reqs = (unsigned long)&req,
		.comps = (unsigned long)&comp,
		.nr = 1,
		.min_nr = 1,
	};
	unsigned int i;

	mas_fill_req(&req, way, job, 0, 0);
	req.handle = 0;
	req.length = job->bytes * job->nr;
	req.segs = (unsigned long)segs;
	req.nr_segs = job->nr;
	for (i = 0; i < job->nr; i++)
		segs[i] = (struct mxcd_mas_seg) {
			.handle = *way->handle,
			.offset = seg_place(job, i) * job->bytes,
			.length = job->bytes,
		};
	mas_call(MXCD_MAS_TRANSFER, &arg, "TRANSFER");
	if (comp.result != (__s64)req.length || comp.route != MXCD_MAS_ROUTE_P2P)
		errx(1, "result %lld, route %u, reason %u", (long long)comp.result,
		     comp.route, comp.reason);
	bench_lap();
}

const struct way way_segs = {
	.name = "segs", .run = mas_run_segs, .place = seg_place,
	.buffer = &mas_vram, .handle = &mas_handle,
};
