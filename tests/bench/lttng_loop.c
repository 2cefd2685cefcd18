/* SPDX-License-Identifier: MIT */
/*
 * The loop of tests/targets/loop.c with an LTTng-UST tracepoint compiled in.
 *
 *	lttng_loop nop|string|bare HITS ROUNDS THREADS
 *
 * prints the nanoseconds of one iteration, the median of the rounds. Between
 * rounds it waits, so that the consumer can empty the buffers.
 */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
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
	uint64_t hits;
	pthread_barrier_t *start;
	double ns;
};

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

__attribute__((noinline)) static void loop_nop(uint64_t hits)
{
	for (uint64_t i = 0; i < hits; i++)
		lttng_ust_tracepoint(bench_lttng, hit, hits - i, i, hits);
}

__attribute__((noinline)) static void loop_string(uint64_t hits, const char *text)
{
	for (uint64_t i = 0; i < hits; i++)
		lttng_ust_tracepoint(bench_lttng, text, hits - i, i, text);
}

__attribute__((noinline)) static void loop_bare(uint64_t hits)
{
	for (uint64_t i = 0; i < hits; i++)
		__asm__ volatile("" ::"r"(hits - i), "r"(i));
}

static void *work_run(void *data)
{
	struct work *work = data;
	double begin;

	pthread_barrier_wait(work->start);
	begin = now_ns();
	if (strcmp(work->kind, "nop") == 0)
		loop_nop(work->hits);
	else if (strcmp(work->kind, "string") == 0)
		loop_string(work->hits, "the quick brown fox jumps");
	else
		loop_bare(work->hits);
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
	long rounds, threads;

	if (argc != 5)
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
			works[i] = (struct work){argv[1], strtoull(argv[2], NULL, 10), &start, 0};
			if (pthread_create(&ids[i], NULL, work_run, &works[i]) != 0)
				return 1;
		}
		ns[round] = 0;
		for (long i = 0; i < threads; i++) {
			pthread_join(ids[i], NULL);
			if (works[i].ns > ns[round])
				ns[round] = works[i].ns;
		}
		pthread_barrier_destroy(&start);
		usleep(PAUSE_US);
	}
	qsort(ns, (size_t)rounds, sizeof(ns[0]), compare);
	printf("%.2f\n", ns[rounds / 2]);
	return 0;
}
