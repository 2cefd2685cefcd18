#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# What only one instruction set has stands in arch/: registers, opcodes, the kernel's numbers for it.
# The assembly of probe/tracepoint.h, which programs include, is a nop and a note, alike in all.
. tests/lint/lib.sh
set +e # grep finding nothing is the good case

words='user_regs_struct|PTRACE_[GS]ETREGS|NT_X86_[A-Z]+|orig_rax|fs_base|REG_R[A-Z0-9]+'
words+='|__(x86_64|aarch64)__|arch_(x86_64|aarch64)|EM_(386|X86_64|AARCH64)|AUDIT_ARCH_[A-Z0-9_]+'
words+='|__asm__|asm|cpuid\.h|x86intrin\.h|0x53053053|0xcc|0xe[89b]|SYS_(epoll_wait|poll|select)'
members='(->|\.)(r[abcd]x|r[sd]i|r[bs]p|rip|r8|r9|r1[0-5])'

found=$(sources '*.c' '*.h' | grep -E '^(cli|libprobe|elf)/' | grep -v '/tracepoint\.h$' |
	while read -r file; do
		# Comments may say anything; the lines keep their numbers.
		sed -E 's,/\*[^*]*\*/,,g; s,^[[:space:]]*/?\*.*,,; s,/\*.*,,' "$file" |
			grep -nE "\\b($words)\\b|$members\\b" | sed "s,^,$file:,"
	done)
[ -z "$found" ] || {
	echo "$found"
	echo "what only one instruction set has belongs into arch/ (docs/porting.md)"
	exit 1
}
