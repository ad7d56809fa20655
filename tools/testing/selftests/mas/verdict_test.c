// SPDX-License-Identifier: GPL-2.0
/*
 * What verdicts depend on, and that files registered before a change see it: the
 * proof, with faults on request, and what the administrator says.
 */
#include "mas_target.h"
#include "mas_sysfs.h"

#include <linux/pci_regs.h>
#include <pthread.h>
#include <stdatomic.h>

#define CHUNK	65536

FIXTURE(verdict) {
	struct target t;
	struct mxcd_mas_query_file q;
	char bdf[32];
};

FIXTURE_VARIANT(verdict) {
	struct target_kind kind;
};

FIXTURE_VARIANT_ADD(verdict, raw512) {
	.kind = { .env = "MAS_NVME512", .raw = true, .dio = true },
};

FIXTURE_VARIANT_ADD(verdict, ext4) {
	.kind = { .env = "MAS_EXT4", .dio = true },
};

FIXTURE_VARIANT_ADD(verdict, xfs) {
	.kind = { .env = "MAS_XFS", .dio = true },
};

static int all_clear(void)
{
	int ret = mas_set_param("exclude", "");

	if (!ret)
		ret = mas_set_param("max_distance", "0");
	if (!ret)
		ret = mas_set_fault(0);
	return ret;
}

FIXTURE_SETUP(verdict)
{
	ASSERT_EQ(0, all_clear())
		TH_LOG("is this a build with CONFIG_MXCD_DEBUG?");
	target_setup(_metadata, &self->t, &variant->kind);
	target_put(_metadata, &self->t, 1024 * MAS_KIB);
	ASSERT_EQ(0, mas_query_file(self->t.mas, self->t.file, 0, self->t.gpu,
				    &self->q));
	snprintf(self->bdf, sizeof(self->bdf), "%04x:%02x:%02x.%x",
		 self->q.out_storage_domain, self->q.out_storage_bdf >> 8,
		 self->q.out_storage_bdf >> 3 & 31, self->q.out_storage_bdf & 7);
}

FIXTURE_TEARDOWN(verdict)
{
	EXPECT_EQ(0, all_clear());
	target_teardown(&self->t);
}

static void expect_verdict(struct __test_metadata *_metadata, struct target *t,
			   __u32 read, __u32 write)
{
	struct mxcd_mas_query_file q;

	ASSERT_EQ(0, mas_query_file(t->mas, t->file, 0, t->gpu, &q));
	EXPECT_EQ(read, q.out_reason_read);
	EXPECT_EQ(write, q.out_reason_write);
	EXPECT_EQ(read ? MXCD_MAS_ROUTE_BOUNCE : MXCD_MAS_ROUTE_P2P, q.out_route_read);
	EXPECT_EQ(write ? MXCD_MAS_ROUTE_BOUNCE : MXCD_MAS_ROUTE_P2P, q.out_route_write);
}

static void expect_went(struct __test_metadata *_metadata,
			const struct mxcd_mas_comp *comp, int reason)
{
	EXPECT_EQ(reason ? MXCD_MAS_ROUTE_BOUNCE : MXCD_MAS_ROUTE_P2P, comp->route);
	EXPECT_EQ(reason, comp->reason);
}

static void expect_link(struct __test_metadata *_metadata, const struct target *t,
			const struct mxcd_mas_query_file *q, const char *name,
			const char *want)
{
	char text[128];

	ASSERT_EQ(0, mas_link(t->gpu, q->out_storage_domain, q->out_storage_bdf, name,
			      text, sizeof(text)));
	EXPECT_STREQ(want, text);
}

TEST_F(verdict, query_names_the_controller_that_decides)
{
	expect_verdict(_metadata, &self->t, 0, 0);
	expect_link(_metadata, &self->t, &self->q, "driver", "nvme");
	expect_link(_metadata, &self->t, &self->q, "reason", "none");
}

TEST_F(verdict, registration_tells_the_verdict_and_who_decides)
{
	struct mxcd_mas_register reg = { .size = sizeof(reg), .fd = self->t.fd };

	ASSERT_EQ(0, mas_ioctl(self->t.mas, MXCD_MAS_REGISTER, &reg));
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, reg.out_route_read);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, reg.out_route_write);
	EXPECT_EQ(self->q.out_storage_domain, reg.out_storage_domain);
	EXPECT_EQ(self->q.out_storage_bdf, reg.out_storage_bdf);
	EXPECT_GT(2, reg.out_gpu);
	ASSERT_EQ(0, mas_set_fault(FAULT_READ));
	reg = (struct mxcd_mas_register){ .size = sizeof(reg), .fd = self->t.fd };
	ASSERT_EQ(0, mas_ioctl(self->t.mas, MXCD_MAS_REGISTER, &reg));
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, reg.out_route_read);
	EXPECT_EQ(MXCD_MAS_REASON_PROOF_FAILED, reg.out_reason_read);
	EXPECT_EQ(MXCD_MAS_ROUTE_P2P, reg.out_route_write);
}

TEST_F(verdict, registration_proves_reads)
{
	expect_link(_metadata, &self->t, &self->q, "proof_read", "passed");
	expect_link(_metadata, &self->t, &self->q, "proof_write", "none");
}

TEST_F(verdict, reads_that_are_lost_bounce_and_writes_do_not)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	comp = check_read(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
	ASSERT_EQ(0, mas_set_fault(FAULT_READ));
	comp = check_read(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_PROOF_FAILED);
	comp = check_write(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
	expect_verdict(_metadata, t, MXCD_MAS_REASON_PROOF_FAILED, 0);
	expect_link(_metadata, &self->t, &self->q, "proof_read", "failed");
	expect_link(_metadata, &self->t, &self->q, "proof_write", "passed");
	expect_link(_metadata, &self->t, &self->q, "route_read", "bounce");
	expect_link(_metadata, &self->t, &self->q, "route_write", "p2p");
	expect_link(_metadata, &self->t, &self->q, "reason", "proof failed");
	ASSERT_EQ(0, mas_set_fault(0));
	comp = check_read(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
}

TEST_F(verdict, writes_that_are_lost_are_written_again_and_reads_are_not_affected)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, mas_set_fault(FAULT_WRITE));
	expect_verdict(_metadata, t, 0, 0);
	comp = check_write(_metadata, t, 0, 8 * CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_PROOF_FAILED);
	comp = check_write(_metadata, t, CHUNK, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_PROOF_FAILED);
	comp = check_read(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
	expect_verdict(_metadata, t, 0, MXCD_MAS_REASON_PROOF_FAILED);
	expect_link(_metadata, &self->t, &self->q, "proof_write", "failed");
	expect_link(_metadata, &self->t, &self->q, "route_read", "p2p");
	expect_link(_metadata, &self->t, &self->q, "route_write", "bounce");
	ASSERT_EQ(0, mas_set_fault(0));
	comp = check_write(_metadata, t, 0, 8 * CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
}

/* Some controllers say so where they cannot read VRAM. */
TEST_F(verdict, writes_that_fail_p2p_alone_are_written_again)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, mas_set_fault(FAULT_REFUSE));
	comp = check_write(_metadata, t, 0, 8 * CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_PROOF_FAILED);
	expect_link(_metadata, t, &self->q, "proof_write", "failed");
	comp = check_write(_metadata, t, CHUNK, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_PROOF_FAILED);
	comp = check_read(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
	ASSERT_EQ(0, mas_set_fault(0));
	comp = check_write(_metadata, t, 0, 8 * CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
}

TEST_F(verdict, first_write_is_proved_on_the_way_and_goes_p2p)
{
	static const __u32 lens[] = { 4096, CHUNK, CHUNK + 4096, 8 * CHUNK };
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(lens); i++) {
		ASSERT_EQ(0, mas_set_fault(0));
		expect_link(_metadata, &self->t, &self->q, "proof_write", "none");
		comp = check_write(_metadata, t, 0, lens[i], GUARD,
				   MXCD_MAS_REQ_P2P_ONLY);
		expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
		expect_link(_metadata, &self->t, &self->q, "proof_write", "passed");
	}
}

TEST_F(verdict, lost_write_with_odd_ends_is_right)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, mas_set_fault(FAULT_WRITE));
	comp = check_write(_metadata, t, 1000, 4 * CHUNK + 77, GUARD + 1000, 0);
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE, comp.route);
	ASSERT_EQ(0, mas_set_fault(0));
	comp = check_write(_metadata, t, 1000, 4 * CHUNK + 77, GUARD + 1000, 0);
	EXPECT_EQ(MXCD_MAS_ROUTE_BOUNCE | MXCD_MAS_ROUTE_P2P, comp.route);
}

/* Write from the start of VRAM, and say what is known of writes now. */
static struct mxcd_mas_comp write_vram(struct __test_metadata *_metadata, struct target *t)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, t->file, t->base, CHUNK,
					 t->mem.handle, 0);
	struct mxcd_mas_comp comp = mas_by_ioctl(t->mas, &req);

	EXPECT_EQ(CHUNK, comp.result);
	return comp;
}

/* A controller that reads nothing may well read zeros, or ones. */
TEST_F(verdict, what_nothing_looks_like_proves_no_writes)
{
	static const unsigned char nothing[] = { 0, 0xff };
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(nothing); i++) {
		/* With this fault it reads zeros. */
		ASSERT_EQ(0, mas_set_fault(nothing[i] ? 0 : FAULT_WRITE));
		memset(t->vram, nothing[i], CHUNK);
		comp = write_vram(_metadata, t);
		expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
		expect_link(_metadata, t, &self->q, "proof_write", "none");
		ASSERT_TRUE(mas_pread(t->fd, t->buf, CHUNK, t->base));
		EXPECT_EQ(-1, mas_not_all(t->buf, CHUNK, nothing[i]));
	}
	ASSERT_EQ(0, mas_set_fault(FAULT_WRITE));
	t->vram[CHUNK - 1] = 1;
	comp = write_vram(_metadata, t);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_PROOF_FAILED);
	expect_link(_metadata, t, &self->q, "proof_write", "failed");
}

struct spoiler {
	pthread_t thread;
	struct target *t;
	int fd;
	void *buf;
	atomic_bool stop;
};

static void *rewrite_file(void *arg)
{
	struct spoiler *s = arg;

	while (!s->stop)
		if (pwrite(s->fd, s->buf, MAS_PAGE, s->t->base) != MAS_PAGE)
			break;
	return NULL;
}

static void *rewrite_vram(void *arg)
{
	struct spoiler *s = arg;

	while (!s->stop)
		__atomic_fetch_xor(s->t->vram, 0xff, __ATOMIC_RELAXED);
	return NULL;
}

/* Who spoils his own file or VRAM does not spoil p2p for all others. */
static void spoil(struct __test_metadata *_metadata, struct _test_data_verdict *self,
		  void *(*fn)(void *))
{
	struct target *t = &self->t;
	struct spoiler s = { .t = t };
	char state[16];
	int i;

	s.fd = mas_reopen(t->fd, O_RDWR | O_DIRECT);
	ASSERT_LE(0, s.fd);
	ASSERT_EQ(0, posix_memalign(&s.buf, MAS_PAGE, MAS_PAGE));
	memset(s.buf, 0x5a, MAS_PAGE);
	mas_fill(t->vram, CHUNK, 31);
	ASSERT_EQ(0, pthread_create(&s.thread, NULL, fn, &s));
	for (i = 0; i < 40; i++) {
		ASSERT_EQ(0, mas_set_fault(0));
		write_vram(_metadata, t);
		ASSERT_EQ(0, mas_link(t->gpu, self->q.out_storage_domain, self->q.out_storage_bdf,
				      "proof_write", state, sizeof(state)));
		ASSERT_STRNE("failed", state)
			TH_LOG("in round %d", i);
	}
	s.stop = true;
	pthread_join(s.thread, NULL);
	free(s.buf);
	close(s.fd);
	/* Of direct writes beside his cached ones it may tell, once. */
	fsync(t->fd);
}

TEST_F(verdict, one_who_rewrites_a_file_fails_no_proof)
{
	spoil(_metadata, self, rewrite_file);
}

TEST_F(verdict, one_who_rewrites_vram_fails_no_proof)
{
	spoil(_metadata, self, rewrite_vram);
}

/* More at a time than can be judged: of those that cannot be, none fails. */
TEST_F(verdict, writes_that_are_refused_together_all_bounce)
{
	struct mxcd_mas_comp comps[32] = {};
	struct mxcd_mas_req reqs[32];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = 32, .min_nr = 32,
	};
	struct target *t = &self->t;
	const __u64 len = SPAN / 32;
	unsigned int i;

	mas_fill(t->vram, SPAN, 53);
	for (i = 0; i < 32; i++)
		reqs[i] = mas_rw(MXCD_MAS_OP_WRITE, t->file, t->base + i * len, len,
				 t->mem.handle, i * len);
	ASSERT_EQ(0, mas_set_fault(FAULT_REFUSE));
	ASSERT_EQ(0, mas_ioctl(t->mas, MXCD_MAS_TRANSFER, &arg));
	for (i = 0; i < 32; i++) {
		EXPECT_EQ(len, comps[i].result)
			TH_LOG("request %u", i);
	}
	expect_link(_metadata, t, &self->q, "proof_write", "failed");
	ASSERT_TRUE(mas_pread(t->fd, t->buf, SPAN, t->base));
	EXPECT_EQ(-1, mas_diff(t->vram, t->buf, SPAN));
}

/* The GPU answers to the addresses of its BARs, or no more; nobody is told. */
static void gpu_decodes(struct __test_metadata *_metadata, struct target *t, bool on)
{
	struct mxcd_mas_query_gpu q;
	char path[128];
	__u16 command;
	int fd;

	ASSERT_EQ(0, mas_query_gpu(t->mas, t->gpu, &q));
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/config",
		 q.out_domain, q.out_bdf >> 8, q.out_bdf >> 3 & 31, q.out_bdf & 7);
	fd = open(path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	ASSERT_EQ(2, pread(fd, &command, 2, PCI_COMMAND));
	command = on ? command | PCI_COMMAND_MEMORY : command & ~PCI_COMMAND_MEMORY;
	ASSERT_EQ(2, pwrite(fd, &command, 2, PCI_COMMAND));
	close(fd);
}

/* As in the time between a PCI error and its report. */
TEST_F(verdict, gpu_that_does_not_answer_proves_nothing)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;

	ASSERT_EQ(0, mas_set_fault(0));
	gpu_decodes(_metadata, t, false);
	req = mas_rw(MXCD_MAS_OP_READ, t->file, t->base, CHUNK, t->mem.handle, 0);
	comp = mas_by_ioctl(t->mas, &req);
	EXPECT_EQ(MXCD_MAS_REASON_NOT_PROVED, comp.reason);
	expect_link(_metadata, t, &self->q, "proof_read", "none");
	/* What is written is what a BAR reads as that nobody answers for. */
	req.op = MXCD_MAS_OP_WRITE;
	mas_by_ioctl(t->mas, &req);
	expect_link(_metadata, t, &self->q, "proof_write", "none");
	gpu_decodes(_metadata, t, true);
	target_put(_metadata, t, 2 * CHUNK);
	comp = check_read(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
	comp = check_write(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
}

/* The first such write of a way: fresh bytes to a file that holds others. */
static struct mxcd_mas_comp write_p2p_only(struct __test_metadata *_metadata,
					   struct target *t, __u32 len, unsigned int fault)
{
	struct mxcd_mas_req req = mas_rw(MXCD_MAS_OP_WRITE, t->file, t->base, len,
					 t->mem.handle, 0);

	target_put(_metadata, t, len);
	mas_fill(t->vram, len, 59);
	ASSERT_EQ(0, mas_set_fault(fault));
	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	return mas_by_ioctl(t->mas, &req);
}

/* But for the first block, which is written from host memory to find who is to blame. */
TEST_F(verdict, p2p_only_write_that_is_refused_does_not_bounce)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	comp = write_p2p_only(_metadata, t, 2 * CHUNK, FAULT_REFUSE);
	EXPECT_EQ(-EXDEV, comp.result);
	EXPECT_EQ(MXCD_MAS_REASON_PROOF_FAILED, comp.reason);
	EXPECT_EQ(0, comp.route);
	expect_link(_metadata, t, &self->q, "proof_write", "failed");
	check_file(_metadata, t, MAS_PAGE, 2 * CHUNK);
}

/* Nor does the rest of one that is lost. */
TEST_F(verdict, p2p_only_write_that_is_lost_ends_where_it_is_mended)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;

	comp = write_p2p_only(_metadata, t, 8 * CHUNK, FAULT_WRITE);
	EXPECT_EQ(CHUNK, comp.result);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_PROOF_FAILED);
	memcpy(t->model, t->vram, CHUNK);
	check_file(_metadata, t, 0, 8 * CHUNK);

	req = mas_rw(MXCD_MAS_OP_WRITE, t->file, t->base, CHUNK, t->mem.handle, CHUNK);
	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	EXPECT_EQ(-EXDEV, mas_by_ioctl(t->mas, &req).result);
	check_file(_metadata, t, 0, 8 * CHUNK);
}

/* Empty, new, and open for writing alone: there is nothing to try reads on. */
TEST_F(verdict, write_only_file_is_covered)
{
	static const unsigned int faults[] = { FAULT_WRITE, 0, FAULT_READ };
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	unsigned int i;
	int fd, file;

	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		ASSERT_EQ(0, mas_set_fault(faults[i]));
		if (!t->kind.raw)
			ASSERT_EQ(0, ftruncate(t->fd, 0));
		fd = mas_reopen(t->fd, O_WRONLY);
		ASSERT_LE(0, fd);
		file = mas_register(t->mas, fd);
		ASSERT_LT(0, file);
		mas_fill(t->vram, 2 * CHUNK, 77 + i);
		req = mas_rw(MXCD_MAS_OP_WRITE, file, t->base, 2 * CHUNK,
			     t->mem.handle, 0);
		comp = mas_by_ioctl(t->mas, &req);
		EXPECT_EQ(2 * CHUNK, comp.result);
		expect_went(_metadata, &comp, faults[i] & FAULT_WRITE ?
			    MXCD_MAS_REASON_PROOF_FAILED : MXCD_MAS_REASON_NONE);
		ASSERT_TRUE(mas_pread(t->fd, t->buf, 2 * CHUNK, t->base));
		EXPECT_EQ(-1, mas_diff(t->vram, t->buf, 2 * CHUNK));
		EXPECT_EQ(0, mas_unregister(t->mas, file));
		close(fd);
	}
}

/* What was written cannot be read back before he lets go of it, in 45 seconds. */
TEST_F(verdict, write_to_a_file_with_a_lease_waits_for_nobody)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int fd, file, rw;
	__u64 then;

	if (t->kind.raw)
		SKIP(return, "disks have no leases");
	ASSERT_EQ(0, mas_set_fault(0));
	rw = mas_temp(t->kind.env, 0);
	ASSERT_LE(0, rw);
	fd = mas_reopen(rw, O_WRONLY);
	ASSERT_LE(0, fd);
	close(rw);
	signal(SIGIO, SIG_IGN);
	ASSERT_EQ(0, fcntl(fd, F_SETLEASE, F_WRLCK));
	file = mas_register(t->mas, fd);
	ASSERT_LT(0, file);

	mas_fill(t->vram, 2 * CHUNK, 91);
	req = mas_rw(MXCD_MAS_OP_WRITE, file, 0, 2 * CHUNK, t->mem.handle, 0);
	then = mas_now_ms();
	comp = mas_by_ioctl(t->mas, &req);
	EXPECT_GT(20000, mas_now_ms() - then);
	EXPECT_EQ(2 * CHUNK, comp.result);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_NOT_PROVED);
	expect_link(_metadata, t, &self->q, "proof_write", "none");
	req.flags = MXCD_MAS_REQ_P2P_ONLY;
	comp = mas_by_ioctl(t->mas, &req);
	EXPECT_EQ(-EXDEV, comp.result);
	EXPECT_EQ(MXCD_MAS_REASON_NOT_PROVED, comp.reason);

	ASSERT_EQ(0, fcntl(fd, F_SETLEASE, F_UNLCK));
	rw = mas_reopen(fd, O_RDONLY);
	ASSERT_TRUE(mas_pread(rw, t->buf, 2 * CHUNK, 0));
	EXPECT_EQ(-1, mas_diff(t->vram, t->buf, 2 * CHUNK));
	EXPECT_EQ(0, mas_unregister(t->mas, file));
	close(rw);
	close(fd);
}

TEST_F(verdict, p2p_only_is_refused_where_the_proof_failed)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;

	ASSERT_EQ(0, mas_set_fault(FAULT_READ));
	comp = target_run(_metadata, t, MXCD_MAS_OP_READ, 0, CHUNK, GUARD,
			  MXCD_MAS_REQ_P2P_ONLY);
	EXPECT_EQ(-EXDEV, comp.result);
	EXPECT_EQ(MXCD_MAS_REASON_PROOF_FAILED, comp.reason);
}

/* The proof waits for a disk, so a work item takes over. */
TEST_F(verdict, submission_that_may_not_wait_is_proved_too)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int op;

	ASSERT_EQ(0, fcntl(t->mas, F_SETFL, O_RDWR | O_NONBLOCK));
	for (op = MXCD_MAS_OP_READ; op <= MXCD_MAS_OP_WRITE; op++) {
		ASSERT_EQ(0, mas_set_fault(0));
		req = mas_rw(op, t->file, t->base, CHUNK, t->mem.handle, 0);
		req.flags = MXCD_MAS_REQ_P2P_ONLY;
		comp = mas_by_write(t->mas, &req);
		EXPECT_EQ(CHUNK, comp.result);
		expect_went(_metadata, &comp, MXCD_MAS_REASON_NONE);
		ASSERT_EQ(0, mas_set_fault(FAULT_READ | FAULT_WRITE));
		req.flags = 0;
		comp = mas_by_write(t->mas, &req);
		EXPECT_EQ(CHUNK, comp.result);
		expect_went(_metadata, &comp, MXCD_MAS_REASON_PROOF_FAILED);
	}
	ASSERT_TRUE(mas_pread(t->fd, t->buf, CHUNK, t->base));
	EXPECT_EQ(-1, mas_diff(t->vram, t->buf, CHUNK));
}

TEST_F(verdict, excluded_controller_bounces_until_it_is_not)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	char list[128];

	snprintf(list, sizeof(list), "0000:fe:1f.7,%s", self->bdf);
	ASSERT_EQ(0, mas_set_param("exclude", list));
	expect_verdict(_metadata, t, MXCD_MAS_REASON_EXCLUDED, MXCD_MAS_REASON_EXCLUDED);
	expect_link(_metadata, &self->t, &self->q, "reason", "excluded by the administrator");
	comp = check_read(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_EXCLUDED);
	comp = check_write(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_EXCLUDED);
	ASSERT_EQ(0, mas_set_param("exclude", "0000:fe:1f.7"));
	expect_verdict(_metadata, t, 0, 0);
}

TEST_F(verdict, controller_beyond_the_maximum_distance_bounces)
{
	struct target *t = &self->t;
	struct mxcd_mas_comp comp;
	char text[128];
	int steps;

	ASSERT_EQ(0, mas_link(t->gpu, self->q.out_storage_domain, self->q.out_storage_bdf,
			      "distance", text, sizeof(text)));
	steps = atoi(text);
	ASSERT_LT(1, steps);
	snprintf(text, sizeof(text), "%d", steps);
	ASSERT_EQ(0, mas_set_param("max_distance", text));
	expect_verdict(_metadata, t, 0, 0);
	snprintf(text, sizeof(text), "%d", steps - 1);
	ASSERT_EQ(0, mas_set_param("max_distance", text));
	expect_verdict(_metadata, t, MXCD_MAS_REASON_DISTANCE, MXCD_MAS_REASON_DISTANCE);
	comp = check_read(_metadata, t, 0, CHUNK, GUARD, 0);
	expect_went(_metadata, &comp, MXCD_MAS_REASON_DISTANCE);
}

struct flipper {
	struct target *t;
	atomic_int stop;
	int bad;
};

static void *flip_faults(void *arg)
{
	struct flipper *flip = arg;
	unsigned int fault = 0;

	while (!flip->stop) {
		if (mas_set_fault(fault++ % 4))
			flip->bad++;
		mas_sleep_ms(7);
	}
	return NULL;
}

/* Whatever the verdict is at the moment, no byte is wrong. */
TEST_F(verdict, transfers_are_right_while_verdicts_change)
{
	struct flipper flip = { .t = &self->t };
	__u64 end = mas_now_ms() + 3000;
	struct target *t = &self->t;
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, flip_faults, &flip));
	while (mas_now_ms() < end) {
		check_write(_metadata, t, 4096, CHUNK, GUARD, 0);
		check_read(_metadata, t, 0, 2 * CHUNK, GUARD, 0);
	}
	flip.stop = 1;
	pthread_join(thread, NULL);
	EXPECT_EQ(0, flip.bad);
}

TEST(lists_take_names_only)
{
	char text[64];

	EXPECT_EQ(-EINVAL, mas_set_param("exclude", "nvme0"));
	EXPECT_EQ(-EINVAL, mas_set_param("exclude", "0000:00:04.0,"));
	EXPECT_EQ(-EINVAL, mas_set_param("exclude", "00:04.0"));
	EXPECT_EQ(-EINVAL, mas_set_param("exclude", "0000:00:04.0 0000:00:05.0"));
	EXPECT_EQ(-EINVAL, mas_set_param("dm_p2p", "dm-"));
	EXPECT_EQ(-EINVAL, mas_set_param("dm_p2p", "sda"));
	EXPECT_EQ(0, mas_set_param("exclude", " 0000:00:04.0,10000:e1:00.7\n"));
	EXPECT_EQ(0, mas_get_text(MAS_PARAMETERS "/exclude", text, sizeof(text)));
	EXPECT_STREQ("0000:00:04.0,10000:e1:00.7", text);
	EXPECT_EQ(0, mas_set_param("exclude", ""));
	EXPECT_EQ(0, mas_set_param("dm_p2p", "dm-0,dm-12"));
	EXPECT_EQ(0, mas_set_param("dm_p2p", "\n"));
}

TEST_HARNESS_MAIN
