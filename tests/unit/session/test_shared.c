/* SPDX-License-Identifier: MIT */
/* Sessions that start together: what they share, and that each has all of its hits. */
/* Not under ThreadSanitizer: its terabytes of memory are searched, and nothing has threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/session/session.h"
#include "probe/pattern.h"
#include "tests/unit/live.h"

enum { SESSIONS = 4 };

/* Sessions of one test. */
struct group {
	struct live *live;
	struct probe_pattern *patterns[2];
	size_t pattern_count, count;
	const struct probe_session_options *options[SESSIONS];
	struct probe_session *sessions[SESSIONS];
	struct probe_report reports[SESSIONS];
};

static struct group group_of(struct live *l, const char *first, const char *second)
{
	struct group g = {.live = l};

	live_ok(probe_pattern_parse(first, &g.patterns[g.pattern_count++]));
	if (second)
		live_ok(probe_pattern_parse(second, &g.patterns[g.pattern_count++]));
	return g;
}

static void add(struct group *g, const struct probe_session_options *options)
{
	g->options[g->count++] = options;
}

static struct probe_error *start(struct group *g)
{
	const struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)g->patterns,
		.pattern_count = g->pattern_count};

	return probe_sessions_start(
		g->live->target, &request, g->options, g->count, g->reports, g->sessions);
}

static void end(struct group *g)
{
	for (size_t i = 0; i < g->count; i++) {
		probe_session_free(g->sessions[i]);
		probe_report_deinit(&g->reports[i]);
	}
	for (size_t i = 0; i < g->pattern_count; i++)
		probe_pattern_free(g->patterns[i]);
}

/* How many stubs a site of the first session has. */
static size_t stubs(const struct group *g)
{
	const struct probe_session *s = g->sessions[0];
	struct registry registry;
	struct maps maps = {0};
	size_t count;

	live_ok(maps_read(g->live->pid, &maps));
	live_ok(registry_load(g->live->pid, &maps, &registry));
	registry_stubs(&registry, s->sites[0].pc, &count);
	registry_deinit(&registry);
	maps_deinit(&maps);
	return count;
}

static const struct probe_session_probe *first_probe(const struct probe_session *session)
{
	size_t count;
	const struct probe_session_probe *probes = probe_session_probes(session, &count);

	assert_true(count > 0);
	return probes;
}

static bool count_hit(const struct probe_hit *hit, void *data)
{
	assert_int_equal(hit->arg_count, 3);
	++*(uint64_t *)data;
	return true;
}

static const struct probe_session_options counts = {.kind = PROBE_SESSION_COUNT},
					  records = {.kind = PROBE_SESSION_RECORD},
					  values = {.kind = PROBE_SESSION_GATHER,
						  .gather = {.value = "arg0",
							  .sum = true,
							  .histogram = true}},
					  by_key = {.kind = PROBE_SESSION_GATHER,
						  .gather = {.value = "arg0",
							  .sum = true,
							  .keys = {"str(arg2)", "arg1"},
							  .key_count = 2}};

static double sum_of(struct probe_session *session, size_t rows, uint64_t hits)
{
	struct probe_row *row;
	uint64_t total = 0;
	size_t count;
	double sum = 0;

	live_ok(probe_session_rows(session, &row, &count));
	assert_int_equal(count, rows);
	for (size_t i = 0; i < count; i++) {
		total += row[i].count;
		sum += row[i].sum;
	}
	assert_int_equal(total, hits);
	free(row);
	return sum;
}

static void check_values(struct group *g, uint64_t times)
{
	double truth = 0;

	for (long i = 0; i < HITS; i++)
		truth += (double)times * THREADS * (double)live_value(i);
	assert_int_equal(first_probe(g->sessions[0])->hits, times * THREADS * HITS);
	assert_true(sum_of(g->sessions[1], 1, times * THREADS * HITS) == truth);
	assert_true(sum_of(g->sessions[2], 3 * KINDS, times * THREADS * HITS) == truth);
}

/* ---- Shared ----------------------------------------------------------------------------- */

static void shared(void **state)
{
	struct group g = group_of(*state, "live:value", NULL);

	add(&g, &counts);
	add(&g, &values);
	add(&g, &by_key);
	live_ok(start(&g));
	assert_int_equal(stubs(&g), 1);
	for (size_t i = 0; i < g.count; i++)
		assert_int_equal(g.reports[i].sites, g.reports[0].sites);
	live_order(g.live, 'v');
	for (size_t i = 0; i < g.count; i++)
		live_ok(probe_session_poll(g.sessions[i], NULL, NULL, NULL));
	assert_int_equal(first_probe(g.sessions[0])->hits, THREADS * HITS);
	/* The end of one is the end of all. */
	live_ok(probe_session_stop(g.sessions[1]));
	assert_int_equal(stubs(&g), 0);
	live_order(g.live, 'v');
	for (size_t i = 0; i < g.count; i++)
		live_ok(probe_session_stop(g.sessions[i]));
	check_values(&g, 1);
	end(&g);
}

/* Records, with the leader freed before those that it served. */
static void recorded(void **state)
{
	struct group g = group_of(*state, "live:value", NULL);
	uint64_t seen = 0;

	add(&g, &counts);
	add(&g, &values);
	add(&g, &by_key);
	add(&g, &records);
	live_ok(start(&g));
	assert_int_equal(stubs(&g), 1);
	live_order(g.live, 'v');
	live_ok(probe_session_stop(g.sessions[0]));
	live_ok(probe_session_poll(g.sessions[3], count_hit, &seen, NULL));
	assert_int_equal(seen + first_probe(g.sessions[3])->lost, THREADS * HITS);
	assert_true(seen > 0);
	probe_session_free(g.sessions[3]);
	g.sessions[3] = NULL;
	check_values(&g, 1);
	end(&g);
}

/* Pairs beside counts; each session has its own table of start events. */
static void pairs(void **state)
{
	static const struct probe_session_options
		by_thread = {.kind = PROBE_SESSION_GATHER,
			.gather = {.pairing = PROBE_PAIRING_LISTED, .sum = true}},
		by_argument = {.kind = PROBE_SESSION_GATHER,
			.gather = {.pairing = PROBE_PAIRING_LISTED, .sum = true, .match = "arg0"}};
	struct group g = group_of(*state, "live:op__start", "live:op__done");
	struct probe_row *row;
	size_t count;

	add(&g, &by_thread);
	add(&g, &counts);
	add(&g, &by_argument);
	live_ok(start(&g));
	assert_int_equal(stubs(&g), 1);
	live_order(g.live, 'q');
	live_ok(probe_session_stop(g.sessions[0]));
	live_ok(probe_session_rows(g.sessions[2], &row, &count));
	assert_int_equal(count, 1);
	assert_int_equal(row->count, REQUESTS - LEFT);
	assert_int_equal(row->in_flight, LEFT);
	free(row);
	/* One thread begins, another ends. */
	sum_of(g.sessions[0], 1, 0);
	assert_int_equal(first_probe(g.sessions[1])->hits, REQUESTS - LEFT + 1);
	end(&g);
}

/* ---- Not shared --------------------------------------------------------------------------- */

static void others(void **state)
{
	static const struct probe_session_options some = {
		.kind = PROBE_SESSION_COUNT, .filter = "arg1 == 3"};
	struct group g = group_of(*state, "live:value", NULL);

	add(&g, &counts);
	add(&g, &some);
	add(&g, &counts);
	live_ok(start(&g));
	assert_int_equal(stubs(&g), 2); /* the two that count all hits share one */
	live_order(g.live, 'v');
	for (size_t i = 0; i < g.count; i++)
		live_ok(probe_session_stop(g.sessions[i]));
	assert_int_equal(first_probe(g.sessions[0])->hits, THREADS * HITS);
	assert_int_equal(first_probe(g.sessions[1])->hits, THREADS * HITS / KINDS);
	assert_int_equal(first_probe(g.sessions[2])->hits, THREADS * HITS);
	end(&g);
}

/* Both keep arguments of begins, for which one stub has no place: each has stubs of its own. */
static void alone(void **state)
{
	static const struct probe_session_options sums = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_LISTED,
			.sum = true,
			.keys = {"begin.arg0 / 1000000"},
			.key_count = 1}};
	struct group g = group_of(*state, "live:op__start", "live:op__done");

	add(&g, &sums);
	add(&g, &sums);
	live_ok(start(&g));
	assert_int_equal(stubs(&g), 2);
	live_order(g.live, 'r');
	for (size_t i = 0; i < g.count; i++)
		live_ok(probe_session_stop(g.sessions[i]));
	for (size_t i = 0; i < g.count; i++) {
		struct probe_row *row;
		uint64_t total = 0;
		size_t count;

		live_ok(probe_session_rows(g.sessions[i], &row, &count));
		for (size_t k = 0; k < count; k++)
			total += row[k].count;
		free(row);
		assert_int_equal(total, THREADS * ROUNDS * DEPTH);
	}
	end(&g);
}

/* After an error, nothing is left. */
static void errors(void **state)
{
	static const struct probe_session_options wrong = {
		.kind = PROBE_SESSION_GATHER, .gather = {.value = "arg9", .sum = true}};
	struct group g = group_of(*state, "live:value", NULL);
	struct probe_error *error;

	add(&g, &counts);
	add(&g, &wrong);
	error = start(&g);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_non_null(strstr(error->message, "arg9"));
	probe_error_free(error);
	assert_null(g.sessions[0]);
	g.options[1] = &values;
	live_ok(start(&g));
	assert_int_equal(stubs(&g), 1);
	error = probe_session_select(g.sessions[1], &(bool){false}, &g.reports[1]);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	probe_error_free(error);
	live_ok(probe_session_stop(g.sessions[1]));
	end(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(shared, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(recorded, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(pairs, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(others, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(alone, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(errors, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
