/* SPDX-License-Identifier: MIT */
/* Probes that are on in files that have changed or can no longer be read: see recall.c. */
#ifndef LIBPROBE_REGISTRY_RECALL_H
#define LIBPROBE_REGISTRY_RECALL_H

#include "libprobe/process/modules.h"
#include "libprobe/registry/registry.h"
#include "probe/pattern.h"

/*
 * Discards the file of each module that contradicts the registry. A module without a file gets
 * notes of its probes in the registry, if their names are known; names that the patterns spell out
 * are tried, too. The probes of such a module can only be shown and switched off: their notes have
 * no arguments. Modules may be added, so pointers to them become invalid. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recall_probes(struct modules *modules, pid_t pid,
	const struct maps *maps, const struct registry *registry,
	const struct probe_pattern *const *patterns, size_t count);

#endif
