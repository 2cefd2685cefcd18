/* SPDX-License-Identifier: MIT */
/* The library as a program: libprobe.so, when executed, is the controller of a process. */
#ifndef LIBPROBE_SELF_IMAGE_H
#define LIBPROBE_SELF_IMAGE_H

#include <stdbool.h>

enum { IMAGE_STACK_BYTES = 1 << 20 }; /* the most stack that the controller needs */

/*
 * Opens the file to execute as the controller. The program's only argument is the number of a
 * socket. Returns a descriptor, which the caller closes. Returns -1 if there is no such file, if
 * the caller's seccomp filters might forbid execve(2), or if the hard limit of the stack is below
 * IMAGE_STACK_BYTES.
 */
int image_open(void);

/* The entry point (program.c, which only libprobe.so has). */
void image_entry(void) __attribute__((weak, visibility("hidden")));

#endif
