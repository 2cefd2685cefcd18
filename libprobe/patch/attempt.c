/* SPDX-License-Identifier: MIT */
#include "libprobe/patch/attempt.h"
#include "libprobe/patch/report.h"

struct attempt attempt_begin(const struct probe_target *target, struct probe_report *report)
{
	return (struct attempt){.target = target,
		.report = report,
		.lessons = target->lessons,
		.refusals = report->refusal_count};
}

bool attempt_again(struct attempt *attempt, struct probe_error **error)
{
	if (!*error || attempt->target->lessons == attempt->lessons)
		return false;
	attempt->lessons = attempt->target->lessons;
	probe_error_free(*error);
	*error = NULL;
	report_forget(attempt->report, attempt->refusals);
	return true;
}
