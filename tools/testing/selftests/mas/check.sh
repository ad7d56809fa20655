#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# All checks, then the selftests in a virtual machine. Closes with the line
# "N passed, N failed" for all of it.

. "$(dirname "$0")/vm-lib.sh"

passed=0
failed=0
skipped=0

# Run a script that closes with a line of counts; add these up.
part() # SCRIPT ARG...
{
	local out=$RUN/${1%.sh}.out rc=0 line

	"$SELFTESTS/$1" "${@:2}" 2>&1 | tee "$out" || rc=$?
	line=$(tail -n 1 "$out")
	if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed(,\ ([0-9]+)\ skipped)?$ ]]; then
		passed=$((passed + BASH_REMATCH[1]))
		failed=$((failed + BASH_REMATCH[2]))
		skipped=$((skipped + ${BASH_REMATCH[4]:-0}))
		((rc == 0 || BASH_REMATCH[2] != 0)) || failed=$((failed + 1))
	else
		say "FAIL: $1 did not come to its end (exit code $rc)"
		failed=$((failed + 1))
	fi
}

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
