/* SPDX-License-Identifier: MIT */
/*
 * log PID PROBE DIR: flushes the events of a process to a log, until it ends, or until the
 * log has its 16 MiB.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>

#include <probe/pattern.h>
#include <probe/stream.h>

#include "../library/example.h"

static void wait_a_while(const struct probe_stream *stream)
{
	struct pollfd fd = {.fd = probe_stream_fd(stream), .events = POLLIN};

	poll(&fd, 1, 5);
}

int main(int argc, char **argv)
{
	struct probe_stream_options options = {
		.log_policy = PROBE_STREAM_LOG_UNTIL_FULL, .log_bytes = 16 << 20};
	const struct probe_pattern *patterns[1];
	struct probe_request request = {.patterns = patterns, .pattern_count = 1};
	struct probe_report report = {0};
	struct probe_stream_status status;
	const struct probe_session_probe *probes;
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct probe_stream *stream;
	bool more, alive = true;
	size_t count;

	if (argc != 4) {
		fprintf(stderr, "usage: log PID PROBE DIR\n");
		return 2;
	}
	options.log = argv[3];
	check(probe_pattern_parse(argv[2], &pattern));
	patterns[0] = pattern;
	check(probe_target_open((pid_t)atoi(argv[1]), NULL, &target));
	check(probe_stream_create(target, &request, &options, &report, &stream));
	probes = probe_session_probes(probe_stream_session(stream), &count);
	for (size_t i = 0; i < count; i++)
		printf("%s:%s\n", probes[i].provider, probes[i].name);
	check(probe_stream_start(stream));
	/* Throws away what came up to here. */
	check(probe_stream_clear(stream));
	do {
		alive = probe_target_alive(target);
		check(probe_stream_poll(stream, &more));
		if (alive && !more)
			wait_a_while(stream);
		check(probe_stream_get_status(stream, &status));
	} while ((alive || more) && status.running);
	check(probe_stream_flush(stream));
	check(probe_stream_get_status(stream, &status));
	printf("%" PRIu64 " hits, %" PRIu64 " lost%s\n", status.flushed, status.lost,
		status.log_full ? ", the log is full" : "");
	check(probe_stream_shutdown(stream));
	probe_report_deinit(&report);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
