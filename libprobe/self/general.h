/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_GENERAL_H
#define LIBPROBE_SELF_GENERAL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Does this function, with all that it calls, provably change only general registers, flags and
 * memory? Calls by pointer or through a library's table, writable code, and too much code prevent
 * it.
 */
bool general_function(uint64_t address);

#endif
