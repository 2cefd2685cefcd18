/* SPDX-License-Identifier: MIT */
/*
 * A process and its forked child, both of which stay. Each line of input is a command: `hit`
 * passes parted:hit(I, PID) once, in the parent; `fork` forks the child and prints its pid; `end`,
 * or the end of the input, ends both.
 */
#include <signal.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/wait.h>

#include "../target.h"

static void hit(int i)
{
	STAP_PROBE2(parted, hit, i, (int)getpid());
	target_room_behind();
}

static pid_t part(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		target_allow_tracing();
		for (;;)
			pause();
	}
	return pid;
}

int main(void)
{
	char line[16];
	pid_t child = 0;
	int hits = 0;

	target_allow_tracing();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready %d\n", (int)getpid());
	while (target_read_line(line, sizeof(line)) && strcmp(line, "end") != 0) {
		if (!strcmp(line, "fork") && !child)
			child = part();
		else
			hit(hits++);
		printf("%d\n", (int)(strcmp(line, "fork") ? hits : child));
	}
	if (child > 0) {
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	return 0;
}
