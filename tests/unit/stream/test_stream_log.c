/* SPDX-License-Identifier: MIT */
/* Streams with a log, and logs read as pre-recorded streams (XSH 2.11, posix_trace_*). */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/session/session.h"
#include "libprobe/stream/stream.h"
#include "tests/unit/stream/stream_log.h"

/* ---- Reading what was flushed ---- */

static void check_log(struct probe_stream *stream)
{
	uint32_t value = log_listed(stream, "live:value");
	uint64_t last = 0;
	struct seen seen;
	bool there;

	assert_true(log_next(stream, &seen));
	assert_int_equal(seen.event.type, PROBE_STREAM_START);
	for (long i = 0; i < HITS; i++) {
		assert_true(log_next(stream, &seen));
		/* Flushes are events, too. */
		while (seen.event.type == PROBE_STREAM_FLUSH_START ||
			seen.event.type == PROBE_STREAM_FLUSH_STOP)
			assert_true(log_next(stream, &seen));
		assert_int_equal(seen.event.type, value);
		assert_int_equal(seen.event.event.args[0].i, live_value(i));
		assert_true(seen.event.event.time_ns >= last);
		last = seen.event.event.time_ns;
	}
	assert_true(log_next(stream, &seen));
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	assert_int_equal(seen.event.event.args[0].i, 0);
	live_ok(probe_stream_next(stream, NULL, 0, NULL, &seen.event, &there));
	assert_false(there);
}

static void test_flush(void **state)
{
	static const struct probe_stream_options options = {
		.log_policy = PROBE_STREAM_LOG_APPEND, .name = "flushed"};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:value", options);
	struct probe_stream_attributes a, b;
	struct probe_stream_status status;
	uint32_t value = type_of(stream, "live:value"), mine = type_of(stream, "my:own");
	struct probe_stream_event event;
	bool there;

	live_ok(probe_stream_get_attributes(stream, &a));
	assert_int_equal(a.options.policy, PROBE_STREAM_FLUSH); /* the default, with a log */
	/* Its events are in the log. */
	is_error(probe_stream_next(stream, NULL, 0, NULL, &event, &there), EINVAL);
	is_error(probe_stream_next(stream, NULL, 0, &no_wait, &event, &there), EINVAL);
	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	live_ok(probe_stream_stop(stream));
	assert_int_equal(status_of(stream).flushed, 0);
	live_ok(probe_stream_flush(stream));
	status = status_of(stream);
	assert_int_equal(status.flushed, HITS);
	assert_true(!status.flushing && !status.flush_error && !status.log_overrun &&
		    !status.log_full && !status.overrun);
	assert_true(log_bytes() > 0);
	live_ok(probe_stream_get_attributes(stream, &a));
	live_ok(probe_stream_shutdown(stream));

	stream = log_reopen();
	live_ok(probe_stream_get_attributes(stream, &b));
	assert_string_equal(b.options.name, "flushed");
	assert_true(strncmp(b.version, "probectl ", 9) == 0);
	assert_int_equal(b.created_ns / 1000000000 > 0, 1);
	assert_int_equal(b.options.policy, PROBE_STREAM_FLUSH);
	assert_int_equal(b.options.log_policy, PROBE_STREAM_LOG_APPEND);
	assert_int_equal(b.options.stream_bytes, a.options.stream_bytes);
	assert_int_equal(b.user_event_bytes, b.user_event_bytes);
	/* Names keep their numbers. */
	assert_int_equal(log_listed(stream, "live:value"), value);
	assert_int_equal(log_listed(stream, "my:own"), mine);
	status = status_of(stream);
	assert_int_equal(status.flushed, HITS);
	assert_false(status.running);
	check_log(stream);
	live_ok(probe_stream_rewind(stream));
	check_log(stream);
	live_ok(probe_stream_rewind(stream));
	assert_memory_equal(&status, &(struct probe_stream_status){.flushed = HITS},
		sizeof(status)); /* it is not reset */
	assert_int_equal(status_of(stream).flushed, HITS);
	live_ok(probe_stream_close(stream));
}

/* A flush is visible to others, and the stream reports it while it runs. */
struct flusher {
	struct probe_stream *stream;
	atomic_bool over;
};

static void *flush_on(void *data)
{
	struct flusher *f = data;

	while (!f->over)
		live_ok(probe_stream_flush(f->stream));
	return NULL;
}

static void test_flushing(void **state)
{
	static const struct probe_stream_options options = {.policy = PROBE_STREAM_UNTIL_FULL};
	struct live *l = *state;
	struct flusher f = {.stream = log_of(l, "live:value", options)};
	size_t begun = 0, ended = 0;
	struct seen seen;
	pthread_t thread;

	live_ok(probe_stream_start(f.stream));
	assert_int_equal(pthread_create(&thread, NULL, flush_on, &f), 0);
	while (!status_of(f.stream).flushing)
		;
	f.over = true;
	pthread_join(thread, NULL);
	assert_false(status_of(f.stream).flushing);
	live_ok(probe_stream_shutdown(f.stream));
	f.stream = log_reopen();
	while (log_next(f.stream, &seen)) {
		begun += seen.event.type == PROBE_STREAM_FLUSH_START;
		ended += seen.event.type == PROBE_STREAM_FLUSH_STOP;
		assert_true(ended <= begun);
	}
	assert_true(begun > 0 && ended == begun);
	live_ok(probe_stream_close(f.stream));
}

static void *poll_on(void *data)
{
	struct flusher *f = data;

	while (!f->over) {
		live_ok(probe_stream_poll(f->stream, NULL));
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return NULL;
}

/* Hits wait until it has been polled. */
static void test_waiting(void **state)
{
	static const struct probe_stream_options options = {.stream_bytes = TEST_RING_BYTES,
		.log_policy = PROBE_STREAM_LOG_APPEND,
		.wait_ns = PROBE_WAIT_MAX_NS};
	struct live *l = *state;
	struct flusher f = {.stream = log_of(l, "live:value", options)};
	struct probe_stream_status status;
	uint64_t ns;
	pthread_t thread;

	live_ok(probe_stream_start(f.stream));
	assert_true(probe_stream_fd(f.stream) >= 0);
	assert_int_equal(pthread_create(&thread, NULL, poll_on, &f), 0);
	for (int i = 0; i < 5; i++)
		live_order(l, 'o');
	f.over = true;
	pthread_join(thread, NULL);
	live_ok(probe_stream_flush(f.stream));
	status = status_of(f.stream);
	assert_true(status.flushed > 10 * TEST_RING_BYTES / 24);
	assert_int_equal(status.lost, 0);
	assert_true(probe_session_waited(probe_stream_session(f.stream), &ns) > 0 && ns > 0);
	live_ok(probe_stream_shutdown(f.stream));
}

/* The flush policy: polling does everything; shutting down flushes. */
static void test_polled(void **state)
{
	static const struct probe_stream_options options = {
		.stream_bytes = TEST_RING_BYTES, .log_policy = PROBE_STREAM_LOG_APPEND};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:value", options);
	uint64_t hits = 0, lost = 0, flushed;
	struct probe_stream_status status;
	struct seen seen;
	bool more = true;

	live_ok(probe_stream_start(stream));
	for (int i = 0; i < 5; i++) {
		live_order(l, 'o');
		do
			live_ok(probe_stream_poll(stream, &more));
		while (more);
	}
	status = status_of(stream);
	/* It is too small; it does not stop, and reports how many are missing. */
	assert_true(status.running && status.overrun && status.lost > 0);
	flushed = status.flushed;
	assert_true(flushed > 0);
	live_ok(probe_stream_shutdown(stream));
	stream = log_reopen();
	assert_int_equal(status_of(stream).lost, status.lost);
	while (log_next(stream, &seen)) {
		hits += seen.event.type > PROBE_STREAM_UNNAMED;
		if (seen.event.type == PROBE_STREAM_OVERFLOW)
			lost += seen.event.event.lost;
	}
	assert_int_equal(lost, status.lost);
	assert_int_equal(hits + lost, 5 * HITS);
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	live_ok(probe_stream_close(stream));
}

/* A loop with a log: the newest events are written at the end. */
static void test_loop(void **state)
{
	static const struct probe_stream_options options = {
		.policy = PROBE_STREAM_LOOP, .stream_bytes = TEST_RING_BYTES};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:value", options);
	long hits = 0, last = 0;
	struct seen seen;
	bool overflow = false, resume = false;

	live_ok(probe_stream_start(stream));
	for (int i = 0; i < 3; i++)
		live_order(l, 'o');
	live_ok(probe_stream_poll(stream, NULL)); /* writes nothing */
	assert_int_equal(status_of(stream).flushed, 0);
	live_ok(probe_stream_shutdown(stream));
	stream = log_reopen();
	while (log_next(stream, &seen)) {
		overflow |= seen.event.type == PROBE_STREAM_OVERFLOW;
		resume |= seen.event.type == PROBE_STREAM_RESUME;
		if (seen.event.type <= PROBE_STREAM_UNNAMED)
			continue;
		hits++;
		last = (long)seen.event.event.args[0].i;
	}
	assert_true(overflow && resume);
	assert_true(hits > 1000 && hits < 3 * HITS);
	assert_int_equal(last, live_value(HITS - 1));
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	live_ok(probe_stream_close(stream));
}

/* A record of the caller's: it outlives the stream, whose last events are written by then only. */
static void test_flush_to(void **state)
{
	static const struct probe_stream_options options = {
		.policy = PROBE_STREAM_LOOP, .stream_bytes = 1 << 24};
	struct live *l = *state;
	struct probe_stream *stream = stream_of(l, "live:value", &options);
	struct probe_error *error;
	struct probe_ctf *record, *other;
	char name[64];
	long hits = 0, own = 0;
	struct seen seen;

	snprintf(name, sizeof(name), "%s/other", log_folder);
	live_ok(probe_ctf_create(name, NULL, &other));
	snprintf(name, sizeof(name), "%s/record", log_folder);
	live_ok(probe_ctf_create(name, NULL, &record));
	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	live_ok(probe_stream_flush_to(stream, record));
	assert_int_equal(status_of(stream).flushed, HITS);
	error = probe_stream_flush_to(stream, other);
	assert_non_null(error);
	assert_int_equal(error->err, EINVAL);
	probe_error_free(error);
	live_order(l, 'o');
	live_ok(probe_stream_stop(stream));
	live_ok(probe_session_stop(probe_stream_session(stream)));
	live_ok(probe_stream_flush_to(stream, record));
	assert_int_equal(status_of(stream).flushed, 2 * HITS);
	live_ok(probe_stream_shutdown(stream));
	live_ok(probe_ctf_flush(record));
	probe_ctf_free(record);
	probe_ctf_free(other);
	live_ok(probe_stream_open(name, &stream));
	while (log_next(stream, &seen)) {
		bool is_own = seen.event.type < PROBE_STREAM_SYSTEM_TYPES;

		hits += !is_own;
		own += is_own;
		assert_int_equal(seen.event.event.pid, l->pid);
		assert_int_equal(seen.event.event.tid == 0, is_own);
	}
	assert_int_equal(hits, 2 * HITS);
	assert_int_equal(own, 4); /* start, a flush, stop */
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	live_ok(probe_stream_close(stream));
}

/* Everything present at a flush is flushed, even if the clock was set back since the last one. */
static void test_clock_set_back(void **state)
{
	static const struct probe_stream_options options = {
		.policy = PROBE_STREAM_LOOP, .stream_bytes = 1 << 24};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:value", options);
	uint64_t hour_ns = UINT64_C(3600) * 1000000000;

	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	live_ok(probe_stream_flush(stream));
	assert_int_equal(status_of(stream).flushed, HITS);
	stream->reading.last_ns += hour_ns;
	for (int i = 0; i < 5; i++)
		live_order(l, 'o');
	live_ok(probe_stream_stop(stream));
	live_ok(probe_stream_flush(stream));
	assert_int_equal(status_of(stream).flushed, 6 * HITS);
	live_ok(probe_stream_shutdown(stream));
}

/* A program's own events may have the stream's names (probe/posix_trace.h). */
static void test_names(void **state)
{
	static struct probe_session_probe probe = {
		.provider = "posix_trace", .name = "stop", .path = "/bin/p"};
	static const struct probe_session session = {.probes = &probe, .probe_count = 1};
	const struct probe_hit hit = {.time_ns = UINT64_C(4102444800000000000), .pid = 5, .tid = 5};
	struct probe_stream *stream;
	struct probe_ctf *ctf;
	struct seen seen;

	(void)state;
	live_ok(probe_ctf_create(log_folder, NULL, &ctf));
	live_ok(probe_ctf_hit(ctf, &session, &hit, "p"));
	live_ok(probe_ctf_flush(ctf));
	probe_ctf_free(ctf);
	stream = log_reopen();
	assert_true(log_next(stream, &seen));
	assert_int_equal(seen.event.type, log_listed(stream, "posix_trace:stop"));
	assert_true(seen.event.type > PROBE_STREAM_UNNAMED);
	assert_int_equal(seen.event.event.pid, 5);
	assert_false(log_next(stream, &seen));
	live_ok(probe_stream_close(stream));
}

/* ---- Errors --------------------------------------------------------------------- */

static void test_usage(void **state)
{
	struct live *l = *state;
	struct probe_stream_options options = {.log_bytes = 1000};
	struct probe_report report = {0};
	struct probe_request request = {0};
	struct probe_stream *stream;
	struct probe_stream_set set = {0};
	struct probe_stream_event event;
	struct timespec past = {.tv_sec = 1};
	struct probe_error *error;
	uint32_t type;
	bool there;
	char path[64];
	FILE *file;

	options.log = log_folder;
	is_error(probe_stream_create(l->target, &request, &options, &report, &stream), EINVAL);
	options.log_bytes = 0;
	snprintf(path, sizeof(path), "%s/there", log_folder);
	file = fopen(path, "we");
	assert_non_null(file);
	fclose(file);
	error = probe_stream_create(l->target, &request, &options, &report, &stream);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_STATE); /* the folder is not empty */
	probe_error_free(error);
	/* No logs: folders, also above one, and a file. */
	is_error(probe_stream_open(log_folder, &stream), EINVAL);
	is_error(probe_stream_open("/usr/share", &stream), EINVAL);
	is_error(probe_stream_open(path, &stream), EINVAL);
	is_error(probe_stream_open("/nonexistent", &stream), ENOENT);
	unlink(path);
	/* A folder as metadata */
	snprintf(path, sizeof(path), "%s/metadata", log_folder);
	assert_int_equal(mkdir(path, 0700), 0);
	is_error(probe_stream_open(log_folder, &stream), EINVAL);
	rmdir(path);

	stream = log_of(l, "live:value", (struct probe_stream_options){0});
	is_error(probe_stream_rewind(stream), EINVAL);
	live_ok(probe_stream_shutdown(stream));
	stream = log_reopen();
	/* Operations for active streams only. */
	is_error(probe_stream_start(stream), EINVAL);
	is_error(probe_stream_stop(stream), EINVAL);
	is_error(probe_stream_clear(stream), EINVAL);
	is_error(probe_stream_flush(stream), EINVAL);
	is_error(probe_stream_poll(stream, NULL), EINVAL);
	is_error(probe_stream_shutdown(stream), EINVAL);
	is_error(probe_stream_set_filter(stream, &set, PROBE_STREAM_FILTER_SET), EINVAL);
	is_error(probe_stream_get_filter(stream, &set), EINVAL);
	is_error(probe_stream_type_open(stream, "a:b", &type), EINVAL);
	is_error(probe_stream_next(stream, NULL, 0, &no_wait, &event, &there), EINVAL);
	is_error(probe_stream_next(stream, NULL, 0, &past, &event, &there), EINVAL);
	assert_int_equal(probe_stream_fd(stream), -1);
	assert_null(probe_stream_session(stream));
	live_ok(probe_stream_close(stream));
}

int main(void)
{
#define LOGGED(test) cmocka_unit_test_setup_teardown(test, log_setup, log_teardown)
	const struct CMUnitTest tests[] = {
		LOGGED(test_flush),
		LOGGED(test_flushing),
		LOGGED(test_waiting),
		LOGGED(test_polled),
		LOGGED(test_loop),
		LOGGED(test_flush_to),
		LOGGED(test_clock_set_back),
		LOGGED(test_names),
		LOGGED(test_usage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
