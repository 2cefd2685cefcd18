/* SPDX-License-Identifier: MIT */
/*
 * flags: -O1
 *
 * solo:one, followed by a single instruction as long as a jump, in a program with a signal
 * handler. Passes it all the time; answers every line with "alive".
 */
#include <poll.h>
#include <signal.h>
#include <sys/sdt.h>

#include "../target.h"

static void handle(int number)
{
	(void)number;
}

static void pass(void)
{
	STAP_PROBE(solo, one);
#ifdef __x86_64__
	__asm__ volatile("movl $1, %%eax; movl $2, %%eax" ::: "eax");
#endif
}

int main(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	char line[64];

	signal(SIGUSR1, handle);
	target_allow_tracing();
	printf("ready %d\n", getpid());
	fflush(stdout);
	for (;;) {
		pass();
		if (poll(&input, 1, 1) != 1)
			continue;
		if (!target_read_line(line, sizeof(line)))
			return 0;
		puts("alive");
		fflush(stdout);
	}
}
