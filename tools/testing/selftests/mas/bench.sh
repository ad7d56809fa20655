#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What an I/O costs beside pread(2), pwrite(2), io_uring and NVMe passthrough.
#
# One guest counts instructions: it has one emulated CPU whose clock counts them
# (see bench_icount.h), so that the figures depend neither on the machine nor on
# what else runs there. What they do depend on is fixed here and printed. Another
# guest does the same cases a few times more while the emulator watches: it lists
# what the disks do, and a plugin counts what the CPU does to VRAM. That costs
# time, and so no instructions are counted there.

. "$(dirname "$0")/vm-lib.sh"

usage()
{
	cat <<-'END'
		usage: bench.sh [-k VERSION] [-n TURNS] [-i] [-c] [-b NAME=VALUE]... [-q OPTION]...
		                [CASE]...

		Measures all cases (or those whose name begins with CASE, see bench -l) and
		closes with a line for each aim: the ratio, the limit, "met" or "MISSED".

		  -k VERSION   kernel of the guest (6.12)
		  -n TURNS     measurements of each case, the median counts (7)
		  -i           count instructions (the default, if a CASE is named)
		  -c           count commands, doorbells, DMA and accesses to VRAM
		               (with neither, and no CASE named: both)
		  -b NAME=VALUE  a variable of make for the driver: CONFIG_MXCD_STATS=n
		  -q OPTION    add an option to QEMU's; repeat it for the next word
	END
}

TURNS=7
COUNT=
WATCH=
QEMU_ARGS=()
CASES=()

# A disk that answers later than the caller can fall asleep.
SLOW_IOPS=500

# Transfers of at most 2^MDTS pages.
MDTS=7
SMALL_MDTS=5

VRAM=2G
VRAM_BYTES=$((2 << 30))

NVME_EVENTS=(io_cmd read write map_addr mmio_doorbell_sq mmio_doorbell_cq irq_msix)

parse_options()
{
	while (($#)); do
		case $1 in
		-k) KERNEL=$2; shift ;;
		-n) TURNS=$2; shift ;;
		-i) COUNT=1 ;;
		-c) WATCH=1 ;;
		-b) BUILD_VARS+=("$2"); shift ;;
		-q) QEMU_ARGS+=("$2"); shift ;;
		-h | --help) usage; exit ;;
		-*) usage >&2; exit 2 ;;
		*) CASES+=("$1") ;;
		esac
		shift
	done
	if [ -z "$COUNT$WATCH" ]; then
		COUNT=1
		((${#CASES[@]})) || WATCH=1
	fi
}

write_job() # OPTION...
{
	rm -rf "$RUN/share"
	mkdir "$RUN/share"
	printf 'MAS_JOB=tests\nMAS_MODULE_PARAMS=mas=1\nMAS_TIMEOUT=7200\n' >"$RUN/share/job"
	cat >"$RUN/share/tests" <<-END
		./bench-guest.sh $* ${CASES[*]}
	END
}

# A fast disk, and a slow one of the same kind.
add_disks() # NAME
{
	rm -f "$RUN/$1.img" "$RUN/$1-slow.img"
	truncate -s 256M "$RUN/$1.img" "$RUN/$1-slow.img"
	if [ "$1" = ext4 ]; then
		in_tree "$RUN" mkfs.ext4 -q -F ext4.img
		in_tree "$RUN" mkfs.ext4 -q -F ext4-slow.img
	fi
	VM_DRIVE=
	vm_nvme "$1" 512 "$RUN/$1.img"
	VM_DRIVE=,throttling.iops-total=$SLOW_IOPS
	vm_nvme "$1-slow" 512 "$RUN/$1-slow.img"
}

start_guest() # QEMU-OPTION...
{
	SMP=1
	# As -icount has it; said, since vm_start() heeds it.
	ACCEL=tcg,thread=single
	VM_APPEND="nokaslr mitigations=auto"
	VM_ARGS=()
	add_disks raw
	add_disks ext4
	add_disks mdts5
	VM_ARGS+=(-global "nvme.mdts=$MDTS" -set "device.mdts5.mdts=$SMALL_MDTS"
		  -set "device.mdts5-slow.mdts=$SMALL_MDTS" -icount "shift=0,sleep=off")
	vm_gpus
	VM_ARGS+=("$@" "${QEMU_ARGS[@]}")
	vm_start
}

# Print what the guest says as it comes. Sets RC.
follow_guest()
{
	local seen=0 lines trouble

	RC=
	while [ -z "$RC" ]; do
		vm_running || die "the guest died: $(tail -n 5 "$RUN/console" "$RUN/qemu.log")"
		sleep 1
		RC=$(cat "$RUN/share/1.rc" 2>/dev/null) || true
		lines=$(tail -n "+$((seen + 1))" "$RUN/share/1.tap" 2>/dev/null) || true
		[ -n "$lines" ] || continue
		[ -n "${QUIET-}" ] || printf '%s\n' "$lines"
		seen=$((seen + $(wc -l <<<"$lines")))
	done
	while vm_running; do
		sleep 0.2
	done
	trouble=$(vm_trouble)
	[ -z "$trouble" ] || die "the guest's kernel log: $trouble"
}

count_instructions()
{
	write_job -n "$TURNS"
	say "a guest counts instructions (kernel $RELEASE), log in $RUN"
	start_guest
	follow_guest
}

watch_accesses()
{
	local event watch=() QUIET=1

	for event in "${NVME_EVENTS[@]}"; do
		watch+=(-trace "pci_nvme_$event")
	done
	watch+=(-plugin "$BUILD/tools/testing/selftests/mas/bench_plugin.so,vram=$VRAM_BYTES"
		-d plugin -D "$RUN/trace")
	write_job -c
	say "a guest is watched by the emulator"
	start_guest "${watch[@]}"
	follow_guest
	((RC == 0)) || die "the guest: $(tail -n 5 "$RUN/share/1.tap")"
	"$SELFTESTS/bench_count.py" "$RUN/share/1.tap" "$RUN/trace" || RC=1
}

become_root "$0" "$@"
parse_options "$@"
need_commands qemu-system-x86_64=qemu-system-x86 python3=python3-minimal
need_guest
need_build
need_run_dir
trap 'vm_kill; rm -f "$RUN"/*.img "$RUN/vram" "$RUN/trace"' EXIT
echo "# $(qemu-system-x86_64 --version | head -n 1)"
echo "# -cpu EPYC, 1 CPU, TCG, -icount shift=0,sleep=off; NVMe mdts=$MDTS, mdts5: $SMALL_MDTS"
RC=0
[ -z "$COUNT" ] || count_instructions
((RC)) || [ -z "$WATCH" ] || watch_accesses
say "bench: exit code $RC"
exit "$RC"
