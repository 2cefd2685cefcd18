/* SPDX-License-Identifier: MIT */
/*
 * launch PROGRAM [ARG...]: starts a program with all of its probes on before any code of
 * it runs, and says how often each was hit. Without the two lines that enable, it is a
 * way to start a program stopped, and to let it go.
 */
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
	size_t count;
	int status;

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
	check(probe_target_release(target));
	waitpid(probe_target_pid(target), &status, 0);
	/* The counts are in memory that we share with it, and outlive it. */
	check(probe_session_stop(session));
	probes = probe_session_probes(session, &count);
	for (size_t i = 0; i < count; i++)
		printf("%s:%s %llu\n", probes[i].provider, probes[i].name,
			(unsigned long long)probes[i].hits);
	probe_session_free(session);
	probe_target_close(target);
	probe_pattern_free(all);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
