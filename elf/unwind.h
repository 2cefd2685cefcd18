/* SPDX-License-Identifier: MIT */
/*
 * Unwinding: from the registers in a function to those of its caller, by the
 * call frame information of an ELF file (.eh_frame), which stripped files have,
 * too. libdw reads it, and is loaded at the first use.
 */
#ifndef ELF_UNWIND_H
#define ELF_UNWIND_H

#include "object.h"

/* Registers by their DWARF numbers; the others (vectors) are nobody's concern here. */
enum { UNWIND_REGISTERS = 33 };

struct unwind_registers {
	uint64_t pc;
	uint64_t values[UNWIND_REGISTERS];
	uint64_t known; /* a bit for each */
};

/* The memory of the unwound thread. */
struct unwind_memory {
	/* The 8 bytes at an address; false where they are not known. */
	bool (*read)(void *data, uint64_t address, uint64_t *ret);
	void *data;
};

enum unwind_status {
	UNWIND_CALLER,	  /* the registers are the caller's now */
	UNWIND_OUTERMOST, /* there is no caller */
	UNWIND_NO_RULES,  /* nothing is known of that address */
	UNWIND_FAILED	  /* a register or memory that is needed is not known */
};

struct unwind;

/* Is libdw there? Errors: PROBE_ERROR_UNSUPPORTED, which says what is missing. */
PROBE_MUST_CHECK struct probe_error *unwind_check(void);

/*
 * Prepares for one object, which must stay open as long. Succeeds also where the
 * file has no call frame information: there are no rules then.
 * Errors: PROBE_ERROR_UNSUPPORTED (libdw is not installed), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *unwind_open(struct object *object, struct unwind **ret);
/* NULL is allowed. */
void unwind_close(struct unwind *unwind);

/*
 * Where a function has its return address, as a distance from register `sp`; false
 * where it is found by another register, or not known. *ret is above or at 0.
 */
bool unwind_return_offset(struct unwind *unwind, uint64_t address, uint8_t sp, int32_t *ret);

/*
 * One step. `address` is where in the file the rules are looked up: that of the
 * pc, or of the byte before where the pc is a return address, for the call may
 * be the last instruction of its function. Registers are changed only with
 * UNWIND_CALLER. *is_signal_ret is true for the frame that the kernel makes for a
 * signal: the caller's pc is then no return address.
 */
enum unwind_status unwind_step(struct unwind *unwind, uint64_t address,
	const struct unwind_memory *memory, struct unwind_registers *registers,
	bool *is_signal_ret);

#endif
