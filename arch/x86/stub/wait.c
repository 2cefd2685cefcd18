/* SPDX-License-Identifier: MIT */
/*
 * Waiting for room in a ring (struct probe_room).
 *
 *   wait_first:               no room, for the first time: the time is not known yet
 *   wait:                     no room, again
 *     a forked child that does not count, or the controller has let go? leave
 *     the controller is dead, or somebody has waited in vain? lost
 *     too long, and no room? lost, and nobody waits until the controller has made room
 *     look at the ring for a moment; room? again
 *     sleep until the controller makes room, at most for what is left; wait
 *   again:                    the record once more, wherever the thread is now; no room? wait
 *
 * The thread is in no sequence and has no lock, so that it keeps nobody from writing. Only here,
 * and in the slow path, is there anything that hits without waiting lack: a hit that finds room
 * takes the same instructions, and its frame has a word more.
 *
 * Room is looked for after ROOM_WAITED is set; the controller stores `tail` before it looks at that
 * bit. Both are locked instructions on the word that is slept on. So either the thread sees the
 * room, or the controller sees the bit, clears it and wakes; and if it does so before the thread
 * sleeps, the word is no longer what the thread expects.
 *
 * A signal, a filter that forbids the call and a target that writes these words as it likes end a
 * sleep early: then there is another one, and the time is what ends the wait.
 */
#include "arch/layout.h"
#include "arch/x86/stub/plan.h"

enum {
	SPINS = 32, /* some microseconds: while the controller is just about to make room */
	SYS_FUTEX = 202,
	FUTEX_OP_WAIT = 0, /* shared: the controller uses the same words */
	FUTEX_OP_WAKE = 1,
	OWNER_AT = offsetof(struct probe_room, gate.turns[0].owner),
	ARRIVED_AT = offsetof(struct probe_room, gate.arrived),
	WAITED_BIT = 30,
	TIMESPEC_BYTES = 16
};
_Static_assert(ROOM_WAITED == UINT32_C(1) << WAITED_BIT, "the bit that is set");

/* What the record itself may still need at the site's value, and calls or this code change. */
static const int kept[] = {RSI, R8, R10, R11};
enum { KEPT = sizeof(kept) / sizeof(*kept) };

/* The time at which the wait began; 0: it has not. `pushed`: words on the stack. */
static struct emit_mem since_at(const struct stub_plan *p, int pushed)
{
	return temp_at(p->wait_temp + pushed);
}

void emit_wait_none(struct emit *e, const struct stub_plan *p)
{
	if (p->stub->room)
		emit_store_imm(e, true, since_at(p, 0), 0);
}

/* Jumps to `room` if there is room in the ring at %r8; changes %rax. */
static void emit_if_room(struct emit *e, const struct stub_plan *p, int room)
{
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(R8, offsetof(struct ring_header, head)));
	emit_mem(e, true, OP_LEA, RAX, mem_at(RAX, (int32_t)p->max_bytes));
	emit_mem(e, true, OP_SUB, RAX, mem_at(R8, offsetof(struct ring_header, tail)));
	emit_imm(e, true, IMM_CMP, RAX, (int32_t)p->stub->ring_bytes);
	emit_jump_label(e, CC_BE, room);
}

/* futex(uaddr, op, value, timeout): %rdi, %edx and %r10 are set; changes %rax, %rcx, %rsi, %r11. */
static void emit_futex(struct emit *e, uint32_t op)
{
	emit_const(e, RSI, op);
	emit_const(e, RAX, SYS_FUTEX);
	emit_bytes(e, "\x0f\x05", 2); /* syscall */
}

static void emit_wake_all(struct emit *e, int32_t at)
{
	emit_mem(e, true, OP_LEA, RDI, mem_at(RSI, at));
	emit_const(e, RDX, INT32_MAX);
	emit_futex(e, FUTEX_OP_WAKE);
}

/* %r10 = the ticks that are left; jumps to `late` if there are none. */
static void emit_time_left(struct emit *e, const struct stub_plan *p, int late)
{
	int began = emit_label(e);

	emit_time(e, p);
	emit_imm_mem(e, true, IMM_CMP, since_at(p, KEPT), 0);
	emit_jump_label(e, CC_NE, began);
	/* Not 0: where a filter forbids to ask for the time, that would be each time's begin. */
	emit_imm(e, true, IMM_OR, RAX, 1);
	emit_mem(e, true, OP_MOV_STORE, RAX, since_at(p, KEPT));
	emit_place(e, began);
	emit_mem(e, true, OP_SUB, RAX, since_at(p, KEPT));
	emit_const(e, R10, p->stub->wait_ticks);
	/* Also where the counters of two CPUs differ, and time has gone back. */
	emit_reg(e, true, OP_CMP, RAX, R10);
	emit_jump_label(e, CC_AE, late);
	emit_reg(e, true, OP_SUB, R10, RAX);
}

/* Jumps back to `again` if the controller has made room meanwhile, or is gone. */
static void emit_announce(struct emit *e, int again)
{
	int announced = emit_label(e);

	emit_bytes(e, "\xf0\x0f\xba\x6e", 4); /* lock btsl $30,owner(%rsi) */
	emit_u8(e, OWNER_AT);
	emit_u8(e, WAITED_BIT);
	emit_jump_label(e, CC_B, announced);
	emit_lock(e);
	emit_inc(e, false, mem_at(RSI, ARRIVED_AT));
	emit_push(e, RSI);
	emit_wake_all(e, ARRIVED_AT);
	emit_pop(e, RSI);
	emit_place(e, announced);
	emit_mem(e, false, OP_MOV_LOAD, RCX, mem_at(RSI, OWNER_AT));
	emit_reg(e, false, OP_MOV_LOAD, RAX, RCX);
	emit_imm(e, false, IMM_AND, RAX, (int32_t)ROOM_WAITED);
	emit_jump_label(e, CC_E, again);
	emit_reg(e, false, OP_MOV_LOAD, RAX, RCX);
	emit_imm(e, false, IMM_AND, RAX, (int32_t)GATE_OWNER);
	emit_jump_label(e, CC_E, again);
}

/* While the word is %ecx, for %r10 ticks. */
static void emit_sleep(struct emit *e, const struct stub_plan *p)
{
	emit_const(e, RAX, p->stub->wait_scale);
	emit_one(e, true, ONE_MUL, R10);	  /* rdx:rax */
	emit_bytes(e, "\x48\x0f\xac\xd0\x20", 5); /* shrd $32,%rdx,%rax: less than a second */
	emit_push(e, RAX);
	emit_bytes(e, "\x6a\x00", 2); /* push $0: struct timespec */
	emit_reg(e, true, OP_MOV_LOAD, R10, RSP);
	emit_mem(e, true, OP_LEA, RDI, mem_at(RSI, OWNER_AT));
	emit_reg(e, false, OP_MOV_LOAD, RDX, RCX);
	emit_futex(e, FUTEX_OP_WAIT);
	emit_mem(e, true, OP_LEA, RSP, mem_at(RSP, TIMESPEC_BYTES));
}

/* Waits for room in the ring at %r8. */
static void emit_wait_loop(
	struct emit *e, const struct stub_plan *p, int room, int vain, int dead, int late)
{
	int again = emit_label(e), spin = emit_label(e);

	emit_place(e, again);
	emit_test_u32(e, p->stub->guard, RCX); /* a signal handler may have forked */
	emit_jump_label(e, CC_E, p->wait_over);
	emit_lea_to(e, RSI, p->stub->room);
	emit_mem(e, false, OP_MOV_LOAD, RAX, mem_at(RSI, OWNER_AT));
	emit_reg(e, false, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, p->wait_over);
	emit_imm(e, false, IMM_AND, RAX, (int32_t)GATE_OWNER);
	emit_jump_label(e, CC_E, dead);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RSI, offsetof(struct probe_room, moved)));
	emit_mem(e, true, OP_CMP, RAX, mem_at(RSI, offsetof(struct probe_room, gave_up)));
	emit_jump_label(e, CC_E, vain);
	emit_time_left(e, p, late);
	emit_const(e, RCX, SPINS);
	emit_place(e, spin);
	emit_if_room(e, p, room);
	emit_bytes(e, "\xf3\x90", 2); /* pause */
	emit_imm(e, false, IMM_SUB, RCX, 1);
	emit_jump_label(e, CC_NE, spin);
	emit_announce(e, again);
	emit_if_room(e, p, room);
	emit_sleep(e, p);
	emit_jump_label(e, -1, again);
}

static void emit_keep(struct emit *e)
{
	for (int i = 0; i < KEPT; i++)
		emit_push(e, kept[i]);
}

static void emit_restore(struct emit *e)
{
	for (int i = KEPT - 1; i >= 0; i--)
		emit_pop(e, kept[i]);
}

static void emit_record_again(struct emit *e, struct stub_plan *p)
{
	const struct arch_stub *s = p->stub;
	const struct sequence *q;
	int full = emit_label(e);

	emit_prepare_again(e, p);
	if (!s->thread.has_rseq) {
		emit_jump_label(e, -1, p->slow_again);
		return;
	}
	q = emit_sequence_begin(e, p, REG_RING, p->slow_again);
	emit_cpu_set(e, p, REG_RING, s->rings_shift, s->rings, p->slow_again);
	emit_reg(e, true, OP_ADD, REG_RING, RAX);
	emit_ring_record(e, p, full);
	emit_sequence_end(e, p, q);
	emit_jump_label(e, -1, p->wait_done);
	emit_place(e, full);
	emit_sequence_leave(e, p);
	emit_jump_label(e, -1, p->wait);
}

/* The subroutine that counts a hit that has waited; changes %rax, %rcx, %rdx. */
static void emit_count_waited(struct emit *e, const struct stub_plan *p, int label)
{
	int none = emit_label(e);

	emit_place(e, label);
	emit_imm_mem(e, true, IMM_CMP, since_at(p, 1), 0);
	emit_jump_label(e, CC_E, none);
	emit_time(e, p);
	emit_mem(e, true, OP_SUB, RAX, since_at(p, 1));
	emit_lea_to(e, RCX, p->stub->room);
	emit_lock(e);
	emit_mem(e, true, OP_ADD_TO, RAX, mem_at(RCX, offsetof(struct probe_room, ticks)));
	emit_lock(e);
	emit_inc(e, true, mem_at(RCX, offsetof(struct probe_room, waited)));
	emit_place(e, none);
	emit_u8(e, 0xc3); /* ret */
}

/* How a wait ends. */
static void emit_wait_ends(struct emit *e, const struct stub_plan *p, int counted)
{
	emit_place(e, p->wait_over);
	emit_restore(e);
	emit_place(e, p->wait_done);
	emit_call_label(e, counted);
	emit_jump_label(e, -1, p->out);
	emit_place(e, p->wait_lost);
	emit_call_label(e, counted);
	emit_jump_label(e, -1, p->lost);
}

void emit_wait(struct emit *e, struct stub_plan *p)
{
	int room = emit_label(e), vain = emit_label(e), dead = emit_label(e), late = emit_label(e);
	int counted = emit_label(e);

	if (!p->stub->room)
		return;
	emit_place(e, p->wait_first);
	emit_wait_none(e, p);
	emit_place(e, p->wait);
	emit_keep(e);
	emit_reg(e, true, OP_MOV_LOAD, R8, REG_RING);
	emit_wait_loop(e, p, room, vain, dead, late);

	emit_place(e, room);
	emit_restore(e);
	emit_record_again(e, p);

	emit_place(e, dead); /* the kernel wakes only one of those who wait */
	emit_imm_mem(e, true, IMM_CMP, since_at(p, KEPT), 0);
	emit_jump_label(e, CC_E, vain);
	emit_wake_all(e, OWNER_AT);
	emit_jump_label(e, -1, vain);
	/*
	 * A thread that was woken in time may have run only now. `moved` is read before that last
	 * look: if the controller makes room right after it, it has not given up on that.
	 */
	emit_place(e, late);
	emit_mem(e, true, OP_MOV_LOAD, RCX, mem_at(RSI, offsetof(struct probe_room, moved)));
	emit_if_room(e, p, room);
	emit_mem(e, true, OP_MOV_STORE, RCX, mem_at(RSI, offsetof(struct probe_room, gave_up)));
	emit_place(e, vain);
	emit_restore(e);
	emit_jump_label(e, -1, p->wait_lost);
	emit_wait_ends(e, p, counted);
	emit_count_waited(e, p, counted);
}
