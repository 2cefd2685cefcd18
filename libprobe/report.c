/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "libprobe/report.h"

struct probe_error *report_refusal(struct probe_report *report, const struct select_probe *probe,
	const struct select_site *site)
{
	struct probe_refusal *refusals, *r;

	if (!report)
		return NULL;
	refusals = reallocarray(report->refusals, report->refusal_count + 1, sizeof(*refusals));
	if (!refusals)
		return probe_error_no_memory();
	report->refusals = refusals;
	r = &refusals[report->refusal_count];
	*r = (struct probe_refusal){.provider = strdup(probe->provider),
		.name = strdup(probe->name),
		.path = strdup(probe->module->path),
		.pc = site->pc,
		.reason = site->reason}; /* static text */
	report->refusal_count++;
	return r->provider && r->name && r->path ? NULL : probe_error_no_memory();
}

void probe_report_deinit(struct probe_report *report)
{
	for (size_t i = 0; i < report->refusal_count; i++) {
		free((char *)report->refusals[i].provider);
		free((char *)report->refusals[i].name);
		free((char *)report->refusals[i].path);
	}
	free(report->refusals);
	*report = (struct probe_report){0};
}
