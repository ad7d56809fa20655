// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what mas_submit.c lets through: the borders of each field.
 */
#include <kunit/test.h>
#include <linux/errno.h>
#include <linux/limits.h>

#include "mas.h"
#include "mas_io.h"

static struct mxcd_mas_req transfer(u64 file_offset, u64 length)
{
	return (struct mxcd_mas_req) {
		.op		= MXCD_MAS_OP_READ,
		.file		= 1,
		.handle		= 1,
		.file_offset	= file_offset,
		.length		= length,
	};
}

static void range_ends_at_the_greatest_offset(struct kunit *test)
{
	static const struct {
		u64 file_offset;
		u64 length;
		int ret;
	} cases[] = {
		{ 0, 0, 0 },
		{ 0, 1, 0 },
		{ 0, LLONG_MAX, 0 },
		{ LLONG_MAX, 0, 0 },
		{ LLONG_MAX - 1, 1, 0 },
		{ LLONG_MAX - 4096, 4096, 0 },
		{ LLONG_MAX, 1, -EINVAL },
		{ 1, LLONG_MAX, -EINVAL },
		{ 0, 1ULL << 63, -EINVAL },
		{ 1ULL << 63, 0, -EINVAL },
		{ U64_MAX, 1, -EINVAL },
		{ 1, U64_MAX, -EINVAL },
		{ U64_MAX, U64_MAX, -EINVAL },
	};
	struct mxcd_mas_req req;
	int i;

	for (i = 0; i < ARRAY_SIZE(cases); i++) {
		req = transfer(cases[i].file_offset, cases[i].length);
		KUNIT_EXPECT_EQ_MSG(test, mas_check_req(&req, 0), cases[i].ret, "case %d", i);
		req.op = MXCD_MAS_OP_WRITE;
		KUNIT_EXPECT_EQ_MSG(test, mas_check_req(&req, 0), cases[i].ret, "case %d", i);
	}
}

static void no_such_operation(struct kunit *test)
{
	struct mxcd_mas_req req = { };

	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EOPNOTSUPP);
	req.op = U16_MAX;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EOPNOTSUPP);
}

static void flags_belong_to_operations(struct kunit *test)
{
	struct mxcd_mas_req req = transfer(0, 4096);
	int bit;

	for (bit = 0; bit < 32; bit++) {
		req.flags = 1U << bit;
		KUNIT_EXPECT_EQ_MSG(test, mas_check_req(&req, 0),
				    req.flags <= MXCD_MAS_REQ_DRAIN ? 0 : -EINVAL,
				    "bit %d", bit);
	}

	req.flags = MXCD_MAS_REQ_P2P_ONLY | MXCD_MAS_REQ_BOUNCE;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);

	req.op = MXCD_MAS_OP_WRITE;
	req.flags = MXCD_MAS_REQ_NOFLUSH;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);

	req = (struct mxcd_mas_req) { .op = MXCD_MAS_OP_FLUSH, .handle = 1 };
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), 0);
	req.flags = MXCD_MAS_REQ_FD;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);
}

static void descriptors_are_not_named_by_write(struct kunit *test)
{
	struct mxcd_mas_req req = transfer(0, 4096);

	req.flags = MXCD_MAS_REQ_FD;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), 0);
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, MAS_IO_NO_FD), -EINVAL);
}

static void fields_without_a_use_are_zero(struct kunit *test)
{
	struct mxcd_mas_req req;

	req = transfer(0, 4096);
	req.key = 1;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);

	req = transfer(0, 4096);
	req.arg = 1;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);

	req = (struct mxcd_mas_req) { .op = MXCD_MAS_OP_FREE, .handle = 1 };
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), 0);
	req.length = 1;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);

	req = (struct mxcd_mas_req) { .op = MXCD_MAS_OP_FSYNC, .file = 1 };
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), 0);
	req.mem_offset = 1;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);
}

static void list_has_address_and_number(struct kunit *test)
{
	struct mxcd_mas_req req = transfer(0, 4096);

	req.handle = 0;
	req.segs = 4096;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);
	req.nr_segs = 1;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), 0);
	req.segs = 0;
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);

	req = (struct mxcd_mas_req) { .op = MXCD_MAS_OP_FSYNC, .file = 1, .nr_segs = 1 };
	KUNIT_EXPECT_EQ(test, mas_check_req(&req, 0), -EINVAL);
}

static void calls_are_not_restarted(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, mas_io_errno(-ERESTARTSYS), -EINTR);
	KUNIT_EXPECT_EQ(test, mas_io_errno(-ERESTARTNOINTR), -EINTR);
	KUNIT_EXPECT_EQ(test, mas_io_errno(-ERESTARTNOHAND), -EINTR);
	KUNIT_EXPECT_EQ(test, mas_io_errno(-ERESTART_RESTARTBLOCK), -EINTR);
	KUNIT_EXPECT_EQ(test, mas_io_errno(-EIO), -EIO);
	KUNIT_EXPECT_EQ(test, mas_io_errno(0), 0);
}

static struct kunit_case plan_cases[] = {
	KUNIT_CASE(range_ends_at_the_greatest_offset),
	KUNIT_CASE(no_such_operation),
	KUNIT_CASE(flags_belong_to_operations),
	KUNIT_CASE(descriptors_are_not_named_by_write),
	KUNIT_CASE(fields_without_a_use_are_zero),
	KUNIT_CASE(list_has_address_and_number),
	KUNIT_CASE(calls_are_not_restarted),
	{ }
};

static struct kunit_suite plan_suite = {
	.name = "mas_plan",
	.test_cases = plan_cases,
};

kunit_test_suite(plan_suite);
