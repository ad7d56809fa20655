// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of mas_view.c: slices of rows of extents. Only addresses are worked
 * out; no page is touched.
 */
#include <kunit/test.h>
#include <linux/bvec.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/sizes.h>
#include <linux/uio.h>

#include "mas.h"

#define NR_EXTENTS	4

/* Extents of a handle: no two of them meet, the longest is as long as may be. */
static const struct {
	unsigned long pfn;
	u32 len;
} extents[NR_EXTENTS] = {
	{ 0x10000, SZ_64K },
	{ 0x20000, 3 * SZ_64K },
	{ 0x80000, SZ_1G },
	{ 0x30000, SZ_64K },
};

struct view_test {
	struct bio_vec bvecs[NR_EXTENTS];
	u64 starts[NR_EXTENTS];
	struct mas_view view;
	u64 size;
};

static int view_test_init(struct kunit *test)
{
	struct view_test *t = kunit_kzalloc(test, sizeof(*t), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, t);
	for (i = 0; i < NR_EXTENTS; i++) {
		bvec_set_page(&t->bvecs[i], pfn_to_page(extents[i].pfn), extents[i].len, 0);
		t->starts[i] = t->size;
		t->size += extents[i].len;
	}
	t->view.bvecs = t->bvecs;
	t->view.starts = t->starts;
	t->view.nr_bvecs = NR_EXTENTS;
	t->view.borders = SZ_64K;
	test->priv = t;

	return 0;
}

/* Where a byte is, by going through the table from its start. */
static u64 address_of(u64 offset)
{
	int i = 0;

	while (offset >= extents[i].len)
		offset -= extents[i++].len;

	return PFN_PHYS(extents[i].pfn) + offset;
}

/* Every byte that the iterator names is the right one, and none is missing. */
static void expect_slice(struct kunit *test, u64 offset, size_t len)
{
	struct view_test *t = test->priv;
	size_t left = len, skip, n;
	struct iov_iter iter;
	struct bio_vec one;
	unsigned long i;
	u64 addr;

	mas_view_iter(&t->view, offset, len, ITER_DEST, &one, &iter);
	KUNIT_EXPECT_EQ(test, iov_iter_count(&iter), len);
	KUNIT_EXPECT_TRUE(test, iov_iter_is_bvec(&iter));
	skip = iter.iov_offset;
	for (i = 0; i < iter.nr_segs && left; i++, skip = 0) {
		const struct bio_vec *bvec = iter.bvec + i;

		KUNIT_ASSERT_LT(test, skip, bvec->bv_len);
		/* page_to_phys() would want memory to be there. */
		addr = PFN_PHYS(page_to_pfn(bvec->bv_page)) + bvec->bv_offset + skip;
		n = min(left, bvec->bv_len - skip);
		KUNIT_EXPECT_EQ(test, addr, address_of(offset));
		KUNIT_EXPECT_EQ(test, addr + n - 1, address_of(offset + n - 1));
		offset += n;
		left -= n;
	}
	KUNIT_EXPECT_EQ(test, left, 0);
	/* A surplus segment counts against the 16 bits of the block layer. */
	KUNIT_EXPECT_EQ(test, i, iter.nr_segs);
}

static void slice_within_an_extent(struct kunit *test)
{
	expect_slice(test, 0, 1);
	expect_slice(test, 0, SZ_64K);
	expect_slice(test, SZ_64K - 1, 1);
	expect_slice(test, SZ_64K, 3 * SZ_64K);
	expect_slice(test, SZ_256K, SZ_1G);
	expect_slice(test, SZ_256K + SZ_1G - 1, 1);
	expect_slice(test, SZ_256K + SZ_1G, SZ_64K);
}

static void slice_across_borders(struct kunit *test)
{
	struct view_test *t = test->priv;

	expect_slice(test, SZ_64K - 1, 2);
	expect_slice(test, 1, SZ_256K);
	expect_slice(test, SZ_256K - SZ_4K, SZ_1G + SZ_8K);
	expect_slice(test, 0, t->size);
	expect_slice(test, t->size - SZ_64K - 1, SZ_64K + 1);
}

static void slice_anywhere(struct kunit *test)
{
	struct view_test *t = test->priv;
	struct rnd_state rnd;
	u64 from, to;
	int i;

	prandom_seed_state(&rnd, 1);
	for (i = 0; i < 2000; i++) {
		from = prandom_u32_state(&rnd) % (u32)t->size;
		to = prandom_u32_state(&rnd) % (u32)t->size;
		expect_slice(test, min(from, to), max(from, to) - min(from, to) + 1);
	}
}

/* The block layer looks for no split in a bio of one bvec within a page. */
static void slice_of_one_page_shows_to_be_that(struct kunit *test)
{
	struct view_test *t = test->priv;
	struct iov_iter iter;
	struct bio_vec one;

	mas_view_iter(&t->view, SZ_64K + SZ_4K + 512, 1024, ITER_SOURCE, &one, &iter);
	KUNIT_EXPECT_EQ(test, iter.nr_segs, 1);
	KUNIT_EXPECT_EQ(test, iter.iov_offset, 0);
	KUNIT_EXPECT_PTR_EQ(test, iter.bvec, &one);
	KUNIT_EXPECT_EQ(test, one.bv_offset, 512);
	KUNIT_EXPECT_EQ(test, one.bv_len, 1024);
	KUNIT_EXPECT_EQ(test, page_to_pfn(one.bv_page), extents[1].pfn + 1);
}

static void slice_fits_by_its_address(struct kunit *test)
{
	struct view_test *t = test->priv;

	KUNIT_EXPECT_TRUE(test, mas_view_fits(&t->view, 0, SZ_4K, 4, 512));
	KUNIT_EXPECT_TRUE(test, mas_view_fits(&t->view, 4, SZ_4K, 4, 512));
	KUNIT_EXPECT_FALSE(test, mas_view_fits(&t->view, 2, SZ_4K, 4, 512));
	KUNIT_EXPECT_FALSE(test, mas_view_fits(&t->view, SZ_64K + 1, 1, 4, 4));
	KUNIT_EXPECT_TRUE(test, mas_view_fits(&t->view, SZ_64K - 4, 4, 4, 512));
}

/* The length of each extent but the last has to be a multiple of the unit. */
static void slice_across_borders_fits_by_its_lengths(struct kunit *test)
{
	struct view_test *t = test->priv;

	KUNIT_EXPECT_TRUE(test, mas_view_fits(&t->view, 512, SZ_128K, 4, 512));
	KUNIT_EXPECT_FALSE(test, mas_view_fits(&t->view, 4, SZ_128K, 4, 512));
	KUNIT_EXPECT_TRUE(test, mas_view_fits(&t->view, 4, SZ_128K, 4, 4));
	t->view.borders |= 256;
	KUNIT_EXPECT_FALSE(test, mas_view_fits(&t->view, 512, SZ_128K, 4, 512));
	KUNIT_EXPECT_TRUE(test, mas_view_fits(&t->view, 512, SZ_4K, 4, 512));
}

static void page_and_what_follows_it(struct kunit *test)
{
	struct view_test *t = test->priv;
	unsigned long contig;

	KUNIT_EXPECT_EQ(test, mas_view_page(&t->view, 0, &contig), extents[0].pfn);
	KUNIT_EXPECT_EQ(test, contig, SZ_64K / PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, mas_view_page(&t->view, SZ_64K + SZ_4K, &contig),
			extents[1].pfn + 1);
	KUNIT_EXPECT_EQ(test, contig, 3 * SZ_64K / PAGE_SIZE - 1);
	KUNIT_EXPECT_EQ(test, mas_view_page(&t->view, t->size - PAGE_SIZE, &contig),
			extents[3].pfn + SZ_64K / PAGE_SIZE - 1);
	KUNIT_EXPECT_EQ(test, contig, 1);
}

static struct kunit_case view_cases[] = {
	KUNIT_CASE(slice_within_an_extent),
	KUNIT_CASE(slice_across_borders),
	KUNIT_CASE(slice_anywhere),
	KUNIT_CASE(slice_of_one_page_shows_to_be_that),
	KUNIT_CASE(slice_fits_by_its_address),
	KUNIT_CASE(slice_across_borders_fits_by_its_lengths),
	KUNIT_CASE(page_and_what_follows_it),
	{ }
};

static struct kunit_suite view_suite = {
	.name = "mas_view",
	.init = view_test_init,
	.test_cases = view_cases,
};

kunit_test_suite(view_suite);
