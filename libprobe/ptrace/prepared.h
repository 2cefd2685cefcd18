/* SPDX-License-Identifier: MIT */
/* What is written into a target for the system calls of a borrowed thread: see remote.c. */
#ifndef LIBPROBE_PTRACE_PREPARED_H
#define LIBPROBE_PTRACE_PREPARED_H

#include "libprobe/base/error.h"
#include "libprobe/ptrace/control.h"
#include "libprobe/ptrace/room.h"

enum {
	FRAME_MAX = 1024,
	PREPARED_ROOMS = 3 /* for the frame, the state and the first frame, at most */
};

/* What is written into a room, and what was there. */
struct written {
	struct room room;
	size_t size; /* 0: none */
	uint8_t bytes[ROOM_STACK_BYTES], before[ROOM_STACK_BYTES];
};

/* What is written into the target, and what must be restored. */
struct prepared {
	uint8_t frame[FRAME_MAX];
	uint8_t state[ARCH_STATE_MAX + 4];
	size_t state_size;
	uint8_t kept[ARCH_STATE_MAX]; /* the state to be written back; size 0: none */
	size_t kept_size;
	int state_regset;
	uint64_t frame_address, state_address;
	uint64_t first_address; /* of a frame that leads to one more call before it; 0: no room */
	uint64_t mask;
	struct written written[PREPARED_ROOMS];
};

/* From a frame to the state that is written behind it. */
size_t prepared_frame_bytes(void);

/* Nothing is written anywhere. */
void prepared_forget(struct prepared *p);

/*
 * Finds places; `with_first`, also one for the first frame, if there is room.
 * PROBE_ERROR_UNSUPPORTED: there is none for the others.
 */
PROBE_MUST_CHECK struct probe_error *prepared_place(
	pid_t pid, const struct rooms *rooms, bool with_first, struct prepared *p);

/*
 * Writes frame and state into the memory of the program that was looked at, or nowhere (execve(2)).
 * control_clear() removes them.
 */
PROBE_MUST_CHECK struct probe_error *prepared_write(const struct rooms *rooms, struct prepared *p);

/*
 * Reads what a call reads of the target, and makes the pages that it writes the target's own. The
 * first time takes two to three times as long, and no thread need be stopped for it. Failures are
 * ignored: the call itself will meet them.
 */
void prepared_touch(pid_t pid, const struct control_coming *coming);

#endif
