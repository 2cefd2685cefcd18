/* SPDX-License-Identifier: MIT */
/* Threads that hit stubs at once, under a storm of signals whose handlers hit them, too. */
#ifndef TESTS_UNIT_STUB_CROWD_H
#define TESTS_UNIT_STUB_CROWD_H

#include <stdbool.h>
#include <stdint.h>

typedef void crowd_work(void *data, uint64_t number);

/*
 * Each of `threads` threads works with the numbers from 0 to hits - 1. In a
 * storm, so does a signal handler of each, 150 us after it has last returned and
 * once before the thread begins, with numbers that count up over all. Returns
 * how many of those there were.
 */
uint64_t crowd_run(crowd_work *work, void *data, int threads, uint32_t hits, bool storm);

#endif
