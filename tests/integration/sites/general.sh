#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The way from a stub to a connected function runs while vector registers hold the program's
# values: what the compiler has made of it uses none, and calls no library.
. tests/integration/lib.sh
need objdump
# Atomic operations of gcc for any processor of aarch64 are functions, which use no vectors either.
case $(uname -m) in
x86_64)
	vectors='%([xyz]?mm[0-9]|st|k[0-7])' call='^call' mine='^<(enter_saving|__stack_chk_fail@plt)>$|^\*'
	;;
aarch64)
	vectors='[[:space:],{[][bhsdqvzp][0-9]+\>' call='^blr?$'
	mine='^<(enter_saving|__stack_chk_fail@plt|__aarch64_[a-z0-9_]+)>$|^x[0-9]+$'
	;;
*) skip "neither x86-64 nor aarch64" ;;
esac

objdump -d --no-show-raw-insn "$BUILD/libprobe.so" >"$SCRATCH/code" || die "objdump failed"

# code_of FUNCTION: its instructions
code_of()
{
	awk -v "name=<$1>:" '$2 == name { p = 1; next } /^$/ { p = 0 } p' "$SCRATCH/code"
}

code_of enter_called >"$SCRATCH/function"
[ -s "$SCRATCH/function" ] || fail "enter_called is not there"
# Without addresses, which may look like registers.
! sed -E 's/^ *[0-9a-f]+:|[0-9a-f]+ <//g' "$SCRATCH/function" | grep -E "$vectors" ||
	fail "enter_called uses vectors"
calls=$(awk -v "call=$call" '$2 ~ call { print $NF }' "$SCRATCH/function" |
	grep -vE "$mine" | tr '\n' ' ')
same "enter_called: calls of others" "$calls" ""
finish
