/* SPDX-License-Identifier: MIT */
/*
 * Leaves: programs whose files have no requested probe, and import no function by which libc
 * starts a process or a thread, executes a program, or loads code.
 */
#ifndef LIBPROBE_FOLLOW_LEAF_H
#define LIBPROBE_FOLLOW_LEAF_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "libprobe/process/modules.h"

/*
 * Notes that no probe is wanted in the files that a held process has mapped, and whether its
 * program is a leaf. `files` may be NULL.
 */
void leaf_pass_over(pid_t pid, struct files *files);

/* A program that runs as a leaf. */
struct leaf {
	dev_t dev; /* of its file */
	ino_t inode;
	uint64_t since_ns; /* when it began (CLOCK_MONOTONIC) */
};

/*
 * A program has just been executed, and nothing of it has run: will it be a leaf? It must be known
 * to be one, and have nothing in its environment that makes the loader load something else.
 */
bool leaf_begins(pid_t pid, const struct files *files, struct leaf *ret);

/*
 * Is all code that it has mapped by now from files that leaves may have? If not, its program is not
 * a leaf from now on.
 */
bool leaf_is_one(const struct leaf *leaf, pid_t pid, struct files *files);

/*
 * The same for one that ends here: what to report if some of its code may have had probes. NULL:
 * nothing. `status` is its end's (waitpid(2)).
 */
PROBE_MUST_CHECK struct probe_error *leaf_end(
	const struct leaf *leaf, pid_t pid, struct files *files, int status);

/*
 * Its process has executed another program. What it had mapped is unknown, so this must be
 * reported. It stays a leaf. Such programs are followed better than others, whose system calls do
 * not come to a gate.
 */
PROBE_MUST_CHECK struct probe_error *leaf_replaced(pid_t pid);

/* It did something that no leaf does: its program is not a leaf from now on. */
void leaf_forget(const struct leaf *leaf, struct files *files);

#endif
