#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Compiles the driver against kernel 7.3 by clang, for x86-64 and for arm64, with
# W=1. Nothing of it is run. Closes with "N passed, N failed".

. "$(dirname "$0")/vm-lib.sh"

# As kbuild calls the compilers that are in the guest tree.
LLVM=LLVM=-19

# What the defconfig of an architecture may lack of what the driver needs, and what
# would need other tools.
CONFIG=(-e MEMORY_HOTPLUG -e MEMORY_HOTREMOVE -e ZONE_DEVICE -e PCI_P2PDMA -e IO_URING
	-e BLK_CGROUP -e MEMCG -d COMPAT_VDSO -d DEBUG_INFO_BTF)

# Of most of the kernel, a build of a module needs what Kconfig and headers say.
make_cross_source() # DIR
{
	local dir=$1 name=linux-source-7.3

	mkdir -p "$dir/usr/src/linux/Documentation" "$dir/usr/lib/modules"
	make_apt trixie-backports "$dir/apt"
	unpack_packages "$dir/apt" "$dir/apt" "$name"
	tar -C "$dir/usr/src/linux" --strip-components=1 --exclude='*/drivers/*.c' \
		--exclude='*/drivers/gpu/drm/*.h' --exclude='*/sound/*.c' \
		--exclude='*/fs/*.c' --exclude='*/net/*.c' --exclude='*.dts*' \
		--exclude="$name/Documentation" -xf "$dir/apt/usr/src/$name.tar.xz"
	rm -rf "$dir/apt"
	: >"$dir/usr/src/linux/Documentation/Kconfig"
}

# A directory to build modules in, as Debian's headers are one.
make_cross_arch() # ARCH DIR
{
	local arch=$1 dir=$2 jobs
	local make=(make -s -C usr/src/linux "O=/mnt/usr/src/$arch" "ARCH=$arch" "$LLVM")

	jobs=-j$(nproc)
	in_tree "$dir" "${make[@]}" defconfig
	in_tree "$dir" usr/src/linux/scripts/config --file "usr/src/$arch/.config" \
		"${CONFIG[@]}"
	in_tree "$dir" "${make[@]}" olddefconfig
	in_tree "$dir" "${make[@]}" "$jobs" modules_prepare
	# It was made below /mnt and will be seen below /.
	ln -sfn ../linux "$dir/usr/src/$arch/source"
	printf '%s\n' "export KBUILD_OUTPUT = /usr/src/$arch" \
		"include /usr/src/linux/Makefile" >"$dir/usr/src/$arch/Makefile"
}

make_cross() # ARCH... DIR
{
	local dir=${*: -1} arch

	make_cross_source "$dir"
	for arch in "${@:1:$#-1}"; do
		quietly "$CACHE/log/cross.log" make_cross_arch "$arch" "$dir"
	done
}

# The objects alone: without a vmlinux nobody knows what symbols there are.
compile() # ARCH
{
	rm -rf "$RUN/mxcd"
	unpack_sources "$RUN/mxcd" "${DRIVER_SOURCES[@]}"
	in_tree "$RUN/mxcd" make -s -j "$(nproc)" -C "/usr/src/$1" "ARCH=$1" "$LLVM" \
		M=/mnt CONFIG_MXCD=m W=1 drivers/gpu/mxcd/
}

passed=0
failed=0

become_root "$0"
need_guest
need_run_dir
cached cross "$(key "${CONFIG[@]}" "$(declare -f make_cross make_cross_source make_cross_arch)")" \
	"making kernel 7.3 ready for clang" make_cross x86_64 arm64
KERNEL_DIR=$REPLY
for arch in x86_64 arm64; do
	if compile $arch >"$RUN/cross.out" 2>&1 && [ ! -s "$RUN/cross.out" ]; then
		passed=$((passed + 1))
		say "compiler clang for $arch, W=1: clean"
	else
		failed=$((failed + 1))
		say "compiler clang for $arch, W=1: FAIL"
		sed 's/^/         /; 60q' "$RUN/cross.out"
	fi
done
rm -rf "$RUN/mxcd"
echo "$passed passed, $failed failed"
((failed == 0))
