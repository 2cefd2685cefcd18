/* SPDX-License-Identifier: MIT */
/*
 * Children that hit a probe after their parent's end, or while it waits:
 *
 *	orphans COUNT MICROSECONDS	each child waits for so long, hits orphans:child and ends;
 *					the parent hits orphans:parent and does not wait
 *	orphans COUNT			prints "begin", forks a child every two milliseconds, prints
 *					"ready PID", waits for a line; then each child hits
 *					orphans:child, and the parent waits for all
 */
#include <sys/sdt.h>
#include <sys/wait.h>

#include "../target.h"

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	unsigned long us = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	bool waits = argc <= 2;
	int go[2];
	char byte;

	if (pipe(go) != 0)
		return 2;
	target_allow_tracing();
	if (waits) {
		printf("begin\n");
		fflush(stdout);
	}
	for (unsigned long i = 0; i < count; i++) {
		if (waits)
			usleep(2000);
		if (fork() != 0)
			continue;
		close(go[1]);
		if (waits)
			while (read(go[0], &byte, 1) < 0)
				;
		else
			usleep((useconds_t)us);
		STAP_PROBE1(orphans, child, i);
		target_room_behind();
		_exit(0);
	}
	if (waits) {
		target_wait();
		close(go[1]);
		while (wait(NULL) > 0)
			;
	}
	STAP_PROBE1(orphans, parent, count);
	target_room_behind();
	return 0;
}
