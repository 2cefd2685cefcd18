/* SPDX-License-Identifier: MIT */
/* The library as a program: libprobe.so, executed, is the controller of a process. */
#ifndef LIBPROBE_SELF_IMAGE_H
#define LIBPROBE_SELF_IMAGE_H

#include <stdbool.h>

enum { IMAGE_STACK_BYTES = 1 << 20 }; /* that it needs at most */

/*
 * The file to be executed with the number of a socket as its argument, as a descriptor that is the
 * caller's; -1: there is none, or the caller's filters (seccomp(2)) might forbid execve(2), or the
 * process may not give it a stack.
 */
int image_open(void);

/* Where it is entered (program.c, which only libprobe.so has). */
void image_entry(void) __attribute__((weak, visibility("hidden")));

#endif
