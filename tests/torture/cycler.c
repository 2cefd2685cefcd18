/* SPDX-License-Identifier: MIT */
/*
 * Enables and disables probes repeatedly through the library, which needs no process per
 * command, so many cycles take little time.
 *
 *	cycler PID CYCLES PROBE...
 *
 * Prints "cycles N failed F sites S longest U us": how many sites the last cycle switched, and
 * the longest stop. Status 1, with a message, if the target ends. SIGTERM ends it early.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/target.h"

enum { PROBES_MAX = 16 };

static volatile sig_atomic_t stopping;

static void on_term(int number)
{
	stopping = number;
}

struct cycler {
	pid_t pid;
	const struct probe_pattern *patterns[PROBES_MAX];
	struct probe_request request;
	unsigned long failed;
	size_t sites;
	uint64_t longest_ns;
};

typedef struct probe_error *switch_fn(struct probe_target *target,
	const struct probe_request *request, struct probe_report *report);

/* False if the target has ended. */
static bool switch_probes(struct cycler *c, struct probe_target *target, switch_fn *how)
{
	struct probe_report report = {0};
	struct probe_error *error = how(target, &c->request, &report);

	if (error && c->failed++ < 3)
		fprintf(stderr, "cycler: %s\n", error->message);
	if (!error && report.sites)
		c->sites = report.sites;
	if (report.stop_ns > c->longest_ns)
		c->longest_ns = report.stop_ns;
	probe_error_free(error);
	probe_report_deinit(&report);
	return probe_target_alive(target);
}

static bool cycle(struct cycler *c)
{
	struct probe_target *target;
	struct probe_error *error = probe_target_open(c->pid, NULL, &target);
	bool alive = !error;

	if (error)
		fprintf(stderr, "cycler: %s\n", error->message);
	alive = alive && switch_probes(c, target, probe_target_enable) &&
		switch_probes(c, target, probe_target_disable);
	probe_error_free(error);
	if (!error)
		probe_target_close(target);
	return alive;
}

int main(int argc, char **argv)
{
	struct cycler c = {.pid = argc > 1 ? atoi(argv[1]) : 0};
	unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 0) : 0, done = 0;

	for (int i = 3; i < argc && i < 3 + PROBES_MAX; i++) {
		struct probe_pattern *pattern;
		struct probe_error *error = probe_pattern_parse(argv[i], &pattern);

		if (error) {
			fprintf(stderr, "cycler: %s\n", error->message);
			return 2;
		}
		c.patterns[c.request.pattern_count++] = pattern;
	}
	if (!c.pid || !c.request.pattern_count)
		return 2;
	c.request.patterns = c.patterns;
	c.request.keep_going = true;
	signal(SIGTERM, on_term);
	while (done < count && !stopping && cycle(&c))
		done++;
	printf("cycles %lu failed %lu sites %zu longest %lu us\n", done, c.failed, c.sites,
		(unsigned long)(c.longest_ns / 1000));
	return done < count && !stopping;
}
