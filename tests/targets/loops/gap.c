/* SPDX-License-Identifier: MIT */
/*
 * Measures from inside how long a process was stopped: a loop that reads the clock and passes
 * gap:hit (3 arguments), and keeps the largest step.
 *
 * On a busy machine the scheduler causes larger steps than any tracer. The program therefore
 * subtracts the time that a runnable thread waited for a CPU (the second number of
 * /proc/PID/schedstat, Documentation/scheduler/sched-stats.rst); a stopped thread does not wait
 * for one.
 *
 * SIGUSR1 begins a measurement, SIGUSR2 ends it and prints "gap NS hits N raw NS", where raw
 * includes the waiting; SIGTERM ends the program.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/sdt.h>

#include "../target.h"

enum { LARGE_NS = 3000 }; /* below, reading schedstat would be most of the step */

static volatile sig_atomic_t command;
static int schedstat;

static void on_signal(int number)
{
	command = number;
}

static uint64_t waited_ns(void)
{
	unsigned long long run = 0, waited = 0;
	char text[96];
	ssize_t got = pread(schedstat, text, sizeof(text) - 1, 0);

	if (got > 0) {
		text[got] = '\0';
		sscanf(text, "%llu %llu", &run, &waited);
	}
	return waited;
}

struct gap {
	uint64_t largest, raw, waited, hits;
};

static void gap_reset(struct gap *gap)
{
	*gap = (struct gap){.waited = waited_ns()};
}

static void gap_step(struct gap *gap, uint64_t step)
{
	uint64_t waited;

	if (step > gap->raw)
		gap->raw = step;
	if (step < LARGE_NS || step <= gap->largest)
		return;
	waited = waited_ns();
	step -= waited - gap->waited < step ? waited - gap->waited : step;
	gap->waited = waited;
	if (step > gap->largest)
		gap->largest = step;
}

int main(void)
{
	static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM};
	struct gap gap;
	uint64_t last;

	schedstat = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
	for (int i = 0; i < 3; i++)
		sigaction(signals[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
	target_allow_tracing();
	gap_reset(&gap);
	printf("ready %d\n", (int)getpid());
	fflush(stdout);
	last = target_now_ns();
	for (;;) {
		uint64_t now = target_now_ns();

		if (now - last > LARGE_NS) {
			gap_step(&gap, now - last);
			now = target_now_ns();
		}
		last = now;
		gap.hits++;
		STAP_PROBE3(gap, hit, gap.hits, now, gap.largest);
		if (!command)
			continue;
		if (command == SIGTERM)
			return 0;
		if (command == SIGUSR2) {
			printf("gap %llu hits %llu raw %llu\n", (unsigned long long)gap.largest,
				(unsigned long long)gap.hits, (unsigned long long)gap.raw);
			fflush(stdout);
		}
		command = 0;
		gap_reset(&gap);
		last = target_now_ns();
	}
}
