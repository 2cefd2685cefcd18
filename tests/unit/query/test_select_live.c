/* SPDX-License-Identifier: MIT */
/* Disabling and enabling single probes of a session in a real process. */
/* Not under ThreadSanitizer: its terabytes of memory are searched, and nothing has threads. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "tests/unit/live.h"

enum { PROBES = 3, CYCLES = 20 };

static void begin(struct live *l, const struct probe_session_options *options, const char *pattern)
{
	struct probe_report report = {0};

	live_ok(live_begin(l, pattern, options, &report));
	probe_report_deinit(&report);
}

static size_t index_of(const struct live *l, const char *name)
{
	size_t count;

	return (size_t)(live_probe(l, name) - probe_session_probes(l->session, &count));
}

/* Switches one probe of the session, and leaves the others unchanged. */
static void switch_one(struct live *l, const char *name, bool is_on, size_t switched_on)
{
	struct probe_report report = {0};
	bool on[PROBES];
	size_t count;

	probe_session_probes(l->session, &count);
	assert_true(count <= PROBES);
	for (size_t i = 0; i < count; i++)
		on[i] = probe_session_is_selected(l->session, i);
	on[index_of(l, name)] = is_on;
	live_ok(probe_session_select(l->session, on, &report));
	assert_int_equal(report.probes, switched_on);
	assert_int_equal(report.refusal_count, 0);
	probe_report_deinit(&report);
}

static size_t patched(struct live *l, const char *name)
{
	struct probe_status *states;
	size_t count, ret = SIZE_MAX;

	live_ok(probe_target_status(l->target, &states, &count));
	for (size_t i = 0; i < count; i++)
		if (strcmp(states[i].provider, "live") == 0 && strcmp(states[i].name, name) == 0)
			ret = states[i].patched;
	free(states);
	return ret;
}

static uint64_t hits(struct live *l, const char *name)
{
	live_ok(probe_session_poll(l->session, NULL, NULL, NULL));
	return live_probe(l, name)->hits;
}

static void test_counts_go_on(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	struct live *l = *state;
	uint64_t expected = 0;

	begin(l, &options, "live:*");
	for (int i = 0; i < CYCLES; i++) {
		live_order(l, 'o');
		expected += HITS;
		assert_int_equal(hits(l, "value"), expected);
		switch_one(l, "value", false, 0);
		assert_false(probe_session_is_selected(l->session, index_of(l, "value")));
		assert_true(probe_session_is_selected(l->session, index_of(l, "op__start")));
		assert_int_equal(patched(l, "value"), 0);
		assert_int_equal(patched(l, "op__start"), 1);
		live_order(l, 'o');
		assert_int_equal(hits(l, "value"), expected);
		switch_one(l, "value", true, 1);
		assert_int_equal(patched(l, "value"), 1);
	}
	/* The others were enabled all the time. */
	live_order(l, 'r');
	assert_int_equal(hits(l, "op__start"), THREADS * ROUNDS * DEPTH + 1);
}

static void test_all_at_once(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	static const bool none[PROBES] = {false}, all[PROBES] = {true, true, true};
	struct probe_report report = {0};
	struct live *l = *state;

	begin(l, &options, "live:*");
	live_ok(probe_session_select(l->session, none, &report));
	live_order(l, 'o');
	assert_int_equal(hits(l, "value"), 0);
	assert_int_equal(patched(l, "op__done"), 0);
	live_ok(probe_session_select(l->session, all, &report));
	assert_int_equal(report.probes, PROBES);
	live_ok(probe_session_select(l->session, all, &report));
	assert_int_equal(report.probes, PROBES);
	live_order(l, 'o');
	assert_int_equal(hits(l, "value"), HITS);
	probe_report_deinit(&report);
}

/* Records refer to sites by numbers: these stay the same. */
static bool check_record(const struct probe_hit *hit, void *data)
{
	uint64_t *count = data;

	assert_int_equal(hit->arg_count, 3);
	assert_int_equal(hit->args[0].i, live_value((long)(*count % HITS)));
	++*count;
	return true;
}

static void test_records(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_RECORD};
	struct live *l = *state;
	uint64_t count = 0;

	begin(l, &options, "live:*");
	switch_one(l, "op__done", false, 0);
	switch_one(l, "value", false, 0);
	switch_one(l, "value", true, 1);
	for (int i = 0; i < 2; i++) {
		live_order(l, 'o');
		live_ok(probe_session_poll(l->session, check_record, &count, NULL));
		switch_one(l, "value", false, 0);
		live_order(l, 'o');
		live_ok(probe_session_poll(l->session, check_record, &count, NULL));
		switch_one(l, "value", true, 1);
	}
	assert_int_equal(count + live_probe(l, "value")->lost, 2 * HITS);
}

static void rows(struct live *l)
{
	free(l->rows);
	l->rows = NULL;
	live_ok(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->count, 1);
}

/* A pair is switched as a whole, and what was in flight is dropped. */
static void test_pairs(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES, .histogram = true}};
	const uint64_t nested = THREADS * ROUNDS * DEPTH;
	struct live *l = *state;

	begin(l, &options, "live:*");
	live_order(l, 'r');
	rows(l);
	assert_int_equal(l->rows->count, nested);
	assert_int_equal(l->rows->in_flight, 1);
	switch_one(l, "op__start", false, 0);
	assert_false(probe_session_is_selected(l->session, index_of(l, "op__done")));
	assert_int_equal(patched(l, "op__done"), 0);
	live_order(l, 'r');
	rows(l);
	assert_int_equal(l->rows->count, nested);
	switch_one(l, "op__start", true, 0); /* the other one must be disabled */
	assert_false(probe_session_is_selected(l->session, index_of(l, "op__start")));
	live_ok(probe_session_select(
		l->session, (bool[PROBES]){true, true}, &(struct probe_report){0}));
	assert_true(probe_session_is_selected(l->session, index_of(l, "op__done")));
	rows(l);
	assert_int_equal(l->rows->in_flight, 0);
	live_order(l, 'r');
	rows(l);
	assert_int_equal(l->rows->count, 2 * nested);
	/* The end without a begin found nothing left from before. */
	assert_int_equal(live_probe(l, "op__done")->unmatched, 2);
}

static void test_mistakes(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	struct probe_report report = {0};
	struct live *l = *state;
	struct probe_error *error;

	begin(l, &options, "live:*");
	live_ok(probe_session_stop(l->session));
	error = probe_session_select(l->session, (bool[PROBES]){false}, &report);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	probe_error_free(error);
	assert_false(probe_session_is_selected(l->session, 0));
	live_end_session(l);
	begin(l, &options, "live:*");
	kill(l->pid, SIGKILL);
	waitpid(l->pid, NULL, 0);
	error = probe_session_select(l->session, (bool[PROBES]){false}, &report);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
	probe_report_deinit(&report);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_counts_go_on, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_all_at_once, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_records, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_pairs, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_mistakes, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
