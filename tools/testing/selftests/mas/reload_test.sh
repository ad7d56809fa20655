#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The driver comes and goes, and the GPUs under it, with I/O in between: nothing
# is refused, nothing is left behind. ROUNDS may be given in the environment.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

MAS_KO=${MAS_MODULE:-$MAS_KO}
ROUNDS=${ROUNDS:-50}
# Rounds before memory is looked at: what the kernel makes once, or makes larger for
# a while, is no leak. A leak goes on in the rounds that follow.
WARMUP=$((ROUNDS / 5))
# Page tables and caches come and go; a GPU's struct pages alone are 4 MiB.
DRIFT_KIB=4096

unbind_all()
{
	local gpu

	for gpu in $MAS_GPUS; do
		mas_unbind "$gpu" || return
	done
}

some_io()
{
	local test

	for test in disk.raw512.aligned_transfers_go_p2p \
		    disk.ext4.unaligned_ends_bounce_and_the_middle_goes_p2p; do
		"$here/route_test" -r $test >"$log" 2>&1 && continue
		sed 's/^/# /' "$log"
		return 1
	done
}

memory_kib()
{
	local kib

	sync
	echo 3 >/proc/sys/vm/drop_caches
	cp /proc/meminfo "$meminfo.now"
	kib=$(awk '$1 == "MemAvailable:" { print $2 }' "$meminfo.now")
	echo $((kib + $(mas_per_cpu_pages_kib)))
}

# Everything the kernel lists under the driver's name, and who owns which range.
# Caches are shrunk first: what is left in them is in use.
traces()
{
	local cache

	for cache in /sys/kernel/slab/{mas,mxcd}*; do
		[ ! -e "$cache/shrink" ] || echo 1 >"$cache/shrink"
	done
	awk '/^(mas|mxcd)/ { print $1, $2 }' /proc/slabinfo
	grep -E 'mxcd|\bmas_' /proc/vmallocinfo
	grep -E 'mxcd|MAS' /proc/interrupts /proc/misc /proc/devices
	cat /proc/iomem
}

remember()
{
	traces >"$traces_before"
	memory_before=$(memory_kib)
	mv "$meminfo.now" "$meminfo"
}

nothing_is_left()
{
	traces >"$log"
	diff "$traces_before" "$log"
}

memory_is_back()
{
	local now

	now=$(memory_kib)
	note "available: $memory_before KiB before, $now KiB later"
	((memory_before - now < DRIFT_KIB)) && return
	diff "$meminfo" "$meminfo.now" | sed 's/^/# /'
	return 1
}

load_and_unload() # ROUNDS
{
	local i

	for ((i = 0; i < $1; i++)); do
		if ! { mas_load && mas_ready && rmmod mxcd; }; then
			note "round $i"
			return 1
		fi
	done
}

load_and_unload_with_io()
{
	local i

	for ((i = 0; i < ROUNDS / 5; i++)); do
		if ! { mas_load && mas_ready && some_io && rmmod mxcd; }; then
			note "round $i"
			return 1
		fi
	done
}

bind_and_unbind_with_io() # ROUNDS
{
	local i

	for ((i = 0; i < $1; i++)); do
		if ! { mas_ready && some_io && unbind_all; }; then
			note "round $i"
			return 1
		fi
	done
}

unbind_with_an_open_context()
{
	exec 3<>/dev/mxcd_mas
	unbind_all || return
	exec 3>&-
	mas_ready && some_io
}

unload_is_refused_while_a_context_is_open()
{
	exec 3<>/dev/mxcd_mas
	rmmod mxcd 2>/dev/null && return 1
	exec 3>&-
	some_io
}

zeros() # BYTES
{
	head -c "$1" /dev/zero
}

# A request by write(): REGISTER descriptor 4 as file 1, then FSYNC file 1.
register_and_fsync()
{
	{
		printf '\6\0' && zeros 6 && printf '\1\0\0\0' && zeros 48 && printf '\4\0\0\0'
		printf '\10\0' && zeros 6 && printf '\1\0\0\0' && zeros 52
	} | dd bs=128 iflag=fullblock status=none >&3
}

# The context is closed, and what it has asked of a slow disk is still under way.
unload_waits_for_what_closed_contexts_have_in_flight()
{
	local start=$SECONDS disk=mas_reload

	modprobe dm-delay
	dmsetup create $disk --table "0 65536 delay $MAS_NVME512 0 3000" || return
	dmsetup mknodes $disk
	exec 4<>/dev/mapper/$disk 3<>/dev/mxcd_mas
	printf x >&4
	register_and_fsync || return
	exec 3>&- 4>&-
	rmmod mxcd || return
	note "unloaded after $((SECONDS - start)) s"
	((SECONDS - start >= 2)) || return
	dmsetup remove --retry $disk
	mas_load && mas_ready
}

log=$(mktemp) traces_before=$(mktemp) meminfo=$(mktemp)
trap 'rm -f "$log" "$traces_before" "$meminfo"*' EXIT

check "the driver unloads" rmmod mxcd
# Once for all that is made only once.
mas_ready && some_io && rmmod mxcd
check "it loads, binds and unloads $WARMUP times" load_and_unload $WARMUP
remember
check "it does so $((ROUNDS - WARMUP)) times more" load_and_unload $((ROUNDS - WARMUP))
check "nothing of it is left" nothing_is_left
check "memory is back" memory_is_back
check "it does so with I/O in between" load_and_unload_with_io
check "nothing of it is left after that" nothing_is_left
mas_load && mas_ready && some_io && unbind_all
check "GPUs bind and unbind $WARMUP times with I/O in between" \
	bind_and_unbind_with_io $WARMUP
remember
check "they do so $((ROUNDS - WARMUP)) times more" bind_and_unbind_with_io $((ROUNDS - WARMUP))
check "nothing is left of GPUs that are unbound" nothing_is_left
check "memory is back after that" memory_is_back
mas_ready
check "GPUs unbind under an open context" unbind_with_an_open_context
check "the driver stays while a context is open" unload_is_refused_while_a_context_is_open
check "unloading waits for what closed contexts have in flight" \
	unload_waits_for_what_closed_contexts_have_in_flight
check "the driver unloads in the end" rmmod mxcd
check "the driver loads and binds again" mas_ready
tap_end
