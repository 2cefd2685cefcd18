/* SPDX-License-Identifier: MIT */
/* The types of functions' arguments, from DWARF. A child process reads the files with libdw. */
#pragma once

#include "object.h"

/* A function that is asked about. */
struct types_function {
	uint64_t address; /* link-time address of the entry */
	char *symbol;
	char *name; /* as patterns name it: without version and parameters */
};

struct types_request {
	const char *provider;
	struct types_function *functions; /* sorted by address */
	size_t count;
	/* Members of structures that are asked for, such as "order->id", each with a NUL. */
	const char *members;
	size_t members_length;
	/* The address of a large result is the first argument (struct arch_functions). */
	bool result_is_argument;
	/* Returns true if no argument can have this name, because it means something else. */
	bool (*is_reserved)(const char *word, size_t length);
	/* See types_inlined(); otherwise NULL. */
	char *(*plain_name)(const char *symbol);
};

/*
 * Writes a description of the functions as a catalogue file has it (docs/catalogue.md). *ret is
 * NULL if neither the object nor its debug file has any, or if libdw is not installed. The caller
 * frees it, and does not trust it. Errors: PROBE_ERROR_MEMORY, PROBE_ERROR_SYSTEM (no child).
 */
PROBE_MUST_CHECK struct probe_error *types_describe(
	struct object *object, const struct types_request *request, char **ret);

/*
 * Finds a function that callers have inlined. `plain_name` makes its name from a symbol. *ret is
 * the first copy, or empty. Errors: as types_describe().
 */
PROBE_MUST_CHECK struct probe_error *types_inlined(struct object *object, const char *name,
	char *(*plain_name)(const char *symbol), struct object_range *ret);
