/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread */
/*
 * A process whose threads are not as they mostly are. It does what it is told, a line each,
 * and answers with one:
 *
 *	hit N	passes strange:hit(I, TEXT, NUMBER) N times	"hits N"
 *	check N	the same, with the alignment check on		"hits N"
 *
 * TEXT is a string, NUMBER a number in memory; neither is aligned. A result that is not the
 * one that it computes without the probe ends it with status 3.
 */
#include <string.h>
#include <sys/sdt.h>

#include "target.h"

enum { FLAG_AC = 1 << 18 };

static char bytes[] = "\0\0\0\x2a\0\0\0aligned nowhere, and rather long";

/* The number is an operand in memory. */
__attribute__((noinline)) static uint64_t work(uint64_t i, const char *number)
{
	uint64_t value = i * 3 + 7;

	__asm__ volatile("990: nop\n"
			 ".pushsection .note.stapsdt,\"?\",\"note\"\n"
			 ".balign 4\n"
			 ".4byte 992f-991f, 994f-993f, 3\n"
			 "991: .asciz \"stapsdt\"\n"
			 "992: .balign 4\n"
			 "993: .8byte 990b, _.stapsdt.base, 0\n"
			 ".asciz \"strange\"\n"
			 ".asciz \"hit\"\n"
			 ".asciz \"8@%%rdi 8@%%rcx 4@(%%rsi)\"\n"
			 "994: .balign 4\n"
			 ".popsection\n"
			 :
			 : "D"(i), "c"(number + 4), "S"(number)
			 : "memory");
	value ^= i * 0x9e3779b97f4a7c15;
	return value + (i << 7);
}

static uint64_t computed(uint64_t i)
{
	return ((i * 3 + 7) ^ (i * 0x9e3779b97f4a7c15)) + (i << 7);
}

static void check_alignment(bool on)
{
	uint64_t flags;

	__asm__ volatile("pushfq; pop %0" : "=r"(flags) : : "memory");
	flags = on ? flags | FLAG_AC : flags & ~(uint64_t)FLAG_AC;
	__asm__ volatile("push %0; popfq" : : "r"(flags) : "memory", "cc");
}

static void hit(int hits, bool checked)
{
	for (int i = 0; i < hits; i++) {
		uint64_t got;

		if (checked)
			check_alignment(true);
		got = work(i, bytes + 3);
		if (checked)
			check_alignment(false);
		if (got != computed(i))
			_exit(3);
	}
	printf("hits %d\n", hits);
}

int main(void)
{
	char line[100];
	int hits;

	STAP_PROBE(strange, started);
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (sscanf(line, "hit %d", &hits) == 1)
			hit(hits, false);
		else if (sscanf(line, "check %d", &hits) == 1)
			hit(hits, true);
		fflush(stdout);
	}
	return 0;
}
