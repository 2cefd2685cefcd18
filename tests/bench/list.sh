#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Time and memory of listing the probes of the JVM's library, and of everything
# in the standard directories.
cd "$(dirname "$0")/../.." || exit 1
. tests/integration/lib.sh
. tests/bench/lib.sh

rounds=21
[ "$quick" = 0 ] || rounds=7

# listing NAME ROUNDS COMMAND…
listing()
{
	local name=$1 count=$2 figures
	shift 2
	figures=$("$tools/stopwatch" -r "$count" -- "$@" 2>/dev/null) || figures="-1 -1 -1"
	# shellcheck disable=SC2086 # three words
	set -- $figures
	row "$name" "$(ms "$2")" "$3"
}

libjvm=$(find /usr/lib/jvm/*17* -name libjvm.so 2>/dev/null | head -1)
heading "listing ${libjvm:-libjvm}" "ms" "KiB"
if [ -z "$libjvm" ]; then
	missing "libjvm" "no JVM is installed"
else
	if [ -x "$PROBECTL" ]; then
		listing "probectl list" "$rounds" "$PROBECTL" list "$libjvm"
		listing "probectl list --json" "$rounds" "$PROBECTL" list --json "$libjvm"
	else
		missing "probectl list" "$PROBECTL is not built"
	fi
	command -v readelf >/dev/null && listing "readelf -n" "$rounds" readelf -n "$libjvm"
	command -v eu-readelf >/dev/null && listing "eu-readelf -n" "$rounds" eu-readelf -n "$libjvm"
	if command -v bpftrace >/dev/null && is_root; then
		listing "bpftrace -l" 7 bpftrace -l "usdt:$libjvm:*"
	else
		missing "bpftrace -l" "it is not installed, or we are not root"
	fi
	if command -v tplist-bpfcc >/dev/null && is_root; then
		listing "tplist-bpfcc" 5 tplist-bpfcc -l "$libjvm"
	else
		missing "tplist-bpfcc" "it is not installed, or we are not root"
	fi
	if command -v perf >/dev/null; then
		# perf lists the contents of its build-id cache, so it gets a separate one.
		perf --buildid-dir "$SCRATCH/perf" buildid-cache --add "$libjvm" >/dev/null 2>&1
		listing "perf list sdt (from its cache)" 7 perf --buildid-dir "$SCRATCH/perf" list sdt
	else
		missing "perf list sdt" "it is not installed"
	fi
	command -v gdb >/dev/null && listing "gdb, info probes" 3 gdb -q -nx -batch \
		-iex 'set debuginfod enabled off' -ex 'info probes stap' "$libjvm"
fi

# ---- The standard directories -------------------------------------------------------

directories="/usr/bin /usr/sbin /usr/lib/x86_64-linux-gnu"
# shellcheck disable=SC2086 # several words
find $directories -maxdepth 1 -type f 2>/dev/null >"$SCRATCH/files"
heading "listing $(wc -l <"$SCRATCH/files") files of the standard directories" "ms" "KiB"
if [ -x "$PROBECTL" ]; then
	listing "probectl list" 7 "$PROBECTL" list
	listing "probectl list, the same files" 7 xargs -a "$SCRATCH/files" "$PROBECTL" list
else
	missing "probectl list" "$PROBECTL is not built"
fi
if command -v eu-readelf >/dev/null; then
	listing "xargs eu-readelf -n" 5 xargs -a "$SCRATCH/files" eu-readelf -n
fi
exit 0
