#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Another driver's VRAM: modules/mas_vendor.c binds the second stand-in and lets MAS serve
# it. All that other tests know of VRAM holds for it, and it can be taken back.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

module=$here/modules/mas_vendor.ko
gpu=${MAS_GPUS##* }
nodes=/sys/class/mxcd/mxcd/layout/nodes
driver=/sys/bus/pci/drivers/mas_vendor

takes_the_gpu()
{
	mas_unbind "$gpu" && insmod "$module" &&
		echo mas_vendor >"/sys/bus/pci/devices/$gpu/driver_override" &&
		echo "$gpu" >$driver/bind
}

# The same that the stand-in has with mxcd, but from another hand.
is_served()
{
	cat $nodes/*/mas_provider | grep -qx mas_vendor &&
		is states 2 "$(cat $nodes/*/mas_state | grep -cx enabled)"
}

passes() # TEST [ARGUMENT]...
{
	"$here/$1" "${@:2}" >/tmp/seam.tap 2>&1 && return
	grep -B 8 '^not ok' /tmp/seam.tap | sed 's/^/# /'
	return 1
}

is_held()
{
	! rmmod mxcd 2>/dev/null
}

gives_it_back()
{
	echo "$gpu" >$driver/unbind && rmmod mas_vendor && mas_ready &&
		! cat $nodes/*/mas_provider | grep -qx mas_vendor
}

if [ ! -e "$module" ]; then
	echo "1..0 # SKIP built without CONFIG_MXCD_DEBUG"
	exit 4
fi
check "another driver takes the GPU" takes_the_gpu
check "MAS serves its VRAM" is_served
check "VRAM is write-combining" mas_vram_is_write_combining
check "mxcd is not unloaded under it" is_held
check "handles and mappings are as with mxcd" passes mem_test
check "data is exact in pieces that do not meet" passes transfer_test
check "segment lists too" passes segs_test
check "a dma-buf of it can be attached to" passes dmabuf_test \
	-t other_driver_is_given_addresses_within_each_gpu
check "the driver takes its GPU back, and mxcd gets it" gives_it_back
tap_end
