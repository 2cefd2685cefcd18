/* SPDX-License-Identifier: MIT */
/*
 * Many copies of one probe, demo:event: several sites, and several semaphores, in the program
 * and in a library.
 *
 * Each source file that uses SEMAPHORES_DEFINE has its own semaphore: the symbol is local, as
 * in programs linked from several archives.
 */
#ifndef TESTS_SEMAPHORES_H
#define TESTS_SEMAPHORES_H

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

/* Room for a jump after a site, which no branch enters, where a jump is longer than a nop. */
#ifdef __x86_64__
#define SEMAPHORES_ROOM __asm__ volatile("lea 0(%%rsp), %%rsp\n\tlea 0(%%rsp), %%rsp" ::: "memory")
#else
#define SEMAPHORES_ROOM __asm__ volatile("" ::: "memory")
#endif

/* Two sites behind one test. Returns whether the semaphore was nonzero. */
#define SEMAPHORES_DEFINE(FUNCTION, WHERE)                                                         \
	__attribute__((                                                                            \
		section(".probes"), used)) static volatile unsigned short demo_event_semaphore;    \
	int FUNCTION(int value)                                                                    \
	{                                                                                          \
		if (!demo_event_semaphore)                                                         \
			return 0;                                                                  \
		if (value & 1) {                                                                   \
			STAP_PROBE2(demo, event, value, WHERE);                                    \
			SEMAPHORES_ROOM;                                                           \
		} else {                                                                           \
			STAP_PROBE2(demo, event, -value, WHERE);                                   \
			SEMAPHORES_ROOM;                                                           \
		}                                                                                  \
		return 1;                                                                          \
	}                                                                                          \
	unsigned int FUNCTION##_semaphore(void)                                                    \
	{                                                                                          \
		return demo_event_semaphore;                                                       \
	}

int semaphores_a(int value);
int semaphores_b(int value);
int semaphores_lib(int value);
int semaphores_stuck(int value);
unsigned int semaphores_a_semaphore(void);
unsigned int semaphores_b_semaphore(void);
unsigned int semaphores_lib_semaphore(void);
unsigned int semaphores_stuck_semaphore(void);

#endif
