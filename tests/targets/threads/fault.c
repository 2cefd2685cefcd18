/* SPDX-License-Identifier: MIT */
/*
 * An instruction after a probe that faults: the handler of SIGSEGV reports it, waits for a
 * line, and then lets the instruction be repeated. So a thread stays as long as the test wants
 * in a handler that returns into the moved instruction.
 *
 * Prints "ready PID"; after one line "fault", after the next "N" touches.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/sdt.h>

#include "../target.h"

enum { PAGE = 4096 };

static int *page;

static void on_fault(int number)
{
	char line[64];

	(void)number;
	printf("fault\n");
	fflush(stdout);
	(void)target_read_line(line, sizeof(line));
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
}

/* What faults is long enough for a jump at the probe to replace it. */
__attribute__((noinline)) static void touch(int *at)
{
#ifdef __x86_64__
	STAP_PROBE1(fault, touch, at);
	__asm__ volatile("addl $0x10001, (%0)" : : "D"(at) : "memory", "cc");
#else
	int value = *at + 0x10001;

	STAP_PROBE1(fault, touch, at);
	__asm__ volatile("str %w1, [%0]" : : "r"(at), "r"(value) : "memory");
#endif
}

int main(void)
{
	char line[64];

	target_allow_tracing();
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	signal(SIGSEGV, on_fault);
	target_wait();
	do {
		mprotect(page, PAGE, PROT_READ);
		touch(page);
		target_use_stack();
		printf("%d\n", *page % 0x10000);
		fflush(stdout);
	} while (target_read_line(line, sizeof(line)) && line[0] != 'q');
	return 0;
}
