#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Functions that begin with a jump or a return, where our jump is at their first byte. A uprobe comes
# and goes there in every order. Here the test writes the bytes that the kernel writes, and the
# program's handler of SIGTRAP does what the kernel does at a hit: it goes on as the file's
# instruction does.
. tests/integration/lib.sh
need cc jq
need_attach
need_short_nops

program=$SCRATCH/program
cat >"$program.c" <<'C'
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

/* Each returns 7, but for `leaves`, which returns its caller's %rax. */
__asm__(".text; .balign 64; .globl jumps; .type jumps,@function\n"
	"jumps: .byte 0xe9; .long target-1f; 1: .size jumps,.-jumps\n"
	".balign 64; .globl hops; .type hops,@function\n"
	"hops: .byte 0xeb, target-1f; 1: .size hops,.-hops; .balign 32,0xcc\n"
	".globl target; .type target,@function\n"
	"target: mov $7,%eax; ret; .size target,.-target; .balign 64,0xcc\n"
	".globl leaves; .type leaves,@function\n"
	"leaves: ret; .size leaves,.-leaves; .balign 64,0xcc\n");
long jumps(void), hops(void), target(void);
void leaves(void);

static void on_trap(int number, siginfo_t *info, void *data)
{
	greg_t *registers = ((ucontext_t *)data)->uc_mcontext.gregs;
	long at = registers[REG_RIP] - 1;

	(void)number, (void)info;
	if (at == (long)jumps || at == (long)hops) {
		registers[REG_RIP] = (long)target;
	} else if (at == (long)leaves) {
		registers[REG_RIP] = *(long *)registers[REG_RSP];
		registers[REG_RSP] += 8;
	} else {
		abort();
	}
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	char line[64];

	sigaction(SIGTRAP, &action, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("jumps=%p hops=%p leaves=%p\n", (void *)jumps, (void *)hops, (void *)leaves);
	while (fgets(line, sizeof(line), stdin)) {
		long sum = 0;

		for (int i = atoi(line); i > 0; i--) {
			sum += jumps() + hops();
			leaves();
			sum++;
		}
		printf("sum %ld\n", sum);
	}
	return 0;
}
C
cc -O1 -o "$program" "$program.c" || die "cannot build the program"

# poke ADDRESS HEX: writes bytes into the target's text, as the kernel does for a uprobe
poke()
{
	"$python" -c 'import sys
with open(f"/proc/{sys.argv[1]}/mem", "r+b", 0) as memory:
    memory.seek(int(sys.argv[2], 0))
    memory.write(bytes.fromhex(sys.argv[3]))' "$target_pid" "$1" "$2" || die "cannot write"
}

# works WHEN: the program does what its file says
works()
{
	ask 10
	same "$name: the sum $1" "$answer" "sum 150"
}

# hits: of the entry
hits()
{
	"$PROBECTL" status --json -p "$target_pid" | jq -r 'select(.refcount > 0).hits'
}

begin()
{
	start "$program"
	save_state "$target_pid"
	at=$(tr ' ' '\n' <<<"$answer" | sed -n "s/^$name=//p")
	works "before"
}

end()
{
	works "in the end"
	same_state "$target_pid"
	end_target
}

while read -r probe name first again; do
	probe=fn:program:$probe

	# The uprobe goes first.
	begin
	ctl enable -p "$target_pid" "$probe"
	works "while it is traced"
	same "$probe: hits" "$(hits)" 10
	poke "$at" cc
	works "with both"
	poke "$at" "$first"
	works "without the uprobe"
	same "$probe: hits, without the uprobe" "$(hits)" "$again"
	ctl repair -p "$target_pid"
	works "after repair"
	same "$probe: hits after repair" "$(hits)" $((again + 10))
	ctl disable -p "$target_pid" "$probe"
	end

	# The same without a repair.
	begin
	ctl enable -p "$target_pid" "$probe"
	poke "$at" "$first"
	ctl disable -p "$target_pid" "$probe"
	end

	# We go first, and leave the code to which the kernel may lead yet.
	begin
	ctl enable -p "$target_pid" "$probe"
	poke "$at" cc
	"$PROBECTL" disable -q -p "$target_pid" "$probe" 2>"$SCRATCH/covered.err" &&
		fail "$probe: switched off below a breakpoint"
	says covered "a breakpoint covers our jump"
	works "with the uprobe alone"
	poke "$at" "$first"
	works "without either"
	ctl repair -p "$target_pid"
	end

	# The uprobe was there first.
	begin
	poke "$at" cc
	"$PROBECTL" enable -q -p "$target_pid" "$probe" 2>"$SCRATCH/first.err" && fail "$probe: enabled"
	says first "does not hold what the file holds"
	works "with the uprobe alone"
	poke "$at" "$first"
	ctl enable -p "$target_pid" "$probe"
	works "while it is traced, then"
	same "$probe: hits, then" "$(hits)" 10
	ctl disable -p "$target_pid" "$probe"
	end
done <<'END'
jumps jumps e9 20
hops hops eb 20
leaves leaves c3 10
leaves:return leaves c3 10
END
finish
