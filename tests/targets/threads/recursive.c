/* SPDX-License-Identifier: MIT */
/*
 * Probes in a recursion, on small stacks and near their end.
 *
 *	recursive [DEPTH]	waits; recurses on the main stack, on a thread with
 *				the smallest stack and on a signal's alternate stack;
 *				prints "hits N"
 */
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <sys/sdt.h>

#include "../target.h"

static unsigned long hits;

__attribute__((noinline)) static unsigned long descend(unsigned long depth)
{
	unsigned long below = 0;

	hits++;
	STAP_PROBE1(recursive, down, depth);
	if (depth > 0)
		below = descend(depth - 1);
	STAP_PROBE2(recursive, up, depth, below);
	return below + 1;
}

static void *thread_run(void *data)
{
	(void)data;
	descend(20);
	return NULL;
}

static void on_signal(int number)
{
	(void)number;
	descend(10);
}

int main(int argc, char **argv)
{
	unsigned long depth = argc > 1 ? strtoul(argv[1], NULL, 0) : 10000;
	stack_t alternate = {.ss_sp = malloc(16384), .ss_size = 16384};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
	pthread_attr_t attributes;
	pthread_t thread;

	target_allow_tracing();
	target_wait();
	descend(depth);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
	if (pthread_create(&thread, &attributes, thread_run, NULL) != 0)
		return 1;
	pthread_join(thread, NULL);
	sigaltstack(&alternate, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	printf("hits %lu\n", hits);
	fflush(stdout);
	target_wait();
	return 0;
}
