/* SPDX-License-Identifier: MIT */
/*
 * The tracer pmtrace: the data of Performance Co-Pilot's trace agent, by the tags of pmtrace(3).
 * Each kind of call has its own tracer, with probes of libprobe_pmtrace.
 */
#include <string.h>

#include "libprobe/session/session.h"

/* Without a prefix, pmtrace makes tables; with a prefix, it exports the data. */
static const char *const prefixes[] = {"", "pcp,", "metrics,"};
enum { PREFIXES = sizeof(prefixes) / sizeof(prefixes[0]) };
#define FORMS(tracer)                                                                              \
	{                                                                                          \
		tracer, "pcp," tracer, "metrics," tracer                                           \
	}

/* clang-format off */
static const struct {
	const char *forms[PREFIXES];
	struct probe_tracer_part part;
} parts[] = {
	{FORMS("transaction"), {.key = "str(arg0)", .match = "arg1",
		.probes = {"pmtrace:begin", "pmtrace:end", "pmtrace:abort"}, .probe_count = 3}},
	{FORMS("point"), {.key = "str(arg0)", .probes = {"pmtrace:point"}, .probe_count = 1}},
	{FORMS("observe,arg1"), {.key = "str(arg0)", .probes = {"pmtrace:obs"}, .probe_count = 1}},
	{FORMS("counter,arg1"), {.key = "str(arg0)", .probes = {"pmtrace:counter"}, .probe_count = 1}},
};
/* clang-format on */

bool probe_tracer_part(const char *text, size_t index, struct probe_tracer_part *ret)
{
	if (index >= sizeof(parts) / sizeof(parts[0]))
		return false;
	for (size_t i = 0; i < PREFIXES; i++) {
		size_t length = strlen(prefixes[i]);

		if (strncmp(text, prefixes[i], length) || strcmp(text + length, "pmtrace"))
			continue;
		*ret = parts[index].part;
		ret->tracer = parts[index].forms[i];
		return true;
	}
	return false;
}
