/* SPDX-License-Identifier: MIT */
/* Instructions of aarch64 that a patch reads or writes: the patching part of arch.h. */
#ifndef ARCH_AARCH64_PATCH_H
#define ARCH_AARCH64_PATCH_H

#include "arch/arch.h"

bool aarch64_is_breakpoint(const uint8_t *bytes);
size_t aarch64_nop_length(const uint8_t *bytes, size_t length);
size_t aarch64_jump(uint64_t at, uint64_t to, uint8_t *out);
uint64_t aarch64_jump_target(uint64_t at, const uint8_t *bytes);
bool aarch64_is_function_call(const uint8_t *bytes);

#endif
