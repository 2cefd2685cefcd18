/* SPDX-License-Identifier: MIT */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "victim.h"

#define SEMAPHORE(name)                                                                            \
	unsigned short victim_##name##_semaphore __attribute__((section(".probes"), used))

SEMAPHORE(hit);
SEMAPHORE(third);
SEMAPHORE(carry);
SEMAPHORE(handler);
SEMAPHORE(thread);

/* The flags that the addition sets are read after the probe. */
#if defined(__x86_64__)
#define CARRY_CODE(between)                                                                        \
	do {                                                                                       \
		uint64_t sum = b;                                                                  \
		uint8_t carry, parity, sign;                                                       \
		__asm__ volatile("addq %4, %0\n\t" between "setc %1\n\tsetp %2\n\tsets %3"         \
				 : "+&r"(sum), "=&q"(carry), "=&q"(parity), "=&q"(sign)            \
				 : "r"(a)                                                          \
				 : "cc");                                                          \
		carries += carry + 2 * parity + 4 * sign + sum;                                    \
	} while (0)
#elif defined(__aarch64__)
#define CARRY_CODE(between)                                                                        \
	do {                                                                                       \
		uint64_t sum = b, flags;                                                           \
		__asm__ volatile("adds %0, %0, %2\n\t" between "mrs %1, nzcv"                      \
				 : "+&r"(sum), "=&r"(flags)                                        \
				 : "r"(a)                                                          \
				 : "cc");                                                          \
		carries += (flags >> 28) + sum;                                                    \
	} while (0)
#endif

/* A probe inside assembly: the note is written by hand (SystemTap's user space markers). */
#define CARRY_NOTE                                                                                 \
	"990: nop\n\t"                                                                             \
	".pushsection .note.stapsdt,\"\",\"note\"\n\t"                                             \
	".balign 4\n\t.4byte 992f-991f, 994f-993f, 3\n"                                            \
	"991: .asciz \"stapsdt\"\n"                                                                \
	"992: .balign 4\n"                                                                         \
	"993: .8byte 990b\n\t.8byte _.stapsdt.base\n\t.8byte victim_carry_semaphore\n\t"           \
	".asciz \"victim\"\n\t.asciz \"carry\"\n\t.asciz \"\"\n"                                   \
	"994: .balign 4\n\t.popsection\n\t"

#define PROBE(name, first, second) STAP_PROBE2(victim, name, first, second)
#define CARRY(sum, first, second) CARRY_CODE(CARRY_NOTE)
#define MIX mix_probed
#include "victim_mix.h"

#undef PROBE
#undef CARRY
#undef MIX
#define PROBE(name, first, second)                                                                 \
	do {                                                                                       \
	} while (0)
#define CARRY(sum, first, second) CARRY_CODE("")
#define MIX mix_plain
#include "victim_mix.h"

void victim_handler(int number)
{
	STAP_PROBE1(victim, handler, number);
}

void victim_thread(uint64_t number)
{
	STAP_PROBE1(victim, thread, number);
}
