/* SPDX-License-Identifier: MIT */
/*
 * Waiting for events. All waits share one limit, the environment's TEST_SECONDS: it ends a test
 * that hangs, and is so long that a slow or busy machine never reaches it.
 */
#ifndef TESTS_UNIT_WAIT_H
#define TESTS_UNIT_WAIT_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The limit, for alarm(2) and the like. */
static inline unsigned int test_seconds(void)
{
	const char *text = getenv("TEST_SECONDS");
	long seconds = text ? strtol(text, NULL, 10) : 0;

	return seconds > 0 && seconds < 1000000 ? (unsigned int)seconds : 300;
}

/* For wait_until(). This may be a child or a second thread, so it cannot fail the way cmocka does.
 */
static inline void wait_turn(time_t *end, const char *condition, const char *file, int line)
{
	const struct timespec pause = {.tv_nsec = 100000};
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (!*end)
		*end = now.tv_sec + (time_t)test_seconds();
	if (now.tv_sec > *end) {
		fprintf(stderr, "%s:%d: waited %u s in vain until %s\n", file, line, test_seconds(),
			condition);
		abort();
	}
	nanosleep(&pause, NULL);
}

/* Waits until a condition holds. Ends the program if that takes longer than the limit. */
#define wait_until(condition)                                                                      \
	do {                                                                                       \
		time_t wait_end_ = 0;                                                              \
                                                                                                   \
		while (!(condition))                                                               \
			wait_turn(&wait_end_, #condition, __FILE__, __LINE__);                     \
	} while (0)

#endif
