/* SPDX-License-Identifier: MIT */
/*
 * Attaches to a process and detaches at once: the shortest pause that ptrace(2) can make.
 * `attach PID`
 */
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

int main(int argc, char **argv)
{
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0;

	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0 ||
		ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 ||
		waitpid(pid, NULL, __WALL) != pid || ptrace(PTRACE_DETACH, pid, NULL, NULL) < 0)
		return 1;
	return 0;
}
