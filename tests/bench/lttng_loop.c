/* SPDX-License-Identifier: MIT */
/*
 * The loop of tests/targets/loops/loop.c with an LTTng-UST tracepoint compiled in.
 *
 *	lttng_loop nop|string|bare HITS ROUNDS THREADS [RATE]
 *
 * prints "HITS NS" as that one does. It waits between rounds, so that the consumer can empty
 * the buffers. With RATE each thread makes RATE hits a second.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "../targets/loops/pace.h"
#include "lttng_provider.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 101, THREADS_MAX = 16, PAUSE_US = 20000 };

struct work {
	const char *kind;
	uint64_t hits, rate;
	pthread_barrier_t *start;
	uint64_t done;
	double ns;
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

__attribute__((noinline)) static uint64_t loop_nop(uint64_t hits, const char *text)
{
	uint64_t i;

	(void)text;
	for (i = 0; i < hits; i++)
		lttng_ust_tracepoint(bench_lttng, hit, hits - i, i, hits);
	return i;
}

__attribute__((noinline)) static uint64_t loop_string(uint64_t hits, const char *text)
{
	uint64_t i;

	for (i = 0; i < hits; i++)
		lttng_ust_tracepoint(bench_lttng, text, hits - i, i, text);
	return i;
}

__attribute__((noinline)) static uint64_t loop_bare(uint64_t hits, const char *text)
{
	uint64_t i;

	(void)text;
	for (i = 0; i < hits; i++)
		__asm__ volatile("" ::"r"(hits - i), "r"(i));
	return i;
}

static void *work_run(void *data)
{
	static const char text[] = "the quick brown fox jumps";
	struct work *work = data;
	uint64_t (*run)(uint64_t hits, const char *text) = loop_bare;
	double begin;

	if (strcmp(work->kind, "nop") == 0)
		run = loop_nop;
	else if (strcmp(work->kind, "string") == 0)
		run = loop_string;
	pthread_barrier_wait(work->start);
	begin = now_ns();
	work->done = work->rate ? pace(run, text, work->hits, work->rate) : run(work->hits, text);
	work->ns = (now_ns() - begin) / (double)work->hits;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	double ns[ROUNDS_MAX];
	uint64_t done = 0;
	long rounds, threads;

	if (argc != 5 && argc != 6)
		return 2;
	rounds = strtol(argv[3], NULL, 10);
	threads = strtol(argv[4], NULL, 10);
	if (rounds < 1 || rounds > ROUNDS_MAX || threads < 1 || threads > THREADS_MAX)
		return 2;
	for (long round = 0; round < rounds; round++) {
		struct work works[THREADS_MAX];
		pthread_t ids[THREADS_MAX];
		pthread_barrier_t start;

		pthread_barrier_init(&start, NULL, (unsigned int)threads);
		for (long i = 0; i < threads; i++) {
			works[i] = (struct work){.kind = argv[1],
				.hits = strtoull(argv[2], NULL, 10),
				.rate = argc == 6 ? strtoull(argv[5], NULL, 10) : 0,
				.start = &start};
			if (pthread_create(&ids[i], NULL, work_run, &works[i]) != 0)
				return 1;
		}
		ns[round] = 0;
		for (long i = 0; i < threads; i++) {
			pthread_join(ids[i], NULL);
			done += works[i].done;
			if (works[i].ns > ns[round])
				ns[round] = works[i].ns;
		}
		pthread_barrier_destroy(&start);
		usleep(PAUSE_US);
	}
	qsort(ns, (size_t)rounds, sizeof(ns[0]), compare);
	printf("%llu %.2f\n", (unsigned long long)done, ns[rounds / 2]);
	return 0;
}
