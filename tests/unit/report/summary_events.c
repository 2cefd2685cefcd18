/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/report/report.h"
#include "tests/unit/report/summary_events.h"

struct probe_summary *summary_made(const struct probe_summary_options *options)
{
	struct probe_summary *summary;

	assert_null(probe_summary_create(options, &summary));
	return summary;
}

void summary_hit(struct probe_summary *summary, uint64_t time_ns, pid_t tid, const char *name,
	const struct probe_value *arg)
{
	struct probe_event event = {.kind = PROBE_EVENT_HIT,
		.time_ns = time_ns,
		.pid = 10,
		.tid = tid,
		.provider = "db",
		.name = name,
		.args = arg,
		.arg_count = arg != NULL};

	assert_null(probe_summary_add(summary, &event));
}

void summary_lose(struct probe_summary *summary, uint64_t time_ns, uint64_t count)
{
	struct probe_event event = {.kind = PROBE_EVENT_LOST, .time_ns = time_ns, .lost = count};

	assert_null(probe_summary_add(summary, &event));
}

struct probe_value summary_number(uint64_t value)
{
	return (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = value};
}

struct probe_value summary_string(const char *text)
{
	return (struct probe_value){
		.kind = PROBE_VALUE_STRING, .bytes = text, .length = strlen(text)};
}

uint64_t summary_bins_sum(const uint64_t *bins)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < SUMMARY_BINS; i++)
		sum += bins[i];
	return sum;
}
