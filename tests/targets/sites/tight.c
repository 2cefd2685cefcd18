/* SPDX-License-Identifier: MIT */
/*
 * flags: -pthread
 *
 * Passes the sites of tight_sites.S as often as a line says, and answers "passed N wrong W"; at
 * "spin", a thread passes them until the next "spin", which answers "spun W". Meanwhile a timer
 * interrupts whatever runs, and its handler passes them, too, with arguments that are no hits.
 */
#include <signal.h>
#include <sys/time.h>

#include "passes.h"

uint64_t tight_twin(uint64_t value), tight_call(uint64_t value), tight_part(uint64_t value),
	tight_page(uint64_t value);

static uint64_t (*const functions[])(uint64_t) = {tight_twin, tight_call, tight_part, tight_page};
static uint64_t wrong;

static uint64_t pass_all(uint64_t value)
{
	uint64_t count = 0;

	for (size_t k = 0; k < sizeof(functions) / sizeof(*functions); k++)
		count += functions[k](value) != value + 10;
	return count;
}

static void on_alarm(int signal)
{
	(void)signal;
	__atomic_fetch_add(&wrong, pass_all(0), __ATOMIC_RELAXED);
}

/* Ends what is passed as often as a line says. */
static uint64_t check_handler(uint64_t value)
{
	return value + 10 + __atomic_load_n(&wrong, __ATOMIC_RELAXED);
}

/* Passes all of them, with hits. */
static uint64_t spin(const uint32_t *stop)
{
	uint64_t count = 0;

	while (!__atomic_load_n(stop, __ATOMIC_RELAXED))
		for (uint64_t i = 0; i < 1000; i++)
			count += pass_all(i);
	return count;
}

int main(void)
{
	static uint64_t (*const all[])(uint64_t) = {
		tight_twin, tight_call, tight_part, tight_page, check_handler};
	struct passes passes = {
		.functions = all, .count = sizeof(all) / sizeof(*all), .first = 1, .spin = spin};
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval timer = {{0, 500}, {0, 500}};

	if (sigaction(SIGALRM, &action, NULL) < 0 || setitimer(ITIMER_REAL, &timer, NULL) < 0)
		return 1;
	return passes_run(&passes);
}
