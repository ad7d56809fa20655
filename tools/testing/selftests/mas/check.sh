#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# All checks, then the selftests in a virtual machine. Closes with the line
# "N passed, N failed" for all of it.

. "$(dirname "$0")/vm-lib.sh"

passed=0
failed=0
skipped=0

while (($#)); do
	case $1 in
	-k) KERNEL=$2; shift 2 ;;
	*) echo "usage: check.sh [-k VERSION]" >&2; exit 2 ;;
	esac
done
become_root "$0" -k "$KERNEL"
need_run_dir
part check-static.sh -k "$KERNEL"
part vmtest.sh -k "$KERNEL"
text="$passed passed, $failed failed"
((skipped == 0)) || text+=", $skipped skipped"
echo "$text"
((failed == 0))
