/* SPDX-License-Identifier: MIT */
/* Self time, total time, callers and callees: nesting, recursion, jumps, frames, losses, threads,
 * keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/calls.h"

static struct probe_calls *calls;
static struct probe_calls_row *rows;
static size_t row_count;
static uint64_t now; /* the time of the next hit */

static void create(void)
{
	assert_null(probe_calls_create(&(struct probe_calls_options){0}, &calls));
	now = 1000;
}

/* Adds a hit of a function in a thread, `ns` after the last. A frame of 0 is unknown. */
static void add_framed(uint64_t ns, const char *name, pid_t tid, uint64_t frame)
{
	const struct probe_event event = {.kind = PROBE_EVENT_HIT,
		.time_ns = now += ns,
		.provider = "fn:a",
		.name = name,
		.pid = 1,
		.tid = tid,
		.comm = "a",
		.frame = frame};

	assert_null(probe_calls_add(calls, &event));
}

static void add(uint64_t ns, const char *name, pid_t tid)
{
	add_framed(ns, name, tid, 0);
}

/*
 * Adds hits of thread 1, a microsecond after each other: "f" is an entry, "-f" an exit, and "f@9"
 * an entry whose frame is number 9.
 */
static void run(const char *const *hits)
{
	char name[32];

	for (; *hits; hits++) {
		bool is_exit = **hits == '-';
		const char *at = strchr(*hits, '@');
		size_t length = strcspn(*hits, "@") - is_exit;

		snprintf(name, sizeof(name), "%.*s%s", (int)length, *hits + is_exit,
			is_exit ? ":return" : "");
		add_framed(1000, name, 1, at ? 16 * strtoul(at + 1, NULL, 10) : 0);
	}
}
#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

static void take_rows(bool is_interval)
{
	free(rows);
	assert_null(probe_calls_rows(calls, is_interval, &rows, &row_count));
}

static const struct probe_calls_row *row_of(const char *function)
{
	for (size_t i = 0; i < row_count; i++)
		if (strcmp(rows[i].function, function) == 0)
			return &rows[i];
	fail_msg("there is no row of %s", function);
	return NULL;
}

static void is_sum(
	const struct probe_calls_sum *sum, uint64_t count, uint64_t self_us, uint64_t total_us)
{
	assert_int_equal(sum->count, count);
	assert_int_equal(sum->self_ns, 1000 * self_us);
	assert_int_equal(sum->total_ns, 1000 * total_us);
}

static void is_function(const char *function, uint64_t count, uint64_t self_us, uint64_t total_us)
{
	is_sum(&row_of(function)->sum, count, self_us, total_us);
}

/* Callers and callees of each edge agree. `caller` may be NULL. */
static void is_edge(
	const char *caller, const char *callee, uint64_t count, uint64_t self_us, uint64_t total_us)
{
	const struct probe_calls_row *row = row_of(callee);
	size_t found = 0;

	for (size_t i = 0; i < row->caller_count; i++) {
		const char *its = row->callers[i].function;

		if (its != caller && (!its || !caller || strcmp(its, caller) != 0))
			continue;
		is_sum(&row->callers[i].sum, count, self_us, total_us);
		found++;
	}
	assert_int_equal(found, 1);
	row = caller ? row_of(caller) : NULL;
	for (size_t i = 0; row && i < row->callee_count; i++) {
		if (strcmp(row->callees[i].function, callee) != 0)
			continue;
		is_sum(&row->callees[i].sum, count, self_us, total_us);
		found++;
	}
	assert_int_equal(found, caller ? 2 : 1);
}

static void finish(uint64_t open, uint64_t unmatched, uint64_t untimed)
{
	struct probe_calls_doubts doubts = probe_calls_finish(calls);

	assert_int_equal(doubts.open, open);
	assert_int_equal(doubts.unmatched, unmatched);
	assert_int_equal(doubts.untimed, untimed);
	assert_int_equal(doubts.left_out, 0);
	free(rows);
	rows = NULL;
	probe_calls_free(calls);
}

static void test_nested(void **state)
{
	(void)state;
	create();
	RUN("f", "g", "-g", "g", "h", "-h", "-g", "-f", "g", "-g");
	take_rows(false);
	assert_int_equal(row_count, 3);
	is_function("fn:a:f", 1, 3, 7);
	is_function("fn:a:g", 3, 4, 5);
	is_function("fn:a:h", 1, 1, 1);
	is_edge(NULL, "fn:a:f", 1, 3, 7);
	is_edge("fn:a:f", "fn:a:g", 2, 3, 4);
	is_edge(NULL, "fn:a:g", 1, 1, 1);
	is_edge("fn:a:g", "fn:a:h", 1, 1, 1);
	/* The most self time comes first. */
	assert_string_equal(rows[0].function, "fn:a:g");
	assert_string_equal(rows[0].provider, "fn:a");
	assert_string_equal(rows[0].pair, "g");
	finish(0, 0, 0);
}

/* The total time of a call inside one of the same function is a part of the outer one's. */
static void test_recursion(void **state)
{
	(void)state;
	create();
	RUN("f", "f", "f", "-f", "-f", "-f");
	take_rows(false);
	is_function("fn:a:f", 3, 5, 5);
	is_edge(NULL, "fn:a:f", 1, 2, 5);
	is_edge("fn:a:f", "fn:a:f", 2, 3, 3);
	RUN("g", "f", "g", "f", "-f", "-g", "-f", "-g");
	take_rows(false);
	is_function("fn:a:g", 2, 4, 7);
	is_edge("fn:a:g", "fn:a:f", 2, 3, 5);
	is_edge("fn:a:f", "fn:a:g", 1, 2, 3);
	finish(0, 0, 0);
}

/* Calls that were left by a jump have no time; it is that of the call around them. */
static void test_jumps(void **state)
{
	(void)state;
	create();
	RUN("h", "-h", "f", "g", "h", "-h", "x", "-f", "-g", "f", "-f");
	take_rows(false);
	assert_int_equal(row_count, 2);
	is_function("fn:a:f", 2, 5, 6);
	is_function("fn:a:h", 2, 2, 2);
	/* No end of g has come that belongs to it, so that it is no caller. */
	is_edge(NULL, "fn:a:h", 2, 2, 2);
	add(0, "f", 2);
	finish(3, 1, 0);
}

static void test_threads(void **state)
{
	(void)state;
	create();
	add(1000, "f", 1);
	add(1000, "g", 2);
	add(1000, "f:return", 1);
	add(1000, "g:return", 2);
	take_rows(false);
	is_function("fn:a:f", 1, 2, 2);
	is_function("fn:a:g", 1, 2, 2);
	is_edge(NULL, "fn:a:g", 1, 2, 2);
	finish(0, 0, 0);
}

/* A process that executes another program leaves the calls of the first. */
static void test_processes(void **state)
{
	(void)state;
	create();
	RUN("f", "g");
	probe_calls_forget(calls, 2);
	RUN("-g", "g");
	probe_calls_forget(calls, 1);
	RUN("g", "-g", "-f");
	take_rows(false);
	assert_int_equal(row_count, 1);
	is_function("fn:a:g", 2, 2, 2);
	is_edge(NULL, "fn:a:g", 2, 2, 2);
	finish(2, 1, 0);
}

/* In rings, nobody knows where hits were lost: calls of two rounds do not count. */
static void test_losses(void **state)
{
	(void)state;
	create();
	RUN("f", "g", "-g");
	assert_null(probe_calls_round(calls, false));
	RUN("g", "-g");
	assert_null(probe_calls_round(calls, true));
	RUN("-f", "f", "-f", "f");
	assert_null(probe_calls_round(calls, false));
	RUN("-f", "g", "-g");
	assert_null(probe_calls_round(calls, false));
	take_rows(false);
	assert_int_equal(row_count, 1);
	is_function("fn:a:g", 2, 2, 2);
	is_edge(NULL, "fn:a:g", 1, 1, 1);
	finish(0, 2, 2);
	/* A record says where: what ended before counts. */
	create();
	RUN("f", "g", "-g");
	assert_null(probe_calls_add(
		calls, &(struct probe_event){.kind = PROBE_EVENT_LOST, .lost = 1, .cpu = -1}));
	RUN("-f", "f", "-f");
	take_rows(false);
	is_function("fn:a:f", 1, 1, 1);
	is_function("fn:a:g", 1, 1, 1);
	finish(0, 1, 0);
}

static void test_intervals(void **state)
{
	(void)state;
	create();
	RUN("f", "g", "-g", "-f");
	probe_calls_mark(calls);
	RUN("g", "-g");
	take_rows(true);
	assert_int_equal(row_count, 1);
	is_function("fn:a:g", 1, 1, 1);
	assert_int_equal(row_of("fn:a:g")->caller_count, 1);
	take_rows(false);
	is_function("fn:a:g", 2, 2, 2);
	finish(0, 0, 0);
}

/* The functions of an interpreter have one pair of probes, and their names as arguments. */
static void test_keys(void **state)
{
	static const char *const steps[][2] = {{"function__entry", "f"}, {"function__entry", "g"},
		{"function__return", "g"}, {"function__return", "f"}};
	static const char *const key = "str(arg0)";

	(void)state;
	assert_null(probe_calls_create(
		&(struct probe_calls_options){.keys = &key, .key_count = 1}, &calls));
	for (size_t i = 0; i < 4; i++) {
		const struct probe_value arg = {
			.kind = PROBE_VALUE_STRING, .bytes = steps[i][1], .length = 1};
		const struct probe_event event = {.kind = PROBE_EVENT_HIT,
			.time_ns = 1000 * i,
			.provider = "python",
			.name = steps[i][0],
			.args = &arg,
			.arg_count = 1};

		assert_null(probe_calls_add(calls, &event));
	}
	take_rows(false);
	is_function("f", 1, 2, 3);
	is_edge("f", "g", 1, 1, 1);
	assert_string_equal(row_of("g")->pair, "function");
	finish(0, 0, 0);
}

static void test_refused(void **state)
{
	static const char *const key = "arg";
	const struct probe_event begin = {.provider = "a", .name = "b"};
	const struct probe_event span = {.provider = "a", .name = "b", .begin = &begin};
	struct probe_error *error = probe_calls_create(
		&(struct probe_calls_options){.keys = &key, .key_count = 1}, &calls);

	(void)state;
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	probe_error_free(error);
	create();
	error = probe_calls_add(calls, &span);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_UNSUPPORTED);
	probe_error_free(error);
	finish(0, 0, 0);
}

/* Frames tell which calls the program has left, before anything around them returns. */
static void test_frames(void **state)
{
	(void)state;
	/* A loop calls `f` again after `g` has jumped back to it, and then another function. */
	create();
	RUN("f@9", "g@8", "f@9", "g@8", "-g@8", "-f@9", "f@9", "g@8", "h@9", "-h@9");
	take_rows(false);
	is_function("fn:a:f", 1, 2, 3);
	is_edge(NULL, "fn:a:f", 1, 2, 3);
	is_edge("fn:a:f", "fn:a:g", 1, 1, 1);
	is_edge(NULL, "fn:a:h", 1, 1, 1);
	finish(4, 0, 0);

	/* The loop's own callees have other frames; what it was called by is still open. */
	create();
	RUN("l@20", "f@9", "g@7", "h@10", "-h@10", "k@8", "-k@8", "f@9", "g@7", "-g@7", "-f@9",
		"-l@20");
	take_rows(false);
	is_function("fn:a:l", 1, 6, 11);
	is_edge("fn:a:l", "fn:a:h", 1, 1, 1);
	is_edge("fn:a:l", "fn:a:k", 1, 1, 1);
	is_edge("fn:a:l", "fn:a:f", 1, 2, 3);
	finish(2, 0, 0);

	/* A tail call: both functions have one frame. */
	create();
	RUN("f@9", "h@9", "-h@9", "-f@9");
	take_rows(false);
	is_edge("fn:a:f", "fn:a:h", 1, 1, 1);
	is_function("fn:a:f", 1, 2, 3);
	finish(0, 0, 0);

	/* Inner calls of a recursion are left; a handler on a stack above is inside no call. */
	create();
	RUN("f@9", "f@8", "f@7", "s@20", "g@19", "-g@19", "-s@20", "-f@9");
	take_rows(false);
	is_function("fn:a:f", 1, 7, 7);
	is_edge(NULL, "fn:a:s", 1, 2, 3);
	is_edge("fn:a:s", "fn:a:g", 1, 1, 1);
	finish(2, 0, 0);

	/* Once a call has returned that seemed to be left, the program has several stacks. */
	create();
	RUN("f@9", "s@20", "-s@20", "-f@9", "f@9", "s@20", "-s@20", "g@8", "-g@8", "-f@9");
	take_rows(false);
	is_function("fn:a:f", 2, 6, 8);
	is_edge(NULL, "fn:a:s", 1, 1, 1);
	is_edge("fn:a:f", "fn:a:s", 1, 1, 1);
	is_edge("fn:a:f", "fn:a:g", 1, 1, 1);
	finish(0, 0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nested),
		cmocka_unit_test(test_recursion),
		cmocka_unit_test(test_jumps),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_processes),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_intervals),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
