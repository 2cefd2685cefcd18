/* SPDX-License-Identifier: MIT */
#ifndef CLI_LIST_PROGRAM_H
#define CLI_LIST_PROGRAM_H

/*
 * Returns the path of the program that the shell would start for a name without a slash; the
 * caller frees it. NULL if $PATH has no such program, or on lack of memory.
 */
char *program_find(const char *name);

#endif
