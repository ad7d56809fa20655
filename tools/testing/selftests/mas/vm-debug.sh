# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The kernel that watches: few drivers and every check, made from Debian's newest
# source of a version and config.debug. Sourced by vm-kernel.sh.

# What is different where it runs.
# shellcheck disable=SC2034 # for vm-lib.sh
use_debug_kernel()
{
	SLOW=4
	MEM=3G
	PATCHES_ITSELF=
	BUILD_VARS+=(CONFIG_MXCD_KUNIT_TEST=y GCOV_PROFILE=y)
	PROGRAM_ARGS=(DEBUG=1)
	DEBUG_ZONE_TESTS=(route_test life_test mmap_test pin_test dmabuf_test ringbuf_test
			  fail_probe_test)
	DEBUG_PORTS_TESTS=(hotplug_test.sh)
}

make_debug_source() # VERSION DIR
{
	local dir=$2 name=linux-source-$1

	mkdir -p "$dir/usr/src/linux"
	make_apt trixie-backports "$dir/apt"
	unpack_packages "$dir/apt" "$dir/apt" "$name"
	tar -C "$dir/usr/src/linux" --strip-components=1 -xf "$dir/apt/usr/src/$name.tar.xz"
	rm -rf "$dir/apt"
}

# What the fragment asks for and did not get: a dependency is missing.
config_not_taken() # FRAGMENT CONFIG
{
	awk 'NR == FNR { if (/^CONFIG_/) set[$0] = 1
			 if (/^CONFIG_/) { sub(/=.*/, ""); on[$0] = 1 }
			 next }
	     /^CONFIG_/ && !($0 in set) { print }
	     /^# CONFIG_[A-Z0-9_]+ is not set$/ && ($2 in on) { print }' "$2" "$1"
}

make_debug_config() # LOG DIR
{
	local log=$1 dir=$2 missing

	cp "$SELFTESTS/config.debug" "$dir/usr/src/linux/"
	quietly "$log" in_tree "$dir" make -s -C usr/src/linux tinyconfig
	quietly "$log" in_tree "$dir/usr/src/linux" \
		scripts/kconfig/merge_config.sh -m .config config.debug
	quietly "$log" in_tree "$dir" make -s -C usr/src/linux olddefconfig
	missing=$(config_not_taken "$SELFTESTS/config.debug" "$dir/usr/src/linux/.config")
	[ -z "$missing" ] || die "config.debug has no effect with: $missing"
}

# Leaves what modules are built with.
strip_debug_source() # DIR
{
	find "$1" -type f \( -name '*.o' -o -name '*.a' -o -name '*.o.cmd' -o -name 'vmlinux*' \) \
		! -path '*/scripts/*' ! -path '*/tools/objtool/*' -delete
	(cd "$1" && rm -rf Documentation LICENSES block crypto drivers fs init io_uring ipc \
		mm net rust samples security sound virt)
	find "$1/arch" -mindepth 1 -maxdepth 1 -type d ! -name x86 -exec rm -rf {} +
}

# A kernel as make_debian_kernel makes them. DIGEST, of config.debug, is there to
# tell one from another.
make_debug_kernel() # VERSION DIGEST DIR
{
	local dir=$3 log=$CACHE/log/debug-kernel.log jobs

	jobs=-j$(nproc)
	mkdir -p "$dir/usr/lib/modules"
	ln -s usr/lib "$dir/lib"
	make_debug_source "$1" "$dir"
	make_debug_config "$log" "$dir"
	quietly "$log" in_tree "$dir" make -s "$jobs" -C usr/src/linux bzImage modules
	quietly "$log" in_tree "$dir" make -s -C usr/src/linux INSTALL_MOD_PATH=/mnt \
		modules_install
	in_tree "$dir" make -s -C usr/src/linux kernelrelease >"$dir/release"
	mv "$dir/usr/src/linux/arch/x86/boot/bzImage" "$dir/vmlinuz"
	ln -sfn /usr/src/linux "$dir/usr/lib/modules/$(cat "$dir/release")/build"
	strip_debug_source "$dir/usr/src/linux"
}
