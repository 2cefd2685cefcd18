/* SPDX-License-Identifier: MIT */
/*
 * Probes with semaphores. Commands on standard input, each answered by a line:
 *
 *	print	"A B LIB OTHER STUCK": the semaphores' values
 *	hit	passes all tests twice (odd and even value), 10 times:
 *		"ENTERED": how many of the 70 saw their semaphore enabled
 *	quit
 *
 * demo:event has two sites each in two files of the program and in a library, with one
 * semaphore per file; demo:other has its own, and so has stuck:site, which cannot be patched.
 */
#include <string.h>

#include "semaphores.h"
#include "../target.h"

SEMAPHORES_DEFINE(semaphores_a, 1)

__attribute__((section(".probes"))) volatile unsigned short demo_other_semaphore;

static int other(int value)
{
	if (!demo_other_semaphore)
		return 0;
	STAP_PROBE1(demo, other, value);
	SEMAPHORES_ROOM;
	return 1;
}

static int hit(void)
{
	int entered = 0;

	for (int i = 0; i < 10; i++) {
		for (int odd = 0; odd < 2; odd++) {
			entered += semaphores_a(2 * i + odd);
			entered += semaphores_b(2 * i + odd);
			entered += semaphores_lib(2 * i + odd);
		}
		entered += other(i);
		(void)semaphores_stuck(i);
	}
	return entered;
}

int main(void)
{
	char line[64];

	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(line, sizeof(line)) && strcmp(line, "quit") != 0) {
		if (strcmp(line, "print") == 0)
			printf("%u %u %u %u %u\n", semaphores_a_semaphore(),
				semaphores_b_semaphore(), semaphores_lib_semaphore(),
				(unsigned int)demo_other_semaphore, semaphores_stuck_semaphore());
		else
			printf("%d\n", hit());
		fflush(stdout);
	}
	return 0;
}
