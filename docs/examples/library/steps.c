/* SPDX-License-Identifier: MIT */
/*
 * steps PID ON OFF: while the process stands still, one probe is switched on and another
 * off, if it was on, and the states are read: the process sees both changes or none. While another
 * controller changes the process, this one waits, for 10 seconds at most.
 */
#include <string.h>

#include <probe/pattern.h>
#include <probe/target.h>

#include "example.h"

static bool on_wait(pid_t pid, unsigned int seconds, const char *holder, void *data)
{
	(void)data;
	fprintf(stderr, "waiting for %s, which has locked process %d\n", holder, pid);
	return seconds < 10;
}

int main(int argc, char **argv)
{
	struct probe_report report = {0};
	struct probe_pattern *patterns[2];
	struct probe_target *target;
	struct probe_status *states;
	size_t count;

	if (argc < 4)
		return 2;
	for (int i = 0; i < 2; i++)
		check(probe_pattern_parse(argv[2 + i], &patterns[i]));
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	probe_target_on_wait(target, on_wait, NULL);
	check(probe_target_attach(target));
	for (int i = 0; i < 2; i++) {
		const struct probe_pattern *const one[] = {patterns[i]};
		const struct probe_request request = {
			.patterns = one, .pattern_count = 1, .keep_going = true};

		if (i == 0)
			check(probe_target_enable(target, &request, &report));
		else
			check(probe_target_disable(target, &request, &report));
		probe_report_deinit(&report);
	}
	check(probe_target_status(target, &states, &count));
	check(probe_target_release(target));
	for (size_t i = 0; i < count; i++)
		if (states[i].enabled)
			printf("%s:%s is on\n", states[i].provider, states[i].name);
	free(states);
	probe_target_close(target);
	probe_pattern_free(patterns[0]);
	probe_pattern_free(patterns[1]);
	return 0;
}
