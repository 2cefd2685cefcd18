/* SPDX-License-Identifier: MIT */
/* The text of the files that are part of the library. */
#ifndef LIBPROBE_CATALOGUE_BUILTIN_H
#define LIBPROBE_CATALOGUE_BUILTIN_H

#include <stddef.h>

extern const char catalogue_builtin[];
extern const size_t catalogue_builtin_length;

#endif
