/* SPDX-License-Identifier: MIT */
#include "libprobe/patch/patch.h"

struct attempt attempt_begin(const struct probe_target *target, struct probe_report *report)
{
	return (struct attempt){.target = target,
		.report = report,
		.lessons = target->lessons,
		.refusals = report->refusal_count};
}

bool attempt_next(struct attempt *attempt)
{
	bool learned = attempt->target->lessons != attempt->lessons;

	if (attempt->is_made && (!attempt->error || !learned))
		return false;
	attempt->is_made = true;
	attempt->lessons = attempt->target->lessons;
	probe_error_free(attempt->error);
	attempt->error = NULL;
	report_forget(attempt->report, attempt->refusals);
	return true;
}
