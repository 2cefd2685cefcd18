/* SPDX-License-Identifier: MIT */
/*
 * System calls in a stopped thread.
 *
 * The thread's stack is prepared like that of a signal handler:
 *
 *   rsp of the thread ->  +---------------------------+
 *                         | red zone, 128 bytes       |  not ours
 *                         +---------------------------+
 *                         | floating-point state      |  XSAVE area, 64-aligned
 *                         +---------------------------+
 *                         | siginfo: a text, if any   |
 *                         | struct ucontext           |  the thread as it was
 *   rsp of the call ----> | address of rt_sigreturn   |
 *                         +---------------------------+
 *
 * and it is sent to a `syscall; ret` of its own libc. While we live, we stop
 * it at the call's entry and exit (PTRACE_SYSCALL) and write its registers
 * back; the frame is never used. If we die, the kernel lets the thread go:
 * the call is done, `ret` goes to rt_sigreturn, and that puts everything back.
 * The one thing lost then is the restart of an interrupted system call of the
 * restart-block kind (nanosleep), which returns EINTR as after any signal.
 *
 * All signals are blocked meanwhile (the frame holds the mask, too): a handler
 * must not run in the middle, where the program never was.
 *
 * Sources: arch/x86/include/uapi/asm/{sigcontext,ucontext}.h;
 * arch/x86/kernel/{signal_64,fpu/signal}.c; System V ABI 3.2.2 (red zone).
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "libprobe/control.h"
#include "libprobe/memory.h"

enum {
	RED_ZONE = 128,
	XSTATE_MAX = 16384,	  /* with AMX tiles: 11 KB */
	ALTSTACK_INVALID = 7,	  /* ss_flags that sigreturn skips, leaving the stack as it is */
	FP_SOFTWARE_OFFSET = 464, /* of struct _fpx_sw_bytes */
	UC_FLAGS = 7		  /* UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS */
};

static const uint32_t xstate_magic1 = 0x46505853, xstate_magic2 = 0x46505845;

/* The kernel's struct rt_sigframe. */
struct sigframe {
	uint64_t return_address;
	struct {
		uint64_t flags, link;
		uint64_t stack_sp;
		uint32_t stack_flags, stack_unused;
		uint64_t stack_size;
		struct sigcontext context;
		uint64_t mask;
	} uc;
	union {
		uint8_t siginfo[128];
		char text[CONTROL_TEXT_MAX]; /* nobody reads the siginfo */
	};
};
_Static_assert(sizeof(struct sigcontext) == 256, "as the kernel lays it out");

/* What is on the stack, and what is to be put back. */
struct prepared {
	struct sigframe frame;
	uint8_t xstate[XSTATE_MAX + 4];
	size_t xstate_size;
	uint64_t frame_address, xstate_address;
	uint64_t mask;
};

/* Upper bound of what a prepared thread takes below its stack pointer. */
enum { ROOM = RED_ZONE + 64 + sizeof(struct sigframe) + XSTATE_MAX + 64 };

/*
 * Free stack is certain in two places: below the main thread's pointer in
 * [stack], and below a pointer that shares its mapping with the thread's
 * control block, which libc puts on top of the stacks that it makes.
 */
bool control_has_room(const struct control_thread *thread, const struct maps *maps)
{
	const struct mapping *m = maps_find(maps, thread->regs.rsp);
	uint64_t tp = thread->regs.fs_base;

	if (!m || !m->writable || thread->regs.cs != 0x33 || thread->regs.rsp - m->start < ROOM)
		return false;
	return strcmp(m->path, "[stack]") == 0 || (tp > thread->regs.rsp && tp < m->end);
}

static void fill_context(struct prepared *p, const struct user_regs_struct *r)
{
	struct sigcontext *c = &p->frame.uc.context;

	*c = (struct sigcontext){.r8 = r->r8,
		.r9 = r->r9,
		.r10 = r->r10,
		.r11 = r->r11,
		.r12 = r->r12,
		.r13 = r->r13,
		.r14 = r->r14,
		.r15 = r->r15,
		.rdi = r->rdi,
		.rsi = r->rsi,
		.rbp = r->rbp,
		.rbx = r->rbx,
		.rdx = r->rdx,
		.rax = r->rax,
		.rcx = r->rcx,
		.rsp = r->rsp,
		.rip = r->rip,
		.eflags = r->eflags,
		.cs = r->cs,
		.gs = r->gs,
		.fs = r->fs,
		.__pad0 = r->ss}; /* the kernel calls it ss */
	c->fpstate = (void *)p->xstate_address;
	if ((int64_t)r->orig_rax < 0)
		return;
	/* In a system call: what the kernel does before a handler (handle_signal()). */
	switch ((int64_t)r->rax) {
	case -512: /* ERESTARTSYS */
	case -513: /* ERESTARTNOINTR */
	case -514: /* ERESTARTNOHAND */
		c->rax = r->orig_rax;
		c->rip -= 2;
		break;
	case -516: /* ERESTART_RESTARTBLOCK: rt_sigreturn drops the block */
		c->rax = -EINTR;
		break;
	}
}

/* Makes the XSAVE area acceptable to rt_sigreturn (check_xstate_in_sigframe()). */
static void fill_xstate(struct prepared *p)
{
	uint32_t size = p->xstate_size, extended = size + sizeof(xstate_magic2);
	struct _fpx_sw_bytes software = {0};

	/* ptrace leaves the enabled features in the first eight of the software bytes. */
	memcpy(&software.xstate_bv, p->xstate + FP_SOFTWARE_OFFSET, sizeof(software.xstate_bv));
	software.magic1 = xstate_magic1;
	software.extended_size = extended;
	software.xstate_size = size;
	memcpy(p->xstate + FP_SOFTWARE_OFFSET, &software, sizeof(software));
	memcpy(p->xstate + size, &xstate_magic2, sizeof(xstate_magic2));
}

static struct probe_error *gone(const struct control *control)
{
	return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", control->pid);
}

/* Writes the frame below the thread's stack, with a text or NULL. */
static struct probe_error *prepare(struct control *control, struct control_thread *thread,
	const struct control_gadgets *gadgets, const char *text, struct prepared *p)
{
	struct iovec xstate = {p->xstate, XSTATE_MAX};
	struct probe_error *error;
	uint64_t sp = thread->regs.rsp - RED_ZONE;

	if (ptrace(PTRACE_GETREGSET, thread->tid, NT_X86_XSTATE, &xstate) < 0 ||
		ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof(p->mask), &p->mask) < 0)
		return gone(control);
	p->xstate_size = xstate.iov_len;
	p->xstate_address = (sp - p->xstate_size - 4) & ~UINT64_C(63);
	/* At a function's entry %rsp is 8 below a multiple of 16. */
	p->frame_address = ((p->xstate_address - sizeof(p->frame)) & ~UINT64_C(15)) - 8;
	memset(&p->frame, 0, sizeof(p->frame));
	p->frame.return_address = gadgets->sigreturns[0];
	p->frame.uc.flags = UC_FLAGS;
	p->frame.uc.stack_flags = ALTSTACK_INVALID;
	p->frame.uc.mask = p->mask;
	if (text)
		strncpy(p->frame.text, text, sizeof(p->frame.text) - 1);
	fill_context(p, &thread->regs);
	fill_xstate(p);
	error = memory_write_data(control->pid, p->xstate_address, p->xstate, p->xstate_size + 4);
	if (!error)
		error = memory_write_data(
			control->pid, p->frame_address, &p->frame, sizeof(p->frame));
	return error;
}

/*
 * Lets the thread run to the next entry or exit of a system call. Of signals
 * only SIGSTOP cannot be blocked: it is passed on, and the process stays
 * stopped when we let go.
 */
static bool to_syscall_stop(pid_t tid)
{
	long deliver = 0;

	for (;;) {
		int status;

		if (ptrace(PTRACE_SYSCALL, tid, NULL, deliver) < 0 ||
			control_wait(tid, &status, 0) != tid)
			return false;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			return true;
		deliver = status >> 16 ? 0 : WSTOPSIG(status);
	}
}

static struct probe_error *run_call(struct control *control, struct control_thread *thread,
	const struct control_gadgets *gadgets, const struct prepared *p, struct control_call *call)
{
	static const uint64_t all_signals = ~UINT64_C(0);
	struct user_regs_struct regs = thread->regs;

	regs.rip = gadgets->syscall_ret;
	regs.rsp = p->frame_address;
	regs.rax = call->number;
	regs.orig_rax = -1;
	regs.rdi = call->text ? p->frame_address + offsetof(struct sigframe, text) : call->args[0];
	regs.rsi = call->args[1];
	regs.rdx = call->args[2];
	regs.r10 = call->args[3];
	regs.r8 = call->args[4];
	regs.r9 = call->args[5];
	if (ptrace(PTRACE_SETREGS, thread->tid, NULL, &regs) < 0 ||
		ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(all_signals), &all_signals) < 0 ||
		!to_syscall_stop(thread->tid) || !to_syscall_stop(thread->tid) ||
		ptrace(PTRACE_GETREGS, thread->tid, NULL, &regs) < 0)
		return gone(control);
	call->result = regs.rax;
	return NULL;
}

/*
 * A thread that was stopped in a restartable sequence must not go on in it: the
 * kernel would see to that, but forgets the sequence as soon as it sees the
 * thread elsewhere, in the call that we make. So it is sent to the sequence's
 * abort handler, as the kernel would have done (kernel/rseq.c, rseq_ip_fixup()).
 */
static void leave_sequence(const struct control *control, struct control_thread *thread)
{
	struct __ptrace_rseq_configuration rseq;
	struct {
		uint32_t version, flags;
		uint64_t start, length, abort;
	} sequence;
	uint64_t current = 0;

	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, sizeof(rseq), &rseq) !=
			sizeof(rseq) ||
		!rseq.rseq_abi_pointer)
		return;
	/* struct rseq: cpu_id_start, cpu_id, rseq_cs */
	if (memory_read(control->pid, rseq.rseq_abi_pointer + 8, &current, sizeof(current)) !=
			sizeof(current) ||
		!current ||
		memory_read(control->pid, current, &sequence, sizeof(sequence)) !=
			sizeof(sequence) ||
		thread->regs.rip - sequence.start >= sequence.length)
		return;
	thread->regs.rip = sequence.abort;
	thread->regs_changed = true;
}

/* `syscall` at `at`, between `start` and `end`: what it is good for. */
static void judge_syscall(struct control_gadgets *gadgets, const uint8_t *start, const uint8_t *at,
	const uint8_t *end, uint64_t address)
{
	static const uint8_t mov64[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0}; /* mov $15,%rax */
	static const uint8_t mov32[] = {0xb8, 0x0f, 0, 0, 0};		  /* mov $15,%eax */
	size_t length = 0;

	if (end - at > 2 && at[2] == 0xc3 && !gadgets->syscall_ret)
		gadgets->syscall_ret = address;
	if (at - start >= (ptrdiff_t)sizeof(mov64) &&
		memcmp(at - sizeof(mov64), mov64, sizeof(mov64)) == 0)
		length = sizeof(mov64);
	else if (at - start >= (ptrdiff_t)sizeof(mov32) &&
		 memcmp(at - sizeof(mov32), mov32, sizeof(mov32)) == 0)
		length = sizeof(mov32);
	if (length && gadgets->sigreturn_count < CONTROL_SIGRETURNS_MAX)
		gadgets->sigreturns[gadgets->sigreturn_count++] = address - length;
}

/* Is the code that we rely on still there? execve(2) may have taken it away. */
static bool has_gadgets(const struct control *control, const struct control_gadgets *gadgets)
{
	struct control_gadgets found = {0};
	uint8_t code[3], handler[9];

	if (memory_read(control->pid, gadgets->syscall_ret, code, sizeof(code)) != sizeof(code) ||
		memory_read(control->pid, gadgets->sigreturns[0], handler, sizeof(handler)) !=
			sizeof(handler))
		return false;
	judge_syscall(&found, code, code, code + sizeof(code), gadgets->syscall_ret);
	for (size_t i = 5; i <= 7; i += 2) /* behind either form of `mov` */
		if (handler[i] == 0x0f && handler[i + 1] == 0x05)
			judge_syscall(&found, handler, handler + i, handler + sizeof(handler),
				gadgets->sigreturns[0] + i);
	return found.syscall_ret && found.sigreturn_count;
}

/*
 * A thread with room; if possible none that sleeps in a call that could only
 * end early, with EINTR, if we die.
 */
static struct control_thread *choose_thread(struct control *control, const struct maps *maps)
{
	struct control_thread *found = NULL;

	for (size_t i = 0; i < control->count; i++) {
		struct control_thread *thread = &control->threads[i];

		if (!control_has_room(thread, maps) ||
			!seccomp_may_run(control->seccomp, thread->tid))
			continue;
		found = thread;
		if (!control_would_interrupt(thread))
			break;
	}
	return found;
}

bool control_would_interrupt(const struct control_thread *thread)
{
	return (int64_t)thread->regs.orig_rax >= 0 &&
	       (int64_t)thread->regs.rax == -516; /* ERESTART_RESTARTBLOCK */
}

static bool is_success(const struct control_call *call)
{
	if (call->wanted)
		return (uint64_t)call->result == call->wanted;
	return call->result >= 0 || call->result < -4095;
}

struct probe_error *control_run(struct control *control, const struct maps *maps,
	const struct control_gadgets *gadgets, struct control_call *calls, size_t count,
	bool stop_at_error)
{
	struct control_thread *thread = choose_thread(control, maps);
	struct probe_error *error;
	const char *text = NULL;
	struct prepared *p;

	if (!has_gadgets(control, gadgets))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has become another program meanwhile: try again", control->pid);
	if (!thread)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has no thread with room on its stack: try again", control->pid);
	p = malloc(sizeof(*p));
	if (!p)
		return probe_error_no_memory();
	leave_sequence(control, thread);
	for (size_t i = 0; i < count && !text; i++)
		text = calls[i].text;
	error = prepare(control, thread, gadgets, text, p);
	if (error) {
		free(p);
		return error;
	}
	for (size_t i = 0; i < count && !error; i++) {
		error = run_call(control, thread, gadgets, p, &calls[i]);
		if (stop_at_error && !is_success(&calls[i]))
			break;
	}
	ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(p->mask), &p->mask);
	ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs);
	free(p);
	return error;
}

/* ---- Gadgets ---------------------------------------------------------------- */

/* Looks at every `syscall` instruction of a module. */
static struct probe_error *search_module(struct module *module, struct control_gadgets *gadgets)
{
	const struct object_segment *segments;
	size_t count, size;
	const uint8_t *file;
	struct probe_error *error = object_load(module->object, &file, &size);

	segments = object_segments(module->object, &count);
	for (size_t i = 0; !error && i < count; i++) {
		const struct object_segment *s = &segments[i];
		const uint8_t *start, *at, *end;

		if (!s->executable || s->file_size < 2 || s->offset > size ||
			s->file_size > size - s->offset)
			continue;
		start = file + s->offset;
		end = start + s->file_size;
		/* 05 is the rarer one of the two bytes of `syscall`. */
		for (at = start + 1; (at = memchr(at, 0x05, end - at)); at++)
			if (at[-1] == 0x0f)
				judge_syscall(gadgets, start, at - 1, end,
					(uint64_t)(at - 1 - start) + s->address + module->bias);
	}
	return error;
}

static bool is_libc(const struct module *module)
{
	static const char *const names[] = {"libc.", "libc-", "libpthread", "ld-"};
	const char *slash = strrchr(module->path, '/');

	for (size_t i = 0; slash && i < sizeof(names) / sizeof(*names); i++)
		if (strncmp(slash + 1, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

struct probe_error *control_find_gadgets(const struct modules *modules, struct control_gadgets *ret)
{
	struct probe_error *error = NULL;

	*ret = (struct control_gadgets){0};
	/* First libc alone: a program's own code may be large, and rarely has them. */
	for (size_t i = 0; i < 2 * modules->count; i++) {
		struct module *m = &modules->items[i % modules->count];
		bool second = i >= modules->count;

		if (!m->object || is_libc(m) == second)
			continue;
		if (second && ret->syscall_ret && ret->sigreturn_count)
			break;
		/* What one file cannot give another may have. */
		probe_error_free(error);
		error = search_module(m, ret);
	}
	if (ret->syscall_ret && ret->sigreturn_count) {
		probe_error_free(error);
		return NULL;
	}
	if (error)
		return error;
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"the process has no `syscall; ret` or no rt_sigreturn in its code: "
		"nothing can be run in it safely");
}
