/* SPDX-License-Identifier: MIT */
/*
 * The cost of a function connected to a probe for the program itself, per hit: a probe with
 * three integers in a loop, in one thread and in two.
 *
 *	self HITS ROUNDS
 *
 * prints lines "NAME<tab>NS<tab>NS": the time above the bare loop, the median of the rounds.
 *
 *	self changes ROUNDS
 *
 * prints lines "NAME<tab>US<tab>-" for registering and unregistering the function.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sdt.h>
#include <time.h>

#include <probe/self.h>

enum { THREADS_MAX = 2, ROUNDS_MAX = 101 };

static const char pattern[] = "bench_self:hit";
static const char text[] = "a string of some thirty bytes";
static long hits = 5000000;
static int rounds = 9;

static void check(struct probe_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "%s\n", error->message);
	exit(1);
}

/* Each thread has its own counter: only the call and the return are measured. */
static _Thread_local volatile long called;

__attribute__((noinline)) static void function(const struct probe_self_hit *hit, void *data)
{
	(void)hit;
	(void)data;
	called++;
}

/* The same, and it uses a vector register: what is in use of them is saved and restored. */
__attribute__((noinline)) static void function_vector(const struct probe_self_hit *hit, void *data)
{
	static const double one = 1;

	__asm__ volatile("movsd %0, %%xmm0" : : "m"(one) : "xmm0");
	function(hit, data);
}

/* ---- The loops ------------------------------------------------------------------------ */

enum loop { LOOP_BARE, LOOP_PROBE, LOOP_DIRECT };

static enum loop loop;
static void (*volatile direct)(const struct probe_self_hit *hit, void *data) = function;

static double now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* In the thread's processor time: nothing here sleeps, and other programs run as well. */
static void *run(void *data)
{
	double begin = now_ns(CLOCK_THREAD_CPUTIME_ID);
	long a = 1, b = 2;

	for (long i = 0; i < hits; i++) {
		__asm__ volatile("" : "+r"(a), "+r"(b));
		if (loop == LOOP_PROBE)
			STAP_PROBE3(bench_self, hit, i, a, text);
		else if (loop == LOOP_DIRECT)
			direct(NULL, NULL);
	}
	*(double *)data = (now_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / (double)hits;
	return NULL;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The slower thread's iteration. */
static double measure(enum loop which, int threads)
{
	double results[ROUNDS_MAX];

	loop = which;
	for (int r = 0; r < rounds; r++) {
		pthread_t ids[THREADS_MAX];
		double ns[THREADS_MAX];

		for (int t = 0; t < threads; t++)
			pthread_create(&ids[t], NULL, run, &ns[t]);
		for (int t = 0; t < threads; t++)
			pthread_join(ids[t], NULL);
		results[r] = threads == 2 && ns[1] > ns[0] ? ns[1] : ns[0];
	}
	qsort(results, (size_t)rounds, sizeof(*results), compare);
	return results[rounds / 2];
}

static void row(const char *name, enum loop which)
{
	double above[THREADS_MAX];

	for (int t = 0; t < THREADS_MAX; t++)
		above[t] = measure(which, t + 1) - measure(LOOP_BARE, t + 1);
	printf("%s\t%.1f\t%.1f\n", name, above[0], above[1]);
	fflush(stdout);
}

static void row_with(const char *name, const char *what, int functions,
	void (*call)(const struct probe_self_hit *hit, void *data))
{
	static int data[8];

	for (int i = 0; i < functions; i++)
		check(probe_self_register(what, call, &data[i]));
	row(name, LOOP_PROBE);
	for (int i = 0; i < functions; i++)
		check(probe_self_unregister(what, call, &data[i]));
}

static void row_enabled(const char *name)
{
	struct probe_report report = {0};
	struct probe_pattern *parsed;

	check(probe_pattern_parse(pattern, &parsed));
	{
		const struct probe_pattern *const patterns[] = {parsed};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		check(probe_self_enable(&request, &report));
		row(name, LOOP_PROBE);
		check(probe_self_disable(&request, &report));
	}
	probe_report_deinit(&report);
	probe_pattern_free(parsed);
}

/* Register and unregister, microseconds. */
static void row_changes(const char *name)
{
	double results[ROUNDS_MAX];

	for (int r = 0; r < rounds; r++) {
		double begin = now_ns(CLOCK_MONOTONIC);

		check(probe_self_register(pattern, function, NULL));
		check(probe_self_unregister(pattern, function, NULL));
		results[r] = (now_ns(CLOCK_MONOTONIC) - begin) / 1e3;
	}
	qsort(results, (size_t)rounds, sizeof(*results), compare);
	printf("%s\t%.0f\t-\n", name, results[rounds / 2]);
}

/* Memory in pages of 4 KiB, whose page tables fork(2) must copy. */
static void use_small_pages(size_t bytes)
{
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, bytes, MADV_NOHUGEPAGE) != 0) {
		perror("memory");
		exit(1);
	}
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at] = 1;
}

static void all_rows(void)
{
	row("the function called by the program itself", LOOP_DIRECT);
	row("probe that is off", LOOP_PROBE);
	row_enabled("probe_self_enable(): count");
	row_with("a connected function, one argument taken", "bench_self:hit(arg0)", 1, function);
	row_with("a connected function, three arguments", pattern, 1, function);
	row_with("a connected function, one is a string of 29 bytes",
		"bench_self:hit(arg0,arg1,str(arg2))", 1, function);
	row_with("a connected function that uses vector registers", pattern, 1, function_vector);
	row_with("four connected functions", pattern, 4, function);
}

int main(int argc, char **argv)
{
	if (argc > 2)
		rounds = atoi(argv[2]) < ROUNDS_MAX ? atoi(argv[2]) : ROUNDS_MAX;
	if (argc > 1 && !strcmp(argv[1], "changes")) {
		row_changes("registering and unregistering it, us");
		use_small_pages((size_t)1 << 30);
		row_changes("the same with 1 GiB of small pages in use, us");
		return 0;
	}
	if (argc > 1)
		hits = atol(argv[1]);
	all_rows();
	return 0;
}
