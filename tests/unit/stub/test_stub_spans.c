/* SPDX-License-Identifier: MIT */
/*
 * Stubs of spans: an end records what its begin has kept, by thread and by key, with and without
 * rseq, for one process and where forked children share the table; in one thread, and in many under
 * a storm of signals.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/query/query.h"
#include "tests/unit/skip.h"
#include "tests/unit/stub/stub_crowd.h"
#include "tests/unit/stub/stub_host.h"

enum {
	PAIR = 3,
	DEPTH = 4,
	FLIGHTS = 64,
	TEXT_MAX = 40,
	KEEP = 128,
	FLIGHT_BYTES = (sizeof(struct probe_flight) + DEPTH * (8 + KEEP) + 63) / 64 * 64,
	BEGIN_SITE = 7,
	END_SITE = 9,
	VARIANTS = 8,
	THREADS = 4,
	HITS = 10000,
	RINGS_MAX = 256
};
#define TICK_NS32 (UINT64_C(3) << 31) /* a tick takes 1.5 ns */

struct spans {
	struct stub_host host;
	stub_host_site *begin, *end;
	uint8_t *table;
	void *unreadable;
	/* A reader beside the threads: */
	atomic_bool done;
	uint64_t records, broken;
	uint64_t last_time[RINGS_MAX];
	uint64_t signal_hits;
};

/* A record of an end(number), with its begin(number, texts[number % 5]). */
struct __attribute__((packed)) begun {
	struct ring_record header;
	uint64_t number;
	uint32_t word;
	char text[];
};
struct __attribute__((packed)) ended {
	struct ring_record header;
	uint64_t number, duration_ns;
	struct begun begin;
};

static const char *const texts[] = {"", "a", "of some length", "four", "sixteen letters!"};
static uint32_t process, processes;

static const struct arch_capture captures[2] = {
	{.arg = {.kind = ARCH_ARG_REGISTER,
		 .size = 8,
		 .width = 8,
		 .base = HOST_FIRST,
		 .index = -1}},
	{.arg = {.kind = ARCH_ARG_REGISTER, .size = 8, .width = 8, .base = HOST_THIRD, .index = -1},
		.is_string = true,
		.bytes_max = TEXT_MAX},
};
static const struct arch_expr_node key_node = {.kind = ARCH_EXPR_CAPTURE, .wide = true};
static const struct arch_expr key = {&key_node, 1};

static int setup(void **state)
{
	struct spans *s = calloc(1, sizeof(*s));

	stub_host_init(&s->host, true);
	s->table = calloc(FLIGHTS, FLIGHT_BYTES);
	s->unreadable = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s->unreadable, MAP_FAILED);
	*state = s;
	return 0;
}

static int teardown(void **state)
{
	struct spans *s = *state;

	stub_host_deinit(&s->host);
	munmap(s->unreadable, 4096);
	free(s->table);
	free(s);
	return 0;
}

/* Bits of `variant`: with rseq; with forked children; by key. */
static struct arch_stub end_stub(const struct spans *s, int variant)
{
	struct arch_stub stub = stub_host_stub(&s->host, variant & 1);

	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.site = END_SITE;
	stub.captures = captures;
	stub.capture_count = stub.recorded = 1;
	stub.actions[0].flights = (struct arch_flights){.table = (uintptr_t)s->table,
		.entries = FLIGHTS,
		.depth = DEPTH,
		.pair = PAIR,
		.match = variant & 4 ? &key : NULL,
		.process = variant & 2 ? (uintptr_t)&process : 0,
		.processes = variant & 2 ? (uintptr_t)&processes : 0,
		.keep = KEEP,
		.record = sizeof(struct probe_begun),
		.scale = TICK_NS32};
	return stub;
}

static void emit_filtered(
	struct spans *s, int variant, uint64_t min_ns, const struct arch_expr *filter)
{
	struct arch_stub stub = end_stub(s, variant);

	stub_host_reset(&s->host);
	memset(s->table, 0, (size_t)FLIGHTS * FLIGHT_BYTES);
	process = processes = 1;
	stub.actions[0].flights.min_ns = min_ns;
	stub.actions[0].flights.filter = filter;
	s->end = stub_host_emit_site(&s->host, &stub);
	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	stub.site = BEGIN_SITE;
	stub.capture_count = stub.recorded = 2;
	stub.actions[0].flights.filter = NULL;
	s->begin = stub_host_emit_site(&s->host, &stub);
}

static void emit(struct spans *s, int variant, uint64_t min_ns)
{
	emit_filtered(s, variant, min_ns, NULL);
}

static void begin(struct spans *s, uint64_t number)
{
	s->begin(number, 0, (uintptr_t)texts[number % 5]);
}

static void end(struct spans *s, uint64_t number)
{
	s->end(number, 0, 0);
}

static uint64_t slots(const struct spans *s, size_t field)
{
	uint64_t total = 0;

	for (uint32_t set = 0; set <= s->host.cpus; set++)
		total += *(const uint64_t *)(s->host.slots + ((size_t)set << HOST_SLOTS_SHIFT) +
					     HOST_SLOT_OFFSET + field);
	return total;
}

#define LOST(s) slots(s, offsetof(struct probe_slot, lost))
#define UNMATCHED(s) slots(s, offsetof(struct probe_slot, unmatched))

static struct probe_flight *flight(const struct spans *s, int i)
{
	return (struct probe_flight *)(s->table + (size_t)i * FLIGHT_BYTES);
}

static uint64_t in_flight(const struct spans *s)
{
	uint64_t total = 0;

	for (int i = 0; i < FLIGHTS; i++) {
		assert_int_not_equal(flight(s, i)->state, FLIGHT_TAKEN);
		total += flight(s, i)->state == FLIGHT_PAIR + PAIR ? flight(s, i)->depth : 0;
	}
	return total;
}

/* As if the only begin in flight, which keeps no argument, had been so many ticks earlier. */
static void begin_earlier(const struct spans *s, uint64_t ticks)
{
	for (int i = 0; i < FLIGHTS; i++) {
		struct probe_begun *begun = (struct probe_begun *)&flight(s, i)->times[DEPTH];

		if (flight(s, i)->state != FLIGHT_PAIR + PAIR || flight(s, i)->depth == 0)
			continue;
		flight(s, i)->times[0] -= ticks;
		begun->kept[0] -= ticks; /* the record's */
	}
}

/* ---- Reading ------------------------------------------------------------------------------ */

/* What the duration of a span may be, by the times of its ends. */
static uint64_t longest(uint64_t begin, uint64_t end)
{
	return (end - begin) * 3 / 2 + 1;
}

/* Is it the record of a span whose ends say the same number? */
static bool is_whole(const struct ended *r)
{
	const struct begun *b = &r->begin;
	const char *text = texts[b->number % 5];

	return r->header.site == (uint32_t)END_SITE && b->header.site == BEGIN_SITE &&
	       r->number == b->number && r->header.tid > 1 && b->word == strlen(text) &&
	       memcmp(b->text, text, strlen(text)) == 0 && b->header.time <= r->header.time &&
	       r->duration_ns <= longest(b->header.time, r->header.time);
}

static void drain(struct spans *s)
{
	for (uint32_t i = 0; i < stub_host_ring_count(&s->host); i++) {
		struct ring_header *ring = stub_host_ring(&s->host, i);
		const uint8_t *data = (const uint8_t *)(ring + 1);
		uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE), at = ring->tail;

		while (at < head) {
			const struct ended *r =
				(const struct ended *)(data + (at & (HOST_RING_BYTES - 1)));

			s->records++;
			s->broken += !is_whole(r) || r->header.time < s->last_time[i];
			s->last_time[i] = r->header.time;
			at += sizeof(*r) + ((ring_string_length(r->begin.word) + 3) & ~3u);
		}
		s->broken += at != head;
		__atomic_store_n(&ring->tail, head, __ATOMIC_RELEASE);
	}
}

static const struct ended *only(const struct spans *s, size_t *bytes_ret)
{
	return (const struct ended *)(const void *)stub_host_only_record(&s->host, bytes_ret);
}

static void forget(struct spans *s)
{
	s->records = s->broken = 0;
	memset(s->last_time, 0, sizeof(s->last_time));
}

/* ---- One thread --------------------------------------------------------------------------- */

static void the_end_has_its_begin(void **state)
{
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		const struct ended *r;
		size_t bytes;

		emit(s, variant, 0);
		end(s, 4);
		assert_int_equal(UNMATCHED(s), 1);
		begin(s, 4);
		assert_int_equal(in_flight(s), 1);
		assert_null(only(s, &bytes));
		end(s, 4);
		r = only(s, &bytes);
		assert_non_null(r);
		assert_int_equal(bytes, sizeof(*r) + 16);
		assert_true(is_whole(r));
		assert_int_equal(r->number, 4);
		assert_int_equal(r->begin.header.tid, gettid());
		assert_int_equal(LOST(s), 0);
		assert_int_equal(in_flight(s), 0);
	}
}

/* The begin's record has the arguments of another probe, the begin's time, and its site. */
static void arguments_of_another_probe(void **state)
{
	enum { GIVING_SITE = 77, TAKING_SITE = 78 };
	struct spans *s = *state;
	const struct ended *r;
	size_t bytes;

	for (int variant = 0; variant < 4; variant++) {
		struct arch_stub stub = end_stub(s, variant);
		stub_host_site *takes;

		emit(s, variant, 0);
		stub.actions[0].flights.single = true;
		s->end = stub_host_emit_site(&s->host, &stub);
		stub.actions[0].kind = ARCH_ACTION_BEGIN;
		stub.site = GIVING_SITE;
		stub.capture_count = stub.recorded = 2;
		stub.actions[0].flights.gives = true;
		s->begin = stub_host_emit_site(&s->host, &stub);
		stub.site = TAKING_SITE;
		stub.capture_count = stub.recorded = 0;
		stub.actions[0].flights.gives = false;
		stub.actions[0].flights.takes = true;
		takes = stub_host_emit_site(&s->host, &stub);
		begin(s, 3);
		begin(s, 4);
		end(s, 0); /* nothing has begun */
		takes(0, 0, 0);
		takes(0, 0, 0);
		end(s, 0);
		end(s, 0);
		r = only(s, &bytes);
		assert_int_equal(r->begin.header.site, GIVING_SITE);
		assert_int_equal(r->begin.header.tid, TAKING_SITE);
		assert_int_equal(r->begin.number, 4);
		assert_int_equal(r->begin.word, strlen(texts[4]));
		assert_memory_equal(r->begin.text, texts[4], strlen(texts[4]));
		assert_in_range(r->begin.header.time, 1, r->header.time);
		assert_in_range(r->duration_ns, 1, longest(r->begin.header.time, r->header.time));
		assert_int_equal(LOST(s), 0);
		assert_int_equal(UNMATCHED(s), 0);
	}
}

static void short_ones_leave_nothing(void **state)
{
	/* Half of the time that the machine has counted: no hit takes as long. */
	const uint64_t ticks = arch_process()->counter() / 2, min_ns = ticks / 2 * 3;
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		const struct ended *r;
		size_t bytes;

		emit(s, variant, min_ns);
		begin(s, 1);
		end(s, 1);
		assert_null(only(s, &bytes));
		begin(s, 2);
		begin_earlier(s, ticks);
		end(s, 2);
		r = only(s, &bytes);
		assert_non_null(r);
		assert_true(is_whole(r) && r->number == 2 && r->duration_ns >= min_ns);
		assert_int_equal(LOST(s) + UNMATCHED(s) + in_flight(s), 0);
	}
}

/* A filter of the pair: duration % 16 < 8 && arg0 != 3. */
static void filtered(void **state)
{
	static const struct arch_expr_node nodes[] = {
		{.kind = ARCH_EXPR_DURATION, .wide = true, .is_signed = true},
		{.kind = ARCH_EXPR_CONST, .wide = true, .is_signed = true, .value = 16},
		{.kind = ARCH_EXPR_MOD, .wide = true, .is_signed = true, .left = 0, .right = 1},
		{.kind = ARCH_EXPR_CONST, .wide = true, .is_signed = true, .value = 8},
		{.kind = ARCH_EXPR_LT, .wide = true, .is_signed = true, .left = 2, .right = 3},
		{.kind = ARCH_EXPR_CAPTURE, .wide = true},
		{.kind = ARCH_EXPR_CONST, .wide = true, .value = 3},
		{.kind = ARCH_EXPR_NE, .wide = true, .left = 5, .right = 6},
		{.kind = ARCH_EXPR_BOTH, .is_signed = true, .left = 4, .right = 7},
	};
	const struct arch_expr filter = {nodes, sizeof(nodes) / sizeof(nodes[0])};
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		unsigned int passed = 0, hits = 0;

		emit_filtered(s, variant, 0, &filter);
		for (; hits < 1000; hits++) {
			const struct ended *r;
			uint64_t value, word = hits % 5;
			size_t bytes;

			begin(s, hits % 5);
			/* Durations of all kinds, however long a hit takes. */
			begin_earlier(s, hits % 32);
			end(s, hits % 5);
			r = only(s, &bytes);
			passed += r != NULL;
			if (!r)
				continue;
			assert_true(is_whole(r));
			assert_true(expr_evaluate(&filter,
				&(struct expr_input){.words = &word, .duration = r->duration_ns},
				&value));
			assert_int_equal(value, 1);
			for (uint32_t i = 0; i < stub_host_ring_count(&s->host); i++)
				stub_host_ring(&s->host, i)->tail =
					stub_host_ring(&s->host, i)->head;
		}
		assert_true(passed > hits / 10 && passed < hits * 8 / 10);
		assert_int_equal(LOST(s) + UNMATCHED(s) + in_flight(s), 0);
	}
}

/* The outermost begins make room for the others, and their ends have none. */
static void nested(void **state)
{
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		uint64_t step = variant & 4 ? 0 : 1; /* by key, all have the same */

		forget(s);
		emit(s, variant, 0);
		for (int i = 0; i < DEPTH + 2; i++)
			begin(s, 10 + i * step);
		for (int i = DEPTH + 1; i >= 0; i--) {
			end(s, 10 + i * step);
			assert_int_equal(UNMATCHED(s), i >= 2 ? 0 : 2 - i);
		}
		drain(s);
		assert_int_equal(s->records, DEPTH);
		assert_int_equal(s->broken, 0);
		assert_int_equal(LOST(s), 0);
		assert_int_equal(in_flight(s), 0);
	}
}

/* Begins whose ends never come, as a program leaves them by longjmp(3), cost the others nothing. */
static void abandoned(void **state)
{
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		uint64_t number = 7;

		forget(s);
		emit(s, variant, 0);
		for (int i = 0; i < 3 * DEPTH; i++) {
			begin(s, number);
			begin(s, number);
			end(s, number);
		}
		/* The newest of them; the last begin that has ended took one more place. */
		for (int i = 0; i < DEPTH - 1; i++)
			end(s, number);
		drain(s);
		assert_int_equal(s->records, 4 * DEPTH - 1);
		assert_int_equal(s->broken + LOST(s) + UNMATCHED(s), 0);
		assert_int_equal(in_flight(s), 2 * DEPTH + 1);
		/* The others have made room: no end finds another one's begin. */
		for (int i = 0; i < 2 * DEPTH + 1; i++)
			end(s, number);
		assert_int_equal(UNMATCHED(s), 2 * DEPTH + 1);
		assert_int_equal(in_flight(s), 0);
		begin(s, number);
		end(s, number);
		drain(s);
		assert_int_equal(s->records, 4 * DEPTH);
		assert_int_equal(s->broken + LOST(s), 0);
	}
}

static void texts_that_are_cut_or_missing(void **state)
{
	static const char text[] = "this text is longer than what is taken of any text";
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		const struct ended *r;
		size_t bytes;

		emit(s, variant, 0);
		s->begin(1, 0, (uintptr_t)text);
		end(s, 1);
		r = only(s, &bytes);
		assert_non_null(r);
		assert_int_equal(
			r->begin.word, TEXT_MAX | UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
		assert_memory_equal(r->begin.text, text, TEXT_MAX);
		emit(s, variant, 0);
		s->begin(1, 0, (uintptr_t)s->unreadable);
		end(s, 1);
		r = only(s, &bytes);
		assert_non_null(r);
		assert_int_equal(bytes, sizeof(*r));
		assert_int_equal(r->begin.word, UINT64_C(1) << RING_STRING_NULL_BIT);
	}
}

/* An end keeps what it has prepared, a text and a word in memory, while it takes its duration. */
static void ends_with_texts(void **state)
{
	static const struct arch_capture text_and_word[2] = {
		{.arg = {.kind = ARCH_ARG_REGISTER,
			 .size = 8,
			 .width = 8,
			 .base = HOST_THIRD,
			 .index = -1},
			.is_string = true,
			.bytes_max = TEXT_MAX},
		{.arg = {.kind = ARCH_ARG_MEMORY,
			 .size = 8,
			 .width = 8,
			 .base = HOST_SECOND,
			 .index = -1}},
	};
	static const char text[] = "eight, ";
	static const uint64_t word = 4711;
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		struct arch_stub stub;
		/* The text's length and the word; which could be read; the text; the duration. */
		struct __attribute__((packed)) {
			struct ring_record header;
			uint32_t length;
			uint64_t word;
			uint8_t readable;
			char text[sizeof(text) - 1];
			uint64_t duration_ns;
			struct begun begin;
		} const *r;
		size_t bytes;

		emit(s, variant & 3, 0);
		stub = end_stub(s, variant & 3);
		stub.captures = text_and_word;
		stub.capture_count = stub.recorded = 2;
		if (variant & 4)
			stub.actions[0].flights.min_ns = 1;
		s->end = stub_host_emit_site(&s->host, &stub);
		begin(s, 4);
		begin_earlier(s, 1);
		s->end(0, (uintptr_t)&word, (uintptr_t)text);
		r = (const void *)stub_host_only_record(&s->host, &bytes);
		assert_non_null(r);
		assert_int_equal(bytes, sizeof(*r) + strlen(texts[4]));
		assert_int_equal(r->length, strlen(text));
		assert_int_equal(r->word, word);
		assert_int_equal(r->readable, 3);
		assert_memory_equal(r->text, text, strlen(text));
		assert_int_equal(r->begin.number, 4);
		assert_memory_equal(r->begin.text, texts[4], strlen(texts[4]));
		assert_true(r->duration_ns >= 1 &&
			    r->duration_ns <= longest(r->begin.header.time, r->header.time));
	}
}

/* What the program, or another begin, has written over is not recorded. */
static void overwritten(void **state)
{
	static const uint32_t lengths[] = {0, 8, KEEP, UINT32_MAX, 1 << 31};
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		for (size_t i = 0; i <= sizeof(lengths) / sizeof(*lengths); i++) {
			size_t bytes;

			emit(s, variant, 0);
			begin(s, 1);
			for (int k = 0; k < FLIGHTS; k++) {
				struct probe_begun *begun =
					(struct probe_begun *)&flight(s, k)->times[DEPTH];

				if (i < sizeof(lengths) / sizeof(*lengths))
					begun->bytes = lengths[i];
				else
					begun->kept[0]++;
			}
			end(s, 1);
			assert_null(only(s, &bytes));
			assert_int_equal(LOST(s), 1);
			assert_int_equal(in_flight(s), 0);
		}
	}
}

/* The duration is known of pairs that have ended. */
static void durations_of_nothing(void **state)
{
	static const struct arch_expr_node node = {.kind = ARCH_EXPR_DURATION, .wide = true};
	static const struct arch_expr duration = {&node, 1};
	struct spans *s = *state;
	uint8_t out[ARCH_STUB_MAX];
	struct arch_stub_code code;

	for (int i = 0; i < 4; i++) {
		struct arch_stub stub = stub_host_stub(&s->host, true);

		stub.actions[0].kind = i == 2 ? ARCH_ACTION_BEGIN : ARCH_ACTION_RECORD;
		stub.captures = captures;
		stub.actions[0].flights =
			(struct arch_flights){.table = i ? (uintptr_t)s->table : 0,
				.entries = FLIGHTS,
				.depth = DEPTH,
				.keep = KEEP,
				.record = sizeof(struct probe_begun),
				.match = i == 3 ? &duration : NULL,
				.filter = i == 2 ? &duration : NULL};
		stub.filter = i < 2 ? &duration : NULL;
		assert_int_equal(arch_make_stub(arch_host(), &stub, (uintptr_t)s->host.code, out,
					 sizeof(out), &code),
			ARCH_STUB_UNSUPPORTED);
	}
}

static void impossible_stubs(void **state)
{
	struct spans *s = *state;
	struct arch_stub stub = stub_host_stub(&s->host, true);
	struct arch_stub_code code;
	uint8_t out[ARCH_STUB_MAX];
	static const uint32_t keeps[] = {8, KEEP + 4, 16 + 24, RING_RECORD_MAX + 8};

	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	stub.captures = captures;
	stub.capture_count = stub.recorded = 2;
	stub.actions[0].flights = (struct arch_flights){.table = (uintptr_t)s->table,
		.entries = FLIGHTS,
		.depth = DEPTH,
		.record = sizeof(struct probe_begun)};
	for (size_t i = 0; i < sizeof(keeps) / sizeof(*keeps); i++) {
		stub.actions[0].flights.keep = keeps[i];
		assert_int_equal(arch_make_stub(arch_host(), &stub, (uintptr_t)s->host.code, out,
					 sizeof(out), &code),
			ARCH_STUB_UNSUPPORTED);
	}
}

/* ---- Many threads ------------------------------------------------------------------------- */

static void *reading(void *data)
{
	struct timespec pause = {0, 100000};
	struct spans *s = data;

	while (!atomic_load(&s->done)) {
		drain(s);
		nanosleep(&pause, NULL);
	}
	drain(s);
	return NULL;
}

/* Two deep, so that there is room for a handler. */
static void work(void *data, uint64_t number)
{
	begin(data, 3 * number);
	begin(data, 3 * number + 1);
	end(data, 3 * number + 1);
	begin(data, 3 * number + 2);
	end(data, 3 * number + 2);
	end(data, 3 * number);
}

static void many_threads(void **state)
{
	struct spans *s = *state;

	if (stub_host_ring_count(&s->host) > RINGS_MAX)
		skip_because("there are too many processors");
	for (int variant = 0; variant < VARIANTS; variant++) {
		pthread_t thread;
		uint64_t spans;

		forget(s);
		emit(s, variant, 0);
		atomic_store(&s->done, false);
		assert_int_equal(pthread_create(&thread, NULL, reading, s), 0);
		spans = 3 * ((uint64_t)THREADS * HITS + crowd_run(work, s, THREADS, HITS, true));
		atomic_store(&s->done, true);
		pthread_join(thread, NULL);
		assert_int_equal(s->broken, 0);
		assert_true(s->records > 0);
		if (variant & 4) {
			/* An entry that another thread has taken counts as none, on either side. */
			assert_true(s->records <= spans);
			assert_true(s->records + LOST(s) + UNMATCHED(s) >= spans);
			continue;
		}
		assert_int_equal(s->records + LOST(s), spans);
		assert_int_equal(UNMATCHED(s), 0);
		assert_int_equal(in_flight(s), 0);
	}
}

/* Waits until no ring is half full: it is not for want of room that anything is lost. */
static void wait_for_room(struct spans *s, uint64_t number)
{
	if (number % 16)
		return;
	for (uint32_t i = 0; i < stub_host_ring_count(&s->host); i++) {
		struct ring_header *ring = stub_host_ring(&s->host, i);

		while (__atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) -
				__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) >
			HOST_RING_BYTES / 2)
			sched_yield();
	}
}

/* A key of its own for each thread and each of its handler's pairs: entries change owners. */
static void come_and_go(void *data, uint64_t number)
{
	struct spans *s = data;
	uint64_t own = (uint64_t)gettid() << 32 | (number & UINT32_MAX);

	begin(s, own);
	end(s, own);
}

static void come_and_go_with_room(void *data, uint64_t number)
{
	wait_for_room(data, number);
	come_and_go(data, number);
}

static void none_is_lost(void **state)
{
	struct spans *s = *state;
	int pairs = 10 * HITS, threads = 2;

	if (stub_host_ring_count(&s->host) > RINGS_MAX)
		skip_because("there are too many processors");
	/* Without rseq, a ring may not be free for long: its owner is preempted. */
	for (int variant = 1; variant < VARIANTS; variant += 2) {
		pthread_t thread;

		forget(s);
		emit(s, variant, 0);
		atomic_store(&s->done, false);
		assert_int_equal(pthread_create(&thread, NULL, reading, s), 0);
		crowd_run(come_and_go_with_room, s, threads, pairs, false);
		atomic_store(&s->done, true);
		pthread_join(thread, NULL);
		assert_int_equal(s->broken + LOST(s) + UNMATCHED(s), 0);
		assert_int_equal(s->records, threads * pairs);
		assert_int_equal(in_flight(s), 0);
	}
}

/* Handlers that begin and end while an end records: the thread's begin stays what it is. */
static void handlers_take_nothing(void **state)
{
	struct spans *s = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		uint64_t spans = 0;

		forget(s);
		emit(s, variant, 0);
		for (int round = 0; round < 300; round++) {
			spans += 100 + crowd_run(come_and_go, s, 1, 100, true);
			drain(s);
		}
		assert_int_equal(s->broken + LOST(s) + UNMATCHED(s), 0);
		assert_int_equal(s->records, spans);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_end_has_its_begin, setup, teardown),
		cmocka_unit_test_setup_teardown(arguments_of_another_probe, setup, teardown),
		cmocka_unit_test_setup_teardown(short_ones_leave_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(filtered, setup, teardown),
		cmocka_unit_test_setup_teardown(nested, setup, teardown),
		cmocka_unit_test_setup_teardown(abandoned, setup, teardown),
		cmocka_unit_test_setup_teardown(texts_that_are_cut_or_missing, setup, teardown),
		cmocka_unit_test_setup_teardown(ends_with_texts, setup, teardown),
		cmocka_unit_test_setup_teardown(overwritten, setup, teardown),
		cmocka_unit_test_setup_teardown(durations_of_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(impossible_stubs, setup, teardown),
		cmocka_unit_test_setup_teardown(many_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(none_is_lost, setup, teardown),
		cmocka_unit_test_setup_teardown(handlers_take_nothing, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
