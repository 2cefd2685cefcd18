/* SPDX-License-Identifier: MIT */
/* Where the stopped threads of a target are, and where they will return to from signal handlers. */
#ifndef LIBPROBE_PATCH_FRAMES_H
#define LIBPROBE_PATCH_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/patch/search.h"
#include "libprobe/process/maps.h"
#include "libprobe/ptrace/control.h"

/* The used part of a stack, which was searched: from `low` to its end. */
struct frames_stack {
	uint64_t low, end;
	bool is_threads; /* made by libc or the kernel for the thread that runs on it */
};

struct served;

/*
 * Program counters; the first control->count are the threads' own, until they
 * are sorted. Everything else is prepared before the stop by frames_open().
 */
struct frames {
	uint64_t *pcs;
	size_t count, room;
	struct frames_stack *stacks; /* of the threads, and those that they will return to */
	size_t stack_count;
	pid_t pid;
	const struct maps *maps;
	struct maps fresh; /* read again in the stop, where `maps` are too old */
	const struct places *places;
	uint64_t reach;	     /* how much of a stack is searched that libc did not make */
	int status;	     /* of /proc/PID/status */
	bool has_handlers;   /* a signal handler was installed when it was opened or read */
	const char *unknown; /* why not all frames were found; NULL: all were */
	uint8_t *buffer;
	int pagemap;	      /* of the process; below 0: not known which of its pages are there */
	struct served *known; /* during frames_read() */
};

/* A stack of this size, or more, is only searched so far; the rest is `unknown`. */
#define FRAMES_REACH (UINT64_C(16) << 20)

/*
 * `maps` and `places` are borrowed; what is not one of the places is not collected from
 * stacks. Errors: PROBE_ERROR_NOT_FOUND, PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_open(pid_t pid, const struct maps *maps,
	const struct places *places, uint64_t reach, struct frames *ret);

/*
 * Collects the program counter of every stopped thread, and the places that their registers
 * and their stacks name: those that signal handlers interrupted are there. What was
 * collected before is forgotten. Errors: PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *frames_read(
	struct frames *frames, const struct control *control);
void frames_close(struct frames *frames);

/* Has a process installed a signal handler? True if that is unknown. */
bool frames_has_handlers(pid_t pid);

/* Adds a place that a thread will come to; false without memory. */
bool frames_add(struct frames *frames, uint64_t pc);

/*
 * Is an address in memory that no thread uses as its stack now: in the mapping of a thread's own
 * stack, below the part in use?
 */
bool frames_is_below(const struct frames *frames, uint64_t address);

/*
 * Does a thread use the middle of a frame in [start, end) as its stack, from there on up? Then
 * the handler has returned, or was left: the interrupted context is overwritten, or continues
 * there.
 */
bool frames_overlap(const struct frames *frames, uint64_t start, uint64_t end);

/* The stack of a thread that runs on its own stack, in [start, end); NULL: there is none. */
const struct frames_stack *frames_own_stack(
	const struct frames *frames, uint64_t start, uint64_t end);

/* Sorts what was collected, for frames_within(). */
void frames_sort(struct frames *frames);

/* Is any of them, sorted, in [start, end)? */
bool frames_within(const struct frames *frames, uint64_t start, uint64_t end);

#endif
