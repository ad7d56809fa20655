#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The driver loads, binds, says that MAS works, and can be unloaded and loaded
# again.
#
# shellcheck disable=SC2317 # functions are called by name, through check

# shellcheck source=guest-lib.sh
. "$(dirname "$0")/guest-lib.sh"

number=0
failed=0

check() # NAME COMMAND...
{
	local name=$1
	shift
	number=$((number + 1))
	if "$@"; then
		echo "ok $number $name"
	else
		echo "not ok $number $name"
		failed=1
	fi
}

all_bound()
{
	local gpu

	for gpu in $MAS_GPUS; do
		mas_bound "$gpu" || return
	done
}

says_mas()
{
	[ "$(grep mas /sys/class/mxcd/mxcd/layout/properties)" = "mas $1" ]
}

echo TAP version 13
echo 1..6
check "the stand-ins are bound" all_bound
check "layout/properties says mas 1" says_mas 1
check "the device node is there" test -c /dev/mxcd_mas
check "the driver unloads" rmmod mxcd
check "the device node is gone" test ! -e /dev/mxcd_mas
check "the driver loads and binds again" mas_ready
exit $failed
