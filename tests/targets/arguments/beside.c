/* SPDX-License-Identifier: MIT */
/*
 * A probe that is passed only while another probe's semaphore is raised, as Python 3.11's
 * function__entry is. Each line on standard input makes so many calls ("5"), in a child if a
 * letter goes before ("f5"), and is answered by "MADE PASSED SEMAPHORE": how many of the calls
 * passed the probe, and the other probe's semaphore.
 */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
#include <sys/wait.h>

#include "../target.h"

__attribute__((section(".probes"))) volatile unsigned short beside_call_semaphore;
__attribute__((section(".probes"))) volatile unsigned short beside_done_semaphore;
__attribute__((section(".probes"))) volatile unsigned short beside_line_semaphore;

__attribute__((noinline)) static long call(long number)
{
	long passed = 0;

	if (beside_line_semaphore) {
		STAP_PROBE1(beside, call, number);
		target_room_behind();
		passed = 1;
	}
	STAP_PROBE1(beside, done, number);
	target_room_behind();
	return passed;
}

/* Has the note, and is not called. */
__attribute__((noinline, used)) static void line(void)
{
	STAP_PROBE(beside, line);
	target_room_behind();
}

static void answer(long count)
{
	long passed = 0;

	for (long i = 0; i < count; i++)
		passed += call(i);
	printf("%ld %ld %u\n", count, passed, (unsigned int)beside_line_semaphore);
	fflush(stdout);
}

int main(void)
{
	char command[64];

	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	while (target_read_line(command, sizeof(command))) {
		bool forks = command[0] == 'f';
		pid_t child = forks ? fork() : 0;

		if (child)
			waitpid(child, NULL, 0);
		else
			answer(atol(command + forks));
		if (forks && !child)
			_exit(0);
	}
	return 0;
}
