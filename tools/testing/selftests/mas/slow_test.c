// SPDX-License-Identifier: GPL-2.0
/*
 * A disk that takes seconds (dm-delay): what must not wait for it, and what is
 * kept for it, is seen with certainty.
 */
#include "mas_utils.h"

#include <signal.h>
#include <sys/time.h>

#define DELAY_MS	2000
#define AT_ONCE_MS	1000
#define LEN		4096U

FIXTURE(slow) {
	char name[32];
	int fd;
	int watch;		/* another context, to look with */
	int disk;
	__u32 file;
	struct mxcd_mas_alloc mem;
	__s64 vram_free;
	struct mxcd_mas_req reqs[2];
	struct mxcd_mas_comp comps[2];
	struct mxcd_mas_transfer arg;
};

static int shell(const char *format, ...)
{
	char command[512];
	va_list args;

	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	return system(command);
}

FIXTURE_SETUP(slow)
{
	char path[64];
	int file, i;

	ASSERT_NE(NULL, getenv("MAS_NVME512"));
	snprintf(self->name, sizeof(self->name), "mas_slow.%d", getpid());
	ASSERT_EQ(0, shell("dmsetup create %s --table \"0 65536 delay %s 0 %d\"",
			   self->name, getenv("MAS_NVME512"), DELAY_MS));
	ASSERT_EQ(0, shell("dmsetup mknodes %s", self->name));
	snprintf(path, sizeof(path), "/dev/mapper/%s", self->name);
	self->disk = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	self->watch = mas_open(0);
	ASSERT_LE(0, self->watch);
	self->vram_free = mas_vram_free(self->watch, 0);
	self->fd = mas_open(O_NONBLOCK);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, mas_alloc(self->fd, 0, MAS_MIB, &self->mem));
	file = mas_register(self->fd, self->disk);
	ASSERT_LT(0, file);
	self->file = file;
	for (i = 0; i < 2; i++) {
		self->reqs[i] = mas_rw(MXCD_MAS_OP_READ, file, i * MAS_MIB, LEN,
				       self->mem.handle, i * LEN);
		self->reqs[i].user_data = i;
	}
	self->arg.size = sizeof(self->arg);
	self->arg.reqs = mas_ptr(self->reqs);
	self->arg.comps = mas_ptr(self->comps);
	self->arg.nr = 2;
	self->arg.min_nr = 2;
}

/* The disk goes when whatever still uses it has let go. */
FIXTURE_TEARDOWN_PARENT(slow)
{
	EXPECT_EQ(0, shell("dmsetup remove --deferred %s", self->name));
}

/* Both requests come by read(2), when the disk is done with them. */
static void expect_completions(struct __test_metadata *_metadata,
			       struct _test_data_slow *self)
{
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };
	struct mxcd_mas_comp comp;
	int i, seen = 0;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(1, poll(&pfd, 1, MAS_PATIENCE_MS));
		ASSERT_EQ(32, read(self->fd, &comp, sizeof(comp)));
		EXPECT_EQ(LEN, comp.result);
		seen |= 1 << comp.user_data;
	}
	EXPECT_EQ(3, seen);
}

static void expect_in_progress(struct __test_metadata *_metadata,
			       struct _test_data_slow *self)
{
	EXPECT_EQ(2, self->arg.out_submitted);
	EXPECT_EQ(0, self->arg.out_completed);
	EXPECT_EQ(-EINPROGRESS, self->comps[0].result);
	EXPECT_EQ(-EINPROGRESS, self->comps[1].result);
}

TEST_F(slow, disk_is_slow_and_its_route_is_bounce)
{
	__u64 start = mas_now_ms();

	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &self->arg));
	EXPECT_LE(DELAY_MS - 100, mas_now_ms() - start);
	EXPECT_EQ(2, self->arg.out_completed);
	EXPECT_EQ(LEN, self->comps[0].result);
	EXPECT_EQ(LEN, self->comps[1].result);
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, self->comps[0].route);
	EXPECT_EQ(MXCD_MAS_REASON_DM, self->comps[0].reason);
}

TEST_F(slow, submission_with_O_NONBLOCK_does_not_wait_for_the_disk)
{
	__u64 start = mas_now_ms();

	EXPECT_EQ(128, write(self->fd, self->reqs, 128));
	EXPECT_GT(AT_ONCE_MS, mas_now_ms() - start);
	expect_completions(_metadata, self);
	EXPECT_LE(DELAY_MS - 100, mas_now_ms() - start);
}

TEST_F(slow, time_that_is_over_ends_the_wait)
{
	__u64 start = mas_now_ms();

	self->arg.timeout_ns = 200000000;
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &self->arg));
	EXPECT_LE(200, mas_now_ms() - start);
	EXPECT_GT(AT_ONCE_MS, mas_now_ms() - start);
	expect_in_progress(_metadata, self);
	expect_completions(_metadata, self);
}

static void nothing(int sig)
{
}

/* As for pread(2): a handler runs afterwards, no result is lost by it. */
TEST_F(slow, signal_does_not_end_the_wait)
{
	struct itimerval soon = { .it_value = { .tv_usec = 300000 } };
	struct sigaction act = { .sa_handler = nothing };
	__u64 start = mas_now_ms();

	ASSERT_EQ(0, sigaction(SIGALRM, &act, NULL));
	ASSERT_EQ(0, setitimer(ITIMER_REAL, &soon, NULL));
	EXPECT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &self->arg));
	EXPECT_LT(300, mas_now_ms() - start);
	EXPECT_EQ(2, self->arg.out_completed);
	EXPECT_EQ(LEN, self->comps[0].result);
	EXPECT_EQ(LEN, self->comps[1].result);
}

TEST_F(slow, what_is_not_waited_for_is_in_progress)
{
	__u64 start = mas_now_ms();

	self->arg.min_nr = 0;
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &self->arg));
	EXPECT_GT(AT_ONCE_MS, mas_now_ms() - start);
	expect_in_progress(_metadata, self);
	expect_completions(_metadata, self);
}

TEST_F(slow, fdinfo_counts_what_is_in_flight)
{
	char path[64], line[256];
	int inflight = -1;
	FILE *info;

	ASSERT_EQ(128, write(self->fd, self->reqs, 128));
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", self->fd);
	info = fopen(path, "r");
	ASSERT_NE(NULL, info);
	while (fgets(line, sizeof(line), info))
		sscanf(line, "mas-inflight: %d", &inflight);
	fclose(info);
	EXPECT_EQ(2, inflight);
	expect_completions(_metadata, self);
}

TEST_F(slow, freed_handle_keeps_its_memory_for_what_is_in_flight)
{
	ASSERT_EQ(128, write(self->fd, self->reqs, 128));
	ASSERT_EQ(0, mas_free(self->fd, self->mem.handle));
	EXPECT_EQ(self->vram_free - MAS_MIB, mas_vram_free(self->watch, 0));
	expect_completions(_metadata, self);
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->watch, 0,
						 self->vram_free));
}

TEST_F(slow, transfers_of_a_file_that_is_unregistered_go_on)
{
	ASSERT_EQ(128, write(self->fd, self->reqs, 128));
	ASSERT_EQ(0, mas_unregister(self->fd, self->file));
	EXPECT_EQ(-ENOENT, mas_unregister(self->fd, self->file));
	expect_completions(_metadata, self);
}

TEST_F(slow, close_returns_at_once_and_frees_nothing_under_a_transfer)
{
	__u64 start = mas_now_ms(), closing;

	ASSERT_EQ(128, write(self->fd, self->reqs, 128));
	/* What has not started by then would be cancelled. */
	mas_sleep_ms(DELAY_MS / 4);
	closing = mas_now_ms();
	ASSERT_EQ(0, close(self->fd));
	EXPECT_GT(AT_ONCE_MS, mas_now_ms() - closing);
	EXPECT_EQ(self->vram_free - MAS_MIB, mas_vram_free(self->watch, 0));
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->watch, 0,
						 self->vram_free));
	EXPECT_LE(DELAY_MS - 100, mas_now_ms() - start);
}

TEST_F(slow, process_that_waits_is_killed_at_once)
{
	pid_t child = fork();
	__u64 start;
	int status;

	ASSERT_LE(0, child);
	if (!child)
		_exit(mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &self->arg));
	close(self->fd);
	mas_sleep_ms(300);
	start = mas_now_ms();
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_GT(AT_ONCE_MS, mas_now_ms() - start);
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->watch, 0,
						 self->vram_free));
}

TEST_HARNESS_MAIN
