#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# libprobe.so exports exactly the functions that the public headers declare; so do the libraries
# for traced programs.
. tests/lint/lib.sh
need nm gcc
so=$BUILD/libprobe.so
[ -e "$so" ] || {
	echo "$so is not built"
	exit 77
}

# exports SO: the names, sorted
exports()
{
	nm -D --defined-only "$1" | awk '$2 != "A" {sub(/@.*/, "", $3); print $3}' | sort -u
}
# declarations PATTERN HEADER…: names of functions, as the compiler sees them: without comments,
# attributes, and the return types of function pointers
declarations()
{
	local pattern=$1 header
	shift
	for header; do
		echo "#include \"$header\""
	done | gcc -std=gnu11 -D_GNU_SOURCE '-D__attribute__(x)=' -I. -Ilibprobe/include -E -x c - |
		awk '/^# [0-9]/ {ours = ($3 ~ /libprobe\/include\/probe/); next} ours' | tr '\n' ' ' |
		grep -oE "\\b$pattern ?\\([^*]" | sed 's/ *(.*//' | sort -u
}

rc=0
# compare SO: names in only one of $SCRATCH/exported and $SCRATCH/declared
compare()
{
	local name
	for name in $(comm -23 "$SCRATCH/exported" "$SCRATCH/declared"); do
		echo "$1: exports $name, which no public header declares"
		rc=1
	done
	for name in $(comm -13 "$SCRATCH/exported" "$SCRATCH/declared"); do
		echo "libprobe/include/probe: declares $name, which $1 does not export"
		rc=1
	done
}

exports "$so" >"$SCRATCH/exported"
declarations 'probe_[a-z0-9_]+' libprobe/include/probe/*.h >"$SCRATCH/declared"
compare "$so"
while read -r library prefix header; do
	so=$BUILD/libprobe_$library.so
	exports "$so" >"$SCRATCH/exported"
	declarations "${prefix}[a-z0-9_]+" "libprobe/include/probe/$header" >"$SCRATCH/declared"
	[ -s "$SCRATCH/declared" ] || {
		echo "$header declares nothing"
		rc=1
	}
	compare "$so"
done <<-'EOF'
	events posix_trace posix_trace.h
	trace posix_trace standard/trace.h
	pmtrace pmtrace pmtrace.h
EOF
# Linked a second time, with Java's methods.
exports "$BUILD/pcp/libpcp_trace.so.2" >"$SCRATCH/exported"
{
	cat "$SCRATCH/declared"
	sed -n 's/.*public static native .* \(pmtrace[a-z]*\)(.*/Java_sgi_pcp_trace_\1/p' \
		"$BUILD/pcp/sgi/pcp/trace.java"
} | sort >"$SCRATCH/both"
mv "$SCRATCH/both" "$SCRATCH/declared"
compare "$BUILD/pcp/libpcp_trace.so.2"
exit $rc
