/* SPDX-License-Identifier: MIT */
/*
 * What probes mean: the names of their arguments, which of them are strings, what must be so for
 * a probe to be passed. The library has a catalogue of known providers; files can add to it
 * (docs/catalogue.md).
 */
#ifndef PROBE_CATALOGUE_H
#define PROBE_CATALOGUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum probe_arg_kind {
	PROBE_ARG_NUMBER,
	PROBE_ARG_BOOLEAN,
	PROBE_ARG_POINTER,
	PROBE_ARG_STRING,	/* ends with a NUL */
	PROBE_ARG_SIZED_STRING, /* another argument is its length */
	PROBE_ARG_SIZED_BYTES	/* likewise */
};

/* The word for a number: 3 is "RowExclusiveLock". */
struct probe_word {
	int64_t number;
	const char *word;
};

/* What is known of an argument. */
struct probe_arg_meaning {
	const char *name;
	const char *type; /* as the file has it: "string", "bytes(length)", "ns"; or NULL */
	enum probe_arg_kind kind;
	unsigned char length; /* of _SIZED_*: the index of the argument that is the length */
	/* of _STRING: how many bytes behind the address in the argument the text begins */
	unsigned short offset;
	const struct probe_word *words; /* or NULL */
	size_t word_count;
};

/* What is known of a probe. */
struct probe_meaning {
	const char *provider;
	const char *name; /* with `-` as `__`; may have `*` */
	const struct probe_arg_meaning *args;
	size_t arg_count;
	bool open;	   /* there may be more arguments */
	const char *means; /* a sentence; or NULL */
	const char *needs; /* what must be so for the probe to be passed, a sentence; or NULL */
	/* A probe of the provider whose semaphores must be raised for it, too; or NULL. */
	const char *with;
	/*
	 * A probe of the provider, or NULL. If set, a thread does one thing at a time that begins
	 * here: a begin takes the place of one that is open. Where a session has that other probe
	 * as well, the begin's arguments are those that the thread's latest hit of it has had.
	 */
	const char *takes;
	const char *const *ends; /* the probes that end what this one begins */
	size_t end_count;
	/*
	 * Arguments that have the same values where something begins here and where it ends; the
	 * end has them by the same names, or by the same numbers (argN: of a string, the pointer).
	 * So an end in a thread is not taken for that of another begin in it.
	 */
	const char *const *same;
	size_t same_count; /* at most PROBE_SAME_MAX */
};
enum { PROBE_SAME_MAX = 4 };

struct probe_catalogue;

/* Makes the catalogue that is part of the library. Errors: PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *probe_catalogue_create(struct probe_catalogue **ret);
/* Frees a catalogue. NULL is allowed. */
void probe_catalogue_free(struct probe_catalogue *catalogue);

/*
 * Adds a file, which goes before what is there already. Of a file with a mistake, nothing is
 * added. Errors: PROBE_ERROR_FORMAT ("PATH:LINE: what is wrong"), PROBE_ERROR_SYSTEM
 * (it cannot be read), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_catalogue_add(
	struct probe_catalogue *catalogue, const char *path);

/*
 * Returns what is known of a probe whose note has so many arguments (SIZE_MAX: not known, or it
 * does not matter); NULL: nothing. A version of a program with other arguments than the
 * catalogue's is another probe. Owned by the catalogue. What the library knows of a provider is
 * parsed when it is first asked for; without memory for that, nothing is known.
 */
const struct probe_meaning *probe_catalogue_find(const struct probe_catalogue *catalogue,
	const char *provider, const char *name, size_t arg_count);

/* Returns the word for a number, or NULL. */
const char *probe_meaning_word(const struct probe_arg_meaning *arg, int64_t number);

#ifdef __cplusplus
}
#endif
#endif
