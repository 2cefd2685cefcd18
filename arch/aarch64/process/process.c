/* SPDX-License-Identifier: MIT */
/* Processes of aarch64 on Linux: see arch/process.h. */
#include <elf.h>
#include <linux/audit.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "arch/aarch64/encoding.h"
#include "arch/aarch64/process/frame.h"
#include "arch/aarch64/process/sequence.h"
#include "arch/arch.h"

#define PSTATE_32 UINT64_C(0x10) /* it runs 32-bit code */

static const struct arch_regset regsets[] = {
	{.type = NT_ARM_TLS, .word = WORD_TLS, .bytes = 8, .never_changes = true},
	{.type = NT_ARM_SYSTEM_CALL, .word = WORD_CALL, .bytes = 4},
};

static const int unkept[] = {AARCH64_NT_SSVE, AARCH64_NT_ZA};

static bool is_native(const struct arch_registers *registers)
{
	return !(registers->words[WORD_PSTATE] & PSTATE_32);
}

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

#if defined(__aarch64__)
/* <asm/hwcap.h>; Linux 5.10 and 5.19. */
#define HAS_MTE (UINT64_C(1) << 18)
#define HAS_SME (UINT64_C(1) << 23)

/* The kernel tells all processes the same. */
static void describe_processor(struct arch_thread *thread)
{
	uint64_t first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);

	thread->has_atomics = first & HWCAP_ATOMICS;
	thread->loses_vectors = first & HWCAP_SVE;
	thread->checks_tags = second & HAS_MTE;
	thread->has_modes = second & HAS_SME;
}

static uint64_t counter(void)
{
	uint64_t stamp;

	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(stamp));
	return stamp;
}
/*
 * The processor takes a signature off, and leaves what belongs to an address by the kernel's
 * settings, which are the same for all processes. Bit 55 says that it is an address of user space.
 */
static uint64_t signature(void)
{
	uint64_t all = ~(UINT64_C(1) << 55), plain;

	/* xpaclri; a nop on processors without signatures */
	__asm__("mov x30, %1\n\thint #7\n\tmov %0, x30" : "=r"(plain) : "r"(all) : "x30");
	return all & ~plain;
}

static void trap(void)
{
	__asm__ volatile("brk #0" ::: "memory");
}

static void pass_trap(void *context)
{
	((ucontext_t *)context)->uc_mcontext.pc += AARCH64_INSN_LENGTH;
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
	.is_native = is_native,
	.registers = {WORD_PC, WORD_SP, WORD_X29, WORD_TLS, WORD_CALL, WORD_X8, WORD_X0, WORD_X0,
		WORD_X0 + 1, WORD_X0 + 2, WORD_X0 + 3, WORD_X0 + 4, WORD_X0 + 5},
	.general_first = WORD_X0,
	.general_count = WORD_X30 + 1,
	.tp_is_end = true,
	.musl = "aarch64",
	.waits = waits,
	.wait_count = sizeof(waits) / sizeof(*waits),
	.limited_waits = limited_waits,
	.limited_wait_count = sizeof(limited_waits) / sizeof(*limited_waits),
	.blocks = blocks,
	.block_count = sizeof(blocks) / sizeof(*blocks),
	.hidden_call = AARCH64_SVC,
	.find_gadgets = aarch64_find_gadgets,
	.call_bytes = AARCH64_CALL_BYTES,
	.leave_bytes = AARCH64_LEAVE_BYTES,
	.sigreturn_bytes = AARCH64_SIGRETURN_BYTES,
	.make_frame = aarch64_make_frame,
	.frame_bytes = AARCH64_FRAME_BYTES,
	.frame_text = AARCH64_FRAME_TEXT,
	.frame_mark = AARCH64_FRAME_MARK,
	.set_call = aarch64_set_call,
	.set_leave = aarch64_set_leave,
	.layout = &aarch64_frame_layout,
	.counter = ON_HOST(counter),
	.signature = ON_HOST(signature),
	.describe_processor = ON_HOST(describe_processor),
	.sequence = ON_HOST(aarch64_sequence),
	.trap = ON_HOST(trap),
	.pass_trap = ON_HOST(pass_trap),
	.state_regset = NT_ARM_SVE,
	.state_regset_else = NT_PRFPREG,
	.state_is_lost = true,
	.unkept = unkept,
	.unkept_count = sizeof(unkept) / sizeof(*unkept),
	.is_unkept = aarch64_is_unkept,
	.measure_state = aarch64_measure_state,
	.make_state = aarch64_make_state,
};
