#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# clang's static analyzer on the shipped code, without the checks that only guess: it does not
# relate a count to its array, and understands neither dlsym(3) nor the cleanup attribute. The
# sanitizers (`make asan`) cover these. It looks into small functions only, and ends with
# fewer paths through large ones than it could: following all takes fifty times as long.
. tests/lint/lib.sh
need clang pkg-config
read -ra flags <<<"$(pkg-config --cflags libelf libdw capstone)"
flags+=(-std=gnu11 "${macros[@]}" -Ilibprobe/include -I.
	--analyze --analyzer-output text -Xclang -analyzer-werror
	-Xclang -analyzer-config -Xclang mode=shallow
	-Xclang -analyzer-config -Xclang max-nodes=20000)
for checker in core.NullDereference core.NonNullParamChecker core.CallAndMessage \
	core.DivideZero unix.Malloc unix.cstring.NullArg; do
	flags+=(-Xclang -analyzer-disable-checker -Xclang "$checker")
done
sources '*.c' | grep -E '^(cli|libprobe|elf|arch)/' |
	xargs -r -P 2 -n 1 clang "${flags[@]}" -o /dev/null
