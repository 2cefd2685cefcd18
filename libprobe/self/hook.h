/* SPDX-License-Identifier: MIT */
/*
 * A hook consists of a pattern, the functions that are connected to the pattern's probes, and a
 * session in this process's registry. The stubs of the session call the functions.
 */
#ifndef LIBPROBE_SELF_HOOK_H
#define LIBPROBE_SELF_HOOK_H

#include "libprobe/query/query.h"
#include "libprobe/self/attach.h"
#include "libprobe/self/functions.h"
#include "libprobe/self/unwind.h"

/*
 * A site of a hook. The stub passes the address of this struct, so the struct must exist as long as
 * a thread may be in the stub.
 */
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
	/*
	 * A controller that died may have left stubs that lead to this hook, so the hook is never
	 * freed.
	 */
	bool is_kept;
	struct hook *next_kept;
};

/*
 * Handles a hit. Stubs call it (arch_stub.call). `site` is the address of a struct hook_site.
 * Defined in hits.c. GENERAL_ONLY (arch/general.h).
 */
void enter_called(const uint64_t *frame, uint64_t site);

/* Creates a hook, without patching. Errors: PROBE_ERROR_USAGE (bad pattern), PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *hook_create(const char *text, int priority, struct hook **ret);
/*
 * Returns a number that identifies this library, because a program may contain another copy of it.
 */
uint64_t hook_caller(void);

/* Frees a hook. Its sites must not be patched any more, unless a controller has died. */
void hook_free(struct hook *hook);

/*
 * Patches the sites that the hook's pattern matches and that are not patched yet. Errors:
 * PROBE_ERROR_NOT_FOUND (the pattern matches no site, no site was patched before, and the hook does
 * not wait for a library), and those of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *hook_attach(
	struct hook *hook, bool keep_going, struct probe_report *report);

/*
 * Undoes hook_attach(). *gone_ret is true if no thread is in the stubs or can still enter them. If
 * it is false, call hook_detach() again later to check.
 */
PROBE_MUST_CHECK struct probe_error *hook_detach(struct hook *hook, bool *gone_ret);

/*
 * Call this in a child that was just forked. The calls of the parent's other threads then count as
 * ended.
 */
void hook_after_fork(struct hook *hook);

#endif
