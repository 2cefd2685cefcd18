/* SPDX-License-Identifier: MIT */
/* -t and related options, and messages to loaded tracers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/trace/tracer.h"
#include "libprobe/tracer/wire.h"

/* ---- --match ---------------------------------------------------------------------- */

static void splits(const char *text, const char *begin, const char *end)
{
	char *got_begin, *got_end;

	assert_null(match_split(text, &got_begin, &got_end));
	assert_string_equal(got_begin, begin);
	if (end)
		assert_string_equal(got_end, end);
	else
		assert_null(got_end);
	free(got_begin);
	free(got_end);
}

static void does_not_split(const char *text)
{
	char *begin, *end;
	struct probe_error *error = match_split(text, &begin, &end);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_non_null(strstr(error->message, "--match arg0:arg1"));
	assert_null(begin);
	assert_null(end);
	probe_error_free(error);
}

static void match_is_split_at_its_colon(void **state)
{
	(void)state;
	splits("arg0", "arg0", NULL);
	splits("arg0:arg1", "arg0", "arg1");
	splits("arg0 == ':':arg1", "arg0 == ':'", "arg1");
	splits("'\\'' + arg0:1", "'\\'' + arg0", "1");
	splits("starts_with(str(arg0), \":\\\":\")", "starts_with(str(arg0), \":\\\":\")", NULL);
	splits("(1:2)", "(1:2)", NULL);
	splits("\"unfinished:", "\"unfinished:", NULL);
	does_not_split(":arg0");
	does_not_split("arg0:");
	does_not_split(":");
}

/* ---- Tracers ---------------------------------------------------------------------- */

static void usage(struct tracer_options *options, size_t patterns, const char *message)
{
	const struct probe_session_options base = {0};
	struct trace_tracer *tracers;
	struct probe_error *error;
	size_t count;

	error = tracers_init(options, &base, patterns, false, &tracers, &count);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
	tracers_free(tracers, count);
}

static void several_tracers_take_what_is_theirs(void **state)
{
	const char *typed[] = {"print", "latency", "sum,arg1", "./own.so"};
	const char *keys[] = {"str(arg0)", "tid"};
	struct tracer_options options = {.count = true,
		.tracers = {typed, 4},
		.keys = {keys, 2},
		.pairs = "auto",
		.match = "arg0:arg1",
		.filter = "arg0 > 1",
		.every = 10,
		.rate = 20};
	const struct probe_session_options base = {.string_bytes = 77};
	struct trace_tracer *tracers;
	size_t count;

	(void)state;
	assert_null(tracers_init(&options, &base, 1, true, &tracers, &count));
	assert_int_equal(count, 5);
	for (size_t i = 0; i < count; i++) {
		assert_string_equal(tracers[i].options.filter, "arg0 > 1");
		assert_int_equal(tracers[i].options.sample_every, 10);
		assert_int_equal(tracers[i].options.sample_rate, 20);
		assert_int_equal(tracers[i].options.string_bytes, 77);
	}
	assert_int_equal(tracers[0].options.gather.key_count, 0);
	assert_int_equal(tracers[0].options.kind, PROBE_SESSION_RECORD);
	assert_int_equal(tracers[1].options.gather.pairing, PROBE_PAIRING_NAMES);
	assert_string_equal(tracers[1].options.gather.match, "arg0");
	assert_string_equal(tracers[1].options.gather.match_end, "arg1");
	assert_int_equal(tracers[2].options.gather.key_count, 2);
	assert_int_equal(tracers[2].options.gather.pairing, PROBE_PAIRING_NONE);
	assert_null(tracers[2].options.gather.match);
	assert_string_equal(tracers[2].title, "sum,arg1");
	assert_int_equal(tracers[3].options.gather.pairing, PROBE_PAIRING_NAMES);
	assert_int_equal(tracers[4].options.kind, PROBE_SESSION_GATHER);
	tracers_free(tracers, count);
	free(options.match_begin);
	free(options.match_end);
}

static void nothing_means_print(void **state)
{
	struct tracer_options options = {0};
	const struct probe_session_options base = {0};
	struct trace_tracer *tracers;
	size_t count;

	(void)state;
	assert_null(tracers_init(&options, &base, 1, false, &tracers, &count));
	assert_int_equal(count, 1);
	assert_int_equal(tracers[0].output, PROBE_TRACER_HITS);
	assert_null(tracers[0].title);
	tracers_free(tracers, count);
}

static void intervals_need_buckets_for_extremes(void **state)
{
	const char *typed[] = {"max,arg0"};
	struct tracer_options options = {.tracers = {typed, 1}};
	const struct probe_session_options base = {0};
	struct trace_tracer *tracers;
	size_t count;

	(void)state;
	assert_null(tracers_init(&options, &base, 1, false, &tracers, &count));
	assert_false(tracers[0].options.gather.histogram);
	tracers_free(tracers, count);
	assert_null(tracers_init(&options, &base, 1, true, &tracers, &count));
	assert_true(tracers[0].options.gather.histogram);
	tracers_free(tracers, count);
}

static void mistakes_are_named(void **state)
{
	const char *latency[] = {"latency"}, *count[] = {"count"};
	const char *keys[] = {"1", "2", "3", "4", "5"};

	(void)state;
	usage(&(struct tracer_options){.tracers = {latency, 1}, .pairs = "car"}, 2,
		"--pairs 'car': use auto (by their names) or listed (a begin, its end, the "
		"next begin ...)");
	usage(&(struct tracer_options){.tracers = {count, 1}, .keys = {keys, 5}}, 1,
		"-k: at most 4 keys");
	usage(&(struct tracer_options){.tracers = {count, 1}, .keys_max = 5}, 1,
		"--keys is the number of keys; give -k EXPR, too");
	usage(&(struct tracer_options){.every = UINT64_C(1) << 32}, 1,
		"--every and --rate: at most 4294967295");
}

/* ---- Messages --------------------------------------------------------------------- */

static void hits_cross_the_wire(void **state)
{
	const struct probe_value args[] = {
		{.kind = PROBE_VALUE_SIGNED, .i = -5},
		{.kind = PROBE_VALUE_STRING, .bytes = "one", .length = 3},
		{.kind = PROBE_VALUE_NULL},
		{.kind = PROBE_VALUE_TEXT, .u = 7, .truncated = true, .bytes = "ab", .length = 2},
		{.kind = PROBE_VALUE_STRING, .bytes = "", .length = 0},
	};
	const struct probe_hit hit = {
		.time_ns = 12, .pid = 3, .tid = 4, .cpu = 5, .pc = 6, .args = args, .arg_count = 5};
	const struct probe_session_probe probe = {.provider = "db", .name = "query"};
	struct buffer out;
	struct wire_got got;
	size_t length;
	char *copy;

	(void)state;
	assert_true(buffer_init(&out));
	assert_true(wire_put_hit(&out, PROBE_TAG_END, &hit, &probe, "thread", true));
	length = out.length - out.start;
	assert_int_equal(length % 8, 0);
	copy = malloc(length);
	assert_non_null(copy);
	memcpy(copy, out.data + out.start, length);
	assert_true(wire_get_hit(copy, length, &got));
	assert_int_equal(got.tag, PROBE_TAG_END);
	assert_int_equal(got.tracee.pid, 3);
	assert_int_equal(got.tracee.tid, 4);
	assert_string_equal(got.term.provider, "db");
	assert_string_equal(got.term.name, "query");
	assert_int_equal(got.term.pc, 6);
	assert_int_equal(got.term.arg_count, 5);
	assert_int_equal(got.term.args[0].i, -5);
	assert_int_equal(got.term.args[1].length, 3);
	assert_memory_equal(got.term.args[1].bytes, "one", 3);
	assert_int_equal(got.term.args[2].kind, PROBE_VALUE_NULL);
	assert_memory_equal(got.term.args[3].bytes, "ab", 2);
	assert_true(got.term.args[3].truncated);
	assert_int_equal(got.options.time_ns, 12);
	assert_int_equal(got.options.cpu, 5);
	assert_true(got.options.filtered);
	assert_string_equal(got.options.extra, "thread");
	/* Truncated anywhere, or with any byte changed, it is rejected or harmless. */
	for (size_t cut = 0; cut < length; cut += 8) {
		memcpy(copy, out.data + out.start, length);
		wire_get_hit(copy, cut, &got);
	}
	for (size_t at = 0; at < length; at++) {
		memcpy(copy, out.data + out.start, length);
		copy[at] = (char)0xff;
		if (wire_get_hit(copy, length, &got))
			assert_true(strlen(got.term.name) < length);
	}
	free(copy);
	buffer_deinit(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(match_is_split_at_its_colon),
		cmocka_unit_test(several_tracers_take_what_is_theirs),
		cmocka_unit_test(nothing_means_print),
		cmocka_unit_test(intervals_need_buckets_for_extremes),
		cmocka_unit_test(mistakes_are_named),
		cmocka_unit_test(hits_cross_the_wire),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
