#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# libprobe.so exports the functions that the public headers declare, no other.
. tests/lint/lib.sh
need nm gcc
so=$BUILD/libprobe.so
[ -e "$so" ] || {
	echo "$so is not built"
	exit 77
}

nm -D --defined-only "$so" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort -u \
	>"$SCRATCH/exported"
# Declarations of functions, as the compiler sees them: no comments, no attributes,
# no types of what pointers to functions return.
for header in libprobe/include/probe/*.h; do
	echo "#include \"$header\""
done | gcc -std=gnu11 -D_GNU_SOURCE '-D__attribute__(x)=' -I. -Ilibprobe/include -E -x c - |
	awk '/^# [0-9]/ {ours = ($3 ~ /libprobe\/include\/probe/); next} ours' | tr '\n' ' ' |
	grep -oE '\bprobe_[a-z0-9_]+ ?\([^*]' | sed 's/ *(.*//' | sort -u >"$SCRATCH/declared"

rc=0
for name in $(comm -23 "$SCRATCH/exported" "$SCRATCH/declared"); do
	echo "$so: exports $name, which no public header declares"
	rc=1
done
for name in $(comm -13 "$SCRATCH/exported" "$SCRATCH/declared"); do
	echo "libprobe/include/probe: declares $name, which $so does not export"
	rc=1
done
exit $rc
