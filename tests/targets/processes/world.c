/* SPDX-License-Identifier: MIT */
/*
 * The smallest program with a probe that a script can drive; built in many ways and started in
 * many environments (tests/integration/processes/worlds.sh).
 *
 *	world	waits for lines: "hit N" passes world:hit(I, WHO) N times and is
 *		answered by "hits N"; "resolved" is answered by "resolved N"; "quit", or the end of
 *		the input, ends it
 *
 * With glibc, the resolver of a function (ifunc) passes world:resolve N times before main().
 *
 * WHO is the macro of that name, which distinguishes two files with the same name.
 */
#include <string.h>
#include <sys/sdt.h>

#include "../target.h"

#ifndef WHO
#define WHO 1
#endif

static volatile int resolved;

#ifdef __GLIBC__
static void chosen(void)
{
}

/* Nothing is set up when it runs: a stack protector would read the thread's control block. */
__attribute__((optimize("no-stack-protector"))) static void (*choose(void))(void)
{
	resolved++;
	STAP_PROBE1(world, resolve, resolved);
	target_room_behind();
	return chosen;
}

static void resolve(void) __attribute__((ifunc("choose")));
#else
static void resolve(void)
{
}
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
	resolve();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		int hits = 0;

		if (sscanf(line, "hit %d", &hits) == 1)
			pass(hits);
		if (strcmp(line, "resolved") == 0)
			printf("resolved %d\n", resolved);
		else
			printf("hits %d\n", hits);
		fflush(stdout);
	}
	return 0;
}
