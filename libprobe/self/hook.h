/* SPDX-License-Identifier: MIT */
/*
 * A hook: a pattern, the functions connected to its probes, and a session in this process's
 * registry, whose stubs call them.
 */
#ifndef LIBPROBE_SELF_HOOK_H
#define LIBPROBE_SELF_HOOK_H

#include "libprobe/query/query.h"
#include "libprobe/self/attach.h"
#include "libprobe/self/functions.h"
#include "libprobe/self/unwind.h"

/* A site of a hook. Stubs pass its address, so it must exist while a thread may be in one. */
struct hook_site {
	struct hook *hook;
	uint64_t pc, key; /* address, and the probe's key (select_key()) */
	char *provider, *name, *path;
	struct record_layout layout;
	bool is_plain; /* see record_layout_is_plain() */
};

/* Sites that were patched together. */
struct hook_sites {
	struct hook_sites *next;
	struct hook_site *items;
	size_t count;
	const struct arch *arch;
	struct unwind *unwind;
};

struct hook {
	char *text;
	int priority;		       /* priority of the hook's functions */
	struct probe_pattern *pattern; /* NULL for the hook of the loader (loader.h) */
	bool waits;		       /* a library with the pattern's probes may be loaded later */
	struct functions functions;
	struct hook_sites *sites;
	struct hook_counters counters;
	/* A dead controller may have left stubs that lead here: the hook is never freed. */
	bool is_kept;
	struct hook *next_kept;
};

/*
 * Handles a hit, for stubs (arch_call); `site` is a struct hook_site's address. In hits.c.
 * GENERAL_ONLY (arch/general.h).
 */
void enter_called(const uint64_t *frame, uint64_t site);

/* Patches nothing yet. Errors: PROBE_ERROR_USAGE (bad pattern), PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *hook_create(const char *text, int priority, struct hook **ret);
/* Returns a number of this library: a program may contain another copy. */
uint64_t hook_caller(void);

/* Frees a hook whose sites are not patched any more, unless a controller has died. */
void hook_free(struct hook *hook);

/*
 * Patches the matching sites that are not patched yet. Errors: PROBE_ERROR_NOT_FOUND (no site
 * matches or was patched before, and no library is waited for), and those of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *hook_attach(
	struct hook *hook, bool keep_going, struct probe_report *report);

/* Undoes hook_attach(). *gone_ret: no thread is in, or can enter, the stubs. Else call it again. */
PROBE_MUST_CHECK struct probe_error *hook_detach(struct hook *hook, bool *gone_ret);

/* For a child that was just forked: the calls of the parent's other threads have ended. */
void hook_after_fork(struct hook *hook);

#endif
