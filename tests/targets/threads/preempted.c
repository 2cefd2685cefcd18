/* SPDX-License-Identifier: MIT */
/*
 * flags: -D_GNU_SOURCE
 *
 * User threads that a signal handler preempts by its own switch, without user contexts. Their
 * stacks are in an array of main's frame, and the highest of them reads lines: while it waits,
 * the others are below its stack pointer, with their frames in memory that looks unused.
 *
 *	preempted stub|between raw|setjmp BYTES COUNT
 *
 * COUNT threads are interrupted in code outside the program (a stub), or between the
 * instructions after a probe. Their stack pointers are stored directly, or by setjmp(3). BYTES
 * is the size of a stack.
 *
 * Prints "ready PID"; after one line "caught", after the next "free wrong M", where M counts
 * wrong results.
 */
#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

#define PROVIDER preempted
#include "between.h"
#include "../target.h"

enum { THREADS_MAX = 64 };

extern char __executable_start, etext;
void swap_stacks(void **from, void *to);
/* clang-format off */
#ifdef __x86_64__
enum { SAVED_WORDS = 7 };
__asm__("	.text\n"
	"swap_stacks:\n"
	"	push %rbp\n	push %rbx\n	push %r12\n	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n	pop %rbx\n	pop %rbp\n"
	"	ret\n");
#else
enum { SAVED_WORDS = 20 };
__asm__("	.text\n"
	"swap_stacks:\n"
	"	sub sp, sp, 160\n"
	"	stp d8, d9, [sp]\n	stp d10, d11, [sp, 16]\n"
	"	stp d12, d13, [sp, 32]\n	stp d14, d15, [sp, 48]\n"
	"	stp x19, x20, [sp, 64]\n	stp x21, x22, [sp, 80]\n	stp x23, x24, [sp, 96]\n"
	"	stp x25, x26, [sp, 112]\n	stp x27, x28, [sp, 128]\n	stp x29, x30, [sp, 144]\n"
	"	mov x2, sp\n"
	"	str x2, [x0]\n"
	"	mov sp, x1\n"
	"	ldp d8, d9, [sp]\n	ldp d10, d11, [sp, 16]\n"
	"	ldp d12, d13, [sp, 32]\n	ldp d14, d15, [sp, 48]\n"
	"	ldp x19, x20, [sp, 64]\n	ldp x21, x22, [sp, 80]\n	ldp x23, x24, [sp, 96]\n"
	"	ldp x25, x26, [sp, 112]\n	ldp x27, x28, [sp, 128]\n	ldp x29, x30, [sp, 144]\n"
	"	add sp, sp, 160\n"
	"	ret\n");
#endif
/* clang-format on */

static struct {
	void *sp;
	jmp_buf registers;
	volatile sig_atomic_t caught;
} threads[THREADS_MAX + 1]; /* the last one reads lines */

static int count, current;
static bool in_stub, uses_setjmp;
static void *starter;
static volatile sig_atomic_t passing;
static unsigned long passes, wrong;
static uintptr_t between;

static void switch_to(int next)
{
	int from = current;

	current = next;
	if (!uses_setjmp)
		swap_stacks(&threads[from].sp, threads[next].sp);
	else if (!_setjmp(threads[from].registers))
		_longjmp(threads[next].registers, 1);
}

static void set_timer(int microseconds)
{
	struct itimerval interval = {{0, microseconds}, {0, microseconds}};

	setitimer(ITIMER_REAL, &interval, NULL);
}

static void on_signal(int number, siginfo_t *info, void *data)
{
	uintptr_t pc = interrupted_at(data);
	bool is_own = pc >= (uintptr_t)&__executable_start && pc < (uintptr_t)&etext;

	(void)number;
	(void)info;
	if (!passing || (in_stub && is_own))
		return;
	set_timer(0);
	if (!in_stub && !step_to(data, between))
		return;
	passing = 0;
	threads[current].caught = 1;
	switch_to(current + 1);
}

static void pass_until_caught(int self)
{
	sigset_t signals;

	threads[self].caught = 0;
	sigemptyset(&signals);
	sigaddset(&signals, SIGALRM);
	sigaddset(&signals, SIGTRAP);
	set_timer(150);
	sigprocmask(SIG_UNBLOCK, &signals, NULL);
	passing = 1; /* code of libc is no stub */
	while (!threads[self].caught) {
		passes++;
		wrong += mix(passes) != passes * 0x9e3779b97f4a7c15 + 0x10001;
	}
	scrub(8192);
	switch_to(self + 1);
}

static void talk(void)
{
	char line[64];

	do {
		switch_to(0); /* all are caught */
		printf("caught\n");
		fflush(stdout);
		(void)target_read_line(line, sizeof(line));
		switch_to(0); /* all continue */
		printf("free wrong %lu\n", wrong);
		fflush(stdout);
	} while (target_read_line(line, sizeof(line)) && line[0] != 'q');
	exit(0);
}

static void run(void)
{
	int self = current;

	if (!uses_setjmp || !_setjmp(threads[self].registers))
		swap_stacks(&threads[self].sp, starter);
	if (self == count)
		talk();
	for (;;)
		pass_until_caught(self);
}

static void start(int thread, char *stack, size_t bytes)
{
	void **sp = (void **)(((uintptr_t)stack + bytes) & ~(uintptr_t)15);

	/* The last of the saved words is the return address. */
	sp -= SAVED_WORDS + SAVED_WORDS % 2;
	memset(sp, 0, (SAVED_WORDS + SAVED_WORDS % 2) * sizeof(*sp));
	sp[SAVED_WORDS - 1] = (void *)run;
	current = thread;
	swap_stacks(&starter, sp);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
	size_t bytes;
	char *stacks;

	if (argc != 5)
		return 2;
	target_allow_tracing();
	between = find_between();
	in_stub = strcmp(argv[1], "stub") == 0;
	uses_setjmp = strcmp(argv[2], "setjmp") == 0;
	bytes = strtoul(argv[3], NULL, 10);
	count = atoi(argv[4]);
	if (count < 1 || count > THREADS_MAX || sigaction(SIGALRM, &action, NULL) != 0 ||
		sigaction(SIGTRAP, &action, NULL) != 0)
		return 3;
	target_wait();
	stacks = alloca(bytes * ((size_t)count + 1));
	for (int i = 0; i <= count; i++)
		start(i, stacks + bytes * (size_t)i, bytes);
	if (uses_setjmp)
		_longjmp(threads[count].registers, 1);
	swap_stacks(&starter, threads[count].sp);
	return 0;
}
