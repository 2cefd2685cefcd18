#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every header compiles on its own; the public ones also as C++.
. tests/lint/lib.sh
need gcc g++
rc=0
for header in $(sources '*.h' | grep -E '^(cli|libprobe|elf|arch)/'); do
	echo "#include \"$header\"" |
		gcc -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -Werror -I. -Ilibprobe/include \
			-fsyntax-only -x c - || rc=1
done
for header in libprobe/include/probe/*.h libprobe/include/probe/standard/*.h; do
	echo "#include <${header#libprobe/include/}>" |
		g++ -std=c++17 -Wall -Wextra -Werror -Ilibprobe/include -fsyntax-only -x c++ - || rc=1
done
exit $rc
