#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# On a kernel that is locked down, confidentiality and all: the driver works as before
# and shows nothing that the kernel wants hidden. There is no way back: it is the last
# thing a guest does. Exit code 4: this kernel cannot be locked down.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

examples=$here/../../../../Documentation/gpu/mxcd/examples
lockdown=/sys/kernel/security/lockdown
work=$(mktemp -d "$MAS_EXT4/lockdown.XXXXXX")
trap 'rm -rf "$work"' EXIT

copies_p2p()
{
	local gpu

	for ((gpu = 0; gpu < $(wc -w <<<"$MAS_GPUS"); gpu++)); do
		head -c 3145728 /dev/urandom >"$work/source"
		rm -f "$work/copy"
		"$examples/mas_copy.sh" "$work/source" "$work/copy" "$gpu" >"$work/out" &&
			cmp "$work/source" "$work/copy" &&
			grep -q ': p2p, 3145728 p2p, reason 0$' "$work/out" && continue
		sed 's/^/# /' "$work/out"
		return 1
	done
}

latencies_can_be_read()
{
	cat /sys/kernel/debug/mxcd_mas/latency >/dev/null 2>&1
}

latencies_are_hidden()
{
	! latencies_can_be_read
}

is_locked_down()
{
	echo confidentiality >$lockdown && grep -qF '[confidentiality]' $lockdown
}

rebinds()
{
	local gpu

	for gpu in $MAS_GPUS; do
		mas_unbind "$gpu" && mas_bind "$gpu" || return
	done
	grep -qx 'mas 1' /sys/class/mxcd/mxcd/layout/properties
}

mount -t securityfs none /sys/kernel/security 2>/dev/null
[ -w $lockdown ] || {
	note "there is no $lockdown"
	exit 4
}
check "a file is copied p2p" copies_p2p
check "debugfs tells latencies" latencies_can_be_read
check "the kernel is locked down" is_locked_down
check "a file is copied p2p as before" copies_p2p
check "debugfs tells nothing" latencies_are_hidden
check "GPUs are unbound and bound" rebinds
check "a file is copied p2p after that" copies_p2p
tap_end
