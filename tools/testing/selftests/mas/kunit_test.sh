#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# What the KUnit tests of the driver said when it was loaded. Wants a kernel with
# KUnit and a driver with CONFIG_MXCD_KUNIT_TEST.

# shellcheck source=tap-lib.sh
. "$(dirname "$0")/tap-lib.sh"

results=/sys/kernel/debug/kunit
shopt -s nullglob

passed()
{
	[ "$1" = ok ] || grep -a '^ *#' "$2"
	[ "$1" = ok ]
}

for suite in "$results"/mas_*/results; do
	name=$(basename "$(dirname "$suite")")
	# A case is indented by one step, its suite is not.
	cases=$(sed -nE 's/^ {4}(not )?ok [0-9]+ ([a-z0-9_]+).*/\1ok \2/p' "$suite" |
		sed 's/^not ok/not_ok/')
	while read -r result case; do
		check "$name: $case" passed "$result" "$suite"
	done <<<"$cases"
done
check "suites were run" [ $tap_number -ge 4 ]
tap_end
