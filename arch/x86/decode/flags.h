/* SPDX-License-Identifier: MIT */
/* Implements overwrites_flags() of arch/arch.h. */
#ifndef ARCH_X86_DECODE_FLAGS_H
#define ARCH_X86_DECODE_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool x86_64_overwrites_flags(const uint8_t *bytes, size_t length);

#endif
