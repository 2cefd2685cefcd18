/* SPDX-License-Identifier: MIT */
/*
 * Idle programs: none of the files that they have mapped has a requested probe. They need no gate
 * before they start a process or a thread, become another program or map other code.
 */
#ifndef LIBPROBE_FOLLOW_IDLE_H
#define LIBPROBE_FOLLOW_IDLE_H

#include <stdbool.h>
#include <sys/types.h>

#include "libprobe/modules/files.h"

/* Notes the files of a process in which no probe is wanted. `files` may be NULL. */
void idle_note(pid_t pid, struct files *files);

/*
 * Is a stopped program idle, according to the noted files, and can it be stopped before its system
 * calls? Under a seccomp(2) filter it cannot: the filter would judge the call that we prevent.
 * False as well if that would not pay, as the program mostly needed gates after all.
 */
bool idle_begins(pid_t pid, struct files *files);

/* A program that was idle gets gates. */
void idle_fails(pid_t pid, const struct files *files);

/*
 * May a thread that has stopped at a system call go on? It may after every call, and before one
 * that needs no gate. Before any other call, or with `to_stop`, the caller must undo the call.
 */
bool idle_goes_on(pid_t pid, bool to_stop, const struct files *files);

#endif
