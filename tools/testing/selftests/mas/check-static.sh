#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The checks that need no virtual machine: compiler with W=1, sparse,
# checkpatch.pl --strict, kernel-doc and shellcheck, all of one known version.
# A finding of any of them is a failure. What says the same whatever the kernel is
# done for 6.12 alone.

. "$(dirname "$0")/vm-lib.sh"

usage()
{
	echo "usage: check-static.sh [-k VERSION]"
}

passed=0
failed=0

# Run one checker; whatever it prints is a finding.
check() # NAME FUNCTION
{
	local out=$RUN/$2.log

	if "$2" >"$out" 2>&1 && [ ! -s "$out" ]; then
		passed=$((passed + 1))
		say "$1: clean"
	else
		failed=$((failed + 1))
		say "$1: FAIL"
		[ -s "$out" ] || echo "failed without a word" >"$out"
		sed 's,/mnt/,,g; s/^/         /; 60q' "$out"
	fi
}

# Names of the sources, relative to the top, one a line.
sources() # FIND-EXPRESSION...
{
	(cd "$RUN/src" && find . -type f ! -name '*.mod.c' \( "$@" \) -printf '%P\n' | sort)
}

run() # COMMAND...
{
	in_tree "$RUN/src" "$@"
}

# Complaints come by stderr. That there is no vmlinux to make BTF from is none.
build() # ARGUMENT...
{
	local complaints rc=0

	complaints=$(run make -s -j "$(nproc)" "$@" 2>&1 >/dev/null) || rc=$?
	grep -v '^Skipping BTF generation' <<<"$complaints" | grep . || true
	return $rc
}

check_compiler()
{
	build KDIR="/lib/modules/$RELEASE/build" W=1 modules
}

# With W=1 again, so that the objects just built are not built again.
check_sparse()
{
	build KDIR="/lib/modules/$RELEASE/build" W=1 C=2 modules
}

# The build that the virtual machine will use.
check_programs()
{
	(need_build) >"$RUN/build.log" 2>&1 || {
		cat "$RUN/build.log"
		return 1
	}
	need_build
	grep -v '^  CC ' "$BUILD/programs.log" || true
}

# FILE_PATH_CHANGES asks for an update of the kernel's MAINTAINERS, which is not
# here. "./" keeps EMBEDDED_FILENAME from taking the top-level Kconfig's only
# line, the path of another Kconfig, for its own name.
check_checkpatch()
{
	sources -name '*.[ch]' -o -name 'Kbuild*' -o -name 'Kconfig*' -o \
		-name Makefile -o -name '*.sh' -o -path ./.ci/run |
		sed 's,^Kconfig$,./&,' |
		run xargs /srv/scripts/checkpatch.pl --root=/srv --strict --quiet \
			--terse --show-types --ignore FILE_PATH_CHANGES --file |
		grep -v '^total: 0 errors, 0 warnings, 0 checks'
	((PIPESTATUS[2] == 0))
}

check_kernel_doc()
{
	sources -path '*drivers/*.[ch]' -o -path '*include/*.h' |
		run xargs /srv/scripts/kernel-doc -none -Wall
}

# Each reason has its entry in limits.rst, with the text that sysfs shows.
check_reasons()
{
	local header=$RUN/src/include/uapi/linux/mxcd_mas.h
	local limits=$RUN/src/Documentation/gpu/mxcd/limits.rst
	local route=$RUN/src/drivers/gpu/mxcd/mas_route.c name text

	grep -q '^Reasons$' "$limits" || echo "limits.rst has no section Reasons"
	while read -r name; do
		text=$(sed -nE "s/.*\\[MXCD_MAS_REASON_$name\\][[:space:]]*= \"(.*)\",/\\1/p" \
			"$route")
		[ -n "$text" ] || echo "$name has no text in mas_route.c"
		awk -v name="\`\`$name\`\`" -v text="\"$text\"" '
			/^Reasons$/ { inside = 1 }
			/^``/ { found = inside && $0 == name }
			found { entry = entry " " $0 }
			END { gsub(/ +/, " ", entry); exit !index(entry, text) }' "$limits" ||
			echo "$name (\"$text\") has no entry in limits.rst"
	done < <(sed -nE 's/^\tMXCD_MAS_REASON_([A-Z0-9_]+)\t+= [0-9]+,/\1/p' "$header")
}

# The driver has it from one place, the package from its changelog.
check_version()
{
	local driver changelog

	driver=$(run make -s version)
	changelog=$(sed -n '1s/^mxcd (\(.*\)) .*/\1/p' "$RUN/src/debian/changelog")
	[ "$driver" = "$changelog" ] ||
		echo "debian/changelog begins with $changelog, and the driver is $driver"
}

check_shellcheck()
{
	# Everything that a shell is named in the first line of, or in a directive.
	sources -name '*' | (cd "$RUN/src" && xargs awk '
		FNR > 4 { nextfile }
		/^#!.*sh$/ || /^# shellcheck shell=/ { print FILENAME; nextfile }') |
		run xargs shellcheck --external-sources --source-path=SCRIPTDIR
}

while (($#)); do
	case $1 in
	-k) KERNEL=$2; shift 2 ;;
	-h | --help) usage; exit ;;
	*) usage >&2; exit 2 ;;
	esac
done
become_root "$0" -k "$KERNEL"
need_guest
need_run_dir
unpack_sources "$RUN/src" .
check "compiler for $RELEASE, W=1" check_compiler
if [ "$KERNEL" = 6.12 ]; then
	check "sparse" check_sparse
	check "checkpatch.pl --strict" check_checkpatch
	check "kernel-doc -Wall" check_kernel_doc
	check "shellcheck" check_shellcheck
	check "reasons are documented" check_reasons
	check "debian/changelog has the driver's version" check_version
fi
check "compiler, test programs" check_programs
rm -rf "$RUN/src"
echo "$passed passed, $failed failed"
((failed == 0))
