/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/stream/stream_live.h"

struct probe_stream *stream_of(
	struct live *live, const char *pattern, const struct probe_stream_options *options)
{
	struct probe_report report = {0};
	struct probe_stream *stream;
	struct probe_pattern *parsed;
	struct probe_request request = {
		.patterns = (const struct probe_pattern *const *)&parsed, .pattern_count = 1};

	live_ok(probe_pattern_parse(pattern, &parsed));
	live_ok(probe_stream_create(live->target, &request, options, &report, &stream));
	probe_pattern_free(parsed);
	probe_report_deinit(&report);
	return stream;
}

void is_error(struct probe_error *error, int err)
{
	assert_non_null(error);
	if (error->err != err)
		fail_msg("not %s: %s", strerror(err), error->message);
	assert_true(error->message[0] && !strchr(error->message, '\n'));
	probe_error_free(error);
}

bool try_next(struct probe_stream *stream, struct seen *seen)
{
	bool there;

	live_ok(probe_stream_next(
		stream, seen->data, sizeof(seen->data), &no_wait, &seen->event, &there));
	return there;
}

void next_is(struct probe_stream *stream, struct seen *seen, uint32_t type)
{
	assert_true(try_next(stream, seen));
	assert_int_equal(seen->event.type, type);
}

void nothing_is_left(struct probe_stream *stream)
{
	struct seen seen;

	if (try_next(stream, &seen))
		fail_msg("there is an event of type %u", seen.event.type);
}

uint32_t type_of(struct probe_stream *stream, const char *name)
{
	uint32_t type;

	live_ok(probe_stream_type_open(stream, name, &type));
	return type;
}

struct probe_stream_status status_of(struct probe_stream *stream)
{
	struct probe_stream_status status;

	live_ok(probe_stream_get_status(stream, &status));
	return status;
}

struct probe_stream_set set_of(uint32_t type)
{
	struct probe_stream_set set = {0};

	live_ok(probe_stream_set_put(&set, type, true));
	return set;
}
