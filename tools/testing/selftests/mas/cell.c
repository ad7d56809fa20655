// SPDX-License-Identifier: GPL-2.0
/*
 * One line about a file and a GPU: what the verdict promises, and what became of a
 * transfer each way.
 *
 *	cell [-g GPU] [-o OFFSET] [-l LENGTH] [-r] [-t SECONDS] [-k] FILE
 *
 * LENGTH bytes at OFFSET are read to VRAM, and other bytes are written from VRAM
 * right behind them (unless -r), all compared with what read(2) and write(2) see.
 * With -t that is done over and over; "odd" counts what was not right. -k keeps both
 * in VRAM until the program is killed, for who sees VRAM from outside.
 */
#define MAS_NO_HARNESS
#include "mas_utils.h"
#include "mas_sysfs.h"

struct cell {
	int mas;
	int fd;
	int gpu;
	__u64 off;
	__u64 len;
	bool read_only;
	bool quiet;
	unsigned int odd;
	struct mxcd_mas_register reg;
	struct mxcd_mas_query_file q;
	struct mxcd_mas_alloc mem;
	unsigned char *vram;
	unsigned char *buf;
};

static const char *route_name(unsigned int route)
{
	static const char * const names[] = { "nothing", "p2p", "bounce", "both" };

	return route < ARRAY_SIZE(names) ? names[route] : "?";
}

static int fail(const char *what, int error)
{
	printf("failed: %s: %s\n", what, strerrorname_np(error));
	return 1;
}

static struct mxcd_mas_comp run(struct cell *c, int op, __u64 off, __u64 mem)
{
	struct mxcd_mas_req req = mas_rw(op, c->reg.file, off, c->len, c->mem.handle, mem);

	return mas_by_ioctl(c->mas, &req);
}

static void say(struct cell *c, const char *what, const struct mxcd_mas_comp *comp,
		__s64 want, long diff, int promised)
{
	char data[48] = "ok";

	c->odd += comp->result != want || diff >= 0;
	if (c->quiet)
		return;
	if (comp->result < 0)
		snprintf(data, sizeof(data), "error:%s", strerrorname_np(-comp->result));
	else if (comp->result != want)
		snprintf(data, sizeof(data), "short:%lld", (long long)comp->result);
	else if (diff >= 0)
		snprintf(data, sizeof(data), "wrong@%ld", diff);
	printf(" %s=%s/%s/%s/%s", what, mas_reason_name(promised), route_name(comp->route),
	       mas_reason_name(comp->reason), data);
}

static void try_read(struct cell *c)
{
	struct mxcd_mas_comp comp;
	ssize_t want;

	/* Before: who reads through the page cache first changes what is seen. */
	memset(c->vram, 0x3c, c->len);
	comp = run(c, MXCD_MAS_OP_READ, c->off, 0);
	want = pread(c->fd, c->buf, c->len, c->off);
	say(c, "read", &comp, want, mas_diff(c->buf, c->vram, want < 0 ? 0 : want),
	    c->q.out_reason_read);
}

static void try_write(struct cell *c)
{
	struct mxcd_mas_comp comp;

	mas_fill(c->vram + c->len, c->len, c->off + c->gpu + 1);
	comp = run(c, MXCD_MAS_OP_WRITE, c->off + c->len, c->len);
	fsync(c->fd);
	posix_fadvise(c->fd, 0, 0, POSIX_FADV_DONTNEED);
	if (pread(c->fd, c->buf, c->len, c->off + c->len) != (ssize_t)c->len)
		memset(c->buf, 0, c->len);
	say(c, "write", &comp, c->len, mas_diff(c->buf, c->vram + c->len, c->len),
	    c->q.out_reason_write);
}

static void transfer(struct cell *c)
{
	try_read(c);
	if (!c->read_only)
		try_write(c);
}

static void again(struct cell *c, int seconds)
{
	__u64 end = mas_now_ms() + seconds * 1000;

	c->quiet = true;
	while (mas_now_ms() < end)
		transfer(c);
}

static int prepare(struct cell *c, const char *path)
{
	int ret;

	c->mas = mas_open(0);
	if (c->mas < 0)
		return fail(MAS_DEV, -c->mas);
	c->fd = open(path, c->read_only ? O_RDONLY : O_RDWR);
	if (c->fd < 0)
		return fail(path, errno);
	c->reg = (struct mxcd_mas_register){ .size = sizeof(c->reg), .fd = c->fd };
	ret = mas_ioctl(c->mas, MXCD_MAS_REGISTER, &c->reg);
	if (ret)
		return fail("REGISTER", -ret);
	ret = mas_query_file(c->mas, c->reg.file, 0, c->gpu, &c->q);
	if (ret)
		return fail("QUERY_FILE", -ret);
	ret = mas_alloc(c->mas, c->gpu, c->read_only ? c->len : 2 * c->len, &c->mem);
	if (ret)
		return fail("ALLOC", -ret);
	c->vram = mas_map(c->mas, &c->mem);
	c->buf = malloc(c->len);
	if (c->vram == MAP_FAILED || !c->buf)
		return fail("memory", ENOMEM);
	return 0;
}

int main(int argc, char **argv)
{
	struct cell c = { .len = 256 * MAS_KIB };
	int opt, seconds = 0;
	bool keep = false;

	while ((opt = getopt(argc, argv, "g:o:l:rt:k")) != -1) {
		switch (opt) {
		case 'g':
			c.gpu = atoi(optarg);
			break;
		case 'o':
			c.off = strtoull(optarg, NULL, 0);
			break;
		case 'l':
			c.len = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			c.read_only = true;
			break;
		case 'k':
			keep = true;
			break;
		case 't':
			seconds = atoi(optarg);
			break;
		default:
			return 2;
		}
	}
	if (optind + 1 != argc)
		return 2;
	if (prepare(&c, argv[optind]))
		return 1;

	printf("gpu=%d", c.gpu);
	if (c.q.out_storage_domain == MXCD_MAS_NO_STORAGE)
		printf(" by=-");
	else
		printf(" by=%04x:%02x:%02x.%x", c.q.out_storage_domain,
		       c.q.out_storage_bdf >> 8, c.q.out_storage_bdf >> 3 & 31,
		       c.q.out_storage_bdf & 7);
	transfer(&c);
	if (seconds) {
		again(&c, seconds);
		printf(" odd=%u", c.odd);
	}
	putchar('\n');
	fflush(stdout);
	if (keep)
		pause();
	return 0;
}
