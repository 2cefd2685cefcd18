/* SPDX-License-Identifier: MIT */
/*
 * flight PID PROBE: a flight recorder. Keeps the last hits in the process, until it ends,
 * and then says what its last ones were.
 */
#include <stdbool.h>
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/target.h>

#include "example.h"

enum { LAST = 3, RING_BYTES = 16384 };

struct last {
	struct probe_hit hits[LAST];
	size_t seen;
};

/* Hits come oldest first; what they point to lasts for this call only, and is not kept. */
static bool visit(const struct probe_hit *hit, void *data)
{
	struct last *last = data;

	last->hits[last->seen++ % LAST] = *hit;
	return true;
}

int main(int argc, char **argv)
{
	const struct probe_session_options options = {
		.kind = PROBE_SESSION_RECORD, .overwrite = true, .ring_bytes = RING_BYTES};
	const struct probe_session_probe *probes;
	struct probe_report report = {0};
	struct probe_session *session;
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct last last = {0};
	size_t count;

	if (argc < 3)
		return 2;
	check(probe_pattern_parse(argv[2], &pattern));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		check(probe_session_start(target, &request, &options, &report, &session));
		probe_report_deinit(&report);
	}
	printf("recording\n");
	fflush(stdout);
	while (probe_target_alive(target))
		usleep(10000);
	check(probe_session_snapshot(session, visit, &last));
	fprintf(stderr, "%llu of %llu hits are left\n", (unsigned long long)last.seen,
		(unsigned long long)probe_session_recorded(session));
	probes = probe_session_probes(session, &count);
	for (size_t i = last.seen < LAST ? 0 : last.seen - LAST; i < last.seen; i++)
		printf("%s by thread %d\n", probes[last.hits[i % LAST].probe].name,
			last.hits[i % LAST].tid);
	probe_session_free(session);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
