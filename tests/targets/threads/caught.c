/* SPDX-License-Identifier: MIT */
/*
 * flags: -D_GNU_SOURCE
 *
 * A timer's handler that waits for a line if it has interrupted code outside the program: a
 * stub. So the thread stays there as long as the test wants.
 *
 *	caught [gone]	gone: the handler is taken away while it waits
 *
 * Prints "ready PID"; after one line "caught", after the next "free N wrong M", after N passes
 * of the probe.
 */
#include <signal.h>
#include <sys/sdt.h>
#include <sys/time.h>
#include <ucontext.h>

#include "../target.h"

extern char __executable_start, etext;

static volatile sig_atomic_t caught;
static bool goes;
static unsigned long passes, wrong;

static void on_timer(int number, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;
#ifdef __x86_64__
	uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
	uintptr_t pc = context->uc_mcontext.pc;
#endif
	char line[64];

	(void)number;
	(void)info;
	if (caught || (pc >= (uintptr_t)&__executable_start && pc < (uintptr_t)&etext))
		return;
	printf("caught\n");
	fflush(stdout);
	caught = 1;
	if (goes)
		signal(SIGALRM, SIG_IGN);
	(void)target_read_line(line, sizeof(line));
}

/* The instructions after the probe are moved; nothing here calls libc. */
__attribute__((noinline)) static unsigned long mix(unsigned long n)
{
	unsigned long mixed = n * 0x9e3779b97f4a7c15;

	STAP_PROBE2(caught, mix, n, mixed);
#ifdef __x86_64__
	__asm__ volatile("addq $0x10001, %0" : "+r"(mixed) : : "cc");
#else
	__asm__ volatile("add %0, %0, %1" : "+r"(mixed) : "r"(0x10001UL));
#endif
	return mixed;
}

static void pass_until_caught(void)
{
	struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
	struct itimerval interval = {{0, 150}, {0, 150}}, none = {{0, 0}, {0, 0}};

	sigaction(SIGALRM, &action, NULL);
	caught = 0;
	setitimer(ITIMER_REAL, &interval, NULL);
	while (!caught) {
		passes++;
		wrong += mix(passes) != passes * 0x9e3779b97f4a7c15 + 0x10001;
	}
	setitimer(ITIMER_REAL, &none, NULL);
}

int main(int argc, char **argv)
{
	char line[64];

	(void)argv;
	goes = argc > 1;
	target_allow_tracing();
	target_wait();
	do {
		pass_until_caught();
		target_use_stack();
		printf("free %lu wrong %lu\n", passes, wrong);
		fflush(stdout);
	} while (target_read_line(line, sizeof(line)) && line[0] != 'q');
	return wrong != 0;
}
