/* SPDX-License-Identifier: MIT */
/*
 * metrics PID PROBE SECONDS: the hits of a process as metrics of Performance Co-Pilot,
 * brought up to date every second: see them with `pminfo -f mmv.probectl`.
 */
#include <unistd.h>

#include <probe/pattern.h>
#include <probe/pcp.h>
#include <probe/table.h>
#include <probe/target.h>

#include "example.h"

int main(int argc, char **argv)
{
	static const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	static const struct probe_view view = {.tracer = "count", .columns = PROBE_COLUMN_COUNT};
	struct probe_report report = {0};
	struct probe_session *session;
	struct probe_pattern *pattern;
	struct probe_target *target;
	struct probe_pcp *pcp;

	if (argc < 4)
		return 2;
	check(probe_pcp_open(&view, 0, &pcp));
	check(probe_pattern_parse(argv[2], &pattern));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	{
		const struct probe_pattern *const patterns[] = {pattern};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		check(probe_session_start(target, &request, &options, &report, &session));
		probe_report_deinit(&report);
	}
	for (int i = 0; i < atoi(argv[3]); i++) {
		struct probe_table *table = NULL;

		check(probe_table_create(0, &table));
		check(probe_table_add(table, session, &options));
		check(probe_pcp_add(pcp, probe_target_pid(target), NULL, table));
		check(probe_pcp_update(pcp));
		printf("%s, %zu left out\n", probe_pcp_name(pcp), probe_pcp_left_out(pcp));
		fflush(stdout);
		/* Between two updates, readers see newer counts. */
		for (int k = 0; k < 10; k++) {
			usleep(100000);
			check(probe_table_create(0, &table));
			check(probe_table_add(table, session, &options));
			check(probe_pcp_renew(pcp, probe_target_pid(target), NULL, table));
		}
	}
	check(probe_session_stop(session));
	probe_session_free(session);
	probe_pcp_end(pcp, probe_target_pid(target));
	probe_pcp_close(pcp);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
