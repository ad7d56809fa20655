/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A file of some kind, VRAM to move it to and from, and a model of what the file
 * has to hold: what the tests of transfers share.
 */
#ifndef MAS_TARGET_H
#define MAS_TARGET_H

#include "mas_utils.h"

#define SPAN		(2 * MAS_MIB)	/* of the file, and of the handle */
#define RAW_BASE	(16ULL * MAS_MIB)
#define GUARD		8192
#define POISON		0xd7

struct target_kind {
	const char *env;
	int flags;		/* of open(2) */
	bool raw;
	bool dio;
};

struct target {
	struct target_kind kind;
	int mas;
	int fd;			/* to check with; what is registered may differ */
	int registered;
	__u64 base;		/* where in the file the tests work */
	__u32 file;
	int gpu;
	struct mxcd_mas_alloc mem;
	char *vram;
	char *model;		/* what the file holds from @base on ... */
	__u64 len;		/* ... up to here; a file, not a disk, ends there */
	char *buf;
	__u64 seed;
};

/* Opens the file twice: to check with, and to register. */
static inline int target_open(struct target *t)
{
	const char *path = getenv(t->kind.env);

	if (!path)
		return -ENOENT;
	if (t->kind.raw) {
		t->fd = open(path, O_RDWR | O_CLOEXEC);
		t->registered = open(path, O_RDWR | O_CLOEXEC | t->kind.flags);
	} else {
		t->fd = mas_temp(t->kind.env, 0);
		t->registered = mas_reopen(t->fd, O_RDWR | t->kind.flags);
	}
	return t->fd < 0 || t->registered < 0 ? -ENOENT : 0;
}

static inline void target_setup(struct __test_metadata *_metadata,
				struct target *t,
				const struct target_kind *kind)
{
	int file;

	t->kind = *kind;
	t->mas = mas_open(0);
	ASSERT_LE(0, t->mas);
	ASSERT_EQ(0, target_open(t))
		TH_LOG("cannot open what %s names", kind->env);
	file = mas_register(t->mas, t->registered);
	ASSERT_LT(0, file);
	t->file = file;
	t->gpu = mas_big_gpu(t->mas);
	ASSERT_LE(0, t->gpu);
	ASSERT_EQ(0, mas_alloc(t->mas, t->gpu, SPAN, &t->mem));
	t->vram = mas_map(t->mas, &t->mem);
	ASSERT_NE(MAP_FAILED, (void *)t->vram);
	t->model = calloc(1, SPAN);
	t->buf = malloc(SPAN);
	ASSERT_NE(NULL, t->model);
	ASSERT_NE(NULL, t->buf);
	t->base = kind->raw ? RAW_BASE : 0;
	t->seed = mas_seed();
}

static inline void target_teardown(struct target *t)
{
	close(t->registered);
	close(t->fd);
	close(t->mas);
}

/* Gives the file new content: of just this length, unless it is a disk. */
static inline void target_put(struct __test_metadata *_metadata,
			      struct target *t, __u64 len)
{
	mas_fill(t->model, len, mas_rand(&t->seed));
	ASSERT_EQ(0, t->kind.raw ? 0 : ftruncate(t->fd, 0));
	ASSERT_TRUE(mas_pwrite(t->fd, t->model, len, t->base));
	ASSERT_EQ(0, fsync(t->fd));
	if (!t->kind.raw || len > t->len)
		t->len = len;
}

/* A completion has to agree with itself. */
static inline void expect_sane(struct __test_metadata *_metadata,
			       const struct mxcd_mas_comp *comp)
{
	__u64 moved = comp->result > 0 ? comp->result : 0;
	int route = 0;

	if (comp->p2p_bytes)
		route |= MXCD_MAS_ROUTE_P2P;
	if (comp->p2p_bytes < moved)
		route |= MXCD_MAS_ROUTE_BOUNCE;
	EXPECT_LE(comp->p2p_bytes, moved);
	EXPECT_EQ(route, comp->route);
	if (moved) {
		EXPECT_EQ(comp->p2p_bytes == moved,
			  comp->reason == MXCD_MAS_REASON_NONE)
			TH_LOG("reason %u", comp->reason);
	}
	EXPECT_EQ(0, comp->__reserved);
}

static inline struct mxcd_mas_comp target_run(struct __test_metadata *_metadata,
					      struct target *t, int op,
					      __u64 off, __u64 len, __u64 mem,
					      __u32 flags)
{
	struct mxcd_mas_req req = mas_rw(op, t->file, t->base + off, len,
					 t->mem.handle, mem);
	struct mxcd_mas_comp comp;

	req.flags = flags;
	comp = mas_by_ioctl(t->mas, &req);
	expect_sane(_metadata, &comp);
	return comp;
}

/*
 * Reads @len bytes at @off to @mem, expects as many as the file has there and
 * looks that nothing else in VRAM changed.
 */
static inline struct mxcd_mas_comp check_read(struct __test_metadata *_metadata,
					      struct target *t, __u64 off,
					      __u64 len, __u64 mem, __u32 flags)
{
	__u64 from = mem > GUARD ? mem - GUARD : 0;
	__u64 to = mem + len + GUARD < SPAN ? mem + len + GUARD : SPAN;
	struct mxcd_mas_comp comp;
	__u64 want = 0;

	if (off < t->len)
		want = t->len - off < len ? t->len - off : len;
	memset(t->vram + from, POISON, to - from);
	comp = target_run(_metadata, t, MXCD_MAS_OP_READ, off, len, mem, flags);
	ASSERT_EQ(want, comp.result)
		TH_LOG("read %llu at %llu to %llu", len, off, mem);
	EXPECT_EQ(-1, mas_diff(t->model + off, t->vram + mem, want))
		TH_LOG("read %llu at %llu to %llu", len, off, mem);
	EXPECT_EQ(-1, mas_not_all(t->vram + from, mem - from, POISON))
		TH_LOG("before: read %llu at %llu to %llu", len, off, mem);
	EXPECT_EQ(-1, mas_not_all(t->vram + mem + want, to - mem - want,
				  POISON))
		TH_LOG("behind: read %llu at %llu to %llu", len, off, mem);
	return comp;
}

/* Compares the file from @from to @to, or where it ends, with the model. */
static inline void check_file(struct __test_metadata *_metadata,
			      struct target *t, __u64 from, __u64 to)
{
	struct stat st;

	if (to > t->len)
		to = t->len;
	ASSERT_TRUE(mas_pread(t->fd, t->buf, to - from, t->base + from));
	EXPECT_EQ(-1, mas_diff(t->model + from, t->buf, to - from))
		TH_LOG("compared from %llu to %llu", from, to);
	ASSERT_EQ(0, fstat(t->fd, &st));
	EXPECT_EQ(t->kind.raw ? 0 : t->len, st.st_size);
}

/* Writes fresh bytes and compares the file around them with the model. */
static inline struct mxcd_mas_comp
check_write(struct __test_metadata *_metadata, struct target *t, __u64 off,
	    __u64 len, __u64 mem, __u32 flags)
{
	struct mxcd_mas_comp comp;

	mas_fill(t->model + off, len, mas_rand(&t->seed));
	memcpy(t->vram + mem, t->model + off, len);
	if (off + len > t->len)
		t->len = off + len;
	comp = target_run(_metadata, t, MXCD_MAS_OP_WRITE, off, len, mem, flags);
	ASSERT_EQ(len, comp.result)
		TH_LOG("write %llu at %llu from %llu", len, off, mem);
	check_file(_metadata, t, off > GUARD ? off - GUARD : 0,
		   off + len + GUARD);
	EXPECT_EQ(-1, mas_diff(t->model + off, t->vram + mem, len))
		TH_LOG("a write changed its source");
	return comp;
}

#endif /* MAS_TARGET_H */
