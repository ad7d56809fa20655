#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# In a guest of topology.sh: each GPU with each disk. Prints, for each pair,
#
#	cell <gpu> <disk> <offset in VRAM> <offset on disk> <what cell said>
#
# or, with "merge", what became of reads to host RAM between reads to VRAM (see merge.c)
# where GPU and disk are behind one switch.
#
# The disks are named by their serial numbers, the GPUs by mgpu_id. VRAM that nobody has
# used is allocated from its first byte on, and what was allocated is kept to the end.

here=$(dirname "$0")

LENGTH=$((256 << 10))
tracing=/sys/kernel/tracing

# In the order of mgpu_id, which is that of $MAS_GPUS.
say_cell() # NUMBER DISK-SERIAL DISK AT
{
	local out=/tmp/cell.$1.$2 offset=$(((16 + $1) << 20)) pid

	"$here/cell" -g "$1" -o $offset -l $LENGTH -k "$3" >"$out" 2>&1 &
	pid=$!
	while kill -0 $pid 2>/dev/null && [ "$(wc -l <"$out")" = 0 ]; do
		sleep 0.1
	done
	echo "cell $1 $2 $4 $offset $(cat "$out")"
}

# The disk with this serial number.
disk_of() # SERIAL
{
	local ctrl serial disk

	for ctrl in /sys/class/nvme/*; do
		read -r serial <"$ctrl/serial"
		for disk in "$ctrl"/nvme*n*; do
			[ "${serial// /}" != "$1" ] || echo "/dev/${disk##*/}"
		done
	done
}

if [ "${1-}" = merge ]; then
	"$here/merge" -g 2 "$(disk_of switch)"
	echo "1..1"
	echo "ok 1 was tried"
	exit
fi

at=0
for ctrl in /sys/class/nvme/*; do
	read -r serial <"$ctrl/serial"
	serial=${serial// /}
	for disk in "$ctrl"/nvme*n*; do
		number=0
		for _ in $MAS_GPUS; do
			say_cell $number "$serial" "/dev/${disk##*/}" $at
			number=$((number + 1))
		done
		at=$((at + 2 * LENGTH))
	done
done
# Who recovers from a PCI error holds the lock of pci_walk_bus() while he waits for the locks
# of devices, and who works out a verdict has such a lock.
if echo pci_walk_bus >$tracing/set_ftrace_filter 2>/dev/null; then
	echo function >$tracing/current_tracer
	for trust in Y N; do
		echo $trust >/sys/module/mxcd/parameters/trust_host_bridge
		grep -H . /sys/class/mxcd/mxcd/layout/nodes/*/storage_links/*/reason | sed 's/^/# /'
	done
	echo "walks $(grep -c 'pci_walk_bus <-' $tracing/trace)"
	echo nop >$tracing/current_tracer
fi
head -n 99 /sys/class/mxcd/mxcd/layout/nodes/*/mas_state
sync
echo "1..1"
echo "ok 1 all cells were tried"
# What VRAM holds is looked at from outside, and is cleared when it is allocated.
kill 0
