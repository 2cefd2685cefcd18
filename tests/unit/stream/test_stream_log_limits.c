/* SPDX-License-Identifier: MIT */
/* Logs of streams with a limit: loops, logs that are full, and a disk without room. */
/* Not under ThreadSanitizer: nothing has threads. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stream/stream_log.h"

enum { LOG_BYTES = 1 << 20 };

static void test_log_loop(void **state)
{
	static const struct probe_stream_options options = {
		.log_policy = PROBE_STREAM_LOG_LOOP, .log_bytes = LOG_BYTES};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:value", options);
	struct probe_stream_status status;
	struct seen seen;
	long hits = 0, last = 0;

	live_ok(probe_stream_start(stream));
	for (int i = 0; i < 10; i++) {
		live_order(l, 'o');
		live_ok(probe_stream_flush(stream));
		assert_true(log_bytes() <= LOG_BYTES);
	}
	status = status_of(stream);
	assert_true(status.running && status.log_full && status.log_overrun);
	assert_false(status.overrun);
	assert_false(status_of(stream).log_overrun);
	live_ok(probe_stream_shutdown(stream));
	assert_true(log_bytes() <= LOG_BYTES && log_bytes() > LOG_BYTES / 2);
	stream = log_reopen();
	while (log_next(stream, &seen)) {
		if (seen.event.type <= PROBE_STREAM_UNNAMED)
			continue;
		last = (long)seen.event.event.args[0].i;
		hits++;
	}
	assert_true(hits > 5000 && hits < 10 * HITS);
	assert_int_equal(last, live_value(HITS - 1));
	assert_true(status_of(stream).log_full);
	live_ok(probe_stream_close(stream));
}

/* Replaces libc's function: removing the files of parts fails while this is set. */
static bool keeps_files;

int unlinkat(int at, const char *name, int flags)
{
	if (keeps_files && strncmp(name, "stream_", 7) == 0) {
		errno = EACCES;
		return -1;
	}
	return (int)syscall(SYS_unlinkat, at, name, flags);
}

static void make_file(const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", log_folder, name);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs("mine\n", file);
	fclose(file);
}

static void make_folder(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", log_folder, name);
	assert_int_equal(mkdir(path, 0777), 0);
}

/* Foreign files are in parts; and then old parts cannot be removed. */
static void test_log_loop_kept(void **state)
{
	static const struct probe_stream_options options = {
		.log_policy = PROBE_STREAM_LOG_LOOP, .log_bytes = LOG_BYTES};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:value", options);

	make_file("000001/notes");
	make_folder("000001/stream_folder");
	make_folder("000001/000000");
	make_file("000001/000000/stream_0_cpu0");
	live_ok(probe_stream_start(stream));
	for (int i = 0; i < 5; i++) {
		live_order(l, 'o');
		live_ok(probe_stream_flush(stream));
		assert_true(log_bytes() <= LOG_BYTES);
	}
	assert_true(status_of(stream).log_overrun);
	keeps_files = true;
	live_order(l, 'o');
	is_error(probe_stream_flush(stream), EACCES);
	keeps_files = false;
	assert_int_equal(status_of(stream).flush_error, EACCES);
	live_ok(probe_stream_shutdown(stream));
}

static void test_log_until_full(void **state)
{
	static const struct probe_stream_options options = {
		.log_policy = PROBE_STREAM_LOG_UNTIL_FULL, .log_bytes = LOG_BYTES};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:value", options);
	struct probe_stream_status status;
	struct seen seen;
	long hits = 0;

	live_ok(probe_stream_start(stream));
	for (int i = 0; i < 3; i++) {
		live_order(l, 'o');
		live_ok(probe_stream_flush(stream));
	}
	status = status_of(stream);
	assert_true(!status.running && status.log_full && status.log_overrun);
	live_ok(probe_stream_start(stream)); /* there is no room for anything */
	assert_false(status_of(stream).running);
	live_ok(probe_stream_shutdown(stream));
	assert_true(log_bytes() <= LOG_BYTES && log_bytes() > LOG_BYTES / 2);
	stream = log_reopen();
	while (log_next(stream, &seen)) {
		if (seen.event.type <= PROBE_STREAM_UNNAMED)
			continue;
		assert_int_equal(seen.event.event.args[0].i, live_value(hits % HITS));
		hits++;
	}
	assert_true(hits > 5000 && hits < 3 * HITS);
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	assert_int_equal(seen.event.event.args[0].i, 1);
	live_ok(probe_stream_close(stream));
}

static void test_clear(void **state)
{
	static const struct probe_stream_options options = {
		.log_policy = PROBE_STREAM_LOG_UNTIL_FULL, .log_bytes = LOG_BYTES};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:*", options);
	struct probe_stream_status status;
	struct seen seen;

	live_ok(probe_stream_start(stream));
	for (int i = 0; i < 3; i++) {
		live_order(l, 'o');
		live_ok(probe_stream_flush(stream));
	}
	live_ok(probe_stream_clear(stream));
	status = status_of(stream);
	assert_true(!status.log_full && !status.log_overrun && !status.flushed);
	assert_false(status.running); /* as before */
	assert_int_equal(log_bytes(), 0);
	live_ok(probe_stream_start(stream));
	live_order(l, '1');
	live_ok(probe_stream_shutdown(stream));
	stream = log_reopen();
	assert_true(log_next(stream, &seen));
	assert_int_equal(seen.event.type, PROBE_STREAM_START);
	assert_true(log_next(stream, &seen));
	assert_string_equal(seen.event.event.name, "op__start");
	assert_true(log_next(stream, &seen));
	assert_int_equal(seen.event.type, PROBE_STREAM_STOP);
	assert_false(log_next(stream, &seen));
	live_ok(probe_stream_close(stream));
}

static void test_no_room(void **state)
{
	static const struct probe_stream_options options = {.log_policy = PROBE_STREAM_LOG_APPEND};
	struct live *l = *state;
	struct probe_stream *stream = log_of(l, "live:value", options);
	struct rlimit before, small = {1 << 16, RLIM_INFINITY};
	struct probe_stream_status status;

	live_ok(probe_stream_start(stream));
	live_order(l, 'o');
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	is_error(probe_stream_flush(stream), EFBIG);
	status = status_of(stream);
	assert_int_equal(status.flush_error, EFBIG);
	assert_true(status.log_overrun);
	assert_int_equal(status_of(stream).flush_error, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	live_ok(probe_stream_shutdown(stream));
	/* What was written before is readable. */
	stream = log_reopen();
	live_ok(probe_stream_close(stream));
}

int main(void)
{
#define LOGGED(test) cmocka_unit_test_setup_teardown(test, log_setup, log_teardown)
	const struct CMUnitTest tests[] = {
		LOGGED(test_log_loop),
		LOGGED(test_log_loop_kept),
		LOGGED(test_log_until_full),
		LOGGED(test_clear),
		LOGGED(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
