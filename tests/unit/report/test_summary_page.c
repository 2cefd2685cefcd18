/* SPDX-License-Identifier: MIT */
/* Summaries of hostile, empty and incomplete records, as text and as a page. */
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

/*
 * The page is the template with JSON in it: nothing of the JSON begins a tag, and each line of it
 * is an object. Returns the JSON.
 */
static const char *checked(const char *page)
{
	const char *place = strstr(page_template, "\nRECORD\n") + 1;
	size_t before = (size_t)(place - page_template);
	const char *json = page + before, *after = strchr(json, '<');

	assert_memory_equal(page, page_template, before);
	assert_non_null(after);
	assert_string_equal(after, place + strlen("RECORD\n"));
	assert_memory_equal(json, "{\"type\":\"page\",", 15);
	for (const char *at = json; at < after; at++) {
		assert_true((unsigned char)*at >= ' ' || *at == '\n');
		if (*at == '\n')
			assert_true(at[-1] == '}' && (at[1] == '{' || at[1] == '<'));
	}
	return json;
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
	assert_non_null(strstr(checked(text),
		"\"\\u003c/script>\\u003c/style>\\u003cimg src=x onerror=\\\"alert('1')\\\"> & "
		"\xef\xbf\xbd\xef\xbf\xbd\\u0001\\n\\u202e\\u009b-->\\u003c!--\""));
	assert_non_null(strstr(text, "\"text\":\"\\\"\\u003c/script>\\u003c/style>\\u003cimg src=x "
				     "onerror=\\\\\\\"alert('1')\\\\\\\"> & \\\\377\\\\376"));
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
	checked(text);
	free(text);
	/* Only losses: first at unknown times, then at a known one. */
	summary_lose(summary, 0, 4);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_TEXT, &view, &text, &length));
	assert_string_equal(text, "nothing: no hits, 4 lost\n");
	free(text);
	assert_null(probe_summary_render(summary, PROBE_SUMMARY_HTML, &view, &text, &length));
	assert_non_null(strstr(checked(text), "\"lost\":4,"));
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
	checked(text);
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
	assert_non_null(
		strstr(checked(text), ",\"guessed\":false,\"missing\":[\"arg7\",\"str(arg0)\"],"
				      "\"length\":0,\"first_bin\":0,"));
	assert_non_null(strstr(text, "\"overrun\":true,"));
	free(text);
	probe_summary_free(summary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
