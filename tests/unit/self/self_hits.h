/* SPDX-License-Identifier: MIT */
/* Probes of this process that tests connect functions to, and threads that pass them. */
#ifndef TESTS_UNIT_SELF_HITS_H
#define TESTS_UNIT_SELF_HITS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "tests/unit/self/self_text.h"

enum { DEPTH = 5, ROUNDS = 10 };

/* testcalls:hit, in a section of its own, of_hit: the linker says where that begins and ends. */
void hit(long i);
/* testcalls:ping */
void ping(long i);

/* A function for a probe: counts in an atomic_long. */
void self_count(const struct probe_self_hit *hit, void *data);

struct slow {
	atomic_int entered, left;
	atomic_bool go;
};
/* A function for a probe, with a struct slow: stays until it may go. */
void wait_to_go(const struct probe_self_hit *hit, void *data);

/* A thread that passes testcalls:hit once. */
void *hit_once(void *data);
/* One that passes both until hitters_done, and counts its hits of testcalls:hit. */
void *keep_hitting(void *data);
extern atomic_bool hitters_done;
extern atomic_long hitters_passed;

#endif
