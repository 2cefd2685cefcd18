/* SPDX-License-Identifier: MIT */
/* The probes and sites of a process that a request names. */
#ifndef LIBPROBE_QUERY_SELECT_H
#define LIBPROBE_QUERY_SELECT_H

#include "arch/arch.h"
#include "libprobe/process/modules.h"
#include "probe/target.h"

enum { SELECT_REASONS = 3 };

struct plan; /* how a site can be patched; only the folder patch knows it */

/* One site. Addresses are run-time; 0 if the note has none. */
struct select_site {
	const struct sdt_note *note; /* owned by the module */
	uint64_t pc;
	uint64_t semaphore;
	size_t probe;	   /* index of its probe */
	struct plan *plan; /* one of `plans` of the selection; NULL until install_make_plans() */
	enum probe_plan chosen;
	/* Why it is refused: one reason for each plan that was tried, then NULL. */
	const char *reasons[SELECT_REASONS];
};

/* One probe: the sites of one provider:name in one module, in file order. */
struct select_probe {
	struct module *module;
	const char *provider, *name;
	size_t first_site, site_count;
	size_t pattern; /* index of the most precise pattern that matches, or the first of them */
	uint64_t key;	/* see select_key() */
	bool refused;	/* none of its sites can be patched */
	bool unwanted;	/* see selection_drop_unwanted() */
	bool lacking;	/* a site has not all arguments that the patterns name which match it */
	bool exact;	/* a pattern names it; else only wildcards match it, or there are none */
	uint16_t times; /* how much its count is to change by; 0 is the same as 1 */
};

static inline uint16_t select_times(const struct select_probe *probe)
{
	return probe->times ? probe->times : 1;
}

/* Sites are sorted by probe. Initialise with {0}. */
struct selection {
	struct select_probe *probes;
	size_t probe_count;
	struct select_site *sites;
	size_t site_count;
	struct plan *plans; /* freed with free() */
	bool *matched;	    /* per pattern */
	size_t pattern_count;
	struct probe_error *lacking; /* of the first such probe; see select_check_arguments() */
};

/*
 * Selects by patterns; no patterns (count 0) selects everything. Reads the notes of all
 * modules. Errors: those of sdt_read(), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *select_probes(struct modules *modules,
	const struct probe_pattern *const *patterns, size_t count, struct selection *ret);
void selection_deinit(struct selection *selection);

/* Refuses a site for one reason, replacing earlier ones; or adds a reason if it is new. */
void select_refuse(struct select_site *site, const char *reason);
void select_add_reason(struct select_site *site, const char *reason);
/* All reasons in one text, which the caller frees; NULL without memory. */
char *select_reason_text(const struct select_site *site);

/* Drops the probes marked as unwanted, with their sites. */
void selection_drop_unwanted(struct selection *selection);

/*
 * A probe's key in the registry: a hash of its name and of the address of its module's first
 * note, so all controllers compute the same key.
 */
uint64_t select_key(
	const struct sdt_notes *notes, uint64_t bias, const char *provider, const char *name);

/*
 * The address of the first note of the module from which a probe of that name has its key. If it
 * has another name, the result is some number.
 */
uint64_t select_key_place(uint64_t key, const char *provider, const char *name);

/*
 * A file's notes by provider and name; equal ones stay in file order. The caller frees the array;
 * NULL without memory.
 */
const struct sdt_note **select_by_name(const struct sdt_notes *notes);
/* Where, in such an array, the notes end that have the name of the one at `from`. */
size_t select_probe_end(const struct sdt_note *const *sorted, size_t count, size_t from);

/*
 * PROBE_ERROR_USAGE if a site of a probe lacks an argument that a pattern names. The notes are
 * all of the probe, in a file for this machine (EM_).
 */
PROBE_MUST_CHECK struct probe_error *select_lacking(const struct probe_pattern *pattern,
	uint16_t machine, const struct sdt_note *const *notes, size_t count);

/*
 * Takes the error for the first probe that lacks an argument which a pattern names; NULL: none
 * does. Of the probes that wildcards match, one must have it. Errors: PROBE_ERROR_USAGE,
 * PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *select_check_arguments(struct selection *selection);

/*
 * The error for the first pattern that matched nothing; NULL if all patterns matched. error->err is
 * EIO if some files could not be read, otherwise 0.
 */
PROBE_MUST_CHECK struct probe_error *select_unmatched(struct modules *modules,
	const struct selection *selection, const struct probe_pattern *const *patterns, pid_t pid);

#endif
