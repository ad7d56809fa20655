// SPDX-License-Identifier: GPL-2.0
/*
 * Random requests, by all entries, against a model in host memory.
 *
 * In rounds: a batch of requests is made up and answered by the model, the driver
 * gets it by one of the entries, then answers, VRAM and files are compared. In every
 * other round a thread writes to other pages of the same files meanwhile.
 *
 * MAS_SEED repeats a run, MAS_OPS is how many requests it has.
 */
#include "model.h"

#include <linux/fs.h>

#define OPS_SHORT	1500
#define GUARD		4096U
#define WAY		65536U

static const char * const entry_names[] = {
	"ioctl", "batch", "batch and read", "write and read", "ring", "deferred ring",
};

/* --- files and memory ------------------------------------------------------------ */

static const struct {
	const char *name, *env;
	bool raw;
} kinds[] = {
	{ "raw 512", "MAS_NVME512", true }, { "raw 4k", "MAS_NVME4K", true },
	{ "ext4 a", "MAS_EXT4" }, { "ext4 b", "MAS_EXT4" },
	{ "xfs a", "MAS_XFS" }, { "xfs b", "MAS_XFS" },
	{ "tmpfs", "MAS_TMPFS" },
	{ "btrfs a", "MAS_BTRFS" }, { "btrfs b", "MAS_BTRFS" },
	{ "f2fs", "MAS_F2FS" },
};

static int open_file(struct mfile *f)
{
	__u64 size;

	if (f->raw) {
		f->fd = open(getenv(f->env), O_RDWR | O_CLOEXEC);
		if (f->fd < 0 || ioctl(f->fd, BLKGETSIZE64, &size))
			return -ENOENT;
		/* The window ends where the disk ends. */
		f->base = size - WINDOW;
		f->len = WINDOW;
		return 0;
	}
	/* Every other file has no name. */
	f->fd = f->name[strlen(f->name) - 1] == 'b' ?
		open(getenv(f->env), O_RDWR | O_TMPFILE | O_CLOEXEC, 0600) :
		mas_temp(f->env, 0);
	return f->fd < 0 ? -ENOENT : 0;
}

/* What can only be known of a way when it was used is known then. Changes nothing. */
static void try_way(struct __test_metadata *_metadata, struct world *w, struct mfile *f,
		    __u32 id, int slot)
{
	struct mmem *m = &w->mems[slot ? 2 : 0];
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, id, f->base, WAY, m->mem.handle, 0);

	memcpy(m->vram, f->model, WAY);
	ASSERT_EQ(WAY, mas_by_ioctl(w->mas, &req).result);
	req.op = MXCD_MAS_OP_READ;
	ASSERT_EQ(WAY, mas_by_ioctl(w->mas, &req).result);
	memcpy(m->vram, m->model, WAY);
}

static void setup_file(struct __test_metadata *_metadata, struct world *w, struct mfile *f)
{
	static const int flags[] = { 0, O_DIRECT, O_APPEND };
	struct mreg *reg;
	int i, slot, id;

	ASSERT_EQ(0, open_file(f))
		TH_LOG("%s", f->name);
	f->model = calloc(1, WINDOW);
	ASSERT_NE(NULL, f->model);
	mas_fill(f->model, f->raw ? WINDOW : 300001, mas_rand(&w->seed));
	if (!f->raw)
		f->len = 300001;
	ASSERT_TRUE(mas_pwrite(f->fd, f->model, f->len, f->base));
	f->direct_fd = mas_reopen(f->fd, O_RDONLY | O_DIRECT);
	for (i = 0; i < 3; i++) {
		reg = &f->regs[i];
		reg->append = !f->raw && flags[i] & O_APPEND;
		reg->fd = mas_reopen(f->fd, O_RDWR | (f->raw ? flags[i] & O_DIRECT : flags[i]));
		if (reg->fd < 0)
			reg->fd = mas_reopen(f->fd, O_RDWR);
		ASSERT_LE(0, reg->fd);
		id = mas_register(w->mas, reg->fd);
		ASSERT_LT(0, id);
		reg->id = id;
		for (slot = 0; slot < 2; slot++) {
			if (!i)
				try_way(_metadata, w, f, id, slot);
			ASSERT_EQ(0, mas_query_file(w->mas, id, 0, slot, &reg->query[slot]));
		}
	}
}

static void add_mem(struct __test_metadata *_metadata, struct world *w, int gpu, __u64 size,
		    __u64 extent)
{
	struct mmem *m = &w->mems[w->nr_mems++];

	m->slot = gpu;
	m->size = size;
	m->extent = extent;
	ASSERT_EQ(0, mas_alloc(w->mas, gpu, size, &m->mem));
	ASSERT_EQ(size / extent, m->mem.out_extents);
	m->vram = mas_map(w->mas, &m->mem);
	ASSERT_NE(MAP_FAILED, (void *)m->vram);
	m->model = malloc(size);
	ASSERT_NE(NULL, m->model);
	mas_fill(m->model, size, mas_rand(&w->seed));
	memcpy(m->vram, m->model, size);
}

/* With every other granule taken, a handle gets extents of one granule. */
static void add_fragmented(struct __test_metadata *_metadata, struct world *w, int gpu,
			   unsigned int extents)
{
	struct mxcd_mas_alloc hole[64], rest;
	unsigned int i;

	for (i = 0; i < 2 * extents; i++)
		ASSERT_EQ(0, mas_alloc(w->mas, gpu, FRAGMENT, &hole[i]));
	ASSERT_EQ(0, mas_alloc(w->mas, gpu, mas_vram_free(w->mas, gpu), &rest));
	for (i = 0; i < 2 * extents; i += 2)
		ASSERT_EQ(0, mas_free(w->mas, hole[i].handle));
	add_mem(_metadata, w, gpu, extents * FRAGMENT, FRAGMENT);
	ASSERT_EQ(0, mas_free(w->mas, rest.handle));
}

static void setup_world(struct __test_metadata *_metadata, struct world *w)
{
	unsigned int i;

	w->seed = mas_seed();
	w->mas = mas_open(0);
	ASSERT_LE(0, w->mas);
	ASSERT_EQ(0, ring_init(&w->rings[0], 0));
	ASSERT_EQ(0, ring_init(&w->rings[1],
			       IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN));
	w->buf = aligned_alloc(MAS_PAGE, 2 * WINDOW);
	ASSERT_NE(NULL, w->buf);
	add_mem(_metadata, w, 0, 512 * MAS_KIB, 512 * MAS_KIB);
	add_mem(_metadata, w, 0, 256 * MAS_KIB, 256 * MAS_KIB);
	add_mem(_metadata, w, 1, 256 * MAS_KIB, 256 * MAS_KIB);
	add_fragmented(_metadata, w, 0, 8);
	add_mem(_metadata, w, 1, 64 * MAS_KIB, 64 * MAS_KIB);
	w->temp = (struct mmem){ .size = FRAGMENT, .extent = FRAGMENT };
	w->temp.mem.handle = TEMP_HANDLE;
	w->temp.model = malloc(FRAGMENT);
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct mfile *f = &w->files[w->nr_files];

		if (!getenv(kinds[i].env) || !*getenv(kinds[i].env))
			continue;
		w->nr_files++;
		f->name = kinds[i].name;
		f->env = kinds[i].env;
		f->raw = kinds[i].raw;
		setup_file(_metadata, w, f);
	}
	/* Two kinds of disk and two file systems at least. */
	ASSERT_LE(7, w->nr_files);
}

/* --- comparing ------------------------------------------------------------------------- */

static void say_op(const struct world *w, unsigned int i)
{
	const struct op *op = &w->ops[i];
	const struct mxcd_mas_comp *c = &w->comps[i];
	unsigned int k;

	printf("# %2u: op %u flags %x%s%s%s %s at %llu, %llu bytes:", i, op->op, op->flags,
	       op->drain ? " drain" : "", op->link ? " link" : "", op->bad ? " bad" : "",
	       op->file ? op->file->name : "-", op->off, op->len);
	for (k = 0; k < op->nr_pieces; k++)
		printf(" %u+%llu,%llu", op->pieces[k].mem->mem.handle, op->pieces[k].off,
		       op->pieces[k].len);
	printf("; size %llu; wanted %lld p2p %llu reason %u", op->size_before, op->result, op->p2p,
	       op->reason);
	printf(", got %lld p2p %llu reason %u route %u\n", c->result, c->p2p_bytes, c->reason,
	       c->route);
}

static void say_round(struct world *w, const char *fmt, ...)
{
	unsigned int i;
	va_list ap;

	w->failed = true;
	printf("# round %u by %s: ", w->round, entry_names[w->entry]);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	for (i = 0; i < w->nr; i++)
		say_op(w, i);
}

static unsigned int route_of(const struct mxcd_mas_comp *c)
{
	return (c->p2p_bytes ? MXCD_MAS_ROUTE_P2P : 0) |
	       (c->result > 0 && c->p2p_bytes < c->result ? MXCD_MAS_ROUTE_BOUNCE : 0);
}

static void check_answer(struct world *w, unsigned int i)
{
	const struct mxcd_mas_comp *c = &w->comps[i];
	const struct op *op = &w->ops[i];
	unsigned int route = is_transfer(op) ? route_of(c) : 0;

	if (c->result != op->result || c->user_data != i || c->route != route || c->__reserved)
		say_round(w, "request %u is answered wrongly", i);
	else if (c->reason == MXCD_MAS_REASON_FELL_BACK && c->p2p_bytes < op->p2p)
		w->fell_back++;
	else if (c->p2p_bytes != op->p2p || c->reason != op->reason)
		say_round(w, "request %u took another way", i);
	if (is_transfer(op)) {
		w->by_route[route]++;
		w->shorts += c->result >= 0 && c->result < op->len;
	}
	w->errors += c->result < 0;
}

static void check_vram(struct world *w, struct mmem *m, __u64 from, __u64 to)
{
	long at = mas_diff(m->vram + from, m->model + from, to - from);

	if (at >= 0)
		say_round(w, "VRAM of handle %u is wrong at %llu", m->mem.handle, from + at);
}

static void check_file(struct world *w, struct mfile *f, __u64 from, __u64 to)
{
	int fd = f->direct_fd >= 0 && chance(w, 2) ? f->direct_fd : f->fd;
	struct stat st;
	long at;

	from &= ~(__u64)(MAS_PAGE - 1);
	to = min_u64(f->len, to);
	if (fstat(f->fd, &st) || (!f->raw && st.st_size != f->len))
		say_round(w, "size of %s is %lld, not %llu", f->name, (long long)st.st_size,
			  f->len);
	if (from >= to)
		return;
	/* A direct read ends where the file ends, whatever it asks for. */
	if (pread(fd, w->buf, (to - from + MAS_PAGE - 1) & ~(__u64)(MAS_PAGE - 1),
		  f->base + from) < (ssize_t)(to - from))
		say_round(w, "%s is too short", f->name);
	at = mas_diff(w->buf, f->model + from, to - from);
	if (at >= 0)
		say_round(w, "%s is wrong at %llu (looked at by %s read)", f->name, from + at,
			  fd == f->fd ? "cached" : "direct");
}

static void check_all(struct world *w)
{
	unsigned int i;

	for (i = 0; i < w->nr_mems; i++)
		check_vram(w, &w->mems[i], 0, w->mems[i].size);
	for (i = 0; i < w->nr_files; i++)
		check_file(w, &w->files[i], 0, WINDOW);
}

static __u64 guard_below(__u64 at)
{
	return at > GUARD ? at - GUARD : 0;
}

static void check_round(struct world *w)
{
	const struct piece *p;
	unsigned int i;
	struct op *op;

	for (i = 0; i < w->nr; i++)
		check_answer(w, i);
	for (op = w->ops; op < w->ops + w->nr; op++) {
		if (!is_transfer(op))
			continue;
		for (p = op->pieces; p < op->pieces + op->nr_pieces; p++)
			if (p->mem != &w->temp)
				check_vram(w, p->mem, guard_below(p->off),
					   min_u64(p->off + p->len + GUARD, p->mem->size));
		/* Not always: to look brings pages into the page cache. */
		if (is_write(op) && !chance(w, 3))
			check_file(w, op->file, guard_below(op->pos), op->pos + op->len + GUARD);
	}
	if (w->round % 64 == 0)
		check_all(w);
}

static void run_round(struct world *w)
{
	bool nonblock = chance(w, 3);
	bool writing;
	unsigned int i;
	int ret;

	while (chance(w, 2))
		disturb(w);
	refresh_vram(w);
	make_round(w);
	writing = writer_start(w);
	fcntl(w->mas, F_SETFL, nonblock ? O_NONBLOCK : 0);
	ret = run_entry(w);
	if (writing)
		writer_stop(w);
	for (i = 0; i < w->nr; i++)
		apply(&w->ops[i]);
	if (ret)
		say_round(w, "the entry itself failed: %d", ret);
	if (w->writer.trouble)
		say_round(w, "the other writer: %s", w->writer.trouble);
	check_round(w);
	w->by_entry[w->entry] += w->nr;
}

static void say_totals(const struct world *w)
{
	unsigned int i;

	for (i = 0; i < NR_ENTRIES; i++)
		printf("# %llu by %s\n", w->by_entry[i], entry_names[i]);
	printf("# %llu p2p, %llu bounce, %llu both, %llu moved nothing\n", w->by_route[1],
	       w->by_route[2], w->by_route[3], w->by_route[0]);
	printf("# %llu short, %llu errors, %llu fell back, %llu shared, %llu by the other writer\n",
	       w->shorts, w->errors, w->fell_back, w->shared, w->writer.writes);
}

static __u64 wanted_ops(void)
{
	const char *text = getenv("MAS_OPS");

	return text ? strtoull(text, NULL, 0) : OPS_SHORT;
}

FIXTURE(model) {
	struct world *w;
};

FIXTURE_SETUP(model)
{
	self->w = calloc(1, sizeof(*self->w));
	ASSERT_NE(NULL, self->w);
	setup_world(_metadata, self->w);
	sem_init(&self->w->writer.go, 0, 0);
	sem_init(&self->w->writer.done, 0, 0);
	ASSERT_EQ(0, pthread_create(&self->w->writer.thread, NULL, writer_main,
				    &self->w->writer));
}

FIXTURE_TEARDOWN(model)
{
	self->w->writer.quit = true;
	sem_post(&self->w->writer.go);
	pthread_join(self->w->writer.thread, NULL);
}

TEST_F_TIMEOUT(model, random_requests_answer_and_do_what_the_model_says, 3600)
{
	__u64 want = wanted_ops(), ops = 0;
	struct world *w = self->w;
	unsigned int i;

	/* Shared blocks are rare: on until there were some. */
	for (; (ops < want || (!w->shared && ops < 20 * want)) && !w->failed; w->round++) {
		run_round(w);
		ops += w->nr;
	}
	check_all(w);
	say_totals(w);
	EXPECT_FALSE(w->failed)
		TH_LOG("in round %u, after %llu requests", w->round, ops);
	/* All of it took place. */
	for (i = 0; i < NR_ENTRIES; i++)
		EXPECT_LT(0, w->by_entry[i]);
	for (i = 0; i < ARRAY_SIZE(w->by_route); i++)
		EXPECT_LT(0, w->by_route[i]);
	EXPECT_LT(0, w->shorts);
	EXPECT_LT(0, w->errors);
	EXPECT_LT(0, w->shared);
	EXPECT_LT(0, w->writer.writes);
}

TEST_HARNESS_MAIN
