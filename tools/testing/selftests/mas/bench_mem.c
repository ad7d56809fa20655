// SPDX-License-Identifier: GPL-2.0
/*
 * The bench's buffers: VRAM in one piece and in many, host memory in small pages
 * and in huge ones.
 */
#define _GNU_SOURCE

#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/mxcd_mas.h>

#include "bench.h"
#include "bench_count.h"

#define HUGE	(2 * MIB)

int mas_fd;
__u32 mas_handle, frag_handle, mas_gpu;
char *mas_vram, *frag_vram, *ram_small, *ram_huge;

/* --- host memory ------------------------------------------------------------- */

/* A buffer, each page of it touched. */
static char *ram_buffer(int advice)
{
	char *p = mmap(NULL, BUFFER + HUGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	p = (char *)(((unsigned long)p + HUGE - 1) & ~(HUGE - 1));
	if (madvise(p, BUFFER, advice))
		err(1, "madvise");
	memset(p, 1, BUFFER);
	return p;
}

/* Bytes of this process that lie in huge pages. */
static size_t huge_bytes(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	unsigned long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "AnonHugePages: %lu", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * KIB;
}

/* The buffers are what they are meant to be, and have stayed so. */
void mem_check(void)
{
	if (huge_bytes() < BUFFER)
		errx(1, "%zu of %zu bytes in huge pages", huge_bytes(), BUFFER);
}

/*
 * How many pieces of contiguous host memory is a buffer made of? What pread(2)
 * costs depends on it, and a long-running machine has few that are larger than a
 * page.
 */
static void print_pieces(const char *name, const char *buf, size_t bytes)
{
	unsigned long long entry, last = 0;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	unsigned int pieces = 0;
	size_t pos;

	if (fd < 0)
		err(1, "pagemap");
	for (pos = 0; pos < bytes; pos += PAGE) {
		if (pread(fd, &entry, sizeof(entry), ((unsigned long)buf + pos) / PAGE * 8) != 8)
			err(1, "pagemap");
		entry &= (1ULL << 55) - 1;
		if (!pos || entry != last + 1)
			pieces++;
		last = entry;
	}
	close(fd);
	printf("# %s buffer: %zu pages in %u contiguous pieces\n", name, bytes / PAGE, pieces);
}

/* --- VRAM ---------------------------------------------------------------------- */

/* The GPU with the most VRAM. Returns how much of it is free. */
static __u64 choose_gpu(void)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	__u64 most = 0, space = 0;
	__u32 i;

	mas_call(MXCD_MAS_QUERY, &q, "QUERY");
	for (i = 0; i < 64; i++) {
		struct mxcd_mas_query_gpu g = { .size = sizeof(g), .gpu = i };

		if (!(q.out_gpus >> i & 1))
			continue;
		mas_call(MXCD_MAS_QUERY_GPU, &g, "QUERY_GPU");
		if (g.out_vram_size > most) {
			most = g.out_vram_size;
			space = g.out_vram_free;
			mas_gpu = i;
		}
	}
	return space;
}

static __u32 vram_alloc(size_t bytes, struct mxcd_mas_alloc *mem)
{
	*mem = (struct mxcd_mas_alloc) {
		.size = sizeof(*mem), .gpu = mas_gpu, .length = bytes,
	};
	mas_call(MXCD_MAS_ALLOC, mem, "ALLOC");
	return mem->handle;
}

static void vram_free(__u32 handle)
{
	struct mxcd_mas_free arg = { .size = sizeof(arg), .handle = handle };

	mas_call(MXCD_MAS_FREE, &arg, "FREE");
}

static char *vram_map(const struct mxcd_mas_alloc *mem)
{
	char *p = mmap(NULL, mem->length, PROT_READ | PROT_WRITE, MAP_SHARED, mas_fd,
		       mem->out_mmap_offset);

	if (p == MAP_FAILED)
		err(1, "mmap of VRAM");
	memset(p, 1, mem->length);
	return p;
}

/*
 * Leave nothing free but every other granule of a stretch, take these, and free
 * the rest.
 */
static void alloc_fragmented(__u64 space, __u32 granule)
{
	static __u32 crumbs[2 * FRAG_BUFFER / (64 * KIB)];
	unsigned int i, nr = 2 * FRAG_BUFFER / granule;
	struct mxcd_mas_alloc mem;
	__u32 rest;

	if (nr > sizeof(crumbs) / sizeof(*crumbs))
		errx(1, "a granule of %u bytes", granule);
	rest = vram_alloc(space - 2 * FRAG_BUFFER, &mem);
	for (i = 0; i < nr; i++)
		crumbs[i] = vram_alloc(granule, &mem);
	for (i = 0; i < nr; i += 2)
		vram_free(crumbs[i]);
	frag_handle = vram_alloc(FRAG_BUFFER, &mem);
	frag_vram = vram_map(&mem);
	printf("# fragmented VRAM: %lu bytes in %u extents\n", FRAG_BUFFER, mem.out_extents);
	for (i = 1; i < nr; i += 2)
		vram_free(crumbs[i]);
	vram_free(rest);
}

static void print_bar(void)
{
	struct mxcd_mas_query_gpu gpu = { .size = sizeof(gpu), .gpu = mas_gpu };
	unsigned long long start, end, flags, bar = 0, size = 0;
	char path[64];
	FILE *file;

	mas_call(MXCD_MAS_QUERY_GPU, &gpu, "QUERY_GPU");
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%04x:%02x:%02x.%x/resource",
		 gpu.out_domain, gpu.out_bdf >> 8, gpu.out_bdf >> 3 & 0x1f, gpu.out_bdf & 7);
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
	printf("# BAR: %llu %llu\n", bar, size);
}

void mem_open(void)
{
	struct mxcd_mas_query q = { .size = sizeof(q) };
	struct mxcd_mas_alloc mem;
	__u64 space;

	mas_fd = open("/dev/mxcd_mas", O_RDWR | O_CLOEXEC);
	if (mas_fd < 0)
		err(1, "/dev/mxcd_mas");
	mas_call(MXCD_MAS_QUERY, &q, "QUERY");
	space = choose_gpu();
	print_bar();
	mas_handle = vram_alloc(BUFFER, &mem);
	mas_vram = vram_map(&mem);
	count_learn(mas_vram);
	alloc_fragmented(space - mem.length, q.out_granule);
	ram_small = ram_buffer(MADV_NOHUGEPAGE);
	if (huge_bytes())
		errx(1, "huge pages where there are to be none");
	ram_huge = ram_buffer(MADV_HUGEPAGE);
	mem_check();
	/* Most jobs use no more than the start. */
	print_pieces("small-page", ram_small, BUFFER / 8);
	print_pieces("small-page", ram_small, BUFFER);
	print_pieces("huge-page", ram_huge, BUFFER);
}
