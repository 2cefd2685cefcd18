/* SPDX-License-Identifier: MIT */
/* What sessions gather from a real process, compared with what it did. */
/* Not under ThreadSanitizer: its terabytes of memory are searched, and nothing has threads. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/live.h"

/* ---- Values and keys -------------------------------------------------------------------- */

static void test_values(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.value = "arg0",
			.sum = true,
			.extremes = true,
			.last = true,
			.histogram = true}};
	struct live *l = *state;
	double sum = 0, min = 0, max = 0;
	uint64_t negative = 0;

	for (long i = 0; i < HITS; i++) {
		double v = (double)live_value(i);

		sum += THREADS * v;
		min = v < min ? v : min;
		max = v > max ? v : max;
		negative += v < 0 ? THREADS : 0;
	}
	live_gather(l, "live:value", &options, 'v');
	assert_int_equal(l->count, 1);
	assert_int_equal(l->rows->count, THREADS * HITS);
	assert_int_equal(live_probe(l, "value")->hits, THREADS * HITS);
	assert_int_equal(live_probe(l, "value")->lost, 0);
	assert_true(l->rows->is_signed && l->rows->sum == sum);
	assert_true((double)l->rows->min.i == min && (double)l->rows->max.i == max);
	assert_int_equal(l->rows->last.i, live_value(HITS - 1));
	assert_int_equal(l->rows->buckets[PROBE_BUCKETS - 1], negative);
}

static void test_keys(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.value = "arg0",
			.sum = true,
			.keys = {"str(arg2)", "arg1"},
			.key_count = 2}};
	struct live *l = *state;

	live_gather(l, "live:value", &options, 'v');
	assert_int_equal(l->count, 3 * KINDS);
	for (size_t i = 0; i < l->count; i++) {
		const struct probe_value *keys = l->rows[i].keys;
		uint64_t count = 0;
		double sum = 0;

		for (long k = 0; k < HITS; k++) {
			const char *name = live_names[k % 3];

			if ((uint64_t)k % KINDS != keys[1].u || strlen(name) != keys[0].length ||
				memcmp(name, keys[0].bytes, keys[0].length) != 0)
				continue;
			count += THREADS;
			sum += THREADS * (double)live_value(k);
		}
		assert_int_equal(l->rows[i].count, count);
		assert_true(l->rows[i].sum == sum);
	}
}

/* More keys than there is room for: the excess is counted as lost. */
static void test_many_keys(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.keys = {"arg0"}, .key_count = 1, .keys_max = 16}};
	struct live *l = *state;
	uint64_t sum = 0;

	live_gather(l, "live:value", &options, 'v');
	for (size_t i = 0; i < l->count; i++)
		sum += l->rows[i].count;
	assert_true(l->count >= 16 && sum > 0);
	assert_int_equal(sum, live_probe(l, "value")->hits);
	assert_int_equal(sum + live_probe(l, "value")->lost, THREADS * HITS);
}

/* ---- Filters and samples ---------------------------------------------------------------- */

static bool count_hit(const struct probe_hit *hit, void *data)
{
	assert_int_equal(hit->args[1].u, 3);
	++*(uint64_t *)data;
	return true;
}

static void test_filters(void **state)
{
	struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.filter = "arg1 == 3 && str(arg2) == \"beta\" && arg0 > -40000"};
	struct live *l = *state;
	uint64_t truth = 0, seen = 0;

	for (long i = 0; i < HITS; i++)
		truth += i % KINDS == 3 && i % 3 == 1 && live_value(i) > -40000 ? THREADS : 0;
	live_gather(l, "live:value", &options, 'v');
	assert_int_equal(l->rows->count, truth);
	assert_false(l->rows->has_value);
	live_end_session(l);
	options.kind = PROBE_SESSION_COUNT;
	live_gather(l, "live:value", &options, 'v');
	assert_int_equal(l->count, 0); /* only sessions that gather have rows */
	assert_int_equal(live_probe(l, "value")->hits, truth);
	live_end_session(l);
	options.kind = PROBE_SESSION_RECORD;
	live_gather(l, "live:value", &options, 'v');
	live_ok(probe_session_poll(l->session, count_hit, &seen, NULL));
	assert_int_equal(seen + live_probe(l, "value")->lost, truth);
}

static void test_samples(void **state)
{
	static const struct probe_session_options options = {
		.kind = PROBE_SESSION_COUNT, .sample_every = 4};
	struct live *l = *state;
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	double off;

	live_gather(l, "live:value", &options, 'v');
	off = 4 * (double)live_probe(l, "value")->hits - THREADS * HITS;
	assert_true(fabs(off) <= 4 * (double)(cpus + 1)); /* each CPU starts over */
}

/* ---- Pairs ------------------------------------------------------------------------------ */

static void test_recursion(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES,
			.sum = true,
			.extremes = true,
			.histogram = true}};
	struct live *l = *state;
	struct probe_report report = {0};
	struct timespec before, after;
	double most;

	live_ok(live_begin(l, "live:*", &options, &report));
	assert_int_equal(report.refusal_count, 1); /* live:value has no partner */
	assert_string_equal(report.refusals->name, "value");
	probe_report_deinit(&report);
	clock_gettime(CLOCK_MONOTONIC, &before);
	live_order(l, 'r');
	clock_gettime(CLOCK_MONOTONIC, &after);
	most = (double)(after.tv_sec - before.tv_sec) * 1e9 +
	       (double)(after.tv_nsec - before.tv_nsec);
	live_ok(probe_session_stop(l->session));
	live_ok(probe_session_rows(l->session, &l->rows, &l->count));
	assert_int_equal(l->count, 1);
	assert_int_equal(l->rows->count, THREADS * ROUNDS * DEPTH);
	assert_int_equal(l->rows->in_flight, 1);
	assert_int_equal(live_probe(l, "op__done")->unmatched, 1);
	assert_int_equal(live_probe(l, "op__done")->role, PROBE_ROLE_END);
	assert_int_equal(live_probe(l, "op__start")->role, PROBE_ROLE_BEGIN);
	assert_true(l->rows->sum > 0 && (double)l->rows->max.u < most * 1.001);
	assert_true(l->rows->sum < most * THREADS * DEPTH * 1.001);
	assert_true((double)l->rows->min.u <= probe_row_percentile(l->rows, 50));
	assert_true(probe_row_percentile(l->rows, 99) <= (double)l->rows->max.u);
}

static void test_requests(void **state)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES, .sum = true, .match = "arg0"}};
	struct live *l = *state;

	live_gather(l, "live:op*", &options, 'q');
	assert_int_equal(l->count, 1);
	assert_int_equal(l->rows->count, REQUESTS - LEFT);
	assert_int_equal(l->rows->in_flight, LEFT);
	assert_int_equal(live_probe(l, "op__done")->unmatched, 1);
	assert_int_equal(live_probe(l, "op__start")->lost, 0);
}

/* ---- Flight recorder -------------------------------------------------------------------- */

static void test_recorder(void **state)
{
	static const struct probe_session_options options = {
		.kind = PROBE_SESSION_RECORD, .overwrite = true, .ring_bytes = 1};
	struct live_flight first = {0}, second = {0};
	struct probe_report report = {0};
	struct live *l = *state;
	bool more = true;

	live_ok(live_begin(l, "live:value", &options, &report));
	probe_report_deinit(&report);
	live_order(l, 'o');
	live_ok(probe_session_poll(l->session, live_follow, &first, &more));
	assert_true(first.count == 0 && !more && probe_session_damaged(l->session) == 0);
	live_ok(probe_session_snapshot(l->session, live_follow, &first));
	assert_true(first.count > 1000 && first.count < HITS);
	assert_int_equal(first.last, live_value(HITS - 1));
	/* It is still there when the target is gone. */
	kill(l->pid, SIGKILL);
	waitpid(l->pid, NULL, 0);
	live_ok(probe_session_snapshot(l->session, live_follow, &second));
	assert_int_equal(second.count, first.count);
	assert_int_equal(second.last, first.last);
	live_ok(probe_session_stop(l->session));
}

/* ---- Errors ----------------------------------------------------------------------------- */

static void refused(struct live *l, const char *pattern,
	const struct probe_session_options *options, enum probe_error_code code,
	const char *message)
{
	struct probe_report report = {0};
	struct probe_error *error = live_begin(l, pattern, options, &report);

	probe_report_deinit(&report);
	assert_non_null(error);
	assert_int_equal(error->code, code);
	if (!strstr(error->message, message))
		fail_msg("%s", error->message);
	probe_error_free(error);
}

static void test_mistakes(void **state)
{
	struct probe_session_options options = {.kind = PROBE_SESSION_GATHER};
	struct live *l = *state;

	options.gather.pairing = PROBE_PAIRING_NAMES;
	refused(l, "live:value", &options, PROBE_ERROR_NOT_FOUND, "live:value has no partner");
	options.gather.value = "arg0";
	refused(l, "live:op*", &options, PROBE_ERROR_USAGE, "it can have no other");
	options.gather.pairing = PROBE_PAIRING_NONE;
	options.gather.value = "arg5";
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "live:value: ");
	options.gather.value = "arg0 +";
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "column 7");
	options.gather.value = NULL;
	options.gather.histogram = true;
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "give a value");
	options.gather.histogram = false;
	options.gather.keys[options.gather.key_count++] = "str(arg7)";
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "column 1: there is no arg7");
	options.gather.keys[0] = "norm(str(arg2 + arg7 * 8))";
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "column 1: there is no arg7");
	options.gather.keys[0] = "arg0";
	options.gather.keys_max = SIZE_MAX;
	refused(l, "live:value", &options, PROBE_ERROR_USAGE, "keys");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_values, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_keys, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_many_keys, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_filters, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_samples, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_recursion, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_requests, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_recorder, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(test_mistakes, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
