/* SPDX-License-Identifier: MIT */
/*
 * Stubs that gather: cells, tables of keys, pairs of begin and end, sampling,
 * flight recorders. By one thread, and by many with a storm of signals.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stub_host.h"

enum {
	CELL = 1 << 12,
	CELL_BYTES = sizeof(struct probe_cell) + 8 * CELL_BUCKETS,
	ENTRIES = 64,
	STRING_MAX = 40,
	THREADS = 8,
	HITS = 50000,
	OWNER = 5,
	PAIR = 3,
	DEPTH = 100,
	FLIGHTS = 64,
	FLIGHT_BYTES = (sizeof(struct probe_flight) + 8 * DEPTH + 63) / 64 * 64,
	STORM_NS = 150000
};

static const struct arch_capture by_register[] = {
	{.arg = {.kind = ARCH_ARG_REGISTER, .size = 8, .width = 8, .base = 7, .index = -1}},
	{.arg = {.kind = ARCH_ARG_REGISTER, .size = 8, .width = 8, .base = 6, .index = -1}},
	{.arg = {.kind = ARCH_ARG_REGISTER, .size = 8, .width = 8, .base = 7, .index = -1},
		.is_string = true,
		.bytes_max = STRING_MAX}};
static const struct arch_expr_node first_node = {ARCH_EXPR_CAPTURE, true, false, 0, 0, 0, 0, 0, 0};
static const struct arch_expr_node second_node = {ARCH_EXPR_CAPTURE, true, false, 0, 0, 1, 0, 0, 0};
static const struct arch_expr first = {&first_node, 1}, second = {&second_node, 1};

struct crowd {
	struct stub_host host;
	stub_host_site *site, *end;
	uint8_t *flights;
	int phase;
	atomic_ulong signals;
};
static __thread struct crowd *current;

static int setup(void **state)
{
	struct crowd *c = calloc(1, sizeof(*c));

	stub_host_init(&c->host, true);
	c->flights = calloc(FLIGHTS, FLIGHT_BYTES);
	*state = c;
	return 0;
}

static int teardown(void **state)
{
	struct crowd *c = *state;

	stub_host_deinit(&c->host);
	free(c->flights);
	free(c);
	return 0;
}

static struct arch_stub gather_stub(const struct crowd *c, bool has_rseq, unsigned int parts)
{
	struct arch_stub stub = stub_host_stub(&c->host, has_rseq);

	stub.kind = ARCH_STUB_GATHER;
	stub.captures = by_register;
	stub.capture_count = 3;
	stub.gather = (struct arch_gather){.parts = parts, .value = &first, .cell = CELL};
	return stub;
}

static void add_keys(struct arch_stub *stub, bool string)
{
	struct arch_gather *g = &stub->gather;

	g->keys[0] = string ? (struct arch_key){.string = 2} : (struct arch_key){.number = &second};
	g->key_count = 1;
	g->owner = OWNER;
	g->entries = ENTRIES;
	g->entry_cell = 24 + (string ? STRING_MAX : 0);
	g->entry_bytes = (g->entry_cell + CELL_BYTES + 63) / 64 * 64;
}

static uint8_t *set_at(const struct crowd *c, uint32_t set)
{
	return c->host.slots + ((size_t)set << HOST_SLOTS_SHIFT) + CELL;
}

/* What all sets have gathered; with_key: in entries whose word (and bytes) are these. */
struct totals {
	uint64_t count, sum, most, least, last, last_time, bucketed, entries;
	uint64_t buckets[CELL_BUCKETS];
};

static void add_cell(struct totals *t, const struct probe_cell *cell)
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

static struct totals plain_totals(const struct crowd *c)
{
	struct totals t = {0};

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		add_cell(&t, (const struct probe_cell *)set_at(c, set));
	return t;
}

static struct totals key_totals(
	const struct crowd *c, const struct arch_gather *g, uint64_t word, const char *bytes)
{
	struct totals t = {0};

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		for (uint32_t i = 0; i < g->entries; i++) {
			const uint8_t *entry = set_at(c, set) + (size_t)i * g->entry_bytes;
			uint64_t head[3];

			memcpy(head, entry, sizeof(head));
			if (!head[0] || head[2] != word ||
				(bytes && memcmp(entry + 24, bytes, (uint32_t)word)))
				continue;
			assert_int_equal(head[0] & 1, 1);
			assert_int_equal(head[1], OWNER);
			t.entries++;
			add_cell(&t, (const struct probe_cell *)(entry + g->entry_cell));
		}
	return t;
}

static uint32_t entries_used(const struct crowd *c, const struct arch_gather *g)
{
	uint32_t used = 0;

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		for (uint32_t i = 0; i < g->entries; i++)
			used += *(const uint64_t *)(set_at(c, set) + (size_t)i * g->entry_bytes) !=
				0;
	return used;
}

static uint64_t slot_sum(const struct crowd *c, size_t field)
{
	uint64_t total = 0;

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		total += *(const uint64_t *)(c->host.slots + ((size_t)set << HOST_SLOTS_SHIFT) +
					     HOST_SLOT_OFFSET + field);
	return total;
}

/* ---- Threads ------------------------------------------------------------------------ */

typedef void work(struct crowd *c, uint64_t number);

struct worker {
	struct crowd *crowd;
	work *work;
	bool storm;
};
static __thread work *handler_work;

static void on_signal(int signal)
{
	int saved = errno;

	(void)signal;
	handler_work(current, atomic_fetch_add(&current->signals, 1));
	errno = saved;
}

static void *working(void *data)
{
	struct worker *w = data;
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGALRM};
	struct itimerspec every = {{0, STORM_NS}, {0, STORM_NS}};
	timer_t timer = NULL;

	current = w->crowd;
	handler_work = w->work;
	if (w->storm) {
		event._sigev_un._tid = gettid();
		assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
		assert_int_equal(timer_settime(timer, 0, &every, NULL), 0);
	}
	for (uint64_t i = 0; i < HITS; i++)
		w->work(w->crowd, i);
	if (w->storm)
		timer_delete(timer);
	return NULL;
}

static void run(struct crowd *c, work *work, bool storm)
{
	struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
	struct worker worker = {c, work, storm};
	pthread_t threads[THREADS];

	c->signals = 0;
	assert_int_equal(sigaction(SIGALRM, &act, &before), 0);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, working, &worker), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
}

/* ---- Cells -------------------------------------------------------------------------- */

static void cells(void **state)
{
	static const uint64_t values[] = {0, 1, 31, 32, 63, 64, 65, 1000, 123456789, UINT64_MAX,
		UINT64_C(1) << 63, (UINT64_C(1) << 63) - 1, (uint64_t)-5};
	struct crowd *c = *state;

	for (int variant = 0; variant < 4; variant++) {
		bool is_signed = variant & 1, rseq = variant & 2;
		struct arch_stub stub = gather_stub(c, rseq,
			ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_LAST |
				ARCH_GATHER_BUCKETS);
		struct totals t;
		uint64_t sum = 0, bias = is_signed ? CELL_BIAS : 0, most = 0, least = 0;

		stub.gather.is_signed = is_signed;
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
			uint64_t biased = values[i] + bias;

			c->site(values[i], 0, 0);
			sum += values[i];
			most = biased > most ? biased : most;
			least = ~biased > least ? ~biased : least;
		}
		t = plain_totals(c);
		assert_int_equal(t.sum, sum);
		assert_int_equal(t.most, most);
		assert_int_equal(t.least, least);
		assert_int_equal(t.last, (uint64_t)-5);
		assert_int_equal(t.bucketed, sizeof(values) / sizeof(*values));
		assert_int_equal(t.count, 0);
		assert_int_equal(t.buckets[0], 1);
		assert_int_equal(t.buckets[31], 1);
		assert_int_equal(t.buckets[32], 1);
		assert_int_equal(t.buckets[63], 1);
		assert_int_equal(t.buckets[64], 2);
		assert_int_equal(t.buckets[4 * 32 + (1000 >> 4)], 1);
		assert_int_equal(t.buckets[CELL_NEGATIVE], is_signed ? 3 : 0);
		assert_int_equal(t.buckets[CELL_NEGATIVE - 1], is_signed ? 0 : 2);
		stub_host_reset(&c->host);
		stub.gather.parts = 0;
		c->site = stub_host_emit_site(&c->host, &stub);
		for (int i = 0; i < 7; i++)
			c->site(1, 0, 0);
		assert_int_equal(plain_totals(c).count, 7);
	}
}

static void hit_number(struct crowd *c, uint64_t number)
{
	c->site(number % 1000, number % 10, 0);
}

/* The sum of number % 1000 below `hits`. */
static uint64_t sum_below(uint64_t hits)
{
	uint64_t rest = hits % 1000;

	return hits / 1000 * 499500 + rest * (rest - (rest > 0)) / 2;
}

static void cells_by_many(void **state)
{
	struct crowd *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = gather_stub(
			c, rseq, ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_BUCKETS);
		struct totals t;

		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		run(c, hit_number, true);
		t = plain_totals(c);
		assert_int_equal(t.bucketed, (uint64_t)THREADS * HITS + c->signals);
		assert_int_equal(t.sum, THREADS * sum_below(HITS) + sum_below(c->signals));
		assert_int_equal(t.most, 999);
		assert_int_equal(~t.least, 0);
	}
}

/* ---- Keys ----------------------------------------------------------------------------- */

static void number_keys(void **state)
{
	struct crowd *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = gather_stub(c, rseq, ARCH_GATHER_SUM | ARCH_GATHER_BUCKETS);
		uint64_t count = 0, sum = 0;

		add_keys(&stub, false);
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		run(c, hit_number, true);
		for (uint64_t key = 0; key < 10; key++) {
			struct totals t = key_totals(c, &stub.gather, key, NULL);

			assert_true(t.entries > 0);
			assert_true(t.bucketed >= (uint64_t)THREADS * HITS / 10);
			count += t.bucketed;
			sum += t.sum;
			for (uint64_t v = 0; v < 32; v++)
				assert_true(v % 10 == key ? t.buckets[v] > 0 : !t.buckets[v]);
		}
		assert_int_equal(count, (uint64_t)THREADS * HITS + c->signals);
		assert_int_equal(sum, THREADS * sum_below(HITS) + sum_below(c->signals));
		assert_int_equal(slot_sum(c, offsetof(struct probe_slot, lost)), 0);
		/* In a set of its own nobody comes in between. */
		if (rseq)
			assert_true(entries_used(c, &stub.gather) <= 10 * c->host.cpus);
	}
}

static const char *const names[] = {"", "a", "ab", "abcdefg", "abcdefgh", "abcdefghi",
	"sixteen letters!", "sixteen letters?", "a string that is longer than is kept, and is cut"};
enum { NAMES = sizeof(names) / sizeof(*names) };

static void hit_name(struct crowd *c, uint64_t number)
{
	c->site((uintptr_t)names[number % NAMES], 0, 0);
}

static void string_keys(void **state)
{
	struct crowd *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = gather_stub(c, rseq, 0);
		uint64_t total = 0;

		stub.gather.value = NULL;
		add_keys(&stub, true);
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		run(c, hit_name, true);
		for (size_t i = 0; i < NAMES; i++) {
			uint64_t word = strlen(names[i]);
			struct totals t;

			if (word > STRING_MAX)
				word = STRING_MAX | UINT64_C(1) << RING_STRING_TRUNCATED_BIT;
			t = key_totals(c, &stub.gather, word, names[i]);
			assert_true(t.count >= (uint64_t)THREADS * HITS / NAMES);
			total += t.count;
		}
		assert_int_equal(total, (uint64_t)THREADS * HITS + c->signals);
		c->site(8, 0, 0); /* no string: a key of its own */
		assert_int_equal(
			key_totals(c, &stub.gather, UINT64_C(1) << RING_STRING_NULL_BIT, NULL)
				.count,
			1);
	}
}

static void full_tables(void **state)
{
	struct crowd *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = gather_stub(c, rseq, 0);
		uint64_t kept = 0, lost;

		stub.gather.value = NULL;
		add_keys(&stub, false);
		stub_host_reset(&c->host);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (uint64_t key = 0; key < 10000; key++)
			c->site(0, key, 0);
		for (uint64_t key = 0; key < 10000; key++)
			kept += key_totals(c, &stub.gather, key, NULL).count;
		lost = slot_sum(c, offsetof(struct probe_slot, lost));
		assert_int_equal(kept + lost, 10000);
		assert_true(kept >= TABLE_PROBES_MAX && kept <= (uint64_t)ENTRIES * c->host.cpus);
	}
}

/* ---- Pairs ---------------------------------------------------------------------------- */

static void emit_pair(struct crowd *c, bool rseq, const struct arch_expr *match, uint32_t depth)
{
	struct arch_stub stub =
		gather_stub(c, rseq, ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_BUCKETS);

	stub_host_reset(&c->host);
	memset(c->flights, 0, (size_t)FLIGHTS * FLIGHT_BYTES);
	stub.gather.value = NULL;
	stub.flights = (struct arch_flights){.table = (uintptr_t)c->flights,
		.entries = FLIGHTS,
		.depth = depth,
		.pair = PAIR,
		.match = match};
	c->end = stub_host_emit_site(&c->host, &stub);
	stub.kind = ARCH_STUB_BEGIN;
	c->site = stub_host_emit_site(&c->host, &stub);
}

static uint64_t in_flight(const struct crowd *c)
{
	uint64_t total = 0;

	for (int i = 0; i < FLIGHTS; i++) {
		const struct probe_flight *f =
			(const struct probe_flight *)(c->flights + (size_t)i * FLIGHT_BYTES);

		assert_int_not_equal(f->state, FLIGHT_TAKEN);
		if (f->state == FLIGHT_PAIR + PAIR)
			total += f->depth;
	}
	return total;
}

static uint64_t unmatched(const struct crowd *c)
{
	return slot_sum(c, offsetof(struct probe_slot, unmatched));
}

static uint64_t ticks(void)
{
	return __builtin_ia32_rdtsc();
}

static void wait_ticks(uint64_t n)
{
	for (uint64_t start = ticks(); ticks() - start < n;)
		;
}

static void pairs_by_thread(void **state)
{
	struct crowd *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct totals t;
		uint64_t start;

		emit_pair(c, rseq, NULL, DEPTH);
		c->end(0, 0, 0); /* nothing has begun */
		assert_int_equal(unmatched(c), 1);
		start = ticks();
		c->site(0, 0, 0);
		wait_ticks(100000);
		c->site(0, 0, 0); /* one within the other */
		assert_int_equal(in_flight(c), 2);
		wait_ticks(50000);
		c->end(0, 0, 0);
		t = plain_totals(c);
		assert_true(t.most >= 50000 && t.most < 100000);
		c->end(0, 0, 0);
		t = plain_totals(c);
		assert_true(t.most >= 150000 && t.most <= ticks() - start);
		assert_true(~t.least >= 50000 && ~t.least < t.most);
		assert_int_equal(t.sum, t.most + ~t.least);
		assert_int_equal(t.bucketed, 2);
		assert_int_equal(in_flight(c), 0);
		c->end(0, 0, 0);
		assert_int_equal(unmatched(c), 2);
		for (int i = 0; i < DEPTH + 5; i++)
			c->site(0, 0, 0);
		assert_int_equal(in_flight(c), DEPTH);
		assert_int_equal(slot_sum(c, offsetof(struct probe_slot, lost)), 5);
		for (int i = 0; i < DEPTH + 5; i++)
			c->end(0, 0, 0);
		assert_int_equal(unmatched(c), 7);
		assert_int_equal(plain_totals(c).bucketed, DEPTH + 2);
	}
}

/* Three deep, in threads and in the handlers that interrupt them. */
static void nest(struct crowd *c, uint64_t number)
{
	c->site(number, 0, 0);
	c->site(number, 0, 0);
	c->end(number, 0, 0);
	c->site(number, 0, 0);
	c->end(number, 0, 0);
	c->end(number, 0, 0);
}

static void pairs_by_many_threads(void **state)
{
	struct crowd *c = *state;

	emit_pair(c, true, NULL, DEPTH);
	run(c, nest, true);
	assert_int_equal(plain_totals(c).bucketed, 3 * ((uint64_t)THREADS * HITS + c->signals));
	assert_int_equal(unmatched(c), 0);
	assert_int_equal(in_flight(c), 0);
	assert_int_equal(slot_sum(c, offsetof(struct probe_slot, lost)), 0);
	emit_pair(c, false, NULL, DEPTH);
	run(c, nest, false);
	assert_int_equal(plain_totals(c).bucketed, 3 * (uint64_t)THREADS * HITS);
	assert_int_equal(unmatched(c), 0);
	assert_int_equal(in_flight(c), 0);
}

/* A thread that takes over a dead one's thread pointer does not take over its begins. */
static void *begin_only(void *data)
{
	((struct crowd *)data)->site(0, 0, 0);
	return NULL;
}

static void *end_only(void *data)
{
	((struct crowd *)data)->end(0, 0, 0);
	return NULL;
}

static void pairs_of_dead_threads(void **state)
{
	struct crowd *c = *state;
	void *(*const bodies[])(void *) = {begin_only, end_only, begin_only, end_only};

	if (!c->host.thread.has_tid)
		skip();
	emit_pair(c, true, NULL, DEPTH);
	for (int i = 0; i < 4; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, bodies[i], c), 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(plain_totals(c).bucketed, 0);
	assert_int_equal(unmatched(c), 2);
}

/* Begun here, ended by another thread. */
static void *end_keys(void *data)
{
	struct crowd *c = data;

	for (uint64_t key = 0; key < 8; key++)
		c->end(key, 0, 0);
	return NULL;
}

static void pairs_by_key(void **state)
{
	struct crowd *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		pthread_t thread;

		emit_pair(c, rseq, &first, 4);
		for (uint64_t key = 0; key < 8; key++)
			c->site(key, 0, 0);
		assert_int_equal(pthread_create(&thread, NULL, end_keys, c), 0);
		pthread_join(thread, NULL);
		assert_int_equal(plain_totals(c).bucketed, 8);
		assert_int_equal(unmatched(c), 0);
		c->end(3, 0, 0);
		assert_int_equal(unmatched(c), 1);
		for (int i = 0; i < 5; i++)
			c->site(3, 0, 0);
		assert_int_equal(slot_sum(c, offsetof(struct probe_slot, lost)), 1);
		for (int i = 0; i < 5; i++)
			c->end(3, 0, 0);
		assert_int_equal(unmatched(c), 2);
		assert_int_equal(in_flight(c), 0);
		assert_int_equal(plain_totals(c).bucketed, 12);
	}
}

/* Many keys come and go in a small table, each within one call. */
static void come_and_go(struct crowd *c, uint64_t number)
{
	uint64_t key = (uint64_t)gettid() << 32 | (number & 0xffff);

	c->site(key, 0, 0);
	c->end(key, 0, 0);
}

static void pairs_by_many_keys(void **state)
{
	struct crowd *c = *state;
	uint64_t done, lost;

	emit_pair(c, true, &first, 4);
	run(c, come_and_go, false);
	done = plain_totals(c).bucketed;
	lost = slot_sum(c, offsetof(struct probe_slot, lost));
	assert_int_equal(done + unmatched(c), (uint64_t)THREADS * HITS);
	assert_true(unmatched(c) <= lost);
	assert_int_equal(in_flight(c), 0);
}

/* ---- Sampling ---------------------------------------------------------------------------- */

static void sampling(void **state)
{
	struct crowd *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct arch_stub stub = stub_host_stub(&c->host, rseq);
		uint64_t taken;

		stub_host_reset(&c->host);
		stub.every = 10;
		c->site = stub_host_emit_site(&c->host, &stub);
		for (int i = 0; i < 1000; i++)
			c->site(0, 0, 0);
		taken = stub_host_hits(&c->host);
		assert_true(taken <= 100 && taken + c->host.cpus >= 100);
		stub_host_reset(&c->host);
		stub.every = 0;
		stub.rate = 7;
		stub.rate_ticks = UINT64_C(1) << 40; /* some minutes */
		stub.rate_word = (uintptr_t)c->flights;
		memset(c->flights, 0, 8);
		c->site = stub_host_emit_site(&c->host, &stub);
		for (int i = 0; i < 1000; i++)
			c->site(0, 0, 0);
		taken = stub_host_hits(&c->host); /* the window may end just then */
		assert_true(taken == 7 || taken == 14);
		stub_host_reset(&c->host);
		stub.rate_ticks = 1000000;
		c->site = stub_host_emit_site(&c->host, &stub);
		for (uint64_t start = ticks(); ticks() - start < 20000000;)
			c->site(0, 0, 0);
		taken = stub_host_hits(&c->host);
		assert_true(taken >= 14);
	}
}

static void rate_by_many(void **state)
{
	struct crowd *c = *state;
	struct arch_stub stub = stub_host_stub(&c->host, true);

	stub_host_reset(&c->host);
	stub.rate = 1000;
	stub.rate_ticks = UINT64_C(1) << 50;
	stub.rate_word = (uintptr_t)c->flights;
	memset(c->flights, 0, 8);
	c->site = stub_host_emit_site(&c->host, &stub);
	run(c, hit_number, true);
	assert_int_equal(stub_host_hits(&c->host), 1000);
}

/* ---- Flight recorders ---------------------------------------------------------------------- */

/* Walks a ring backwards; returns how many records it has, which must be 8 bytes apart in value. */
static uint64_t walk_back(const struct crowd *c, uint32_t number, uint64_t *newest_ret)
{
	const struct ring_header *ring = stub_host_ring(&c->host, number);
	const uint8_t *data = (const uint8_t *)(ring + 1);
	uint64_t at = ring->head, count = 0, previous = UINT64_MAX, time = UINT64_MAX;

	for (;;) {
		uint64_t back, word;
		struct ring_record record;

		memcpy(&back, data + (at & (HOST_RING_BYTES - 1)), sizeof(back));
		if (back >= at || ring->head - back > HOST_RING_BYTES)
			return count;
		memcpy(&record, data + (back & (HOST_RING_BYTES - 1)) + 8, sizeof(record));
		memcpy(&word, data + (back & (HOST_RING_BYTES - 1)) + 8 + sizeof(record),
			sizeof(word));
		assert_int_equal(record.site, (uint32_t)HOST_SITE);
		assert_true(record.time <= time);
		if (count == 0)
			*newest_ret = word;
		else
			assert_true(word < previous);
		time = record.time;
		previous = word;
		at = back;
		count++;
	}
}

static void flight_recorders(void **state)
{
	struct crowd *c = *state;

	for (int variant = 0; variant < 4; variant++) {
		bool rseq = variant & 1, with_string = variant & 2;
		struct arch_stub stub = stub_host_stub(&c->host, rseq);
		uint64_t kept = 0, newest = 0;
		struct arch_capture captures[2] = {by_register[0], by_register[2]};

		captures[1].arg.base = 6;
		stub_host_reset(&c->host);
		stub.kind = ARCH_STUB_RECORD;
		stub.overwrite = true;
		stub.captures = captures;
		stub.capture_count = stub.recorded = with_string ? 2 : 1;
		c->site = stub_host_emit_site(&c->host, &stub);
		for (uint64_t i = 0; i < 100000; i++)
			c->site(i, (uintptr_t)names[i % NAMES], 0);
		for (uint32_t ring = 0; ring < stub_host_ring_count(&c->host); ring++) {
			uint64_t last = 0, count = walk_back(c, ring, &last);

			kept += count;
			newest = last > newest ? last : newest;
		}
		assert_int_equal(newest, 99999);
		assert_true(kept > HOST_RING_BYTES / 120);
		assert_int_equal(stub_host_lost(&c->host), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(cells, setup, teardown),
		cmocka_unit_test_setup_teardown(cells_by_many, setup, teardown),
		cmocka_unit_test_setup_teardown(number_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(string_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(full_tables, setup, teardown),
		cmocka_unit_test_setup_teardown(pairs_by_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(pairs_by_many_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(pairs_of_dead_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(pairs_by_key, setup, teardown),
		cmocka_unit_test_setup_teardown(pairs_by_many_keys, setup, teardown),
		cmocka_unit_test_setup_teardown(sampling, setup, teardown),
		cmocka_unit_test_setup_teardown(rate_by_many, setup, teardown),
		cmocka_unit_test_setup_teardown(flight_recorders, setup, teardown),
	};

#ifndef __x86_64__
	return 77; /* these stubs only run on x86-64 */
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
