#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The main job on a file of yours: disk -> VRAM -> second file, in a guest whose
# VRAM and disk are watched from outside. Exit code 0 only if VRAM and second
# file are equal to the file, byte for byte, and no byte of it went through the
# guest's RAM but those behind its last whole direct I/O unit.

. "$(dirname "$0")/vm-lib.sh"

MIB=$((1 << 20))
DEFAULT_SIZE=$((256 * MIB))
MAX_SIZE=$((4096 * MIB))
BLOCKSIZE=512
FLIP=${DEMO_FLIP-}
FILE=

usage()
{
	cat <<-'END'
		usage: demo.sh [-k VERSION] [--corrupt] [FILE]

		FILE is any file of 1 byte to 4 GiB; without it, 256 MiB of programs and
		libraries of the guest. --corrupt (or DEMO_FLIP=1) flips a bit of VRAM
		before it is compared, to show that the comparison would notice.
	END
}

parse_options()
{
	while (($#)); do
		case $1 in
		-k) KERNEL=$2; shift ;;
		--corrupt) FLIP=1 ;;
		-h | --help) usage; exit ;;
		-*) usage >&2; exit 2 ;;
		*) FILE=$1 ;;
		esac
		shift
	done
}

# A copy, so that what is compared does not change meanwhile. Sets SIZE.
take_file()
{
	mkdir "$RUN/files"
	if [ -n "$FILE" ]; then
		say "the file: $FILE"
		cp --reflink=auto --sparse=never -- "$FILE" "$RUN/files/source"
	else
		say "the file: $DEFAULT_SIZE bytes of the guest's kernel and programs"
		{ cat "$KERNEL_DIR/vmlinuz"
		  find "$TREE/usr/bin" "$TREE/usr/lib" -type f -print0 | sort -z | xargs -0 cat
		} 2>/dev/null | head -c "$DEFAULT_SIZE" >"$RUN/files/source" || true
	fi
	SIZE=$(stat -c %s "$RUN/files/source")
}

check_file()
{
	local size free

	[ -n "$FILE" ] || return 0
	[ -f "$FILE" ] || die "$FILE is not a file"
	[ -r "$FILE" ] || die "$FILE cannot be read"
	size=$(stat -Lc %s "$FILE")
	((size > 0)) || die "$FILE is empty"
	((size <= MAX_SIZE)) || die "$FILE has more than $((MAX_SIZE / MIB)) MiB"
	free=$(($(stat -fc '%a * %S' "$CACHE")))
	((free > 7 * size + 512 * MIB)) ||
		die "not enough space in $CACHE for a file of $size bytes"
}

# A BAR has a power of two of bytes. Beside the file there is a marker, and what
# the driver keeps for itself.
size_vram()
{
	local need=$((SIZE + 16 * MIB))

	VRAM=$((64 * MIB))
	while ((VRAM < need)); do
		VRAM=$((VRAM * 2))
	done
}

# A file system that holds the file, with room for a second one.
make_disk()
{
	truncate -s $((SIZE * 9 / 4 + 64 * MIB)) "$RUN/disk.img"
	in_tree "$RUN" mke2fs -q -t ext4 -b 4096 -d files disk.img
}

start_guest()
{
	printf 'MAS_JOB=tests\nMAS_MODULE_PARAMS=mas=1\nMAS_TIMEOUT=3600\n' >"$RUN/share/job"
	cat >"$RUN/share/tests" <<-'END'
		./demo /mnt/ext4/source /mnt/ext4/target /run/mas/go
		sha256sum /mnt/ext4/source /mnt/ext4/target
	END
	vm_nvme masdemo $BLOCKSIZE "$RUN/disk.img"
	VM_ARGS+=(-object "memory-backend-file,id=vram,mem-path=$RUN/vram,size=$VRAM,share=on"
		  -device "ivshmem-plain,memdev=vram" -D "$RUN/trace")
	for event in io_cmd admin_cmd read write map_addr; do
		VM_ARGS+=(-trace "pci_nvme_$event")
	done
	say "the guest starts ($ACCEL, kernel $RELEASE, VRAM $((VRAM / MIB)) MiB), log in $RUN"
	vm_start
}

# Repeat what the guest says of its progress until its work is done.
follow_guest()
{
	local facts=$RUN/share/1.tap seen=0 state=running line

	while [ $state = running ]; do
		sleep 0.2
		if grep -qx ready "$facts" 2>/dev/null; then
			state=ready
		elif [ -e "$RUN/share/1.rc" ] || ! vm_running; then
			state=failed
		fi
		while read -r line; do
			seen=$((seen + 1))
			say "$line of $SIZE"
		done < <(sed -n 's/^progress //p' "$facts" 2>/dev/null | tail -n +$((seen + 1)))
	done
	[ $state = ready ] && return
	tail -qn 10 "$facts" "$RUN/console" 2>/dev/null || true
	die "the guest did not do its work"
}

finish_guest()
{
	local deadline=$((EPOCHSECONDS + 3600))

	touch "$RUN/share/go"
	say "the guest computes checksums"
	while vm_running; do
		((EPOCHSECONDS < deadline)) || die "the guest does not turn itself off"
		sleep 0.2
	done
}

# The second file: by checksums inside, byte for byte outside.
check_copy()
{
	local sums trouble rc=0

	mapfile -t sums < <(sed -n 's/ .*//p' "$RUN/share/2.tap")
	if [ "${#sums[@]}" = 2 ] && [ "${sums[0]}" = "${sums[1]}" ]; then
		echo "  sha256:   equal inside the guest: ${sums[0]}"
	else
		echo "  FAIL:     checksums inside the guest: ${sums[*]}"
		rc=1
	fi
	in_tree "$RUN" debugfs -R "dump /target target.img" disk.img >/dev/null 2>&1
	if cmp -- "$RUN/files/source" "$RUN/target.img"; then
		echo "  copy:     equal to the file, compared on the disk image"
	else
		echo "  FAIL:     the second file on the disk image differs"
		rc=1
	fi
	trouble=$(vm_trouble)
	if [ -n "$trouble" ]; then
		echo "  FAIL:     the guest's kernel log:"
		echo "$trouble"
		rc=1
	fi
	return $rc
}

become_root "$0" "$@"
parse_options "$@"
mkdir -p "$CACHE"
check_file
need_commands qemu-system-x86_64=qemu-system-x86 python3=python3-minimal
need_guest
need_build
need_accel
need_run_dir
trap 'vm_kill; rm -rf "$RUN"/*.img "$RUN/vram" "$RUN/files"' EXIT
take_file
size_vram
make_disk
start_guest
follow_guest
rc=0
report=$("$SELFTESTS/demo_check.py" "$RUN/files/source" "$RUN/vram" "$RUN/share/1.tap" \
	 "$RUN/trace" $BLOCKSIZE ${FLIP:+flip} 2>&1) || rc=1
finish_guest
echo "$report"
check_copy || rc=1
if ((rc)); then
	say "demo: FAIL"
else
	say "demo: everything holds"
fi
exit $rc
