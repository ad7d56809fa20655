#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs in the installed guest of install-test.sh, at the end of its boot, by a unit of
# systemd: uses the driver as its users do. TAP goes to the second serial port. With
# "mas.last" on the kernel's command line it goes on to containers; with "mas.gone" the
# driver has been uninstalled.

exec >/dev/ttyS1 2>&1
exec </dev/null

layout=/sys/class/mxcd/mxcd/layout
number=0

check() # TEXT COMMAND...
{
	local text=$1
	shift

	number=$((number + 1))
	if "$@" >/tmp/out 2>&1; then
		echo "ok $number $text"
	else
		sed 's/^/# /' /tmp/out
		echo "not ok $number $text"
	fi
}

says() # TEXT COMMAND...
{
	local out

	out=$("${@:2}" 2>&1) || true
	[ "$out" = "$1" ] && return
	echo "$out"
	return 1
}

fails()
{
	! "$@"
}

as() # USER COMMAND...
{
	runuser -u "$1" -- "${@:2}"
}

# --- the driver ---------------------------------------------------------------

# The stand-in is no card that the driver knows: it has to be named.
bind_standin()
{
	local device

	for device in /sys/bus/pci/devices/*; do
		[ "$(cat "$device/vendor" "$device/device" | tr '\n' ' ')" = "0x1af4 0x1110 " ] ||
			continue
		echo mxcd >"$device/driver_override"
		echo "${device##*/}" >/sys/bus/pci/drivers_probe
		[ -e "$device/driver" ] && return
	done
	return 1
}

# A disk with a file that a user wants in VRAM and back.
make_disk()
{
	udevadm settle
	mkfs.ext4 -q -F /dev/nvme0n1 &&
		mount /dev/nvme0n1 /mnt &&
		head -c 3000003 /dev/urandom >/mnt/source &&
		chmod 644 /mnt/source &&
		mkdir /mnt/loader &&
		chown loader /mnt/loader
}

# A way to have mas_copy.sh run, without and with the arguments.
copies() # COMMAND...
{
	rm -f /mnt/loader/copy
	"$@" /mnt/source /mnt/loader/copy 0 && cmp /mnt/source /mnt/loader/copy
}

held_driver_stays()
{
	local rc

	exec 9<>/dev/mxcd_mas
	modprobe -r mxcd
	/root/driver.run -- --uninstall >/tmp/page 2>&1
	rc=$?
	exec 9>&-
	cat /tmp/page
	[ "$rc" = 1 ] && [ -d /sys/module/mxcd ] && grep -q 'its holders:' /tmp/page &&
		grep -qx '[0-9]* .* install-guest.*' /tmp/page && dpkg-query -W mxcd-dkms
}

mas_check_says() # LINE
{
	mas-check >/tmp/page
	grep -xF -e "$1" /tmp/page && return
	cat /tmp/page
	return 1
}

# The version that was there before the upgrade, as if it had not been unloaded since.
older_runs()
{
	local module version
	local newer=$1

	module=$(echo /root/mxcd.ko*)
	version=$(modinfo -F version "$module")
	modprobe -r mxcd && insmod "$module" mas=1 && bind_standin &&
		mas_check_says "  note  mxcd $version runs, $newer is installed"
}

use_driver()
{
	local version

	version=$(modinfo -F version mxcd)
	check "the unit has loaded the driver at boot" systemctl is-active mxcd.service
	check "with the parameter from modprobe.d" says Y cat /sys/module/mxcd/parameters/mas
	check "before a GPU is bound it says mas 0" says "mas 0" grep mas $layout/properties
	check "a GPU is bound" bind_standin
	check "the manual's check says mas 1" says "mas 1" grep mas $layout/properties
	udevadm settle
	check "the node belongs to the group render" says "root render 660" \
		stat -c '%U %G %a' /dev/mxcd_mas
	check "a disk" make_disk
	check "a user of the group render copies a file through VRAM" \
		copies as loader mas_copy.sh
	check "another user cannot open the node" fails as nobody cat /dev/mxcd_mas
	check "mas-check knows the installed version" \
		mas_check_says "  ok    mxcd $version runs and is installed"
	check "mas-check has nothing to complain of" mas_check_says "Nothing fails."
	check "a driver that is held is neither unloaded nor uninstalled" held_driver_stays
}

# --- containers -----------------------------------------------------------------

# A root directory with a shell, without image, network or service: --cgroup-manager
# and --events-backend are for a machine without dbus and journal.
podman_run() # OPTION...
{
	podman --cgroup-manager=cgroupfs --events-backend=file run --rm --network none \
		--log-driver none --device mxcd.mas/gpu=0 -v /mnt:/mnt "$@"
}

rootful() # ARGUMENT...
{
	podman_run --security-opt seccomp=/tmp/seccomp.json \
		--rootfs /home/loader/box /sh /mas_copy.sh "$@"
}

rootless() # ARGUMENT...
{
	cd /home/loader || return
	export -f podman_run
	as loader env HOME=/home/loader XDG_RUNTIME_DIR=/run/user/loader \
		bash -c 'podman_run "$@"' - --security-opt seccomp=/tmp/seccomp.json \
		--group-add keep-groups --rootfs /home/loader/box /sh /mas_copy.sh "$@"
}

# Not every release of podman blocks io_uring: this profile does.
write_profile()
{
	sed '/"io_uring_/d' /usr/share/containers/seccomp.json >/tmp/seccomp.json
	chmod 644 /tmp/seccomp.json
	install -d -o loader -m 700 /run/user/loader
	mkdir -p /etc/cdi
	mas-check --cdi >/etc/cdi/mxcd.json
}

no_io_uring()
{
	local out

	# shellcheck disable=SC2016 # for perl
	out=$(podman_run --security-opt seccomp=/tmp/seccomp.json \
		--rootfs /home/loader/box perl -e '
			my $parameters = "\0" x 120;
			print syscall(425, 1, $parameters), " ", $! + 0, "\n"')
	echo "$out"
	[ "${out%% *}" = -1 ]
}

use_containers()
{
	check "mas-check writes a CDI specification" write_profile
	check "a container gets the node of its GPU alone" says /dev/mxcd_mas0 \
		podman_run --rootfs /home/loader/box /sh -c 'echo /dev/mxcd*'
	check "a container has no io_uring" no_io_uring
	check "a container without io_uring copies a file through VRAM" copies rootful
	check "so does a rootless one" copies rootless
	rm -r /etc/cdi
}

# --- after the removal ------------------------------------------------------------

# The stand-in is there as before; nobody knows what to do with it.
driver_is_gone()
{
	check "the driver is not loaded" fails test -e /sys/module/mxcd
	check "nothing knows the module" fails modprobe mxcd
	check "there is no node" fails test -e /dev/mxcd_mas
	check "there is no class" fails test -e /sys/class/mxcd
	check "the unit is unknown" fails systemctl cat mxcd.service
	check "nothing failed at boot" says "" systemctl --failed --quiet --no-legend
}

words=$(cat /proc/cmdline)
if [[ $words == *mas.gone* ]]; then
	driver_is_gone
else
	use_driver
fi
if [[ $words == *mas.last* ]]; then
	use_containers
	check "the driver is unloaded" modprobe -r mxcd
elif [[ $words != *mas.gone* ]]; then
	check "mas-check tells of an older driver that still runs" \
		older_runs "$(modinfo -F version mxcd)"
fi
echo "1..$number"
dmesg | sed 's/^/# dmesg: /'
