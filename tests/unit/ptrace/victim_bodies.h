/* SPDX-License-Identifier: MIT */
/* What victims do, if several tests need it. */
#ifndef TESTS_VICTIM_BODIES_H
#define TESTS_VICTIM_BODIES_H

#include "tests/unit/victim.h"

/*
 * Notes what a system call has returned, and how long that took from `start` on. Then the victim
 * waits for victim_join(), so that it can be stopped however late that is.
 */
void finish(struct shared *s, int64_t start, int64_t result);
/* Reads one byte. */
void read_body(struct shared *s);
/* From now on `signals` counts each SIGUSR1. */
void handle_signals(struct shared *s);
/* Waits for them, for ever. */
void signal_body(struct shared *s);
/* Counts, on a stack that is an array filled with a pattern. */
void on_array_body(struct shared *s);
/* Fails the test where a byte of that array was written. */
void array_is_unchanged(const struct victim *v);

#endif
