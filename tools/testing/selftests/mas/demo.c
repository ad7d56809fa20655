// SPDX-License-Identifier: GPL-2.0
/*
 * The main job in one page: file -> VRAM -> second file, with nothing but the
 * uapi header. demo.sh runs it in a guest and reads what it prints, one fact a
 * line, the first word says which.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/mxcd_mas.h>

#define CHUNK_MIN	1048576ULL
#define MARKER		32

static int mas;

static void call(unsigned long request, void *arg, const char *what)
{
	if (ioctl(mas, request, arg))
		err(1, "%s", what);
}

/* Where the GPU's VRAM lies on the bus: its largest BAR. */
static void print_bar(const struct mxcd_mas_query_gpu *gpu)
{
	unsigned long long start, end, flags, bar = 0, size = 0;
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/resource",
		 gpu->out_domain, gpu->out_bdf >> 8, gpu->out_bdf >> 3 & 0x1f,
		 gpu->out_bdf & 7);
	file = fopen(path, "r");
	if (!file)
		err(1, "%s", path);
	while (fscanf(file, "%llx %llx %llx", &start, &end, &flags) == 3) {
		if (start && end - start + 1 > size) {
			bar = start;
			size = end - start + 1;
		}
	}
	fclose(file);
	printf("bar %llu %llu\n", bar, size);
}

static __u32 register_file(int fd, const char *name)
{
	struct mxcd_mas_register reg = { .size = sizeof(reg), .fd = fd };
	struct mxcd_mas_query_file query = { .size = sizeof(query) };

	call(MXCD_MAS_REGISTER, &reg, "MXCD_MAS_REGISTER");
	query.file = reg.file;
	call(MXCD_MAS_QUERY_FILE, &query, "MXCD_MAS_QUERY_FILE");
	printf("align_%s %u %u\n", name, query.out_read_align, query.out_write_align);
	return reg.file;
}

/*
 * Random bytes behind the data, by which the VRAM of the handle can be found
 * from outside.
 */
static void print_marker(const struct mxcd_mas_alloc *mem, __u32 granule)
{
	__u64 offset = mem->length - granule;
	unsigned char marker[MARKER];
	void *map;
	int i;

	if (getrandom(marker, MARKER, 0) != MARKER)
		err(1, "getrandom");
	map = mmap(NULL, granule, PROT_READ | PROT_WRITE, MAP_SHARED, mas,
		   mem->out_mmap_offset + offset);
	if (map == MAP_FAILED)
		err(1, "mmap of VRAM");
	memcpy(map, marker, MARKER);
	__sync_synchronize();
	munmap(map, granule);
	printf("marker %llu ", (unsigned long long)offset);
	for (i = 0; i < MARKER; i++)
		printf("%02x", marker[i]);
	putchar('\n');
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1000000000.0;
}

/* Move the whole file, in pieces so that there is something to watch. */
static void transfer(int op, const char *name, __u32 file, __u32 handle, __u64 size)
{
	__u64 chunk = (size / 4 + CHUNK_MIN) & ~(CHUNK_MIN - 1);
	__u64 done = 0, p2p = 0;
	unsigned int route = 0, reason = 0;
	double start = now();

	while (done < size) {
		struct mxcd_mas_req req = {
			.op = op,
			.file = file,
			.handle = handle,
			.file_offset = done,
			.mem_offset = done,
			.length = size - done < chunk ? size - done : chunk,
		};
		struct mxcd_mas_comp comp = {};
		struct mxcd_mas_transfer xfer = {
			.size = sizeof(xfer),
			.reqs = (uintptr_t)&req,
			.comps = (uintptr_t)&comp,
			.nr = 1,
			.min_nr = 1,
		};

		call(MXCD_MAS_TRANSFER, &xfer, "MXCD_MAS_TRANSFER");
		if (comp.result <= 0) {
			errno = -comp.result;
			err(1, "%s at %llu", name, (unsigned long long)done);
		}
		done += comp.result;
		p2p += comp.p2p_bytes;
		route |= comp.route;
		if (!reason)
			reason = comp.reason;
		printf("progress %s %llu\n", name, (unsigned long long)done);
	}
	printf("%s %llu %llu %u %u %.6f\n", name, (unsigned long long)done,
	       (unsigned long long)p2p, route, reason, now() - start);
}

/* Which blocks of the disk are the file's. */
static void print_extents(int fd, const char *name)
{
	struct {
		struct fiemap map;
		struct fiemap_extent extent;
	} query;
	struct fiemap_extent *extent = &query.extent;
	__u64 offset = 0;

	do {
		memset(&query, 0, sizeof(query));
		query.map.fm_start = offset;
		query.map.fm_length = FIEMAP_MAX_OFFSET - offset;
		query.map.fm_flags = FIEMAP_FLAG_SYNC;
		query.map.fm_extent_count = 1;
		if (ioctl(fd, FS_IOC_FIEMAP, &query))
			err(1, "FS_IOC_FIEMAP");
		if (!query.map.fm_mapped_extents)
			break;
		printf("extent_%s %llu %llu %llu %u\n", name,
		       (unsigned long long)extent->fe_logical,
		       (unsigned long long)extent->fe_physical,
		       (unsigned long long)extent->fe_length, extent->fe_flags);
		offset = extent->fe_logical + extent->fe_length;
	} while (!(extent->fe_flags & FIEMAP_EXTENT_LAST));
}

/* The VRAM is looked at from outside while we hold it. */
static void wait_for(const char *path)
{
	while (access(path, F_OK))
		usleep(100000);
}

int main(int argc, char **argv)
{
	struct mxcd_mas_query query = { .size = sizeof(query) };
	struct mxcd_mas_query_gpu gpu = { .size = sizeof(gpu) };
	struct mxcd_mas_alloc mem = { .size = sizeof(mem) };
	__u32 source_id, target_id;
	int source, target;
	struct stat st;

	if (argc != 4)
		errx(2, "usage: demo SOURCE TARGET GO-FILE");
	setlinebuf(stdout);
	mas = open("/dev/mxcd_mas", O_RDWR | O_CLOEXEC);
	if (mas < 0)
		err(1, "/dev/mxcd_mas");
	source = open(argv[1], O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (source < 0 || fstat(source, &st))
		err(1, "%s", argv[1]);
	target = open(argv[2], O_RDWR | O_CREAT | O_EXCL | O_DIRECT | O_CLOEXEC, 0600);
	if (target < 0)
		err(1, "%s", argv[2]);

	call(MXCD_MAS_QUERY, &query, "MXCD_MAS_QUERY");
	call(MXCD_MAS_QUERY_GPU, &gpu, "MXCD_MAS_QUERY_GPU");
	print_bar(&gpu);
	source_id = register_file(source, "source");
	target_id = register_file(target, "target");

	mem.length = st.st_size + query.out_granule;
	call(MXCD_MAS_ALLOC, &mem, "MXCD_MAS_ALLOC");
	print_marker(&mem, query.out_granule);

	transfer(MXCD_MAS_OP_READ, "read", source_id, mem.handle, st.st_size);
	transfer(MXCD_MAS_OP_WRITE, "write", target_id, mem.handle, st.st_size);
	if (fsync(target))
		err(1, "fsync");
	print_extents(source, "source");
	print_extents(target, "target");
	puts("ready");
	wait_for(argv[3]);
	return 0;
}
