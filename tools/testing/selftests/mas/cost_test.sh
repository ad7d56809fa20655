#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# How much host RAM a GiB of VRAM takes, by each provider of the kernel and with each
# size of page. For a guest whose first stand-in has some GiB; see check-all.sh. The
# lines "cost:" are the table in Documentation/gpu/mxcd/driver.rst.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

nodes=/sys/class/mxcd/mxcd/layout/nodes
gpu=${MAS_GPUS%% *}

# Of the only GPU that is bound.
property() # KEY
{
	awk -v "key=$1" '$1 == key && $2 { print $2 }' "$nodes"/*/properties
}

load() # PARAMETERS
{
	! mas_loaded || rmmod mxcd || return
	mas_load "mas=1 $1"
}

# Those that were bound before are bound by loading.
unbind_all()
{
	local bdf

	for bdf in $MAS_GPUS; do
		! mas_bound "$bdf" || mas_unbind "$bdf" || return
	done
}

# Sets cost and said to KiB, of which as much is page structs.
bind_and_measure()
{
	local before

	before=$(mas_free_kib)
	mas_bind "$gpu" || return
	cost=$((before - $(mas_free_kib)))
	said=$(($(property page_struct_bytes) / 1024))
	vram=$(($(property vram_size) >> 20))
}

# Page tables and the driver's own come on top: at most 2.5 MiB per GiB with pages of
# 4 KiB. What else the kernel does meanwhile counts too: the best of three.
costs() # PROVIDER PAGES PARAMETERS
{
	local cost said vram try

	for try in 1 2 3; do
		load "provider=$1 $3" && unbind_all && bind_and_measure || return
		note "try $try: $vram MiB of VRAM: $cost KiB taken, page structs $said KiB"
		((cost < said - 512 || cost > said + 512 + vram * 5 / 2)) || break
	done
	note "cost: $(uname -r) $1 $2: page structs $((said * 1024 / vram)) KiB," \
		"taken $((cost * 1024 / vram)) KiB per GiB"
	((cost >= said - 512 && cost <= said + 512 + vram * 5 / 2))
}

if (($(stat -c %s "/sys/bus/pci/devices/$gpu/resource2" 2>/dev/null || echo 0) < 4 << 30)); then
	echo "1..0 # SKIP the first stand-in has less than 4 GiB"
	exit 4
fi
check "zone_device, pages of 1 GiB" costs zone_device "1 GiB" ""
check "zone_device, pages of 2 MiB" costs zone_device "2 MiB" vram_head_mb=2
check "zone_device, gup=1" costs zone_device "4 KiB (gup=1)" gup=1
if grep -q ' T pci_p2pdma_add_resource$' /proc/kallsyms; then
	check "p2pdma" costs p2pdma "4 KiB" ""
fi
check "the driver loads again as it was" load "${MAS_MODULE_PARAMS#mas=1}"
tap_end
