/* SPDX-License-Identifier: MIT */
/*
 * The smallest program with a probe that a script can drive; built in many ways and started in
 * many environments (tests/integration/processes/worlds.sh).
 *
 *	world	waits for lines: "hit N" passes world:hit(I, WHO) N times and is
 *		answered by "hits N"; "quit", or the end of the input, ends it
 *
 * WHO is the macro of that name, which distinguishes two files with the same name.
 */
#include <string.h>
#include <sys/sdt.h>

#include "../target.h"

#ifndef WHO
#define WHO 1
#endif

__attribute__((noinline)) static void pass(int hits)
{
	for (int i = 0; i < hits; i++) {
		STAP_PROBE2(world, hit, i, WHO);
		target_room_behind();
	}
}

int main(void)
{
	char line[64];

	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		int hits = 0;

		if (sscanf(line, "hit %d", &hits) == 1)
			pass(hits);
		printf("hits %d\n", hits);
		fflush(stdout);
	}
	return 0;
}
