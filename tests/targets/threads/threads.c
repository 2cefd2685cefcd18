/* SPDX-License-Identifier: MIT */
/*
 * Threads that are created and exit all the time.
 *
 *	threads [-l LIVE] [-n HITS] [-c COUNT]
 *
 * keeps LIVE threads alive at once; each passes threads:hit HITS times and exits; COUNT threads
 * in all (0: until a line comes). Prints "ready PID" at the start and "threads T hits N" at the
 * end, then waits for a line.
 */
#include <getopt.h>
#include <poll.h>
#include <pthread.h>
#include <sys/sdt.h>

#include "../target.h"

static unsigned long hits_each = 100;

static void *thread_run(void *data)
{
	unsigned long number = (unsigned long)(uintptr_t)data;

	for (unsigned long i = 0; i < hits_each; i++)
		STAP_PROBE2(threads, hit, number, i);
	return NULL;
}

static bool line_is_there(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
	unsigned long live = 8, count = 0, started = 0, joined = 0;
	pthread_t threads[64];
	char line[16];
	int option;

	while ((option = getopt(argc, argv, "l:n:c:")) != -1) {
		unsigned long value = optarg ? strtoul(optarg, NULL, 0) : 0;

		if (option == 'l')
			live = value;
		else if (option == 'n')
			hits_each = value;
		else if (option == 'c')
			count = value;
		else
			return 2;
	}
	if (live < 1 || live > 64)
		return 2;
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (count ? started < count : !line_is_there()) {
		if (started - joined == live)
			pthread_join(threads[joined++ % live], NULL);
		if (pthread_create(&threads[started % live], NULL, thread_run,
			    (void *)(uintptr_t)started) != 0)
			return 1;
		started++;
	}
	while (joined < started)
		pthread_join(threads[joined++ % live], NULL);
	if (!count)
		(void)target_read_line(line, sizeof(line));
	printf("threads %lu hits %lu\n", started, started * hits_each);
	fflush(stdout);
	target_wait();
	return 0;
}
