/* SPDX-License-Identifier: MIT */
/* Memory of a target in which nothing of its own can be: where a frame of ours may lie. */
#ifndef LIBPROBE_PTRACE_ROOM_H
#define LIBPROBE_PTRACE_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arch/process.h"
#include "libprobe/base/error.h"
#include "libprobe/process/modules.h"
#include "libprobe/process/maps.h"

enum {
	ROOMS_MAX = 16,
	ROOM_ALIGN = 64, /* of each: what an XSAVE area needs */
	ROOM_STACK_BYTES = 16384
};
/*
 * What is left in a room with a frame of ours, or with its floating-point state alone (struct
 * arch_process, frame_mark, state_mark): ARCH_FRAME_MARK bytes with the last NUL.
 */
#define ROOM_MARK "probectl\0 frame"

enum room_kind {
	ROOM_TAIL, /* its bytes must be restored */
	ROOM_STACK /* see room_on_stack() */
};

struct room {
	enum room_kind kind;
	uint64_t start;
	size_t size;
};

/* Sorted: what is preferred first. */
struct rooms {
	struct room items[ROOMS_MAX];
	size_t count;
	/* With a frame of a controller that was killed. A thread may be about to read it. */
	struct room left[ROOMS_MAX];
	size_t left_count;
	int mem;		       /* from memory_open(); borrowed */
	const struct maps *maps;       /* borrowed */
	struct arch_state usual_state; /* asked before the stop: slow in a virtual machine */
};

/*
 * Finds the tails of pages after the read-only segments of the program and its libc, and what
 * killed controllers left in these and on the stack. With `reclaim`, what they left is removed: no
 * thread's stack pointer may be in one of those rooms. `mem` is from memory_open(). No other
 * controller may be changing the target.
 */
PROBE_MUST_CHECK struct probe_error *rooms_find(pid_t pid, int mem, const struct maps *maps,
	const struct modules *modules, bool reclaim, struct rooms *ret);

/* Is an address in a room that was left? */
bool rooms_are_left_at(const struct rooms *rooms, uint64_t address);

/*
 * ROOM_STACK_BYTES of the main thread's stack that were never written, or whose bytes are as we
 * left them. False: there are none.
 */
bool room_on_stack(pid_t pid, const struct maps *maps, struct room *ret);

/* Makes bytes for such a room known again: the first ROOM_ALIGN of them are ours. */
void room_seal(uint8_t bytes[ROOM_STACK_BYTES]);

#endif
