/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_gathering.h"

struct arch_capture gathering_captures[3];
static const struct arch_expr_node first_node = {.kind = ARCH_EXPR_CAPTURE, .wide = true};
static const struct arch_expr_node second_node = {
	.kind = ARCH_EXPR_CAPTURE, .wide = true, .capture = 1};
const struct arch_expr gathering_first = {&first_node, 1}, gathering_second = {&second_node, 1};

int gathering_setup(void **state)
{
	struct gathering *c = calloc(1, sizeof(*c));

	for (int i = 0; i < 3; i++)
		gathering_captures[i] = stub_host_argument(i % 2);
	gathering_captures[2].is_string = true;
	gathering_captures[2].bytes_max = GATHERING_STRING_MAX;
	stub_host_init(&c->host, true);
	c->extra = calloc(1, GATHERING_EXTRA_BYTES);
	*state = c;
	return 0;
}

int gathering_teardown(void **state)
{
	struct gathering *c = *state;

	stub_host_deinit(&c->host);
	free(c->extra);
	free(c);
	return 0;
}

struct arch_stub gathering_stub(const struct gathering *c, bool has_rseq, unsigned int parts)
{
	struct arch_stub stub = stub_host_stub(&c->host, has_rseq);

	stub.actions[0].kind = ARCH_ACTION_GATHER;
	stub.captures = gathering_captures;
	stub.capture_count = 3;
	stub.actions[0].gather = (struct arch_gather){
		.parts = parts, .value = &gathering_first, .cell = GATHERING_CELL};
	return stub;
}

void gathering_run(struct gathering *c, crowd_work *work, uint32_t times, bool storm)
{
	c->signals = crowd_run(work, c, GATHERING_THREADS, times, storm);
}

uint8_t *gathering_set(const struct gathering *c, uint32_t set)
{
	return c->host.slots + ((size_t)set << HOST_SLOTS_SHIFT) + GATHERING_CELL;
}

void gathering_add(struct totals *t, const struct probe_cell *cell)
{
	t->count += cell->count;
	t->sum += cell->sum;
	t->most = cell->most > t->most ? cell->most : t->most;
	t->least = cell->least > t->least ? cell->least : t->least;
	if (cell->last_time > t->last_time) {
		t->last_time = cell->last_time;
		t->last = cell->last;
	}
	for (int i = 0; i < CELL_BUCKETS; i++) {
		t->buckets[i] += cell->buckets[i];
		t->bucketed += cell->buckets[i];
	}
}

struct totals gathering_totals(const struct gathering *c)
{
	struct totals t = {0};

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		gathering_add(&t, (const struct probe_cell *)gathering_set(c, set));
	return t;
}

uint64_t gathering_slots(const struct gathering *c, size_t field)
{
	uint64_t total = 0;

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		total += *(const uint64_t *)(c->host.slots + ((size_t)set << HOST_SLOTS_SHIFT) +
					     HOST_SLOT_OFFSET + field);
	return total;
}

uint64_t gathering_ticks(void)
{
	return arch_process()->counter();
}
