/* SPDX-License-Identifier: MIT */
/*
 * Calls the functions of pmtrace(3), and prints a line with each result. With -DPCP_TRACE it
 * uses the real header, so that the same object can be linked with either library.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef PCP_TRACE
#include <pcp/trace.h>
#else
#include "probe/pmtrace.h"
#endif

#define CALL(call) show(#call, call)

static void show(const char *call, int result)
{
	printf("%s = %d%s%s\n", call, result, result < 0 ? ": " : "",
		result < 0 ? pmtraceerrstr(result) : "");
	fflush(stdout);
}

static void names(void)
{
	char longest[255], over[256], far_over[512];

	memset(longest, 'l', sizeof(longest) - 1);
	memset(over, 'o', sizeof(over) - 1);
	memset(far_over, 'f', sizeof(far_over) - 1);
	longest[sizeof(longest) - 1] = over[sizeof(over) - 1] = '\0';
	far_over[sizeof(far_over) - 1] = '\0';
	CALL(pmtracebegin(NULL));
	CALL(pmtracebegin(""));
	CALL(pmtraceend(NULL));
	CALL(pmtraceend(""));
	CALL(pmtraceabort(NULL));
	CALL(pmtraceabort(""));
	CALL(pmtracepoint(NULL));
	CALL(pmtracepoint(""));
	CALL(pmtraceobs(NULL, 1));
	CALL(pmtraceobs("", 1));
	CALL(pmtracecounter(NULL, 1));
	CALL(pmtracecounter("", 1));
	CALL(pmtracebegin(longest));
	CALL(pmtraceend(longest));
	CALL(pmtracepoint(longest));
	CALL(pmtracebegin(over));
	CALL(pmtraceend(over));
	CALL(pmtraceabort(over));
	CALL(pmtracepoint(over));
	CALL(pmtraceobs(over, 1));
	CALL(pmtracecounter(over, 1));
	CALL(pmtracebegin(far_over));
}

static void transactions(void)
{
	CALL(pmtraceend("nobody"));
	CALL(pmtraceabort("nobody"));
	CALL(pmtracebegin("a"));
	CALL(pmtracebegin("a"));
	CALL(pmtraceend("a"));
	CALL(pmtraceend("a"));
	CALL(pmtraceabort("a"));
	CALL(pmtracebegin("a"));
	CALL(pmtraceabort("a"));
	CALL(pmtraceabort("a"));
	CALL(pmtraceend("a"));
	CALL(pmtracebegin("a tag, with \"signs\" and ünïcode"));
	CALL(pmtracebegin("a"));
	CALL(pmtraceend("a tag, with \"signs\" and ünïcode"));
	CALL(pmtraceend("a"));
}

/* One tag may be used in several ways. */
static void kinds(void)
{
	CALL(pmtracepoint("a"));
	CALL(pmtraceobs("a", 2));
	CALL(pmtracecounter("a", 3));
	CALL(pmtracebegin("a"));
	CALL(pmtraceend("a"));
	CALL(pmtraceobs("o", -1.5));
	CALL(pmtraceobs("o", 2.5));
	CALL(pmtraceend("o"));
	CALL(pmtracecounter("c", 10));
	CALL(pmtracecounter("c", 5));
}

static void *in_thread(void *data)
{
	(void)data;
	CALL(pmtraceend("thread"));
	CALL(pmtraceabort("thread"));
	CALL(pmtracebegin("thread"));
	CALL(pmtracebegin("other"));
	return NULL;
}

static void threads(void)
{
	pthread_t thread;

	CALL(pmtracebegin("thread"));
	if (pthread_create(&thread, NULL, in_thread, NULL) == 0)
		pthread_join(thread, NULL);
	CALL(pmtraceend("thread"));
	CALL(pmtraceend("other"));
	CALL(pmtraceend("other"));
}

static void children(void)
{
	pid_t child;

	CALL(pmtracebegin("parent"));
	child = fork();
	if (child == 0) {
		CALL(pmtraceend("parent"));
		CALL(pmtraceabort("parent"));
		CALL(pmtracebegin("child"));
		CALL(pmtracebegin("parent"));
		CALL(pmtracebegin("parent"));
		CALL(pmtraceend("child"));
		CALL(pmtracepoint("child"));
		_exit(0);
	}
	waitpid(child, NULL, 0);
	CALL(pmtraceend("child"));
	CALL(pmtraceend("parent"));
	CALL(pmtraceend("parent"));
}

static void states(void)
{
	CALL(pmtracestate(16 | 2));
	CALL(pmtracestate(32));
	CALL(pmtracestate(-1));
	CALL(pmtracestate(128));
	CALL(pmtracestate(16));
}

static void errors(void)
{
	static const int codes[] = {1, 5, 12000, 0, -1, -2, -110, -11999, -12012, -12013, -100000};

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		printf("%d: %s\n", codes[i], pmtraceerrstr(codes[i]));
	for (int code = -12000; code >= -12011; code--)
		printf("%d: %s\n", code, pmtraceerrstr(code));
}

int main(int argc, char **argv)
{
	/* 16: without an agent */
	CALL(pmtracestate(argc > 1 ? atoi(argv[1]) : 16));
	names();
	transactions();
	kinds();
	threads();
	children();
	states();
	errors();
	return 0;
}
