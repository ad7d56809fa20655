#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Make the Debian packages (source, mxcd-dkms, mxcd-dev) and the self-extracting
# installer in dist/, and let lintian judge them. The tools are those of Debian 12, so
# that what they make can be installed there and on what came later.

. "$(dirname "$0")/../testing/selftests/mas/vm-lib.sh"

DIST=${DIST:-$TOP/dist}

PACKAGES=(debhelper dh-dkms dpkg-dev kmod lintian linux-headers-amd64 makeself)

# The module as a user gets it. It tells its version, and what parameters it has.
make_module() # DIR
{
	local jobs

	jobs=-j$(nproc)
	unpack_sources "$1" "${DRIVER_SOURCES[@]}"
	quietly "$CACHE/log/packages-module.log" in_tree "$1" \
		sh -c "make $jobs KDIR=\$(echo /lib/modules/*/build) modules"
}

# Set VERSION and DATE from the newest entry of debian/changelog; the driver must be
# of the same version.
need_version() # MODULE
{
	local in_driver

	DATE=$(sed -n 's/^ -- .*>  //p' "$TOP/debian/changelog" | head -n 1)
	VERSION=$(sed -n '1s/^mxcd (\([^)]*\)).*/\1/p' "$TOP/debian/changelog")
	in_driver=$(in_tree "$1" modinfo -F version drivers/gpu/mxcd/mxcd.ko)
	[ "$VERSION" = "$in_driver" ] ||
		die "debian/changelog says \"$VERSION\" and the driver \"$in_driver\""
}

build_debs()
{
	say "building the packages"
	unpack_sources "$RUN/mxcd-$VERSION"
	find "$RUN/mxcd-$VERSION" -exec touch --no-dereference --date "$DATE" {} +
	quietly "$CACHE/log/packages.log" in_tree "$RUN" env -C "mxcd-$VERSION" \
		dpkg-buildpackage --no-sign --no-check-builddeps
}

judge_debs()
{
	say "lintian"
	in_tree "$RUN" lintian --allow-root --fail-on error,warning --info \
		"mxcd_${VERSION}_amd64.changes"
}

build_installer()
{
	local dir=$RUN/installer name=metax-driver-$VERSION-deb-x86_64.run

	say "building the installer"
	mkdir "$dir"
	cp "$TOP/tools/packaging/install.sh" "$RUN"/mxcd-dkms_*.deb "$dir/"
	echo "$VERSION" >"$dir/version"
	cp "$RUN/parameters" "$dir/"
	"$dir/install.sh" --help >"$dir/help"
	quietly "$CACHE/log/makeself.log" in_tree "$RUN" makeself --nox11 --sha256 \
		--help-header installer/help \
		--packaging-date "$DATE" \
		--tar-extra "--sort=name --owner=0 --group=0 --numeric-owner --mtime=@0" \
		installer "$name" "mxcd $VERSION" ./install.sh
}

become_root "$0" "$@"
# No need that what goes into a tree survives a loss of power.
export DPKG_FORCE=unsafe-io
need_commands mmdebstrap xz=xz-utils
need_run_dir
cached packtree "$(key "${PACKAGES[@]}" "$(declare -f make_tree)")" \
	"making a tree with the tools for packages" make_tree bookworm "${PACKAGES[@]}"
# shellcheck disable=SC2034 # for in_tree
TREE=$REPLY
cached packmodule "$(key "$TREE" "$(key_of_sources "${DRIVER_SOURCES[@]}")" \
	"$(declare -f make_module)")" "building the driver" make_module
need_version "$REPLY"
in_tree "$REPLY" modinfo -F parm drivers/gpu/mxcd/mxcd.ko | sort >"$RUN/parameters"
build_debs
judge_debs
build_installer
mkdir -p "$DIST"
rm -f "$DIST"/mxcd* "$DIST"/metax-driver-*
for file in "$RUN"/mxcd*_"$VERSION"[._]* "$RUN"/*.run; do
	cp "$file" "$DIST/"
	say "${DIST#"$PWD/"}/${file##*/}"
done
