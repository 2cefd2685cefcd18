/* SPDX-License-Identifier: MIT */
/*
 * Running system calls in a stopped thread.
 *
 * We write a frame like that of a signal handler into a room, which is memory that the target
 * itself does not use (libprobe/ptrace/room.c):
 *
 *   the frame             the thread as it was, and a mark (arch/x86/process/process.c,
 *   in the same room      floating-point state             arch/aarch64/process/process.c)
 *   or another one
 *
 * The thread is sent to a `syscall; ret` in its own libc. While we live, we stop it at the call's
 * entry and exit (PTRACE_SYSCALL) and write its registers back; the frame is never used. If we die,
 * the kernel detaches from the thread: it finishes the call, `ret` goes to rt_sigreturn, and
 * rt_sigreturn restores everything from the frame. The thread only reads the frame, and its own
 * stack is not touched. Only one thing is lost if we die: an interrupted system call of the
 * restart-block kind, such as nanosleep, is not restarted. It returns EINTR, as after any signal.
 *
 * All signals are blocked during the call; the frame also holds the thread's signal mask. No
 * handler may run during the call: the program was never at that point, and the handler's stack
 * would be in the room. Registers and mask are set one after the other, and we may die in between.
 * So whenever the thread has its own signal mask but not its own registers, its registers are set
 * so that it can go on by itself:
 *
 *	program counter	`leave; ret` of its libc, which goes to rt_sigreturn through the
 *	frame pointer	which points into the room
 *	stack pointer	its own: a handler may run there, and returns to `leave`
 *
 * On aarch64 a system call destroys the bits of SVE registers beyond 128. (If the thread is in a
 * call when we stop it, it has lost these bits already.) We put them back like the registers, while
 * the thread is at `leave`. The frame holds them, too.
 *
 * Sources: ptrace(2), sigreturn(2); arch/x86/kernel/signal_64.c of Linux.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "libprobe/base/array.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"

/* ==== Prepared ================================================================================ */

/*
 * The rooms hold a frame, its floating-point state and, for calls that the thread makes while it
 * runs on, an additional frame: all in one room, or each in its own. Where the state is a part of
 * the frame, each frame has its own.
 */

struct prepared *control_prepared(void)
{
	return array_resident(sizeof(struct prepared));
}

static void prepared_forget(struct prepared *p)
{
	for (size_t i = 0; i < PREPARED_ROOMS; i++)
		p->written[i].size = 0;
}

static size_t align_up(size_t size)
{
	return (size + ROOM_ALIGN - 1) & ~(size_t)(ROOM_ALIGN - 1);
}

/* Returns the distance from a frame to its state. */
static size_t prepared_frame_bytes(void)
{
	return align_up(arch_process()->frame_bytes);
}

/* Returns the additional frame's size, with its state if it cannot share the first frame's. */
static size_t first_bytes(const struct prepared *p)
{
	return prepared_frame_bytes() + (arch_process()->layout->state ? 0 : p->state_size);
}

/* Places the frame in a room and, if `both`, the state after it. */
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
		if (rooms->items[i].size < prepared_frame_bytes() + state)
			continue;
		put_frame(p, &rooms->items[i], 0, true);
		return true;
	}
	for (size_t i = 0; i < rooms->count && arch_process()->layout->state; i++)
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

static bool is_used(const struct prepared *p, const struct room *room)
{
	for (size_t i = 0; i < PREPARED_ROOMS; i++)
		if (p->written[i].size && p->written[i].room.start == room->start)
			return true;
	return false;
}

/* Places the additional frame behind the frame or the state, or in a room of its own. */
static void place_first(struct prepared *p, const struct rooms *rooms)
{
	for (size_t i = 0; i < PREPARED_ROOMS - 1 && !p->first_address; i++) {
		struct written *w = &p->written[i];
		size_t offset = align_up(w->size), end = offset + first_bytes(p);

		if (!w->size || end > w->room.size)
			continue;
		p->first_address = w->room.start + offset;
		w->size = end;
	}
	for (size_t i = 0; i < rooms->count && !p->first_address; i++) {
		const struct room *room = &rooms->items[i];

		if (room->size < first_bytes(p) || is_used(p, room))
			continue;
		p->first_address = room->start;
		p->written[PREPARED_ROOMS - 1].room = *room;
		p->written[PREPARED_ROOMS - 1].size = first_bytes(p);
	}
}

/*
 * Finds rooms for the frame and the state and, `with_first`, for the additional frame, if it fits.
 * Errors: PROBE_ERROR_UNSUPPORTED (no room for frame and state).
 */
static struct probe_error *prepared_place(
	pid_t pid, const struct rooms *rooms, bool with_first, struct prepared *p)
{
	struct room room;

	prepared_forget(p);
	p->first_address = 0;
	if (place(p, rooms)) {
		if (with_first)
			place_first(p, rooms);
		return NULL;
	}
	if (!room_on_stack(pid, rooms->maps, &room))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d has no memory that is certainly unused: nothing can be run in "
			"it safely",
			pid);
	put_frame(p, &room, ROOM_ALIGN, true);
	p->written[0].size = ROOM_STACK_BYTES;
	return NULL;
}

void prepared_touch(pid_t pid, const struct control_coming *coming)
{
	const struct memory_piece nothing = {0};
	const struct rooms *rooms = coming->rooms;
	struct prepared *p = coming->prepared;
	bool placed;

	gadgets_are_there(pid, coming->gadgets, &nothing);
	prepared_forget(p);
	p->state_size = rooms->usual_state.bytes;
	placed = place(p, rooms);
	for (size_t i = 0; i < PREPARED_ROOMS && placed; i++) {
		struct written *w = &p->written[i];
		struct probe_error *error = NULL;

		if (!w->size)
			continue;
		error = memory_read_code(rooms->mem, w->room.start, w->before, w->size)
				?: memory_write_code(rooms->mem, w->room.start, w->before, 1);
		probe_error_free(error);
	}
	prepared_forget(p);
}

/* Copies bytes into our copy of the room at a target's address. */
static void compose(struct prepared *p, uint64_t address, const void *bytes, size_t size)
{
	for (size_t i = 0; i < PREPARED_ROOMS; i++) {
		struct written *w = &p->written[i];

		if (address - w->room.start < w->size)
			memcpy(w->bytes + (address - w->room.start), bytes, size);
	}
}

/* Writes frame and state, for control_clear(), unless the process has executed another program. */
static struct probe_error *prepared_write(const struct rooms *rooms, struct prepared *p)
{
	struct probe_error *error = NULL;
	size_t done = 0;

	for (size_t i = 0; i < PREPARED_ROOMS; i++)
		memset(p->written[i].bytes, 0, p->written[i].size);
	compose(p, p->frame_address, p->frame, arch_process()->frame_bytes);
	compose(p, p->state_address, p->state, p->state_size);
	for (size_t i = 0; i < PREPARED_ROOMS && !error; i++) {
		struct written *w = &p->written[i];

		if (w->size && w->room.kind == ROOM_STACK)
			room_seal(w->bytes);
		else if (w->size)
			error = memory_read_code(rooms->mem, w->room.start, w->before, w->size);
		if (w->size && !error)
			error = memory_write_code(rooms->mem, w->room.start, w->bytes, w->size);
		done += !error;
	}
	for (size_t i = done; i < PREPARED_ROOMS; i++)
		p->written[i].size = 0;
	return error;
}

/* Restores the rooms; a room on the stack is cleared, except for its seal. */
void control_clear(const struct rooms *rooms, struct prepared *p)
{
	for (size_t i = 0; i < PREPARED_ROOMS; i++) {
		struct written *w = &p->written[i];

		if (!w->size)
			continue;
		if (w->room.kind == ROOM_STACK) {
			memset(w->before, 0, w->size);
			room_seal(w->before);
		}
		probe_error_free(memory_write_code(rooms->mem, w->room.start, w->before, w->size));
		w->size = 0;
	}
}

/* ==== Remote ================================================================================== */

#define ALL_SIGNALS (~UINT64_C(0))

static struct probe_error *gone(const struct control *control)
{
	return probe_error_new(PROBE_ERROR_NOT_FOUND, "process %d has ended", control->pid);
}

/* Returns the error of a thread that has not returned from a call in time. */
static struct probe_error *too_late(
	const struct control *control, const struct control_thread *thread)
{
	char state = procfs_thread_state(thread->pid, thread->tid);

	if (!state)
		return gone(control);
	return probe_error_new(PROBE_ERROR_STATE,
		"thread %d of process %d does not come back from a system call that it makes for "
		"probectl, after %d seconds: it %s (state %c): try again later",
		thread->tid, control->pid, (int)(WAIT_STOP_NS / 1000000000),
		state == 'R'   ? "gets no processor, or does not leave the kernel"
		: state == 'D' ? "waits for a device, for memory, or for its control group to be "
				 "thawed"
			       : "waits",
		state);
}

/* Reads the floating-point state. Returns false if the thread is gone. */
static bool get_state(pid_t tid, struct prepared *p)
{
	const struct arch_process *arch = arch_process();
	struct iovec state = {p->state, ARCH_STATE_MAX};

	p->state_regset = arch->state_regset;
	if (ptrace(PTRACE_GETREGSET, tid, p->state_regset, &state) < 0) {
		if (!arch->state_regset_else || errno == ESRCH)
			return false;
		p->state_regset = arch->state_regset_else;
		if (ptrace(PTRACE_GETREGSET, tid, p->state_regset, &state) < 0)
			return false;
	}
	p->state_size = state.iov_len;
	p->kept_size = arch->state_is_lost ? state.iov_len : 0;
	memcpy(p->kept, p->state, p->kept_size);
	return true;
}

static struct probe_error *read_state(const struct control *control,
	const struct control_thread *thread, const struct rooms *rooms, struct prepared *p)
{
	const struct arch_process *arch = arch_process();

	for (int i = 0; i < arch->unkept_count; i++) {
		uint8_t head[ARCH_UNKEPT_HEAD];
		struct iovec bytes = {head, sizeof(head)};

		if (ptrace(PTRACE_GETREGSET, thread->tid, arch->unkept[i], &bytes) == 0 &&
			bytes.iov_len == sizeof(head) && arch->is_unkept(arch->unkept[i], head))
			return probe_error_new(PROBE_ERROR_UNSUPPORTED,
				"thread %d of process %d uses SME (ZA, or streaming mode), which "
				"cannot be restored after a system call: try again",
				thread->tid, control->pid);
	}
	if (!get_state(thread->tid, p) ||
		ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof(p->mask), &p->mask) < 0)
		return gone(control);
	p->state_size = arch->make_state(p->state, p->state_size, &rooms->usual_state);
	if (!p->state_size)
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"process %d: the kernel reports fewer of a thread's registers than the "
			"processor has",
			control->pid);
	if (arch->layout->state)
		memcpy(p->state + arch->state_mark, ROOM_MARK, sizeof(ROOM_MARK));
	return NULL;
}

/* Places and writes the frame, and the calls' text argument. */
static struct probe_error *prepare(const struct control *control,
	const struct control_thread *thread, const struct arch_gadgets *gadgets,
	const struct rooms *rooms, const struct control_call *calls, size_t count,
	struct prepared *p)
{
	struct arch_frame frame = {
		.registers = &thread->regs, .sigreturn = gadgets->sigreturn, .mark = ROOM_MARK};
	struct probe_error *error = read_state(control, thread, rooms, p);
	const char *text = NULL;
	bool may_let_go = false;

	for (size_t i = 0; i < count; i++) {
		text = text ? text : calls[i].text;
		may_let_go |= calls[i].lets_go || calls[i].then;
	}
	error = error ?: prepared_place(control->pid, rooms, may_let_go, p);
	if (error)
		return error;
	frame.mask = p->mask;
	frame.state = p->state_address;
	frame.state_bytes = p->state_size;
	if (text)
		strncpy(frame.text, text, sizeof(frame.text) - 1);
	arch_process()->make_frame(&frame, p->frame);
	return prepared_write(rooms, p);
}

/* ---- Running -----------------------------------------------------------------------------------
 */

/*
 * Lets the thread run to the entry or exit of a system call. `asked` means that it already runs and
 * was asked to stop, so any stop will do. SIGSTOP, the only signal that is not blocked, is
 * delivered, so that the process stays stopped after we detach.
 */
static enum wait_result await_syscall_stop(
	struct control *control, struct control_thread *thread, bool asked, int *status_ret)
{
	uint64_t begun = clock_monotonic_ns();
	long deliver = 0;

	for (bool runs = asked;; runs = false) {
		enum wait_result result;

		if (!runs && ptrace(PTRACE_SYSCALL, thread->tid, NULL, deliver) < 0)
			return WAIT_GONE;
		result = wait_for_stop(thread->tid, begun, &control->signals, status_ret);
		thread->is_running = result == WAIT_TIMEOUT;
		if (result != WAIT_STOPPED)
			return result;
		if (WSTOPSIG(*status_ret) == WAIT_SYSCALL_STOP ||
			(asked && WAIT_EVENT_OF(*status_ret)))
			break;
		deliver = wait_signal_of(*status_ret);
	}
	pause_let(&thread->pause, begun);
	return WAIT_STOPPED;
}

static enum wait_result to_syscall_stop(struct control *control, struct control_thread *thread)
{
	int status;

	return await_syscall_stop(control, thread, false, &status);
}

/*
 * Interrupts a call that does not end, and waits once more. `enters` means that the thread has not
 * entered the call yet. Returns NULL if the thread has completed the call. After an error, its
 * registers can be put back, unless it runs.
 */
static struct probe_error *call_off(
	struct control *control, struct control_thread *thread, bool enters)
{
	struct probe_error *error = too_late(control, thread);
	enum wait_result result = WAIT_GONE;
	struct arch_registers regs;
	int64_t left = 0;
	int status = 0;

	if (ptrace(PTRACE_INTERRUPT, thread->tid, NULL, NULL) == 0)
		result = await_syscall_stop(control, thread, true, &status);
	if (result == WAIT_STOPPED && WAIT_EVENT_OF(status))
		return error;
	/*
	 * Let the call end before writing registers. At the call's entry, they would become its
	 * arguments, and its result would replace one of them.
	 */
	if (result == WAIT_STOPPED && enters)
		result = to_syscall_stop(control, thread);
	if (result == WAIT_STOPPED && !registers_read(thread->tid, &regs))
		result = WAIT_GONE;
	if (result == WAIT_STOPPED)
		left = (int64_t)arch_get(&regs, ARCH_RESULT);
	/*
	 * EINTR, and ERESTARTSYS (512) to ERESTART_RESTARTBLOCK (516): a stop has interrupted the
	 * call, so that the kernel repeats it or ends it with EINTR.
	 */
	if (result == WAIT_TIMEOUT || left == -EINTR || (left <= -512 && left >= -516))
		return error;
	probe_error_free(error);
	return result == WAIT_GONE ? gone(control) : NULL;
}

/* Returns the registers with which the thread makes a call and returns through `frame`. */
static struct arch_registers calling(const struct control_thread *thread,
	const struct arch_gadgets *gadgets, uint64_t frame, const struct control_call *call)
{
	struct arch_registers regs = thread->regs;

	arch_process()->set_call(&regs, gadgets, frame, call->number);
	for (int i = 0; i < 6; i++)
		arch_set(&regs, ARCH_ARG0 + i, call->args[i]);
	return regs;
}

static struct probe_error *run_call(struct control *control, struct control_thread *thread,
	const struct arch_gadgets *gadgets, const struct prepared *p, struct control_call *call)
{
	struct arch_registers regs = calling(thread, gadgets, p->frame_address, call);
	struct probe_error *error = NULL;
	enum wait_result entered, left;

	if (call->text)
		arch_set(&regs, ARCH_ARG0, p->frame_address + arch_process()->frame_text);
	if (!registers_write(thread->tid, &regs))
		return gone(control);
	entered = to_syscall_stop(control, thread);
	left = entered == WAIT_STOPPED ? to_syscall_stop(control, thread) : entered;
	if (left == WAIT_TIMEOUT)
		error = call_off(control, thread, entered == WAIT_TIMEOUT);
	if (error)
		return error;
	if (left == WAIT_GONE || !registers_read(thread->tid, &regs))
		return gone(control);
	call->result = (int64_t)arch_get(&regs, ARCH_RESULT);
	return NULL;
}

/*
 * Sends a thread that was stopped in a restartable sequence to the abort handler. The kernel would
 * do so, but forgets the sequence when it sees the thread elsewhere, in our call (kernel/rseq.c,
 * rseq_ip_fixup()).
 */
static void leave_sequence(
	const struct control *control, struct control_thread *thread, uint64_t current)
{
	struct {
		uint32_t version, flags;
		uint64_t start, length, abort;
	} sequence;

	if (!current ||
		memory_read(control->pid, current, &sequence, sizeof(sequence)) !=
			sizeof(sequence) ||
		arch_get(&thread->regs, ARCH_PC) - sequence.start >= sequence.length)
		return;
	arch_set(&thread->regs, ARCH_PC, sequence.abort);
	thread->regs_changed = true;
}

/* Sends the thread to `leave`, where it restores itself from the frame with any signal mask. */
static bool set_leaving(const struct control_thread *thread, const struct arch_gadgets *gadgets,
	const struct prepared *p)
{
	struct arch_registers regs = thread->regs;

	arch_process()->set_leave(&regs, gadgets, p->frame_address);
	return registers_write(thread->tid, &regs);
}

/*
 * Chooses a thread for calls, if possible one whose own call would not end with EINTR if we died:
 * one that is in no call of the restart-block kind (nanosleep, poll, futex).
 */
static struct control_thread *choose_stopped(struct control *control)
{
	struct control_thread *found = NULL;

	for (size_t i = 0; i < control->count; i++) {
		struct control_thread *thread = &control->threads[i];

		if (thread->is_running || (!thread->may_run && !control_can_run(control, thread)))
			continue;
		found = thread;
		if ((int64_t)arch_get(&thread->regs, ARCH_CALL) < 0 ||
			(int64_t)arch_get(&thread->regs, ARCH_RESULT) != -516 /* RESTARTBLOCK */)
			break;
	}
	return found;
}

bool control_succeeded(const struct control_call *call)
{
	if (call->is_unseen)
		return true;
	if (call->wanted)
		return (uint64_t)call->result == call->wanted;
	return call->result >= 0 || call->result < -4095;
}

/* Lets a thread run until it is out of the rooms: it may have had no processor, or a signal. */
static struct probe_error *lead_away(struct control *control, const struct prepared *p)
{
	struct control_thread *thread = control->threads;

	for (size_t i = 0; control->count && i < PREPARED_ROOMS;) {
		const struct written *w = &p->written[i];
		enum wait_result result;

		if (arch_get(&thread->regs, ARCH_SP) - w->room.start >= w->size) {
			i++;
			continue;
		}
		i = 0;
		result = to_syscall_stop(control, thread);
		if (result == WAIT_TIMEOUT)
			return too_late(control, thread);
		if (result == WAIT_GONE || !registers_read(thread->tid, &thread->regs))
			return gone(control);
	}
	return NULL;
}

/*
 * Returns true if the thread can make the last two calls by itself. One frame then leads to the
 * next:
 *
 *	first call -> rt_sigreturn(first frame) -> second call -> rt_sigreturn(frame) -> own code
 *
 * A thread whose controller has died continues in the same way, which would end a sleep with EINTR.
 * So only a thread that was running in user space does it.
 */
static bool can_let_go(const struct control *control, const struct control_thread *thread,
	const struct prepared *p, const struct control_call *calls, size_t count)
{
	/* may_run: no other thread is stopped (control_borrow()). */
	return calls[0].lets_go && count == 2 && control->count == 1 && thread->may_run &&
	       p->first_address && !restart_is_in_call(control->pid, &thread->regs);
}

static struct probe_error *let_go(struct control *control, struct control_thread *thread,
	const struct arch_gadgets *gadgets, const struct rooms *rooms, struct prepared *p,
	struct control_call calls[2])
{
	struct arch_registers first = calling(thread, gadgets, p->first_address, &calls[0]);
	struct arch_registers second = calling(thread, gadgets, p->frame_address, &calls[1]);
	bool has_own = !arch_process()->layout->state;
	uint64_t state = has_own ? p->first_address + prepared_frame_bytes() : p->state_address;
	struct arch_frame frame = {.registers = &second,
		.sigreturn = gadgets->sigreturn,
		.mask = ALL_SIGNALS,
		.state = state,
		.state_bytes = p->state_size,
		.mark = ROOM_MARK};
	struct probe_error *error;

	arch_process()->make_frame(&frame, p->frame);
	error = memory_write_code(
		rooms->mem, p->first_address, p->frame, arch_process()->frame_bytes);
	if (!error && has_own)
		error = memory_write_code(rooms->mem, state, p->state, p->state_size);
	if (error)
		return error;
	calls[0].is_unseen = calls[1].is_unseen = true;
	calls[0].result = calls[1].result = 0;
	error = control_let_pass(control, &first) ?: lead_away(control, p);
	/* The thread still returns through the frames: the next controller removes them. */
	if (error)
		prepared_forget(p);
	return error;
}

static struct probe_error *run_and_leave(struct control *control, const struct rooms *rooms,
	const struct arch_gadgets *gadgets, struct prepared *p, struct control_call *calls,
	size_t count)
{
	static const uint64_t all_signals = ALL_SIGNALS;
	struct control_thread *thread = choose_stopped(control);
	struct __ptrace_rseq_configuration rseq;
	uint64_t current = 0;
	struct memory_piece sequence = {.buffer = &current};
	struct iovec kept;
	struct probe_error *error;

	prepared_forget(p);
	/* The member rseq_cs comes after cpu_id_start and cpu_id. */
	if (thread &&
		ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, sizeof(rseq), &rseq) ==
			sizeof(rseq) &&
		rseq.rseq_abi_pointer)
		sequence =
			(struct memory_piece){rseq.rseq_abi_pointer + 8, &current, sizeof(current)};
	if (!gadgets_are_there(control->pid, gadgets, &sequence))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has become another program meanwhile: try again", control->pid);
	if (!thread)
		return probe_error_new(PROBE_ERROR_STATE,
			"no thread of process %d can make system calls for probectl just now: try "
			"again",
			control->pid);
	if (!settle_thread(&control->signals, thread))
		return thread->is_running ? too_late(control, thread) : gone(control);
	leave_sequence(control, thread, current);
	error = prepare(control, thread, gadgets, rooms, calls, count, p);
	if (error)
		return error;
	if (!set_leaving(thread, gadgets, p) ||
		ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(all_signals), &all_signals) < 0)
		error = gone(control);
	for (size_t i = 0; i < count && !error; i++) {
		if (can_let_go(control, thread, p, &calls[i], count - i)) {
			error = let_go(control, thread, gadgets, rooms, p, &calls[i]);
			if (calls[i].is_unseen)
				return error;
			break;
		}
		error = run_call(control, thread, gadgets, p, &calls[i]);
		if (!control_succeeded(&calls[i]) ||
			(calls[i].then && !calls[i].then(calls[i].data, thread->tid)))
			break;
	}
	/* The thread continues as if we had died: the next controller removes the frame. */
	if (thread->is_running) {
		prepared_forget(p);
		return error;
	}
	set_leaving(thread, gadgets, p);
	/* Restore the vector state that the calls have destroyed. */
	kept = (struct iovec){p->kept, p->kept_size};
	if (p->kept_size)
		ptrace(PTRACE_SETREGSET, thread->tid, p->state_regset, &kept);
	ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(p->mask), &p->mask);
	registers_write(thread->tid, &thread->regs);
	return error;
}

struct probe_error *control_run_and_leave(struct control *control, const struct rooms *rooms,
	const struct arch_gadgets *gadgets, struct prepared *p, struct control_call *calls,
	size_t count)
{
	bool is_calm = !control->signals.in_force;
	struct probe_error *error;

	control_signals_take(&control->signals);
	error = run_and_leave(control, rooms, gadgets, p, calls, count);
	if (is_calm)
		control_signals_give(&control->signals);
	return error;
}
