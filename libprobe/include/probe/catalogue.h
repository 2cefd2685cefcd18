/* SPDX-License-Identifier: MIT */
/*
 * Descriptions of probes: the names of their arguments, which of these are strings, and the
 * conditions on which a program passes a probe. The library has a catalogue of known providers;
 * files can add to it (docs/catalogue.md).
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
	PROBE_ARG_SIZED_STRING, /* another argument is the length of the string */
	PROBE_ARG_SIZED_BYTES	/* another argument is the number of bytes */
};

/* A number and the word for it, such as 3 and "RowExclusiveLock". */
struct probe_word {
	int64_t number;
	const char *word;
};

/* The description of an argument. */
struct probe_arg_meaning {
	const char *name;
	const char *type; /* as in the file: "string", "bytes(length)", "ns"; or NULL */
	enum probe_arg_kind kind;
	unsigned char length; /* for _SIZED_*: index of the argument that is the length */
	/* For _STRING: the text begins this number of bytes after the address in the argument. */
	unsigned short offset;
	const struct probe_word *words; /* or NULL */
	size_t word_count;
	/*
	 * For functions: the bytes of the value, negative if it has a sign; 0 if only its register
	 * is known. Notes of probes have this themselves.
	 */
	signed char size;
	/*
	 * For a member of a structure, whose name is such as "order->id": where it is, as an
	 * expression, "*(u64*)(arg0+8)"; or NULL.
	 */
	const char *place;
	bool is_hidden; /* not described, and shown only if a list names it: argN, fargN */
};

/* The description of a probe. */
struct probe_meaning {
	const char *provider;
	const char *name; /* `-` is written as `__`; may contain the wildcard `*` */
	const struct probe_arg_meaning *args;
	size_t arg_count;
	bool open;	   /* the probe may have more arguments */
	const char *means; /* a sentence; or NULL */
	/* Condition for the program to pass the probe, as a sentence; or NULL. */
	const char *needs;
	/* For a function: "3 inlined copies are not traced", by debug information; or NULL. */
	const char *inlined;
	/*
	 * A probe of the same provider whose semaphores must be raised, too, so that the program
	 * passes this probe; or NULL.
	 */
	const char *with;
	/*
	 * For a start event: a probe of the same provider that gives its arguments to the start
	 * event, or NULL. If it is not NULL, a thread has at most one open pair with this start
	 * event: a new start event replaces the open one. If a session has the giving probe, too,
	 * the start event has the arguments of the latest hit of the giving probe in the same
	 * thread.
	 */
	const char *takes;
	const char *const *ends; /* probes of the end events for this start event */
	size_t end_count;
	/*
	 * Arguments of this start event that have the same values in the end event. The end event
	 * has them under the same names, or under the same numbers (argN; for a string, the
	 * pointer). They are compared, so that an end event is not matched with the wrong start
	 * event of its thread.
	 */
	const char *const *same;
	size_t same_count; /* at most PROBE_SAME_MAX */
};
enum { PROBE_SAME_MAX = 4 };

struct probe_catalogue;

/*
 * Makes a catalogue with the descriptions that are part of the library. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_catalogue_create(struct probe_catalogue **ret);
/* Frees a catalogue. NULL is allowed. */
void probe_catalogue_free(struct probe_catalogue *catalogue);

/*
 * Adds a file, whose descriptions take precedence over earlier ones. If the file has a mistake,
 * nothing is added. Errors: PROBE_ERROR_FORMAT ("PATH:LINE: what is wrong"), PROBE_ERROR_SYSTEM
 * (the file cannot be read), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_catalogue_add(
	struct probe_catalogue *catalogue, const char *path);

/*
 * Writes what the catalogue has learned from debug information about functions into hidden files of
 * a record's folder. Files that are there stay. Errors: PROBE_ERROR_SYSTEM, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *probe_catalogue_save(
	const struct probe_catalogue *catalogue, const char *directory);
/* Adds the files that probe_catalogue_save() wrote. Errors: as probe_catalogue_add(). */
PROBE_MUST_CHECK struct probe_error *probe_catalogue_load(
	struct probe_catalogue *catalogue, const char *directory);

/*
 * Returns the description of a probe whose note has `arg_count` arguments, or NULL if the probe is
 * unknown. With SIZE_MAX, the number of arguments is ignored. A probe that has another number of
 * arguments than its description, as in another version of the program, is unknown. The description
 * is owned by the catalogue. The library's descriptions of a provider are parsed when they are
 * first asked for. If there is no memory for this, the probe is unknown. The number of arguments
 * does not matter for functions, whose sites have all registers and words that can hold arguments.
 */
const struct probe_meaning *probe_catalogue_find(const struct probe_catalogue *catalogue,
	const char *provider, const char *name, size_t arg_count);

/* Returns the word for a number, or NULL if the argument has no word for it. */
const char *probe_meaning_word(const struct probe_arg_meaning *arg, int64_t number);

#ifdef __cplusplus
}
#endif
#endif
