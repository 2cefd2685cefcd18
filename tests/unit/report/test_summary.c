/* SPDX-License-Identifier: MIT */
/* Summaries of events: time, streams, limits. */
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

/* ---- Time ---------------------------------------------------------------------------- */

static void test_bins(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const uint64_t begin = UINT64_C(1790000000123456789);
	double parts[10], total = 0;

	(void)state;
	/* A hit each millisecond for ten seconds, and none in the fourth. */
	for (uint64_t i = 0; i < 10000; i++) {
		if (i / 1000 != 3)
			summary_hit(summary, begin + i * 1000000, 1, "x", NULL);
	}
	assert_int_equal(summary_bins_sum(summary->probes[0]->bins), 9000);
	assert_in_range(summary->bin_count, SUMMARY_BINS / 2, SUMMARY_BINS);
	summary_fold(summary, summary->probes[0]->bins, parts, 10);
	for (size_t i = 0; i < 10; i++)
		total += parts[i] * 0.9999;
	assert_true(total > 8999.9 && total < 9000.1);
	assert_true(parts[3] < 100 && parts[0] > 950 && parts[9] > 950);
	probe_summary_free(summary);
}

static void test_bins_out_of_order(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	const uint64_t begin = UINT64_C(1790000000000000000);
	double part;

	(void)state;
	summary_hit(summary, begin, 1, "x", NULL);
	summary_hit(summary, begin + 5000, 1, "x", NULL);
	/* Earlier than all others, as far as the bins reach, and beyond. */
	summary_hit(summary, begin - 100000, 1, "x", NULL);
	summary_hit(summary, begin - 100000000000, 1, "x", NULL);
	summary_hit(summary, 1, 1, "x", NULL);
	summary_hit(summary, UINT64_MAX, 1, "x", NULL);
	assert_int_equal(summary_bins_sum(summary->probes[0]->bins), 6);
	assert_int_equal(summary->begin_ns, 1);
	assert_int_equal(summary->end_ns, INT64_MAX);
	assert_in_range(summary->bin_count, 2, SUMMARY_BINS);
	summary_fold(summary, summary->probes[0]->bins, &part, 1);
	assert_true(
		part * summary_seconds(summary) > 5.999 && part * summary_seconds(summary) < 6.001);
	probe_summary_free(summary);

	/* One hit, many at one instant. */
	summary = summary_made(NULL);
	for (size_t i = 0; i < 5; i++)
		summary_hit(summary, begin, 1, "x", NULL);
	assert_int_equal(summary->bin_count, 1);
	assert_int_equal(summary->probes[0]->bins[0], 5);
	summary_fold(summary, summary->probes[0]->bins, &part, 1);
	assert_true(part == 0);
	probe_summary_free(summary);
}

/* An event as in the log of a stream. */
static void own_event(struct probe_summary *summary, pid_t pid, const char *name, uint64_t arg)
{
	struct probe_value value = summary_number(arg);
	struct probe_event event = {.kind = PROBE_EVENT_HIT,
		.time_ns = 50,
		.pid = pid,
		.tid = pid,
		.provider = "posix_trace",
		.name = name,
		.args = &value,
		.arg_count = 1};

	assert_null(probe_summary_add(summary, &event));
}

/* A stream's own events are not hits, and belong to no probe, process or thread. */
static void test_streams(void **state)
{
	struct probe_summary *summary = summary_made(NULL);

	(void)state;
	own_event(summary, 0, "start", 0);
	own_event(summary, 0, "stop", 0);
	assert_int_equal(summary->events, 0);
	assert_false(summary->overrun || summary->full);
	summary_hit(summary, 1000, 1, "x", NULL);
	own_event(summary, 0, "overflow", 0);
	assert_true(summary->overrun);
	own_event(summary, 0, "stop", 1);
	assert_true(summary->full);
	assert_int_equal(summary->hits, 1);
	assert_int_equal(summary->probe_count, 1);
	assert_int_equal(summary->threads.count, 1);
	assert_int_equal(summary->begin_ns, 1000);
	/* A program's own event may have that name. */
	own_event(summary, 7, "start", 0);
	own_event(summary, 0, "no_such_event", 0);
	assert_int_equal(summary->hits, 3);
	probe_summary_free(summary);
}

/* ---- Limits --------------------------------------------------------------------------------- */

static void test_limits(void **state)
{
	struct probe_summary *summary = summary_made(NULL);
	struct summary_process *processes;
	uint64_t hits = 0, in_threads = 0;
	char name[64];
	size_t count;

	(void)state;
	for (unsigned int i = 0; i < SUMMARY_PROBES_MAX + 100; i++) {
		struct probe_value value = summary_number(i);

		snprintf(name, sizeof(name), "p%u__%s", i / 2, i % 2 ? "done" : "start");
		for (size_t k = 0; k < 3; k++)
			summary_hit(summary, 1000 + i, 1, name, &value);
	}
	for (unsigned int i = 0; i < SUMMARY_THREADS_MAX + 100; i++)
		summary_hit(summary, 10000 + i, (pid_t)(100 + i), "p0__start", NULL);
	assert_int_equal(summary->probe_count, SUMMARY_PROBES_MAX);
	assert_int_equal(summary->other_hits, 300);
	assert_int_equal(summary->pair_count, SUMMARY_PAIRS_MAX);
	assert_true(summary->more_pairs);
	assert_int_equal(summary->threads.count, SUMMARY_THREADS_MAX);
	for (size_t i = 0; i < summary->probe_count; i++)
		hits += summary->probes[i]->hits;
	assert_int_equal(hits + summary->other_hits, summary->hits);
	processes = threads_processes(summary, &count);
	assert_int_equal(count, 1);
	assert_int_equal(processes[0].threads, SUMMARY_THREADS_MAX);
	in_threads = processes[0].hits;
	assert_int_equal(in_threads + summary->other_thread_hits, summary->hits);
	free(processes);
	for (int format = PROBE_SUMMARY_TEXT; format <= PROBE_SUMMARY_HTML; format++) {
		const struct probe_summary_view view = {.title = "limits"};
		size_t length;
		char *text;

		assert_null(probe_summary_render(
			summary, (enum probe_summary_format)format, &view, &text, &length));
		assert_int_equal(strlen(text), length);
		if (format == PROBE_SUMMARY_TEXT) {
			assert_non_null(strstr(text, "; more than 2048 probes, "));
			assert_non_null(strstr(text, ", more than 16384 threads\n"));
		}
		if (format == PROBE_SUMMARY_HTML)
			assert_non_null(
				strstr(text, "\"provider\":null,\"name\":null,\"hits\":300,"));
		free(text);
	}
	probe_summary_free(summary);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bins),
		cmocka_unit_test(test_bins_out_of_order),
		cmocka_unit_test(test_streams),
		cmocka_unit_test(test_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
