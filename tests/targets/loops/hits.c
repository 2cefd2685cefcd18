/* SPDX-License-Identifier: MIT */
/*
 * hits THREADS: for each line, a number N, each of THREADS threads hits hits:work(thread,
 * number of the hit, 3 * that) N times. Answers "did N", the total of all threads; ends with
 * the input.
 */
#include <pthread.h>
#include <sys/sdt.h>

#include "../target.h"

enum { THREADS_MAX = 64 };

struct work {
	pthread_t thread;
	unsigned int number;
	unsigned long hits;
};

static void *work(void *data)
{
	const struct work *w = data;

	for (unsigned long i = 0; i < w->hits; i++)
		STAP_PROBE3(hits, work, w->number, i, 3 * i);
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	struct work works[THREADS_MAX];
	char line[64];

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line))) {
		unsigned long hits = strtoul(line, NULL, 10);

		for (int i = 0; i < threads; i++) {
			works[i] = (struct work){.number = (unsigned int)i, .hits = hits};
			if (pthread_create(&works[i].thread, NULL, work, &works[i]) != 0)
				return 1;
		}
		for (int i = 0; i < threads; i++)
			pthread_join(works[i].thread, NULL);
		printf("did %lu\n", hits * (unsigned long)threads);
		fflush(stdout);
	}
	return 0;
}
