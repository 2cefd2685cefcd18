/* SPDX-License-Identifier: MIT */
/* The unwind rules for one address. Private to elf/unwind.c. */
#ifndef ELF_UNWIND_RULES_H
#define ELF_UNWIND_RULES_H

#include <elfutils/libdw.h>

#include "unwind.h"

/* How to find a value of the caller (DWARF 5, 6.4.1). Only UNWIND_EXPRESSION needs a stack. */
enum unwind_how {
	UNWIND_UNDEFINED,
	UNWIND_SAME,
	UNWIND_REGISTER, /* register + offset */
	UNWIND_CFA,	 /* canonical frame address (CFA) + offset */
	UNWIND_AT_CFA,	 /* the memory at CFA + offset */
	UNWIND_EXPRESSION
};

struct unwind_rule {
	enum unwind_how how;
	uint8_t reg;
	bool is_cfa; /* the expression computes the value itself, not its address */
	int64_t offset;
	Dwarf_Op *ops; /* owned */
	size_t op_count;
};

/* The rules for one address of a file. */
struct unwind_rules {
	uint64_t address;
	bool none; /* the address has no rules */
	bool is_signal;
	uint8_t return_address; /* number of the register whose rule gives the return address */
	struct unwind_rule cfa;
	struct unwind_rule registers[UNWIND_REGISTERS];
};

#endif
