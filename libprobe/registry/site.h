/* SPDX-License-Identifier: MIT */
/* What is at the sites that the registry says are patched. */
#ifndef LIBPROBE_REGISTRY_SITE_H
#define LIBPROBE_REGISTRY_SITE_H

#include "libprobe/process/edits.h"
#include "libprobe/registry/change.h"

enum site_state {
	SITE_PATCHED,  /* by a controller: a jump of ours */
	SITE_COVERED,  /* the same, except for a breakpoint on its first byte */
	SITE_ORIGINAL, /* the file's bytes: never patched, restored, or its library opened again */
	SITE_FOREIGN,  /* something else */
	SITE_GONE      /* there is no memory, or another file's */
};

/*
 * `bytes` are the site->length bytes found there; NULL: there is no memory. Does not check the
 * file.
 */
enum site_state site_state(
	const struct registry *registry, const struct reg_site *site, const uint8_t *bytes);

/*
 * Is each byte either the file's or ours? When a kernel uprobe that was written over a jump is
 * removed, it puts back only the first byte. Such a mixture makes no sense as code; it is restored,
 * or patched, as a whole.
 */
bool site_is_mixed(const struct reg_site *site, const uint8_t *bytes);

/* As far as can be known, is the file in which the site was patched still mapped there? */
bool site_is_in_file(const struct modules *modules, const struct reg_site *site);

/*
 * Reads all sites of a registry: *ret is an array to be freed, beside registry->sites; `edits` has
 * what is there, in the same order. Errors: PROBE_ERROR_MEMORY, edits_read()'s.
 */
PROBE_MUST_CHECK struct probe_error *site_read_all(
	const struct registry *registry, pid_t pid, struct edits *edits, enum site_state **ret);

/* Does a session want the site to be patched? */
bool site_is_wanted(const struct registry *registry, const struct reg_site *site);

/*
 * Is nothing switched on at a site that is only a link in the chain of its neighbours? Each site
 * that shares their jump is in that chain.
 */
bool site_is_bare(const struct registry *registry, const struct reg_site *site);

/* The index of the first site that is patched by the same jump as this one; may be its own. */
size_t site_leader(const struct registry *registry, size_t site);

/* Is its entry a link of a chain: of neighbours, or after a hop? */
bool site_is_chained(const struct reg_site *site);

/* Does the short jump of a site lead to a jump of ours? */
bool site_has_hop(const struct reg_site *site, pid_t pid);

/*
 * Writes the jump for the entry of a site, to `to`. Returns its length, or 0 if that is out of
 * reach. `out` has room for ARCH_JUMP_MAX bytes.
 */
size_t site_entry_jump(const struct reg_site *site, uint64_t to, uint8_t *out);

/* What is wrong with a site that is mapped; false: nothing, or it is not. */
bool site_fault(enum site_state state, enum probe_site_fault *ret);

/*
 * Compares two processes wherever one's registry says that a jump leads to a probe's stub, or from
 * it to the next one: *ret is true if both have the same bytes. Gates are not compared. Errors:
 * PROBE_ERROR_MEMORY, and those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *site_all_alike(
	const struct registry *registry, pid_t pid, pid_t other, bool *ret);

/* How many sites of the registry are patched. */
size_t site_count_patched(const struct change *change);

/*
 * Removes from the registry (in this process) sites of libraries that were closed, or closed and
 * opened again, and sites that a forked child knows from its parent but that were never patched in
 * it; nothing is written there. Sites that others have overwritten stay: their copy of our jump may
 * come back.
 */
void site_forget_closed(struct change *change);

#endif
