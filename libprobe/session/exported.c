/* SPDX-License-Identifier: MIT */
/*
 * pcp and metrics: what another tracer gathers, as metrics (probe/pcp.h, probe/metrics.h) instead
 * of a table. Its sessions are the other tracer's.
 */
#include <string.h>

#include "libprobe/session/session.h"

struct probe_error *tracer_exported_parse(struct probe_tracer_spec *spec)
{
	static char count[] = "count";
	char *comma;

	spec->exporter = spec->kind;
	spec->name = spec->operand ? spec->operand : count;
	comma = strchr(spec->name, ',');
	spec->operand = comma ? comma + 1 : NULL;
	if (comma)
		*comma = '\0';
	spec->kind = tracer_find(spec->name);
	if (!spec->kind || spec->kind->output == PROBE_TRACER_ROWS)
		return NULL;
	return probe_error_new(PROBE_ERROR_USAGE,
		"-t %s,%s: metrics need a tracer that gathers: -t %s,latency, or any other "
		"tracer that makes tables",
		spec->exporter->name, spec->name, spec->exporter->name);
}
