/* SPDX-License-Identifier: MIT */
/* What enabling a site would come to in a process, without doing it. */
#ifndef LIBPROBE_STATUS_FORECAST_H
#define LIBPROBE_STATUS_FORECAST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/list.h"

struct forecast_site {
	uint64_t pc; /* run-time */
	enum probe_plan plan;
	char *reason; /* where it would be refused, else NULL; owned */
};

/* Of one process. Initialise with {0}. */
struct forecast {
	struct forecast_site *sites; /* sorted by pc */
	size_t count;
	char *reason; /* why nothing can be patched there; NULL: see the sites */
};

/*
 * Plans all sites of a process, each as if it were enabled alone; those that are on have the plan
 * that they have. Stops nothing. A process that we may not read, or that has ended, has no sites.
 * Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM.
 */
PROBE_MUST_CHECK struct probe_error *forecast_read(pid_t pid, struct forecast *ret);
void forecast_deinit(struct forecast *forecast);

/* The site at an address; NULL: nothing is known of it. */
const struct forecast_site *forecast_find(const struct forecast *forecast, uint64_t pc);

#endif
