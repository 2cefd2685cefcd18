/* SPDX-License-Identifier: MIT */
/* Probes that are on in files that have changed, or can be read no more: see recall.c. */
#ifndef LIBPROBE_NAMES_RECALL_H
#define LIBPROBE_NAMES_RECALL_H

#include "libprobe/modules/modules.h"
#include "libprobe/target/registry.h"
#include "probe/pattern.h"

/*
 * Takes away the file of each module that does not agree with what the registry says of it, and
 * gives each module without a file notes of its probes that the registry has, as far as their names
 * are known; names that patterns spell out are tried, too. The probes of such a module can be shown
 * and switched off, and nothing else: their notes have no arguments. Modules may be added: pointers
 * to them become invalid. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *recall_probes(struct modules *modules, pid_t pid,
	const struct maps *maps, const struct registry *registry,
	const struct probe_pattern *const *patterns, size_t count);

#endif
