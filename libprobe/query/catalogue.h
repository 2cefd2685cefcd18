/* SPDX-License-Identifier: MIT */
/* The contents of a catalogue; private to libprobe. */
#ifndef LIBPROBE_QUERY_CATALOGUE_H
#define LIBPROBE_QUERY_CATALOGUE_H

#include "libprobe/base/error.h"
#include "probe/catalogue.h"

enum {
	CATALOGUE_ARGS_MAX = 32,
	CATALOGUE_OFFSET_MAX = 4095,
	CATALOGUE_FILE_MAX = 1024 * 1024 /* bytes */
};

/* Numbers and their words, as one line of a file has them. */
struct catalogue_words {
	const char *name;
	struct probe_word *words; /* owned */
	size_t count;
};

/*
 * One file. Its strings are parts of its text; each probe owns its arrays of arguments, ends and
 * names that are the same.
 */
struct catalogue_file {
	char *text;
	struct probe_meaning *probes;
	size_t probe_count;
	struct catalogue_words *words;
	size_t words_count;
};

/* A file that was added, or what the library's own text says of one provider. */
struct catalogue_source {
	_Atomic(struct catalogue_file *) file; /* owned; NULL: not parsed yet */
	const char *text;		       /* the library's, from a line "provider" on */
	size_t length;
};

struct probe_catalogue {
	struct catalogue_source *sources; /* the last goes first */
	size_t source_count;
};

/*
 * Parses `length` bytes, of which the file owns a copy. `path` is for messages. Errors:
 * PROBE_ERROR_FORMAT, PROBE_ERROR_MEMORY; then there is nothing to be freed.
 */
PROBE_MUST_CHECK struct probe_error *catalogue_parse(
	const char *path, const char *text, size_t length, struct catalogue_file *ret);
void catalogue_file_deinit(struct catalogue_file *file);

/*
 * Returns the file of a source. The library's text is parsed when a provider is first asked for:
 * NULL if it is about another provider than this one (NULL: any), or without memory.
 */
const struct catalogue_file *catalogue_file_of(
	const struct probe_catalogue *catalogue, size_t source, const char *provider);

/*
 * The argument that a word of probe_meaning.same is for this probe: the one of that name, or, of
 * argN, number N. Returns its index, or -1. *number_ret: a string's pointer is meant, as by argN.
 */
int catalogue_same_arg(const struct probe_meaning *meaning, const char *word, bool *number_ret);

/* Whether a name, in which `-` is the same as `__`, matches one that may have `*`. */
bool catalogue_name_matches(const char *pattern, const char *name);

/* Whether a word means something else in an expression, so that no argument can have the name. */
bool catalogue_is_reserved(const char *word, size_t length);

#endif
