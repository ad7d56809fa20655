// SPDX-License-Identifier: GPL-2.0
/*
 * How the requests of a round get to the driver, and who writes meanwhile.
 */
#define MAS_NO_HARNESS
#include "model.h"

/* --- by which entry ------------------------------------------------------------------ */

static void make_request(struct world *w, unsigned int i)
{
	struct mxcd_mas_req *req = &w->reqs[i];
	const struct op *op = &w->ops[i];
	unsigned int k;

	*req = (struct mxcd_mas_req){ .op = op->op, .flags = op->flags, .user_data = i };
	if (!by_ring(w))
		req->flags |= (op->drain ? MXCD_MAS_REQ_DRAIN : 0) |
			      (op->link ? MXCD_MAS_REQ_LINK : 0);
	switch (op->op) {
	case MXCD_MAS_OP_ALLOC:
		req->length = FRAGMENT;
		req->handle = TEMP_HANDLE;
		return;
	case MXCD_MAS_OP_FREE:
		req->handle = TEMP_HANDLE;
		return;
	case MXCD_MAS_OP_REGISTER:
		req->arg = op->reg->fd;
		req->file = TEMP_FILE;
		return;
	case MXCD_MAS_OP_UNREGISTER:
		req->file = TEMP_FILE;
		return;
	case MXCD_MAS_OP_QUERY:
		req->key = MXCD_MAS_KEY_VERSION;
		return;
	case MXCD_MAS_OP_FLUSH:
		req->handle = op->pieces[0].mem->mem.handle;
		return;
	}
	req->file = op->flags & MXCD_MAS_REQ_FD ? op->reg->fd : op->reg->id;
	if (!is_transfer(op))
		return;
	req->file_offset = op->file->base + op->off;
	req->length = op->len;
	if (!op->segs) {
		req->handle = op->bad ? 9999 : op->pieces[0].mem->mem.handle;
		req->mem_offset = op->pieces[0].off;
		return;
	}
	for (k = 0; k < op->nr_pieces; k++)
		w->segs[i][k] = (struct mxcd_mas_seg){
			.handle = op->pieces[k].mem->mem.handle,
			.offset = op->pieces[k].off, .length = op->pieces[k].len,
		};
	req->segs = mas_ptr(w->segs[i]);
	req->nr_segs = op->nr_pieces;
}

static int transfer(struct world *w, unsigned int first, unsigned int nr, unsigned int min_nr)
{
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(w->reqs + first),
		.comps = mas_ptr(w->comps + first), .nr = nr, .min_nr = min_nr,
	};
	int ret = mas_ioctl(w->mas, MXCD_MAS_TRANSFER, &arg);

	return ret ? ret : arg.out_submitted == nr ? (int)arg.out_completed : -EPROTO;
}

/* Collects @nr results by read(2), in whatever order they come. */
static int collect(struct world *w, unsigned int nr)
{
	struct pollfd pfd = { .fd = w->mas, .events = POLLIN };
	struct mxcd_mas_comp got[7];
	ssize_t ret;
	int i;

	while (nr) {
		if (poll(&pfd, 1, MAS_PATIENCE_MS) != 1)
			return -ETIMEDOUT;
		ret = read(w->mas, got, sizeof(got[0]) * (1 + below(w, ARRAY_SIZE(got))));
		if (ret <= 0 || ret % sizeof(got[0]))
			return -EPROTO;
		for (i = 0; i < ret / sizeof(got[0]); i++, nr--) {
			if (!nr || got[i].user_data >= w->nr)
				return -EPROTO;
			w->comps[got[i].user_data] = got[i];
		}
	}
	return 0;
}

/* A result of the ring; what the ring itself has cancelled the driver never saw. */
static int ring_result(struct world *w, const struct io_uring_cqe *cqe)
{
	struct mxcd_mas_comp *comp = &w->comps[cqe->user_data];

	if (w->ops[cqe->user_data].refused)
		*comp = (struct mxcd_mas_comp){ .user_data = cqe->user_data, .result = cqe->res };
	return cqe->res == comp->result ? 0 : -EPROTO;
}

static int run_ring(struct world *w, struct ring *ring)
{
	struct io_uring_cqe cqe;
	struct io_uring_sqe *sqe;
	unsigned int i;
	int ret;

	for (i = 0; i < w->nr; i++) {
		sqe = ring_request(ring, w->mas, &w->reqs[i], &w->comps[i], i);
		sqe->flags |= (w->ops[i].link ? IOSQE_IO_LINK : 0) |
			      (w->ops[i].drain ? IOSQE_IO_DRAIN : 0);
	}
	ret = ring_enter(ring, w->nr);
	for (i = 0; i < w->nr && ret >= 0; i++) {
		while (ret >= 0 && !ring_cqe(ring, &cqe))
			ret = ring_enter(ring, 1);
		if (ret >= 0)
			ret = ring_result(w, &cqe);
	}
	return ret < 0 ? ret : 0;
}

static int run_batch(struct world *w, unsigned int min_nr)
{
	int ret = transfer(w, 0, w->nr, min_nr);

	if (ret < 0)
		return ret;
	return ret < min_nr ? -EPROTO : collect(w, w->nr - ret);
}

static int run_write(struct world *w)
{
	ssize_t len = w->nr * sizeof(w->reqs[0]);

	return write(w->mas, w->reqs, len) == len ? collect(w, w->nr) : -EPROTO;
}

int run_entry(struct world *w)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < w->nr; i++)
		make_request(w, i);
	memset(w->comps, 0xa5, sizeof(w->comps));
	switch (w->entry) {
	case ENTRY_BATCH:
		return run_batch(w, w->nr);
	case ENTRY_BATCH_READ:
		return run_batch(w, below(w, w->nr + 1));
	case ENTRY_WRITE:
		return run_write(w);
	case ENTRY_RING:
	case ENTRY_RING_DEFERRED:
		return run_ring(w, &w->rings[w->entry == ENTRY_RING_DEFERRED]);
	default:
		for (i = 0; i < w->nr && !ret; i++)
			ret = transfer(w, i, 1, 1) == 1 ? 0 : -EPROTO;
		return ret;
	}
}

/* --- another writer -------------------------------------------------------------------- */

static void write_once(struct writer *wr)
{
	__u64 len = 1 + mas_below(&wr->seed, wr->to - wr->from);
	__u64 off = wr->from + mas_below(&wr->seed, wr->to - wr->from - len + 1);
	static char buf[16 * MAS_PAGE];
	struct mfile *f = wr->file;

	mas_fill(f->model + off, len, mas_rand(&wr->seed));
	if (!mas_pwrite(f->fd, f->model + off, len, f->base + off))
		wr->trouble = "pwrite";
	wr->writes++;
	if (mas_below(&wr->seed, 4))
		return;
	if (mas_below(&wr->seed, 2) && fdatasync(f->fd))
		wr->trouble = "fdatasync";
	len = wr->to - wr->from;
	if (!mas_pread(f->fd, buf, len, f->base + wr->from) ||
	    memcmp(buf, f->model + wr->from, len))
		wr->trouble = "what it wrote is not there";
}

void *writer_main(void *arg)
{
	struct writer *wr = arg;

	for (;;) {
		sem_wait(&wr->go);
		if (wr->quit)
			return NULL;
		do {
			write_once(wr);
		} while (!__atomic_load_n(&wr->stop, __ATOMIC_ACQUIRE));
		sem_post(&wr->done);
	}
}

/* Whole pages that exist and that no request meets. */
static bool writer_place(struct world *w, struct writer *wr)
{
	const struct op *op;

	wr->file = &w->files[below(w, w->nr_files)];
	wr->from = below(w, WINDOW / MAS_PAGE) * MAS_PAGE;
	wr->to = wr->from + (1 + below(w, 8)) * MAS_PAGE;
	if (wr->to > wr->file->len)
		return false;
	for (op = w->ops; op < w->ops + w->nr; op++)
		if (op->file == wr->file && is_transfer(op) &&
		    wr->from < op->pos + op->len + MAS_PAGE &&
		    (op->pos & ~(__u64)(MAS_PAGE - 1)) < wr->to)
			return false;
	return true;
}

bool writer_start(struct world *w)
{
	struct writer *wr = &w->writer;
	int tries = 20;

	if (chance(w, 2))
		return false;
	while (!writer_place(w, wr))
		if (!--tries)
			return false;
	wr->seed = mas_rand(&w->seed);
	__atomic_store_n(&wr->stop, false, __ATOMIC_RELEASE);
	sem_post(&wr->go);
	return true;
}

void writer_stop(struct world *w)
{
	__atomic_store_n(&w->writer.stop, true, __ATOMIC_RELEASE);
	sem_wait(&w->writer.done);
}
