// SPDX-License-Identifier: GPL-2.0
/*
 * Others use the page cache of a disk or file while transfers go past it.
 */
#include "mas_utils.h"

#include <pthread.h>
#include <stdatomic.h>

#define LEN	(256U * MAS_KIB)
#define READERS	3
#define ROUNDS	40

FIXTURE(coherence) {
	int fd;
	int target;
	__u32 file;
	struct mxcd_mas_alloc mem;
	unsigned char *vram;
	unsigned char *want;
	unsigned char *found;
	pthread_t readers[READERS];
	atomic_bool run;
};

FIXTURE_VARIANT(coherence) {
	const char *env;
	bool raw;
};

FIXTURE_VARIANT_ADD(coherence, raw512) {
	.env = "MAS_NVME512", .raw = true,
};

FIXTURE_VARIANT_ADD(coherence, ext4) {
	.env = "MAS_EXT4",
};

FIXTURE_VARIANT_ADD(coherence, xfs) {
	.env = "MAS_XFS",
};

FIXTURE_SETUP(coherence)
{
	int file;

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->target = variant->raw ? open(getenv(variant->env), O_RDWR | O_CLOEXEC) :
				      mas_temp(variant->env, 0);
	ASSERT_LE(0, self->target);
	self->want = malloc(LEN);
	self->found = calloc(1, LEN);
	ASSERT_TRUE(mas_pwrite(self->target, self->found, LEN, 0));
	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	self->file = file;
	ASSERT_EQ(0, mas_alloc(self->fd, mas_big_gpu(self->fd), LEN, &self->mem));
	self->vram = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
}

FIXTURE_TEARDOWN(coherence)
{
	close(self->target);
	close(self->fd);
}

static void *read_on_and_on(void *arg)
{
	struct _test_data_coherence *self = arg;
	char *buf = malloc(LEN);

	while (self->run)
		if (pread(self->target, buf, LEN, 0) != LEN)
			break;
	free(buf);
	return NULL;
}

static void start_readers(struct __test_metadata *_metadata, struct _test_data_coherence *self)
{
	int i;

	self->run = true;
	for (i = 0; i < READERS; i++)
		ASSERT_EQ(0, pthread_create(&self->readers[i], NULL, read_on_and_on, self));
	mas_sleep_ms(3);
}

static void stop_readers(struct _test_data_coherence *self)
{
	int i;

	self->run = false;
	for (i = 0; i < READERS; i++)
		pthread_join(self->readers[i], NULL);
}

/*
 * A page that was read while the disk was written has the old bytes; were it kept,
 * the next cached write to it would put them back onto the disk.
 */
TEST_F_TIMEOUT(coherence, readers_do_not_keep_old_bytes_in_the_page_cache, 120)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, self->file, 0, LEN,
					 self->mem.handle, 0);
	struct mxcd_mas_comp comp;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		mas_fill(self->want, LEN, round);
		memcpy(self->vram, self->want, LEN);
		start_readers(_metadata, self);
		comp = mas_by_ioctl(self->fd, &req);
		stop_readers(self);
		ASSERT_EQ(LEN, comp.result);
		ASSERT_EQ(LEN, comp.p2p_bytes);
		ASSERT_TRUE(mas_pread(self->target, self->found, LEN, 0));
		ASSERT_EQ(-1, mas_diff(self->want, self->found, LEN))
			TH_LOG("round %d", round);
	}
}

TEST_HARNESS_MAIN
