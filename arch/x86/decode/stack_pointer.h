/* SPDX-License-Identifier: MIT */
/* Checks whether %rsp points to a stack: operations of struct arch, documented there. */
#ifndef ARCH_X86_DECODE_STACK_POINTER_H
#define ARCH_X86_DECODE_STACK_POINTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool x86_64_loses_stack(const uint8_t *bytes, size_t length);
bool x86_64_may_lose_stack(const uint8_t *bytes, size_t length);

#endif
