#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Boots the arm64 Debian that root.sh made, in an emulator, and runs a command there as root.
# usage: tests/aarch64/boot.sh FOLDER SECONDS COMMAND
#
# The sources are at /host, which is where COMMAND starts; the machine's disk is as it was made at
# each boot. The exit status is that of COMMAND; 125 if the machine did not come to its end.
set -euo pipefail

folder=$(realpath "$1")
seconds=$2
source=$(realpath "$(dirname "$0")/../..")
share=$(mktemp -d)
trap 'rm -rf "$share"' EXIT
printf '%s\n' "$3" >"$share/command"

# The processor has what qemu has: SVE, pointer authentication, landing pads, memory tags.
timeout "$seconds" qemu-system-aarch64 -M virt,mte=on -cpu max -smp 2 -m 3G \
	-kernel "$folder"/root/boot/vmlinuz-* -initrd "$folder/early.gz" \
	-append 'console=ttyAMA0 quiet panic=-1' -no-reboot -nographic -nic none \
	-drive "file=$folder/disk,format=raw,if=virtio,cache=unsafe" -snapshot \
	-virtfs "local,path=$source,mount_tag=source,security_model=none" \
	-virtfs "local,path=$share,mount_tag=share,security_model=none" \
	</dev/null 2>&1 | tee "$share/log" |
	sed -u 's/\r$//; /^status: /d; /sysrq: Power Off$/d; /reboot: Power down$/d' || :
status=$(tr -d '\r' <"$share/log" | sed -n 's/^status: //p' | tail -n 1)
exit "${status:-125}"
