/* SPDX-License-Identifier: MIT */
/*
 * Measures, from inside, how long a process was stopped: a loop that reads the
 * clock and passes gap:hit (3 arguments), and keeps the largest step.
 *
 * SIGUSR1 begins a measurement, SIGUSR2 ends it and prints "gap NS hits N";
 * SIGTERM ends the program.
 */
#include <signal.h>
#include <sys/sdt.h>

#include "target.h"

static volatile sig_atomic_t command;

static void on_signal(int number)
{
	command = number;
}

int main(void)
{
	static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM};
	uint64_t last, largest = 0, hits = 0;

	for (int i = 0; i < 3; i++)
		sigaction(signals[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
	target_allow_tracing();
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	last = target_now_ns();
	for (;;) {
		uint64_t now = target_now_ns();

		if (now - last > largest)
			largest = now - last;
		last = now;
		hits++;
		STAP_PROBE3(gap, hit, hits, now, largest);
		if (!command)
			continue;
		if (command == SIGTERM)
			return 0;
		if (command == SIGUSR2) {
			printf("gap %llu hits %llu\n", (unsigned long long)largest,
				(unsigned long long)hits);
			fflush(stdout);
		}
		command = 0;
		largest = 0;
		hits = 0;
		last = target_now_ns();
	}
}
