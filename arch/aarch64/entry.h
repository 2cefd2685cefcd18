/* SPDX-License-Identifier: MIT */
/* Entries and exits of functions: members of struct arch, documented there. */
#ifndef ARCH_AARCH64_ENTRY_H
#define ARCH_AARCH64_ENTRY_H

#include "arch/arch.h"

const char *aarch64_entry(
	const uint8_t *bytes, size_t length, uint64_t address, struct arch_entry *ret);
bool aarch64_is_switch(const uint8_t *bytes, size_t length, uint64_t *table_ret);
extern const char aarch64_return_args[], aarch64_return_frame[];

#endif
