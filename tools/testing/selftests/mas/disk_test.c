// SPDX-License-Identifier: GPL-2.0
/*
 * What the disk gets to see: which requests the block layer makes one of, and how
 * much is read for what was asked for.
 */
#include "mas_merge.h"

#define ROUNDS		20U

FIXTURE(disk) {
	struct ring ring;
	int fd;
	int disk;
	char name[32];
	__u32 file;
	struct mxcd_mas_alloc mem;
	unsigned char *vram;
	unsigned char *model;
	unsigned char *host;
};

FIXTURE_VARIANT(disk) {
	const char *scheduler;
};

FIXTURE_VARIANT_ADD(disk, none) {
	.scheduler = "none",
};

FIXTURE_VARIANT_ADD(disk, mq_deadline) {
	.scheduler = "mq-deadline",
};

static int disk_scheduler(const char *name, const char *scheduler)
{
	char path[128];
	int fd, ret;

	snprintf(path, sizeof(path), "/sys/class/block/%s/queue/scheduler", name);
	fd = open(path, O_WRONLY);
	ret = fd < 0 || write(fd, scheduler, strlen(scheduler)) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

FIXTURE_SETUP(disk)
{
	int file;

	ASSERT_NE(NULL, getenv("MAS_NVME512"));
	snprintf(self->name, sizeof(self->name), "%s", strrchr(getenv("MAS_NVME512"), '/') + 1);
	ASSERT_EQ(0, disk_scheduler(self->name, variant->scheduler));
	ASSERT_EQ(0, ring_init(&self->ring, 0));
	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->disk = open(getenv("MAS_NVME512"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	file = mas_register(self->fd, self->disk);
	ASSERT_LT(0, file);
	self->file = file;
	ASSERT_EQ(0, mas_alloc(self->fd, mas_big_gpu(self->fd), MAS_MIB, &self->mem));
	self->vram = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
	self->model = aligned_alloc(MAS_PAGE, MAS_MIB);
	self->host = aligned_alloc(MAS_PAGE, MAS_MIB);
	mas_fill(self->model, MAS_MIB, 11);
	ASSERT_TRUE(mas_pwrite(self->disk, self->model, MAS_MIB, 0));
}

FIXTURE_TEARDOWN(disk)
{
	disk_scheduler(self->name, "none");
	close(self->ring.fd);
	close(self->disk);
	close(self->fd);
}

/* The same ROUNDS times over; the data must be right whatever was merged. */
static int merges(struct __test_metadata *_metadata, struct _test_data_disk *self,
		  const char *order, __u16 host_ioprio)
{
	const struct merge m = {
		.ring = &self->ring, .mas = self->fd, .disk = self->disk, .name = self->name,
		.file = self->file, .handle = self->mem.handle, .host = self->host,
	};
	int sum = 0, ret;
	__u32 i, round;

	for (round = 0; round < ROUNDS; round++) {
		memset(self->host, 0, 6 * MERGE_BLOCK);
		memset(self->vram, 0, 6 * MERGE_BLOCK);
		ret = merge_three(&m, order, host_ioprio);
		ASSERT_LE(0, ret)
			TH_LOG("%s", order);
		for (i = 0; i < 3; i++)
			EXPECT_EQ(-1, mas_diff(self->model + i * MERGE_BLOCK,
					       (order[i] == 'v' ? self->vram : self->host) +
					       2 * i * MERGE_BLOCK, MERGE_BLOCK));
		sum += ret;
	}
	return sum;
}

/* Before 6.5 no program can have the hint that p2p has, so none can be merged with it. */
static bool programs_have_hints(void)
{
	const int hint = P2P_PRIO;
	bool no = syscall(__NR_ioprio_set, IOPRIO_WHO_PROCESS, 0, hint) && errno == EINVAL;

	syscall(__NR_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0);
	return !no;
}

TEST_F(disk, requests_of_host_ram_and_of_vram_are_never_merged)
{
	bool hints = programs_have_hints();

	/* The plug does merge what it may ... */
	EXPECT_EQ(2 * ROUNDS, merges(_metadata, self, "hhh", 0));
	EXPECT_EQ(2 * ROUNDS, merges(_metadata, self, "vvv", 0));
	/* ... VRAM with host RAM as well, where nothing but the hint is the same ... */
	if (hints) {
		EXPECT_EQ(2 * ROUNDS, merges(_metadata, self, "hvh", P2P_PRIO));
		EXPECT_EQ(2 * ROUNDS, merges(_metadata, self, "vhv", P2P_PRIO));
	} else {
		TH_LOG("this kernel refuses the hint to programs");
	}
	/* ... and it is the hint that keeps them apart. */
	EXPECT_EQ(0, merges(_metadata, self, "hvh", 0));
	EXPECT_EQ(0, merges(_metadata, self, "vhv", 0));
	EXPECT_EQ(ROUNDS, merges(_metadata, self, "vvh", 0));
	EXPECT_EQ(ROUNDS, merges(_metadata, self, "hvv", 0));
}

/* The caller's class and level stay, and the fence does not depend on them. */
TEST_F(disk, requests_are_kept_apart_at_any_priority)
{
	const int prios[] = {
		IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 0), IOPRIO_PRIO_VALUE(IOPRIO_CLASS_BE, 7),
		IOPRIO_PRIO_VALUE(IOPRIO_CLASS_RT, 3), IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0),
	};
	bool hints = programs_have_hints();
	__u32 i;

	for (i = 0; i < ARRAY_SIZE(prios); i++) {
		ASSERT_EQ(0, syscall(__NR_ioprio_set, IOPRIO_WHO_PROCESS, 0, prios[i]));
		EXPECT_EQ(0, merges(_metadata, self, "hvh", 0));
		if (hints)
			EXPECT_EQ(2 * ROUNDS,
				  merges(_metadata, self, "hvh", prios[i] | P2P_HINT << 3));
	}
}

/*
 * Tensors of a model file lie at odd offsets. Blocks that hold an end of one have to
 * be read, and nothing else.
 */
TEST(three_hundred_tensors_cost_few_bytes_more_than_they_have)
{
	static struct mxcd_mas_req reqs[300];
	static struct mxcd_mas_comp comps[300];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = 300, .min_nr = 300,
	};
	__u64 seed = mas_seed(), asked = 0, got, pos = 8 * MAS_MIB + 12345, before, place = 0;
	int fd = mas_open(0), disk, file;
	struct mxcd_mas_alloc mem;
	const char *name;
	__u32 i;

	ASSERT_LE(0, fd);
	ASSERT_NE(NULL, getenv("MAS_NVME512"));
	name = strrchr(getenv("MAS_NVME512"), '/') + 1;
	disk = open(getenv("MAS_NVME512"), O_RDONLY | O_CLOEXEC);
	file = mas_register(fd, disk);
	ASSERT_LT(0, file);
	ASSERT_EQ(0, mas_alloc(fd, mas_big_gpu(fd), 128 * MAS_MIB, &mem));
	for (i = 0; i < 300; i++) {
		/* Where a loader would place them: congruent with their place in the file. */
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, file, pos, 50000 + mas_below(&seed, 300000),
				 mem.handle, place + pos % MAS_PAGE);
		place += 2 * MAS_PAGE + reqs[i].length;
		place -= place % MAS_PAGE;
		asked += reqs[i].length;
		pos += reqs[i].length + mas_below(&seed, 5000);
	}
	before = disk_stat(name, STAT_READ_SECTORS);
	ASSERT_EQ(0, mas_ioctl(fd, MXCD_MAS_TRANSFER, &arg));
	ASSERT_EQ(300, arg.out_completed);
	got = 512 * (disk_stat(name, STAT_READ_SECTORS) - before);
	for (i = 0; i < 300; i++)
		EXPECT_EQ(reqs[i].length, comps[i].result);
	printf("# asked for %llu bytes, the disk read %llu: %llu.%04llu\n", asked, got,
	       got / asked, got * 10000 / asked % 10000);
	EXPECT_LE(asked, got);
	EXPECT_GE(asked * 101 / 100, got);
}

TEST_HARNESS_MAIN
