#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs every fuzzer for some seconds, one on each processor, on its seeds in
# tests/fuzz/corpus/NAME.tar.gz and with tests/fuzz/NAME.dict, if these exist. Seeds are unpacked
# into BUILD/seeds/NAME; tests/fuzz/pack.sh adds some. Interesting inputs go to BUILD/corpus/NAME,
# and crashing ones to BUILD.
# usage: tests/fuzz/run.sh BUILD SECONDS
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${1:?usage: tests/fuzz/run.sh BUILD SECONDS}
seconds=${2:?usage: tests/fuzz/run.sh BUILD SECONDS}

# unpack NAME FOLDER: unpacks the seeds of a fuzzer, if it has any
unpack()
{
	[ ! -e "tests/fuzz/corpus/$1.tar.gz" ] || tar -C "$2" -xzf "tests/fuzz/corpus/$1.tar.gz"
}

# fuzz NAME
fuzz()
{
	local name=$1 corpus=$build/corpus/$1 seeds=$build/seeds/$1 log=$build/$1.log options runs

	options=(-max_total_time="$seconds" -artifact_prefix="$build/$name-" -rss_limit_mb=1024
		-timeout=10 -print_final_stats=1)
	[ -e "tests/fuzz/$name.dict" ] && options+=(-dict="tests/fuzz/$name.dict")

	rm -rf "$seeds"
	mkdir -p "$corpus" "$seeds"
	if unpack "$name" "$seeds" >"$log" 2>&1 &&
		"$build/tests/fuzz/$name" "${options[@]}" "$corpus" "$seeds" </dev/null >>"$log" 2>&1; then
		runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
		printf 'ok    %s (%s inputs in %s s)\n' "$name" "$runs" "$seconds"
	else
		printf 'FAIL  %s (log: %s)\n' "$name" "$log"
		tail -n 30 "$log"
	fi
}

# One on each processor.
passed=0
failed=0
names=()
for source in tests/fuzz/fuzz_*.c; do
	[ -e "$source" ] || continue
	names+=("$(basename "$source" .c)")
	[ ${#names[@]} -le "$(nproc)" ] || wait -n
	fuzz "${names[-1]}" >"$build/${names[-1]}.result" &
done
wait
for name in "${names[@]}"; do
	cat "$build/$name.result"
	grep -q '^ok ' "$build/$name.result" && passed=$((passed + 1)) || failed=$((failed + 1))
done
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
