// SPDX-License-Identifier: GPL-2.0
/*
 * The rules that every ioctl of /dev/mxcd_mas keeps.
 */
#include "mas_utils.h"

#include <assert.h>

static_assert(sizeof(struct mxcd_mas_req) == 64, "request");
static_assert(sizeof(struct mxcd_mas_comp) == 32, "completion");
static_assert(sizeof(struct mxcd_mas_seg) == 24, "segment");
static_assert(sizeof(struct mxcd_mas_query) == 48, "query");
static_assert(sizeof(struct mxcd_mas_query_gpu) == 48, "query_gpu");
static_assert(sizeof(struct mxcd_mas_query_file) == 56, "query_file");
static_assert(sizeof(struct mxcd_mas_alloc) == 40, "alloc");
static_assert(sizeof(struct mxcd_mas_free) == 8, "free");
static_assert(sizeof(struct mxcd_mas_register) == 48, "register");
static_assert(sizeof(struct mxcd_mas_unregister) == 8, "unregister");
static_assert(sizeof(struct mxcd_mas_transfer) == 48, "transfer");
static_assert(sizeof(struct mxcd_mas_restrict) == 48, "restrict");
static_assert(offsetof(struct mxcd_mas_req, file_offset) == 16, "file_offset");
static_assert(offsetof(struct mxcd_mas_req, segs) == 48, "segs");
static_assert(offsetof(struct mxcd_mas_req, arg) == 60, "arg");
static_assert(offsetof(struct mxcd_mas_comp, result) == 8, "result");
static_assert(offsetof(struct mxcd_mas_comp, reason) == 26, "reason");
static_assert(MXCD_MAS_QUERY == 0xbc00, "number, without size or direction");
static_assert(MXCD_MAS_TRANSFER == 0xbc07, "number, without size or direction");

#define ABI_ID	4711	/* an id that nothing chooses by itself */

/* What is common to all the ioctls: a size first, and where they have it flags. */
struct abi_head {
	__u32 size;
	__u32 flags;
};

struct abi_ioctl {
	const char *name;
	unsigned long cmd;
	__u32 size;
	__u32 known_flags;
	bool has_flags;
	__u32 first_size;	/* of the first version, if it has grown since */
	__u32 reserved;		/* offset of __reserved, 0: none */
	__u32 out, out_len;	/* the out_* fields */
};

#define ABI_IOCTL(_cmd, _struct) \
	.name = #_cmd, .cmd = MXCD_MAS_##_cmd, .size = sizeof(struct _struct)

static const struct abi_ioctl abi_ioctls[] = {
	{
		ABI_IOCTL(QUERY, mxcd_mas_query), .has_flags = true,
		.first_size = offsetof(struct mxcd_mas_query, out_driver_version),
		.reserved = offsetof(struct mxcd_mas_query, __reserved),
		.out = 8, .out_len = 36,
	}, {
		ABI_IOCTL(QUERY_GPU, mxcd_mas_query_gpu), .has_flags = true,
		.reserved = offsetof(struct mxcd_mas_query_gpu, __reserved),
		.out = 16, .out_len = 32,
	}, {
		ABI_IOCTL(QUERY_FILE, mxcd_mas_query_file), .has_flags = true,
		.first_size = offsetof(struct mxcd_mas_query_file, out_storage_domain),
		.known_flags = MXCD_MAS_REQ_FD,
		.reserved = offsetof(struct mxcd_mas_query_file, __reserved),
		.out = 16, .out_len = 28,
	}, {
		ABI_IOCTL(ALLOC, mxcd_mas_alloc), .has_flags = true,
		.reserved = offsetof(struct mxcd_mas_alloc, __reserved),
		.out = 24, .out_len = 12,
	}, {
		ABI_IOCTL(FREE, mxcd_mas_free),
	}, {
		ABI_IOCTL(REGISTER, mxcd_mas_register), .has_flags = true,
		.first_size = offsetof(struct mxcd_mas_register, out_gpu),
		.reserved = offsetof(struct mxcd_mas_register, __reserved),
		.out = 16, .out_len = 28,
	}, {
		ABI_IOCTL(UNREGISTER, mxcd_mas_unregister),
	}, {
		ABI_IOCTL(TRANSFER, mxcd_mas_transfer), .has_flags = true,
		.out = 40, .out_len = 8,
	}, {
		ABI_IOCTL(EVENTFD, mxcd_mas_eventfd), .has_flags = true,
		.reserved = offsetof(struct mxcd_mas_eventfd, __reserved),
	}, {
		ABI_IOCTL(RESTRICT, mxcd_mas_restrict), .has_flags = true,
		.reserved = offsetof(struct mxcd_mas_restrict, __reserved),
	}, {
		ABI_IOCTL(EXPORT, mxcd_mas_export), .has_flags = true,
		.out = 12, .out_len = 4,
	}, {
		ABI_IOCTL(IMPORT, mxcd_mas_import), .has_flags = true,
		.out = 16, .out_len = 24,
	}, {
		ABI_IOCTL(PEEK, mxcd_mas_peek), .has_flags = true,
		.reserved = offsetof(struct mxcd_mas_peek, __reserved),
	}, {
		ABI_IOCTL(POKE, mxcd_mas_peek), .has_flags = true,
		.reserved = offsetof(struct mxcd_mas_peek, __reserved),
	}, {
		/* the end */
	}
};

FIXTURE(abi) {
	int fd;
	int target;
	int file;
	struct mxcd_mas_alloc mem;
	int buf;		/* a dma-buf of it */
	__s64 vram_free;
	char *pages;		/* two, behind them one without access */
	struct mxcd_mas_req req;
	struct mxcd_mas_comp comp;
};

FIXTURE_SETUP(abi)
{
	struct mxcd_mas_export export = { .size = sizeof(export), .length = MAS_PAGE };

	self->fd = mas_open(0);
	ASSERT_LE(0, self->fd);
	self->target = mas_temp("MAS_EXT4", 0);
	ASSERT_LE(0, self->target);
	self->file = mas_register(self->fd, self->target);
	ASSERT_LT(0, self->file);
	ASSERT_EQ(0, mas_alloc(self->fd, 0, 1, &self->mem));
	export.handle = self->mem.handle;
	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_EXPORT, &export));
	self->buf = export.out_fd;
	self->vram_free = mas_vram_free(self->fd, 0);
	ASSERT_LT(0, self->vram_free);
	self->pages = mmap(NULL, 3 * MAS_PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->pages);
	ASSERT_EQ(0, mprotect(self->pages + 2 * MAS_PAGE, MAS_PAGE, PROT_NONE));
	self->req.op = MXCD_MAS_OP_QUERY;
	self->req.key = MXCD_MAS_KEY_VERSION;
}

FIXTURE_TEARDOWN(abi)
{
	close(self->target);
	close(self->fd);
}

static void abi_fill_free(struct __test_metadata *_metadata, int fd, void *arg)
{
	struct mxcd_mas_free *mem_free = arg;
	struct mxcd_mas_alloc mem;

	ASSERT_EQ(0, mas_alloc(fd, 0, 1, &mem));
	mem_free->handle = mem.handle;
}

/* Makes an argument that the ioctl accepts. */
static void abi_fill(struct __test_metadata *_metadata, struct _test_data_abi *self,
		     const struct abi_ioctl *io, void *arg)
{
	struct mxcd_mas_query_file *query_file = arg;
	struct mxcd_mas_alloc *alloc = arg;
	struct mxcd_mas_register *reg = arg;
	struct mxcd_mas_unregister *unreg = arg;
	struct mxcd_mas_transfer *transfer = arg;
	struct mxcd_mas_eventfd *eventfd = arg;
	struct mxcd_mas_export *export = arg;
	struct mxcd_mas_import *import = arg;
	struct mxcd_mas_peek *peek = arg;
	struct abi_head *head = arg;

	memset(arg, 0, io->size);
	head->size = io->size;
	switch (io->cmd) {
	case MXCD_MAS_QUERY_FILE:
		query_file->file = self->file;
		break;
	case MXCD_MAS_ALLOC:
		alloc->length = 1;
		break;
	case MXCD_MAS_FREE:
		abi_fill_free(_metadata, self->fd, arg);
		break;
	case MXCD_MAS_REGISTER:
		reg->fd = self->target;
		break;
	case MXCD_MAS_UNREGISTER:
		unreg->file = mas_register(self->fd, self->target);
		break;
	case MXCD_MAS_TRANSFER:
		transfer->reqs = mas_ptr(&self->req);
		transfer->comps = mas_ptr(&self->comp);
		transfer->nr = 1;
		transfer->min_nr = 1;
		break;
	case MXCD_MAS_EVENTFD:
		eventfd->fd = -1;
		break;
	case MXCD_MAS_RESTRICT:
		mas_no_limits(arg);
		break;
	case MXCD_MAS_EXPORT:
		export->handle = self->mem.handle;
		export->length = MAS_PAGE;
		break;
	case MXCD_MAS_IMPORT:
		import->fd = self->buf;
		break;
	case MXCD_MAS_PEEK:
	case MXCD_MAS_POKE:
		peek->handle = self->mem.handle;
		break;
	}
}

TEST_F(abi, well_formed_argument_is_accepted)
{
	const struct abi_ioctl *io;

	for (io = abi_ioctls; io->name; io++) {
		abi_fill(_metadata, self, io, self->pages);
		EXPECT_EQ(0, mas_ioctl(self->fd, io->cmd, self->pages))
			TH_LOG("%s", io->name);
	}
}

static __u32 abi_first_size(const struct abi_ioctl *io)
{
	return io->first_size ? io->first_size : io->size;
}

TEST_F(abi, every_shorter_size_is_EINVAL)
{
	struct abi_head *head = (void *)self->pages;
	const struct abi_ioctl *io;
	__u32 size;

	for (io = abi_ioctls; io->name; io++) {
		for (size = 0; size < abi_first_size(io); size++) {
			abi_fill(_metadata, self, io, self->pages);
			head->size = size;
			EXPECT_EQ(-EINVAL,
				  mas_ioctl(self->fd, io->cmd, self->pages))
				TH_LOG("%s size %u", io->name, size);
		}
	}
}

TEST_F(abi, first_version_gets_its_part_and_no_more)
{
	struct abi_head *head = (void *)self->pages;
	const struct abi_ioctl *io;
	__u32 size;

	for (io = abi_ioctls; io->name; io++) {
		size = abi_first_size(io);
		memset(self->pages, 0xa5, MAS_PAGE);
		abi_fill(_metadata, self, io, self->pages);
		memset(self->pages + size, 0xa5, MAS_PAGE - size);
		head->size = size;
		EXPECT_EQ(0, mas_ioctl(self->fd, io->cmd, self->pages))
			TH_LOG("%s", io->name);
		EXPECT_EQ(-1, mas_not_all(self->pages + size, MAS_PAGE - size, 0xa5))
			TH_LOG("%s", io->name);
	}
}

TEST_F(abi, longer_size_with_zero_tail_is_accepted)
{
	static const __u32 more[] = { 1, 8, 1000 };
	struct abi_head *head = (void *)self->pages;
	const struct abi_ioctl *io;
	unsigned int i;

	for (io = abi_ioctls; io->name; io++) {
		for (i = 0; i < ARRAY_SIZE(more); i++) {
			memset(self->pages, 0, MAS_PAGE);
			abi_fill(_metadata, self, io, self->pages);
			head->size = io->size + more[i];
			EXPECT_EQ(0, mas_ioctl(self->fd, io->cmd, self->pages))
				TH_LOG("%s + %u", io->name, more[i]);
		}
	}
}

TEST_F(abi, longer_size_with_nonzero_tail_is_E2BIG)
{
	static const __u32 more[] = { 1, 8, 1000 };
	struct abi_head *head = (void *)self->pages;
	const struct abi_ioctl *io;
	unsigned int i;

	for (io = abi_ioctls; io->name; io++) {
		for (i = 0; i < ARRAY_SIZE(more); i++) {
			memset(self->pages, 0, MAS_PAGE);
			abi_fill(_metadata, self, io, self->pages);
			head->size = io->size + more[i];
			self->pages[head->size - 1] = 1;
			EXPECT_EQ(-E2BIG,
				  mas_ioctl(self->fd, io->cmd, self->pages))
				TH_LOG("%s + %u", io->name, more[i]);
		}
	}
}

TEST_F(abi, unknown_flags_are_EINVAL)
{
	struct abi_head *head = (void *)self->pages;
	const struct abi_ioctl *io;
	unsigned int bit;

	for (io = abi_ioctls; io->name; io++) {
		for (bit = 0; io->has_flags && bit < 32; bit++) {
			if (io->known_flags & (1U << bit))
				continue;
			abi_fill(_metadata, self, io, self->pages);
			head->flags = 1U << bit;
			EXPECT_EQ(-EINVAL,
				  mas_ioctl(self->fd, io->cmd, self->pages))
				TH_LOG("%s flag %u", io->name, bit);
		}
	}
	EXPECT_EQ(self->vram_free, mas_vram_free(self->fd, 0));
}

TEST_F(abi, reserved_fields_must_be_zero)
{
	const struct abi_ioctl *io;
	unsigned int byte;

	for (io = abi_ioctls; io->name; io++) {
		for (byte = 0; io->reserved && byte < 4; byte++) {
			abi_fill(_metadata, self, io, self->pages);
			self->pages[io->reserved + byte] = 1;
			EXPECT_EQ(-EINVAL,
				  mas_ioctl(self->fd, io->cmd, self->pages))
				TH_LOG("%s byte %u", io->name, byte);
		}
	}
	EXPECT_EQ(self->vram_free, mas_vram_free(self->fd, 0));
}

TEST_F(abi, out_fields_are_ignored_on_input)
{
	const struct abi_ioctl *io;

	for (io = abi_ioctls; io->name; io++) {
		abi_fill(_metadata, self, io, self->pages);
		memset(self->pages + io->out, 0xff, io->out_len);
		EXPECT_EQ(0, mas_ioctl(self->fd, io->cmd, self->pages))
			TH_LOG("%s", io->name);
	}
}

TEST_F(abi, unknown_ioctl_is_ENOTTY)
{
	unsigned int nr;

	memset(self->pages, 0, MAS_PAGE);
	for (nr = 0x0e; nr < 0x100; nr++) {
		EXPECT_EQ(-ENOTTY, mas_ioctl(self->fd, _IO(MXCD_MAS_IOC_TYPE, nr),
					     self->pages))
			TH_LOG("number %#x", nr);
	}
	/* A size or a direction in the number makes it another one. */
	EXPECT_EQ(-ENOTTY, mas_ioctl(self->fd,
				     _IOWR(MXCD_MAS_IOC_TYPE, 0x03,
					   struct mxcd_mas_alloc), self->pages));
	EXPECT_EQ(-ENOTTY, mas_ioctl(self->fd, _IO('K', 0x00), self->pages));
}

TEST_F(abi, argument_out_of_reach_is_EFAULT)
{
	char *end = self->pages + 2 * MAS_PAGE;
	__u64 valid[8];
	const struct abi_ioctl *io;
	__u32 room;

	for (io = abi_ioctls; io->name; io++) {
		abi_fill(_metadata, self, io, valid);
		EXPECT_EQ(-EFAULT, mas_ioctl(self->fd, io->cmd, NULL))
			TH_LOG("%s at NULL", io->name);
		EXPECT_EQ(-EFAULT, mas_ioctl(self->fd, io->cmd, end))
			TH_LOG("%s without access", io->name);
		for (room = 4; room < io->size; room += 4) {
			memcpy(end - room, valid, room);
			EXPECT_EQ(-EFAULT,
				  mas_ioctl(self->fd, io->cmd, end - room))
				TH_LOG("%s with %u bytes", io->name, room);
		}
	}
}

TEST_F(abi, argument_that_just_fits_is_accepted)
{
	char *end = self->pages + 2 * MAS_PAGE;
	const struct abi_ioctl *io;

	for (io = abi_ioctls; io->name; io++) {
		abi_fill(_metadata, self, io, end - io->size);
		EXPECT_EQ(0, mas_ioctl(self->fd, io->cmd, end - io->size))
			TH_LOG("%s", io->name);
	}
}

TEST_F(abi, result_that_cannot_be_written_leaves_nothing_behind)
{
	struct mxcd_mas_alloc *alloc = (void *)self->pages;
	struct mxcd_mas_register *reg = (void *)self->pages;
	struct mxcd_mas_alloc again;

	*alloc = (struct mxcd_mas_alloc){
		.size = sizeof(*alloc), .length = 1, .handle = ABI_ID,
	};
	ASSERT_EQ(0, mprotect(self->pages, MAS_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, mas_ioctl(self->fd, MXCD_MAS_ALLOC, self->pages));
	EXPECT_EQ(self->vram_free, mas_wait_vram(self->fd, 0, self->vram_free));
	EXPECT_EQ(0, mas_alloc_id(self->fd, 0, 1, ABI_ID, &again));

	ASSERT_EQ(0, mprotect(self->pages, MAS_PAGE, PROT_READ | PROT_WRITE));
	*reg = (struct mxcd_mas_register){
		.size = sizeof(*reg), .fd = self->target, .file = ABI_ID,
	};
	ASSERT_EQ(0, mprotect(self->pages, MAS_PAGE, PROT_READ));
	EXPECT_EQ(-EFAULT, mas_ioctl(self->fd, MXCD_MAS_REGISTER, self->pages));
	EXPECT_EQ(ABI_ID, mas_register_id(self->fd, self->target, ABI_ID));
}

TEST_F(abi, query_tells_what_this_context_has)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct rlimit lim;

	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &q));
	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &lim));
	EXPECT_EQ(MXCD_MAS_VERSION, q.out_version);
	EXPECT_LE(MAS_PAGE, q.out_granule);
	EXPECT_EQ(0, q.out_granule & (q.out_granule - 1));
	EXPECT_EQ(MXCD_MAS_FEATURE_SEGS | MXCD_MAS_FEATURE_URING,
		  q.out_features & ~MXCD_MAS_FEATURE_BUFFER);
	EXPECT_EQ(3, q.out_gpus);
	EXPECT_LE(1, q.out_max_queue);
	EXPECT_EQ(lim.rlim_cur, q.out_max_files);
	EXPECT_EQ(sizeof(q), q.size);
}

TEST_F(abi, query_keys_agree_with_the_ioctls)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct mxcd_mas_query_gpu g;
	struct mxcd_mas_alloc mem;
	__u32 gpu;

	ASSERT_EQ(0, mas_ioctl(self->fd, MXCD_MAS_QUERY, &q));
	EXPECT_EQ(q.out_version, mas_key(self->fd, MXCD_MAS_KEY_VERSION, 0, 0, 0));
	EXPECT_EQ(q.out_features, mas_key(self->fd, MXCD_MAS_KEY_FEATURES, 0, 0, 0));
	EXPECT_EQ(q.out_gpus, mas_key(self->fd, MXCD_MAS_KEY_GPUS, 0, 0, 0));
	EXPECT_EQ(q.out_granule, mas_key(self->fd, MXCD_MAS_KEY_GRANULE, 0, 0, 0));
	EXPECT_EQ(q.out_max_queue,
		  mas_key(self->fd, MXCD_MAS_KEY_MAX_QUEUE, 0, 0, 0));
	EXPECT_EQ(q.out_max_files,
		  mas_key(self->fd, MXCD_MAS_KEY_MAX_FILES, 0, 0, 0));
	EXPECT_LT(0, q.out_driver_version);
	EXPECT_EQ(q.out_driver_version,
		  mas_key(self->fd, MXCD_MAS_KEY_DRIVER_VERSION, 0, 0, 0));
	for (gpu = 0; gpu < 2; gpu++) {
		ASSERT_EQ(0, mas_query_gpu(self->fd, gpu, &g));
		EXPECT_EQ(g.out_vram_size,
			  mas_key(self->fd, MXCD_MAS_KEY_VRAM_SIZE, 0, 0, gpu));
		EXPECT_EQ(g.out_vram_free,
			  mas_key(self->fd, MXCD_MAS_KEY_VRAM_FREE, 0, 0, gpu));
	}
	ASSERT_EQ(0, mas_alloc(self->fd, 1, 5 * MAS_PAGE, &mem));
	EXPECT_EQ(mem.length, mas_key(self->fd, MXCD_MAS_KEY_HANDLE_SIZE, 0,
				      mem.handle, 0));
	EXPECT_EQ(mem.out_mmap_offset,
		  mas_key(self->fd, MXCD_MAS_KEY_HANDLE_MMAP, 0, mem.handle, 0));
}

TEST_F(abi, query_keys_of_a_file_agree_with_query_file)
{
	struct mxcd_mas_query_file f, by_fd;
	int file = self->file;
	__u32 gpu;

	for (gpu = 0; gpu < 2; gpu++) {
		ASSERT_EQ(0, mas_query_file(self->fd, file, 0, gpu, &f));
		ASSERT_EQ(0, mas_query_file(self->fd, self->target,
					    MXCD_MAS_REQ_FD, gpu, &by_fd));
		by_fd.file = f.file;
		by_fd.flags = f.flags;
		EXPECT_EQ(0, memcmp(&f, &by_fd, sizeof(f)));
		EXPECT_EQ(f.out_route_read,
			  mas_key(self->fd, MXCD_MAS_KEY_ROUTE_READ, file, 0, gpu));
		EXPECT_EQ(f.out_route_write,
			  mas_key(self->fd, MXCD_MAS_KEY_ROUTE_WRITE, file, 0, gpu));
	}
	EXPECT_EQ(f.out_read_align,
		  mas_key(self->fd, MXCD_MAS_KEY_FILE_READ_ALIGN, file, 0, 0));
	EXPECT_EQ(f.out_write_align,
		  mas_key(self->fd, MXCD_MAS_KEY_FILE_WRITE_ALIGN, file, 0, 0));
	EXPECT_EQ(f.out_mem_align,
		  mas_key(self->fd, MXCD_MAS_KEY_FILE_MEM_ALIGN, file, 0, 0));
}

TEST_F(abi, bad_names_in_a_query)
{
	struct mxcd_mas_query_file f;
	struct mxcd_mas_query_gpu g;

	EXPECT_EQ(-ENOENT, mas_query_gpu(self->fd, 2, &g));
	EXPECT_EQ(-ENOENT, mas_query_gpu(self->fd, 64, &g));
	EXPECT_EQ(-ENOENT, mas_query_gpu(self->fd, UINT_MAX, &g));
	EXPECT_EQ(-ENOENT, mas_query_file(self->fd, self->file, 0, 2, &f));
	EXPECT_EQ(-ENOENT, mas_query_file(self->fd, self->file, 0, UINT_MAX, &f));
	EXPECT_EQ(-ENOENT, mas_query_file(self->fd, 0, 0, 0, &f));
	EXPECT_EQ(-ENOENT, mas_query_file(self->fd, ABI_ID, 0, 0, &f));
	EXPECT_EQ(-ENOENT, mas_query_file(self->fd, UINT_MAX, 0, 0, &f));
	EXPECT_EQ(-EBADF, mas_query_file(self->fd, 9999, MXCD_MAS_REQ_FD, 0, &f));
	EXPECT_EQ(-EINVAL, mas_query_file(self->fd, self->fd, MXCD_MAS_REQ_FD, 0,
					  &f));
	EXPECT_EQ(-EINVAL, mas_key(self->fd, 0, 0, 0, 0));
	EXPECT_EQ(-EINVAL, mas_key(self->fd, MXCD_MAS_KEY_GUP + 1, 0, 0,
				   0));
	EXPECT_EQ(-EINVAL, mas_key(self->fd, 0xffff, 0, 0, 0));
	EXPECT_EQ(-ENOENT, mas_key(self->fd, MXCD_MAS_KEY_VRAM_SIZE, 0, 0, 2));
	EXPECT_EQ(-ENOENT, mas_key(self->fd, MXCD_MAS_KEY_HANDLE_SIZE, 0, 0, 0));
	EXPECT_EQ(-ENOENT, mas_key(self->fd, MXCD_MAS_KEY_FILE_READ_ALIGN, 0, 0, 0));
	/* A key that does not use a field wants it zero. */
	EXPECT_EQ(-EINVAL, mas_key(self->fd, MXCD_MAS_KEY_VERSION, 1, 0, 0));
	EXPECT_EQ(-EINVAL, mas_key(self->fd, MXCD_MAS_KEY_VERSION, 0, 1, 0));
	EXPECT_EQ(-EINVAL, mas_key(self->fd, MXCD_MAS_KEY_VERSION, 0, 0, 1));
}

TEST_F(abi, bad_values_in_transfer)
{
	struct mxcd_mas_transfer arg, *p = (void *)self->pages;
	const struct abi_ioctl *io = &abi_ioctls[7];
	char *end = self->pages + 2 * MAS_PAGE;

	abi_fill(_metadata, self, io, &arg);
	*p = arg;
	p->nr = 0;
	p->min_nr = 0;
	EXPECT_EQ(-EINVAL, mas_ioctl(self->fd, io->cmd, p));
	*p = arg;
	p->min_nr = 2;
	EXPECT_EQ(-EINVAL, mas_ioctl(self->fd, io->cmd, p));
	*p = arg;
	p->comps = 0;
	EXPECT_EQ(-EINVAL, mas_ioctl(self->fd, io->cmd, p));
	*p = arg;
	p->reqs = 0;
	EXPECT_EQ(-EFAULT, mas_ioctl(self->fd, io->cmd, p));
	*p = arg;
	p->reqs = mas_ptr(end - 32);
	EXPECT_EQ(-EFAULT, mas_ioctl(self->fd, io->cmd, p));
	*p = arg;
	p->reqs = 1ULL << 63;
	EXPECT_EQ(-EFAULT, mas_ioctl(self->fd, io->cmd, p));
	*p = arg;
	EXPECT_EQ(0, mas_ioctl(self->fd, io->cmd, p));
	EXPECT_EQ(MXCD_MAS_VERSION, self->comp.result);
}

TEST_HARNESS_MAIN
