/* SPDX-License-Identifier: MIT */
#ifndef CLI_LIST_PROGRAM_H
#define CLI_LIST_PROGRAM_H

/*
 * Returns the path of the program that the shell would start for a name without a slash. Returns
 * NULL if $PATH has no such program, or on lack of memory. The caller frees the path.
 */
char *program_find(const char *name);

#endif
