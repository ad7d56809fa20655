// SPDX-License-Identifier: GPL-2.0
/*
 * Load a safetensors file into VRAM, tensor by tensor.
 *
 *	safetensors_load FILE [GPU]
 *
 * A line for each tensor tells its name, where it is in the file, its length, and where
 * it is in VRAM. With standard input closed or at its end the program ends, and the
 * VRAM goes with it.
 *
 * The file begins with the length of a header (eight bytes, the lowest first) and the
 * header, a JSON object: for each tensor its type, its shape, and where its data begins
 * and ends behind the header. Tensors begin and end anywhere. What lies in whole
 * blocks of the disk goes straight to VRAM if its place there is congruent with its
 * place in the file, so that is how they are placed.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linux/mxcd_mas.h>

#define BLOCK	4096ULL		/* places in file and VRAM agree modulo this */
#define BATCH	256U		/* requests of one call */

struct tensor {
	char *name;
	__u64 offset;	/* in the file */
	__u64 length;
	__u64 place;		/* in VRAM */
};

static struct tensor *tensors;
static size_t nr_tensors;

static const char *skip_space(const char *p)
{
	return p + strspn(p, " \t\r\n");
}

static const char *expect(const char *p, char c)
{
	p = skip_space(p);
	if (*p != c)
		errx(1, "the header is no JSON: '%c' is missing", c);
	return p + 1;
}

/* The end of a string whose opening quote was read. */
static const char *string_end(const char *p)
{
	while (*p && *p != '"')
		p += p[0] == '\\' && p[1] ? 2 : 1;
	if (!*p)
		errx(1, "the header is no JSON: a string has no end");
	return p;
}

/* Step over any value. */
static const char *skip_value(const char *p)
{
	int depth = 0;

	for (p = skip_space(p); *p; p++) {
		if (*p == '"')
			p = string_end(p + 1);
		else if (*p == '{' || *p == '[')
			depth++;
		else if (!depth && (*p == ',' || *p == '}' || *p == ']'))
			return p;
		else if (*p == '}' || *p == ']')
			depth--;
		if (!depth && (*p == '"' || *p == '}' || *p == ']'))
			return p + 1;
	}
	errx(1, "the header is no JSON: a value has no end");
}

static const char *read_number(const char *p, __u64 *number)
{
	char *end;

	errno = 0;
	*number = strtoull(skip_space(p), &end, 10);
	if (errno || end == p)
		errx(1, "the header is no JSON: a number is missing");
	return end;
}

/* The members of an object, one after the other. */
static const char *next_key(const char *p, const char **key, size_t *len)
{
	p = skip_space(p);
	if (*p == ',')
		p++;
	p = skip_space(p);
	if (*p == '}')
		return NULL;
	*key = expect(p, '"');
	p = string_end(*key);
	*len = p - *key;
	return expect(p + 1, ':');
}

static void read_tensor(const char *p, __u64 base, struct tensor *t)
{
	__u64 begin = 0, end = 0;
	const char *key;
	size_t len;

	p = expect(p, '{');
	while ((p = next_key(p, &key, &len))) {
		if (len == 12 && !memcmp(key, "data_offsets", 12)) {
			const char *q = read_number(expect(p, '['), &begin);

			read_number(expect(q, ','), &end);
		}
		p = skip_value(p);
	}
	if (end < begin)
		errx(1, "%s ends before it begins", t->name);
	t->offset = base + begin;
	t->length = end - begin;
}

static void read_header(const char *json, __u64 base)
{
	const char *key, *p = expect(json, '{');
	size_t len;

	while ((p = next_key(p, &key, &len))) {
		if (len != 12 || memcmp(key, "__metadata__", 12)) {
			tensors = realloc(tensors, (nr_tensors + 1) * sizeof(*tensors));
			if (!tensors)
				err(1, "realloc");
			tensors[nr_tensors].name = strndup(key, len);
			read_tensor(p, base, &tensors[nr_tensors++]);
		}
		p = skip_value(p);
	}
}

static void read_file(int fd)
{
	unsigned char size[8];
	__u64 len = 0;
	struct stat st;
	char *json;
	int i;

	if (fstat(fd, &st) || pread(fd, size, sizeof(size), 0) != sizeof(size))
		errx(1, "the file is too short");
	for (i = 7; i >= 0; i--)
		len = len << 8 | size[i];
	if (len > (__u64)st.st_size - sizeof(size))
		errx(1, "the header is longer than the file");
	json = malloc(len + 1);
	if (!json || pread(fd, json, len, sizeof(size)) != (ssize_t)len)
		err(1, "header");
	json[len] = 0;
	read_header(json, sizeof(size) + len);
	free(json);
}

/* Returns how much VRAM is needed. */
static __u64 place_tensors(void)
{
	__u64 end = 0;
	size_t i;

	for (i = 0; i < nr_tensors; i++) {
		__u64 shift = (tensors[i].offset - end) % BLOCK;

		tensors[i].place = end + shift;
		end = tensors[i].place + tensors[i].length;
	}
	return end ? end : 1;
}

static void mas_call(int mas, unsigned long number, void *arg, const char *what)
{
	if (ioctl(mas, number, arg))
		err(1, "%s", what);
}

/* Bytes that went straight to VRAM. */
static __u64 load(int mas, __u32 file, __u32 handle, size_t first, unsigned int nr)
{
	static struct mxcd_mas_req reqs[BATCH];
	static struct mxcd_mas_comp comps[BATCH];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = (uintptr_t)reqs, .comps = (uintptr_t)comps,
		.nr = nr, .min_nr = nr,
	};
	__u64 p2p = 0;
	unsigned int i;

	for (i = 0; i < nr; i++)
		reqs[i] = (struct mxcd_mas_req) {
			.op = MXCD_MAS_OP_READ, .file = file, .handle = handle,
			.file_offset = tensors[first + i].offset,
			.length = tensors[first + i].length,
			.mem_offset = tensors[first + i].place,
		};
	mas_call(mas, MXCD_MAS_TRANSFER, &arg, "transfer");
	if (arg.out_completed != nr)
		errx(1, "only %u of %u requests were taken", arg.out_completed, nr);
	for (i = 0; i < nr; i++) {
		if (comps[i].result < 0)
			errx(1, "%s: %s", tensors[first + i].name, strerror(-comps[i].result));
		if ((__u64)comps[i].result != tensors[first + i].length)
			errx(1, "%s: the file ends in it", tensors[first + i].name);
		p2p += comps[i].p2p_bytes;
	}
	return p2p;
}

int main(int argc, char **argv)
{
	struct mxcd_mas_alloc mem = { .size = sizeof(mem) };
	struct mxcd_mas_register reg = { .size = sizeof(reg) };
	__u64 bytes = 0, p2p = 0;
	unsigned int nr;
	int fd, mas;
	size_t i;

	if (argc != 2 && argc != 3)
		errx(2, "usage: safetensors_load FILE [GPU]");
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		err(1, "%s", argv[1]);
	mas = open("/dev/mxcd_mas", O_RDWR | O_CLOEXEC);
	if (mas < 0)
		err(1, "/dev/mxcd_mas");
	read_file(fd);

	mem.gpu = argc == 3 ? atoi(argv[2]) : 0;
	mem.length = place_tensors();
	reg.fd = fd;
	mas_call(mas, MXCD_MAS_ALLOC, &mem, "allocate VRAM");
	mas_call(mas, MXCD_MAS_REGISTER, &reg, "register the file");
	for (i = 0; i < nr_tensors; i += nr) {
		nr = nr_tensors - i < BATCH ? nr_tensors - i : BATCH;
		p2p += load(mas, reg.file, mem.handle, i, nr);
	}
	for (i = 0; i < nr_tensors; i++) {
		printf("%s %llu %llu %llu\n", tensors[i].name,
		       (unsigned long long)tensors[i].offset,
		       (unsigned long long)tensors[i].length,
		       (unsigned long long)tensors[i].place);
		bytes += tensors[i].length;
	}
	printf("# %zu tensors, %llu bytes, %llu p2p\n", nr_tensors, (unsigned long long)bytes,
	       (unsigned long long)p2p);
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
