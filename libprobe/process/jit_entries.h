/* SPDX-License-Identifier: MIT */
/* Ranges of generated code that have names, in the order in which they were told. */
#ifndef LIBPROBE_PROCESS_JIT_ENTRIES_H
#define LIBPROBE_PROCESS_JIT_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct jit_entry {
	uint64_t start, end;
	uint64_t reach; /* the largest end of this entry and of those before it, once sorted */
	size_t order;	/* in which it was added */
	size_t name;	/* where its owner has it */
};

/* Initialise with {0}; the items are freed by the owner. */
struct jit_entries {
	struct jit_entry *items;
	size_t count;
};

/* Adds one; nothing if it is empty, or wraps around, or there are too many. False: no memory. */
bool jit_entries_add(struct jit_entries *entries, uint64_t start, uint64_t size, size_t name);
/* Whether there are as many as there may be. */
bool jit_entries_full(const struct jit_entries *entries);
/* To be called after some were added, before any is looked for. */
void jit_entries_sort(struct jit_entries *entries);
/* The newest that covers an address, since memory is used again; or NULL. */
const struct jit_entry *jit_entries_find(const struct jit_entries *entries, uint64_t address);

#endif
