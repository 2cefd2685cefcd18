/* SPDX-License-Identifier: MIT */
/*
 * Checks that a hit leaves the machine state unchanged: all general registers, the flags (each of
 * them set and clear), the vector registers, and on x86-64 the red zone.
 *
 *	preserve [ROUNDS]	waits, hits, prints "hits N wrong M"
 */
#include <string.h>

#include "../target.h"

#ifdef __x86_64__

struct preserve_state {
	uint64_t gpr[15]; /* rax rbx rcx rdx rsi rdi rbp r8 … r15 */
	uint64_t flags;
	uint64_t zone[16]; /* the red zone, from -8(%rsp) down */
	uint64_t xmm[16][2];
};

enum {
	FLAG_CARRY = 0x1,
	FLAG_PARITY = 0x4,
	FLAG_ADJUST = 0x10,
	FLAG_ZERO = 0x40,
	FLAG_SIGN = 0x80,
	FLAG_DIRECTION = 0x400,
	FLAG_OVERFLOW = 0x800,
	FLAG_ALWAYS = 0x202, /* bit 1 reads as one; interrupts are on */
};

static const uint64_t flag_bits[] = {
	FLAG_CARRY, FLAG_PARITY, FLAG_ADJUST, FLAG_ZERO, FLAG_SIGN, FLAG_DIRECTION, FLAG_OVERFLOW};

#else /* aarch64 */

struct preserve_state {
	uint64_t gpr[31]; /* x0 … x30 */
	uint64_t flags;	  /* NZCV */
	uint64_t fpsr;	  /* the sums of exceptions, and saturation */
	uint64_t unused;
	uint64_t v[32][2];
};

enum { FLAG_ALWAYS = 0 };

static const uint64_t flag_bits[] = {1 << 28, 1 << 29, 1 << 30, UINT64_C(1) << 31};

#endif

struct preserve_state preserve_before, preserve_after;
const char *preserve_text = "kept";

void preserve_hit(void);

static uint64_t flags_of(unsigned int round)
{
	uint64_t flags = FLAG_ALWAYS;

	for (unsigned int i = 0; i < sizeof(flag_bits) / sizeof(flag_bits[0]); i++)
		if (round >> i & 1)
			flags |= flag_bits[i];
	return flags;
}

static unsigned int words_differ(void)
{
	const uint64_t *before = (const uint64_t *)&preserve_before;
	const uint64_t *after = (const uint64_t *)&preserve_after;
	unsigned int wrong = 0;

	for (size_t i = 0; i < sizeof(preserve_before) / 8; i++) {
		if (before[i] == after[i])
			continue;
		fprintf(stderr, "preserve: word %zu was %#llx, is %#llx\n", i,
			(unsigned long long)before[i], (unsigned long long)after[i]);
		wrong++;
	}
	return wrong;
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)atoi(argv[1]) : 256;
	unsigned int wrong = 0;
	uint64_t value = 0x9e3779b97f4a7c15;

	target_allow_tracing();
	target_wait();
	for (unsigned int round = 0; round < rounds; round++) {
		uint64_t *words = (uint64_t *)&preserve_before;

		for (size_t i = 0; i < sizeof(preserve_before) / 8; i++) {
			value = value * 6364136223846793005u + 1442695040888963407u;
			words[i] = value;
		}
		preserve_before.flags = flags_of(round);
#ifdef __aarch64__
		preserve_before.fpsr &= 0x0800009f;
		preserve_before.unused = 0;
#endif
		preserve_hit();
		wrong += words_differ();
	}
	printf("hits %u wrong %u\n", rounds, wrong);
	fflush(stdout);
	target_wait();
	return wrong ? 1 : 0;
}
