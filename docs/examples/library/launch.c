/* SPDX-License-Identifier: MIT */
/*
 * launch PROGRAM [ARG...]: starts a program with all of its probes on before any code of
 * it runs, and says how often each was hit. Without the two lines that enable, it is a
 * way to start a program stopped, and to let it go.
 */
#include <sys/pidfd.h>
#include <sys/wait.h>

#include <probe/pattern.h>
#include <probe/target.h>

#include "example.h"

int main(int argc, char **argv)
{
	const struct probe_session_options options = {.kind = PROBE_SESSION_COUNT};
	const struct probe_session_probe *probes;
	struct probe_report report = {0};
	struct probe_session *session;
	struct probe_pattern *all;
	struct probe_target *target;
	char text[PROBE_COVERAGE_BYTES];
	struct probe_coverage coverage = {0};
	struct probe_fate fate;
	size_t count;
	int status, pidfd;

	if (argc < 2)
		return 2;
	check(probe_pattern_parse("*:*", &all));
	check(probe_target_spawn(argv + 1, &target));
	{
		const struct probe_pattern *const patterns[] = {all};
		const struct probe_request request = {.patterns = patterns, .pattern_count = 1};

		check(probe_session_start(target, &request, &options, &report, &session));
		probe_report_deinit(&report);
	}
	pidfd = pidfd_open(probe_target_pid(target), 0);
	check(probe_target_release(target));
	waitpid(probe_target_pid(target), &status, 0);
	probe_target_fate(target, pidfd, &fate);
	if (fate.out_of_memory)
		fprintf(stderr, "its control group ran out of memory\n");
	/* The counts are in memory that we share with it, and outlive it. */
	check(probe_session_stop(session));
	probes = probe_session_probes(session, &count);
	for (size_t i = 0; i < count; i++) {
		probe_coverage_add(&coverage, &probes[i].coverage);
		if (probe_coverage_is_none(&probes[i].coverage)) /* unknown, not 0 */
			printf("%s:%s -\n", probes[i].provider, probes[i].name);
		else
			printf("%s:%s %llu\n", probes[i].provider, probes[i].name,
				(unsigned long long)probes[i].hits);
	}
	probe_coverage_text(text, &coverage);
	if (text[0])
		fprintf(stderr, "%s\n", text);
	probe_session_free(session);
	probe_target_close(target);
	probe_pattern_free(all);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
