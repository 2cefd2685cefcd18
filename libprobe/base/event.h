/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_BASE_EVENT_H
#define LIBPROBE_BASE_EVENT_H

#include "probe/event.h"

/*
 * A packed event owns what it points to, in one block: the event, its values, their bytes, and
 * its texts. In place of a pointer there is an offset, so a block may be moved, or sent to
 * another process. It is aligned as the struct is, and so is its end: one may stand behind
 * another.
 */
size_t event_packed_size(const struct probe_event *event);
/* Packs an event into a block of that size. */
void event_pack(const struct probe_event *event, void *block);
/*
 * Makes pointers of the offsets of a block, and returns the event, which lies in it. NULL where
 * an offset leads out of it: nothing in a block is trusted. It can be unpacked once.
 */
struct probe_event *event_unpack(void *block, size_t size);

#endif
