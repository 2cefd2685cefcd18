/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_GENERAL_H
#define LIBPROBE_SELF_GENERAL_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns true if a function of this process, with all functions that it calls, provably changes
 * only general registers, flags and memory. Returns false if this cannot be proven: because of a
 * call by a pointer or through a library's table, writable code, or too much code.
 */
bool general_function(uint64_t address);

#endif
