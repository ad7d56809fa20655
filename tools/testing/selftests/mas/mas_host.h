/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For tests that have something done to the machine they run on: the host gives a
 * command to QEMU's monitor, see mas_ask() in guest-lib.sh.
 */
#ifndef MAS_HOST_H
#define MAS_HOST_H

#include "mas_utils.h"

#include <stdarg.h>
#include <sys/wait.h>

static inline bool mas_has_host(void)
{
	return getenv("MAS_HOST");
}

/* Runs a command of bash with the helpers of guest-lib.sh; returns its exit code. */
static inline int mas_shell(const char *format, ...)
{
	char command[1024] = ". ./guest-lib.sh; ";
	size_t len = strlen(command);
	va_list args;
	int status;
	pid_t child;

	va_start(args, format);
	vsnprintf(command + len, sizeof(command) - len, format, args);
	va_end(args);
	child = fork();
	if (!child) {
		execlp("bash", "bash", "-c", command, NULL);
		_exit(127);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

static inline void mas_host_path(char path[PATH_MAX], const char *name)
{
	snprintf(path, PATH_MAX, "%s/%s", getenv("MAS_HOST"), name);
}

/* Returns 0 when QEMU took the command and had nothing to say. */
static inline int mas_ask(const char *format, ...)
{
	char new[PATH_MAX], ask[PATH_MAX], answer[PATH_MAX], text[256] = "";
	va_list args;
	FILE *file;

	if (!mas_has_host())
		return -ENOENT;
	mas_host_path(new, "ask.new");
	mas_host_path(ask, "ask");
	mas_host_path(answer, "answer");
	file = fopen(new, "w");
	if (!file)
		return -errno;
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	fputc('\n', file);
	if (fclose(file) || rename(new, ask))
		return -errno;

	while (!(file = fopen(answer, "r")))
		mas_sleep_ms(50);
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	unlink(answer);
	text[strcspn(text, "\n")] = 0;
	if (!text[0])
		return 0;
	printf("# QEMU: %s\n", text);
	return -EIO;
}

/*
 * From here on the drive answers nothing but what asks for few bytes: QEMU lets one
 * request pass, and the next waits for more than an hour.
 */
static inline int mas_stall(const char *drive, int fd)
{
	void *page = aligned_alloc(MAS_PAGE, MAS_PAGE);
	int ret = mas_ask("block_set_io_throttle %s 1 0 0 0 0 0", drive);

	if (!ret && pread(fd, page, MAS_PAGE, 0) != MAS_PAGE)
		ret = -EIO;
	free(page);
	return ret;
}

static inline int mas_unstall(const char *drive)
{
	return mas_ask("block_set_io_throttle %s 0 0 0 0 0 0", drive);
}

#endif /* MAS_HOST_H */
