#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Exits at the address of the entry: those of a function that a conditional jump leaves are refused,
# and not taken for the entry, whose address they are listed at; a single jump is both. Of two
# functions that share an exit, one may have it although the other may not. A function that runs on
# into the next one ends there, too, so its exits are refused. The jumps of a switch statement stay in
# its function, also if it is compiled without optimisation; a computed goto is not known to.
. tests/integration/lib.sh
need cc jq

cd "$SCRATCH" || die "no folder"
cat >exits.c <<'C'
#include <stdio.h>

__asm__(".text\n"
	".globl leaves\n.type leaves, %function\n"
	"leaves:\n"
#ifdef __x86_64__
	"test %edi, %edi\njs target\nlea 1(%rdi), %eax\nmov %eax, %eax\nmov %eax, %eax\nret\n"
#else
	"cmp w0, #0\nb.lt target\nadd w0, w0, #1\nmov w0, w0\nmov w0, w0\nret\n"
#endif
	".size leaves, . - leaves\n.balign 16\n"
	".globl jumps\n.type jumps, %function\n"
	"jumps:\n"
#ifdef __x86_64__
	".byte 0xe9\n.long target-1f\n1:\n"
#else
	"b target\n"
#endif
	".size jumps, . - jumps\n.balign 16\n"
	".globl target\n.type target, %function\n"
	"target:\n"
#ifdef __x86_64__
	"lea 2(%rdi), %eax\n.rept 8\nmov %eax, %eax\n.endr\nret\n"
#else
	"add w0, w0, #2\n.rept 8\nmov w0, w0\n.endr\nret\n"
#endif
	".size target, . - target\n.balign 16\n"
	".globl shared, within\n.type shared, %function\n.type within, %function\n"
	"shared:\n"
#ifdef __x86_64__
	"mov %edi, %eax\njmp 2f\n1: ret\n2: test %edi, %edi\njs 1b\n"
	"within: lea 1(%rdi), %eax\n.rept 8\nmov %eax, %eax\n.endr\nret\n"
#else
	"within: add w0, w0, #1\nret\n"
#endif
	".size shared, . - shared\n.size within, . - within\n.balign 16\n"
	".globl runs, next\n.type runs, %function\n.type next, %function\n"
	"runs:\n"
#ifdef __x86_64__
	"lea 3(%rdi), %eax\nmov %eax, %eax\nmov %eax, %eax\ntest %edi, %edi\njs 1f\nret\n.balign 16\n1: inc %eax\n"
	".size runs, . - runs\nnext: .rept 8\ninc %eax\n.endr\nret\n"
#else
	"add w8, w0, #3\ncmp w0, #0\nmov w0, w8\nb.lt 1f\nret\n.balign 16\n1: add w0, w0, #1\n"
	".size runs, . - runs\nnext: .rept 8\nadd w0, w0, #1\n.endr\nret\n"
#endif
	".size next, . - next\n");

int leaves(int x);
int jumps(int x);
int shared(int x);
int runs(int x);

int main(void)
{
	int sum = 0;

	for (int i = -5; i < 5; i++)
		sum += leaves(i) + jumps(i) + shared(i) + runs(i);
	return sum == 1;
}
C
cc -O1 -o exits exits.c || die "cannot build the program"

# hits FILE: how often each probe was hit, by name
hits()
{
	jq -r 'select(.args) | .name' "$1" | sort | uniq -c | awk '{print $2 "=" $1}' | tr '\n' ' '
}

"$PROBECTL" trace -q --json --keep-going -o each fn:exits:leaves fn:exits:leaves:return fn:exits:jumps \
	fn:exits:jumps:return fn:exits:target fn:exits:target:return -- ./exits 2>each.err ||
	fail "trace: $(cat each.err)"
[[ $(hits each) != *leaves:return* ]] || fail "refused exits were hit: $(hits each)"
grep -q 'refused fn:exits:leaves:return .*: not all exits' each.err || fail "not told: $(cat each.err)"
# A function that is a single jump is entered before it is left.
same "a jump" "$(jq -r 'select(.args and (.name | startswith("jumps"))) | .name' each | head -2 | tr '\n' ' ')" \
	"jumps jumps:return "

"$PROBECTL" trace -q --json --keep-going -o shared fn:exits:shared:return fn:exits:within:return \
	-- ./exits 2>shared.err || fail "trace: $(cat shared.err)"
if [ "$(uname -m)" = x86_64 ]; then
	same "a shared exit" "$(hits shared)" "within:return=5 "
fi

! "$PROBECTL" trace -c fn:exits:runs:return -- ./exits 2>runs.err >&2 || fail "half of the exits are traced"
grep -q "runs on into what is behind it" runs.err || fail "not told: $(cat runs.err)"

# In pairs, both are refused.
"$PROBECTL" trace -q --json --keep-going -t self -o both fn:exits:leaves fn:exits:jumps fn:exits:target \
	-- ./exits 2>both.err || fail "trace: $(cat both.err)"
same "calls" "$(jq -r 'select(.function) | "\(.name)=\(.count)"' both | sort | tr '\n' ' ')" "jumps=10 target=15 "

cat >switches.c <<'C'
#include <stdio.h>

#define CASES \
	{ case 0: return y + 5; case 1: return y * 3; case 2: return 9; case 3: return y - 33; case 4: return 7; \
	case 5: return 12; case 6: return y / 2; case 7: case 8: case 9: case 10: case 11: case 12: return y; \
	case 13: return 3; case 14: return 4; case 15: return 8; case 16: return 6; default: return -y; }

/* Their exits may need unused bytes. */
#define ROOM __asm__(".text\n.balign 16\n.rept 4\nnop\nnop\nnop\nnop\n.endr\n");

long by_int(int x, long y) { switch (x) CASES }
ROOM
long by_long(long x, long y) { switch (x) CASES }
ROOM
long by_char(const char *x, long y) { switch (*x - 'a') CASES }
ROOM
int by_label(int x)
{
	void *labels[] = {&&first, &&second};

	goto *labels[x];
first:
	return 1;
second:
	return 2;
}

int main(void)
{
	long sum = 0;

	for (int i = 0; i < 66; i++) {
		char text = (char)('a' + i % 22);

		by_label(i % 2);
		sum += by_int(i % 22, i) + by_long(i % 22, i) + by_char(&text, i);
	}
	printf("%ld\n", sum);
	return 0;
}
C
ways=("-fPIE -pie" "-fno-PIE -no-pie")
[ "$(uname -m)" = aarch64 ] || ways+=("${ways[@]/%/ -fcf-protection=full}")
for way in "${ways[@]}"; do
	# shellcheck disable=SC2086 # several options
	cc -O0 $way -o switches switches.c || die "cannot build the program"
	"$PROBECTL" trace -q --json --keep-going -o switches.out 'fn:switches:/^by_/' 'fn:switches:/^by_/:return' \
		-- ./switches >sum 2>switches.err || fail "trace: $(cat switches.err)"
	same "calls with $way" "$(hits switches.out | sed 's/by_label=66 //')" \
		"by_char=66 by_char:return=66 by_int=66 by_int:return=66 by_long=66 by_long:return=66 "
	same "results with $way" "$(jq -rs '[.[] | select(.args and (.name | endswith(":return"))) | .args[0]] | add' \
		switches.out)" "$(cat sum)"
done
finish
