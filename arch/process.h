/* SPDX-License-Identifier: MIT */
/*
 * The parts of a process that depend on the instruction set: address space, registers, system calls
 * and signal frames. A controller and its targets have the same instruction set, so only one table
 * (struct arch_process) is in use: the one that arch_process() returns.
 *
 * Like all of arch/, this code makes no system calls: registers and frames are bytes that the
 * caller has read or will write. Operations that must run on the machine itself, such as reading
 * the time stamp counter, are NULL in the tables of other machines.
 */
#ifndef ARCH_PROCESS_H
#define ARCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arch_thread;

/* ---- Registers ------------------------------------------------------------------------------ */

/* The general registers of a stopped thread, as ptrace(2) reads and writes them. */
enum { ARCH_REGISTER_WORDS = 36 };
struct arch_registers {
	uint64_t words[ARCH_REGISTER_WORDS];
};

/* A word of struct arch_registers that is a regset of its own for ptrace(2). */
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
	/* Number of the system call that the thread is in; negative if it is in none. */
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

/*
 * Read and write registers of this machine. A register that the machine lacks reads as -1, and
 * writing it does nothing.
 */
uint64_t arch_get(const struct arch_registers *registers, enum arch_register which);
void arch_set(struct arch_registers *registers, enum arch_register which, uint64_t value);

/* ---- Code that every process has --------------------------------------------------------- */

/*
 * Instructions in the target's own code that its threads use to make system calls for a controller.
 * The addresses are addresses in the target or, while a file is searched, in the file. An address
 * is 0 if the gadget was not found.
 */
struct arch_gadgets {
	uint64_t call;	    /* makes a system call, then returns to the address on the stack */
	uint64_t leave;	    /* loads the stack pointer from the frame pointer, then returns */
	uint64_t sigreturn; /* calls rt_sigreturn(2); signal handlers return to such code */
	/*
	 * Bytes from the frame pointer up to the stack pointer after `leave`. Set only on ISAs
	 * where this distance varies.
	 */
	uint16_t leave_above;
};

/* ---- Signal frames ------------------------------------------------------------------------ */

/*
 * The layout of a signal frame, which the kernel puts on the handler's stack when it calls a signal
 * handler. Unless stated otherwise, members are offsets from the start of the frame, in bytes.
 */
struct arch_frame_layout {
	uint16_t bytes;	 /* size of the frame, up to the end of the last part named here */
	uint16_t sp, pc; /* stack pointer and program counter of the interrupted context */
	/*
	 * The registers of the interrupted context, in the order of their DWARF numbers from 0 on.
	 * register_count is 0 if the code that a handler returns to has call frame information,
	 * which says where the registers are.
	 */
	uint16_t registers, register_count;
	uint16_t stack, stack_flags, stack_size; /* the thread's alternate stack (stack_t) */
	/* Address of the floating-point state; 0 if the state itself is in the frame. */
	uint16_t state;
	/* A word that occurs in every frame of a 64-bit thread, and hardly anywhere else. */
	uint16_t mark;
	uint64_t mark_word;
	/*
	 * 0 if the mark is among the saved registers. Otherwise a copy of only the registers is
	 * recognised by three words in this order: sp, pc, and flags in which no other bits than
	 * flag_bits are set.
	 */
	uint64_t flag_bits;
	/*
	 * Least and greatest distance from a frame up to its floating-point state. The distance is
	 * greater if the frame is a copy made elsewhere.
	 */
	uint16_t state_min, state_max;
	/*
	 * The first state_head bytes of a floating-point state tell the state's length. The word
	 * state_end follows the state.
	 */
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
 * A signal frame for a thread that makes system calls for the controller: rt_sigreturn(2) restores
 * the thread from it. `mark` identifies the frame. A system call may pass `text` as an argument.
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

/*
 * The floating-point state of a thread that has not asked the kernel for extra features. `bytes` is
 * 0 if the state is unknown.
 */
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
	 * If a process has a shadow stack, /proc/PID/status has a line that begins with
	 * shadow_stack_line and contains the word shadow_stack_word. NULL if the ISA has no shadow
	 * stacks.
	 */
	const char *shadow_stack_line, *shadow_stack_word;

	/* -- registers -- */

	/* ptrace(2) requests that read and write the registers; 0: use the regset NT_PRSTATUS. */
	int ptrace_get, ptrace_set;
	uint16_t register_bytes;
	const struct arch_regset *regsets; /* words that ptrace_get and ptrace_set do not cover */
	uint8_t regset_count;
	/* Index of each register's word; negative if the register does not exist. */
	int8_t registers[ARCH_REGISTERS];
	uint8_t general_first, general_count; /* words that may hold any address */
	/* Whether the thread runs 64-bit code. */
	bool (*is_native)(const struct arch_registers *registers);

	/* -- the stack and the thread's control block -- */

	/*
	 * In a thread that waits at a gate: distance in bytes from the stack pointer up to the
	 * saved first argument of the function that has the gate.
	 */
	uint16_t gate_argument;
	/* bytes below the stack pointer that code may use (the red zone of the ABI) */
	uint8_t red_zone;
	bool tp_is_self; /* the word at the thread pointer holds the thread pointer */
	/* A thread's control block ends, rather than begins, at the thread pointer. */
	bool tp_is_end;
	/* Offset of glibc's pointer guard from the thread pointer; 0 if absent. */
	uint8_t guard;
	/*
	 * glibc combines a pointer with the guard by XOR, then rotates the result left by this many
	 * bits.
	 */
	uint8_t guard_shift;
	const char *musl; /* musl's name for this machine, as in its file names */

	/* -- system calls -- */

	/*
	 * Lists of system call numbers. `waits`: calls that may end with EINTR after a stop
	 * although no signal handler runs. `limited_waits`: the calls in `waits` whose fourth
	 * argument is a time limit in ms. `blocks`: calls that the kernel continues by
	 * restart_syscall(2), except futex(2).
	 */
	const uint16_t *waits, *limited_waits, *blocks;
	uint8_t wait_count, limited_wait_count, block_count;
	/*
	 * 0 if the register ARCH_CALL tells whether a stopped thread is inside a system call or
	 * about to make one. Otherwise the two look alike, and this is the 4-byte system call
	 * instruction.
	 */
	uint32_t hidden_call;
	/* -- system calls in a target: NULL if the target cannot make any -- */

	/* Searches code at `address` and fills in the gadgets that `gadgets` still lacks. */
	void (*find_gadgets)(
		const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets);
	/* Lengths of the gadgets; sigreturn_bytes is the greatest length. */
	uint8_t call_bytes, leave_bytes, sigreturn_bytes;
	/*
	 * Fills frame_bytes bytes of `out`. frame_text and frame_mark are the offsets of `text` and
	 * `mark` in the frame. state_mark is the offset of the mark in the floating-point state. If
	 * the kernel's frame includes the state (layout->state is 0), the state follows these bytes
	 * without a gap and has no mark.
	 */
	void (*make_frame)(const struct arch_frame *frame, uint8_t *out);
	uint16_t frame_bytes, frame_text, frame_mark, state_mark;
	/* Make a thread run the gadget `call` or `leave`, then return through `frame`. */
	void (*set_call)(struct arch_registers *registers, const struct arch_gadgets *gadgets,
		uint64_t frame, long number);
	void (*set_leave)(struct arch_registers *registers, const struct arch_gadgets *gadgets,
		uint64_t frame);
	/* -- signal frames -- */

	const struct arch_frame_layout *layout;
	/*
	 * Reads the first layout->state_head bytes of a floating-point state. Returns the size of
	 * the state, which is the offset of the word that follows it. Returns 0 if the bytes do not
	 * begin such a state.
	 */
	size_t (*state_size)(const uint8_t *head);

	/* -- functions that run on this machine: some are NULL on other machines -- */

	/* Reads, without a system call, the time stamp counter that stubs read. */
	uint64_t (*counter)(void);
	/*
	 * Returns the bits of a return address that may hold a signature. NULL if return addresses
	 * are not signed on this ISA.
	 */
	uint64_t (*signature)(void);
	/*
	 * Sets has_atomics and the members behind it to what this processor has. NULL if stubs need
	 * none of them.
	 */
	void (*describe_processor)(struct arch_thread *thread);
	/*
	 * Runs a restartable sequence in a thread whose area (struct rseq) is registered with
	 * rseq_signature: sets *begun, and polls until *told is set, at most `rounds` times. NULL
	 * if all kernels abort sequences correctly on this ISA.
	 */
	enum arch_sequence (*sequence)(
		void *area, uint32_t *begun, const uint32_t *told, uint64_t rounds);
	/*
	 * trap() raises SIGTRAP. The signal handler must call pass_trap() with its context, so that
	 * trap() returns when the handler has returned. pass_trap() is NULL if the context already
	 * points behind the trap instruction.
	 */
	void (*trap)(void);
	void (*pass_trap)(void *context);
	int state_regset; /* regset of the floating-point state for ptrace(2), NT_* */
	/*
	 * Regset to use if the processor lacks state_regset; 0 if every processor has state_regset.
	 */
	int state_regset_else;
	/*
	 * A system call destroys some of the floating-point state, which must be written back
	 * afterwards.
	 */
	bool state_is_lost;
	/*
	 * Regsets that neither a frame nor state_regset restores. is_unkept() reads the first
	 * ARCH_UNKEPT_HEAD bytes of such a regset and says whether the thread has data in it.
	 */
	const int *unkept;
	uint8_t unkept_count;
	bool (*is_unkept)(int regset, const uint8_t *head);
	void (*measure_state)(struct arch_state *ret);
	/*
	 * Converts `size` bytes of a thread's state, as ptrace(2) read them, into the form that a
	 * frame holds. Returns the length of the result, at most ARCH_STATE_MAX plus the word that
	 * follows, or 0 if there are too few bytes. `usual` is the result of measure_state(), or
	 * all 0.
	 */
	size_t (*make_state)(uint8_t *state, size_t size, const struct arch_state *usual);
};

extern const struct arch_process x86_64_process, aarch64_process;

/* The table of this machine, or NULL if the machine is not supported. */
const struct arch_process *arch_process(void);

#endif
