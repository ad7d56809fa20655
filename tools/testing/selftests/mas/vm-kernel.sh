# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The guest's user land and its kernels; sourced by vm-lib.sh.
#
# There is one user land, $TREE, and for each kernel a directory, $KERNEL_DIR,
# that is mounted into it. The sources are built and checked there, too, with the
# compiler that made the kernel, so that the machine's own tools do not matter.

. "$SELFTESTS/vm-debug.sh"

TREE=
SOURCE=
KERNEL_DIR=

# How a kernel is made: a function and its arguments. It is called with the
# directory to create as its last argument and leaves there
#
#	release			what uname -r says
#	vmlinuz			the image
#	usr/lib/modules		the modules, with depmod's files
#	usr/src			where lib/modules/RELEASE/build leads to
#	usr/lib/linux-kbuild-*	what usr/src leads to, if anything
kernel_recipe()
{
	case $KERNEL in
	6.1) echo make_debian_kernel bookworm ;;
	6.12) echo make_debian_kernel trixie ;;
	7.3) echo make_debian_kernel trixie-backports ;;
	debug | kcsan)
		echo make_debug_kernel 7.3 "$(key "$(cd "$SELFTESTS" &&
			cat "${DEBUG_FRAGMENTS[@]}")" "${DEBUG_KERNEL_VARS[@]}")" ;;
	*) die "kernel $KERNEL is not served here (there are: 6.1, 6.12, 7.3, debug, kcsan)" ;;
	esac
}

GUEST_PACKAGES=(
	# boots and builds: kernels, the driver, test programs of both sizes
	bash bc bison busybox-static clang-19 cpio dash flex gcc gcc-12 gcc-multilib
	kmod libc6-dev libc6-dev-i386 libelf-dev lld-19 llvm-19 make mount pahole
	perl procps python3-minimal shellcheck sparse udev util-linux xz-utils
	# disks and what is put on them
	attr btrfs-progs cryptsetup-bin dmsetup e2fsprogs exfatprogs f2fs-tools
	fdisk fscrypt fsverity fuse2fs fuse3 lvm2 mdadm nfs-common
	nfs-kernel-server nvme-cli pciutils quota xfsprogs
	# load, and eyes on the kernel
	bpftrace fio stress-ng trace-cmd
)

# --- Debian -------------------------------------------------------------------

# The mirror that this machine itself uses.
debian_mirror()
{
	local mirror i

	for i in 1 2; do
		# shellcheck disable=SC2016 # apt expands these
		mirror=$(apt-get indextargets --format \
			'$(ORIGIN)|$(LABEL)|$(COMPONENT)|$(IDENTIFIER)|$(REPO_URI)' |
			awk -F '|' '$1 == "Debian" && $2 == "Debian" && $3 == "main" &&
				    $4 == "Packages" && !uri { uri = $5 } END { print uri }')
		[ -z "$mirror" ] || break
		((i == 2)) || quietly "$CACHE/log/apt.log" apt-get update
	done
	[ -n "$mirror" ] || die "apt knows no Debian mirror on this machine"
	echo "$mirror"
}

make_tree() # SUITE PACKAGE... DIR
{
	local dir=${*: -1} suite=$1 packages=("${@:2:$#-2}") mirror

	mirror=$(debian_mirror)
	quietly "$CACHE/log/tree.log" mmdebstrap --mode=root --variant=minbase \
		--aptopt='Acquire::Languages "none"' \
		--aptopt='Acquire::Retries "3"' \
		--dpkgopt='path-exclude=/usr/share/doc/*' \
		--dpkgopt='path-exclude=/usr/share/man/*' \
		--dpkgopt='path-exclude=/usr/share/locale/*' \
		--include="$(IFS=,; echo "${packages[*]}")" \
		"$suite" "$dir" "$mirror"
	chmod 755 "$dir"
	mkdir -p "$dir/usr/lib/modules" "$dir/usr/src"
}

# An apt that knows this suite alone, in DIR, for APT_CONFIG=DIR/apt.conf.
make_apt() # SUITE DIR
{
	local dir=$2 mirror

	mirror=$(debian_mirror)
	mkdir -p "$dir"/{etc/apt.conf.d,etc/preferences.d,lists/partial,archives/partial}
	touch "$dir/status"
	echo "deb $mirror $1 main" >"$dir/etc/sources.list"
	cat >"$dir/apt.conf" <<-END
		Dir "$dir";
		Dir::Etc "$dir/etc";
		Dir::Etc::TrustedParts "/etc/apt/trusted.gpg.d";
		Dir::State "$dir";
		Dir::State::status "$dir/status";
		Dir::Cache "$dir";
		Dir::Cache::pkgcache "";
		APT::Architecture "amd64";
		APT::Sandbox::User "root";
		Acquire::Languages "none";
		Acquire::Retries "3";
	END
	quietly "$CACHE/log/apt.log" env APT_CONFIG="$dir/apt.conf" apt-get update
}

# Download packages and unpack them below DIR.
unpack_packages() # APT DIR PACKAGE...
{
	local apt=$1 dir=$2 deb

	(cd "$apt/archives" && quietly "$CACHE/log/apt.log" \
		env APT_CONFIG="$apt/apt.conf" apt-get download "${@:3}")
	for deb in "$apt"/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -C "$dir" --keep-directory-symlink \
			--exclude=./usr/share -xf -
		rm "$deb"
	done
}

# The newest stock kernel of this version in the suite. Not its meta package,
# which may have gone on to another version.
make_debian_kernel() # SUITE DIR
{
	local dir=$2 release packages

	mkdir -p "$dir/usr/lib/modules"
	ln -s usr/lib "$dir/lib"
	make_apt "$1" "$dir/apt"
	release=$(APT_CONFIG=$dir/apt/apt.conf apt-cache pkgnames "linux-image-$KERNEL." |
		sed -nE 's/^linux-image-([0-9.]+[-+][^-]+-amd64)$/\1/p' | sort -V | tail -n 1)
	[ -n "$release" ] || die "Debian $1 has no kernel $KERNEL"
	packages=$(APT_CONFIG=$dir/apt/apt.conf apt-cache depends --recurse --no-recommends \
		--no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
		"linux-image-$release" "linux-headers-$release" |
		grep -E '^linux-(base|binary|headers|image|kbuild|modules)-[0-9]' |
		grep -v -e '-unsigned$' | sort -u)
	mapfile -t packages <<<"$packages"
	unpack_packages "$dir/apt" "$dir" "${packages[@]}"
	rm -rf "$dir/apt"
	if [ -e "$dir/boot/vmlinuz-$release" ]; then
		mv "$dir/boot/vmlinuz-$release" "$dir/vmlinuz"
	else
		mv "$dir/usr/lib/modules/$release/vmlinuz" "$dir/vmlinuz"
	fi
	rm -rf "${dir:?}"/{boot,etc}
	in_tree "$dir" depmod --basedir /mnt "$release"
	echo "$release" >"$dir/release"
}

# The parts of a kernel source that the test programs and checkers are made of.
# They are the same ones whatever kernel runs.
make_source() # DIR
{
	local dir=$1 list=() part name=linux-source-6.12

	for part in Makefile include scripts tools/testing/selftests/kselftest \
		    tools/testing/selftests/kselftest.h \
		    tools/testing/selftests/kselftest_harness.h \
		    tools/testing/selftests/lib.mk; do
		list+=("$name/$part")
	done
	mkdir "$dir"
	make_apt trixie "$dir/apt"
	unpack_packages "$dir/apt" "$dir/apt" "$name"
	tar -C "$dir" --strip-components=1 -xf "$dir/apt/usr/src/$name.tar.xz" "${list[@]}"
	rm -rf "$dir/apt"
	# checkpatch.pl knows the top of a kernel tree by these.
	for part in COPYING CREDITS Kbuild MAINTAINERS README Documentation arch \
		    drivers fs init ipc kernel lib; do
		mkdir "$dir/$part"
	done
}

# --- what the guest boots from --------------------------------------------------

make_initrd() # DIR
{
	local dir=$1 root=$1/root module

	mkdir -p "$root"/{bin,dev,proc,modules,tmp,root}
	cp "$TREE/bin/busybox" "$root/bin/"
	ln -s busybox "$root/bin/sh"
	# modprobe prints the files in the order in which they must be loaded. The
	# modules for disks are here because unpacking them is slow in the guest.
	in_tree "$dir" modprobe --set-version "$RELEASE" --show-depends --all \
		virtio_pci 9pnet_virtio 9p overlay nvme ext4 xfs |
		awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$dir/modules"
	while read -r module; do
		module=$KERNEL_DIR/usr/lib/modules/${module#*/lib/modules/}
		case $module in
		*.xz) xz -dc "$module" >"$root/modules/$(basename "$module" .xz)" ;;
		*) cp "$module" "$root/modules/" ;;
		esac
		basename "$module" .xz >>"$root/modules/order"
	done <"$dir/modules"
	cat >"$root/init" <<-'END'
		#!/bin/sh
		export PATH=/bin
		busybox mount -t proc none /proc
		if busybox grep -q mas.probe /proc/cmdline; then
			echo "mas: a guest runs here"
			busybox poweroff -f
		fi
		# Parameters are taken from the command line, as modprobe does it.
		parameters() {
			for word in $(busybox cat /proc/cmdline); do
				case $word in
				"$1".*) echo "${word#*.}" ;;
				esac
			done
		}
		for module in $(busybox cat /modules/order); do
			busybox insmod "/modules/$module" $(parameters "${module%.ko}")
		done
		share() {
			busybox mount -t 9p -o "trans=virtio,msize=262144,$3" "$1" "$2"
		}
		busybox mount -t tmpfs none /tmp
		busybox mkdir /tmp/lower /tmp/upper /tmp/work
		share root /tmp/lower ro,cache=loose
		busybox mount -t overlay none /root \
			-o lowerdir=/tmp/lower,upperdir=/tmp/upper,workdir=/tmp/work
		busybox mkdir /root/mas /root/run/mas
		share kernel /root/usr/lib/modules ro,cache=loose
		share mas /root/mas ro,cache=loose
		share run /root/run/mas cache=none
		busybox umount /proc
		exec busybox switch_root /root /mas/tools/testing/selftests/mas/guest-init.sh
	END
	chmod 755 "$root/init"
	(cd "$root" && find . | cpio --quiet -o -H newc) >"$dir/initrd"
	rm -rf "$root"
}

# Set TREE, SOURCE, KERNEL_DIR, RELEASE, INITRD.
# shellcheck disable=SC2034 # vm-lib.sh uses them
need_guest()
{
	local recipe

	need_commands mmdebstrap cpio xz=xz-utils
	[[ $KERNEL != @(debug|kcsan) ]] || use_debug_kernel
	recipe=$(kernel_recipe)
	read -ra recipe <<<"$recipe"
	cached tree "$(key "${GUEST_PACKAGES[@]}" "$(declare -f make_tree)")" \
		"making the guest tree (user land, compilers, checkers)" \
		make_tree trixie "${GUEST_PACKAGES[@]}"
	TREE=$REPLY
	cached source "$(key "$(declare -f make_source)")" \
		"fetching parts of the kernel source" make_source
	SOURCE=$REPLY
	cached "kernel-$KERNEL" "$(key "${recipe[@]}" "$(declare -f "${recipe[0]}")")" \
		"making kernel $KERNEL" "${recipe[@]}"
	KERNEL_DIR=$REPLY
	RELEASE=$(cat "$KERNEL_DIR/release")
	cached initrd "$(key "$TREE" "$KERNEL_DIR" "$(declare -f make_initrd in_tree)")" \
		"making the initramfs for $RELEASE" make_initrd
	INITRD=$REPLY/initrd
}

# Run a command in the guest tree, where DIR is /mnt and the kernel source is
# /srv. The mounts are seen by the command alone and go with it.
in_tree() # DIR COMMAND...
{
	local dir=$1
	shift
	# shellcheck disable=SC2016 # for the inner shell
	unshare --mount bash -euc '
		tree=$1 dir=$2 source=$3 kernel=$4
		shift 4
		mount -t proc none "$tree/proc"
		mount --bind /dev "$tree/dev"
		mount -t tmpfs none "$tree/tmp"
		mount --bind "$dir" "$tree/mnt"
		[ -z "$source" ] || mount --bind -o ro "$source" "$tree/srv"
		if [ -n "$kernel" ]; then
			cd "$kernel"
			for part in usr/src usr/lib/modules usr/lib/linux-kbuild-*; do
				[ -d "$part" ] || continue
				mkdir -p "$tree/$part"
				mount --bind -o ro "$part" "$tree/$part"
			done
		fi
		exec chroot "$tree" env -i -C /mnt LC_ALL=C.UTF-8 HOME=/tmp \
			PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
	' - "$TREE" "$dir" "$SOURCE" "$KERNEL_DIR" "$@"
}
