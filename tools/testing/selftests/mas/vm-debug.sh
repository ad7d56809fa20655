# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# The kernels that watch: few drivers and many checks, made from Debian's newest source
# of a version and fragments of a configuration. Sourced by vm-kernel.sh.

# Later ones overrule earlier ones.
DEBUG_FRAGMENTS=(config.debug)
# Variables of make for the kernel.
DEBUG_KERNEL_VARS=()

# What is different where they run.
# shellcheck disable=SC2034 # for vm-lib.sh
use_debug_kernel()
{
	SLOW=4
	MEM=3G
	PATCHES_ITSELF=
	PROGRAM_ARGS=(DEBUG=1)
	BUILD_VARS+=(CONFIG_MXCD_KUNIT_TEST=y)
	if [ "$KERNEL" = kcsan ]; then
		use_kcsan
		return
	fi
	BUILD_VARS+=(GCOV_PROFILE=y)
	DEBUG_ZONE_TESTS=(route_test life_test mmap_test pin_test dmabuf_test ringbuf_test
			  fail_probe_test)
	DEBUG_PORTS_TESTS=(hotplug_test.sh)
}

# Only the driver is watched: both sides of a race have to be in it. The kernel stays
# fast enough, and its own races are not for this project to find.
# shellcheck disable=SC2034 # for vmtest.sh
use_kcsan()
{
	DEBUG_FRAGMENTS+=(config.kcsan)
	DEBUG_KERNEL_VARS=(KCSAN_SANITIZE=n)
	VM_APPEND+=" slab_nomerge" # soak_test.sh counts objects
	RACE_TESTS=(queue_test uring_test life_test life_fs_test verdict_test stats_test
		    restrict_test model_test full_test race_test reload_test.sh
		    fuzz_test.sh soak_test.sh)
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

	(cd "$SELFTESTS" && cp "${DEBUG_FRAGMENTS[@]}" "$dir/usr/src/linux/")
	quietly "$log" in_tree "$dir" make -s -C usr/src/linux tinyconfig
	quietly "$log" in_tree "$dir/usr/src/linux" \
		scripts/kconfig/merge_config.sh -m .config "${DEBUG_FRAGMENTS[@]}"
	quietly "$log" in_tree "$dir" make -s -C usr/src/linux olddefconfig
	# What a fragment overrules is another kernel's to check.
	missing=$(config_not_taken "$SELFTESTS/${DEBUG_FRAGMENTS[-1]}" \
		"$dir/usr/src/linux/.config")
	[ -z "$missing" ] || die "${DEBUG_FRAGMENTS[-1]} has no effect with: $missing"
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

# A kernel as make_debian_kernel makes them. DIGEST, of the fragments, is there to
# tell one from another.
make_debug_kernel() # VERSION DIGEST DIR
{
	local dir=$3 log=$CACHE/log/debug-kernel.log jobs

	jobs=-j$(nproc)
	mkdir -p "$dir/usr/lib/modules"
	ln -s usr/lib "$dir/lib"
	make_debug_source "$1" "$dir"
	make_debug_config "$log" "$dir"
	quietly "$log" in_tree "$dir" make -s "$jobs" -C usr/src/linux \
		"${DEBUG_KERNEL_VARS[@]}" bzImage modules
	quietly "$log" in_tree "$dir" make -s -C usr/src/linux INSTALL_MOD_PATH=/mnt \
		modules_install
	in_tree "$dir" make -s -C usr/src/linux kernelrelease >"$dir/release"
	mv "$dir/usr/src/linux/arch/x86/boot/bzImage" "$dir/vmlinuz"
	ln -sfn /usr/src/linux "$dir/usr/lib/modules/$(cat "$dir/release")/build"
	strip_debug_source "$dir/usr/src/linux"
}
