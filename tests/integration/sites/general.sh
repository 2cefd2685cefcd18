#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The way from a stub to a connected function runs while vector registers hold the program's
# values: what the compiler has made of it uses none, and calls no library.
. tests/integration/lib.sh
need objdump
[ "$(uname -m)" = x86_64 ] || skip "x86-64 only"

objdump -d --no-show-raw-insn "$BUILD/libprobe.so" >"$SCRATCH/code" || die "objdump failed"

# code_of FUNCTION: its instructions
code_of()
{
	awk -v "name=<$1>:" '$2 == name { p = 1; next } /^$/ { p = 0 } p' "$SCRATCH/code"
}

code_of enter_called >"$SCRATCH/function"
[ -s "$SCRATCH/function" ] || fail "enter_called is not there"
! grep -E '%([xyz]?mm[0-9]|st|k[0-7])' "$SCRATCH/function" || fail "enter_called uses vectors"
calls=$(awk '$2 ~ /^call/ { print $NF }' "$SCRATCH/function" |
	grep -vE '^<(enter_saving|__stack_chk_fail@plt)>$|^\*' | tr '\n' ' ')
same "enter_called: calls of others" "$calls" ""
finish
