/* SPDX-License-Identifier: MIT */
/* Metrics as text: families, labels, histograms, limits; and what a client asks for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/output/output.h"
#include "libprobe/session/session.h"

/* ---- Tables -------------------------------------------------------------------- */

static const struct probe_session_probe probes[] = {
	{.provider = "db", .name = "query__start"},
	{.provider = "db", .name = "query__done", .unmatched = 3, .lost = 2},
};

static struct probe_value text(const char *bytes)
{
	return (struct probe_value){
		.kind = PROBE_VALUE_STRING, .bytes = bytes, .length = strlen(bytes)};
}

static struct probe_table *table_of(const struct probe_row *rows, size_t count, size_t key_count)
{
	struct probe_table *table;

	assert_null(probe_table_create(key_count, &table));
	assert_null(table_add_rows(table, rows, count, probes, 2));
	return table;
}

static struct probe_view view_of(const char *tracer, const char *value)
{
	const struct probe_session_options options = {0};
	struct probe_tracer_spec spec = {.kind = tracer_find(tracer)};
	struct probe_view view;

	assert_non_null(spec.kind);
	probe_tracer_view(&spec, &options, &view);
	view.tracer = spec.kind->name;
	view.value = value;
	return view;
}

static struct probe_metrics *metrics_of(const struct probe_view *view, size_t key_count)
{
	struct probe_metrics *metrics;
	size_t index = 1;

	assert_null(probe_metrics_create(100, &metrics));
	assert_null(probe_metrics_view(metrics, view, key_count, &index));
	assert_int_equal(index, 0);
	return metrics;
}

static void add(struct probe_metrics *metrics, size_t view, pid_t pid, struct probe_table *table)
{
	assert_null(probe_metrics_add(metrics, view, pid, "shop", table));
}

static char *text_of(const struct probe_metrics *metrics, enum probe_metrics_format format)
{
	size_t length = 0;
	char *all = NULL;

	assert_null(probe_metrics_text(metrics, format, &all, &length));
	assert_int_equal(strlen(all), length);
	return all;
}

static void has(const struct probe_metrics *metrics, const char *line)
{
	char *all = text_of(metrics, PROBE_METRICS_OPENMETRICS);

	if (!strstr(all, line))
		fail_msg("no '%s' in:\n%s", line, all);
	free(all);
}

static void has_not(const struct probe_metrics *metrics, const char *line)
{
	char *all = text_of(metrics, PROBE_METRICS_OPENMETRICS);

	if (strstr(all, line))
		fail_msg("'%s' in:\n%s", line, all);
	free(all);
}

/* ---- The formats ---------------------------------------------------------------- */

#define COUNT(total)                                                                               \
	"# TYPE probectl_count_hits" total " counter\n"                                            \
	"# HELP probectl_count_hits" total " Hits; of pairs, those that have ended\n"              \
	"probectl_count_hits_total{pid=\"7\",program=\"shop\",provider=\"db\","                    \
	"probe=\"query__done\"} 18446744073709551615\n"                                            \
	"# TYPE probectl_count_lost" total " counter\n"                                            \
	"# HELP probectl_count_lost" total " Hits without room for them\n"                         \
	"probectl_count_lost_total{pid=\"7\",program=\"shop\"} 2\n"                                \
	"# TYPE probectl_rows_left_out gauge\n"                                                    \
	"# HELP probectl_rows_left_out Rows without room, which are in no metric\n"                \
	"probectl_rows_left_out 0\n"

static void two_formats_have_one_content(void **state)
{
	const struct probe_row row = {.probe = 1, .begin = SIZE_MAX, .count = UINT64_MAX};
	const struct probe_view view = view_of("count", NULL);
	struct probe_metrics *metrics = metrics_of(&view, 0);
	char *all;

	(void)state;
	add(metrics, 0, 7, table_of(&row, 1, 0));
	all = text_of(metrics, PROBE_METRICS_TEXT);
	assert_string_equal(all, COUNT("_total"));
	free(all);
	all = text_of(metrics, PROBE_METRICS_OPENMETRICS);
	assert_string_equal(all, COUNT("") "# EOF\n");
	free(all);
	probe_metrics_free(metrics);
}

static void labels_are_escaped(void **state)
{
	struct probe_value keys[] = {
		text("a\"b\\c"), text("line\nbreak"), text("\xff\x01"), text("\u00e4")};
	const char *const labels[] = {"key=\"a\\\"b\\\\\\\\c\"", "key=\"line\\\\nbreak\"",
		"key=\"\\\\377\\\\001\"", "key=\"\u00e4\""};
	struct probe_row rows[4];
	const struct probe_view view = view_of("count", NULL);
	struct probe_metrics *metrics = metrics_of(&view, 1);

	(void)state;
	for (size_t i = 0; i < 4; i++)
		rows[i] = (struct probe_row){
			.probe = 1, .begin = SIZE_MAX, .count = i + 1, .keys = &keys[i]};
	add(metrics, 0, 7, table_of(rows, 4, 1));
	for (size_t i = 0; i < 4; i++)
		has(metrics, labels[i]);
	probe_metrics_free(metrics);
}

/* A program may call itself anything, and change that. */
static void programs_are_renamed(void **state)
{
	const struct probe_row row = {.probe = 1, .begin = SIZE_MAX, .count = 1};
	const struct probe_view view = view_of("count", NULL);
	struct probe_metrics *metrics = metrics_of(&view, 0);

	(void)state;
	assert_null(probe_metrics_add(metrics, 0, 7, "a\"b", table_of(&row, 1, 0)));
	has(metrics, "{pid=\"7\",program=\"a\\\"b\",provider");
	assert_null(probe_metrics_add(metrics, 0, 7, NULL, table_of(&row, 1, 0)));
	has(metrics, "{pid=\"7\",program=\"a\\\"b\",provider");
	assert_null(probe_metrics_add(metrics, 0, 7, "shop", table_of(&row, 1, 0)));
	has(metrics, "{pid=\"7\",program=\"shop\",provider");
	has_not(metrics, "a\\\"b");
	/* It is the same row. */
	assert_int_equal(metrics->row_count, 2);
	probe_metrics_free(metrics);
}

/* ---- Histograms ------------------------------------------------------------------ */

static size_t bucket_of(uint64_t value)
{
	uint64_t high = 0;
	int64_t low;
	size_t index = 0;

	for (; index < PROBE_BUCKETS; index++) {
		probe_bucket_range(index, &low, &high);
		if (value <= high)
			break;
	}
	return index;
}

static void whole_numbers_have_exact_buckets(void **state)
{
	static const uint64_t values[] = {0, 1, 2, 3, 4, 4095, 4096, 4097, UINT64_MAX};
	static const char *const lines[] = {"le=\"0.0\"} 2\n", "le=\"1.0\"} 3\n", "le=\"3.0\"} 5\n",
		"le=\"7.0\"} 6\n", "le=\"2047.0\"} 6\n", "le=\"4095.0\"} 7\n", "le=\"8191.0\"} 9\n",
		"le=\"1099511627775.0\"} 9\n", "le=\"+Inf\"} 10\n", "value=\"arg0\"} 4711\n",
		"\"query__done\",value=\"arg0\"} 10\n"};
	uint64_t buckets[PROBE_BUCKETS] = {0};
	const struct probe_row row = {.probe = 1,
		.begin = SIZE_MAX,
		.count = 10,
		.has_value = true,
		.sum = 4711,
		.unit = 1,
		.buckets = buckets};
	const struct probe_view view = view_of("hist", "arg0");
	struct probe_metrics *metrics = metrics_of(&view, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		buckets[bucket_of(values[i])]++;
	buckets[PROBE_BUCKETS - 1] = 1; /* a negative one */
	add(metrics, 0, 7, table_of(&row, 1, 0));
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		has(metrics, lines[i]);
	probe_metrics_free(metrics);
}

static struct probe_row pair_of(const uint64_t *buckets, uint64_t count, double unit)
{
	return (struct probe_row){.probe = 1,
		.begin = 0,
		.count = count,
		.has_value = true,
		.sum = 1000.0L * (long double)count * (long double)unit,
		.unit = unit,
		.min = {.kind = PROBE_VALUE_UNSIGNED, .u = 900},
		.max = {.kind = PROBE_VALUE_UNSIGNED, .u = 1100},
		.in_flight = 5,
		.buckets = buckets};
}

/* A tick of the clock gets shorter as it is measured: nothing that was counted may go. */
static void times_never_shrink(void **state)
{
	uint64_t buckets[PROBE_BUCKETS] = {0};
	const struct probe_view view = view_of("latency", NULL);
	struct probe_metrics *metrics = metrics_of(&view, 0);
	struct probe_row row;

	(void)state;
	buckets[bucket_of(1000)] = 4;
	row = pair_of(buckets, 4, 1.5);
	add(metrics, 0, 7, table_of(&row, 1, 0));
	has(metrics, "# TYPE probectl_latency_seconds histogram\n"
		     "# UNIT probectl_latency_seconds seconds\n");
	has(metrics, "begin=\"query__start\",le=\"1e-06\"} 0\n");
	has(metrics, "begin=\"query__start\",le=\"2e-06\"} 4\n");
	has(metrics, "begin=\"query__start\"} 6e-06\n");
	has(metrics, "probectl_latency_in_flight{pid=\"7\",program=\"shop\",provider=\"db\","
		     "probe=\"query__done\",begin=\"query__start\"} 5\n");
	has(metrics, "probectl_latency_min_seconds{");
	row = pair_of(buckets, 4, 0.5);
	add(metrics, 0, 7, table_of(&row, 1, 0));
	has(metrics, "le=\"1e-06\"} 0\n");
	has(metrics, "begin=\"query__start\"} 6e-06\n");
	/* Extremes are those of the last interval, which had nothing. */
	has_not(metrics, "probectl_latency_min_seconds{");
	/* Fewer hits: it began again. */
	buckets[bucket_of(1000)] = 1;
	row = pair_of(buckets, 1, 1.5);
	add(metrics, 0, 7, table_of(&row, 1, 0));
	has(metrics, "begin=\"query__start\"} 1.5e-06\n");
	probe_metrics_free(metrics);
}

/* ---- Several tracers, and limits ------------------------------------------------- */

static size_t count_of(const char *all, const char *wanted)
{
	size_t count = 0;

	for (all = strstr(all, wanted); all; all = strstr(all + 1, wanted))
		count++;
	return count;
}

static void tracers_of_one_name_share_families(void **state)
{
	const struct probe_row row = {.probe = 1,
		.begin = SIZE_MAX,
		.count = 1,
		.has_value = true,
		.last = {.kind = PROBE_VALUE_SIGNED, .i = -5}};
	const struct probe_view views[] = {
		view_of("observe", "arg0"), view_of("observe", "arg1 \"x\"")};
	struct probe_metrics *metrics = metrics_of(&views[0], 0);
	struct probe_error *error;
	size_t index;
	char *all;

	(void)state;
	error = probe_metrics_view(metrics, &views[0], 0, &index);
	assert_non_null(error);
	assert_string_equal(error->message, "the metrics of tracer 'observe' are asked for twice");
	probe_error_free(error);
	assert_null(probe_metrics_view(metrics, &views[1], 0, &index));
	assert_int_equal(index, 1);
	add(metrics, 0, 7, table_of(&row, 1, 0));
	add(metrics, 1, 7, table_of(&row, 1, 0));
	all = text_of(metrics, PROBE_METRICS_OPENMETRICS);
	assert_int_equal(count_of(all, "# TYPE probectl_observe_value gauge\n"), 1);
	assert_int_equal(count_of(all, "\nprobectl_observe_value{"), 2);
	assert_int_equal(count_of(all, ",value=\"arg1 \\\"x\\\"\"} -5\n"), 1);
	assert_int_equal(count_of(all, "\nprobectl_observe_lost_total{"), 2);
	assert_int_equal(count_of(all, "program=\"shop\",value=\"arg0\"} 2\n"), 1);
	free(all);
	probe_metrics_free(metrics);
}

static void rows_that_were_shown_stay(void **state)
{
	struct probe_value keys[] = {text("a"), text("b"), text("c")};
	struct probe_row rows[3];
	const struct probe_view view = view_of("count", NULL);
	struct probe_metrics *metrics;
	size_t index;

	(void)state;
	/* A process, and two rows. */
	assert_null(probe_metrics_create(3, &metrics));
	assert_null(probe_metrics_view(metrics, &view, 1, &index));
	for (size_t i = 0; i < 3; i++)
		rows[i] = (struct probe_row){
			.probe = 1, .begin = SIZE_MAX, .count = i + 1, .keys = &keys[i]};
	add(metrics, 0, 7, table_of(&rows[1], 2, 1));
	assert_int_equal(probe_metrics_left_out(metrics), 0);
	add(metrics, 0, 7, table_of(rows, 3, 1));
	assert_int_equal(probe_metrics_left_out(metrics), 1);
	has(metrics, "key=\"b\"} 2\n");
	has(metrics, "key=\"c\"} 3\n");
	has(metrics, "probectl_rows_left_out 1\n");
	has_not(metrics, "key=\"a\"");
	/* Nor is there room for other processes. */
	for (int i = 0; i < 2; i++) {
		add(metrics, 0, 8, table_of(rows, 3, 1));
		add(metrics, 0, 9, table_of(rows, 2, 1));
		assert_int_equal(probe_metrics_left_out(metrics), 6);
	}
	has_not(metrics, "pid=\"8\"");
	probe_metrics_free(metrics);
}

/* Prometheus refuses two samples of one name: the second is counted as left out. */
static void names_are_used_once(void **state)
{
	struct probe_value keys[] = {text("sel"), text("sel")};
	struct probe_row rows[2];
	const struct probe_view view = view_of("count", NULL);
	struct probe_metrics *metrics = metrics_of(&view, 1);

	(void)state;
	keys[1].truncated = true;
	for (size_t i = 0; i < 2; i++)
		rows[i] = (struct probe_row){
			.probe = 1, .begin = SIZE_MAX, .count = i + 1, .keys = &keys[i]};
	for (int i = 0; i < 2; i++)
		add(metrics, 0, 7, table_of(rows, 2, 1));
	assert_int_equal(probe_metrics_left_out(metrics), 1);
	has(metrics, "key=\"sel\"} 1\n");
	has_not(metrics, "key=\"sel\"} 2\n");
	probe_metrics_free(metrics);
}

/* ---- What is asked for ----------------------------------------------------------- */

static void clients_get_what_they_accept(void **state)
{
	static const struct {
		const char *path, *accept;
		int page;
	} asked[] = {
		{"/", NULL, -1},
		{"/metrics/", NULL, -1},
		{"/metrics", NULL, PROBE_METRICS_TEXT},
		{"/metrics", "*/*", PROBE_METRICS_TEXT},
		{"/metrics", "application/openmetrics-text", PROBE_METRICS_OPENMETRICS},
		{"/metrics", "Application/OpenMetrics-Text;version=1.0.0,text/plain;q=0.5",
			PROBE_METRICS_OPENMETRICS},
		{"/metrics", "text/plain, application/openmetrics-text; q=0.75",
			PROBE_METRICS_TEXT},
		{"/metrics", "text/plain;q=0.3,application/openmetrics-text; q=0.305",
			PROBE_METRICS_OPENMETRICS},
		{"/metrics", "application/openmetrics-text;q=0", PROBE_METRICS_TEXT},
		{"/metrics", "application/openmetrics-textual", PROBE_METRICS_TEXT},
		{"/metrics", ",;,q=,application/openmetrics-text;q=x", PROBE_METRICS_TEXT},
		/* Prometheus 2.42. */
		{"/metrics",
			"application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
			"version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			PROBE_METRICS_OPENMETRICS},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		assert_int_equal(metrics_find_page(asked[i].path, asked[i].accept), asked[i].page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_formats_have_one_content),
		cmocka_unit_test(labels_are_escaped),
		cmocka_unit_test(programs_are_renamed),
		cmocka_unit_test(whole_numbers_have_exact_buckets),
		cmocka_unit_test(times_never_shrink),
		cmocka_unit_test(tracers_of_one_name_share_families),
		cmocka_unit_test(rows_that_were_shown_stay),
		cmocka_unit_test(names_are_used_once),
		cmocka_unit_test(clients_get_what_they_accept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
