/* SPDX-License-Identifier: MIT */
/* Stubs that gather, in the test's own process, and what they have gathered. */
#ifndef TESTS_UNIT_STUB_GATHERING_H
#define TESTS_UNIT_STUB_GATHERING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/stub/stub_crowd.h"
#include "tests/unit/stub/stub_host.h"

enum {
	GATHERING_CELL = 1 << 12, /* where the cell of the site is in each set */
	GATHERING_CELL_BYTES = sizeof(struct probe_cell) + 8 * CELL_BUCKETS,
	GATHERING_STRING_MAX = 40,
	GATHERING_THREADS = 8,
	GATHERING_HITS = 30000, /* of each thread; signals come in between */
	GATHERING_EXTRA_BYTES = 1 << 17
};

struct gathering {
	struct stub_host host;
	stub_host_site *site, *end;
	uint8_t *extra;	  /* begins that have no end yet; the word of a rate */
	uint64_t signals; /* hits of signal handlers in the last run */
};

/* For cmocka: a state that is a gathering. */
int gathering_setup(void **state);
int gathering_teardown(void **state);

/* The first argument, the second, and the text that the first points to; once there is one. */
extern struct arch_capture gathering_captures[3];
extern const struct arch_expr gathering_first, gathering_second;

/* A stub that gathers `parts` of the first argument into the site's cell. */
struct arch_stub gathering_stub(const struct gathering *c, bool has_rseq, unsigned int parts);

/* Calls `work` in GATHERING_THREADS threads, `times` times in each thread; see crowd_run(). */
void gathering_run(struct gathering *c, crowd_work *work, uint32_t times, bool storm);

/* The site's cell (with keys: its table) of one CPU. */
uint8_t *gathering_set(const struct gathering *c, uint32_t set);

struct totals {
	uint64_t count, sum, most, least, last, last_time, bucketed, entries;
	uint64_t buckets[CELL_BUCKETS];
};

void gathering_add(struct totals *t, const struct probe_cell *cell);
/* What the cells of all CPUs have. */
struct totals gathering_totals(const struct gathering *c);
/* The sum of a word of the site's slots, over all CPUs. */
uint64_t gathering_slots(const struct gathering *c, size_t field);
uint64_t gathering_ticks(void);

#endif
