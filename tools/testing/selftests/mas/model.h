/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The model of the randomised test: files and VRAM as they have to be, and the
 * requests of a round.
 */
#ifndef MODEL_H
#define MODEL_H

#include "mas_ring.h"

#include <pthread.h>
#include <semaphore.h>

#define WINDOW		(1U * MAS_MIB)	/* of each file; files do not grow beyond it */
#define FRAGMENT	65536U		/* extents of a handle that has many */
#define MAX_PIECES	12
#define MAX_OPS		40
#define TEMP_HANDLE	5000
#define TEMP_FILE	6000

/* One way to name a file to the driver. */
struct mreg {
	int fd;
	__u32 id;
	bool append;
	struct mxcd_mas_query_file query[2];	/* by mmem::slot */
};

struct mfile {
	const char *name;
	const char *env;
	bool raw;
	int fd;			/* to check with */
	int direct_fd;		/* the same, O_DIRECT, or -1 */
	struct mreg regs[3];
	__u64 base;		/* where the window begins */
	__u64 len;		/* of the window that exists */
	char *model;
};

struct mmem {
	int slot;		/* 0 and 1: which GPU */
	__u64 size;
	__u64 extent;		/* bytes in each extent */
	struct mxcd_mas_alloc mem;
	char *vram;
	char *model;
};

struct piece {
	struct mmem *mem;
	__u64 off;
	__u64 len;
};

struct op {
	__u16 op;
	__u32 flags;		/* without those that order */
	bool drain;
	bool link;
	bool bad;		/* names something that is not there */
	bool segs;		/* as a segment list */
	struct mfile *file;
	struct mreg *reg;
	__u64 off;
	__u64 len;
	struct piece pieces[MAX_PIECES];
	unsigned int nr_pieces;
	/* what it has to answer */
	__s64 result;
	__u64 p2p;
	unsigned int reason;
	bool refused;		/* cancelled, or not even taken: the ring has no completion */
	/* what it means for others */
	__u64 pos;		/* of the first byte; not @off for an append */
	__u64 size_before;
};

static inline bool is_transfer(const struct op *op)
{
	return op->op == MXCD_MAS_OP_READ || op->op == MXCD_MAS_OP_WRITE;
}

static inline bool is_write(const struct op *op)
{
	return op->op == MXCD_MAS_OP_WRITE;
}

static inline bool is_append(const struct op *op)
{
	return is_write(op) && op->reg->append;
}

static inline __u64 min_u64(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

static inline bool overlap(__u64 a, __u64 a_len, __u64 b, __u64 b_len)
{
	return a < b + b_len && b < a + a_len;
}

enum entry {
	ENTRY_IOCTL,		/* one by one */
	ENTRY_BATCH,		/* results in place */
	ENTRY_BATCH_READ,	/* some results in place, the rest by read(2) */
	ENTRY_WRITE,		/* write(2) and read(2) */
	ENTRY_RING,
	ENTRY_RING_DEFERRED,
	NR_ENTRIES,
};

/* A thread that writes by pwrite(2), to pages that no request of the round meets. */
struct writer {
	pthread_t thread;
	sem_t go, done;
	bool stop, quit;
	struct mfile *file;
	__u64 from, to;
	__u64 seed;
	__u64 writes;
	const char *trouble;
};

struct world {
	int mas;
	struct ring rings[2];
	struct mfile files[12];
	unsigned int nr_files;
	struct mmem mems[5];
	unsigned int nr_mems;
	struct mmem temp;	/* lives within a round */
	struct mreg temp_reg;
	struct writer writer;
	__u64 seed;
	char *buf;
	/* this round */
	unsigned int round;
	enum entry entry;
	struct op ops[MAX_OPS];
	struct mxcd_mas_req reqs[MAX_OPS];
	struct mxcd_mas_comp comps[MAX_OPS];
	struct mxcd_mas_seg segs[MAX_OPS][MAX_PIECES];
	unsigned int nr;
	unsigned int chain;	/* where the current chain of links begins */
	bool broken;		/* what is linked behind is cancelled ... */
	bool cut;		/* ... control operations too */
	__u64 len[12];		/* of each file, when the next request starts */
	bool failed;
	/* what was seen, to show that all of it occurs */
	__u64 by_entry[NR_ENTRIES], by_route[4], shorts, errors, fell_back, shared;
};

static inline __u64 below(struct world *w, __u64 n)
{
	return mas_below(&w->seed, n);
}

static inline bool chance(struct world *w, unsigned int one_in)
{
	return !below(w, one_in);
}

static inline bool by_ring(const struct world *w)
{
	return w->entry == ENTRY_RING || w->entry == ENTRY_RING_DEFERRED;
}

/* model_answer.c */
bool conflict(const struct op *a, const struct op *b);
void predict_transfer(struct op *op);
void apply(const struct op *op);

/* model_round.c */
void make_round(struct world *w);
void disturb(struct world *w);
void refresh_vram(struct world *w);

/* model_run.c */
int run_entry(struct world *w);
void *writer_main(void *arg);
bool writer_start(struct world *w);
void writer_stop(struct world *w);

#endif /* MODEL_H */
