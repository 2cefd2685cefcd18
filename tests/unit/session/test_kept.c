/* SPDX-License-Identifier: MIT */
/* Sessions that stay in a process, and can be read by any controller. */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/live.h"

static struct probe_error *open_kept(struct live *l, uint32_t id, const char *pattern,
	const struct probe_session_options *options)
{
	struct probe_pattern *parsed;
	struct probe_error *error;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&parsed, .pattern_count = 1};

	live_ok(probe_pattern_parse(pattern, &parsed));
	error = probe_session_open(l->target, id, &request, options, &l->session);
	probe_pattern_free(parsed);
	return error;
}

/* Leaves a session with a text in the target, and nothing here; returns its id. */
static uint32_t keep(struct live *l, const char *pattern,
	const struct probe_session_options *options, const char *text)
{
	struct probe_report report = {0};
	struct probe_kept *kept;
	uint32_t id;
	size_t count;

	live_ok(live_begin(l, pattern, options, &report));
	probe_report_deinit(&report);
	live_ok(probe_session_leave(l->session, text));
	live_ok(probe_session_stop(l->session)); /* it is no longer ours */
	live_end_session(l);
	live_ok(probe_target_kept(l->target, &kept, &count));
	assert_true(count >= 1);
	assert_string_equal(kept[count - 1].text, text);
	id = kept[count - 1].id;
	free(kept);
	return id;
}

static void is_gone(struct live *l, uint32_t id, const struct probe_session_options *options)
{
	struct probe_error *error = open_kept(l, id, "live:*", options);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
	error = probe_target_end(l->target, id);
	assert_non_null(error);
	probe_error_free(error);
}

static void test_kept(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
							  .gather = {.value = "arg0",
								  .sum = true,
								  .histogram = true,
								  .keys = {"str(arg2)"},
								  .key_count = 1}},
						  others = {.kind = PROBE_SESSION_GATHER,
							  .gather = {.value = "arg0", .sum = true}};
	struct live *l = *state;
	struct probe_error *error;
	struct probe_kept *kept;
	uint64_t sum = 0;
	char text[1000];
	uint32_t id;
	size_t count;

	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	id = keep(l, "live:value", &options, text);
	live_order(l, 'v');
	live_ok(open_kept(l, id, "live:*", &options)); /* it ignores other sessions' probes */
	live_ok(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->count, 3);
	for (size_t i = 0; i < l->count; i++) {
		assert_true(l->rows[i].is_signed && l->rows[i].buckets);
		sum += l->rows[i].count;
	}
	assert_int_equal(sum, THREADS * HITS);
	live_ok(probe_session_poll(l->session, NULL, NULL, NULL));
	assert_int_equal(live_probe(l, "value")->hits, THREADS * HITS);
	live_end_session(l);
	error = open_kept(l, id, "live:*", &others);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE);
	probe_error_free(error);
	live_ok(probe_target_end(l->target, id));
	live_ok(probe_target_kept(l->target, &kept, &count));
	assert_int_equal(count, 0);
	free(kept);
	is_gone(l, id, &options);
}

static void test_kept_pairs(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES, .sum = true, .extremes = true}};
	struct live *l = *state;
	uint32_t id = keep(l, "live:op*", &options, "latency"), other;
	struct probe_request request;
	struct probe_pattern *pattern;
	struct probe_report report = {0};

	live_order(l, 'r');
	other = keep(l, "live:op*", &options, ""); /* two at once, with separate numbers */
	live_order(l, 'r');
	live_ok(open_kept(l, id, "live:*", &options));
	live_ok(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->count, 1);
	assert_int_equal(l->rows->count, 2 * THREADS * ROUNDS * DEPTH + 1);
	assert_int_equal(l->rows->in_flight, 1);
	assert_true(l->rows->begin != SIZE_MAX && l->rows->min.u <= l->rows->max.u);
	live_end_session(l);
	live_ok(open_kept(l, other, "live:*", &options));
	live_ok(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->rows->count, THREADS * ROUNDS * DEPTH);
	assert_int_equal(live_probe(l, "op__done")->unmatched, 1);
	live_end_session(l);
	/* Each is one reference. */
	live_ok(probe_pattern_parse("live:op*", &pattern));
	request = (struct probe_request){
		.patterns = (const struct probe_pattern *const *)&pattern, .pattern_count = 1};
	live_ok(probe_target_disable(l->target, &request, &report));
	live_ok(probe_target_disable(l->target, &request, &report));
	probe_report_deinit(&report);
	probe_pattern_free(pattern);
	is_gone(l, id, &options);
	is_gone(l, other, &options);
}

static void test_kept_stacks(void **state)
{
	static const struct probe_session_options options = {
		.kind = PROBE_SESSION_GATHER, .stack = PROBE_STACK_FRAMES};
	struct live *l = *state;
	struct probe_stack stack;
	uint32_t id = keep(l, "live:value", &options, "stack");
	uint64_t sum = 0;

	live_order(l, 'v');
	live_ok(open_kept(l, id, "*", &options));
	live_ok(probe_session_rows(l->session, &l->rows, &l->count));
	for (size_t i = 0; i < l->count; i++) {
		live_ok(probe_session_stack(l->session, &l->rows[i], &stack));
		assert_true(stack.count > 0);
		sum += l->rows[i].count;
	}
	assert_int_equal(sum, THREADS * HITS);
	live_end_session(l);
	live_ok(probe_target_end(l->target, id));
}

static void test_kept_recorder(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_RECORD,
							  .overwrite = true,
							  .ring_bytes = 1},
						  plain = {.kind = PROBE_SESSION_RECORD};
	struct live *l = *state;
	struct live_flight flight = {0};
	struct probe_report report = {0};
	struct probe_error *error;
	uint32_t id = keep(l, "live:value", &options, "ring");

	live_order(l, 'o');
	live_ok(open_kept(l, id, "*", &options));
	live_ok(probe_session_snapshot(l->session, live_follow, &flight));
	assert_true(flight.count > 1000 && flight.count < HITS);
	assert_int_equal(flight.last, live_value(HITS - 1));
	live_end_session(l);
	live_ok(probe_target_end(l->target, id));
	live_ok(live_begin(l, "live:value", &plain, &report));
	probe_report_deinit(&report);
	error = probe_session_leave(l->session, "");
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	probe_error_free(error);
	live_ok(probe_session_stop(l->session));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_kept, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_kept_pairs, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_kept_stacks, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_kept_recorder, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
