/* SPDX-License-Identifier: MIT */
/*
 * Pairs of probes that become known one after another, as in a record. They are the pairs that
 * pairs_assign() finds by name among all probes known so far, in whatever order they appear.
 */
#ifndef LIBPROBE_QUERY_PAIRING_H
#define LIBPROBE_QUERY_PAIRING_H

#include "libprobe/query/pairs.h"

struct pairing_probe {
	const char *provider;  /* borrowed */
	char *plain;	       /* the name, spelled by pair_plain_name() */
	enum pair_role may_be; /* by its name alone */
	size_t stem;	       /* bytes of `plain` before the word that makes it so */
	size_t kin;	       /* pair_kin() */
	size_t same;	       /* the first probe of this plain name: the index, its own or lower */
	enum pair_role role;   /* with the probes known so far */
	size_t begin;	       /* of PAIR_END: the index of the probe that begins */
};

/* Initialise with {0}. Probes keep their indices, in the order in which they were added. */
struct pairing {
	struct pairing_probe *probes;
	size_t count;
};

void pairing_deinit(struct pairing *pairing);

/*
 * Adds a probe; the roles of others may change. `provider` is borrowed as long as *pairing is
 * used. Errors: PROBE_ERROR_MEMORY; the probe is then not added.
 */
PROBE_MUST_CHECK struct probe_error *pairing_add(
	struct pairing *pairing, const char *provider, const char *name);

#endif
