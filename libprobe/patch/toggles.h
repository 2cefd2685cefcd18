/* SPDX-License-Identifier: MIT */
/*
 * Toggles: OCaml's own switches. Their state is in the target alone, where OCaml's tools have it,
 * too: a count of the handler's users, and one byte at each site (struct arch_toggle).
 */
#ifndef LIBPROBE_PATCH_TOGGLES_H
#define LIBPROBE_PATCH_TOGGLES_H

#include "libprobe/query/select.h"
#include "libprobe/patch/semaphores.h"
#include "libprobe/process/edits.h"

struct change;
struct transaction;

/* Sites that are switched as a whole. Initialise with {0}. */
struct toggles {
	struct toggle {
		uint64_t semaphore; /* its count; 0: there is none */
		bool on;	    /* what is wanted where there is no count */
	} * items;
	size_t count;
	struct edits edits; /* in the same order: the byte */
};

void toggles_deinit(struct toggles *toggles);

/* Are the probe's sites toggles, as far as its provider's name and the request tell? */
bool toggles_asked(const struct select_probe *probe, const struct probe_request *request);

/*
 * Takes the probes that are switched by toggles out of a selection, and adds what is to be changed
 * for them to a transaction: the handlers are called from then on (`on`), or not. With `on` false,
 * probes whose handlers are off stay in the selection, unless request->force. Errors:
 * PROBE_ERROR_REFUSED (a site holds neither of both states; with request->keep_going it is
 * reported), PROBE_ERROR_STATE (a count would overflow), those of plan_sites() and edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_take(struct transaction *transaction,
	struct selection *selection, const struct probe_request *request, bool on,
	struct probe_report *report);

/*
 * Returns whether a probe is switched by toggles, and how many users its handlers have. Errors:
 * those of plan_sites().
 */
PROBE_MUST_CHECK struct probe_error *toggles_count(const struct change *change,
	struct selection *selection, const struct select_probe *probe,
	const struct probe_request *request, bool *ret, uint16_t *count_ret);

/* The last step before the stop. */
PROBE_MUST_CHECK struct probe_error *toggles_prepare(struct toggles *toggles);

/*
 * Reads the bytes, and sets those that `semaphores`, just read, make necessary. Errors:
 * PROBE_ERROR_REFUSED, those of edits_read().
 */
PROBE_MUST_CHECK struct probe_error *toggles_read(
	struct toggles *toggles, const struct semaphores *semaphores, pid_t pid);

#endif
