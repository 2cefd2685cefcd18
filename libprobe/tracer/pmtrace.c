/* SPDX-License-Identifier: MIT */
/*
 * pmtrace: what Performance Co-Pilot's trace agent gathers, by the tags of pmtrace(3). Each kind of
 * call has a tracer of its own, with the probes of libprobe_pmtrace.
 */
#include <string.h>

#include "libprobe/tracer/tracer.h"

#define EXPORTED "pcp,"

/* clang-format off */
static const struct probe_tracer_part parts[] = {
	{.tracer = EXPORTED "transaction", .key = "str(arg0)", .match = "arg1",
		.probes = {"pmtrace:begin", "pmtrace:end", "pmtrace:abort"}, .probe_count = 3},
	{.tracer = EXPORTED "point", .key = "str(arg0)",
		.probes = {"pmtrace:point"}, .probe_count = 1},
	{.tracer = EXPORTED "observe,arg1", .key = "str(arg0)",
		.probes = {"pmtrace:obs"}, .probe_count = 1},
	{.tracer = EXPORTED "counter,arg1", .key = "str(arg0)",
		.probes = {"pmtrace:counter"}, .probe_count = 1},
};
/* clang-format on */

bool probe_tracer_part(const char *text, size_t index, struct probe_tracer_part *ret)
{
	size_t exported = strlen(EXPORTED);
	bool is_exported = strncmp(text, EXPORTED, exported) == 0;

	if (strcmp(is_exported ? text + exported : text, "pmtrace") != 0 ||
		index >= sizeof(parts) / sizeof(parts[0]))
		return false;
	*ret = parts[index];
	if (!is_exported)
		ret->tracer += exported;
	return true;
}
