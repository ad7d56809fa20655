// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that read and write for a long time, each in places of its own and with
 * a model of what has to be there, while some of them are killed and GPUs are
 * unbound and bound. Also a load for tests that take devices away.
 */
#include "mas_utils.h"

#include <getopt.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MAX_WORKERS	16
#define NR_REQS		8
#define SLOT		(256 * MAS_KIB)		/* of one request, file and VRAM */
#define SPAN		((size_t)NR_REQS * SLOT)
#define RAW_BASE	(128ULL * MAS_MIB)
#define NR_REGIONS	4
#define AT_ONCE_MS	(1000 * MAS_SLOW)

/* What a worker tells; it may be killed at any moment. */
struct tally {
	pid_t pid;
	unsigned int lives;
	__u64 asked;		/* bytes of requests that were collected ... */
	__u64 moved;		/* ... of these, moved and found right ... */
	__u64 failed;		/* ... and of requests that failed because GPU or disk went */
};

struct board {
	bool stop;
	struct tally tally[MAX_WORKERS];
};

struct worker {
	struct board *board;
	struct tally *tally;
	int number;
	__u64 seed;
	int target;		/* to move data to and from */
	int plain;		/* the same file through the page cache */
	__u64 base;
	bool may_go;		/* the disk may be taken away */
	int mas;
	__u32 file;
	struct mxcd_mas_alloc mem;
	char *vram;
	char *model;
	char *buf;
};

static const char *soak_disk;
static bool all_direct;		/* nothing goes through the page cache */

static bool is_gone(__s64 result)
{
	return result == -ENODEV || result == -ENOENT;
}

/* Disks, and files on them, in turn. */
static int open_target(struct worker *w)
{
	static const struct { const char *env; bool raw; } kinds[] = {
		{ "MAS_NVME512", true }, { "MAS_EXT4", false },
		{ "MAS_NVME4K", true }, { "MAS_XFS", false },
	};
	int kind = w->number % 4;
	bool raw = soak_disk || kinds[kind].raw;
	const char *path = soak_disk ? soak_disk : getenv(kinds[kind].env);

	if (!path)
		return -ENOENT;
	if (raw) {
		w->plain = open(path, O_RDWR | O_CLOEXEC | (all_direct ? O_DIRECT : 0));
		/* What a killed one has in flight may still be written. */
		w->base = RAW_BASE + SPAN * (w->number * NR_REGIONS +
					     w->tally->lives % NR_REGIONS);
	} else {
		w->plain = mas_temp(kinds[kind].env, 0);
		w->base = 0;
	}
	if (w->plain < 0)
		return -ENOENT;
	w->target = mas_reopen(w->plain, O_RDWR | (w->number & 4 ? O_DIRECT : 0));
	return w->target < 0 ? w->target : 0;
}

static bool fill_target(struct worker *w)
{
	mas_fill(w->model, SPAN, mas_rand(&w->seed));
	return mas_pwrite(w->plain, w->model, SPAN, w->base) && !fsync(w->plain);
}

static void close_context(struct worker *w)
{
	if (w->vram)
		munmap(w->vram, SPAN);
	if (w->mas >= 0)
		close(w->mas);
	w->vram = NULL;
	w->mas = -1;
}

/* Waits for a GPU; false: it is time to stop, or something is wrong. */
static bool open_context(struct worker *w)
{
	int ret = -ENODEV, gpu;

	while (!w->board->stop) {
		w->mas = mas_open(0);
		if (w->mas >= 0) {
			gpu = mas_below(&w->seed, 2);
			ret = mas_alloc(w->mas, gpu, SPAN, &w->mem);
			if (!ret)
				ret = mas_register(w->mas, w->target);
			if (ret > 0)
				break;
			close_context(w);
		} else {
			ret = w->mas;
		}
		if (!is_gone(ret)) {
			printf("# worker %d: cannot begin: %s\n", w->number, strerror(-ret));
			return false;
		}
		mas_sleep_ms(20);
	}
	if (ret < 0)
		return false;
	w->file = ret;
	w->vram = mas_map(w->mas, &w->mem);
	return w->vram != MAP_FAILED;
}

/* Each request has a slot of file and VRAM; half of them are aligned, or all. */
static void make_req(struct worker *w, struct mxcd_mas_req *req, unsigned int slot)
{
	__u64 start = mas_below(&w->seed, SLOT / 2), len;

	len = 1 + mas_below(&w->seed, SLOT - start);
	if (all_direct || mas_below(&w->seed, 2)) {
		start &= ~4095ULL;
		len = (len + 4095) & ~4095ULL;
		if (start + len > SLOT)
			len = SLOT - start;
	}
	start += (__u64)slot * SLOT;
	*req = mas_rw(mas_below(&w->seed, 2) ? MXCD_MAS_OP_READ : MXCD_MAS_OP_WRITE,
		      w->file, w->base + start, len, w->mem.handle, start);
	req->user_data = slot;
	if (all_direct)
		req->flags |= MXCD_MAS_REQ_P2P_ONLY;
}

/*
 * The mapping goes with the GPU, at any moment: the kernel touches it for us and
 * says EFAULT.
 */
static bool copy_out(struct worker *w, void *to, __u64 at, size_t len)
{
	int fds[2];
	size_t done = 0, n;
	bool ok = true;

	if (pipe(fds))
		return false;
	for (; ok && done < len; done += n) {
		n = len - done < 4096 ? len - done : 4096;
		ok = write(fds[1], w->vram + at + done, n) == (ssize_t)n &&
		     read(fds[0], (char *)to + done, n) == (ssize_t)n;
	}
	close(fds[0]);
	close(fds[1]);
	return ok;
}

static bool copy_in(struct worker *w, __u64 at, const void *from, size_t len)
{
	int fds[2];
	size_t done = 0, n;
	bool ok = true;

	if (pipe(fds))
		return false;
	for (; ok && done < len; done += n) {
		n = len - done < 4096 ? len - done : 4096;
		ok = write(fds[1], (const char *)from + done, n) == (ssize_t)n &&
		     read(fds[0], w->vram + at + done, n) == (ssize_t)n;
	}
	close(fds[0]);
	close(fds[1]);
	__sync_synchronize();
	return ok;
}

static bool prepare(struct worker *w, const struct mxcd_mas_req *req)
{
	if (req->op == MXCD_MAS_OP_READ)
		return true;
	mas_fill(w->model + req->mem_offset, req->length, mas_rand(&w->seed));
	return copy_in(w, req->mem_offset, w->model + req->mem_offset, req->length);
}

/* 0: right; 1: the GPU is gone; 2: the disk is gone; -1: wrong */
static int judge(struct worker *w, const struct mxcd_mas_req *req, __s64 result)
{
	const char *op = req->op == MXCD_MAS_OP_READ ? "read" : "write";
	long diff;

	w->tally->asked += req->length;
	if (is_gone(result)) {
		w->tally->failed += req->length;
		return 1;
	}
	if (result != (__s64)req->length) {
		if (w->may_go) {
			w->tally->failed += req->length;
			return 2;
		}
		printf("# worker %d: %s of %llu at %llu: %lld\n", w->number, op,
		       (unsigned long long)req->length,
		       (unsigned long long)req->file_offset, (long long)result);
		return -1;
	}
	if (req->op == MXCD_MAS_OP_READ) {
		if (!copy_out(w, w->buf, req->mem_offset, req->length)) {
			w->tally->failed += req->length;
			return 1;
		}
		diff = mas_diff(w->model + req->mem_offset, w->buf, req->length);
		if (diff >= 0) {
			printf("# worker %d: read of %llu at %llu differs at %ld\n",
			       w->number, (unsigned long long)req->length,
			       (unsigned long long)req->file_offset, diff);
			return -1;
		}
	}
	w->tally->moved += req->length;
	return 0;
}

static int batch(struct worker *w)
{
	struct mxcd_mas_req reqs[NR_REQS];
	struct mxcd_mas_comp comps[NR_REQS];
	unsigned int i, nr = 1 + mas_below(&w->seed, NR_REQS);
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = nr, .min_nr = nr,
	};
	int ret, bad = 0;

	for (i = 0; i < nr; i++) {
		make_req(w, &reqs[i], i);
		if (!prepare(w, &reqs[i]))
			return 1;
	}
	ret = mas_ioctl(w->mas, MXCD_MAS_TRANSFER, &arg);
	if (ret || arg.out_completed != nr) {
		printf("# worker %d: transfer %d\n", w->number, ret);
		return -1;
	}
	for (i = 0; i < nr; i++) {
		ret = judge(w, &reqs[i], comps[i].result);
		if (ret < 0)
			return ret;
		if (ret > bad)
			bad = ret;
	}
	return bad;
}

static int work(struct board *board, int number, __u64 seed, bool may_go)
{
	struct worker w = {
		.board = board, .tally = &board->tally[number], .number = number,
		.seed = seed, .mas = -1, .may_go = may_go,
	};
	int ret = 0;

	w.model = aligned_alloc(4096, SPAN);
	w.buf = malloc(SPAN);
	if (open_target(&w) || !fill_target(&w))
		return may_go ? 0 : 1;
	while (!board->stop && ret >= 0 && ret != 2) {
		if (w.mas < 0 && !open_context(&w))
			return !board->stop;
		ret = batch(&w);
		if (ret != 1)
			continue;
		/* What a failed write has left in the file is not known. */
		close_context(&w);
		if (!fill_target(&w))
			ret = may_go ? 2 : -1;
	}
	close_context(&w);
	return ret < 0;
}

static void start(struct board *board, int number, __u64 seed, bool may_go)
{
	pid_t child;
	int ret;

	fflush(stdout);
	board->tally[number].lives++;
	child = fork();
	if (!child) {
		ret = work(board, number, seed, may_go);
		fflush(stdout);
		_exit(ret);
	}
	/* Not in the child: the board is shared. */
	board->tally[number].pid = child;
}

/* What a process that does not die waits for; it has one thread. */
static void tell_stack(pid_t pid)
{
	char path[32], line[128];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stack", pid);
	file = fopen(path, "r");
	while (file && fgets(line, sizeof(line), file))
		printf("#   %s", line);
	if (file)
		fclose(file);
}

static void wait_for_death(pid_t pid, int *status, __u64 since)
{
	bool told = false;

	while (!waitpid(pid, status, WNOHANG)) {
		if (!told && mas_now_ms() - since > AT_ONCE_MS) {
			tell_stack(pid);
			told = true;
		}
		mas_sleep_ms(5);
	}
}

/* Kills one and starts another; false if it was not gone at once. */
static bool kill_one(struct board *board, int number, __u64 seed)
{
	struct tally *t = &board->tally[number];
	__u64 then = mas_now_ms();
	int status;

	if (t->pid <= 0 || kill(t->pid, SIGKILL))
		return false;
	wait_for_death(t->pid, &status, then);
	if (!WIFSIGNALED(status)) {
		printf("# worker %d had ended by itself: %#x\n", number, status);
		return false;
	}
	/* Its last words may be half said. */
	t->asked = 0;
	t->moved = 0;
	t->failed = 0;
	then = mas_now_ms() - then;
	if (then > AT_ONCE_MS)
		printf("# worker %d took %llu ms to die\n", number,
		       (unsigned long long)then);
	start(board, number, seed, false);
	return then <= AT_ONCE_MS;
}

static bool rebind(const char *bdf)
{
	char command[256];

	snprintf(command, sizeof(command),
		 "echo %s >/sys/bus/pci/drivers/mxcd/unbind && echo %s >/sys/bus/pci/drivers/mxcd/bind",
		 bdf, bdf);
	return !system(command);
}

static __u64 progress(struct board *board)
{
	__u64 sum = 0;
	int i;

	for (i = 0; i < MAX_WORKERS; i++)
		sum += board->tally[i].moved;
	return sum;
}

static bool some_have_ended(void)
{
	siginfo_t info = {};

	return !waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) && info.si_pid;
}

static bool reconcile(struct board *board, int workers)
{
	bool ok = true;
	int i, status;

	board->stop = true;
	for (i = 0; i < workers; i++) {
		struct tally *t = &board->tally[i];

		waitpid(t->pid, &status, 0);
		if (status || t->asked != t->moved + t->failed) {
			printf("# worker %d: status %#x, asked %llu, moved %llu, failed %llu\n",
			       i, status, (unsigned long long)t->asked,
			       (unsigned long long)t->moved,
			       (unsigned long long)t->failed);
			ok = false;
		}
	}
	return ok;
}

int main(int argc, char **argv)
{
	char gpus[2][16] = { "", "" };
	unsigned int seconds = 20, workers = 8, kills = 0, rebinds = 0;
	const char *tell = NULL;
	bool load = false, ok = true;
	struct board *board;
	__u64 seed, end, moved = 0;
	int opt, i;

	while ((opt = getopt(argc, argv, "t:w:d:p:la")) != -1) {
		if (opt == 't')
			seconds = atoi(optarg);
		else if (opt == 'w')
			workers = atoi(optarg) > MAX_WORKERS ? MAX_WORKERS : atoi(optarg);
		else if (opt == 'd')
			soak_disk = optarg;	/* this one alone, and it may go */
		else if (opt == 'p')
			tell = optarg;		/* where to say how far it is */
		else if (opt == 'l')
			load = true;		/* no kills, no rebinds */
		else if (opt == 'a')
			all_direct = true;	/* with -d */
		else
			return 2;
	}
	(void)test_harness_run; /* comes with mas_utils.h, and there are no tests here */
	/*
	 * khugepaged copies with mmap_lock held for writing, at nice 19. Where huge pages
	 * were on, who was to die waited for that lock for seconds.
	 */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	seed = mas_seed();
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (sscanf(getenv("MAS_GPUS") ? getenv("MAS_GPUS") : "", "%15s %15s", gpus[0],
		   gpus[1]) != 2)
		return 2;
	for (i = 0; i < (int)workers; i++)
		start(board, i, mas_rand(&seed), soak_disk);

	end = mas_now_ms() + seconds * 1000ULL;
	while (ok && mas_now_ms() < end) {
		mas_sleep_ms(100 + mas_below(&seed, 700));
		if (tell) {
			FILE *file = fopen(tell, "w");

			fprintf(file, "%llu\n", (unsigned long long)progress(board));
			fclose(file);
		}
		if (soak_disk && some_have_ended())
			break;
		if (load || soak_disk)
			continue;
		i = mas_below(&seed, workers);
		moved += board->tally[i].moved;
		ok = kill_one(board, i, mas_rand(&seed));
		kills++;
		if (ok && mas_below(&seed, 4) == 0) {
			ok = rebind(gpus[mas_below(&seed, 2)]);
			rebinds++;
		}
	}
	ok = reconcile(board, workers) && ok;
	printf("# %llu MiB moved and found right, %u killed, %u GPUs unbound and bound\n",
	       (unsigned long long)(moved + progress(board)) >> 20, kills, rebinds);
	return !ok || !(moved + progress(board));
}
