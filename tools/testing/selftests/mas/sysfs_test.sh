#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# /sys/class/mxcd/mxcd/layout as existing tools read it, the device nodes, the
# memory type of VRAM, and a driver that is loaded with mas=0.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

layout=/sys/class/mxcd/mxcd/layout
reqfile=$(mktemp)
trap 'rm -f "$reqfile"' EXIT

# The value of a key, as an inspection script finds it.
value() # FILE KEY
{
	awk -v key="$2" '$1 == key { print $2; exit }' "$1"
}

cpu_nodes()
{
	value $layout/properties num_cpu_nodes
}

gpu_nodes()
{
	value $layout/properties num_gpu_nodes
}

node_of() # GPU
{
	echo "$layout/nodes/$(($(cpu_nodes) + $1))"
}

# The PCI function that mgpu_id $1 is, by domain and location_id.
bdf_of() # GPU
{
	local file id

	file=$(node_of "$1")/properties
	id=$(value "$file" location_id)
	printf '%04x:%02x:%02x.%x' "$(value "$file" domain)" $((id >> 8)) \
		$((id >> 3 & 31)) $((id & 7))
}

is_a_virtual_device()
{
	is path /sys/devices/virtual/mxcd/mxcd "$(readlink -f /sys/class/mxcd/mxcd)" &&
		test -d /sys/devices/virtual/mxcd/mxcd/layout
}

grep_mas_prints_one_line()
{
	# shellcheck disable=SC2002 # this is how the manual does it
	is output "mas $1" "$(cat $layout/properties | grep mas)"
}

has_the_keys() # FILE KEY...
{
	local file=$1 key

	shift
	for key; do
		is "lines with $key" 1 "$(grep -cE "^$key -?[0-9]+\$" "$file")" || return
	done
}

every_line_is_a_key_and_an_integer()
{
	local file

	for file in "$layout"/properties "$layout"/nodes/*/properties; do
		if grep -vE '^[a-z_]+ -?[0-9]+$' "$file"; then
			note "is in $file"
			return 1
		fi
	done
}

no_other_key_contains_mas()
{
	is lines 1 "$(grep -c mas $layout/properties)"
}

nodes_are_numbered_without_gaps()
{
	local n total=$(($(cpu_nodes) + $(gpu_nodes)))

	is directories $total "$(find $layout/nodes -mindepth 1 -maxdepth 1 | wc -l)" || return
	for ((n = 0; n < total; n++)); do
		test -d "$layout/nodes/$n" || return
	done
}

counts_are_those_of_the_machine()
{
	# shellcheck disable=SC2086 # a list
	set -- $MAS_GPUS
	is "GPU nodes" $# "$(gpu_nodes)" || return
	set -- /sys/devices/system/node/node[0-9]*
	[ -e "$1" ] || set -- one
	is "CPU nodes" $# "$(cpu_nodes)"
}

# As a link-test script finds GPUs: every line that contains the word counts.
mgpu_ids_are_unique_and_follow_the_nodes()
{
	local dir lines n

	for dir in "$layout"/nodes/*; do
		n=$((${dir##*/} - $(cpu_nodes)))
		lines=$(grep mgpu_id "$dir/properties")
		if ((n < 0)); then
			is "$dir" "" "$lines" || return
		else
			is "$dir" "mgpu_id $n" "$lines" || return
		fi
	done
	is "lines with mgpu_id" "$(gpu_nodes)" "$(grep -rn mgpu_id $layout/nodes | wc -l)"
}

gpu_id_is_one_unsigned_decimal()
{
	local dir id ids=

	for dir in /sys/devices/virtual/mxcd/mxcd/layout/nodes/*; do
		id=$(cat "$dir/gpu_id")
		[[ $id =~ ^[0-9]+$ ]] || return
		is "$dir" "$id" "$(value "$dir/properties" gpu_id)" || return
		if ((${dir##*/} < $(cpu_nodes))); then
			is "$dir" 0 "$id" || return
		else
			((id)) || return
			[[ " $ids " != *" $id "* ]] || return
			ids+=" $id"
		fi
	done
}

gpus_are_the_pci_functions()
{
	local n file pci bdfs=

	for ((n = 0; n < $(gpu_nodes); n++)); do
		file=$(node_of $n)/properties
		bdfs+=" $(bdf_of $n)"
		pci=/sys/bus/pci/devices/$(bdf_of $n)
		is vendor_id $(($(cat "$pci/vendor"))) "$(value "$file" vendor_id)" || return
		is device_id $(($(cat "$pci/device"))) "$(value "$file" device_id)" || return
		is numa_node "$(cat "$pci/numa_node")" "$(value "$file" numa_node)" || return
	done
	# shellcheck disable=SC2086 # lists
	is functions "$(printf '%s\n' $MAS_GPUS | sort)" "$(printf '%s\n' $bdfs | sort)"
}

gpu_properties_are_complete()
{
	local n

	for ((n = 0; n < $(gpu_nodes); n++)); do
		has_the_keys "$(node_of $n)/properties" gpu_id mgpu_id vendor_id device_id \
			domain location_id numa_node vram_size vram_served vram_used \
			page_struct_bytes mas || return
		(($(value "$(node_of $n)/properties" vram_size) >= 64 << 20)) || return
	done
}

mas_is_enabled_on_every_gpu()
{
	local n

	for ((n = 0; n < $(gpu_nodes); n++)); do
		is mas_state enabled "$(cat "$(node_of $n)/mas_state")" || return
		is mas 1 "$(value "$(node_of $n)/properties" mas)" || return
	done
}

cpu_nodes_have_neither_state_nor_links()
{
	local n

	for ((n = 0; n < $(cpu_nodes); n++)); do
		[ ! -e "$layout/nodes/$n/mas_state" ] || return
		[ ! -e "$layout/nodes/$n/mas_provider" ] || return
		[ ! -e "$layout/nodes/$n/storage_links" ] || return
	done
}

nvme_functions()
{
	local ctrl

	for ctrl in /sys/class/nvme/*; do
		basename "$(readlink -f "$ctrl/device")"
	done | sort
}

every_controller_has_a_link()
{
	local files="distance driver proof_read proof_write reason route_read route_write"
	local n bdf dir

	for ((n = 0; n < $(gpu_nodes); n++)); do
		for bdf in $(nvme_functions); do
			dir=$(node_of $n)/storage_links/$bdf
			is files "$files" "$(cd "$dir" && echo *)" || return
			is driver nvme "$(cat "$dir/driver")" || return
			is route_read p2p "$(cat "$dir/route_read")" || return
			is route_write p2p "$(cat "$dir/route_write")" || return
			is reason none "$(cat "$dir/reason")" || return
			[[ $(cat "$dir/distance") =~ ^[0-9]+$ ]] || return
		done
	done
}

# Submits a request of this program's on descriptor 3.
alloc() # GPU BYTES
{
	local i text='\4\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'

	for ((i = 0; i < 64; i += 8)); do
		text+=$(printf '\\%03o' $(($2 >> i & 255)))
	done
	for ((i = 0; i < 28; i++)); do
		text+='\0'
	done
	# shellcheck disable=SC2059 # made for it
	env printf "$text\\$1\\0\\0\\0" >"$reqfile"
	dd bs=64 count=1 status=none <"$reqfile" >&3 &&
		dd bs=32 count=1 status=none <&3 | od -An -t d8 | awk 'NR == 1 { exit $2 <= 0 }'
}

vram_used_follows_allocations()
{
	local n file before now tries=50

	for ((n = 0; n < $(gpu_nodes); n++)); do
		file=$(node_of $n)/properties
		before=$(value "$file" vram_used)
		exec 3<>/dev/mxcd_mas
		alloc $n $((3 << 20)) || return
		is vram_used $((before + (3 << 20))) "$(value "$file" vram_used)" || return
		exec 3>&-
		while now=$(value "$file" vram_used); ((now != before && tries-- > 0)); do
			sleep 0.1
		done
		is vram_used "$before" "$now" || return
	done
}

# Ends well when what it polls changes within 8 s.
poll_properties()
{
	python3 - $layout/properties <<-'END'
		import select, sys
		f = open(sys.argv[1])
		f.read()
		p = select.poll()
		p.register(f, select.POLLPRI)
		print("polling", flush=True)
		sys.exit(0 if p.poll(8000) else 1)
	END
}

unbinding_wakes_who_polls()
{
	local gpu=${MAS_GPUS%% *} pid said tries=50

	said=$(mktemp)
	poll_properties >"$said" &
	pid=$!
	while [ ! -s "$said" ] && ((tries-- > 0)); do
		sleep 0.1
	done
	is "the poller" polling "$(cat "$said")" || return
	rm "$said"
	mas_unbind "$gpu" && wait $pid || return
	mas_bind "$gpu" && mas_bound "$gpu"
}

nodes_belong_to_root_alone()
{
	local node

	for node in /dev/mxcd_mas /dev/mxcd_mas0 /dev/mxcd_mas1; do
		is "$node" "600 0 0 character special file" \
			"$(stat -c '%a %u %g %F' $node)" || return
	done
}

# A directory of the compute stack's name would make others look for one.
no_dev_mxcd()
{
	[ ! -e /dev/mxcd ]
}

load_with_mas_off()
{
	rmmod mxcd && mas_load mas=0 && mas_ready
}

all_bound()
{
	local gpu

	for gpu in $MAS_GPUS; do
		mas_bound "$gpu" || return
	done
}

state_says_off_and_why()
{
	local n

	for ((n = 0; n < $(gpu_nodes); n++)); do
		[[ $(cat "$(node_of $n)/mas_state") =~ ^off:\ .+ ]] || return
		is mas 0 "$(value "$(node_of $n)/properties" mas)" || return
	done
}

open_gives_ENODEV()
{
	local node text

	for node in /dev/mxcd_mas /dev/mxcd_mas0 /dev/mxcd_mas1; do
		text=$( (: <>$node) 2>&1) && return 1
		[[ $text == *"No such device"* ]] || { note "$text"; return 1; }
		text=$( (: >$node) 2>&1) && return 1
		test -c $node || return
	done
}

# Leaves nothing of the smaller stand-in, and something of the larger one.
load_with_too_little_vram_on_one_gpu()
{
	mas_load "mas=1 vram_tail_mb=100" && mas_ready && all_bound
}

one_gpu_is_off_and_says_why_with_numbers()
{
	local n on=0 off=0

	for ((n = 0; n < $(gpu_nodes); n++)); do
		case $(cat "$(node_of $n)/mas_state") in
		enabled) on=$((on + 1)) ;;
		"off: BAR 0: of 64 MiB, 0 + 100 MiB are to be left alone")
			off=$((off + 1))
			;;
		*) cat "$(node_of $n)/mas_state"; return 1 ;;
		esac
	done
	is "GPUs on and off" "1 1" "$on $off"
}

nothing_is_left()
{
	[ ! -e /sys/class/mxcd ] && [ ! -e /sys/devices/virtual/mxcd ] &&
		[ ! -e /dev/mxcd_mas ] && [ ! -e /dev/mxcd_mas0 ]
}

# Addresses in the kernel's half of the address space; those of BARs are no secret.
no_kernel_addresses()
{
	local pointer='\bffff[0-9a-f]{12}\b' found

	exec {fd}<>/dev/mxcd_mas
	found=$({
		grep -arE "$pointer" /sys/class/mxcd/mxcd/
		grep -aHE "$pointer" "/proc/self/fdinfo/$fd" /sys/module/mxcd/parameters/*
		dmesg | grep -a mxcd | grep -aE "$pointer"
	} 2>/dev/null)
	exec {fd}>&-
	is "addresses of the kernel" "" "$found"
}

check "mxcd is a virtual device of class mxcd" is_a_virtual_device
check "grep mas prints exactly 'mas 1'" grep_mas_prints_one_line 1
check "layout/properties has its four keys" \
	has_the_keys $layout/properties num_cpu_nodes num_gpu_nodes peer_mem mas
check "no other key contains the letters mas" no_other_key_contains_mas
check "peer_mem is 0" is peer_mem 0 "$(value $layout/properties peer_mem)"
check "every line is a key, a space and an integer" every_line_is_a_key_and_an_integer
check "the counts are those of the machine" counts_are_those_of_the_machine
check "nodes are numbered without gaps" nodes_are_numbered_without_gaps
check "mgpu_id is unique and follows the nodes" mgpu_ids_are_unique_and_follow_the_nodes
check "gpu_id is one unsigned decimal" gpu_id_is_one_unsigned_decimal
check "GPU nodes have all their keys" gpu_properties_are_complete
check "GPU nodes are the PCI functions" gpus_are_the_pci_functions
check "MAS is enabled on every GPU" mas_is_enabled_on_every_gpu
check "CPU nodes have neither state nor links" cpu_nodes_have_neither_state_nor_links
check "every storage controller has a link" every_controller_has_a_link
check "vram_used follows allocations" vram_used_follows_allocations
check "poll of layout/properties ends when a GPU goes" unbinding_wakes_who_polls
check "device nodes belong to root alone" nodes_belong_to_root_alone
check "there is no /dev/mxcd" no_dev_mxcd
check "no address of the kernel is shown" no_kernel_addresses
check "VRAM is write-combining" mas_vram_is_write_combining
check "the driver loads and binds with mas=0" load_with_mas_off
check "mas=0: all GPUs are bound" all_bound
check "mas=0: grep mas prints exactly 'mas 0'" grep_mas_prints_one_line 0
check "mas=0: mas_state says off and why" state_says_off_and_why
check "mas=0: open gives ENODEV" open_gives_ENODEV
check "the driver unloads" rmmod mxcd
check "nothing of it is left" nothing_is_left
check "the driver loads where one GPU cannot be served" load_with_too_little_vram_on_one_gpu
check "that GPU is off and says why" one_gpu_is_off_and_says_why_with_numbers
check "grep mas prints 'mas 1' for the other" grep_mas_prints_one_line 1
check "the driver unloads from both" rmmod mxcd
check "nothing of it is left again" nothing_is_left
check "the driver loads and binds again" mas_ready
check "grep mas prints exactly 'mas 1' again" grep_mas_prints_one_line 1
tap_end
