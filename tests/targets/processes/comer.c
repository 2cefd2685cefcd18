/* SPDX-License-Identifier: MIT */
/* flags: -D_GNU_SOURCE */
/*
 * comer HITS PAUSE_US [alone|fork|daemon]: hits comer:hit(I, PID) at once, and HITS - 1 times more
 * after a pause each.
 *
 *	fork	so does a child, after the first hit
 *	daemon	the parent ends after the first hit, and the child has the others
 *
 * Before anything else, comer:early(PID) is hit by a constructor.
 */
#include <string.h>
#include <sys/sdt.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../target.h"

static void __attribute__((constructor)) early(void)
{
	STAP_PROBE1(comer, early, getpid());
}

static void __attribute__((noinline)) hit(int i)
{
	STAP_PROBE2(comer, hit, i, getpid());
}

int main(int argc, char **argv)
{
	int hits = argc > 1 ? atoi(argv[1]) : 1, pause = argc > 2 ? atoi(argv[2]) : 0;
	const char *mode = argc > 3 ? argv[3] : "alone";
	pid_t child = 1;

	target_allow_tracing();
	hit(0);
	if (strcmp(mode, "alone") != 0)
		child = fork();
	if (child && strcmp(mode, "daemon") == 0)
		return 0;
	for (int i = 1; i < hits; i++) {
		if (pause)
			usleep((useconds_t)pause);
		hit(i);
	}
	if (child > 1)
		waitpid(child, NULL, 0);
	return 0;
}
