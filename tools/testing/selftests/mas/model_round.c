// SPDX-License-Identifier: GPL-2.0
/*
 * What a round consists of: requests at random, and what happens to the files
 * before them.
 */
#define MAS_NO_HARNESS
#include "model.h"

#include <linux/falloc.h>
#include <linux/fs.h>

/* --- making up a round --------------------------------------------------------------- */

static __u64 *gen_len(struct world *w, struct mfile *f)
{
	return &w->len[f - w->files];
}

static __u64 pick_len(struct world *w)
{
	switch (below(w, 20)) {
	case 0:
		return 0;
	case 1 ... 4:
		return 1 + below(w, 600);
	case 5 ... 8:
		return MAS_PAGE * (1 + below(w, 12));
	case 9 ... 11:
		return 512 * (1 + below(w, 60));
	case 12:
		return 1 + below(w, 300000);
	case 13:
		return MAS_PAGE * (1 + below(w, 60));
	default:
		return 1 + below(w, 20000);
	}
}

static __u64 pick_off(struct world *w, __u64 size)
{
	__u64 off = below(w, WINDOW);

	if (chance(w, 4))
		off = size - min_u64(size, below(w, 10000)) + below(w, 2) * below(w, 6000);
	switch (below(w, 3)) {
	case 0:
		return off & ~(__u64)(MAS_PAGE - 1);
	case 1:
		return off & ~511ULL;
	default:
		return off;
	}
}

/* A place in VRAM that agrees with the place in the file, more often than not. */
static __u64 pick_mem_off(struct world *w, const struct mmem *m, __u64 pos, __u64 len)
{
	static const __u64 agree[] = { MAS_PAGE, MAS_PAGE, 512, 4, 1 };
	__u64 unit = agree[below(w, ARRAY_SIZE(agree))];
	__u64 off = below(w, m->size - len + 1);

	off = off - off % unit + pos % unit;
	return off + len <= m->size ? off : below(w, m->size - len + 1);
}

/* Pieces of a read must not overlap: who writes last is not said. */
static void make_segs(struct world *w, struct op *op)
{
	unsigned int want = 2 + below(w, MAX_PIECES - 1), i;
	__u64 unit = chance(w, 2) ? MAS_PAGE : chance(w, 2) ? 512 : 1;
	int slot = op->pieces[0].mem->slot;
	__u64 left = op->len;
	struct piece p;

	op->segs = true;
	op->nr_pieces = 0;
	while (left && op->nr_pieces < want) {
		p.mem = &w->mems[below(w, w->nr_mems)];
		p.len = 1 + below(w, left);
		p.len = min_u64(left, (p.len + unit - 1) / unit * unit);
		if (op->nr_pieces + 1 == want)
			p.len = left;
		p.len = min_u64(p.len, p.mem->size);
		p.off = below(w, p.mem->size - p.len + 1) / unit * unit;
		if (op->nr_pieces && chance(w, 4)) {
			p.mem = op->pieces[op->nr_pieces - 1].mem;
			p.off = op->pieces[op->nr_pieces - 1].off +
				op->pieces[op->nr_pieces - 1].len;
		}
		if (p.mem->slot != slot || p.off + p.len > p.mem->size)
			goto next;
		for (i = 0; i < op->nr_pieces && !is_write(op); i++)
			if (op->pieces[i].mem == p.mem &&
			    overlap(op->pieces[i].off, op->pieces[i].len, p.off, p.len))
				goto next;
		op->pieces[op->nr_pieces++] = p;
		left -= p.len;
next:
		if (chance(w, 50))
			break;
	}
	op->len -= left;
}

static void make_transfer(struct world *w, struct op *op)
{
	struct mmem *m = &w->mems[below(w, w->nr_mems)];
	struct mfile *f = &w->files[below(w, w->nr_files)];
	__u64 end = WINDOW + (f->raw ? 3 * MAS_PAGE : 0);

	op->op = chance(w, 2) ? MXCD_MAS_OP_READ : MXCD_MAS_OP_WRITE;
	op->file = f;
	op->reg = &f->regs[chance(w, 5) ? 2 : below(w, 2)];
	op->len = min_u64(pick_len(w), m->size);
	op->off = pick_off(w, *gen_len(w, f));
	if (is_append(op))
		op->len = min_u64(op->len, WINDOW - *gen_len(w, f));
	else if (is_write(op) || f->raw)
		op->len = op->off < end ? min_u64(op->len, end - op->off) : 0;
	op->pieces[0] = (struct piece){ m, pick_mem_off(w, m, op->off, op->len), op->len };
	op->nr_pieces = 1;
	if (op->len > 1 && chance(w, 5)) {
		make_segs(w, op);
		if (!op->nr_pieces) {
			op->segs = false;
			op->nr_pieces = 1;
			op->pieces[0].len = 0;
			op->len = 0;
		}
	}
	if (chance(w, 5))
		op->flags |= MXCD_MAS_REQ_BOUNCE;
	else if (chance(w, 6))
		op->flags |= MXCD_MAS_REQ_P2P_ONLY;
	if (!is_write(op) && chance(w, 4))
		op->flags |= MXCD_MAS_REQ_NOFLUSH;
	if (w->entry != ENTRY_WRITE && chance(w, 5))
		op->flags |= MXCD_MAS_REQ_FD;
}

static void make_other(struct world *w, struct op *op)
{
	static const __u16 ops[] = {
		MXCD_MAS_OP_FSYNC, MXCD_MAS_OP_FDATASYNC, MXCD_MAS_OP_FLUSH, MXCD_MAS_OP_QUERY,
	};

	op->op = ops[below(w, ARRAY_SIZE(ops))];
	op->file = &w->files[below(w, w->nr_files)];
	op->reg = &op->file->regs[0];
	op->pieces[0].mem = &w->mems[below(w, w->nr_mems)];
	op->result = op->op == MXCD_MAS_OP_QUERY ? MXCD_MAS_VERSION : 0;
}

static bool is_control(const struct op *op)
{
	return !is_transfer(op) && op->op < MXCD_MAS_OP_FSYNC;
}

/* Does it end the chain of links that it is in? */
static bool breaks(const struct world *w, const struct op *op)
{
	if (by_ring(w))
		return op->result < 0;
	return is_transfer(op) ? op->result != op->len : op->result < 0;
}

/* What the request answers where it stands; what order it needs. */
static void place(struct world *w, struct op *op)
{
	unsigned int i, n = op - w->ops;
	bool broken = w->broken;

	/* By itself, the driver carries control operations out when it sees them. */
	if (is_control(op) && !by_ring(w))
		broken = w->cut;
	if (is_transfer(op)) {
		op->size_before = *gen_len(w, op->file);
		predict_transfer(op);
	}
	/* What names nothing fails when it is looked at, not when its turn comes. */
	if (op->bad) {
		op->result = -ENOENT;
		broken &= by_ring(w) || w->cut;
	}
	if (op->bad || broken) {
		op->p2p = 0;
		op->reason = MXCD_MAS_REASON_NONE;
	}
	if (broken) {
		op->result = -ECANCELED;
		op->refused = true;
	}
	for (i = 0; i < n && !broken && !op->bad; i++) {
		if (w->ops[i].refused || w->ops[i].bad || !conflict(&w->ops[i], op))
			continue;
		if (i < w->chain)
			op->drain = true;
	}
	if (is_transfer(op) && is_write(op) && op->result > 0 && !op->file->raw &&
	    op->pos + op->result > *gen_len(w, op->file))
		*gen_len(w, op->file) = op->pos + op->result;
	w->broken |= breaks(w, op);
	w->cut |= op->bad;
	if (!op->link) {
		w->broken = false;
		w->cut = false;
		w->chain = n + 1;
	}
}

/* Memory and file id that live only as long as a chain of links needs them. */
static void make_lifecycle(struct world *w)
{
	struct mfile *from = &w->files[below(w, w->nr_files)];
	struct mfile *to = &w->files[below(w, w->nr_files)];
	__u64 len = 1 + below(w, 60000), slack = FRAGMENT - len;
	struct op *op = w->ops;
	unsigned int i;

	len = min_u64(len, from->len);
	w->temp.mem.handle = TEMP_HANDLE;
	memset(w->temp.model, 0, FRAGMENT);
	op[0] = (struct op){ .op = MXCD_MAS_OP_ALLOC, .result = TEMP_HANDLE };
	op[1] = (struct op){ .op = MXCD_MAS_OP_REGISTER, .file = from, .result = TEMP_FILE };
	op[2] = (struct op){ .op = MXCD_MAS_OP_READ, .file = from };
	op[2].off = below(w, from->len - len + 1);
	op[3] = (struct op){ .op = MXCD_MAS_OP_UNREGISTER };
	/* With what ALLOC cleared around it. */
	op[4] = (struct op){ .op = MXCD_MAS_OP_WRITE, .file = to };
	op[4].off = below(w, WINDOW - FRAGMENT);
	op[5] = (struct op){ .op = MXCD_MAS_OP_FREE };
	op[2].pieces[0] = (struct piece){ &w->temp, below(w, slack + 1), len };
	op[4].pieces[0] = (struct piece){ &w->temp, 0, FRAGMENT };
	w->nr = 6;
	for (i = 0; i < w->nr; i++) {
		op[i].link = i + 1 < w->nr;
		op[i].nr_pieces = is_transfer(&op[i]);
		op[i].len = op[i].pieces[0].len;
		op[i].reg = op[i].file ? &op[i].file->regs[0] : NULL;
	}
	w->temp_reg = *op[2].reg;
	w->temp_reg.id = TEMP_FILE;
	op[2].reg = &w->temp_reg;
	for (i = 0; i < w->nr; i++)
		place(w, &op[i]);
}

void make_round(struct world *w)
{
	unsigned int want = chance(w, 3) ? 1 : 2 + below(w, MAX_OPS - 1);
	bool chains = chance(w, 3);
	struct op *op;
	unsigned int i;

	memset(w->ops, 0, sizeof(w->ops));
	for (i = 0; i < w->nr_files; i++)
		w->len[i] = w->files[i].len;
	w->nr = 0;
	w->chain = 0;
	w->broken = false;
	w->cut = false;
	w->entry = below(w, NR_ENTRIES);
	if (w->entry != ENTRY_IOCTL && chance(w, 12)) {
		make_lifecycle(w);
		return;
	}
	while (w->nr < want) {
		op = &w->ops[w->nr++];
		if (chance(w, 12))
			make_other(w, op);
		else
			make_transfer(w, op);
		op->bad = chance(w, 60) && is_transfer(op) && !op->segs;
		op->link = chains && w->nr < want && w->entry != ENTRY_IOCTL && !chance(w, 4);
		op->drain = !is_control(op) && chance(w, 30);
		place(w, op);
	}
}

/* --- what happens to files between rounds -------------------------------------------- */

static void resize(struct world *w, struct mfile *f, __u64 len)
{
	if (len > f->len)
		memset(f->model + f->len, 0, len - f->len);
	f->len = len;
	w->failed |= ftruncate(f->fd, len) != 0;
}

static void punch(struct world *w, struct mfile *f, __u64 off, __u64 len)
{
	if (fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len))
		return;
	if (off < f->len)
		memset(f->model + off, 0, min_u64(len, f->len - off));
}

static void preallocate(struct world *w, struct mfile *f, __u64 off, __u64 len)
{
	bool keep = chance(w, 2);

	if (fallocate(f->fd, keep ? FALLOC_FL_KEEP_SIZE : 0, off, len) || keep ||
	    off + len <= f->len)
		return;
	memset(f->model + f->len, 0, off + len - f->len);
	f->len = off + len;
}

/* Two files then share their blocks, where the file system can do that. */
static void share_blocks(struct world *w, struct mfile *f)
{
	bool first = f == w->files || strcmp(f->env, f[-1].env);
	struct mfile *from = first ? f + 1 : f - 1;
	__u64 off = below(w, 32) * MAS_PAGE, len = (1 + below(w, 32)) * MAS_PAGE;
	struct file_clone_range arg = {
		.src_fd = from->fd, .src_offset = off, .src_length = len, .dest_offset = off,
	};

	if (from == w->files + w->nr_files || strcmp(f->env, from->env) ||
	    off + len > from->len || off > f->len)
		return;
	if (ioctl(f->fd, FICLONERANGE, &arg))
		return;
	memcpy(f->model + off, from->model + off, len);
	if (off + len > f->len)
		f->len = off + len;
	w->shared++;
}

static void write_cached(struct world *w, struct mfile *f, __u64 off, __u64 len)
{
	if (off > f->len)
		memset(f->model + f->len, 0, off - f->len);
	mas_fill(f->model + off, len, mas_rand(&w->seed));
	w->failed |= !mas_pwrite(f->fd, f->model + off, len, f->base + off);
	if (off + len > f->len)
		f->len = off + len;
}

void disturb(struct world *w)
{
	struct mfile *f = &w->files[below(w, w->nr_files)];
	__u64 off = min_u64(pick_off(w, f->len), WINDOW - 1);
	__u64 len = min_u64(1 + below(w, 100000), WINDOW - off);

	switch (below(w, f->raw ? 3 : 8)) {
	case 0:
		write_cached(w, f, off, len);
		break;
	case 1:
		posix_fadvise(f->fd, f->base + off, len, POSIX_FADV_DONTNEED);
		break;
	case 2:
		posix_fadvise(f->fd, f->base + off, len, POSIX_FADV_WILLNEED);
		break;
	case 3:
		resize(w, f, chance(w, 10) ? 0 : off);
		break;
	case 4:
		resize(w, f, min_u64(WINDOW, f->len + below(w, 100000)));
		break;
	case 5:
		punch(w, f, off, len);
		break;
	case 6:
		preallocate(w, f, off, len);
		break;
	default:
		share_blocks(w, f);
	}
}

/* Fresh bytes in VRAM, so that a write which does nothing shows. */
void refresh_vram(struct world *w)
{
	struct mmem *m = &w->mems[below(w, w->nr_mems)];
	__u64 len = 1 + below(w, 30000), off = below(w, m->size - len + 1);

	mas_fill(m->model + off, len, mas_rand(&w->seed));
	memcpy(m->vram + off, m->model + off, len);
}
