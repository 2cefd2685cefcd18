/* SPDX-License-Identifier: MIT */
/*
 * Many processes at once.
 *
 *	herd CHILDREN HITS
 *
 * forks CHILDREN processes, all with the name "herd-PID" of their parent's pid, and prints
 * "ready PID". After a line each child passes herd:hit(number, i) HITS times; prints "hits N"
 * when all have done so, and after another line they exit. The hits of a child that was killed
 * are missing from N.
 */
#include <errno.h>
#include <signal.h>
#include <sys/sdt.h>
#include <sys/wait.h>

#include "../target.h"

enum { CHILDREN_MAX = 1000 };

/* The pipes of all children: they wait for the end of `go` and `leave`, and answer in `done`. */
struct pipes {
	int go[2], done[2], leave[2];
};

static void wait_for_end(int fd)
{
	char byte;

	while (read(fd, &byte, 1) > 0 || errno == EINTR)
		;
}

static void child_main(const struct pipes *pipes, unsigned long number, unsigned long hits)
{
	char name[16];

	snprintf(name, sizeof(name), "herd-%d", (int)getppid());
	prctl(PR_SET_NAME, name);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	target_allow_tracing();
	close(pipes->go[1]);
	close(pipes->leave[1]);
	if (write(pipes->done[1], "r", 1) != 1)
		_exit(1);
	errno = 0;
	wait_for_end(pipes->go[0]);
	for (unsigned long i = 0; i < hits; i++) {
		STAP_PROBE2(herd, hit, number, i);
		target_room_behind();
	}
	if (write(pipes->done[1], "d", 1) != 1)
		_exit(1);
	close(pipes->done[1]);
	errno = 0;
	wait_for_end(pipes->leave[0]);
	_exit(0);
}

int main(int argc, char **argv)
{
	unsigned long children, hits, ready = 0, done = 0;
	struct pipes pipes;
	char line[64], byte;

	if (argc != 3)
		return 2;
	children = strtoul(argv[1], NULL, 0);
	hits = strtoul(argv[2], NULL, 0);
	if (children > CHILDREN_MAX || pipe(pipes.go) || pipe(pipes.done) || pipe(pipes.leave))
		return 2;
	target_allow_tracing();
	for (unsigned long i = 0; i < children; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return 1;
		if (pid == 0)
			child_main(&pipes, i, hits);
	}
	close(pipes.done[1]);
	while (ready < children && read(pipes.done[0], &byte, 1) == 1)
		ready += byte == 'r';
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	(void)target_read_line(line, sizeof(line));
	close(pipes.go[1]);
	while (read(pipes.done[0], &byte, 1) == 1)
		done += byte == 'd';
	printf("hits %lu\n", done * hits);
	fflush(stdout);
	(void)target_read_line(line, sizeof(line));
	close(pipes.leave[1]);
	while (wait(NULL) > 0)
		;
	return 0;
}
