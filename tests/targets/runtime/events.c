/* SPDX-License-Identifier: MIT */
/*
 * A process with user events that takes one command per line, and answers with one line:
 *
 *	open NAME	posix_trace_eventid_open()	"id ID" or "error NUMBER"
 *	pass N TEXT	the last event opened, N times, with the text's bytes	"passed N"
 *	unnamed N	the unnamed event, N times	"passed N"
 *	bytes N LENGTH	the last event, N times, with LENGTH bytes 0, 1, 2 ...	"passed N"
 *	storm T N	T threads pass it N times each	"passed T*N"
 *	new N TEXT	opens the event new.TEXT and passes it N times	"passed N"
 *	many N TEXT	opens the events many.TEXT0 to N-1, then passes each once	"waited W",
 *			how often the thread has slept meanwhile
 *	handler N TEXT	opens handler.TEXT, and passes it N times in a signal handler	"passed N"
 *	loading N TEXT	as new, but loading.TEXT, and as if the loader worked	"passed N"
 *	fork		a child takes the following commands	"child PID"
 *	back		the child ends; the parent continues	"status STATUS"
 *	shut		closes all descriptors above 2	"shut"
 */
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "probe/posix_trace.h"
#include "tests/targets/target.h"

/* Missing in static programs. */
#pragma weak _r_debug

static trace_event_id_t event;

static int open_event(const char *name)
{
	int err = posix_trace_eventid_open(name, &event);

	if (err)
		printf("error %d\n", err);
	return err;
}

static void pass(trace_event_id_t id, int count, const void *data, size_t length)
{
	for (int i = 0; i < count; i++)
		posix_trace_event(id, data, length);
	printf("passed %d\n", count);
}

static void pass_bytes(int count, size_t length)
{
	unsigned char *bytes = malloc(length + 1);

	for (size_t i = 0; bytes && i < length; i++)
		bytes[i] = (unsigned char)i;
	pass(event, count, bytes, length);
	free(bytes);
}

static void *storm_thread(void *data)
{
	for (int i = 0; i < *(int *)data; i++)
		posix_trace_event(event, &i, sizeof(i));
	return NULL;
}

static void storm(int threads, int count)
{
	pthread_t ids[64];

	for (int i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, storm_thread, &count))
			abort();
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	printf("passed %d\n", threads * count);
}

static long sleeps(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

static void many(int count, const char *text)
{
	trace_event_id_t first = 0;
	long before = sleeps();
	char name[128];

	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "many.%s%d", text, i);
		if (open_event(name))
			return;
		if (i == 0)
			first = event;
	}
	/* Identifiers of names that one thread opens follow each other. */
	for (trace_event_id_t id = first; id <= event; id++)
		posix_trace_event(id, text, strlen(text));
	printf("waited %ld\n", sleeps() - before);
}

static volatile sig_atomic_t handler_count;

static void on_signal(int signal)
{
	(void)signal;
	for (int i = 0; i < handler_count; i++)
		posix_trace_event(event, "handler", 7);
}

static void in_handler(int count)
{
	handler_count = count;
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	signal(SIGUSR1, SIG_DFL);
	printf("passed %d\n", count);
}

/* As in a signal handler that interrupts dlopen(3). */
static void while_loading(int count, const char *text)
{
	_r_debug.r_state = RT_ADD;
	pass(event, count, text, strlen(text));
	_r_debug.r_state = RT_CONSISTENT;
}

static void obey(char *line)
{
	char *word = strsep(&line, " "), *rest = line ? line : "";
	int count = atoi(rest);
	char *text = strchr(rest, ' '), name[128];

	text = text ? text + 1 : "";
	if (!strcmp(word, "open")) {
		if (!open_event(rest))
			printf("id %u\n", event);
	} else if (!strcmp(word, "pass")) {
		pass(event, count, text, strlen(text));
	} else if (!strcmp(word, "unnamed")) {
		pass(POSIX_TRACE_UNNAMED_USEREVENT, count, "?", 1);
	} else if (!strcmp(word, "bytes")) {
		pass_bytes(count, strtoul(text, NULL, 10));
	} else if (!strcmp(word, "storm")) {
		storm(count, atoi(text));
	} else if (!strcmp(word, "new")) {
		snprintf(name, sizeof(name), "new.%s", text);
		if (!open_event(name))
			pass(event, count, text, strlen(text));
	} else if (!strcmp(word, "many")) {
		many(count, text);
	} else if (!strcmp(word, "handler")) {
		snprintf(name, sizeof(name), "handler.%s", text);
		if (!open_event(name))
			in_handler(count);
	} else if (!strcmp(word, "loading")) {
		snprintf(name, sizeof(name), "loading.%s", text);
		if (!open_event(name))
			while_loading(count, text);
	} else if (!strcmp(word, "shut")) {
		closefrom(3);
		puts("shut");
	}
}

/* Runs in the child until "back"; the parent waits meanwhile. */
static void fork_and_wait(void)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		target_allow_tracing();
		printf("child %d\n", (int)getpid());
		return;
	}
	waitpid(child, &status, 0);
	printf("status %d\n", status);
}

int main(void)
{
	char line[512];

	setvbuf(stdout, NULL, _IOLBF, 0);
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	while (target_read_line(line, sizeof(line))) {
		if (!strcmp(line, "fork"))
			fork_and_wait();
		else if (!strcmp(line, "back"))
			_exit(0);
		else
			obey(line);
	}
	return 0;
}
