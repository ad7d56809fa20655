#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Process 1 of the guest. Finds disks and stand-ins by what they say of
# themselves, loads the driver, runs the programs that the host has listed in
# /run/mas/tests, leaves "<n>.tap" and "<n>.rc" of each in /run/mas and turns the
# machine off.

export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=${TERM:-linux} LC_ALL=C.UTF-8
run=/run/mas
here=$(dirname "$0")

# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"

mount_kernel_file_systems()
{
	mount -t proc none /proc
	mount -t sysfs none /sys
	mount -t devtmpfs none /dev 2>/dev/null
	mkdir -p /dev/pts /dev/shm
	mount -t devpts none /dev/pts
	mount -t tmpfs none /dev/shm
	mount -t tmpfs none /tmp
	mount -t debugfs none /sys/kernel/debug
	mount -t tracefs none /sys/kernel/tracing
}

mount_disk() # TYPE DISK
{
	[ -n "$2" ] || return
	mkdir -p "/mnt/$1"
	if mount -t "$1" "$2" "/mnt/$1"; then
		echo "/mnt/$1"
	else
		echo "mas: trouble: $2 is no $1" >/dev/kmsg
	fi
}

find_disks()
{
	local queue

	MAS_NVME512=$(mas_nvme_disk mas512 1)
	MAS_NVME4K=$(mas_nvme_disk mas4k 1)
	MAS_EXT4_DISK=$(mas_nvme_disk mas512 2)
	[ -n "$MAS_EXT4_DISK" ] || MAS_EXT4_DISK=$(mas_nvme_disk masdemo 1)
	MAS_XFS_DISK=$(mas_nvme_disk mas4k 2)
	MAS_HOT=$(mas_nvme_disk hot 1)
	# One CPU would make the kernel choose another scheduler than two.
	for queue in /sys/block/nvme*/queue/scheduler; do
		echo none >"$queue"
	done
	MAS_EXT4=$(mount_disk ext4 "$MAS_EXT4_DISK")
	MAS_XFS=$(mount_disk xfs "$MAS_XFS_DISK")
	MAS_TMPFS=/mnt/tmpfs
	mkdir -p $MAS_TMPFS
	mount -t tmpfs none $MAS_TMPFS
	export MAS_NVME512 MAS_NVME4K MAS_EXT4_DISK MAS_XFS_DISK MAS_EXT4 MAS_XFS MAS_TMPFS
	export MAS_HOT
}

find_gpus()
{
	MAS_GPUS="$(mas_pci 1af4 1110) $(mas_pci 1234 1111)"
	# QEMU's monitor answers by way of the share.
	MAS_HOST=$run
	export MAS_GPUS MAS_KO MAS_MODULE_PARAMS MAS_HOST
}

run_test() # NUMBER COMMAND
{
	date +%s >"$run/$1.start"
	if ! mas_ready; then
		echo "Bail out! the driver does not load or bind" >"$run/$1.tap"
		echo 1 >"$run/$1.rc"
		return
	fi
	echo "mas: test $2" >/dev/kmsg
	(cd "$here" && exec timeout -k 10 "$timeout" bash -c "exec $2") \
		</dev/null >"$run/$1.tap" 2>&1
	echo $? >"$run/$1.rc"
}

run_tests()
{
	local timeout=45 number=0 command

	# As kselftest's runner does it.
	[ ! -e "$here/settings" ] || . "$here/settings"
	timeout=$((${MAS_TIMEOUT:-$timeout} * ${MAS_SLOW:-1}))
	while read -r command; do
		number=$((number + 1))
		run_test "$number" "$command"
	done <"$run/tests"
}

shell()
{
	mas_ready
	env | grep ^MAS_
	(cd "$here" && exec busybox setsid busybox cttyhack bash)
}

# Records of kmemleak that have the driver in their back trace, whether it is
# loaded (by name) or not any more (by address).
driver_leaks()
{
	awk '/^unreferenced/ { if (ours) printf "%s", record; record = ""; ours = 0 }
	     /\[mxcd\]|0xffffffffc[0-9a-f]+$/ { ours = 1 }
	     { record = record $0 "\n" }
	     END { if (ours) printf "%s", record }' /sys/kernel/debug/kmemleak
}

# Memory that nothing refers to, where the kernel can look for it. It is believed
# when it was the same in two scans and some seconds old.
find_leaks() # WHEN
{
	local leaks=$run/leaks-$1

	sleep 6
	echo scan >/sys/kernel/debug/kmemleak
	echo scan >/sys/kernel/debug/kmemleak
	driver_leaks >"$leaks"
	if [ -s "$leaks" ]; then
		echo "mas: trouble: kmemleak, $1:" >/dev/kmsg
		sed 's/^/mas: trouble: /' "$leaks" >/dev/kmsg
	fi
	echo clear >/sys/kernel/debug/kmemleak
}

check_for_leaks()
{
	[ -w /sys/kernel/debug/kmemleak ] || return 0
	find_leaks loaded
	! mas_loaded || rmmod mxcd || echo "mas: trouble: rmmod fails" >/dev/kmsg
	find_leaks unloaded
}

# What gcov has counted in the driver since it was loaded first.
save_coverage()
{
	local file data=/sys/kernel/debug/gcov/mnt/drivers/gpu/mxcd

	[ -d $data ] || return 0
	mkdir "$run/gcov"
	for file in "$data"/*.gcda; do
		# The size is not known before it is read.
		cat "$file" >"$run/gcov/${file##*/}"
	done
}

turn_off()
{
	dmesg >"$run/dmesg"
	sync
	touch "$run/done"
	busybox poweroff -f
}

mount_kernel_file_systems
# shellcheck source=/dev/null
. "$run/job"
find_disks
find_gpus
if [ "$MAS_JOB" = shell ]; then
	shell
else
	run_tests
	check_for_leaks
	save_coverage
fi
turn_off
