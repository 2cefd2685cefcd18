/* SPDX-License-Identifier: MIT */
/* The two output formats of `probectl list`. */
#ifndef CLI_LIST_LISTING_H
#define CLI_LIST_LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "libprobe/base/error.h"
#include "probe/catalogue.h"
#include "probe/list.h"

/* A site to show, and the list that owns it. */
struct listed_site {
	struct probe_list *list;
	const struct probe_site *site;
	size_t module; /* the same for the sites of one file, or of one module of one process */
	size_t order;  /* among all */
};

struct listing {
	struct listed_site *items;
	size_t count;
	unsigned int details;			 /* 1: -v, 2: -vv */
	const struct probe_catalogue *catalogue; /* with details; else NULL */
	bool is_process;			 /* sites have a state */
	bool show_pid;				 /* of several processes */
};

/* The detail's function as it is shown, or NULL; the caller frees it. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *listing_function(
	const struct probe_site_detail *detail, char **ret);

/* Sorts the items: probes by name within each module, and one line for each. */
PROBE_MUST_CHECK struct probe_error *listing_print_text(struct listing *listing);
/* One object for each site, in the order in which they are. */
PROBE_MUST_CHECK struct probe_error *listing_print_json(const struct listing *listing);

#endif
