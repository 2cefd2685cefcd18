/* SPDX-License-Identifier: MIT */
/*
 * A hook: a pattern with the functions connected to it, and the session in this process's registry
 * whose stubs call them.
 */
#ifndef LIBPROBE_SELF_HOOK_H
#define LIBPROBE_SELF_HOOK_H

#include "libprobe/query/query.h"
#include "libprobe/self/attach.h"
#include "libprobe/self/functions.h"
#include "libprobe/self/unwind.h"

/* A site. Stubs pass its address, so it must exist until no thread is in the stub. */
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
	bool waits;		       /* the pattern may match no probe yet */
	struct functions functions;
	struct hook_sites *sites;
	struct hook_counters counters;
	/* Stubs left by a dead controller may lead here, so the hook is never freed. */
	bool is_kept;
	struct hook *next_kept;
};

/*
 * Handles a hit of a site (struct hook_site); stubs call it (arch_stub.call). In hits.c.
 * GENERAL_ONLY (arch/general.h).
 */
void enter_called(const uint64_t *frame, uint64_t site);

/* Creates a hook, without patching. Errors: PROBE_ERROR_USAGE (bad pattern), PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *hook_create(const char *text, int priority, struct hook **ret);
/* Distinguishes this library's sessions from those of another copy of the library. */
uint64_t hook_caller(void);

/* Frees a hook. Its sites must not be patched any more, except by a controller that died. */
void hook_free(struct hook *hook);

/*
 * Patches the sites that the hook's pattern matches and that are not patched yet. Errors:
 * PROBE_ERROR_NOT_FOUND (the pattern matches no site, no site is patched, and the hook does not
 * wait), those of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *hook_attach(
	struct hook *hook, bool keep_going, struct probe_report *report);

/*
 * Undoes hook_attach(). *gone_ret is true if no thread is in the stubs or can still enter them;
 * otherwise a later call must check again.
 */
PROBE_MUST_CHECK struct probe_error *hook_detach(struct hook *hook, bool *gone_ret);

/* Call this in a child that was just forked. */
void hook_after_fork(struct hook *hook);

#endif
