/* SPDX-License-Identifier: MIT */
/* Stubs of x86-64: strings, aggregates, and rings that are full, wrap or are locked. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/stub/stub_variant.h"

/* ---- Strings ----------------------------------------------------------------------- */

/* What a record must contain for the string at `address`, truncated after `max` bytes. */
struct string_case {
	uint64_t address;
	uint32_t max;
	uint64_t word;
};

static void check_string(struct variant *v, const struct string_case *s)
{
	struct arch_capture captures[] = {
		variant_capture("8@%rbx"), variant_capture("8@%r8"), variant_capture("4@%ecx")};
	uint32_t length = ring_string_length(s->word), padded = (length + 7) & ~7u;
	const uint64_t *words;
	size_t bytes;

	captures[0].is_string = captures[1].is_string = true;
	captures[0].bytes_max = captures[1].bytes_max = s->max;
	v->state.gpr[RBX] = s->address;
	v->state.gpr[R8] = s->address;
	words = variant_record(v, captures, 3, &bytes);
	if (words[0] != s->word)
		fail_msg("%#lx, not %#lx (at %#lx, at most %u)", words[0], s->word, s->address,
			s->max);
	assert_int_equal(words[1], s->word);
	assert_int_equal(words[2], (uint32_t)v->state.gpr[RCX]);
	assert_int_equal(bytes, sizeof(struct ring_record) + ((3 * 4 + 2 * length + 3) & ~3u));
	for (int i = 0; i < 2; i++)
		if (length > 0)
			assert_memory_equal((const uint8_t *)(words + 3) + i * padded,
				(void *)(uintptr_t)s->address, length);
}

/* A string of `length` bytes whose NUL is right before `end`. */
static uint64_t string_before(uint8_t *end, uint32_t length)
{
	uint8_t *start = end - length - 1;

	memset(start - 16, 0, 16); /* zeros before a string do not end it */
	for (uint32_t i = 0; i < length; i++)
		start[i] = i % 3 ? 0x80 + i % 100 : 1 + i % 100;
	start[length] = 0;
	return (uintptr_t)start;
}

static void check_lengths(struct variant *v)
{
	uint8_t *end = v->pages + 3 * PAGE; /* nothing after it is readable */

	for (uint32_t length = 0; length < 40; length++) {
		uint64_t at = string_before(end, length);

		check_string(v, &(struct string_case){at, 64, length});
		check_string(v, &(struct string_case){at, length, length});
		/* the NUL itself is out of reach */
		memset(end - 1, 'x', 1);
		check_string(v, &(struct string_case){at, length, length | TRUNCATED});
		check_string(v, &(struct string_case){at, length + 1, (length + 1) | TRUNCATED});
		check_string(v, &(struct string_case){at, 64, (length + 1) | TRUNCATED});
		if (length > 0)
			check_string(
				v, &(struct string_case){at, length - 1, (length - 1) | TRUNCATED});
	}
}

static void check_places(struct variant *v)
{
	uint8_t *middle = v->pages + PAGE;

	for (uint32_t shift = 0; shift < 24; shift++) {
		uint64_t at = string_before(middle + shift, 20);

		check_string(v, &(struct string_case){at, 64, 20});
		check_string(v, &(struct string_case){at, 8, 8 | TRUNCATED});
	}
	check_string(v,
		&(struct string_case){string_before(v->pages + 2 * PAGE + 100, 5000), 6000, 5000});
	check_string(v, &(struct string_case){string_before(v->pages + 2 * PAGE + 100, 5000), 4999,
				4999 | TRUNCATED});
	/* from a readable page into an unreadable one */
	memset(v->pages, 'y', 3 * PAGE);
	check_string(v, &(struct string_case){(uintptr_t)v->pages, 20000, 3 * PAGE | TRUNCATED});
	check_string(v, &(struct string_case){(uintptr_t)v->pages + 4 * PAGE, 100, 0});
	check_string(v, &(struct string_case){(uintptr_t)v->pages + 5 * PAGE, 100, UNREADABLE});
}

static void check_bad_strings(struct variant *v)
{
	static const uint64_t bad[] = {0, 1, 8, PAGE - 1, NON_CANONICAL, UINT64_MAX, UINT64_MAX - 7,
		UINT64_C(0x7ffffffffffff000), UINT64_C(0xffffffffff600000)};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		check_string(v, &(struct string_case){bad[i], 64, UNREADABLE});
	variant_set_up_state(v);
}

static void strings_of_every_length(void **state)
{
	(void)state;
	variant_each(check_lengths);
}

static void strings_across_pages(void **state)
{
	(void)state;
	variant_each(check_places);
}

static void strings_that_are_not_there(void **state)
{
	(void)state;
	variant_each(check_bad_strings);
}

/* Strings in the module's constants need no system call; others do. */
static void check_safe_range(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	struct arch_capture captures[] = {variant_capture("8@%rdi"), variant_capture("8@%rsi"),
		variant_capture("8@%rdx"), variant_capture("8@%r12")};
	const struct ring_record *r;
	const uint64_t *words;
	size_t bytes;

	for (int i = 0; i < 4; i++)
		captures[i].is_string = true;
	stub_host_reset(&v->host);
	stub.safe.pages[0] = (struct arch_extent){(uintptr_t)v->pages, PAGE};
	stub.safe.pages[1] = (struct arch_extent){(uintptr_t)v->pages + PAGE, PAGE};
	stub.safe.count = 2;
	stub.may_call_kernel = false;
	stub.captures = captures;
	stub.capture_count = stub.recorded = 4;
	memset(v->pages, 'z', 3 * PAGE);
	strcpy((char *)v->pages, "first");
	strcpy((char *)v->pages + PAGE - 4, "crossing");
	v->state.gpr[RDI] = (uintptr_t)v->pages;
	v->state.gpr[RSI] = (uintptr_t)v->pages + PAGE - 4;
	v->state.gpr[RDX] = (uintptr_t)v->pages + 2 * PAGE;
	v->state.gpr[R12] = (uintptr_t)v->pages + 2 * PAGE - 3;
	variant_hit(v, stub_host_emit(&v->host, &stub));
	r = stub_host_only_record(&v->host, &bytes);
	words = stub_host_open_record(captures, 4, r, bytes);
	assert_int_equal(words[0], 5);
	assert_int_equal(words[1], 8);
	assert_int_equal(words[2], UNREADABLE);
	assert_int_equal(words[3], 3 | TRUNCATED);
	assert_memory_equal(&words[4], "first", 5);
	assert_memory_equal(&words[5], "crossing", 8);
	variant_set_up_state(v);
}

static void strings_in_the_safe_range(void **state)
{
	(void)state;
	variant_each(check_safe_range);
}

/*
 * The words of strings at four places around the stack pointer, of a stub that may not ask, whose
 * main thread's stack is these pages of the stack.
 */
static const uint64_t *record_stack(struct variant *v, int first, int count, const int64_t at[4])
{
	static const int regs[] = {RDI, RSI, RDX, R12};
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	struct arch_capture captures[] = {variant_capture("8@%rdi"), variant_capture("8@%rsi"),
		variant_capture("8@%rdx"), variant_capture("8@%r12")};
	const struct ring_record *record;
	size_t bytes;

	stub_host_reset(&v->host);
	stub.safe.stack = (struct arch_extent){(uintptr_t)v->stack + first * PAGE, count * PAGE};
	stub.may_call_kernel = false;
	stub.captures = captures;
	stub.capture_count = stub.recorded = 4;
	for (int i = 0; i < 4; i++) {
		captures[i].is_string = true;
		v->state.gpr[regs[i]] = (uintptr_t)v->stack + at[i];
	}
	variant_hit(v, stub_host_emit(&v->host, &stub));
	record = stub_host_only_record(&v->host, &bytes);
	return stub_host_open_record(captures, 4, record, bytes);
}

/* The stack pointer is in page 2 of 4. */
static void check_stack(struct variant *v)
{
	enum { END = 4 * PAGE };
	static const int64_t above[] = {3 * PAGE, 2 * PAGE - 64, 3 * PAGE - 2, END - 3};
	static const int64_t cut[] = {3 * PAGE - 2, 3 * PAGE, -8, END + 64};
	const uint64_t *words;

	memset(v->stack, 'x', STACK_BYTES);
	strcpy((char *)v->stack + 3 * PAGE, "above");
	words = record_stack(v, 1, 3, above);
	assert_int_equal(words[0], 5);
	assert_int_equal(words[1], UNREADABLE); /* below the stack pointer */
	assert_int_equal(words[2], 7);		/* from its page into the next one */
	assert_int_equal(words[3], 3 | TRUNCATED);
	words = record_stack(v, 1, 2, cut); /* the stack ends with its page */
	assert_int_equal(words[0], 2 | TRUNCATED);
	assert_int_equal(words[1], UNREADABLE);
	assert_int_equal(words[2], UNREADABLE);
	assert_int_equal(words[3], UNREADABLE);
	/* Other threads, and coroutines, have their stacks below it or above it. */
	for (int first = 0; first < 4; first += 3) {
		words = record_stack(v, first, first ? 1 : 2, above);
		assert_int_equal(words[0], UNREADABLE);
		assert_int_equal(words[1], UNREADABLE);
		assert_int_equal(words[2], 2 | TRUNCATED);
		assert_int_equal(words[3], UNREADABLE);
	}
	variant_set_up_state(v);
}

static void strings_on_the_main_stack(void **state)
{
	(void)state;
	variant_each(check_stack);
}

/* A string whose pointer is itself in memory, in every possible place. */
static void check_strings_in_memory(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("8@(%rax)"), variant_capture("8@8(%rsp)"),
		variant_capture("8@(%rcx)"), variant_capture("4@4(%rax)")};
	const uint64_t *words;
	size_t bytes;

	for (int i = 0; i < 4; i++)
		captures[i].is_string = true;
	strcpy((char *)v->pages + 100, "pointed to");
	v->state.gpr[RAX] = (uintptr_t)v->pages;
	v->state.gpr[RCX] = (uintptr_t)v->pages + 3 * PAGE;
	*(uint64_t *)v->pages = (uintptr_t)v->pages + 100;
	*(uint64_t *)(uintptr_t)(v->state.gpr[RSP] + 8) = (uintptr_t)v->pages + 100;
	words = variant_record(v, captures, 4, &bytes);
	assert_int_equal(bytes, sizeof(struct ring_record) + 40); /* 4 * 4 + 1 + 2 * 10 */
	assert_int_equal(words[0], 10);
	assert_int_equal(words[1], 10);
	assert_int_equal(words[2], UNREADABLE);
	assert_int_equal(words[3], UNREADABLE); /* the upper half of a pointer */
	assert_int_equal(words[4], 0xb);
	assert_memory_equal(&words[5], "pointed to", 10);
	assert_memory_equal(&words[7], "pointed to", 10);
	variant_set_up_state(v);
}

static void strings_by_pointers_in_memory(void **state)
{
	(void)state;
	variant_each(check_strings_in_memory);
}

/* ---- Aggregates ----------------------------------------------------------------------- */

static void check_aggregates(struct variant *v)
{
	static const struct {
		const char *spec;
		uint32_t bytes;
		bool cut;
	} cases[] = {{"3@(%rax)", 3, false}, {"5@(%rax)", 5, false}, {"6@(%rsp)", 6, false},
		{"7@(%rax)", 7, false}, {"16@(%rsp)", 16, false}, {"24@-8(%rax)", 24, false},
		{"63@(%rax)", 63, false}, {"64@(%rax)", 64, false}, {"65@(%rax)", 64, true},
		{"4096@(%rax)", 64, true}};
	enum { N = sizeof(cases) / sizeof(cases[0]) };
	struct arch_capture captures[N];
	const uint64_t *words;
	const uint8_t *data;
	size_t bytes;

	v->state.gpr[RAX] = (uintptr_t)v->pages + PAGE - 20;
	for (int i = 0; i < 3 * PAGE; i++)
		v->pages[i] = i * 5 + (i >> 8);
	for (int i = 0; i < N; i++)
		captures[i] = variant_capture(cases[i].spec);
	words = variant_record(v, captures, N, &bytes);
	data = (const uint8_t *)(words + N + 1);
	assert_int_equal(words[N], (1 << N) - 1);
	for (int i = 0; i < N; i++) {
		uint64_t at = v->state.gpr[captures[i].arg.base] + captures[i].arg.disp;

		assert_int_equal(words[i], cases[i].bytes | (cases[i].cut ? TRUNCATED : 0));
		assert_memory_equal(data, (void *)(uintptr_t)at, cases[i].bytes);
		data += (cases[i].bytes + 7) & ~7u;
	}
	variant_set_up_state(v);
}

static void aggregates(void **state)
{
	(void)state;
	variant_each(check_aggregates);
}

/* As many captures as possible, with the longest code. */
static void check_largest(struct variant *v)
{
	struct arch_capture captures[ARCH_ARGS_MAX];
	const uint64_t *words;
	size_t bytes;

	strcpy((char *)v->pages, "longest");
	*(uint64_t *)(v->pages + 64) = (uintptr_t)v->pages;
	v->state.gpr[R12] = (uintptr_t)v->pages + 64 + INT32_MAX - 8;
	v->state.gpr[R13] = 1;
	for (int i = 0; i < ARCH_ARGS_MAX; i++) {
		captures[i] = variant_capture("8@-2147483647(%r12,%r13,8)");
		captures[i].is_string = true;
	}
	words = variant_record(v, captures, ARCH_ARGS_MAX, &bytes);
	assert_int_equal(words[ARCH_ARGS_MAX], UINT32_MAX);
	for (int i = 0; i < ARCH_ARGS_MAX; i++) {
		assert_int_equal(words[i], 7);
		assert_memory_equal(&words[ARCH_ARGS_MAX + 1 + i], "longest", 7);
	}
	variant_set_up_state(v);
}

static void as_many_captures_as_possible(void **state)
{
	(void)state;
	variant_each(check_largest);
}

/* ---- Rings ------------------------------------------------------------------------------ */

static void set_rings(struct variant *v, uint64_t head, uint64_t tail, uint32_t lock)
{
	for (uint32_t i = 0; i < stub_host_ring_count(&v->host); i++) {
		struct ring_header *ring = stub_host_ring(&v->host, i);

		ring->head = head;
		ring->tail = tail;
		ring->lock = lock;
	}
}

/* How many bytes were written into all rings since set_rings(). */
static uint64_t grown(const struct variant *v, uint64_t head)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < stub_host_ring_count(&v->host); i++)
		bytes += stub_host_ring(&v->host, i)->head - head;
	return bytes;
}

static void check_full(struct variant *v)
{
	enum { BYTES = sizeof(struct ring_record) + 8 };
	struct arch_capture captures[] = {variant_capture("8@%rbx")};
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	uint8_t *data;
	const void *entry;

	stub_host_reset(&v->host);
	stub.captures = captures;
	stub.capture_count = stub.recorded = 1;
	entry = stub_host_emit(&v->host, &stub);
	set_rings(v, HOST_RING_BYTES - BYTES + 8, 0, 0);
	for (int i = 0; i < 3; i++)
		variant_hit(v, entry);
	assert_int_equal(grown(v, HOST_RING_BYTES - BYTES + 8), 0);
	assert_int_equal(stub_host_lost(&v->host), 3);
	assert_int_equal(stub_host_hits(&v->host), 0);
	for (uint32_t i = 0; i < stub_host_ring_count(&v->host); i++) {
		data = (uint8_t *)(stub_host_ring(&v->host, i) + 1);
		for (int k = 0; k < HOST_RING_BYTES + RING_RECORD_MAX; k++)
			assert_int_equal(data[k], 0);
	}
	/* with eight bytes more, it fits exactly */
	set_rings(v, HOST_RING_BYTES - BYTES + 8, 8, 0);
	variant_hit(v, entry);
	assert_int_equal(stub_host_lost(&v->host), 3);
	assert_int_equal(grown(v, HOST_RING_BYTES - BYTES + 8), BYTES);
	/* consumed bytes may be overwritten */
	set_rings(v, UINT64_C(1) << 40, UINT64_C(1) << 40, 0);
	variant_hit(v, entry);
	assert_int_equal(grown(v, UINT64_C(1) << 40), BYTES);
}

static void full_rings_lose_what_they_count(void **state)
{
	(void)state;
	variant_each(check_full);
}

/* A record that begins four bytes before the end of the data continues after it. */
static void check_slop(struct variant *v)
{
	struct arch_capture captures[] = {variant_capture("8@%rbx"), variant_capture("8@%r14")};
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	const struct ring_record *r;
	const uint64_t *words;
	uint64_t at = 5 * (uint64_t)HOST_RING_BYTES - 4;
	size_t bytes;

	stub_host_reset(&v->host);
	captures[1].is_string = true;
	captures[1].bytes_max = 3000;
	v->state.gpr[R14] = string_before(v->pages + 3 * PAGE, 2999);
	stub.captures = captures;
	stub.capture_count = stub.recorded = 2;
	set_rings(v, at, at, 0);
	variant_hit(v, stub_host_emit(&v->host, &stub));
	r = stub_host_only_record(&v->host, &bytes);
	assert_non_null(r);
	assert_int_equal(r->site, (uint32_t)HOST_SITE);
	words = stub_host_open_record(captures, 2, r, bytes);
	assert_int_equal(words[0], v->state.gpr[RBX]);
	assert_int_equal(words[1], 2999);
	assert_memory_equal(&words[2], (void *)(uintptr_t)v->state.gpr[R14], 2999);
	variant_set_up_state(v);
}

static void records_go_on_behind_the_end(void **state)
{
	(void)state;
	variant_each(check_slop);
}

static void check_locks(struct variant *v)
{
	struct arch_stub stub = variant_stub(v, ARCH_ACTION_RECORD);
	const void *entry;
	uint32_t cpus = v->host.cpus;

	if (v->has_rseq)
		return;
	stub_host_reset(&v->host);
	entry = stub_host_emit(&v->host, &stub);
	set_rings(v, 0, 0, 1);
	variant_hit(v, entry);
	assert_int_equal(stub_host_lost(&v->host), 1);
	assert_int_equal(grown(v, 0), 0);
	for (uint32_t i = 0; i < cpus; i++) {
		set_rings(v, 0, 0, 1);
		stub_host_ring(&v->host, cpus + i)->lock = 0;
		variant_hit(v, entry);
		assert_int_equal(
			stub_host_ring(&v->host, cpus + i)->head, sizeof(struct ring_record));
		assert_int_equal(stub_host_ring(&v->host, cpus + i)->lock, 0);
	}
	assert_int_equal(stub_host_lost(&v->host), 1);
}

static void rings_without_rseq_are_locked(void **state)
{
	(void)state;
	variant_each(check_locks);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_of_every_length),
		cmocka_unit_test(strings_across_pages),
		cmocka_unit_test(strings_that_are_not_there),
		cmocka_unit_test(strings_in_the_safe_range),
		cmocka_unit_test(strings_on_the_main_stack),
		cmocka_unit_test(strings_by_pointers_in_memory),
		cmocka_unit_test(aggregates),
		cmocka_unit_test(as_many_captures_as_possible),
		cmocka_unit_test(full_rings_lose_what_they_count),
		cmocka_unit_test(records_go_on_behind_the_end),
		cmocka_unit_test(rings_without_rseq_are_locked),
	};

#ifndef __x86_64__
	return stub_harness_lacks();
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
