// SPDX-License-Identifier: GPL-2.0
/*
 * Many requests at once: batches, results in place, threads on one context, a
 * full queue, and what happens to requests whose owner goes away.
 */
#include "mas_utils.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#define FILE_LEN	(2 * MAS_MIB)
#define MEM_LEN		(2 * MAS_MIB)
#define PIECE		4096U
#define THREADS		64
/* Bound on what has to be immediate, with a margin for emulation. */
#define AT_ONCE_MS	5000

FIXTURE(queue) {
	int fd;
	int target;
	__u32 file;
	struct mxcd_mas_alloc mem;
	char *vram;
	char *model;
	__u32 max_queue;
};

FIXTURE_SETUP(queue)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	int file;

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->target = mas_temp("MAS_EXT4", 0);
	ASSERT_LE(0, self->target);
	self->model = malloc(FILE_LEN);
	ASSERT_NE(NULL, self->model);
	mas_fill(self->model, FILE_LEN, 1);
	ASSERT_TRUE(mas_pwrite(self->target, self->model, FILE_LEN, 0));
	ASSERT_EQ(0, fsync(self->target));
	file = mas_register(self->fd, self->target);
	ASSERT_LT(0, file);
	self->file = file;
	ASSERT_EQ(0, mas_alloc(self->fd, mas_big_gpu(self->fd), MEM_LEN,
			       &self->mem));
	self->vram = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->vram);
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &q));
	self->max_queue = q.out_max_queue;
}

FIXTURE_TEARDOWN(queue)
{
	close(self->target);
	close(self->fd);
}

/* Request @i of a batch reads piece @i of the file to place @i of the handle. */
static void fill_reads(struct _test_data_queue *self, struct mxcd_mas_req *reqs,
		       __u32 nr, __u32 piece)
{
	__u32 i;

	for (i = 0; i < nr; i++) {
		__u64 off = (__u64)i * piece % FILE_LEN;

		reqs[i] = mas_rw(MXCD_MAS_OP_READ, self->file, off, piece,
				 self->mem.handle, off);
		reqs[i].user_data = i;
	}
}

static struct mxcd_mas_req version_query(__u64 user_data)
{
	struct mxcd_mas_req req = {
		.op = MXCD_MAS_OP_QUERY, .key = MXCD_MAS_KEY_VERSION,
		.user_data = user_data,
	};

	return req;
}

TEST_F(queue, batch_returns_its_results_in_place)
{
	static const __u32 nrs[] = { 1, 2, 31, 32, 33, 128, 1000 };
	struct mxcd_mas_comp *comps = calloc(1000, sizeof(*comps));
	struct mxcd_mas_req *reqs = calloc(1000, sizeof(*reqs));
	struct mxcd_mas_transfer arg;
	__u32 i, n, done;

	for (n = 0; n < ARRAY_SIZE(nrs); n++) {
		fill_reads(self, reqs, nrs[n], PIECE);
		memset(self->vram, 0, MEM_LEN);
		for (done = 0; done < nrs[n]; done += arg.out_submitted) {
			arg = (struct mxcd_mas_transfer){
				.size = sizeof(arg), .nr = nrs[n] - done,
				.reqs = mas_ptr(reqs + done),
				.comps = mas_ptr(comps + done),
				.min_nr = nrs[n] - done,
			};
			ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER,
					       &arg));
			ASSERT_LT(0, arg.out_submitted);
			ASSERT_EQ(arg.out_submitted, arg.out_completed);
		}
		for (i = 0; i < nrs[n]; i++) {
			EXPECT_EQ(i, comps[i].user_data);
			EXPECT_EQ(PIECE, comps[i].result);
		}
		done = nrs[n] * PIECE < FILE_LEN ? nrs[n] * PIECE : FILE_LEN;
		EXPECT_EQ(-1, mas_diff(self->model, self->vram, done));
	}
}

/*
 * Each of @nr requests has to be in @comps once or, where it is not, to come by
 * read(2) once.
 */
static void collect_rest(struct __test_metadata *_metadata, int fd,
			 const struct mxcd_mas_transfer *arg,
			 const struct mxcd_mas_comp *comps, __s64 want)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	bool seen[256] = {};
	struct mxcd_mas_comp comp;
	__u32 i, here = 0;

	ASSERT_GE(ARRAY_SIZE(seen), arg->nr);
	ASSERT_EQ(arg->nr, arg->out_submitted);
	for (i = 0; i < arg->nr; i++) {
		if (comps[i].result == -EINPROGRESS)
			continue;
		EXPECT_EQ(i, comps[i].user_data);
		EXPECT_EQ(want, comps[i].result);
		seen[i] = true;
		here++;
	}
	EXPECT_EQ(here, arg->out_completed);
	EXPECT_LE(arg->min_nr, here);
	for (; here < arg->nr; here++) {
		ASSERT_EQ(1, poll(&pfd, 1, MAS_PATIENCE_MS));
		ASSERT_EQ(32, read(fd, &comp, sizeof(comp)));
		EXPECT_EQ(want, comp.result);
		ASSERT_LT(comp.user_data, arg->nr);
		EXPECT_FALSE(seen[comp.user_data]);
		seen[comp.user_data] = true;
	}
	EXPECT_EQ(0, poll(&pfd, 1, 0));
}

TEST_F(queue, what_is_not_waited_for_comes_by_read)
{
	static const __u32 min_nrs[] = { 0, 1, 5, 15, 16 };
	struct mxcd_mas_comp comps[16];
	struct mxcd_mas_req reqs[16];
	struct mxcd_mas_transfer arg;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(min_nrs); i++) {
		fill_reads(self, reqs, 16, 128 * MAS_KIB);
		memset(self->vram, 0, MEM_LEN);
		arg = (struct mxcd_mas_transfer){
			.size = sizeof(arg), .reqs = mas_ptr(reqs),
			.comps = mas_ptr(comps), .nr = 16,
			.min_nr = min_nrs[i],
		};
		ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
		collect_rest(_metadata, self->fd, &arg, comps, 128 * MAS_KIB);
		EXPECT_EQ(-1, mas_diff(self->model, self->vram, MEM_LEN));
	}
}

TEST_F(queue, time_that_is_over_ends_the_wait)
{
	struct mxcd_mas_comp comps[16];
	struct mxcd_mas_req reqs[16];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs),
		.comps = mas_ptr(comps), .nr = 16, .timeout_ns = 1,
	};

	fill_reads(self, reqs, 16, 128 * MAS_KIB);
	arg.min_nr = 16;
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	arg.min_nr = 0;		/* the time counts, not the number */
	collect_rest(_metadata, self->fd, &arg, comps, 128 * MAS_KIB);
}

static void nothing(int sig)
{
}

TEST_F(queue, signals_during_a_batch_lose_nothing)
{
	struct itimerval often = {
		.it_value = { .tv_usec = 300 }, .it_interval = { .tv_usec = 300 },
	}, never = {};
	struct sigaction act = { .sa_handler = nothing };
	struct mxcd_mas_comp comps[16];
	struct mxcd_mas_req reqs[16];
	struct mxcd_mas_transfer arg;
	int i;

	ASSERT_EQ(0, sigaction(SIGALRM, &act, NULL));
	for (i = 0; i < 10; i++) {
		fill_reads(self, reqs, 16, 128 * MAS_KIB);
		arg = (struct mxcd_mas_transfer){
			.size = sizeof(arg), .reqs = mas_ptr(reqs),
			.comps = mas_ptr(comps), .nr = 16, .min_nr = 16,
		};
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &often, NULL));
		EXPECT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
		ASSERT_EQ(0, setitimer(ITIMER_REAL, &never, NULL));
		arg.min_nr = 0;
		arg.nr = arg.out_submitted;
		collect_rest(_metadata, self->fd, &arg, comps, 128 * MAS_KIB);
	}
}

TEST_F(queue, batch_without_results_in_place_comes_by_read)
{
	struct mxcd_mas_comp comps[32];
	struct mxcd_mas_req reqs[32];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .nr = 32,
	};
	unsigned int got = 0, i;
	__u64 sum = 0;
	ssize_t ret;

	fill_reads(self, reqs, 32, PIECE);
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	EXPECT_EQ(32, arg.out_submitted);
	EXPECT_EQ(0, arg.out_completed);
	while (got < 32) {
		ret = read(self->fd, comps, sizeof(comps));
		ASSERT_LT(0, ret);
		ASSERT_EQ(0, ret % sizeof(comps[0]));
		for (i = 0; i < ret / sizeof(comps[0]); i++) {
			EXPECT_EQ(PIECE, comps[i].result);
			sum += comps[i].user_data;
		}
		got += i;
	}
	EXPECT_EQ(32, got);
	EXPECT_EQ(31 * 32 / 2, sum);
	EXPECT_EQ(-1, mas_diff(self->model, self->vram, 32 * PIECE));
}

TEST_F(queue, write_of_an_array_and_read_of_its_completions)
{
	struct mxcd_mas_comp comps[16];
	struct mxcd_mas_req reqs[16];
	unsigned int got = 0, i;
	bool seen[16] = {};
	ssize_t ret;

	fill_reads(self, reqs, 16, PIECE);
	ASSERT_EQ(sizeof(reqs), write(self->fd, reqs, sizeof(reqs)));
	/* Their memory is ours again. */
	memset(reqs, 0xff, sizeof(reqs));
	while (got < 16) {
		ret = read(self->fd, comps, sizeof(comps));
		ASSERT_LT(0, ret);
		for (i = 0; i < ret / sizeof(comps[0]); i++, got++) {
			EXPECT_EQ(PIECE, comps[i].result);
			ASSERT_LT(comps[i].user_data, 16);
			EXPECT_FALSE(seen[comps[i].user_data]);
			seen[comps[i].user_data] = true;
		}
	}
	EXPECT_EQ(-1, mas_diff(self->model, self->vram, 16 * PIECE));
}

TEST_F(queue, control_requests_are_done_in_order)
{
	enum { REGISTER, ALLOC, READ, UNREGISTER, FREE, LATE_READ, NR };
	struct mxcd_mas_req reqs[NR] = {
		[REGISTER] = { .op = MXCD_MAS_OP_REGISTER, .file = 600,
			       .arg = self->target },
		[ALLOC] = { .op = MXCD_MAS_OP_ALLOC, .handle = 601,
			    .length = 65536 },
		[READ] = mas_rw(MXCD_MAS_OP_READ, 600, 0, 65536, 601, 0),
		[UNREGISTER] = { .op = MXCD_MAS_OP_UNREGISTER, .file = 600 },
		[FREE] = { .op = MXCD_MAS_OP_FREE, .handle = 601 },
		[LATE_READ] = mas_rw(MXCD_MAS_OP_READ, 600, 0, 65536, 601, 0),
	};
	static const __s64 want[NR] = { 600, 601, 65536, 0, 0, -ENOENT };
	__s64 vram_free = mas_vram_free(self->fd, 0);
	struct mxcd_mas_comp comps[NR];
	bool seen[NR] = {};
	unsigned int got = 0, i;
	ssize_t ret;

	for (i = 0; i < NR; i++)
		reqs[i].user_data = i;
	ASSERT_EQ(sizeof(reqs), write(self->fd, reqs, sizeof(reqs)));
	while (got < NR) {
		ret = read(self->fd, comps, sizeof(comps));
		ASSERT_LT(0, ret);
		for (i = 0; i < ret / sizeof(comps[0]); i++, got++) {
			ASSERT_LT(comps[i].user_data, NR);
			EXPECT_EQ(want[comps[i].user_data], comps[i].result)
				TH_LOG("request %llu", comps[i].user_data);
			EXPECT_FALSE(seen[comps[i].user_data]);
			seen[comps[i].user_data] = true;
		}
	}
	EXPECT_EQ(vram_free, mas_wait_vram(self->fd, 0, vram_free));
}

static void fill_queue(struct __test_metadata *_metadata, int fd, __u32 nr)
{
	struct mxcd_mas_req reqs[64];
	__u32 i, n;

	for (; nr; nr -= n) {
		n = nr < 64 ? nr : 64;
		for (i = 0; i < n; i++)
			reqs[i] = version_query(nr);
		ASSERT_EQ(n * 64, write(fd, reqs, n * 64));
	}
}

TEST_F(queue, full_queue_takes_no_more)
{
	struct mxcd_mas_req reqs[4] = {
		version_query(0), version_query(1), version_query(2),
		version_query(3),
	};
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .nr = 4,
	};
	struct mxcd_mas_comp comps[2];

	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	fill_queue(_metadata, self->fd, self->max_queue - 2);
	/* Two fit; a third does not. */
	EXPECT_EQ(128, write(self->fd, reqs, sizeof(reqs)));
	EXPECT_EQ(-1, write(self->fd, reqs, 64));
	EXPECT_EQ(EAGAIN, errno);
	EXPECT_EQ(-EAGAIN, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	ASSERT_EQ(64, read(self->fd, comps, sizeof(comps)));
	EXPECT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	EXPECT_EQ(2, arg.out_submitted);
	EXPECT_EQ(-EAGAIN, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
}

TEST_F(queue, full_queue_is_told_by_poll)
{
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN | POLLOUT };
	struct mxcd_mas_comp comp;

	fill_queue(_metadata, self->fd, self->max_queue);
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(POLLIN, pfd.revents);
	ASSERT_EQ(32, read(self->fd, &comp, sizeof(comp)));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(POLLIN | POLLOUT, pfd.revents);
}

TEST_F(queue, writer_waits_for_room)
{
	struct mxcd_mas_req req = version_query(1);
	struct mxcd_mas_comp comp;
	pid_t child;
	int status;

	fill_queue(_metadata, self->fd, self->max_queue);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(write(self->fd, &req, 64) != 64);
	mas_sleep_ms(200);
	EXPECT_EQ(0, waitpid(child, &status, WNOHANG));
	ASSERT_EQ(32, read(self->fd, &comp, sizeof(comp)));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_F(queue, requests_end_where_they_cannot_be_read)
{
	char *pages = mmap(NULL, 2 * MAS_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mxcd_mas_req *reqs = (void *)(pages + MAS_PAGE - 2 * 64);
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .nr = UINT_MAX,
	};
	struct mxcd_mas_comp comps[3];

	ASSERT_NE(MAP_FAILED, (void *)pages);
	ASSERT_EQ(0, mprotect(pages + MAS_PAGE, MAS_PAGE, PROT_NONE));
	reqs[0] = version_query(0);
	reqs[1] = version_query(1);
	EXPECT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_TRANSFER, &arg));
	EXPECT_EQ(2, arg.out_submitted);
	EXPECT_EQ(64, read(self->fd, comps, sizeof(comps)));
}

struct worker {
	pthread_t thread;
	struct _test_data_queue *self;
	__u32 id;
	__u32 rounds;
	__u32 nr;
	const char *wrong;
};

/* A batch whose user_data nobody else uses; all of it has to come back here. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct mxcd_mas_comp comps[8];
	struct mxcd_mas_req reqs[8];
	struct mxcd_mas_transfer t;
	__u32 round, i;

	for (round = 0; round < w->rounds && !w->wrong; round++) {
		for (i = 0; i < w->nr; i++) {
			__u64 off = (w->id * w->nr + i) * PIECE % FILE_LEN;

			reqs[i] = mas_rw(MXCD_MAS_OP_READ, w->self->file, off,
					 PIECE, w->self->mem.handle, off);
			reqs[i].user_data = (__u64)w->id << 32 | round << 8 | i;
		}
		t = (struct mxcd_mas_transfer){
			.size = sizeof(t), .reqs = mas_ptr(reqs),
			.comps = mas_ptr(comps), .nr = w->nr, .min_nr = w->nr,
		};
		if (mas_ioctl(w->self->fd, MXCD_MAS_TRANSFER, &t))
			w->wrong = "the ioctl failed";
		else if (t.out_submitted != w->nr || t.out_completed != w->nr)
			w->wrong = "not all was submitted and completed";
		for (i = 0; i < w->nr && !w->wrong; i++) {
			if (comps[i].user_data != reqs[i].user_data)
				w->wrong = "the result of another";
			else if (comps[i].result != PIECE)
				w->wrong = "a bad result";
		}
	}
	return NULL;
}

static void run_workers(struct __test_metadata *_metadata,
			struct _test_data_queue *self, __u32 nr, __u32 rounds,
			__u32 batch)
{
	struct pollfd pfd = { .fd = self->fd, .events = POLLIN };
	struct worker workers[THREADS] = {};
	__u32 i, len = nr * batch * PIECE;

	for (i = 0; i < nr; i++) {
		workers[i].self = self;
		workers[i].id = i;
		workers[i].rounds = rounds;
		workers[i].nr = batch;
		ASSERT_EQ(0, pthread_create(&workers[i].thread, NULL, work,
					    &workers[i]));
	}
	for (i = 0; i < nr; i++) {
		ASSERT_EQ(0, pthread_join(workers[i].thread, NULL));
		EXPECT_EQ(NULL, workers[i].wrong)
			TH_LOG("thread %u: %s", i, workers[i].wrong);
	}
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	EXPECT_EQ(-1, mas_diff(self->model, self->vram,
			       len < FILE_LEN ? len : FILE_LEN));
}

TEST_F(queue, two_threads_never_get_the_results_of_each_other)
{
	run_workers(_metadata, self, 2, 100, 8);
}

TEST_F(queue, sixty_four_threads_share_a_context)
{
	run_workers(_metadata, self, THREADS, 8, 4);
}

TEST_F(queue, child_uses_the_context_of_its_parent)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, self->file, 0, PIECE,
					 self->mem.handle, 0);
	struct mxcd_mas_comp comp;
	pid_t child = fork();
	int status;

	ASSERT_LE(0, child);
	if (!child)
		_exit(mas_by_ioctl(self->fd, &req).result != PIECE ||
		      mas_by_write(self->fd, &req).result != PIECE ||
		      write(self->fd, &req, 64) != 64);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(-1, mas_diff(self->model, self->vram, PIECE));
	/* What it left behind is for us. */
	EXPECT_EQ(32, read(self->fd, &comp, sizeof(comp)));
	EXPECT_EQ(PIECE, comp.result);
}

/* Contexts that go away with requests in flight. */
FIXTURE(owner) {
	int fd;			/* to look with */
	int disk;
	int gpu;
	__s64 vram_free;
};

FIXTURE_SETUP(owner)
{
	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_NE(NULL, getenv("MAS_NVME512"));
	self->disk = open(getenv("MAS_NVME512"), O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	self->gpu = mas_big_gpu(self->fd);
	ASSERT_LE(0, self->gpu);
	self->vram_free = mas_vram_free(self->fd, self->gpu);
}

FIXTURE_TEARDOWN(owner)
{
	close(self->disk);
	close(self->fd);
}

/* Submits 64 reads of 1 MiB into a handle of its own; returns the context. */
static int leave_in_flight(struct _test_data_owner *self, __u32 op)
{
	struct mxcd_mas_req reqs[64];
	struct mxcd_mas_alloc mem;
	int fd = mas_open(0), file, i;

	if (fd < 0 || mas_alloc(fd, self->gpu, 64 * MAS_MIB, &mem))
		return -1;
	file = mas_register(fd, self->disk);
	for (i = 0; i < 64; i++)
		reqs[i] = mas_rw(op, file, i * (__u64)MAS_MIB, MAS_MIB,
				 mem.handle, i * (__u64)MAS_MIB);
	if (write(fd, reqs, sizeof(reqs)) < 64)
		return -1;
	return fd;
}

static void expect_all_back(struct __test_metadata *_metadata,
			    struct _test_data_owner *self)
{
	int fd;

	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu,
						 self->vram_free));
	fd = leave_in_flight(self, MXCD_MAS_OP_READ);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, close(fd));
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu,
						 self->vram_free));
}

TEST_F(owner, close_with_requests_in_flight_returns_at_once)
{
	__u64 start;
	int fd, i;

	for (i = 0; i < 4; i++) {
		fd = leave_in_flight(self, i & 1 ? MXCD_MAS_OP_WRITE :
				     MXCD_MAS_OP_READ);
		ASSERT_LE(0, fd);
		start = mas_now_ms();
		EXPECT_EQ(0, close(fd));
		EXPECT_GT(AT_ONCE_MS, mas_now_ms() - start);
	}
	expect_all_back(_metadata, self);
}

TEST_F(owner, killed_with_requests_in_flight_is_gone_at_once)
{
	int pipe_fd[2], status, i;
	__u64 start;
	pid_t child;
	char byte;

	ASSERT_EQ(0, pipe(pipe_fd));
	for (i = 0; i < 4; i++) {
		child = fork();
		ASSERT_LE(0, child);
		if (!child) {
			byte = leave_in_flight(self, MXCD_MAS_OP_READ) >= 0;
			if (write(pipe_fd[1], &byte, 1) == 1)
				pause();
			_exit(1);
		}
		ASSERT_EQ(1, read(pipe_fd[0], &byte, 1));
		EXPECT_EQ(1, byte);
		start = mas_now_ms();
		ASSERT_EQ(0, kill(child, SIGKILL));
		ASSERT_EQ(child, waitpid(child, &status, 0));
		EXPECT_GT(AT_ONCE_MS, mas_now_ms() - start);
		EXPECT_TRUE(WIFSIGNALED(status));
	}
	expect_all_back(_metadata, self);
}

TEST_F(owner, killed_while_it_waits_is_gone_at_once)
{
	struct mxcd_mas_comp comp;
	int fd, status;
	__u64 start;
	pid_t child;

	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		fd = mas_open(0);
		/* Nothing will ever come. */
		_exit(read(fd, &comp, sizeof(comp)) == sizeof(comp));
	}
	mas_sleep_ms(200);
	start = mas_now_ms();
	ASSERT_EQ(0, kill(child, SIGKILL));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_GT(AT_ONCE_MS, mas_now_ms() - start);
	expect_all_back(_metadata, self);
}

TEST_F(owner, freed_handle_keeps_its_memory_while_requests_run)
{
	struct mxcd_mas_req reqs[16];
	struct mxcd_mas_comp comps[16];
	struct mxcd_mas_alloc mem, fresh;
	unsigned int got = 0, i;
	int file, fd = mas_open(0);
	ssize_t ret;
	char *map;

	ASSERT_LE(0, fd);
	file = mas_register(fd, self->disk);
	ASSERT_EQ(0, mas_alloc(fd, self->gpu, 16 * MAS_MIB, &mem));
	for (i = 0; i < 16; i++)
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, file, i * (__u64)MAS_MIB,
				 MAS_MIB, mem.handle, i * (__u64)MAS_MIB);
	ASSERT_EQ(sizeof(reqs), write(fd, reqs, sizeof(reqs)));
	EXPECT_EQ(0, mas_free(fd, mem.handle));
	EXPECT_EQ(0, mas_unregister(fd, file));
	/* All the rest of VRAM, and what comes free of it: still zero. */
	ASSERT_EQ(0, mas_alloc(fd, self->gpu, self->vram_free - 16 * MAS_MIB,
			       &fresh));
	while (got < 16) {
		ret = read(fd, comps, sizeof(comps));
		ASSERT_LT(0, ret);
		for (i = 0; i < ret / sizeof(comps[0]); i++, got++) {
			EXPECT_EQ(MAS_MIB, comps[i].result)
				TH_LOG("completion %u", i);
		}
	}
	map = mas_map(fd, &fresh);
	ASSERT_NE(MAP_FAILED, (void *)map);
	for (i = 0; i < fresh.length / MAS_MIB; i++) {
		ASSERT_EQ(-1, mas_not_all(map + i * MAS_MIB, 64, 0))
			TH_LOG("MiB %u", i);
	}
	ASSERT_EQ(16 * MAS_MIB, mas_wait_vram(fd, self->gpu, 16 * MAS_MIB));
	ASSERT_EQ(0, mas_alloc(fd, self->gpu, 16 * MAS_MIB, &mem));
	map = mas_map(fd, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	for (i = 0; i < 16; i++) {
		ASSERT_EQ(-1, mas_not_all(map + i * MAS_MIB, 4096, 0))
			TH_LOG("MiB %u", i);
	}
	close(fd);
}

TEST_HARNESS_MAIN
