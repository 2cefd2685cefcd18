/* SPDX-License-Identifier: MIT */
/*
 * Keys and filters of an end that ask for arguments of its begin: at sites of the begin that have
 * them elsewhere and of other types, by thread and by key, with and without rseq, for one process
 * and where forked children share the table.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_gathering.h"

enum {
	PAIR = 3,
	DEPTH = 4,
	FLIGHTS = 64,
	TEXT_MAX = 20,
	AT_NUMBER = sizeof(struct probe_begun),
	AT_TEXT = AT_NUMBER + 16,
	KEEP = AT_TEXT + 8 + (TEXT_MAX + 7) / 8 * 8,
	FLIGHT_BYTES = (sizeof(struct probe_flight) + DEPTH * (8 + KEEP) + 63) / 64 * 64,
	ENTRIES = 64,
	OWNER = 5,
	ENTRY_CELL = 16 + 16 + 24,
	ENTRY_BYTES = (ENTRY_CELL + GATHERING_CELL_BYTES + 63) / 64 * 64,
	VARIANTS = 8,
	SITES = 4,
	STRIDE = 10,
	CONSTANT = 77
};
_Static_assert(FLIGHTS *FLIGHT_BYTES <= GATHERING_EXTRA_BYTES, "there is room");

#define REGISTER(size_, sign_, base_)                                                              \
	{                                                                                          \
		.kind = ARCH_ARG_REGISTER, .size = size_, .width = size_, .base = base_,           \
		.index = -1, .is_signed = sign_                                                    \
	}
/* The number and the text of each site. */
static const struct arch_capture operands[SITES][2] = {
	{{.arg = REGISTER(8, false, HOST_FIRST)},
		{.arg = REGISTER(8, false, HOST_THIRD), .is_string = true, .bytes_max = TEXT_MAX}},
	/* a smaller number; a longer text, behind a pointer that must be checked */
	{{.arg = REGISTER(4, true, HOST_FIRST)}, {.arg = {.kind = ARCH_ARG_MEMORY,
							  .size = 8,
							  .width = 8,
							  .base = HOST_SECOND,
							  .index = -1},
							 .is_string = true,
							 .bytes_max = 2 * TEXT_MAX}},
	/* a number in memory */
	{{.arg = {.kind = ARCH_ARG_MEMORY,
		  .size = 2,
		  .is_signed = true,
		  .base = HOST_FIRST,
		  .index = -1}},
		{.arg = REGISTER(8, false, HOST_THIRD), .is_string = true, .bytes_max = TEXT_MAX}},
	{{.arg = {.kind = ARCH_ARG_IMMEDIATE,
		  .size = 4,
		  .disp = CONSTANT,
		  .base = -1,
		  .index = -1}},
		{.arg = REGISTER(8, false, HOST_SECOND), .is_string = true, .bytes_max = TEXT_MAX}},
};

/* The end's own argument, the begin's number, and the begin's text. */
static const struct arch_capture end_captures[3] = {
	{.arg = REGISTER(8, false, HOST_FIRST)},
	{.begun = AT_NUMBER},
	{.begun = AT_TEXT, .is_string = true, .bytes_max = TEXT_MAX},
};
static const struct arch_expr_node number_node = {
	.kind = ARCH_EXPR_CAPTURE, .wide = true, .is_signed = true, .capture = 1};
static const struct arch_expr number = {&number_node, 1};
static const struct arch_expr_node match_node = {.kind = ARCH_EXPR_CONST, .wide = true, .value = 9};
static const struct arch_expr match = {&match_node, 1};
/* begin.number == end's argument && starts_with(begin.text, "se") */
static const struct arch_expr_node filter_nodes[] = {
	{.kind = ARCH_EXPR_CAPTURE, .wide = true, .is_signed = true, .capture = 1},
	{.kind = ARCH_EXPR_CAPTURE, .wide = true, .is_signed = true, .capture = 0},
	{.kind = ARCH_EXPR_EQ, .wide = true, .is_signed = true, .left = 0, .right = 1},
	{.kind = ARCH_EXPR_STRING_BEGINS, .capture = 2, .text = "se", .text_length = 2},
	{.kind = ARCH_EXPR_BOTH, .is_signed = true, .left = 2, .right = 3},
};
static const struct arch_expr filter = {filter_nodes, 5};

static uint32_t process, processes;
static const char text[] = "select", long_text[] = "select something that is long";
static stub_host_site *begins[SITES];

static struct arch_stub end_stub(const struct gathering *c, int variant)
{
	struct arch_stub stub =
		gathering_stub(c, variant & 1, ARCH_GATHER_SUM | ARCH_GATHER_BUCKETS);

	stub.captures = end_captures;
	stub.capture_count = 3;
	stub.actions[0].gather.value = NULL;
	stub.actions[0].gather.keys[0] = (struct arch_key){.number = &number};
	stub.actions[0].gather.keys[1] = (struct arch_key){.string = 2};
	stub.actions[0].gather.key_count = 2;
	stub.actions[0].gather.owner = OWNER;
	stub.actions[0].gather.entries = ENTRIES;
	stub.actions[0].gather.entry_cell = ENTRY_CELL;
	stub.actions[0].gather.entry_bytes = ENTRY_BYTES;
	stub.actions[0].flights = (struct arch_flights){.table = (uintptr_t)c->extra,
		.entries = FLIGHTS,
		.depth = DEPTH,
		.pair = PAIR,
		.match = variant & 4 ? &match : NULL,
		.process = variant & 2 ? (uintptr_t)&process : 0,
		.processes = variant & 2 ? (uintptr_t)&processes : 0,
		.keep = KEEP,
		.scale = UINT64_C(1) << 32};
	return stub;
}

static void emit(struct gathering *c, int variant, const struct arch_expr *of_pair)
{
	struct arch_stub stub = end_stub(c, variant);

	stub_host_reset(&c->host);
	memset(c->extra, 0, (size_t)FLIGHTS * FLIGHT_BYTES);
	process = processes = 1;
	stub.actions[0].flights.filter = of_pair;
	c->end = stub_host_emit_site(&c->host, &stub);
	stub.actions[0].flights.filter = NULL;
	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	stub.actions[0].gather = (struct arch_gather){0};
	stub.capture_count = 2;
	stub.actions[0].flights.kept_count = 2;
	stub.actions[0].flights.kept[0] = (struct arch_kept){.capture = 0, .offset = AT_NUMBER};
	stub.actions[0].flights.kept[1] =
		(struct arch_kept){.capture = 1, .offset = AT_TEXT, .bytes = TEXT_MAX};
	for (int i = 0; i < SITES; i++) {
		stub.captures = operands[i];
		begins[i] = stub_host_emit_site(&c->host, &stub);
	}
}

/* How many pairs have this key. */
static uint64_t counted(const struct gathering *c, int64_t number_wanted, uint64_t word)
{
	struct totals t = {0};

	for (uint32_t set = 0; set <= c->host.cpus; set++)
		for (uint32_t i = 0; i < ENTRIES; i++) {
			const uint8_t *entry = gathering_set(c, set) + (size_t)i * ENTRY_BYTES;
			uint64_t head[4];

			memcpy(head, entry, sizeof(head));
			if (!head[0] || head[1] != OWNER || head[2] != (uint64_t)number_wanted ||
				head[3] != word ||
				memcmp(entry + 32, long_text, ring_string_length(word)) != 0)
				continue;
			gathering_add(&t, (const struct probe_cell *)(entry + ENTRY_CELL));
		}
	return t.bucketed;
}

#define LOST(c) gathering_slots(c, offsetof(struct probe_slot, lost))
#define UNMATCHED(c) gathering_slots(c, offsetof(struct probe_slot, unmatched))
#define CUT (TEXT_MAX | UINT64_C(1) << RING_STRING_TRUNCATED_BIT)
#define MISSING (UINT64_C(1) << RING_STRING_NULL_BIT)

static void sites_that_differ(void **state)
{
	struct gathering *c = *state;
	const char *pointer = long_text;
	int16_t small = -3;

	for (int variant = 0; variant < VARIANTS; variant++) {
		emit(c, variant, NULL);
		/* Nested: each end finds what its own begin has kept. */
		begins[0](UINT64_C(1) << 63 | 5, 0, (uintptr_t)text);
		begins[1](UINT32_MAX, (uintptr_t)&pointer, 0);
		begins[2]((uintptr_t)&small, 0, (uintptr_t)text);
		begins[3](0, (uintptr_t)long_text, 0);
		for (int i = 0; i < SITES; i++)
			c->end(0, 0, 0);
		assert_int_equal(counted(c, INT64_MIN | 5, 6), 1);
		assert_int_equal(counted(c, -1, CUT), 1);
		assert_int_equal(counted(c, small, 6), 1);
		assert_int_equal(counted(c, CONSTANT, CUT), 1);
		assert_int_equal(LOST(c), 0);
	}
}

/* A number that could not be read has no key; a text that could not be read is one. */
static void unreadable(void **state)
{
	struct gathering *c = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		emit(c, variant, NULL);
		begins[0](4, 0, 8);
		c->end(0, 0, 0);
		assert_int_equal(counted(c, 4, MISSING), 1);
		begins[1](4, 8, 0);
		c->end(0, 0, 0);
		assert_int_equal(counted(c, 4, MISSING), 2);
		assert_int_equal(LOST(c), 0);
		begins[2](8, 0, (uintptr_t)text);
		c->end(0, 0, 0);
		assert_int_equal(LOST(c), 1);
		/* The next one has nothing of it. */
		begins[0](4, 0, (uintptr_t)text);
		c->end(0, 0, 0);
		assert_int_equal(counted(c, 4, 6), 1);
	}
}

static void filtered(void **state)
{
	struct gathering *c = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		emit(c, variant, &filter);
		for (int i = 0; i < 8; i++) {
			begins[0](3, 0, (uintptr_t)(i & 4 ? "other" : text));
			c->end(i & 3, 0, 0);
		}
		begins[2](8, 0, (uintptr_t)text);
		c->end(3, 0, 0);
		assert_int_equal(counted(c, 3, 6), 1);
		assert_int_equal(LOST(c), 0);
		c->end(3, 0, 0);
		assert_int_equal(UNMATCHED(c), 1);
	}
}

/* ---- Pairs that do not nest, and begins with the arguments of another probe --------------- */

static stub_host_site *gives, *takes;

static void emit_single(struct gathering *c, int variant)
{
	struct arch_stub stub = end_stub(c, variant);

	stub_host_reset(&c->host);
	memset(c->extra, 0, (size_t)FLIGHTS * FLIGHT_BYTES);
	process = processes = 1;
	stub.actions[0].flights.single = true;
	c->end = stub_host_emit_site(&c->host, &stub);
	stub.actions[0].kind = ARCH_ACTION_BEGIN;
	stub.actions[0].gather = (struct arch_gather){0};
	stub.captures = operands[0];
	stub.capture_count = 2;
	stub.actions[0].flights.kept_count = 2;
	stub.actions[0].flights.kept[0] = (struct arch_kept){.capture = 0, .offset = AT_NUMBER};
	stub.actions[0].flights.kept[1] =
		(struct arch_kept){.capture = 1, .offset = AT_TEXT, .bytes = TEXT_MAX};
	begins[0] = stub_host_emit_site(&c->host, &stub);
	stub.actions[0].flights.gives = true;
	gives = stub_host_emit_site(&c->host, &stub);
	stub.actions[0].flights.gives = false;
	stub.actions[0].flights.takes = true;
	stub.capture_count = 0;
	takes = stub_host_emit_site(&c->host, &stub);
}

static void single(void **state)
{
	struct gathering *c = *state;

	for (int variant = 0; variant < 4; variant++) {
		emit_single(c, variant);
		c->end(0, 0, 0);
		assert_int_equal(UNMATCHED(c), 1);
		for (int round = 1; round <= 3; round++) {
			/* The inner one counts; its end leaves nothing for the outer one. */
			begins[0](1, 0, (uintptr_t)text);
			begins[0](2, 0, (uintptr_t)long_text);
			c->end(0, 0, 0);
			c->end(0, 0, 0);
			assert_int_equal(counted(c, 1, 6), 0);
			assert_int_equal(counted(c, 2, CUT), round);
		}
		assert_int_equal(UNMATCHED(c), 1);
		assert_int_equal(LOST(c), 0);
	}
}

static void taken(void **state)
{
	struct gathering *c = *state;

	for (int variant = 0; variant < 4; variant++) {
		emit_single(c, variant);
		/* Nothing was given: the number of the key is unknown. */
		takes(0, 0, 0);
		c->end(0, 0, 0);
		assert_int_equal(LOST(c), 1);
		gives(5, 0, (uintptr_t)text);
		c->end(0, 0, 0); /* that began nothing */
		for (int round = 1; round <= 2; round++) {
			takes(0, 0, 0);
			takes(0, 0, 0);
			c->end(0, 0, 0);
			c->end(0, 0, 0);
			assert_int_equal(counted(c, 5, 6), round);
		}
		/* The latest counts, more of them than there are places, with a text or without. */
		for (int i = 0; i < 3 * DEPTH; i++)
			gives(6, 0, (uintptr_t)text);
		gives(6, 0, 0);
		takes(0, 0, 0);
		c->end(0, 0, 0);
		assert_int_equal(counted(c, 6, MISSING), 1);
		/* It also forgets a begin that is open: it has ended by a jump. */
		takes(0, 0, 0);
		gives(7, 0, (uintptr_t)text);
		c->end(0, 0, 0);
		assert_int_equal(counted(c, 6, MISSING), 1);
		assert_int_equal(counted(c, 7, 6), 0);
		assert_int_equal(UNMATCHED(c), 0);
		assert_int_equal(LOST(c), 1);
	}
}

/* What the program has written over is not believed. */
static void overwritten(void **state)
{
	struct gathering *c = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		emit(c, variant, NULL);
		begins[0](3, 0, (uintptr_t)text);
		for (int i = 0; i < FLIGHTS; i++) {
			uint8_t *kept = c->extra + (size_t)i * FLIGHT_BYTES +
					sizeof(struct probe_flight) + 8 * DEPTH;

			*(uint64_t *)(void *)(kept + AT_TEXT) = TEXT_MAX + 1;
		}
		c->end(3, 0, 0);
		assert_int_equal(LOST(c), 1);
		begins[0](3, 0, (uintptr_t)text);
		c->end(3, 0, 0);
		assert_int_equal(counted(c, 3, 6), 1);
	}
}

/* In threads and in the handlers that interrupt them: an end has its own begin's number. */
static void work(void *data, uint64_t n)
{
	struct gathering *c = data;

	begins[0](n, 0, (uintptr_t)text);
	begins[1](n + 1, (uintptr_t) & (const char *){text}, 0);
	c->end(n + 1, 0, 0);
	c->end(n, 0, 0);
}

static void many_threads(void **state)
{
	/* begin.number == end's argument */
	static const struct arch_expr same = {filter_nodes, 3};
	struct gathering *c = *state;

	for (int variant = 0; variant < 4; variant++) {
		struct arch_stub stub;

		emit(c, variant, NULL);
		stub = end_stub(c, variant);
		stub.actions[0].gather.key_count = 0;
		stub.actions[0].flights.filter = &same;
		c->end = stub_host_emit_site(&c->host, &stub);
		gathering_run(c, work, GATHERING_HITS, variant & 1);
		assert_int_equal(gathering_totals(c).bucketed,
			2 * ((uint64_t)GATHERING_THREADS * GATHERING_HITS +
				    (variant & 1 ? c->signals : 0)));
		assert_int_equal(LOST(c), 0);
	}
}

/* ---- A handler that begins and ends, at any instruction of a thread's first begin -------- */

static const struct gathering *interrupted;

static void begin_and_end(int signal)
{
	(void)signal;
	begins[0](7, 0, (uintptr_t)text);
	interrupted->end(7, 0, 0);
}

/* Says by its exit status whether both pairs were seen. */
__attribute__((noreturn)) static void be_interrupted(const struct gathering *c)
{
	bool ok = ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0;

	interrupted = c;
	signal(SIGUSR1, begin_and_end);
	raise(SIGSTOP);
	begins[0](3, 0, (uintptr_t)text);
	raise(SIGSTOP);
	c->end(3, 0, 0);
	_exit(ok && counted(c, 3, 6) == 1 && counted(c, 7, 6) == 1 && LOST(c) == 0 &&
				UNMATCHED(c) == 0
			? 0
			: 1);
}

static int awaited(pid_t pid)
{
	int status = 0;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Interrupts after so many steps; false: that is after the begin. */
static bool interrupt(const struct gathering *c, int steps)
{
	int status, done = 0;
	pid_t pid = fork();

	if (pid == 0)
		be_interrupted(c);
	for (status = awaited(pid); done < steps; done++) {
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		status = awaited(pid);
		assert_true(WIFSTOPPED(status));
		if (WSTOPSIG(status) != SIGTRAP)
			break;
	}
	assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, (long)SIGUSR1), 0);
	status = awaited(pid);
	if (done == steps) {
		assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
		assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, NULL), 0);
		status = awaited(pid);
	}
	if (status)
		print_message("after %d steps\n", steps);
	assert_int_equal(status, 0);
	return done == steps;
}

static void handlers(void **state)
{
	struct gathering *c = *state;

	for (int variant = 0; variant < VARIANTS; variant++) {
		int steps = variant;

		for (emit(c, variant, NULL); interrupt(c, steps); steps += STRIDE)
			emit(c, variant, NULL);
		assert_true(steps > 100);
	}
}

/* Only an end knows what its begin has kept, and only as much as there is. */
static void impossible_stubs(void **state)
{
	struct gathering *c = *state;
	uint8_t out[ARCH_STUB_MAX];
	struct arch_stub_code code;

	for (int i = 0; i < 8; i++) {
		struct arch_stub stub = end_stub(c, 1);
		struct arch_capture captures[3];

		memcpy(captures, end_captures, sizeof(captures));
		stub.captures = captures;
		stub.next = (uintptr_t)c->host.code;
		if (i == 1) {
			stub.actions[0].kind = ARCH_ACTION_BEGIN;
			stub.actions[0].gather = (struct arch_gather){0};
		} else if (i == 2) {
			stub.filter = &number;
		} else if (i == 3) {
			stub.actions[0].flights.match = &number;
		} else if (i == 4) {
			captures[1].begun = KEEP;
		} else if (i == 5) {
			captures[2].bytes_max = TEXT_MAX + 8;
		} else if (i == 6) {
			captures[1].begun = 4;
		} else if (i == 7) {
			stub.actions[0].flights.keep = 0;
		}
		assert_int_equal(arch_make_stub(arch_host(), &stub, (uintptr_t)c->host.code, out,
					 sizeof(out), &code),
			i ? ARCH_STUB_UNSUPPORTED : ARCH_STUB_OK);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			sites_that_differ, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(unreadable, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(filtered, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(single, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(taken, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(overwritten, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(many_threads, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(handlers, gathering_setup, gathering_teardown),
		cmocka_unit_test_setup_teardown(
			impossible_stubs, gathering_setup, gathering_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
