/* SPDX-License-Identifier: MIT */
/*
 * -t and related options, and messages to loaded tracers.
 *
 * What Erlang's erl_tracer (erts 15) promises of a tracer module, of a loaded tracer here
 * (probe/tracer.h). loaded: tests/integration/trace/tracers_loaded.sh, tracers: .../tracers.sh,
 * cli: this file.
 *
 *	there				here
 *	enabled/3			enabled: tracers "what it was asked"; with the probe: loaded
 *					"a name of one's own"
 *	  before data are made		filter: loaded "a filter", "with -f"; what it refuses is not
 *					recorded
 *	  in the context of the tracee	filter; or a function: library/preload "in its own thread"
 *	  trace				tracers "what it was asked"
 *	  discard			tracers ",discard"
 *	  remove, at trace_status	loaded "At the start": of the tracer, of a process
 *	  ... later			loaded "Asked again at the next look"
 *	  ... at a hit			loaded "the other threads"; REMOVE_PROBE: loaded "Later"
 *	  of each new tracee		loaded "asked: processes", a forked child
 *	  is free of side effects	the tracer's own affair; it is asked once a hit
 *	enabled_call, _send, _receive,
 *	_procs, _ports, _running_procs,
 *	_running_ports,
 *	_garbage_collection/3		enabled_tag[]: cli's and tracers' "worked example", by our
 *					tags; tag=send@chat:send: loaded "a name of one's own"
 *	... undefined: enabled/3	enabled_tag[] NULL: tracers "what it was asked"
 *	trace/5				trace: tracers "what it was asked"
 *	  its result is ok alone	a verdict: `remove` spares a question; loaded "Later"
 *	trace_call ... /5		trace_tag[]: tracers "worked example"
 *	trace(seq_trace, Label, ...)	label: loaded "labels"; an argument must carry it
 *	TraceTag			enum probe_tracer_tag: loaded "the tag of a probe", "An end"
 *	TracerState			what create() made: tracers "destroyed after"
 *	Tracee: pid, port		process and thread: cli hits_cross_the_wire
 *	  undefined			pid 0, at trace_status: tracers "what it was asked"
 *	TraceTerm			probe and arguments: cli hits_cross_the_wire
 *	Opts: timestamp			time_ns: cli hits_cross_the_wire; one clock, CLOCK_REALTIME
 *	  scheduler_id			cpu: cli hits_cross_the_wire
 *	  extra, by tag			extra: cli a_value_is_the_first_number, loaded "An end says"
 *	  match_spec_result		filter_result: loaded "values of a filter", "a truth value"
 *	  ... absent			NULL: loaded "without a filter"
 *	load/0, and a failure of it	create: tracers ",refuse", "cannot load it"
 *	unload				destroy: tracers "destroyed after"
 *	upgrade				none: a trace ends before another tracer begins
 *	a module without enabled or
 *	trace: undef			tracers "lacks the operation 'trace'"
 *	a NIF of another version	tracers "build it again"
 *	a NIF that crashes		ends the VM there; here tracers ",crash", ",exit"
 *	a NIF that blocks		blocks a scheduler there; here tracers "block"
 *	messages to the tracee are
 *	forbidden			not possible: another process
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/trace/tracer_option.h"
#include "libprobe/session/session.h"

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

/* Some static probes, whose names do not matter. */
static struct pattern_list some_patterns(size_t count)
{
	static struct probe_pattern *items[4];
	struct pattern_list list = {.items = items, .count = count};

	for (size_t i = 0; i < count; i++)
		if (!items[i])
			assert_null(probe_pattern_parse("a:b", &items[i]));
	return list;
}

static void usage(struct tracer_options *options, size_t patterns, const char *message)
{
	struct pattern_list list = some_patterns(patterns);
	const struct probe_session_options base = {0};
	struct trace_tracer *tracers;
	struct probe_error *error;
	size_t count;

	error = tracers_init(options, &base, &list, false, &tracers, &count);
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
	struct pattern_list list = some_patterns(1);

	(void)state;
	assert_null(tracers_init(&options, &base, &list, true, &tracers, &count));
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
	struct pattern_list list = some_patterns(1);

	(void)state;
	assert_null(tracers_init(&options, &base, &list, false, &tracers, &count));
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
	struct pattern_list list = some_patterns(1);

	(void)state;
	assert_null(tracers_init(&options, &base, &list, false, &tracers, &count));
	assert_false(tracers[0].options.gather.histogram);
	tracers_free(tracers, count);
	assert_null(tracers_init(&options, &base, &list, true, &tracers, &count));
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
	const struct probe_hit hit = {.time_ns = 12,
		.pid = 3,
		.tid = 4,
		.cpu = 5,
		.pc = 6,
		.args = args,
		.arg_count = 5,
		.filter = {.kind = PROBE_VALUE_UNSIGNED, .u = 6}};
	const struct probe_session_probe probe = {.provider = "db", .name = "query", .pair = 9};
	const struct probe_value label = {
		.kind = PROBE_VALUE_STRING, .bytes = "order 17", .length = 8};
	struct buffer out = {0};
	struct wire_got got;
	size_t length;
	char *copy;

	(void)state;
	assert_true(wire_put_hit(&out, PROBE_TAG_END, 0, &label, &hit, &probe, "thread"));
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
	assert_int_equal(got.options.filter_result->kind, PROBE_VALUE_UNSIGNED);
	assert_int_equal(got.options.filter_result->u, 6);
	assert_string_equal(got.options.comm, "thread");
	assert_int_equal(got.options.label->length, 8);
	assert_memory_equal(got.options.label->bytes, "order 17", 8);
	assert_int_equal(got.pair, 9);
	assert_null(got.options.extra);
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

/* What a message says of a hit with these arguments; the copy is to be freed. */
static char *cross(enum probe_tracer_tag tag, const struct probe_value *args, size_t count,
	struct wire_got *ret)
{
	const struct probe_hit hit = {.args = args, .arg_count = count};
	const struct probe_session_probe probe = {.provider = "db", .name = "query"};
	struct buffer out = {0};
	size_t length;
	char *copy;

	assert_true(wire_put_hit(&out, tag, 0, NULL, &hit, &probe, NULL));
	length = out.length - out.start;
	copy = malloc(length);
	assert_non_null(copy);
	memcpy(copy, out.data + out.start, length);
	buffer_deinit(&out);
	assert_true(wire_get_hit(copy, length, ret));
	return copy;
}

static void a_value_is_the_first_number(void **state)
{
	const struct probe_value args[] = {
		{.kind = PROBE_VALUE_STRING, .bytes = "one", .length = 3},
		{.kind = PROBE_VALUE_FLOAT, .f = 1.5},
		{.kind = PROBE_VALUE_SIGNED, .i = 2},
	};
	struct wire_got got;

	(void)state;
	free(cross(PROBE_TAG_POINT, args, 3, &got));
	assert_null(got.options.extra);
	assert_null(got.options.filter_result);
	assert_null(got.options.comm);
	for (int tag = PROBE_TAG_OBSERVE; tag <= PROBE_TAG_COUNT; tag++) {
		char *copy = cross((enum probe_tracer_tag)tag, args, 3, &got);

		assert_ptr_equal(got.options.extra, &got.term.args[1]);
		assert_true(got.options.extra->f == 1.5);
		free(copy);
		free(cross((enum probe_tracer_tag)tag, args, 1, &got));
		assert_null(got.options.extra);
	}
}

/* ---- Begins ----------------------------------------------------------------------- */

static void ends_find_their_begins(void **state)
{
	struct open_pairs *pairs = calloc(1, sizeof(*pairs));
	uint64_t time;

	(void)state;
	assert_non_null(pairs);
	assert_false(open_pairs_pop(pairs, 1, 2, 0, &time));
	open_pairs_push(pairs, 1, 2, 0, 100);
	open_pairs_push(pairs, 1, 2, 0, 200);
	open_pairs_push(pairs, 1, 2, 1, 300);
	open_pairs_push(pairs, 1, 3, 0, 400);
	open_pairs_push(pairs, 2, 2, 0, 500);
	assert_true(open_pairs_pop(pairs, 1, 2, 0, &time));
	assert_int_equal(time, 200);
	assert_true(open_pairs_pop(pairs, 1, 2, 1, &time));
	assert_int_equal(time, 300);
	assert_true(open_pairs_pop(pairs, 1, 2, 0, &time));
	assert_int_equal(time, 100);
	assert_false(open_pairs_pop(pairs, 1, 2, 0, &time));
	assert_true(open_pairs_pop(pairs, 2, 2, 0, &time));
	assert_int_equal(time, 500);
	/* Too deep: the innermost are not known, the others are right. */
	for (unsigned int i = 0; i < OPEN_PAIRS_DEPTH + 2; i++)
		open_pairs_push(pairs, 5, 5, 5, i + 1);
	assert_false(open_pairs_pop(pairs, 5, 5, 5, &time));
	assert_false(open_pairs_pop(pairs, 5, 5, 5, &time));
	assert_true(open_pairs_pop(pairs, 5, 5, 5, &time));
	assert_int_equal(time, OPEN_PAIRS_DEPTH);
	/* More threads than there is room for: the latest are known. */
	for (int i = 1; i <= 4 * OPEN_PAIRS_PLACES; i++)
		open_pairs_push(pairs, 7, i, 0, (uint64_t)i);
	assert_true(open_pairs_pop(pairs, 7, 4 * OPEN_PAIRS_PLACES, 0, &time));
	assert_int_equal(time, 4 * OPEN_PAIRS_PLACES);
	assert_false(open_pairs_pop(pairs, 7, 1, 0, &time));
	free(pairs);
}

/* ---- Tags ------------------------------------------------------------------------- */

static void the_last_tag_that_matches_is_taken(void **state)
{
	const struct probe_session_probe query = {
		.path = "/bin/db", .provider = "db", .name = "query"};
	const struct probe_session_probe other = {.provider = "db", .name = "other"};
	struct probe_error *error;
	struct tags tags = {0};

	(void)state;
	assert_null(tags_find(&tags, &query));
	assert_null(tags_add(&tags, "count"));
	assert_null(tags_add(&tags, "observe@db:qu*"));
	assert_null(tags_add(&tags, "point@none"));
	assert_int_equal(tags_find(&tags, &query)->tag, PROBE_TAG_OBSERVE);
	assert_int_equal(tags_find(&tags, &other)->tag, PROBE_TAG_COUNT);
	assert_null(tags_add(&tags, "point@/bin/db:db:query"));
	assert_int_equal(tags_find(&tags, &query)->tag, PROBE_TAG_POINT);
	assert_null(tags_add(&tags, "observed@db:query"));
	assert_int_equal(tags_find(&tags, &query)->tag, PROBE_TAG_NAMED);
	assert_string_equal(tags_find(&tags, &query)->name, "observed");
	error = tags_add(&tags, "end@db:query");
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	probe_error_free(error);
	error = tags_add(&tags, "count@");
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	probe_error_free(error);
	assert_int_equal(tags.count, 5);
	tags_deinit(&tags);
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
		cmocka_unit_test(a_value_is_the_first_number),
		cmocka_unit_test(ends_find_their_begins),
		cmocka_unit_test(the_last_tag_that_matches_is_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
