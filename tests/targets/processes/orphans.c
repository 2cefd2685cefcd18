/* SPDX-License-Identifier: MIT */
/*
 * Children that hit a probe after their parent's end: orphans COUNT MICROSECONDS. Each waits for so
 * long, hits orphans:child once and ends. The parent hits orphans:parent and does not wait.
 */
#include <sys/sdt.h>

#include "../target.h"

int main(int argc, char **argv)
{
	unsigned long count = argc > 1 ? strtoul(argv[1], NULL, 0) : 1;
	unsigned long us = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;

	target_allow_tracing();
	for (unsigned long i = 0; i < count; i++) {
		if (fork() != 0)
			continue;
		usleep((useconds_t)us);
		STAP_PROBE1(orphans, child, i);
		target_room_behind();
		_exit(0);
	}
	STAP_PROBE1(orphans, parent, count);
	target_room_behind();
	return 0;
}
