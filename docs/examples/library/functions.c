/* SPDX-License-Identifier: MIT */
/*
 * functions PID PATTERN: the functions of a process that a pattern such as fn:libc:open* names, and
 * how long their calls take, in two seconds.
 */
#include <unistd.h>

#include <probe/list.h>
#include <probe/pattern.h>
#include <probe/table.h>
#include <probe/target.h>

#include "example.h"

int main(int argc, char **argv)
{
	struct probe_session_options options = {.kind = PROBE_SESSION_GATHER,
		.gather = {.pairing = PROBE_PAIRING_NAMES, .sum = true}};
	struct probe_request request = {.pattern_count = 1, .keep_going = true};
	const struct probe_table_row *rows;
	const struct probe_site *sites;
	struct probe_report report = {0};
	struct probe_pattern *pattern;
	struct probe_session *session;
	struct probe_target *target;
	struct probe_table *table;
	struct probe_list *list;
	size_t count;

	if (argc != 3)
		return 2;
	check(probe_pattern_parse(argv[2], &pattern));
	request.patterns = (const struct probe_pattern *const *)&pattern;

	check(probe_list_create(&list));
	probe_list_functions(list, request.patterns, request.pattern_count);
	check(probe_list_add_process(list, atoi(argv[1])));
	sites = probe_list_sites(list, &count);
	for (size_t i = 0; i < count; i++)
		if (probe_pattern_matches(pattern, sites[i].path, sites[i].provider, sites[i].name))
			printf("%s:%s at %#llx\n", sites[i].provider, sites[i].name,
				(unsigned long long)sites[i].pc);
	probe_list_free(list);

	/* From now on the pattern means the exits, too: a call is a pair. */
	if (!probe_pattern_pair(pattern)) {
		fprintf(stderr, "%s names no entries of functions\n", argv[2]);
		return 2;
	}
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	check(probe_session_start(target, &request, &options, &report, &session));
	probe_report_deinit(&report);
	sleep(2);
	check(probe_session_stop(session));
	check(probe_table_create(0, &table));
	check(probe_table_add(table, session, &options));
	rows = probe_table_rows(table, &count);
	for (size_t i = 0; i < count; i++)
		printf("%s:%s: %llu calls, %.0f ns each\n", rows[i].provider, rows[i].name,
			(unsigned long long)rows[i].row.count,
			rows[i].row.count ? (double)rows[i].row.sum / (double)rows[i].row.count
					  : 0);
	probe_table_free(table);
	probe_session_free(session);
	probe_target_close(target);
	probe_pattern_free(pattern);
	return 0;
}
