#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Routes between GPUs and disks wherever they are. One machine has GPUs and disks on
# the root bus, below root ports of their own, and below one switch: nine pairs. It is
# started with the IOMMU off, on and in pass-through mode, with a CPU whose host bridge
# is known to route traffic between PCI devices and with one whose is not. For each
# pair and direction the route and the reason must be as they should, and the data is
# compared from outside: VRAM, which the host sees as a file, with the disk's image.

. "$(dirname "$0")/vm-lib.sh"

# Where a GPU or a disk is.
PLACES=(root port switch)
LENGTH=$((256 << 10))

passed=0
failed=0

usage()
{
	cat <<-'END'
		usage: topology.sh [-k VERSION] [-p PROVIDER] [-m MACHINE]...

		Prints route and reason of each GPU with each disk, in each direction, and what
		became of the data. MACHINE is one or more of

		  "off EPYC" "off Nehalem" "on EPYC" "on Nehalem" "pt Nehalem" lose

		(all): the IOMMU off, translating or passing through, with a CPU whose host bridge
		is known to route between devices or with one that is not; and what is lost
		without the proof, and without the fence between requests (7.3 with p2pdma).
	END
}

# Three disks and three GPUs. Whatever is behind the IOMMU must come after it.
prepare_machine() # IOMMU
{
	local place n=0

	VM_ARGS=()
	[ "$1" = off ] || VM_ARGS+=(-device "intel-iommu,intremap=off")
	VM_ARGS+=(-device "pcie-root-port,id=port-gpu,chassis=1,slot=1"
		  -device "pcie-root-port,id=port-disk,chassis=2,slot=2"
		  -device "pcie-root-port,id=port-switch,chassis=3,slot=3"
		  -device "x3130-upstream,id=up,bus=port-switch"
		  -device "xio3130-downstream,id=down-gpu,bus=up,chassis=4,slot=0"
		  -device "xio3130-downstream,id=down-disk,bus=up,chassis=5,slot=1")
	for place in "${PLACES[@]}"; do
		truncate -s 64M "$RUN/vram$n"
		head -c 32M /dev/urandom >"$RUN/$place.img"
		VM_ARGS+=(-object
			"memory-backend-file,id=vram$n,mem-path=$RUN/vram$n,size=64M,share=on"
			  -device "ivshmem-plain,memdev=vram$n,$(bus_of gpu "$place")"
			  -drive
			"file=$RUN/$place.img,id=$place,if=none,format=raw,cache=unsafe"
			  -device "nvme,serial=$place,drive=$place,$(bus_of disk "$place")")
		n=$((n + 1))
	done
}

bus_of() # gpu|disk PLACE
{
	case $2 in
	root) echo "bus=pcie.0" ;;
	port) echo "bus=port-$1" ;;
	switch) echo "bus=down-$1" ;;
	esac
}

run_guest() # MODULE-PARAMS [TEST]...
{
	local deadline=$((EPOCHSECONDS + 900))

	rm -rf "$RUN/share"
	mkdir "$RUN/share"
	printf 'MAS_JOB=tests\nMAS_MODULE_PARAMS=%q\nMAS_TIMEOUT=500\n' "$1" >"$RUN/share/job"
	printf './topology-guest.sh %s\n' "${@:2}" >"$RUN/share/tests"
	vm_start
	while vm_running; do
		((EPOCHSECONDS < deadline)) || vm_kill
		sleep 0.2
	done
}

# What should become of a pair: the reason why it bounces, or NONE.
wanted() # IOMMU CPU GPU DISK
{
	local known=0

	[ "$2" != EPYC ] || known=1
	if [ "$3 $4" = "switch switch" ] && [ "$1" != on ]; then
		echo NONE
	elif ((known)); then
		wanted_of_provider "$1" "$3" "$4"
	elif [ "$1" = on ]; then
		echo IOMMU
	else
		echo HOST_BRIDGE
	fi
}

# The kernel's P2PDMA hands out bus addresses below a common switch even where an IOMMU
# translates. QEMU's switch does not turn such traffic around: it is lost.
wanted_of_provider() # IOMMU GPU DISK
{
	if [ "$PROVIDER" = p2pdma ] && [ "$1 $2 $3" = "on switch switch" ]; then
		echo PROOF_FAILED
	else
		echo NONE
	fi
}

same() # GPU VRAM-OFFSET DISK DISK-OFFSET
{
	cmp -s -n $LENGTH -i "$2:$4" "$RUN/vram$1" "$RUN/$3.img"
}

# Judge one line of the guest's.
judge_cell() # IOMMU CPU TEXT GPU DISK VRAM-OFFSET DISK-OFFSET WORD...
{
	local iommu=$1 cpu=$2 text=$3 gpu=$4 disk=$5 at=$6 offset=$7 want route word
	local read='' write='' data=right bad=0
	shift 7

	for word; do
		case $word in
		read=*) read=${word#*=} ;;
		write=*) write=${word#*=} ;;
		esac
	done
	want=$(wanted "$iommu" "$cpu" "${PLACES[gpu]}" "$disk")
	route=p2p
	[ "$want" = NONE ] || route=bounce
	# A write finds out only on its way.
	[ "$read" = "$want/$route/$want/ok" ] || bad=1
	[[ $write == */"$route/$want/ok" ]] || bad=1
	same "$gpu" "$at" "$disk" "$offset" || data="read is WRONG"
	same "$gpu" $((at + LENGTH)) "$disk" $((offset + LENGTH)) || data="write is WRONG"
	[ "$data" = right ] || bad=1
	printf '%s %-7s %-7s %-24s %-24s %s\n' "$text" "${PLACES[gpu]}" "$disk" \
		"${read#*/}" "${write#*/}" "$data"
	if ((bad)); then
		echo "         FAIL: wanted $route, $want"
		failed=$((failed + 1))
	else
		passed=$((passed + 1))
	fi
}

# Is the host bridge of this CPU known to route between devices?
bridge() # CPU
{
	[ "$1" = EPYC ] && echo known || echo unknown
}

try_machine() # IOMMU CPU
{
	local iommu=$1 cells=0 line trouble text

	CPU=$2
	case $iommu in
	on) VM_APPEND="intel_iommu=on iommu=nopt" ;;
	pt) VM_APPEND="intel_iommu=on iommu=pt" ;;
	*) VM_APPEND= ;;
	esac
	prepare_machine "$iommu"
	run_guest "mas=1 provider=$PROVIDER" ""
	text=$(printf '%-5s %-8s' "$iommu" "$(bridge "$CPU")")
	while read -r _ line; do
		# shellcheck disable=SC2086 # words
		judge_cell "$iommu" "$CPU" "$text" $line
		cells=$((cells + 1))
	done < <(grep '^cell ' "$RUN/share/1.tap")
	# Of a bridge that is known nobody asks what it is.
	[ "$CPU" = EPYC ] || verdict "a verdict is worked out without the lock of all buses" \
		grep -qx "walks 0" "$RUN/share/1.tap"
	trouble=$(vm_trouble)
	if ((cells != 9)) || [ -n "$trouble" ]; then
		failed=$((failed + 1))
		say "FAIL: $cells of 9 pairs; $trouble"
		tail -qn 20 "$RUN/share/1.tap" "$RUN/console" "$RUN/qemu.log" || true
	fi
}

verdict() # TEXT COMMAND...
{
	if "${@:2}"; then
		say "$1"
		passed=$((passed + 1))
	else
		say "FAIL: $1"
		cat "$RUN"/share/*.tap
		failed=$((failed + 1))
	fi
}

# The pair that P2PDMA gives bus addresses for, and whose traffic QEMU's switch loses.
is_lost_unnoticed()
{
	local line

	line=$(grep '^cell 2 switch ' "$RUN/share/2.tap")
	# shellcheck disable=SC2086 # words
	set -- $line
	[[ $line == *" read=NONE/p2p/NONE/wrong@"* ]] && ! same 2 "$4" switch "$5"
}

found() # REGEXP
{
	grep -qE "^$1\$" "$RUN/share/1.tap"
}

# What proof and fence are for: one pair, with the rule believed without a proof.
lose_without()
{
	CPU=EPYC VM_APPEND="intel_iommu=on iommu=nopt"
	prepare_machine on
	run_guest "mas=1 provider=p2pdma fault=4" merge ""
	verdict "without the proof: reported as p2p, and the data is not in VRAM" \
		is_lost_unnoticed
	grep '^apart\|^merged' "$RUN/share/1.tap" || true
	verdict "host I/O merged with VRAM, as without the fence: what the host read is lost" \
		found 'merged: rounds=20 merged=40 failed=0 host-wrong=20 vram-wrong=[0-9]+'
	verdict "host I/O beside VRAM, with the fence: what the host read is right" \
		found 'apart: rounds=20 merged=0 failed=0 host-wrong=0 vram-wrong=[0-9]+'
}

MACHINES=("off EPYC" "off Nehalem" "on EPYC" "on Nehalem" "pt Nehalem" lose)
PROVIDER=
chosen=()
args=("$@")
while (($#)); do
	case $1 in
	-k) KERNEL=$2; shift 2 ;;
	-p) PROVIDER=$2; shift 2 ;;
	-m) chosen+=("$2"); shift 2 ;;
	-h | --help) usage; exit ;;
	*) usage >&2; exit 2 ;;
	esac
done
become_root "$0" "${args[@]}"
need_commands qemu-system-x86_64=qemu-system-x86
need_guest
need_build
need_accel
need_run_dir
trap 'vm_kill; rm -f "$RUN"/*.img "$RUN"/vram*' EXIT
# As "auto" does it.
[ -n "$PROVIDER" ] || case $KERNEL in
	6.*) PROVIDER=zone_device ;;
	*) PROVIDER=p2pdma ;;
esac
((${#chosen[@]} == 0)) || MACHINES=("${chosen[@]}")
echo "kernel $RELEASE, provider $PROVIDER"
echo "IOMMU bridge   GPU     disk    read                     write                    data"
for machine in "${MACHINES[@]}"; do
	if [ "$machine" != lose ]; then
		# shellcheck disable=SC2086 # words
		try_machine $machine
	elif [ "$PROVIDER" = p2pdma ]; then
		lose_without
	fi
done
echo "$passed passed, $failed failed"
((failed == 0))
