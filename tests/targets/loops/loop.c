/* SPDX-License-Identifier: MIT */
/*
 * Hits one probe in a loop, a known number of times, and prints the cost of an iteration. All
 * counts and all figures of `make bench` are measured with it.
 *
 *	loop [-s SITE] [-n HITS] [-t THREADS] [-r ROUNDS] [-z MS] [-p RATE] [-w WHERE] [-b] [-a]
 *
 * Prints "HITS NS": all hits of all threads and rounds, and the nanoseconds of one iteration,
 * the median of the rounds (of the slowest thread in each). -z sleeps between rounds, so that a
 * tracer can empty its buffers. -p makes each thread hit RATE times a second (pace.h); NS is
 * then 10^9 / RATE if it succeeded. -w says where the text is: constant, data (a variable), stack
 * (of each thread, two pages above its stack pointer) or heap. -b and -a print "ready PID" and wait
 * for a line, before and after.
 *
 * SITE is the body of the loop:
 *	bare	nothing, for comparison
 *	nop	a probe of <sys/sdt.h> with three integers
 *	string	the same, but the last argument points to text
 *	nop10, nop5, pun	see loop_sites.S; on x86-64
 *	entered	the same on aarch64
 *	pair	two probes, pair__begin and pair__end
 *	function	no probe, but a call of the function loop_called
 *	inline	no probe, but a recorder compiled in: time, thread and three
 *		integers in a record of 40 bytes; the limit of what a tracer can do
 *	counter	no probe, but a counter in memory: the limit of counting
 */
#include <getopt.h>
#include <pthread.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#ifdef __x86_64__
#include <x86intrin.h>
#endif

#include "pace.h"
#include "../target.h"

enum { ROUNDS_MAX = 101, THREADS_MAX = 256, RING_RECORDS = 4096, STACK_TEXT = 8000, TEXT_MAX = 32 };

struct record {
	uint64_t time;
	uint32_t site;
	uint32_t tid;
	uint64_t args[3];
};
_Static_assert(sizeof(struct record) == 40, "as large as probectl's with three arguments");

struct ring {
	uint64_t head;
	struct record records[RING_RECORDS];
};

#ifdef __x86_64__
uint64_t loop_nop10(uint64_t hits, const char *text);
uint64_t loop_nop5(uint64_t hits, const char *text);
uint64_t loop_pun(uint64_t hits, const char *text);
#else
uint64_t loop_entered(uint64_t hits, const char *text);
#endif

static __thread struct ring thread_ring;
static __thread volatile uint64_t thread_counter;

__attribute__((noinline)) static uint64_t loop_bare(uint64_t hits, const char *text)
{
	uint64_t i;

	for (i = 0; i < hits; i++)
		__asm__ volatile("" ::"r"(hits - i), "r"(i), "r"(text));
	return i;
}

__attribute__((noinline)) static uint64_t loop_nop(uint64_t hits, const char *text)
{
	uint64_t i;

	(void)text;
	for (i = 0; i < hits; i++)
		STAP_PROBE3(loop, nop, hits - i, i, hits);
	return i;
}

__attribute__((noinline)) static uint64_t loop_string(uint64_t hits, const char *text)
{
	uint64_t i;

	for (i = 0; i < hits; i++)
		STAP_PROBE3(loop, string, hits - i, i, text);
	return i;
}

__attribute__((noinline)) static uint64_t loop_pair(uint64_t hits, const char *text)
{
	uint64_t i, between = 0;

	(void)text;
	for (i = 0; i < hits; i++) {
		STAP_PROBE2(loop, pair__begin, hits - i, i);
#ifdef __x86_64__
		/* Two sites closer than a jump is long cannot both be patched. */
		__asm__ volatile("lea 1(%0), %0\n\tlea 1(%0), %0" : "+r"(between));
#else
		__asm__ volatile("add %0, %0, 1" : "+r"(between));
#endif
		STAP_PROBE2(loop, pair__end, hits - i, i);
	}
	return i;
}

/* There is work between its entry and its exit. */
__attribute__((noinline)) uint64_t loop_called(uint64_t left, uint64_t done, const char *text)
{
	volatile uint64_t kept = left;

	return kept * 5 + done * 9 + (uintptr_t)text;
}

__attribute__((noinline)) static uint64_t loop_function(uint64_t hits, const char *text)
{
	uint64_t i;

	for (i = 0; i < hits; i++)
		__asm__ volatile("" ::"r"(loop_called(hits - i, i, text)));
	return i;
}

static uint64_t time_stamp(void)
{
#ifdef __x86_64__
	return __rdtsc();
#else
	uint64_t stamp;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(stamp));
	return stamp;
#endif
}

__attribute__((noinline)) static uint64_t loop_inline(uint64_t hits, const char *text)
{
	struct ring *ring = &thread_ring;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);
	uint64_t i;

	for (i = 0; i < hits; i++) {
		uint64_t head = ring->head;
		struct record *record = &ring->records[head % RING_RECORDS];

		record->time = time_stamp();
		record->site = 1;
		record->tid = tid;
		record->args[0] = hits - i;
		record->args[1] = i;
		record->args[2] = (uintptr_t)text;
		__atomic_store_n(&ring->head, head + 1, __ATOMIC_RELEASE);
	}
	return i;
}

__attribute__((noinline)) static uint64_t loop_counter(uint64_t hits, const char *text)
{
	uint64_t i;

	for (i = 0; i < hits; i++) {
		thread_counter++;
		__asm__ volatile("" ::"r"(hits - i), "r"(i), "r"(text));
	}
	return i;
}

/* clang-format off */
static const struct variant {
	const char *name;
	uint64_t (*run)(uint64_t hits, const char *text);
} variants[] = {
	{ "bare", loop_bare },
	{ "nop", loop_nop },
	{ "string", loop_string },
#ifdef __x86_64__
	{ "nop10", loop_nop10 },
	{ "nop5", loop_nop5 },
	{ "pun", loop_pun },
#else
	{ "entered", loop_entered },
#endif
	{ "pair", loop_pair },
	{ "function", loop_function },
	{ "inline", loop_inline },
	{ "counter", loop_counter },
};
/* clang-format on */

struct work {
	const struct variant *variant;
	uint64_t hits, rate;
	const char *text;
	bool on_stack;
	pthread_barrier_t *start;
	uint64_t done;
	double ns;
};

static void *work_run(void *data)
{
	struct work *work = data;
	char room[STACK_TEXT + TEXT_MAX];
	const char *text = work->text;
	uint64_t begin;

	if (work->on_stack)
		text = strcpy(room + STACK_TEXT, text);
	pthread_barrier_wait(work->start);
	begin = target_now_ns();
	work->done = work->rate ? pace(work->variant->run, text, work->hits, work->rate)
				: work->variant->run(work->hits, text);
	work->ns = (double)(target_now_ns() - begin) / (double)(work->hits ? work->hits : 1);
	return NULL;
}

/* Runs one round; returns the slowest thread's ns for an iteration. */
static double round_run(const struct work *what, unsigned int threads, uint64_t *done)
{
	struct work works[THREADS_MAX];
	pthread_t ids[THREADS_MAX];
	pthread_barrier_t start;
	double worst = 0;

	pthread_barrier_init(&start, NULL, threads);
	for (unsigned int i = 0; i < threads; i++) {
		works[i] = *what;
		works[i].start = &start;
		if (i > 0 && pthread_create(&ids[i], NULL, work_run, &works[i]) != 0) {
			perror("loop: pthread_create");
			exit(1);
		}
	}
	work_run(&works[0]);
	for (unsigned int i = 0; i < threads; i++) {
		if (i > 0)
			pthread_join(ids[i], NULL);
		*done += works[i].done;
		if (works[i].ns > worst)
			worst = works[i].ns;
	}
	pthread_barrier_destroy(&start);
	return worst;
}

static int double_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int usage(void)
{
	fprintf(stderr,
		"usage: loop [-s SITE] [-n HITS] [-t THREADS] [-r ROUNDS] [-z MS] [-p RATE] "
		"[-w WHERE] [-b] [-a]\n");
	return 2;
}

/* Puts the text there; false if there is no such place. */
static bool place_text(struct work *what, const char *where)
{
	static const char constant[] = "the quick brown fox jumps";
	static char variable[] = "the quick brown fox jumps";

	what->text = constant;
	what->on_stack = strcmp(where, "stack") == 0;
	if (strcmp(where, "data") == 0)
		what->text = variable;
	else if (strcmp(where, "heap") == 0)
		what->text = strdup(constant);
	else
		return what->on_stack || strcmp(where, "constant") == 0;
	return what->text != NULL;
}

int main(int argc, char **argv)
{
	struct work what = {.hits = 1000000};
	const char *site = "nop", *where = "constant";
	uint64_t done = 0;
	unsigned long threads = 1, rounds = 1, pause_ms = 0;
	bool wait_before = false, wait_after = false;
	double ns[ROUNDS_MAX];
	int option;

	while ((option = getopt(argc, argv, "s:n:t:r:z:p:w:ba")) != -1) {
		switch (option) {
		case 's':
			site = optarg;
			break;
		case 'n':
			what.hits = strtoull(optarg, NULL, 0);
			break;
		case 't':
			threads = strtoul(optarg, NULL, 0);
			break;
		case 'r':
			rounds = strtoul(optarg, NULL, 0);
			break;
		case 'z':
			pause_ms = strtoul(optarg, NULL, 0);
			break;
		case 'p':
			what.rate = strtoull(optarg, NULL, 0);
			break;
		case 'w':
			where = optarg;
			break;
		case 'b':
			wait_before = true;
			break;
		case 'a':
			wait_after = true;
			break;
		default:
			return usage();
		}
	}
	for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
		if (strcmp(variants[i].name, site) == 0)
			what.variant = &variants[i];
	if (!what.variant || !place_text(&what, where) || !threads || threads > THREADS_MAX ||
		!rounds || rounds > ROUNDS_MAX)
		return usage();

	target_allow_tracing();
	if (wait_before)
		target_wait();
	for (unsigned long i = 0; i < rounds; i++) {
		ns[i] = round_run(&what, (unsigned int)threads, &done);
		usleep((useconds_t)pause_ms * 1000);
	}
	qsort(ns, rounds, sizeof(ns[0]), double_compare);
	printf("%llu %.2f\n", (unsigned long long)done, ns[rounds / 2]);
	fflush(stdout);
	if (wait_after)
		target_wait();
	return 0;
}
