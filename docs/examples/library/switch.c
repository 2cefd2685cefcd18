/* SPDX-License-Identifier: MIT */
/*
 * switch PID START END [PLAN]: enables a pair of probes, ends first; one more reference for the
 * end; the start in place of the end, in one call; and takes all of it back. Then it enables all
 * probes whose names are short, with a PLAN in that way only, and disables them.
 */
#include <stdbool.h>
#include <string.h>

#include <probe/list.h>
#include <probe/pattern.h>
#include <probe/target.h>

#include "example.h"

static void print_report(const char *what, struct probe_report *report)
{
	printf("%s: %zu probe%s, %zu site%s\n", what, report->probes,
		report->probes == 1 ? "" : "s", report->sites, report->sites == 1 ? "" : "s");
	for (size_t i = 0; i < report->refusal_count; i++)
		printf("not %s:%s: %s\n", report->refusals[i].provider, report->refusals[i].name,
			report->refusals[i].reason);
	probe_report_deinit(report);
}

static void enable(
	struct probe_target *target, const struct probe_request *request, const char *what)
{
	struct probe_report report = {0};

	check(probe_target_enable(target, request, &report));
	print_report(what, &report);
}

static void disable(
	struct probe_target *target, const struct probe_request *request, const char *what)
{
	struct probe_report report = {0};

	check(probe_target_disable(target, request, &report));
	print_report(what, &report);
}

/* Both changes are made while the process stands still, or neither is. */
static void exchange(struct probe_target *target, const struct probe_pattern *off,
	const struct probe_pattern *on, const char *what)
{
	const struct probe_action actions[] = {
		{.disable = true, .pattern = off},
		{.disable = false, .pattern = on},
	};
	const struct probe_request request = {.atomic = true};
	struct probe_report report = {0};

	check(probe_target_switch(target, actions, 2, &request, &report));
	print_report(what, &report);
}

static bool is_short(const char *path, const char *provider, const char *name, void *data)
{
	(void)path;
	(void)provider;
	return strlen(name) <= *(const size_t *)data;
}

int main(int argc, char **argv)
{
	enum probe_plan plan =
		argc > 4 ? probe_plan_named(argv[4], strlen(argv[4])) : PROBE_PLAN_NONE;
	struct probe_pattern *pair[2], *all;
	struct probe_target *target;
	size_t length = 9;

	if (argc < 4 || (argc > 4 && !plan))
		return 2;
	check(probe_target_open(atoi(argv[1]), NULL, &target));
	for (int i = 0; i < 2; i++)
		check(probe_pattern_parse(argv[2 + i], &pair[i]));
	{
		const struct probe_pattern *const both[] = {pair[0], pair[1]};
		const struct probe_pattern *const end[] = {pair[1]};
		const struct probe_request of_pair = {.patterns = both,
						   .pattern_count = 2,
						   .pairs = true,
						   .atomic = true},
					   of_end = {.patterns = end, .pattern_count = 1},
					   by_force = {.patterns = both,
						   .pattern_count = 2,
						   .force = true};

		enable(target, &of_pair, "the pair is on");
		enable(target, &of_end, "the end is on twice");
		disable(target, &of_pair, "the start is off");
		exchange(target, pair[1], pair[0], "the start is on, the end off");
		disable(target, &by_force, "both are off, however often they were on");
	}
	check(probe_pattern_predicate("short names", is_short, &length, &all));
	{
		const struct probe_pattern *const patterns[] = {all};
		const struct probe_request request = {.patterns = patterns,
			.pattern_count = 1,
			.plans = plan ? &plan : NULL,
			.plan_count = plan ? 1 : 0,
			.keep_going = true};

		enable(target, &request, probe_pattern_text(all));
		disable(target, &request, probe_pattern_text(all));
	}
	probe_pattern_free(all);
	probe_pattern_free(pair[0]);
	probe_pattern_free(pair[1]);
	probe_target_close(target);
	return 0;
}
