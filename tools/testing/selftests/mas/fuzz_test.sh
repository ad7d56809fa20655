#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The fuzzer as root and as an unprivileged user of group render, then stress-ng's
# stressor of devices. FUZZ_SECONDS: as long as that, instead of a fixed number of
# steps. MAS_SEED: the same choices again.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

STEPS=${FUZZ_STEPS:-4000}
budget=(-n "$STEPS")
[ -z "${FUZZ_SECONDS-}" ] || budget=(-t "$FUZZ_SECONDS")

# As the udev rule does it.
open_to_render()
{
	getent group render >/dev/null || groupadd --system render
	chgrp render /dev/mxcd_mas* && chmod 660 /dev/mxcd_mas*
}

quiet()
{
	[ "$(dmesg | grep -c mxcd)" -eq "$lines" ]
}

# stress-ng wants a directory that it may write to, though this stressor has no files.
stress() # COMMAND...
{
	"$@" stress-ng --dev 2 --dev-file /dev/mxcd_mas --temp-path /tmp \
		-t "${FUZZ_SECONDS:-10}" --metrics 2>&1 | sed 's/^/# /'
	[ "${PIPESTATUS[0]}" -eq 0 ]
}

open_to_render
lines=$(dmesg | grep -c mxcd)
check "fuzzer as root" "$here/fuzz" "${budget[@]}"
check "fuzzer as nobody of group render" "$here/fuzz" "${budget[@]}" -u
check "bad input leaves no line in the log" quiet
if command -v stress-ng >/dev/null; then
	check "stress-ng as root" stress
	check "stress-ng as nobody of group render" \
		stress setpriv --reuid nobody --regid render --clear-groups
else
	check "stress-ng # SKIP not installed" true
fi
check "the driver unloads" rmmod mxcd
check "it loads and binds again" mas_ready
tap_end
