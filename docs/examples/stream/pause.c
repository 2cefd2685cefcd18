/* SPDX-License-Identifier: MIT */
/*
 * pause PID PROBE: records hits only while a line on standard input was the last of
 * an odd number, and counts them: the switch of a session, which streams are made of.
 */
#include <stdbool.h>

#include <probe/pattern.h>
#include <probe/target.h>

#include "../library/example.h"

static bool count_hit(const struct probe_hit *hit, void *data)
{
	(void)hit;
	++*(unsigned long *)data;
	return true;
}

int main(int argc, char **argv)
{
	static const struct probe_session_options options = {
		.kind = PROBE_SESSION_RECORD, .switched = true};
	const struct probe_pattern *patterns[1];
	struct probe_request request = {.patterns = patterns, .pattern_count = 1};
	struct probe_report report = {0};
	struct probe_pattern *pattern;
	struct probe_session *session;
	struct probe_target *target;
	unsigned long hits = 0;
	char line[256];

	if (argc != 3) {
		fprintf(stderr, "usage: pause PID PROBE\n");
		return 2;
	}
	check(probe_pattern_parse(argv[2], &pattern));
	patterns[0] = pattern;
	check(probe_target_open((pid_t)atoi(argv[1]), NULL, &target));
	check(probe_session_start(target, &request, &options, &report, &session));
	puts("off");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		probe_session_switch(session, SIZE_MAX, !probe_session_is_on(session));
		/* Each probe has its own, too. */
		probe_session_switch(session, 0, true);
		puts(probe_session_is_on(session) ? "on" : "off");
		fflush(stdout);
	}
	check(probe_session_stop(session));
	check(probe_session_poll(session, count_hit, &hits, NULL));
	printf("%lu hits\n", hits);
	probe_session_free(session);
	probe_report_deinit(&report);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
