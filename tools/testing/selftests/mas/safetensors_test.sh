#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The loaders of the documentation, in C and in Python, and the writer of checkpoints: a
# safetensors file gets into VRAM tensor by tensor, and the host, which sees VRAM as a
# file, finds each of them there.
#
#	safetensors_test.sh [MIB TENSORS [count]]	(24 MiB, 60 tensors)
#
# count: what that costs, for a guest whose clock counts instructions.

here=$(dirname "$0")
# shellcheck source=guest-lib.sh
. "$here/guest-lib.sh"
# shellcheck source=tap-lib.sh
. "$here/tap-lib.sh"

mib=${1:-24} tensors=${2:-60}
examples=$here/../../../../Documentation/gpu/mxcd/examples
[ -e "$examples/safetensors_load.py" ] || examples=$here
model=$MAS_EXT4/model.safetensors
trap 'rm -f "$model" "$MAS_HOST/model" "$MAS_EXT4/checkpoint"' EXIT

make_model()
{
	python3 "$here/safetensors_make.py" "$MAS_HOST/model" "$mib" "$tensors" &&
		cp "$MAS_HOST/model" "$model" &&
		sync && echo 3 >/proc/sys/vm/drop_caches
}

# The loader holds the VRAM until its input ends.
loads() # COMMAND...
{
	local out=/tmp/loaded rc=0 i

	rm -f "$out" /tmp/hold
	mkfifo /tmp/hold
	"$@" "$model" 0 </tmp/hold >"$out" 2>/tmp/loader.err &
	exec 3>/tmp/hold
	for ((i = 0; i < 3000; i++)); do
		! grep -q '^# ' "$out" || break
		[ -d "/proc/$!" ] || break
		sleep 0.1
	done
	cp "$out" "$MAS_HOST/tensors"
	sed -n '/^# /p' "$out"
	sed 's/^/# /' /tmp/loader.err
	is tensors "$tensors" "$(grep -vc '^# ' "$out")" || rc=1
	mas_ask "check tensors" | sed 's/^/# /'
	[ "${PIPESTATUS[0]}" -eq 0 ] || rc=1
	exec 3>&-
	wait "$!" || rc=1
	return $rc
}

# All but the blocks that hold an end of a tensor.
most_is_p2p()
{
	awk -v tensors="$tensors" '/^# / {
		gsub(",", ""); bytes = $4; p2p = $6
	} END { exit !(bytes > 0 && p2p >= bytes - tensors * 2 * 4096) }' /tmp/loaded
}

# One bit of a tensor in the file that the host compares with.
host_would_notice()
{
	local last

	last=$(grep -v '^# ' /tmp/loaded | tail -n 1)
	# shellcheck disable=SC2086 # its fields
	set -- $last
	printf '\377\000\377\000' |
		dd of="$MAS_HOST/model" bs=1 seek=$(($2 + $3 / 2)) conv=notrunc status=none
	! loads "$here/safetensors_load" >/dev/null
}

refuses() # BYTES-OF-THE-FILE
{
	head -c "$1" "$model" >"$model.cut"
	! "$here/safetensors_load" "$model.cut" </dev/null >/dev/null 2>&1 &&
		! python3 "$examples/safetensors_load.py" "$model.cut" </dev/null >/dev/null 2>&1
	set -- $?
	rm -f "$model.cut"
	return "$1"
}

is_counted_from_0() # FILE BYTES
{
	python3 - "$1" "$2" <<-'END'
		import sys
		data = open(sys.argv[1], "rb").read()
		size = int(sys.argv[2])
		want = b"".join(i.to_bytes(8, "little") for i in range((size + 7) // 8))[:size]
		sys.exit(data != want)
	END
}

saves() # BYTES
{
	python3 "$examples/mas_checkpoint.py" "$MAS_EXT4/checkpoint" "$1" >/tmp/saved 2>&1 &&
		echo 3 >/proc/sys/vm/drop_caches &&
		is_counted_from_0 "$MAS_EXT4/checkpoint" "$1" &&
		[ ! -e "$MAS_EXT4/checkpoint.new" ] && return
	sed 's/^/# /' /tmp/saved
	return 1
}

check "a model of $mib MiB with $tensors tensors is made" make_model
if [ "${3-}" = count ]; then
	check "instructions are counted" \
		python3 "$here/safetensors_count.py" "$examples/safetensors_load.py" "$model"
	tap_end
	exit
fi
check "safetensors_load: the host finds each tensor" loads "$here/safetensors_load"
check "safetensors_load: most of it goes p2p" most_is_p2p
check "safetensors_load.py: the host finds each tensor" \
	loads python3 "$examples/safetensors_load.py"
check "safetensors_load.py: most of it goes p2p" most_is_p2p
check "a file that ends early is refused" refuses 1000000
check "a file without its header is refused" refuses 100
check "an empty file is refused" refuses 0
check "the host would notice a tensor that is wrong" host_would_notice
check "mas_checkpoint.py saves 3 MiB" saves $((3 << 20))
check "mas_checkpoint.py saves an odd number of bytes" saves 1000003
tap_end
