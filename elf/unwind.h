/* SPDX-License-Identifier: MIT */
/*
 * Unwinding: computes the registers of a function's caller from the call frame information of an
 * ELF file (.eh_frame), which stripped files keep. libdw reads this information; the library is
 * loaded at its first use.
 */
#ifndef ELF_UNWIND_H
#define ELF_UNWIND_H

#include "object.h"

/*
 * Number of registers, which have their DWARF numbers. Registers with higher numbers (vectors) are
 * not needed.
 */
enum { UNWIND_REGISTERS = 33 };

struct unwind_registers {
	uint64_t pc;
	uint64_t values[UNWIND_REGISTERS];
	uint64_t known; /* one bit for each register whose value is known */
};

/* The memory of the unwound thread. */
struct unwind_memory {
	/* Reads the 8 bytes at an address. Returns false if these bytes are unknown. */
	bool (*read)(void *data, uint64_t address, uint64_t *ret);
	void *data;
};

enum unwind_status {
	UNWIND_CALLER,	  /* the registers are now the caller's */
	UNWIND_OUTERMOST, /* the function has no caller */
	UNWIND_NO_RULES,  /* the address has no rules */
	UNWIND_FAILED	  /* a needed register or word of memory is unknown */
};

struct unwind;

/* Checks that libdw is installed. Errors: PROBE_ERROR_UNSUPPORTED, which says what is missing. */
PROBE_MUST_CHECK struct probe_error *unwind_check(void);

/*
 * Prepares one object for unwinding. The object must outlive `*ret`. Succeeds even if the file has
 * no call frame information; no address then has rules. Errors: PROBE_ERROR_UNSUPPORTED (libdw is
 * not installed), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *unwind_open(struct object *object, struct unwind **ret);
/* Frees `unwind`. NULL is allowed. */
void unwind_close(struct unwind *unwind);

/*
 * Where a function has saved the registers of its caller, if it finds its frame by the stack
 * pointer.
 */
struct unwind_saved {
	/*
	 * Bytes from the stack pointer to the return address; UNWIND_IN_REGISTER; or -1 if unknown.
	 */
	int32_t return_at;
	/*
	 * Bytes from the stack pointer to the caller's frame pointer; -1 if the caller's frame
	 * pointer was not saved and is still in its register.
	 */
	int32_t frame_at;
};
enum { UNWIND_IN_REGISTER = -2 };

/*
 * Returns where the registers are saved when the pc is `address`, an address of the file. `sp` and
 * `fp` are the DWARF numbers of the stack pointer and the frame pointer. Both distances are -1 if
 * the frame is not relative to the stack pointer, or if the return address is unknown.
 */
struct unwind_saved unwind_saved(struct unwind *unwind, uint64_t address, uint8_t sp, uint8_t fp);

/*
 * Unwinds one frame; `fp` is the DWARF number of the frame pointer. `address` is the address, in
 * the file, whose rules apply. It is the pc, or one less if the pc is a return address, because the
 * call may be the last instruction of its function. *registers are the caller's only if the result
 * is UNWIND_CALLER. *is_signal_ret is set to true for a frame that the kernel pushed for a signal:
 * the caller's pc is then not a return address.
 */
enum unwind_status unwind_step(struct unwind *unwind, uint64_t address, uint8_t fp,
	const struct unwind_memory *memory, struct unwind_registers *registers,
	bool *is_signal_ret);

#endif
