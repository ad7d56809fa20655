#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Where the time of each request went. Reads lines of the tracepoints mxcd_mas:* as
# trace_pipe and "trace-cmd report" print them, and prints for each stage of each
# request the microseconds since the stage before.
#
#	mas_stages.sh [FILE]...

exec awk '
function number(key,    at) {
	at = index($0, key)
	return at ? substr($0, at + length(key)) + 0 : -1
}

/ mas_(submit|route|issue|bounce|complete|collect): / {
	for (i = 1; i <= NF; i++) {
		if ($i ~ /^[0-9]+\.[0-9]+:$/)
			time = $i + 0
		if ($i ~ /^mas_[a-z]+:$/)
			stage = substr($i, 5, length($i) - 5)
	}
	id = number(" ctx=") " " number(" req=")
	if (stage == "submit") {
		order[++n] = id
		text[id] = ""
	} else if (id in last) {
		text[id] = text[id] sprintf(" %s +%.0f", stage, (time - last[id]) * 1000000)
	}
	last[id] = time
}

END {
	for (i = 1; i <= n; i++) {
		split(order[i], part)
		printf "ctx %d req %d: submit%s\n", part[1], part[2], text[order[i]]
	}
}' "$@"
