/* SPDX-License-Identifier: MIT */
/* What is at the sites that the registry says are patched. */
#ifndef LIBPROBE_SITE_H
#define LIBPROBE_SITE_H

#include "libprobe/change.h"

enum site_state {
	SITE_PATCHED,  /* by a controller: a jump of ours, perhaps under a debugger's breakpoint */
	SITE_ORIGINAL, /* never patched, restored, or its library was opened anew */
	SITE_FOREIGN   /* gone, or changed by somebody else */
};

/* `bytes` are what is there, site->length of them; NULL where there is no memory. */
enum site_state site_state(
	const struct registry *registry, const struct reg_site *site, const uint8_t *bytes);

/* How many sites of the registry are patched. */
size_t site_count_patched(const struct change *change);

/*
 * Takes out of the registry (in this process) what was in libraries that are
 * closed, or opened anew: nothing is written where they were.
 */
void site_forget_closed(struct change *change);

#endif
