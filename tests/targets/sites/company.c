/* SPDX-License-Identifier: MIT */
/*
 * Threads that pass the sites of company_sites.S while other tools' probes come and go there.
 *
 *	company [THREADS]
 *
 * prints "ready PID", and answers each line with one:
 *
 *	go N	each thread passes each site N times	"passed N wrong W", of all threads
 *	run	the threads run until the next line	"running"
 *	stop						"passed N wrong W"
 *
 * flags: -D_GNU_SOURCE -pthread
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../target.h"

uint64_t company_one(uint64_t value), company_wide(uint64_t value), company_call(uint64_t value),
	company_end(uint64_t value), company_five(uint64_t value), company_both5(uint64_t value),
	company_both10(uint64_t value), company_ten(uint64_t value), company_row(uint64_t value),
	company_hop(uint64_t value), company_entered(uint64_t value);

enum { THREADS_MAX = 16 };

static uint64_t (*const functions[])(uint64_t) = {
#ifdef __x86_64__
	company_five, company_both5, company_both10, company_ten, company_hop,
#else
	company_entered,
#endif
	company_one, company_wide, company_call, company_end, company_row};

static uint64_t rounds; /* of each thread */
static atomic_bool ended;
static atomic_ulong passed, wrong;

static void *pass(void *unused)
{
	uint64_t round = 0, bad = 0;

	(void)unused;
	for (; round < rounds && !atomic_load_explicit(&ended, memory_order_relaxed); round++)
		for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++)
			bad += functions[i](round) != round + 10;
	atomic_fetch_add(&passed, round);
	atomic_fetch_add(&wrong, bad);
	return NULL;
}

static void begin(pthread_t *threads, int count, uint64_t each)
{
	rounds = each;
	atomic_store(&ended, false);
	atomic_store(&passed, 0);
	atomic_store(&wrong, 0);
	for (int i = 0; i < count; i++)
		pthread_create(&threads[i], NULL, pass, NULL);
}

static void end(const pthread_t *threads, int count)
{
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	printf("passed %lu wrong %lu\n", atomic_load(&passed), atomic_load(&wrong));
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : 2;
	pthread_t threads[THREADS_MAX];
	char line[64];

	if (count < 1 || count > THREADS_MAX)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 0);
	target_allow_tracing();
	printf("ready %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (strncmp(line, "go ", 3) == 0) {
			begin(threads, count, strtoull(line + 3, NULL, 10));
			end(threads, count);
		} else if (strcmp(line, "run\n") == 0) {
			begin(threads, count, UINT64_MAX);
			puts("running");
		} else {
			atomic_store(&ended, true);
			end(threads, count);
		}
	}
	return 0;
}
