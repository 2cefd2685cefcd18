#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Threads of a program make calls for the controller by code of the program: no probe writes there.
# Signal handlers return to code by whose bytes unwinders know signal frames: it stays, too.
. tests/integration/lib.sh

[ "$(uname -m)" = x86_64 ] || { echo "the program is written for x86-64"; exit 77; }
cd "$SCRATCH" || die "no folder"
# The first `syscall; ret` and the first `leave; ret` in the file are those that are borrowed.
cat >program.S <<'S'
	.text
	.globl _start
	.type _start, @function
_start:	lea interval(%rip), %rdi
	xor %esi, %esi
	call sleeps
	jmp _start
	.size _start, . - _start
	.macro FUNCTION name
	.balign 16
	.globl \name
	.type \name, @function
\name:	.cfi_startproc
	.endm
	.macro END name
	.cfi_endproc
	.size \name, . - \name
	.endm
	FUNCTION sleeps
	mov $35, %eax
	syscall
	ret
	END sleeps
	FUNCTION leaves
	push %rbp
	mov %rsp, %rbp
	lea 1(%rdi), %rax
	leave
	ret
	END leaves
	FUNCTION restores
	mov $15, %rax
	syscall
	END restores
	FUNCTION plain
	lea 1(%rdi), %rax
	lea 1(%rax), %rax
	lea 1(%rax), %rax
	ret
	END plain
	.data
interval: .quad 0, 1000000
	.section .note.GNU-stack, "", @progbits
S
cc -static -nostdlib -o program program.S || die "cannot build the program"
./program &
pid=$!
cat >wanted <<'T'
fn:program:_start refused a jump of its own leads to its first instruction, as in a loop
fn:program:leaves refused threads of the program make calls for the controller by this code
fn:program:leaves:return refused threads of the program make calls for the controller by this code
fn:program:plain behind
fn:program:plain:return before
fn:program:restores refused an instruction after the site cannot run elsewhere
fn:program:restores:return refused it runs on into what is behind it
fn:program:sleeps refused an instruction after the site cannot run elsewhere
fn:program:sleeps:return refused threads of the program make calls for the controller by this code
T
while [ "$(readlink /proc/$pid/exe)" != "$SCRATCH/program" ]; do pause; done
"$PROBECTL" list -vv --json --functions -p $pid '*' | python3 -c '
import json, sys
for line in sys.stdin:
    site = json.loads(line)
    why = site.get("reason", "") if site["plan"] == "refused" else ""
    if "does not return" not in why:
        why = why.replace("not all exits of the function can be patched, and ", "")
        print(site["provider"] + ":" + site["name"], site["plan"], why)' |
	sed 's/ $//' | sort >got
diff -u wanted got >&2 || fail "other plans than wanted"
kill -0 $pid || fail "the program has ended"
kill $pid
finish
