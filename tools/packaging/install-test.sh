#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Install the driver with its installer on a Debian 12 and on a Debian 13 that have
# never seen these sources, boot them, use it, go on to a second kernel, boot that one,
# uninstall it, and boot once more. The installer runs in a chroot of the guest's disk,
# without network, since a compiler and depmod in an emulated guest take many minutes;
# boots and use are real.

. "$(dirname "$0")/../testing/selftests/mas/vm-lib.sh"

# Files are compared by their names.
export LC_ALL=C

DIST=${DIST:-$TOP/dist}
PACKAGES=(linux-image-amd64 linux-headers-amd64 dkms e2fsprogs initramfs-tools
	  systemd-sysv udev util-linux)
# What is added later, from files that lie on the disk.
CONTAINER_PACKAGES=(crun podman uidmap)
# What the containers are made of.
CONTAINER_PROGRAMS=(sh env dd printf od cat cmp perl)
CONFIG=/etc/modprobe.d/metax-base.conf

passed=0
failed=0

check() # TEXT COMMAND...
{
	local text=$1 log=$RUN/$SUITE.out
	shift

	if "$@" >"$log" 2>&1 </dev/null; then
		say "$SUITE: $text"
		passed=$((passed + 1))
	else
		say "FAIL: $SUITE: $text"
		tail -n 40 "$log" | sed 's/^/         /'
		failed=$((failed + 1))
	fi
}

# Run a command on the guest's disk.
on_disk() # COMMAND...
{
	TREE=$DISK SOURCE='' KERNEL_DIR='' in_tree "$RUN" "$@"
}

# The same without any network.
offline() # COMMAND...
{
	export TREE=$DISK
	unshare --net bash -c "SOURCE='' KERNEL_DIR=''
		$(declare -f in_tree)
		in_tree \"\$@\"" - "$RUN" "$@"
}

installer() # OPTION...
{
	offline /root/driver.run -- --kernel="$FIRST" "$@"
}

# The installer on a machine whose sysfs is another one.
installer_on_fake() # OPTION...
{
	offline env MXCD_SYSFS=/root/fake /root/driver.run -- --kernel="$FIRST" "$@"
}

exits() # CODE COMMAND...
{
	local rc=0

	"${@:2}" || rc=$?
	echo "exit code $rc, wanted $1"
	((rc == $1))
}

# It ends with this exit code and has said this text.
says() # CODE TEXT COMMAND...
{
	local rc=0 out

	out=$("${@:3}" 2>&1) || rc=$?
	echo "$out"
	echo "exit code $rc, wanted $1"
	((rc == $1)) && grep -qF -e "$2" <<<"$out"
}

not_installed()
{
	! on_disk dpkg-query -W mxcd-dkms && [ ! -e "$DISK$CONFIG" ]
}

config_is() # LINE...
{
	diff <(printf '%s\n' "$@") "$DISK$CONFIG"
}

# --- the disk -----------------------------------------------------------------

# Files of packages and what they depend on, for later, into DIR.
fetch_packages() # TREE DIR APT-OPTION... PACKAGE...
{
	local tree=$1 dir=$1/$2
	shift 2

	mkdir -p "$dir/partial"
	TREE=$tree SOURCE='' KERNEL_DIR='' quietly "$CACHE/log/fetch.log" \
		in_tree "$tree/root" apt-get install --yes \
		--no-install-recommends --download-only -o APT::Sandbox::User=root \
		-o "Dir::Cache::archives=${dir#"$tree"}" "$@"
	rm -r "$dir/partial" "$dir/lock"
}

# A minimal machine with a kernel, its headers and dkms; beside it, in /root, the
# packages of what it will get later: the kernel of the next release, and podman.
make_machine() # SUITE DIR
{
	local suite=$1 tree=$2 sources=$2/etc/apt/sources.list.d/backports.list mirror

	mirror=$(debian_mirror)
	make_tree "$suite" "${PACKAGES[@]}" "$tree"
	cp --dereference --remove-destination /etc/resolv.conf "$tree/etc/resolv.conf"
	echo "deb $mirror $suite-backports main" >"$sources"
	TREE=$tree SOURCE='' KERNEL_DIR='' quietly "$CACHE/log/fetch.log" \
		in_tree "$tree/root" apt-get update
	fetch_packages "$tree" root/kernel -t "$suite-backports" \
		linux-image-amd64 linux-headers-amd64
	fetch_packages "$tree" root/podman "${CONTAINER_PACKAGES[@]}"
	rm -rf "$sources" "$tree"/var/lib/apt/lists/* "$tree/etc/resolv.conf"
}

# All files that no package has, but those that change by themselves; and all files
# that tell of the driver.
write_lister()
{
	cat >"$DISK/root/list-files" <<-'END'
		#!/bin/sh
		export LC_ALL=C
		cat /var/lib/dpkg/info/*.list | sort -u >/tmp/owned
		find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run \
			-o -path /tmp -o -path /root -o -path /mnt -o -path /srv \
			-o -path /home -o -path /boot -o -path /lost+found \
			-o -path /var/cache -o -path /var/log -o -path /var/tmp \
			-o -path /var/lib/dpkg -o -path /var/lib/apt \
			-o -path '/usr/lib/modules/*/modules.*' \) -prune -o -print |
			sort | comm -23 - /tmp/owned
		grep -rlsE 'mxcd|metax' /etc /usr/lib/systemd /usr/lib/udev /usr/lib/modprobe.d \
			/var/lib/dkms /var/lib/systemd /var/lib/dpkg/info /var/lib/dpkg/status
	END
	chmod 755 "$DISK/root/list-files"
}

write_unit()
{
	cat >"$DISK/etc/systemd/system/install-guest.service" <<-'END'
		[Unit]
		Description=Test of what was installed
		After=mxcd.service multi-user.target

		[Service]
		Type=oneshot
		ExecStart=/root/install-guest.sh
		ExecStopPost=/sbin/poweroff --force --force

		[Install]
		WantedBy=default.target
	END
	on_disk systemctl --quiet enable install-guest.service
}

# Programs and the libraries that they want.
write_container()
{
	# shellcheck disable=SC2016 # for bash on the disk
	on_disk bash -c '
		box=/home/loader/box
		mkdir -p $box/dev $box/proc $box/sys $box/etc $box/tmp $box/mnt $box/run
		for program; do
			path=$(type -P "$program")
			ldd "$path" | grep -o "/[^ ]*" | while read -r library; do
				cp --parents -L "$library" $box
			done
			cp --parents -L "$path" $box
		done
		ln -s usr/bin/sh $box/sh
		chown -R loader: $box
	' - "${CONTAINER_PROGRAMS[@]}"
	cp "$TOP/Documentation/gpu/mxcd/examples/mas_copy.sh" "$DISK/home/loader/box/"
}

prepare_disk() # TREE
{
	cp -a --reflink=auto "$1" "$DISK"
	FIRST=$(basename "$DISK"/usr/lib/modules/*)
	cp "$TOP/tools/packaging/install-guest.sh" "$DISK/root/"
	cp "$TOP/Documentation/gpu/mxcd/examples/mas_copy.sh" "$DISK/usr/local/bin/"
	chmod 755 "$DISK/usr/local/bin/mas_copy.sh"
	cp "$DIST"/metax-driver-*-deb-x86_64.run "$DISK/root/driver.run"
	on_disk useradd --create-home --groups render loader
	on_disk usermod --add-subuids 100000-165535 --add-subgids 100000-165535 loader
	write_container
	write_unit
	write_lister
	on_disk /root/list-files | sort >"$RUN/$SUITE.files"
	mv "$RUN/$SUITE.files" "$DISK/root/files"
}

# The same package with another version.
make_upgrade() # VERSION
{
	local new=$1 dir=$RUN/upgrade-$SUITE old=$VERSION

	cp "$DIST"/mxcd-dkms_*.deb "$DISK/root/older.deb"
	on_disk dpkg-deb -R /root/older.deb "/mnt/upgrade-$SUITE"
	mv "$dir/usr/src/mxcd-$old" "$dir/usr/src/mxcd-$new"
	grep -rl "$old" "$dir/DEBIAN" "$dir/usr/src/mxcd-$new/dkms.conf" |
		xargs sed -i "s/${old//./\\.}/$new/g"
	sed -i '/define.*VERSION_PATCH/s/[0-9]*$/99/' \
		"$dir/usr/src/mxcd-$new/drivers/gpu/mxcd/mxcd_version.h"
	on_disk dpkg-deb --root-owner-group -b "/mnt/upgrade-$SUITE" /root/upgrade.deb
	rm -r "$dir"
}

# --- what is shown ------------------------------------------------------------

# A machine with a card that another driver serves, and with Secure Boot.
fake_machine()
{
	local device=$DISK/root/fake/bus/pci/devices/0000:01:00.0
	local variables=$DISK/root/fake/firmware/efi/efivars

	mkdir -p "$device" "$DISK/root/fake/bus/pci/drivers/metax" "$variables"
	echo 0x9999 >"$device/vendor"
	ln -s ../../drivers/metax "$device/driver"
	printf '\006\000\000\000\001' \
		>"$variables/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
}

# An empty package by the name of one of the vendor's.
fake_vendor_package()
{
	local dir=$DISK/root/metax-driver

	mkdir -p "$dir/DEBIAN"
	printf '%s\n' "Package: metax-driver" "Version: 1" "Architecture: all" \
		"Maintainer: nobody <nobody@localhost>" "Description: stands for another" \
		>"$dir/DEBIAN/control"
	on_disk dpkg-deb -b /root/metax-driver /root/metax-driver.deb
	on_disk dpkg -i /root/metax-driver.deb
}

# Every parameter that the module has, on a machine that is refused for its
# configuration.
all_parameters()
{
	local options=(--module-parameter=mas=1) name

	while IFS= read -r name; do
		[ "$name" = mas ] || options+=("--module-parameter=$name=1")
	done < <(installer --list | sed -n '/^parameters:/,$s/^  \([a-z0-9_]*\)\t.*/\1/p')
	echo "${options[@]}"
	((${#options[@]} >= 9)) || return
	echo "# of somebody else" >"$DISK$CONFIG"
	installer "${options[@]}"
	set -- $?
	rm "$DISK$CONFIG"
	return "$1"
}

wrong_options()
{
	check "an unknown parameter is refused" says 2 'no parameter "mass"; it has: ' \
		installer --module-parameter=mass=1
	check "a value of the wrong type is refused" says 2 'is of type bool' \
		installer --module-parameter=mas=yes_please
	check "several parameters, one of them unknown, too" says 2 'no parameter "x"' \
		installer --module-parameter="mas=1 x=2"
	check "a value that is no word is refused" says 2 'is of type text' \
		installer --module-parameter='exclude=a|b'
	check "all parameters of the module are known" says 1 "put \"options mxcd mas=1" \
		all_parameters
	check "an unknown option is refused" says 2 'unknown option "--everything"' \
		installer --everything
	check "--help tells the options" says 0 "--module-parameter=NAME=VALUE" \
		installer --help
	check "--list tells the parameters" says 0 "mas	" installer --list
	check "a kernel without headers is refused" says 1 \
		"apt install linux-headers-1.2.3" \
		offline /root/driver.run -- --kernel=1.2.3 --module-parameter=mas=1
	check "nothing was installed by that" not_installed
}

other_drivers()
{
	fake_machine
	check "it tells what Secure Boot needs" says 1 "mokutil --import" \
		installer_on_fake --check
	check "it stops where another driver has the card" says 1 \
		'is bound to the driver "metax"' installer_on_fake --module-parameter=mas=1
	check "it can be told otherwise" exits 0 installer_on_fake --force --check
	fake_vendor_package >"$RUN/$SUITE.out" 2>&1
	check "it stops where a package of the vendor is installed" says 1 \
		'the package "metax-driver" is installed' installer --module-parameter=mas=1
	on_disk dpkg --purge metax-driver >"$RUN/$SUITE.out"
	mkdir "$DISK/usr/lib/modules/$FIRST/extra"
	cp "$DISK/usr/lib/modules/$FIRST/kernel/drivers/block/loop.ko"* \
		"$DISK/usr/lib/modules/$FIRST/extra/"
	for file in "$DISK/usr/lib/modules/$FIRST"/extra/loop.ko*; do
		mv "$file" "${file/loop.ko/mxcd.ko}"
	done
	on_disk depmod "$FIRST"
	check "it stops where a module mxcd of somebody else is" says 1 \
		"a module mxcd that is not ours" installer --module-parameter=mas=1
	rm -r "$DISK/usr/lib/modules/$FIRST/extra"
	on_disk depmod "$FIRST"
	echo "options metax something=1" >"$DISK$CONFIG"
	check "it stops at a configuration that it did not write" says 1 \
		"was not written by this installer" installer --module-parameter=mas=1
	check "and leaves it as it is" config_is "options metax something=1"
	rm "$DISK$CONFIG"
	check "nothing was installed by that either" not_installed
}

version_is() # VERSION KERNEL
{
	[ "$(on_disk modinfo -k "$2" -F version mxcd)" = "$1" ]
}

installation()
{
	local mark="# Written by the installer of mxcd."

	check "the machine is fit" exits 0 installer --check
	check "it installs without network" installer --module-parameter="mas=1"
	check "the parameter is kept" config_is "$mark" "options mxcd mas=1"
	check "DKMS built the module" version_is "$VERSION" "$FIRST"
	sed -i 's/mas=1/mas=1 vram_head_mb=0/' "$DISK$CONFIG"
	on_disk cp "$(on_disk modinfo -k "$FIRST" -F filename mxcd)" /root/
	make_upgrade "$NEWER" >"$RUN/$SUITE.out"
	check "it is upgraded to another version" offline dpkg -i /root/upgrade.deb
	check "DKMS built that" version_is "$NEWER" "$FIRST"
	check "what was edited by hand is kept" \
		config_is "$mark" "options mxcd mas=1 vram_head_mb=0"
}

# As a user would from a mirror; what is wanted lies on the disk.
add_packages() # DIR
{
	# shellcheck disable=SC2016 # for the shell on the disk
	offline sh -c 'exec env DEBIAN_FRONTEND=noninteractive apt-get install --yes \
		--no-install-recommends -o APT::Sandbox::User=root \
		-o Dpkg::Options::=--force-unsafe-io "/root/$1"/*.deb' - "$1"
}

# What other packages make for themselves is not ours: it was there before, as it were.
note_files() # COMMAND...
{
	on_disk /root/list-files | sort >"$RUN/$SUITE.before"
	"$@"
	on_disk /root/list-files | sort | comm -13 "$RUN/$SUITE.before" - |
		grep -vE 'mxcd|metax' | sort -o "$DISK/root/files" - "$DISK/root/files"
}

second_kernel()
{
	note_files check "a second kernel is installed" add_packages kernel
	SECOND=$(find "$DISK/usr/lib/modules" -mindepth 1 -maxdepth 1 ! -name "$FIRST" \
		-printf '%f\n')
	check "DKMS built the module for $SECOND by itself" \
		on_disk modinfo -k "$SECOND" mxcd
	note_files check "podman is installed" add_packages podman
}

# "files" is a list from before the installation, and of what has come since then with
# other packages.
same_files()
{
	on_disk /root/list-files | sort >"$RUN/$SUITE.after"
	comm -13 "$DISK/root/files" "$RUN/$SUITE.after" >"$RUN/$SUITE.more"
	cat "$RUN/$SUITE.more"
	[ ! -s "$RUN/$SUITE.more" ]
}

removal()
{
	check "it is uninstalled without network" installer --uninstall
	check "no file is left behind" same_files
	check "nothing knows the module for $FIRST" exits 1 on_disk modinfo -k "$FIRST" mxcd
	check "nor for $SECOND" exits 1 on_disk modinfo -k "$SECOND" mxcd
}

# --- boots --------------------------------------------------------------------

vmlinuz() # RELEASE
{
	local image

	for image in "$DISK/boot/vmlinuz-$1" "$DISK/usr/lib/modules/$1/vmlinuz"; do
		[ -e "$image" ] || continue
		echo "$image"
		return
	done
}

run_guest() # RELEASE WORDS TAP
{
	local image=$RUN/$SUITE.img nvme=$RUN/$SUITE-nvme.img patience='' vmlinuz

	# See vm_start().
	[ "$ACCEL" = kvm ] || patience="no_timer_check watchdog_thresh=60"
	[ "$ACCEL" = kvm ] || patience+=" rcupdate.rcu_cpu_stall_timeout=120"

	vmlinuz=$(vmlinuz "$1")
	rm -f "$image" "$nvme"
	truncate -s 6G "$image"
	mkfs.ext4 -q -F -d "$DISK" "$image"
	truncate -s 256M "$nvme"
	timeout --foreground -k 10 1200 qemu-system-x86_64 -nodefaults -no-user-config -no-reboot \
		-display none -machine "q35,accel=$ACCEL" -cpu EPYC -smp 1 -m 2G \
		-kernel "$vmlinuz" -initrd "$DISK/boot/initrd.img-$1" \
		-append "root=/dev/vda rw console=ttyS0 panic=-1 oops=panic $patience $2" \
		-serial "file:${3%.tap}.console" -serial "file:$3" \
		-drive "file=$image,if=virtio,format=raw,cache=unsafe" \
		-drive "file=$nvme,id=nvme,if=none,format=raw,cache=unsafe" \
		-device nvme,serial=nvme,drive=nvme \
		-object memory-backend-ram,id=vram,size=256M,share=on \
		-device ivshmem-plain,memdev=vram </dev/null >"${3%.tap}.qemu" 2>&1 || true
	rm -f "$image" "$nvme"
}

boot() # RELEASE WORDS
{
	local tap=$RUN/$SUITE-$1.tap ok bad plan

	run_guest "$1" "$2" "$tap"
	sed -i 's/\r$//' "$tap"
	ok=$(grep -c '^ok ' "$tap") || true
	bad=$(grep -c '^not ok ' "$tap") || true
	plan=$(sed -n 's/^1\.\.//p' "$tap")
	grep -vE '^(1\.\.|# dmesg: )' "$tap" | sed "s/^/         $SUITE, $1: /"
	passed=$((passed + ok))
	failed=$((failed + bad))
	if [ "$plan" != $((ok + bad)) ]; then
		say "FAIL: $SUITE: the guest did not come to its end"
		tail -n 20 "${tap%.tap}.console" "$tap" | sed 's/^/         /'
		failed=$((failed + 1))
	fi
	check "kernel $1 has nothing to complain of" no_trouble "$tap" "${tap%.tap}.console"
}

no_trouble()
{
	! grep -aE "$VM_TROUBLE" "$@"
}

test_suite() # SUITE TREE
{
	SUITE=$1
	DISK=$RUN/disk-$SUITE
	prepare_disk "$2"
	wrong_options
	other_drivers
	installation
	boot "$FIRST" ""
	second_kernel
	boot "$SECOND" mas.last
	removal
	boot "$SECOND" mas.gone
	rm -rf --one-file-system "$DISK"
	echo "$passed $failed" >"$RUN/$SUITE.counts"
}

remove_disks()
{
	rm -rf --one-file-system "$RUN"/disk-* "$RUN"/*.img
}

become_root "$0" "$@"
# No need that what goes into a tree survives a loss of power.
export DPKG_FORCE=unsafe-io
need_commands mmdebstrap qemu-system-x86_64=qemu-system-x86 mkfs.ext4=e2fsprogs
ACCEL=tcg
if [ -w /dev/kvm ]; then
	need_guest
	need_accel
fi
need_run_dir
trap remove_disks EXIT
installers=("$DIST"/metax-driver-*-deb-x86_64.run)
[ -e "${installers[0]}" ] || die "there is no installer; do: make packages"
VERSION=${installers[0]##*/metax-driver-}
VERSION=${VERSION%-deb-x86_64.run}
NEWER=${VERSION%.*}.99
(($#)) || set -- bookworm trixie
trees=()
for suite; do
	cached "install-$suite" "$(key "${PACKAGES[@]}" "${CONTAINER_PACKAGES[@]}" \
		"$(declare -f make_tree make_machine fetch_packages)")" \
		"making a $suite with a kernel, its headers and dkms" make_machine "$suite"
	trees+=("$REPLY")
done
# Side by side: each has one processor.
for ((i = 1; i <= $#; i++)); do
	test_suite "${!i}" "${trees[i - 1]}" &
done
wait
for suite; do
	if read -r ok bad <"$RUN/$suite.counts"; then
		passed=$((passed + ok))
		failed=$((failed + bad))
	else
		say "FAIL: $suite did not come to its end"
		failed=$((failed + 1))
	fi
done
echo "$passed passed, $failed failed"
((failed == 0))
