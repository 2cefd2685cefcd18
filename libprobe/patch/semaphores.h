/* SPDX-License-Identifier: MIT */
/*
 * Semaphores: the 16-bit counters in a target's data that its probes test
 * before they compute their arguments.
 */
#ifndef LIBPROBE_PATCH_SEMAPHORES_H
#define LIBPROBE_PATCH_SEMAPHORES_H

#include "libprobe/query/select.h"
#include "libprobe/process/edits.h"
#include "libprobe/registry/registry.h"

/*
 * The offset, from the note's address, of the count of users of OCaml's handlers
 * (plan_is_ocaml()). 0 for other providers, which have one count for all.
 */
uint64_t semaphore_offset(const char *provider);

/* The distinct semaphores of a probe that tracers raise, sorted; room for site_count is enough. */
size_t semaphores_of(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses);
/*
 * The same, and in the same way those of the probes of its provider and module that match `with`
 * (struct probe_meaning; NULL: none). The caller frees the array; NULL without memory.
 */
uint64_t *semaphores_raised(const struct selection *selection, const struct select_probe *probe,
	const char *with, size_t *count_ret);
/* Those that count the users of its own handlers; only OCaml's probes have any. */
size_t semaphores_of_handlers(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses);

/* Changes to be made at once. Initialise with {0}. */
struct semaphores {
	struct semaphore_change {
		uint64_t address;
		int32_t by;
		bool is_set; /* to value, whatever it is */
		uint16_t value;
		uint16_t least; /* what it is at the least afterwards, see semaphores_keep() */
	} * items;
	size_t count;
	struct edits edits;
};

/* Adds a change; 0 `by` sets the semaphore to 0. False without memory. */
bool semaphores_add(struct semaphores *semaphores, uint64_t address, int by);
/* The same, to a value. */
bool semaphores_set(struct semaphores *semaphores, uint64_t address, uint16_t value);

/* The last step before threads are stopped: sorts, makes room. */
PROBE_MUST_CHECK struct probe_error *semaphores_prepare(struct semaphores *semaphores);

/*
 * Of semaphores that are prepared: none will be less than what a registry says its sessions have
 * added. This repairs what is missing if a controller was killed between the registry and the
 * semaphores, in either order.
 */
void semaphores_keep(struct semaphores *semaphores, const struct registry *registry);

/* Adds all semaphores of a registry, to be looked at by semaphores_keep(). */
bool semaphores_add_all(struct semaphores *semaphores, const struct registry *registry);

/* How many semaphores are less than what the registry says; 0 where that cannot be known. */
size_t semaphores_short(const struct registry *registry, pid_t pid);

void semaphores_deinit(struct semaphores *semaphores);

/*
 * Reads them and computes their new values. None becomes less than 0, as others may have lowered
 * it, or than semaphores_keep() says; one that is to be lowered, but no longer exists, is left out.
 * Errors: PROBE_ERROR_STATE (one would overflow), PROBE_ERROR_FORMAT (one to be raised cannot be
 * read), those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *semaphores_read(struct semaphores *semaphores, pid_t pid);

/* What one of them, which have been read, will be; false: it is not there. */
bool semaphores_coming(const struct semaphores *semaphores, uint64_t address, uint16_t *ret);

/* Writes them: all or none. */
PROBE_MUST_CHECK struct probe_error *semaphores_write(struct semaphores *semaphores, int mem);

#endif
