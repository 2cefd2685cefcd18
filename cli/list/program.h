/* SPDX-License-Identifier: MIT */
#ifndef CLI_LIST_PROGRAM_H
#define CLI_LIST_PROGRAM_H

/*
 * The path of the program that the shell would start for a name without a slash; the caller frees
 * it. NULL: there is none in $PATH, or no memory.
 */
char *program_find(const char *name);

#endif
