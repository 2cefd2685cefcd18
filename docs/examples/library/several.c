/* SPDX-License-Identifier: MIT */
/*
 * several PROBE PID...: enables a probe in several processes. A process that another controller
 * has locked comes last, when the probe is on in all others.
 */
#include <stdbool.h>

#include <probe/pattern.h>
#include <probe/target.h>

#include "example.h"

/* Enables the probe in a process. Returns false if another process has locked it. */
static bool enable(pid_t pid, const struct probe_pattern *pattern, struct probe_patience *patience)
{
	const struct probe_pattern *const patterns[] = {pattern};
	const struct probe_request request = {.patterns = patterns, .pattern_count = 1};
	struct probe_report report = {0};
	struct probe_target *target;
	struct probe_error *error;
	bool is_busy;

	check(probe_target_open(pid, NULL, &target));
	if (probe_target_frozen(target))
		printf("%d is frozen\n", (int)pid);
	probe_target_set_patience(target, patience);
	error = probe_target_enable(target, &request, &report);
	is_busy = error && error->code == PROBE_ERROR_BUSY;
	if (!error)
		printf("%d: %zu sites\n", (int)pid, report.sites);
	else
		fprintf(stderr, "%s\n", error->message);
	probe_error_free(error);
	probe_report_deinit(&report);
	probe_target_close(target);
	return !is_busy;
}

int main(int argc, char **argv)
{
	struct probe_patience patience = {0};
	struct probe_pattern *pattern;
	bool any_busy;

	if (argc < 3)
		return 2;
	check(probe_pattern_parse(argv[1], &pattern));
	do {
		any_busy = false;
		for (int i = 2; i < argc; i++) {
			if (!argv[i])
				continue;
			if (enable(atoi(argv[i]), pattern, &patience))
				argv[i] = NULL;
			else
				any_busy = true;
		}
	} while (any_busy && probe_patience_wait(&patience));
	probe_pattern_free(pattern);
	return any_busy;
}
