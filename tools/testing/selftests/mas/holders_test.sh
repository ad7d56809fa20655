#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Exchanging the driver under load: who holds the GPUs, the switch that lets no more
# contexts in, and the version that all places agree on.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=req-lib.sh
. "$here/req-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

class=/sys/class/mxcd/mxcd
first_gpu=$(awk '$1 == "num_cpu_nodes" { print $2 }' $class/layout/properties)
ALLOC=4 QUERY=3 KEY_DRIVER_VERSION=17

holders() # GPU
{
	cat $class/layout/nodes/$((first_gpu + $1))/mas_holders
}

nobody_holds_anything()
{
	is "holders of GPU 0" "" "$(holders 0)" && is "holders of GPU 1" "" "$(holders 1)"
}

a_context_is_listed_with_what_it_holds()
{
	local pid ctx handles bytes inflight comm lines

	exec 3<>/dev/mxcd_mas
	[ "$(request op=$ALLOC length=$((3 << 20)) arg=0)" -gt 0 ] || return
	[ "$(request op=$ALLOC length=65536 arg=0)" -gt 0 ] || return
	[ "$(request op=$ALLOC length=65536 arg=1)" -gt 0 ] || return
	lines=$(holders 0)
	read -r pid ctx handles bytes inflight comm <<<"$lines"
	is "GPU 0" "$$ 2 $(((3 << 20) + 65536)) 0 holders_test.sh" \
		"$pid $handles $bytes $inflight $comm" || return
	is "context in fdinfo" "mas-context:	$ctx" \
		"$(grep mas-context "/proc/$$/fdinfo/3")" || return
	read -r pid ctx handles bytes inflight comm <<<"$(holders 1)"
	is "GPU 1" "$$ 1 65536" "$pid $handles $bytes"
}

who_may_use_another_gpu_alone_is_not_listed()
{
	exec 4<>/dev/mxcd_mas1
	is "lines for GPU 0" 1 "$(holders 0 | wc -l)" || return
	is "lines for GPU 1" 2 "$(holders 1 | wc -l)" || return
	exec 4>&-
	is "lines for GPU 1" 1 "$(holders 1 | wc -l)"
}

a_name_cannot_forge_a_line()
{
	local name=$'x\n1 2 3'

	# A program's name is that of its file, here a script with an odd one.
	printf '#!/bin/sh\nexec 4<>/dev/mxcd_mas1\ncat %s\n' \
		"$class/layout/nodes/$((first_gpu + 1))/mas_holders" >"/tmp/$name"
	chmod 755 "/tmp/$name"
	is lines 2 "$("/tmp/$name" | wc -l)" || return
	rm "/tmp/$name"
}

# More lines than a page has room for.
many_holders_end_in_dots()
{
	python3 - $class/layout/nodes/$((first_gpu + 1))/mas_holders <<-'END'
		import os, sys
		fds = [os.open("/dev/mxcd_mas1", os.O_RDWR) for i in range(300)]
		text = open(sys.argv[1]).read()
		lines = text.splitlines()
		print("#", len(text), "bytes,", len(lines), "lines, last:", lines[-1])
		sys.exit(not (lines[-1] == "..." and 3900 < len(text) <= 4096))
	END
}

only_root_may_look_and_drain()
{
	is mas_holders 400 "$(stat -c %a $class/layout/nodes/"$first_gpu"/mas_holders)" &&
		is drain "644 0" "$(stat -c '%a %u' $class/drain)"
}

opens() # NODE
{
	(: <>"$1") 2>/dev/null
}

draining_refuses_new_contexts()
{
	local node text

	is drain 0 "$(cat $class/drain)" || return
	echo 1 >$class/drain
	is drain 1 "$(cat $class/drain)" || return
	for node in /dev/mxcd_mas /dev/mxcd_mas0 /dev/mxcd_mas1; do
		text=$( (: <>$node) 2>&1) && return 1
		[[ $text == *"Device or resource busy"* ]] || { note "$text"; return 1; }
	done
}

draining_lets_old_contexts_go_on()
{
	[ "$(request op=$ALLOC length=65536 arg=0)" -gt 0 ]
}

the_module_stays_while_it_is_held()
{
	local text

	text=$(rmmod mxcd 2>&1) && return 1
	note "$text"
	[[ $text == *"is in use"* ]] && mas_loaded && [ -n "$(holders 0)" ]
}

it_goes_when_the_last_holder_has_gone()
{
	exec 3>&-
	nobody_holds_anything && rmmod mxcd
}

a_new_module_is_not_drained()
{
	mas_ready && is drain 0 "$(cat $class/drain)" && opens /dev/mxcd_mas
}

draining_can_be_called_off()
{
	echo 1 >$class/drain && ! opens /dev/mxcd_mas && echo 0 >$class/drain &&
		opens /dev/mxcd_mas
}

nonsense_is_refused()
{
	! echo maybe 2>/dev/null >$class/drain && is drain 0 "$(cat $class/drain)"
}

versions_agree()
{
	local version number

	version=$(modinfo -F version "$MAS_KO")
	[[ $version =~ ^([0-9]+)\.([0-9]+)\.([0-9]+)$ ]] || { note "$version"; return 1; }
	number=$((BASH_REMATCH[1] << 16 | BASH_REMATCH[2] << 8 | BASH_REMATCH[3]))
	is "version of the module" "$version" "$(cat /sys/module/mxcd/version)" || return
	is "version of the class device" "$version" "$(cat $class/version)" || return
	exec 3<>/dev/mxcd_mas
	is "version by a request" $number "$(request op=$QUERY key=$KEY_DRIVER_VERSION)" ||
		return
	exec 3>&-
}

reasons_are_numbered()
{
	is "the first" "0 none" "$(head -n 1 $class/reasons)" || return
	is "numbers in order" "$(awk '{ print NR - 1 }' $class/reasons)" \
		"$(cut -d ' ' -f 1 $class/reasons)" || return
	is "edge" "1 edge" "$(sed -n 2p $class/reasons)"
}

check "nobody holds anything" nobody_holds_anything
check "a context is listed with what it holds" a_context_is_listed_with_what_it_holds
check "a context of another GPU's node is not listed" \
	who_may_use_another_gpu_alone_is_not_listed
check "a program's name cannot forge a line" a_name_cannot_forge_a_line
check "too many holders end in dots" many_holders_end_in_dots
check "only root may look at holders and drain" only_root_may_look_and_drain
check "draining refuses new contexts with EBUSY" draining_refuses_new_contexts
check "draining lets old contexts go on" draining_lets_old_contexts_go_on
check "the module stays while it is held" the_module_stays_while_it_is_held
check "it goes when the last holder has gone" it_goes_when_the_last_holder_has_gone
check "a new module is not drained" a_new_module_is_not_drained
check "draining can be called off" draining_can_be_called_off
check "nonsense is refused" nonsense_is_refused
check "modinfo, sysfs and query agree on the version" versions_agree
check "reasons are numbered as in the interface" reasons_are_numbered
tap_end
