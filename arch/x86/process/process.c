/* SPDX-License-Identifier: MIT */
/* Processes of x86-64 Linux: see arch/process.h. */
#include "arch/process.h"
#include <elf.h>
#include <errno.h>
#include <linux/audit.h>
#include <string.h>

#include "arch/x86/stub/lower.h"

/* A function that must run on x86-64 itself; NULL on other machines. */

#if defined(__x86_64__)
#define X86_64_ON_HOST(function) (function)
#else
#define X86_64_ON_HOST(function) NULL
#endif

/* General registers in the order of ptrace(2) (struct user_regs_struct of <sys/user.h>). */
enum {
	WORD_R15,
	WORD_R14,
	WORD_R13,
	WORD_R12,
	WORD_RBP,
	WORD_RBX,
	WORD_R11,
	WORD_R10,
	WORD_R9,
	WORD_R8,
	WORD_RAX,
	WORD_RCX,
	WORD_RDX,
	WORD_RSI,
	WORD_RDI,
	WORD_ORIG_RAX,
	WORD_RIP,
	WORD_CS,
	WORD_FLAGS,
	WORD_RSP,
	WORD_SS,
	WORD_FS_BASE,
	WORD_GS_BASE,
	WORD_DS,
	WORD_ES,
	WORD_FS,
	WORD_GS,
	WORDS
};

enum {
	/* size of x86_64_make_frame()'s frame; below, offsets in it */
	X86_64_FRAME_BYTES = 368,
	X86_64_FRAME_MARK = 320,
	X86_64_FRAME_TEXT = 336,
	X86_64_STATE_SOFTWARE = 464, /* offset of struct _fpx_sw_bytes in an XSAVE area */
	/* offset in an XSAVE area, in an unused part of struct _fpx_sw_bytes */
	X86_64_STATE_MARK = 488,
	X86_64_STATE_HEAD = X86_64_STATE_SOFTWARE + 24
};
#define X86_64_STATE_MAGIC1 UINT32_C(0x46505853)
#define X86_64_STATE_MAGIC2 UINT32_C(0x46505845)

extern const struct arch_frame_layout x86_64_frame_layout;

/* ==== Frame =================================================================================== */

/*
 * When the kernel calls a signal handler, it saves the thread's state on the handler's stack:
 *
 *  frame + 0    where the handler returns to: code that calls rt_sigreturn(2)
 *        + 8    flags, link
 *        + 24   the thread's alternate stack: address, flags, size
 *        + 48   r8 to r15, rdi, rsi, rbp, rbx, rdx, rax, rcx
 *        + 168  rsp
 *        + 176  rip
 *        + 192  the selectors of code and stack: the same word for every 64-bit thread
 *        + 232  address of the floating-point state, which is higher on the same stack
 *
 * The frame of a thread that makes system calls for the controller is the same, with one more word
 * before it, for `leave`:
 *
 *  rbp to leave -------> +---------------------------+
 *                        | a word                    |
 *  rsp of the call ----> | address of rt_sigreturn   |
 *                        | struct ucontext           |  the thread as it was
 *                        | siginfo: a mark           |
 *                        +---------------------------+
 *
 * As long as the thread has its own signal mask, it stands at `leave; ret` with its own stack
 * pointer: a handler may run there, and returns to `leave`. During a call, rsp is in the frame.
 *
 * Sources: arch/x86/include/uapi/asm/{sigcontext,ucontext}.h and arch/x86/kernel/signal_64.c,
 * struct rt_sigframe, of Linux.
 */

enum {
	RETURN_ADDRESS = 8, /* offset of the kernel's frame in ours */
	UC_FLAGS = 7,	    /* UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS */
	FRAME_SYSCALL_BYTES = 2,
	STATE_MIN = 512,
	/* from <linux/errno.h>; internal to the kernel */
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

/* The word that `leave` pops, and the kernel's struct rt_sigframe. */
struct signal_frame {
	uint64_t frame_pointer; /* popped by `leave`; may have any value */
	uint64_t return_address;
	uint64_t flags, link;
	uint64_t stack;
	uint32_t stack_flags, stack_unused;
	uint64_t stack_size;
	struct context context;
	uint64_t mask;
	/* The kernel does not read the siginfo, so from `mark` on it is ours. */
	char mark[ARCH_FRAME_MARK];
	char text[ARCH_FRAME_TEXT];
};

#define IN_FRAME(member) (offsetof(struct signal_frame, member) - RETURN_ADDRESS)
_Static_assert(sizeof(struct context) == 256, "struct sigcontext_64");
_Static_assert(IN_FRAME(context) == 48, "after the head of struct ucontext");
_Static_assert(IN_FRAME(context.rip) == 176, "RIP");
_Static_assert(sizeof(struct signal_frame) == X86_64_FRAME_BYTES, "as others look for it");
_Static_assert(offsetof(struct signal_frame, mark) == X86_64_FRAME_MARK, "as others look for it");
_Static_assert(offsetof(struct signal_frame, text) == X86_64_FRAME_TEXT, "as others look for it");

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
	/* Does what the kernel does before a signal handler (handle_signal()). */
	switch (-(int64_t)words[WORD_RAX]) {
	case ERESTARTSYS:
	case ERESTARTNOINTR:
	case ERESTARTNOHAND:
		c->general[GENERAL_RAX] = words[WORD_ORIG_RAX];
		c->rip -= FRAME_SYSCALL_BYTES;
		break;
	case ERESTART_RESTARTBLOCK: /* rt_sigreturn(2) drops the restart block */
		c->general[GENERAL_RAX] = -(uint64_t)EINTR;
		break;
	}
}

static void x86_64_make_frame(const struct arch_frame *frame, uint8_t *out)
{
	struct signal_frame f = {.return_address = frame->sigreturn,
		.flags = UC_FLAGS,
		.stack_flags = ARCH_FRAME_STACK,
		.mask = frame->mask};

	fill_context(&f.context, frame->registers);
	f.context.state = frame->state;
	memcpy(f.mark, frame->mark, sizeof(f.mark));
	memcpy(f.text, frame->text, sizeof(f.text));
	memcpy(out, &f, sizeof(f));
}

static void x86_64_set_call(struct arch_registers *registers, const struct arch_gadgets *gadgets,
	uint64_t frame, long number)
{
	registers->words[WORD_RIP] = gadgets->call;
	registers->words[WORD_RSP] = frame + RETURN_ADDRESS;
	registers->words[WORD_RAX] = (uint64_t)number;
	registers->words[WORD_ORIG_RAX] = UINT64_MAX; /* no system call to restart */
}

static void x86_64_set_leave(
	struct arch_registers *registers, const struct arch_gadgets *gadgets, uint64_t frame)
{
	registers->words[WORD_RIP] = gadgets->leave;
	registers->words[WORD_RBP] = frame;
	registers->words[WORD_ORIG_RAX] = UINT64_MAX;
}

/*
 * struct _fpx_sw_bytes: magic1, the size with the word behind the state, features, the size
 * without.
 */
static size_t x86_64_state_size(const uint8_t *head)
{
	uint32_t magic, size;

	memcpy(&magic, head + X86_64_STATE_SOFTWARE, sizeof(magic));
	memcpy(&size, head + X86_64_STATE_SOFTWARE + 16, sizeof(size));
	return magic == X86_64_STATE_MAGIC1 && size >= STATE_MIN && size <= ARCH_STATE_MAX ? size
											   : 0;
}

/* ==== Xstate ================================================================================== */

/*
 * The floating-point state in a signal frame is an XSAVE area. Only SSE is restored if the magic
 * word behind it is missing, or it is larger than the kernel's own for the thread. ptrace(2) reads
 * all of the processor's features. AMX's tiles are left out in their initial state, because most
 * threads have not requested them, and rt_sigreturn(2) resets what the frame lacks.
 *
 * Sources: arch/x86/kernel/fpu/{signal,xstate}.c of Linux; Intel SDM 1, 13.2 (CPUID leaf 0DH).
 */

#if defined(__x86_64__)

#include <cpuid.h>
#include <string.h>

enum {
	LEAST = 576,  /* size of the FXSAVE part and the header */
	HEADER = 512, /* offset of XSTATE_BV, the features that are not in their initial state */
	TILES = 18,   /* number of the only feature that a thread must request */
	FEATURES = 63
};
#define TILES_BIT (UINT64_C(1) << TILES)

/* Returns the bytes of an XSAVE area with these features, not compacted. */
static size_t bytes_of(uint64_t features)
{
	size_t bytes = LEAST;

	for (unsigned int i = 2; i < FEATURES; i++) {
		unsigned int size, offset, c, d;

		if (!(features >> i & 1))
			continue;
		__cpuid_count(0x0d, i, size, offset, c, d);
		/* The offset is 0 if only the kernel uses the feature. */
		if (offset && (size_t)offset + size > bytes)
			bytes = (size_t)offset + size;
	}
	return bytes;
}

/* Measures the state without tiles. */
static void x86_64_measure_state(struct arch_state *ret)
{
	unsigned int a, b, c = 0, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	ret->features = ((uint64_t)high << 32 | low) & ~TILES_BIT;
	ret->bytes = bytes_of(ret->features);
}

/* Makes the area acceptable to rt_sigreturn(2) (check_xstate_in_sigframe()). */
static void fill(uint8_t *state, uint64_t features, uint32_t size)
{
	static const uint32_t magic2 = X86_64_STATE_MAGIC2;
	const struct {
		uint32_t magic1, extended_size;
		uint64_t features;
		uint32_t size, padding[7];
	} software = {X86_64_STATE_MAGIC1, size + (uint32_t)sizeof(magic2), features, size, {0}};

	memcpy(state + X86_64_STATE_SOFTWARE, &software, sizeof(software));
	memcpy(state + size, &magic2, sizeof(magic2));
}

static size_t x86_64_make_state(uint8_t *state, size_t size, const struct arch_state *usual)
{
	uint64_t features, in_use;
	size_t needed;

	/* ptrace(2) stores the features in the first eight software bytes. */
	memcpy(&features, state + X86_64_STATE_SOFTWARE, sizeof(features));
	memcpy(&in_use, state + HEADER, sizeof(in_use));
	features &= in_use | ~TILES_BIT;
	needed = usual->bytes && features == usual->features ? usual->bytes : bytes_of(features);
	if (needed > size || needed > ARCH_STATE_MAX)
		return 0;
	fill(state, features, (uint32_t)needed);
	return needed + sizeof(X86_64_STATE_MAGIC2);
}

#endif

/* ==== Host ==================================================================================== */

/* Instructions that the controller itself executes. */

#if defined(__x86_64__)

#include <x86intrin.h>

static uint64_t x86_64_counter(void)
{
	return __rdtsc();
}

static void x86_64_trap(void)
{
	__asm__ volatile("int3" ::: "memory");
}

#endif

/* ==== Process ================================================================================= */

enum {
	USER_CS = 0x33, /* selector of 64-bit code */
	PTRACE_GETREGS = 12,
	PTRACE_SETREGS = 13
};

static bool is_native(const struct arch_registers *registers)
{
	return registers->words[WORD_CS] == USER_CS;
}

/* ---- System calls --------------------------------------------------------------------------- */

/* From Linux, arch/x86/entry/syscalls/syscall_64.tbl. */
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
	/* These wait on sockets with SO_RCVTIMEO or SO_SNDTIMEO. */
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
 * libc contains `syscall; ret`, the call of rt_sigreturn(2) that signal handlers return to, and
 * `leave; ret`, maybe in other instructions.
 */
static const uint8_t leave_ret[] = {0xc9, 0xc3};
static const uint8_t mov64[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0}; /* mov $15,%rax */
static const uint8_t mov32[] = {0xb8, 0x0f, 0, 0, 0};		  /* mov $15,%eax */
enum { RET = 0xc3, SYSCALL_FIRST = 0x0f, SYSCALL_SECOND = 0x05, SYSCALL_BYTES = 2 };

/* Records each gadget that the `syscall` at `at` is part of. */
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

/* Finds two bytes, or returns NULL: memmem(3) is slow for so few. */
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
	/* 05 is the rarer byte of `syscall`. */
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
	/* Not the regset, which has another layout for 32-bit code. */
	.ptrace_get = PTRACE_GETREGS,
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
