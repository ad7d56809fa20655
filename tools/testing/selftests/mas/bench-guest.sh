#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Inside the guest: find the disks of the bench, print what its figures depend on,
# run it.

DISKS=6

# The disk of the controller SERIAL.
nvme_disk() # SERIAL
{
	local disk serial

	for disk in /sys/class/nvme/*/nvme*n*; do
		read -r serial <"$disk/../serial"
		[ "$serial" != "$1" ] || echo "/dev/${disk##*/}"
	done
}

facts()
{
	local file

	for file; do
		echo "# ${file#/sys/}: $(<"$file")"
	done
}

for ((i = 0; i < 100; i++)); do
	disks=(/dev/nvme*n*)
	((${#disks[@]} < DISKS)) || break
	sleep 0.1
done
# One CPU would make the kernel choose another scheduler than two.
for disk in /sys/block/nvme*/queue/scheduler; do
	echo none >"$disk"
done
MAS_RAW=$(nvme_disk raw)
MAS_RAW_SLOW=$(nvme_disk raw-slow)
MAS_EXT4_DISK=$(nvme_disk ext4)
MAS_EXT4_SLOW=$(nvme_disk ext4-slow)
MAS_MDTS5=$(nvme_disk mdts5)
MAS_MDTS5_SLOW=$(nvme_disk mdts5-slow)
export MAS_RAW MAS_RAW_SLOW MAS_EXT4_DISK MAS_EXT4_SLOW MAS_MDTS5 MAS_MDTS5_SLOW
mkdir -p /mnt/bench /mnt/bench-slow
mount -t ext4 "$MAS_EXT4_DISK" /mnt/bench || exit
mount -t ext4 "$MAS_EXT4_SLOW" /mnt/bench-slow || exit
echo "# kernel: $(</proc/version)"
echo "# command line: $(</proc/cmdline)"
facts /sys/block/nvme*/queue/{scheduler,max_hw_sectors_kb,max_segments,nomerges,wbt_lat_usec}
facts /sys/devices/system/cpu/vulnerabilities/* /sys/kernel/mm/transparent_hugepage/enabled
facts /sys/devices/system/clocksource/clocksource0/current_clocksource
facts /sys/module/nvme/parameters/sgl_threshold
exec ./bench "$@"
