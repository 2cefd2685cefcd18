/* SPDX-License-Identifier: MIT */
/*
 * System calls in a stopped thread.
 *
 * A frame like that of a signal handler is written where nothing of the target's own can
 * be (libprobe/stop/room.c):
 *
 *   the frame             the thread as it was, and a mark (arch/x86/frame.c)
 *   in the same room      floating-point state (arch/x86/xstate.c)
 *   or another one
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
 *	program counter	`leave; ret` of its libc, which goes to rt_sigreturn by the
 *	frame pointer	which leads to the room
 *	stack pointer	its own: a handler may run there, and comes back to `leave`
 *
 * Sources: ptrace(2), sigreturn(2); arch/x86/kernel/signal_64.c of Linux.
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
#include <time.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/process/memory.h"
#include "libprobe/stop/control.h"
#include "libprobe/stop/registers.h"

enum {
	RECLAIM_TRIES = 20,
	RECLAIM_WAIT_NS = 1000000,
	FRAME_MAX = 1024,
	HANDLER_STACK = 64 << 10 /* that is searched for the frame of a handler */
};

/* What is written into a room, and what was there. */
struct written {
	struct room room;
	size_t size; /* 0: none */
	uint8_t bytes[ROOM_STACK_BYTES], before[ROOM_STACK_BYTES];
};

/* What is written into the target, and what is to be put back. */
struct prepared {
	uint8_t frame[FRAME_MAX];
	uint8_t state[ARCH_STATE_MAX + 4];
	size_t state_size;
	uint64_t frame_address, state_address;
	uint64_t mask;
	struct written written[2];
};

static struct probe_error *gone(const struct control *control)
{
	return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", control->pid);
}

static struct probe_error *read_state(const struct control *control,
	const struct control_thread *thread, const struct rooms *rooms, struct prepared *p)
{
	struct iovec state = {p->state, ARCH_STATE_MAX};

	if (ptrace(PTRACE_GETREGSET, thread->tid, arch_process()->state_regset, &state) < 0 ||
		ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof(p->mask), &p->mask) < 0)
		return gone(control);
	p->state_size = arch_process()->make_state(p->state, state.iov_len, &rooms->usual_state);
	if (!p->state_size)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d: the kernel tells less of a thread's registers than the "
			"processor has",
			control->pid);
	memcpy(p->state + arch_process()->state_mark, ROOM_MARK, sizeof(ROOM_MARK));
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
	size_t next = align_up(offset + arch_process()->frame_bytes);

	p->written[0].room = *room;
	p->written[0].size = both ? next + p->state_size : offset + arch_process()->frame_bytes;
	p->frame_address = room->start + offset;
	if (both)
		p->state_address = room->start + next;
}

static bool place(struct prepared *p, const struct rooms *rooms)
{
	size_t state = p->state_size;

	for (size_t i = 0; i < rooms->count; i++) {
		if (rooms->items[i].size < align_up(arch_process()->frame_bytes) + state)
			continue;
		put_frame(p, &rooms->items[i], 0, true);
		return true;
	}
	for (size_t i = 0; i < rooms->count; i++)
		for (size_t k = 0; k < rooms->count; k++) {
			if (k == i || rooms->items[i].size < arch_process()->frame_bytes ||
				rooms->items[k].size < state)
				continue;
			put_frame(p, &rooms->items[i], 0, false);
			p->written[1].room = rooms->items[k];
			p->written[1].size = state;
			p->state_address = rooms->items[k].start;
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
	compose(p, p->frame_address, p->frame, arch_process()->frame_bytes);
	compose(p, p->state_address, p->state, p->state_size);
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

/* Has a handler interrupted the thread at `leave`? Its frame holds what the frame pointer was. */
static bool handler_leads_to_room(pid_t pid, const struct rooms *rooms, uint64_t sp)
{
	uint64_t words[512];

	for (uint64_t at = sp & ~UINT64_C(7); at - sp < HANDLER_STACK; at += sizeof(words)) {
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
		const struct arch_registers *regs = &control.threads[i].regs;
		uint64_t sp = arch_get(regs, ARCH_SP);

		*used_ret = rooms_are_left_at(rooms, sp) ||
			    rooms_are_left_at(rooms, arch_get(regs, ARCH_FP)) ||
			    handler_leads_to_room(pid, rooms, sp);
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
	arch_process()->measure_state(&ret->usual_state);
	return error;
}

/* Writes the frame, with a text or NULL. */
static struct probe_error *prepare(const struct control *control,
	const struct control_thread *thread, const struct arch_gadgets *gadgets,
	const struct rooms *rooms, const char *text, struct prepared *p)
{
	struct arch_frame frame = {
		.registers = &thread->regs, .sigreturn = gadgets->sigreturns[0], .mark = ROOM_MARK};
	struct probe_error *error = read_state(control, thread, rooms, p);

	if (!error)
		error = find_place(control, rooms, p);
	if (error)
		return error;
	frame.mask = p->mask;
	frame.state = p->state_address;
	if (text)
		strncpy(frame.text, text, sizeof(frame.text) - 1);
	arch_process()->make_frame(&frame, p->frame);
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
	pause_let(&thread->pause, begun);
	return true;
}

static struct probe_error *run_call(struct control *control, struct control_thread *thread,
	const struct arch_gadgets *gadgets, const struct prepared *p, struct control_call *call)
{
	const struct arch_process *arch = arch_process();
	struct arch_registers regs = thread->regs;

	arch->set_call(&regs, gadgets, p->frame_address, call->number);
	for (int i = 0; i < 6; i++)
		arch_set(&regs, ARCH_ARG0 + i, call->args[i]);
	if (call->text)
		arch_set(&regs, ARCH_ARG0, p->frame_address + arch->frame_text);
	if (!registers_write(thread->tid, &regs) || !to_syscall_stop(thread) ||
		!to_syscall_stop(thread) || !registers_read(thread->tid, &regs))
		return gone(control);
	call->result = (int64_t)arch_get(&regs, ARCH_RESULT);
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
		arch_get(&thread->regs, ARCH_PC) - sequence.start >= sequence.length)
		return;
	arch_set(&thread->regs, ARCH_PC, sequence.abort);
	thread->regs_changed = true;
}

/* A thread that goes on from here, with any mask, is as it was then. */
static bool set_leaving(const struct control_thread *thread, const struct arch_gadgets *gadgets,
	const struct prepared *p)
{
	struct arch_registers regs = thread->regs;

	arch_process()->set_leave(&regs, gadgets, p->frame_address);
	return registers_write(thread->tid, &regs);
}

bool control_can_run(const struct control *control, const struct control_thread *thread)
{
	return thread->pid == control->pid && arch_process()->is_native(&thread->regs) &&
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
	return (int64_t)arch_get(&thread->regs, ARCH_CALL) >= 0 &&
	       (int64_t)arch_get(&thread->regs, ARCH_RESULT) == -516; /* ERESTART_RESTARTBLOCK */
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
	const struct arch_gadgets *gadgets, struct prepared *p, struct control_call *calls,
	size_t count)
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
	registers_write(thread->tid, &thread->regs);
	clear_rooms(rooms, p);
	return error;
}
