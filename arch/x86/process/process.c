/* SPDX-License-Identifier: MIT */
/* Processes of x86-64 on Linux: see arch/process.h. */
#include <elf.h>
#include <linux/audit.h>
#include <string.h>

#include "arch/x86/process/frame.h"
#include "arch/x86/process/process.h"
#include "arch/x86/stub/frame.h"

enum {
	USER_CS = 0x33, /* of 64-bit code */
	PTRACE_GETREGS = 12,
	PTRACE_SETREGS = 13
};

static bool is_native(const struct arch_registers *registers)
{
	return registers->words[WORD_CS] == USER_CS;
}

/* ---- System calls --------------------------------------------------------------------------- */

/* Linux, arch/x86/entry/syscalls/syscall_64.tbl. */
static const uint16_t waits[] = {
	232, /* epoll_wait */
	281, /* epoll_pwait */
	441, /* epoll_pwait2 */
	65,  /* semop */
	220, /* semtimedop */
	70,  /* msgrcv */
	69,  /* msgsnd */
	128, /* rt_sigtimedwait */
	208, /* io_getevents */
	333, /* io_pgetevents */
	426, /* io_uring_enter */
	/* On a socket with SO_RCVTIMEO or SO_SNDTIMEO. */
	0,   /* read */
	19,  /* readv */
	327, /* preadv2 */
	45,  /* recvfrom */
	47,  /* recvmsg */
	299, /* recvmmsg */
	43,  /* accept */
	288, /* accept4 */
	42,  /* connect */
	1,   /* write */
	20,  /* writev */
	328, /* pwritev2 */
	44,  /* sendto */
	46,  /* sendmsg */
	307, /* sendmmsg */
	40,  /* sendfile */
	275, /* splice */
};
static const uint16_t limited_waits[] = {232 /* epoll_wait */, 281 /* epoll_pwait */};
static const uint16_t blocks[] = {
	35,  /* nanosleep */
	230, /* clock_nanosleep */
	7,   /* poll */
	219, /* restart_syscall */
};

/* ---- Code that every process has --------------------------------------------------------- */

/*
 * libc has `syscall; ret`, and the call of rt_sigreturn(2) that signal handlers return to.
 * `leave; ret` may also be part of other instructions.
 */
static const uint8_t leave_ret[] = {0xc9, 0xc3};
static const uint8_t mov64[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0}; /* mov $15,%rax */
static const uint8_t mov32[] = {0xb8, 0x0f, 0, 0, 0};		  /* mov $15,%eax */
enum { RET = 0xc3, SYSCALL_FIRST = 0x0f, SYSCALL_SECOND = 0x05, SYSCALL_BYTES = 2 };

/* Notes which gadgets the `syscall` at `at`, between `start` and `end`, belongs to. */
static void judge_syscall(struct arch_gadgets *gadgets, const uint8_t *start, const uint8_t *at,
	const uint8_t *end, uint64_t address)
{
	size_t length = 0;

	if (end - at > SYSCALL_BYTES && at[SYSCALL_BYTES] == RET && !gadgets->call)
		gadgets->call = address;
	if (at - start >= (ptrdiff_t)sizeof(mov64) &&
		memcmp(at - sizeof(mov64), mov64, sizeof(mov64)) == 0)
		length = sizeof(mov64);
	else if (at - start >= (ptrdiff_t)sizeof(mov32) &&
		 memcmp(at - sizeof(mov32), mov32, sizeof(mov32)) == 0)
		length = sizeof(mov32);
	if (length && !gadgets->sigreturn)
		gadgets->sigreturn = address - length;
}

/* The first two bytes that are these; NULL: there are none. For so few, memmem(3) is slow. */
static const uint8_t *find_pair(const uint8_t *code, const uint8_t *end, const uint8_t pair[2])
{
	for (const uint8_t *at = code; end - at > 1; at++) {
		at = memchr(at, pair[0], (size_t)(end - at - 1));
		if (!at || at[1] == pair[1])
			return at;
	}
	return NULL;
}

static void find_gadgets(
	const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets)
{
	const uint8_t *end = code + size, *at;

	if (size < SYSCALL_BYTES)
		return;
	/* 05 is the rarer one of the two bytes of `syscall`. */
	for (at = code + 1; (at = memchr(at, SYSCALL_SECOND, (size_t)(end - at))); at++)
		if (at[-1] == SYSCALL_FIRST)
			judge_syscall(
				gadgets, code, at - 1, end, (uint64_t)(at - 1 - code) + address);
	at = gadgets->leave ? NULL : find_pair(code, end, leave_ret);
	if (at)
		gadgets->leave = (uint64_t)(at - code) + address;
}

/* ---- The table ------------------------------------------------------------------------------ */

const struct arch_process x86_64_process = {
	.audit = AUDIT_ARCH_X86_64,
	.rseq_signature = 0x53053053,
	.address_end = UINT64_C(0x7fffffff0000),
	.shadow_stack_line = "x86_Thread_features:",
	.shadow_stack_word = "shstk",
	.ptrace_get = PTRACE_GETREGS, /* the regset of a thread in 32-bit code has another layout */
	.ptrace_set = PTRACE_SETREGS,
	.register_bytes = WORDS * sizeof(uint64_t),
	.registers = {WORD_RIP, WORD_RSP, WORD_RBP, WORD_FS_BASE, WORD_ORIG_RAX, WORD_RAX, WORD_RAX,
		WORD_RDI, WORD_RSI, WORD_RDX, WORD_R10, WORD_R8, WORD_R9},
	.general_first = WORD_R15,
	.general_count = WORD_RDI + 1,
	.is_native = is_native,
	.gate_argument = GATE_ARGUMENT,
	.red_zone = 128,
	.tp_is_self = true,
	.guard = 0x30,
	.guard_shift = 17,
	.musl = "x86_64",
	.waits = waits,
	.wait_count = sizeof(waits) / sizeof(*waits),
	.limited_waits = limited_waits,
	.limited_wait_count = sizeof(limited_waits) / sizeof(*limited_waits),
	.blocks = blocks,
	.block_count = sizeof(blocks) / sizeof(*blocks),
	.find_gadgets = find_gadgets,
	.call_bytes = SYSCALL_BYTES + 1,
	.leave_bytes = sizeof(leave_ret),
	.sigreturn_bytes = sizeof(mov64) + SYSCALL_BYTES,
	.make_frame = x86_64_make_frame,
	.frame_bytes = X86_64_FRAME_BYTES,
	.frame_text = X86_64_FRAME_TEXT,
	.frame_mark = X86_64_FRAME_MARK,
	.state_mark = X86_64_STATE_MARK,
	.set_call = x86_64_set_call,
	.set_leave = x86_64_set_leave,
	.layout = &x86_64_frame_layout,
	.state_size = x86_64_state_size,
	.counter = X86_64_ON_HOST(x86_64_counter),
	.trap = X86_64_ON_HOST(x86_64_trap),
	.state_regset = NT_X86_XSTATE,
	.measure_state = X86_64_ON_HOST(x86_64_measure_state),
	.make_state = X86_64_ON_HOST(x86_64_make_state),
};
