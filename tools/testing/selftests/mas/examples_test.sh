#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The examples of the documentation do what they say, by shell and by Python.

here=$(dirname "$0")
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

examples=$here/../../../../Documentation/gpu/mxcd/examples
[ -e "$examples/mas_copy.sh" ] || examples=$here
work=$(mktemp -d "$MAS_EXT4/examples.XXXXXX")
seed=$(mktemp)
head -c 1048573 /dev/urandom >"$seed"
trap 'rm -rf "$work" "$seed"' EXIT

# Copies a file of so many bytes; every way it went is in $work/out.
copies() # BYTES COMMAND...
{
	local bytes=$1 i

	shift
	rm -f "$work"/*
	for ((i = 0; i < bytes; i += 1048573)); do
		cat "$seed"
	done | head -c "$bytes" >"$work/source"
	# shellcheck disable=SC2086 # one word or none
	"$@" "$work/source" "$work/copy" $gpu >"$work/out" 2>&1 &&
		cmp "$work/source" "$work/copy" && return
	sed 's/^/# /' "$work/out"
	return 1
}

# Whole pages to and from a plain NVMe disk: nothing goes through host RAM.
goes_p2p() # COMMAND...
{
	copies $((3 << 20)) "$@" || return
	grep -q ': p2p, 3145728 p2p, reason 0$' "$work/out" &&
		! grep -q -e bounce -e both "$work/out" && return
	sed 's/^/# /' "$work/out"
	return 1
}

fails() # COMMAND...
{
	! "$@" >"$work/out" 2>&1
}

gpu=
check "mas_copy.sh without a GPU takes the node of all" copies 4096 dash "$examples/mas_copy.sh"
gpu=1
run=(dash "$examples/mas_copy.sh")
check "mas_copy.sh copies 3 MiB, p2p" goes_p2p "${run[@]}"
check "mas_copy.sh copies one byte" copies 1 "${run[@]}"
check "mas_copy.sh copies more than it allocates" copies $((17 << 20)) "${run[@]}"
check "mas_copy.sh fails for a directory" fails "${run[@]}" "$work" /dev/null
run=(bash "$examples/mas_copy.sh")
check "mas_copy.sh run by bash copies an odd number of bytes" copies 1000003 "${run[@]}"
run=(python3 "$examples/mas_copy.py")
check "mas_copy.py copies 3 MiB, p2p" goes_p2p "${run[@]}"
check "mas_copy.py copies an odd number of bytes" copies 1000003 "${run[@]}"
check "mas_copy.py copies one byte" copies 1 "${run[@]}"
check "mas_copy.py copies nothing" copies 0 "${run[@]}"
check "mas_copy.py copies more than it allocates" copies $((17 << 20)) "${run[@]}"
check "mas_copy.py fails for a directory" fails "${run[@]}" "$work" /dev/null
tap_end
