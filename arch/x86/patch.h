/* SPDX-License-Identifier: MIT */
/*
 * The part of arch.h about patches: what other tools write at a site, and patches that tolerate it.
 */
#ifndef ARCH_X86_PATCH_H
#define ARCH_X86_PATCH_H

#include "arch/arch.h"

enum {
	X86_64_BREAKPOINT = 0xcc,
	X86_64_PUN_LENGTH = 1,
	X86_64_TWIN_LENGTH = 6,
	X86_64_TWIN_CHOICES = 256 * 16
};

extern const struct arch_toggle x86_64_toggle;

bool x86_64_is_breakpoint(const uint8_t *bytes);
struct arch_pun x86_64_pun(const uint8_t *bytes, uint64_t at, unsigned int fixed);
struct arch_extent x86_64_part(const uint8_t *bytes, uint64_t at, unsigned int length);
struct arch_twin x86_64_twin(uint64_t at, unsigned int choice);
uint8_t x86_64_nop_fixed(const uint8_t *nop, size_t length, bool is_site);

#endif
