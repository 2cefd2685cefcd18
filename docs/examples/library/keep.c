/* SPDX-License-Identifier: MIT */
/*
 * keep PID PROBE EXPR [SECONDS]: leaves a session in a process that adds up the values of
 * an expression, forgets it, and reads it later as any other program can, which has to
 * know what the session was started with. Then it ends it.
 */
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/target.h>

#include "example.h"

/* *options is then what the session is to be opened with, also where the catalogue is another. */
static uint32_t leave(struct probe_target *target, const struct probe_request *request,
	struct probe_session_options *options, char **value_ret)
{
	struct probe_report report = {0};
	struct probe_session *session;
	struct probe_kept *kept;
	uint32_t id = 0;
	size_t count;

	check(probe_session_start(target, request, options, &report, &session));
	probe_report_deinit(&report);
	check(probe_session_plain(session, options));
	*value_ret = strdup(options->gather.value);
	options->gather.value = *value_ret;
	check(probe_session_leave(session, "the sum of an example"));
	probe_session_free(session);
	check(probe_target_kept(target, &kept, &count));
	for (size_t i = 0; i < count; i++)
		if (kept[i].text && strcmp(kept[i].text, "the sum of an example") == 0)
			id = kept[i].id;
	free(kept);
	return id;
}

int main(int argc, char **argv)
{
	struct probe_session_options options = {
		.kind = PROBE_SESSION_GATHER, .gather = {.sum = true}};
	struct probe_session *session;
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct probe_row *rows;
	char *value;
	size_t count;
	uint32_t id;

	if (argc < 4)
		return 2;
	options.gather.value = argv[3];
	check(probe_pattern_parse(argv[2], &pattern));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		id = leave(target, &request, &options, &value);
		sleep(argc > 4 ? (unsigned int)atoi(argv[4]) : 1);
		check(probe_session_open(target, id, &request, &options, &session));
	}
	check(probe_session_rows(session, &rows, &count));
	for (size_t i = 0; i < count; i++)
		printf("%llu hits, sum %.0Lf\n", (unsigned long long)rows[i].count, rows[i].sum);
	free(rows);
	probe_session_free(session);
	check(probe_target_end(target, id));
	free(value);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
