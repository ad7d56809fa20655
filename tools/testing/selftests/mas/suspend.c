// SPDX-License-Identifier: GPL-2.0
/*
 * Suspends the machine with a handle that is in use, up to the point where devices
 * are suspended (the kernel's pm_test), once to idle and once as the firmware would
 * have it; and before that, up to where all programs stand still, while one waits for a
 * slow disk. The file system that this comes from may not survive that: results go to
 * the kernel log, and in the end the machine is turned off. See suspend.sh.
 */
#include "mas_utils.h"
#include "mas_bus.h"

#include <sys/reboot.h>
#include <sys/wait.h>

#define LEN	(64 * MAS_KIB)
#define SLOW_NR	15	/* seconds: longer than the kernel takes programs to stop */

static int kmsg;

static void result(bool ok, const char *what, long long value)
{
	dprintf(kmsg, "mas: suspend: %s: %s (%lld)\n", ok ? "ok" : "not ok", what, value);
}

static void set(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, value, strlen(value)) < 0)
		result(false, path, errno);
	close(fd);
}

/* A program that waits for all of a batch. Does not return. */
static void wait_for_batch(void)
{
	struct mxcd_mas_comp comps[SLOW_NR];
	struct mxcd_mas_req reqs[SLOW_NR];
	struct mxcd_mas_transfer arg = {
		.size = sizeof(arg), .reqs = mas_ptr(reqs), .comps = mas_ptr(comps),
		.nr = SLOW_NR, .min_nr = SLOW_NR,
	};
	struct mxcd_mas_alloc mem;
	int disk, mas, file, i;

	disk = open(getenv("MAS_HOT"), O_RDONLY | O_DIRECT | O_CLOEXEC);
	mas = mas_open(0);
	file = mas_register(mas, disk);
	if (file <= 0 || mas_alloc(mas, 0, LEN, &mem))
		_exit(1);
	for (i = 0; i < SLOW_NR; i++)
		reqs[i] = mas_rw(MXCD_MAS_OP_READ, file, (1 + i) * MAS_MIB, MAS_PAGE,
				 mem.handle, i * 512);
	result(true, "a batch is on its way", 0);
	_exit(mas_ioctl(mas, MXCD_MAS_TRANSFER, &arg) || arg.out_completed != SLOW_NR);
}

static void stop_all_programs(void)
{
	__u64 start = mas_now_ms();
	pid_t pid = fork();
	int status = -1;

	if (!pid)
		wait_for_batch();
	mas_sleep_ms(3000);
	set("/sys/power/pm_freeze_timeout", "3000");
	set("/sys/power/pm_test", "freezer");
	set("/sys/power/state", "freeze");
	result(!waitpid(pid, &status, WNOHANG), "suspends while a batch is waited for",
	       mas_now_ms() - start);
	waitpid(pid, &status, 0);
	result(!status, "the batch goes on to its end after it", mas_now_ms() - start);
}

int main(void)
{
	char *model = aligned_alloc(MAS_PAGE, LEN), *map;
	struct mxcd_mas_alloc mem, fresh;
	struct mxcd_mas_req req;
	int disk, mas, file;
	__s64 ret;

	(void)test_harness_run; /* comes with mas_utils.h, and there are no tests here */
	kmsg = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	disk = open(getenv("MAS_NVME512"), O_RDWR | O_DIRECT | O_CLOEXEC);
	mas = mas_open(0);
	file = mas_register(mas, disk);
	mas_fill(model, LEN, mas_seed());
	if (!mas_pwrite(disk, model, LEN, 0) || mas_alloc(mas, 0, LEN, &mem))
		return 1;
	map = mas_map(mas, &mem);
	memcpy(map, model, LEN);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	req = mas_rw(MXCD_MAS_OP_READ, file, 0, LEN, mem.handle, 0);
	stop_all_programs();
	set("/sys/power/pm_test", "devices");

	set("/sys/power/state", "freeze");
	ret = mas_diff(model, map, LEN);
	result(ret == -1, "VRAM is kept in suspend to idle", ret);
	memset(map, 0, LEN);
	ret = mas_by_ioctl(mas, &req).result;
	result(ret == LEN && mas_diff(model, map, LEN) == -1, "handle works after it", ret);

	set("/sys/power/mem_sleep", "deep");
	set("/sys/power/state", "mem");
	ret = mas_by_ioctl(mas, &req).result;
	result(ret == -ENODEV, "handle is lost in suspend by firmware", ret);
	result(is_bus_error(map), "its mapping raises SIGBUS", 0);
	ret = mas_alloc(mas, 0, LEN, &fresh);
	req.handle = fresh.handle;
	if (!ret)
		ret = mas_by_ioctl(mas, &req).result;
	result(ret == LEN, "new handle works", ret);

	result(true, "done", 0);
	mas_sleep_ms(500);
	reboot(RB_POWER_OFF);
	return 1;
}
