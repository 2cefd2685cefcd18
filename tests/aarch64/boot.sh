#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Boots the arm64 Debian that root.sh made, in an emulator, and runs a command there as root.
# usage: tests/aarch64/boot.sh FOLDER BUILD SECONDS COMMAND
#
# COMMAND starts in /host, a copy of the sources and of what was built for that machine, BUILD, a
# folder below them. Both disks are as they were made at each boot. The exit status is that of
# COMMAND; 125 if the machine did not come to its end.
set -euo pipefail

folder=$(realpath "$1")
source=$(realpath "$(dirname "$0")/../..")
build=$(realpath --relative-to="$source" "$2")
seconds=$3
share=$(mktemp -d)
trap 'rm -rf "$share"' EXIT
copy=$share/copy

# On a disk, not on a file system of another machine, where each name would be asked for over there.
mkdir -p "$copy/$build"
tar -C "$source" -c --exclude=./.git --exclude=./build --exclude="./$build" . | tar -C "$copy" -x
tar -C "$source/$build" -c --exclude=./obj --exclude=./check --exclude=./debian . |
	tar -C "$copy/$build" -x
printf '%s\n' "$4" >"$copy/.command"
/sbin/mke2fs -q -F -t ext4 -d "$copy" "$share/disk" 4G >"$share/said"
rm -rf "$copy"

# The processor has what qemu has: SVE, pointer authentication (by a function that is quick to
# emulate, or most of the time would be the kernel's returns), landing pads, memory tags.
timeout "$seconds" qemu-system-aarch64 -M virt,mte=on -cpu max,pauth-impdef=on -smp 2 -m 3G \
	-kernel "$folder"/root/boot/vmlinuz-* -initrd "$folder/early.gz" \
	-append 'console=ttyAMA0 quiet panic=-1' -no-reboot -nographic -nic none \
	-drive "file=$folder/disk,format=raw,if=virtio,cache=unsafe" -snapshot \
	-drive "file=$share/disk,format=raw,if=virtio,cache=unsafe" \
	</dev/null 2>&1 | tee "$share/log" |
	sed -u 's/\r$//; /^status: /d; /sysrq: Power Off$/d; /reboot: Power down$/d' || :
status=$(tr -d '\r' <"$share/log" | sed -n 's/^status: //p' | tail -n 1)
exit "${status:-125}"
