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

# The disk that is namespace NSID of the controller SERIAL; it may still be on
# its way. (The numbers in a disk's name tell neither: probing and scanning are
# asynchronous.)
nvme_disk() # SERIAL NSID
{
	local ctrl serial disk nsid i

	for ctrl in /sys/class/nvme/*; do
		read -r serial <"$ctrl/serial"
		[ "$serial" = "$1" ] || continue
		for ((i = 0; i < 100; i++)); do
			for disk in "$ctrl"/nvme*n*; do
				read -r nsid <"$disk/nsid" || continue
				if [ "$nsid" = "$2" ] && [ -b "/dev/${disk##*/}" ]; then
					echo "/dev/${disk##*/}"
					return
				fi
			done 2>/dev/null
			sleep 0.1
		done
	done
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

	MAS_NVME512=$(nvme_disk mas512 1)
	MAS_NVME4K=$(nvme_disk mas4k 1)
	MAS_EXT4_DISK=$(nvme_disk mas512 2)
	[ -n "$MAS_EXT4_DISK" ] || MAS_EXT4_DISK=$(nvme_disk masdemo 1)
	MAS_XFS_DISK=$(nvme_disk mas4k 2)
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
	timeout=${MAS_TIMEOUT:-$timeout}
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
fi
turn_off
