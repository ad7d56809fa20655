#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The installer inside metax-driver-<version>-deb-x86_64.run: looks at the machine,
# installs the package beside it and keeps the parameters of the module. Nothing is
# changed before everything has been looked at.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
# Root of the machine that is read; the tests put another one here.
sys=${MXCD_SYSFS:-/sys}
config=/etc/modprobe.d/metax-base.conf
mark='# Written by the installer of mxcd.'
metax=0x9999

kernel=$(uname -r)
job=install
force=0
load=1
parameters=
problems=0

usage()
{
	cat <<-END
		usage: metax-driver-$(version)-deb-x86_64.run -- [OPTION]...

		Installs the mxcd driver for MetaX GPU memory (package mxcd-dkms) from inside
		itself; nothing is downloaded.

		  --module-parameter=NAME=VALUE  parameter of the module, kept in
		                      $config; repeat it for more
		  --kernel=VERSION    kernel to build for (the running one)
		  --no-load           neither load the driver now nor at boot
		  --force             install beside another driver for such cards
		  --check             only look at the machine
		  --uninstall         remove the package and what this installer wrote
		  --list              what is inside, and the parameters
		  --help              this text

		Exit code: 0 done; 1 the machine is not fit, the reason is printed and nothing
		was changed; 2 wrong options, nothing was changed; 3 the installation failed.
	END
}

version()
{
	cat "$here/version"
}

say()
{
	printf '%s\n' "$*"
}

die() # EXIT-CODE TEXT
{
	code=$1
	shift
	printf 'error: %s\n' "$*" >&2
	exit "$code"
}

# --- options ------------------------------------------------------------------

# "parameters" is what modinfo prints of the module: NAME:DESCRIPTION (TYPE), where the
# kernel knows the type.
has_parameter() # NAME
{
	! printf '%s' "$1" | grep -q '[^a-z0-9_]' && grep -q "^$1:" "$here/parameters"
}

type_of() # NAME
{
	sed -n "s/^$1:.*(\([a-z]*\))\$/\1/p" "$here/parameters" | head -n 1
}

number() # TEXT
{
	case $1 in
	0[xX]*) ! printf '%s' "${1#0[xX]}" | grep -q '[^0-9a-fA-F]' && [ "${#1}" -gt 2 ] ;;
	*) ! printf '%s' "$1" | grep -q '[^0-9]' && [ -n "$1" ] ;;
	esac
}

value_fits() # TYPE VALUE
{
	case $1 in
	bool)
		case $2 in
		0 | 1 | y | n | Y | N) ;;
		*) return 1 ;;
		esac
		;;
	byte | ushort | uint | ulong | ullong)
		number "$2"
		;;
	short | int | long)
		number "${2#-}"
		;;
	*)
		! printf '%s' "$2" | grep -q '[^A-Za-z0-9_.:,;/=@+-]' && [ -n "$2" ]
		;;
	esac
}

add_parameter() # NAME=VALUE
{
	case $1 in
	[a-z]*=*) ;;
	*) die 2 "--module-parameter wants NAME=VALUE, not \"$1\"" ;;
	esac
	name=${1%%=*}
	value=${1#*=}
	has_parameter "$name" || die 2 "mxcd has no parameter \"$name\"; it has: $(
		sed 's/:.*//' "$here/parameters" | tr '\n' ' ')"
	type=$(type_of "$name")
	value_fits "$type" "$value" ||
		die 2 "parameter $name is of type ${type:-text}: \"$value\" is none"
	parameters="$parameters $name=$value"
}

parse()
{
	# Words are taken apart below, and no value is a pattern of file names.
	set -f
	for option; do
		case $option in
		--module-parameter=*)
			for word in ${option#*=}; do
				add_parameter "$word"
			done
			;;
		--kernel=*) kernel=${option#*=} ;;
		--no-load) load=0 ;;
		--force) force=1 ;;
		--check) job=check ;;
		--uninstall) job=uninstall ;;
		--list) job=list ;;
		--help | -h) usage; exit ;;
		*) die 2 "unknown option \"$option\" (--help tells them)" ;;
		esac
	done
	set +f
}

# --- the machine ----------------------------------------------------------------

good()
{
	printf '  ok       %s\n' "$*"
}

note()
{
	printf '  note     %s\n' "$*"
}

problem()
{
	printf '  PROBLEM  %s\n' "$*"
	problems=$((problems + 1))
}

check_system()
{
	case $(dpkg --print-architecture 2>/dev/null) in
	amd64) good "Debian or a relative of it, amd64" ;;
	"") problem "no dpkg here: this installer is for Debian and its relatives" ;;
	*) problem "the driver is for amd64 only" ;;
	esac
	if command -v dkms >/dev/null; then
		good "dkms is installed"
	else
		problem "dkms is missing; do: apt install dkms"
	fi
}

check_kernel()
{
	if [ -e "/lib/modules/$kernel/build/Makefile" ]; then
		good "headers of kernel $kernel"
	else
		problem "no headers of kernel $kernel; do: apt install linux-headers-$kernel"
	fi
	if grep -qs '^CONFIG_ZONE_DEVICE=y' "/boot/config-$kernel" \
		"/lib/modules/$kernel/build/.config"; then
		good "CONFIG_ZONE_DEVICE=y"
	else
		problem "kernel $kernel has no CONFIG_ZONE_DEVICE=y: MAS cannot work on it"
	fi
}

# The variable is four bytes of attributes and one of value.
check_secure_boot()
{
	variable=$sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c
	if [ ! -r "$variable" ]; then
		good "no Secure Boot"
	elif [ "$(od -An -t u1 -j 4 -N 1 "$variable" | tr -d ' ')" = 1 ]; then
		note "Secure Boot is on: the module must be signed with a key that the machine"
		note "knows. DKMS signs with /var/lib/dkms/mok.key; enrol it once with"
		note "\"mokutil --import /var/lib/dkms/mok.pub\" and a reboot."
	else
		good "Secure Boot is off"
	fi
}

# Cards of the vendor, and whom they belong to now.
check_cards()
{
	cards=0
	for device in "$sys"/bus/pci/devices/*; do
		[ "$(cat "$device/vendor" 2>/dev/null)" = "$metax" ] || continue
		cards=$((cards + 1))
		[ -e "$device/driver" ] || continue
		driver=$(basename "$(readlink "$device/driver")")
		[ "$driver" = mxcd ] ||
			other "card ${device##*/} is bound to the driver \"$driver\""
	done
	if [ "$cards" = 0 ]; then
		note "no MetaX card here; the driver can be installed all the same"
	else
		good "$cards MetaX card(s)"
	fi
}

package_installed()
{
	dpkg-query -W -f '${db:Status-Abbrev}' mxcd-dkms 2>/dev/null | grep -q '^ii'
}

# Whose the module mxcd is: "none", "ours" or "other".
owner_of_module()
{
	file=$(modinfo -k "$kernel" -F filename mxcd 2>/dev/null) || file=
	case $file in
	"") echo none ;;
	*/updates/dkms/*)
		if package_installed; then
			echo ours
		else
			echo other
		fi
		;;
	*) echo other ;;
	esac
}

check_vendor_driver()
{
	[ "$(owner_of_module)" != other ] || other "a module mxcd that is not ours:
           $(modinfo -k "$kernel" -F filename mxcd)"
	for module in metax metax_drv; do
		[ ! -e "$sys/module/$module" ] || other "the module \"$module\" is loaded"
		! modinfo -k "$kernel" -F filename "$module" >/dev/null 2>&1 ||
			other "a module \"$module\" is installed for kernel $kernel"
	done
	for package in $(dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' 2>/dev/null |
			 sed -n 's/^\(metax-[a-z0-9.+-]*\) ii *$/\1/p'); do
		other "the package \"$package\" is installed"
	done
}

other() # TEXT
{
	if [ "$force" = 1 ]; then
		note "$1 (--force: going on)"
	else
		problem "$1: another driver serves such cards here, and mxcd cannot replace it;"
		problem "remove that one, or say --force to install mxcd beside it"
	fi
}

check_config()
{
	[ -n "$parameters" ] && [ -e "$config" ] || return 0
	if is_ours "$config"; then
		good "$config is ours"
	else
		problem "$config is there and was not written by this installer: it stays as it is;"
		problem "put \"options mxcd$parameters\" into it, and leave out --module-parameter"
	fi
}

is_ours() # FILE
{
	head -n 1 "$1" | grep -qxF "$mark"
}

look_at_machine()
{
	say "mxcd $(version), for kernel $kernel:"
	check_system
	check_kernel
	check_secure_boot
	check_cards
	check_vendor_driver
	check_config
}

# --- jobs -----------------------------------------------------------------------

# "options mxcd" with the parameters given, beside those that it has already.
write_config()
{
	[ -n "$parameters" ] || return 0
	old=
	rest=
	if [ -e "$config" ]; then
		old=$(sed -n 's/^options[[:space:]][[:space:]]*mxcd[[:space:]]//p' "$config")
		rest=$(sed -e 1d -e '/^options[[:space:]][[:space:]]*mxcd[[:space:]]/d' "$config")
	fi
	for word in $old; do
		case "$parameters " in
		*" ${word%%=*}="*) ;;
		*) parameters=" $word$parameters" ;;
		esac
	done
	mkdir -p "${config%/*}"
	{
		say "$mark"
		[ -z "$rest" ] || say "$rest"
		say "options mxcd$parameters"
	} >"$config.new"
	chmod 644 "$config.new"
	mv "$config.new" "$config"
	say "$config: options mxcd$parameters"
}

# A package that was not there before and cannot be installed goes again.
install_package()
{
	before=0
	! package_installed || before=1
	dpkg --install "$here"/mxcd-dkms_*.deb && return
	[ "$before" = 1 ] || dpkg --purge mxcd-dkms || true
	die 3 "dpkg could not install the package"
}

# DKMS knows the running kernel; another one has to be asked for.
build_module()
{
	dkms status -m mxcd -v "$(version)" -k "$kernel" | grep -q installed ||
		dkms install -m mxcd -v "$(version)" -k "$kernel" ||
		die 3 "DKMS could not build the module; its log is below /var/lib/dkms/mxcd"
}

load_module()
{
	[ "$load" = 1 ] || return 0
	if command -v systemctl >/dev/null; then
		systemctl enable mxcd.service
	else
		note "no systemd here: \"modprobe mxcd\" loads the driver"
	fi
	if [ "$kernel" != "$(uname -r)" ]; then
		say "The driver is loaded when kernel $kernel has been booted."
	elif [ -d "$sys/module/mxcd" ]; then
		say "The driver is loaded already; what is new comes with its next load:"
		say "  modprobe -r mxcd && modprobe mxcd"
	else
		modprobe mxcd || die 3 "the module does not load; the kernel's log says why"
	fi
}

install_all()
{
	[ "$(id -u)" = 0 ] || die 1 "only root can install; do: sudo $0"
	look_at_machine
	[ "$problems" = 0 ] || die 1 "nothing was changed"
	install_package
	build_module
	write_config
	load_module
	say "mxcd $(version) is installed. Whether MAS is on is told by"
	say "  grep mas /sys/class/mxcd/mxcd/layout/properties"
	say "and all that may be wrong by mas-check."
}

uninstall()
{
	[ "$(id -u)" = 0 ] || die 1 "only root can uninstall; do: sudo $0"
	if [ -d "$sys/module/mxcd" ] && [ "$(owner_of_module)" = ours ]; then
		modprobe -r mxcd || die 1 "the driver is in use, nothing was changed; its holders:
$(cat "$sys"/class/mxcd/mxcd/layout/nodes/*/mas_holders | sort -u)"
	fi
	if dpkg-query -W mxcd-dkms >/dev/null 2>&1; then
		dpkg --purge mxcd-dkms || die 3 "dpkg could not remove the package"
	fi
	if [ -e "$config" ] && is_ours "$config"; then
		rm "$config"
	fi
	say "mxcd is not installed any more."
}

list()
{
	say "mxcd $(version)"
	for deb in "$here"/*.deb; do
		say "package: ${deb##*/}"
	done
	say "parameters:"
	sed 's/^\([^:]*\):/  \1\t/' "$here/parameters"
}

parse "$@"
case $job in
install) install_all ;;
uninstall) uninstall ;;
list) list ;;
check)
	look_at_machine
	[ "$problems" = 0 ] || exit 1
	;;
esac
