/* SPDX-License-Identifier: MIT */
/*
 * Spans whose length is known.
 *
 *	naps [COUNT]	waits; for each number below COUNT, nap__start(number, text, bad) and, 0, 5,
 *			10 or 15 ms later, nap__done(number, result); prints one line of JSON,
 *			[INNER, OUTER], ...: the nanoseconds between the probes, and around
 *			them; waits
 *
 * The text has 300 bytes, `bad` points to nothing.
 */
#include <string.h>
#include <sys/sdt.h>

#include "../target.h"

enum { NAPS_MAX = 1000, TEXT_BYTES = 300 };

static uint64_t inner[NAPS_MAX], outer[NAPS_MAX];
static char text[TEXT_BYTES + 1];

__attribute__((noinline)) static void nap(uint64_t number)
{
	struct timespec length = {.tv_nsec = (long)(number % 4) * 5000000};
	uint64_t before = target_now_ns(), begun, ending;
	const char *words = text, *bad = (const char *)8;

	STAP_PROBE3(naps, nap__start, number, words, bad);
	target_room_behind();
	begun = target_now_ns();
	if (length.tv_nsec)
		nanosleep(&length, NULL);
	ending = target_now_ns();
	STAP_PROBE2(naps, nap__done, number, number * 2);
	target_room_behind();
	outer[number] = target_now_ns() - before;
	inner[number] = ending - begun;
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;

	if (count > NAPS_MAX)
		return 2;
	memset(text, 'x', TEXT_BYTES);
	target_allow_tracing();
	target_wait();
	for (uint64_t i = 0; i < count; i++)
		nap(i);
	printf("[");
	for (uint64_t i = 0; i < count; i++)
		printf("%s[%ju,%ju]", i ? "," : "", (uintmax_t)inner[i], (uintmax_t)outer[i]);
	printf("]\n");
	fflush(stdout);
	target_wait();
	return 0;
}
