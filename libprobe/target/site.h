/* SPDX-License-Identifier: MIT */
/* What is at the sites that the registry says are patched. */
#ifndef LIBPROBE_TARGET_SITE_H
#define LIBPROBE_TARGET_SITE_H

#include "libprobe/process/edits.h"
#include "libprobe/target/change.h"

enum site_state {
	SITE_PATCHED,  /* by a controller: a jump of ours */
	SITE_COVERED,  /* the same, but for somebody's breakpoint on its first byte */
	SITE_ORIGINAL, /* the file's bytes: never patched, restored, or its library opened anew */
	SITE_FOREIGN,  /* something else */
	SITE_GONE      /* there is no memory, or another file's */
};

/*
 * `bytes` are what is there, site->length of them; NULL where there is no memory. Whose file
 * it is is not looked at.
 */
enum site_state site_state(
	const struct registry *registry, const struct reg_site *site, const uint8_t *bytes);

/*
 * Is each byte the file's or ours? A kernel uprobe that was written over a jump puts back the
 * first byte alone: what is left has no meaning, but to be restored, or patched, as a whole.
 */
bool site_is_mixed(const struct reg_site *site, const uint8_t *bytes);

/* Is the file that a site was patched in mapped there still, as far as that can be known? */
bool site_is_in_file(const struct modules *modules, const struct reg_site *site);

/*
 * Reads all sites of a registry: *ret is an array to be freed, beside registry->sites; what
 * is there stands in `edits`, in the same order. Errors: PROBE_ERROR_MEMORY, edits_read()'s.
 */
PROBE_MUST_CHECK struct probe_error *site_read_all(
	const struct registry *registry, pid_t pid, struct edits *edits, enum site_state **ret);

/* Does a session want the site to be patched? */
bool site_is_wanted(const struct registry *registry, const struct reg_site *site);

/* What is wrong with a site that is mapped; false: nothing, or it is not. */
bool site_fault(enum site_state state, enum probe_site_fault *ret);

/* How many sites of the registry are patched. */
size_t site_count_patched(const struct change *change);

/*
 * Takes out of the registry (in this process) what was in libraries that are
 * closed, or opened anew: nothing is written where they were. What others have written
 * over stays: their copy of our jump may come back.
 */
void site_forget_closed(struct change *change);

#endif
