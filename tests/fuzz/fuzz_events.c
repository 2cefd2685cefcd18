/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: hits as JSON from any source, and their processing: every format of
 * `export`, and the summary of `report`. The first byte selects.
 *
 * The sanitizers watch. This checks that what was read is valid, and that it can be written: an
 * error says why, and nothing crashes.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "probe/export.h"
#include "probe/reader.h"
#include "probe/summary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SUMMARIES = 3, EXPORTS = 4 };

static void require(bool condition)
{
	if (!condition)
		abort();
}

struct outputs {
	struct probe_export *exporter;
	struct probe_summary *summary;
};

static void check_event(const struct probe_event *event)
{
	require(event->kind == PROBE_EVENT_HIT || event->kind == PROBE_EVENT_LOST);
	if (event->kind == PROBE_EVENT_HIT)
		require(event->provider && event->name && (!event->arg_count || event->args));
	for (size_t i = 0; i < event->arg_count; i++)
		require(event->args[i].kind < PROBE_VALUE_STRING || event->args[i].bytes ||
			!event->args[i].length);
	if (event->begin)
		check_event(event->begin);
}

static void check(struct probe_reader *reader, const struct outputs *to)
{
	struct probe_error *error = NULL;
	struct probe_event event;
	bool there = true;

	while (!error && there) {
		error = probe_reader_next(reader, &event, &there);
		if (error || !there)
			break;
		check_event(&event);
		error = to->exporter ? probe_export_event(to->exporter, &event)
				     : probe_summary_add(to->summary, &event);
		/* Stacks are not made of spans. */
		require(!error || error->code == PROBE_ERROR_UNSUPPORTED);
	}
	require(!error || error->message[0]);
	probe_error_free(error);
}

static void finish(struct outputs *to, enum probe_summary_format format)
{
	const struct probe_summary_view view = {.title = "fuzz", .top = 20};
	struct probe_error *error;
	size_t length;
	char *text;

	if (to->exporter) {
		/* An error says if the hits have nothing that the format shows. */
		error = probe_export_finish(to->exporter);
		require(!error || error->code == PROBE_ERROR_NOT_FOUND ||
			error->code == PROBE_ERROR_USAGE);
		probe_error_free(error);
	} else {
		require(!probe_summary_render(to->summary, format, &view, &text, &length));
		require(strlen(text) == length);
		free(text);
	}
	probe_export_free(to->exporter);
	probe_summary_free(to->summary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const keys[] = {"arg0", "comm"};
	const struct probe_export_options options = {.keys = keys, .key_count = 2};
	static int sink = -1;
	struct outputs to = {0};
	struct probe_reader *reader;
	unsigned int choice = size ? data[0] % (EXPORTS + SUMMARIES) : 0;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (sink < 0)
		sink = open("/dev/null", O_WRONLY | O_CLOEXEC);
	require(fd >= 0 && sink >= 0);
	if (size > 1)
		require(write(fd, data + 1, size - 1) == (ssize_t)size - 1);
	require(lseek(fd, 0, SEEK_SET) == 0);
	require(!probe_reader_open_json(fd, "fuzz", &reader));
	if (choice < EXPORTS)
		require(!probe_export_create(
			(enum probe_export_format)choice, &options, sink, "nowhere", &to.exporter));
	else
		require(!probe_summary_create(NULL, &to.summary));
	check(reader, &to);
	finish(&to, (enum probe_summary_format)(choice - EXPORTS));
	probe_reader_close(reader);
	close(fd);
	return 0;
}
