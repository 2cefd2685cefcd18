/* SPDX-License-Identifier: MIT */
#ifndef ARCH_X86_DECODE_SCAN_H
#define ARCH_X86_DECODE_SCAN_H

#include "arch/arch.h"

void x86_64_scan(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan);
bool x86_64_short_branch(const uint8_t *bytes, uint64_t address, uint64_t *target_ret);

#endif
