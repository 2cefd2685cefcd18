/* SPDX-License-Identifier: MIT */
/*
 * The cost of instrumentation for a program: `events KIND CALLS ROUNDS` prints the nanoseconds
 * per call, the median of the rounds; per new name, out of 100, for `open` (they are opened),
 * `group` (they are opened, and then each is used) and `use` (each is opened and used at once).
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include <probe/pmtrace.h>
#include <probe/posix_trace.h>

enum { ROUNDS_MAX = 101, NAMES = 100 };

__extension__ unsigned short bench_guarded_semaphore __attribute__((section(".probes")));

static trace_event_id_t event;
static char data[] = "a few bytes";

/* Calls are measured in processor time, so other programs do not count. */
static uint64_t now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* One loop for each kind, so that no loop has to choose between calls. */
#define LOOP(name, call)                                                                           \
	__attribute__((noinline)) static void name(long calls)                                     \
	{                                                                                          \
		for (long i = 0; i < calls; i++) {                                                 \
			__asm__ volatile("" ::: "memory");                                         \
			call;                                                                      \
		}                                                                                  \
	}

LOOP(bare, (void)0)
LOOP(guarded, if (bench_guarded_semaphore) STAP_PROBE2(bench, guarded, data, sizeof(data)))
LOOP(pass_event, posix_trace_event(event, data, sizeof(data)))
LOOP(point, pmtracepoint("a tag"))
LOOP(obs, pmtraceobs("a tag", 1.5))
LOOP(pair, pmtracebegin("a tag"); pmtraceend("a tag"))

static const struct {
	const char *name;
	void (*loop)(long calls);
} kinds[] = {
	{"bare", bare},
	{"guarded", guarded},
	{"event", pass_event},
	{"point", point},
	{"obs", obs},
	{"pair", pair},
};

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static int open_names(bool used, bool at_once)
{
	uint64_t start = now_ns(CLOCK_MONOTONIC);
	trace_event_id_t ids[NAMES];

	for (int i = 0; i < NAMES; i++) {
		char name[32];

		snprintf(name, sizeof(name), "bench.%d", i);
		if (posix_trace_eventid_open(name, &ids[i]))
			return 1;
		if (at_once)
			posix_trace_event(ids[i], data, sizeof(data));
	}
	for (int i = 0; used && i < NAMES; i++)
		posix_trace_event(ids[i], data, sizeof(data));
	printf("%.0f\n", (double)(now_ns(CLOCK_MONOTONIC) - start) / NAMES);
	return 0;
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	long calls = argc > 2 ? atol(argv[2]) : 1000000;
	int rounds = argc > 3 ? atoi(argv[3]) : 9;
	double figures[ROUNDS_MAX];

	if (!strcmp(kind, "open"))
		return open_names(false, false);
	if (!strcmp(kind, "group"))
		return open_names(true, false);
	if (!strcmp(kind, "use"))
		return open_names(false, true);
	if (rounds < 1 || rounds > ROUNDS_MAX || posix_trace_eventid_open("bench", &event))
		return 1;
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (strcmp(kinds[k].name, kind) != 0)
			continue;
		for (int i = 0; i < rounds; i++) {
			uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);

			kinds[k].loop(calls);
			figures[i] =
				(double)(now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / (double)calls;
		}
		qsort(figures, (size_t)rounds, sizeof(figures[0]), compare);
		printf("%.2f\n", figures[rounds / 2]);
		return 0;
	}
	return 2;
}
