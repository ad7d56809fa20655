#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# mas-check names what fails, one thing at a time, and what to do about it. What there
# is no time for, or needs another machine, is tried by name, see check-all.sh: all,
# nopat, iommu, unreachable.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

mas_check=$here/../../../mas-check/mas-check
page=$here/../../../../Documentation/gpu/mxcd/mas-check.rst
class=/sys/class/mxcd/mxcd
out=$(mktemp) fake=$(mktemp -d)
trap 'rm -rf "$out" "$out.page" "$fake" "$MAS_EXT4/mas-check" "$MAS_XFS/mas-check"' EXIT

# What it prints is shown, for the pages of the documentation.
run() # ARG...
{
	"$@" >"$out" 2>&1
	rc=$?
	sed 's/^/# /' "$out"
}

# Numbers that another machine, or another day, has others of.
plain()
{
	sed -E 's/[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]/BDF/g; s/nvme[0-9]+n/nvmeXn/g'
}

exits() # CODE
{
	is "exit code" "$1" "$rc"
}

says() # LINE
{
	plain <"$out" | grep -xF -e "$1" >/dev/null && return
	note "not there: $1"
	return 1
}

# Fails so often with this line, which has this cure, and with no other; the page of
# the documentation shows both.
fails_with() # TIMES LINE CURE
{
	local want="  FAIL  $2
        -> $3"

	exits 1 || return
	is "all that fails" "$(for ((i = 0; i < $1; i++)); do echo "$want"; done | sort)" \
		"$(grep -A 1 '^  FAIL ' "$out" | grep -v '^--$' | plain | sort)" || return
	plain <"$page" >"$out.page"
	grep -qF "FAIL  $2" "$out.page" && grep -qF -e "-> $3" "$out.page" && return
	note "is not in mas-check.rst"
	return 1
}

all_is_well()
{
	local ext4 xfs

	echo x >"$MAS_EXT4/mas-check"
	echo x >"$MAS_XFS/mas-check"
	run "$mas_check"
	ext4=$(plain <<<"$MAS_EXT4_DISK")
	xfs=$(plain <<<"$MAS_XFS_DISK")
	exits 0 && says "Nothing fails." || return
	says "  ok    GPU 0 at BDF, 256 MiB, 0 MiB in use: enabled" &&
		says "  ok    GPU 1 at BDF, 64 MiB, 0 MiB in use: enabled" &&
		says "  ok    /mnt/ext4 (ext4 on $ext4) - GPU 1: read p2p, write p2p" &&
		says "  ok    /mnt/xfs (xfs on $xfs) - GPU 0: read p2p, write p2p" &&
		! grep -q FAIL "$out"
}

a_file_that_bounces_is_named_with_its_reason()
{
	local file=$MAS_TMPFS/mas-check

	echo x >"$file"
	run "$mas_check" "$file" "$MAS_NVME512"
	rm "$file"
	exits 0 || return
	grep -q "note  $file - GPU 0: read bounce, write bounce: ..*" "$out" &&
		says "  ok    $(plain <<<"$MAS_NVME512") - GPU 0: read p2p, write p2p"
}

a_file_that_is_not_there_fails()
{
	run "$mas_check" /mnt/nothing
	fails_with 1 "/mnt/nothing cannot be read" "name a regular file or a block device"
}

json_says_the_same()
{
	"$mas_check" --json >"$out" || return
	python3 - "$out" <<-'END'
		import json, sys
		page = json.load(open(sys.argv[1]))
		assert page["ok"] is True and page["failed"] == 0
		texts = [c["text"] for c in page["checks"] if c["status"] == "ok"]
		assert any(t.startswith("GPU 0 at ") and t.endswith(": enabled") for t in texts)
		assert {c["section"] for c in page["checks"]} >= {"Kernel", "GPUs", "Storage"}
		print("#", len(page["checks"]), "checks")
	END
}

cdi_names_the_nodes()
{
	run "$mas_check" --cdi
	exits 0 || return
	python3 - "$out" <<-'END'
		import json, os, stat, sys
		spec = json.load(open(sys.argv[1]))
		nodes = {d["name"]: [n["path"] for n in d["containerEdits"]["deviceNodes"]]
			 for d in spec["devices"]}
		assert nodes == {"0": ["/dev/mxcd_mas0"], "1": ["/dev/mxcd_mas1"],
				 "all": ["/dev/mxcd_mas"]}, nodes
		assert all(stat.S_ISCHR(os.stat(p[0]).st_mode) for p in nodes.values())
	END
}

wrong_usage_exits_2()
{
	run "$mas_check" --nonsense
	exits 2
}

it_changes_nothing()
{
	local before after

	before=$(cat $class/layout/nodes/*/mas_holders; find /sys/module/mxcd /dev | sort)
	"$mas_check" >/dev/null
	after=$(cat $class/layout/nodes/*/mas_holders; find /sys/module/mxcd /dev | sort)
	[ "$before" = "$after" ]
}

no_permission()
{
	chmod 666 /dev/mxcd_mas[01]
	run setpriv --reuid=65534 --regid=65534 --clear-groups "$mas_check"
	chmod 600 /dev/mxcd_mas[01]
	fails_with 1 "no permission on /dev/mxcd_mas (nobody)" \
		"add the user to the group of /dev/mxcd_mas (root)"
}

drained()
{
	echo 1 >$class/drain
	run "$mas_check"
	echo 0 >$class/drain
	fails_with 1 "the driver is being drained: open gives EBUSY" \
		"echo 0 >/sys/class/mxcd/mxcd/drain"
}

node_is_missing()
{
	mv /dev/mxcd_mas1 /dev/not_mxcd_mas1
	run "$mas_check"
	mv /dev/not_mxcd_mas1 /dev/mxcd_mas1
	fails_with 1 "there is no /dev/mxcd_mas1" \
		"udevadm trigger --subsystem-match=mxcd_mas, or look at udev"
}

gpu_is_unbound()
{
	local gpu=${MAS_GPUS%% *}

	mas_unbind "$gpu"
	run "$mas_check"
	mas_bind "$gpu"
	fails_with 1 "GPU BDF has no driver" "echo BDF >/sys/bus/pci/drivers/mxcd/bind"
}

no_gpu()
{
	local gpu

	for gpu in $MAS_GPUS; do
		mas_unbind "$gpu"
		echo >"/sys/bus/pci/devices/$gpu/driver_override"
	done
	run "$mas_check"
	mas_ready
	fails_with 1 "there is no GPU that mxcd knows" \
		"look for 9999:4000, 4001, 4081 or 4083 in the output of lspci -n"
}

reload() # PARAMETERS
{
	rmmod mxcd && mas_load "$1" && mas_ready
}

bar_too_small()
{
	local why cure

	reload "mas=1 vram_tail_mb=100" || return
	run "$mas_check"
	why="off: BAR 0: of 64 MiB, 0 + 100 MiB are to be left alone"
	cure="enlarge the BAR (firmware: resizable BAR, above 4G decoding)"
	cure+=" or make vram_head_mb and vram_tail_mb smaller"
	fails_with 1 "GPU 1 at BDF, 64 MiB, 0 MiB in use: $why" "$cure"
}

too_far()
{
	reload "mas=1 max_distance=1" || return
	links_fail_with "farther than max_distance" "raise the parameter max_distance"
}

mas_is_0()
{
	reload mas=0 || return
	run "$mas_check"
	fails_with 1 "parameter mas is 0" \
		"\"options mxcd mas=1\" in /etc/modprobe.d/metax-base.conf, then load mxcd anew"
}

not_loaded()
{
	rmmod mxcd
	run "$mas_check"
	mas_ready
	fails_with 1 "mxcd is not loaded" "modprobe mxcd mas=1"
}

# No kernel that boots here is built so.
no_zone_device()
{
	mkdir -p "$fake/proc/sys/kernel"
	ln -s /sys /dev "$fake/"
	cp /proc/cmdline /proc/cpuinfo /proc/mounts "$fake/proc/"
	cp /proc/sys/kernel/osrelease "$fake/proc/sys/kernel/"
	sed '/zone *Device/d' /proc/zoneinfo >"$fake/proc/zoneinfo"
	run "$mas_check" --root "$fake"
	fails_with 1 "the kernel has no ZONE_DEVICE" \
		"use a kernel with CONFIG_ZONE_DEVICE=y, as those of Debian are"
}

# Every link fails for the same reason.
links_fail_with() # REASON CURE
{
	run "$mas_check"
	exits 1 || return
	is "reasons" "$1" "$(sed -nE 's/^  FAIL .*: read bounce, write bounce.*: (.*)$/\1/p' \
		"$out" | sort -u)" || return
	is "cures" "$2" "$(grep -A 1 '^  FAIL ' "$out" | sed -n 's/^        -> //p' | sort -u)" ||
		return
	grep -qF -e "$1" "$page" && grep -qF -e "-> $2" "$page"
}

pat_is_off()
{
	run "$mas_check"
	fails_with 1 "PAT is off: VRAM cannot be mapped write-combining" "boot without nopat"
}

case ${1-} in
nopat)
	check "PAT is off" pat_is_off
	;;
iommu)
	check "an IOMMU translates for the disks" links_fail_with \
		"IOMMU translates and host bridge not known" \
		"boot with iommu=pt, or switch the IOMMU off for this disk"
	;;
unreachable)
	check "the disks cannot reach the GPUs" links_fail_with \
		"no common switch and host bridge not known" \
		"put disk and GPU behind one PCIe switch; data goes by host memory meanwhile"
	;;
all)
	check "a file that bounces is named with its reason" \
		a_file_that_bounces_is_named_with_its_reason
	check "a file that is not there fails" a_file_that_is_not_there_fails
	check "wrong usage exits with 2" wrong_usage_exits_2
	check "it changes nothing" it_changes_nothing
	check "the driver is drained" drained
	check "a node is missing" node_is_missing
	check "a GPU has no driver" gpu_is_unbound
	check "there is no GPU" no_gpu
	check "the kernel has no ZONE_DEVICE" no_zone_device
	check "a BAR is too small" bar_too_small
	check "the disks are farther away than is allowed" too_far
	;;
*)
	check "all is well" all_is_well
	check "--json says the same" json_says_the_same
	check "--cdi names the nodes" cdi_names_the_nodes
	check "no permission on a node" no_permission
	check "mas=0" mas_is_0
	check "the driver is not loaded" not_loaded
	;;
esac
tap_end
