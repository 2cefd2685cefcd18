/* SPDX-License-Identifier: MIT */
#ifndef ARCH_AARCH64_SCAN_H
#define ARCH_AARCH64_SCAN_H

#include "arch/arch.h"

/* Implement scan() and scan_function() of arch/arch.h. */
void aarch64_scan(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan);
void aarch64_scan_function(
	const uint8_t *bytes, size_t length, uint64_t address, const struct arch_scan *scan);

#endif
