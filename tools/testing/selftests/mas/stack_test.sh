#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What people put on disks: native multipath, md, device-mapper, LVM, loop. Each goes the
# right way or bounces with the right reason, and whatever changes below a file that is
# registered, no byte is wrong.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

parameters=/sys/module/mxcd/parameters
log=$(mktemp)

set_param() # NAME VALUE
{
	echo "$2" >"$parameters/$1"
}

# The head of the namespace that the controllers with this serial number share.
head_disk() # SERIAL
{
	local subsystem disk serial

	for subsystem in /sys/class/nvme-subsystem/*; do
		read -r serial <"$subsystem/serial"
		[ "${serial// /}" = "$1" ] || continue
		for disk in "$subsystem"/nvme*n*; do
			[ ! -b "/dev/${disk##*/}" ] || echo "/dev/${disk##*/}"
		done
	done
}

# The PCI functions of these controllers.
controllers() # SERIAL
{
	local ctrl serial

	for ctrl in /sys/class/nvme/*; do
		read -r serial <"$ctrl/serial"
		[ "${serial// /}" != "$1" ] || basename "$(readlink -f "$ctrl/device")"
	done
}

# One transfer each way; the ways are as wanted and the data is right.
goes() # FILE READ WRITE
{
	local line

	line=$("$here/cell" -g 0 -o $((16 << 20)) "$1")
	note "$line"
	[[ "$line " == *" read=$2/ok "* && "$line " == *" write=$3/ok "* ]] && return
	note "wanted: read=$2 write=$3"
	return 1
}

p2p=NONE/p2p/NONE

bounces() # FILE REASON
{
	goes "$1" "$2/bounce/$2" "$2/bounce/$2"
}

# Run something while transfers go on with a file that was registered before.
right_under() # FILE COMMAND...
{
	local file=$1 pid rc=0
	shift

	"$here/cell" -g 0 -o $((16 << 20)) -t 8 "$file" >"$log" &
	pid=$!
	sleep 2
	"$@" || rc=1
	wait $pid
	note "$(cat "$log")"
	grep -q ' odd=0$' "$log" && ((rc == 0))
}

decided_by() # BDF
{
	"$here/cell" -g 0 -r "$head2" | grep -q "by=$1"
}

reconnect() # BDF
{
	echo "$1" >/sys/bus/pci/drivers/nvme/unbind
	sleep 2
	echo "$1" >/sys/bus/pci/drivers/nvme/bind
}

# mdadm asks, and udev is not here to make names.
md() # NAME ARG...
{
	local name=$1
	shift
	mdadm "$@" --quiet --run </dev/null >/dev/null 2>"$log" ||
		{ sed 's/^/# /' "$log"; return 1; }
	md_disk=/dev/$(basename "$(readlink -f "$name")")
	# Mirrors of disks that were used before differ: let them agree where cell looks.
	dd if=/dev/urandom of="$md_disk" bs=1M seek=16 count=1 oflag=direct status=none
}

md_stop()
{
	mdadm --quiet --stop "$md_disk" 2>/dev/null
	mdadm --quiet --zero-superblock "$@" 2>/dev/null
	:
}

md_goes() # READ WRITE MDADM-ARG...
{
	local read=$1 write=$2 rc=0
	shift 2

	md /dev/md7 "$@" && goes /dev/md7 "$read" "$write" || rc=1
	md_stop
	return $rc
}

replace_member()
{
	mdadm --quiet /dev/md7 --fail "$1" --remove "$1" && sleep 1 &&
		mdadm --quiet /dev/md7 --add "$2"
}

md_replaced()
{
	local rc=0

	truncate -s 64M "$MAS_TMPFS/member" && loop=$(losetup --show -f "$MAS_TMPFS/member")
	md /dev/md7 --create /dev/md7 --metadata=1.2 --level=1 --assume-clean -n2 \
		"$MAS_NVME512" "$head1" &&
		goes /dev/md7 $p2p $p2p &&
		right_under /dev/md7 replace_member "$MAS_NVME512" "$loop" &&
		bounces /dev/md7 STACKED || rc=1
	md_stop "$MAS_NVME512" "$head1" "$loop"
	losetup -d "$loop"
	return $rc
}

md_with_parity()
{
	local rc=0

	md /dev/md7 --create /dev/md7 --metadata=1.2 --level=5 --assume-clean -n3 \
		"$MAS_NVME512" "$MAS_NVME4K" "$head1" && bounces /dev/md7 STACKED || rc=1
	md_stop "$MAS_NVME512" "$MAS_NVME4K" "$head1"
	return $rc
}

dm_disk() # NAME
{
	echo "dm-$(dmsetup info --columns --noheadings -o minor "$1")"
}

dm_goes() # NAME
{
	bounces "/dev/mapper/$1" DM || return
	set_param dm_p2p "$(dm_disk "$1")"
	goes "/dev/mapper/$1" $p2p $p2p || return
	set_param dm_p2p ""
	bounces "/dev/mapper/$1" DM
}

dm_linear()
{
	local rc=0

	dmsetup create mas_linear --table "0 262144 linear $MAS_NVME4K 2048" &&
		dmsetup mknodes mas_linear && dm_goes mas_linear || rc=1
	set_param dm_p2p ""
	dmsetup remove --retry mas_linear
	return $rc
}

# The table is exchanged for one with a disk of another kind.
swap_table()
{
	dmsetup suspend mas_linear &&
		dmsetup load mas_linear --table "0 131072 linear $loop 0" &&
		dmsetup resume mas_linear
}

dm_reloaded()
{
	local rc=0

	truncate -s 64M "$MAS_TMPFS/member" && loop=$(losetup --show -f "$MAS_TMPFS/member")
	dmsetup create mas_linear --table "0 131072 linear $MAS_NVME4K 2048"
	dmsetup mknodes mas_linear
	set_param dm_p2p "$(dm_disk mas_linear)"
	goes /dev/mapper/mas_linear $p2p $p2p &&
		swap_table && bounces /dev/mapper/mas_linear STACKED || rc=1
	set_param dm_p2p ""
	dmsetup remove --retry mas_linear
	losetup -d "$loop"
	return $rc
}

lvm()
{
	local rc=0 quiet="--quiet --quiet --yes"

	# shellcheck disable=SC2086 # a list
	{
		pvcreate $quiet -ff "$MAS_NVME4K" && vgcreate $quiet mas "$MAS_NVME4K" &&
			lvcreate $quiet -Zn -n data -L 128M mas && vgmknodes mas
	} >"$log" 2>&1 && dm_goes mas-data || rc=1
	((rc == 0)) || sed 's/^/# /' "$log"
	set_param dm_p2p ""
	# shellcheck disable=SC2086 # a list
	{
		vgremove $quiet -f mas && pvremove $quiet "$MAS_NVME4K"
	} >/dev/null 2>&1
	return $rc
}

loop_bounces()
{
	local rc=0 loop

	truncate -s 64M "$MAS_EXT4/loop" && loop=$(losetup --show -f "$MAS_EXT4/loop") &&
		bounces "$loop" STACKED || rc=1
	losetup -d "$loop"
	rm -f "$MAS_EXT4/loop"
	return $rc
}

partition_goes()
{
	local rc=0 part=${MAS_NVME512}p1

	echo 'start=2048,size=131072' | sfdisk --quiet --wipe always "$MAS_NVME512" &&
		goes "$part" $p2p $p2p || rc=1
	wipefs --quiet --all --force "$MAS_NVME512" && partx --delete "$MAS_NVME512"
	return $rc
}

head1=$(head_disk massp)
head2=$(head_disk masmp)
if [ -z "$head1" ] || [ -z "$head2" ]; then
	echo "1..0 # SKIP no namespaces shared by controllers"
	exit 4
fi
# shellcheck disable=SC2207 # names without blanks, and there is no /dev/fd here
paths=($(controllers masmp))
modprobe -a raid0 raid1 raid456 dm-mod loop
trap 'rm -f "$log"' EXIT
check "two controllers reach one of the namespaces" is paths 2 "${#paths[@]}"

# Writes to all plain disks, which proves those of their controllers.
check "a disk goes p2p" goes "$MAS_NVME512" $p2p $p2p
check "a disk of another controller goes p2p" goes "$MAS_NVME4K" $p2p $p2p
check "a partition goes p2p" partition_goes
check "a multipath head with one path goes p2p" goes "$head1" $p2p $p2p
check "one with two paths: reads go p2p, writes of neither path are proved" \
	goes "$head2" $p2p NOT_PROVED/bounce/NOT_PROVED
set_param trust_stack_writes 1
check "trust_stack_writes: writes go p2p too" goes "$head2" $p2p $p2p
set_param exclude "${paths[1]}"
check "one path is excluded: it bounces" bounces "$head2" EXCLUDED
check "and that path is named" decided_by "${paths[1]}"
set_param exclude ""
check "a path goes and comes back under transfers: no byte is wrong" \
	right_under "$head2" reconnect "${paths[1]}"
check "it goes p2p again" goes "$head2" $p2p $p2p
set_param trust_stack_writes 0
check "md, RAID 0: reads go p2p, writes are not proved for all controllers" \
	md_goes $p2p NOT_PROVED/bounce/NOT_PROVED \
	--build /dev/md7 --level=0 --chunk=64 -n2 "$MAS_NVME512" "$MAS_NVME4K"
set_param trust_stack_writes 1
check "md, RAID 0" md_goes $p2p $p2p \
	--build /dev/md7 --level=0 --chunk=64 -n2 "$MAS_NVME512" "$MAS_NVME4K"
check "md, RAID 1" md_goes $p2p $p2p \
	--build /dev/md7 --level=1 --assume-clean -n2 "$MAS_NVME512" "$MAS_NVME4K"
check "md, RAID 1 on a multipath head" md_goes $p2p $p2p \
	--build /dev/md7 --level=1 --assume-clean -n2 "$MAS_NVME512" "$head2"
if modprobe -q raid456; then
	check "md, RAID 5 bounces" md_with_parity
else
	check "md, RAID 5 bounces # SKIP this kernel has no RAID 5" true
fi
check "a member of md is replaced by another kind of disk under transfers" md_replaced
check "device-mapper bounces unless it is listed" dm_linear
check "a listed device gets another kind of disk: it bounces" dm_reloaded
check "LVM bounces unless it is listed" lvm
set_param trust_stack_writes 0
check "loop bounces" loop_bounces
tap_end
