# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Servers of disks and files in the guest itself, reached over the loop-back device, set
# up as anybody would.

tcp_nvmet=/sys/kernel/config/nvmet

# Have DISK as a namespace of an NVMe controller behind TCP.
tcp_connect() # DISK
{
	local sys=$tcp_nvmet/subsystems/mas-tcp port=$tcp_nvmet/ports/1

	modprobe -a nvmet nvmet-tcp nvme-tcp && busybox ip link set lo up || return
	mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config || return
	mkdir -p $sys $port && echo 1 >$sys/attr_allow_any_host &&
		mkdir $sys/namespaces/1 && echo "$1" >$sys/namespaces/1/device_path &&
		echo 1 >$sys/namespaces/1/enable &&
		echo 127.0.0.1 >$port/addr_traddr && echo tcp >$port/addr_trtype &&
		echo 4420 >$port/addr_trsvcid && echo ipv4 >$port/addr_adrfam &&
		ln -s $sys $port/subsystems/ &&
		nvme connect -t tcp -a 127.0.0.1 -s 4420 -n mas-tcp >/dev/null
}

tcp_end()
{
	local sys=$tcp_nvmet/subsystems/mas-tcp port=$tcp_nvmet/ports/1

	nvme disconnect -n mas-tcp >/dev/null
	rm -f $port/subsystems/mas-tcp
	echo 0 >$sys/namespaces/1/enable
	rmdir $port $sys/namespaces/1 $sys
	modprobe -ra nvme-tcp nvmet-tcp nvmet
}

# The disk that tcp_connect has made, once it is there.
tcp_disk()
{
	local subsystem disk nqn i

	for ((i = 0; i < 50; i++)); do
		for subsystem in /sys/class/nvme-subsystem/*; do
			read -r nqn <"$subsystem/subsysnqn"
			[ "$nqn" = mas-tcp ] || continue
			for disk in "$subsystem"/nvme*n*; do
				[ ! -b "/dev/${disk##*/}" ] || { echo "/dev/${disk##*/}"; return; }
			done
		done
		sleep 0.1
	done
}

# NFS 4.2 alone: it needs no port mapper and no lock daemon. No client of a server that
# went before is waited for longer than can be told.
nfs_mount() # EXPORTED-DIR DIR
{
	modprobe -a nfsd nfs nfsv4 && busybox ip link set lo up || return
	mountpoint -q /proc/fs/nfsd || mount -t nfsd none /proc/fs/nfsd || return
	mkdir -p /var/lib/nfs/v4recovery
	echo "$1 127.0.0.1(rw,sync,no_root_squash,insecure,no_subtree_check,fsid=0)" >/etc/exports
	exportfs -ra || return
	pgrep -x rpc.mountd >/dev/null || rpc.mountd --no-nfs-version 3 || return
	rpc.nfsd --no-nfs-version 3 --no-udp --grace-time 10 --lease-time 10 \
		--host 127.0.0.1 2 &&
		mount -t nfs4 -o vers=4.2,noresvport 127.0.0.1:/ "$2"
}

nfs_end() # DIR
{
	! mountpoint -q "$1" || umount "$1"
	if [ -e /proc/fs/nfsd/threads ]; then
		exportfs -ua
		echo 0 >/proc/fs/nfsd/threads
	fi
}
