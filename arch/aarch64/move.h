/* SPDX-License-Identifier: MIT */
#ifndef ARCH_AARCH64_MOVE_H
#define ARCH_AARCH64_MOVE_H

#include "arch/arch.h"

/* Implements move() of arch/arch.h. */
enum arch_move_status aarch64_move(const uint8_t *bytes, size_t length, uint64_t from, uint64_t to,
	size_t need, struct arch_moved *ret);

#endif
