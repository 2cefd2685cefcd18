#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Clang's static analyzer over what is shipped, and both compilers' warnings
# as errors over everything.
. tests/lint/lib.sh
need clang gcc pkg-config
read -ra flags <<<"$(pkg-config --cflags libelf libdw capstone jansson cmocka)"
flags+=(-std=gnu11 -D_GNU_SOURCE -DPROBE_VERSION='""' -Ilibprobe/include -I. -Wall -Wextra)
rc=0

# check COMMAND...: runs it on each file of stdin, two at a time
check()
{
	xargs -r -P 2 -n 1 "$@" || rc=1
}

shipped=$(sources '*.c' | grep -E '^(cli|libprobe|elf|arch)/' || true)
all=$(sources '*.c' | grep -vE '^tests/targets/' || true)
check gcc "${flags[@]}" -O2 -Werror -fsyntax-only <<<"$all"
check clang "${flags[@]}" -Werror -fsyntax-only <<<"$all"
check clang "${flags[@]}" --analyze --analyzer-output text \
	-Xclang -analyzer-werror -o /dev/null <<<"$shipped"
exit $rc
