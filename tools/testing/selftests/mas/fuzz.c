// SPDX-License-Identifier: GPL-2.0
/*
 * Does everything to the device that its interface knows, in any order and with
 * values that are right, nearly right or wrong. A seed gives the same choices again.
 *
 * What is found is a kernel that complains, a result that cannot be, a call that does
 * not come back, or VRAM that is not free in the end.
 */
#include "mas_utils.h"

#include <getopt.h>
#include <grp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <linux/io_uring.h>

#define NR_CTX		4
#define NR_TARGETS	8
#define NR_REQS		16
#define NR_SEGS		64
#define NR_MAPS		4
#define NOBODY		65534

struct fuzz {
	__u64 seed;
	int ctx[NR_CTX];
	int targets[NR_TARGETS];
	int nr_targets;
	char *pages;		/* two, behind them none */
	struct mxcd_mas_req *reqs;
	struct mxcd_mas_comp *comps;
	struct mxcd_mas_seg *segs;
	char *maps[NR_MAPS];
	size_t map_len[NR_MAPS];
	int ring;
	unsigned long wrong;	/* results that cannot be */
	unsigned long done;	/* requests that succeeded */
};

static __u64 below(struct fuzz *f, __u64 n)
{
	return mas_below(&f->seed, n);
}

static bool one_in(struct fuzz *f, unsigned int n)
{
	return !below(f, n);
}

static __u64 interesting(struct fuzz *f)
{
	static const __u64 values[] = {
		0, 1, 2, 3, 4, 511, 512, 513, 4095, 4096, 4097, 65535, 65536, 65537,
		1 << 20, (1 << 20) - 1, 1 << 23, 0x7fffff, 0x800000, INT_MAX,
		1ULL << 31, UINT_MAX, 1ULL << 32, (1ULL << 32) + 4096, LLONG_MAX,
		LLONG_MAX - 4095, 1ULL << 63, ~0ULL, ~0ULL - 4095,
	};

	if (one_in(f, 4))
		return mas_rand(&f->seed) >> below(f, 64);
	return values[below(f, sizeof(values) / sizeof(*values))];
}

/* Few numbers, so that they often name something. */
static __u32 some_id(struct fuzz *f)
{
	return one_in(f, 10) ? interesting(f) : below(f, 6);
}

static __u64 some_offset(struct fuzz *f)
{
	switch (below(f, 6)) {
	case 0:
		return interesting(f);
	case 1:
		return below(f, 1 << 21);
	default:
		return below(f, 512) * MAS_PAGE;
	}
}

static __u64 some_length(struct fuzz *f)
{
	switch (below(f, 6)) {
	case 0:
		return interesting(f);
	case 1:
		return below(f, 300000);
	default:
		return below(f, 32) * MAS_PAGE;
	}
}

static void *some_pointer(struct fuzz *f, void *good)
{
	switch (below(f, 24)) {
	case 0:
		return NULL;
	case 1:
		return (void *)(uintptr_t)interesting(f);
	case 2:
		return f->pages + 2 * MAS_PAGE - below(f, 128);
	case 3:
		return (void *)0xffff888000000000UL;
	default:
		return good;
	}
}

static int some_ctx(struct fuzz *f)
{
	return f->ctx[below(f, NR_CTX)];
}

static int some_target(struct fuzz *f)
{
	return one_in(f, 16) ? (int)interesting(f) : f->targets[below(f, f->nr_targets)];
}

static void some_segs(struct fuzz *f, struct mxcd_mas_req *req)
{
	unsigned int i, nr = 1 + below(f, NR_SEGS);
	__u64 sum = 0;

	for (i = 0; i < nr; i++) {
		f->segs[i] = (struct mxcd_mas_seg) {
			.handle = some_id(f), .offset = some_offset(f),
			.length = one_in(f, 20) ? interesting(f) : MAS_PAGE,
		};
		sum += f->segs[i].length;
	}
	req->segs = mas_ptr(some_pointer(f, f->segs));
	req->nr_segs = one_in(f, 20) ? interesting(f) : nr;
	req->handle = 0;
	req->mem_offset = 0;
	if (!one_in(f, 8))
		req->length = sum;
}

/* A request that is well formed, for the most part. */
static struct mxcd_mas_req some_req(struct fuzz *f)
{
	struct mxcd_mas_req req = { .op = 1 + below(f, MXCD_MAS_OP_POKE) };

	if (one_in(f, 2))
		req.op = 1 + below(f, 2);
	switch (req.op) {
	case MXCD_MAS_OP_READ:
	case MXCD_MAS_OP_WRITE:
		req.flags = below(f, 64) & below(f, 64);
		req.file = req.flags & MXCD_MAS_REQ_FD ? some_target(f) : some_id(f);
		req.handle = some_id(f);
		req.file_offset = some_offset(f);
		req.length = some_length(f);
		req.mem_offset = some_offset(f);
		if (one_in(f, 4))
			some_segs(f, &req);
		break;
	case MXCD_MAS_OP_QUERY:
		req.key = below(f, MXCD_MAS_KEY_MAX_SEGS + 2);
		req.arg = below(f, 3);
		break;
	case MXCD_MAS_OP_ALLOC:
		req.handle = some_id(f);
		req.length = some_length(f);
		req.arg = below(f, 3);
		break;
	case MXCD_MAS_OP_REGISTER:
		req.file = some_id(f);
		req.arg = some_target(f);
		break;
	case MXCD_MAS_OP_PEEK:
	case MXCD_MAS_OP_POKE:
		req.handle = some_id(f);
		req.length = 1 + below(f, 4);
		req.mem_offset = some_offset(f);
		req.arg = req.op == MXCD_MAS_OP_POKE ? below(f, 256) : 0;
		break;
	case MXCD_MAS_OP_CANCEL:
		req.mem_offset = some_length(f);
		break;
	default:
		req.file = req.op == MXCD_MAS_OP_FREE || req.op == MXCD_MAS_OP_FLUSH ?
			   0 : some_id(f);
		req.handle = req.file ? 0 : some_id(f);
		req.flags = below(f, 64) & below(f, 64) & below(f, 64);
	}
	/* One byte of it is wrong. */
	if (one_in(f, 12))
		((unsigned char *)&req)[below(f, sizeof(req))] = mas_rand(&f->seed);
	req.user_data = req.length;
	return req;
}

static unsigned int some_reqs(struct fuzz *f)
{
	unsigned int i, nr = 1 + below(f, NR_REQS);

	for (i = 0; i < nr; i++)
		f->reqs[i] = some_req(f);
	return nr;
}

/* Can that be the result of a request? Its length is in user_data. */
static void look_at(struct fuzz *f, const struct mxcd_mas_comp *comp)
{
	bool sane = comp->result >= -4095 && !comp->__reserved && comp->route <= 3 &&
		    comp->reason <= 64 &&
		    (comp->result < 0 || comp->p2p_bytes <= (__u64)comp->result);

	if (comp->result > 0 && comp->route && (__u64)comp->result > comp->user_data)
		sane = false;
	f->done += comp->result >= 0;
	if (sane)
		return;
	f->wrong++;
	printf("# result %lld of %llu, p2p %llu, route %u, reason %u\n",
	       (long long)comp->result, (unsigned long long)comp->user_data,
	       (unsigned long long)comp->p2p_bytes, comp->route, comp->reason);
}

static void interrupt(int sig)
{
}

/* Every call that waits is interrupted, again and again. */
static void set_alarms(void)
{
	struct sigaction act = { .sa_handler = interrupt };
	struct itimerval often = { { 0, 50000 }, { 0, 50000 } };
	struct rlimit files = { 256, 256 }, size = { 64 * MAS_MIB, 64 * MAS_MIB };

	sigaction(SIGALRM, &act, NULL);
	signal(SIGXFSZ, SIG_IGN);
	setitimer(ITIMER_REAL, &often, NULL);
	setrlimit(RLIMIT_NOFILE, &files);
	setrlimit(RLIMIT_FSIZE, &size);
}

static void do_open(struct fuzz *f)
{
	char path[32] = MAS_DEV;
	int i = below(f, NR_CTX);

	if (f->ctx[i] >= 0 && !one_in(f, 8))
		return;
	if (f->ctx[i] >= 0)
		close(f->ctx[i]);
	if (one_in(f, 4))
		snprintf(path, sizeof(path), MAS_DEV "%u", (unsigned int)below(f, 3));
	f->ctx[i] = open(path, O_CLOEXEC | (one_in(f, 10) ? O_RDONLY : O_RDWR) |
			       (one_in(f, 2) ? O_NONBLOCK : 0));
}

static void do_transfer(struct fuzz *f)
{
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .nr = some_reqs(f),
		.timeout_ns = one_in(f, 2) ? 0 : below(f, 20000000),
	};
	unsigned int i;

	memset(f->comps, 0, NR_REQS * sizeof(*f->comps));
	arg.reqs = mas_ptr(some_pointer(f, f->reqs));
	arg.comps = mas_ptr(one_in(f, 3) ? NULL : some_pointer(f, f->comps));
	arg.min_nr = arg.comps ? below(f, arg.nr + 2) : 0;
	if (one_in(f, 20))
		((unsigned char *)&arg)[below(f, sizeof(arg))] = mas_rand(&f->seed);
	if (mas_ioctl(some_ctx(f), MXCD_MAS_TRANSFER, some_pointer(f, &arg)) ||
	    arg.comps != mas_ptr(f->comps) || arg.reqs != mas_ptr(f->reqs))
		return;
	for (i = 0; i < arg.out_submitted && i < NR_REQS; i++)
		if (f->comps[i].result != -EINPROGRESS)
			look_at(f, &f->comps[i]);
}

static void do_alloc(struct fuzz *f)
{
	struct mxcd_mas_alloc arg = {
		.size = sizeof(arg), .gpu = below(f, 3), .handle = some_id(f),
		.length = one_in(f, 10) ? interesting(f) : below(f, 2 * MAS_MIB),
	};

	mas_ioctl(some_ctx(f), MXCD_MAS_ALLOC, &arg);
}

static void do_register(struct fuzz *f)
{
	mas_register_id(some_ctx(f), some_target(f), some_id(f));
}

static void do_any_ioctl(struct fuzz *f)
{
	static const __u32 sizes[] = { 0, 4, 8, 16, 24, 40, 48, 64, 4096, 4097 };
	__u32 *words = (void *)f->pages;
	unsigned int i;

	for (i = 0; i < 16; i++)
		words[i] = one_in(f, 3) ? interesting(f) : 0;
	words[0] = sizes[below(f, sizeof(sizes) / sizeof(*sizes))];
	mas_ioctl(some_ctx(f), _IO(MXCD_MAS_IOC_TYPE, below(f, 0x0b)),
		  some_pointer(f, f->pages));
}

static void do_restrict(struct fuzz *f)
{
	struct mxcd_mas_restrict arg;

	mas_no_limits(&arg);
	if (one_in(f, 4))
		arg.ops = ~(1ULL << below(f, 12));
	if (one_in(f, 4))
		arg.max_vram = below(f, 16 * MAS_MIB);
	if (one_in(f, 4))
		arg.max_queue = 1 + below(f, 64);
	mas_ioctl(some_ctx(f), MXCD_MAS_RESTRICT, &arg);
}

static void do_write(struct fuzz *f)
{
	size_t len = some_reqs(f) * sizeof(*f->reqs);

	if (one_in(f, 20))
		len = interesting(f) & 0xffff;
	if (write(some_ctx(f), some_pointer(f, f->reqs), len) < 0)
		return;
}

static void do_read(struct fuzz *f)
{
	size_t len = one_in(f, 20) ? below(f, 64) : NR_REQS * sizeof(*f->comps);
	struct mxcd_mas_comp *comps = some_pointer(f, f->comps);
	ssize_t ret = read(some_ctx(f), comps, len);
	ssize_t i;

	for (i = 0; comps == f->comps && i < ret / (ssize_t)sizeof(*comps); i++)
		look_at(f, &comps[i]);
}

static void do_poll(struct fuzz *f)
{
	struct pollfd pfd = { some_ctx(f), POLLIN | POLLOUT, 0 };

	poll(&pfd, 1, below(f, 5));
}

static void do_map(struct fuzz *f)
{
	int i = below(f, NR_MAPS), prot = PROT_READ | PROT_WRITE;
	size_t len = (1 + below(f, 512)) * MAS_PAGE;
	off_t off;

	if (f->maps[i]) {
		munmap(f->maps[i], f->map_len[i]);
		f->maps[i] = NULL;
		return;
	}
	if (one_in(f, 10))
		prot = below(f, 8);
	off = mas_key(some_ctx(f), MXCD_MAS_KEY_HANDLE_MMAP, 0, some_id(f), 0);
	if (off < 0 || one_in(f, 8))
		off = interesting(f) & ~4095ULL;
	f->maps[i] = mmap(NULL, len, prot, one_in(f, 10) ? MAP_PRIVATE : MAP_SHARED,
			  some_ctx(f), off);
	f->map_len[i] = len;
	if (f->maps[i] == MAP_FAILED)
		f->maps[i] = NULL;
	else if (prot & PROT_WRITE)
		f->maps[i][below(f, len)] = 1;
}

static void do_abuse_map(struct fuzz *f)
{
	int i = below(f, NR_MAPS);
	char *map = f->maps[i];

	if (!map)
		return;
	switch (below(f, 4)) {
	case 0:
		madvise(map, f->map_len[i], below(f, 26));
		break;
	case 1:
		mprotect(map, MAS_PAGE, below(f, 8));
		break;
	case 2:
		/* The kernel has to refuse it as a buffer. */
		if (pread(f->targets[0], map, MAS_PAGE, 0) < 0)
			return;
		break;
	case 3:
		msync(map, f->map_len[i], MS_SYNC);
		break;
	}
}

static void do_fork(struct fuzz *f)
{
	pid_t child = fork();
	int i;

	if (!child) {
		set_alarms();
		for (i = 0; i < 3; i++)
			do_write(f);
		if (one_in(f, 2))
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

static void do_fdinfo(struct fuzz *f)
{
	char path[64], text[4096];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", some_ctx(f));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	while (read(fd, text, sizeof(text)) > 0)
		;
	close(fd);
}

/* One command through a ring of its own, which may be closed with it in flight. */
static void do_uring(struct fuzz *f)
{
	struct io_uring_params p = {};
	struct mxcd_mas_uring *cmd;
	struct io_uring_sqe *sqe;
	unsigned int *sq, nr, i;
	int ring = syscall(SYS_io_uring_setup, 4, &p);

	if (ring < 0)
		return;
	sq = mmap(NULL, MAS_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		  IORING_OFF_SQ_RING);
	sqe = mmap(NULL, 4 * sizeof(*sqe), PROT_READ | PROT_WRITE, MAP_SHARED, ring,
		   IORING_OFF_SQES);
	if (sq == MAP_FAILED || sqe == MAP_FAILED)
		goto out;
	nr = 1 + below(f, 4);
	for (i = 0; i < nr; i++) {
		f->reqs[i] = some_req(f);
		f->reqs[i].flags &= ~(MXCD_MAS_REQ_LINK | MXCD_MAS_REQ_DRAIN);
		memset(&sqe[i], 0, sizeof(*sqe));
		sqe[i].opcode = IORING_OP_URING_CMD;
		sqe[i].fd = some_ctx(f);
		sqe[i].cmd_op = one_in(f, 20) ? interesting(f) : MXCD_MAS_TRANSFER;
		cmd = (void *)sqe[i].cmd;
		cmd->req = mas_ptr(some_pointer(f, &f->reqs[i]));
		cmd->comp = mas_ptr(some_pointer(f, &f->comps[i]));
		sq[p.sq_off.array / 4 + i] = i;
	}
	__atomic_store_n(&sq[p.sq_off.tail / 4], nr, __ATOMIC_RELEASE);
	syscall(SYS_io_uring_enter, ring, nr, one_in(f, 3) ? 0 : nr,
		IORING_ENTER_GETEVENTS, NULL, 0);
out:
	if (sq != MAP_FAILED)
		munmap(sq, MAS_PAGE);
	if (sqe != MAP_FAILED)
		munmap(sqe, 4 * sizeof(*sqe));
	close(ring);
}

static void do_others(struct fuzz *f)
{
	int fd = some_ctx(f);
	struct mxcd_mas_eventfd arg = {
		.size = sizeof(arg), .fd = (int)below(f, 20) - 2,
	};

	switch (below(f, 5)) {
	case 0:
		fcntl(fd, F_SETFL, one_in(f, 2) ? O_NONBLOCK : 0);
		break;
	case 1:
		lseek(fd, below(f, 100), SEEK_SET);
		break;
	case 2:
		mas_ioctl(fd, MXCD_MAS_EVENTFD, &arg);
		break;
	case 3:
		mas_free(fd, some_id(f));
		break;
	case 4:
		mas_unregister(fd, some_id(f));
		break;
	}
}

static void step(struct fuzz *f)
{
	static void (* const steps[])(struct fuzz *f) = {
		do_open, do_transfer, do_transfer, do_transfer, do_alloc, do_alloc,
		do_register, do_register, do_any_ioctl, do_write, do_write, do_read,
		do_read, do_poll, do_map, do_map, do_abuse_map, do_fdinfo, do_uring,
		do_uring, do_others,
	};

	if (one_in(f, 200))
		do_restrict(f);
	else if (one_in(f, 100))
		do_fork(f);
	else
		steps[below(f, sizeof(steps) / sizeof(*steps))](f);
}

static void add_target(struct fuzz *f, int fd)
{
	if (fd >= 0 && f->nr_targets < NR_TARGETS)
		f->targets[f->nr_targets++] = fd;
}

static void open_targets(struct fuzz *f)
{
	int pipe_fd[2];

	add_target(f, open(getenv("MAS_NVME512"), O_RDWR | O_DIRECT | O_CLOEXEC));
	add_target(f, open(getenv("MAS_NVME4K"), O_RDWR | O_CLOEXEC));
	add_target(f, mas_temp("MAS_EXT4", 0));
	add_target(f, mas_temp("MAS_XFS", 0));
	add_target(f, mas_temp("MAS_TMPFS", O_APPEND));
	add_target(f, open("/", O_RDONLY | O_CLOEXEC));
	if (!pipe(pipe_fd))
		add_target(f, pipe_fd[0]);
}

static int work(__u64 seed, unsigned long steps, __u64 until, bool nobody)
{
	struct fuzz f = { .seed = seed };
	struct group *render = getgrnam("render");
	unsigned long i;

	open_targets(&f);
	if (nobody && (setgroups(0, NULL) || setgid(render ? render->gr_gid : NOBODY) ||
		       setuid(NOBODY)))
		return 2;
	for (i = 0; i < NR_CTX; i++)
		f.ctx[i] = mas_open(O_NONBLOCK);
	if (f.ctx[0] < 0) {
		printf("# cannot open the device: %s\n", strerror(-f.ctx[0]));
		fflush(stdout);
		return 2;
	}
	f.pages = mmap(NULL, 3 * MAS_PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mprotect(f.pages + 2 * MAS_PAGE, MAS_PAGE, PROT_NONE);
	f.reqs = calloc(NR_REQS, sizeof(*f.reqs));
	f.comps = calloc(NR_REQS, sizeof(*f.comps));
	f.segs = calloc(NR_SEGS, sizeof(*f.segs));
	set_alarms();
	for (i = 0; until ? mas_now_ms() < until : i < steps; i++)
		step(&f);
	printf("# seed %llu: %lu steps, %lu requests succeeded\n",
	       (unsigned long long)seed, i, f.done);
	fflush(stdout);
	_exit(f.wrong || !f.done);
}

static int run(__u64 seed, unsigned int workers, unsigned long steps,
	       unsigned int seconds, bool nobody)
{
	__u64 until = seconds ? mas_now_ms() + seconds * 1000ULL : 0;
	unsigned int i;
	int status, bad = 0;

	fflush(stdout);
	for (i = 0; i < workers; i++)
		if (!fork())
			_exit(work(seed + i, steps, until, nobody));
	while (wait(&status) > 0)
		bad |= status;
	return bad;
}

int main(int argc, char **argv)
{
	unsigned int workers = 4, seconds = 0, gpu;
	unsigned long steps = 3000;
	__s64 vram_free[2];
	bool nobody = false;
	__u64 seed;
	int opt, watch, bad;

	while ((opt = getopt(argc, argv, "n:t:w:u")) != -1) {
		if (opt == 'n')
			steps = strtoul(optarg, NULL, 0);
		else if (opt == 't')
			seconds = atoi(optarg);
		else if (opt == 'w')
			workers = atoi(optarg);
		else if (opt == 'u')
			nobody = true;
		else
			return 2;
	}
	(void)test_harness_run; /* comes with mas_utils.h, and there are no tests here */
	seed = mas_seed();
	watch = mas_open(0);
	for (gpu = 0; gpu < 2; gpu++)
		vram_free[gpu] = mas_vram_free(watch, gpu);
	bad = run(seed, workers, steps, seconds, nobody);
	for (gpu = 0; gpu < 2; gpu++) {
		if (mas_wait_vram(watch, gpu, vram_free[gpu]) == vram_free[gpu])
			continue;
		printf("# GPU %u: %lld bytes free of %lld\n", gpu,
		       (long long)mas_vram_free(watch, gpu), (long long)vram_free[gpu]);
		bad = 1;
	}
	return bad ? 1 : 0;
}
