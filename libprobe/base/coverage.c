/* SPDX-License-Identifier: MIT */
/* Adds up the sites of a probe that are not counted, and describes them in words. */
#include <stdio.h>
#include <string.h>

#include "probe/hit.h"

void probe_coverage_add(struct probe_coverage *sum, const struct probe_coverage *more)
{
	sum->sites += more->sites;
	sum->refused += more->refused;
	sum->overwritten += more->overwritten;
}

bool probe_coverage_is_none(const struct probe_coverage *coverage)
{
	return coverage->sites && coverage->refused >= coverage->sites;
}

/* Appends a share such as "1 of 3 sites refused", or "refused" for a probe with one site. */
static void add_share(char text[PROBE_COVERAGE_BYTES], size_t count, size_t sites, const char *what)
{
	size_t length = strlen(text);

	if (!count)
		return;
	text += length;
	if (sites == 1)
		snprintf(text, PROBE_COVERAGE_BYTES - length, "%s%s", length ? ", " : "", what);
	else
		snprintf(text, PROBE_COVERAGE_BYTES - length, "%s%zu of %zu sites %s",
			length ? ", " : "", count, sites, what);
}

void probe_coverage_text(char text[PROBE_COVERAGE_BYTES], const struct probe_coverage *coverage)
{
	text[0] = '\0';
	add_share(text, coverage->refused, coverage->sites, "refused");
	add_share(text, coverage->overwritten, coverage->sites, "overwritten");
}
