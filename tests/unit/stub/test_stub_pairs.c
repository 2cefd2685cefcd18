/* SPDX-License-Identifier: MIT */
/*
 * Stubs of begins and ends, by thread and by key, in one thread, and in many under a storm of
 * signals; for one process, and where forked children share the table.
 */
/* Not under ThreadSanitizer: it knows no code that we make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/skip.h"
#include "tests/unit/stub/stub_gathering.h"

enum {
	PAIR = 3,
	DEPTH = 128,
	FLIGHTS = 64,
	COMPARED_FLIGHTS = 16,
	COMPARED_DEPTH = 64,
	KEEP = 16,   /* of each begin, where an end holds its begin */
	NESTS = 4000 /* six hits each */
};
#define FLIGHT_BYTES(depth, words)                                                                 \
	((sizeof(struct probe_flight) + 8 * (words) * (depth) + 63) / 64 * 64)
_Static_assert(FLIGHTS *FLIGHT_BYTES(DEPTH, 1) <= GATHERING_EXTRA_BYTES, "there is room");
_Static_assert(COMPARED_FLIGHTS *FLIGHT_BYTES(COMPARED_DEPTH, 4) <= GATHERING_EXTRA_BYTES,
	"there is room");

/* The number of the process, and the last that was given out. */
static uint32_t process, processes;
static uint32_t entries = FLIGHTS;
static size_t flight_bytes; /* of one entry */

static void emit_matched(struct gathering *c, bool rseq, bool forks, const struct arch_expr *match,
	uint32_t text, uint32_t depth)
{
	struct arch_stub stub = gathering_stub(
		c, rseq, ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_BUCKETS);

	stub_host_reset(&c->host);
	/* The text, and its word, are behind the times. */
	flight_bytes = FLIGHT_BYTES(depth + (text ? 1 + text / 8 : 0), 1);
	memset(c->extra, 0, FLIGHTS * flight_bytes);
	stub.actions[0].gather.value = NULL;
	stub.actions[0].flights = (struct arch_flights){.table = (uintptr_t)c->extra,
		.entries = entries,
		.depth = depth,
		.pair = PAIR,
		.match = match,
		.text = text,
		.string = 2};
	if (forks) {
		stub.actions[0].flights.process = (uintptr_t)&process;
		stub.actions[0].flights.processes = (uintptr_t)&processes;
	}
	process = processes = 1;
	c->end = stub_host_emit_site(&c->host, &stub);
	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	c->site = stub_host_emit_site(&c->host, &stub);
}

static void emit_pair(
	struct gathering *c, bool rseq, bool forks, const struct arch_expr *match, uint32_t depth)
{
	emit_matched(c, rseq, forks, match, 0, depth);
}

enum { BY_FRAME = UINT8_MAX };

/*
 * Begins and ends that are compared by a capture, the number, or the text that it points to; or by
 * the address that is the first argument.
 */
static void emit_compared(struct gathering *c, int kind, uint8_t capture)
{
	struct arch_stub stub = gathering_stub(
		c, kind & 1, ARCH_GATHER_SUM | ARCH_GATHER_EXTREMES | ARCH_GATHER_BUCKETS);
	bool keeps = kind & 4;

	stub_host_reset(&c->host);
	flight_bytes = FLIGHT_BYTES(COMPARED_DEPTH, keeps ? 2 + KEEP / 8 : 2);
	memset(c->extra, 0, COMPARED_FLIGHTS * flight_bytes);
	stub.actions[0].gather.value = NULL;
	stub.actions[0].flights = (struct arch_flights){.table = (uintptr_t)c->extra,
		.entries = COMPARED_FLIGHTS,
		.depth = COMPARED_DEPTH,
		.pair = PAIR,
		.keep = keeps ? KEEP : 0,
		.identities = true,
		.compares = true,
		.same = {capture},
		.same_count = 1};
	if (capture == BY_FRAME) {
		stub.actions[0].flights.same_count = 0;
		stub.actions[0].flights.frame = (struct arch_arg){.kind = ARCH_ARG_MEMORY,
			.size = 8,
			.base = stub_host_argument(0).arg.base,
			.index = ARCH_REG_NONE,
			.disp = -8};
	}
	if (kind & 2) {
		stub.actions[0].flights.process = (uintptr_t)&process;
		stub.actions[0].flights.processes = (uintptr_t)&processes;
	}
	process = processes = 1;
	c->end = stub_host_emit_site(&c->host, &stub);
	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	c->site = stub_host_emit_site(&c->host, &stub);
}

static const struct probe_flight *flight(const struct gathering *c, size_t i)
{
	return (const struct probe_flight *)(c->extra + i * flight_bytes);
}

static uint64_t in_flight(const struct gathering *c)
{
	uint64_t total = 0;

	for (size_t i = 0; i < FLIGHTS && (i + 1) * flight_bytes <= GATHERING_EXTRA_BYTES; i++) {
		const struct probe_flight *f = flight(c, i);

		assert_int_not_equal(f->state, FLIGHT_TAKEN);
		if (f->state == FLIGHT_PAIR + PAIR)
			total += f->depth;
	}
	return total;
}

static uint64_t unmatched(const struct gathering *c)
{
	return gathering_slots(c, offsetof(struct probe_slot, unmatched));
}

static void wait_ticks(uint64_t n)
{
	for (uint64_t start = gathering_ticks(); gathering_ticks() - start < n;)
		;
}

static void pairs_by_thread(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 4; kind++) {
		struct totals t;
		uint64_t start, middle;

		emit_pair(c, kind & 1, kind & 2, NULL, DEPTH);
		c->end(0, 0, 0); /* nothing has begun */
		assert_int_equal(unmatched(c), 1);
		start = gathering_ticks();
		c->site(0, 0, 0);
		wait_ticks(100000);
		middle = gathering_ticks();
		c->site(0, 0, 0); /* nested */
		assert_int_equal(in_flight(c), 2);
		wait_ticks(50000);
		c->end(0, 0, 0);
		t = gathering_totals(c);
		assert_true(t.most >= 50000 && t.most <= gathering_ticks() - middle);
		c->end(0, 0, 0);
		t = gathering_totals(c);
		assert_true(t.most >= 150000 && t.most <= gathering_ticks() - start);
		assert_true(~t.least >= 50000 && ~t.least < t.most);
		assert_int_equal(t.sum, t.most + ~t.least);
		assert_int_equal(t.bucketed, 2);
		assert_int_equal(in_flight(c), 0);
		c->end(0, 0, 0);
		assert_int_equal(unmatched(c), 2);
		for (int i = 0; i < DEPTH + 5; i++)
			c->site(0, 0, 0);
		assert_int_equal(in_flight(c), DEPTH + 5);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
		for (int i = 0; i < DEPTH + 5; i++)
			c->end(0, 0, 0);
		assert_int_equal(unmatched(c), 7);
		assert_int_equal(gathering_totals(c).bucketed, DEPTH + 2);
	}
}

/* Begins whose ends never come, as a program leaves them by longjmp(3), cost the others nothing. */
static void abandoned(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 8; kind++) {
		const int rounds = 3 * DEPTH;

		emit_pair(c, kind & 1, kind & 2, kind & 4 ? &gathering_first : NULL, DEPTH);
		for (int i = 0; i < rounds; i++) {
			c->site(7, 0, 0);
			c->site(7, 0, 0);
			c->end(7, 0, 0);
		}
		assert_int_equal(gathering_totals(c).bucketed, rounds);
		assert_int_equal(in_flight(c), rounds);
		/* The newest of them are left; the last one that has ended took a place more. */
		for (int i = 0; i < rounds; i++)
			c->end(7, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, rounds + DEPTH - 1);
		assert_int_equal(unmatched(c), rounds - (DEPTH - 1));
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
		assert_int_equal(in_flight(c), 0);
	}
}

static struct probe_flight *own_flight(const struct gathering *c)
{
	for (size_t i = 0; i < COMPARED_FLIGHTS; i++)
		if (flight(c, i)->state == FLIGHT_PAIR + PAIR)
			return (struct probe_flight *)flight(c, i);
	fail_msg("there is no entry");
	return NULL;
}

/* The end with a number belongs to the newest begin with it, whatever has begun since. */
static void compared(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 8; kind++) {
		struct totals t;

		emit_compared(c, kind, 0);
		c->site(1, 0, 0);
		wait_ticks(100000);
		c->site(2, 0, 0);
		c->end(1, 0, 0); /* of the older one */
		t = gathering_totals(c);
		assert_int_equal(t.bucketed, 1);
		assert_true(t.most >= 100000);
		assert_int_equal(own_flight(c)->depth, 2); /* the newest is open */
		assert_int_equal(own_flight(c)->times[0], 0);
		c->end(3, 0, 0);
		c->end(1, 0, 0);
		assert_int_equal(unmatched(c), 2);
		assert_int_equal(gathering_totals(c).bucketed, 1);
		c->end(2, 0, 0); /* what had ended before is uncounted with it */
		t = gathering_totals(c);
		assert_int_equal(t.bucketed, 2);
		assert_int_equal(own_flight(c)->depth, 0);

		/* The same number twice: the newer one ends first. */
		c->site(1, 0, 0);
		wait_ticks(100000);
		c->site(1, 0, 0);
		own_flight(c)->times[1] = gathering_ticks() - 7;
		c->end(1, 0, 0);
		assert_int_equal(own_flight(c)->depth, 1);
		c->end(1, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, 4);
		assert_int_equal(own_flight(c)->depth, 0);
		c->end(1, 0, 0);
		assert_int_equal(unmatched(c), 3);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
	}
}

/* Begins that have lost their places, and begins without ends. */
static void compared_beyond_the_places(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 8; kind++) {
		const int rounds = 3 * COMPARED_DEPTH;

		emit_compared(c, kind, 0);
		for (int i = 0; i < COMPARED_DEPTH + 5; i++)
			c->site(1, 0, 0);
		for (int i = 0; i < COMPARED_DEPTH + 5; i++)
			c->end(1, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, COMPARED_DEPTH);
		assert_int_equal(unmatched(c), 5);
		assert_int_equal(own_flight(c)->depth, 0);
		for (int i = 0; i < rounds; i++) {
			c->site(1, 0, 0);
			c->site(2, 0, 0); /* abandoned */
			c->end(1, 0, 0);
		}
		assert_int_equal(gathering_totals(c).bucketed, COMPARED_DEPTH + rounds);
		assert_int_equal(unmatched(c), 5);
		for (int i = 0; i < COMPARED_DEPTH; i++)
			c->end(2, 0, 0);
		assert_int_equal(
			gathering_totals(c).bucketed, COMPARED_DEPTH + rounds + COMPARED_DEPTH / 2);
		assert_int_equal(own_flight(c)->depth, 0);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
	}
}

/* A call of a function ends with its frame. Calls that a jump has left are unmatched. */
static void compared_by_frame(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 8; kind++) {
		emit_compared(c, kind, BY_FRAME);
		c->end(5000, 0, 0);
		assert_int_equal(unmatched(c), 1);
		for (int i = 0; i < 3 * COMPARED_DEPTH; i++)
			c->site(4000, 0, 0); /* is left, with the same frame again */
		assert_in_range(own_flight(c)->depth, 1, 2);
		assert_int_equal(unmatched(c), 3 * COMPARED_DEPTH);
		c->end(4008, 0, 0); /* another frame */
		assert_int_equal(unmatched(c), 3 * COMPARED_DEPTH + 1);
		c->end(4000, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, 1);
		assert_int_equal(own_flight(c)->depth, 0);
		c->end(4000, 0, 0);
		assert_int_equal(unmatched(c), 3 * COMPARED_DEPTH + 2);

		/* On another stack, ends come in another order. */
		c->site(4000, 0, 0);
		c->site(9000, 0, 0);
		c->site(3000, 0, 0);
		c->end(9000, 0, 0);
		c->end(3000, 0, 0);
		c->site(3000, 0, 0);
		c->end(4000, 0, 0);
		c->end(3000, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, 5);
		assert_int_equal(own_flight(c)->depth, 0);

		/* Each place that is used again has lost its start event. */
		for (uint64_t i = 0; i < COMPARED_DEPTH + 5; i++)
			c->site(4000 - 8 * i, 0, 0);
		assert_int_equal(unmatched(c), 3 * COMPARED_DEPTH + 7);
		for (uint64_t i = COMPARED_DEPTH + 5; i-- > 0;)
			c->end(4000 - 8 * i, 0, 0);
		assert_int_equal(unmatched(c), 3 * COMPARED_DEPTH + 12);
		assert_int_equal(gathering_totals(c).bucketed, 5 + COMPARED_DEPTH);
		assert_int_equal(own_flight(c)->depth, 0);
	}
}

/* Sites of a function's exits in others. The first argument is the frame. */
struct tail {
	stub_host_site *call, *entry, *jump, *end;
};

static uint32_t *marks_of(const struct gathering *c)
{
	return &((struct probe_slot *)(c->host.slots + HOST_SLOT_OFFSET))->marks;
}

static struct tail emit_tail(struct gathering *c, bool rseq)
{
	struct arch_stub stub = gathering_stub(c, rseq, ARCH_GATHER_SUM);
	struct arch_action gather = stub.actions[0], *mark = &stub.actions[0];
	struct tail ret;

	stub_host_reset(&c->host);
	flight_bytes = FLIGHT_BYTES(COMPARED_DEPTH, 2);
	memset(c->extra, 0, COMPARED_FLIGHTS * flight_bytes);
	mark->flights = (struct arch_flights){.table = (uintptr_t)c->extra,
		.entries = COMPARED_FLIGHTS,
		.depth = COMPARED_DEPTH,
		.pair = PAIR,
		.identities = true,
		.compares = true,
		.marks = (uintptr_t)marks_of(c),
		.frame = {.kind = ARCH_ARG_MEMORY,
			.size = 8,
			.base = stub_host_argument(0).arg.base,
			.index = ARCH_REG_NONE,
			.disp = INT64_C(3) << 48}};
	mark->kind = ARCH_ACTION_BEGIN;
	ret.call = stub_host_emit_site(&c->host, &stub);
	mark->kind = ARCH_ACTION_TAIL_ENTRY;
	ret.entry = stub_host_emit_site(&c->host, &stub);
	mark->kind = ARCH_ACTION_TAIL_JUMP;
	ret.jump = stub_host_emit_site(&c->host, &stub);
	mark->kind = ARCH_ACTION_TAIL_RETURN;
	stub.actions[stub.action_count++] = gather;
	ret.end = stub_host_emit_site(&c->host, &stub);
	return ret;
}

/* A function that ends in others: their returns count only in its own frame, in the same call. */
static void tail_calls(void **state)
{
	struct gathering *c = *state;

	for (int rseq = 0; rseq < 2; rseq++) {
		struct tail t = emit_tail(c, rseq);
		const struct {
			stub_host_site *at;
			uint64_t frame;
			uint64_t ends; /* number of returns so far */
				       /* clang-format off */
		} steps[] = {
			{t.entry, 4000, 0}, {t.end, 4000, 0}, /* called by others */
			{t.call, 4000, 0}, {t.entry, 4000, 0}, {t.end, 3000, 0},
			{t.end, 4000, 1}, {t.end, 4000, 1},
			/* by way of another function */
			{t.call, 4000, 1}, {t.entry, 4000, 1}, {t.jump, 4000, 1},
			{t.entry, 4000, 1}, {t.end, 4000, 2},
			/* left by a jump; then called by others, in the same frame */
			{t.call, 4000, 2}, {t.entry, 4000, 2}, {t.entry, 4000, 2},
			{t.jump, 4000, 2}, {t.end, 4000, 2},
			/* left twice, and another frame in between */
			{t.call, 4000, 2}, {t.entry, 4000, 2}, {t.call, 3000, 2},
			{t.entry, 3000, 2}, {t.call, 4000, 2}, {t.entry, 4000, 2},
			{t.entry, 4000, 2}, {t.end, 4000, 2}, {t.entry, 3000, 2},
			/* left, and called again */
			{t.call, 4000, 2}, {t.entry, 4000, 2}, {t.call, 4000, 2},
			{t.entry, 4000, 2}, {t.end, 4000, 3}, {t.end, 4000, 3},
				       /* clang-format on */
		};

		for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
			steps[i].at(steps[i].frame, 0, 0);
			assert_int_equal(gathering_totals(c).count, steps[i].ends);
		}
		assert_int_equal(unmatched(c), 0);
		assert_int_equal(own_flight(c)->depth, 0);
		/* Without marks, none is looked for. */
		t.call(4000, 0, 0);
		assert_int_equal(*marks_of(c), 1);
		*marks_of(c) = 0;
		t.end(4000, 0, 0);
		assert_int_equal(gathering_totals(c).count, 3);
		*marks_of(c) = 1;
		t.end(4000, 0, 0);
		assert_int_equal(gathering_totals(c).count, 4);
		assert_int_equal(*marks_of(c), 0);
		/* A frame that was left, and is marked again, has one mark. */
		t.call(4000, 0, 0);
		t.call(4000, 0, 0);
		assert_int_equal(*marks_of(c), 1);
		t.end(4000, 0, 0);
		/* If too many frames are marked at once, the outermost marks are lost. */
		for (uint64_t i = 0; i < COMPARED_DEPTH + 5; i++)
			t.call(8000 - 8 * i, 0, 0);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 5);
	}
}

/* Texts are the same by their bytes; one that cannot be read is the same as any. */
static void compared_by_text(void **state)
{
	char a[2 * FLIGHT_IDENTITY_BYTES], b[2 * FLIGHT_IDENTITY_BYTES];
	struct gathering *c = *state;
	uintptr_t one = (uintptr_t)a, other = (uintptr_t)b;

	gathering_captures[2].bytes_max = sizeof(a);
	for (int kind = 0; kind < 8; kind++) {
		emit_compared(c, kind, 2);
		/* Every length from none on has its own way through the hash. */
		for (size_t length = 0; length < 40; length++) {
			memset(a, 'x', length);
			a[length] = '\0';
			strcpy(b, a);
			c->site(one, 0, 0);
			if (length)
				b[length - 1] = 'y';
			else
				strcpy(b, "y");
			c->end(other, 0, 0);
			assert_int_equal(unmatched(c), length + 1);
			c->end(one, 0, 0);
			assert_int_equal(gathering_totals(c).bucketed, length + 1);
		}
		emit_compared(c, kind, 2);
		memset(a, 'x', sizeof(a) - 1);
		a[sizeof(a) - 1] = '\0';
		strcpy(b, a);
		b[FLIGHT_IDENTITY_BYTES] = 'y'; /* it does not count */
		c->site(one, 0, 0);
		c->end(other, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, 1);
		b[FLIGHT_IDENTITY_BYTES - 1] = 'y';
		c->site(one, 0, 0);
		c->end(other, 0, 0);
		assert_int_equal(unmatched(c), 1);
		c->site(8, 0, 0); /* there is no text */
		c->end(other, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, 2);
		c->end(8, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, 3);
		assert_int_equal(unmatched(c), 1);
		assert_int_equal(own_flight(c)->depth, 0);
	}
	gathering_captures[2].bytes_max = GATHERING_STRING_MAX;
}

/* Three deep, in threads and in the handlers that interrupt them. */
static void nest(void *data, uint64_t number)
{
	struct gathering *c = data;

	c->site(number, 0, 0);
	c->site(number, 0, 0);
	c->end(number, 0, 0);
	c->site(number, 0, 0);
	c->end(number, 0, 0);
	c->end(number, 0, 0);
}

/* What does not nest, in many threads at once. */
static void cross(void *data, uint64_t number)
{
	struct gathering *c = data;

	c->site(number, 0, 0);
	c->site(number + 1, 0, 0);
	c->end(number, 0, 0);
	c->site(number, 0, 0);
	c->end(number + 1, 0, 0);
	c->end(number, 0, 0);
}

static void compared_in_many_threads(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 8; kind++) {
		emit_compared(c, kind, 0);
		gathering_run(c, cross, NESTS, kind & 1);
		assert_int_equal(gathering_totals(c).bucketed,
			3 * ((uint64_t)GATHERING_THREADS * NESTS + (kind & 1 ? c->signals : 0)));
		assert_int_equal(unmatched(c), 0);
		assert_int_equal(in_flight(c), 0);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
	}
}

static void pairs_by_many_threads(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 4; kind++) {
		emit_pair(c, kind & 1, kind & 2, NULL, DEPTH);
		gathering_run(c, nest, NESTS, kind & 1);
		assert_int_equal(gathering_totals(c).bucketed,
			3 * ((uint64_t)GATHERING_THREADS * NESTS + (kind & 1 ? c->signals : 0)));
		assert_int_equal(unmatched(c), 0);
		assert_int_equal(in_flight(c), 0);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
	}
}

static void hit_text(void *data, uint64_t number)
{
	struct gathering *c = data;
	char begun[24], ended[24];

	/* Of at most 7 bytes, and of more, which are compared in words; in different places. */
	snprintf(begun, sizeof(begun), number % 2 ? "%ju" : "request %ju", (uintmax_t)number);
	memcpy(ended, begun, sizeof(ended));
	c->site((uintptr_t)begun, 0, 0);
	c->end((uintptr_t)ended, 0, 0);
}

/* The entry of the text that is in flight. */
static char *text_in_flight(const struct gathering *c, uint32_t depth)
{
	for (size_t i = 0; i < FLIGHTS; i++)
		if (flight(c, i)->state == FLIGHT_PAIR + PAIR)
			return (char *)flight(c, i) + sizeof(struct probe_flight) + 8 * depth + 8;
	fail();
	return NULL;
}

static void pairs_by_text(void **state)
{
	static const char long_text[] = "a text that is longer than what is compared, and is lost";
	struct gathering *c = *state;
	char same[] = "request 1", *kept;

	for (int kind = 0; kind < 4; kind++) {
		emit_matched(c, kind & 1, kind & 2, NULL, GATHERING_STRING_MAX, 8);
		c->site((uintptr_t) "request 1", 0, 0);
		c->end((uintptr_t) "request 2", 0, 0);
		c->end((uintptr_t) "request", 0, 0);
		c->end((uintptr_t) "", 0, 0);
		assert_int_equal(unmatched(c), 3);
		assert_int_equal(in_flight(c), 1);
		/* As if another text had the same hash: the text decides. */
		kept = text_in_flight(c, 8);
		assert_memory_equal(kept, same, strlen(same));
		kept[strlen(same) - 1] = '2';
		c->end((uintptr_t)same, 0, 0);
		assert_int_equal(unmatched(c), 4);
		c->site((uintptr_t)same, 0, 0); /* it gets an entry of its own */
		assert_int_equal(in_flight(c), 2);
		c->end((uintptr_t)same, 0, 0);
		kept[strlen(same) - 1] = '1';
		c->end((uintptr_t)same, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, 2);
		assert_int_equal(in_flight(c), 0);
		/* What cannot be compared whole. */
		c->site((uintptr_t)long_text, 0, 0);
		c->end((uintptr_t)long_text, 0, 0);
		c->site(8, 0, 0);
		c->end(8, 0, 0);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 4);
		assert_int_equal(unmatched(c), 4);
		assert_int_equal(gathering_totals(c).bucketed, 2);
		gathering_run(c, hit_text, GATHERING_HITS, true);
		assert_int_equal(gathering_totals(c).bucketed,
			2 + (uint64_t)GATHERING_THREADS * GATHERING_HITS + c->signals);
		assert_int_equal(unmatched(c), 4);
		assert_int_equal(in_flight(c), 0);
	}
}

/* A thread that inherits a dead one's thread pointer does not inherit its begins. */
static void *begin_only(void *data)
{
	((struct gathering *)data)->site(0, 0, 0);
	return NULL;
}

static void *end_only(void *data)
{
	((struct gathering *)data)->end(0, 0, 0);
	return NULL;
}

static void pairs_of_dead_threads(void **state)
{
	struct gathering *c = *state;
	void *(*const bodies[])(void *) = {begin_only, end_only, begin_only, end_only};

	if (!c->host.thread.has_tid)
		skip_because("stubs do not know thread ids here");
	for (int forks = 0; forks < 2; forks++) {
		emit_pair(c, true, forks, NULL, DEPTH);
		for (int i = 0; i < 4; i++) {
			pthread_t thread;

			assert_int_equal(pthread_create(&thread, NULL, bodies[i], c), 0);
			pthread_join(thread, NULL);
		}
		assert_int_equal(gathering_totals(c).bucketed, 0);
		assert_int_equal(unmatched(c), 2);
	}
}

/* Begun here, ended by another thread. */
static void *end_keys(void *data)
{
	struct gathering *c = data;

	for (uint64_t key = 0; key < 8; key++)
		c->end(key, 0, 0);
	return NULL;
}

static void pairs_by_key(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 4; kind++) {
		pthread_t thread;

		emit_pair(c, kind & 1, kind & 2, &gathering_first, 4);
		for (uint64_t key = 0; key < 8; key++)
			c->site(key, 0, 0);
		assert_int_equal(pthread_create(&thread, NULL, end_keys, c), 0);
		pthread_join(thread, NULL);
		assert_int_equal(gathering_totals(c).bucketed, 8);
		assert_int_equal(unmatched(c), 0);
		c->end(3, 0, 0);
		assert_int_equal(unmatched(c), 1);
		for (int i = 0; i < 5; i++)
			c->site(3, 0, 0);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
		for (int i = 0; i < 5; i++)
			c->end(3, 0, 0);
		assert_int_equal(unmatched(c), 2);
		assert_int_equal(in_flight(c), 0);
		assert_int_equal(gathering_totals(c).bucketed, 12);
	}
}

/* Entries of keys that are not where these belong. */
static uint32_t away(const struct gathering *c)
{
	uint32_t total = 0;

	for (size_t i = 0; i < FLIGHTS; i++)
		total += flight(c, i)->away;
	return total;
}

/* In half of the table, some keys belong to one place; the first of them ends first. */
static void pairs_by_keys_that_meet(void **state)
{
	struct gathering *c = *state;

	for (int forks = 0; forks < 2; forks++) {
		emit_pair(c, true, forks, &gathering_first, 4);
		for (int round = 0; round < 2; round++)
			for (uint64_t key = 0; key < FLIGHTS / 2; key++)
				c->site(key * key * key, 0, 0);
		assert_true(away(c) > 0);
		assert_int_equal(in_flight(c), FLIGHTS);
		for (int round = 0; round < 2; round++)
			for (uint64_t key = 0; key < FLIGHTS / 2; key++)
				c->end(key * key * key, 0, 0);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
		assert_int_equal(unmatched(c), 0);
		assert_int_equal(in_flight(c), 0);
		assert_int_equal(away(c), 0);
	}
}

/* Many keys come and go in a small table, each within one call. */
static void come_and_go(void *data, uint64_t number)
{
	struct gathering *c = data;
	uint64_t key = (uint64_t)gettid() << 32 | (number & 0xffff);

	c->site(key, 0, 0);
	c->end(key, 0, 0);
}

static void pairs_by_many_keys(void **state)
{
	struct gathering *c = *state;
	uint64_t done, lost;

	for (int forks = 0; forks < 2; forks++) {
		emit_pair(c, true, forks, &gathering_first, 4);
		gathering_run(c, come_and_go, GATHERING_HITS, false);
		done = gathering_totals(c).bucketed;
		lost = gathering_slots(c, offsetof(struct probe_slot, lost));
		assert_int_equal(done + unmatched(c), (uint64_t)GATHERING_THREADS * GATHERING_HITS);
		assert_true(unmatched(c) <= lost);
		assert_int_equal(in_flight(c), 0);
		assert_int_equal(away(c), 0);
	}
}

/* ---- Processes ---------------------------------------------------------------------------- */

/* By thread and by key: what one process began, no other one ends. */
static void pairs_by_process(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 4; kind++) {
		emit_pair(c, kind & 1, true, kind & 2 ? &gathering_first : NULL, DEPTH);
		for (process = 1; process <= 20; process++) {
			c->site(7, 0, 0);
			c->site(7, 0, 0);
		}
		assert_int_equal(in_flight(c), 40);
		process = 21;
		c->end(7, 0, 0);
		assert_int_equal(unmatched(c), 1);
		for (int round = 0; round < 3; round++)
			for (process = 20; process > 0; process--)
				c->end(7, 0, 0);
		assert_int_equal(unmatched(c), 21);
		assert_int_equal(gathering_totals(c).bucketed, 40);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
		assert_int_equal(in_flight(c), 0);
		assert_int_equal(processes, 1);
	}
}

/* Whoever has no number takes one, which is never 0, and keeps it. */
static void numbers_of_processes(void **state)
{
	struct gathering *c = *state;

	for (int kind = 0; kind < 4; kind++) {
		emit_pair(c, kind & 1, true, kind & 2 ? &gathering_first : NULL, DEPTH);
		c->site(7, 0, 0);
		process = 0;
		c->end(7, 0, 0);
		assert_int_equal(process, 2);
		process = 0;
		c->site(7, 0, 0);
		c->end(7, 0, 0);
		assert_int_equal(process, 3);
		assert_int_equal(processes, 3);
		assert_int_equal(unmatched(c), 1);
		assert_int_equal(gathering_totals(c).bucketed, 1);
		processes = UINT32_MAX;
		process = 0;
		c->site(7, 0, 0);
		assert_int_equal(process, 1);
	}
}

/* Processes that have ended leave room to those that come. */
static void pairs_of_many_processes(void **state)
{
	enum { PROCESSES = 100 * FLIGHTS };
	struct gathering *c = *state;

	for (int kind = 0; kind < 4; kind++) {
		emit_pair(c, kind & 1, true, kind & 2 ? &gathering_first : NULL, DEPTH);
		c->site(7, 0, 0); /* begun before all of them, ended after them */
		for (process = 2; process < 2 + PROCESSES; process++) {
			c->site(7, 0, 0);
			c->site(7, 0, 0);
			c->end(7, 0, 0);
			c->end(7, 0, 0);
		}
		assert_int_equal(in_flight(c), 1);
		process = 1;
		c->end(7, 0, 0);
		c->site(7, 0, 0);
		c->end(7, 0, 0);
		assert_int_equal(gathering_totals(c).bucketed, 2 * PROCESSES + 2);
		assert_int_equal(unmatched(c), 0);
		assert_int_equal(gathering_slots(c, offsetof(struct probe_slot, lost)), 0);
	}
}

/*
 * More threads than entries: they take each other's, and whoever finds none has no begin, and then
 * no end. Each has a thread pointer of its own, as processes have numbers.
 */
static void pairs_without_room(void **state)
{
	struct gathering *c = *state;

	entries = 4;
	for (int rseq = 0; rseq < 2; rseq++) {
		uint64_t hits, lost;

		emit_pair(c, rseq, true, NULL, DEPTH);
		gathering_run(c, nest, NESTS, rseq);
		hits = 3 * ((uint64_t)GATHERING_THREADS * NESTS + (rseq ? c->signals : 0));
		lost = gathering_slots(c, offsetof(struct probe_slot, lost));
		assert_int_equal(gathering_totals(c).bucketed + lost, hits);
		assert_int_equal(unmatched(c), lost);
		assert_int_equal(in_flight(c), 0);
	}
	entries = FLIGHTS;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			pairs_by_thread, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(abandoned, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(compared, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			compared_beyond_the_places, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			compared_by_frame, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(tail_calls, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			compared_by_text, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			compared_in_many_threads, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			pairs_by_many_threads, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			pairs_of_dead_threads, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(pairs_by_text, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(pairs_by_key, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			pairs_by_keys_that_meet, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			pairs_by_many_keys, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			pairs_by_process, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			numbers_of_processes, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			pairs_of_many_processes, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			pairs_without_room, gathering_setup, gathering_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
