/* SPDX-License-Identifier: MIT */
/*
 * System calls in a stopped thread.
 *
 * A frame like that of a signal handler is written where nothing of the target's own can
 * be (libprobe/stop/room.c):
 *
 *   rbp to leave -------> +---------------------------+
 *                         | a word                    |
 *   rsp of the call ----> | address of rt_sigreturn   |
 *                         | struct ucontext           |  the thread as it was
 *                         | siginfo: a mark           |
 *                         +---------------------------+
 *   in the same room      | floating-point state      |  XSAVE area, 64-aligned
 *   or another one        +---------------------------+
 *
 * and the thread is sent to a `syscall; ret` of its own libc. While we live, we stop
 * it at the call's entry and exit (PTRACE_SYSCALL) and write its registers
 * back; the frame is never used. If we die, the kernel lets the thread go:
 * the call is done, `ret` goes to rt_sigreturn, and that puts everything back.
 * The thread only ever reads the frame, and its own stack is not touched.
 * The one thing lost then is the restart of an interrupted system call of the
 * restart-block kind (nanosleep), which returns EINTR as after any signal.
 *
 * All signals are blocked meanwhile (the frame holds the mask, too): a handler
 * must not run in the middle, where the program never was, and whose stack is the room.
 * Registers and mask are set one after the other, and we may die in between. So while a
 * thread has its own mask, or not yet its own registers, it stands at `leave; ret`:
 *
 *	rip	leave; ret of its libc, which goes to rt_sigreturn by rbp
 *	rbp	the room
 *	rsp	its own: a handler may run there, and comes back to `leave`
 *
 * The kernel looks for a magic word after the XSAVE area, and restores only the SSE state if
 * there is none, or if the area is larger than this thread's. ptrace(2) gives the state of
 * everything that the processor has. The tiles of AMX are left out where they are in their
 * first state: most threads have not asked for them, and rt_sigreturn(2) puts those that a
 * frame does not have into that state.
 *
 * Sources: arch/x86/include/uapi/asm/{sigcontext,ucontext}.h;
 * arch/x86/kernel/{signal_64,fpu/signal,fpu/xstate}.c; Intel SDM 1, 13.2 (CPUID leaf 0DH).
 */
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/process/memory.h"
#include "libprobe/stop/control.h"

enum {
	XSTATE_MAX = 16384,  /* with AMX tiles: 11 KB */
	XSTATE_LEAST = 576,  /* the part of FXSAVE, and the header */
	XSTATE_HEADER = 512, /* in it: XSTATE_BV, which features are not in their first state */
	TILES = 18,	     /* the one feature that a thread has to ask for */
	FEATURES = 63,
	ALTSTACK_INVALID = 7,	  /* ss_flags that sigreturn skips, leaving the stack as it is */
	FP_SOFTWARE_OFFSET = 464, /* of struct _fpx_sw_bytes */
	USER_CS = 0x33,		  /* of 64-bit code */
	RECLAIM_TRIES = 20,
	RECLAIM_WAIT_NS = 1000000,
	HANDLER_STACK = 64 << 10, /* that is searched for the frame of a handler */
	UC_FLAGS = 7		  /* UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS */
};

static const uint32_t xstate_magic1 = 0x46505853, xstate_magic2 = 0x46505845;

/* The kernel's struct rt_sigframe, and a word that `leave` takes before it. */
struct sigframe {
	uint64_t frame_pointer; /* of no meaning */
	uint64_t return_address;
	struct {
		uint64_t flags, link;
		uint64_t stack_sp;
		uint32_t stack_flags, stack_unused;
		uint64_t stack_size;
		struct sigcontext context;
		uint64_t mask;
	} uc;
	/* Nobody reads the siginfo. What is behind it is not the kernel's any more. */
	char mark[16];
	char text[CONTROL_TEXT_MAX];
};
_Static_assert(sizeof(struct sigcontext) == 256, "as the kernel lays it out");
_Static_assert(offsetof(struct sigframe, mark) == ROOM_MARK_OFFSET, "as it is looked for");

/* What is written into a room, and what was there. */
struct written {
	struct room room;
	size_t size; /* 0: none */
	uint8_t bytes[ROOM_STACK_BYTES], before[ROOM_STACK_BYTES];
};

/* What is written into the target, and what is to be put back. */
struct prepared {
	struct sigframe frame;
	uint8_t xstate[XSTATE_MAX + 4];
	size_t xstate_size;
	uint64_t frame_address, xstate_address;
	uint64_t mask;
	struct written written[2];
};

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

/* What an XSAVE area with these features takes, in the form that is not compacted. */
static size_t xstate_bytes(uint64_t features)
{
	size_t bytes = XSTATE_LEAST;

	for (unsigned int i = 2; i < FEATURES; i++) {
		unsigned int size, offset, c, d;

		if (!(features >> i & 1))
			continue;
		__cpuid_count(0x0d, i, size, offset, c, d);
		if (offset && (size_t)offset + size > bytes) /* without one: the kernel's alone */
			bytes = (size_t)offset + size;
	}
	return bytes;
}

/* What threads without tiles have: asked for before they are stopped. */
static void measure_xstate(struct rooms *rooms)
{
	unsigned int a, b, c = 0, d, low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	rooms->features = ((uint64_t)high << 32 | low) & ~(UINT64_C(1) << TILES);
	rooms->xstate_bytes = xstate_bytes(rooms->features);
}

/* Makes the XSAVE area acceptable to rt_sigreturn (check_xstate_in_sigframe()). */
static void fill_xstate(struct prepared *p, uint64_t features)
{
	uint32_t size = p->xstate_size, extended = size + sizeof(xstate_magic2);
	struct _fpx_sw_bytes software = {.magic1 = xstate_magic1,
		.extended_size = extended,
		.xstate_bv = features,
		.xstate_size = size};

	memcpy(p->xstate + FP_SOFTWARE_OFFSET, &software, sizeof(software));
	memcpy(p->xstate + ROOM_XSTATE_MARK_OFFSET, ROOM_MARK, sizeof(ROOM_MARK));
	memcpy(p->xstate + size, &xstate_magic2, sizeof(xstate_magic2));
}

static struct probe_error *gone(const struct control *control)
{
	return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", control->pid);
}

static struct probe_error *read_xstate(const struct control *control,
	const struct control_thread *thread, const struct rooms *rooms, struct prepared *p)
{
	struct iovec xstate = {p->xstate, XSTATE_MAX};
	uint64_t features, in_use;

	if (ptrace(PTRACE_GETREGSET, thread->tid, NT_X86_XSTATE, &xstate) < 0 ||
		ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof(p->mask), &p->mask) < 0)
		return gone(control);
	/* ptrace leaves what the processor has in the first eight of the software bytes. */
	memcpy(&features, p->xstate + FP_SOFTWARE_OFFSET, sizeof(features));
	memcpy(&in_use, p->xstate + XSTATE_HEADER, sizeof(in_use));
	features &= in_use | ~(UINT64_C(1) << TILES);
	p->xstate_size = features == rooms->features ? rooms->xstate_bytes : xstate_bytes(features);
	if (p->xstate_size > xstate.iov_len || p->xstate_size > XSTATE_MAX)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d: the kernel tells less of a thread's registers than the "
			"processor has",
			control->pid);
	fill_xstate(p, features);
	return NULL;
}

/* ---- Where it lies --------------------------------------------------------------------------- */

static size_t align_up(size_t size)
{
	return (size + ROOM_ALIGN - 1) & ~(size_t)(ROOM_ALIGN - 1);
}

/* Both parts in one room, from an offset of it on; or the frame alone. */
static void put_frame(struct prepared *p, const struct room *room, size_t offset, bool both)
{
	size_t next = align_up(offset + sizeof(p->frame));

	p->written[0].room = *room;
	p->written[0].size =
		both ? next + p->xstate_size + sizeof(xstate_magic2) : offset + sizeof(p->frame);
	p->frame_address = room->start + offset;
	if (both)
		p->xstate_address = room->start + next;
}

static bool place(struct prepared *p, const struct rooms *rooms)
{
	size_t xstate = p->xstate_size + sizeof(xstate_magic2);

	for (size_t i = 0; i < rooms->count; i++) {
		if (rooms->items[i].size < align_up(sizeof(p->frame)) + xstate)
			continue;
		put_frame(p, &rooms->items[i], 0, true);
		return true;
	}
	for (size_t i = 0; i < rooms->count; i++)
		for (size_t k = 0; k < rooms->count; k++) {
			if (k == i || rooms->items[i].size < sizeof(p->frame) ||
				rooms->items[k].size < xstate)
				continue;
			put_frame(p, &rooms->items[i], 0, false);
			p->written[1].room = rooms->items[k];
			p->written[1].size = xstate;
			p->xstate_address = rooms->items[k].start;
			return true;
		}
	return false;
}

static struct probe_error *find_place(
	const struct control *control, const struct rooms *rooms, struct prepared *p)
{
	struct room room;

	p->written[0].size = p->written[1].size = 0;
	if (place(p, rooms))
		return NULL;
	if (!room_on_stack(control->pid, rooms->maps, &room))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d has no memory that is certainly unused: nothing can be run in "
			"it safely",
			control->pid);
	put_frame(p, &room, ROOM_ALIGN, true);
	p->written[0].size = ROOM_STACK_BYTES;
	return NULL;
}

/* The bytes that are to be at an address of the target. */
static void compose(struct prepared *p, uint64_t address, const void *bytes, size_t size)
{
	for (size_t i = 0; i < 2; i++) {
		struct written *w = &p->written[i];

		if (address - w->room.start < w->size)
			memcpy(w->bytes + (address - w->room.start), bytes, size);
	}
}

static struct probe_error *write_rooms(
	const struct control *control, const struct rooms *rooms, struct prepared *p)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < 2; i++)
		memset(p->written[i].bytes, 0, p->written[i].size);
	compose(p, p->frame_address, &p->frame, sizeof(p->frame));
	compose(p, p->xstate_address, p->xstate, p->xstate_size + sizeof(xstate_magic2));
	for (size_t i = 0; i < 2 && !error; i++) {
		struct written *w = &p->written[i];

		if (!w->size)
			continue;
		if (w->room.kind == ROOM_STACK)
			room_seal(w->bytes);
		else
			error = memory_read_all(control->pid, w->room.start, w->before, w->size);
		if (!error)
			error = memory_write_code(rooms->mem, w->room.start, w->bytes, w->size);
	}
	return error;
}

/* Behind the calls. A room on the stack holds nothing but its seal then. */
static void clear_rooms(const struct rooms *rooms, struct prepared *p)
{
	for (size_t i = 0; i < 2; i++) {
		struct written *w = &p->written[i];

		if (!w->size)
			continue;
		if (w->room.kind == ROOM_STACK) {
			memset(w->before, 0, w->size);
			room_seal(w->before);
		}
		probe_error_free(memory_write_code(rooms->mem, w->room.start, w->before, w->size));
	}
}

/* Has a handler interrupted the thread at `leave`? Its frame holds what rbp was. */
static bool handler_leads_to_room(pid_t pid, const struct rooms *rooms, uint64_t rsp)
{
	uint64_t words[512];

	for (uint64_t at = rsp & ~UINT64_C(7); at - rsp < HANDLER_STACK; at += sizeof(words)) {
		ssize_t size = memory_read(pid, at, words, sizeof(words));

		for (size_t i = 0; size > 0 && i < (size_t)size / sizeof(*words); i++)
			if (rooms_are_left_at(rooms, words[i]))
				return true;
		if (size != (ssize_t)sizeof(words))
			break;
	}
	return false;
}

/* One look: what was left is taken away unless a thread is there. */
static struct probe_error *reclaim_rooms(pid_t pid, pid_t lender, const struct modules *modules,
	struct room home, struct rooms *rooms, bool *used_ret)
{
	struct control control;
	struct probe_error *error = control_stop(pid, lender, &control);

	*used_ret = false;
	if (error)
		return error;
	for (size_t i = 0; i < control.count && !*used_ret; i++) {
		const struct user_regs_struct *regs = &control.threads[i].regs;

		*used_ret = rooms_are_left_at(rooms, regs->rsp) ||
			    rooms_are_left_at(rooms, regs->rbp) ||
			    handler_leads_to_room(pid, rooms, regs->rsp);
	}
	if (!*used_ret)
		error = rooms_find(pid, rooms->mem, rooms->maps, modules, home, true, rooms);
	control_resume(&control);
	return error;
}

struct probe_error *control_find_rooms(pid_t pid, pid_t lender, int mem, const struct maps *maps,
	const struct modules *modules, struct room home, struct rooms *ret)
{
	struct probe_error *error = rooms_find(pid, mem, maps, modules, home, false, ret);
	bool is_used = false;

	for (int i = 0; i < RECLAIM_TRIES && !error && ret->left_count; i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = RECLAIM_WAIT_NS}, NULL);
		error = reclaim_rooms(pid, lender, modules, home, ret, &is_used);
	}
	/* Where that thread is really, its frame alone says. */
	if (!error && is_used)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d: a thread has not returned yet from a system call that it made "
			"for a controller that was killed: try again",
			pid);
	measure_xstate(ret);
	return error;
}

/* Writes the frame, with a text or NULL. */
static struct probe_error *prepare(const struct control *control,
	const struct control_thread *thread, const struct gadgets *gadgets,
	const struct rooms *rooms, const char *text, struct prepared *p)
{
	struct probe_error *error = read_xstate(control, thread, rooms, p);

	if (!error)
		error = find_place(control, rooms, p);
	if (error)
		return error;
	memset(&p->frame, 0, sizeof(p->frame));
	p->frame.return_address = gadgets->sigreturns[0];
	p->frame.uc.flags = UC_FLAGS;
	p->frame.uc.stack_flags = ALTSTACK_INVALID;
	p->frame.uc.mask = p->mask;
	memcpy(p->frame.mark, ROOM_MARK, sizeof(ROOM_MARK));
	if (text)
		strncpy(p->frame.text, text, sizeof(p->frame.text) - 1);
	fill_context(p, &thread->regs);
	return write_rooms(control, rooms, p);
}

/* ---- Running -----------------------------------------------------------------------------------
 */

/*
 * Lets the thread run to the next entry or exit of a system call. Of signals
 * only SIGSTOP cannot be blocked: it is passed on, and the process stays
 * stopped when we let go.
 */
static bool to_syscall_stop(struct control_thread *thread)
{
	uint64_t begun = clock_monotonic_ns();
	pid_t tid = thread->tid;
	long deliver = 0;

	for (;;) {
		int status;

		if (ptrace(PTRACE_SYSCALL, tid, NULL, deliver) < 0 ||
			control_wait(tid, &status, 0) != tid)
			return false;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80))
			break;
		deliver = status >> 16 ? 0 : WSTOPSIG(status);
	}
	thread->pause.let_ns += clock_monotonic_ns() - begun;
	return true;
}

static struct probe_error *run_call(struct control *control, struct control_thread *thread,
	const struct gadgets *gadgets, const struct prepared *p, struct control_call *call)
{
	struct user_regs_struct regs = thread->regs;

	regs.rip = gadgets->syscall_ret;
	regs.rsp = p->frame_address + offsetof(struct sigframe, return_address);
	regs.rax = call->number;
	regs.orig_rax = -1;
	regs.rdi = call->text ? p->frame_address + offsetof(struct sigframe, text) : call->args[0];
	regs.rsi = call->args[1];
	regs.rdx = call->args[2];
	regs.r10 = call->args[3];
	regs.r8 = call->args[4];
	regs.r9 = call->args[5];
	if (ptrace(PTRACE_SETREGS, thread->tid, NULL, &regs) < 0 || !to_syscall_stop(thread) ||
		!to_syscall_stop(thread) || ptrace(PTRACE_GETREGS, thread->tid, NULL, &regs) < 0)
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

/* A thread that goes on from here, with any mask, is as it was then. */
static bool set_leaving(const struct control_thread *thread, const struct gadgets *gadgets,
	const struct prepared *p)
{
	struct user_regs_struct regs = thread->regs;

	regs.rip = gadgets->leave_ret;
	regs.rbp = p->frame_address;
	regs.orig_rax = -1;
	return ptrace(PTRACE_SETREGS, thread->tid, NULL, &regs) == 0;
}

bool control_can_run(const struct control *control, const struct control_thread *thread)
{
	return thread->pid == control->pid && thread->regs.cs == USER_CS &&
	       seccomp_may_run(control->seccomp, thread->tid);
}

/*
 * A thread of the process itself; if possible none that sleeps in a call that
 * could only end early, with EINTR, if we die.
 */
static struct control_thread *choose_thread(struct control *control)
{
	struct control_thread *found = NULL;

	for (size_t i = 0; i < control->count; i++) {
		struct control_thread *thread = &control->threads[i];

		if (!control_can_run(control, thread))
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

bool control_succeeded(const struct control_call *call)
{
	if (call->wanted)
		return (uint64_t)call->result == call->wanted;
	return call->result >= 0 || call->result < -4095;
}

struct prepared *control_prepared(void)
{
	return array_resident(sizeof(struct prepared));
}

struct probe_error *control_run(struct control *control, const struct rooms *rooms,
	const struct gadgets *gadgets, struct prepared *p, struct control_call *calls, size_t count)
{
	static const uint64_t all_signals = ~UINT64_C(0);
	struct control_thread *thread = choose_thread(control);
	struct probe_error *error;
	const char *text = NULL;

	if (!gadgets_are_there(control->pid, gadgets))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has become another program meanwhile: try again", control->pid);
	if (!thread)
		return probe_error_new(PROBE_ERROR_STATE,
			"no thread of process %d runs 64-bit code just now: try again",
			control->pid);
	leave_sequence(control, thread);
	for (size_t i = 0; i < count && !text; i++)
		text = calls[i].text;
	error = prepare(control, thread, gadgets, rooms, text, p);
	if (error)
		return error;
	if (!set_leaving(thread, gadgets, p) ||
		ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(all_signals), &all_signals) < 0)
		error = gone(control);
	for (size_t i = 0; i < count && !error; i++) {
		error = run_call(control, thread, gadgets, p, &calls[i]);
		if (!control_succeeded(&calls[i]))
			break;
	}
	set_leaving(thread, gadgets, p);
	ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(p->mask), &p->mask);
	ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs);
	clear_rooms(rooms, p);
	return error;
}
