/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_BASE_EVENT_H
#define LIBPROBE_BASE_EVENT_H

#include "probe/event.h"

/*
 * Returns the size of an event in packed form. A packed event is one block that holds everything:
 * the event, its values, its stack, the bytes of values, and texts. If the event ends a pair, its
 * start event follows in the same form. Pointers are stored as offsets, so a block may be moved, or
 * sent to another process. The block and its end have the alignment of the struct, so blocks may
 * follow one another.
 */
size_t event_packed_size(const struct probe_event *event);
/* Packs an event into a block of event_packed_size() bytes. */
void event_pack(const struct probe_event *event, void *block);
/*
 * Converts the offsets of a block into pointers, and returns the event, which is inside the block.
 * Nothing in the block is trusted: returns NULL if an offset leads out of it. A block can be
 * unpacked only once.
 */
struct probe_event *event_unpack(void *block, size_t size);

/*
 * Returns as much of a stack as fits into a packed event. The stack comes from a caller, and may
 * hold anything.
 */
struct probe_stack event_cut_stack(const struct probe_stack *stack);
/*
 * Copies the part of a stack that event_cut_stack() returns into *block_ret, which the caller
 * frees. Returns NULL if there is no memory.
 */
const struct probe_stack *event_copy_stack(const struct probe_stack *stack, void **block_ret);

#endif
