/* SPDX-License-Identifier: MIT */
/*
 * What an instruction set has to say of processes: where they may have memory, their registers,
 * system calls and signal frames. A controller and its targets are of one instruction set, so
 * there is one such table in use: arch_process().
 *
 * As all of arch/, this makes no system call of its own: registers and frames are bytes that the
 * caller has read or is going to write. What has to be executed (the counter, say) is NULL in the
 * tables of other machines.
 */
#ifndef ARCH_PROCESS_H
#define ARCH_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Registers ------------------------------------------------------------------------------ */

/* The general registers of a stopped thread, as ptrace(2) tells and takes them. */
enum { ARCH_REGISTER_WORDS = 34 };
struct arch_registers {
	uint64_t words[ARCH_REGISTER_WORDS];
};

enum arch_register {
	ARCH_PC,
	ARCH_SP,
	ARCH_FP,   /* the frame pointer */
	ARCH_TP,   /* the thread pointer */
	ARCH_CALL, /* number of the system call that the thread is in; negative: it is in none */
	ARCH_RESULT,
	ARCH_ARG0, /* the arguments of a system call */
	ARCH_ARG1,
	ARCH_ARG2,
	ARCH_ARG3,
	ARCH_ARG4,
	ARCH_ARG5,
	ARCH_REGISTERS
};

/* Of this machine. What is not among its registers reads as -1, and is not written. */
uint64_t arch_get(const struct arch_registers *registers, enum arch_register which);
void arch_set(struct arch_registers *registers, enum arch_register which, uint64_t value);

/* ---- Code that every process has --------------------------------------------------------- */

enum { ARCH_SIGRETURNS_MAX = 16 };

/*
 * Machine code of a target's own by which its threads make system calls for a controller.
 * Addresses are the target's or, while a file is searched, the file's; 0: not found.
 */
struct arch_gadgets {
	uint64_t call;	/* makes a system call, and returns to where the stack pointer says */
	uint64_t leave; /* takes the stack pointer from the frame pointer, and returns */
	/* Where signal handlers return to: makes the call rt_sigreturn(2). There may be several. */
	uint64_t sigreturns[ARCH_SIGRETURNS_MAX];
	size_t sigreturn_count;
};

/* ---- Signal frames ------------------------------------------------------------------------ */

/*
 * What the kernel saves for a signal handler, on the stack that it runs on. All are distances
 * from where the frame begins, in bytes.
 */
struct arch_frame_layout {
	uint16_t bytes;				 /* up to the end of what is named here */
	uint16_t sp, pc;			 /* of what was interrupted */
	uint16_t stack, stack_flags, stack_size; /* the thread's alternate stack (stack_t) */
	uint16_t state; /* where the address of the floating-point state is; 0: it is within */
	/* A word that every frame of a 64-bit thread has, and hardly anything else. */
	uint16_t mark;
	uint64_t mark_word;
	/* So far above the frame the floating-point state is, unless the frame is a copy. */
	uint16_t state_min, state_max;
	/* The first bytes of that state say how long it is, and a word stands behind it. */
	uint16_t state_head;
	uint32_t state_end;
};

enum {
	ARCH_FRAME_TEXT = 32,
	ARCH_FRAME_MARK = 16,
	ARCH_FRAME_STACK = 7, /* flags of its alternate stack, which rt_sigreturn(2) leaves alone */
	ARCH_STATE_MAX = 16384
};

/*
 * A frame for a thread that is borrowed for system calls: rt_sigreturn(2) restores the thread
 * from it as it was. The frame has no end of its own on a stack, but a mark by which it is known,
 * and a text, which a call may name.
 */
struct arch_frame {
	const struct arch_registers *registers;
	uint64_t mask;	    /* of its signals */
	uint64_t state;	    /* where the floating-point state will be */
	uint64_t sigreturn; /* the gadget */
	char mark[ARCH_FRAME_MARK];
	char text[ARCH_FRAME_TEXT];
};

/* How much floating-point state a thread has that has asked for no more; bytes 0: not known. */
struct arch_state {
	uint64_t features;
	size_t bytes;
};

/* ---- The table ------------------------------------------------------------------------------ */

struct arch_process {
	/* -- the kernel's names for it -- */

	uint32_t audit;		 /* AUDIT_ARCH_* of <linux/audit.h>, as seccomp filters see it */
	uint32_t rseq_signature; /* RSEQ_SIG of <sys/rseq.h>, which glibc and librseq register */
	uint64_t address_end;	 /* of all that a process may map */
	/*
	 * Of a process whose calls and returns are compared with a stack of their own, the line
	 * of /proc/PID/status that begins with the first text has the word that is the second.
	 * NULL: there is no such thing.
	 */
	const char *shadow_stack_line, *shadow_stack_word;

	/* -- registers -- */

	/* Requests of ptrace(2) that read and write them; 0: as regset NT_PRSTATUS. */
	int ptrace_get, ptrace_set;
	uint16_t register_bytes;
	int8_t registers[ARCH_REGISTERS]; /* which word each is; negative: it is not among them */
	uint8_t general_first, general_count; /* words that may hold any address */
	/* Does the thread run 64-bit code? */
	bool (*is_native)(const struct arch_registers *registers);

	/* -- the stack and the thread's control block -- */

	uint8_t red_zone;    /* bytes below the stack pointer that are in use */
	bool tp_is_self;     /* the word at the thread pointer is that address */
	uint8_t guard;	     /* of glibc's pointer guard, from the thread pointer; 0: not there */
	uint8_t guard_shift; /* a guarded pointer is rotated left by so much, last of all */
	const char *musl;    /* musl's name for this machine, in those of its files */

	/* -- system calls -- */

	/*
	 * Those that a stop may end with EINTR, which the kernel would begin again by itself; of
	 * them, those with a time limit in ms as their fourth argument. And those that the kernel
	 * continues by restart_syscall(2), futex(2) apart. Their numbers.
	 */
	const uint16_t *waits, *limited_waits, *blocks;
	uint8_t wait_count, limited_wait_count, block_count;

	/* -- system calls in a target: NULL where none can be made -- */

	/* Adds what it finds in code, which begins at `address`. What is known stays. */
	void (*find_gadgets)(
		const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets);
	uint8_t call_bytes, leave_bytes, sigreturn_bytes; /* of each; the last: at most */
	/* Fills frame_bytes; where in them text and mark are, and the latter in the state. */
	void (*make_frame)(const struct arch_frame *frame, uint8_t *out);
	uint16_t frame_bytes, frame_text, frame_mark, state_mark;
	/* Leads a thread to the gadget `call` or `leave`: behind it, the frame at `frame` is used.
	 */
	void (*set_call)(struct arch_registers *registers, const struct arch_gadgets *gadgets,
		uint64_t frame, long number);
	void (*set_leave)(struct arch_registers *registers, const struct arch_gadgets *gadgets,
		uint64_t frame);

	/* -- signal frames -- */

	const struct arch_frame_layout *layout;
	/*
	 * Of the first layout->state_head bytes of a floating-point state: where the word behind it
	 * is; 0 where they are no such state.
	 */
	size_t (*state_size)(const uint8_t *head);

	/* -- what is executed: NULL on other machines -- */

	/* The time stamp that stubs read, without a system call. */
	uint64_t (*counter)(void);
	/* Raises SIGTRAP; goes on behind it if a handler returns. */
	void (*trap)(void);
	int state_regset; /* NT_* of the floating-point state for ptrace(2) */
	void (*measure_state)(struct arch_state *ret);
	/*
	 * Makes of `size` bytes that ptrace(2) told of a thread's state what a frame has to hold,
	 * and returns its length, at most ARCH_STATE_MAX and the word behind it; 0 if they are
	 * too few. `usual` may be all 0.
	 */
	size_t (*make_state)(uint8_t *state, size_t size, const struct arch_state *usual);
};

extern const struct arch_process x86_64_process, aarch64_process;

/* That of this machine; NULL: there is none. */
const struct arch_process *arch_process(void);

#endif
