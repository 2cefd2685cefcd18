/* SPDX-License-Identifier: MIT */
/* Stubs that capture the stack: its bytes up to its end, and return addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cmocka.h>

#include "tests/unit/skip.h"
#include "tests/unit/stub/stub_host.h"

enum { STACK_PAGES = 8, PAGE = 4096, MAGIC_WORDS = 16, LOCAL_BYTES = 2000 };
#define MAGIC UINT64_C(0x5eed5eed12345678)

static stub_host_site *emit_site(
	struct stub_host *host, enum arch_capture_stack stack, uint16_t bytes)
{
	struct arch_capture capture = {.stack = stack, .bytes_max = bytes};
	struct arch_stub stub = stub_host_stub(host, true);

	stub_host_reset(host);
	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.captures = &capture;
	stub.capture_count = stub.recorded = 1;
	return stub_host_emit_site(host, &stub);
}

/* The word and the bytes of the only record. */
static const uint8_t *captured(const struct stub_host *host, uint64_t *word_ret)
{
	size_t bytes;
	const struct ring_record *record = stub_host_only_record(host, &bytes);
	const struct arch_capture stack = {.stack = ARCH_STACK_BYTES};
	const uint64_t *words;

	assert_non_null(record);
	words = stub_host_open_record(&stack, 1, record, bytes);
	*word_ret = words[0];
	return (const uint8_t *)&words[1];
}

static void whole_bytes(void **state)
{
	struct stub_host *host = *state;
	static const uint16_t sizes[] = {8, 512, 4096, 8192};

	volatile uint8_t room[16384]; /* so that the stack does not end just above */

	for (size_t i = 0; i < sizeof(room); i++) /* puts all of it into memory */
		room[i] = 1;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		stub_host_site *site = emit_site(host, ARCH_STACK_BYTES, sizes[i]);
		volatile uint64_t magic[MAGIC_WORDS];
		const uint8_t *bytes;
		uint64_t word;
		int found = 0;

		for (int k = 0; k < MAGIC_WORDS; k++)
			magic[k] = MAGIC + k;
		site(magic[0], 0, 0);
		bytes = captured(host, &word);
		assert_int_equal(word, sizes[i]);
		for (size_t at = 0; at + sizeof(magic) <= sizes[i]; at += 8)
			found += memcmp(bytes + at, (const void *)magic, sizeof(magic)) == 0;
		assert_int_equal(found, sizes[i] > 8);
	}
}

/* ---- A stack that ends nearby --------------------------------------------------------- */

struct small {
	ucontext_t caller, callee;
	stub_host_site *site;
	uint8_t *stack;
};

static void on_small_stack(unsigned int low, unsigned int high)
{
	struct small *s = (struct small *)((uintptr_t)high << 32 | low);
	volatile uint8_t local[LOCAL_BYTES];

	for (int i = 0; i < LOCAL_BYTES; i++)
		local[i] = (uint8_t)(i * 7);
	s->site(local[5], 0, 0);
	local[0] = 1; /* keeps it alive until here */
}

static void bytes_end_with_the_stack(void **state)
{
	struct stub_host *host = *state;
	struct small s = {.site = emit_site(host, ARCH_STACK_BYTES, ARCH_STACK_MAX - 8)};
	uint8_t *memory = mmap(NULL, (STACK_PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint8_t *bytes;
	uint64_t word, length;

	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + STACK_PAGES * PAGE, PAGE, PROT_NONE), 0);
	getcontext(&s.callee);
	s.callee.uc_stack.ss_sp = memory + (STACK_PAGES - 4) * PAGE;
	s.callee.uc_stack.ss_size = 4 * PAGE;
	s.callee.uc_link = &s.caller;
	makecontext(&s.callee, (void (*)(void))on_small_stack, 2, (unsigned int)(uintptr_t)&s,
		(unsigned int)((uintptr_t)&s >> 32));
	assert_int_equal(swapcontext(&s.caller, &s.callee), 0);
	bytes = captured(host, &word);
	length = ring_string_length(word);
	assert_int_equal(word, length | UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	assert_true(length > LOCAL_BYTES && length < 4 * PAGE);
	/* The contents of the caller's own variable. */
	assert_memory_equal(bytes + length - LOCAL_BYTES / 2 - 256,
		memory + STACK_PAGES * PAGE - LOCAL_BYTES / 2 - 256, LOCAL_BYTES / 2);
	munmap(memory, (STACK_PAGES + 1) * PAGE);
}

/*
 * The page above belongs to a program that may have to provide it: it is not read, nor asked for.
 */
static void bytes_end_where_memory_does(void **state)
{
	struct stub_host *host = *state;
	struct small s = {.site = emit_site(host, ARCH_STACK_BYTES, ARCH_STACK_MAX - 8)};
	uint8_t *memory = mmap(NULL, 2 * STACK_PAGES * PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char there;
	uint64_t word;

	assert_ptr_not_equal(memory, MAP_FAILED);
	getcontext(&s.callee);
	s.callee.uc_stack.ss_sp = memory + (STACK_PAGES - 4) * PAGE;
	s.callee.uc_stack.ss_size = 4 * PAGE;
	s.callee.uc_link = &s.caller;
	makecontext(&s.callee, (void (*)(void))on_small_stack, 2, (unsigned int)(uintptr_t)&s,
		(unsigned int)((uintptr_t)&s >> 32));
	assert_int_equal(swapcontext(&s.caller, &s.callee), 0);
	captured(host, &word);
	assert_true(ring_string_length(word) > LOCAL_BYTES);
	assert_true(ring_string_length(word) < 4 * PAGE);
	assert_true(word >> RING_STRING_TRUNCATED_BIT & 1);
	assert_int_equal(mincore(memory + STACK_PAGES * PAGE, PAGE, &there), 0);
	assert_int_equal(there & 1, 0);
	munmap(memory, 2 * STACK_PAGES * PAGE);
}

/* ---- Return addresses ------------------------------------------------------------------ */

/* __builtin_frame_address() makes the compiler keep a frame pointer. */
static __attribute__((noinline)) uintptr_t recurse(stub_host_site *site, int depth)
{
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);

	if (depth == 0)
		site(0, 0, 0);
	else
		frame += recurse(site, depth - 1);
	__asm__ volatile("" : "+r"(frame)); /* no tail call */
	return frame;
}

static void frames(void **state)
{
	struct stub_host *host = *state;
	uint64_t pcs[ARCH_FRAMES_MAX], word;
	const uint8_t *bytes;

	recurse(emit_site(host, ARCH_STACK_FRAMES, 8 * 12), 9);
	bytes = captured(host, &word);
	assert_true(word >= 10 * 8 && word <= 12 * 8);
	memcpy(pcs, bytes, word);
	/* The first one is where the frame of depth 0 returns to. */
	for (int i = 1; i < 9; i++)
		assert_int_equal(pcs[i], pcs[0]);
	assert_int_not_equal(pcs[9], pcs[0]);
	recurse(emit_site(host, ARCH_STACK_FRAMES, 8 * 4), 9);
	captured(host, &word);
	assert_int_equal(word, 4 * 8);
}

/* Calls the site with something else in %rbp. */
static inline __attribute__((always_inline)) void call_with_rbp(stub_host_site *site, uint64_t rbp)
{
	/* %rbx is callee-saved, and is not %rbp. */
	__asm__ volatile("lea -128(%%rsp), %%rsp\n\t"
			 "push %%rbp\n\t"
			 "mov %%rdx, %%rbp\n\t"
			 "call *%%rbx\n\t"
			 "pop %%rbp\n\t"
			 "lea 128(%%rsp), %%rsp"
			 : "+d"(rbp)
			 : "b"(site)
			 : "rax", "rcx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

static void no_frames(void **state)
{
	struct stub_host *host = *state;
	uint64_t here[4] = {0};
	const uint64_t values[] = {0, 1, 8, UINT64_MAX, UINT64_MAX - 7, (uintptr_t)here + 1,
		(uintptr_t)host & ~UINT64_C(7), ((uintptr_t)here & ~UINT64_C(7)) - (1 << 16)};

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		uint64_t word;

		call_with_rbp(emit_site(host, ARCH_STACK_FRAMES, 8 * 12), values[i]);
		captured(host, &word);
		assert_int_equal(word, 0);
	}
}

/* What only records and rows prepare is refused elsewhere. */
static void not_of_begins(void **state)
{
	struct stub_host *host = *state;
	struct arch_capture capture = {.stack = ARCH_STACK_BYTES, .bytes_max = 512};
	struct arch_stub stub = stub_host_stub(host, true);
	struct arch_stub_code code;
	uint8_t out[ARCH_STUB_MAX];

	stub.captures = &capture;
	stub.capture_count = stub.recorded = 1;
	stub.next = (uintptr_t)out;
	stub.actions[0].kind = ARCH_ACTION_CALL;
	assert_int_equal(
		arch_make_stub(&arch_x86_64, &stub, (uintptr_t)out, out, sizeof(out), &code),
		ARCH_STUB_UNSUPPORTED);
	stub.actions[0].kind = ARCH_ACTION_RECORD;
	assert_int_equal(
		arch_make_stub(&arch_x86_64, &stub, (uintptr_t)out, out, sizeof(out), &code),
		ARCH_STUB_OK);
}

/* The function at the site has saved its caller's, and uses the register for something else. */
static void saved_frame(void **state)
{
	struct stub_host *host = *state;
	struct arch_capture capture = {.stack = ARCH_STACK_FRAMES,
		.arg = {.kind = ARCH_ARG_MEMORY,
			.size = 8,
			.base = arch_x86_64.unwind_registers[0].reg,
			.index = ARCH_REG_NONE,
			.disp = 8}, /* above the return address */
		.bytes_max = 8 * 12};
	struct arch_stub stub = stub_host_stub(host, true);
	uint64_t wanted[12], word, length;

	call_with_rbp(
		emit_site(host, ARCH_STACK_FRAMES, 8 * 12), (uintptr_t)__builtin_frame_address(0));
	memcpy(wanted, captured(host, &length), sizeof(wanted));
	assert_true(length >= 8 && length <= sizeof(wanted));
	stub_host_reset(host);
	stub.actions[0].kind = ARCH_ACTION_RECORD;
	stub.captures = &capture;
	stub.capture_count = stub.recorded = 1;
	call_with_rbp(stub_host_emit_site(host, &stub), 1);
	assert_memory_equal(captured(host, &word), wanted, length);
	assert_int_equal(word, length);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(whole_bytes, stub_host_setup, stub_host_teardown),
		cmocka_unit_test_setup_teardown(
			bytes_end_with_the_stack, stub_host_setup, stub_host_teardown),
		cmocka_unit_test_setup_teardown(
			bytes_end_where_memory_does, stub_host_setup, stub_host_teardown),
		cmocka_unit_test_setup_teardown(frames, stub_host_setup, stub_host_teardown),
		cmocka_unit_test_setup_teardown(no_frames, stub_host_setup, stub_host_teardown),
		cmocka_unit_test_setup_teardown(not_of_begins, stub_host_setup, stub_host_teardown),
		cmocka_unit_test_setup_teardown(saved_frame, stub_host_setup, stub_host_teardown),
	};

#ifndef __x86_64__
	return skip_all("these stubs only run on x86-64");
#endif
	return cmocka_run_group_tests(tests, NULL, NULL);
}
