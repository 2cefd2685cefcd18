/* SPDX-License-Identifier: MIT */
/* Whether a program has the same rights under our ptrace(2) as without. */
#ifndef LIBPROBE_FOLLOW_RIGHTS_H
#define LIBPROBE_FOLLOW_RIGHTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RIGHTS_PATH_MAX = 4096 };

/* Reads the path at an address of a process; false if there is none, or it is too long. */
bool rights_read_path(pid_t pid, uint64_t address, char text[RIGHTS_PATH_MAX]);

/*
 * A process is about to execute a file, whose path is at this address: will the program have all
 * its rights? It will if we are root, or if neither the file nor, if it is a script, its
 * interpreter changes the user. If unknown: false.
 */
bool rights_stay(pid_t pid, uint64_t path);

/*
 * The same, and execve(2) will most likely not fail. If it did, a thread that is not stopped there
 * could execute yet another file while it is traced, and nobody would have looked at that.
 */
bool rights_stay_at_once(pid_t pid, uint64_t path);

#endif
