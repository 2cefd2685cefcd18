/* SPDX-License-Identifier: MIT */
/* The output of summaries: axes, and escaping. */
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

/* ---- Axes ---- */

static const char *written(void (*write)(struct buffer *out, double value), double value)
{
	static char text[64];
	struct buffer out;

	assert_true(buffer_init(&out));
	write(&out, value);
	snprintf(text, sizeof(text), "%.*s", (int)out.length, out.data);
	buffer_deinit(&out);
	return text;
}

static void test_axes(void **state)
{
	static const struct {
		double value;
		const char *number, *time;
	} ticks[] = {
		{0, "0", "0"},
		{0.004, "0.004", "0.004ns"},
		{1.5, "1.5", "1.5ns"},
		{999, "999", "999ns"},
		{2500, "2.5k", "2.5µs"},
		{1e6, "1M", "1ms"},
		{90e9, "90G", "90s"},
		{120e9, "120G", "2min"},
		{7200e9, "7.2T", "2h"},
		{3 * (1 - 1e-15), "3", "3ns"},
	};
	double latencies[AXIS_TICKS_MAX];
	size_t parts;

	(void)state;
	for (size_t i = 0; i < sizeof(ticks) / sizeof(ticks[0]); i++) {
		assert_string_equal(written(axis_number, ticks[i].value), ticks[i].number);
		assert_string_equal(written(axis_time, ticks[i].value), ticks[i].time);
	}
	assert_string_equal(written(axis_coordinate, -0.26), "-0.3");
	assert_string_equal(written(axis_coordinate, 99.96), "100");
	/* Everything fits, and most of the axis is used. */
	for (double value = 1e-3; value < 1e25; value *= 1.07) {
		double end = axis_end(value, &parts);

		assert_true(end >= value * (1 - 1e-8) && end <= 1.51 * value);
		assert_in_range(parts, 3, 5);
	}
	for (size_t row = 2; row + 1 < SUMMARY_HEAT_ROWS; row++) {
		double at = axis_row(heat_low(row)) - (double)row;

		/* A row begins with a whole number, which is not its exact beginning. */
		assert_true(at > -1e-5 && at < (row < 20 ? 1 : 0.05));
	}
	for (size_t low = 0; low < SUMMARY_HEAT_ROWS; low++) {
		for (size_t high = low + 6; high <= SUMMARY_HEAT_ROWS; high++)
			assert_in_range(axis_latencies(low, high, latencies), 1, AXIS_TICKS_MAX);
	}
	for (double value = 1; value < 1e18; value *= 1.01) {
		double back = 1;

		for (int i = 0; i < (int)logarithm(value); i++)
			back *= 2;
		assert_true(back <= value * (1 + 1e-6) && value < 2 * back * (1 + 1e-6));
	}
}

/* ---- Text from traced programs ---- */

/* Every tag of the page is ours, and every byte is printable UTF-8. */
static void check_page(const char *page)
{
	static const char *const ours[] = {"html", "head", "meta", "title", "style", "body", "a",
		"div", "header", "p", "h1", "h2", "h3", "dl", "dt", "dd", "data", "nav", "ul", "li",
		"main", "section", "article", "figure", "figcaption", "span", "svg", "desc", "line",
		"path", "g", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th",
		"td", "code", "wbr", "footer", "!DOCTYPE"};

	for (const char *at = strchr(page, '<'); at; at = strchr(at + 1, '<')) {
		const char *name = at + 1 + (at[1] == '/');
		size_t length = strcspn(name, " >/");
		bool known = false;

		for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
			known |= strlen(ours[i]) == length && !strncmp(ours[i], name, length);
		if (!known)
			fail_msg("not one of ours: %.40s", at);
	}
	for (const char *at = page; *at; at++)
		assert_true((unsigned char)*at >= ' ' || *at == '\n');
}

static void test_hostile(void **state)
{
	static const char bad[] =
		"</script></style><img src=x onerror=\"alert('1')\"> & \xff\xfe\x01\n"
		"\xe2\x80\xae\xc2\x9b--><!--";
	struct probe_summary *summary = summary_made(NULL);
	struct probe_value value = summary_string(bad);
	const struct probe_summary_view view = {.title = bad, .top = 5};
	size_t length;
	char *text;

	(void)state;
	for (size_t i = 0; i < 10; i++) {
		struct probe_event event = {.provider = bad,
			.name = i % 2 ? "x\"'<__done" : "x\"'<__start",
			.time_ns = 1000 * i,
			.pid = -1,
			.tid = -2,
			.cpu = -1,
			.comm = bad,
			.args = &value,
			.arg_count = 1};

		assert_null(probe_summary_add(summary, &event));
	}
	summary_lose(summary, 11000, UINT64_MAX - 5);
	summary_lose(summary, 11000, UINT64_MAX);
	assert_true(summary->lost > 0 && summary->lost + summary->hits > summary->lost);
	assert_int_equal(summary->pair_count, 1);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_HTML, &view, &text, &length));
	check_page(text);
	assert_non_null(strstr(text, "&lt;/script&gt;&lt;/style&gt;&lt;img src=x onerror=&quot;"
				     "alert(&#39;1&#39;)&quot;&gt; &amp; \\377\\376\\001\\n"));
	free(text);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_TEXT, &view, &text, &length));
	for (size_t i = 0; i < length; i++)
		assert_true((unsigned char)text[i] >= ' ' || text[i] == '\n');
	free(text);
	probe_summary_free(summary);
}

static void test_empty(void **state)
{
	const struct probe_summary_view view = {.title = "nothing"};
	struct probe_summary *summary = summary_made(NULL);
	size_t length;
	char *text;

	(void)state;
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_TEXT, &view, &text, &length));
	assert_string_equal(text, "nothing: no hits\n");
	free(text);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_HTML, &view, &text, &length));
	check_page(text);
	free(text);
	/* Only losses: first at unknown times, then at a known one. */
	summary_lose(summary, 0, 4);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_TEXT, &view, &text, &length));
	assert_string_equal(text, "nothing: no hits, 4 lost\n");
	free(text);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_HTML, &view, &text, &length));
	assert_non_null(strstr(text, " lost</span>"));
	check_page(text);
	free(text);
	summary_lose(summary, 5, 5);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_TEXT, &view, &text, &length));
	assert_non_null(strstr(text, "0 hits, 9 lost (100.0%)"));
	free(text);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_JSON, &view, &text, &length));
	assert_non_null(strstr(
		text, "\"hits\":0,\"lost\":9,\"overrun\":false,\"full\":false,\"rate\":null"));
	free(text);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_HTML, &view, &text, &length));
	check_page(text);
	free(text);
	probe_summary_free(summary);
}

/* What the tables lack is reported. */
static void test_missing(void **state)
{
	static const char *const keys[] = {"arg0", "arg7", "str(arg0)"};
	const struct probe_summary_options options = {.keys = keys, .key_count = 3};
	struct probe_event stop = {.provider = "posix_trace", .name = "overflow"};
	const struct probe_summary_view view = {.title = "missing"};
	const struct probe_value number = summary_number(5);
	struct probe_summary *summary = summary_made(&options);
	struct probe_error *error;
	size_t length;
	char *text;

	(void)state;
	assert_null(probe_summary_check_keys(summary, NULL)); /* nothing was hit */
	summary_hit(summary, 1, 1, "x", &number);
	summary_hit(summary, 1, 1, "x", NULL);
	summary_hit(summary, 1, 1, "x", NULL);
	assert_null(probe_summary_add(summary, &stop));
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_TEXT, &view, &text, &length));
	assert_non_null(strstr(text, "\n3 hits, 0 lost; 1 probe, "));
	assert_non_null(strstr(text, "\nolder hits were overwritten"));
	assert_non_null(strstr(text, "  OVER TIME\n"));
	assert_non_null(strstr(text, "100.0%  5\n2 hits have no such value\n"));
	assert_non_null(strstr(text, "\nno hit has arg7\n\nno hit has str(arg0)\n"));
	assert_null(strstr(text, "no hit has arg0"));
	free(text);
	error = probe_summary_check_keys(summary, NULL);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	assert_string_equal(error->message, "no hit has a value for the key 'arg7'");
	probe_error_free(error);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_HTML, &view, &text, &length));
	check_page(text);
	assert_non_null(strstr(text, "2</data> hits have no such value."));
	assert_non_null(strstr(text, "No hit has <code>arg7</code>."));
	assert_non_null(strstr(text, "but older hits were overwritten"));
	assert_null(strstr(text, "every hit is here"));
	assert_null(strstr(text, "No hit was lost"));
	assert_non_null(strstr(text, "<dd>all hits are of one instant</dd>"));
	assert_null(strstr(text, "at most 0/s"));
	free(text);
	probe_summary_free(summary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_axes),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
