#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# fio, as it comes, with VRAM as the memory of its I/O: what it writes is what it
# reads, on a raw disk and on two file systems, by three engines, and QEMU's NVMe
# controllers are given addresses of the BAR for it. Where programs must not pin
# VRAM, fio fails and sysfs says why.
#
#	fio_test.sh [SIZE]	in bytes, of each job (4 MiB)

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

size=${1:-$((4 << 20))}
block=65536
nodes=/sys/class/mxcd/mxcd/layout/nodes
node=/dev/mxcd_mas0

gup()
{
	cat "$nodes"/*/mas_gup | head -n 1
}

# Jobs for one file, one after the other; each has VRAM of its own.
jobs() # FILE [OPTION-OF-IO_URING]
{
	local engine rw

	cat <<-END
		[global]
		filename=$1
		size=$size
		bs=$block
		direct=1
		mem=mmapshared:$node
		verify=crc32c
		verify_fatal=1
		randrepeat=1
		stonewall
	END
	for engine in psync libaio io_uring; do
		for rw in write read randrw; do
			echo "[$engine-$rw]"
			echo "ioengine=$engine"
			echo "rw=$rw"
			[ "$engine" = psync ] || echo iodepth=8
			[ "$engine" != io_uring ] || [ -z "${2-}" ] || echo "$2"
		done
	done
}

run_fio() # NAME FILE [OPTION-OF-IO_URING]
{
	local name=$1
	shift

	jobs "$@" >"/tmp/$name.fio"
	(cd /tmp && timeout 300 fio --output="$name.txt" "$name.fio") >"/tmp/$name.out" 2>&1 &&
		return
	head -n 5 "/tmp/$name.out" | sed 's/^/# /'
	return 1
}

# Of each job, what is written is read too, or the other way round.
bytes_moved()
{
	echo $((9 * size))
}

verifies() # NAME FILE [OPTION-OF-IO_URING]
{
	local range seen

	range=$(mas_vram_bar "${MAS_GPUS%% *}")
	mas_ask "trace-event pci_nvme_map_addr on" || return
	run_fio "$@" || return
	mas_ask "trace-event pci_nvme_map_addr off" || return
	seen=$(mas_ask "dma_within $range")
	note "$1: the disk was given addresses of $seen bytes of VRAM, of at least $(bytes_moved)"
	[ "$seen" -ge "$(bytes_moved)" ]
}

is_refused() # FILE
{
	local out

	out=$(fio --name=x --filename="$1" --size=$block --bs=$block --direct=1 --rw=read \
		--ioengine=psync "--mem=mmapshared:$node" 2>&1) && return 1
	is error 'Bad address' "$(grep -om 1 'Bad address' <<<"$out")"
}

says_why() # REASON
{
	is mas_gup "no: $1" "$(gup)"
}

nothing_is_left()
{
	awk '$1 == "vram_used" { n += $2 } END { exit n != 0 }' "$nodes"/*/properties
}

provider=$(cat "$nodes"/*/mas_provider | head -n 1)
note "provider $provider, gup: $(gup)"
if [ "$provider" = zone_device ] && ! grep -q Y /sys/module/mxcd/parameters/gup; then
	check "without gup=1 direct I/O with VRAM is refused" is_refused "$MAS_NVME512"
	check "sysfs says that gup is 0" says_why "module parameter gup is 0"
	rmmod mxcd
	check "the driver loads with gup=1" mas_load "$MAS_MODULE_PARAMS gup=1"
	check "it binds" mas_ready
fi
# Opening it has the ways proved, where that matters.
: <"$node"
check "programs may pin VRAM" is mas_gup yes "$(gup)"
check "raw disk: what fio writes is what it reads" verifies raw "$MAS_NVME512"
check "ext4: what fio writes is what it reads" verifies ext4 "$MAS_EXT4/fio"
check "xfs: what fio writes is what it reads" verifies xfs "$MAS_XFS/fio"
# P2PDMA lets nobody pin for long, and 6.1 registers no mapping of a device.
case $provider-$(uname -r) in
zone_device-6.1.*) note "6.1: io_uring registers no memory of a device" ;;
zone_device-*)
	check "raw disk, registered buffers: what fio writes is what it reads" \
		verifies fixed "$MAS_NVME512" fixedbufs=1
	;;
esac
check "all VRAM is free afterwards" nothing_is_left
tap_end
