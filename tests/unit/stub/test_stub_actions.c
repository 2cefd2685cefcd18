/* SPDX-License-Identifier: MIT */
/*
 * Stubs with several actions: each acts as if it were alone, in one thread, in many under a storm
 * of signals, and when another action loses the hit.
 */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_gathering.h"

enum {
	PARTS = ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_BUCKETS,
	SECOND_CELL = GATHERING_CELL + (1 << 17), /* beside the table of the first */
	ENTRIES = 64,
	ENTRY_CELL = 24,
	ENTRY_BYTES = (ENTRY_CELL + sizeof(struct probe_cell) + 63) / 64 * 64,
	OWNER = 5,
	KEYS = 16,
	FLIGHTS = 64,
	DEPTH = 64,
	FLIGHT_BYTES = (sizeof(struct probe_flight) + 8 * DEPTH + 63) / 64 * 64
};
_Static_assert(
	(ENTRIES + OWNER + 1) * ENTRY_BYTES <= SECOND_CELL - GATHERING_CELL, "there is room");
_Static_assert(2 * FLIGHTS * FLIGHT_BYTES <= GATHERING_EXTRA_BYTES, "there is room");

/* Adds an action, with the slot after that of the action before it. */
static struct arch_action *add(struct arch_stub *stub, enum arch_action_kind kind)
{
	struct arch_action *last = &stub->actions[stub->action_count - 1], *action = last + 1;

	*action = (struct arch_action){.kind = kind,
		.slots = last->slots,
		.slots_shift = last->slots_shift,
		.slot_offset = last->slot_offset + sizeof(struct probe_slot),
		.record = last->record};
	stub->action_count++;
	return action;
}

static struct arch_stub counting(struct gathering *c, bool rseq)
{
	stub_host_reset(&c->host);
	memset(c->extra, 0, GATHERING_EXTRA_BYTES);
	return stub_host_stub(&c->host, rseq);
}

static uint64_t sum_of(const struct gathering *c, size_t offset)
{
	uint64_t total = 0;

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		total += *(const uint64_t *)(c->host.slots + ((size_t)set << HOST_SLOTS_SHIFT) +
					     offset);
	return total;
}

/* The sum of a word of the slot of an action. */
static uint64_t slot(const struct gathering *c, int action, size_t field)
{
	return sum_of(c, HOST_SLOT_OFFSET + action * sizeof(struct probe_slot) + field);
}

static uint64_t hits_of(const struct gathering *c, int action)
{
	return slot(c, action, offsetof(struct probe_slot, hits));
}

static uint64_t lost_of(const struct gathering *c, int action)
{
	return slot(c, action, offsetof(struct probe_slot, lost));
}

/* Sums the cells at an offset over the sets of all CPUs. */
static struct totals totals_at(const struct gathering *c, size_t offset)
{
	struct totals t = {0};

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		gathering_add(&t,
			(const struct probe_cell *)(c->host.slots +
						    ((size_t)set << HOST_SLOTS_SHIFT) + offset));
	return t;
}

/* Sums all entries of the table at GATHERING_CELL, and the entry for keys without room. */
static struct totals table_totals(const struct gathering *c)
{
	struct totals t = {0};

	for (uint32_t i = 0; i < ENTRIES; i++) {
		struct totals entry =
			totals_at(c, GATHERING_CELL + (size_t)i * ENTRY_BYTES + ENTRY_CELL);

		t.count += entry.count;
		t.sum += entry.sum;
		t.entries += entry.count > 0;
	}
	t.count +=
		totals_at(c, GATHERING_CELL + (size_t)(ENTRIES + OWNER) * ENTRY_BYTES + ENTRY_CELL)
			.count;
	return t;
}

/* Gathers the first argument by the second, a key. */
static void gather_by_key(struct arch_action *action)
{
	action->kind = ARCH_ACTION_GATHER;
	action->gather = (struct arch_gather){.parts = ARCH_GATHER_SUM,
		.value = &gathering_first,
		.cell = GATHERING_CELL,
		.keys = {{.number = &gathering_second}},
		.key_count = 1,
		.owner = OWNER,
		.entries = ENTRIES,
		.entry_bytes = ENTRY_BYTES,
		.entry_cell = ENTRY_CELL};
}

static void gather(struct arch_action *action, const struct arch_expr *value)
{
	action->kind = ARCH_ACTION_GATHER;
	action->gather = (struct arch_gather){.parts = PARTS, .value = value, .cell = SECOND_CELL};
}

static void hit(void *data, uint64_t number)
{
	const struct gathering *c = data;

	c->site(number, number % KEYS, 0);
}

/* The numbers from 0 to n - 1. */
static uint64_t sum_to(uint64_t n)
{
	return n * (n - 1) / 2;
}

/* ---- Lists ------------------------------------------------------------------------------ */

static void counts(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = counting(c, rseq);

		while (stub.action_count < ARCH_ACTIONS_MAX)
			add(&stub, ARCH_ACTION_COUNT);
		c->site = stub_host_emit_site(&c->host, &stub);
		gathering_run(c, hit, GATHERING_HITS, true);
		for (int i = 0; i < ARCH_ACTIONS_MAX; i++)
			assert_int_equal(
				hits_of(c, i), GATHERING_THREADS * GATHERING_HITS + c->signals);
	}
}

/* A count, a sum by key, a histogram: under a storm, sequences of all three are aborted. */
static void counted_and_gathered(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = counting(c, rseq);
		uint64_t all, sum;
		struct totals t;

		stub.captures = gathering_captures;
		stub.capture_count = 2;
		gather_by_key(add(&stub, ARCH_ACTION_GATHER));
		gather(add(&stub, ARCH_ACTION_GATHER), &gathering_first);
		c->site = stub_host_emit_site(&c->host, &stub);
		gathering_run(c, hit, GATHERING_HITS, true);
		all = GATHERING_THREADS * GATHERING_HITS + c->signals;
		sum = GATHERING_THREADS * sum_to(GATHERING_HITS) + sum_to(c->signals);
		assert_int_equal(hits_of(c, 0), all);
		t = table_totals(c);
		assert_int_equal(t.count, all);
		assert_int_equal(t.sum, sum);
		assert_int_equal(t.entries, KEYS);
		t = totals_at(c, SECOND_CELL);
		assert_int_equal(t.bucketed, all);
		assert_int_equal(t.sum, sum);
		assert_int_equal(lost_of(c, 1) + lost_of(c, 2), 0);
	}
}

/* The filter, and one in N, are for the whole list. */
static void sampled_once(void **state)
{
	static const struct arch_expr_node nodes[] = {{.kind = ARCH_EXPR_CAPTURE, .wide = true},
		{.kind = ARCH_EXPR_CONST, .wide = true, .value = 9},
		{.kind = ARCH_EXPR_GT, .wide = true, .left = 0, .right = 1}};
	static const struct arch_expr above_9 = {nodes, 3};
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = counting(c, rseq);
		uint64_t taken;

		stub.captures = gathering_captures;
		stub.capture_count = 2;
		stub.filter = &above_9;
		stub.every = 10;
		add(&stub, ARCH_ACTION_COUNT);
		gather(add(&stub, ARCH_ACTION_GATHER), &gathering_first);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (uint64_t i = 0; i < 1010; i++)
			hit(c, i);
		taken = hits_of(c, 0);
		/* Each CPU counts for itself, so some hits are left on each. */
		assert_in_range(taken, 100 - c->host.cpus, 100);
		assert_int_equal(hits_of(c, 1), taken);
		assert_int_equal(totals_at(c, SECOND_CELL).bucketed, taken);
	}
}

/* A full ring: the hits that the record loses are gathered and counted all the same. */
static void lost_by_one(void **state)
{
	enum { HITS = 20000 };
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = counting(c, rseq);
		uint64_t records = 0;

		stub.actions[0].kind = ARCH_ACTION_RECORD;
		stub.captures = gathering_captures;
		stub.capture_count = stub.recorded = 2;
		gather(add(&stub, ARCH_ACTION_GATHER), &gathering_first);
		add(&stub, ARCH_ACTION_COUNT);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (uint64_t i = 0; i < HITS; i++)
			hit(c, i);
		for (uint32_t i = 0; i < stub_host_ring_count(&c->host); i++)
			records += stub_host_ring(&c->host, i)->head /
				   (sizeof(struct ring_record) + 2 * sizeof(uint64_t));
		assert_in_range(records, 1, HITS - 1);
		assert_int_equal(records + lost_of(c, 0), HITS);
		assert_int_equal(totals_at(c, SECOND_CELL).sum, sum_to(HITS));
		assert_int_equal(lost_of(c, 1), 0);
		assert_int_equal(hits_of(c, 2), HITS);
	}
}

/* A text that cannot be read is lost as a key, and has no part in the other actions. */
static void lost_key(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = counting(c, rseq);

		stub.captures = gathering_captures;
		stub.capture_count = 3;
		gather(&stub.actions[0], &gathering_second);
		stub.actions[0].flights = (struct arch_flights){.table = (uintptr_t)c->extra,
			.entries = FLIGHTS,
			.depth = DEPTH,
			.text = GATHERING_STRING_MAX,
			.string = 2};
		stub.actions[0].gather.value = NULL;
		gather(add(&stub, ARCH_ACTION_GATHER), &gathering_second);
		stub.actions[1].gather.cell = GATHERING_CELL;
		c->site = stub_host_emit_site(&c->host, &stub);
		c->site(1, 7, 0);
		assert_int_equal(lost_of(c, 0), 1);
		assert_int_equal(lost_of(c, 1), 0);
		assert_int_equal(totals_at(c, GATHERING_CELL).sum, 7);
		c->site((uintptr_t) "text", 8, 0);
		assert_int_equal(lost_of(c, 0), 1);
		assert_int_equal(slot(c, 0, offsetof(struct probe_slot, unmatched)), 1);
		assert_int_equal(totals_at(c, GATHERING_CELL).sum, 15);
		assert_int_equal(totals_at(c, SECOND_CELL).bucketed, 0);
	}
}

/* ---- Pairs ------------------------------------------------------------------------------ */

/* Two tables: pairs by thread, and pairs by the second argument. */
static void add_flights(const struct gathering *c, struct arch_stub *stub)
{
	stub->captures = gathering_captures;
	stub->capture_count = 2;
	for (int i = 0; i < 2; i++)
		stub->actions[i].flights = (struct arch_flights){
			.table = (uintptr_t)c->extra + (size_t)i * FLIGHTS * FLIGHT_BYTES,
			.entries = FLIGHTS,
			.depth = DEPTH,
			.match = i ? &gathering_second : NULL};
}

static void emit_pairs(struct gathering *c, bool rseq)
{
	struct arch_stub stub = counting(c, rseq);

	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	add(&stub, ARCH_ACTION_BEGIN);
	add_flights(c, &stub);
	add(&stub, ARCH_ACTION_COUNT);
	c->site = stub_host_emit_site(&c->host, &stub);
	gather(&stub.actions[0], NULL);
	gather(&stub.actions[1], NULL);
	stub.actions[0].gather.cell = GATHERING_CELL;
	add_flights(c, &stub);
	c->end = stub_host_emit_site(&c->host, &stub);
}

static void pairs(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		emit_pairs(c, rseq);
		c->site(0, 1, 0);
		c->end(0, 2, 0); /* the thread's begin, and no begin with the key */
		assert_int_equal(totals_at(c, GATHERING_CELL).bucketed, 1);
		assert_int_equal(totals_at(c, SECOND_CELL).bucketed, 0);
		assert_int_equal(slot(c, 1, offsetof(struct probe_slot, unmatched)), 1);
		c->end(0, 1, 0); /* the other way round */
		assert_int_equal(totals_at(c, GATHERING_CELL).bucketed, 1);
		assert_int_equal(totals_at(c, SECOND_CELL).bucketed, 1);
		assert_int_equal(slot(c, 0, offsetof(struct probe_slot, unmatched)), 1);
		assert_int_equal(hits_of(c, 2), 3);
		assert_true(totals_at(c, SECOND_CELL).sum > totals_at(c, GATHERING_CELL).sum);
	}
}

static void pass(void *data, uint64_t number)
{
	static atomic_uint_fast64_t keys = 1;
	const struct gathering *c = data;

	/* Two CPUs may read the same time, so it would not do as a key. */
	c->site(number, atomic_fetch_add(&keys, 1), 0);
	c->end(number, 0, 0);
}

/* By thread, all pairs end, also those of handlers that interrupt the other actions. */
static void pairs_in_a_storm(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		uint64_t all, begun;

		emit_pairs(c, rseq);
		gathering_run(c, pass, GATHERING_HITS / 10, true);
		all = GATHERING_THREADS * (GATHERING_HITS / 10) + c->signals;
		assert_int_equal(totals_at(c, GATHERING_CELL).bucketed, all);
		assert_int_equal(hits_of(c, 2), 2 * all);
		/* By key, no end has the key of a begin, and the table is full at once. */
		begun = all - lost_of(c, 1);
		assert_in_range(begun, 1, FLIGHTS);
		assert_int_equal(slot(c, 1, offsetof(struct probe_slot, unmatched)), all);
	}
}

/* ---- Lists that there are not ------------------------------------------------------------- */

static void refused(void **state)
{
	struct gathering *c = *state;
	struct arch_stub stub = counting(c, true), empty = stub, two;
	static uint8_t out[2 * ARCH_STUB_MAX];
	struct arch_stub_code code;

	stub.next = (uintptr_t)c->host.code;
	empty.next = stub.next;
	empty.action_count = 0;
	assert_int_equal(arch_make_stub(arch_host(), &empty, stub.next, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
	two = stub;
	add(&two, ARCH_ACTION_RECORD);
	assert_int_equal(arch_make_stub(arch_host(), &two, stub.next, out, sizeof(out), &code),
		ARCH_STUB_OK);
	two.actions[0].kind = ARCH_ACTION_RECORD;
	assert_int_equal(arch_make_stub(arch_host(), &two, stub.next, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
	two = stub;
	add(&two, ARCH_ACTION_CALL);
	assert_int_equal(arch_make_stub(arch_host(), &two, stub.next, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
	two.actions[1].kind = ARCH_ACTION_GATE;
	assert_int_equal(arch_make_stub(arch_host(), &two, stub.next, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
	two = stub;
	add(&two, ARCH_ACTION_COUNT);
	assert_int_equal(arch_make_stub(arch_host(), &two, stub.next, out, sizeof(out), &code),
		ARCH_STUB_OK);
	assert_int_equal(arch_make_stub(arch_host(), &two, stub.next, out, code.length - 1, &code),
		ARCH_STUB_NO_ROOM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counts, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			counted_and_gathered, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(sampled_once, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(lost_by_one, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(lost_key, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(pairs, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			pairs_in_a_storm, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(refused, gathering_setup, gathering_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
