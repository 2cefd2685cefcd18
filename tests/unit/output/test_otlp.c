/* SPDX-License-Identifier: MIT */
/* Messages of OTLP: spans, points, and which trace a span belongs to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

#define TRACE "0af7651916cd43dd8448eb211c80319c"
#define PARENT "b7ad6b7169203331"

static struct probe_value text(const char *bytes)
{
	return (struct probe_value){
		.kind = PROBE_VALUE_STRING, .bytes = bytes, .length = strlen(bytes)};
}

/* ---- Traces ---------------------------------------------------------------------- */

static struct otlp_ids ids_of(
	int trace_arg, pid_t pid, const struct probe_value *args, size_t count)
{
	struct probe_otlp otlp = {.trace_arg = trace_arg, .random = 42};
	const struct probe_hit begin = {.pid = pid, .args = args, .arg_count = count};
	const struct probe_hit end = {.pid = pid, .begin = &begin};
	struct otlp_ids ids;

	otlp_ids_of(&otlp, &end, &ids);
	assert_int_equal(strlen(ids.span), SPAN_ID_DIGITS);
	assert_int_equal(strspn(ids.trace, "0123456789abcdef"), TRACE_ID_DIGITS);
	assert_int_equal(strlen(ids.trace), TRACE_ID_DIGITS);
	return ids;
}

static void arguments_name_traces(void **state)
{
	static const struct {
		const char *argument;
		bool trace, parent;
	} cases[] = {
		{"00-" TRACE "-" PARENT "-01", true, true},
		{"00-0AF7651916CD43DD8448EB211C80319C-B7AD6B7169203331-00", true, true},
		/* Later versions may have more. */
		{"01-" TRACE "-" PARENT "-01-more", true, true},
		{"ff-" TRACE "-" PARENT "-01", false, false},
		{"00-" TRACE "-" PARENT "-01x", false, false},
		{"00-" TRACE "-" PARENT "-01-more", false, false},
		{"00-" TRACE "-" PARENT "-0", false, false},
		{"00-" TRACE "-" PARENT, false, false},
		{"00-" TRACE "-0000000000000000-01", false, false},
		{"00-00000000000000000000000000000000-" PARENT "-01", false, false},
		{"00_" TRACE "-" PARENT "-01", false, false},
		{TRACE, true, false},
		{"0AF76519-16cd-43dd-8448-eb211c80319c", true, false},
		{"0af7651-916cd-43dd-8448-eb211c80319c", false, false},
		{"0af7651916cd43dd8448eb211c80319", false, false},
		{"0af7651916cd43dd8448eb211c80319cc", false, false},
		{"0af7651916cd43dd8448eb211c80319g", false, false},
		{"00000000000000000000000000000000", false, false},
		{"", false, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct probe_value args[] = {{.kind = PROBE_VALUE_UNSIGNED, .u = 7},
			text("select 1"), text(cases[i].argument)};
		const struct otlp_ids ids = ids_of(-1, 7, args, 3);

		if ((strcmp(ids.trace, TRACE) == 0) != cases[i].trace ||
			(strcmp(ids.parent, PARENT) == 0) != cases[i].parent)
			fail_msg("'%s' is %s, %s", cases[i].argument, ids.trace, ids.parent);
	}
}

static void cut_off_texts_name_none(void **state)
{
	struct probe_value argument = text(TRACE);

	(void)state;
	argument.truncated = true;
	assert_string_not_equal(ids_of(-1, 7, &argument, 1).trace, TRACE);
}

static bool is_one_trace(
	int trace_arg, struct probe_value a, pid_t a_pid, struct probe_value b, pid_t b_pid)
{
	return strcmp(ids_of(trace_arg, a_pid, &a, 1).trace,
		       ids_of(trace_arg, b_pid, &b, 1).trace) == 0;
}

static void values_name_traces(void **state)
{
	const struct probe_value one = {.kind = PROBE_VALUE_UNSIGNED, .u = 1},
				 two = {.kind = PROBE_VALUE_UNSIGNED, .u = 2},
				 second = {.kind = PROBE_VALUE_UNSIGNED, .u = 1, .number = 2};

	(void)state;
	assert_true(is_one_trace(0, one, 7, one, 7));
	assert_false(is_one_trace(0, one, 7, two, 7));
	/* Numbers mean nothing elsewhere; texts do. */
	assert_false(is_one_trace(0, one, 7, one, 8));
	assert_true(is_one_trace(0, text("order-17"), 7, text("order-17"), 8));
	/* The argument has the number that the probe gives it. */
	assert_true(is_one_trace(1, second, 7, second, 7));
	assert_false(is_one_trace(0, one, 7, second, 7));
}

static void spans_have_ids_of_their_own(void **state)
{
	struct probe_otlp otlp = {.trace_arg = -1};
	const struct probe_hit begin = {0}, end = {.begin = &begin};
	struct otlp_ids a, b;

	(void)state;
	otlp_ids_of(&otlp, &end, &a);
	otlp_ids_of(&otlp, &end, &b);
	assert_string_not_equal(a.trace, b.trace);
	assert_string_not_equal(a.span, b.span);
}

/* ---- Messages --------------------------------------------------------------------- */

static void has(const struct buffer *out, const char *wanted)
{
	char *all = strndup(out->data, out->length);

	if (!strstr(all, wanted))
		fail_msg("no %s in %s", wanted, all);
	free(all);
}

static void spans_of_processes_are_blocks(void **state)
{
	const struct probe_session_probe begin = {.provider = "db", .name = "query__start"},
					 end = {.provider = "db", .name = "query__abort"};
	struct probe_value args[] = {text("a\"\xff\n"), {.kind = PROBE_VALUE_NULL},
		{.kind = PROBE_VALUE_SIGNED, .i = -1},
		{.kind = PROBE_VALUE_UNSIGNED, .u = UINT64_MAX},
		{.kind = PROBE_VALUE_FLOAT, .f = 0.5}, {.kind = PROBE_VALUE_FLOAT, .f = -1.0 / 0.0},
		{.kind = PROBE_VALUE_BYTES, .bytes = "\x01\xfe", .length = 2}};
	const struct probe_hit hits[] = {
		{.time_ns = 1000, .pid = 7, .tid = 8, .args = args, .arg_count = 7},
		{.time_ns = 1500, .pid = 7, .tid = 8, .begin = &hits[0], .duration_ns = 501},
		{.time_ns = 1500, .pid = 9, .tid = 9, .begin = &hits[0], .duration_ns = 0}};
	const struct otlp_ids ids = {TRACE, PARENT, ""},
			      child = {TRACE, "0000000000000001", PARENT};
	struct otlp_batch batch = {0};

	(void)state;
	otlp_write_span(&batch, &hits[1], &begin, &end, "shop", &ids);
	otlp_write_span(&batch, &hits[1], &begin, &end, "shop", &child);
	otlp_write_span(&batch, &hits[2], &begin, &end, "bank", &ids);
	otlp_end_spans(&batch);
	assert_int_equal(batch.count, 3);
	assert_false(batch.out.no_memory);
	has(&batch.out,
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		"\"value\":{\"stringValue\":\"shop\"}},{\"key\":\"host.name\"");
	has(&batch.out,
		"\"scopeSpans\":[{\"scope\":{\"name\":\"probectl\",\"version\":\"" PROBE_VERSION
		"\"},\"spans\":[{\"traceId\":\"" TRACE "\",\"spanId\":\"" PARENT
		"\",\"name\":\"db:query__start..query__abort\",\"kind\":1,\"startTimeUnixNano\":"
		"\"1000\",\"endTimeUnixNano\":\"1501\",\"attributes\":[");
	has(&batch.out, "\"status\":{\"code\":2}},{\"traceId\":\"" TRACE
			"\",\"spanId\":\"0000000000000001\",\"parentSpanId\":\"" PARENT "\"");
	has(&batch.out, "}]}]},{\"resource\":{\"attributes\":[{\"key\":\"service.name\",\"value\":{"
			"\"stringValue\":\"bank\"");
	has(&batch.out,
		"{\"key\":\"begin.arg0\",\"value\":{\"stringValue\":\"a\\\"\\\\377\\\\n\"}},"
		"{\"key\":\"begin.arg1\",\"value\":{}},"
		"{\"key\":\"begin.arg2\",\"value\":{\"intValue\":\"-1\"}},"
		"{\"key\":\"begin.arg3\",\"value\":{\"stringValue\":\"18446744073709551615\"}},"
		"{\"key\":\"begin.arg4\",\"value\":{\"doubleValue\":0.5}},"
		"{\"key\":\"begin.arg5\",\"value\":{\"doubleValue\":\"-Infinity\"}},"
		"{\"key\":\"begin.arg6\",\"value\":{\"stringValue\":\"01fe\"}}]");
	buffer_deinit(&batch.out);
}

static void points_have_names_units_and_types(void **state)
{
	const struct probe_session_probe probes[] = {
		{.provider = "db", .name = "start"}, {.provider = "db", .name = "done"}};
	uint64_t buckets[PROBE_BUCKETS] = {[20] = 4};
	const struct probe_row row = {.probe = 1,
		.begin = 0,
		.count = 4,
		.has_value = true,
		.sum = 2000,
		.unit = 25,
		.buckets = buckets,
		.in_flight = 1};
	const struct probe_view view = {.tracer = "latency",
		.times = true,
		.columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_SUM | PROBE_COLUMN_BUCKETS |
			   PROBE_COLUMN_PERCENTILES | PROBE_COLUMN_PAIRS};
	struct probe_metrics *metrics;
	struct probe_table *table;
	struct buffer out = {0};
	size_t index;

	(void)state;
	assert_null(probe_metrics_create(10, &metrics));
	assert_null(probe_metrics_view(metrics, &view, 0, &index));
	assert_null(probe_table_create(0, &table));
	assert_null(table_add_rows(table, &row, 1, probes, 2));
	assert_null(probe_metrics_add(metrics, index, 7, "shop", table));
	/* The histogram, in flight, unmatched, lost; rows left out. */
	assert_int_equal(otlp_write_points(&out, metrics, 5000), 5);
	assert_false(out.no_memory);
	has(&out, "\"metrics\":[{\"name\":\"probectl.latency\",\"description\":\"Times from begins "
		  "to "
		  "ends\",\"unit\":\"s\",\"histogram\":{\"aggregationTemporality\":2,"
		  "\"dataPoints\":[{"
		  "\"startTimeUnixNano\":\"");
	has(&out, "\"timeUnixNano\":\"5000\",\"count\":\"4\",\"sum\":2e-06,\"bucketCounts\":[\"0\","
		  "\"0\",\"4\",\"0\",");
	has(&out, ",\"explicitBounds\":[1e-07,2e-07,5e-07,1e-06,");
	has(&out, ",\"attributes\":[{\"key\":\"provider\",\"value\":{\"stringValue\":\"db\"}},{"
		  "\"key\":"
		  "\"probe\",\"value\":{\"stringValue\":\"done\"}},{\"key\":\"begin\",\"value\":{"
		  "\"stringValue\":\"start\"}}]}]}},{\"name\":\"probectl.latency.in_flight\"");
	has(&out, "\"unit\":\"1\",\"gauge\":{\"dataPoints\":[{");
	has(&out,
		"\"name\":\"probectl.latency.lost\",\"description\":\"Hits without room for them\","
		"\"unit\":\"1\",\"sum\":{\"aggregationTemporality\":2,\"isMonotonic\":true,");
	has(&out, "\"name\":\"probectl.rows.left_out\"");
	buffer_deinit(&out);
	probe_metrics_free(metrics);
}

/* A collector rejects a whole message for one number that is none in JSON. */
static void values_that_are_not_finite_are_strings(void **state)
{
	static const double values[] = {1.0 / 0.0, -1.0 / 0.0, 0.5};
	static const char *const texts[] = {
		"\"asDouble\":\"Infinity\",", "\"asDouble\":\"-Infinity\",", "\"asDouble\":0.5,"};
	const struct probe_session_probe probe = {.provider = "db", .name = "load"};
	const struct probe_view view = {
		.tracer = "observe", .columns = PROBE_COLUMN_COUNT | PROBE_COLUMN_LAST};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		const struct probe_row row = {.begin = SIZE_MAX,
			.count = 1,
			.has_value = true,
			.is_float = true,
			.last = {.kind = PROBE_VALUE_FLOAT, .f = values[i]}};
		struct probe_metrics *metrics;
		struct probe_table *table;
		struct buffer out = {0};
		size_t index;

		assert_null(probe_metrics_create(10, &metrics));
		assert_null(probe_metrics_view(metrics, &view, 0, &index));
		assert_null(probe_table_create(0, &table));
		assert_null(table_add_rows(table, &row, 1, &probe, 1));
		assert_null(probe_metrics_add(metrics, index, 7, "shop", table));
		otlp_write_points(&out, metrics, 5000);
		has(&out, texts[i]);
		buffer_deinit(&out);
		probe_metrics_free(metrics);
	}
}

/* ---- Places ------------------------------------------------------------------------ */

static void only_urls_are_places(void **state)
{
	static const char *const bad[] = {"", "localhost:4318", "ftp://a", "http://", "http:///x",
		"https://a?b", "http://a b", "http//a", "file:///etc/passwd", "httpx://a"};
	struct probe_otlp *otlp;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct probe_error *error = probe_otlp_open(bad[i], NULL, -1, &otlp);

		assert_non_null(error);
		/* Without libcurl, none is. */
		if (error->code != PROBE_ERROR_UNSUPPORTED)
			assert_non_null(strstr(error->message, "' is no place for OTLP: "));
		probe_error_free(error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_name_traces),
		cmocka_unit_test(cut_off_texts_name_none),
		cmocka_unit_test(values_name_traces),
		cmocka_unit_test(spans_have_ids_of_their_own),
		cmocka_unit_test(spans_of_processes_are_blocks),
		cmocka_unit_test(points_have_names_units_and_types),
		cmocka_unit_test(values_that_are_not_finite_are_strings),
		cmocka_unit_test(only_urls_are_places),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
