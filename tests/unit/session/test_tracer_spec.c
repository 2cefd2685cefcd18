/* SPDX-License-Identifier: MIT */
/* What a user types after -t: parsed, and turned into a session's options. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/tracer.h"

static void wrong(const char *text, const char *message)
{
	struct probe_tracer_spec *spec = NULL;
	struct probe_error *error = probe_tracer_parse(text, &spec);

	assert_non_null(error);
	assert_null(spec);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
}

static struct probe_tracer_spec *parse(const char *text)
{
	struct probe_tracer_spec *spec = NULL;

	assert_null(probe_tracer_parse(text, &spec));
	return spec;
}

static void errors_name_the_next_step(void **state)
{
	(void)state;
	wrong("latencie", "there is no tracer 'latencie'; the nearest is 'latency'");
	wrong("histogram,arg0", "there is no tracer 'histogram'; the nearest is 'hist'");
	wrong("Count", "there is no tracer 'Count'; the nearest is 'count'");
	wrong("xyzzy123",
		"there is no tracer 'xyzzy123'; probectl-trace(1) names them, and a tracer of "
		"your own is the path of a shared object (./xyzzy123.so)");
	wrong("", "there is no tracer ''; probectl-trace(1) names them, and a tracer of your own "
		  "is the path of a shared object (./.so)");
	wrong("sum", "tracer 'sum' needs a value: -t sum,arg0, or any other expression");
	wrong("hist,", "tracer 'hist' needs a value: -t hist,arg0, or any other expression");
	wrong("latency,arg0", "tracer 'latency' takes no value ('arg0'); what it measures is time");
	wrong("count,arg0",
		"tracer 'count' takes no value ('arg0'); -t sum,EXPR adds up, -k EXPR counts by "
		"value");
	wrong("print,x", "tracer 'print' takes no value ('x')");
}

static void call_stacks(void **state)
{
	struct probe_session_options options = {0};
	struct probe_tracer_spec *spec = parse("stack");
	struct probe_view view;

	(void)state;
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_RECORD);
	assert_int_equal(options.stack, PROBE_STACK_COPY);
	assert_true(options.ring_bytes > 0);
	probe_tracer_view(spec, &options, &view);
	assert_false(view.folded);
	probe_tracer_free(spec);

	options = (struct probe_session_options){.ring_bytes = 1 << 20};
	spec = parse("stack,folded,bytes=512");
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.stack_bytes, 512);
	assert_int_equal(options.ring_bytes, 1 << 20);
	probe_tracer_view(spec, &options, &view);
	assert_true(view.folded);
	probe_tracer_free(spec);

	options = (struct probe_session_options){0};
	spec = parse("stack,frames");
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_GATHER);
	assert_int_equal(options.stack, PROBE_STACK_FRAMES);
	assert_int_equal(options.ring_bytes, 0);
	probe_tracer_free(spec);

	wrong("stack,", "tracer 'stack' has no option ''; it has frames, bytes=N, folded, "
			"flamegraph and pprof");
	wrong("stack,bytes=511",
		"-t stack,bytes=511: between 512 and 32768 bytes of each stack can be copied");
	wrong("stack,bytes=4k,folded",
		"-t stack,bytes=4k: between 512 and 32768 bytes of each stack can be copied");
	wrong("stack,bytes=99999999999999999999",
		"-t stack,bytes=99999999999999999999: between 512 and 32768 bytes of each stack "
		"can be copied");
	wrong("stack,frames,bytes=4096",
		"-t stack: either frames, which copies no bytes, or bytes=N");
}

/* What heap makes of so many PROBEs. */
static void heap_configures(
	const char *text, size_t patterns, enum probe_pairing pairing, bool live, bool frames)
{
	struct probe_session_options options = {0};
	struct probe_tracer_spec *spec = parse(text);
	struct probe_view view;

	assert_null(probe_tracer_configure(spec, patterns, &options));
	assert_int_equal(options.kind, PROBE_SESSION_RECORD);
	assert_int_equal(options.gather.pairing, pairing);
	assert_int_equal(options.stack, frames ? PROBE_STACK_FRAMES : PROBE_STACK_COPY);
	assert_true(options.begin_stacks && !options.spans);
	probe_tracer_view(spec, &options, &view);
	assert_int_equal(view.live, live);
	probe_tracer_free(spec);
}

static void heaps(void **state)
{
	(void)state;
	heap_configures("heap", 1, PROBE_PAIRING_NAMES, true, false);
	heap_configures("heap,live", 2, PROBE_PAIRING_LISTED, true, false);
	heap_configures("heap,frames,total", 4, PROBE_PAIRING_LISTED, false, true);
	wrong("heap,all", "tracer 'heap' has no option 'all'; it has live, total, frames, bytes=N, "
			  "folded, flamegraph and pprof");
	wrong("stack,live", "tracer 'stack' has no option 'live'; it has frames, bytes=N, folded, "
			    "flamegraph and pprof");
	wrong("heap,live,total",
		"-t heap: either live, what is not freed, or total, all that was allocated");
	wrong("heap,bytes=1",
		"-t heap,bytes=1: between 512 and 32768 bytes of each stack can be copied");
	wrong("heap,folded,flamegraph", "-t heap: one of folded, flamegraph and pprof");
	wrong("stack,pprof,folded", "-t stack: one of folded, flamegraph and pprof");
}

static void no_stacks(const char *tracer, const char *how, const char *message)
{
	struct probe_session_options options = {0};
	struct probe_tracer_spec *spec = parse(tracer);
	struct probe_error *error = probe_tracer_take_stacks(spec, how, &options);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	assert_int_equal(options.stack, PROBE_STACK_NONE);
	probe_error_free(error);
	probe_tracer_free(spec);
}

static void stacks_of_hits(void **state)
{
	static const char *const tracers[] = {"print", "json", "ring", "span"};

	(void)state;
	for (size_t i = 0; i < sizeof(tracers) / sizeof(*tracers); i++) {
		struct probe_tracer_spec *spec = parse(tracers[i]);
		struct probe_session_options options = {0};

		assert_null(probe_tracer_configure(spec, 2, &options));
		assert_null(probe_tracer_take_stacks(spec, "", &options));
		assert_int_equal(options.kind, PROBE_SESSION_RECORD);
		assert_int_equal(options.stack, PROBE_STACK_COPY);
		assert_true(options.ring_bytes > 0 && options.may_shrink);
		options = (struct probe_session_options){.ring_bytes = 1 << 20};
		assert_null(probe_tracer_take_stacks(spec, "bytes=32768", &options));
		assert_int_equal(options.stack_bytes, 32768);
		assert_int_equal(options.ring_bytes, 1 << 20);
		options = (struct probe_session_options){0};
		assert_null(probe_tracer_take_stacks(spec, "frames", &options));
		assert_int_equal(options.stack, PROBE_STACK_FRAMES);
		assert_int_equal(options.ring_bytes, 0);
		probe_tracer_free(spec);
	}
	no_stacks(
		"print", "frame", "--stack=frame: use --stack, --stack=frames or --stack=bytes=N");
	no_stacks("print", "frames,bytes=512",
		"--stack=frames,bytes=512: use --stack, --stack=frames or --stack=bytes=N");
	no_stacks("print", "bytes=511",
		"--stack=bytes=511: between 512 and 32768 bytes of each stack can be copied");
	no_stacks("print", "bytes=",
		"--stack=bytes=: between 512 and 32768 bytes of each stack can be copied");
	no_stacks("count", "",
		"--stack: tracer 'count' prints no hits; -t stack counts hits by their stacks");
	no_stacks("latency", "",
		"--stack: tracer 'latency' prints no hits; -t span prints each pair with the stack "
		"of its end");
	no_stacks("pcp,sum,arg0", "",
		"--stack: tracer 'sum' prints no hits; -t stack counts hits by their stacks");
	no_stacks("heap", "", "--stack: tracer 'heap' takes stacks by itself");
	no_stacks("stack", "", "--stack: tracer 'stack' takes stacks by itself");
	no_stacks("./x.so", "",
		"--stack: tracer ./x.so gets no stacks; -t print and -t json show those of hits");
}

/* Self time needs each begin and end. */
static void self_takes_all(void **state)
{
	struct probe_session_options options = {0};
	struct probe_tracer_spec *spec = parse("self");
	struct probe_error *error;

	(void)state;
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_RECORD);
	assert_int_equal(options.gather.pairing, PROBE_PAIRING_NAMES);
	assert_false(options.spans);
	assert_true(options.ring_bytes > 0);
	options = (struct probe_session_options){.filter = "arg0"};
	error = probe_tracer_configure(spec, 1, &options);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	probe_error_free(error);
	probe_tracer_free(spec);
}

static void every_listed_tracer_parses(void **state)
{
	struct probe_tracer_part part;
	struct probe_tracer_info info;
	size_t count = 0;

	(void)state;
	for (; probe_tracer_info(count, &info); count++) {
		char text[64];
		struct probe_tracer_spec *spec;

		/* Without what is optional. */
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(info.usage, "["), info.usage);
		assert_true(strlen(info.help) > 10);
		if (probe_tracer_part(text, 0, &part))
			continue;
		spec = parse(text);
		probe_tracer_free(spec);
	}
	assert_int_equal(count, 22);
}

static void sessions_gather_what_is_shown(void **state)
{
	struct probe_session_options options = {0};
	struct probe_tracer_spec *spec = parse("sum,starts_with(str(arg0), \"a,b\") + arg1");
	struct probe_view view;

	(void)state;
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_GATHER);
	assert_string_equal(options.gather.value, "starts_with(str(arg0), \"a,b\") + arg1");
	assert_true(options.gather.sum && !options.gather.histogram && !options.gather.last);
	probe_tracer_view(spec, &options, &view);
	assert_int_equal(view.columns, PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM);
	assert_int_equal(view.order, PROBE_ORDER_SUM);
	probe_tracer_free(spec);

	/* Counts need no cells, but with keys they do. */
	spec = parse("count");
	options = (struct probe_session_options){0};
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_COUNT);
	options.gather.keys[options.gather.key_count++] = "arg0";
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_GATHER);
	probe_tracer_free(spec);

	spec = parse("ring");
	options = (struct probe_session_options){0};
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_RECORD);
	assert_true(options.overwrite);
	probe_tracer_free(spec);
}

static void does_not_go_together(const char *text, size_t patterns,
	struct probe_session_options options, const char *message)
{
	struct probe_tracer_spec *spec = parse(text);
	struct probe_error *error = probe_tracer_configure(spec, patterns, &options);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
	probe_tracer_free(spec);
}

static void pairs_need_their_operands(void **state)
{
	struct probe_session_options options = {0};
	struct probe_tracer_spec *spec = parse("latency");

	(void)state;
	assert_null(probe_tracer_configure(spec, 4, &options));
	assert_int_equal(options.gather.pairing, PROBE_PAIRING_LISTED);
	options = (struct probe_session_options){.gather = {.pairing = PROBE_PAIRING_NAMES}};
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.gather.pairing, PROBE_PAIRING_NAMES);
	probe_tracer_free(spec);

	spec = parse("transaction");
	options = (struct probe_session_options){0};
	assert_null(probe_tracer_configure(spec, 3, &options));
	assert_int_equal(options.gather.pairing, PROBE_PAIRING_ONE);
	probe_tracer_free(spec);

	spec = parse("span");
	assert_true(probe_tracer_spans(spec) && probe_tracer_pairs(spec));
	options = (struct probe_session_options){.span_min_ns = 5};
	assert_null(probe_tracer_configure(spec, 2, &options));
	assert_true(options.spans && options.kind == PROBE_SESSION_RECORD);
	assert_int_equal(options.gather.pairing, PROBE_PAIRING_LISTED);
	probe_tracer_free(spec);
	does_not_go_together(
		"latency", 2, options, "--min is for tracer span; 'latency' prints no pairs");

	options = (struct probe_session_options){0};
	does_not_go_together("latency", 1, options,
		"tracer 'latency' takes the time from one PROBE to another: name both, the begin "
		"first, or add --pairs auto, which finds pairs by their names (X__start and "
		"X__done)");
	does_not_go_together("latency", 3, options,
		"3 PROBEs are not pairs: a begin and its end, the next begin and its end; --pairs "
		"auto finds them by their names");
	options.gather.pairing = PROBE_PAIRING_NAMES;
	does_not_go_together("sum,arg0", 2, options,
		"--pairs is for the tracers latency, transaction and span, and for your own; 'sum' "
		"looks at each hit by itself");
	options = (struct probe_session_options){.gather = {.match = "arg0"}};
	does_not_go_together("heap", 2, options,
		"--match: tracer 'heap' matches a free with its allocation by the pointer");
	does_not_go_together("count", 2, options,
		"--match says which end belongs to which begin; tracer 'count' has no pairs");
	options = (struct probe_session_options){.filter = "arg1 > 4096"};
	does_not_go_together("heap", 1, options,
		"-f: tracer 'heap' needs each free of what it has seen allocated; a filter would "
		"leave some out");
	options = (struct probe_session_options){.gather = {.keys = {"arg0"}, .key_count = 1}};
	does_not_go_together("print", 1, options,
		"-k makes a row for each key; tracer 'print' has no rows: -c counts by key, "
		"-t latency times pairs by key");
}

static void pmtrace_is_several(void **state)
{
	struct probe_tracer_part part;
	size_t count = 0, probes = 0;

	(void)state;
	for (; probe_tracer_part("pcp,pmtrace", count, &part); count++) {
		struct probe_tracer_spec *spec = parse(part.tracer);

		assert_int_equal(probe_tracer_output(spec), PROBE_TRACER_PCP);
		assert_int_equal(part.match != NULL, probe_tracer_pairs(spec));
		assert_string_equal(part.key, "str(arg0)");
		probes += part.probe_count;
		probe_tracer_free(spec);
	}
	assert_int_equal(count, 4);
	assert_int_equal(probes, 6);
	assert_false(probe_tracer_part("pmtrace,x", 0, &part));
	assert_false(probe_tracer_part("count", 0, &part));
	assert_false(probe_tracer_part("", 0, &part));
	wrong("pmtrace", "tracer 'pmtrace' is a group of tracers; only `probectl trace -t "
			 "pmtrace` runs all of them");
}

static void metrics_are_made_of_another_tracers_rows(void **state)
{
	struct probe_tracer_spec *spec = parse("pcp");
	struct probe_session_options options = {0};
	struct probe_tracer_part part;
	struct probe_view view;

	(void)state;
	assert_int_equal(probe_tracer_output(spec), PROBE_TRACER_PCP);
	assert_string_equal(probe_tracer_name(spec), "count");
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_COUNT);
	probe_tracer_free(spec);

	spec = parse("pcp,observe,min(arg0, arg1)");
	assert_int_equal(probe_tracer_output(spec), PROBE_TRACER_PCP);
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_GATHER);
	probe_tracer_view(spec, &options, &view);
	assert_string_equal(view.tracer, "observe");
	assert_string_equal(view.value, "min(arg0, arg1)");
	probe_tracer_free(spec);

	spec = parse("pcp,latency");
	assert_true(probe_tracer_pairs(spec));
	probe_tracer_free(spec);

	wrong("pcp,latencie", "there is no tracer 'latencie'; the nearest is 'latency'");
	wrong("pcp,sum", "tracer 'sum' needs a value: -t sum,arg0, or any other expression");
	wrong("pcp,print",
		"-t pcp,print: metrics need a tracer that gathers: -t pcp,latency, or any other "
		"tracer that makes tables");
	wrong("metrics,print",
		"-t metrics,print: metrics need a tracer that gathers: -t metrics,latency, or any "
		"other tracer that makes tables");
	spec = parse("metrics,latency");
	assert_int_equal(probe_tracer_output(spec), PROBE_TRACER_METRICS);
	probe_tracer_free(spec);
	assert_true(probe_tracer_part("metrics,pmtrace", 3, &part));
	assert_string_equal(part.tracer, "metrics,counter,arg1");
}

static void a_path_is_a_tracer_of_ones_own(void **state)
{
	struct probe_tracer_spec *spec = parse("./mine.so,a=b,c=d");
	struct probe_session_options options = {.gather = {.pairing = PROBE_PAIRING_NAMES}};

	(void)state;
	assert_string_equal(probe_tracer_name(spec), "./mine.so");
	assert_int_equal(probe_tracer_output(spec), PROBE_TRACER_LOADED);
	assert_null(probe_tracer_configure(spec, 1, &options));
	assert_int_equal(options.kind, PROBE_SESSION_RECORD);
	probe_tracer_free(spec);
	spec = parse("mine.so");
	assert_int_equal(probe_tracer_output(spec), PROBE_TRACER_LOADED);
	probe_tracer_free(spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_name_the_next_step),
		cmocka_unit_test(call_stacks),
		cmocka_unit_test(heaps),
		cmocka_unit_test(stacks_of_hits),
		cmocka_unit_test(self_takes_all),
		cmocka_unit_test(every_listed_tracer_parses),
		cmocka_unit_test(sessions_gather_what_is_shown),
		cmocka_unit_test(pairs_need_their_operands),
		cmocka_unit_test(pmtrace_is_several),
		cmocka_unit_test(metrics_are_made_of_another_tracers_rows),
		cmocka_unit_test(a_path_is_a_tracer_of_ones_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
