/* SPDX-License-Identifier: MIT */
/*
 * flags: -D_GNU_SOURCE
 *
 * A timer's handler that waits for a line if it has interrupted code outside the program: a
 * stub. So the thread stays there as long as the test wants.
 *
 * Prints "ready PID"; after one line "caught", after the next "free N wrong M", after N passes
 * of the probe.
 */
#include <signal.h>
#include <sys/sdt.h>
#include <sys/time.h>
#include <ucontext.h>

#include "target.h"

extern char __executable_start, etext;

static volatile sig_atomic_t caught;
static unsigned long passes, wrong;

static void on_timer(int number, siginfo_t *info, void *data)
{
	const ucontext_t *context = data;
	uintptr_t pc = (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
	char line[64];

	(void)number;
	(void)info;
	if (caught || (pc >= (uintptr_t)&__executable_start && pc < (uintptr_t)&etext))
		return;
	printf("caught\n");
	fflush(stdout);
	caught = 1;
	(void)target_read_line(line, sizeof(line));
}

/* The instructions after the probe are moved; nothing here calls libc. */
__attribute__((noinline)) static unsigned long mix(unsigned long n)
{
	unsigned long mixed = n * 0x9e3779b97f4a7c15;

	STAP_PROBE2(caught, mix, n, mixed);
	__asm__ volatile("addq $0x10001, %0" : "+r"(mixed) : : "cc");
	return mixed;
}

static void pass_until_caught(void)
{
	struct itimerval interval = {{0, 150}, {0, 150}}, none = {{0, 0}, {0, 0}};

	caught = 0;
	setitimer(ITIMER_REAL, &interval, NULL);
	while (!caught) {
		passes++;
		wrong += mix(passes) != passes * 0x9e3779b97f4a7c15 + 0x10001;
	}
	setitimer(ITIMER_REAL, &none, NULL);
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_timer, .sa_flags = SA_SIGINFO | SA_RESTART};
	char line[64];

	target_allow_tracing();
	sigaction(SIGALRM, &action, NULL);
	target_wait();
	do {
		pass_until_caught();
		printf("free %lu wrong %lu\n", passes, wrong);
		fflush(stdout);
	} while (target_read_line(line, sizeof(line)) && line[0] != 'q');
	return wrong != 0;
}
