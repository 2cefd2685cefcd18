/* SPDX-License-Identifier: MIT */
/* The same computation with and without probes. */
#ifndef TESTS_TORTURE_VICTIM_H
#define TESTS_TORTURE_VICTIM_H

#include <stdint.h>

struct mixed {
	uint64_t whole;
	double real;
};

/* Both compute the same; the first passes probes with semaphores on its way. */
struct mixed mix_probed(uint64_t seed, int rounds);
struct mixed mix_plain(uint64_t seed, int rounds);

/* Probes in other places: in a signal handler, in a thread's or a child's first steps. */
void victim_handler(int number);
void victim_thread(uint64_t number);

#endif
