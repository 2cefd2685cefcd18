/* SPDX-License-Identifier: MIT */
/*
 * Programs that pass functions of their own as often as a line says, and answer "passed N wrong W":
 * each returns its argument plus 10.
 */
#ifndef TESTS_TARGETS_PASSES_H
#define TESTS_TARGETS_PASSES_H

#include <pthread.h>
#include <string.h>

#include "../target.h"

struct passes {
	uint64_t (*const *functions)(uint64_t value);
	size_t count;
	uint64_t first; /* argument, which grows by 1 */
	/*
	 * If not NULL, at "spin" a thread runs it, until the next "spin" writes to *stop; that is
	 * answered by "spun" and its result.
	 */
	uint64_t (*spin)(const uint32_t *stop);
	uint32_t stop;
	bool spins;
};

static inline void *passes_spin(void *data)
{
	struct passes *p = data;

	return (void *)(uintptr_t)p->spin(&p->stop);
}

/* Starts the thread, or ends it. */
static inline void passes_toggle(struct passes *p)
{
	static pthread_t thread;
	void *wrong;

	__atomic_store_n(&p->stop, p->spins, __ATOMIC_SEQ_CST);
	if (p->spins) {
		pthread_join(thread, &wrong);
		printf("spun %lu\n", (unsigned long)(uintptr_t)wrong);
	} else if (pthread_create(&thread, NULL, passes_spin, p) == 0) {
		printf("spins\n");
	}
	p->spins = !p->spins;
}

/* To the end of the input. */
static inline int passes_run(struct passes *p)
{
	char line[32];

	setvbuf(stdout, NULL, _IOLBF, 0);
	target_allow_tracing();
	printf("ready %d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		uint64_t rounds = strtoull(line, NULL, 10), wrong = 0;

		if (p->spin && strcmp(line, "spin\n") == 0) {
			passes_toggle(p);
			continue;
		}
		for (uint64_t i = p->first; i < p->first + rounds; i++)
			for (size_t k = 0; k < p->count; k++)
				wrong += p->functions[k](i) != i + 10;
		printf("passed %llu wrong %llu\n", (unsigned long long)rounds,
			(unsigned long long)wrong);
	}
	return 0;
}

#endif
