// SPDX-License-Identifier: GPL-2.0
/*
 * VRAM as a dma-buf: shared by processes, attached to by another driver, revoked when
 * the GPU goes.
 */
#include "mas_host.h"

#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <signal.h>
#include <sys/socket.h>

#define LEN	(2U * MAS_MIB)
#define IMPORTER "modules/mas_importer.ko"

static int buf_export(int fd, __u32 handle, __u64 offset, __u64 length)
{
	struct mxcd_mas_export arg = {
		.size = sizeof(arg), .handle = handle, .offset = offset, .length = length,
	};
	int ret = mas_ioctl(fd, MXCD_MAS_EXPORT, &arg);

	return ret ? ret : arg.out_fd;
}

static int buf_import(int fd, int buf, struct mxcd_mas_import *arg)
{
	memset(arg, 0, sizeof(*arg));
	arg->size = sizeof(*arg);
	arg->fd = buf;
	return mas_ioctl(fd, MXCD_MAS_IMPORT, arg);
}

FIXTURE(dmabuf) {
	int fd;
	int gpu;
	int disk;
	__s64 vram_free;
	struct mxcd_mas_alloc mem;
	char *map;
	char *model;
};

FIXTURE_SETUP(dmabuf)
{
	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->gpu = mas_big_gpu(self->fd);
	self->vram_free = mas_vram_free(self->fd, self->gpu);
	self->disk = open(getenv("MAS_NVME4K"), O_RDWR | O_DIRECT | O_CLOEXEC);
	ASSERT_LE(0, self->disk);
	self->model = aligned_alloc(MAS_PAGE, LEN);
	mas_fill(self->model, LEN, mas_seed());
	ASSERT_EQ(0, mas_alloc(self->fd, self->gpu, LEN, &self->mem));
	self->map = mas_map(self->fd, &self->mem);
	ASSERT_NE(MAP_FAILED, (void *)self->map);
	memcpy(self->map, self->model, LEN);
}

FIXTURE_TEARDOWN(dmabuf)
{
	munmap(self->map, LEN);
	close(self->disk);
	close(self->fd);
}

TEST_F(dmabuf, range_that_is_none_is_refused)
{
	const struct {
		__u64 offset, length;
	} bad[] = {
		{ 0, 0 }, { 1, MAS_PAGE }, { 0, MAS_PAGE + 1 }, { LEN, MAS_PAGE },
		{ 0, LEN + MAS_PAGE }, { ~0ULL - MAS_PAGE + 1, MAS_PAGE },
		{ MAS_PAGE, ~0ULL - MAS_PAGE + 1 },
	};
	struct mxcd_mas_import arg;
	unsigned int i;
	int memfd;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		EXPECT_EQ(-EINVAL, buf_export(self->fd, self->mem.handle, bad[i].offset,
					      bad[i].length))
			TH_LOG("row %u", i);
	EXPECT_EQ(-ENOENT, buf_export(self->fd, self->mem.handle + 1, 0, MAS_PAGE));
	EXPECT_EQ(-EBADF, buf_import(self->fd, 12345, &arg));
	memfd = memfd_create("none", 0);
	EXPECT_EQ(-EINVAL, buf_import(self->fd, memfd, &arg));
	EXPECT_EQ(-EINVAL, buf_import(self->fd, self->fd, &arg));
	close(memfd);
}

TEST_F(dmabuf, buffer_of_another_driver_is_refused)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = LEN };
	int dev, memfd, buf;
	struct mxcd_mas_import arg;

	if (mas_shell("modprobe -q udmabuf"))
		printf("# udmabuf is no module\n");
	dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		SKIP(return, "this kernel has no udmabuf");
	memfd = memfd_create("buffer", MFD_ALLOW_SEALING);
	ASSERT_EQ(0, ftruncate(memfd, LEN));
	ASSERT_EQ(0, fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	create.memfd = memfd;
	buf = ioctl(dev, UDMABUF_CREATE, &create);
	ASSERT_LE(0, buf);
	EXPECT_EQ(-EOPNOTSUPP, buf_import(self->fd, buf, &arg));
	close(buf);
	close(memfd);
	close(dev);
}

TEST_F(dmabuf, range_is_mapped_and_imported_as_it_lies_in_the_handle)
{
	const __u64 offset = 64 * MAS_KIB + MAS_PAGE, len = 3 * MAS_PAGE;
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_RW };
	struct mxcd_mas_import arg;
	char *map, *again;
	int buf;

	buf = buf_export(self->fd, self->mem.handle, offset, len);
	ASSERT_LE(0, buf);
	EXPECT_EQ(len, lseek(buf, 0, SEEK_END));
	EXPECT_EQ(FD_CLOEXEC, fcntl(buf, F_GETFD));
	map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, buf, 0);
	ASSERT_NE(MAP_FAILED, (void *)map);
	EXPECT_EQ(0, ioctl(buf, DMA_BUF_IOCTL_SYNC, &sync));
	EXPECT_EQ(-1, mas_diff(self->model + offset, map, len));
	map[len - 1] ^= 0x55;
	sync.flags |= DMA_BUF_SYNC_END;
	EXPECT_EQ(0, ioctl(buf, DMA_BUF_IOCTL_SYNC, &sync));
	EXPECT_EQ(map[len - 1], self->map[offset + len - 1]);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, len + MAS_PAGE, PROT_READ, MAP_SHARED, buf, 0));
	EXPECT_EQ(0, mas_shell("grep -q mxcd /sys/kernel/debug/dma_buf/bufinfo"));

	ASSERT_EQ(0, buf_import(self->fd, buf, &arg));
	EXPECT_EQ(len, arg.out_length);
	EXPECT_EQ(self->gpu, (int)arg.out_gpu);
	EXPECT_EQ(1, arg.out_extents);
	again = mmap(NULL, len, PROT_READ, MAP_SHARED, self->fd, arg.out_mmap_offset);
	ASSERT_NE(MAP_FAILED, (void *)again);
	EXPECT_EQ(-1, mas_diff(map, again, len));
	/* What is left of it keeps all of it. */
	EXPECT_EQ(0, mas_free(self->fd, self->mem.handle));
	EXPECT_EQ(0, mas_free(self->fd, arg.handle));
	munmap(self->map, LEN);
	munmap(again, len);
	close(buf);
	EXPECT_EQ(self->vram_free - LEN, mas_vram_free(self->fd, self->gpu));
	munmap(map, len);
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, self->gpu, self->vram_free));
}

TEST_F(dmabuf, imported_memory_counts_for_who_has_it)
{
	struct mxcd_mas_restrict limit;
	struct mxcd_mas_import arg;
	int buf, other = mas_open(0);

	buf = buf_export(self->fd, self->mem.handle, 0, LEN);
	ASSERT_LE(0, buf);
	mas_no_limits(&limit);
	limit.max_vram = LEN;
	ASSERT_EQ(0, mas_ioctl(other, MXCD_MAS_RESTRICT, &limit));
	EXPECT_EQ(0, buf_import(other, buf, &arg));
	EXPECT_EQ(-EDQUOT, buf_import(other, buf, &arg));
	limit.ops = ~(1ULL << MXCD_MAS_OP_IMPORT);
	ASSERT_EQ(0, mas_ioctl(other, MXCD_MAS_RESTRICT, &limit));
	EXPECT_EQ(-EPERM, buf_import(other, buf, &arg));
	close(buf);
	close(other);
}

static void send_fd(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = {}, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	sendmsg(sock, &msg, 0);
}

static int receive_fd(int sock)
{
	char control[CMSG_SPACE(sizeof(int))] = {}, byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control, .msg_controllen = sizeof(control),
	};
	int fd = -1;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&msg))
		memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	return fd;
}

/* A loader: reads a file into VRAM, hands it on and is gone. */
static void loader(int sock, int disk, int gpu)
{
	struct mxcd_mas_alloc mem;
	struct mxcd_mas_req req;
	int fd = mas_open(0), file = mas_register(fd, disk);

	if (mas_alloc(fd, gpu, LEN, &mem))
		_exit(1);
	req = mas_rw(MXCD_MAS_OP_READ, file, 0, LEN, mem.handle, 0);
	if (mas_by_ioctl(fd, &req).result != LEN)
		_exit(2);
	send_fd(sock, buf_export(fd, mem.handle, 0, LEN));
	raise(SIGKILL);
}

TEST_F(dmabuf, memory_goes_on_when_its_exporter_has_died)
{
	struct mxcd_mas_import arg;
	struct mxcd_mas_comp comp;
	struct mxcd_mas_req req;
	int sock[2], buf, status, file;
	__u64 round;
	char *back;
	pid_t child;

	ASSERT_TRUE(mas_pwrite(self->disk, self->model, LEN, 0));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sock));
	child = fork();
	ASSERT_LE(0, child);
	if (!child)
		loader(sock[1], self->disk, self->gpu);
	buf = receive_fd(sock[0]);
	ASSERT_LE(0, buf);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	ASSERT_TRUE(WIFSIGNALED(status));

	ASSERT_EQ(0, buf_import(self->fd, buf, &arg));
	close(buf);
	ASSERT_EQ(LEN, arg.out_length);
	file = mas_register(self->fd, self->disk);
	ASSERT_LT(0, file);
	back = aligned_alloc(MAS_PAGE, LEN);
	for (round = 1; round <= 4; round++) {
		req = mas_rw(MXCD_MAS_OP_WRITE, file, round * LEN, LEN, arg.handle, 0);
		comp = mas_by_ioctl(self->fd, &req);
		ASSERT_EQ(LEN, comp.result);
		EXPECT_EQ(MXCD_MAS_ROUTE_P2P, comp.route);
		ASSERT_TRUE(mas_pread(self->disk, back, LEN, round * LEN));
		EXPECT_EQ(-1, mas_diff(self->model, back, LEN));
	}
	req = mas_rw(MXCD_MAS_OP_READ, file, LEN + 512, LEN - 1000, arg.handle, 77);
	EXPECT_EQ(LEN - 1000, mas_by_ioctl(self->fd, &req).result);
	EXPECT_EQ(self->vram_free - 2 * (__s64)LEN, mas_vram_free(self->fd, self->gpu));
	EXPECT_EQ(0, mas_free(self->fd, arg.handle));
	EXPECT_EQ(self->vram_free - LEN,
		  mas_wait_vram(self->fd, self->gpu, self->vram_free - LEN));
}

static void bdf_of(const struct mxcd_mas_query_gpu *gpu, char bdf[24])
{
	snprintf(bdf, 24, "%04x:%02x:%02x.%x", gpu->out_domain, gpu->out_bdf >> 8,
		 gpu->out_bdf >> 3 & 31, gpu->out_bdf & 7);
}

/* What is left of a handle, and of a buffer, is told at once and not when it is used. */
TEST_F(dmabuf, gpu_that_lost_its_memory_is_ENODEV)
{
	struct mxcd_mas_query_gpu gpu;
	struct mxcd_mas_import arg;
	char bdf[24];
	int buf;

	ASSERT_EQ(0, mas_query_gpu(self->fd, self->gpu, &gpu));
	bdf_of(&gpu, bdf);
	buf = buf_export(self->fd, self->mem.handle, 0, LEN);
	ASSERT_LE(0, buf);
	/* Not each machine has what a reset takes. */
	if (mas_shell("echo 1 >/sys/bus/pci/devices/%s/reset", bdf))
		ASSERT_EQ(0, mas_shell("mas_unbind %s && mas_bind %s", bdf, bdf));
	EXPECT_EQ(-ENODEV, buf_export(self->fd, self->mem.handle, 0, LEN));
	EXPECT_EQ(-ENODEV, buf_import(self->fd, buf, &arg));
	close(buf);
}

/* First line of what the importer says; @bytes: what lies within VRAM. */
static void importer_state(int importer, char state[16], __u64 from, __u64 to, __u64 *bytes)
{
	char text[4096] = "", *line;
	unsigned long long at;
	unsigned int len;

	*bytes = 0;
	state[0] = 0;
	if (pread(importer, text, sizeof(text) - 1, 0) <= 0 || sscanf(text, "%15s", state) != 1)
		return;
	for (line = strchr(text, '\n'); line; line = strchr(line + 1, '\n'))
		if (sscanf(line + 1, "%llx %x", &at, &len) == 2 && at >= from && at + len <= to)
			*bytes += len;
}

static int bar_of(const char *bdf, __u64 *from, __u64 *to)
{
	char command[256];
	unsigned long long lo = 0, hi = 0;
	FILE *f;

	snprintf(command, sizeof(command),
		 "bash -c '. ./guest-lib.sh; mas_vram_bar %s'", bdf);
	f = popen(command, "r");
	if (!f)
		return -errno;
	if (fscanf(f, "%llu %llu", &lo, &hi) != 2)
		lo = 0;
	pclose(f);
	*from = lo;
	*to = hi + 1;
	return lo ? 0 : -ENODEV;
}

/* For the NVMe controller, in whose name the importer asks for addresses. */
static int attach_text(struct _test_data_dmabuf *self, int buf, int gpu, char text[64])
{
	struct mxcd_mas_query_file verdict;
	int file = mas_register(self->fd, self->disk);

	if (file < 0 || mas_query_file(self->fd, file, 0, gpu, &verdict))
		return -EIO;
	return snprintf(text, 64, "%d %04x:%02x:%02x.%x", buf, verdict.out_storage_domain,
			verdict.out_storage_bdf >> 8, verdict.out_storage_bdf >> 3 & 31,
			verdict.out_storage_bdf & 7);
}

/* Whoever has the VRAM; seam_test.sh runs it with another driver's. */
TEST_F(dmabuf, other_driver_is_given_addresses_within_each_gpu)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct mxcd_mas_query_gpu gpu;
	struct mxcd_mas_alloc mem;
	int buf, importer, i, nr = 0;
	char bdf[24], text[64], state[16];
	__u64 from = 0, to = 0, bytes;

	if (access(IMPORTER, F_OK))
		SKIP(return, "built without CONFIG_MXCD_DEBUG");
	ASSERT_EQ(0, mas_shell("insmod " IMPORTER));
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &q));
	for (i = 0; i < 64; i++) {
		if (!(q.out_gpus & (1ULL << i)))
			continue;
		importer = open("/dev/mas_importer", O_RDWR | O_CLOEXEC);
		ASSERT_LE(0, importer);
		ASSERT_EQ(0, mas_query_gpu(self->fd, i, &gpu));
		bdf_of(&gpu, bdf);
		ASSERT_EQ(0, bar_of(bdf, &from, &to));
		ASSERT_EQ(0, mas_alloc(self->fd, i, LEN, &mem));
		buf = buf_export(self->fd, mem.handle, 0, LEN);
		ASSERT_LE(0, buf);
		ASSERT_LT(0, attach_text(self, buf, i, text));
		EXPECT_EQ((ssize_t)strlen(text), write(importer, text, strlen(text)))
			TH_LOG("%s, GPU %d: %s", text, i, strerror(errno));
		importer_state(importer, state, from, to, &bytes);
		EXPECT_STREQ("mapped", state);
		EXPECT_EQ(LEN, bytes);
		close(importer);
		close(buf);
		EXPECT_EQ(0, mas_free(self->fd, mem.handle));
		nr++;
	}
	EXPECT_LE(2, nr);
	EXPECT_EQ(0, mas_shell("rmmod mas_importer"));
}

TEST_F(dmabuf, other_driver_attaches_and_is_revoked_when_the_gpu_goes)
{
	struct mxcd_mas_query_gpu gpu;
	struct mxcd_mas_import arg;
	int buf, importer;
	char bdf[24], text[64], state[16] = "";
	__u64 from = 0, to = 0, bytes;

	if (access(IMPORTER, F_OK))
		SKIP(return, "built without CONFIG_MXCD_DEBUG");
	ASSERT_EQ(0, mas_shell("insmod " IMPORTER));
	importer = open("/dev/mas_importer", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, importer);
	ASSERT_EQ(0, mas_query_gpu(self->fd, self->gpu, &gpu));
	bdf_of(&gpu, bdf);
	ASSERT_EQ(0, bar_of(bdf, &from, &to));
	buf = buf_export(self->fd, self->mem.handle, 0, LEN);
	ASSERT_LE(0, buf);
	ASSERT_LT(0, attach_text(self, buf, self->gpu, text));
	ASSERT_EQ((ssize_t)strlen(text), write(importer, text, strlen(text)))
		TH_LOG("%s: %s", text, strerror(errno));
	importer_state(importer, state, from, to, &bytes);
	EXPECT_STREQ("mapped", state);
	EXPECT_EQ(LEN, bytes);

	ASSERT_EQ(0, mas_shell("mas_unbind %s", bdf));
	importer_state(importer, state, from, to, &bytes);
	EXPECT_STREQ("revoked", state);
	EXPECT_EQ(0, bytes);
	EXPECT_EQ(-1, write(importer, text, strlen(text)));
	EXPECT_EQ(ENODEV, errno);
	EXPECT_EQ(-ENODEV, buf_import(self->fd, buf, &arg));
	ASSERT_EQ(0, mas_shell("mas_bind %s", bdf));
	EXPECT_EQ(-ENODEV, buf_import(self->fd, buf, &arg));
	close(buf);
	close(importer);
	EXPECT_EQ(0, mas_shell("rmmod mas_importer"));
}

TEST_HARNESS_MAIN
