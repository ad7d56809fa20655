// SPDX-License-Identifier: GPL-2.0
/*
 * Every allocation of probe fails in turn, those for sysfs and device nodes too: the
 * GPU is bound with MAS, or without and sysfs says why, or not at all, and the next
 * try binds it. Wants a kernel with fault injection.
 */
#include "mas_inject.h"

/* No call makes that many allocations. */
#define ENDLESS	5000

#define DRIVER	"/sys/bus/pci/drivers/mxcd/"

/* The last of the stand-ins is the smallest. */
static const char *last_gpu(void)
{
	const char *all = getenv("MAS_GPUS"), *last = all ? strrchr(all, ' ') : NULL;

	return last ? last + 1 : NULL;
}

static bool is_bound(const char *bdf)
{
	char path[128];

	snprintf(path, sizeof(path), DRIVER "%s", bdf);
	return !access(path, F_OK);
}

static int enabled_gpus(void)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	int fd = mas_open(0), ret;

	if (fd < 0)
		return fd;
	ret = mas_ioctl(fd, MXCD_MAS_QUERY, &q);
	close(fd);
	return ret ? ret : __builtin_popcountll(q.out_gpus);
}

FIXTURE(probe) {
	const char *bdf;
	int gpus;
};

/*
 * What the kernel does not survive itself: x86 warns when __add_pages() fails, and
 * pci_p2pdma_add_resource() leaves a devres action with freed memory behind when
 * gen_pool_add_owner() fails.
 */
static const char *spared(void)
{
	char provider[32];

	if (mas_get_text(MAS_PARAMETERS "/provider", provider, sizeof(provider)) < 0)
		return NULL;
	return strcmp(provider, "zone_device") ? "pci_p2pdma_add_resource" : "__add_pages";
}

FIXTURE_SETUP(probe)
{
	if (nth_open())
		SKIP(return, "this kernel injects no faults");
	ASSERT_EQ(0, inject_prepare());
	ASSERT_NE(NULL, spared());
	ASSERT_EQ(0, inject_spare(spared()));
	self->bdf = last_gpu();
	ASSERT_NE(NULL, self->bdf);
	ASSERT_TRUE(is_bound(self->bdf));
	self->gpus = enabled_gpus();
	ASSERT_LT(0, self->gpus);
}

FIXTURE_TEARDOWN(probe)
{
	if (nth_fd >= 0 && !is_bound(self->bdf))
		mas_put_text(DRIVER "bind", self->bdf);
	inject_spare(NULL);
	close(nth_fd);
}

/* Everything of probe, sysfs and device nodes with it. */
TEST_F_TIMEOUT(probe, each_failure_is_clean, 600)
{
	unsigned int n, failed = 0, off = 0;
	bool fired;
	int ret;

	for (n = 1; n < ENDLESS; n++) {
		ASSERT_EQ(0, mas_put_text(DRIVER "unbind", self->bdf));
		ASSERT_EQ(self->gpus - 1, enabled_gpus());

		nth_arm(n);
		ret = mas_put_text(DRIVER "bind", self->bdf);
		fired = nth_disarm();

		ASSERT_EQ(!ret, is_bound(self->bdf));
		if (!fired)
			ASSERT_EQ(0, ret);
		if (ret) {
			failed++;
			/* The kernel calls a BAR busy that it has no memory to note. */
			ASSERT_TRUE(ret == -ENOMEM || ret == -EBUSY)
				TH_LOG("allocation %u: %d", n, ret);
			ASSERT_EQ(0, mas_put_text(DRIVER "bind", self->bdf));
		} else if (enabled_gpus() == self->gpus - 1) {
			/* Bound without MAS, and mas_state says why. */
			ASSERT_TRUE(fired);
			off++;
			ASSERT_EQ(0, mas_put_text(DRIVER "unbind", self->bdf));
			ASSERT_EQ(0, mas_put_text(DRIVER "bind", self->bdf));
		}
		ASSERT_EQ(self->gpus, enabled_gpus());
		if (!fired)
			break;
	}
	ASSERT_GT(ENDLESS, n);
	printf("# %u allocations failed in turn; %u made probe fail, %u turned MAS off\n",
	       n - 1, failed, off);
	EXPECT_LT(10, n);
}

TEST_HARNESS_MAIN
