#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# All GPUs with all disks at once, and one GPU is unbound under the load. For a guest
# with many of both; see many.sh.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

layout=/sys/class/mxcd/mxcd/layout
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
SECONDS_OF_LOAD=${SECONDS_OF_LOAD:-12}

# shellcheck disable=SC2206 # a list
gpus=($MAS_GPUS)
disks=("$MAS_NVME512" "$MAS_NVME4K")
for n in 1 2 3 4 5 6; do
	disk=$(mas_nvme_disk "many$n" 1)
	[ -z "$disk" ] || disks+=("$disk")
done

start_all() # SECONDS
{
	local gpu disk

	for ((gpu = 0; gpu < ${#gpus[@]}; gpu++)); do
		for disk in "${disks[@]}"; do
			"$here/cell" -g "$gpu" -o $(((gpu + 1) << 20)) -l 65536 \
				-t "$1" "$disk" >"$out/$gpu.${disk##*/}" 2>&1 &
		done
	done
}

# Every pair but those of one GPU: p2p, and no byte is wrong.
all_right() # [GPU-THAT-WENT]
{
	local file line bad=0

	for file in "$out"/*; do
		line=$(cat "$file")
		[ "${file##*/}" != "${1-none}.${file##*.}" ] || continue
		if [[ $line != *" read=NONE/p2p/NONE/ok write=NONE/p2p/NONE/ok odd=0" ]]; then
			note "${file##*/}: $line"
			bad=1
		fi
	done
	return $bad
}

all_at_once()
{
	start_all "$SECONDS_OF_LOAD"
	wait
	all_right
}

one_unbound_under_load() # GPU
{
	start_all "$SECONDS_OF_LOAD"
	sleep $((SECONDS_OF_LOAD / 2))
	mas_unbind "${gpus[$1]}" || return
	wait
	all_right "$1"
}

node_of() # GPU
{
	local cpus

	cpus=$(awk '$1 == "num_cpu_nodes" { print $2 }' $layout/properties)
	echo "$layout/nodes/$((cpus + $1))"
}

# Numbers of GPUs that stay bound do not move; tools find those by mgpu_id.
there_is_a_gap() # GPU
{
	local gpu

	for ((gpu = 0; gpu < ${#gpus[@]}; gpu++)); do
		if ((gpu == $1)); then
			[ ! -e "$(node_of $gpu)" ] || return
		else
			is "node of GPU $gpu" "mgpu_id $gpu" \
				"$(grep mgpu_id "$(node_of $gpu)/properties")" || return
		fi
	done
	is num_gpu_nodes $((${#gpus[@]} - 1)) \
		"$(awk '$1 == "num_gpu_nodes" { print $2 }' $layout/properties)"
}

takes_its_number_again() # GPU
{
	mas_bind "${gpus[$1]}" &&
		is "GPU $1" "mgpu_id $1" "$(grep mgpu_id "$(node_of "$1")/properties")"
}

links_are_complete()
{
	local dir storage

	storage=$(find /sys/bus/pci/devices/*/class -exec grep -l ^0x01 {} + | wc -l)
	for dir in "$layout"/nodes/*/storage_links; do
		is "$dir" "$storage" "$(find "$dir" -mindepth 1 -maxdepth 1 | wc -l)" || return
	done
}

property() # GPU KEY
{
	awk -v "key=$2" '$1 == key { print $2 }' "$(node_of "$1")/properties"
}

# As ACPI tells it.
numa_nodes_are_told()
{
	local gpu node far=0

	for ((gpu = 0; gpu < ${#gpus[@]}; gpu++)); do
		read -r node <"/sys/bus/pci/devices/${gpus[gpu]}/numa_node"
		is "numa_node of GPU $gpu" "$node" "$(property $gpu numa_node)" || return
		((node != 1)) || far=$((far + 1))
	done
	is "GPUs on node 1" 2 $far
}

# With what CPUs keep for themselves, which may be as much as is looked for.
free_kib() # NODE
{
	local free kept

	free=$(awk '/MemFree/ { print $4 }' "/sys/devices/system/node/node$1/meminfo")
	kept=$(awk -v "node=$1," '$1 == "Node" { ours = $2 == node }
		ours && $1 == "count:" { n += $2 }
		END { print n * 4 }' /proc/zoneinfo)
	echo $((free + kept))
}

# What host RAM a GPU of the second node takes is that node's.
page_structs_are_on_the_node()
{
	local gpu=$((${#gpus[@]} - 1)) want before0 before1 got0 got1

	while [ "$(property $gpu numa_node)" != 1 ]; do
		gpu=$((gpu - 1))
	done
	want=$(($(property $gpu page_struct_bytes) >> 10))
	mas_unbind "${gpus[gpu]}" && echo 3 >/proc/sys/vm/drop_caches || return
	before0=$(free_kib 0) before1=$(free_kib 1)
	mas_bind "${gpus[gpu]}" && is "mas_state" enabled "$(cat "$(node_of $gpu)/mas_state")" ||
		return
	got0=$((before0 - $(free_kib 0))) got1=$((before1 - $(free_kib 1)))
	note "page structs of GPU $gpu: $want KiB; node 0: $got0 KiB, node 1: $got1 KiB"
	((got1 >= want && got1 - got0 >= want / 2))
}

if ((${#gpus[@]} < 8 || ${#disks[@]} < 8)); then
	echo "1..0 # SKIP ${#gpus[@]} GPUs and ${#disks[@]} disks are not many"
	exit 4
fi
note "${#gpus[@]} GPUs, ${#disks[@]} disks"
check "every GPU has a link to every storage controller" links_are_complete
check "the NUMA node of each GPU is told" numa_nodes_are_told
check "page structs are on the node of their GPU" page_structs_are_on_the_node
check "all pairs at once: p2p, no byte is wrong" all_at_once
check "GPU 3 is unbound under load: the others do not notice" one_unbound_under_load 3
check "its node is missing, the others keep their numbers" there_is_a_gap 3
check "it takes its number again" takes_its_number_again 3
check "all pairs at once again" all_at_once
tap_end
