#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# GPU and disk are unplugged, reset and hit by PCI errors while processes read and
# write, 20 times each, on the debug kernel 5 times. ROUNDS may be given in the
# environment. Needs "vmtest.sh --ports".

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"
# shellcheck source=req-lib.sh
. "$here/req-lib.sh"

ALLOC=4 PEEK=12

# A round takes half a minute on the debug kernel.
case $(uname -r) in
*-mxcd-*) ROUNDS=${ROUNDS:-5} ;;
*) ROUNDS=${ROUNDS:-20} ;;
esac
vrams=0

if [ -z "${MAS_HOT-}" ]; then
	echo "1..0 # SKIP needs vmtest.sh --ports"
	exit 4
fi

# The first stand-in; its VRAM is BAR 2.
gpu=${MAS_GPUS%% *}
log=$(mktemp -d)
trap 'rm -rf "$log"' EXIT

wait_for() # SECONDS COMMAND...
{
	local i

	for ((i = 0; i < $1 * 10; i++)); do
		"${@:2}" && return
		sleep 0.1
	done
	note "in vain: ${*:2}"
	return 1
}

there()
{
	[ -e "/sys/bus/pci/devices/$gpu" ]
}

not_there()
{
	! there
}

# Processes that are content when the GPU goes and comes back.
start_load()
{
	"$here/soak" -l -w 4 -t 86400 -p "$log/progress" >"$log/load" 2>&1 &
	load=$!
	wait_for 20 [ -s "$log/progress" ]
}

stop_load()
{
	local alive

	alive=$(ps --ppid $load -o stat= | awk '!/Z/ { n++ } END { print n + 0 }')
	pkill -P $load
	kill $load
	wait $load 2>/dev/null
	note "$(($(moved) >> 20)) MiB moved"
	grep worker "$log/load" && return 1
	is "processes" 4 "$alive"
}

moved()
{
	local bytes

	# At one go: it is written anew all the time.
	{ read -r bytes <"$log/progress"; } 2>/dev/null
	echo "${bytes:-0}"
}

more_than() # BYTES
{
	[ "$(moved)" -gt "$1" ]
}

load_goes_on()
{
	wait_for 30 more_than "$(moved)"
}

unplug_gpu()
{
	mas_ask "device_del gpu0" && wait_for 20 not_there
}

# QEMU cannot use a memory backend twice.
plug_gpu() # [PROPERTIES]
{
	vrams=$((vrams + 1))
	mas_ask "object_add memory-backend-ram,id=vram$vrams,size=64M,share=on" || return
	wait_for 20 mas_ask \
		"device_add ivshmem-plain,id=gpu0,memdev=vram$vrams,bus=port-gpu0$1" || return
	wait_for 20 there && mas_bind "$gpu"
}

gpu_comes_and_goes()
{
	local i

	for ((i = 0; i < ROUNDS; i++)); do
		if ! { unplug_gpu && load_goes_on && plug_gpu && load_goes_on; }; then
			note "round $i"
			return 1
		fi
	done
}

gpu_is_reset()
{
	local i

	for ((i = 0; i < ROUNDS; i++)); do
		echo 1 >"/sys/bus/pci/devices/$gpu/reset" && load_goes_on || return
	done
}

recovered() # BEFORE
{
	[ "$(dmesg | grep -c 'AER: device recovery successful')" -gt "$1" ]
}

recovers() # PORT ERROR
{
	local before

	before=$(dmesg | grep -c 'AER: device recovery successful')
	mas_ask "pcie_aer_inject_error $1 $2" && wait_for 20 recovered "$before" &&
		load_goes_on
}

nic_is_bound()
{
	[ -e "/sys/bus/pci/drivers/e1000/${gpu%.0}.1" ]
}

# A network card in the same slot. Its driver has all that is below the port reset after
# an error that is not fatal, and nobody is told before.
plug_gpu_with_nic()
{
	modprobe e1000 && unplug_gpu &&
		wait_for 20 mas_ask "device_add e1000,id=nic0,bus=port-gpu0,addr=0.1" &&
		plug_gpu ,addr=0.0,multifunction=on && wait_for 20 nic_is_bound
}

vram_is_there() # HANDLE WANTED
{
	is "result of PEEK" "$2" "$(request op=$PEEK handle="$1" length=4)"
}

# Before 7, nothing is reset after such an error, whatever drivers ask for.
kernel_resets_for_another()
{
	[ "$(uname -r | cut -d. -f1)" -ge 7 ]
}

handles_go_by_a_reset_alone()
{
	local before after kept=0

	! kernel_resets_for_another || kept=-19
	before=$(request op=$ALLOC length=65536 arg=0)
	vram_is_there "$before" 0 && recovers port-gpu0 COMP_TIME || return
	after=$(request op=$ALLOC length=65536 arg=0)
	vram_is_there "$before" $kept && vram_is_there "$after" 0
}

handles_beside_who_asks_for_a_reset()
{
	local rc

	plug_gpu_with_nic && exec 3<>/dev/mxcd_mas || return
	handles_go_by_a_reset_alone
	rc=$?
	exec 3>&-
	return $rc
}

state_is() # VALUE
{
	local node

	node=$(dirname "$(grep -l '^mgpu_id 0$' /sys/class/mxcd/mxcd/layout/nodes/*/properties)")
	is mas_state "$1" "$(cat "$node/mas_state")"
}

# Stands for a reset from which the GPU does not come back, of which the kernel says the
# same as of any other.
gpu_that_is_mute_is_not_used()
{
	local before

	before=$(dmesg | grep -c 'AER: device recovery successful')
	setpci -s "$gpu" COMMAND=0000:0002 &&
		mas_ask "pcie_aer_inject_error port-gpu0 COMP_TIME" &&
		wait_for 20 recovered "$before" || return
	state_is "off: PCI error, the GPU does not answer" || return
	# A reset restores what it finds.
	setpci -s "$gpu" COMMAND=0002:0002 && echo 1 >"/sys/bus/pci/devices/$gpu/reset" &&
		state_is enabled
}

mas_is_enabled()
{
	[ "$(cat /sys/class/mxcd/mxcd/layout/nodes/*/mas_state | sort | uniq -c |
	     sed 's/^ *//')" = "2 enabled" ]
}

hot_disk()
{
	MAS_HOT=$(mas_nvme_disk hot 1)
	[ -n "$MAS_HOT" ]
}

no_hot_disk()
{
	! grep -q '^hot' /sys/class/nvme/*/serial 2>/dev/null
}

# The load ends by itself, and only when its disk is gone.
start_disk_load() # ARGUMENT...
{
	echo 0 >"$log/progress"
	"$here/soak" -w 4 -t 86400 -d "$MAS_HOT" -p "$log/progress" "$@" >"$log/disk" 2>&1 &
	load=$!
	wait_for 60 more_than 0
}

disk_load_has_ended()
{
	wait $load && return
	sed 's/^/# /' "$log/disk"
	return 1
}

unplug_disk()
{
	mas_ask "device_del hot" && disk_load_has_ended && wait_for 20 no_hot_disk
}

plug_disk()
{
	wait_for 20 mas_ask \
		"device_add nvme,id=hot,serial=hot,drive=hot-1,bus=port-hot" &&
		wait_for 20 hot_disk
}

disk_comes_and_goes()
{
	local i

	for ((i = 0; i < ROUNDS; i++)); do
		if ! { hot_disk && start_disk_load && unplug_disk && plug_disk; }; then
			note "round $i"
			return 1
		fi
	done
	note "the last load: $(grep moved "$log/disk")"
}

error_was_handled() # BEFORE
{
	[ "$(dmesg | grep -c 'AER: device recovery')" -gt "$1" ]
}

# QEMU does not bring the link to a disk up again after a fatal error: what had been
# asked of it waits until somebody takes it away. Nothing goes through the page cache
# here: the kernel, taking the disk away, would wait for ever until dirty pages are
# written to queues that its NVMe driver has frozen, whoever made them dirty.
disk_is_lost_to_a_fatal_error()
{
	local before

	before=$(dmesg | grep -c 'AER: device recovery')
	hot_disk && start_disk_load -a || return
	mas_ask "pcie_aer_inject_error port-hot MALF_TLP" &&
		wait_for 20 error_was_handled "$before" || return
	echo 1 >"$(readlink -f "/sys/block/${MAS_HOT##*/}/device/device")/remove"
	disk_load_has_ended && wait_for 20 no_hot_disk
}

check "GPU that does not answer after an error is not used" gpu_that_is_mute_is_not_used
start_load
check "GPU is unplugged and plugged $ROUNDS times under load" gpu_comes_and_goes
check "GPU is reset $ROUNDS times under load" gpu_is_reset
check "PCI error above the GPU, not fatal" recovers port-gpu0 COMP_TIME
check "PCI error above the GPU, fatal" recovers port-gpu0 MALF_TLP
check "PCI error above the disk, not fatal" recovers port-mas512 COMP_TIME
if modprobe -n e1000 2>/dev/null; then
	check "another driver asks for a reset: handles go if there is one" \
		handles_beside_who_asks_for_a_reset
else
	check "another driver asks for a reset # SKIP no driver e1000" true
fi
check "MAS is enabled again" mas_is_enabled
check "all that was moved was right" stop_load
check "disk is unplugged and plugged $ROUNDS times under load" disk_comes_and_goes
check "disk is lost to a fatal PCI error under load" disk_is_lost_to_a_fatal_error
check "the driver unloads" rmmod mxcd
check "it loads and binds again" mas_ready
tap_end
