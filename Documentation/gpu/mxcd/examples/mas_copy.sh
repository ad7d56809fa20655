#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Copy a file through VRAM with nothing but a shell: requests are made by
# printf and written by dd, completions are read by dd and printed by od.
#
#	mas_copy.sh SOURCE DESTINATION [GPU]
#
# Three things to know:
#  - A request is 64 bytes and has to arrive in one write(2): hence dd bs=64.
#    The printf that is built into some shells cuts its output at newlines.
#  - REGISTER names the file by its descriptor in the process that writes the
#    request. dd inherits descriptors 4 and 5 from this shell.
#  - write(2) and read(2) refuse a process with more privilege than the one that
#    opened the device; dd has the same as this shell.
set -eu

OP_READ=1 OP_WRITE=2 OP_ALLOC=4 OP_FREE=5 OP_REGISTER=6 OP_UNREGISTER=7
CHUNK=16777216

die() # TEXT...
{
	echo "mas_copy.sh: $*" >&2
	exit 1
}

# A number as so many bytes, the least significant first, escaped for printf.
le() # NUMBER BYTES
{
	number=$1
	bytes=$2
	while [ "$bytes" -gt 0 ]; do
		printf '\\%03o' $((number & 255))
		number=$((number >> 8))
		bytes=$((bytes - 1))
	done
}

# Submit a request and wait for its completion: sets result, p2p, route and
# reason.
request() # OP FILE HANDLE FILE_OFFSET LENGTH MEM_OFFSET ARG
{
	# op, key; flags; file; handle; file_offset; length; mem_offset;
	# user_data; segs; nr_segs; arg
	text=$(le "$1" 2; le 0 2; le 0 4; le "$2" 4; le "$3" 4; le "$4" 8
	       le "$5" 8; le "$6" 8; le 0 8; le 0 8; le 0 4; le "$7" 4)
	env printf "$text" | dd bs=64 count=1 iflag=fullblock status=none >&3
	# user_data, result, p2p_bytes, route + reason << 16
	# shellcheck disable=SC2046 # four words
	set -- $(dd bs=32 count=1 status=none <&3 | od -An -v -t d8)
	result=$2
	p2p=$3
	route=$(($4 & 0xffff))
	reason=$(($4 >> 16 & 0xffff))
	[ "$result" -ge 0 ] || die "request failed, errno $((-result))"
}

route_name()
{
	case $route in
	0) echo none ;;
	1) echo p2p ;;
	2) echo bounce ;;
	3) echo both ;;
	esac
}

[ $# -eq 2 ] || [ $# -eq 3 ] || die "usage: mas_copy.sh SOURCE DESTINATION [GPU]"
# With a GPU named, its own node will do: a container may have no other.
node=/dev/mxcd_mas${3-}
[ -c "$node" ] || die "there is no $node"
exec 3<>"$node" 4<"$1" 5>"$2"

request $OP_REGISTER 0 0 0 0 0 4
source=$result
request $OP_REGISTER 0 0 0 0 0 5
destination=$result
request $OP_ALLOC 0 0 0 $CHUNK 0 "${3:-0}"
handle=$result

offset=0
while :; do
	request $OP_READ "$source" "$handle" $offset $CHUNK 0 0
	length=$result
	[ "$length" -gt 0 ] || break
	echo "read $length bytes at $offset: $(route_name), $p2p p2p, reason $reason"
	moved=0
	while [ $moved -lt "$length" ]; do
		request $OP_WRITE "$destination" "$handle" $((offset + moved)) \
			$((length - moved)) $moved 0
		[ "$result" -gt 0 ] || die "nothing more can be written"
		echo "wrote $result bytes at $((offset + moved)):" \
			"$(route_name), $p2p p2p, reason $reason"
		moved=$((moved + result))
	done
	offset=$((offset + length))
done

request $OP_FREE 0 "$handle" 0 0 0 0
request $OP_UNREGISTER "$source" 0 0 0 0 0
request $OP_UNREGISTER "$destination" 0 0 0 0 0
