// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of how mas_piece.c splits a transfer: each byte once, in order, each
 * by the way that the plan says.
 */
#include <kunit/test.h>
#include <linux/sizes.h>

#include "mas.h"
#include "mas_io.h"

struct want {
	enum mas_piece piece;
	u64 len;
};

static struct mas_req *new_transfer(struct kunit *test, u64 pos, u64 len)
{
	struct mas_req *req = kunit_kzalloc(test, sizeof(*req), GFP_KERNEL);
	struct mas_file *file = kunit_kzalloc(test, sizeof(*file), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, req);
	KUNIT_ASSERT_NOT_NULL(test, file);
	file->read_align = 512;
	file->write_align = SZ_4K;
	file->page_cache = true;
	req->file = file;
	req->op = MXCD_MAS_OP_READ;
	req->pos = pos;
	req->len = len;
	req->body_start = pos;
	req->body_end = pos;
	req->bounce_reason = MXCD_MAS_REASON_REQUESTED;

	return req;
}

static void expect_pieces(struct kunit *test, struct mas_req *req, const struct want *want,
			  int nr)
{
	int i;

	for (i = 0; i < nr; i++) {
		KUNIT_ASSERT_TRUE_MSG(test, mas_piece_next(req), "piece %d", i);
		KUNIT_EXPECT_EQ_MSG(test, req->piece, want[i].piece, "piece %d", i);
		KUNIT_ASSERT_EQ_MSG(test, req->piece_len, want[i].len, "piece %d", i);
		req->done += req->piece_len;
	}
	KUNIT_EXPECT_FALSE(test, mas_piece_next(req));
	KUNIT_EXPECT_EQ(test, req->done, req->len);
}

static void nothing_to_move(struct kunit *test)
{
	expect_pieces(test, new_transfer(test, 4096, 0), NULL, 0);
}

static void whole_transfer_is_direct(struct kunit *test)
{
	static const struct want want[] = { { MAS_PIECE_DIRECT, SZ_1M } };
	struct mas_req *req = new_transfer(test, SZ_4K, SZ_1M);

	req->body_end = SZ_4K + SZ_1M;
	expect_pieces(test, req, want, ARRAY_SIZE(want));
}

static void edges_of_a_read_are_blocks(struct kunit *test)
{
	static const struct want want[] = {
		{ MAS_PIECE_EDGE, 12 },
		{ MAS_PIECE_DIRECT, 1024 },
		{ MAS_PIECE_EDGE, 7 },
	};
	struct mas_req *req = new_transfer(test, 500, 12 + 1024 + 7);

	req->edge_direct = true;
	req->body_start = 512;
	req->body_end = 1536;
	expect_pieces(test, req, want, ARRAY_SIZE(want));
}

static void read_without_a_whole_block_is_edges(struct kunit *test)
{
	static const struct want want[] = {
		{ MAS_PIECE_EDGE, 1 },
		{ MAS_PIECE_EDGE, 511 },
	};
	struct mas_req *req = new_transfer(test, 511, 512);

	req->edge_direct = true;
	expect_pieces(test, req, want, ARRAY_SIZE(want));
}

static void edges_of_a_write_go_through_the_page_cache(struct kunit *test)
{
	static const struct want want[] = {
		{ MAS_PIECE_CACHED, 4095 },
		{ MAS_PIECE_DIRECT, SZ_8K },
		{ MAS_PIECE_CACHED, 513 },
	};
	struct mas_req *req = new_transfer(test, 1, 4095 + SZ_8K + 513);

	req->op = MXCD_MAS_OP_WRITE;
	req->body_start = SZ_4K;
	req->body_end = SZ_4K + SZ_8K;
	expect_pieces(test, req, want, ARRAY_SIZE(want));
}

static void pieces_are_short_where_the_cpu_copies(struct kunit *test)
{
	static const struct want cached[] = {
		{ MAS_PIECE_CACHED, MAS_CACHED_MAX },
		{ MAS_PIECE_CACHED, MAS_CACHED_MAX },
		{ MAS_PIECE_CACHED, 1 },
	};
	static const struct want staged[] = {
		{ MAS_PIECE_STAGED, MAS_STAGE_MAX },
		{ MAS_PIECE_STAGED, 5 },
	};
	struct mas_req *req;

	expect_pieces(test, new_transfer(test, 3, 2 * MAS_CACHED_MAX + 1), cached,
		      ARRAY_SIZE(cached));

	req = new_transfer(test, 3, MAS_STAGE_MAX + 5);
	req->file->page_cache = false;
	expect_pieces(test, req, staged, ARRAY_SIZE(staged));
}

/* Nobody else's bytes may come between those of an append. */
static void append_is_one_piece(struct kunit *test)
{
	static const struct want want[] = { { MAS_PIECE_CACHED, 3 * MAS_CACHED_MAX } };
	struct mas_req *req = new_transfer(test, 0, 3 * MAS_CACHED_MAX);

	req->op = MXCD_MAS_OP_WRITE;
	req->bounce_reason = MXCD_MAS_REASON_APPEND;
	expect_pieces(test, req, want, ARRAY_SIZE(want));
}

static void direct_pieces_keep_within_max_rw_count(struct kunit *test)
{
	static const struct want want[] = {
		{ MAS_PIECE_DIRECT, MAS_PIECE_MAX },
		{ MAS_PIECE_DIRECT, MAS_PIECE_MAX },
		{ MAS_PIECE_DIRECT, MAS_PIECE_MAX },
		{ MAS_PIECE_DIRECT, SZ_4K },
	};
	u64 len = 3ULL * MAS_PIECE_MAX + SZ_4K;
	struct mas_req *req = new_transfer(test, 0, len);

	KUNIT_EXPECT_LE(test, MAS_PIECE_MAX, MAX_RW_COUNT);
	req->body_end = len;
	expect_pieces(test, req, want, ARRAY_SIZE(want));
}

static struct kunit_case piece_cases[] = {
	KUNIT_CASE(nothing_to_move),
	KUNIT_CASE(whole_transfer_is_direct),
	KUNIT_CASE(edges_of_a_read_are_blocks),
	KUNIT_CASE(read_without_a_whole_block_is_edges),
	KUNIT_CASE(edges_of_a_write_go_through_the_page_cache),
	KUNIT_CASE(pieces_are_short_where_the_cpu_copies),
	KUNIT_CASE(append_is_one_piece),
	KUNIT_CASE(direct_pieces_keep_within_max_rw_count),
	{ }
};

static struct kunit_suite piece_suite = {
	.name = "mas_piece",
	.test_cases = piece_cases,
};

kunit_test_suite(piece_suite);
