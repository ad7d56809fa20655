// SPDX-License-Identifier: GPL-2.0
/*
 * Requests are with a disk that has stopped to answer, and meanwhile goes what they
 * were made of: descriptors, handles, files, mappings, threads, processes. Nothing
 * waits for the disk, no memory is given to somebody else before the disk has done
 * with it, and in the end nothing is left.
 */
#include "mas_life.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

#define NR	64U
#define MANY	1000U

FIXTURE(stalled) {
	struct life l;
};

static void setup(struct __test_metadata *_metadata, struct life *l)
{
	int disk;

	ASSERT_NE(NULL, getenv("MAS_NVME512"));
	disk = open(getenv("MAS_NVME512"), O_RDWR | O_DIRECT | O_CLOEXEC);
	life_setup(_metadata, l, "mas512-1", disk, LIFE_BASE, -1);
}

FIXTURE_SETUP(stalled)
{
	if (!mas_has_host())
		SKIP(return, "needs the host of vmtest.sh");
	setup(_metadata, &self->l);
}

FIXTURE_TEARDOWN(stalled)
{
	if (mas_has_host())
		life_teardown(&self->l);
}

/* Whatever became of a test: the next one has a disk that answers. */
static void expect_all_back(struct __test_metadata *_metadata, struct life *l)
{
	EXPECT_EQ(l->vram_free, mas_wait_vram(l->watch, l->gpu, l->vram_free));
}

static void drop_own(struct life *l)
{
	munmap(l->vram, l->mem.length);
	l->vram = NULL;
	close(l->mas);
	l->mas = -1;
}

TEST_F(stalled, requests_stay_in_flight_until_the_disk_answers)
{
	struct life *l = &self->l;

	ASSERT_TRUE(life_submit(l, NR));
	mas_sleep_ms(300);
	EXPECT_EQ(NR, life_inflight(l->mas));
	EXPECT_EQ(-1, mas_not_all(l->vram, NR * LIFE_LEN, LIFE_POISON));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
	EXPECT_EQ(-1, mas_not_all(l->vram + NR * LIFE_LEN, LIFE_LEN, LIFE_POISON));
}

TEST_F(stalled, freed_handle_is_not_reused_before_the_disk_is_done)
{
	struct life *l = &self->l;
	struct canary canary;

	ASSERT_TRUE(life_submit(l, NR));
	ASSERT_EQ(0, mas_free(l->mas, l->mem.handle));
	ASSERT_EQ(0, munmap(l->vram, l->mem.length));
	l->vram = NULL;
	ASSERT_EQ(0, canary_put(&canary, l->gpu));
	EXPECT_EQ(NR, life_inflight(l->mas));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_EQ(0, canary_take(&canary));
	expect_all_back(_metadata, l);
}

TEST_F(stalled, mapping_shows_the_data_of_a_handle_that_is_freed)
{
	struct life *l = &self->l;

	ASSERT_TRUE(life_submit(l, NR));
	ASSERT_EQ(0, mas_free(l->mas, l->mem.handle));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
	EXPECT_EQ(l->vram_free - l->mem.length, mas_vram_free(l->watch, l->gpu));
	ASSERT_EQ(0, munmap(l->vram, l->mem.length));
	l->vram = NULL;
	expect_all_back(_metadata, l);
}

TEST_F(stalled, mapping_may_go)
{
	struct life *l = &self->l;

	ASSERT_TRUE(life_submit(l, NR));
	ASSERT_EQ(0, munmap(l->vram, l->mem.length));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	l->vram = mas_map(l->mas, &l->mem);
	ASSERT_NE(MAP_FAILED, (void *)l->vram);
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
}

TEST_F(stalled, file_may_be_unregistered_and_closed)
{
	struct life *l = &self->l;

	ASSERT_TRUE(life_submit(l, NR));
	ASSERT_EQ(0, mas_unregister(l->mas, l->file));
	ASSERT_EQ(0, close(l->disk));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
}

TEST_F(stalled, closed_context_frees_nothing_before_the_disk_is_done)
{
	struct life *l = &self->l;
	struct canary canary;
	__u64 start;

	ASSERT_TRUE(life_submit(l, NR));
	start = mas_now_ms();
	drop_own(l);
	EXPECT_GT(LIFE_AT_ONCE_MS, mas_now_ms() - start);
	EXPECT_EQ(l->vram_free - l->mem.length, mas_vram_free(l->watch, l->gpu));
	ASSERT_EQ(0, canary_put(&canary, l->gpu));
	ASSERT_EQ(0, mas_unstall(l->drive));
	mas_sleep_ms(200);
	EXPECT_EQ(0, canary_take(&canary));
	expect_all_back(_metadata, l);
}

TEST_F(stalled, contexts_with_one_file_go_one_after_the_other)
{
	struct life *l = &self->l;
	struct mxcd_mas_alloc mem;
	__u32 file;
	int other = life_context(l, &file, &mem);

	ASSERT_LE(0, other);
	ASSERT_TRUE(life_submit_to(l, other, file, mem.handle, MXCD_MAS_OP_READ, NR));
	ASSERT_TRUE(life_submit(l, NR));
	ASSERT_EQ(0, close(other));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
	drop_own(l);
	expect_all_back(_metadata, l);
}

TEST_F(stalled, child_collects_what_its_parent_has_submitted)
{
	struct life *l = &self->l;
	int status, mapped[2];
	pid_t child;
	char *map;

	ASSERT_TRUE(life_submit(l, NR));
	ASSERT_EQ(0, pipe(mapped));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		/* Of the mapping it has inherited nothing. */
		map = mas_map(l->mas, &l->mem);
		_exit(map == MAP_FAILED || write(mapped[1], "", 1) != 1 ||
		      mas_unstall(l->drive) ||
		      life_collect(l->mas, NR, LIFE_LEN) != NR ||
		      mas_diff(l->model, map, NR * LIFE_LEN) != -1);
	}
	close(mapped[1]);
	EXPECT_EQ(1, read(mapped[0], &status, 1));
	close(mapped[0]);
	drop_own(l);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	expect_all_back(_metadata, l);
}

static bool send_fd(int socket, int fd)
{
	char space[CMSG_SPACE(sizeof(fd))] = "", byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = space, .msg_controllen = sizeof(space),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	return sendmsg(socket, &msg, 0) == 1;
}

static int receive_fd(int socket)
{
	char space[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = space, .msg_controllen = sizeof(space),
	};
	int fd;

	if (recvmsg(socket, &msg, MSG_CMSG_CLOEXEC) != 1 || !CMSG_FIRSTHDR(&msg))
		return -1;
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* The descriptor is in the socket alone for a while. */
TEST_F(stalled, context_travels_through_a_socket)
{
	struct life *l = &self->l;
	int sockets[2], status;
	pid_t child;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sockets));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		__u32 file;
		struct mxcd_mas_alloc mem;
		int mas = life_context(l, &file, &mem);

		_exit(mas < 0 ||
		      !life_submit_to(l, mas, file, mem.handle, MXCD_MAS_OP_READ, NR) ||
		      !send_fd(sockets[1], mas));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_EQ(0, status);
	ASSERT_EQ(0, mas_unstall(l->drive));
	drop_own(l);
	l->mas = receive_fd(sockets[0]);
	ASSERT_LE(0, l->mas);
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	close(l->mas);
	l->mas = -1;
	expect_all_back(_metadata, l);
}

/* How a process ends that has requests in flight. */
enum end { END_EXIT, END_EXEC, END_KILL, END_KILL_WAITER, END_KILL_MANY };

FIXTURE(end) {
	struct life l;
};

FIXTURE_VARIANT(end) {
	enum end how;
	unsigned int nr;
};

FIXTURE_VARIANT_ADD(end, exit) { END_EXIT, NR };
FIXTURE_VARIANT_ADD(end, exec) { END_EXEC, NR };
FIXTURE_VARIANT_ADD(end, kill) { END_KILL, NR };
FIXTURE_VARIANT_ADD(end, kill_of_one_thread) { END_KILL_WAITER, NR };
FIXTURE_VARIANT_ADD(end, kill_with_1000_reads) { END_KILL_MANY, MANY };

FIXTURE_SETUP(end)
{
	if (!mas_has_host())
		SKIP(return, "needs the host of vmtest.sh");
	setup(_metadata, &self->l);
}

FIXTURE_TEARDOWN(end)
{
	if (mas_has_host())
		life_teardown(&self->l);
}

struct waiter {
	struct life *l;
	int mas;
	__u32 file;
	struct mxcd_mas_alloc mem;
	int tell;
};

/* Waits in the ioctl for a transfer that does not come. */
static void *wait_in_ioctl(void *data)
{
	struct waiter *w = data;
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_READ, w->file, w->l->base,
					 LIFE_LEN, w->mem.handle, 0);
	pid_t tid = syscall(SYS_gettid);

	fcntl(w->mas, F_SETFL, 0);
	if (write(w->tell, &tid, sizeof(tid)) == sizeof(tid))
		mas_by_ioctl(w->mas, &req);
	return NULL;
}

/* In the child: requests of its own in flight, tells the parent, and ends. */
static void live_and_end(struct life *l, enum end how, unsigned int nr, int tell)
{
	struct waiter w = { .l = l, .tell = tell };
	pthread_t thread;
	pid_t self = getpid();
	struct mxcd_mas_comp comp;

	w.mas = life_context(l, &w.file, &w.mem);
	if (w.mas < 0 ||
	    !life_submit_to(l, w.mas, w.file, w.mem.handle, MXCD_MAS_OP_READ, nr) ||
	    life_inflight(w.mas) != (int)nr)
		_exit(1);
	if (how == END_KILL_WAITER) {
		if (pthread_create(&thread, NULL, wait_in_ioctl, &w))
			_exit(1);
		fcntl(w.mas, F_SETFL, 0);
		/* What the other thread waits for is not for this one. */
		while (read(w.mas, &comp, sizeof(comp)) > 0)
			;
		_exit(1);
	}
	if (write(tell, &self, sizeof(self)) != sizeof(self))
		_exit(1);
	if (how == END_EXIT)
		_exit(0);
	if (how == END_EXEC)
		execl("/bin/sleep", "sleep", "100", NULL);
	pause();
	_exit(1);
}

static bool is_sleep(pid_t pid)
{
	char path[64], comm[16] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (read(fd, comm, sizeof(comm) - 1) < 0)
		comm[0] = 0;
	close(fd);
	return !strcmp(comm, "sleep\n");
}

static void end_child(struct __test_metadata *_metadata, pid_t child, pid_t tid,
		      enum end how)
{
	__u64 start = mas_now_ms();
	int status;

	switch (how) {
	case END_EXEC:
		while (!is_sleep(child) && mas_now_ms() - start < LIFE_AT_ONCE_MS)
			mas_sleep_ms(10);
		EXPECT_TRUE(is_sleep(child));
		kill(child, SIGKILL);
		break;
	case END_KILL_WAITER:
		mas_sleep_ms(200);
		start = mas_now_ms();
		ASSERT_EQ(0, syscall(SYS_tgkill, child, tid, SIGKILL));
		break;
	case END_EXIT:
		break;
	default:
		ASSERT_EQ(0, kill(child, SIGKILL));
	}
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_GT(LIFE_AT_ONCE_MS, mas_now_ms() - start);
	TH_LOG("gone after %llu ms", mas_now_ms() - start);
	EXPECT_EQ(how == END_EXIT, !!WIFEXITED(status));
}

TEST_F(end, is_at_once_and_memory_is_kept_until_the_disk_is_done)
{
	struct life *l = &self->l;
	struct canary canary;
	int tell[2];
	pid_t child, tid;

	drop_own(l);
	ASSERT_EQ(l->vram_free, mas_vram_free(l->watch, l->gpu));
	ASSERT_EQ(0, pipe2(tell, O_CLOEXEC));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		live_and_end(l, variant->how, variant->nr, tell[1]);
	close(tell[1]);
	ASSERT_EQ(sizeof(tid), read(tell[0], &tid, sizeof(tid)));
	end_child(_metadata, child, tid, variant->how);
	EXPECT_EQ(l->vram_free - 4 * MAS_MIB, mas_vram_free(l->watch, l->gpu));
	ASSERT_EQ(0, canary_put(&canary, l->gpu));
	ASSERT_EQ(0, mas_unstall(l->drive));
	mas_sleep_ms(200);
	EXPECT_EQ(0, canary_take(&canary));
	expect_all_back(_metadata, l);
}

/* A GPU that is taken away. */
FIXTURE(gone) {
	struct life l;
	char bdf[24];
};

FIXTURE_SETUP(gone)
{
	if (!mas_has_host())
		SKIP(return, "needs the host of vmtest.sh");
	setup(_metadata, &self->l);
}

FIXTURE_TEARDOWN(gone)
{
	if (!mas_has_host())
		return;
	life_teardown(&self->l);
	EXPECT_EQ(0, mas_shell("mas_ready"));
}

static const char *bdf_of_gpu(int watch, int gpu, char bdf[24])
{
	struct mxcd_mas_query_gpu q;

	if (mas_query_gpu(watch, gpu, &q))
		return NULL;
	snprintf(bdf, 24, "%04x:%02x:%02x.%x", q.out_domain, q.out_bdf >> 8,
		 (q.out_bdf >> 3) & 31, q.out_bdf & 7);
	return bdf;
}

TEST_F(gone, gpu_that_is_unbound_makes_success_ENODEV)
{
	struct life *l = &self->l;
	int status, i;
	pid_t child;

	ASSERT_NE(NULL, bdf_of_gpu(l->watch, l->gpu, self->bdf));
	ASSERT_TRUE(life_submit(l, NR));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(mas_shell("mas_unbind %s", self->bdf));
	for (i = 0; mas_vram_free(l->watch, l->gpu) != -ENODEV && i < MAS_PATIENCE_MS / 100; i++)
		mas_sleep_ms(100);
	/* It waits for the disk; nothing new begins. */
	EXPECT_EQ(0, waitpid(child, &status, WNOHANG));
	EXPECT_EQ(-ENODEV, mas_vram_free(l->watch, l->gpu));
	EXPECT_EQ(NR, life_inflight(l->mas));
	ASSERT_EQ(0, mas_unstall(l->drive));
	/* The disk has read and written all of it. */
	EXPECT_EQ(NR, life_collect(l->mas, NR, -ENODEV));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);

	/* A husk is all that is left, and it does not come back with the GPU. */
	ASSERT_TRUE(life_submit(l, 1));
	EXPECT_EQ(1, life_collect(l->mas, 1, -ENODEV));
	ASSERT_EQ(0, mas_shell("mas_ready"));
	ASSERT_TRUE(life_submit(l, 1));
	EXPECT_EQ(1, life_collect(l->mas, 1, -ENODEV));
	EXPECT_EQ(l->vram_free, mas_vram_free(l->watch, l->gpu));
	EXPECT_EQ(0, mas_free(l->mas, l->mem.handle));
	ASSERT_EQ(0, mas_alloc(l->mas, l->gpu, 4 * MAS_MIB, &l->mem));
	ASSERT_TRUE(life_submit(l, NR));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
}

/* Nobody else's transfers are touched, and their mappings are faulted in again. */
TEST_F(gone, other_gpus_go_on)
{
	struct life *l = &self->l;
	struct mxcd_mas_alloc mem;
	int other = mas_big_gpu(l->watch), mas = mas_open(O_NONBLOCK), file, status;
	pid_t child;
	char *map;

	ASSERT_NE(other, l->gpu);
	ASSERT_NE(NULL, bdf_of_gpu(l->watch, l->gpu, self->bdf));
	ASSERT_EQ(0, mas_alloc(mas, other, 4 * MAS_MIB, &mem));
	file = mas_register(mas, l->disk);
	map = mas_map(mas, &mem);
	ASSERT_NE(MAP_FAILED, (void *)map);
	memset(map, LIFE_POISON, mem.length);
	ASSERT_TRUE(life_submit_to(l, mas, file, mem.handle, MXCD_MAS_OP_READ, NR));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(mas_shell("mas_unbind %s", self->bdf));
	/* Nothing is in flight on the GPU that goes: it does not wait. */
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(NR, life_inflight(mas));
	EXPECT_EQ(-1, mas_not_all(map, NR * LIFE_LEN, LIFE_POISON));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(mas, NR, LIFE_LEN));
	EXPECT_EQ(-1, mas_diff(l->model, map, NR * LIFE_LEN));
	close(mas);
}

TEST_F(gone, driver_is_not_unloaded_under_a_context)
{
	struct life *l = &self->l;

	ASSERT_TRUE(life_submit(l, NR));
	EXPECT_NE(0, mas_shell("rmmod mxcd 2>/dev/null"));
	ASSERT_EQ(0, mas_unstall(l->drive));
	EXPECT_EQ(NR, life_collect(l->mas, NR, LIFE_LEN));
	EXPECT_NE(0, mas_shell("rmmod mxcd 2>/dev/null"));
	EXPECT_EQ(-1, mas_diff(l->model, l->vram, NR * LIFE_LEN));
}

/* Its requests belong to nobody any more, and it waits for them. */
TEST_F(gone, driver_that_is_unloaded_waits_for_the_disk)
{
	struct life *l = &self->l;
	int status;
	pid_t child;

	ASSERT_TRUE(life_submit(l, NR));
	drop_own(l);
	close(l->watch);
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		_exit(mas_shell("rmmod mxcd"));
	mas_sleep_ms(500);
	EXPECT_EQ(0, waitpid(child, &status, WNOHANG));
	ASSERT_EQ(0, mas_unstall(l->drive));
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	ASSERT_EQ(0, mas_shell("mas_ready"));
	l->watch = mas_open(0);
	expect_all_back(_metadata, l);
}

TEST_HARNESS_MAIN
