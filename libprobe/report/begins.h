/* SPDX-License-Identifier: MIT */
/*
 * Begins that wait for their ends: a stack for each thread, or for each value that begins and ends
 * are matched by. The user decides what is kept of a begin: spans keep the event, a summary the
 * time.
 */
#ifndef LIBPROBE_REPORT_BEGINS_H
#define LIBPROBE_REPORT_BEGINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whose stack it is. */
struct begins_key {
	uint64_t process; /* processes have the same values, forked ones also the same pointers */
	uint64_t word;	  /* the thread; the value, or its hash */
	uint64_t kind;	  /* tells different kinds of values apart */
	uint64_t probe;	  /* that begins; 0 if all share a stack */
};

struct begins_stack {
	struct begins_key key;
	void *items; /* oldest first */
	size_t depth, room;
	uint64_t excess; /* newer begins, which are only counted */
	bool used;
};

/* Initialise with the size of an item; all else is 0. */
struct begins {
	size_t item_bytes;
	struct begins_stack *stacks; /* a hash table: those that are `used` */
	size_t room, count;
	size_t depth; /* items in all stacks */
	void *spare;  /* the items of a stack that was dropped, for the next one; or NULL */
};

void begins_deinit(struct begins *begins);

/* The stack of a key, or NULL. It may move when another one is made or dropped. */
struct begins_stack *begins_find(const struct begins *begins, const struct begins_key *key);
/* The same, created if there is none. NULL without memory. */
struct begins_stack *begins_make(struct begins *begins, const struct begins_key *key);
/* Removes a stack and its items. */
void begins_drop(struct begins *begins, struct begins_stack *stack);

/* Adds the newest item. False without memory. */
bool begins_push(struct begins *begins, struct begins_stack *stack, const void *item);
/* Removes an item; the stack stays, even if it is empty. */
void begins_remove(struct begins *begins, struct begins_stack *stack, size_t index);

#endif
