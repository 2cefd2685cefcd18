/* SPDX-License-Identifier: MIT */
/* Active streams without a log, rule by rule of POSIX trace (XSH 2.11, posix_trace_*). */
/* Not under ThreadSanitizer: nothing has threads. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stream/stream_live.h"

static const struct probe_stream_options until_full = {
	.policy = PROBE_STREAM_UNTIL_FULL, .stream_bytes = TEST_RING_BYTES};
/* Room for everything that one command produces. */
static const struct probe_stream_options roomy = {
	.policy = PROBE_STREAM_UNTIL_FULL, .stream_bytes = 1 << 24};

static void end(struct probe_stream *stream)
{
	live_ok(probe_stream_shutdown(stream));
}

/* ---- Starting, stopping, and reading in order --------------------------------------------------
 */

static void test_windows(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:value", &roomy);
	uint32_t value = type_of(stream, "live:value");
	struct seen seen;
	uint64_t last = 0;

	/* It begins suspended. */
	assert_false(status_of(stream).running);
	live_order(l, 'o');
	nothing_is_left(stream);

	live_ok(probe_stream_start(stream));
	live_ok(probe_stream_start(stream)); /* has no effect */
	assert_true(status_of(stream).running);
	live_order(l, 'o');
	live_ok(probe_stream_stop(stream));
	live_ok(probe_stream_stop(stream));
	live_order(l, 'o'); /* none of it is recorded */

	next_is(stream, &seen, PROBE_STREAM_START);
	assert_int_equal(seen.event.event.pid, 0);
	assert_string_equal(seen.event.event.provider, "posix_trace");
	last = seen.event.event.time_ns;
	for (long i = 0; i < HITS; i++) {
		const struct probe_event *e = &seen.event.event;

		next_is(stream, &seen, value);
		assert_int_equal(e->kind, PROBE_EVENT_HIT);
		assert_int_equal(e->pid, l->pid);
		assert_int_equal(e->tid, l->pid);
		assert_string_equal(e->provider, "live");
		assert_string_equal(e->name, "value");
		assert_int_equal(e->args[0].i, live_value(i));
		assert_int_equal(e->args[1].u, i % KINDS);
		assert_int_equal(seen.event.truncation, PROBE_STREAM_WHOLE);
		assert_true(seen.event.pc != 0 && e->time_ns >= last);
		last = e->time_ns;
	}
	next_is(stream, &seen, PROBE_STREAM_STOP);
	assert_int_equal(seen.event.event.args[0].i, 0);
	assert_true(seen.event.event.time_ns >= last);
	nothing_is_left(stream);
	assert_false(status_of(stream).overrun);
	end(stream);
}

/* Events are delivered in time order, including the stream's own; windows do not mix. */
static void test_two_windows(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:op__start", NULL);
	uint32_t type = type_of(stream, "live:op__start");
	struct seen seen;

	for (int i = 0; i < 3; i++) {
		live_ok(probe_stream_start(stream));
		live_order(l, '1');
		live_ok(probe_stream_stop(stream));
		live_order(l, '1');
	}
	for (int i = 0; i < 3; i++) {
		next_is(stream, &seen, PROBE_STREAM_START);
		next_is(stream, &seen, type);
		next_is(stream, &seen, PROBE_STREAM_STOP);
	}
	nothing_is_left(stream);
	end(stream);
}

/* ---- Types ---------------------------------------------------------------------- */

static void test_types(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:*", NULL);
	char longest[PROBE_STREAM_TYPE_NAME_MAX + 2];
	uint32_t type, first, listed = 0, probes = 0;
	const char *name;
	bool there;

	memset(longest, 'x', sizeof(longest));
	longest[PROBE_STREAM_TYPE_NAME_MAX + 1] = '\0';
	is_error(probe_stream_type_open(stream, longest, &type), ENAMETOOLONG);
	longest[PROBE_STREAM_TYPE_NAME_MAX] = '\0';
	first = type_of(stream, longest);
	assert_int_equal(type_of(stream, longest), first);
	is_error(probe_stream_type_open(stream, "", &type), EINVAL);
	live_ok(probe_stream_type_name(stream, first, &name));
	assert_string_equal(name, longest);
	is_error(probe_stream_type_name(stream, first + 1, &name), EINVAL);
	is_error(probe_stream_type_name(stream, UINT32_MAX, &name), EINVAL);
	live_ok(probe_stream_type_name(stream, PROBE_STREAM_FLUSH_STOP, &name));
	assert_string_equal(name, "posix_trace_flush_stop");
	live_ok(probe_stream_type_name(stream, PROBE_STREAM_UNNAMED, &name));
	assert_string_equal(name, "posix_trace_unnamed_userevent");
	assert_int_equal(type_of(stream, "posix_trace_stop"), PROBE_STREAM_STOP);
	assert_int_equal(type_of(stream, longest), first);
	assert_int_not_equal(first, PROBE_STREAM_STOP);

	/* The list: the stream's own, the unnamed one, three probes, and what was opened. */
	for (int round = 0; round < 2; round++) {
		listed = probes = 0;
		for (uint32_t from = 0;; listed++, from = type + 1) {
			live_ok(probe_stream_type_next(stream, from, &type, &there));
			if (!there)
				break;
			live_ok(probe_stream_type_name(stream, type, &name));
			probes += strncmp(name, "live:", 5) == 0;
		}
		assert_int_equal(listed, PROBE_STREAM_SYSTEM_TYPES + 1 + 3 + 1);
		assert_int_equal(probes, 3);
	}
	end(stream);
}

/* Beyond the largest number of types, names get the unnamed one; existing ones keep theirs. */
static void test_too_many_types(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:op__start", NULL);
	uint32_t value = type_of(stream, "live:op__start"), type = 0, last = 0;
	char name[32];

	for (int i = 2; i < PROBE_STREAM_USER_TYPES_MAX; i++) {
		snprintf(name, sizeof(name), "many:%d", i);
		last = type_of(stream, name);
		assert_true(last > value && last < PROBE_STREAM_TYPES_END);
	}
	assert_int_equal(last, PROBE_STREAM_TYPES_END - 1);
	type = type_of(stream, "many:more");
	assert_int_equal(type, PROBE_STREAM_UNNAMED);
	assert_int_equal(type_of(stream, name), last);
	assert_int_equal(type_of(stream, "live:op__start"), value);
	end(stream);
}

/* ---- Filters -------------------------------------------------------------------- */

static void test_filter(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:op*", NULL);
	uint32_t begin = type_of(stream, "live:op__start"), done = type_of(stream, "live:op__done");
	struct probe_stream_set set = set_of(begin), none = {0}, got;
	size_t hits = 0;
	struct seen seen;

	live_ok(probe_stream_get_filter(stream, &got));
	assert_memory_equal(&got, &none, sizeof(got));
	/* Before the start: no event. */
	live_ok(probe_stream_set_filter(stream, &set, PROBE_STREAM_FILTER_SET));
	live_ok(probe_stream_get_filter(stream, &got));
	assert_memory_equal(&got, &set, sizeof(got));
	live_ok(probe_stream_start(stream));
	live_order(l, '1');
	next_is(stream, &seen, PROBE_STREAM_START);
	live_ok(probe_stream_set_read(&seen.event.event.args[0], &got));
	assert_memory_equal(&got, &set, sizeof(got));
	nothing_is_left(stream);

	live_ok(probe_stream_set_filter(stream, &set, PROBE_STREAM_FILTER_SUB));
	live_order(l, '1');
	next_is(stream, &seen, PROBE_STREAM_FILTER);
	live_ok(probe_stream_set_read(&seen.event.event.args[0], &got));
	assert_memory_equal(&got, &set, sizeof(got));
	live_ok(probe_stream_set_read(&seen.event.event.args[1], &got));
	assert_memory_equal(&got, &none, sizeof(got));
	next_is(stream, &seen, begin);
	nothing_is_left(stream);

	/* Both types, and the event that reports it: filtered hits leave no record at all. */
	live_ok(probe_stream_set_filter(stream, &set, PROBE_STREAM_FILTER_ADD));
	set = set_of(done);
	live_ok(probe_stream_set_put(&set, PROBE_STREAM_FILTER, true));
	live_ok(probe_stream_set_filter(stream, &set, PROBE_STREAM_FILTER_ADD));
	next_is(stream, &seen, PROBE_STREAM_FILTER);
	live_order(l, 'r');
	nothing_is_left(stream);
	{
		size_t count;
		const struct probe_session_probe *probes =
			probe_session_probes(probe_stream_session(stream), &count);

		for (size_t i = 0; i < count; i++)
			hits += probes[i].hits;
		assert_int_equal(hits, 0);
	}
	is_error(probe_stream_set_filter(stream, &set, (enum probe_stream_how)9), EINVAL);
	end(stream);
}

/* ---- Full ----------------------------------------------------------------------- */

/* Reads hits of live:value until another event comes; returns their number. */
static long read_values(struct probe_stream *stream, uint32_t value, long first, struct seen *seen)
{
	long count = 0;

	while (try_next(stream, seen) && seen->event.type == value) {
		assert_int_equal(seen->event.event.args[0].i, live_value(first + count));
		count++;
	}
	return count;
}

static void test_until_full(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:value", &until_full);
	uint32_t value = type_of(stream, "live:value");
	struct probe_stream_status status;
	struct seen seen;
	long hits;

	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	status = status_of(stream);
	assert_true(!status.running && status.full && status.overrun && status.lost > 0);
	/* Reading the status resets it. */
	assert_false(status_of(stream).overrun);
	/* Neither has an effect while it is full. */
	live_ok(probe_stream_stop(stream));
	live_ok(probe_stream_start(stream));
	status = status_of(stream);
	assert_true(!status.running && status.full);
	live_order(l, 'o');

	next_is(stream, &seen, PROBE_STREAM_START);
	hits = read_values(stream, value, 0, &seen);
	assert_true(hits > 1000 && hits < HITS);
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	assert_int_equal(seen.event.event.args[0].i, 1);
	/* Once emptied, it continues by itself. */
	status = status_of(stream);
	assert_true(status.running && !status.full);
	live_order(l, 'o');
	next_is(stream, &seen, PROBE_STREAM_START);
	/* Hits whose sequence was aborted go to another ring, so a few more may fit. */
	assert_true(labs(read_values(stream, value, 0, &seen) - hits) <= 8);
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	end(stream);
}

/* A stream that is stopped while full stays stopped. */
static void test_stopped_full(void **state)
{
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:value", &until_full);
	uint32_t value = type_of(stream, "live:value");
	struct probe_stream_status status;
	struct seen seen;

	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	live_ok(probe_stream_stop(stream));
	next_is(stream, &seen, PROBE_STREAM_START);
	read_values(stream, value, 0, &seen);
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	status = status_of(stream);
	assert_true(!status.running && !status.full);
	live_order(l, 'o');
	nothing_is_left(stream);
	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	next_is(stream, &seen, PROBE_STREAM_START);
	assert_true(read_values(stream, value, 0, &seen) > 1000);
	end(stream);
}

/* The newest events are there; the loss of others is reported before them. */
static void test_loop(void **state)
{
	static const struct probe_stream_options options = {.stream_bytes = TEST_RING_BYTES};
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:value", &options);
	uint32_t value = type_of(stream, "live:value");
	struct probe_stream_status status;
	long hits = 1, first;
	struct seen seen;
	uint64_t resumed;

	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	status = status_of(stream);
	assert_true(status.running && status.full && status.overrun);
	assert_false(status_of(stream).overrun);
	next_is(stream, &seen, PROBE_STREAM_START);
	next_is(stream, &seen, PROBE_STREAM_OVERFLOW);
	assert_int_equal(seen.event.event.kind, PROBE_EVENT_LOST);
	do
		assert_true(try_next(stream, &seen));
	while (seen.event.type == value); /* from a processor that it left early */
	assert_int_equal(seen.event.type, PROBE_STREAM_RESUME);
	resumed = seen.event.event.time_ns;
	next_is(stream, &seen, value);
	assert_int_equal(seen.event.event.time_ns, resumed);
	for (first = 0; live_value(first) != seen.event.event.args[0].i;)
		first++;
	hits += read_values(stream, value, first + 1, &seen);
	assert_int_equal(first + hits, HITS);
	status = status_of(stream);
	assert_true(status.running && !status.full && !status.overrun);

	/* Events that were read make room, and are not delivered again. */
	for (int i = 0; i < 3; i++) {
		live_order(l, '1');
		nothing_is_left(stream);
	}
	live_ok(probe_stream_stop(stream));
	next_is(stream, &seen, PROBE_STREAM_STOP);
	assert_false(status_of(stream).running);
	end(stream);
}

/* Events that just fit the stream are all there. */
static void test_promised_room(void **state)
{
	struct live *l = *state;

	for (int policy = PROBE_STREAM_LOOP; policy <= PROBE_STREAM_UNTIL_FULL; policy++) {
		struct probe_stream_options options = {.policy = (enum probe_stream_policy)policy,
			.stream_bytes = TEST_RING_BYTES};
		struct probe_stream *stream = stream_of(l, "live:op__start", &options);
		struct probe_stream_attributes attributes;
		uint32_t type = type_of(stream, "live:op__start");
		struct seen seen;
		size_t promised, hits = 0;

		live_ok(probe_stream_get_attributes(stream, &attributes));
		assert_true(attributes.options.stream_bytes >= TEST_RING_BYTES);
		assert_true(attributes.user_event_bytes > 0);
		promised = attributes.options.stream_bytes / attributes.user_event_bytes;
		assert_true(promised >= REQUESTS);
		live_ok(probe_stream_start(stream));
		live_order(l, 'q'); /* REQUESTS */
		next_is(stream, &seen, PROBE_STREAM_START);
		while (try_next(stream, &seen))
			hits += seen.event.type == type;
		assert_int_equal(hits, REQUESTS);
		assert_false(status_of(stream).overrun);
		end(stream);
	}
}

/* ---- Clear ---------------------------------------------------------------------- */

static void test_clear(void **state)
{
	struct live *l = *state;
	struct probe_stream_set none = {0}, got;

	for (int policy = PROBE_STREAM_LOOP; policy <= PROBE_STREAM_UNTIL_FULL; policy++) {
		struct probe_stream_options options = {.policy = (enum probe_stream_policy)policy,
			.stream_bytes = TEST_RING_BYTES};
		struct probe_stream *stream = stream_of(l, "live:*", &options);
		uint32_t start = type_of(stream, "live:op__start");
		uint32_t mine = type_of(stream, "my:own");
		struct probe_stream_set set = set_of(start);
		struct probe_stream_status status;
		struct seen seen;

		live_ok(probe_stream_start(stream));
		live_ok(probe_stream_set_filter(stream, &set, PROBE_STREAM_FILTER_SET));
		live_order(l, 'o');
		assert_true(status_of(stream).full);
		live_ok(probe_stream_clear(stream));
		status = status_of(stream);
		assert_true(!status.full && !status.overrun && !status.lost);
		/* A running stream continues; the other one stays stopped. */
		assert_int_equal(status.running, policy == PROBE_STREAM_LOOP);
		assert_int_equal(type_of(stream, "my:own"), mine);
		live_ok(probe_stream_get_filter(stream, &got));
		assert_memory_equal(&got, &none, sizeof(got));
		nothing_is_left(stream);
		live_ok(probe_stream_start(stream));
		live_order(l, '1');
		if (policy != PROBE_STREAM_LOOP)
			next_is(stream, &seen, PROBE_STREAM_START);
		next_is(stream, &seen, start);
		nothing_is_left(stream);
		end(stream);
	}
}

/* ---- Sizes ---------------------------------------------------------------------- */

/* Events longer than declared are truncated when recorded; too long for the reader, when read. */
static void test_truncation(void **state)
{
	static const struct probe_stream_options options = {
		.policy = PROBE_STREAM_UNTIL_FULL, .data_bytes = 18, .stream_bytes = 1 << 24};
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:value(arg0,arg1,str(arg2))", &options);
	uint32_t value = type_of(stream, "live:value");
	struct probe_stream_event event;
	struct probe_value small[2];
	struct seen seen;
	bool there;

	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	live_ok(probe_stream_stop(stream));
	next_is(stream, &seen, PROBE_STREAM_START);
	next_is(stream, &seen, value); /* "alpha" */
	assert_int_equal(seen.event.truncation, PROBE_STREAM_TRUNCATED_RECORD);
	assert_int_equal(seen.event.event.arg_count, 3);
	assert_int_equal(seen.event.event.args[2].length, 2);
	assert_memory_equal(seen.event.event.args[2].bytes, "al", 2);
	assert_true(seen.event.event.args[2].truncated);
	assert_true(seen.event.data_used <= sizeof(seen.data));
	/* It overrides the other one. */
	live_ok(probe_stream_next(stream, small, sizeof(small), &no_wait, &event, &there));
	assert_true(there && event.type == value);
	assert_int_equal(event.truncation, PROBE_STREAM_TRUNCATED_READ);
	assert_int_equal(event.event.arg_count, 2);
	assert_int_equal(event.event.args[0].i, live_value(1));
	assert_int_equal(event.data_used, sizeof(small));
	live_ok(probe_stream_next(stream, NULL, 0, &no_wait, &event, &there));
	assert_true(there && event.truncation == PROBE_STREAM_TRUNCATED_READ);
	assert_int_equal(event.event.arg_count, 0);
	next_is(stream, &seen, value);
	assert_int_equal(seen.event.event.args[0].i, live_value(3));
	end(stream);
}

/* ---- Children ------------------------------------------------------------------- */

static void test_inherit(void **state)
{
	struct live *l = *state;

	for (int inherit = 0; inherit < 2; inherit++) {
		struct probe_stream_options options = {.inherit = inherit};
		struct probe_stream *stream = stream_of(l, "live:op__start", &options);
		uint32_t type = type_of(stream, "live:op__start");
		struct seen seen;

		live_ok(probe_stream_start(stream));
		live_order(l, 'f');
		next_is(stream, &seen, PROBE_STREAM_START);
		next_is(stream, &seen, type);
		assert_int_equal(seen.event.event.args[0].i, 1);
		if (inherit) {
			/* A name has the same number in all processes. */
			next_is(stream, &seen, type);
			assert_int_equal(seen.event.event.args[0].i, 2);
		}
		nothing_is_left(stream);
		end(stream);
	}
}

/* ---- Arguments ------------------------------------------------------------------ */

static void test_attributes(void **state)
{
	static const struct probe_stream_options options = {
		.name = "of mine", .data_bytes = 100, .inherit = true, .filter = "arg0 > 0"};
	struct live *l = *state;
	struct probe_stream_attributes a;
	struct probe_stream *stream;
	struct timespec before, after;

	clock_gettime(CLOCK_REALTIME, &before);
	stream = stream_of(l, "live:op__start", &options);
	clock_gettime(CLOCK_REALTIME, &after);
	live_ok(probe_stream_get_attributes(stream, &a));
	assert_string_equal(a.options.name, "of mine");
	assert_string_equal(a.options.filter, "arg0 > 0");
	assert_int_equal(a.options.data_bytes, 100);
	assert_int_equal(a.options.policy, PROBE_STREAM_LOOP);
	assert_true(a.options.inherit && !a.options.log);
	assert_in_range(a.created_ns / 1000000000, before.tv_sec, after.tv_sec);
	assert_true(a.clock_resolution_ns > 0 && strncmp(a.version, "probectl ", 9) == 0);
	end(stream);
}

static struct probe_error *create(
	struct live *l, const char *pattern, const struct probe_stream_options *options)
{
	struct probe_report report = {0};
	struct probe_stream *stream;
	struct probe_pattern *parsed;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&parsed, .pattern_count = 1};
	struct probe_error *error;

	live_ok(probe_pattern_parse(pattern, &parsed));
	error = probe_stream_create(l->target, &request, options, &report, &stream);
	probe_pattern_free(parsed);
	probe_report_deinit(&report);
	if (!error)
		end(stream);
	return error;
}

static void test_usage(void **state)
{
	static const struct probe_stream_options
		flush = {.policy = PROBE_STREAM_FLUSH},
		bad = {.policy = (enum probe_stream_policy)9},
		bad_log = {.log_policy = (enum probe_stream_log_policy)9}, tiny = {.data_bytes = 1},
		waits = {.wait_ns = 1}, parts = {.log_parts = {.rotate_ns = 1}},
		filter = {.filter = "arg0 >"};
	struct probe_stream_options name = {0};
	char longer[PROBE_STREAM_NAME_MAX + 2];
	struct live *l = *state;
	struct probe_target *target;
	struct probe_stream *stream;
	struct probe_stream_event event;
	struct probe_value value = {.kind = PROBE_VALUE_SIGNED};
	struct probe_stream_set set;
	bool there;

	memset(longer, 'n', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	name.name = longer;
	is_error(create(l, "live:value", &flush), EINVAL);
	is_error(create(l, "live:value", &bad), EINVAL);
	is_error(create(l, "live:value", &bad_log), EINVAL);
	is_error(create(l, "live:value", &tiny), EINVAL);
	is_error(create(l, "live:value", &waits), EINVAL);
	is_error(create(l, "live:value", &parts), EINVAL);
	is_error(create(l, "live:value", &filter), EINVAL);
	is_error(create(l, "live:value", &name), ENAMETOOLONG);
	is_error(create(l, "live:absent", NULL), ESRCH);
	is_error(probe_target_open(INT_MAX, NULL, &target), ESRCH);

	stream = stream_of(l, "live:value", NULL);
	is_error(probe_stream_flush(stream), EINVAL);
	is_error(probe_stream_rewind(stream), EINVAL);
	is_error(probe_stream_close(stream), EINVAL);
	is_error(probe_stream_set_read(&value, &set), EINVAL);
	live_ok(probe_stream_poll(stream, &there));
	live_ok(probe_stream_next(stream, NULL, 0, &no_wait, &event, &there));
	assert_false(there);
	end(stream);
}

/*
 * Text and semaphores are as before: the next stream finds a clean process (and
 * live_teardown()).
 */
int main(void)
{
#define LIVE(test) cmocka_unit_test_setup_teardown(test, live_setup, live_teardown)
	const struct CMUnitTest tests[] = {
		LIVE(test_windows),
		LIVE(test_two_windows),
		LIVE(test_types),
		LIVE(test_too_many_types),
		LIVE(test_filter),
		LIVE(test_until_full),
		LIVE(test_stopped_full),
		LIVE(test_loop),
		LIVE(test_promised_room),
		LIVE(test_clear),
		LIVE(test_truncation),
		LIVE(test_inherit),
		LIVE(test_attributes),
		LIVE(test_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
