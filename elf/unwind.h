/* SPDX-License-Identifier: MIT */
/*
 * Unwinding: a caller's registers from an ELF file's call frame information (.eh_frame), which
 * stripped files keep. libdw reads it, loaded at its first use.
 */
#pragma once

#include "object.h"

/* Registers have their DWARF numbers. Higher ones (vectors) are not needed. */
enum { UNWIND_REGISTERS = 33 };

struct unwind_registers {
	uint64_t pc;
	uint64_t values[UNWIND_REGISTERS];
	uint64_t known; /* one bit for each register whose value is known */
};

struct unwind_memory {
	/* Reads 8 bytes. Returns false if they are unknown. */
	bool (*read)(void *data, uint64_t address, uint64_t *ret);
	void *data;
};

enum unwind_status {
	UNWIND_CALLER,	  /* the registers are now those of the caller */
	UNWIND_OUTERMOST, /* the function has no caller */
	UNWIND_NO_RULES,  /* the address has no rules */
	UNWIND_FAILED	  /* a needed register or word of memory is unknown */
};

struct unwind;

/*
 * Checks that unwinding is possible. Errors: PROBE_ERROR_UNSUPPORTED (libdw is missing; the message
 * says what).
 */
PROBE_MUST_CHECK struct probe_error *unwind_check(void);

/*
 * Prepares an object, which must outlive *ret. Without call frame information, no address has
 * rules. Errors: PROBE_ERROR_UNSUPPORTED (libdw is not installed), PROBE_ERROR_MEMORY.
 */
PROBE_MUST_CHECK struct probe_error *unwind_open(struct object *object, struct unwind **ret);
void unwind_close(struct unwind *unwind);

/* Where a function has saved its caller's registers, relative to its stack pointer. */
struct unwind_saved {
	/* Bytes from the stack pointer to the return address; UNWIND_IN_REGISTER; -1 if unknown. */
	int32_t return_at;
	/*
	 * Bytes from the stack pointer to the caller's frame pointer; -1 if that is in its
	 * register.
	 */
	int32_t frame_at;
};
enum { UNWIND_IN_REGISTER = -2 };

/*
 * Returns where registers are saved at a pc in the file. `sp` and `fp` are DWARF numbers. Both
 * results are -1 if the frame is not relative to the stack pointer, or the return address is
 * unknown.
 */
struct unwind_saved unwind_saved(struct unwind *unwind, uint64_t address, uint8_t sp, uint8_t fp);

/*
 * Unwinds one frame. `address`, in the file, is the pc, or one less for a return address, because a
 * call may be the function's last instruction. `fp` is the frame pointer's DWARF number. *registers
 * become the caller's only if UNWIND_CALLER is returned. *is_signal_ret becomes true for a frame
 * that the kernel pushed for a signal: its pc is not a return address.
 */
enum unwind_status unwind_step(struct unwind *unwind, uint64_t address, uint8_t fp,
	const struct unwind_memory *memory, struct unwind_registers *registers,
	bool *is_signal_ret);
