#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Both compilers' warnings as errors, and gcc's static analyzer over what is
# shipped. (Clang's takes no notice of the attributes cleanup and
# returns_nonnull, on which the code rests.) Leaks are left to `make asan`:
# the analyzer loses strings that are stored in arrays.
. tests/lint/lib.sh
need clang gcc pkg-config
read -ra flags <<<"$(pkg-config --cflags libelf libdw capstone jansson cmocka)"
flags+=(-std=gnu11 -D_GNU_SOURCE -DPROBE_VERSION='""' -Ilibprobe/include -I.
	-O2 -Wall -Wextra -Werror)
rc=0

# check COMMAND...: runs it on each file of stdin, two at a time
check()
{
	xargs -r -P 2 -n 1 "$@" || rc=1
}

shipped=$(sources '*.c' | grep -E '^(cli|libprobe|elf|arch)/' || true)
tests=$(sources '*.c' | grep -E '^tests/' | grep -v '^tests/targets/' || true)
check gcc "${flags[@]}" -fanalyzer -Wno-analyzer-malloc-leak -c -o /dev/null <<<"$shipped"
check gcc "${flags[@]}" -c -o /dev/null <<<"$tests"
check clang "${flags[@]}" -c -o /dev/null <<<"$shipped
$tests"
exit $rc
