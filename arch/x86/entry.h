/* SPDX-License-Identifier: MIT */
/* Entries and exits of functions: members of struct arch, documented there. */
#ifndef ARCH_X86_ENTRY_H
#define ARCH_X86_ENTRY_H

#include "arch/arch.h"

const char *x86_64_entry(
	const uint8_t *bytes, size_t length, uint64_t address, struct arch_entry *ret);
bool x86_64_is_switch(const uint8_t *bytes, size_t length, uint64_t *table_ret);
extern const char x86_64_return_args[], x86_64_return_frame[];

#endif
