#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Makes a small arm64 Debian of unpacked packages, for a cross compiler and for an emulator.
# usage: tests/aarch64/root.sh FOLDER KERNEL PACKAGE...
#
# Below FOLDER: root (for --sysroot, qemu-aarch64 -L, and readers of its programs), disk (the same as
# an ext4 image) and early.gz (an initramfs that mounts it). Nothing is installed on this machine,
# and no foreign architecture is added to it: apt-get has a state of its own there. Does
# nothing if it is there already, with the same packages.
set -euo pipefail

folder=$(realpath -m "$1")
root=$folder/root
# The machine, with the package KERNEL, or KERNEL/SUITE. PACKAGEs are what the project is built and
# tested with.
kernel=$2
shift 2
packages="$kernel busybox-static kmod mount bash coreutils diffutils findutils gawk grep
	hostname iproute2 libc-bin ncurses-base ncurses-bin procps sed tar util-linux"
fail()
{
	echo "tests/aarch64/root.sh: $*" >&2
	exit 1
}

stamp="$(cksum "$0") $kernel $*"
[ "$(cat "$folder/made" 2>/dev/null)" != "$stamp" ] || exit 0
rm -rf "$folder"
mkdir -p "$folder"/{lists,debs}/partial "$folder"/{cache,sources} "$root"
: >"$folder/status"

# ---- Packages ----------------------------------------------------------------

cp -r /etc/apt/sources.list.d/. "$folder/sources"
[ ! -e /etc/apt/sources.list ] || cp /etc/apt/sources.list "$folder/sources/main.list"
[[ $kernel != */* ]] || echo "deb http://deb.debian.org/debian ${kernel#*/} main" >"$folder/sources/kernel.list"
apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64
	-o APT::Sandbox::User= -o Debug::NoLocking=true -o Acquire::Retries=5
	-o APT::Update::Error-Mode=any -o Dir::State="$folder" -o Dir::State::Lists="$folder/lists"
	-o Dir::State::status="$folder/status" -o Dir::Etc::sourcelist=/dev/null
	-o Dir::Etc::sourceparts="$folder/sources"
	-o Dir::Cache="$folder/cache" -o Dir::Cache::archives="$folder/debs")
# Mirrors fail now and then: each step is tried several times. What apt-get says is shown only of
# the last one.
try()
{
	local delay
	for delay in 5 20 0; do
		"${apt[@]}" "$@" >"$folder/said" 2>&1 </dev/null && return
		sleep $delay
	done
	cat "$folder/said" >&2
	return 1
}
try update || fail "the lists of arm64 packages cannot be had: is there a network, and has the mirror of /etc/apt arm64?"
# shellcheck disable=SC2086 # a list of words
try install -y -d --no-install-recommends $packages "$@" || fail "the arm64 packages cannot be had"
for package in "$folder"/debs/*.deb; do
	dpkg -x "$package" "$root"
done
rm -rf "$folder"/{debs,lists,cache,sources,status,said}

# ---- The machine ---------------------------------------------------------------

ln -sf bash "$root/bin/sh"
ln -sf gawk "$root/usr/bin/awk"
# What packages do as they are installed, which they were not: their programs have other names.
ln -sf gcc "$root/usr/bin/cc"
ln -sf g++ "$root/usr/bin/c++"
for file in "$root"/usr/lib/jvm/*/bin/*; do
	[ ! -e "$file" ] || ln -sf "${file#"$root"}" "$root/usr/bin/"
done
printf '%s\n' 'root:x:0:0:root:/root:/bin/bash' 'nobody:x:65534:65534:nobody:/:/bin/bash' \
	>"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$root/etc/group"
# boot.sh gives it the sources and the command, on the second disk.
cat >"$root/init.sh" <<'END'
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mkdir -p /dev/pts /dev/shm /host /opt
mount -t devpts devpts /dev/pts
ln -s /proc/self/fd /dev/fd
ln -s fd/0 /dev/stdin
ln -s fd/1 /dev/stdout
ln -s fd/2 /dev/stderr
for at in /dev/shm /tmp /run; do mount -t tmpfs tmpfs $at; done
chmod 1777 /dev/shm /tmp
mount -t tracefs tracefs /sys/kernel/tracing
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t ext4 /dev/vdb /host
ip link set lo up
ldconfig
cd /host
bash .command
echo "status: $?"
sync
echo o >/proc/sysrq-trigger
sleep 60
END
chmod +x "$root/init.sh"

early=$folder/early
mkdir -p "$early"/{bin,modules,proc,sys,dev,new}
cp "$root/bin/busybox" "$early/bin/"
release=$(basename "$root"/boot/vmlinuz-*)
release=${release#vmlinuz-}
modules=$root/lib/modules/$release
depmod -b "$root" "$release"
# Each module after those that it needs.
number=10
for module in virtio_pci virtio_mmio virtio_blk ext4 crc32c_generic; do
	awk -v end="/${module}[.]ko([.]xz)?:$" \
		'$1 ~ end {sub(":", ""); for (i = NF; i; i--) print $i}' "$modules/modules.dep"
done | awk '!seen[$0]++' | while read -r file; do
	cp "$modules/$file" "$early/modules/$number-${file##*/}"
	number=$((number + 1))
done
find "$early/modules" -name '*.xz' -exec xz -d {} +
cat >"$early/init" <<'END'
#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
$B mount -t devtmpfs dev /dev
for module in /modules/*; do $B insmod $module; done
$B mount -t ext4 /dev/vda /new
for at in dev proc sys; do $B mount --move /$at /new/$at; done
exec $B switch_root /new /init.sh
END
chmod +x "$early/init"
(cd "$early" && find . | cpio -o -H newc --quiet | gzip -1) >"$folder/early.gz"
/sbin/mke2fs -q -F -t ext4 -E root_owner=0:0 -d "$root" "$folder/disk" 6G
echo "$stamp" >"$folder/made"
