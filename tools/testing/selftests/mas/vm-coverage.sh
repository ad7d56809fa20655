# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Which lines of the driver the tests have run, from what gcov counted in the
# guests (the debug kernel alone). Sourced by vmtest.sh.

DRIVER=drivers/gpu/mxcd

# Counts of all guests, the notes of the compiler and the sources, where gcov finds
# them.
collect_coverage() # DIR
{
	local dir=$1/$DRIVER counts

	mkdir -p "$dir"
	for counts in "$RUN"/gcov.*; do
		if [ -e "$dir/mas_io.gcda" ]; then
			in_tree "$RUN" gcov-tool merge -o merged \
				"${dir#"$RUN/"}" "${counts##*/}" >/dev/null
			mv "$RUN"/merged/*.gcda "$dir"
			rm -r "$RUN/merged"
		else
			cp "$counts"/*.gcda "$dir"
		fi
	done
	cp "$BUILD/$DRIVER"/*.{gcno,c,h} "$dir"
}

# "FILE LINES RUN", one a line.
coverage_table() # DIR
{
	awk -F : 'FNR == 1 { file = FILENAME
			     sub(/.*\//, "", file)
			     sub(/\.gcov$/, "", file) }
		  { gsub(/ /, "", $1) }
		  $1 != "-" && $2 > 0 { lines[file]++ }
		  $1 ~ /^[0-9]/ && $2 > 0 { run[file]++ }
		  END { for (file in lines) print file, lines[file], run[file] + 0 }' \
		"$1"/m[ax][sc]*.[ch].gcov | grep -v '_test\.c ' | sort
}

print_coverage()
{
	local dir=$RUN/coverage

	compgen -G "$RUN/gcov.*" >/dev/null || return 0
	collect_coverage "$dir"
	in_tree "$dir" bash -c "gcov -o $DRIVER $DRIVER/*.gcda" >"$dir/gcov.log" 2>&1 || {
		tail "$dir/gcov.log"
		return 1
	}
	echo "coverage of the driver, lines:"
	coverage_table "$dir" | awk '
		{ printf "  %-16s %5d of %5d  %5.1f %%\n", $1, $3, $2, 100 * $3 / $2
		  lines += $2; run += $3 }
		END { printf "  %-16s %5d of %5d  %5.1f %%\n", "all", run, lines,
			     100 * run / lines }'
	if [ -n "$COVERAGE" ]; then
		echo "lines that no test ran:"
		grep -aE '^ *(#####|=====):' "$dir"/m[ax][sc]*.[ch].gcov |
			grep -v '_test\.c\.gcov' |
			sed -E 's,^.*/([^/]*)\.gcov: *[#=]+: *([0-9]+):,  \1:\2:,'
	fi
}
