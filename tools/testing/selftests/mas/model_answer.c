// SPDX-License-Identifier: GPL-2.0
/*
 * What the model answers to a request, and what the request does to the model.
 *
 * Everything is predicted from Documentation/gpu/mxcd/mas.rst and the uapi header,
 * one request after the other in the order of submission. Requests that would
 * answer otherwise in another order are kept apart by DRAIN or LINK.
 */
#define MAS_NO_HARNESS
#include "model.h"

/* --- may two requests run at once? -------------------------------------------- */

static bool extends(const struct op *op)
{
	return is_write(op) && !op->file->raw && op->pos + op->len > op->size_before;
}

static bool same_vram(const struct op *a, const struct op *b)
{
	const struct piece *p, *q;

	for (p = a->pieces; p < a->pieces + a->nr_pieces; p++)
		for (q = b->pieces; q < b->pieces + b->nr_pieces; q++)
			if (p->mem == q->mem && overlap(p->off, p->len, q->off, q->len))
				return true;
	return false;
}

/* @b is submitted behind @a. Would anything be different if they changed places? */
bool conflict(const struct op *a, const struct op *b)
{
	if (!is_transfer(a) || !is_transfer(b))
		return false;
	if ((!is_write(a) || !is_write(b)) && same_vram(a, b))
		return true;
	if (a->file != b->file || (!is_write(a) && !is_write(b)))
		return false;
	if (overlap(a->pos, a->len, b->pos, b->len))
		return true;
	if (extends(a) && (is_append(b) || !is_write(b)))
		return b->pos + b->len > a->size_before;
	/*
	 * What extends the file before @b here may wait for others and so come behind it:
	 * then it is @b that extends.
	 */
	if (is_write(b) && b->pos + b->len > a->size_before && !is_write(a))
		return a->pos + a->len > a->size_before;
	return is_write(b) && b->pos + b->len > a->size_before && is_append(a);
}

/* --- what a transfer has to answer --------------------------------------------- */

struct extent {
	__u64 start;		/* offset within the request */
	__u64 addr;		/* as far as alignment goes */
	__u64 len;
};

static unsigned int extents(const struct op *op, struct extent *list)
{
	const struct mmem *last_mem = NULL;
	__u64 start = 0, at, left, n;
	const struct piece *p;
	struct extent *e = list;

	for (p = op->pieces; p < op->pieces + op->nr_pieces; p++) {
		for (at = p->off, left = p->len; left; at += n, left -= n, start += n) {
			n = min_u64(left, p->mem->extent - at % p->mem->extent);
			if (e > list && last_mem == p->mem && e[-1].addr + e[-1].len == at &&
			    at % p->mem->extent) {
				e[-1].len += n;
				continue;
			}
			*e++ = (struct extent){ start, at, n };
			last_mem = p->mem;
		}
	}
	return e - list;
}

/* May the disk be given bytes @from to @to of the request as they lie in VRAM? */
static bool fits(const struct op *op, const struct mxcd_mas_query_file *q, __u64 from,
		 __u64 to)
{
	struct extent list[2 * MAX_PIECES + WINDOW / FRAGMENT], *e = list;
	unsigned int nr = extents(op, list), i;
	__u32 seg_align = q->out_read_align;
	__u64 addr, borders = 0;

	if (seg_align < q->out_mem_align)
		seg_align = q->out_mem_align;
	while (e + 1 < list + nr && e->start + e->len <= from)
		e++;
	addr = e->addr + from - e->start;
	if (addr % q->out_mem_align)
		return false;
	if (to <= e->start + e->len)
		return true;
	for (i = 1; i < nr; i++)
		borders |= (list[i - 1].addr + list[i - 1].len) | list[i].addr;
	return !((addr | borders) % seg_align);
}

static unsigned int whole_reason(const struct op *op, const struct mxcd_mas_query_file *q)
{
	unsigned int reason = is_write(op) ? q->out_reason_write : q->out_reason_read;

	if (op->flags & MXCD_MAS_REQ_BOUNCE)
		return MXCD_MAS_REASON_REQUESTED;
	if (!reason && is_append(op))
		return MXCD_MAS_REASON_APPEND;
	return reason;
}

static __s64 bytes_moved(const struct op *op, __u64 size)
{
	bool ends = op->file->raw || !is_write(op);

	if (!ends)
		return op->len;
	if (op->pos < size)
		return min_u64(op->len, size - op->pos);
	return is_write(op) && op->len ? -ENOSPC : 0;
}

void predict_transfer(struct op *op)
{
	const struct mxcd_mas_query_file *q = &op->reg->query[op->pieces[0].mem->slot];
	__u64 unit = is_write(op) ? q->out_write_align : q->out_read_align;
	__u64 size = op->file->raw ? WINDOW : op->size_before;
	unsigned int reason = whole_reason(op, q);
	__u64 len = op->len, from = 0, to = 0;

	op->pos = is_append(op) ? size : op->off;
	op->p2p = 0;
	op->reason = MXCD_MAS_REASON_NONE;
	if (!reason) {
		if (!is_write(op))
			len = op->pos < size ? min_u64(len, size - op->pos) : 0;
		from = (op->pos + unit - 1) / unit * unit - op->pos;
		to = (op->pos + len) / unit * unit;
		to = to > op->pos ? to - op->pos : 0;
		reason = MXCD_MAS_REASON_EDGE;
		if (from < to && !fits(op, q, from, to)) {
			reason = MXCD_MAS_REASON_MEM_ALIGN;
			to = from;
		}
		if (from > to)
			from = to;
	}
	if (op->flags & MXCD_MAS_REQ_P2P_ONLY && to - from < len) {
		op->result = -EXDEV;
		op->reason = reason;
		return;
	}
	op->result = bytes_moved(op, size);
	if (op->result <= 0)
		return;
	to = min_u64(to, op->result);
	op->p2p = to > from ? to - from : 0;
	if (op->p2p < op->result)
		op->reason = reason;
}

/* --- what a transfer does --------------------------------------------------------- */

void apply(const struct op *op)
{
	__u64 done = 0, n, size = op->file ? op->file->len : 0;
	const struct piece *p;

	if (!is_transfer(op) || op->result <= 0)
		return;
	if (is_write(op) && op->pos > size)
		memset(op->file->model + size, 0, op->pos - size);
	for (p = op->pieces; done < op->result; p++, done += n) {
		n = min_u64(p->len, op->result - done);
		if (is_write(op))
			memcpy(op->file->model + op->pos + done, p->mem->model + p->off, n);
		else
			memcpy(p->mem->model + p->off, op->file->model + op->pos + done, n);
	}
	if (is_write(op) && op->pos + op->result > size)
		op->file->len = op->pos + op->result;
}
