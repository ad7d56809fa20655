#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# many_test.sh in a guest with eight GPUs, eight NVMe controllers and two NUMA nodes, two
# of the GPUs on the second. The arguments go to vmtest.sh.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
images=$(mktemp -d)
trap 'rm -rf "$images"' EXIT
args=()

qemu() # OPTION...
{
	local word

	for word; do
		args+=(-q "$word")
	done
}

# A CPU on each node, which no cache is shared with.
args+=(-s "2,sockets=2")
for n in 0 1; do
	qemu -object "memory-backend-ram,id=node$n,size=1G"
	qemu -numa "node,nodeid=$n,cpus=$n,memdev=node$n"
done
qemu -device pxb-pcie,id=far,bus=pcie.0,bus_nr=128,numa_node=1
# vmtest.sh has two stand-ins and two controllers with plain disks itself.
for n in 1 2 3 4 5 6; do
	truncate -s 64M "$images/$n.img"
	size=32M where=pcie.0
	if ((n > 4)); then
		# As much as makes its page structs seen in what is free of a node.
		size=512M where=far$n
		qemu -device "pcie-root-port,id=far$n,bus=far,chassis=$n,slot=$n"
	fi
	qemu -object "memory-backend-ram,id=many$n,size=$size,share=on"
	qemu -device "ivshmem-plain,memdev=many$n,bus=$where"
	qemu -drive "file=$images/$n.img,id=many-disk$n,if=none,format=raw,cache=unsafe"
	qemu -device "nvme,serial=many$n,drive=many-disk$n,bus=pcie.0"
done
"$here/vmtest.sh" "${args[@]}" "$@" -- many_test.sh
