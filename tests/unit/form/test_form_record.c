/* SPDX-License-Identifier: MIT */
/*
 * Records, waits for room and gates, in the machine code of this processor: those of threads
 * without restartable sequences. What the program sees of whole stubs is tested in tests/unit/stub.
 */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "arch/process.h"
#include "arch/runtime.h"
#include "libprobe/base/clock.h"
#include "libprobe/registry/registry.h"
#include "tests/unit/form/form_native.h"
#include "tests/unit/skip.h"
#include "tests/unit/wait.h"

enum {
	CPUS = 4, /* no fewer than threads: else none of the locks might be free */
	RING_BYTES = 4096,
	RING_SHIFT = 17, /* with the slop */
	SLOTS_SHIFT = 12,
	SITE = 77,
	TEMPS = 32,
	WAIT_TEMP = 8,
	OUTCOME = 31, /* the word that says how a hit has ended */
	RECORDED = 1,
	LOST,
	OWNER = 12345, /* any thread */
	THREADS = 4,
	HITS = 100000,
	MS = 1000000
};

struct stack {
	uint8_t below[16384]; /* for signals */
	uint64_t temps[TEMPS];
} __attribute__((aligned(16)));

struct fixture {
	struct form_native native;
	struct stub_isa isa;
	struct arch_stub stub;
	struct stub_plan plan;
	struct probe_room room;
	struct probe_gate gate;
	uint32_t guard;
	uint8_t *rings, *slots;
};

static struct ring_header *ring_of(const struct fixture *x, uint32_t number)
{
	return (struct ring_header *)(x->rings + ((size_t)number << RING_SHIFT));
}

static int setup(void **state)
{
	struct fixture *x = calloc(1, sizeof(*x));

	assert_non_null(x);
	form_native_init(&x->native);
	x->rings = aligned_alloc(4096, (size_t)2 * CPUS << RING_SHIFT);
	x->slots = aligned_alloc(4096, (size_t)(CPUS + 1) << SLOTS_SHIFT);
	assert_true(x->rings && x->slots);
	memset(x->rings, 0, (size_t)2 * CPUS << RING_SHIFT);
	memset(x->slots, 0, (size_t)(CPUS + 1) << SLOTS_SHIFT);
	x->guard = 1;
	x->isa.first_argument = (int8_t)form_native_live;
	x->stub = (struct arch_stub){.site = SITE,
		.cpus = CPUS,
		.guard = (uintptr_t)&x->guard,
		.action_count = 1,
		.actions = {{.slots = (uintptr_t)x->slots,
			.slots_shift = SLOTS_SHIFT,
			.record = {.rings = (uintptr_t)x->rings,
				.rings_shift = RING_SHIFT,
				.ring_bytes = RING_BYTES}}}};
	x->plan = (struct stub_plan){.stub = &x->stub,
		.isa = &x->isa,
		.actions = {{.action = &x->stub.actions[0]}},
		.at = x->plan.actions,
		.fixed_bytes = sizeof(struct ring_record),
		.max_bytes = sizeof(struct ring_record),
		.wait_temp = WAIT_TEMP};
	for (int i = 0; i < FRAME_REGISTERS; i++)
		x->plan.frame.saved[i] = -1;
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *x = *state;

	form_native_deinit(&x->native);
	free(x->rings);
	free(x->slots);
	free(x);
	return 0;
}

/* ---- Records ---------------------------------------------------------------------------- */

static void write_record(struct form *f, void *arg)
{
	struct fixture *x = arg;
	struct stub_plan *p = &x->plan;
	struct action_plan *a = p->at;
	int *const labels[] = {&a->done, &a->slow, &a->full, &a->lost, &a->slow_again,
		&a->wait_first, &a->wait, &a->wait_over, &a->wait_done, &a->wait_lost};
	int end = form_label(f);

	for (size_t i = 0; i < sizeof(labels) / sizeof(*labels); i++)
		*labels[i] = form_label(f);
	form_record(f, p);
	form_place(f, a->done);
	form_store_const(f, form_temp(OUTCOME), sizeof(uint64_t), RECORDED);
	form_jump(f, end);
	form_record_slow(f, p);
	form_place(f, a->lost);
	form_store_const(f, form_temp(OUTCOME), sizeof(uint64_t), LOST);
	form_place(f, end);
}

static form_native_function *make_record(struct fixture *x)
{
	return form_native_make(&x->native, &x->plan.frame, &x->stub.thread, write_record, x);
}

static uint64_t hit(form_native_function *function)
{
	struct stack stack;

	memset(stack.temps, 0xaa, sizeof(stack.temps));
	function((uint8_t *)stack.temps, 0, 0);
	return stack.temps[OUTCOME];
}

/* The ring that has something; its records are in order, and none is damaged. */
static uint64_t check_ring(const struct fixture *x, uint32_t number, uint32_t tid)
{
	const struct ring_header *ring = ring_of(x, number);
	const uint8_t *data = (const uint8_t *)(ring + 1);
	uint64_t last = 0;

	assert_int_equal(ring->lock, 0);
	for (uint64_t at = ring->tail; at < ring->head; at += sizeof(struct ring_record)) {
		struct ring_record record;

		memcpy(&record, data + at % RING_BYTES, sizeof(record));
		assert_int_equal(record.site, SITE);
		assert_int_equal(record.tid, tid);
		assert_true(record.time >= last && record.time > 0);
		last = record.time;
	}
	return (ring->head - ring->tail) / sizeof(struct ring_record);
}

static uint64_t check_rings(const struct fixture *x, uint32_t tid)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < CPUS; i++)
		assert_int_equal(ring_of(x, i)->head, 0); /* they are for sequences */
	for (uint32_t i = CPUS; i < 2 * CPUS; i++)
		count += check_ring(x, i, tid);
	return count;
}

static void fill(struct fixture *x)
{
	for (uint32_t i = CPUS; i < 2 * CPUS; i++)
		ring_of(x, i)->head = ring_of(x, i)->tail + RING_BYTES;
}

static void empty(struct fixture *x)
{
	for (uint32_t i = CPUS; i < 2 * CPUS; i++) {
		struct ring_header *ring = ring_of(x, i);
		uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);

		__atomic_store_n(&ring->tail, head, __ATOMIC_RELEASE);
	}
	room_tell(&x->room);
}

static void records(void **state)
{
	struct fixture *x = *state;
	form_native_function *function = make_record(x);

	for (int i = 0; i < 10; i++)
		assert_int_equal(hit(function), RECORDED);
	assert_int_equal(check_rings(x, 0), 10);
	/* Full: head is where the longest record has no room any more, or just has. */
	fill(x);
	assert_int_equal(hit(function), LOST);
	for (uint32_t i = CPUS; i < 2 * CPUS; i++)
		ring_of(x, i)->tail = sizeof(struct ring_record) - RING_ALIGN;
	assert_int_equal(hit(function), LOST);
	for (uint32_t i = CPUS; i < 2 * CPUS; i++)
		ring_of(x, i)->tail = sizeof(struct ring_record);
	assert_int_equal(hit(function), RECORDED);
	/* All rings are taken; then one is free. */
	empty(x);
	for (uint32_t i = CPUS; i < 2 * CPUS; i++)
		ring_of(x, i)->lock = 1;
	assert_int_equal(hit(function), LOST);
	ring_of(x, CPUS + 1)->lock = 0;
	assert_int_equal(hit(function), RECORDED);
	ring_of(x, CPUS)->lock = 0;
	assert_int_equal(check_ring(x, CPUS + 1, 0), 1);
}

/* A forked child says so. */
static void children_are_told(void **state)
{
	struct fixture *x = *state;
	uint32_t own = 0;

	x->stub.own = (uintptr_t)&own;
	assert_int_equal(hit(make_record(x)), RECORDED);
	assert_int_equal(check_rings(x, RING_TID_CHILD), 1);
	empty(x);
	own = 1;
	assert_int_equal(hit(make_record(x)), RECORDED);
	assert_int_equal(check_rings(x, 0), 1);
}

/* Each record is behind a word that leads to the one before. */
static void flight_recorders(void **state)
{
	enum { STEP = sizeof(struct ring_record) + RING_BACK_BYTES, MANY = 1000 };
	struct fixture *x = *state;
	form_native_function *function;
	uint64_t sum = 0, counted = 0;

	x->stub.actions[0].record.overwrite = true;
	function = make_record(x);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(hit(function), RECORDED);
	for (uint32_t i = CPUS; i < 2 * CPUS; i++) {
		const struct ring_header *ring = ring_of(x, i);
		const uint8_t *data = (const uint8_t *)(ring + 1);
		uint64_t place = ring->head, back, count = 0;

		sum += ring->head;
		memcpy(&back, data + place % RING_BYTES, sizeof(back));
		counted += ring_back_count(back);
		for (; place && ring->head - place + STEP < RING_BYTES; place = back, count++) {
			uint32_t site;

			memcpy(&back, data + place % RING_BYTES, sizeof(back));
			assert_int_equal(ring_back_length(back), STEP);
			assert_int_equal(ring_back_count(back), ring->head / STEP - count);
			back = place - STEP;
			memcpy(&site, data + back % RING_BYTES + RING_BACK_BYTES + 8, sizeof(site));
			assert_int_equal(site, SITE);
		}
		assert_true(!ring->head || count > RING_BYTES / STEP - 2);
	}
	assert_int_equal(sum, (uint64_t)MANY * STEP);
	assert_int_equal(counted, MANY);
}

/* ---- By many threads -------------------------------------------------------------------- */

struct crowd {
	struct fixture *x;
	form_native_function *function;
	uint64_t recorded, lost, read;
	bool done;
};

static void *hitting(void *arg)
{
	struct crowd *crowd = arg;

	for (int i = 0; i < HITS; i++)
		__atomic_fetch_add(
			hit(crowd->function) == RECORDED ? &crowd->recorded : &crowd->lost, 1,
			__ATOMIC_RELAXED);
	return NULL;
}

/* Reads as a controller does, while they write: every record is whole. */
static void read_all(struct crowd *crowd)
{
	for (uint32_t i = CPUS; i < 2 * CPUS; i++) {
		struct ring_header *ring = ring_of(crowd->x, i);
		uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), at = ring->tail;

		assert_true(head - at <= RING_BYTES);
		for (; at < head; at += sizeof(struct ring_record)) {
			struct ring_record record;
			uint8_t *place = (uint8_t *)(ring + 1) + at % RING_BYTES;

			memcpy(&record, place, sizeof(record));
			assert_int_equal(record.site, SITE);
			assert_int_equal(record.tid, 0);
			assert_true(record.time > 0);
			memset(place, 0xee, sizeof(record));
			crowd->read++;
		}
		__atomic_store_n(&ring->tail, head, __ATOMIC_RELEASE);
	}
	if (crowd->x->stub.actions[0].record.room)
		room_tell(&crowd->x->room);
}

static void *reading(void *arg)
{
	struct crowd *crowd = arg;

	while (!__atomic_load_n(&crowd->done, __ATOMIC_ACQUIRE))
		read_all(crowd);
	return NULL;
}

static struct crowd run_crowd(struct fixture *x)
{
	struct crowd crowd = {.x = x, .function = make_record(x)};
	pthread_t threads[THREADS], reader;

	assert_int_equal(pthread_create(&reader, NULL, reading, &crowd), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hitting, &crowd), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	__atomic_store_n(&crowd.done, true, __ATOMIC_RELEASE);
	pthread_join(reader, NULL);
	read_all(&crowd);
	assert_int_equal(crowd.recorded + crowd.lost, THREADS * HITS);
	assert_int_equal(crowd.read, crowd.recorded);
	return crowd;
}

static void many_threads_record(void **state)
{
	struct crowd crowd = run_crowd(*state);

	assert_int_not_equal(crowd.recorded, 0);
}

/* ---- Waiting ---------------------------------------------------------------------------- */

/* For a wait that another thread is to end. */
static uint64_t long_ms(void)
{
	return UINT64_C(1000) * test_seconds();
}

/* Hits wait so long; they sleep for less than a second each time. */
static void let_wait(struct fixture *x, uint64_t bound_ms)
{
	struct clock clock;

	clock_init(&clock, arch_process()->counter);
	x->room = (struct probe_room){.moved = 1};
	x->room.gate.turns[0].owner = OWNER | GATE_WAITED;
	x->stub.actions[0].record.room = (uintptr_t)&x->room;
	x->stub.actions[0].record.wait_ticks = bound_ms * (clock_ticks_per_s(&clock) / 1000);
	x->stub.actions[0].record.wait_scale = clock_tick_ns32(&clock) / (bound_ms / 1000 + 1);
}

/* Returns when a hit has waited for a while. */
static void let_some_time_pass(const struct fixture *x)
{
	wait_until(__atomic_load_n(&x->room.gate.arrived, __ATOMIC_ACQUIRE));
	usleep(30000);
}

static void *empty_later(void *arg)
{
	let_some_time_pass(arg);
	empty(arg);
	return NULL;
}

static void wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void *let_go_later(void *arg)
{
	struct fixture *x = arg;

	let_some_time_pass(x);
	__atomic_store_n(&x->room.gate.turns[0].owner, 0, __ATOMIC_SEQ_CST);
	wake(&x->room.gate.turns[0].owner);
	return NULL;
}

static void waits_for_room(void **state)
{
	struct fixture *x = *state;
	form_native_function *function;
	uint64_t began;
	pthread_t later;

	let_wait(x, long_ms());
	function = make_record(x);
	assert_int_equal(hit(function), RECORDED);
	assert_int_equal(x->room.waited, 0);
	fill(x);
	began = clock_monotonic_ns();
	assert_int_equal(pthread_create(&later, NULL, empty_later, x), 0);
	assert_int_equal(hit(function), RECORDED);
	pthread_join(later, NULL);
	assert_true(clock_monotonic_ns() - began >= 25 * MS);
	assert_int_equal(check_rings(x, 0), 1);
	assert_int_equal(x->room.waited, 1);
	assert_int_equal(x->room.gate.arrived, 1);
	assert_true(x->room.ticks > 0);
	assert_int_equal(x->room.gate.turns[0].owner, OWNER | GATE_WAITED);
}

/* Once; then nobody waits until the controller has made room. */
static void a_wait_runs_out(void **state)
{
	struct fixture *x = *state;
	form_native_function *function;
	uint64_t began;

	let_wait(x, 50);
	function = make_record(x);
	fill(x);
	began = clock_monotonic_ns();
	assert_int_equal(hit(function), LOST);
	assert_true(clock_monotonic_ns() - began >= 45 * MS);
	assert_int_equal(x->room.gave_up, x->room.moved);
	assert_int_equal(x->room.waited, 1);
	assert_int_equal(hit(function), LOST);
	assert_int_equal(x->room.waited, 1);
	empty(x);
	assert_int_equal(hit(function), RECORDED);
}

/* Others take the room that is made, for longer than a wait without any takes. */
struct taking {
	struct fixture *x;
	uint64_t bound_ns;
	uint64_t last_ns;  /* when room was made, or the hit had not begun */
	uint64_t quiet_ns; /* for so long none was made, at most */
};

static void note_quiet(struct taking *t)
{
	uint64_t now = clock_monotonic_ns(), quiet = now - t->last_ns;

	t->quiet_ns = quiet > t->quiet_ns ? quiet : t->quiet_ns;
	t->last_ns = now;
}

static void *take_and_empty(void *arg)
{
	struct taking *t = arg;
	uint64_t begun;

	wait_until(__atomic_load_n(&t->x->room.gate.arrived, __ATOMIC_ACQUIRE));
	begun = clock_monotonic_ns();
	do {
		room_tell(&t->x->room);
		note_quiet(t);
		usleep((useconds_t)(t->bound_ns / 10000));
	} while (clock_monotonic_ns() - begun < 2 * t->bound_ns);
	empty(t->x);
	note_quiet(t);
	return NULL;
}

/* False if the machine was too slow to make room so often, and once more before it is too late. */
static bool hit_while_taken(struct fixture *x, uint64_t bound_ms)
{
	struct taking taking = {.x = x, .bound_ns = bound_ms * MS};
	uint64_t began, result;
	pthread_t later;

	let_wait(x, bound_ms);
	fill(x);
	began = taking.last_ns = clock_monotonic_ns();
	assert_int_equal(pthread_create(&later, NULL, take_and_empty, &taking), 0);
	result = hit(make_record(x));
	pthread_join(later, NULL);
	if (taking.quiet_ns > taking.bound_ns / 2 ||
		clock_monotonic_ns() - began > 8 * taking.bound_ns)
		return false;
	assert_int_equal(result, RECORDED);
	return true;
}

static void a_wait_begins_anew(void **state)
{
	struct fixture *x = *state;
	uint64_t bound_ms = 50;

	for (; !hit_while_taken(x, bound_ms); bound_ms *= 2) {
		assert_true(bound_ms < long_ms());
		empty(x);
	}
	assert_int_equal(x->room.waited, 1);
	assert_int_equal(x->room.gave_up, 0);
}

/* The session's end lets all go, who leave nothing; so does a fork. A dead controller does not. */
static void what_ends_a_wait(void **state)
{
	struct fixture *x = *state;
	form_native_function *function;
	pthread_t later;

	let_wait(x, long_ms());
	function = make_record(x);
	fill(x);
	assert_int_equal(pthread_create(&later, NULL, let_go_later, x), 0);
	assert_int_equal(hit(function), RECORDED); /* not lost */
	pthread_join(later, NULL);
	x->room.gate.turns[0].owner = OWNER;
	x->guard = 0;
	assert_int_equal(hit(function), RECORDED);
	x->guard = 1;
	x->room.gate.turns[0].owner = ROOM_WAITED; /* what the kernel leaves */
	assert_int_equal(hit(function), LOST);
	for (uint32_t i = CPUS; i < 2 * CPUS; i++)
		assert_int_equal(ring_of(x, i)->head, RING_BYTES); /* no record */
}

static void none_of_a_crowd_is_lost(void **state)
{
	struct fixture *x = *state;
	struct crowd crowd;

	let_wait(x, long_ms());
	crowd = run_crowd(x);
	assert_int_equal(crowd.lost, 0);
}

/* ---- Gates ------------------------------------------------------------------------------ */

static void write_gate(struct form *f, void *arg)
{
	struct fixture *x = arg;

	x->plan.out = form_label(f);
	form_gate(f, &x->plan);
	form_place(f, x->plan.out);
}

static form_native_function *make_gate(struct fixture *x)
{
	x->stub.actions[0].gate.address = (uintptr_t)&x->gate;
	return form_native_make(&x->native, &x->plan.frame, &x->stub.thread, write_gate, x);
}

static uint64_t pass_ms(form_native_function *function, uint64_t argument)
{
	uint64_t began = clock_monotonic_ns();
	struct stack stack;

	function((uint8_t *)stack.temps, argument, 0);
	return (clock_monotonic_ns() - began) / MS;
}

/* A controller that opens the gate for whoever arrives first, as libprobe/follow does. */
static void *release(void *arg)
{
	struct probe_gate *gate = arg;

	wait_until(__atomic_load_n(&gate->arrived, __ATOMIC_SEQ_CST));
	usleep(30000);
	__atomic_store_n(&gate->released, 1, __ATOMIC_SEQ_CST);
	__atomic_fetch_xor(&gate->turns[1].owner, GATE_FLIP, __ATOMIC_SEQ_CST);
	wake(&gate->turns[1].owner);
	return NULL;
}

static void gates(void **state)
{
	struct fixture *x = *state;
	form_native_function *function = make_gate(x);
	pthread_t controller;

	pass_ms(function, 0);
	assert_int_equal(x->gate.arrived, 0); /* not armed */
	x->gate.armed = x->gate.pass = 1;
	pass_ms(function, 0);
	assert_int_equal(x->gate.arrived, 0);
	assert_int_equal(x->gate.pass, 0);
	for (int i = 0; i < GATE_TURNS; i++)
		x->gate.turns[i].owner = OWNER | GATE_WAITED;
	assert_int_equal(pthread_create(&controller, NULL, release, &x->gate), 0);
	assert_true(pass_ms(function, 0) >= 25);
	pthread_join(controller, NULL);
	assert_int_equal(x->gate.arrived, 1);
	assert_int_equal(x->gate.armed, 1);
	/* Nobody serves it: it disarms itself in time; or at once, if its owner has died. */
	assert_in_range(pass_ms(function, 0), GATE_TIMEOUT_S * 1000 - 10, 60000);
	assert_int_equal(x->gate.armed, 0);
	x->gate.armed = 1;
	x->gate.turns[3].owner = GATE_FLIP;
	assert_true(pass_ms(function, 0) < GATE_TIMEOUT_S * 1000);
	assert_int_equal(x->gate.arrived, 3);
	assert_int_equal(x->gate.armed, 0);
}

/* A gate that is only for some: where a word is not 0, it is for those who say that they call it.
 */
static void gates_for_callers(void **state)
{
	struct fixture *x = *state;
	uint32_t unless = 1;
	form_native_function *function;

	x->stub.actions[0].gate.unless = (uintptr_t)&unless;
	function = make_gate(x);
	x->gate.armed = x->gate.pass = 1;
	pass_ms(function, 5);
	assert_int_equal(x->gate.pass, 1);
	pass_ms(function, ARCH_GATE_CALLER);
	assert_int_equal(x->gate.pass, 0);
	x->gate.pass = 1;
	unless = 0;
	pass_ms(function, 5);
	assert_int_equal(x->gate.pass, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(records, setup, teardown),
		cmocka_unit_test_setup_teardown(children_are_told, setup, teardown),
		cmocka_unit_test_setup_teardown(flight_recorders, setup, teardown),
		cmocka_unit_test_setup_teardown(many_threads_record, setup, teardown),
		cmocka_unit_test_setup_teardown(waits_for_room, setup, teardown),
		cmocka_unit_test_setup_teardown(a_wait_runs_out, setup, teardown),
		cmocka_unit_test_setup_teardown(a_wait_begins_anew, setup, teardown),
		cmocka_unit_test_setup_teardown(what_ends_a_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(none_of_a_crowd_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(gates, setup, teardown),
		cmocka_unit_test_setup_teardown(gates_for_callers, setup, teardown),
	};

	if (!form_native_is_possible())
		return skip_all("there is no back end for this processor");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
