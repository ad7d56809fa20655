// SPDX-License-Identifier: GPL-2.0
/*
 * Counters, of a GPU in sysfs and of a context in fdinfo: they agree to the byte
 * with what was asked for, and nothing else moves them.
 */
#include "mas_target.h"

#include <dirent.h>

#define LAYOUT		"/sys/class/mxcd/mxcd/layout"
#define DEBUGFS		"/sys/kernel/debug/mxcd_mas"
#define MAX_STATS	128
#define DELAY_MS	1500

struct stats {
	int nr;
	struct {
		char name[64];
		__u64 value;
	} stat[MAX_STATS];
};

/* The first number in a file behind the first place where @key is. */
static __s64 number_in(const char *path, const char *key)
{
	char line[256], *at;
	FILE *f = fopen(path, "r");
	__s64 value = -ENOENT;

	if (!f)
		return -errno;
	while (value == -ENOENT && fgets(line, sizeof(line), f)) {
		at = strstr(line, key);
		if (at)
			value = strtoll(at + strlen(key), NULL, 10);
	}
	fclose(f);
	return value;
}

static void stats_dir(int gpu, char *path, size_t size)
{
	snprintf(path, size, LAYOUT "/nodes/%d/mas_stats",
		 (int)number_in(LAYOUT "/properties", "num_cpu_nodes ") + gpu);
}

/* Every file of mas_stats. */
static void stats_get(struct __test_metadata *_metadata, int gpu, struct stats *s)
{
	char dir[PATH_MAX], path[PATH_MAX + 300];
	struct dirent *entry;
	DIR *d;

	s->nr = 0;
	stats_dir(gpu, dir, sizeof(dir));
	d = opendir(dir);
	ASSERT_NE(NULL, d);
	while ((entry = readdir(d))) {
		if (entry->d_name[0] == '.')
			continue;
		ASSERT_GT(MAX_STATS, s->nr);
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		snprintf(s->stat[s->nr].name, sizeof(s->stat[0].name), "%.63s",
			 entry->d_name);
		s->stat[s->nr++].value = number_in(path, "");
	}
	closedir(d);
}

/* What was counted under @name since; each is taken only once. */
static __s64 taken(struct stats *before, struct stats *now, const char *name)
{
	__s64 diff;
	int i;

	for (i = 0; i < now->nr; i++) {
		if (strcmp(now->stat[i].name, name))
			continue;
		diff = now->stat[i].value - before->stat[i].value;
		before->stat[i].value = now->stat[i].value;
		return diff;
	}
	return -ENOENT;
}

/* No counter has moved but those that were taken. */
static void expect_nothing_else(struct __test_metadata *_metadata,
				const struct stats *before, const struct stats *now)
{
	int i;

	ASSERT_EQ(before->nr, now->nr);
	for (i = 0; i < now->nr; i++) {
		EXPECT_STREQ(before->stat[i].name, now->stat[i].name);
		EXPECT_EQ(before->stat[i].value, now->stat[i].value)
			TH_LOG("%s", now->stat[i].name);
	}
}

FIXTURE(stats) {
	struct target t;
	struct stats before;
	struct stats now;
	char fdinfo[64];
};

FIXTURE_SETUP(stats)
{
	static const struct target_kind kind = {
		.env = "MAS_EXT4", .flags = O_DIRECT, .dio = true,
	};

	target_setup(_metadata, &self->t, &kind);
	target_put(_metadata, &self->t, SPAN);
	snprintf(self->fdinfo, sizeof(self->fdinfo), "/proc/self/fdinfo/%d",
		 self->t.mas);
	stats_get(_metadata, self->t.gpu, &self->before);
}

FIXTURE_TEARDOWN(stats)
{
	target_teardown(&self->t);
}

static void expect_taken(struct __test_metadata *_metadata,
			 struct _test_data_stats *self, __s64 wanted, const char *name)
{
	EXPECT_EQ(wanted, taken(&self->before, &self->now, name))
		TH_LOG("%s", name);
}

static struct mxcd_mas_comp move(struct __test_metadata *_metadata, struct target *t,
				 int op, __u64 off, __u64 len, __u32 flags)
{
	return target_run(_metadata, t, op, off, len, off, flags);
}

static void count(struct __test_metadata *_metadata, struct _test_data_stats *self)
{
	stats_get(_metadata, self->t.gpu, &self->now);
}

TEST_F(stats, p2p_counts_bytes_and_requests_by_direction)
{
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(65536, move(_metadata, &self->t, MXCD_MAS_OP_READ, i * 65536,
				      65536, 0).p2p_bytes);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(8192, move(_metadata, &self->t, MXCD_MAS_OP_WRITE, i * 8192,
				     8192, 0).p2p_bytes);
	count(_metadata, self);
	expect_taken(_metadata, self, 3 * 65536, "read_bytes_p2p");
	expect_taken(_metadata, self, 3, "read_requests_p2p");
	expect_taken(_metadata, self, 2 * 8192, "write_bytes_p2p");
	expect_taken(_metadata, self, 2, "write_requests_p2p");
	expect_nothing_else(_metadata, &self->before, &self->now);
}

TEST_F(stats, bounces_count_by_reason)
{
	move(_metadata, &self->t, MXCD_MAS_OP_READ, 4096, 12345, MXCD_MAS_REQ_BOUNCE);
	move(_metadata, &self->t, MXCD_MAS_OP_WRITE, 0, 4096, MXCD_MAS_REQ_BOUNCE);
	move(_metadata, &self->t, MXCD_MAS_OP_READ, 17, 100, 0);
	count(_metadata, self);
	expect_taken(_metadata, self, 12345 + 100, "read_bytes_bounce");
	expect_taken(_metadata, self, 2, "read_requests_bounce");
	expect_taken(_metadata, self, 4096, "write_bytes_bounce");
	expect_taken(_metadata, self, 1, "write_requests_bounce");
	expect_taken(_metadata, self, 2, "bounce_requested");
	expect_taken(_metadata, self, 1, "bounce_edge");
	expect_nothing_else(_metadata, &self->before, &self->now);
}

TEST_F(stats, mixed_routes_split_their_bytes)
{
	struct mxcd_mas_comp comp;

	comp = move(_metadata, &self->t, MXCD_MAS_OP_READ, 100, 20000, 0);
	ASSERT_EQ(20000, comp.result);
	/* From 512 to 19968: whole blocks of the disk. */
	ASSERT_EQ(19456, comp.p2p_bytes);
	count(_metadata, self);
	expect_taken(_metadata, self, comp.p2p_bytes, "read_bytes_p2p");
	expect_taken(_metadata, self, 20000 - comp.p2p_bytes, "read_bytes_bounce");
	expect_taken(_metadata, self, 1, "read_requests_both");
	expect_taken(_metadata, self, 1, "bounce_edge");
	expect_nothing_else(_metadata, &self->before, &self->now);
}

TEST_F(stats, errors_count_by_class)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, self->t.file, 17, 100,
					 self->t.mem.handle, 0);
	struct mxcd_mas_comp comp;

	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	comp = mas_by_ioctl(self->t.mas, &req);
	ASSERT_EQ(-EXDEV, comp.result);
	count(_metadata, self);
	expect_taken(_metadata, self, 1, "error_not_p2p");
	expect_taken(_metadata, self, 1, "read_requests_none");
	expect_nothing_else(_metadata, &self->before, &self->now);
}

TEST_F(stats, what_never_starts_is_not_counted)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, self->t.file, 0, 4096,
					 self->t.mem.handle, SPAN);
	struct mxcd_mas_comp comp;

	comp = mas_by_ioctl(self->t.mas, &req);
	ASSERT_EQ(-EINVAL, comp.result);
	count(_metadata, self);
	expect_nothing_else(_metadata, &self->before, &self->now);
}

TEST_F(stats, end_of_file_moves_nothing)
{
	ASSERT_EQ(0, move(_metadata, &self->t, MXCD_MAS_OP_READ, SPAN - 4096, 0,
			  0).result);
	count(_metadata, self);
	expect_taken(_metadata, self, 1, "read_requests_none");
	expect_nothing_else(_metadata, &self->before, &self->now);
}

TEST_F(stats, batch_counts_every_request)
{
	struct mxcd_mas_req reqs[64];
	struct mxcd_mas_comp comps[64];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = 64, .min_nr = 64,
	};
	int i, turn;

	for (i = 0; i < 64; i++)
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, self->t.file, i * 4096, 4096,
				 self->t.mem.handle, i * 4096);
	for (turn = 0; turn < 16; turn++)
		ASSERT_EQ(0, mas_ioctl(self->t.mas, MXCD_MAS_TRANSFER, &arg));
	count(_metadata, self);
	expect_taken(_metadata, self, 16 * 64, "read_requests_p2p");
	expect_taken(_metadata, self, 16 * 64 * 4096, "read_bytes_p2p");
	expect_nothing_else(_metadata, &self->before, &self->now);
}

TEST_F(stats, other_gpus_do_not_move)
{
	struct stats before, now;
	int other = !self->t.gpu;

	stats_get(_metadata, other, &before);
	move(_metadata, &self->t, MXCD_MAS_OP_READ, 0, 65536, 0);
	stats_get(_metadata, other, &now);
	expect_nothing_else(_metadata, &before, &now);
}

TEST_F(stats, fdinfo_counts_this_context_alone)
{
	struct mxcd_mas_req bad = { .op = 999 };
	struct mxcd_mas_comp comp;
	__s64 submitted = number_in(self->fdinfo, "mas-submitted:\t");
	int other = mas_open(0);
	char path[64];

	ASSERT_LE(0, other);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", other);
	move(_metadata, &self->t, MXCD_MAS_OP_READ, 0, 65536, 0);
	comp = move(_metadata, &self->t, MXCD_MAS_OP_READ, 100, 20000, 0);
	move(_metadata, &self->t, MXCD_MAS_OP_WRITE, 0, 4096, 0);
	move(_metadata, &self->t, MXCD_MAS_OP_WRITE, 0, 77, 0);
	EXPECT_EQ(-EOPNOTSUPP, mas_by_ioctl(self->t.mas, &bad).result);
	EXPECT_EQ(submitted + 5, number_in(self->fdinfo, "mas-submitted:\t"));
	EXPECT_EQ(65536 + comp.p2p_bytes, number_in(self->fdinfo, "mas-read-p2p:\t"));
	EXPECT_EQ(20000 - comp.p2p_bytes, number_in(self->fdinfo, "mas-read-bounce:\t"));
	EXPECT_EQ(4096, number_in(self->fdinfo, "mas-write-p2p:\t"));
	EXPECT_EQ(77, number_in(self->fdinfo, "mas-write-bounce:\t"));
	EXPECT_EQ(1, number_in(self->fdinfo, "mas-errors:\t"));
	EXPECT_EQ(0, number_in(self->fdinfo, "mas-queue-full:\t"));
	EXPECT_EQ(0, number_in(self->fdinfo, "mas-inflight:\t"));
	EXPECT_EQ(0, number_in(path, "mas-submitted:\t"));
	EXPECT_EQ(0, number_in(path, "mas-read-p2p:\t"));
	EXPECT_LT(number_in(self->fdinfo, "mas-context:\t"),
		  number_in(path, "mas-context:\t"));
	close(other);
}

/* The queue is full of results that nobody collects. */
TEST_F(stats, queue_full_is_counted)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct mxcd_mas_req *reqs;
	int fd = mas_open(O_NONBLOCK), i;
	char path[64];

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, mas_ioctl(fd, MXCD_MAS_QUERY, &q));
	reqs = calloc(q.out_max_queue, sizeof(*reqs));
	ASSERT_NE(NULL, reqs);
	for (i = 0; i < q.out_max_queue; i++) {
		reqs[i].op = MXCD_MAS_OP_QUERY;
		reqs[i].key = MXCD_MAS_KEY_VERSION;
	}
	ASSERT_EQ(q.out_max_queue * sizeof(*reqs),
		  write(fd, reqs, q.out_max_queue * sizeof(*reqs)));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(-1, write(fd, reqs, sizeof(*reqs)));
		ASSERT_EQ(EAGAIN, errno);
	}
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	EXPECT_EQ(3, number_in(path, "mas-queue-full:\t"));
	count(_metadata, self);
	expect_taken(_metadata, self, 3, "queue_full");
	expect_nothing_else(_metadata, &self->before, &self->now);
	close(fd);
}

/* A read of 4 KiB of a disk that takes its time. */
static void read_slowly(struct __test_metadata *_metadata, struct _test_data_stats *self,
			const char *name)
{
	struct mxcd_mas_req req;
	char path[64];
	int fd, file;

	snprintf(path, sizeof(path), "/dev/mapper/%s", name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	file = mas_register(self->t.mas, fd);
	close(fd);
	ASSERT_LT(0, file);
	req = mas_rw(MXCD_MAS_OP_READ, file, 0, 4096, self->t.mem.handle, 0);
	ASSERT_EQ(sizeof(req), write(self->t.mas, &req, sizeof(req)));
	ASSERT_EQ(0, mas_unregister(self->t.mas, file));
}

TEST_F(stats, inflight_is_what_has_not_ended)
{
	struct pollfd pfd = { .fd = self->t.mas, .events = POLLIN };
	struct mxcd_mas_comp comp;
	char command[256], name[32];

	snprintf(name, sizeof(name), "mas_stats.%d", getpid());
	snprintf(command, sizeof(command),
		 "dmsetup create %s --table '0 65536 delay %s 0 %d' && dmsetup mknodes %s",
		 name, getenv("MAS_NVME512"), DELAY_MS, name);
	ASSERT_EQ(0, system(command));
	read_slowly(_metadata, self, name);
	count(_metadata, self);
	expect_taken(_metadata, self, 1, "inflight");
	EXPECT_EQ(1, number_in(self->fdinfo, "mas-inflight:\t"));
	expect_nothing_else(_metadata, &self->before, &self->now);
	ASSERT_EQ(1, poll(&pfd, 1, MAS_PATIENCE_MS));
	ASSERT_EQ(sizeof(comp), read(self->t.mas, &comp, sizeof(comp)));
	ASSERT_EQ(4096, comp.result);
	count(_metadata, self);
	expect_taken(_metadata, self, -1, "inflight");
	expect_taken(_metadata, self, 1, "read_requests_bounce");
	expect_taken(_metadata, self, 4096, "read_bytes_bounce");
	expect_taken(_metadata, self, 1, "bounce_dm_target_unknown");
	expect_nothing_else(_metadata, &self->before, &self->now);
	snprintf(command, sizeof(command), "dmsetup remove --deferred %s", name);
	EXPECT_EQ(0, system(command));
}

static void switch_latency(struct __test_metadata *_metadata, const char *on)
{
	int fd = open(DEBUGFS "/latency", O_WRONLY);

	ASSERT_LE(0, fd);
	ASSERT_EQ(1, write(fd, on, 1));
	close(fd);
}

/* The sum of each column of the histogram. */
static void latencies(struct __test_metadata *_metadata, int gpu, __u64 sums[4])
{
	char path[128], line[256], *at;
	__u64 below, last = 0, v[4];
	FILE *f;
	int i;

	snprintf(path, sizeof(path), DEBUGFS "/gpu%d/latency", gpu);
	f = fopen(path, "r");
	ASSERT_NE(NULL, f);
	ASSERT_NE(NULL, fgets(line, sizeof(line), f));
	EXPECT_STREQ("below_ns read_p2p read_bounce write_p2p write_bounce\n", line);
	memset(sums, 0, 4 * sizeof(*sums));
	while (fgets(line, sizeof(line), f)) {
		below = strtoull(line, &at, 10);
		for (i = 0; i < 4; i++)
			v[i] = strtoull(at, &at, 10);
		EXPECT_EQ('\n', *at);
		EXPECT_LT(last, below);
		last = below;
		for (i = 0; i < 4; i++)
			sums[i] += v[i];
	}
	EXPECT_EQ(1ULL << 32, last);
	fclose(f);
}

TEST_F(stats, latency_is_measured_only_when_switched_on)
{
	__u64 before[4], now[4];
	int i;

	latencies(_metadata, self->t.gpu, before);
	move(_metadata, &self->t, MXCD_MAS_OP_READ, 0, 4096, 0);
	latencies(_metadata, self->t.gpu, now);
	for (i = 0; i < 4; i++)
		EXPECT_EQ(before[i], now[i]);
	switch_latency(_metadata, "1");
	for (i = 0; i < 7; i++)
		move(_metadata, &self->t, MXCD_MAS_OP_READ, 0, 4096, 0);
	for (i = 0; i < 5; i++)
		move(_metadata, &self->t, MXCD_MAS_OP_READ, 1, 4096, 0);
	for (i = 0; i < 3; i++)
		move(_metadata, &self->t, MXCD_MAS_OP_WRITE, 0, 4096, 0);
	move(_metadata, &self->t, MXCD_MAS_OP_WRITE, 9, 9, 0);
	switch_latency(_metadata, "0");
	latencies(_metadata, self->t.gpu, now);
	EXPECT_EQ(7, now[0] - before[0]);
	EXPECT_EQ(5, now[1] - before[1]);
	EXPECT_EQ(3, now[2] - before[2]);
	EXPECT_EQ(1, now[3] - before[3]);
}

TEST_HARNESS_MAIN
