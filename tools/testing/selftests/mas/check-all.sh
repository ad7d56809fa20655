#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What "make check" has no time for: the demo on files of odd sizes, and that it
# would notice a bit of VRAM that is wrong; many random requests; requests of more
# than 4 GiB; mas-check in guests that need a boot of their own; the packages; other
# compilers; and the tests on the other kernels, with each provider. Closes with
# "N passed, N failed".

. "$(dirname "$0")/vm-lib.sh"

passed=0
failed=0
skipped=0

result() # WANTED-EXIT-CODE-0-OR-1 TEXT COMMAND...
{
	local wanted=$1 text=$2 log=$RUN/check-all.out rc=0
	shift 2

	"$@" >"$log" 2>&1 || rc=1
	if ((rc == wanted)); then
		say "$text: as it should be"
		passed=$((passed + 1))
	else
		say "FAIL: $text"
		sed 's/^/         /' "$log"
		failed=$((failed + 1))
	fi
}

# A demo that fails for another reason has not shown that it notices.
notices_the_flip()
{
	local out

	out=$("$SELFTESTS/demo.sh" -k "$KERNEL" --corrupt "$1" 2>&1) && return 1
	grep -q 'VRAM differs from the file at byte' <<<"$out"
}

# What takes long in a guest.
long_vmtest() # VMTEST-OPTION...
{
	"$SELFTESTS/vmtest.sh" -t 1500 -a MAS_TIMEOUT=1500 "$@"
}

# mas-check in a guest that has something wrong with it from the start.
mas_check_finds() # WHAT VMTEST-OPTION...
{
	local what=$1
	shift

	result 0 "mas-check: $what" "$SELFTESTS/vmtest.sh" -k "$KERNEL" "$@" \
		-- mas_check_test.sh "$what"
}

# Is there time for a part? There are $MAS_BUDGET seconds from $MAS_T0 on, if that is
# set.
in_time() # SECONDS PART
{
	if [ -z "${MAS_BUDGET-}" ] || ((EPOCHSECONDS - MAS_T0 + $1 <= MAS_BUDGET)); then
		return
	fi
	say "left out: $2, which may take $(($1 / 60)) minutes"
	return 1
}

# What the tests take on two cores, with the kernel and its packages.
TESTS_SECONDS=$((10 * 60))

tests_on() # KERNEL PROVIDER
{
	! in_time $TESTS_SECONDS "the tests on $1 with $2" ||
		part vmtest.sh -k "$1" -m "mas=1 provider=$2"
}

part_demo()
{
	local size

	for size in 1 4095 1000003; do
		head -c $size /dev/urandom >"$RUN/odd.$size"
		result 0 "demo of $size bytes" \
			"$SELFTESTS/demo.sh" -k "$KERNEL" "$RUN/odd.$size"
	done
	result 0 "demo notices a flipped bit of VRAM" notices_the_flip "$RUN/odd.1000003"
}

part_model()
{
	result 0 "20000 random requests against a model" "$SELFTESTS/vmtest.sh" -k "$KERNEL" \
		-t 1500 -a MAS_TIMEOUT=1500 -- env MAS_OPS=20000 ./model_test
}

part_large()
{
	result 0 "requests of up to 6 GiB" "$SELFTESTS/vmtest.sh" -k "$KERNEL" -v 8G \
		-t 1500 -a MAS_TIMEOUT=1500 -- ./large_test
}

part_trace()
{
	result 0 "trace-cmd and bpftrace as documented" "$SELFTESTS/vmtest.sh" -k "$KERNEL" \
		-t 1500 -a MAS_TIMEOUT=1500 -- tracepoint_test.sh tools
}

part_fuzz()
{
	result 0 "fuzzing" "$SELFTESTS/vmtest.sh" -k "$KERNEL" -a "MAS_SEED=1" -- ./fuzz_test.sh
}

part_soak()
{
	result 0 "two minutes of load with kills and rebinds" "$SELFTESTS/vmtest.sh" \
		-k "$KERNEL" -a slab_nomerge -- ./soak_test.sh
}

part_life()
{
	result 0 "GPU and disk unplugged, reset and hit by errors under load" \
		"$SELFTESTS/vmtest.sh" -k "$KERNEL" --ports -t 1500 -a MAS_TIMEOUT=1500 \
		-- ./hotplug_test.sh
	result 0 "suspend" "$SELFTESTS/suspend.sh" -k "$KERNEL"
	result 0 "crash kernel" "$SELFTESTS/vmtest.sh" -k "$KERNEL" -a elfcorehdr=0x10000 \
		-- ./crash_test.sh
}

# VRAM as memory of other programs, where that is for the administrator to allow; a
# large model.
part_memory()
{
	local kernel tests

	# Several programs in one guest: their plans would contradict each other.
	# shellcheck disable=SC2016 # for the shell in the guest
	tests='(for t in fio_test.sh mmap_test pin_test ringbuf_test; do ./$t || rc=1; done'
	# shellcheck disable=SC2016
	tests+='; exit $rc) | grep -v "^1[.][.]"'

	result 0 "a model of 208 MiB with 320 tensors" "$SELFTESTS/vmtest.sh" -k "$KERNEL" \
		-t 1500 -a MAS_TIMEOUT=1500 -- ./safetensors_test.sh 208 320
	for kernel in 6.1 6.12 7.3; do
		part vmtest.sh -k "$kernel" -m "mas=1 provider=zone_device gup=1" \
			-t 1500 -a MAS_TIMEOUT=1500 -- bash -o pipefail -c "$tests"
	done
}

# What people put on disks: 2, 6 and 8 minutes on two cores that had other work, too.
part_stacks()
{
	result 0 "multipath, md, device-mapper, LVM, loop" long_vmtest -k "$KERNEL" \
		-- stack_test.sh
	result 0 "256 MiB by NVMe over TCP and by NFS" long_vmtest -k "$KERNEL" -v 1G \
		-- net_test.sh
	result 0 "file systems as documented" long_vmtest -k "$KERNEL" -- fs_test.sh
}

part_many()
{
	result 0 "eight GPUs and eight disks" "$SELFTESTS/many.sh" -k "$KERNEL" \
		-t 1500 -a MAS_TIMEOUT=1500
}

# The five machines, and what is lost without proof and fence: on two cores that had other
# work, too.
TOPOLOGY_SECONDS=$((10 * 60))

part_topology()
{
	local way

	for way in "7.3 p2pdma" "7.3 zone_device" "6.12 zone_device" "6.1 zone_device"; do
		! in_time $TOPOLOGY_SECONDS "topologies on ${way% *} with ${way#* }" ||
			part topology.sh -k "${way% *}" -p "${way#* }"
	done
}

# What page structs cost, with VRAM that is large enough to tell.
part_cost()
{
	local kernel

	for kernel in 6.1 6.12 7.3; do
		result 0 "host RAM for VRAM on $kernel" long_vmtest -k "$kernel" -v 4G \
			-- cost_test.sh
	done
}

part_mas-check()
{
	mas_check_finds all
	mas_check_finds nopat -a nopat
	# No CPU that is known to route traffic between its root ports.
	mas_check_finds unreachable -q -cpu -q Nehalem
	mas_check_finds iommu -q -cpu -q Nehalem -a intel_iommu=on -q -device -q intel-iommu
}

# Not a test of a kernel: what each Debian has.
part_install()
{
	export DIST=$RUN/dist
	result 0 "packages, lintian" "$TOP/tools/packaging/packages.sh"
	part ../../../packaging/install-test.sh
}

# As on most machines.
part_polling()
{
	result 0 "rings that poll, disks without queues for it" "$SELFTESTS/vmtest.sh" \
		-k "$KERNEL" -a nvme.poll_queues=0 -- ./uring_test
}

# No way back from that: it has a guest of its own.
part_lockdown()
{
	result 0 "a kernel that is locked down" "$SELFTESTS/vmtest.sh" -k "$KERNEL" \
		-- lockdown_test.sh
}

part_compilers()
{
	! in_time 600 "the compilers for other machines" || part check-cross.sh
	part check-static.sh -k 6.1
	part check-static.sh -k 7.3
}

part_kernels()
{
	tests_on 7.3 p2pdma
	tests_on 6.1 zone_device
	tests_on 7.3 zone_device
}

# What its tests take there; the kernel has to be built first.
DEBUG_SECONDS=$((45 * 60))

part_debug()
{
	! in_time $DEBUG_SECONDS "the tests on the debug kernel" || part vmtest.sh -k debug
}

RACE_SECONDS=$((25 * 60))

part_races()
{
	! in_time $RACE_SECONDS "looking for data races" || part vmtest.sh -k kcsan
}

PARTS=(demo model large trace polling lockdown fuzz soak life memory stacks many cost
       mas-check install compilers topology kernels debug races)

while (($#)); do
	case $1 in
	-k) KERNEL=$2; shift 2 ;;
	-*) echo "usage: check-all.sh [-k VERSION] [PART...], of: ${PARTS[*]}" >&2; exit 2 ;;
	*) break ;;
	esac
done
(($#)) || set -- "${PARTS[@]}"
become_root "$0" -k "$KERNEL" "$@"
need_run_dir
for name; do
	[ "$(type -t "part_$name")" = function ] || die "there is no part $name"
	"part_$name"
done
text="$passed passed, $failed failed"
((skipped == 0)) || text+=", $skipped skipped"
echo "$text"
((failed == 0))
