#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Run the selftests in a virtual machine: a stock Debian kernel, QEMU's NVMe
# disks, and stand-ins for GPUs into whose BARs these disks really do DMA.

. "$(dirname "$0")/vm-lib.sh"
. "$SELFTESTS/vm-coverage.sh"

usage()
{
	cat <<-'END'
		usage: vmtest.sh [OPTION]... [-- PROGRAM [ARGUMENT]...]

		Builds driver and tests, runs the tests (or the one given) in a guest and
		closes with the line "N passed, N failed".

		  -k VERSION   kernel of the guest: 6.1, 6.12 (default), 7.3, debug or kcsan
		  -s CPUS      CPUs of the guest (2)
		  -m PARAMS    parameters of the module (mas=1)
		  -v SIZE      VRAM of the first stand-in (256M)
		  -a WORDS     add to the command line of the kernel
		  -q OPTION    add an option to QEMU's; repeat it for the next word
		  -t SECONDS   longest time without a result, then the guest is killed (720)
		  --ports      disks and first stand-in behind PCIe root ports, to be unplugged
		  --coverage   list the lines of the driver that no test ran (-k debug)
		  --shell      a shell in the guest instead of tests
		  --list       names of the tests
		  -h, --help   this text

		PROGRAM is a name in this directory (it is started there) or any command
		of the guest. Everything made is kept in ${XDG_CACHE_HOME:-~/.cache}/mxcd.
	END
}

# Queues that are polled, beside the usual ones.
VM_APPEND+=" nvme.poll_queues=1"
PARAMS="mas=1"
TIMEOUT=720
QEMU_ARGS=()
COVERAGE=
JOB=tests
PROGRAM=()

parse_options()
{
	while (($#)); do
		case $1 in
		-k) KERNEL=$2; shift ;;
		-s) SMP=$2; shift ;;
		-m) PARAMS=$2; shift ;;
		-v) VRAM=$2; VRAM_OBJECT=memory-backend-memfd; shift ;;
		-a) VM_APPEND+=" $2"; shift ;;
		-q) QEMU_ARGS+=("$2"); shift ;;
		-t) TIMEOUT=$2; shift ;;
		--ports) VM_PORTS=1 ;;
		--coverage) COVERAGE=1 ;;
		--shell) JOB=shell ;;
		--list) JOB=list ;;
		-h | --help) usage; exit ;;
		--) shift; PROGRAM=("$@"); break ;;
		*) usage >&2; exit 2 ;;
		esac
		shift
	done
}

# The commands to run, one a line.
list_tests()
{
	local program

	if [ "$KERNEL" = kcsan ] && ((${#PROGRAM[@]} == 0)); then
		printf './%s\n' "${RACE_TESTS[@]}"
	elif ((${#PROGRAM[@]})); then
		program=${PROGRAM[0]}
		[ ! -e "$BUILD/tools/testing/selftests/mas/$program" ] || program=./$program
		printf '%q' "$program"
		((${#PROGRAM[@]} == 1)) || printf ' %q' "${PROGRAM[@]:1}"
		echo
	else
		sed 's,^,./,' "$BUILD/tests"
	fi
}

# Raw disks with blocks of 512 and 4096 bytes, each with a file system beside it, and
# two namespaces that are shared by one and by two controllers.
prepare_devices()
{
	truncate -s 1G "$RUN"/{raw512,raw4k,ext4,xfs}.img
	truncate -s 64M "$RUN"/{path1,path2}.img
	in_tree "$RUN" mkfs.ext4 -q -F ext4.img
	in_tree "$RUN" mkfs.xfs -q -f -s size=4096 xfs.img
	truncate -s 8G "$RUN/raw512.img"
	VM_ARGS=()
	VM_NR_PORTS=0
	vm_nvme mas512 512 "$RUN/raw512.img" "$RUN/ext4.img"
	vm_nvme mas4k 4096 "$RUN/raw4k.img" "$RUN/xfs.img"
	vm_shared_nvme massp "$RUN/path1.img" 1
	vm_shared_nvme masmp "$RUN/path2.img" 2
	vm_gpus
	[ -z "$VM_PORTS" ] || prepare_hot_disk
	VM_ARGS+=("${QEMU_ARGS[@]}")
}

# QEMU can plug a controller again, but no namespaces into it: it has just one.
prepare_hot_disk()
{
	truncate -s 512M "$RUN/hot.img"
	vm_port hot
	VM_ARGS+=(-drive "file=$RUN/hot.img,id=hot-1,if=none,format=raw,cache=unsafe"
		  -device "nvme,id=hot,serial=hot,drive=hot-1$REPLY")
}

write_job()
{
	rm -rf "$RUN/share"
	mkdir "$RUN/share"
	printf 'MAS_JOB=%q\nMAS_MODULE_PARAMS=%q\nMAS_SLOW=%q\n' "$JOB" "$PARAMS" "$SLOW" \
		>"$RUN/share/job"
	printf '%s\n' "$@" >"$RUN/share/tests"
}

# --- results ------------------------------------------------------------------

passed=0
failed=0
skipped=0

pass()
{
	passed=$((passed + 1))
}

fail() # TEXT
{
	failed=$((failed + 1))
	say "FAIL: $*"
}

# Print what was said since the last good result before each bad one.
failed_results() # TAP
{
	awk '{ said = said "         " $0 "\n" }
	     /^not ok / { printf "%s", said }
	     /^(not )?ok / { said = "" }' "$1"
}

# Count the results of one program: its TAP lines, the plan and the exit code.
count_results() # NAME TAP RC SECONDS
{
	local name=$1 tap=$2 rc=$3 ok bad skip plan before=$failed

	ok=$(grep -acE '^ok ' "$tap") || true
	skip=$(grep -acE '^ok .*# SKIP' "$tap") || true
	bad=$(grep -acE '^not ok ' "$tap") || true
	plan=$(grep -aoE '^1\.\.[0-9]+' "$tap" | head -n 1) || true
	plan=${plan#1..}
	passed=$((passed + ok - skip))
	skipped=$((skipped + skip))
	grep -aE '^ok .*# SKIP' "$tap" | sed "s|^|         $name: |" || true
	if ((bad)); then
		failed=$((failed + bad))
		failed_results "$tap"
	fi
	if [ "$rc" = died ]; then
		fail "$name: the guest died in it"
	elif [ "$rc" = 124 ] || [ "$rc" = 137 ]; then
		fail "$name: not finished in time"
	elif [ "$rc" = 4 ] && ((ok + bad == 0)); then
		skipped=$((skipped + 1))
		sed "s|^|         $name: |" "$tap"
	elif ((rc != 0 && bad == 0)); then
		fail "$name: exit code $rc"
	elif ((ok + bad == 0)); then
		fail "$name: no result"
	elif [ -n "$plan" ] && ((plan != ok + bad)); then
		fail "$name: planned $plan results, gave $((ok + bad))"
	fi
	if ((failed > before && bad == 0)); then
		tail -n 30 "$tap" | sed 's/^/         /'
	fi
	say "$name: $((ok - skip)) passed, $((failed - before)) failed, $skip skipped ($4 s)"
}

# Follow a guest that runs the given tests, until it is off. Sets DONE to the
# number of tests that had their turn.
follow_guest() # NAME...
{
	local names=("$@") timeout=$((TIMEOUT * SLOW)) number rc end running
	local deadline=$((EPOCHSECONDS + timeout))
	local share=$RUN/share

	DONE=0
	while :; do
		running=0
		! vm_running || running=1
		while ((DONE < ${#names[@]})); do
			number=$((DONE + 1))
			[ -s "$share/$number.rc" ] || break
			rc=$(cat "$share/$number.rc")
			end=$(stat -c %Y "$share/$number.rc")
			count_results "${names[DONE]}" "$share/$number.tap" "$rc" \
				$((end - $(cat "$share/$number.start")))
			DONE=$number
			deadline=$((EPOCHSECONDS + timeout))
		done
		((running)) || break
		vm_serve
		if ((EPOCHSECONDS > deadline)); then
			fail "no result and no power-off within $timeout s"
			vm_kill
		fi
		sleep 0.1
	done
	number=$((DONE + 1))
	if ((DONE < ${#names[@]})) && [ -e "$share/$number.start" ]; then
		[ -e "$share/$number.tap" ] || : >"$share/$number.tap"
		count_results "${names[DONE]}" "$share/$number.tap" died \
			$((EPOCHSECONDS - $(cat "$share/$number.start")))
		DONE=$number
	fi
}

# The guest turned itself off and its kernel had nothing to complain of.
judge_guest()
{
	local trouble

	trouble=$(vm_trouble)
	if [ -n "$trouble" ]; then
		fail "the guest's kernel log"
		printf '%s\n' "$trouble" | sed 's/^/         /'
	elif [ ! -e "$RUN/share/done" ]; then
		fail "the guest did not turn itself off"
		tail -qn 20 "$RUN/console" "$RUN/qemu.log" |
			grep -v "TCG doesn't support" | sed 's/^/         /'
	else
		pass
	fi
}

boot=0

# Run the tests; a guest that dies is followed by another for the rest of them.
run_tests() # COMMAND...
{
	local tests=("$@")

	while ((${#tests[@]})); do
		boot=$((boot + 1))
		write_job "${tests[@]}"
		prepare_devices
		say "guest $boot starts ($ACCEL, $SMP CPUs, kernel $RELEASE), log in $RUN"
		vm_start
		follow_guest "${tests[@]#./}"
		judge_guest
		if ((DONE == 0)); then
			fail "${tests[*]}: not run"
			break
		fi
		tests=("${tests[@]:DONE}")
		cp "$RUN/console" "$RUN/console.$boot"
		[ ! -d "$RUN/share/gcov" ] || mv "$RUN/share/gcov" "$RUN/gcov.$boot"
	done
}

# What needs another guest: memory that programs can pin, slots to pull devices from.
run_other_guests()
{
	PARAMS="mas=1 provider=zone_device gup=1"
	run_tests "${DEBUG_ZONE_TESTS[@]/#/./}"
	PARAMS="mas=1"
	VM_PORTS=1
	# 15 rounds of something that takes half a minute there.
	TIMEOUT=1500
	VM_APPEND+=" MAS_TIMEOUT=$TIMEOUT"
	run_tests "${DEBUG_PORTS_TESTS[@]/#/./}"
}

summary()
{
	local text="$passed passed, $failed failed"

	((skipped == 0)) || text+=", $skipped skipped"
	echo "$text"
	((failed == 0))
}

become_root "$0" "$@"
parse_options "$@"
need_commands qemu-system-x86_64=qemu-system-x86
need_guest
need_build
if [ "$JOB" = list ]; then
	cat "$BUILD/tests"
	exit
fi
need_accel
need_run_dir
if [ "$JOB" = shell ]; then
	write_job
	prepare_devices
	vm_start stdio
else
	mapfile -t commands < <(list_tests)
	run_tests "${commands[@]}"
	if [ "$KERNEL" = debug ] && ((${#PROGRAM[@]} == 0)); then
		run_other_guests
	fi
	print_coverage || fail "coverage"
	summary
fi
