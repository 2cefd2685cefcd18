/* SPDX-License-Identifier: MIT */
/*
 * Children of a probed process.
 *
 *	fork [CHILDREN [HITS]]	waits; forks, and every process passes fork:hit
 *				(ROLE, I) HITS times: ROLE is 0 in the parent, 1 in
 *				a child, 2 in a child's child, 3 after vfork() and
 *				execve() of itself; prints "parent N children M"
 */
#include <string.h>
#include <sys/sdt.h>
#include <sys/wait.h>

#include "../target.h"

static void hit(int role, int hits)
{
	for (int i = 0; i < hits; i++)
		STAP_PROBE2(fork, hit, role, i);
}

static int wait_good(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void child(int hits)
{
	pid_t grandchild;

	hit(1, hits);
	grandchild = fork();
	if (grandchild == 0) {
		hit(2, hits);
		_exit(0);
	}
	_exit(wait_good(grandchild) ? 0 : 1);
}

static int execute_self(char *self, char *hits)
{
	pid_t pid = vfork();

	if (pid == 0) {
		execl(self, self, "--hit", hits, (char *)NULL);
		_exit(127);
	}
	return wait_good(pid);
}

int main(int argc, char **argv)
{
	char self[] = "/proc/self/exe";
	int children = argc > 1 ? atoi(argv[1]) : 4;
	int hits = argc > 2 ? atoi(argv[2]) : 1000;
	char hits_text[16];
	int good = 0;

	if (argc > 2 && strcmp(argv[1], "--hit") == 0) {
		hit(3, hits);
		return 0;
	}
	snprintf(hits_text, sizeof(hits_text), "%d", hits);
	target_allow_tracing();
	target_wait();
	for (int i = 0; i < children; i++) {
		pid_t pid = fork();

		if (pid == 0)
			child(hits);
		hit(0, hits);
		good += wait_good(pid);
	}
	if (!execute_self(self, hits_text) || good != children) {
		fprintf(stderr, "fork: a child failed\n");
		return 1;
	}
	printf("parent %d children %d\n", children * hits, 2 * children * hits + hits);
	fflush(stdout);
	target_wait();
	return 0;
}
