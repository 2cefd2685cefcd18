/* SPDX-License-Identifier: MIT */
/* Arguments of the public API that are invalid, or left out: an error, or the default. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/export.h"
#include "probe/sink.h"
#include "probe/spans.h"
#include "probe/summary.h"
#include "probe/tracer.h"
#include "tests/unit/live.h"

enum { NO_SUCH = 99 };

static void fails(struct probe_error *error, const char *text)
{
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	if (!strstr(error->message, text))
		fail_msg("%s", error->message);
	probe_error_free(error);
}

static void test_formats(void **state)
{
	const struct probe_summary_view view = {.title = "nothing"};
	struct probe_summary *summary;
	struct probe_export *exporter;
	struct probe_sink *sink;
	size_t length;
	char *text;

	(void)state;
	for (int format = -1; format <= NO_SUCH; format += NO_SUCH + 1) {
		fails(probe_export_create((enum probe_export_format)format, NULL, STDOUT_FILENO,
			      "x", &exporter),
			"there is no export format");
		fails(probe_sink_create((enum probe_sink_format)format, STDOUT_FILENO, "x", &sink),
			"no output format");
		live_ok(probe_summary_create(NULL, &summary));
		fails(probe_summary_render(
			      summary, (enum probe_summary_format)format, &view, &text, &length),
			"there is no format");
		probe_summary_free(summary);
	}
	for (int format = PROBE_EXPORT_JSON; format <= PROBE_EXPORT_TRACE_EVENT; format++) {
		live_ok(probe_export_create((enum probe_export_format)format, NULL, STDOUT_FILENO,
			"standard output", &exporter));
		probe_export_free(exporter);
	}
}

static void test_spans_of_threads(void **state)
{
	const struct probe_event begin = {.provider = "p", .name = "x__start", .tid = 1};
	const struct probe_event end = {.provider = "p", .name = "x__done", .tid = 1};
	enum probe_span_kind kind;
	struct probe_spans *spans;
	struct probe_span *span;

	(void)state;
	live_ok(probe_spans_create(NULL, &spans));
	live_ok(probe_spans_add(spans, &begin, &kind, &span));
	live_ok(probe_spans_add(spans, &end, &kind, &span));
	assert_int_equal(kind, PROBE_SPAN_END);
	probe_spans_free(spans);
}

static void test_indexes(void **state)
{
	struct probe_tracer_info info;
	uint64_t high;
	int64_t low;

	(void)state;
	assert_string_equal(probe_plan_name((enum probe_plan)NO_SUCH), "none");
	assert_false(probe_tracer_info(SIZE_MAX, &info));
	probe_bucket_range(SIZE_MAX, &low, &high);
	assert_int_equal(low, INT64_MIN);
}

static void test_sessions(void **state)
{
	struct live *l = *state;
	const struct probe_session_options bad[] = {
		{.kind = (enum probe_session_kind)NO_SUCH},
		{.stack = (enum probe_stack_kind)NO_SUCH},
		{.kind = PROBE_SESSION_GATHER, .gather.pairing = (enum probe_pairing)NO_SUCH},
	};
	const enum probe_plan plan = (enum probe_plan)NO_SUCH;
	const struct probe_session_options count = {.kind = PROBE_SESSION_COUNT};
	struct probe_pattern *pattern;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&pattern, .pattern_count = 1};
	struct probe_report report = {0};
	struct probe_session *session;
	struct probe_error *error;

	live_ok(probe_pattern_parse("live:value", &pattern));
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		fails(probe_session_start(l->target, &request, &bad[i], &report, &session),
			"there is no session of kind");
	request.plans = &plan;
	request.plan_count = 1;
	error = probe_session_start(l->target, &request, &count, &report, &session);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_REFUSED);
	probe_error_free(error);
	probe_report_deinit(&report);

	request.plans = NULL;
	report = (struct probe_report){0};
	live_ok(probe_session_start(l->target, &request, &count, &report, &session));
	assert_true(probe_session_is_selected(session, 0));
	assert_false(probe_session_is_selected(session, NO_SUCH));
	assert_true(probe_session_matched(session, 0));
	assert_false(probe_session_matched(session, NO_SUCH));
	probe_session_switch(session, NO_SUCH, true);
	assert_false(probe_session_is_on(session));
	live_ok(probe_session_stop(session));
	probe_session_free(session);
	probe_report_deinit(&report);
	probe_pattern_free(pattern);
}

static bool count_hit(const struct probe_hit *hit, void *data)
{
	(void)hit;
	++*(size_t *)data;
	return true;
}

/* Without a visitor, records stay in their rings, also once the session has ended. */
static void test_poll_without_visitor(void **state)
{
	struct live *l = *state;
	const struct probe_session_options record = {.kind = PROBE_SESSION_RECORD};
	struct probe_report report = {0};
	size_t count = 0;

	live_ok(live_begin(l, "live:op__start", &record, &report));
	probe_report_deinit(&report);
	live_order(l, '1');
	live_ok(probe_session_poll(l->session, NULL, NULL, NULL));
	live_ok(probe_session_stop(l->session));
	live_ok(probe_session_poll(l->session, NULL, NULL, NULL));
	live_ok(probe_session_poll(l->session, count_hit, &count, NULL));
	assert_int_equal(count, 1);
	live_end_session(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_formats),
		cmocka_unit_test(test_spans_of_threads),
		cmocka_unit_test(test_indexes),
		cmocka_unit_test_setup_teardown(test_sessions, live_setup, live_teardown),
		cmocka_unit_test_setup_teardown(
			test_poll_without_visitor, live_setup, live_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
