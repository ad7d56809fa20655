/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Failures of allocations, on a kernel with fault injection.
 *
 * /proc/thread-self/fail-nth makes the nth allocation of this task fail. Only those
 * count that have the driver on the stack.
 */
#ifndef MAS_INJECT_H
#define MAS_INJECT_H

#include "mas_utils.h"
#include "mas_sysfs.h"

#define DEBUGFS		"/sys/kernel/debug/"

/* Addresses are negative, and so is the -1 that stands for "always". */
static inline int number_to_file(const char *dir, const char *name, __s64 number)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "%s%s/%s", DEBUGFS, dir, name);
	snprintf(text, sizeof(text), number < -1 ? "0x%llx" : "%lld", (long long)number);
	return mas_put_text(path, text);
}

static inline int number_of_file(const char *dir, const char *name)
{
	char path[128], text[32];
	int ret;

	snprintf(path, sizeof(path), "%s%s/%s", DEBUGFS, dir, name);
	ret = mas_get_text(path, text, sizeof(text));
	return ret < 0 ? ret : atoi(text);
}

/* Where the code of the module is. */
static inline int module_range(__u64 *start, __u64 *end)
{
	unsigned long long addr;
	char line[256];
	long size;
	int ret = -ENOENT;
	FILE *f;

	f = fopen("/proc/modules", "r");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "mxcd %ld %*s %*s %*s 0x%llx", &size, &addr) == 2 && addr) {
			*start = addr;
			*end = addr + size;
			ret = 0;
		}
	}
	fclose(f);
	return ret;
}

static inline int inject_attr(const char *dir)
{
	__u64 start, end;
	int ret = module_range(&start, &end);

	if (!ret)
		ret = number_to_file(dir, "require-start", start);
	if (!ret)
		ret = number_to_file(dir, "require-end", end);
	if (!ret)
		ret = number_to_file(dir, "stacktrace-depth", 32);
	if (!ret)
		ret = number_to_file(dir, "verbose", 0);
	if (!ret)
		ret = mas_put_text(!strcmp(dir, "failslab") ?
				   DEBUGFS "failslab/ignore-gfp-wait" :
				   DEBUGFS "fail_page_alloc/ignore-gfp-wait", "N");
	return ret;
}

static inline int inject_prepare(void)
{
	int ret = inject_attr("failslab");

	if (!ret)
		ret = inject_attr("fail_page_alloc");
	if (!ret)
		ret = number_to_file("fail_page_alloc", "min-order", 0);
	if (!ret)
		ret = mas_put_text(DEBUGFS "fail_page_alloc/ignore-gfp-highmem", "N");
	return ret;
}

/* Where the code of a function of the kernel is. */
static inline int function_range(const char *name, __u64 *start, __u64 *end)
{
	unsigned long long addr, next = ~0ULL;
	char line[256], symbol[128];
	FILE *f;

	*start = 0;
	f = fopen("/proc/kallsyms", "r");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%llx %*c %127s", &addr, symbol) == 2 &&
		    !strcmp(symbol, name))
			*start = addr;
	rewind(f);
	while (*start && fgets(line, sizeof(line), f)) {
		addr = strtoull(line, NULL, 16);
		if (addr > *start && addr < next)
			next = addr;
	}
	fclose(f);
	*end = next;
	return *start ? 0 : -ENOENT;
}

/* Allocations for a function of the kernel do not fail; NULL for none. */
static inline int inject_spare(const char *name)
{
	const char * const dirs[] = { "failslab", "fail_page_alloc" };
	__u64 start = 0, end = 0;
	int i, ret = name ? function_range(name, &start, &end) : 0;

	for (i = 0; !ret && i < 2; i++) {
		ret = number_to_file(dirs[i], "reject-start", start);
		if (!ret)
			ret = number_to_file(dirs[i], "reject-end", end);
	}
	return ret;
}

static int nth_fd = -1;

static inline int nth_open(void)
{
	nth_fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	return nth_fd < 0 ? -errno : 0;
}

static inline void nth_arm(int n)
{
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", n);

	if (pwrite(nth_fd, text, len, 0) != len)
		abort();
}

/* Returns whether an allocation has failed. */
static inline bool nth_disarm(void)
{
	char text[16] = "";

	if (pread(nth_fd, text, sizeof(text) - 1, 0) <= 0)
		abort();
	nth_arm(0);
	return atoi(text) == 0;
}

#endif /* MAS_INJECT_H */
