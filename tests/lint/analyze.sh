#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Both compilers' warnings as errors, and gcc's static analyzer on the shipped code for what it
# detects reliably: double frees, use after free, files left open. It ignores returns_nonnull
# and relations between fields, so leaks, null pointers and uninitialised memory are left to the
# warnings, the sanitizers (`make asan`) and the fuzzers. clang's warnings need no code; what it
# makes of the sources is seen by the build of the fuzzers.
. tests/lint/lib.sh
need clang gcc pkg-config
read -ra flags <<<"$(pkg-config --cflags libelf libdw capstone cmocka)"
flags+=(-std=gnu11 "${macros[@]}" -Ilibprobe/include -Ilibprobe/include/probe/standard -I.
	-O2 -Wall -Wextra -Werror)
rc=0

# check COMMAND...: runs it on each file of stdin, two at a time
check()
{
	xargs -r -P 2 -n 1 "$@" || rc=1
}

shipped=$(sources '*.c' | grep -E '^(cli|libprobe|elf|arch)/' || true)
# Targets and benchmarks have flags, and optional headers, of their own.
tests=$(sources '*.c' | grep -E '^tests/' | grep -vE '^tests/(targets|bench)/' || true)
off=()
for kind in malloc-leak null-dereference null-argument possible-null-dereference \
	possible-null-argument use-of-uninitialized-value; do
	off+=("-Wno-analyzer-$kind")
done
check gcc "${flags[@]}" -fanalyzer "${off[@]}" -c -o /dev/null <<<"$shipped"
check gcc "${flags[@]}" -c -o /dev/null <<<"$tests"
check clang "${flags[@]}" -fsyntax-only <<<"$shipped
$tests"
exit $rc
