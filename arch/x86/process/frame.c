/* SPDX-License-Identifier: MIT */
/*
 * When the kernel calls a signal handler, it saves on the handler's stack:
 *
 *   frame + 0    where the handler returns to: code that calls rt_sigreturn(2)
 *         + 8    flags, link
 *         + 24   the thread's alternate stack: address, flags, size
 *         + 48   r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx
 *         + 168  rsp
 *         + 176  rip
 *         + 192  the selectors of code and stack: the same word for every 64-bit thread
 *         + 232  address of the floating-point state, which is higher on the same stack
 *
 * The frame of a borrowed thread is the same, with one more word before it, for `leave`:
 *
 *   rbp to leave -------> +---------------------------+
 *                         | a word                    |
 *   rsp of the call ----> | address of rt_sigreturn   |
 *                         | struct ucontext           |  the thread as it was
 *                         | siginfo: a mark           |
 *                         +---------------------------+
 *
 * As long as the thread has its own signal mask, it stands at `leave; ret` with its own stack
 * pointer: a handler may run there, and returns to `leave`. During a call, rsp is in the frame.
 *
 * Sources: arch/x86/include/uapi/asm/{sigcontext,ucontext}.h and arch/x86/kernel/signal_64.c,
 * struct rt_sigframe, of Linux.
 */
#include <errno.h>
#include <string.h>

#include "arch/x86/process/frame.h"

enum {
	RETURN_ADDRESS = 8, /* in our frame: where the kernel's begins */
	UC_FLAGS = 7,	    /* UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS */
	SYSCALL_BYTES = 2,
	STATE_MIN = 512,
	/* <linux/errno.h>: internal to the kernel */
	ERESTARTSYS = 512,
	ERESTARTNOINTR = 513,
	ERESTARTNOHAND = 514,
	ERESTART_RESTARTBLOCK = 516
};

/* struct sigcontext_64 */
struct context {
	uint64_t general[15];
	uint64_t rsp, rip, flags;
	uint16_t cs, gs, fs, ss;
	uint64_t error, trap, old_mask, cr2;
	uint64_t state;
	uint64_t reserved[8];
};

/* The word that `leave` pops, and struct rt_sigframe. */
struct frame {
	uint64_t frame_pointer; /* any value */
	uint64_t return_address;
	uint64_t flags, link;
	uint64_t stack;
	uint32_t stack_flags, stack_unused;
	uint64_t stack_size;
	struct context context;
	uint64_t mask;
	/* Nothing reads the siginfo. What follows it is ours, not the kernel's. */
	char mark[ARCH_FRAME_MARK];
	char text[ARCH_FRAME_TEXT];
};

/* The kernel's layout. */
#define IN_FRAME(member) (offsetof(struct frame, member) - RETURN_ADDRESS)
_Static_assert(sizeof(struct context) == 256, "struct sigcontext_64");
_Static_assert(IN_FRAME(context) == 48, "after the head of struct ucontext");
_Static_assert(IN_FRAME(context.rip) == 176, "RIP");
_Static_assert(sizeof(struct frame) == X86_64_FRAME_BYTES, "as others look for it");
_Static_assert(offsetof(struct frame, mark) == X86_64_FRAME_MARK, "as others look for it");
_Static_assert(offsetof(struct frame, text) == X86_64_FRAME_TEXT, "as others look for it");

const struct arch_frame_layout x86_64_frame_layout = {
	.bytes = IN_FRAME(context.reserved),
	.sp = IN_FRAME(context.rsp),
	.pc = IN_FRAME(context.rip),
	.stack = IN_FRAME(stack),
	.stack_flags = IN_FRAME(stack_flags),
	.stack_size = IN_FRAME(stack_size),
	.state = IN_FRAME(context.state),
	.mark = IN_FRAME(context.cs),
	.mark_word = UINT64_C(0x002b000000000033), /* __USER_CS, 0, 0, __USER_DS */
	.state_min = 440,
	.state_max = 512,
	.state_head = X86_64_STATE_HEAD,
	.state_end = X86_64_STATE_MAGIC2,
};

static void fill_context(struct context *c, const struct arch_registers *r)
{
	static const uint8_t order[] = {WORD_R8, WORD_R9, WORD_R10, WORD_R11, WORD_R12, WORD_R13,
		WORD_R14, WORD_R15, WORD_RDI, WORD_RSI, WORD_RBP, WORD_RBX, WORD_RDX, WORD_RAX,
		WORD_RCX};
	enum { GENERAL_RAX = 13 };
	const uint64_t *words = r->words;

	for (size_t i = 0; i < sizeof(order); i++)
		c->general[i] = words[order[i]];
	c->rsp = words[WORD_RSP];
	c->rip = words[WORD_RIP];
	c->flags = words[WORD_FLAGS];
	c->cs = (uint16_t)words[WORD_CS];
	c->gs = (uint16_t)words[WORD_GS];
	c->fs = (uint16_t)words[WORD_FS];
	c->ss = (uint16_t)words[WORD_SS];
	if ((int64_t)words[WORD_ORIG_RAX] < 0)
		return;
	/* In a system call: do what the kernel does before a handler (handle_signal()). */
	switch (-(int64_t)words[WORD_RAX]) {
	case ERESTARTSYS:
	case ERESTARTNOINTR:
	case ERESTARTNOHAND:
		c->general[GENERAL_RAX] = words[WORD_ORIG_RAX];
		c->rip -= SYSCALL_BYTES;
		break;
	case ERESTART_RESTARTBLOCK: /* rt_sigreturn drops the block */
		c->general[GENERAL_RAX] = -(uint64_t)EINTR;
		break;
	}
}

void x86_64_make_frame(const struct arch_frame *frame, uint8_t *out)
{
	struct frame f = {.return_address = frame->sigreturn,
		.flags = UC_FLAGS,
		.stack_flags = ARCH_FRAME_STACK,
		.mask = frame->mask};

	fill_context(&f.context, frame->registers);
	f.context.state = frame->state;
	memcpy(f.mark, frame->mark, sizeof(f.mark));
	memcpy(f.text, frame->text, sizeof(f.text));
	memcpy(out, &f, sizeof(f));
}

void x86_64_set_call(struct arch_registers *registers, const struct arch_gadgets *gadgets,
	uint64_t frame, long number)
{
	registers->words[WORD_RIP] = gadgets->call;
	registers->words[WORD_RSP] = frame + RETURN_ADDRESS;
	registers->words[WORD_RAX] = (uint64_t)number;
	registers->words[WORD_ORIG_RAX] = UINT64_MAX; /* no system call to restart */
}

void x86_64_set_leave(
	struct arch_registers *registers, const struct arch_gadgets *gadgets, uint64_t frame)
{
	registers->words[WORD_RIP] = gadgets->leave;
	registers->words[WORD_RBP] = frame;
	registers->words[WORD_ORIG_RAX] = UINT64_MAX;
}

/* struct _fpx_sw_bytes: magic1, size with the word that follows, features, size without it. */
size_t x86_64_state_size(const uint8_t *head)
{
	uint32_t magic, size;

	memcpy(&magic, head + X86_64_STATE_SOFTWARE, sizeof(magic));
	memcpy(&size, head + X86_64_STATE_SOFTWARE + 16, sizeof(size));
	return magic == X86_64_STATE_MAGIC1 && size >= STATE_MIN && size <= ARCH_STATE_MAX ? size
											   : 0;
}
