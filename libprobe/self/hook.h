/* SPDX-License-Identifier: MIT */
/*
 * A pattern with functions connected to it, and the session in this process's registry whose
 * stubs call them.
 */
#ifndef LIBPROBE_SELF_HOOK_H
#define LIBPROBE_SELF_HOOK_H

#include "libprobe/query/query.h"
#include "libprobe/self/attach.h"
#include "libprobe/self/functions.h"
#include "libprobe/self/unwind.h"

/* A site, which stubs pass by address: it stays until no thread is in the stub. */
struct hook_site {
	struct hook *hook;
	uint64_t pc, key; /* see select_key() */
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
	int priority;		       /* of its functions */
	struct probe_pattern *pattern; /* NULL: of the loader (loader.c) */
	bool waits;		       /* it may match nothing yet */
	struct functions functions;
	struct hook_sites *sites;
	struct hook_counters counters;
	/* Unknown stubs may lead here, so it is never freed. */
	bool is_kept;
	struct hook *next_kept;
};

/*
 * arch_stub.call (hits.c): for a site (struct hook_site) that was hit. GENERAL_ONLY
 * (arch/general.h).
 */
void enter_called(const uint64_t *frame, uint64_t site);

/*
 * Creates a hook; patches nothing yet. Errors: PROBE_ERROR_USAGE (the pattern),
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *hook_create(const char *text, int priority, struct hook **ret);
/* Distinguishes this library's sessions from those of another copy of it in the program. */
uint64_t hook_caller(void);

/* Nothing may be patched any more, except by a controller that died. */
void hook_free(struct hook *hook);

/*
 * Patches the sites that its pattern matches and that are not patched yet. Errors:
 * PROBE_ERROR_NOT_FOUND (it matches none, none are patched, and it does not wait), those of
 * probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *hook_attach(
	struct hook *hook, bool keep_going, struct probe_report *report);

/*
 * Undoes hook_attach(). *gone_ret: no thread is or will get into the stubs; otherwise a later
 * call must check again.
 */
PROBE_MUST_CHECK struct probe_error *hook_detach(struct hook *hook, bool *gone_ret);

/* In a child that was just forked. */
void hook_after_fork(struct hook *hook);

#endif
