/* SPDX-License-Identifier: MIT */
/* The two output formats of `probectl list`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "libprobe/base/error.h"
#include "probe/catalogue.h"
#include "probe/list.h"

/* A site to show, and the list that owns the site. */
struct listed_site {
	struct probe_list *list;
	const struct probe_site *site;
	/*
	 * Number of the module; all sites of one file, or of one module in one process, have the
	 * same.
	 */
	size_t module;
	size_t order; /* position among all sites of the list */
};

struct listing {
	struct listed_site *items;
	size_t count;
	unsigned int details; /* level of detail: 1 for -v, 2 for -vv */
	/* Catalogue of known probes, or NULL if `details` is 0. */
	const struct probe_catalogue *catalogue;
	bool is_process; /* the sites are in processes and have a state */
	bool show_pid;	 /* the sites are in several processes */
	bool functions;	 /* the sites are entries and exits of functions: a row for each function */
};

/* Sets *ret to the name of the site's function, or NULL. The caller frees it. */
PROBE_MUST_CHECK struct probe_error *listing_function(
	const struct probe_site_detail *detail, char **ret);

/* Sorts the items: by module, then by the name of the probe. Prints one line for each probe. */
PROBE_MUST_CHECK struct probe_error *listing_print_text(struct listing *listing);
/* Prints one JSON object for each site, without changing the order of the items. */
PROBE_MUST_CHECK struct probe_error *listing_print_json(const struct listing *listing);
