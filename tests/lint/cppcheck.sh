#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# cppcheck on the shipped code, without its style hints and guesses: `make asan` finds leaks
# (cppcheck does not know the cleanup attribute), the compilers uninitialised variables
# (analyze.sh).
. tests/lint/lib.sh
need cppcheck
sources '*.c' | grep -E '^(cli|libprobe|elf|arch)/' >"$SCRATCH/files"
cppcheck --quiet --std=c11 --enable=warning,portability,performance --inline-suppr \
	--error-exitcode=1 --suppress=missingIncludeSystem --suppress=unknownMacro \
	--suppress=memleak --suppress=resourceLeak --suppress=uninitvar \
	--template='{file}:{line}: {severity}: {message} [{id}]' \
	"${macros[@]}" -D__x86_64__ -D__linux__ -D__GNUC__=12 \
	-Ilibprobe/include -I. --file-list="$SCRATCH/files" -j 2
