/* SPDX-License-Identifier: MIT */
#pragma once

#include "libprobe/output/output.h"

#ifdef PCP_BUILT
#include <pcp/pmapi.h>
/* These headers need those above. */
#include <pcp/mmv_stats.h>

#include <pcp/mmv_dev.h>

struct libpcp {
	typeof(mmv_stats_registry) *registry;
	typeof(mmv_stats_add_indom) *add_indom;
	typeof(mmv_stats_add_metric) *add_metric;
	typeof(mmv_stats_add_instance) *add_instance;
	typeof(mmv_stats_add_registry_label) *add_registry_label;
	typeof(mmv_stats_add_instance_label) *add_instance_label;
	typeof(mmv_stats_start) *start;
	typeof(mmv_stats_free) *free;
	typeof(pmGetOptionalConfig) *config;
};

struct pcp_folder {
	struct libpcp libpcp;
	char *path;
	int fd, lock; /* descriptors of the folder and of the lock file in it, or -1 */
};

/* A dot before this prefix hides our files. */
#define PCP_PREFIX "probectl."

#endif
