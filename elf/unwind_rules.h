/* SPDX-License-Identifier: MIT */
/* The rules for one address, and their computation; of elf/unwind*.c alone. */
#ifndef ELF_UNWIND_RULES_H
#define ELF_UNWIND_RULES_H

#include <elfutils/libdw.h>

#include "unwind.h"

/* How a value of the caller is found (DWARF 5, 6.4.1). The most common ones need no stack. */
enum unwind_how {
	UNWIND_UNDEFINED,
	UNWIND_SAME,
	UNWIND_REGISTER, /* of a register + offset */
	UNWIND_CFA,	 /* the canonical frame address + offset */
	UNWIND_AT_CFA,	 /* what is in memory there */
	UNWIND_EXPRESSION
};

struct unwind_rule {
	enum unwind_how how;
	uint8_t reg;
	bool is_cfa; /* of an expression: it yields a value, and not where one is */
	int64_t offset;
	Dwarf_Op *ops; /* owned */
	size_t op_count;
};

/* Those for one address of a file. */
struct unwind_rules {
	uint64_t address;
	bool none; /* there are none */
	bool is_signal;
	uint8_t return_address; /* the column that it is in */
	struct unwind_rule cfa;
	struct unwind_rule registers[UNWIND_REGISTERS];
};

/*
 * Rules of what libdw says: for the CFA, and for a register. False for expressions
 * that make no sense, or without memory.
 */
bool unwind_rule_init_cfa(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count);
bool unwind_rule_init(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count);
void unwind_rule_deinit(struct unwind_rule *rule);

/* What it yields; false where something is not known. `cfa` is not used for the CFA's own rule. */
bool unwind_rule_compute(const struct unwind_rule *rule, const struct unwind_registers *registers,
	uint64_t cfa, const struct unwind_memory *memory, uint64_t *ret);

#endif
