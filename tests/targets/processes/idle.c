/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE */
/*
 * idle waits|signals|tracer|calls: a program without probes. Ends with status 1 where something is
 * not as it would be alone.
 *
 * waits    waits with time limits, none of which may end early
 * signals  handlers that run all the time, beside system calls and a child
 * tracer   prints who traces it: at its start, and a while later
 * calls    prints who traces it after 400 system calls, one right after the other
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waits.h"

static volatile sig_atomic_t handled;

static void handle(int signal)
{
	(void)signal;
	handled++;
}

static bool child_is_whole(void)
{
	int status, wanted = 7;
	pid_t child = fork(), ended;

	if (child == 0)
		_exit(wanted);
	do {
		ended = waitpid(child, &status, 0);
	} while (ended < 0 && errno == EINTR);
	return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == wanted;
}

static bool signals(void)
{
	struct itimerval often = {{.tv_usec = 200}, {.tv_usec = 200}};
	struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
	long end = now_ms() + WAIT_MS, calls = 0;
	bool ok = true;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	while (ok && (now_ms() < end || handled < 10)) {
		ok = write(-1, "", 1) < 0 && errno == EBADF;
		if (++calls % 500 == 0)
			ok &= child_is_whole();
	}
	return ok;
}

static int tracer(void)
{
	char line[128];
	FILE *status = fopen("/proc/self/status", "r");
	int pid = -1;

	while (status && fgets(line, sizeof(line), status))
		sscanf(line, "TracerPid: %d", &pid);
	if (status)
		fclose(status);
	return pid;
}

static bool tell_tracer(void)
{
	int first = tracer();

	usleep(500000);
	printf("%d %d\n", first, tracer());
	return true;
}

static bool tell_tracer_of_calls(void)
{
	for (int i = 0; i < 400; i++)
		if (write(-1, "", 1) >= 0)
			return false;
	printf("%d\n", tracer());
	return true;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	bool ok = strcmp(mode, "waits") == 0	 ? waits()
		  : strcmp(mode, "signals") == 0 ? signals()
		  : strcmp(mode, "tracer") == 0	 ? tell_tracer()
		  : strcmp(mode, "calls") == 0	 ? tell_tracer_of_calls()
						 : false;

	return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
