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

	/* -- code that a target has, for system calls in it: NULL where none can be made -- */

	/* Adds what it finds in code, which begins at `address`. What is known stays. */
	void (*find_gadgets)(
		const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets);
	uint8_t call_bytes, leave_bytes, sigreturn_bytes; /* of each; the last: at most */

	/* -- what is executed: NULL on other machines -- */

	/* The time stamp that stubs read, without a system call. */
	uint64_t (*counter)(void);
	/* Raises SIGTRAP; goes on behind it if a handler returns. */
	void (*trap)(void);
};

extern const struct arch_process x86_64_process, aarch64_process;

/* That of this machine; NULL: there is none. */
const struct arch_process *arch_process(void);

#endif
