/* SPDX-License-Identifier: MIT */
/* Summaries of hits with call stacks: equal ones are one row, and those that took longest keep
 * theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/report/report.h"
#include "tests/unit/report/summary_events.h"

static void add(struct probe_summary *summary, uint64_t time_ns, const char *name,
	const struct probe_frame *const *frames, size_t count, enum probe_stack_end end)
{
	const struct probe_stack stack = {frames, count, end};

	assert_null(probe_summary_add(summary, &(struct probe_event){.kind = PROBE_EVENT_HIT,
						       .time_ns = time_ns,
						       .provider = "db",
						       .name = name,
						       .pid = 1,
						       .tid = 2,
						       .stack = frames ? &stack : NULL}));
}

/* The same functions in another process have other addresses. */
static void equal_stacks_are_one(void **state)
{
	const struct probe_frame leaf = {.ip = 1, .symbol = "leaf", .module = "/app", .offset = 1};
	const struct probe_frame moved = {.ip = 9, .symbol = "leaf", .module = "/app", .offset = 2};
	const struct probe_frame top = {.ip = 2, .symbol = "main", .module = "/app"};
	const struct probe_frame *const one[] = {&leaf, &top}, *const other[] = {&moved, &top};
	struct probe_summary *summary = summary_made(NULL);
	struct probe_stacks_row *rows;

	(void)state;
	add(summary, 1, "a", one, 2, PROBE_STACK_WHOLE);
	add(summary, 2, "a", other, 2, PROBE_STACK_WHOLE);
	add(summary, 3, "a", one, 1, PROBE_STACK_WHOLE);
	add(summary, 4, "b", one, 2, PROBE_STACK_WHOLE);
	add(summary, 5, "a", other, 2, PROBE_STACK_TRUNCATED);
	add(summary, 6, "a", other, 2, PROBE_STACK_WHOLE);
	summary_hit(summary, 7, 2, "a", NULL);
	rows = callers_rows(summary);
	assert_non_null(rows);
	assert_int_equal(summary->callers_count, 4);
	assert_int_equal(rows[0].count, 3);
	assert_string_equal(rows[0].name, "a");
	assert_int_equal(rows[0].stack.count, 2);
	assert_string_equal(rows[0].stack.frames[1]->symbol, "main");
	for (size_t i = 1; i < 4; i++)
		assert_int_equal(rows[i].count, 1);
	free(rows);
	probe_summary_free(summary);
}

/* Without symbols, the places are what differs. */
static void unnamed_stacks_differ_by_place(void **state)
{
	const struct probe_frame frames[] = {
		{.ip = 1, .module = "/app", .offset = 1}, {.ip = 2, .module = "/app", .offset = 2}};
	struct probe_summary *summary = summary_made(NULL);

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		const struct probe_frame *const one[] = {&frames[i % 2]};

		add(summary, 1 + i, "a", one, 1, PROBE_STACK_WHOLE);
	}
	assert_int_equal(summary->callers_count, 2);
	probe_summary_free(summary);
}

/* Whoever makes the events. */
static void ends_that_are_none_are_unknown(void **state)
{
	const struct probe_summary_options options = {.pairs = true};
	struct probe_summary *summary = summary_made(&options);
	const struct probe_frame frame = {.symbol = "f"};
	const struct probe_frame *const frames[] = {&frame};

	(void)state;
	add(summary, 1, "x__start", frames, 1, (enum probe_stack_end)77);
	add(summary, 2, "x__done", frames, 1, (enum probe_stack_end)77);
	assert_int_equal(summary->callers_count, 2);
	assert_int_equal(summary->callers[0]->stack->end, PROBE_STACK_LOST);
	assert_int_equal(summary->pairs[0]->slow[0].stack->end, PROBE_STACK_LOST);
	probe_summary_free(summary);
}

static void further_stacks_are_counted(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const struct probe_frame *deep[PROBE_FRAMES_MAX + 1];
	struct probe_frame frame = {.symbol = "f"};

	(void)state;
	for (size_t i = 0; i < PROBE_FRAMES_MAX + 1; i++)
		deep[i] = &frame;
	add(summary, 1, "a", deep, PROBE_FRAMES_MAX + 1, PROBE_STACK_WHOLE);
	assert_int_equal(summary->callers[0]->stack->count, PROBE_FRAMES_MAX);
	assert_int_equal(summary->callers[0]->stack->end, PROBE_STACK_TRUNCATED);
	for (int i = 1; i < SUMMARY_CALLERS_MAX + 7; i++) {
		const struct probe_frame line = {.symbol = "f", .file = "f.c", .line = i};
		const struct probe_frame *const frames[] = {&line};

		add(summary, 1 + (uint64_t)i, "a", frames, 1, PROBE_STACK_WHOLE);
	}
	assert_int_equal(summary->callers_count, SUMMARY_CALLERS_MAX);
	assert_int_equal(summary->other_callers, 7);
	probe_summary_free(summary);
}

/* The stack is that of the end; of a hit without one, there is none. */
static void the_longest_keep_theirs(void **state)
{
	const struct probe_summary_options options = {.pairs = true};
	struct probe_summary *summary = summary_made(&options);

	(void)state;
	for (uint64_t i = 0; i < 3 * SUMMARY_SLOWEST; i++) {
		char symbol[32];
		const struct probe_frame frame = {.symbol = symbol}, begun = {.symbol = "begin"};
		const struct probe_frame *const frames[] = {&frame}, *const begin[] = {&begun};

		snprintf(symbol, sizeof(symbol), "took%d", (int)i);
		add(summary, 1000 * i, "x__start", begin, 1, PROBE_STACK_WHOLE);
		if (i % 2)
			add(summary, 1000 * i + i, "x__done", frames, 1, PROBE_STACK_LOST);
		else
			add(summary, 1000 * i + i, "x__done", NULL, 0, PROBE_STACK_WHOLE);
	}
	assert_int_equal(summary->pair_count, 1);
	for (size_t i = 0; i < SUMMARY_SLOWEST; i++) {
		const struct summary_slow *slow = &summary->pairs[0]->slow[i];
		size_t number = 3 * SUMMARY_SLOWEST - 1 - i;
		char symbol[32];

		assert_int_equal(slow->duration_ns, number);
		assert_int_equal(slow->stack != NULL, number % 2);
		if (!slow->stack)
			continue;
		snprintf(symbol, sizeof(symbol), "took%zu", number);
		assert_string_equal(slow->stack->frames[0]->symbol, symbol);
		assert_int_equal(slow->stack->end, PROBE_STACK_LOST);
	}
	probe_summary_free(summary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_stacks_are_one),
		cmocka_unit_test(unnamed_stacks_differ_by_place),
		cmocka_unit_test(ends_that_are_none_are_unknown),
		cmocka_unit_test(further_stacks_are_counted),
		cmocka_unit_test(the_longest_keep_theirs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
