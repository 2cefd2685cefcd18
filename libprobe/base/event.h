/* SPDX-License-Identifier: MIT */
#pragma once

#include "probe/event.h"

struct buffer;

/* The provider of a file's functions is this prefix and the file's short name. */
#define SDT_FUNCTIONS "fn:"

/* Is this the provider of functions? */
bool event_is_of_function(const char *provider);

/* Is this name, after its provider and a colon, a pattern for it only in quotes? */
bool event_needs_quotes(const char *provider, const char *name);
/*
 * Writes "provider:name", or only the name, as users type it: a pattern that matches this probe,
 * if its bytes are printable.
 */
void event_put_probe(struct buffer *out, const char *provider, const char *name);
void event_put_name(struct buffer *out, const char *provider, const char *name);

/*
 * Returns the size of a packed event: one block with the event, its values, stack and texts, and
 * its pair's start event, if any. Pointers are offsets, so it may be moved or sent. It begins and
 * ends aligned, so blocks may follow one another.
 */
size_t event_packed_size(const struct probe_event *event);
/* Packs an event into event_packed_size() bytes. */
void event_pack(const struct probe_event *event, void *block);
/*
 * Converts a block into an event, in place and only once: offsets become pointers. The block is not
 * trusted: returns NULL if an offset leads out of it.
 */
struct probe_event *event_unpack(void *block, size_t size);

/*
 * Returns the part of a caller's stack that fits into a packed event. The stack may contain
 * anything.
 */
struct probe_stack event_cut_stack(const struct probe_stack *stack);
/*
 * Copies the stack that event_cut_stack() returns to *block_ret, which the caller frees. NULL if
 * memory is short.
 */
const struct probe_stack *event_copy_stack(const struct probe_stack *stack, void **block_ret);
