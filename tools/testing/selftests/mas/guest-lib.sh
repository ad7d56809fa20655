# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# For shell programs inside the guest: load the driver, bind the stand-ins.

MAS_KO=${MAS_KO:-/mas/drivers/gpu/mxcd/mxcd.ko}
MAS_MODULE_PARAMS=${MAS_MODULE_PARAMS:-mas=1}

# The PCI functions with this vendor and device.
mas_pci() # VENDOR DEVICE
{
	local dev vendor device

	for dev in /sys/bus/pci/devices/*; do
		read -r vendor <"$dev/vendor"
		read -r device <"$dev/device"
		[ "$vendor $device" != "0x$1 0x$2" ] || echo "${dev##*/}"
	done
}

# Load the driver with the parameters of this run, or with those given.
# shellcheck disable=SC2120 # tests call it with some
mas_load() # [PARAMETERS]
{
	local dep deps params=${1-$MAS_MODULE_PARAMS}

	deps=$(modinfo -F depends "$MAS_KO")
	for dep in ${deps//,/ }; do
		modprobe "$dep" || return
	done
	# shellcheck disable=SC2086 # a list
	insmod "$MAS_KO" $params
}

mas_loaded()
{
	[ -d /sys/module/mxcd ]
}

mas_bound() # BDF
{
	[ -e "/sys/bus/pci/drivers/mxcd/$1" ]
}

# Give a PCI function to the driver. No table needs to know its ids.
mas_bind() # BDF
{
	echo mxcd >"/sys/bus/pci/devices/$1/driver_override" &&
		echo "$1" >/sys/bus/pci/drivers/mxcd/bind
}

mas_unbind() # BDF
{
	echo "$1" >/sys/bus/pci/drivers/mxcd/unbind
}

# Driver loaded, every stand-in bound, in the order of $MAS_GPUS.
mas_ready()
{
	local gpu

	mas_loaded || mas_load || return
	for gpu in $MAS_GPUS; do
		mas_bound "$gpu" || mas_bind "$gpu" || return
	done
}

# The disk that is namespace NSID of the controller SERIAL; it may still be on
# its way. (The numbers in a disk's name tell neither: probing and scanning are
# asynchronous.)
mas_nvme_disk() # SERIAL NSID
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

# Have the host give QEMU a command of its monitor. Prints what QEMU says to it,
# and fails if that is anything.
mas_ask() # COMMAND
{
	local answer=$MAS_HOST/answer

	[ -n "${MAS_HOST-}" ] || return
	echo "$1" >"$MAS_HOST/ask.new" && mv "$MAS_HOST/ask.new" "$MAS_HOST/ask" || return
	until [ -e "$answer" ]; do
		sleep 0.1
	done
	set -- "$(cat "$answer")"
	rm "$answer"
	[ -n "$1" ] || return 0
	echo "$1"
	return 1
}

# The BAR that is VRAM: the largest of the function.
mas_vram_bar() # BDF
{
	local start end rest best_start=0 best_end=0

	while read -r start end rest; do
		if ((end - start > best_end - best_start)); then
			best_start=$((start)) best_end=$((end))
		fi
	done <"/sys/bus/pci/devices/$1/resource"
	echo $best_start $best_end
}

# Every memory type that is reserved within VRAM.
mas_vram_is_write_combining()
{
	local bdf bar line start end type found

	for bdf in $MAS_GPUS; do
		found=0
		read -r -a bar <<<"$(mas_vram_bar "$bdf")"
		while read -r line; do
			[[ $line =~ \[mem\ (0x[0-9a-f]+)-(0x[0-9a-f]+)\]\ (.*)$ ]] || continue
			start=$((BASH_REMATCH[1])) end=$((BASH_REMATCH[2])) type=${BASH_REMATCH[3]}
			((start <= bar[1] && end > bar[0])) || continue
			if [ "$type" != write-combining ]; then
				echo "# $bdf: $line"
				return 1
			fi
			found=1
		done </sys/kernel/debug/x86/pat_memtype_list
		if ((!found)); then
			echo "# no memory type is reserved for $bdf"
			return 1
		fi
	done
}

# Free pages that the CPUs keep for themselves, tens of MiB at times.
mas_per_cpu_pages_kib()
{
	awk '$1 == "count:" { n += $2 } END { print n * 4 }' /proc/zoneinfo
}

# Host RAM that is free, with what could be at once.
mas_free_kib()
{
	local free

	sync
	echo 3 >/proc/sys/vm/drop_caches
	free=$(awk '$1 == "MemFree:" { print $2 }' /proc/meminfo)
	echo $((free + $(mas_per_cpu_pages_kib)))
}
