/* SPDX-License-Identifier: MIT */
/* Summaries of events: time, pairs, frequent values, limits. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/summary/html.h"
#include "tests/unit/summary/summary_events.h"

static uint64_t sum_of(const uint64_t *bins)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SUMMARY_BINS; i++)
		sum += bins[i];
	return sum;
}

/* ---- Time ---------------------------------------------------------------------------- */

static void test_bins(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	struct summary_span spans[SUMMARY_BINS];
	const uint64_t begin = UINT64_C(1790000000123456789);
	double parts[10], total = 0;
	uint64_t in_spans = 0;
	size_t count;

	(void)state;
	/* A hit each millisecond for ten seconds, and none in the fourth. */
	for (uint64_t i = 0; i < 10000; i++) {
		if (i / 1000 != 3)
			summary_hit(summary, begin + i * 1000000, 1, "x", NULL);
	}
	assert_int_equal(sum_of(summary->probes[0]->bins), 9000);
	assert_in_range(summary->bin_count, SUMMARY_BINS / 2, SUMMARY_BINS);
	count = summary_spans(summary, summary->probes[0]->bins, spans);
	for (size_t i = 0; i < count; i++) {
		in_spans += spans[i].count;
		assert_true(i ? spans[i].begin_ns == spans[i - 1].end_ns : spans[i].begin_ns == 0);
	}
	assert_int_equal(in_spans, 9000);
	assert_true(spans[count - 1].end_ns == 9999e6);
	summary_fold(summary, summary->probes[0]->bins, parts, 10);
	for (size_t i = 0; i < 10; i++)
		total += parts[i] * 0.9999;
	assert_true(total > 8999.9 && total < 9000.1);
	assert_true(parts[3] < 100 && parts[0] > 950 && parts[9] > 950);
	probe_summary_free(summary);
}

static void test_bins_out_of_order(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const uint64_t begin = UINT64_C(1790000000000000000);
	struct summary_span spans[SUMMARY_BINS];

	(void)state;
	summary_hit(summary, begin, 1, "x", NULL);
	summary_hit(summary, begin + 5000, 1, "x", NULL);
	/* Earlier than all others, as far as the bins reach, and beyond. */
	summary_hit(summary, begin - 100000, 1, "x", NULL);
	summary_hit(summary, begin - 100000000000, 1, "x", NULL);
	summary_hit(summary, 1, 1, "x", NULL);
	summary_hit(summary, UINT64_MAX, 1, "x", NULL);
	assert_int_equal(sum_of(summary->probes[0]->bins), 6);
	assert_int_equal(summary->begin_ns, 1);
	assert_int_equal(summary->end_ns, INT64_MAX);
	assert_in_range(summary_spans(summary, summary->probes[0]->bins, spans), 2, SUMMARY_BINS);
	probe_summary_free(summary);

	/* One hit, many at one instant. */
	summary = summary_made(NULL);
	for (size_t i = 0; i < 5; i++)
		summary_hit(summary, begin, 1, "x", NULL);
	assert_int_equal(summary_spans(summary, summary->probes[0]->bins, spans), 1);
	assert_int_equal(spans[0].count, 5);
	assert_true(spans[0].end_ns == 0);
	probe_summary_free(summary);
}

/* ---- Pairs ----------------------------------------------------------------------------- */

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
	assert_int_equal(summary->flights.count, 0);
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
	assert_int_equal(sum_of(summary->lost_bins), 10);
	assert_int_equal(summary->hits, 4);
	assert_int_equal(summary->begin_ns, 100);
	probe_summary_free(summary);
}

/* An event as in the log of a stream. */
static void own_event(struct probe_summary *summary, pid_t pid, const char *name, uint64_t arg)
{
	struct probe_value value = summary_number(arg);
	struct probe_event event = {.kind = PROBE_EVENT_HIT,
		.time_ns = 50,
		.pid = pid,
		.tid = pid,
		.provider = "posix_trace",
		.name = name,
		.args = &value,
		.arg_count = 1};

	assert_null(probe_summary_add(summary, &event));
}

/* A stream's own events are not hits, and belong to no probe, process or thread. */
static void test_streams(void **state)
{
	struct probe_summary *summary = summary_made(NULL);

	(void)state;
	own_event(summary, 0, "start", 0);
	own_event(summary, 0, "stop", 0);
	assert_int_equal(summary->events, 0);
	assert_false(summary->overrun || summary->full);
	summary_hit(summary, 1000, 1, "x", NULL);
	own_event(summary, 0, "overflow", 0);
	assert_true(summary->overrun);
	own_event(summary, 0, "stop", 1);
	assert_true(summary->full);
	assert_int_equal(summary->hits, 1);
	assert_int_equal(summary->probe_count, 1);
	assert_int_equal(summary->thread_count, 1);
	assert_int_equal(summary->begin_ns, 1000);
	/* A program's own event may have that name. */
	own_event(summary, 7, "start", 0);
	own_event(summary, 0, "no_such_event", 0);
	assert_int_equal(summary->hits, 3);
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
				in_row = sum_of(pair->heat[row]) > 0;
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

/* ---- Keys --------------------------------------------------------------------------------- */

static void test_top_exact(void **state)
{
	struct top *top = top_create(8);
	const struct top_slot **sorted;

	(void)state;
	for (uint64_t i = 0; i < 36; i++) {
		struct probe_value value = summary_number(i < 28 ? i % 7 : 3);

		assert_true(top_add(top, &value));
	}
	sorted = top_sorted(top);
	assert_false(top->approximate);
	assert_int_equal(top->used, 7);
	assert_int_equal(sorted[0]->value.u, 3);
	assert_int_equal(sorted[0]->count, 12);
	assert_int_equal(sorted[0]->error, 0);
	assert_int_equal(sorted[6]->count, 4);
	free(sorted);
	top_free(top);
}

/* Among many values, the frequent ones are found, and no count is too low. */
static void test_top_approximate(void **state)
{
	struct top *top = top_create(64);
	uint64_t truth[20] = {0}, seed = 1, counted = 0;
	const struct top_slot **sorted;

	(void)state;
	for (size_t i = 0; i < 100000; i++) {
		struct probe_value value;
		char text[32];

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		if (seed >> 60 < 8)
			snprintf(text, sizeof(text), "often %u", (unsigned int)(seed >> 40 & 15));
		else
			snprintf(text, sizeof(text), "once %zu", i);
		if (seed >> 60 < 8)
			truth[seed >> 40 & 15]++;
		value = summary_string(text);
		assert_true(top_add(top, &value));
	}
	sorted = top_sorted(top);
	assert_true(top->approximate);
	assert_int_equal(top->total, 100000);
	for (size_t i = 0; i < top->used; i++) {
		unsigned int which;
		char text[32];

		counted += sorted[i]->count;
		if (i >= 16)
			continue;
		snprintf(text, sizeof(text), "%.*s", (int)sorted[i]->value.length,
			sorted[i]->value.bytes);
		assert_int_equal(sscanf(text, "often %u", &which), 1);
		assert_true(sorted[i]->count >= truth[which]);
		assert_true(sorted[i]->count - sorted[i]->error <= truth[which]);
		assert_true(sorted[i]->error <= 100000 / 64);
	}
	assert_int_equal(counted, 100000);
	free(sorted);
	top_free(top);
}

static void test_keys(void **state)
{
	static const char *const wrong[] = {"", "arg", "arg32", "argx", "arg1x", "str(arg1",
		"str()", "str(tid)", "Tid", "arg0 "};
	struct probe_summary_options options = {
		.keys = (const char *const[]){"arg0"}, .key_count = 1};
	struct probe_summary *summary;
	struct summary_top *tops;
	struct probe_error *error;
	size_t count;
	char text[300];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		error = probe_summary_create(
			&(struct probe_summary_options){.keys = &wrong[i], .key_count = 1},
			&summary);
		assert_non_null(error);
		assert_int_equal(error->code, PROBE_ERROR_USAGE);
		probe_error_free(error);
		error = probe_summary_create(
			&(struct probe_summary_options){.match = wrong[i]}, &summary);
		assert_non_null(error);
		probe_error_free(error);
	}
	/* Unlimited values are shown where requested, and only there. */
	for (size_t asked = 0; asked < 2; asked++) {
		summary = summary_made(asked ? &options : NULL);
		for (uint64_t i = 0; i < 5000; i++) {
			struct probe_value value = summary_number(i);

			summary_hit(summary, i, 1, "ids", &value);
		}
		for (uint64_t i = 0; i < 50; i++) {
			struct probe_value value = summary_number(i % 5);

			summary_hit(summary, i, 1, "few", &value);
			/* Formatted like C; negative ones, too. */
			value = (struct probe_value){
				.kind = PROBE_VALUE_SIGNED, .i = (int64_t)(i % 5) - 2};
			summary_hit(summary, i, 1, "few signed", &value);
			value = summary_number(UINT64_C(0x7f0000000000) + i % 5);
			summary_hit(summary, i, 1, "addresses", &value);
			value = summary_number(1);
			summary_hit(summary, i, 1, "constant", &value);
		}
		tops = summary_tops(summary, &count);
		assert_int_equal(count, asked ? 5 : 2);
		assert_string_equal(tops[0].probe->name, asked ? "ids" : "few");
		assert_int_equal(tops[0].top->approximate, asked);
		free(tops);
		probe_summary_free(summary);
	}
	/* Strings of which each came only a few times, too rarely to be shown: an empty table. */
	for (size_t asked = 0; asked < 2; asked++) {
		const struct probe_summary_view view = {.title = "rare"};
		size_t length;
		char *rendered;

		summary = summary_made(asked ? &options : NULL);
		for (uint64_t i = 0; i < 20000; i++) {
			struct probe_value value;

			snprintf(text, sizeof(text), "%" PRIu64, i / 5 * 5 % 19 + i / 5);
			value = summary_string(text);
			summary_hit(summary, i, 1, "rare", &value);
		}
		free(summary_tops(summary, &count));
		assert_int_equal(count, asked);
		assert_null(probe_summary_render(
			summary, PROBE_SUMMARY_TEXT, &view, &rendered, &length));
		assert_int_equal(
			asked, strstr(rendered, "\ndb:rare by arg0\n20000 hits have values, "
						"each at most ") != NULL);
		free(rendered);
		probe_summary_free(summary);
	}
	/* A string is kept up to a limit, and differs from one of just that length. */
	memset(text, 'x', sizeof(text));
	summary = summary_made(NULL);
	for (size_t i = 0; i < 4; i++) {
		struct probe_value value = summary_string("");

		value.bytes = text;
		value.length = i < 2 ? SUMMARY_KEY_BYTES_MAX : SUMMARY_KEY_BYTES_MAX + i;
		summary_hit(summary, i, 1, "long", &value);
	}
	tops = summary_tops(summary, &count);
	assert_int_equal(count, 1);
	assert_int_equal(tops[0].key.kind, KEY_STRING);
	assert_int_equal(tops[0].top->used, 2);
	assert_int_equal(tops[0].top->slots[1].value.length, SUMMARY_KEY_BYTES_MAX);
	assert_true(tops[0].top->slots[1].value.truncated);
	free(tops);
	probe_summary_free(summary);
}

/* Queries that differ in their literals are one value; ends are not matched by such. */
static void test_normal_forms(void **state)
{
	const char *const key = "norm(str(arg0))";
	struct probe_summary *summary =
		summary_made(&(struct probe_summary_options){.keys = &key, .key_count = 1});
	struct probe_value values[] = {summary_string("set a = a + 5"), summary_number(5),
		summary_string("set a = a + -17"), summary_string("select 'x'")};
	struct summary_top *tops;
	struct buffer name = {0};
	size_t count;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		summary_hit(summary, i, 1, "q", &values[i]);
	tops = summary_tops(summary, &count);
	assert_int_equal(count, 1);
	assert_int_equal(tops[0].top->total, 3);
	assert_int_equal(tops[0].top->used, 2);
	assert_int_equal(tops[0].top->slots[0].count, 2);
	assert_int_equal(tops[0].top->slots[0].value.length, 13);
	assert_memory_equal(tops[0].top->slots[0].value.bytes, "set a = a + ?", 13);
	key_print(&name, &tops[0].key);
	assert_int_equal(name.length, strlen(key));
	assert_memory_equal(name.data, key, name.length);
	buffer_deinit(&name);
	free(tops);
	probe_summary_free(summary);
	for (size_t i = 0; i < 4; i++) {
		const char *const matches[] = {
			key, "arg0:norm(str(arg0))", "arg0:sym(arg0)", "probe"};
		struct probe_error *error = probe_summary_create(
			&(struct probe_summary_options){.match = matches[i]}, &summary);

		assert_non_null(error);
		assert_int_equal(error->code, PROBE_ERROR_USAGE);
		probe_error_free(error);
	}
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
		assert_int_equal(summary->flights.count, 2);
		summary_hit(summary, SUMMARY_BEGINS_MAX + i, 1, "q__done", &value);
		assert_int_equal(summary->flights.count, 1);
	}
	assert_int_equal(summary->probes[0]->untimed, 100);
	assert_int_equal(summary->probes[0]->in_flight, SUMMARY_BEGINS_MAX);
	probe_summary_free(summary);
}

/* ---- Limits --------------------------------------------------------------------------------- */

static void test_limits(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	struct summary_process *processes;
	uint64_t hits = 0, in_threads = 0;
	char name[64];
	size_t count;

	(void)state;
	for (unsigned int i = 0; i < SUMMARY_PROBES_MAX + 100; i++) {
		struct probe_value value = summary_number(i);

		snprintf(name, sizeof(name), "p%u__%s", i / 2, i % 2 ? "done" : "start");
		for (size_t k = 0; k < 3; k++)
			summary_hit(summary, 1000 + i, 1, name, &value);
	}
	for (unsigned int i = 0; i < SUMMARY_THREADS_MAX + 100; i++)
		summary_hit(summary, 10000 + i, (pid_t)(100 + i), "p0__start", NULL);
	assert_int_equal(summary->probe_count, SUMMARY_PROBES_MAX);
	assert_int_equal(summary->other_hits, 300);
	assert_int_equal(summary->pair_count, SUMMARY_PAIRS_MAX);
	assert_true(summary->more_pairs);
	assert_int_equal(summary->thread_count, SUMMARY_THREADS_MAX);
	for (size_t i = 0; i < summary->probe_count; i++)
		hits += summary->probes[i]->hits;
	assert_int_equal(hits + summary->other_hits, summary->hits);
	processes = threads_processes(summary, &count);
	assert_int_equal(count, 1);
	assert_int_equal(processes[0].threads, SUMMARY_THREADS_MAX);
	in_threads = processes[0].hits;
	assert_int_equal(in_threads + summary->other_thread_hits, summary->hits);
	free(processes);
	for (int format = PROBE_SUMMARY_TEXT; format <= PROBE_SUMMARY_HTML; format++) {
		const struct probe_summary_view view = {.title = "limits"};
		size_t length;
		char *text;

		assert_null(probe_summary_render(
			summary, (enum probe_summary_format)format, &view, &text, &length));
		assert_int_equal(strlen(text), length);
		if (format == PROBE_SUMMARY_TEXT) {
			assert_non_null(strstr(text, "; more than 2048 probes, "));
			assert_non_null(strstr(text, ", more than 16384 threads\n"));
		}
		if (format == PROBE_SUMMARY_HTML)
			assert_non_null(strstr(text, "more than <data value=\"2048\">"));
		free(text);
	}
	probe_summary_free(summary);
}

/* ---- Spans --------------------------------------------------------------------------- */

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
	assert_int_equal(summary->value_count, 3);
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
		cmocka_unit_test(test_bins),
		cmocka_unit_test(test_bins_out_of_order),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_single_pairs),
		cmocka_unit_test(test_pair_rules),
		cmocka_unit_test(test_pair_order),
		cmocka_unit_test(test_deep_recursion),
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_match_processes),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_top_exact),
		cmocka_unit_test(test_top_approximate),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_normal_forms),
		cmocka_unit_test(test_begins_without_room),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_spans),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
