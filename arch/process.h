/* SPDX-License-Identifier: MIT */
/*
 * What depends on the instruction set in processes: their address space, registers, system calls
 * and signal frames. A controller and its targets have the same instruction set, so one such table
 * is in use: arch_process().
 *
 * Like all of arch/, this makes no system call: registers and frames are bytes that the caller has
 * read or will write. Operations that must run on the machine itself, such as reading the counter,
 * are NULL in the tables of other machines.
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

/* A word of them that ptrace(2) has apart from the others: of 4 bytes, which have a sign, or of 8.
 */
struct arch_regset {
	int type; /* NT_* */
	uint8_t word, bytes;
	bool never_changes; /* by us: it is not written */
};

enum arch_register {
	ARCH_PC,
	ARCH_SP,
	ARCH_FP,     /* the frame pointer */
	ARCH_TP,     /* the thread pointer */
	ARCH_CALL,   /* number of the system call that the thread is in; negative: none */
	ARCH_NUMBER, /* where a thread puts that number to make a call */
	ARCH_RESULT,
	ARCH_ARG0, /* the arguments of a system call */
	ARCH_ARG1,
	ARCH_ARG2,
	ARCH_ARG3,
	ARCH_ARG4,
	ARCH_ARG5,
	ARCH_REGISTERS
};

/* On this machine. A register that it lacks reads as -1; writing it does nothing. */
uint64_t arch_get(const struct arch_registers *registers, enum arch_register which);
void arch_set(struct arch_registers *registers, enum arch_register which, uint64_t value);

/* ---- Code that every process has --------------------------------------------------------- */

/*
 * Machine code of the target itself that its threads use to make system calls for a controller.
 * Addresses are those in the target or, while a file is searched, in the file; 0: not found.
 */
struct arch_gadgets {
	uint64_t call;	    /* makes a system call, and returns to the address on the stack */
	uint64_t leave;	    /* loads the stack pointer from the frame pointer, and returns */
	uint64_t sigreturn; /* calls rt_sigreturn(2); signal handlers return to such code */
	/* How far above the frame pointer `leave` leads the stack pointer, if that varies. */
	uint16_t leave_above;
};

/* ---- Signal frames ------------------------------------------------------------------------ */

/*
 * What the kernel saves when it calls a signal handler, on the handler's stack. All members are
 * offsets from the start of the frame, in bytes.
 */
struct arch_frame_layout {
	uint16_t bytes;	 /* up to the end of the last member named here */
	uint16_t sp, pc; /* of the interrupted context */
	/*
	 * Its registers, in the order of their DWARF numbers from 0 on. None: the code that a
	 * handler returns to has call frame information, which says where they are.
	 */
	uint16_t registers, register_count;
	uint16_t stack, stack_flags, stack_size; /* the thread's alternate stack (stack_t) */
	uint16_t state; /* where the address of the floating-point state is; 0: the state is in the
			   frame */
	/* A word that every frame of a 64-bit thread contains, and hardly anything else does. */
	uint16_t mark;
	uint64_t mark_word;
	/*
	 * Not 0: that word is not among the registers. Then sp, pc and the flags follow each other,
	 * and flags of a program have none but these bits.
	 */
	uint64_t flag_bits;
	/* How far above the frame the floating-point state is, unless the frame is a copy. */
	uint16_t state_min, state_max;
	/* The first bytes of that state tell its length, and a word follows it. */
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
 * A frame for a thread that is borrowed for system calls: rt_sigreturn(2) restores the thread from
 * it. A mark identifies the frame, and a call may pass the text in it as an argument.
 */
struct arch_frame {
	const struct arch_registers *registers;
	uint64_t mask;	/* of signals */
	uint64_t state; /* where the floating-point state will be */
	size_t state_bytes;
	uint64_t sigreturn; /* the gadget */
	char mark[ARCH_FRAME_MARK];
	char text[ARCH_FRAME_TEXT];
};

/* The floating-point state of a thread that has not requested more; bytes 0: not known. */
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
	uint64_t address_end;	 /* the end of what a process may map */
	/*
	 * If a process has a shadow stack, the line of /proc/PID/status that begins with the
	 * first text contains the second as a word. NULL: there are no shadow stacks.
	 */
	const char *shadow_stack_line, *shadow_stack_word;

	/* -- registers -- */

	/* Requests of ptrace(2) that read and write them; 0: use the regset NT_PRSTATUS. */
	int ptrace_get, ptrace_set;
	uint16_t register_bytes;
	const struct arch_regset *regsets; /* of words that are not among these bytes */
	uint8_t regset_count;
	int8_t registers[ARCH_REGISTERS];     /* the word of each; negative: there is none */
	uint8_t general_first, general_count; /* words that may hold any address */
	/* Does the thread run 64-bit code? */
	bool (*is_native)(const struct arch_registers *registers);

	/* -- the stack and the thread's control block -- */

	/* Above the stack pointer of a thread that waits at a gate: the function's first argument.
	 */
	uint16_t gate_argument;
	uint8_t red_zone;    /* bytes below the stack pointer that are in use */
	bool tp_is_self;     /* the word at the thread pointer holds the thread pointer */
	bool tp_is_end;	     /* a thread's control block ends there, and does not begin there */
	uint8_t guard;	     /* offset of glibc's pointer guard from the thread pointer; 0: none */
	uint8_t guard_shift; /* a guarded pointer is finally rotated left by this many bits */
	const char *musl;    /* musl's name of this machine, as in its file names */

	/* -- system calls -- */

	/*
	 * Numbers of system calls. `waits`: a stop may end them with EINTR although no signal
	 * handler runs. `limited_waits`: those of them whose fourth argument is a time limit in
	 * ms. `blocks`: the kernel continues them by restart_syscall(2); without futex(2).
	 */
	const uint16_t *waits, *limited_waits, *blocks;
	uint8_t wait_count, limited_wait_count, block_count;
	/*
	 * If a thread that a stop finds in a system call looks as if it were about to make it: the
	 * instruction, of 4 bytes, that makes it. 0: ARCH_CALL tells.
	 */
	uint32_t hidden_call;
	/* -- system calls in a target: NULL if none can be made -- */

	/* Adds the gadgets that it finds in code at `address`, except those already found. */
	void (*find_gadgets)(
		const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets);
	uint8_t call_bytes, leave_bytes, sigreturn_bytes; /* their lengths; of sigreturn at most */
	/*
	 * Fills frame_bytes. Below: offsets of text and mark in them, and of the mark in the state.
	 * If the state is in the kernel's frame (layout->state is 0), it follows these bytes
	 * without a gap, and has no mark.
	 */
	void (*make_frame)(const struct arch_frame *frame, uint8_t *out);
	uint16_t frame_bytes, frame_text, frame_mark, state_mark;
	/* Lead a thread to the gadget `call` or `leave`, and then to the frame at `frame`. */
	void (*set_call)(struct arch_registers *registers, const struct arch_gadgets *gadgets,
		uint64_t frame, long number);
	void (*set_leave)(struct arch_registers *registers, const struct arch_gadgets *gadgets,
		uint64_t frame);
	/* -- signal frames -- */

	const struct arch_frame_layout *layout;
	/*
	 * From the first layout->state_head bytes of a floating-point state: the offset of the
	 * word that follows the state; 0: they are not such a state.
	 */
	size_t (*state_size)(const uint8_t *head);

	/* -- executed here: some are NULL on other machines -- */

	/* Reads the time stamp that stubs read, without a system call. */
	uint64_t (*counter)(void);
	/* The bits of a return address that may hold its signature. NULL: addresses have none. */
	uint64_t (*signature)(void);
	/* Sets what depends on the processor, from has_atomics on. NULL: stubs need not know. */
	void (*describe_processor)(struct arch_thread *thread);
	/*
	 * Runs a restartable sequence in a thread whose area (struct rseq) is registered with
	 * rseq_signature: sets *begun, and waits until *told is set, at most so many rounds. NULL:
	 * all kernels end sequences here when they should.
	 */
	enum arch_sequence (*sequence)(
		void *area, uint32_t *begun, const uint32_t *told, uint64_t rounds);
	/*
	 * Raises SIGTRAP; returns if a handler returns that calls pass_trap() with its context.
	 * NULL: the context leads behind the instruction that has trapped.
	 */
	void (*trap)(void);
	void (*pass_trap)(void *context);
	int state_regset;      /* NT_* of the floating-point state for ptrace(2) */
	int state_regset_else; /* where the processor lacks that; 0: it never does */
	bool state_is_lost;    /* a system call destroys some of it: it is written back after one */
	/*
	 * Regsets of what neither a frame nor that restores: of their first ARCH_UNKEPT_HEAD bytes,
	 * is_unkept() says whether the thread has something in them.
	 */
	const int *unkept;
	uint8_t unkept_count;
	bool (*is_unkept)(int regset, const uint8_t *head);
	void (*measure_state)(struct arch_state *ret);
	/*
	 * Turns `size` bytes of a thread's state, as ptrace(2) read them, into what a frame must
	 * hold. Returns its length, at most ARCH_STATE_MAX plus the word that follows; 0 if there
	 * are too few bytes. `usual` may be all 0.
	 */
	size_t (*make_state)(uint8_t *state, size_t size, const struct arch_state *usual);
};

extern const struct arch_process x86_64_process, aarch64_process;

/* The table of this machine; NULL: there is none. */
const struct arch_process *arch_process(void);

#endif
