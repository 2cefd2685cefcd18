/* SPDX-License-Identifier: MIT */
/* Probes that are on in files that can be read no more: see recall.c. */
#ifndef LIBPROBE_NAMES_RECALL_H
#define LIBPROBE_NAMES_RECALL_H

#include "libprobe/modules/modules.h"
#include "libprobe/target/registry.h"
#include "probe/pattern.h"

/*
 * Gives each module that could not be opened notes of its probes that the registry has, as far as
 * their names can be told; the names that patterns spell out are tried as well. Such a module has
 * no object: its probes can be shown and switched off, and nothing else. Errors:
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recall_probes(struct modules *modules,
	const struct registry *registry, const struct probe_pattern *const *patterns, size_t count);

#endif
