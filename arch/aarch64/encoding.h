/* SPDX-License-Identifier: MIT */
/*
 * Instruction words and their fields: four bytes, always little-endian (Arm ARM, DDI 0487, B2.6.2).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { AARCH64_INSN_LENGTH = 4 };

static inline uint32_t aarch64_load(const uint8_t *bytes)
{
	return (uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 |
	       bytes[0];
}

static inline void aarch64_store(uint8_t *out, uint32_t insn)
{
	for (int i = 0; i < AARCH64_INSN_LENGTH; i++)
		out[i] = (uint8_t)(insn >> 8 * i);
}

/*
 * Writes the distance field. Returns false if the distance does not fit, or is not a multiple of
 * four.
 */
static inline bool aarch64_set_distance(
	uint32_t *insn, unsigned int low, unsigned int bits, int64_t distance)
{
	int64_t words = distance / AARCH64_INSN_LENGTH, limit = INT64_C(1) << (bits - 1);
	uint32_t mask = (UINT32_C(1) << bits) - 1;

	if (distance % AARCH64_INSN_LENGTH || words < -limit || words >= limit)
		return false;
	*insn = (*insn & ~(mask << low)) | ((uint32_t)words & mask) << low;
	return true;
}

static inline bool aarch64_set_page_field(uint32_t *insn, int64_t value)
{
	uint32_t bits = (uint32_t)value;

	if (value < -(INT64_C(1) << 20) || value >= INT64_C(1) << 20)
		return false;
	*insn = (*insn & ~UINT32_C(0x60ffffe0)) | (bits & 3) << 29 | (bits >> 2 & 0x7ffff) << 5;
	return true;
}
