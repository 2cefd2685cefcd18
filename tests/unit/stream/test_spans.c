/* SPDX-License-Identifier: MIT */
/* Begins and ends of events: pairing, nesting, and which span yields. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/spans.h"

static struct probe_spans *spans;
static size_t unended_count, unended_points;
static pid_t process;	       /* of the next hits */
static uint64_t first_unended; /* time of the oldest span without an end */

static void unended(void *data, struct probe_span *span)
{
	(void)data;
	if (!unended_count++)
		first_unended = span->begin.time_ns;
	unended_points += !span->pair->ended;
}

static void create(int match, int match_end)
{
	const struct probe_spans_options options = {
		.match = match, .match_end = match_end, .unended = unended};

	unended_count = unended_points = 0;
	assert_null(probe_spans_create(&options, &spans));
}

/* Adds a hit; returns what it is. */
static enum probe_span_kind add(
	uint64_t time_ns, const char *name, pid_t tid, uint64_t arg, struct probe_span **ret)
{
	const struct probe_value args[] = {{.kind = PROBE_VALUE_UNSIGNED, .u = arg}};
	const struct probe_event event = {.kind = PROBE_EVENT_HIT,
		.time_ns = time_ns,
		.provider = "p",
		.name = name,
		.pid = process,
		.tid = tid,
		.args = args,
		.arg_count = 1};
	enum probe_span_kind kind;

	assert_null(probe_spans_add(spans, &event, &kind, ret));
	return kind;
}

static void test_threads(void **state)
{
	struct probe_span *span, *outer;

	(void)state;
	create(-1, -1);
	assert_int_equal(add(10, "query__start", 1, 5, &outer), PROBE_SPAN_BEGIN);
	assert_null(outer->parent);
	assert_int_equal(add(20, "query-start", 2, 6, &span), PROBE_SPAN_BEGIN);
	assert_null(span->parent);
	assert_int_equal(add(30, "step__begin", 1, 0, &span), PROBE_SPAN_BEGIN);
	assert_ptr_equal(span->parent, outer);
	/* A point is inside the newest span; an end of another thread or pair does not count. */
	assert_int_equal(add(35, "point", 1, 0, &span), PROBE_SPAN_POINT);
	assert_string_equal(span->begin.name, "step__begin");
	assert_int_equal(add(36, "step__end", 3, 0, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(37, "other__end", 1, 0, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(40, "step__end", 1, 0, &span), PROBE_SPAN_END);
	assert_string_equal(span->pair->name, "step");
	assert_int_equal(span->begin.time_ns, 30);
	assert_int_equal(add(50, "query__done", 1, 0, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.args[0].u, 5);
	assert_int_equal(span->inner_ns, 10);
	assert_false(span->crossed);
	assert_int_equal(add(60, "query__fail", 2, 0, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.args[0].u, 6);
	probe_spans_finish(spans);
	assert_int_equal(unended_count, 0);
	probe_spans_free(spans);
}

/* An end of a thread belongs to the newest begin with what both share, as far as that is known. */
static void test_same(void **state)
{
	static const char file[] =
		"provider p\nprobe work__start id\nsame id\nprobe work__done id\n";
	struct probe_spans_options options = {.match = -1, .match_end = -1};
	struct probe_catalogue *catalogue;
	char path[] = "/tmp/probectl-test.XXXXXX";
	int fd = mkstemp(path);
	struct probe_span *span;

	(void)state;
	assert_true(fd >= 0 && write(fd, file, sizeof(file) - 1) == sizeof(file) - 1);
	close(fd);
	assert_null(probe_catalogue_create(&catalogue));
	assert_null(probe_catalogue_add(catalogue, path));
	unlink(path);
	options.catalogue = catalogue;
	assert_null(probe_spans_create(&options, &spans));
	assert_int_equal(add(10, "work__start", 1, 1, &span), PROBE_SPAN_BEGIN);
	assert_int_equal(add(20, "work__start", 1, 2, &span), PROBE_SPAN_BEGIN);
	assert_int_equal(add(30, "work__start", 1, 1, &span), PROBE_SPAN_BEGIN);
	assert_int_equal(add(40, "work__done", 1, 2, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.time_ns, 20);
	assert_int_equal(add(50, "work__done", 1, 3, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(60, "work__done", 2, 1, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(70, "work__done", 1, 1, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.time_ns, 30);
	assert_int_equal(add(80, "work__done", 1, 1, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.time_ns, 10);
	/* A hit without the argument has no identity. */
	assert_int_equal(add(90, "work__start", 1, 5, &span), PROBE_SPAN_BEGIN);
	assert_null(probe_spans_add(spans,
		&(struct probe_event){.kind = PROBE_EVENT_HIT,
			.time_ns = 95,
			.provider = "p",
			.name = "work__done",
			.pid = process,
			.tid = 1},
		&(enum probe_span_kind){0}, &span));
	assert_non_null(span);
	assert_int_equal(span->begin.time_ns, 90);
	probe_spans_free(spans);
	/* Whoever matches by a value has said what belongs together. */
	options.match = options.match_end = 0;
	assert_null(probe_spans_create(&options, &spans));
	assert_int_equal(add(10, "work__start", 1, 1, &span), PROBE_SPAN_BEGIN);
	assert_int_equal(add(20, "work__done", 2, 1, &span), PROBE_SPAN_END);
	probe_spans_free(spans);
	probe_catalogue_free(catalogue);
}

/* Of two words, the longer one names the pair: class__initialization and its super__failed. */
static void test_words(void **state)
{
	struct probe_span *span;

	(void)state;
	create(-1, -1);
	add(1, "init__required", 1, 0, &span);
	assert_int_equal(add(2, "init__super__failed", 1, 0, &span), PROBE_SPAN_END);
	assert_string_equal(span->pair->name, "init");
	add(3, "start", 1, 0, &span);
	assert_int_equal(add(4, "done", 1, 0, &span), PROBE_SPAN_END);
	assert_string_equal(span->pair->name, "");
	/*
	 * entry and acquired belong to another rule than entry and return; start and return to
	 * none.
	 */
	add(5, "f__start", 1, 0, &span);
	assert_int_equal(add(6, "f__return", 1, 0, &span), PROBE_SPAN_UNMATCHED);
	/* As `trace --pairs auto` and `report` pair them: the first rule with existing ends. */
	add(7, "x__entry", 1, 0, &span);
	assert_int_equal(add(8, "x__acquired", 1, 0, &span), PROBE_SPAN_END);
	add(9, "x__entry", 1, 0, &span);
	assert_int_equal(add(10, "x__return", 1, 0, &span), PROBE_SPAN_END);
	add(11, "x__entry", 1, 0, &span);
	assert_int_equal(add(12, "x__acquired", 1, 0, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(13, "x__return", 1, 0, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.time_ns, 11);
	probe_spans_free(spans);
}

static void test_crossed(void **state)
{
	struct probe_span *span, *job;

	(void)state;
	create(-1, -1);
	add(10, "query__start", 1, 0, &span);
	add(20, "job__start", 1, 0, &job);
	add(30, "step__start", 1, 0, &span);
	add(35, "step__done", 1, 0, &span);
	assert_int_equal(add(40, "query__done", 1, 0, &span), PROBE_SPAN_END);
	/* The job has not ended yet: the step was the query's. */
	assert_int_equal(span->inner_ns, 5);
	assert_true(job->crossed);
	/* Later events are not inside it. */
	add(50, "query__start", 1, 0, &span);
	assert_null(span->parent);
	assert_int_equal(add(60, "job__done", 1, 0, &span), PROBE_SPAN_END);
	assert_true(span->crossed);
	/* Nor is this inside the job, which has a place of its own. */
	assert_int_equal(add(70, "query__done", 1, 0, &span), PROBE_SPAN_END);
	assert_false(span->crossed);
	probe_spans_free(spans);
}

static void test_match(void **state)
{
	struct probe_span *span;

	(void)state;
	create(0, 0);
	add(10, "job__start", 1, 7, &span);
	add(11, "job__start", 1, 8, &span);
	assert_int_equal(add(20, "job__done", 2, 7, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.time_ns, 10);
	assert_int_equal(add(21, "job__done", 2, 9, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(22, "job__done", 1, 8, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.time_ns, 11);
	probe_spans_free(spans);
	/* Forked processes have the same values, and the same thread in another pid namespace. */
	for (int match = -1; match < 1; match++) {
		create(match, match);
		for (process = 1; process < 4; process++)
			add((uint64_t)process, "job__start", 1, 7, &span);
		assert_int_equal(add(9, "job__done", 1, 7, &span), PROBE_SPAN_UNMATCHED);
		for (process = 1; process < 4; process++) {
			assert_int_equal(add(10, "job__done", 1, 7, &span), PROBE_SPAN_END);
			assert_int_equal(span->begin.time_ns, process);
		}
		process = 0;
		probe_spans_free(spans);
	}
	/* There is no such argument. */
	create(1, 0);
	assert_int_equal(add(10, "job__start", 1, 7, &span), PROBE_SPAN_POINT);
	assert_int_equal(add(11, "job__done", 1, 7, &span), PROBE_SPAN_UNMATCHED);
	probe_spans_free(spans);
}

static void test_bounds(void **state)
{
	struct probe_span *span;

	(void)state;
	create(-1, -1);
	for (uint64_t i = 0; i < PROBE_SPANS_OWNER_MAX + 10; i++)
		add(100 + i, "query__start", 1, 0, &span);
	assert_int_equal(unended_count, 10);
	assert_int_equal(first_unended, 100);
	assert_int_equal(unended_points, 10);
	for (uint64_t i = 0; i < PROBE_SPANS_OWNER_MAX; i++)
		assert_int_equal(add(1000 + i, "query__done", 1, 0, &span), PROBE_SPAN_END);
	assert_int_equal(add(2000, "query__done", 1, 0, &span), PROBE_SPAN_UNMATCHED);
	probe_spans_free(spans);
	create(0, 0);
	for (uint64_t i = 0; i < PROBE_SPANS_MAX + 5; i++)
		add(100 + i, "query__start", 1, i, &span);
	assert_int_equal(unended_count, 5);
	assert_int_equal(first_unended, 100);
	assert_int_equal(add(1 << 20, "query__done", 1, 4, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(1 << 20, "query__done", 1, 5, &span), PROBE_SPAN_END);
	probe_spans_finish(spans);
	assert_int_equal(unended_count, PROBE_SPANS_MAX + 4);
	assert_int_equal(unended_points, 5);
	probe_spans_free(spans);
}

/* Hits were lost: an end event is not taken for one that may be missing. */
static void test_lost(void **state)
{
	const struct probe_event loss = {.kind = PROBE_EVENT_LOST, .lost = 1, .cpu = -1};
	enum probe_span_kind kind;
	struct probe_span *span;

	(void)state;
	create(-1, -1);
	add(10, "query__start", 1, 0, &span);
	add(20, "step__start", 1, 0, &span);
	add(30, "step__done", 1, 0, &span);
	add(40, "step__start", 1, 0, &span);
	assert_null(probe_spans_add(spans, &loss, &kind, &span));
	assert_int_equal(kind, PROBE_SPAN_POINT);
	assert_null(span);
	assert_int_equal(unended_count, 2);
	assert_int_equal(unended_points, 1);
	assert_int_equal(add(50, "step__done", 1, 0, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(60, "query__done", 1, 0, &span), PROBE_SPAN_UNMATCHED);
	assert_int_equal(add(70, "query__start", 1, 0, &span), PROBE_SPAN_BEGIN);
	assert_null(span->parent);
	assert_int_equal(add(80, "query__done", 1, 0, &span), PROBE_SPAN_END);
	assert_int_equal(span->begin.time_ns, 70);
	probe_spans_free(spans);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_crossed),
		cmocka_unit_test(test_match),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
