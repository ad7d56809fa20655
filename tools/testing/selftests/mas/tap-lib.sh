# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
#
# TAP for the shell programs here: check runs a command and reports, tap_end
# prints the plan and fails if a check did. What a command prints belongs to the report.

tap_number=0
tap_failed=0

echo "TAP version 13"

check() # NAME COMMAND...
{
	tap_name=$1
	shift
	tap_number=$((tap_number + 1))
	if "$@"; then
		echo "ok $tap_number $tap_name"
	else
		echo "not ok $tap_number $tap_name"
		tap_failed=$((tap_failed + 1))
	fi
}

note() # TEXT...
{
	echo "# $*"
}

# Says what was found where it is not what was wanted.
is() # WHAT WANTED FOUND
{
	[ "$2" = "$3" ] && return
	note "$1: wanted '$2', found '$3'"
	return 1
}

tap_end()
{
	echo "1..$tap_number"
	[ "$tap_failed" -eq 0 ]
}
