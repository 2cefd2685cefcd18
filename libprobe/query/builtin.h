/* SPDX-License-Identifier: MIT */
/*
 * The text of the files that are part of the library, libprobe/query/probes/NAME.probes, one
 * after the other. The makefile makes the source of it.
 */
#ifndef LIBPROBE_QUERY_BUILTIN_H
#define LIBPROBE_QUERY_BUILTIN_H

#include <stddef.h>

extern const char catalogue_builtin[];
extern const size_t catalogue_builtin_length;

#endif
