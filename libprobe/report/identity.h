/* SPDX-License-Identifier: MIT */
/*
 * Which begin of its thread an end belongs to, in records and streams: the catalogue may know
 * arguments that both have with the same values (probe_meaning.same). Stubs do the same
 * (arch_flights.compares).
 */
#ifndef LIBPROBE_REPORT_IDENTITY_H
#define LIBPROBE_REPORT_IDENTITY_H

#include "libprobe/report/key.h"

struct identities {
	const struct probe_catalogue *catalogue; /* borrowed; NULL: nothing is known */
	struct identity_begin *begins;		 /* by the index of the probe */
	size_t count;
};

void identities_deinit(struct identities *identities);

/*
 * Sets the identity of an event that begins something, or ends what probe number `index`, of these
 * names, begins: a hash of what is compared. It is 0 if that is not known, as it is if a record
 * lacks one of the arguments. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *identity_of(struct identities *identities, size_t index,
	const char *provider, const char *name, const struct probe_event *event, uint64_t *ret);

/* Whether an end may belong to a begin. */
static inline bool identity_matches(uint64_t begin, uint64_t end)
{
	return begin == end || !begin || !end;
}

#endif
