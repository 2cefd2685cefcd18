/* SPDX-License-Identifier: MIT */
/*
 * The parts of a process that depend on the instruction set: address space, registers, system
 * calls, signal frames. Controllers and targets have the same one, so only arch_process() is used.
 *
 * Like all of arch/, this makes no system calls: registers and frames are bytes. Operations that
 * must run on the machine itself are NULL in other machines' tables.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arch_thread;

/* ---- Registers ------------------------------------------------------------------------------ */

/* A stopped thread's general registers, as of ptrace(2). */
enum { ARCH_REGISTER_WORDS = 36 };
struct arch_registers {
	uint64_t words[ARCH_REGISTER_WORDS];
};

/* A word of struct arch_registers that is a regset of its own. */
struct arch_regset {
	int type; /* regset number, NT_* */
	uint8_t word, bytes;
	bool never_changes; /* probectl never changes this word and so never writes it */
};

enum arch_register {
	ARCH_PC,
	ARCH_SP,
	ARCH_FP, /* the frame pointer */
	ARCH_TP, /* the thread pointer */
	/* Number of the system call that the thread is in, or negative. */
	ARCH_CALL,
	ARCH_NUMBER, /* register in which a thread passes the number of a system call */
	ARCH_RESULT,
	ARCH_ARG0, /* the arguments of a system call */
	ARCH_ARG1,
	ARCH_ARG2,
	ARCH_ARG3,
	ARCH_ARG4,
	ARCH_ARG5,
	ARCH_REGISTERS
};

/* A register that the machine lacks reads as -1; writing it does nothing. */
uint64_t arch_get(const struct arch_registers *registers, enum arch_register which);
void arch_set(struct arch_registers *registers, enum arch_register which, uint64_t value);

/* ---- Code that every process has --------------------------------------------------------- */

/*
 * Instructions of the target by which its threads make system calls for a controller: addresses in
 * the target or, in a search, the file; 0 if not found.
 */
struct arch_gadgets {
	uint64_t call;	    /* makes a system call, then returns to the address on the stack */
	uint64_t leave;	    /* loads the stack pointer from the frame pointer, then returns */
	uint64_t sigreturn; /* calls rt_sigreturn(2); signal handlers return to such code */
	/* Bytes from the frame pointer to the stack pointer after `leave`, where they vary. */
	uint16_t leave_above;
};

/* ---- Signal frames ------------------------------------------------------------------------ */

/*
 * The layout of a signal frame, which the kernel puts on a handler's stack. Members are offsets in
 * it, in bytes, unless stated otherwise.
 */
struct arch_frame_layout {
	uint16_t bytes;	 /* size of the frame, up to the end of the last part named here */
	uint16_t sp, pc; /* stack pointer and program counter of the interrupted context */
	/*
	 * The interrupted registers, in the order of DWARF numbers. register_count is 0 if call
	 * frame information says where they are.
	 */
	uint16_t registers, register_count;
	uint16_t stack, stack_flags, stack_size; /* the thread's alternate stack (stack_t) */
	/* Address of the floating-point state; 0 if it is in the frame. */
	uint16_t state;
	/* A word in every frame of a 64-bit thread, and hardly elsewhere. */
	uint16_t mark;
	uint64_t mark_word;
	/*
	 * 0 if the mark is among the registers. Otherwise a copy of registers is recognised by sp,
	 * pc, and flags with only these bits.
	 */
	uint64_t flag_bits;
	/* Distances from a frame up to its floating-point state; more if the frame is a copy. */
	uint16_t state_min, state_max;
	/* The first bytes of a floating-point state tell its length; the word state_end follows. */
	uint16_t state_head;
	uint32_t state_end;
};

enum {
	ARCH_FRAME_TEXT = 32,
	ARCH_FRAME_MARK = 16,
	ARCH_FRAME_STACK = 7, /* flags of the alternate stack that make rt_sigreturn(2) ignore it */
	ARCH_STATE_MAX = 16384,
	ARCH_UNKEPT_HEAD = 16
};

/*
 * A signal frame from which rt_sigreturn(2) restores a thread that makes system calls for the
 * controller. `mark` identifies it; `text` may be an argument.
 */
struct arch_frame {
	const struct arch_registers *registers;
	uint64_t mask;	/* signal mask */
	uint64_t state; /* address at which the floating-point state will be */
	size_t state_bytes;
	uint64_t sigreturn; /* address of the gadget */
	char mark[ARCH_FRAME_MARK];
	char text[ARCH_FRAME_TEXT];
};

/* The floating-point state of a thread without extra features. `bytes` is 0 if unknown. */
struct arch_state {
	uint64_t features;
	size_t bytes;
};

/* How a restartable sequence ended (rseq(2)). */
enum arch_sequence { ARCH_SEQUENCE_OVER, ARCH_SEQUENCE_TOLD, ARCH_SEQUENCE_ABORTED };

/* ---- The table ------------------------------------------------------------------------------ */

struct arch_process {
	/* -- names and numbers of the kernel -- */

	uint32_t audit;		 /* AUDIT_ARCH_* of <linux/audit.h>, as seccomp filters see it */
	uint32_t rseq_signature; /* RSEQ_SIG of <sys/rseq.h>, which glibc and librseq register */
	uint64_t address_end;	 /* end of the addresses that a process may map */
	/*
	 * If a process has a shadow stack, this line of /proc/PID/status has this word. May be
	 * NULL.
	 */
	const char *shadow_stack_line, *shadow_stack_word;

	/* -- registers -- */

	/* ptrace(2) requests for the registers; 0: the regset NT_PRSTATUS. */
	int ptrace_get, ptrace_set;
	uint16_t register_bytes;
	const struct arch_regset *regsets; /* words that ptrace_get and ptrace_set do not cover */
	uint8_t regset_count;
	/* the word of each register, or negative if it has none */
	int8_t registers[ARCH_REGISTERS];
	uint8_t general_first, general_count; /* words that may hold any address */
	/* Does the thread run 64-bit code? */
	bool (*is_native)(const struct arch_registers *registers);

	/* -- the stack and the thread's control block -- */

	/* At a gate: bytes from the stack pointer to the saved first argument of its function. */
	uint16_t gate_argument;
	/* bytes below the stack pointer that code may use */
	uint8_t red_zone;
	bool tp_is_self; /* the word at the thread pointer holds the thread pointer */
	/* The control block ends, rather than begins, at the thread pointer. */
	bool tp_is_end;
	/* Offset of glibc's pointer guard from the thread pointer, or 0. */
	uint8_t guard;
	/* glibc XORs a pointer with the guard, then rotates it left by this number of bits. */
	uint8_t guard_shift;
	const char *musl; /* musl's name for this machine, as in its file names */

	/* -- system calls -- */

	/*
	 * System calls: `waits` may end with EINTR after a stop without a signal handler;
	 * `limited_waits` of them have a limit in ms as fourth argument; `blocks` are continued by
	 * restart_syscall(2), without futex(2).
	 */
	const uint16_t *waits, *limited_waits, *blocks;
	uint8_t wait_count, limited_wait_count, block_count;
	/*
	 * 0 if ARCH_CALL tells whether a stopped thread is in a system call. Otherwise the 4-byte
	 * call instruction: being in a call looks like being about to make it.
	 */
	uint32_t hidden_call;
	/* -- system calls in a target: NULL if the target cannot make any -- */

	/* Searches code at `address` for gadgets that are still missing. */
	void (*find_gadgets)(
		const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets);
	/* Lengths of the gadgets; sigreturn_bytes is the greatest. */
	uint8_t call_bytes, leave_bytes, sigreturn_bytes;
	/*
	 * Fills frame_bytes of `out`. Offsets of `text` and `mark` are frame_text and frame_mark;
	 * state_mark is the mark's in the floating-point state. If that is a part of the kernel's
	 * frame (layout->state is 0), it follows at once, without a mark.
	 */
	void (*make_frame)(const struct arch_frame *frame, uint8_t *out);
	uint16_t frame_bytes, frame_text, frame_mark, state_mark;
	/* Make a thread run `call` or `leave`, then return through `frame`. */
	void (*set_call)(struct arch_registers *registers, const struct arch_gadgets *gadgets,
		uint64_t frame, long number);
	void (*set_leave)(struct arch_registers *registers, const struct arch_gadgets *gadgets,
		uint64_t frame);
	/* -- signal frames -- */

	const struct arch_frame_layout *layout;
	/*
	 * Returns the size of a floating-point state, and so the offset of the word behind it, by
	 * its first layout->state_head bytes; 0 if it is none.
	 */
	size_t (*state_size)(const uint8_t *head);

	/* -- functions that run on this machine: some are NULL on other machines -- */

	/* Reads the time counter that stubs read, without a system call. */
	uint64_t (*counter)(void);
	/* Returns the bits of a return address for a signature. NULL: never signed. */
	uint64_t (*signature)(void);
	/* Sets has_atomics and the members behind it. NULL if stubs need none. */
	void (*describe_processor)(struct arch_thread *thread);
	/*
	 * Runs a restartable sequence in a thread whose area is registered with rseq_signature:
	 * sets *begun, and polls *told at most `rounds` times. NULL if all kernels abort sequences
	 * correctly.
	 */
	enum arch_sequence (*sequence)(
		void *area, uint32_t *begun, const uint32_t *told, uint64_t rounds);
	/*
	 * Raises SIGTRAP. The handler must call pass_trap() with its context, for trap() to return;
	 * NULL if the context points behind the instruction.
	 */
	void (*trap)(void);
	void (*pass_trap)(void *context);
	int state_regset; /* regset of the floating-point state for ptrace(2), NT_* */
	/* Regset without state_regset; 0 if every processor has that. */
	int state_regset_else;
	/* A system call destroys some of the floating-point state, which must be written back. */
	bool state_is_lost;
	/*
	 * Regsets that neither frames nor state_regset restore. is_unkept() tells from the first
	 * ARCH_UNKEPT_HEAD bytes if a thread has data there.
	 */
	const int *unkept;
	uint8_t unkept_count;
	bool (*is_unkept)(int regset, const uint8_t *head);
	void (*measure_state)(struct arch_state *ret);
	/*
	 * Converts a state from ptrace(2) to a frame's. Returns its length, at most ARCH_STATE_MAX
	 * plus the word behind, or 0 if there are too few bytes. `usual` is of measure_state(), or
	 * zeros.
	 */
	size_t (*make_state)(uint8_t *state, size_t size, const struct arch_state *usual);
};

extern const struct arch_process x86_64_process, aarch64_process;

/* The table of this machine, or NULL. */
const struct arch_process *arch_process(void);
