#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# In a crash kernel MAS stays off, and the driver binds. To be run with
# "vmtest.sh -a elfcorehdr=0x10000": by that parameter a kernel knows that it is one.

here=$(dirname "$0")
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

layout=/sys/class/mxcd/mxcd/layout

states()
{
	sort -u $layout/nodes/*/mas_state
}

cannot_be_opened()
{
	! { : <>/dev/mxcd_mas; } 2>/dev/null
}

if ! grep -q elfcorehdr= /proc/cmdline; then
	echo "1..0 # SKIP this is no crash kernel"
	exit 4
fi
check "GPUs are bound" is "GPUs" "num_gpu_nodes 2" "$(grep num_gpu $layout/properties)"
check "MAS is off for all of them" is "mas_state" "off: this is a crash kernel" "$(states)"
check "the tree says so" is "properties" "mas 0" "$(grep mas $layout/properties)"
check "the device cannot be opened" cannot_be_opened
check "the driver unloads" rmmod mxcd
tap_end
