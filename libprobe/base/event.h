/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_BASE_EVENT_H
#define LIBPROBE_BASE_EVENT_H

#include "probe/event.h"

/*
 * A packed event owns what it points to, in one block: the event, its values, its stack, the bytes
 * of values, and texts; and behind them the same of its begin. Pointers are stored as offsets, so a
 * block may be moved, or sent to another process. It has the struct's alignment, and so has its
 * end: blocks may follow one another.
 */
size_t event_packed_size(const struct probe_event *event);
/* Packs an event into a block of that size. */
void event_pack(const struct probe_event *event, void *block);
/*
 * Converts the offsets of a block into pointers, and returns the event, which is inside it.
 * NULL if an offset leads out of it: nothing in a block is trusted. A block can be unpacked
 * once.
 */
struct probe_event *event_unpack(void *block, size_t size);

/* As much of a caller's stack, which may be anything, as an event can be packed with. */
struct probe_stack event_cut_stack(const struct probe_stack *stack);
/* Copies that into *block_ret, which the caller frees. NULL without memory. */
const struct probe_stack *event_copy_stack(const struct probe_stack *stack, void **block_ret);

#endif
