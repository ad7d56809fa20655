#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The parameter "provider": each provider by name, what sysfs says of it, and what
# its page structs cost.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

nodes=/sys/class/mxcd/mxcd/layout/nodes

# What the driver chooses by itself must be what the kernel has.
kernel_has_p2pdma()
{
	grep -q ' T pci_p2pdma_add_resource$' /proc/kallsyms
}

expected_of_auto()
{
	if kernel_has_p2pdma; then
		echo p2pdma
	else
		echo zone_device
	fi
}

load()
{
	! mas_loaded || rmmod mxcd || return
	mas_load "mas=1 $1"
}

reload() # PARAMETERS
{
	load "$1" && mas_ready
}

parameter_is() # VALUE
{
	is parameter "$1" "$(cat /sys/module/mxcd/parameters/provider)"
}

provider_is() # VALUE
{
	local file n=0

	for file in "$nodes"/*/mas_provider; do
		is "$file" "$1" "$(cat "$file")" || return
		n=$((n + 1))
	done
	# shellcheck disable=SC2086 # a list
	is GPUs "$(echo $MAS_GPUS | wc -w)" "$n"
}

state_is() # VALUE
{
	local file

	for file in "$nodes"/*/mas_state; do
		is "$file" "$1" "$(cat "$file")" || return
	done
}

refuses() # VALUE
{
	! load "provider=$1" 2>/dev/null && ! mas_loaded
}

# Through another test, which knows what is right.
moves_data()
{
	"$here/transfer_test" >/tmp/transfer.tap 2>&1 && return
	{ grep -B 8 '^not ok' /tmp/transfer.tap || tail -n 20 /tmp/transfer.tap; } |
		sed 's/^/# /'
	return 1
}

# Of the pool that P2PDMA shows to programs, nothing is to be had.
pool_is_taken()
{
	local bdf

	for bdf in $MAS_GPUS; do
		is "$bdf" 0 "$(cat "/sys/bus/pci/devices/$bdf/p2pmem/available")" || return
	done
}

pool_is_gone()
{
	local bdf

	rmmod mxcd || return
	for bdf in $MAS_GPUS; do
		[ ! -e "/sys/bus/pci/devices/$bdf/p2pmem" ] || return
	done
}

unbind_all()
{
	local bdf

	for bdf in $MAS_GPUS; do
		mas_unbind "$bdf" || return
	done
}

claimed_kib()
{
	awk '$1 == "page_struct_bytes" { n += $2 } END { print n / 1024 }' \
		"$nodes"/*/properties
}

# Page structs are nearly all that binding takes: page tables and the driver's own
# are far less than the difference that sharing makes here, some MiB.
page_structs_cost_what_is_said() # PROVIDER
{
	local before cost slack=1024 tries

	# What else the kernel does meanwhile counts too: the best of three.
	for tries in 1 2 3; do
		reload "provider=$1" && unbind_all || return
		before=$(mas_free_kib)
		mas_ready || return
		cost=$((before - $(mas_free_kib)))
		note "$1, try $tries: $cost KiB were taken, $(claimed_kib) KiB are said to be"
		if ((cost >= $(claimed_kib) - slack && cost <= $(claimed_kib) + slack)); then
			return
		fi
	done
	return 1
}

check "a provider that does not exist is refused" refuses nonsense

check "auto is what is taken by default" reload ""
check "auto: the parameter is shown" parameter_is auto
check "auto: p2pdma where the kernel has it" provider_is "$(expected_of_auto)"

check "zone_device can be chosen" reload provider=zone_device
check "zone_device: the parameter is shown" parameter_is zone_device
check "zone_device: it is used" provider_is zone_device
check "zone_device: VRAM is write-combining" mas_vram_is_write_combining
check "zone_device: data is moved" moves_data
check "zone_device: page structs cost what is said" \
	page_structs_cost_what_is_said zone_device

check "p2pdma can be asked for" reload provider=p2pdma
check "p2pdma: the parameter is shown" parameter_is p2pdma
if kernel_has_p2pdma; then
	check "p2pdma: it is used" provider_is p2pdma
	check "p2pdma: VRAM is write-combining" mas_vram_is_write_combining
	check "p2pdma: nobody else gets VRAM from the pool" pool_is_taken
	check "p2pdma: data is moved" moves_data
	check "p2pdma: page structs cost what is said" page_structs_cost_what_is_said p2pdma
	check "p2pdma: the pool goes with the driver" pool_is_gone
else
	check "p2pdma: it is off, and why" \
		state_is "off: provider p2pdma: the kernel has no PCI_P2PDMA"
	check "p2pdma: no provider is named" provider_is none
fi
check "the driver loads again as it was" reload "${MAS_MODULE_PARAMS#mas=1}"
tap_end
