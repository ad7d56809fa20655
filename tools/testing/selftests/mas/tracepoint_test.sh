#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The tracepoints: one request can be followed from its submission to where its
# result is handed out. "tracepoint_test.sh tools" runs the commands of the
# documentation, which take minutes on an emulated CPU.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=req-lib.sh
. "$here/req-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

docs=$here/../../../../Documentation/gpu/mxcd
stages=$docs/examples/mas_stages.sh
[ -e "$stages" ] || stages=$here/mas_stages.sh
tracing=/sys/kernel/tracing
log=$(mktemp)
trap 'rm -f "$log" "$log.dat"' EXIT
READ=1 QUERY=3 ALLOC=4 FREE=5 REGISTER=6 UNREGISTER=7 KEY_HANDLE_MMAP=10

on()
{
	echo >$tracing/trace
	echo 1 >$tracing/events/mxcd_mas/enable
}

off()
{
	echo 0 >$tracing/events/mxcd_mas/enable
	grep -v '^#' $tracing/trace >"$log"
}

# Lines of the trace of an event, from its name on.
events() # NAME
{
	sed -n "s/^.* \(mas_$1: .*\)$/\1/p" "$log"
}

all_events_are_there()
{
	local all="alloc bounce collect complete free gate issue map register route submit"

	is events "$all unregister" \
		"$(cd $tracing/events/mxcd_mas && printf '%s\n' mas_* | cut -c 5- | paste -sd ' ')"
}

nothing_is_recorded_while_they_are_off()
{
	echo >$tracing/trace
	request op=$QUERY key=1 >/dev/null || return
	is lines "" "$(grep -v '^#' $tracing/trace)"
}

map_it() # OFFSET
{
	python3 -c 'import mmap, sys
mmap.mmap(3, 8192, offset=int(sys.argv[1]))' "$1"
}

# Leaves the trace in $log, and what was made in ctx, file and handle.
a_run()
{
	ctx=$(awk '$1 == "mas-context:" { print $2 }' "/proc/$$/fdinfo/3")
	on
	file=$(request op=$REGISTER arg=4)
	handle=$(request op=$ALLOC length=65536 arg=1)
	p2p=$(request op=$READ file="$file" handle="$handle" length=4096)
	bounced=$(request op=$READ file="$file" handle="$handle" file_offset=1 length=100)
	offset=$(request op=$QUERY key=$KEY_HANDLE_MMAP handle="$handle")
	map_it "$offset"
	request op=$FREE handle="$handle" >/dev/null
	request op=$UNREGISTER file="$file" >/dev/null
	off
	is "bytes moved" "4096 100" "$p2p $bounced"
}

# The number of the request in its context: of the operations of a_run, in order.
req_of() # N-TH-REQUEST
{
	events submit | sed -n "$1s/.* req=\([0-9]*\) .*/\1/p"
}

files_and_handles_are_traced()
{
	local bytes="gpu=1 bytes=65536"

	events register | grep -qE "ctx=$ctx file=$file dev=.* reason=0$" &&
		events unregister | grep -q "ctx=$ctx file=$file$" &&
		events alloc | grep -q "ctx=$ctx handle=$handle $bytes extents=" &&
		events free | grep -q "ctx=$ctx handle=$handle $bytes extents=" &&
		events map | grep -q "ctx=$ctx gpu=1 mmap_offset=$offset offset=0 bytes=8192$"
}

# Its lines, without what only the kernel knows.
path_of() # REQUEST
{
	grep -oE "mas_[a-z]+: ctx=$ctx req=$1( .*)?$" "$log" |
		sed -E "s/ctx=$ctx req=$1 ?//; s/ dev=[0-9:]+ ino=[0-9]+//; s/ *$//"
}

a_p2p_read_can_be_followed()
{
	local rest="handle=$handle mem_offset=0 user_data=0x0"

	is path "mas_submit: op=read flags=0x0 file=$file pos=0 len=4096 $rest
mas_route: gpu=1 route=p2p reason=0
mas_issue: op=read piece=direct pos=0 len=4096 gpu=1
mas_complete: op=read result=4096 p2p_bytes=4096 route=p2p reason=0 user_data=0x0
mas_collect:" "$(path_of "$(req_of 3)")"
}

a_bounce_tells_why()
{
	local rest="handle=$handle mem_offset=0 user_data=0x0"

	is path "mas_submit: op=read flags=0x0 file=$file pos=1 len=100 $rest
mas_route: gpu=1 route=p2p reason=0
mas_issue: op=read piece=edge pos=1 len=100 gpu=1
mas_bounce: piece=edge bytes=100 reason=1
mas_complete: op=read result=100 p2p_bytes=0 route=bounce reason=1 user_data=0x0
mas_collect:" "$(path_of "$(req_of 4)")"
}

stages_of_a_request_are_listed()
{
	local stage

	"$stages" "$log" >"$log.dat"
	sed 's/^/# /' "$log.dat"
	stage=" \+[0-9]+ "
	grep -qE "^ctx $ctx req $(req_of 3): submit route${stage}issue${stage}complete$stage" \
		"$log.dat"
}

the_gate_is_traced()
{
	local gpu=${MAS_GPUS%% *} index location

	location=0x$(printf %x $((0x${gpu:5:2} << 8 | 0x${gpu:8:2} << 3 | ${gpu:11:1})))
	on
	mas_unbind "$gpu" && mas_bind "$gpu" || return
	off
	index=$(events gate | sed -n '1s/.*gpu=\([0-9]*\) .*/\1/p')
	is gate "mas_gate: gpu=$index location=$location closed
mas_gate: gpu=$index location=$location drained
mas_gate: gpu=$index location=$location open" "$(events gate)"
}

ask_without_end()
{
	exec 3<>/dev/mxcd_mas
	while is "bytes that were freed" -2 "$(request op=$FREE handle=1)"; do
		:
	done
}

# Switching changes the code of the kernel under those who run it. The scheduler's is
# run all the time.
they_can_be_switched_while_requests_run()
{
	local callers=() caller group state end=$((SECONDS + 5)) ret=0

	for _ in 1 2 3; do
		ask_without_end &
		callers+=($!)
	done
	while ((SECONDS < end)); do
		for group in mxcd_mas sched timer; do
			for state in 1 0; do
				echo $state >"$tracing/events/$group/enable" || ret=1
			done
		done
	done
	for caller in "${callers[@]}"; do
		# Who has had another answer has ended.
		kill "$caller" || ret=1
		wait "$caller" 2>/dev/null
	done
	return $ret
}

# Something to record: a read that goes p2p, and one that bounces.
if [ "${1-}" = read_once ]; then
	exec 4<"$MAS_NVME512" 3<>/dev/mxcd_mas
	file=$(request op=$REGISTER arg=4)
	handle=$(request op=$ALLOC length=65536 arg=1)
	request op=$READ file="$file" handle="$handle" length=4096 >/dev/null
	request op=$READ file="$file" handle="$handle" file_offset=1 length=100 >/dev/null
	exit
fi

# The command of tracing.rst that begins so.
documented() # BEGIN
{
	grep -F -m 1 "	$1" "$docs/tracing.rst" | sed 's/^\t//'
}

trace_cmd_records_and_reports()
{
	local command

	command=$(documented "trace-cmd record -e mxcd_mas -e block")
	note "$command"
	(cd /tmp && eval "${command/COMMAND/$here/tracepoint_test.sh read_once}") >"$log" 2>&1 || {
		sed 's/^/# /' "$log"
		return 1
	}
	(cd /tmp && trace-cmd report 2>/dev/null) >"$log"
	rm -f /tmp/trace.dat
	grep -q 'mas_complete: .*result=4096 p2p_bytes=4096 route=p2p' "$log" &&
		grep -q 'block_rq_issue: ' "$log" &&
		"$stages" "$log" | grep -E 'submit route .* issue .* complete .* collect ' |
			sed 's/^/# /'
}

# The path and the command to trace are filled in.
bpftrace_runs() # BEGIN PATTERN
{
	local command program="/bin/bash $here/tracepoint_test.sh read_once"

	command=$(documented "$1")
	note "$command"
	command=${command/Documentation\/gpu\/mxcd/$docs}
	command=${command% -c COMMAND}
	eval "$command -c \"$program\"" >"$log" 2>&1
	sed 's/^/# /' "$log"
	grep -qE "$2" "$log"
}

with() # COMMAND NAME CHECK...
{
	local command=$1

	shift
	if command -v "$command" >/dev/null; then
		check "$@"
	else
		tap_number=$((tap_number + 1))
		echo "ok $tap_number $1 # SKIP there is no $command"
	fi
}

if [ "${1-}" = tools ]; then
	with trace-cmd "trace-cmd records and reports as documented" \
		trace_cmd_records_and_reports
	with bpftrace "bpftrace sums up what bounced, as documented" \
		bpftrace_runs "bpftrace -e 'tracepoint:mxcd_mas:mas_bounce" '^@bytes\[1\]: 100$'
	with bpftrace "bpftrace shows where the time goes, as documented" \
		bpftrace_runs "bpftrace Documentation" '^@until_collected:'
	tap_end
	exit
fi
exec 3<>/dev/mxcd_mas 4<"$MAS_NVME512"
check "all tracepoints are there" all_events_are_there
check "nothing is recorded while they are off" nothing_is_recorded_while_they_are_off
check "files, handles and requests are used" a_run
check "files and handles are traced" files_and_handles_are_traced
check "a p2p read can be followed" a_p2p_read_can_be_followed
check "a bounce tells why" a_bounce_tells_why
check "the stages of a request are listed" stages_of_a_request_are_listed
check "they can be switched while requests run" they_can_be_switched_while_requests_run
exec 3>&-
check "the gate is traced" the_gate_is_traced
tap_end
