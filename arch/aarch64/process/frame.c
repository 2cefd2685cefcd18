/* SPDX-License-Identifier: MIT */
/*
 * When the kernel calls a signal handler, it saves on the handler's stack:
 *
 *   frame + 0    siginfo
 *         + 128  flags, link
 *         + 144  the thread's alternate stack: address, flags, size
 *         + 168  the signal mask
 *         + 304  the faulting address, x0 to x30, sp, pc, pstate
 *         + 592  records, each with a magic number and its length: of the vector registers'
 *                low 128 bits, of SVE; up to one of length 0
 *
 * The handler returns to code that calls rt_sigreturn(2) with the stack pointer at the frame. The
 * frame of a borrowed thread is the same, with words before it for `leave`, of which one
 * is the return address that it loads, wherever it does:
 *
 *   x29 to leave -------> +---------------------------+
 *                         | addresses of rt_sigreturn |
 *   sp of the call -----> +---------------------------+
 *                         | siginfo: a mark, a text   |
 *                         | ucontext                  |  the thread as it was
 *                         | record: there are more    |
 *                         +---------------------------+
 *                         | records                   |  floating-point state, SVE
 *                         +---------------------------+
 *
 * x7 stays as it is in a thread that is borrowed: what a tracer writes there at the stop before or
 * after a system call is lost (report_syscall()).
 *
 * Sources: arch/arm64/include/uapi/asm/{sigcontext,ptrace,sve_context}.h, arch/arm64/kernel/
 * {signal,ptrace}.c of Linux; Documentation/arm64/sve.rst.
 */
#include <string.h>

#include "arch/aarch64/process/frame.h"

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
	PREDICATES = 17, /* with FFR */
	LOW_BYTES = 16	 /* of a vector that all processors have */
};

struct record {
	uint32_t magic, size;
};

/* struct extra_context, and the end of the records before it. */
struct extra {
	struct record head;
	uint64_t data; /* what follows this struct */
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
	.mark_word = UINT64_C(0x0000021046508001), /* FPSIMD_MAGIC, its size */
	.flag_bits = PSTATE_NZCV | PSTATE_TCO | PSTATE_DIT | PSTATE_SS | PSTATE_SSBS | PSTATE_BTYPE,
};

void aarch64_make_frame(const struct arch_frame *frame, uint8_t *out)
{
	struct frame f = {.kernel = {.stack_flags = ARCH_FRAME_STACK, .mask = frame->mask}};
	struct kernel_frame *k = &f.kernel;

	for (size_t i = 0; i < sizeof(f.sigreturn) / sizeof(*f.sigreturn); i++)
		f.sigreturn[i] = frame->sigreturn;
	memcpy(k->mark, frame->mark, sizeof(k->mark));
	memcpy(k->text, frame->text, sizeof(k->text));
	/* Of an interrupted call, the kernel has set pc and x0 back already (do_signal()). */
	memcpy(k->words, frame->registers->words, sizeof(k->words));
	k->extra = (struct extra){.head = {EXTRA_MAGIC, offsetof(struct extra, end)},
		.data = frame->state,
		.size = (uint32_t)frame->state_bytes};
	memcpy(out, &f, sizeof(f));
}

/* Leads a thread to an address; code may begin there that no branch is meant for. */
static void go(struct arch_registers *registers, uint64_t address)
{
	registers->words[WORD_PC] = address;
	registers->words[WORD_PSTATE] &= ~PSTATE_BTYPE;
	registers->words[WORD_CALL] = UINT64_MAX;
}

void aarch64_set_call(struct arch_registers *registers, const struct arch_gadgets *gadgets,
	uint64_t frame, long number)
{
	go(registers, gadgets->call + AARCH64_SYSCALL_BYTES);
	registers->words[WORD_SP] = frame + AARCH64_FRAME_KERNEL;
	registers->words[WORD_X8] = (uint64_t)number;
	registers->words[WORD_X30] = gadgets->sigreturn;
}

void aarch64_set_leave(
	struct arch_registers *registers, const struct arch_gadgets *gadgets, uint64_t frame)
{
	go(registers, gadgets->leave);
	registers->words[WORD_X29] = frame + AARCH64_FRAME_KERNEL - gadgets->leave_above;
}

/* ---- Floating-point state ----------------------------------------------------------------- */

/* struct fpsimd_context without its head, and struct user_fpsimd_state. */
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
enum { SVE_REGS = 1 /* SVE_PT_REGS_SVE; else it has the low 128 bits alone */ };

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

/* Of registers with this length of a vector: vectors, predicates, FFR. */
static size_t sve_bytes(size_t vl)
{
	return VECTORS * vl + PREDICATES * vl / 8;
}

/* Most threads have no state of SVE when they are stopped. */
void aarch64_measure_state(struct arch_state *ret)
{
	*ret = (struct arch_state){.bytes = FPSIMD_BYTES + ALIGN};
}

static void put_fpsimd(uint8_t *at, const struct fpsimd *state)
{
	const struct record head = {FPSIMD_MAGIC, FPSIMD_BYTES};

	memcpy(at, &head, sizeof(head));
	memcpy(at + sizeof(head), state, sizeof(*state));
}

/* Of a thread without SVE, or with nothing in it; `regs` is the caller's copy. */
static size_t make_plain(uint8_t *state, const struct user_fpsimd *regs)
{
	struct fpsimd low = {.fpsr = regs->fpsr, .fpcr = regs->fpcr};

	memcpy(low.vectors, regs->vectors, sizeof(low.vectors));
	put_fpsimd(state, &low);
	memset(state + FPSIMD_BYTES, 0, ALIGN);
	return FPSIMD_BYTES + ALIGN;
}

/* The record of SVE needs the other one, too. */
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

/* From NT_ARM_SVE, or from NT_PRFPREG where there is none: that is shorter than any of the other.
 */
size_t aarch64_make_state(uint8_t *state, size_t size, const struct arch_state *usual)
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

/* The vectors of the streaming mode, and the matrix, if they are in use. */
bool aarch64_is_unkept(int regset, const uint8_t *head)
{
	struct sve_header header;

	memcpy(&header, head, sizeof(header));
	return regset == AARCH64_NT_SSVE ? header.flags & SVE_REGS : header.size > sizeof(header);
}
