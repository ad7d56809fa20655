#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A mixed load of 8 processes with kills and rebinds, for SOAK_SECONDS. Then nothing
# of it may be left.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

duration=${SOAK_SECONDS:-120}
# Caches of the kernel grow for a while; a leak of 1 KiB per request would be more.
DRIFT_KIB=16384

free_kib()
{
	sync
	echo 3 >/proc/sys/vm/drop_caches
	sleep 1
	awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo
}

vram_used()
{
	cat /sys/class/mxcd/mxcd/layout/nodes/*/properties |
		awk '$1 == "vram_used" { n += $2 } END { print n }'
}

requests_in_slab()
{
	local cache=/sys/kernel/slab/mas_req

	[ ! -e $cache/shrink ] || echo 1 >$cache/shrink
	awk '$1 == "mas_req" { print $2 }' /proc/slabinfo
}

vram_is_back()
{
	is "VRAM in use" 0 "$(vram_used)"
}

slab_is_back()
{
	is "requests" "$requests_before" "$(requests_in_slab)"
}

memory_is_back()
{
	local now

	now=$(free_kib)
	note "available: $free_before KiB before, $now KiB after"
	((free_before - now < DRIFT_KIB))
}

# Once, for all that is made only once.
"$here/soak" -t 3 >/dev/null
requests_before=$(requests_in_slab)
free_before=$(free_kib)
check "$duration s of load with kills and rebinds" "$here/soak" -t "$duration"
check "VRAM is back" vram_is_back
if [ -n "$requests_before" ]; then
	check "requests are back" slab_is_back
else
	check "requests are back # SKIP counted with others, boot with slab_nomerge" true
fi
check "memory is back" memory_is_back
check "the driver unloads" rmmod mxcd
check "it loads and binds again" mas_ready
tap_end
