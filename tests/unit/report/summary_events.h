/* SPDX-License-Identifier: MIT */
/* Events of the provider db, for tests of summaries. */
#ifndef TESTS_UNIT_SUMMARY_EVENTS_H
#define TESTS_UNIT_SUMMARY_EVENTS_H

#include <stdint.h>
#include <sys/types.h>

#include "probe/summary.h"

/* An empty summary; fails the test if there is none. */
struct probe_summary *summary_made(const struct probe_summary_options *options);

/* Adds a hit of db:NAME with up to one argument. */
void summary_hit(struct probe_summary *summary, uint64_t time_ns, pid_t tid, const char *name,
	const struct probe_value *arg);
void summary_lose(struct probe_summary *summary, uint64_t time_ns, uint64_t count);

/* Of SUMMARY_BINS. */
uint64_t summary_bins_sum(const uint64_t *bins);

struct probe_value summary_number(uint64_t value);
struct probe_value summary_string(const char *text);

#endif
