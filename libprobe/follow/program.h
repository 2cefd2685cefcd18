/* SPDX-License-Identifier: MIT */
/* What is known of a program that has just been started: its file and its loader. */
#ifndef LIBPROBE_FOLLOW_PROGRAM_H
#define LIBPROBE_FOLLOW_PROGRAM_H

#include <stdbool.h>
#include <sys/types.h>

#include "libprobe/process/files.h"

/* The file of a process's program, borrowed; NULL: it is not among `files`, which may be NULL. */
struct file *program_file(pid_t pid, const struct files *files);

/* Is the program's loader glibc's? No other loader is followed. `files` may be NULL. */
bool program_has_glibc_loader(pid_t pid, struct files *files);

/*
 * Is a program's loader at work yet? It reports this to debuggers (struct r_debug). If a process
 * cannot be read, or has no such loader: false, as waiting would not help.
 */
bool program_is_loading(pid_t pid, struct files *files);

#endif
