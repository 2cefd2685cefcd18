/* SPDX-License-Identifier: MIT */
/*
 * One change of a target's registry, and of what it describes: sites and semaphores. It is made
 * as a whole, or not at all.
 *
 *   (the caller changes the registry in this process: what is about to happen)
 *   change_store()          announces it: the next controller can finish it
 *   (the caller changes it to the result, and adds edits and semaphores)
 *   transaction_prepare()   memory and buffers; the registry to come is written
 *   change_stop()           unless only counts change
 *   transaction_read()      what is there; the caller looks at it
 *   transaction_write()     sites, registry and semaphores
 *   change_resume()
 *   transaction_end()
 */
#ifndef LIBPROBE_PATCH_TRANSACTION_H
#define LIBPROBE_PATCH_TRANSACTION_H

#include "libprobe/patch/windows.h"
#include "libprobe/patch/semaphores.h"
#include "libprobe/patch/toggles.h"
#include "libprobe/process/edits.h"
#include "libprobe/registry/change.h"

enum transaction_kind {
	TRANSACTION_ADDS, /* semaphores are raised */
	TRANSACTION_ENDS, /* semaphores are lowered */
	TRANSACTION_MENDS /* sites alone are written: the registry stays */
};

struct install;

struct transaction {
	struct change *change; /* borrowed; one transaction at a time */
	enum transaction_kind kind;
	bool atomic;		  /* all threads are stopped also where only counts change */
	struct install *installs; /* what it adds: see install_add(); borrowed */
	struct edits text;
	struct semaphores semaphores;
	struct toggles toggles; /* written with the text */
	struct windows windows; /* of edits that take the place of instructions */
	struct transaction_count {
		uint64_t key;
		int by;
	} * counts;
	size_t count_count, counted;	 /* the first `counted` are in the registry */
	struct code_extent before, next; /* images of the registry: kept to go back to, to come */
	bool written;			 /* there is no way back */
};

/* An empty one; transaction_end() is due. */
struct transaction transaction_of(struct change *change, enum transaction_kind kind);
void transaction_end(struct transaction *transaction);

/*
 * Counts a probe that is on already, of a persistent session, up or down with the rest,
 * `by` not 0; false without memory.
 */
bool transaction_count(struct transaction *transaction, uint64_t key, int by);

/* They are not changed after all: undoing announces them as they were. */
void transaction_uncount(struct transaction *transaction);

/*
 * Keeps the registry that is current to go back to; to be called before anything is
 * announced. Going back is one word. Nothing may have been written.
 */
PROBE_MUST_CHECK struct probe_error *transaction_keep_way_back(struct transaction *transaction);
void transaction_go_back(struct transaction *transaction);

/* The last step before the stop; neither edits nor semaphores are added any more. */
PROBE_MUST_CHECK struct probe_error *transaction_prepare(struct transaction *transaction);

/* Errors: those of edits_read() and semaphores_read(). */
PROBE_MUST_CHECK struct probe_error *transaction_read(struct transaction *transaction);

/* Everything has been looked at. An error leaves all as it was. */
PROBE_MUST_CHECK struct probe_error *transaction_write(struct transaction *transaction);

/*
 * Makes the whole change if only counts, semaphores and toggles change; does nothing if none does.
 */
PROBE_MUST_CHECK struct probe_error *transaction_commit_counts(struct transaction *transaction);

/*
 * Stops the target and writes, when `look` has read what is there and has nothing against it.
 * If that sets *again_ret, a thread is in the way: it is tried again, up to 20 times. `what`
 * is the error then (PROBE_ERROR_STATE).
 */
PROBE_MUST_CHECK struct probe_error *transaction_commit(struct transaction *transaction,
	struct probe_error *(*look)(void *data, bool *again_ret), void *data, const char *what);

#endif
