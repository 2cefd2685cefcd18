/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_BASE_EVENT_H
#define LIBPROBE_BASE_EVENT_H

#include "probe/event.h"

/*
 * Returns the size of a packed event: one block with the event, its values, stack and texts, and
 * its pair's start event, if any. Pointers are offsets, so it may be moved or sent. It begins and
 * ends aligned, so blocks may follow one another.
 */
size_t event_packed_size(const struct probe_event *event);
/* Packs an event into event_packed_size() bytes. */
void event_pack(const struct probe_event *event, void *block);
/*
 * Returns the event in a block, once, with pointers for offsets. Nothing in it is trusted: NULL if
 * an offset leads out of it.
 */
struct probe_event *event_unpack(void *block, size_t size);

/* Returns as much of a caller's stack, which may hold anything, as fits into a packed event. */
struct probe_stack event_cut_stack(const struct probe_stack *stack);
/*
 * Copies what event_cut_stack() returns to *block_ret, for the caller to free. NULL without memory.
 */
const struct probe_stack *event_copy_stack(const struct probe_stack *stack, void **block_ret);

#endif
