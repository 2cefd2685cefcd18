/* SPDX-License-Identifier: MIT */
/*
 * Begins and ends, and the truth about them.
 *
 *	pairs [THREADS [REQUESTS]]
 *
 * Each thread serves REQUESTS requests, which begin with request__start(id, kind, size, name)
 * and end with request__done(id) or, one in ten, request__fail(id). Each contains id % 4 + 1
 * nested steps: step__start(depth) and step__done(depth). One request in five hands a job to a
 * worker thread: job__start(id) in one thread, job__done(id) in another. Every thread begins
 * with a request__done that has no begin, and ends with a request__start that has no end.
 *
 * The threads stay until the end. The program prints what it did as one line of JSON. For each
 * kind of pair that it timed there are the sums of times inside the probes (`inner`) and around
 * them (`outer`): what a tracer measures lies between.
 */
#include <pthread.h>
#include <sys/sdt.h>

#include "../target.h"

enum { KINDS = 7, NAMES = 5, THREADS_MAX = 64, QUEUE = 64 };

struct times {
	uint64_t count, inner, outer;
};

struct worker {
	pthread_t thread;
	uint64_t first, requests; /* numbers: [first, first + requests) */
	uint64_t done, failed, steps, sizes, kinds[KINDS];
	struct times request;
};

struct job {
	uint64_t id, before, begun; /* when it began: before and after the probe */
};

static const char *const names[NAMES] = {"select", "insert", "update", "delete", "vacuum \"all\""};
static struct worker workers[THREADS_MAX];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct job queue[QUEUE];
static unsigned int queued, taken;
static bool finished;
static pthread_barrier_t done, leave;
static struct times jobs;

__attribute__((noinline)) static uint64_t step(uint64_t depth, struct worker *worker)
{
	uint64_t result = depth;

	STAP_PROBE1(pairs, step__start, depth);
	worker->steps++;
	if (depth)
		result += step(depth - 1, worker);
	for (volatile int i = 0; i < 50; i++)
		result++;
	STAP_PROBE1(pairs, step__done, depth);
	return result;
}

static void hand_over(uint64_t id)
{
	struct job job = {.id = id, .before = target_now_ns()};

	STAP_PROBE1(pairs, job__start, id);
	job.begun = target_now_ns();
	pthread_mutex_lock(&lock);
	while (queued - taken == QUEUE)
		pthread_cond_wait(&changed, &lock);
	queue[queued++ % QUEUE] = job;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void *take_jobs(void *data)
{
	(void)data;
	for (;;) {
		uint64_t ending;
		struct job job;

		pthread_mutex_lock(&lock);
		while (queued == taken && !finished)
			pthread_cond_wait(&changed, &lock);
		if (queued == taken) {
			pthread_mutex_unlock(&lock);
			return NULL;
		}
		job = queue[taken++ % QUEUE];
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		ending = target_now_ns();
		STAP_PROBE1(pairs, job__done, job.id);
		jobs.outer += target_now_ns() - job.before;
		jobs.inner += ending - job.begun;
		jobs.count++;
	}
}

__attribute__((noinline)) static void serve(struct worker *worker, uint64_t id)
{
	uint64_t kind = id % KINDS, size = id * 7919 % 100003, before, begun, ending;
	const char *name = names[id % NAMES];

	before = target_now_ns();
	STAP_PROBE4(pairs, request__start, id, kind, size, name);
	begun = target_now_ns();
	step(id % 4, worker);
	if (id % 5 == 0)
		hand_over(id);
	ending = target_now_ns();
	if (id % 10 == 9) {
		STAP_PROBE1(pairs, request__fail, id);
		worker->failed++;
	} else {
		STAP_PROBE1(pairs, request__done, id);
		worker->done++;
	}
	worker->request.outer += target_now_ns() - before;
	worker->request.inner += ending - begun;
	worker->request.count++;
	worker->kinds[kind]++;
	worker->sizes += size;
}

static void *work(void *data)
{
	struct worker *worker = data;
	uint64_t orphan = UINT64_MAX - worker->first, none = 0;
	const char *name = "orphan";

	STAP_PROBE1(pairs, request__done, orphan);
	for (uint64_t i = 0; i < worker->requests; i++)
		serve(worker, worker->first + i);
	STAP_PROBE4(pairs, request__start, orphan, none, none, name);
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&leave);
	return NULL;
}

static void report(unsigned int threads)
{
	struct worker sum = {0};

	for (unsigned int i = 0; i < threads; i++) {
		sum.done += workers[i].done;
		sum.failed += workers[i].failed;
		sum.steps += workers[i].steps;
		sum.sizes += workers[i].sizes;
		sum.request.inner += workers[i].request.inner;
		sum.request.outer += workers[i].request.outer;
		for (unsigned int k = 0; k < KINDS; k++)
			sum.kinds[k] += workers[i].kinds[k];
	}
	printf("{\"done\":%ju,\"failed\":%ju,\"steps\":%ju,\"sizes\":%ju,\"inner\":%ju,"
	       "\"outer\":%ju,\"jobs\":%ju,\"job_inner\":%ju,\"job_outer\":%ju,\"kinds\":[",
		(uintmax_t)sum.done, (uintmax_t)sum.failed, (uintmax_t)sum.steps,
		(uintmax_t)sum.sizes, (uintmax_t)sum.request.inner, (uintmax_t)sum.request.outer,
		(uintmax_t)jobs.count, (uintmax_t)jobs.inner, (uintmax_t)jobs.outer);
	for (unsigned int k = 0; k < KINDS; k++)
		printf("%s%ju", k ? "," : "", (uintmax_t)sum.kinds[k]);
	printf("]}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned int threads = argc > 1 ? (unsigned int)atoi(argv[1]) : 4;
	uint64_t requests = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;
	pthread_t taker;

	if (!threads || threads > THREADS_MAX)
		return 2;
	target_allow_tracing();
	target_wait();
	if (pthread_barrier_init(&done, NULL, threads + 1) ||
		pthread_barrier_init(&leave, NULL, threads + 1) ||
		pthread_create(&taker, NULL, take_jobs, NULL))
		return 1;
	for (unsigned int i = 0; i < threads; i++) {
		workers[i].first = i * requests;
		workers[i].requests = requests;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 1;
	}
	pthread_barrier_wait(&done);
	pthread_mutex_lock(&lock);
	finished = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	pthread_join(taker, NULL);
	report(threads);
	target_wait();
	pthread_barrier_wait(&leave);
	for (unsigned int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	return 0;
}
