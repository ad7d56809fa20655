// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM as a request sees it: a row of extents with an offset each, either the
 * extents of one handle or those of a segment list.
 *
 * A segment list moves one range of a file to or from many pieces of VRAM. It
 * becomes one array of bio_vecs, so that the block layer makes as few commands of
 * it as the disk's limits allow.
 */
#include <linux/bvec.h>
#include <linux/io.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/uio.h>

#include "mas.h"
#include "mas_io.h"

/* Extents of one segment list: the block layer counts them in 16 bits. */
#define MAS_MAX_EXTENTS	U16_MAX

/*
 * Segments and extents of all lists of a context together: 32 MiB of host memory and,
 * while a list is being taken over, some more. No quota of the caller's need cover it.
 */
#define MAS_MAX_CTX_EXTENTS	BIT(20)

/* bv_len is 32 bits wide; as the extents of handles are cut. */
#define MAS_BVEC_MAX	SZ_1G

/**
 * struct mas_segs - a segment list, resolved
 * @ctx: the context; valid until mas_segs_put()
 * @charged: what it counts in mas_ctx::nr_extents
 * @user: the list as the caller gave it; NULL once @view is made of it
 * @nr: number of segments
 * @mems: handles that are referenced, in order, each run of the same one once
 * @nr_mems: number of them
 * @bytes: sum of all lengths
 * @bvecs: the extents
 * @starts: offset of each
 * @view: what the request sees
 * @free_work: frees it; the last user may be in interrupt context
 */
struct mas_segs {
	struct mas_ctx *ctx;
	unsigned int charged;
	struct mxcd_mas_seg *user;
	unsigned int nr;
	struct mas_mem **mems;
	unsigned int nr_mems;
	u64 bytes;
	struct bio_vec *bvecs;
	u64 *starts;
	struct mas_view view;
	struct work_struct free_work;
};

static noinline unsigned int mas_view_search(const struct mas_view *view, u64 offset)
{
	unsigned int lo = 0, hi = view->nr_bvecs - 1, mid;

	while (lo < hi) {
		mid = lo + (hi - lo + 1) / 2;
		if (view->starts[mid] <= offset)
			lo = mid;
		else
			hi = mid - 1;
	}

	return lo;
}

/* The extent that @offset is in. */
static inline unsigned int mas_view_find(const struct mas_view *view, u64 offset)
{
	return view->nr_bvecs == 1 ? 0 : mas_view_search(view, offset);
}

/**
 * mas_view_iter - describe a slice of VRAM to the VFS
 * @view: the VRAM; the GPU's gate is held as long as @iter is used
 * @offset: first byte
 * @len: bytes, at least 1; @offset + @len is within the view
 * @dir: ITER_DEST to fill VRAM, ITER_SOURCE to read it
 * @one: room for the slice where it lies in one extent; to live as long as @iter
 *	and the bios that are made of it
 * @iter: set up to name just the slice
 *
 * Context: any.
 */
void mas_view_iter(const struct mas_view *view, u64 offset, size_t len,
		   unsigned int dir, struct bio_vec *one, struct iov_iter *iter)
{
	unsigned int first = mas_view_find(view, offset);
	const struct bio_vec *bvec = view->bvecs + first;
	u64 skip = offset - view->starts[first];
	unsigned int last;

	/* The block layer looks for no split in a bio that shows to be one page. */
	if (skip + len <= bvec->bv_len) {
		skip += bvec->bv_offset;
		/* Struct pages of device memory follow each other as the pages do. */
		bvec_set_page(one, bvec->bv_page + PHYS_PFN(skip), len, offset_in_page(skip));
		iov_iter_bvec(iter, dir, one, 1, len);
		return;
	}

	/*
	 * The block layer keeps the number of segments in 16 bits: no surplus. A
	 * handle has at most 16384 extents in the longest piece.
	 */
	last = mas_view_find(view, offset + len - 1);
	iov_iter_bvec(iter, dir, bvec, last - first + 1, len);
	iter->iov_offset = skip;
}

/**
 * mas_view_fits_many - mas_view_fits() for several extents
 * @view: the VRAM, the GPU's gate held
 * @offset: first byte
 * @len: bytes, at least 1
 * @align: alignment that the disk asks of addresses, a power of two
 * @seg_align: see mas_view_fits()
 *
 * Context: any.
 * Return: true if so.
 */
bool mas_view_fits_many(const struct mas_view *view, u64 offset, u64 len, u32 align,
			u32 seg_align)
{
	unsigned int first = mas_view_find(view, offset);
	u64 addr = view->bvecs[first].bv_offset + offset - view->starts[first];

	if (!IS_ALIGNED(addr, align))
		return false;
	if (offset + len <= view->starts[first] + view->bvecs[first].bv_len)
		return true;

	return IS_ALIGNED(addr | view->borders, seg_align);
}

/**
 * mas_view_page - the page at an offset
 * @view: the VRAM, the GPU's gate held
 * @offset: the offset, page-aligned
 * @contig: set to the number of pages from there to the end of the extent
 *
 * Context: any.
 * Return: its page frame number.
 */
unsigned long mas_view_page(const struct mas_view *view, u64 offset,
			    unsigned long *contig)
{
	unsigned int i = mas_view_find(view, offset);
	u64 skip = offset - view->starts[i];

	*contig = PHYS_PFN(view->bvecs[i].bv_len - skip);
	return page_to_pfn(view->bvecs[i].bv_page) + PHYS_PFN(skip);
}

static void mas_segs_free(struct work_struct *work)
{
	struct mas_segs *segs = container_of(work, struct mas_segs, free_work);

	kvfree(segs->user);
	kvfree(segs->mems);
	kvfree(segs->bvecs);
	kvfree(segs->starts);
	kfree(segs);
}

/**
 * mas_segs_put - drop a segment list and the handles it holds
 * @segs: the list, or NULL
 *
 * Context: any, hard interrupts too.
 */
void mas_segs_put(struct mas_segs *segs)
{
	unsigned int i;

	if (!segs)
		return;

	for (i = 0; i < segs->nr_mems; i++)
		mas_mem_put(segs->mems[i]);
	atomic_sub(segs->charged, &segs->ctx->nr_extents);
	queue_work(mas_wq, &segs->free_work);
}

static bool mas_seg_in_range(const struct mxcd_mas_seg *seg, struct mas_mem *mem)
{
	return !seg->__reserved && seg->length && seg->offset <= mem->size &&
	       seg->length <= mem->size - seg->offset;
}

/*
 * Take a reference to each handle. All must be on one GPU: the pages of a bio
 * are never mixed.
 */
static int mas_segs_resolve(struct mas_ctx *ctx, struct mas_segs *segs)
{
	const struct mxcd_mas_seg *seg = segs->user;
	struct mas_mem *mem = NULL;
	unsigned int i;

	for (i = 0; i < segs->nr; i++, seg++) {
		if (!i || seg->handle != seg[-1].handle) {
			mem = mas_mem_get(ctx, seg->handle);
			if (!mem)
				return -ENOENT;
			segs->mems[segs->nr_mems++] = mem;
		}
		if (mem->gpu != segs->mems[0]->gpu || !mas_seg_in_range(seg, mem) ||
		    check_add_overflow(segs->bytes, seg->length, &segs->bytes))
			return -EINVAL;
		/* The younger ones may be alive, but not all of them. */
		if (mem->view.generation != segs->mems[0]->view.generation)
			return -ENODEV;
	}

	return 0;
}

static int mas_segs_charge(struct mas_segs *segs, unsigned int nr)
{
	segs->charged += nr;

	return atomic_add_return(nr, &segs->ctx->nr_extents) > MAS_MAX_CTX_EXTENTS ? -ENOMEM : 0;
}

static int mas_segs_copy(struct mas_segs *segs, const struct mxcd_mas_req *args)
{
	segs->nr = args->nr_segs;
	if (mas_segs_charge(segs, segs->nr))
		return -ENOMEM;

	segs->mems = kvcalloc(segs->nr, sizeof(*segs->mems), GFP_KERNEL_ACCOUNT);
	segs->user = kvmalloc_array(segs->nr, sizeof(*segs->user), GFP_KERNEL_ACCOUNT);
	if (!segs->mems || !segs->user)
		return -ENOMEM;

	return copy_from_user(segs->user, u64_to_user_ptr(args->segs),
			      segs->nr * sizeof(*segs->user)) ? -EFAULT : 0;
}

/* Extents that all segments span; 0: too many. */
static size_t mas_segs_extents(const struct mas_segs *segs)
{
	const struct mxcd_mas_seg *seg = segs->user;
	unsigned int i, run = 0;
	size_t nr = 0;

	for (i = 0; i < segs->nr; i++, seg++) {
		if (i && seg->handle != seg[-1].handle)
			run++;
		nr += mas_view_find(&segs->mems[run]->view, seg->offset + seg->length - 1) -
		      mas_view_find(&segs->mems[run]->view, seg->offset) + 1;
		if (nr > MAS_MAX_EXTENTS)
			return 0;
	}

	return nr;
}

/* Append an extent, or grow the last one if they meet. */
static void mas_segs_add(struct mas_segs *segs, phys_addr_t addr, unsigned int len,
			 u64 start)
{
	struct mas_view *view = &segs->view;
	struct bio_vec *last = segs->bvecs + view->nr_bvecs - 1;

	if (view->nr_bvecs) {
		phys_addr_t end = page_to_phys(last->bv_page) + last->bv_offset + last->bv_len;

		if (end == addr && last->bv_len + len <= MAS_BVEC_MAX) {
			last->bv_len += len;
			return;
		}
		view->borders |= end | addr;
	}

	bvec_set_page(last + 1, pfn_to_page(PHYS_PFN(addr)), len, offset_in_page(addr));
	segs->starts[view->nr_bvecs++] = start;
}

/* Append what a segment names; returns the offset behind it. */
static u64 mas_segs_append(struct mas_segs *segs, const struct mxcd_mas_seg *seg,
			   const struct mas_view *from, u64 start)
{
	unsigned int i = mas_view_find(from, seg->offset);
	u64 skip = seg->offset - from->starts[i];
	u64 left = seg->length, len;

	for (; left; i++, skip = 0, start += len, left -= len) {
		len = min(left, from->bvecs[i].bv_len - skip);
		mas_segs_add(segs, page_to_phys(from->bvecs[i].bv_page) + skip, len, start);
	}

	return start;
}

static int mas_segs_build(struct mas_segs *segs)
{
	const struct mxcd_mas_seg *seg = segs->user;
	size_t nr_bvecs = mas_segs_extents(segs);
	unsigned int i, run = 0;
	u64 start = 0;

	if (!nr_bvecs)
		return -EINVAL;
	if (mas_segs_charge(segs, nr_bvecs))
		return -ENOMEM;

	segs->bvecs = kvmalloc_array(nr_bvecs, sizeof(*segs->bvecs), GFP_KERNEL_ACCOUNT);
	segs->starts = kvmalloc_array(nr_bvecs, sizeof(*segs->starts), GFP_KERNEL_ACCOUNT);
	if (!segs->bvecs || !segs->starts)
		return -ENOMEM;

	segs->view.bvecs = segs->bvecs;
	segs->view.starts = segs->starts;
	segs->view.generation = segs->mems[0]->view.generation;
	for (i = 0; i < segs->nr; i++, seg++) {
		if (i && seg->handle != seg[-1].handle)
			run++;
		start = mas_segs_append(segs, seg, &segs->mems[run]->view, start);
	}
	kvfree(segs->user);
	segs->user = NULL;

	return 0;
}

/**
 * mas_segs_create - take over a segment list
 * @ctx: the context
 * @args: the request; its list is in the memory of the caller
 *
 * Context: may sleep.
 * Return: the list, ended by mas_segs_put(), with a reference to each handle that
 * it names; or -EINVAL, -ENOENT, -EFAULT or -ENOMEM.
 */
struct mas_segs *mas_segs_create(struct mas_ctx *ctx, const struct mxcd_mas_req *args)
{
	struct mas_segs *segs;
	int ret;

	if (!args->nr_segs || args->nr_segs > MAS_MAX_SEGS || args->handle || args->mem_offset)
		return ERR_PTR(-EINVAL);

	segs = kzalloc(sizeof(*segs), GFP_KERNEL_ACCOUNT);
	if (!segs)
		return ERR_PTR(-ENOMEM);
	segs->ctx = ctx;
	INIT_WORK(&segs->free_work, mas_segs_free);

	ret = mas_segs_copy(segs, args);
	if (!ret)
		ret = mas_segs_resolve(ctx, segs);
	if (!ret && segs->bytes != args->length)
		ret = -EINVAL;
	if (!ret)
		ret = mas_segs_build(segs);
	if (ret) {
		mas_segs_put(segs);
		return ERR_PTR(ret);
	}

	return segs;
}

/**
 * mas_segs_gpu - the GPU that a segment list is on
 * @segs: the list
 *
 * Context: any.
 * Return: the GPU; the list's handles hold it.
 */
struct mxcd_gpu *mas_segs_gpu(const struct mas_segs *segs)
{
	return segs->mems[0]->gpu;
}

/**
 * mas_segs_view - the VRAM that a segment list names
 * @segs: the list
 *
 * Context: any.
 * Return: one view of all segments, valid as long as @segs.
 */
const struct mas_view *mas_segs_view(const struct mas_segs *segs)
{
	return &segs->view;
}
