#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# runs-as: root
# A system call never moves: it would come from another address, by which the program may have its
# calls handled (PR_SET_SYSCALL_USER_DISPATCH) or a seccomp filter may judge them; and a thread that
# waits in one is set back to it after a stop.
. tests/integration/lib.sh
need cc
need_attach
need_short_nops

program=$SCRATCH/program
cat >"$program.c" <<'C'
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

__asm__(".text; .balign 64; .globl raw; .type raw,@function\n"
	"raw: mov $39,%eax; syscall; cmp $-1,%rax; ret; .size raw,.-raw\n"
	".balign 64,0xcc; .globl raw_end; raw_end:\n");
long raw(void);
extern char raw_end[];

static volatile char selector;

static int dispatch(void)
{
	return prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, raw, raw_end - (char *)raw, &selector);
}

/* A filter that kills for getpid() from elsewhere in the same 4 GiB. */
static int filter(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned int)(long)raw + 7, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = {sizeof(code) / sizeof(*code), code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all);
}

int main(void)
{
	long wrong, pid = getpid();
	char line[64];

	setvbuf(stdout, NULL, _IOLBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		if (!strcmp(line, "dispatch\n")) {
			puts(dispatch() ? "not supported" : "on");
			continue;
		}
		if (!strcmp(line, "filter\n")) {
			puts(filter() ? "not supported" : "on");
			continue;
		}
		wrong = 0;
		selector = 1; /* SYSCALL_DISPATCH_FILTER_BLOCK */
		for (int i = atoi(line); i > 0; i--)
			wrong += raw() != pid;
		selector = 0;
		printf("wrong %ld\n", wrong);
	}
	return 0;
}
C
cc -O1 -o "$program" "$program.c" || die "cannot build the program"

works()
{
	ask 10
	same "$1" "$answer" "wrong 0"
}

start "$program"
save_state "$target_pid"
works "alone"
"$PROBECTL" enable -p "$target_pid" fn:program:raw 2>"$SCRATCH/alone.err" && fail "it moved"
says alone "cannot run elsewhere"
same_state "$target_pid"
end_target

start "$program"
save_state "$target_pid"
ask filter
same "a filter" "$answer" on
"$PROBECTL" enable -p "$target_pid" fn:program:raw 2>"$SCRATCH/filter.err" && fail "enabled under a filter"
says filter "the seccomp filter of process $target_pid looks at the addresses of system calls\|cannot run elsewhere"
works "under a filter"
same_state "$target_pid"
end_target

start "$program"
save_state "$target_pid"
ask dispatch
# Before Linux 6.4, nobody can know of it.
if [ "$answer" = on ] && printf '%s\n' 6.4 "$(uname -r)" | sort -CV; then
	"$PROBECTL" enable -p "$target_pid" fn:program:raw 2>"$SCRATCH/dispatch.err" &&
		fail "enabled although the program handles calls"
	says dispatch "cannot run elsewhere"
	works "its own calls"
	ctl enable -p "$target_pid" fn:program:main
	works "its own calls, with another function"
	ctl disable -p "$target_pid" fn:program:main
fi
same_state "$target_pid"
end_target
finish
