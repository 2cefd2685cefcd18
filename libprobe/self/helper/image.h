/* SPDX-License-Identifier: MIT */
/* libprobe.so, when executed, is the controller of a process. */
#ifndef LIBPROBE_SELF_IMAGE_H
#define LIBPROBE_SELF_IMAGE_H

#include <stdbool.h>

enum { IMAGE_STACK_BYTES = 1 << 20 }; /* the most stack that the controller needs */

/*
 * Opens the program of the controller, whose only argument is a socket's number. The caller closes
 * it. Returns -1 if there is no such file, seccomp might forbid execve(2), or the stack's hard
 * limit is below IMAGE_STACK_BYTES.
 */
int image_open(void);

/* The entry point (program.c, which only libprobe.so has). */
void image_entry(void) __attribute__((weak, visibility("hidden")));

#endif
