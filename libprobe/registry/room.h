/* SPDX-License-Identifier: MIT */
/* The controller's side of hits that wait for room (struct probe_room). */
#ifndef LIBPROBE_REGISTRY_ROOM_H
#define LIBPROBE_REGISTRY_ROOM_H

#include "arch/layout.h"

/* Wakes all who wait, after `tail` was stored. Without a waiter, this costs two locked
 * instructions.
 */
void room_tell(struct probe_room *room);

#endif
