#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# 256 MiB each way between VRAM and storage behind a network, here the loop-back device:
# a disk by NVMe over TCP, a file by NFS. They bounce, for a reason that says so, and
# every byte is right: as read(2) sees it here, and as the server has it. For a guest
# with 1 GiB of VRAM; see check-all.sh.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=net-lib.sh
. "$here/net-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

LENGTH=$((${MAS_NET_MIB:-256} << 20))
dir=/mnt/net
log=$(mktemp)
trap 'rm -f "$log"' EXIT

logged() # COMMAND...
{
	"$@" >"$log" 2>&1 && return
	sed 's/^/# /' "$log"
	return 1
}

bounces() # FILE REASON
{
	local line

	line=$("$here/cell" -g 0 -l $LENGTH "$1")
	note "$line"
	is "the way" "read=$2/bounce/$2/ok write=$2/bounce/$2/ok" "${line#* * }"
}

# Both halves of the file, what was read from it and what was written to it, as it is on
# the disk.
sum_of() # FILE
{
	echo 1 >/proc/sys/vm/drop_caches && head -c $((2 * LENGTH)) "$1" | cksum
}

random_mib() # MIB
{
	head -c "$1M" /dev/urandom
}

over_tcp()
{
	local disk sum rc=0

	random_mib $((LENGTH >> 20)) >"$MAS_NVME512" && sync "$MAS_NVME512" &&
		logged tcp_connect "$MAS_NVME512" && disk=$(tcp_disk) &&
		bounces "$disk" NOT_PCI && sum=$(sum_of "$disk") || rc=1
	tcp_end
	((rc == 0)) && is "what the server has" "$sum" "$(sum_of "$MAS_NVME512")"
}

# The server would have to ask for its delegation back if somebody else opened the file.
over_nfs()
{
	local sum rc=0

	mkdir -p $dir && logged mkfs.ext4 -q -F "$MAS_NVME4K" && mount "$MAS_NVME4K" $dir &&
		mkdir $dir/export $dir/nfs && random_mib $((LENGTH >> 20)) >$dir/export/file &&
		sync $dir/export/file && logged nfs_mount $dir/export $dir/nfs &&
		bounces $dir/nfs/file NO_DIO && sum=$(sum_of $dir/nfs/file) || rc=1
	nfs_end $dir/nfs
	((rc != 0)) || is "what the server has" "$sum" "$(sum_of $dir/export/file)" || rc=1
	umount $dir
	return $rc
}

# All, or what is named.
(($#)) || set -- tcp nfs
for way; do
	check "$way: $((LENGTH >> 20)) MiB each way bounce, and are right" "over_$way"
done
tap_end
