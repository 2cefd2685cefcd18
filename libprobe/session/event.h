/* SPDX-License-Identifier: MIT */
/*
 * Events that own what they point to, in one block: the event, its values, their bytes, and
 * its texts, each with its NUL. In place of a pointer there is an offset from the begin of
 * the block, so a block may be moved, or sent to another process, before it is unpacked.
 */
#ifndef LIBPROBE_SESSION_EVENT_H
#define LIBPROBE_SESSION_EVENT_H

#include "probe/event.h"

enum { EVENT_ALIGN = _Alignof(struct probe_event) }; /* of blocks, and of their sizes */

size_t event_packed_size(const struct probe_event *event);
/* Fills a block of that size. */
void event_pack(const struct probe_event *event, void *block);

/*
 * Makes pointers of the offsets, and returns the event, which lies in the block. NULL where one
 * leads out of it: nothing in it is trusted. A block can be unpacked once.
 */
struct probe_event *event_unpack(void *block, size_t size);

#endif
