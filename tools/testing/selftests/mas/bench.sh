#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What an I/O costs, in instructions, beside pread(2), pwrite(2) and io_uring. One
# guest with one emulated CPU whose clock counts instructions (see
# bench_icount.h), so that the figures depend neither on the machine nor on what
# else runs there. What they do depend on is fixed here and printed.

. "$(dirname "$0")/vm-lib.sh"

usage()
{
	cat <<-'END'
		usage: bench.sh [-k VERSION] [-n TURNS] [-q OPTION]... [CASE]...

		Measures all cases (or those whose name begins with CASE, see bench -l) and
		closes with a line for each aim: the ratio, the limit, "met" or "MISSED".

		  -k VERSION   kernel of the guest (6.12)
		  -n TURNS     measurements of each case, the median counts (7)
		  -q OPTION    add an option to QEMU's; repeat it for the next word
	END
}

TURNS=7
QEMU_ARGS=()
CASES=()

# A disk that answers later than the caller can fall asleep.
SLOW_IOPS=2000

# Transfers of at most 2^MDTS pages.
MDTS=7

parse_options()
{
	while (($#)); do
		case $1 in
		-k) KERNEL=$2; shift ;;
		-n) TURNS=$2; shift ;;
		-q) QEMU_ARGS+=("$2"); shift ;;
		-h | --help) usage; exit ;;
		-*) usage >&2; exit 2 ;;
		*) CASES+=("$1") ;;
		esac
		shift
	done
}

write_job()
{
	printf 'MAS_JOB=tests\nMAS_MODULE_PARAMS=mas=1\nMAS_TIMEOUT=7200\n' >"$RUN/share/job"
	cat >"$RUN/share/tests" <<-END
		./bench-guest.sh -n $TURNS ${CASES[*]}
	END
}

start_guest()
{
	SMP=1
	ACCEL=tcg
	VM_APPEND="nokaslr mitigations=auto"
	truncate -s 256M "$RUN"/{raw,ext4,raw-slow,ext4-slow}.img
	in_tree "$RUN" mkfs.ext4 -q -F ext4.img
	in_tree "$RUN" mkfs.ext4 -q -F ext4-slow.img
	vm_nvme raw 512 "$RUN/raw.img"
	vm_nvme ext4 512 "$RUN/ext4.img"
	VM_DRIVE=,throttling.iops-total=$SLOW_IOPS
	vm_nvme raw-slow 512 "$RUN/raw-slow.img"
	vm_nvme ext4-slow 512 "$RUN/ext4-slow.img"
	vm_gpus
	VM_ARGS+=(-global "nvme.mdts=$MDTS" -icount "shift=0,sleep=off" "${QEMU_ARGS[@]}")
	say "the guest starts (kernel $RELEASE), log in $RUN"
	vm_start
}

# Print what the guest says as it comes. Sets RC.
follow_guest()
{
	local seen=0 lines

	RC=
	while [ -z "$RC" ]; do
		vm_running || die "the guest died: $(tail -n 5 "$RUN/console")"
		sleep 1
		RC=$(cat "$RUN/share/1.rc" 2>/dev/null) || true
		lines=$(tail -n "+$((seen + 1))" "$RUN/share/1.tap" 2>/dev/null) || true
		[ -n "$lines" ] || continue
		printf '%s\n' "$lines"
		seen=$((seen + $(wc -l <<<"$lines")))
	done
}

become_root "$0" "$@"
parse_options "$@"
need_commands qemu-system-x86_64=qemu-system-x86
need_guest
need_build
need_run_dir
write_job
echo "# -cpu EPYC, 1 CPU, TCG, -icount shift=0,sleep=off; NVMe mdts=$MDTS"
start_guest
follow_guest
while vm_running; do
	sleep 0.2
done
trouble=$(vm_trouble)
[ -z "$trouble" ] || die "the guest's kernel log: $trouble"
say "bench: exit code $RC"
exit "$RC"
