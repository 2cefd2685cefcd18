/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread */
/*
 * Spans whose length is known.
 *
 *	naps [COUNT]	waits; for each number below COUNT, nap__start(number, text, bad) and, 0, 5,
 *			10 or 15 ms later, nap__done(number, result); prints one line of JSON,
 *			[INNER, OUTER], ...: the nanoseconds between the probes, and around
 *			them; waits
 *
 * The text has 300 bytes, `bad` points to nothing.
 *
 *	naps COUNT apart	instead, nap__post(key, number) for each number, then in another
 *			thread, in reverse order, nap__take(key, number). The keys are texts,
 *			"request-NUMBER", each in a place of its own; two more pass nap__take that
 *			were never posted, "request-" and NULL; prints "done"
 */
#include <pthread.h>
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

static const char *key_of(uint64_t number)
{
	char *key;

	/* The memory of keys is never given back: none is where another one was. */
	if (asprintf(&key, "request-%ju", (uintmax_t)number) < 0)
		abort();
	return key;
}

static void __attribute__((noinline)) take(const char *key, uint64_t number)
{
	STAP_PROBE2(naps, nap__take, key, number);
	target_room_behind();
}

static void *take_all(void *data)
{
	for (uint64_t i = *(const uint64_t *)data; i-- > 0;)
		take(key_of(i), i);
	take("request-", 0);
	take(NULL, 0);
	return NULL;
}

static void apart(uint64_t count)
{
	pthread_t taker;

	for (uint64_t i = 0; i < count; i++) {
		const char *key = key_of(i);

		STAP_PROBE2(naps, nap__post, key, i);
		target_room_behind();
	}
	if (pthread_create(&taker, NULL, take_all, &count) != 0 || pthread_join(taker, NULL) != 0)
		abort();
	printf("done\n");
	fflush(stdout);
	target_wait();
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;

	if (count > NAPS_MAX)
		return 2;
	memset(text, 'x', TEXT_BYTES);
	target_allow_tracing();
	target_wait();
	if (argc > 2) {
		apart(count);
		return 0;
	}
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
