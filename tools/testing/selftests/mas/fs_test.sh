#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Each file system goes the way that Documentation/gpu/mxcd/file-systems.rst says for this
# kernel, on disks with blocks of 512 and of 4096 bytes, and every byte is right. With
# MAS_TABLE set to a file, the rows of the table are written to it instead of compared;
# see fs_table.sh. With MAS_FS set, only those of the list below that it matches.

here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=net-lib.sh
. "$here/net-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

table=${here%/tools/*}/Documentation/gpu/mxcd/file-systems.rst
kernel=$(uname -r | cut -d . -f -2)
dir=/mnt/fs
log=$(mktemp)

quiet()
{
	"$@" >"$log" 2>&1 && return
	sed 's/^/# /' "$log"
	return 1
}

on() # MOUNT-OPTION... -- MKFS...
{
	local options=()

	while [ "$1" != -- ]; do
		options+=("$1")
		shift
	done
	shift
	quiet wipefs --all --force "$disk" && quiet "$@" "$disk" &&
		quiet mount "${options[@]}" "$disk" $dir
}

make_file() # [FILE]
{
	head -c 1M /dev/urandom >"${1-$dir/file}" && sync "${1-$dir/file}"
}

ext4()
{
	on -- mkfs.ext4 -q -F "$@" && make_file
}

ext4_default() { ext4; }
ext4_1k() { ext4 -b 1024; }
ext4_no_journal() { ext4 -O ^has_journal; }

ext4_data_journal()
{
	on -o data=journal -- mkfs.ext4 -q -F && make_file
}

ext4_no_extents() { ext4 -O ^extents,^64bit; }

ext4_inline_data() { ext4 -O inline_data -I 512; }

ext4_encrypted()
{
	on -- mkfs.ext4 -q -F -O encrypt && mkdir $dir/secret &&
		head -c 64 /dev/urandom >/tmp/fs.key &&
		quiet xfs_io -c add_enckey $dir </tmp/fs.key &&
		quiet xfs_io -c "set_encpolicy $(awk '{ print $NF }' "$log")" $dir/secret &&
		make_file $dir/secret/file && file=$dir/secret/file
}

ext4_verity()
{
	on -- mkfs.ext4 -q -F -O verity && make_file &&
		quiet fsverity enable $dir/file && cell_options=-r
}

xfs_default()
{
	on -- mkfs.xfs -q -f && make_file
}

xfs_reflinked()
{
	xfs_default && cp --reflink=always $dir/file $dir/copy && sync $dir/copy && file=$dir/copy
}

xfs_realtime()
{
	quiet wipefs --all --force "$disk" "$disk2"
	quiet mkfs.xfs -q -f -r rtdev="$disk2" "$disk" &&
		quiet mount -o rtdev="$disk2" "$disk" $dir &&
		quiet xfs_io -f -R -c "pwrite 0 1m" -c fsync $dir/file
}

btrfs()
{
	on "$@" -- mkfs.btrfs -q -f && make_file
}

btrfs_default() { btrfs; }
btrfs_compressed() { btrfs -o compress-force=zlib; }
btrfs_nodatacow() { btrfs -o nodatacow; }

f2fs_default() { on -- mkfs.f2fs -q -f && make_file; }
exfat() { on -- mkfs.exfat -q && make_file; }

# The kernel has it, or not; the file is somewhere in host RAM.
tmpfs() { mount -t tmpfs none $dir && make_file; }

overlay()
{
	on -- mkfs.ext4 -q -F && mkdir $dir/{lower,upper,work,merged} &&
		quiet mount -t overlay none $dir/merged \
			-o lowerdir=$dir/lower,upperdir=$dir/upper,workdir=$dir/work &&
		make_file $dir/merged/file && file=$dir/merged/file
}

fuse()
{
	quiet wipefs --all --force "$disk" && quiet mkfs.ext4 -q -F "$disk" &&
		modprobe fuse && quiet fuse2fs "$disk" $dir -o rw && make_file
}

nfs()
{
	on -- mkfs.ext4 -q -F && mkdir $dir/export $dir/nfs &&
		quiet nfs_mount $dir/export $dir/nfs && make_file $dir/nfs/file &&
		file=$dir/nfs/file
}

proc() { file=/proc/version cell_options=-r; }
sysfs() { file=/sys/kernel/notes cell_options=-r; }

end()
{
	nfs_end $dir/nfs
	! mountpoint -q $dir/merged || umount $dir/merged
	! mountpoint -q $dir || umount $dir
}

# "p2p", "bounce (REASON)", or why it is refused; for reads and for writes.
way() # DIRECTION LINE
{
	local field route why data

	if [[ $2 == failed:* ]]; then
		echo "refused (${2##*: })"
		return
	fi
	field=${2#* "$1"=}
	if [ "$field" = "$2" ]; then
		echo "not tried"
		return
	fi
	IFS=/ read -r _ route why data <<<"${field%% *}"
	[ "$data" = ok ] || { echo "WRONG ($data)"; return; }
	case $route in
	p2p) echo "p2p" ;;
	*) echo "$route ($why)" ;;
	esac
}

# What cell says of a file that NAME makes on a disk with blocks of BLOCKSIZE.
try() # NAME BLOCKSIZE
{
	local line rc=0

	disk=$MAS_NVME512 disk2=$MAS_NVME4K
	[ "$2" = 512 ] || { disk=$MAS_NVME4K disk2=$MAS_NVME512; }
	file=$dir/file cell_options=
	mkdir -p $dir
	if "$1"; then
		# shellcheck disable=SC2086 # may be empty
		line=$("$here/cell" -g 0 $cell_options "$file") || true
	else
		line="# it cannot be made" rc=1
	fi
	end
	echo "$line"
	return $rc
}

table_of_kernel()
{
	sed -n "/^.. begin $kernel$/,/^.. end $kernel$/p" "$table"
}

as_documented() # NAME TITLE BLOCKSIZE
{
	local said line row

	said=$(try "$1" "$3") || { echo "$said"; return 1; }
	line=$(tail -n 1 <<<"$said")
	note "$line"
	row=$(printf '%-30s  %-5s  %-24s  %s' "$2" "$3" "$(way read "$line")" \
		"$(way write "$line")")
	[[ $row != *WRONG* ]] || return
	[ -z "${MAS_TABLE-}" ] || echo "$row" >>"$MAS_TABLE"
	[ -n "${MAS_TABLE-}" ] || table_of_kernel | grep -qxF -- "$row" && return
	note "not in the table: $row"
	return 1
}

if [ -z "${MAS_TABLE-}" ] && [ -z "$(table_of_kernel)" ]; then
	echo "1..0 # SKIP there is no table for kernel $kernel"
	exit 4
fi
# Not written through this interface: that none is proved must not depend on the order.
"$here/cell" -g 0 "$MAS_NVME512" >/dev/null
"$here/cell" -g 0 "$MAS_NVME4K" >/dev/null
while IFS='|' read -r name title sizes; do
	# shellcheck disable=SC2053 # a pattern
	[[ $name == ${MAS_FS-*} ]] || continue
	for size in $sizes; do
		check "$title on blocks of $size" as_documented "$name" "$title" "$size"
	done
done <<'END'
ext4_default|ext4|512 4096
ext4_1k|ext4, blocks of 1 KiB|512
ext4_no_journal|ext4, no journal|512 4096
ext4_data_journal|ext4, data=journal|512 4096
ext4_no_extents|ext4, no extents|512 4096
ext4_inline_data|ext4, inline_data|512 4096
ext4_encrypted|ext4, encrypted file|512 4096
ext4_verity|ext4, verity file|512 4096
xfs_default|xfs|512 4096
xfs_reflinked|xfs, reflinked file|512 4096
xfs_realtime|xfs, realtime file|512
btrfs_default|btrfs|512 4096
btrfs_compressed|btrfs, compressed|512 4096
btrfs_nodatacow|btrfs, nodatacow|512 4096
f2fs_default|f2fs|512 4096
exfat|exfat|512 4096
tmpfs|tmpfs|512
overlay|overlayfs on ext4|512 4096
fuse|FUSE (fuse2fs)|512
nfs|NFS 4.2 from ext4|512
proc|proc|512
sysfs|sysfs|512
END
tap_end
