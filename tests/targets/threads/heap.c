/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE -pthread -fomit-frame-pointer -fno-optimize-sibling-calls */
/*
 * An allocator that tells of each sample (otel_memory:alloc, otel_memory:free), in a known tree of
 * calls, in several threads at once:
 *
 *	heap [ROUNDS [THREADS [fork]]]	waits, allocates, prints "done", waits
 *
 *	keep -> sample		ROUNDS * 100 bytes (weight 1000 each), which stay
 *	churn -> sample		ROUNDS * 200 bytes (weight 2000), freed by free_all
 *	swap -> sample		ROUNDS * 300 bytes (weight 3000), all but the last freed by the next
 *	early -> sample		before it waits: 7 pieces, which are freed after it has
 *	twice -> sample		once, in the main thread: a pointer twice, with no free between,
 *				with weights of 10 and 20
 *
 * With fork, a child does the same as a thread, and frees what it has inherited of `twice`.
 * The own:* probes say the same with (bytes, pointer) in another order and without weights.
 */
#include <pthread.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/wait.h>

#include "../target.h"

enum { EARLY = 7, ROUNDS_MAX = 100000 };

#define CALL __attribute__((noinline, noclone)) static
#define KEEP(value) __asm__ volatile("" : "+r"(value)::"memory")

static unsigned long rounds = 100;

CALL void *sample(unsigned long bytes, unsigned long weight)
{
	void *user = malloc(bytes);

	STAP_PROBE3(otel_memory, alloc, user, bytes, weight);
	target_room_behind();
	STAP_PROBE2(own, get, bytes, user);
	target_room_behind();
	KEEP(user);
	return user;
}

CALL void release(void *user)
{
	STAP_PROBE1(otel_memory, free, user);
	target_room_behind();
	STAP_PROBE1(own, put, user);
	target_room_behind();
	KEEP(user);
	free(user);
}

CALL void *keep(void)
{
	void *user = sample(100, 1000);

	KEEP(user);
	return user;
}

CALL void *churn(void)
{
	void *user = sample(200, 2000);

	KEEP(user);
	return user;
}

CALL void *swap(void *before)
{
	void *user = sample(300, 3000);

	KEEP(user);
	release(before);
	return user;
}

CALL void *early(void)
{
	void *user = sample(50, 500);

	KEEP(user);
	return user;
}

/* The second time without a free. */
CALL void *twice(void)
{
	void *user = sample(64, 10);
	unsigned long bytes = 64, weight = 20;

	STAP_PROBE3(otel_memory, alloc, user, bytes, weight);
	target_room_behind();
	KEEP(user);
	return user;
}

static void *work(void *unused)
{
	void **freed = calloc(rounds, sizeof(*freed)), *last = NULL;

	(void)unused;
	for (unsigned long i = 0; i < rounds; i++) {
		keep();
		freed[i] = churn();
		last = swap(last);
	}
	for (unsigned long i = 0; i < rounds; i++)
		release(freed[i]);
	free(freed);
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned long threads = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	bool forks = argc > 3 && !strcmp(argv[3], "fork");
	void *old[EARLY], *odd;
	pthread_t ids[16];
	pid_t child;

	rounds = argc > 1 ? strtoul(argv[1], NULL, 0) : rounds;
	if (rounds < 1 || rounds > ROUNDS_MAX || threads > 16)
		return 2;
	target_allow_tracing();
	for (size_t i = 0; i < EARLY; i++)
		old[i] = early();
	target_wait();
	for (size_t i = 0; i < EARLY; i++)
		release(old[i]);
	odd = twice();
	for (unsigned long i = 0; i < threads; i++)
		pthread_create(&ids[i], NULL, work, NULL);
	for (unsigned long i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	child = forks ? fork() : -1;
	if (child == 0) {
		work(NULL);
		release(odd);
		_exit(0);
	}
	if (child > 0)
		waitpid(child, NULL, 0);
	printf("done\n");
	fflush(stdout);
	target_wait();
	return 0;
}
