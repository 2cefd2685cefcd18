/* SPDX-License-Identifier: MIT */
/* Implements argument_dies() of arch/arch.h. */
#ifndef ARCH_X86_DECODE_ARGUMENT_H
#define ARCH_X86_DECODE_ARGUMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool x86_64_argument_dies(const uint8_t *bytes, size_t length);

#endif
