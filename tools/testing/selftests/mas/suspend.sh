#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Suspend a guest and wake it, see suspend.c. The guest's root file system does not
# come back from that, so results are read from its console. Closes with the line
# "N passed, N failed".

. "$(dirname "$0")/vm-lib.sh"

while (($#)); do
	case $1 in
	-k) KERNEL=$2; shift 2 ;;
	*) echo "usage: suspend.sh [-k VERSION]" >&2; exit 2 ;;
	esac
done
become_root "$0" -k "$KERNEL"
need_guest
need_build
need_accel
need_run_dir
truncate -s 1G "$RUN/raw.img"
VM_ARGS=()
vm_nvme mas512 512 "$RUN/raw.img"
# One request a second.
truncate -s 64M "$RUN/slow.img"
VM_DRIVE=,throttling.iops-total=1
vm_nvme hot 512 "$RUN/slow.img"
VM_DRIVE=
vm_gpus
mkdir -p "$RUN/share"
printf 'MAS_JOB=tests\nMAS_MODULE_PARAMS=mas=1\n' >"$RUN/share/job"
echo ./suspend >"$RUN/share/tests"
say "guest starts ($ACCEL, kernel $RELEASE), log in $RUN"
vm_start
for ((i = 0; i < 240; i++)); do
	vm_running || break
	sleep 1
done
vm_kill

passed=$(grep -ac 'mas: suspend: ok' "$RUN/console") || true
failed=$(grep -ac 'mas: suspend: not ok' "$RUN/console") || true
grep -a 'mas: suspend:' "$RUN/console" || true
trouble=$(vm_trouble)
if [ -n "$trouble" ] || ! grep -aq 'mas: suspend: ok: done' "$RUN/console"; then
	printf '%s\n' "${trouble:-the guest did not come to the end}"
	tail -n 20 "$RUN/console"
	failed=$((failed + 1))
fi
echo "$passed passed, $failed failed"
((failed == 0))
