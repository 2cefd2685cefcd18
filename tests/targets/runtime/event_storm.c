/* SPDX-License-Identifier: MIT */
/*
 * Threads that open names of events, storm.THREAD.NUMBER, and use each once, while another thread
 * opens libsemaphores.so, passes its probe and closes it, all the time, if its path is given.
 * usage: event_storm THREADS NAMES [LIBRARY]. It waits for a line first; at the end it prints
 * "loaded N", how often it opened the library.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "probe/posix_trace.h"
#include "tests/targets/target.h"

enum { THREADS_MAX = 64 };

static int names;
static atomic_bool ending;

static void *use_names(void *data)
{
	trace_event_id_t event;
	char name[64];

	for (int i = 0; i < names; i++) {
		snprintf(name, sizeof(name), "storm.%d.%d", *(int *)data, i);
		if (posix_trace_eventid_open(name, &event) != 0)
			abort();
		posix_trace_event(event, name, strlen(name));
	}
	return NULL;
}

static void *load(void *data)
{
	uintptr_t count = 0;

	for (; !atomic_load(&ending); count++) {
		void *library = dlopen(data, RTLD_NOW);

		int (*pass)(int value);

		if (!library)
			abort();
		*(void **)&pass = dlsym(library, "semaphores_lib");
		pass(1);
		dlclose(library);
	}
	return (void *)count;
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[1]) : 0, numbers[THREADS_MAX];
	pthread_t threads[THREADS_MAX], loader;
	void *loads = NULL;
	char line[16];

	if (count < 1 || count > THREADS_MAX)
		return 2;
	names = atoi(argv[2]);
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	target_read_line(line, sizeof(line));
	if (argc > 3 && pthread_create(&loader, NULL, load, argv[3]) != 0)
		return 1;
	for (int i = 0; i < count; i++) {
		numbers[i] = i;
		if (pthread_create(&threads[i], NULL, use_names, &numbers[i]) != 0)
			return 1;
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
	atomic_store(&ending, true);
	if (argc > 3)
		pthread_join(loader, &loads);
	printf("loaded %ju\n", (uintmax_t)(uintptr_t)loads);
	return 0;
}
