/* SPDX-License-Identifier: MIT */
/*
 * watch PID PROBE SECONDS [WITHOUT]: prints the events of a process as they come, but
 * for those of the type WITHOUT. What comes while nobody reads is kept, the newest of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <time.h>

#include <probe/pattern.h>
#include <probe/stream.h>

#include "../library/example.h"

static void filter_out(struct probe_stream *stream, const char *name)
{
	struct probe_stream_set set = {0};
	uint32_t type;
	bool there;

	/* Types have numbers before they have events: this one, and none of the stream's own. */
	check(probe_stream_type_open(stream, name, &type));
	check(probe_stream_set_put(&set, type, true));
	check(probe_stream_set_filter(stream, &set, PROBE_STREAM_FILTER_ADD));
	check(probe_stream_get_filter(stream, &set));
	check(probe_stream_set_has(&set, type, &there));
	if (there)
		printf("without %s\n", name);
	check(probe_stream_set_fill(&set, PROBE_STREAM_OWN_TYPES));
	check(probe_stream_set_put(&set, PROBE_STREAM_START, false));
	check(probe_stream_set_filter(stream, &set, PROBE_STREAM_FILTER_SUB));
}

static void print(struct probe_stream *stream, const struct probe_stream_event *seen)
{
	const struct probe_event *event = &seen->event;
	struct probe_stream_set filter;
	const char *name;

	check(probe_stream_type_name(stream, seen->type, &name));
	printf("%" PRIu64 " %s", event->time_ns, name);
	if (seen->type == PROBE_STREAM_START) {
		check(probe_stream_set_read(&event->args[0], &filter));
		printf(": other types than %s", filter.words[0] ? "these" : "those asked for");
	}
	for (size_t i = 0; i < event->arg_count; i++)
		if (event->args[i].kind == PROBE_VALUE_SIGNED ||
			event->args[i].kind == PROBE_VALUE_UNSIGNED)
			printf(" %" PRId64, event->args[i].i);
	printf("%s\n", seen->truncation == PROBE_STREAM_WHOLE ? "" : " ...");
}

/* Its hits are no events any more. */
static void on_news(const struct probe_site_news *news, void *data)
{
	(void)data;
	if (news->event != PROBE_SITE_BACK)
		fprintf(stderr, "somebody has written over the site at %#" PRIx64 "\n",
			news->site.pc);
}

static void watch(struct probe_stream *stream, const struct timespec *until)
{
	struct probe_stream_event event;
	struct probe_value memory[64]; /* arguments, and the strings that they have */
	const struct timespec no_wait = {0};
	bool there = true;

	while (there) {
		struct probe_error *error =
			probe_stream_next(stream, memory, sizeof(memory), until, &event, &there);

		if (error && error->err == ETIMEDOUT) {
			probe_error_free(error);
			break;
		}
		check(error);
		if (there)
			print(stream, &event);
	}
	check(probe_stream_look(stream, true, on_news, NULL));
	check(probe_stream_stop(stream));
	/* What came meanwhile, and the stop. */
	for (;;) {
		check(probe_stream_next(stream, memory, sizeof(memory), &no_wait, &event, &there));
		if (!there)
			break;
		print(stream, &event);
	}
}

int main(int argc, char **argv)
{
	struct probe_stream_options options = {.name = "watch", .data_bytes = 256};
	const struct probe_pattern *patterns[1];
	struct probe_request request = {.patterns = patterns, .pattern_count = 1};
	struct probe_report report = {0};
	struct probe_stream_status status;
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct probe_stream *stream;
	struct timespec until;

	if (argc < 4) {
		fprintf(stderr, "usage: watch PID PROBE SECONDS [WITHOUT]\n");
		return 2;
	}
	check(probe_pattern_parse(argv[2], &pattern));
	patterns[0] = pattern;
	check(probe_target_open((pid_t)atoi(argv[1]), NULL, &target));
	check(probe_stream_create(target, &request, &options, &report, &stream));
	if (argc > 4)
		filter_out(stream, argv[4]);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += atoi(argv[3]);
	check(probe_stream_start(stream));
	watch(stream, &until);
	check(probe_stream_get_status(stream, &status));
	if (status.overrun)
		fprintf(stderr, "some events were written over\n");
	check(probe_stream_shutdown(stream));
	probe_report_deinit(&report);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
