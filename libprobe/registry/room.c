/* SPDX-License-Identifier: MIT */
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "libprobe/registry/registry.h"

/*
 * The target can write all of it; then its own threads wait longer, up to their limit, or we make a
 * call in vain.
 */
void room_tell(struct probe_room *room)
{
	_Atomic uint32_t *owner = (_Atomic uint32_t *)&room->gate.turns[0].owner;

	atomic_fetch_add((_Atomic uint64_t *)&room->moved, 1);
	/* Pairs with the bit that a stub sets before it looks for room once more. */
	if (atomic_fetch_and(owner, ~ROOM_WAITED) & ROOM_WAITED)
		syscall(SYS_futex, owner, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}
