/* SPDX-License-Identifier: MIT */
/* Summaries of begins and ends: which belong together, how long they took, what is left open. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/report/report.h"
#include "tests/unit/report/summary_events.h"

static const struct summary_pair *pair_of(
	const struct probe_summary *summary, const char *begin, const char *end)
{
	for (size_t i = 0; i < summary->pair_count; i++) {
		const struct summary_pair *pair = summary->pairs[i];

		if (!strcmp(summary->probes[pair->begin]->name, begin) &&
			!strcmp(summary->probes[pair->end]->name, end))
			return pair;
	}
	fail_msg("%s and %s are no pair", begin, end);
	return NULL;
}

/* Pairs by the values of their begins, or else of their ends; and the longest. */
static void test_single_pairs(void **state)
{
	static const char *const keys[] = {"arg0", "tid"};
	const struct probe_summary_options options = {.keys = keys, .key_count = 2, .pairs = true};
	struct probe_summary *summary = summary_made(&options);
	const struct summary_value **rows;
	const struct summary_pair *pair;
	size_t count;

	(void)state;
	for (uint64_t i = 0; i < 2 * SUMMARY_VALUES_MAX; i++) {
		struct probe_value value = summary_number(i < 100 ? i % 2 : i);

		summary_hit(summary, 1000 * i, 7, "tx__start", &value);
		value = summary_number(99);
		summary_hit(summary, 1000 * i + 1 + i % 500, 7, "tx__done", &value);
	}
	summary_hit(summary, 1, 8, "ty__start", NULL);
	pair = pair_of(summary, "tx__start", "tx__done");
	rows = instances_values(summary, pair, &count);
	assert_non_null(rows);
	/* By arg0, most time first: each has 50 of the first 100. Then the thread. */
	assert_int_equal(count, SUMMARY_VALUES_MAX);
	assert_int_equal(pair->other_values, 2 * SUMMARY_VALUES_MAX - 100 + 2 - (count - 1));
	assert_int_equal(rows[0]->value.u, 1);
	assert_int_equal(rows[0]->times.count, 50);
	assert_true(rows[0]->times.sum == 50 * 51);
	assert_int_equal(rows[0]->times.most, 100);
	assert_int_equal(rows[1]->value.u, 0);
	assert_int_equal(rows[count - 1]->key.kind, KEY_TID);
	assert_int_equal(rows[count - 1]->times.count, pair->times.count);
	free(rows);
	assert_int_equal(pair->slow_count, SUMMARY_SLOWEST);
	for (size_t i = 0; i < SUMMARY_SLOWEST; i++) {
		assert_int_equal(pair->slow[i].duration_ns, i < 16 ? 500 : 499);
		assert_int_equal(pair->slow[i].tid, 7);
	}
	assert_string_equal(pair->slow[0].text, "499");
	/* What a loss sets aside is freed, and what has no end. */
	summary_hit(summary, UINT64_C(1) << 40, 7, "tx__start", NULL);
	assert_null(probe_summary_add(
		summary, &(struct probe_event){.kind = PROBE_EVENT_LOST, .lost = 1, .time_ns = 1}));
	summary_hit(summary, UINT64_C(1) << 40, 7, "tx__start", NULL);
	probe_summary_free(summary);
}

static void test_pairs(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const struct summary_pair *pair;
	struct probe_row row;

	(void)state;
	/* An end without a known begin; two threads; nested spans. */
	summary_hit(summary, 50, 1, "tx__commit", NULL);
	summary_hit(summary, 100, 1, "tx__start", NULL);
	summary_hit(summary, 110, 2, "tx__start", NULL);
	summary_hit(summary, 120, 1, "tx__start", NULL);
	summary_hit(summary, 121, 1, "tx__commit", NULL);
	summary_hit(summary, 150, 1, "tx__commit", NULL);
	summary_hit(summary, 410, 2, "tx__abort", NULL);
	summary_hit(summary, 500, 2, "tx__abort", NULL);
	summary_hit(summary, 600, 3, "tx__start", NULL);
	pair = pair_of(summary, "tx__start", "tx__commit");
	assert_int_equal(pair->times.count, 2);
	assert_int_equal(pair->times.least, 1);
	assert_int_equal(pair->times.most, 50);
	assert_true(pair->times.sum == 51);
	assert_int_equal(pair->unmatched, 1);
	pair = pair_of(summary, "tx__start", "tx__abort");
	assert_int_equal(pair->times.count, 1);
	assert_int_equal(pair->times.least, 300);
	assert_int_equal(pair->unmatched, 1);
	pair_row(pair, summary, &row);
	assert_int_equal(row.in_flight, 1);
	assert_true(probe_row_percentile(&row, 99) == 300);
	assert_int_equal(summary->pair_count, 2);
	probe_summary_free(summary);
}

/* The same rules as for trace: the first one with existing ends; dashes; not across providers. */
static void test_pair_rules(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	struct probe_event other = {.provider = "other", .name = "y__done", .time_ns = 9};

	(void)state;
	summary_hit(summary, 1, 1, "gc-begin", NULL);
	summary_hit(summary, 2, 1, "gc__end", NULL);
	summary_hit(summary, 3, 1, "x__entry", NULL);
	summary_hit(summary, 4, 1, "x__return", NULL);
	summary_hit(summary, 5, 1, "x__acquired", NULL);
	summary_hit(summary, 6, 1, "y__start", NULL);
	assert_null(probe_summary_add(summary, &other));
	summary_hit(summary, 10, 1, "restart", NULL);
	summary_hit(summary, 11, 1, "redone", NULL);
	assert_int_equal(pair_of(summary, "gc-begin", "gc__end")->times.count, 1);
	assert_int_equal(pair_of(summary, "x__entry", "x__return")->times.count, 1);
	assert_int_equal(summary->pair_count, 2);
	probe_summary_free(summary);
}

/*
 * The order in which names appear does not matter. OpenJDK's threads enter a monitor before
 * another one exits it, and have entered it afterwards: `enter` and `entered` are the pair.
 */
static void test_pair_order(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const struct summary_pair *pair;

	(void)state;
	summary_hit(summary, 10, 1, "m__enter", NULL);
	summary_hit(summary, 20, 2, "m__exit", NULL);
	assert_int_equal(pair_of(summary, "m__enter", "m__exit")->unmatched, 1);
	summary_hit(summary, 30, 1, "m__entered", NULL);
	pair = pair_of(summary, "m__enter", "m__entered");
	assert_int_equal(pair->times.count, 1);
	assert_int_equal(pair->times.least, 20);
	assert_int_equal(pair->unmatched, 0);
	/* The end of x__begin is the end of x__start as soon as there is one. */
	summary_hit(summary, 40, 1, "x__begin", NULL);
	summary_hit(summary, 50, 1, "x__end", NULL);
	summary_hit(summary, 60, 1, "x__start", NULL);
	summary_hit(summary, 70, 1, "x__end", NULL);
	pair = pair_of(summary, "x__start", "x__end");
	assert_int_equal(pair->times.count, 1);
	assert_int_equal(pair->times.least, 10);
	assert_int_equal(summary->probes[pair->begin]->in_flight, 0);
	assert_int_equal(summary->pair_count, 2);
	probe_summary_free(summary);
}

static void test_deep_recursion(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	enum { DEPTH = SUMMARY_BEGINS_MAX + 1000 };
	const struct summary_pair *pair;

	(void)state;
	for (uint64_t i = 0; i < DEPTH; i++)
		summary_hit(summary, 1000 + i, 1, "f__entry", NULL);
	for (uint64_t i = 0; i < DEPTH; i++)
		summary_hit(summary, 1000 + DEPTH + i, 1, "f__return", NULL);
	pair = pair_of(summary, "f__entry", "f__return");
	/* Those beyond the limit are reported, and do not disturb the others. */
	assert_int_equal(summary->probes[pair->begin]->untimed, 1000);
	assert_int_equal(pair->times.count, SUMMARY_BEGINS_MAX);
	assert_int_equal(pair->unmatched, 0);
	assert_int_equal(summary->probes[pair->begin]->in_flight, 0);
	assert_int_equal(pair->times.most, 2 * DEPTH - 1);
	assert_int_equal(pair->times.least, 2 * 1000 + 1);
	probe_summary_free(summary);
}

static void test_match(void **state)
{
	struct probe_summary *summary =
		summary_made(&(struct probe_summary_options){.match = "arg0"});
	const struct summary_pair *pair;

	(void)state;
	for (uint64_t i = 0; i < 1000; i++) {
		struct probe_value id = summary_number(i);

		summary_hit(summary, 1000 + i, 1, "job__start", &id);
	}
	/* Elsewhere, in another order; one number is of a signed argument. */
	for (uint64_t i = 0; i < 1000; i++) {
		struct probe_value id = summary_number(i * 7 % 1000);

		if (i == 5)
			id = (struct probe_value){.kind = PROBE_VALUE_SIGNED, .i = 35};
		summary_hit(summary, 10000 + id.u, 2, "job__done", &id);
	}
	summary_hit(summary, 20000, 2, "job__done", NULL);
	summary_hit(summary, 20000, 2, "job__start", NULL);
	pair = pair_of(summary, "job__start", "job__done");
	assert_int_equal(pair->times.count, 1000);
	assert_int_equal(pair->times.least, 9000);
	assert_int_equal(pair->times.most, 9000);
	assert_int_equal(pair->unmatched, 1);
	assert_int_equal(summary->probes[pair->begin]->untimed, 1);
	assert_int_equal(summary->flights.stacks.count, 0);
	probe_summary_free(summary);

	/* By strings; the end's is another argument. */
	summary = summary_made(&(struct probe_summary_options){.match = "str(arg0):comm"});
	for (size_t i = 0; i < 2; i++) {
		struct probe_value name = summary_string(i ? "b" : "a");

		summary_hit(summary, 100 + i, 1, "job__start", &name);
	}
	for (size_t i = 0; i < 2; i++) {
		struct probe_event event = {.provider = "db",
			.name = "job__done",
			.time_ns = 300 + i,
			.pid = 10,
			.comm = i ? "a" : "b"};

		assert_null(probe_summary_add(summary, &event));
	}
	pair = pair_of(summary, "job__start", "job__done");
	assert_int_equal(pair->times.least, 199);
	assert_int_equal(pair->times.most, 201);
	probe_summary_free(summary);
}

/* Forked processes have the same values: what one begins, no other one ends. */
static void test_match_processes(void **state)
{
	struct probe_summary *summary =
		summary_made(&(struct probe_summary_options){.match = "arg0"});
	struct probe_value id = summary_number(7);
	const struct summary_pair *pair;

	(void)state;
	for (int i = 0; i < 7; i++) {
		struct probe_event event = {.provider = "db",
			.name = i < 3 ? "job__start" : "job__done",
			.time_ns = 100 * (uint64_t)(i + 1),
			.pid = i < 6 ? 20 + i % 3 : 30,
			.args = &id,
			.arg_count = 1};

		assert_null(probe_summary_add(summary, &event));
	}
	pair = pair_of(summary, "job__start", "job__done");
	assert_int_equal(pair->times.count, 3);
	assert_int_equal(pair->times.least, 300);
	assert_int_equal(pair->times.most, 300);
	assert_int_equal(pair->unmatched, 1);
	probe_summary_free(summary);
}

static void test_losses(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const struct summary_pair *pair;

	(void)state;
	summary_lose(summary, 0, 2); /* time unknown: before everything */
	assert_int_equal(summary->lost, 2);
	summary_hit(summary, 100, 1, "q__start", NULL);
	summary_hit(summary, 110, 1, "q__done", NULL);
	summary_hit(summary, 120, 1, "q__start", NULL);
	summary_lose(summary, 130, 5);
	/* Its begin may be lost: the one of 120 is not measured. */
	summary_hit(summary, 5000, 1, "q__done", NULL);
	summary_lose(summary, 0, 3); /* time unknown */
	pair = pair_of(summary, "q__start", "q__done");
	assert_int_equal(pair->times.count, 1);
	assert_int_equal(pair->times.most, 10);
	assert_int_equal(pair->unmatched, 1);
	assert_int_equal(summary->probes[pair->begin]->set_aside, 1);
	assert_int_equal(summary->probes[pair->begin]->in_flight, 0);
	assert_int_equal(summary->lost, 10);
	assert_int_equal(summary_bins_sum(summary->lost_bins), 10);
	assert_int_equal(summary->hits, 4);
	assert_int_equal(summary->begin_ns, 100);
	probe_summary_free(summary);
}

/* Heat and buckets hold each time once, within their bounds. */
static void test_buckets(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	uint64_t time_ns = 1000, count = 0;
	const struct summary_pair *pair;

	(void)state;
	for (uint64_t length = 0; length < UINT64_C(1) << 60;
		length = length * 3 / 2 + 1, count++) {
		summary_hit(summary, time_ns, 1, "q__start", NULL);
		summary_hit(summary, time_ns + length, 1, "q__done", NULL);
	}
	pair = pair_of(summary, "q__start", "q__done");
	assert_int_equal(pair->times.count, count);
	for (uint64_t length = 0; length < UINT64_C(1) << 60; length = length * 3 / 2 + 1) {
		bool in_row = false, in_bucket = false;

		for (size_t row = 0; row < SUMMARY_HEAT_ROWS; row++) {
			if ((double)length >= heat_low(row) && (double)length < heat_low(row + 1))
				in_row = summary_bins_sum(pair->heat[row]) > 0;
		}
		for (size_t i = 0; i < PROBE_BUCKETS - 1; i++) {
			uint64_t high;
			int64_t low;

			probe_bucket_range(i, &low, &high);
			if (length >= (uint64_t)low && length <= high)
				in_bucket = pair->times.buckets[i] > 0;
		}
		assert_true(in_row && in_bucket);
	}
	probe_summary_free(summary);
}

/* Without room for the times of begins, ends still make room for others. */
static void test_begins_without_room(void **state)
{
	struct probe_summary *summary =
		summary_made(&(struct probe_summary_options){.match = "arg0"});
	struct probe_value value = summary_number(0);

	(void)state;
	for (uint64_t i = 0; i < SUMMARY_BEGINS_MAX; i++)
		summary_hit(summary, i, 1, "q__start", &value);
	for (uint64_t i = 1; i <= 100; i++) {
		value = summary_number(i);
		summary_hit(summary, SUMMARY_BEGINS_MAX + i, 1, "q__start", &value);
		assert_int_equal(summary->flights.stacks.count, 2);
		summary_hit(summary, SUMMARY_BEGINS_MAX + i, 1, "q__done", &value);
		assert_int_equal(summary->flights.stacks.count, 1);
	}
	assert_int_equal(summary->probes[0]->untimed, 100);
	assert_int_equal(summary->probes[0]->in_flight, SUMMARY_BEGINS_MAX);
	probe_summary_free(summary);
}

static void add_span(struct probe_summary *summary, const char *begin_name, uint64_t begin_ns,
	const char *end_name, uint64_t end_ns, const char *text)
{
	const struct probe_value arg = summary_string(text);
	const struct probe_event begin = {.time_ns = begin_ns,
		.pid = 10,
		.tid = 1,
		.provider = "db",
		.name = begin_name,
		.args = &arg,
		.arg_count = 1};
	const struct probe_event end = {.time_ns = end_ns,
		.pid = 10,
		.tid = 2,
		.provider = "db",
		.name = end_name,
		.begin = &begin,
		.duration_ns = end_ns - begin_ns + 1};

	assert_null(probe_summary_add(summary, &end));
}

/* Whatever the names are, and in the order of their ends. What was made is not matched again. */
static void test_spans(void **state)
{
	const struct probe_summary_options options = {.pairs = true};
	struct probe_summary *summary = summary_made(&options);
	const struct summary_pair *pair;

	(void)state;
	add_span(summary, "inner__start", 2000, "inner__done", 3000, "i");
	add_span(summary, "outer__start", 1000, "outer__done", 4000, "o");
	for (uint64_t i = 0; i < 3; i++)
		add_span(summary, "x", 5000 + 100 * i, "y", 5050 + 100 * i, "t");
	assert_int_equal(summary->hits, 10);
	assert_int_equal(summary->pair_count, 3);
	assert_int_equal(summary->begin_ns, 1000);
	for (size_t i = 0; i < summary->pair_count; i++) {
		pair = summary->pairs[i];
		assert_int_equal(pair->unmatched, 0);
		assert_int_equal(summary->probes[pair->begin]->in_flight, 0);
		assert_int_equal(summary->probes[pair->begin]->role, PROBE_ROLE_BEGIN);
		assert_int_equal(summary->probes[pair->end]->role, PROBE_ROLE_END);
	}
	pair = summary->pairs[2];
	assert_string_equal(summary->probes[pair->begin]->name, "x");
	assert_int_equal(pair->times.count, 3);
	assert_int_equal(pair->times.most, 51);
	assert_int_equal(pair->slow_count, 3);
	assert_string_equal(pair->slow[0].text, "\"t\"");
	assert_int_equal(pair->slow[0].tid, 1);
	assert_int_equal(summary->values.count, 3);
	/* A pair that is found by names later does not take it apart. */
	summary_hit(summary, 9000, 1, "y__start", NULL);
	summary_hit(summary, 9001, 1, "y__done", NULL);
	assert_int_equal(summary->pair_count, 4);
	assert_int_equal(summary->pairs[2]->times.count, 3);
	probe_summary_free(summary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_single_pairs),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_pair_rules),
		cmocka_unit_test(test_pair_order),
		cmocka_unit_test(test_deep_recursion),
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_match_processes),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_begins_without_room),
		cmocka_unit_test(test_spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
