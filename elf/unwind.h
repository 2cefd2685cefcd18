/* SPDX-License-Identifier: MIT */
/*
 * Unwinding: computes the registers of a function's caller from the call frame information of
 * an ELF file (.eh_frame), which stripped files keep. libdw reads it; it is loaded at the first
 * use.
 */
#ifndef ELF_UNWIND_H
#define ELF_UNWIND_H

#include "object.h"

/* Registers by their DWARF numbers; higher ones (vectors) are not needed. */
enum { UNWIND_REGISTERS = 33 };

struct unwind_registers {
	uint64_t pc;
	uint64_t values[UNWIND_REGISTERS];
	uint64_t known; /* one bit per register */
};

/* The memory of the unwound thread. */
struct unwind_memory {
	/* Reads the 8 bytes at an address; false if they are unknown. */
	bool (*read)(void *data, uint64_t address, uint64_t *ret);
	void *data;
};

enum unwind_status {
	UNWIND_CALLER,	  /* the registers are now the caller's */
	UNWIND_OUTERMOST, /* there is no caller */
	UNWIND_NO_RULES,  /* the address has no rules */
	UNWIND_FAILED	  /* a register or memory it needs is unknown */
};

struct unwind;

/* Checks that libdw is installed. Errors: PROBE_ERROR_UNSUPPORTED, which says what is missing. */
PROBE_MUST_CHECK struct probe_error *unwind_check(void);

/*
 * Prepares one object, which must outlive `*ret`. Succeeds even if the file has no call frame
 * information: there are no rules then. Errors: PROBE_ERROR_UNSUPPORTED (libdw is not
 * installed), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *unwind_open(struct object *object, struct unwind **ret);
/* NULL is allowed. */
void unwind_close(struct unwind *unwind);

/* Where a function whose frame is known by the stack pointer has what its caller needs. */
struct unwind_saved {
	/* Distance from the stack pointer to the return address; or UNWIND_IN_REGISTER, or -1. */
	int32_t return_at;
	int32_t frame_at; /* likewise, to the caller's frame pointer; -1: that is in its register */
};
enum { UNWIND_IN_REGISTER = -2 };

/*
 * Finds them for an address, by the numbers of the stack pointer and of the frame pointer. Both
 * are -1 if the frame is not relative to the stack pointer, or the return address is unknown.
 */
struct unwind_saved unwind_saved(struct unwind *unwind, uint64_t address, uint8_t sp, uint8_t fp);

/*
 * One step; `fp` is the number of the frame pointer. `address` is the place in the file whose rules
 * apply: the pc, or the byte before it if the pc is a return address, because the call may be the
 * last instruction of its function. Registers change only if the result is UNWIND_CALLER.
 * *is_signal_ret is true for the frame that the kernel pushes for a signal: the caller's pc is then
 * not a return address.
 */
enum unwind_status unwind_step(struct unwind *unwind, uint64_t address, uint8_t fp,
	const struct unwind_memory *memory, struct unwind_registers *registers,
	bool *is_signal_ret);

#endif
