/* SPDX-License-Identifier: MIT */
/*
 * select PID PROBE LIMIT SECONDS: counts hits, and takes probes out of the process while it
 * runs that are hit more than LIMIT times a second. At the end all of them are put back for
 * a second more.
 */
#include <inttypes.h>
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/sink.h>
#include <probe/target.h>

#include "example.h"

static void apply(struct probe_session *session, const bool *on)
{
	struct probe_report report = {0};
	char stop[PROBE_DURATION_BYTES];

	check(probe_session_select(session, on, &report));
	probe_duration_text(stop, (double)report.stop_ns);
	fprintf(stderr, "%zu probes are back; the process stood still for %s\n", report.probes,
		stop);
	probe_report_deinit(&report);
}

/* One second: which probes are busier than that? `before` has their counts. */
static void look(struct probe_session *session, uint64_t *before, bool *on, uint64_t limit)
{
	const struct probe_session_probe *probes;
	bool any = false;
	size_t count;

	sleep(1);
	check(probe_session_poll(session, NULL, NULL, NULL));
	probes = probe_session_probes(session, &count);
	for (size_t i = 0; i < count; i++) {
		uint64_t hits = probes[i].hits - before[i];

		before[i] = probes[i].hits;
		on[i] = probe_session_is_selected(session, i) && hits <= limit;
		any |= on[i] != probe_session_is_selected(session, i);
		if (hits > limit)
			printf("%s:%s is out, after %" PRIu64 " hits\n", probes[i].provider,
				probes[i].name, probes[i].hits);
	}
	if (any)
		apply(session, on);
}

int main(int argc, char **argv)
{
	struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	struct probe_request request = {.pattern_count = 1, .keep_going = true};
	struct probe_report report = {0};
	struct probe_session *session;
	struct probe_pattern *pattern;
	struct probe_target *target;
	uint64_t *before;
	size_t count;
	bool *on;

	if (argc != 5) {
		fprintf(stderr, "usage: select PID PROBE LIMIT SECONDS\n");
		return 2;
	}
	check(probe_pattern_parse(argv[2], &pattern));
	request.patterns = (const struct probe_pattern **)&pattern;
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	check(probe_session_start(target, &request, &options, &report, &session));
	probe_report_deinit(&report);
	probe_session_probes(session, &count);
	before = calloc(count, sizeof(*before));
	on = calloc(count, sizeof(*on));
	if (!before || !on)
		return 1;
	for (int i = atoi(argv[4]); i > 0; i--)
		look(session, before, on, strtoull(argv[3], NULL, 10));
	for (size_t i = 0; i < count; i++)
		on[i] = true;
	apply(session, on);
	sleep(1);
	check(probe_session_stop(session));
	free(on);
	free(before);
	probe_session_free(session);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
