#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The worked example of a tracer in the program's own process, brought by LD_PRELOAD: its functions
# run in the thread of the hit, in a program that was not built for it.
. tests/integration/lib.sh

! readelf -d "$BUILD/libprobe.so" | grep -qE 'lib(a|ub)san' || skip "a sanitizer must be loaded first"
cc -O2 -Wall -Wextra -Werror -fPIC -shared -Ilibprobe/include -o "$SCRATCH/preload.so" \
	docs/examples/self/preload.c -L"$BUILD" -lprobe -Wl,-rpath,"$BUILD" || die "it cannot be built"
ldd "$SCRATCH/preload.so" | grep -q 'libprobe\.so' || die "it is not linked with libprobe.so"

PRELOAD_PROBE='loop:nop(arg0)' PRELOAD_EVERY=300 LD_PRELOAD=$SCRATCH/preload.so "$TARGETS/loop" -s nop -n 1000 \
	>"$SCRATCH/out" 2>"$SCRATCH/err" &
process=$!
wait "$process" || fail "the program: status $?"
same "the program" "$(cut -d' ' -f1 "$SCRATCH/out")" 1000
same "its hits, in its own thread" "$(cat "$SCRATCH/err")" "$(printf "[$process $process] loop:nop %d\n" 900 600 300)"

# A program without the probe is left alone; a mistake is said by the example.
PRELOAD_PROBE='loop:nop(arg0)' LD_PRELOAD=$SCRATCH/preload.so "$TARGETS/pairs" 1 1 </dev/null >/dev/null 2>"$SCRATCH/err"
same "a program without the probe" "$(cat "$SCRATCH/err")" ""
PRELOAD_PROBE='loop:nop(arg9)' LD_PRELOAD=$SCRATCH/preload.so "$TARGETS/loop" -s nop -n 10 >"$SCRATCH/out" 2>"$SCRATCH/err" ||
	fail "status $?"
grep -q '^preload: .*arg9' "$SCRATCH/err" || fail "a mistake: $(cat "$SCRATCH/err")"
finish
