/* SPDX-License-Identifier: MIT */
/*
 * The controller's side of a gate.
 *
 * A gate whose controller has died releases all threads at once, and one that nobody serves disarms
 * itself (struct probe_gate): a stopped controller delays its target once, by two seconds. When it
 * goes on, it sees that, and arms the gate again.
 *
 * The kernel reports the death through the thread's list of robust futexes. glibc sets one up for
 * each thread, for its own mutexes; the waiter locks none, and puts the gate's in its place.
 *
 * The waiter is started before its gate is there, as a thread may have to wait for a processor, and
 * a program that is held should not.
 *
 * Sources: futex(2); get_robust_list(2); the kernel's Documentation/locking/robust-futexes.rst.
 */
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/follow/follow.h"

static _Atomic uint32_t *shared_word(uint32_t *word)
{
	return (_Atomic uint32_t *)word;
}

static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

/* What the owner of a turn is while the controller lives. */
static uint32_t turn_word(const struct gate *gate, uint32_t turn)
{
	return gate->owner | GATE_WAITED | (gate->flips & 1u << turn ? GATE_FLIP : 0);
}

/* From here on, the kernel ends every turn when the waiter dies. */
static void own_turns(struct gate *gate)
{
	for (uint32_t i = 0; i < GATE_TURNS; i++) {
		gate->turns[i].next = i + 1 < GATE_TURNS ? &gate->turns[i + 1] : &gate->robust.list;
		atomic_store(shared_word(&gate->shared->turns[i].owner), turn_word(gate, i));
	}
	gate->robust.futex_offset = (long)gate->shared->turns - (long)gate->turns;
	atomic_signal_fence(memory_order_seq_cst);
	gate->robust.list.next = &gate->turns[0];
}

void gate_leave(struct gate *gate)
{
	for (uint32_t i = 0; gate->shared && i < GATE_TURNS; i++) {
		atomic_store(shared_word(&gate->shared->turns[i].owner), 0);
		futex(&gate->shared->turns[i].owner, FUTEX_WAKE, INT_MAX, NULL);
	}
}

static void set_and_wake(uint32_t *word)
{
	atomic_store(shared_word(word), 1);
	futex(word, FUTEX_WAKE, 1, NULL);
}

static void wait_until_set(uint32_t *word)
{
	while (!atomic_load(shared_word(word)))
		futex(word, FUTEX_WAIT, 0, NULL);
}

/*
 * Signals the descriptor whenever a thread has taken a number. It is woken for that, so it looks
 * seldom without being woken: a target that writes the word as it likes, or moves who waits there
 * to another word (FUTEX_REQUEUE), can suppress any wake-up. That delays its own threads, and our
 * end.
 */
static void signal_arrivals(struct gate *gate)
{
	static const struct timespec a_while = {.tv_sec = 2};
	uint32_t seen = 0;

	while (!atomic_load((_Atomic bool *)&gate->ending)) {
		uint32_t arrived = atomic_load(shared_word(&gate->shared->arrived));

		if (arrived != seen) {
			seen = arrived;
			gate_raise(gate->event);
			continue;
		}
		futex(&gate->shared->arrived, FUTEX_WAIT, seen, &a_while);
	}
}

/* The waiter: of no turn, until the gate is open. */
static void *wait_for_threads(void *data)
{
	struct gate *gate = data;

	gate->owner = (uint32_t)syscall(SYS_gettid) & GATE_OWNER;
	gate->robust.list.next = &gate->robust.list;
	syscall(SYS_set_robust_list, &gate->robust, sizeof(gate->robust));
	set_and_wake(&gate->owned);
	wait_until_set(&gate->opened);
	signal_arrivals(gate);
	syscall(SYS_set_robust_list, NULL, sizeof(gate->robust));
	set_and_wake(&gate->ended);
	return NULL;
}

struct probe_error *gate_prepare(struct gate *gate)
{
	int err;

	*gate = (struct gate){0};
	err = worker_start(&gate->waiter, wait_for_threads, gate);
	if (err)
		return probe_error_system(err, "cannot start a thread");
	gate->waiting = true;
	return NULL;
}

/* Whoever disarms the gate between two calls is not forgotten. */
static void set_armed(struct gate *gate, bool armed)
{
	uint32_t before = atomic_exchange(shared_word(&gate->shared->armed), armed);

	gate->lapsed |= gate->armed && !before;
	gate->armed = armed;
}

void gate_open(struct gate *gate, struct probe_gate *shared, int event)
{
	gate->shared = shared;
	gate->event = event;
	wait_until_set(&gate->owned);
	own_turns(gate);
	set_and_wake(&gate->opened);
	set_armed(gate, true);
}

void gate_clear(int event)
{
	uint64_t count;

	/* Fails if it was not raised. */
	if (read(event, &count, sizeof(count)) < 0)
		return;
}

void gate_raise(int event)
{
	uint64_t one = 1;

	/* Fails if its counter is at the maximum. */
	if (write(event, &one, sizeof(one)) < 0)
		return;
}

bool gate_take(struct gate *gate)
{
	if (!gate->shared)
		return false;
	gate->taken = atomic_load(shared_word(&gate->shared->arrived));
	return gate->taken != atomic_load(shared_word(&gate->shared->released));
}

uint32_t gate_arrivals(const struct gate *gate)
{
	return gate->shared ? atomic_load(shared_word(&gate->shared->arrived)) : 0;
}

bool gate_is_busy(const struct gate *gate)
{
	return gate->shared &&
	       gate_arrivals(gate) != atomic_load(shared_word(&gate->shared->released));
}

bool gate_holds_turn(const struct gate *gate, uint32_t turn)
{
	uint32_t first = atomic_load(shared_word(&gate->shared->released)) + 1;

	return (turn - first) % GATE_TURNS < gate_waiting(gate);
}

uint32_t gate_waiting(const struct gate *gate)
{
	return gate->taken - atomic_load(shared_word(&gate->shared->released));
}

void gate_arm(struct gate *gate, bool armed)
{
	if (!gate->shared)
		return;
	set_armed(gate, armed);
	if (!armed && gate_take(gate))
		gate_release(gate);
}

bool gate_has_lapsed(struct gate *gate)
{
	bool lapsed;

	if (!gate->shared)
		return false;
	set_armed(gate, gate->armed);
	lapsed = gate->lapsed;
	gate->lapsed = false;
	return lapsed;
}

void gate_release(struct gate *gate)
{
	uint32_t count = gate_waiting(gate);

	atomic_store(shared_word(&gate->shared->released), gate->taken);
	for (uint32_t i = 0; i < count && i < GATE_TURNS; i++) {
		uint32_t turn = (gate->taken - i) % GATE_TURNS;

		gate->flips ^= 1u << turn;
		atomic_store(shared_word(&gate->shared->turns[turn].owner), turn_word(gate, turn));
		futex(&gate->shared->turns[turn].owner, FUTEX_WAKE, INT_MAX, NULL);
	}
}

static void wake_waiter(struct gate *gate)
{
	futex(&gate->shared->arrived, FUTEX_WAKE, INT_MAX, NULL);
}

void gate_shut(struct gate *gate)
{
	if (gate->shared)
		set_armed(gate, false);
	if (!gate->waiting)
		return;
	atomic_store((_Atomic bool *)&gate->ending, true);
	set_and_wake(&gate->opened);
	if (gate->shared)
		wake_waiter(gate);
}

/* A waiter that is about to wait does not hear it: so it is woken until it has ended. */
static void end_waiter(struct gate *gate)
{
	static const struct timespec a_moment = {.tv_nsec = 1000 * 1000};

	while (gate->shared && !atomic_load(shared_word(&gate->ended))) {
		wake_waiter(gate);
		futex(&gate->ended, FUTEX_WAIT, 0, &a_moment);
	}
	worker_join(&gate->waiter);
	gate->waiting = false;
}

void gate_close(struct gate *gate)
{
	gate_shut(gate);
	if (gate->waiting)
		end_waiter(gate);
	if (!gate->shared)
		return;
	gate_take(gate);
	gate_release(gate);
	gate_leave(gate);
	gate->shared = NULL;
}
