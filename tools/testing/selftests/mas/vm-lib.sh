# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What vmtest.sh, demo.sh and check-static.sh share; to be sourced.
#
# Everything that is downloaded or built lies under $CACHE, in entries that are
# named after what made them and appear there by rename(2), so that a run that
# is interrupted leaves nothing half made behind. The checkout is only read.

set -euo pipefail
shopt -s inherit_errexit

SELFTESTS=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOP=$(cd "$SELFTESTS/../../../.." && pwd)
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/mxcd

# Scripts that call each other count from the start of the first.
export MAS_T0=${MAS_T0:-$EPOCHSECONDS}

KERNEL=${KERNEL:-6.12}
# How many times slower than a stock kernel it is, and how programs are built for it.
SLOW=1
PROGRAM_ARGS=()
SMP=2
# Does the kernel change its own code while it runs?
PATCHES_ITSELF=1
CPU=EPYC
MEM=2G
VRAM=256M
VM_APPEND=
VM_ARGS=()
VM_DRIVE=
VM_PORTS=
VM_NR_PORTS=0
VM_NR_COMMANDS=0
VM_TRACE_FROM=0
# Variables of make for the driver, such as CONFIG_MXCD_STATS=n.
BUILD_VARS=()

say()
{
	printf '[%4d s] %s\n' $((EPOCHSECONDS - MAS_T0)) "$*"
}

die()
{
	say "error: $*" >&2
	exit 1
}

# Run a command with its output in a file; show the end of it on failure.
quietly() # LOG COMMAND...
{
	local log=$1
	shift
	mkdir -p "$(dirname "$log")"
	"$@" >"$log" 2>&1 && return
	tail -n 40 "$log"
	die "$1 failed, the whole output is in $log"
}

# Run a script that closes with a line of counts; add these up in $passed, $failed
# and $skipped.
part() # SCRIPT ARG...
{
	local out rc=0 line

	out=$RUN/$(basename "$1" .sh).out
	"$SELFTESTS/$1" "${@:2}" 2>&1 | tee "$out" || rc=$?
	line=$(tail -n 1 "$out")
	if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
		((rc == 0 || BASH_REMATCH[2] != 0)) || failed=$((failed + 1))
	else
		say "FAIL: $1 did not come to its end (exit code $rc)"
		failed=$((failed + 1))
	fi
}

# Chroots, mounts and packages want root.
become_root() # SCRIPT ARG...
{
	((EUID)) || return 0
	exec sudo --preserve-env=HOME,XDG_CACHE_HOME,KERNEL,MAS_T0,MAS_BUDGET,DEMO_FLIP -- "$@"
}

need_commands() # COMMAND[=PACKAGE]...
{
	local missing=() command

	for command; do
		command -v "${command%=*}" >/dev/null || missing+=("${command#*=}")
	done
	((${#missing[@]})) || return 0
	say "installing ${missing[*]}"
	quietly "$CACHE/log/apt.log" apt-get update
	quietly "$CACHE/log/apt.log" env DEBIAN_FRONTEND=noninteractive \
		apt-get install --yes --no-install-recommends "${missing[@]}"
}

# --- cache ------------------------------------------------------------------

key() # TEXT...
{
	printf '%s\n' "$@" | sha256sum | cut -c 1-16
}

# Set $REPLY to the entry NAME-KEY, made by FUNCTION (which gets the path to
# create as its last argument) unless it is there.
cached() # NAME KEY MESSAGE FUNCTION [ARG...]
{
	local name=$1 entry=$CACHE/$1-$2 message=$3 tmp=$CACHE/tmp-$1-$2 lock
	shift 3

	mkdir -p "$CACHE"
	exec {lock}>"$entry.lock"
	flock "$lock"
	if [ ! -e "$entry" ]; then
		say "$message"
		rm -rf --one-file-system "$tmp"
		"$@" "$tmp" {lock}>&-
		mv -T "$tmp" "$entry"
		touch "$entry"
		find "$CACHE" -maxdepth 1 \( -name "$name-*" -o -name "tmp-$name-*" \) \
			-mtime +14 -exec rm -rf --one-file-system {} +
	fi
	touch "$entry"
	exec {lock}>&-
	REPLY=$entry
}

# --- guest tree and kernels ---------------------------------------------------

. "$SELFTESTS/vm-kernel.sh"

# --- the sources, built for the guest -----------------------------------------

# The checkout, or what of it is named, without what a build in it may have left
# behind, as an archive that depends on nothing but its contents.
pack_sources() # [PATH...]
{
	(($#)) || set -- .
	tar -C "$TOP" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
		--exclude-vcs --exclude='*.o' --exclude='*.ko' --exclude='*.mod' \
		--exclude='*.mod.c' --exclude='.*.cmd' --exclude='Module.symvers' \
		--exclude='modules.order' --exclude='__pycache__' --exclude='./dist' -c "$@"
}

unpack_sources() # DIR [PATH...]
{
	mkdir "$1"
	pack_sources "${@:2}" | tar -C "$1" --no-same-owner -xf -
}

# What driver and programs are made of.
DRIVER_SOURCES=(Makefile Kbuild Kconfig compat drivers include
		tools/testing/selftests/mas/modules)
PROGRAM_SOURCES=(tools/testing/selftests include Documentation/gpu/mxcd/examples)

make_driver() # DIR
{
	local jobs

	jobs=-j$(nproc)
	unpack_sources "$1" "${DRIVER_SOURCES[@]}"
	quietly "$CACHE/log/build-driver.log" in_tree "$1" \
		make "$jobs" KDIR="/lib/modules/$RELEASE/build" CONFIG_MXCD_DEBUG=y \
		"${BUILD_VARS[@]}" modules
}

# In DIR, beside the programs: "tests", the names of those that are tests;
# "programs.log", what make said.
make_programs() # DIR
{
	local dir=$1 selftests=/mnt/tools/testing/selftests/mas
	local make_tests=(make -s -C "$selftests" COLLECTION=mas
			  LIB_MK=/srv/tools/testing/selftests/lib.mk "${PROGRAM_ARGS[@]}")
	local jobs

	jobs=-j$(nproc)
	unpack_sources "$dir" "${PROGRAM_SOURCES[@]}"
	in_tree "$dir" "${make_tests[@]}" clean
	quietly "$dir/programs.log" in_tree "$dir" "${make_tests[@]}" "$jobs" all
	in_tree "$dir" "${make_tests[@]}" emit_tests | sed -n 's/^mas://p' >"$dir/tests"
}

# The checkout with driver and programs in their places.
make_build() # DRIVER PROGRAMS DIR
{
	mkdir "$3"
	cp -a "$1/." "$2/." "$3/"
	pack_sources | tar -C "$3" --no-same-owner -xf -
}

key_of_sources() # PATH...
{
	pack_sources "$@" | sha256sum | cut -c 1-16
}

# Set BUILD.
need_build()
{
	local driver programs

	driver=$(key_of_sources "${DRIVER_SOURCES[@]}")${BUILD_VARS[*]}
	cached driver "$(key "$driver" "$TREE" "$KERNEL_DIR" "$(declare -f make_driver)")" \
		"building the driver for $RELEASE" make_driver
	driver=$REPLY
	programs=$(key_of_sources "${PROGRAM_SOURCES[@]}")
	cached programs "$(key "$programs" "$TREE" "$SOURCE" "${PROGRAM_ARGS[*]}" \
		"$(declare -f make_programs)")" \
		"building the test programs" make_programs
	programs=$REPLY
	cached build "$(key "$driver" "$programs" "$(key_of_sources)")" \
		"putting the build together" make_build "$driver" "$programs"
	BUILD=$REPLY
}

# --- the virtual machine --------------------------------------------------------

# /dev/kvm may open and still run no guest: believe a guest that has booted.
make_accel_verdict() # FILE
{
	local verdict=tcg

	if timeout -k 1 20 qemu-system-x86_64 -nodefaults -no-user-config \
		-no-reboot -display none -machine q35,accel=kvm -cpu EPYC -m 512M \
		-kernel "$KERNEL_DIR/vmlinuz" -initrd "$INITRD" \
		-append "console=ttyS0 mas.probe panic=-1" -serial stdio \
		</dev/null 2>/dev/null | grep -q "mas: a guest runs here"; then
		verdict=kvm
	fi
	echo "$verdict" >"$1"
}

# Set ACCEL.
need_accel()
{
	ACCEL=tcg
	[ -w /dev/kvm ] || return 0
	cached accel "$(key "$(uname -r)" "$(qemu-system-x86_64 --version)" \
		"$(grep -m 1 '^model name' /proc/cpuinfo)")" \
		"trying KVM" make_accel_verdict
	ACCEL=$(cat "$REPLY")
}

# How QEMU is to run the CPUs of a guest. Where each has a thread of its own, emulators
# before 8.1 can keep the translation of an instruction that another CPU overwrites at
# that moment. Kernels patch themselves by way of a breakpoint: "Oops: int3" where there
# is none any more. There the CPUs of a kernel that does so take turns. Sets REPLY.
vm_accel()
{
	local version

	REPLY=$ACCEL
	[ "$ACCEL$PATCHES_ITSELF" = tcg1 ] || return 0
	version=$(qemu-system-x86_64 --version | sed -nE '1s/.*version ([0-9.]+).*/\1/p')
	printf '%s\n' 8.1 "$version" | sort --check=quiet --version-sort ||
		REPLY+=,thread=single
}

# Some CPU of those that we may use. Sets REPLY.
any_cpu()
{
	local list range

	list=$(taskset --cpu-list --pid $BASHPID)
	list=${list##*: }
	REPLY=$(for range in ${list//,/ }; do
		seq "${range%-*}" "${range#*-}"
	done | shuf -n 1)
}

# What to start QEMU with: sets VM_PREFIX. CPUs that take turns, and one that is alone,
# are translated without memory barriers and atomic instructions, as if no other thread
# looked at their memory. That of the devices does: a driver that writes how far its queue
# is filled, and then reads whether the device wants to be told, may read too early. Nobody
# rings then, and the queue stands still. On one CPU of the host threads see each other's
# writes in order.
vm_one_cpu() # ACCEL
{
	VM_PREFIX=()
	[[ $1 == *,thread=single || $1,$SMP == tcg,1 ]] || return 0
	any_cpu
	VM_PREFIX=(taskset --cpu-list "$REPLY")
}

# A directory for one run: what host and guest tell each other, the console, the
# disks. Images go at exit, the texts stay for a while. Sets RUN.
need_run_dir()
{
	mkdir -p "$CACHE/run"
	find "$CACHE/run" -mindepth 1 -maxdepth 1 -mtime +3 -exec rm -rf {} +
	RUN=$(mktemp -d "$CACHE/run/$(date +%m%d-%H%M%S)-XXXX")
	mkdir "$RUN/share"
	trap 'vm_kill; rm -f "$RUN"/*.img "$RUN"/vram "$RUN"/monitor' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

# Where the device ID goes: with VM_PORTS behind a PCIe root port "port-ID" of its
# own, where it can be unplugged. Sets REPLY.
vm_port() # ID
{
	REPLY=
	[ -n "$VM_PORTS" ] || return 0
	VM_NR_PORTS=$((VM_NR_PORTS + 1))
	VM_ARGS+=(-device
		"pcie-root-port,id=port-$1,chassis=$VM_NR_PORTS,slot=$VM_NR_PORTS")
	REPLY=,bus=port-$1
}

# Append an NVMe controller to VM_ARGS; each image is a namespace of it.
vm_nvme() # SERIAL BLOCKSIZE IMAGE...
{
	local serial=$1 blocksize=$2 image id n=0
	local sizes="logical_block_size=$blocksize,physical_block_size=$blocksize"
	shift 2

	vm_port "$serial"
	VM_ARGS+=(-device "nvme,id=$serial,serial=$serial$REPLY")
	for image; do
		n=$((n + 1))
		id=$serial-$n
		VM_ARGS+=(-drive
			"file=$image,id=$id,if=none,format=raw,cache=unsafe,discard=unmap$VM_DRIVE"
			  -device "nvme-ns,bus=$serial,drive=$id,nsid=$n,$sizes")
	done
}

# Append an NVMe subsystem with one namespace that all its controllers reach.
vm_shared_nvme() # SERIAL IMAGE CONTROLLERS
{
	local serial=$1 image=$2 n

	VM_ARGS+=(-device "nvme-subsys,id=$serial,nqn=$serial"
		  -drive "file=$image,id=$serial-ns,if=none,format=raw,cache=unsafe")
	for ((n = 1; n <= $3; n++)); do
		VM_ARGS+=(-device "nvme,id=$serial$n,serial=$serial,subsys=$serial")
	done
	VM_ARGS+=(-device "nvme-ns,bus=${serial}1,drive=$serial-ns,nsid=1,shared=on")
}

# Append the stand-ins for GPUs: their VRAM is BAR 2 of an ivshmem, which the
# host sees as the file $RUN/vram, and BAR 0 of a bochs-display. A file of many GiB
# would be written to the machine's disk for nothing: VRAM_OBJECT names another kind
# of memory.
vm_gpus()
{
	VRAM_OBJECT=${VRAM_OBJECT:-memory-backend-file,mem-path=$RUN/vram}
	vm_port gpu0
	VM_ARGS+=(-object "$VRAM_OBJECT,id=vram,size=$VRAM,share=on"
		  -device "ivshmem-plain,id=gpu0,memdev=vram$REPLY"
		  -device "bochs-display,vgamem=64M")
}

vm_share() # TAG PATH [OPTIONS]
{
	VM_ARGS+=(-fsdev "local,id=$1,path=$2,security_model=none${3:+,$3}"
		  -device "virtio-9p-pci,fsdev=$1,mount_tag=$1,bus=pcie.0")
}

# Start the guest; its pid is VM_PID. The serial console is $RUN/console, or the
# terminal with "stdio".
vm_start() # [stdio]
{
	local serial=file:$RUN/console
	local append="console=ttyS0 panic=-1 oops=panic random.trust_cpu=on $VM_APPEND"
	local accel

	[ "${1-}" != stdio ] || serial=mon:stdio
	# An emulated CPU that waits for its turn is no lock-up, and an emulated timer
	# that is late is not broken.
	[ "$ACCEL" = kvm ] ||
		append+=" no_timer_check watchdog_thresh=60 rcupdate.rcu_cpu_stall_timeout=120"
	vm_share root "$TREE" readonly=on
	vm_share kernel "$KERNEL_DIR/usr/lib/modules" readonly=on
	vm_share mas "$BUILD" readonly=on
	vm_share run "$RUN/share"
	vm_accel
	accel=$REPLY
	vm_one_cpu "$accel"
	set -- "${VM_PREFIX[@]}" qemu-system-x86_64 -nodefaults -no-user-config -no-reboot \
		-display none -machine q35 -accel "$accel" -cpu "$CPU" -smp "$SMP" -m "$MEM" \
		-kernel "$KERNEL_DIR/vmlinuz" -initrd "$INITRD" \
		-append "$append" -serial "$serial" "${VM_ARGS[@]}"
	printf '%q ' "$@" >"$RUN/qemu.cmd"
	if [ "$serial" = mon:stdio ]; then
		"$@" 2>"$RUN/qemu.log" || true
		return
	fi
	rm -f "$RUN/monitor"
	mkfifo "$RUN/monitor"
	exec {VM_MONITOR}<>"$RUN/monitor"
	echo '{"execute":"qmp_capabilities"}' >&"$VM_MONITOR"
	"$@" -qmp stdio <"$RUN/monitor" >"$RUN/monitor.log" 2>"$RUN/qemu.log" &
	VM_PID=$!
}

# Give QEMU a command of its human monitor. Sets REPLY to what it says, quoted as in
# JSON: nothing is success.
vm_monitor() # COMMAND
{
	VM_NR_COMMANDS=$((VM_NR_COMMANDS + 1))
	printf '{"execute":"human-monitor-command","id":%d,"arguments":{"command-line":"%s"}}\n' \
		"$VM_NR_COMMANDS" "$1" >&"$VM_MONITOR"
	until REPLY=$(grep -am 1 "\"id\": ${VM_NR_COMMANDS}[,}]" "$RUN/monitor.log"); do
		vm_running || return 0
		sleep 0.05
	done
	REPLY=${REPLY#*\"return\": \"}
	REPLY=${REPLY%\", \"id\":*}
}

# What a test in the guest may have done to its machine.
VM_MAY_ASK='^(device_del [a-z0-9-]+'
VM_MAY_ASK+='|device_add [a-z0-9-]+(,[a-z_]+=[a-zA-Z0-9_.-]+)*'
VM_MAY_ASK+='|object_add memory-backend-ram(,[a-z]+=[a-zA-Z0-9_-]+)*'
VM_MAY_ASK+='|object_del [a-z0-9-]+'
VM_MAY_ASK+='|block_set_io_throttle [a-z0-9-]+( [0-9]+){6}'
VM_MAY_ASK+='|pcie_aer_inject_error (-[ac] )*[a-z0-9-]+ [A-Z_]+'
VM_MAY_ASK+='|trace-event pci_nvme_map_addr (on|off)'
VM_MAY_ASK+='|info [a-z]+)$'

# How many bytes at addresses of [FROM, TO) disks were told to move since tracing was
# turned on.
vm_dma_within() # FROM TO
{
	tail -c "+$((VM_TRACE_FROM + 1))" "$RUN/qemu.log" |
		awk -v "from=$(printf '%016x' "$1")" -v "to=$(printf '%016x' "$2")" '
			/pci_nvme_map_addr addr 0x/ {
				sub(/.*pci_nvme_map_addr addr 0x/, "")
				at = sprintf("%16s", $1)
				gsub(/ /, "0", at)
				n += at >= from && at < to ? $3 : 0
			}
			END { printf "%d\n", n }'
}

# Answer what the guest asks by the file "ask" of its share, see mas_ask() there.
vm_serve()
{
	local share=$RUN/share command

	[ -e "$share/ask" ] || return 0
	command=$(cat "$share/ask")
	rm "$share/ask"
	[[ $command != trace-event*on ]] || VM_TRACE_FROM=$(stat -c %s "$RUN/qemu.log")
	if [[ $command =~ ^dma_within\ ([0-9]+)\ ([0-9]+)$ ]]; then
		REPLY=$(vm_dma_within "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}")
	elif [ "$command" = "check tensors" ]; then
		REPLY=$(in_tree "$RUN" python3 - share/model vram share/tensors \
			<"$SELFTESTS/safetensors_check.py" 2>&1) || true
	elif [[ $command =~ $VM_MAY_ASK ]]; then
		vm_monitor "$command"
		# Some commands tell what they have done.
		[[ $REPLY != OK\ * ]] || REPLY=
	else
		REPLY="not served: $command"
	fi
	echo "$REPLY" >"$share/answer.new"
	mv "$share/answer.new" "$share/answer"
}

vm_running()
{
	[ -n "${VM_PID-}" ] && kill -0 "$VM_PID" 2>/dev/null
}

vm_kill()
{
	vm_running || return 0
	kill -KILL "$VM_PID" || true
	wait "$VM_PID" 2>/dev/null || true
	VM_PID=
}

# What a healthy guest kernel never prints. ("-cpu EPYC" makes it print a
# harmless "WARNING: Spectre" or "SRSO", hence not the bare word.)
VM_TROUBLE='WARNING: CPU|WARNING: [^ ]+:[0-9]+ at|WARNING: possible|BUG:|Oops'
VM_TROUBLE+='|blocked for more than|hung_task:'
VM_TROUBLE+='|possible circular locking|possible recursive locking|inconsistent lock state'
VM_TROUBLE+='|INFO: lockdep|DEBUG_LOCKS_WARN_ON|suspicious RCU|ODEBUG|kmemleak: .*disabled'
VM_TROUBLE+='|kmemleak: Cannot (allocate a kmem|insert)'
VM_TROUBLE+='|KASAN|KFENCE: |UBSAN|Call Trace|Kernel panic|general protection fault'
VM_TROUBLE+='|self-detected stall|detected stalls|mas: trouble'

# The tests that make allocations fail: vmalloc() tells of each with a stack.
without_injected()
{
	awk '/fail_(nth|probe)_test: vmalloc error: / { skip = 120 }
	     skip && /<\/TASK>/ { skip = 1 }
	     skip { skip--; next }
	     { print }'
}

# Print the lines of the guest's kernel log that must not be there.
vm_trouble()
{
	cat "$RUN/console" "$RUN/share/dmesg" 2>/dev/null | tr -d '\r' | without_injected |
		grep -aE "$VM_TROUBLE" | sort -u | head -n 20 || true
}
