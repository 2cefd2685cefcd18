/* SPDX-License-Identifier: MIT */
/*
 * Processes of aarch64 on Linux: see arch/process.h. Nothing is run in them yet, so there are
 * neither gadgets nor frames for that.
 */
#include <elf.h>
#include <linux/audit.h>

#include "arch/process.h"

/* struct user_pt_regs of <asm/ptrace.h>: x0 to x30, sp, pc, pstate; behind it the words of others.
 */
enum { WORD_X0, WORD_X29 = 29, WORD_X30, WORD_SP, WORD_PC, WORD_PSTATE, WORDS };
enum { WORD_TLS = WORDS, WORD_CALL };

static const struct arch_regset regsets[] = {
	{NT_ARM_TLS, WORD_TLS, 8},
	{NT_ARM_SYSTEM_CALL, WORD_CALL, 4},
};

/* ---- System calls --------------------------------------------------------------------------- */

/* Linux, include/uapi/asm-generic/unistd.h. */
static const uint16_t waits[] = {
	22,  /* epoll_pwait */
	441, /* epoll_pwait2 */
	193, /* semop */
	192, /* semtimedop */
	188, /* msgrcv */
	189, /* msgsnd */
	137, /* rt_sigtimedwait */
	4,   /* io_getevents */
	292, /* io_pgetevents */
	426, /* io_uring_enter */
	/* On a socket with SO_RCVTIMEO or SO_SNDTIMEO. */
	63,  /* read */
	65,  /* readv */
	286, /* preadv2 */
	207, /* recvfrom */
	212, /* recvmsg */
	243, /* recvmmsg */
	202, /* accept */
	242, /* accept4 */
	203, /* connect */
	64,  /* write */
	66,  /* writev */
	287, /* pwritev2 */
	206, /* sendto */
	211, /* sendmsg */
	269, /* sendmmsg */
	71,  /* sendfile */
	76,  /* splice */
};
static const uint16_t limited_waits[] = {22 /* epoll_pwait */};
static const uint16_t blocks[] = {
	101, /* nanosleep */
	115, /* clock_nanosleep */
	128, /* restart_syscall */
};

/* ---- Signal frames ------------------------------------------------------------------------ */

/*
 * siginfo, struct ucontext, and in it from 304 on struct sigcontext: the faulting address, x0 to
 * x30, sp, pc, pstate, and at the next multiple of 16 records, of which that of the
 * floating-point registers is the first (arch/arm64/kernel/signal.c of Linux).
 */
static const struct arch_frame_layout layout = {
	.bytes = 600,
	.sp = 560,
	.pc = 568,
	.stack = 144,
	.stack_flags = 152,
	.stack_size = 160,
	.mark = 592,
	.mark_word = UINT64_C(0x0000021046508001), /* FPSIMD_MAGIC, its size */
};

#if defined(__aarch64__)
static uint64_t counter(void)
{
	uint64_t stamp;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(stamp));
	return stamp;
}
#define ON_HOST(function) (function)
#else
#define ON_HOST(function) NULL
#endif

const struct arch_process aarch64_process = {
	.audit = AUDIT_ARCH_AARCH64,
	.rseq_signature = 0xd428bc00,
	/* With addresses of 48 bits; a kernel with fewer refuses to map what is above its own. */
	.address_end = UINT64_C(0xffffffff0000),
	.register_bytes = WORDS * sizeof(uint64_t),
	.regsets = regsets,
	.regset_count = sizeof(regsets) / sizeof(*regsets),
	.registers = {WORD_PC, WORD_SP, WORD_X29, WORD_TLS, WORD_CALL, WORD_X0, WORD_X0,
		WORD_X0 + 1, WORD_X0 + 2, WORD_X0 + 3, WORD_X0 + 4, WORD_X0 + 5},
	.general_first = WORD_X0,
	.general_count = WORD_X30 + 1,
	.musl = "aarch64",
	.waits = waits,
	.wait_count = sizeof(waits) / sizeof(*waits),
	.limited_waits = limited_waits,
	.limited_wait_count = sizeof(limited_waits) / sizeof(*limited_waits),
	.blocks = blocks,
	.block_count = sizeof(blocks) / sizeof(*blocks),
	.layout = &layout,
	.counter = ON_HOST(counter),
};
