/* SPDX-License-Identifier: MIT */
/*
 * A function with a probe, and an address right after it that a jump overwrites: for programs
 * that are interrupted there. The including file defines PROVIDER, the provider of probe `mix`.
 */
#ifndef TESTS_BETWEEN_H
#define TESTS_BETWEEN_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/sdt.h>
#include <ucontext.h>

/*
 * On x86-64 a jump after the probe's nop replaces both instructions; nothing here calls libc.
 */
__attribute__((noinline, noclone)) static unsigned long mix(unsigned long n)
{
	unsigned long mixed = n * 0x9e3779b97f4a7c15;

	STAP_PROBE2(PROVIDER, mix, n, mixed);
#ifdef __x86_64__
	__asm__ volatile("incq %0\n"
			 "addq $0x10000, %0"
			 : "+a"(mixed)
			 :
			 : "cc");
#else
	__asm__ volatile("add %0, %0, 1\n"
			 "add %0, %0, 0x10000"
			 : "+r"(mixed));
#endif
	return mixed;
}

/*
 * The second of them: if its address were taken, it could be a jump target. 0: a jump replaces one
 * instruction, so none is between.
 */
static inline uintptr_t find_between(void)
{
#ifdef __x86_64__
	static const char both[] = {0x48, (char)0xff, (char)0xc0, 0x48, 0x05};
	const char *found = memmem((const void *)mix, 128, both, sizeof(both));

	return found ? (uintptr_t)found + 3 : 0;
#else
	return 0;
#endif
}

/* Where a handler has interrupted the thread. */
static inline uintptr_t interrupted_at(const ucontext_t *context)
{
#ifdef __x86_64__
	return (uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#else
	return context->uc_mcontext.pc;
#endif
}

/*
 * Called by the handler of SIGALRM and SIGTRAP: is the thread at an address? If not, it makes one
 * step. Between two instructions that a processor ends at once, no timer comes by itself. Only
 * x86-64 has such an address.
 */
static inline bool step_to(ucontext_t *context, uintptr_t address)
{
	bool ret = interrupted_at(context) == address;

#ifdef __x86_64__
	enum { TRAP_FLAG = 0x100 };

	context->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
	if (!ret)
		context->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
#endif
	return ret;
}

/* Overwrites what handlers have left on the stack: it would look like a frame to return to. */
__attribute__((noinline)) static void scrub(size_t bytes)
{
	volatile char room[bytes];

	for (size_t i = 0; i < bytes; i++)
		room[i] = 0;
}

#endif
