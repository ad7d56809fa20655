#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Make the table of one kernel in Documentation/gpu/mxcd/file-systems.rst anew, from what
# fs_test.sh finds there.

set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
file=$here/../../../../Documentation/gpu/mxcd/file-systems.rst

if (($# != 1)) || ! grep -q "^\.\. begin $1$" "$file"; then
	echo "usage: fs_table.sh KERNEL (one that is in the file already)" >&2
	exit 2
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$here/vmtest.sh" -k "$1" -t 1500 -a MAS_TIMEOUT=1500 -a MAS_TABLE=/run/mas/table \
	-- fs_test.sh | tee "$out"
run=$(sed -n 's/.*, log in //p' "$out" | tail -n 1)
awk -v "kernel=$1" -v "rows=$run/share/table" '
	$0 == ".. end " kernel {
		line = "==============================  =====  ========================  "
		line = line "========================"
		print ""
		print line
		printf "%-30s  %-5s  %-24s  %s\n", "File", "Block", "Read", "Write"
		print line
		while ((getline row <rows) > 0)
			print row
		print line
		print ""
		skip = 0
	}
	!skip { print }
	$0 == ".. begin " kernel { skip = 1 }' "$file" >"$out"
cat "$out" >"$file"
