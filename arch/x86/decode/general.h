/* SPDX-License-Identifier: MIT */
#ifndef ARCH_X86_DECODE_GENERAL_H
#define ARCH_X86_DECODE_GENERAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Implements is_general() of arch/arch.h. */
bool x86_64_is_general(const uint8_t *bytes, size_t length);

#endif
