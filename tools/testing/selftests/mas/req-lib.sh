# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Requests for shell programs, by write(2) and read(2) on a descriptor.

# A number as so many bytes, the least significant first, escaped for printf.
le() # NUMBER BYTES
{
	local i

	for ((i = 0; i < $2; i++)); do
		printf '\\%03o' $(($1 >> 8 * i & 255))
	done
}

# Submit a request on descriptor 3 and print its result. Fields that are not given
# are zero.
request() # [FIELD=VALUE]...
{
	local op=0 key=0 flags=0 file=0 handle=0 file_offset=0 length=0 mem_offset=0 arg=0
	local text

	[ $# -eq 0 ] || local "$@"
	text=$(le $op 2; le $key 2; le $flags 4; le $file 4; le $handle 4
	       le $file_offset 8; le $length 8; le $mem_offset 8; le 0 8; le 0 8; le 0 4
	       le $arg 4)
	# printf of the shell cuts its output at newlines; dd makes one write of it.
	# shellcheck disable=SC2059 # made for it
	env printf "$text" | dd bs=64 count=1 iflag=fullblock status=none >&3 &&
		dd bs=32 count=1 status=none <&3 | od -An -v -t d8 | awk '{ print $2; exit }'
}
