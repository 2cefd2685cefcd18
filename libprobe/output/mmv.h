/* SPDX-License-Identifier: MIT */
#pragma once

#include "libprobe/base/library.h"
#include "libprobe/output/output.h"

#ifdef PCP_BUILT
#include <pcp/pmapi.h>
/* These headers need those above. */
#include <pcp/mmv_stats.h>

#include <pcp/mmv_dev.h>

/* pmGetOptionalConfig() is libpcp's, which libpcp_mmv uses. */
/* clang-format off */
#define LIBPCP(X) \
	X(registry, mmv_stats_registry) X(add_indom, mmv_stats_add_indom) \
	X(add_metric, mmv_stats_add_metric) X(add_instance, mmv_stats_add_instance) \
	X(add_registry_label, mmv_stats_add_registry_label) \
	X(add_instance_label, mmv_stats_add_instance_label) X(start, mmv_stats_start) \
	X(free, mmv_stats_free) X(config, pmGetOptionalConfig)
/* clang-format on */

struct libpcp {
	LIBPCP(LIBRARY_MEMBER)
};

struct pcp_folder {
	struct libpcp libpcp;
	char *path;
	int fd, lock; /* descriptors of the folder and of the lock file in it, or -1 */
};

/* A dot before this prefix hides our files. */
#define PCP_PREFIX "probectl."

#endif
