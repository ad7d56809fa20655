// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of mas_route.c: the words for its reasons.
 */
#include <kunit/test.h>
#include <linux/string.h>

#include "mas.h"

static void each_reason_has_words_of_its_own(struct kunit *test)
{
	const char *words;
	unsigned int i, j;

	KUNIT_EXPECT_STREQ(test, mas_route_reason(MXCD_MAS_REASON_NONE), "none");
	for (i = 0; strcmp(mas_route_reason(i), "unknown"); i++) {
		words = mas_route_reason(i);
		KUNIT_ASSERT_NOT_NULL_MSG(test, words, "reason %u", i);
		for (j = 0; j < i; j++)
			KUNIT_EXPECT_STRNEQ(test, words, mas_route_reason(j));
		/* A file of sysfs has one line. */
		KUNIT_EXPECT_NULL(test, strchr(words, '\n'));
	}
	KUNIT_EXPECT_GT(test, i, MXCD_MAS_REASON_INTEGRITY);
	KUNIT_EXPECT_STREQ(test, mas_route_reason(U32_MAX), "unknown");
}

static struct kunit_case route_cases[] = {
	KUNIT_CASE(each_reason_has_words_of_its_own),
	{ }
};

static struct kunit_suite route_suite = {
	.name = "mas_route",
	.test_cases = route_cases,
};

kunit_test_suite(route_suite);
