/* SPDX-License-Identifier: MIT */
/* What enabling a site would come to, without doing it: in a process, or as far as a file says. */
#ifndef LIBPROBE_PATCH_FORECAST_H
#define LIBPROBE_PATCH_FORECAST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "elf/object.h"
#include "elf/sdt.h"
#include "probe/list.h"

struct forecast_site {
	uint64_t pc; /* run-time; of a file, link-time */
	enum probe_plan plan;
	bool is_shared; /* its jump is that of its neighbours, too */
	char *reason;	/* where it would be refused, else NULL; owned */
	char *instead;	/* why no plan is possible that is preferred to this one, or NULL; owned */
	/* What it gets if all sites of the file, or of the process, are enabled, and why. */
	enum probe_plan together;
	char *together_reason; /* NULL if that is the same plan; owned */
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
/*
 * The same of the sites of a file: without regard to what a process has mapped. Errors:
 * PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM, PROBE_ERROR_UNSUPPORTED (it can only be listed).
 */
PROBE_MUST_CHECK struct probe_error *forecast_file(
	struct object *object, const struct sdt_notes *notes, struct forecast *ret);
void forecast_deinit(struct forecast *forecast);

/* The site at an address; NULL: nothing is known of it. */
const struct forecast_site *forecast_find(const struct forecast *forecast, uint64_t pc);

#endif
