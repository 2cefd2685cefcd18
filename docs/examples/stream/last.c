/* SPDX-License-Identifier: MIT */
/*
 * last DIR SECONDS PROBE PID...: keeps the newest hits of processes for so long, and writes those
 * of all of them to one record.
 */
#include <stdbool.h>
#include <unistd.h>

#include <probe/ctf.h>
#include <probe/pattern.h>
#include <probe/stream.h>

#include "../library/example.h"

enum { PROCESSES_MAX = 8 };

struct process {
	struct probe_target *target;
	struct probe_stream *stream;
};

static void begin(struct process *p, const char *pid, const struct probe_request *request)
{
	const struct probe_stream_options options = {.policy = PROBE_STREAM_LOOP};
	struct probe_report report = {0};

	check(probe_target_open((pid_t)atoi(pid), NULL, &p->target));
	check(probe_stream_create(p->target, request, &options, &report, &p->stream));
	check(probe_stream_start(p->stream));
	probe_report_deinit(&report);
}

int main(int argc, char **argv)
{
	int count = argc - 4 < PROCESSES_MAX ? argc - 4 : PROCESSES_MAX;
	struct process processes[PROCESSES_MAX];
	struct probe_pattern *pattern;
	struct probe_ctf *record;

	if (argc < 5) {
		fprintf(stderr, "usage: last DIR SECONDS PROBE PID...\n");
		return 2;
	}
	check(probe_pattern_parse(argv[3], &pattern));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		for (int i = 0; i < count; i++)
			begin(&processes[i], argv[4 + i], &request);
	}
	sleep((unsigned int)atoi(argv[2]));
	check(probe_ctf_create(argv[1], NULL, &record));
	for (int i = 0; i < count; i++) {
		check(probe_stream_stop(processes[i].stream));
		check(probe_stream_flush_to(processes[i].stream, record));
	}
	for (int i = 0; i < count; i++) {
		check(probe_stream_shutdown(processes[i].stream));
		probe_target_close(processes[i].target);
	}
	check(probe_ctf_flush(record));
	probe_ctf_free(record);
	probe_pattern_free(pattern);
	return 0;
}
