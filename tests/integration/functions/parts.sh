#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Parts of functions that a stripped file does not name: their exits are the function's, if nothing
# else enters them.
. tests/integration/lib.sh

cd "$SCRATCH" || die "no folder"
cat >program.c <<'C'
#include <stdio.h>

static volatile int wide;

__attribute__((noinline, cold)) static int rare(int x)
{
	wide += x & 1;
	return x * 3 + wide;
}

__attribute__((noinline, noclone)) int shown(int x)
{
	int y = x * 7 + wide;

	if (__builtin_expect(x % 5 == 0, 0)) {
		y += rare(x);
		wide = y;
	}
	return y ^ wide;
}

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 1000; i++)
		sum += shown(i);
	printf("%d\n", sum);
	return 0;
}
C
cc -O2 -fPIC -pie -rdynamic -o full program.c || die "cannot build the program"
strip -o program full
"$PROBECTL" trace -c fn:program:shown fn:program:shown:return -- ./program >counts 2>err ||
	fail "cannot trace: $(cat err)"
same "entries" "$(awk '$1 == "fn:program:shown" {print $2}' counts)" 1000
same "exits" "$(awk '$1 == "fn:program:shown:return" {print $2}' counts)" 1000

# ---- What else may enter a part ------------------------------------------------------

if [ "$(uname -m)" = x86_64 ]; then
	cat >jumps.S <<'S'
	.macro FUNCTION name, to
	.text
	.balign 16
	.globl \name
	.type \name, @function
\name:	.cfi_startproc
	lea 1(%rdi), %rax
	lea 1(%rax), %rax
	test %edi, %edi
	jz \to
	lea 1(%rax), %rax
	ret
	.cfi_endproc
	.size \name, . - \name
	.endm
	.macro PART name
	.section .text.unlikely, "ax"
	.skip 200, 0xcc
\name:	.cfi_startproc
	lea 1(%rax), %rax
	lea 1(%rax), %rax
	ret
	.cfi_endproc
	.endm

	FUNCTION own, .Lown
	FUNCTION middle, .Lmiddle + 4
	FUNCTION first, .Lshared
	FUNCTION second, .Lshared
	FUNCTION third, .Lcalled
	FUNCTION fourth, .Ltaken
	FUNCTION fifth, .Lnear
	PART .Lown
	PART .Lmiddle
	PART .Lshared
	PART .Lcalled
	.cfi_startproc
	call .Lcalled
	ret
	.cfi_endproc
	PART .Ltaken
	PART .Lnear
	.cfi_startproc
	jmp .Lnear
	.cfi_endproc
	.data
	.balign 8
	.quad .Ltaken
	.section .note.GNU-stack, "", @progbits
S
	cc -shared -nostdlib -o full.so jumps.S && strip -o jumps.so full.so || die "cannot assemble"
	"$PROBECTL" list -vv --json --functions ./jumps.so '*:return' | python3 -c '
import collections, json, sys
exits = collections.defaultdict(list)
for line in sys.stdin:
    site = json.loads(line)
    exits[site["name"]].append("conditional" in site.get("reason", "") and "refused")
for name, its in sorted(exits.items()):
    print(name, "refused" if "refused" in its else len(its))' >got
	printf '%s refused\n' fifth:return first:return fourth:return >wanted
	printf '%s\n' "middle:return 2" "own:return 2" "second:return refused" \
		"third:return refused" >>wanted
	diff -u wanted got >&2 || fail "other exits than wanted"
fi
finish
