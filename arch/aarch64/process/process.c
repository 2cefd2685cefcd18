/* SPDX-License-Identifier: MIT */
/* Processes of aarch64 Linux: see arch/process.h. */
#include <stdint.h>
#include "arch/process.h"
#include <elf.h>
#include <linux/audit.h>
#include <string.h>
#include <sys/auxv.h>
#include <ucontext.h>

#include "arch/aarch64/encoding.h"
#include "arch/arch.h"

/*
 * General registers in the order of ptrace(2) (struct user_pt_regs of <asm/ptrace.h>), then the
 * words of other regsets.
 */
enum {
	WORD_X0,
	WORD_X8 = 8,
	WORD_X29 = 29,
	WORD_X30,
	WORD_SP,
	WORD_PC,
	WORD_PSTATE,
	WORDS,
	WORD_TLS = WORDS,
	WORD_CALL
};

enum {
	AARCH64_SYSCALL_BYTES = 4,
	/* Sizes in bytes. */
	AARCH64_CALL_BYTES = 12,
	AARCH64_LEAVE_BYTES = 36,
	AARCH64_SIGRETURN_BYTES = 8,
	/* Our signal frame's size, and offsets in it. */
	AARCH64_FRAME_BYTES = 768,
	AARCH64_FRAME_KERNEL = 128, /* where the kernel's frame begins */
	AARCH64_FRAME_MARK = AARCH64_FRAME_KERNEL,
	AARCH64_FRAME_TEXT = AARCH64_FRAME_MARK + ARCH_FRAME_MARK
};
#define AARCH64_SVC UINT32_C(0xd4000001) /* svc #0 */

/* From <linux/elf.h> of Linux 5.19, which conflicts with <elf.h>. */
enum { AARCH64_NT_SSVE = 0x40b, AARCH64_NT_ZA = 0x40c };

extern const struct arch_frame_layout aarch64_frame_layout;

/* ==== Gadgets ================================================================================= */

/*
 * Gadgets are code of the target. A borrowed thread runs them to make a system call for a
 * controller, and to return:
 *
 *   call       mov x8, #number; svc #0; ret      in the vDSO and in getpid(), getuid() ... The
 *                                                thread enters at the svc, with another number.
 *                                                No thread of the program sleeps at this svc.
 *                                                Threads may sleep at the svc that all calls
 *                                                of a libc share.
 *   sigreturn  mov x8, #139; svc #0              in the vDSO and in musl
 *   leave      mov sp, x29                       the end of a function with a variable-length
 *              ldp x19, x20, [sp, #16] ...       array. The distance from x29 to the stack
 *              ldp x29, x30, [sp], #above        pointer after it varies between functions.
 *              ret
 *
 * A function that authenticates its signed return address (autiasp) cannot be the `leave` gadget:
 * the controller cannot sign an address for it.
 */

enum {
	WORD = 4,
	RT_SIGRETURN = 139,
	X8 = 8,
	LEAVE_WORDS = AARCH64_LEAVE_BYTES / WORD,
	ABOVE_MIN = 16
};
#define RET UINT32_C(0xd65f03c0)
#define MOV_SP_X29 UINT32_C(0x910003bf)
#define LDP_X29_X30_SP UINT32_C(0xa8c07bfd) /* ldp x29, x30, [sp], #... */
#define LDP_PAIR_MASK UINT32_C(0xffc07fff)  /* all bits except the number */

static uint32_t word_at(const uint8_t *code)
{
	uint32_t word;

	memcpy(&word, code, sizeof(word));
	return word;
}

/* Returns the number in `mov x8, #number` or `mov w8, #number`, or -1. */
static int number_of(uint32_t insn)
{
	if ((insn & 0x7fe0001f) != (UINT32_C(0x52800000) | X8))
		return -1;
	return insn >> 5 & 0xffff;
}

/*
 * Returns true if an instruction loads callee-saved registers from the stack, at or above the stack
 * pointer.
 */
static bool is_reload(uint32_t insn)
{
	uint32_t first = insn & 31, second = insn >> 10 & 31;

	if ((insn & 0xffe003e0) == 0xa94003e0) /* ldp x, x, [sp, #0 to 504] */
		return first < WORD_X29 && second < WORD_X29 && first != second;
	/* ldr x, [sp, #0 to 504] */
	return (insn & 0xffff03e0) == 0xf94003e0 && first < WORD_X29;
}

/* Returns true for mov x, x or mov w, w, which may set the function's result. */
static bool is_move(uint32_t insn)
{
	return (insn & 0x7fe0ffe0) == 0x2a0003e0 && (insn & 31) < WORD_X29;
}

/*
 * Returns the bytes from x29 to the stack pointer behind these LEAVE_WORDS instructions; 0 if they
 * are not `leave`.
 */
static uint16_t leave_above(const uint8_t *code)
{
	size_t i = 1;
	uint32_t above;

	while (i < LEAVE_WORDS &&
		(is_reload(word_at(code + i * WORD)) || is_move(word_at(code + i * WORD))))
		i++;
	if (i + 2 > LEAVE_WORDS || (word_at(code + i * WORD) & LDP_PAIR_MASK) != LDP_X29_X30_SP ||
		word_at(code + (i + 1) * WORD) != RET)
		return 0;
	above = (word_at(code + i * WORD) >> 15 & 0x7f) * 8;
	return above >= ABOVE_MIN && above <= AARCH64_FRAME_KERNEL ? (uint16_t)above : 0;
}

static void aarch64_find_gadgets(
	const uint8_t *code, size_t size, uint64_t address, struct arch_gadgets *gadgets)
{
	for (size_t at = -address & (WORD - 1); at + WORD <= size; at += WORD) {
		size_t words = (size - at) / WORD;
		uint32_t insn = word_at(code + at);
		int number = number_of(insn);

		if (number >= 0 && words >= 2 && word_at(code + at + WORD) == AARCH64_SVC) {
			if (number == RT_SIGRETURN && !gadgets->sigreturn)
				gadgets->sigreturn = address + at;
			else if (!gadgets->call && words >= 3 &&
				 word_at(code + at + 2 * WORD) == RET)
				gadgets->call = address + at;
		}
		if (insn == MOV_SP_X29 && !gadgets->leave && words >= LEAVE_WORDS) {
			gadgets->leave_above = leave_above(code + at);
			if (gadgets->leave_above)
				gadgets->leave = address + at;
		}
	}
}

/* ==== Signal frames =========================================================================== */

/*
 * When the kernel calls a signal handler, it saves a frame on the handler's stack:
 *
 *   frame + 0    siginfo
 *         + 128  flags, link
 *         + 144  the thread's alternate stack: address, flags, size
 *         + 168  the signal mask
 *         + 304  the faulting address, x0 to x30, sp, pc, pstate
 *         + 592  records, each with a magic number and its length: the low 128 bits of the
 *                vector registers, SVE state; a record of length 0 ends them
 *
 * The handler returns to code that calls rt_sigreturn(2) with the stack pointer at the frame. The
 * controller makes the same frame for a borrowed thread, and puts words before it for the gadget
 * `leave`. Each of these words is the address of rt_sigreturn. So from whichever of them `leave`
 * loads its return address, it returns to rt_sigreturn:
 *
 *   x29 for leave ------> +---------------------------+
 *                         | addresses of rt_sigreturn |
 *   sp of the call -----> +---------------------------+
 *                         | siginfo: a mark, a text   |
 *                         | ucontext                  |  the thread as it was
 *                         | record: there are more    |
 *                         +---------------------------+
 *                         | records                   |  floating-point state, SVE
 *                         +---------------------------+
 *
 * The controller does not change x7 of a borrowed thread: if a tracer writes to x7 when the thread
 * stops before or after a system call, the value is lost (report_syscall()).
 *
 * Sources: arch/arm64/include/uapi/asm/{sigcontext,ptrace,sve_context}.h,
 * arch/arm64/kernel/{signal,ptrace}.c of Linux; Documentation/arm64/sve.rst.
 */

#define PSTATE_BTYPE UINT64_C(0xc00) /* the last instruction was an indirect branch */
#define PSTATE_SSBS (UINT64_C(1) << 12)
#define PSTATE_SS (UINT64_C(1) << 21)
#define PSTATE_DIT (UINT64_C(1) << 24)
#define PSTATE_TCO (UINT64_C(1) << 25)
#define PSTATE_NZCV (UINT64_C(15) << 28)

enum {
	FPSIMD_MAGIC = 0x46508001,
	SVE_MAGIC = 0x53564501,
	EXTRA_MAGIC = 0x45585401,
	RECORDS = 592, /* offset in the kernel's frame */
	ALIGN = 16,
	VECTORS = 32,
	PREDICATES = 17, /* includes FFR */
	LOW_BYTES = 16	 /* the low part of a vector, which all processors have */
};

struct record {
	uint32_t magic, size;
};

/* struct extra_context, and the record that ends the first list of records. */
struct extra {
	struct record head;
	uint64_t data; /* the address of the records that follow this struct */
	uint32_t size, reserved[3];
	struct record end, unused;
};

/* struct rt_sigframe */
struct kernel_frame {
	char mark[ARCH_FRAME_MARK];
	char text[ARCH_FRAME_TEXT];
	uint8_t info[80];
	uint64_t flags, link;
	uint64_t stack;
	uint32_t stack_flags, stack_unused;
	uint64_t stack_size;
	uint64_t mask, masks[15], unused;
	uint64_t fault, words[WORDS], aligned;
	struct extra extra;
};

struct frame {
	uint64_t sigreturn[AARCH64_FRAME_KERNEL / sizeof(uint64_t)];
	struct kernel_frame kernel;
};

_Static_assert(offsetof(struct kernel_frame, flags) == 128, "after siginfo");
_Static_assert(offsetof(struct kernel_frame, fault) == 304, "struct sigcontext");
_Static_assert(offsetof(struct kernel_frame, extra) == RECORDS, "aligned to 16");
_Static_assert(offsetof(struct frame, kernel) == AARCH64_FRAME_KERNEL, "as others look for it");
_Static_assert(sizeof(struct frame) == AARCH64_FRAME_BYTES, "the rest follows without a gap");

const struct arch_frame_layout aarch64_frame_layout = {
	.bytes = RECORDS + sizeof(struct record),
	.sp = 560,
	.pc = 568,
	.registers = 312,
	.register_count = WORD_SP,
	.stack = offsetof(struct kernel_frame, stack),
	.stack_flags = offsetof(struct kernel_frame, stack_flags),
	.stack_size = offsetof(struct kernel_frame, stack_size),
	.mark = RECORDS,
	.mark_word = UINT64_C(0x0000021046508001), /* FPSIMD_MAGIC and its size */
	.flag_bits = PSTATE_NZCV | PSTATE_TCO | PSTATE_DIT | PSTATE_SS | PSTATE_SSBS | PSTATE_BTYPE,
};

static void aarch64_make_frame(const struct arch_frame *frame, uint8_t *out)
{
	struct frame f = {.kernel = {.stack_flags = ARCH_FRAME_STACK, .mask = frame->mask}};
	struct kernel_frame *k = &f.kernel;

	for (size_t i = 0; i < sizeof(f.sigreturn) / sizeof(*f.sigreturn); i++)
		f.sigreturn[i] = frame->sigreturn;
	memcpy(k->mark, frame->mark, sizeof(k->mark));
	memcpy(k->text, frame->text, sizeof(k->text));
	/*
	 * These registers are right even for a thread in a system call, because the kernel has
	 * reset pc and x0 (do_signal()).
	 */
	memcpy(k->words, frame->registers->words, sizeof(k->words));
	k->extra = (struct extra){.head = {EXTRA_MAGIC, offsetof(struct extra, end)},
		.data = frame->state,
		.size = (uint32_t)frame->state_bytes};
	memcpy(out, &f, sizeof(f));
}

/* Sets the pc, and resets BTYPE, because the address may not be a landing pad (FEAT_BTI). */
static void go(struct arch_registers *registers, uint64_t address)
{
	registers->words[WORD_PC] = address;
	registers->words[WORD_PSTATE] &= ~PSTATE_BTYPE;
	registers->words[WORD_CALL] = UINT64_MAX;
}

static void aarch64_set_call(struct arch_registers *registers, const struct arch_gadgets *gadgets,
	uint64_t frame, long number)
{
	go(registers, gadgets->call + AARCH64_SYSCALL_BYTES);
	registers->words[WORD_SP] = frame + AARCH64_FRAME_KERNEL;
	registers->words[WORD_X8] = (uint64_t)number;
	registers->words[WORD_X30] = gadgets->sigreturn;
}

static void aarch64_set_leave(
	struct arch_registers *registers, const struct arch_gadgets *gadgets, uint64_t frame)
{
	go(registers, gadgets->leave);
	registers->words[WORD_X29] = frame + AARCH64_FRAME_KERNEL - gadgets->leave_above;
}

/* ---- Floating-point state ----------------------------------------------------------------- */

/* The state without SVE: struct fpsimd_context without header, and struct user_fpsimd_state. */
struct fpsimd {
	uint32_t fpsr, fpcr;
	uint8_t vectors[VECTORS][LOW_BYTES];
};
struct user_fpsimd {
	uint8_t vectors[VECTORS][LOW_BYTES];
	uint32_t fpsr, fpcr, reserved[2];
};

/* struct user_sve_header */
struct sve_header {
	uint32_t size, max_size;
	uint16_t vl, max_vl, flags, reserved;
};
enum { SVE_REGS = 1 /* SVE_PT_REGS_SVE; without this flag, only the low 128 bits follow */ };

/* struct sve_context */
struct sve {
	struct record head;
	uint16_t vl, reserved[3];
};

enum { FPSIMD_BYTES = sizeof(struct record) + sizeof(struct fpsimd) };
_Static_assert(FPSIMD_BYTES == 528 && sizeof(struct user_fpsimd) == 528, "as the kernel has it");

static size_t align(size_t size)
{
	return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

/* Returns the bytes of all vectors, predicates and FFR, with vectors of `vl` bytes. */
static size_t sve_bytes(size_t vl)
{
	return VECTORS * vl + PREDICATES * vl / 8;
}

/* Measures the state without SVE, because most threads have no SVE state when they are stopped. */
static void aarch64_measure_state(struct arch_state *ret)
{
	*ret = (struct arch_state){.bytes = FPSIMD_BYTES + ALIGN};
}

static void put_fpsimd(uint8_t *at, const struct fpsimd *state)
{
	const struct record head = {FPSIMD_MAGIC, FPSIMD_BYTES};

	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), state, sizeof(*state));
}

/*
 * Makes the records of a thread without SVE state, and returns their size. Overwrites `state`, so
 * `regs` must be elsewhere.
 */
static size_t make_plain(uint8_t *state, const struct user_fpsimd *regs)
{
	struct fpsimd low = {.fpsr = regs->fpsr, .fpcr = regs->fpcr};

	memcpy(low.vectors, regs->vectors, sizeof(low.vectors));
	put_fpsimd(state, &low);
	memset(state + FPSIMD_BYTES, 0, ALIGN);
	return FPSIMD_BYTES + ALIGN;
}

/*
 * Makes an SVE record and the FPSIMD record that must follow it. Returns their size; 0 if the state
 * is invalid.
 */
static size_t make_sve(uint8_t *state, size_t size, size_t vl)
{
	const size_t regs = sve_bytes(vl), status = align(sizeof(struct sve_header) + regs);
	const size_t record = align(sizeof(struct sve) + regs), all = FPSIMD_BYTES + record + ALIGN;
	const struct sve head = {.head = {SVE_MAGIC, (uint32_t)record}, .vl = (uint16_t)vl};
	struct fpsimd low;

	if (vl < LOW_BYTES || vl % LOW_BYTES || status + 8 > size || all > ARCH_STATE_MAX)
		return 0;
	memcpy(&low.fpsr, state + status, sizeof(low.fpsr));
	memcpy(&low.fpcr, state + status + 4, sizeof(low.fpcr));
	for (size_t i = 0; i < VECTORS; i++)
		memcpy(low.vectors[i], state + sizeof(struct sve_header) + i * vl, LOW_BYTES);
	memmove(state + FPSIMD_BYTES + sizeof(head), state + sizeof(struct sve_header), regs);
	memset(state + FPSIMD_BYTES + sizeof(head) + regs, 0,
		all - FPSIMD_BYTES - sizeof(head) - regs);
	memcpy(state + FPSIMD_BYTES, &head, sizeof(head));
	put_fpsimd(state, &low);
	return all;
}

/*
 * Makes a thread's records from `state`, its regset NT_ARM_SVE or, if it has none, NT_PRFPREG,
 * which is always shorter.
 */
static size_t aarch64_make_state(uint8_t *state, size_t size, const struct arch_state *usual)
{
	struct sve_header header;
	struct user_fpsimd regs;
	size_t at = size == sizeof(regs) ? 0 : sizeof(header);

	(void)usual;
	if (size < at + sizeof(regs))
		return 0;
	memcpy(&header, state, sizeof(header));
	if (at && header.flags & SVE_REGS)
		return make_sve(state, size, header.vl);
	memcpy(&regs, state + at, sizeof(regs));
	return make_plain(state, &regs);
}

/* Returns true if the thread uses streaming mode's vectors, or the matrix. */
static bool aarch64_is_unkept(int regset, const uint8_t *head)
{
	struct sve_header header;

	memcpy(&header, head, sizeof(header));
	return regset == AARCH64_NT_SSVE ? header.flags & SVE_REGS : header.size > sizeof(header);
}

/* ==== Restartable sequences =================================================================== */

/* Sources: include/uapi/linux/rseq.h of Linux; <sys/rseq.h> of glibc (the signature). */
#ifdef __aarch64__

/* `sequence` of struct arch_process, on aarch64 only. */
static enum arch_sequence aarch64_sequence(
	void *area, uint32_t *begun, const uint32_t *told, uint64_t rounds)
{
	uint64_t ended;

	__asm__ volatile(
		/* struct rseq_cs: version, flags, start, length, abort handler */
		".pushsection .data.rel.ro, \"aw\"\n\t"
		".balign 32\n"
		"1:\t.word 0, 0\n\t"
		".quad 2f, 4f - 2f, 5f\n\t"
		".popsection\n\t"
		"adrp x9, 1b\n\t"
		"add x9, x9, :lo12:1b\n\t"
		"mov w10, #1\n\t"
		"str x9, [%[area], #8]\n"
		"2:\tstr w10, [%[begun]]\n"
		"3:\tldr w9, [%[told]]\n\t"
		"cbnz w9, 4f\n\t"
		"subs %[rounds], %[rounds], #1\n\t"
		"b.ne 3b\n"
		"4:\tmov w9, w9\n\t"
		"mov %[ended], x9\n\t"
		"b 6f\n\t"
		".inst 0xd428bc00\n" /* the signature */
		"5:\tmov %[ended], #2\n"
		"6:\tstr xzr, [%[area], #8]\n"
		: [ended] "=&r"(ended), [rounds] "+&r"(rounds)
		: [area] "r"(area), [begun] "r"(begun), [told] "r"(told)
		: "x9", "x10", "cc", "memory");
	return (enum arch_sequence)ended;
}
#endif

/* ==== Process ================================================================================= */

#define PSTATE_32 UINT64_C(0x10) /* the thread runs 32-bit code */

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

/* Calls that wait (struct arch_process). Source: Linux, include/uapi/asm-generic/unistd.h. */
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
	/* Calls that wait on sockets with SO_RCVTIMEO or SO_SNDTIMEO. */
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
/* From <asm/hwcap.h>; Linux 5.10 and 5.19. */
#define HAS_MTE (UINT64_C(1) << 18)
#define HAS_SME (UINT64_C(1) << 23)

/* The kernel reports the same features to all processes, so our features are also the target's. */
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
 * Returns an address's bits for a signature, which the kernel's settings decide for all processes:
 * the processor removes them from an address with all bits set. Bit 55 is 0 in user space.
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
	/*
	 * The end of user space with 48-bit addresses. If they have fewer bits, the kernel refuses
	 * higher addresses.
	 */
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
