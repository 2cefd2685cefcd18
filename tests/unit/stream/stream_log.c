/* SPDX-License-Identifier: MIT */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/unit/skip.h"
#include "tests/unit/stream/stream_log.h"

char log_folder[] = "/tmp/probectl-log.XXXXXX";
static uint64_t file_bytes;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	(void)status, (void)type, (void)ftw;
	return remove(path);
}

static int measure_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
	if (type == FTW_F && strncmp(path + ftw->base, "stream_", 7) == 0)
		file_bytes += (uint64_t)status->st_size;
	return 0;
}

uint64_t log_bytes(void)
{
	file_bytes = 0;
	assert_int_equal(nftw(log_folder, measure_one, 16, FTW_PHYS), 0);
	return file_bytes;
}

int log_setup(void **state)
{
	strcpy(log_folder, "/tmp/probectl-log.XXXXXX");
	return mkdtemp(log_folder) ? live_setup(state) : -1;
}

int log_teardown(void **state)
{
	nftw(log_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return live_teardown(state);
}

struct probe_stream *log_of(
	struct live *l, const char *pattern, struct probe_stream_options options)
{
	options.log = log_folder;
	if (!options.stream_bytes)
		options.stream_bytes = 1 << 24;
	return stream_of(l, pattern, &options);
}

struct probe_stream *log_reopen(void)
{
	struct probe_stream *stream;
	struct probe_error *error = probe_stream_open(log_folder, &stream);

	if (error && error->code == PROBE_ERROR_UNSUPPORTED) {
		skip_reason("%s", error->message);
		probe_error_free(error);
		skip();
	}
	live_ok(error);
	return stream;
}

bool log_next(struct probe_stream *stream, struct seen *seen)
{
	bool there;

	live_ok(probe_stream_next(
		stream, seen->data, sizeof(seen->data), NULL, &seen->event, &there));
	return there;
}

uint32_t log_listed(struct probe_stream *stream, const char *wanted)
{
	const char *name;
	bool there;

	for (uint32_t type = 0;; type++) {
		live_ok(probe_stream_type_next(stream, type, &type, &there));
		if (!there)
			fail_msg("there is no type %s", wanted);
		live_ok(probe_stream_type_name(stream, type, &name));
		if (strcmp(name, wanted) == 0)
			return type;
	}
}
