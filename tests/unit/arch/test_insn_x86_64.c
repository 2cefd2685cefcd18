/* SPDX-License-Identifier: MIT */
/* Lengths, flow and nops of x86-64 code, and what cannot be moved. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/x86/decode/insn.h"
#include "tests/unit/skip.h"

enum { AT = 0x401000, TO = 0x501000 };

/* Bytes of a test, as a string literal. */
#define BYTES(literal) (const uint8_t *)(literal), sizeof(literal) - 1

struct decode_case {
	const char *name;
	const uint8_t *bytes;
	size_t length;
	uint8_t expected; /* length, 0: undecodable */
	enum arch_flow flow;
	uint64_t target;
};

/* clang-format off */
static const struct decode_case decode_cases[] = {
	{"nop", BYTES("\x90\x90"), 1, ARCH_FLOW_NONE, 0},
	{"mov rip", BYTES("\x48\x8b\x05\x10\0\0\0"), 7, ARCH_FLOW_NONE, 0},
	{"endbr64", BYTES("\xf3\x0f\x1e\xfa"), 4, ARCH_FLOW_NONE, 0},
	{"movups zmm", BYTES("\x62\xf1\x7c\x48\x10\x05\0\0\0\0"), 10, ARCH_FLOW_NONE, 0},
	{"syscall", BYTES("\x0f\x05"), 2, ARCH_FLOW_NONE, 0},
	{"int", BYTES("\xcd\x80"), 2, ARCH_FLOW_NONE, 0},
	{"je rel8", BYTES("\x74\x10"), 2, ARCH_FLOW_BRANCH, AT + 0x12},
	{"jg rel8 back", BYTES("\x7f\xfe"), 2, ARCH_FLOW_BRANCH, AT},
	{"jo rel32", BYTES("\x0f\x80\0\x01\0\0"), 6, ARCH_FLOW_BRANCH, AT + 0x106},
	{"jne hint", BYTES("\x3e\x75\x02"), 3, ARCH_FLOW_BRANCH, AT + 5},
	{"jne bnd", BYTES("\xf2\x75\x02"), 3, ARCH_FLOW_BRANCH, AT + 5},
	{"loopne", BYTES("\xe0\x02"), 2, ARCH_FLOW_BRANCH, AT + 4},
	{"loop", BYTES("\xe2\x02"), 2, ARCH_FLOW_BRANCH, AT + 4},
	{"jrcxz", BYTES("\xe3\x02"), 2, ARCH_FLOW_BRANCH, AT + 4},
	{"jecxz", BYTES("\x67\xe3\x02"), 3, ARCH_FLOW_BRANCH, AT + 5},
	{"xbegin", BYTES("\xc7\xf8\x10\0\0\0"), 6, ARCH_FLOW_BRANCH, AT + 0x16},
	{"mov imm32, like xbegin", BYTES("\xc7\xc0\x10\0\0\0"), 6, ARCH_FLOW_NONE, 0},
	{"jmp rel8", BYTES("\xeb\x80"), 2, ARCH_FLOW_JUMP, AT + 2 - 128},
	{"jmp rel32", BYTES("\xe9\xfb\xff\xff\xff"), 5, ARCH_FLOW_JUMP, AT},
	{"jmp bnd", BYTES("\xf2\xe9\0\0\0\0"), 6, ARCH_FLOW_JUMP, AT + 6},
	{"jmp rex", BYTES("\x48\xe9\0\0\0\0"), 6, ARCH_FLOW_JUMP, AT + 6},
	{"call", BYTES("\xe8\x01\0\0\0"), 5, ARCH_FLOW_CALL, AT + 6},
	{"call tls", BYTES("\x66\x66\x48\xe8\0\0\0\0"), 8, ARCH_FLOW_CALL, AT + 8},
	{"call addr32", BYTES("\x67\xe8\0\0\0\0"), 6, ARCH_FLOW_CALL, AT + 6},
	{"call reg", BYTES("\xff\xd0"), 2, ARCH_FLOW_INDIRECT_CALL, 0},
	{"call rip", BYTES("\xff\x15\0\0\0\0"), 6, ARCH_FLOW_INDIRECT_CALL, 0},
	{"call r12", BYTES("\x41\xff\xd4"), 3, ARCH_FLOW_INDIRECT_CALL, 0},
	{"call far", BYTES("\xff\x18"), 2, ARCH_FLOW_INDIRECT_CALL, 0},
	{"jmp reg", BYTES("\xff\xe0"), 2, ARCH_FLOW_INDIRECT_JUMP, 0},
	{"jmp notrack", BYTES("\x3e\xff\xe0"), 3, ARCH_FLOW_INDIRECT_JUMP, 0},
	{"jmp table", BYTES("\xff\x24\xc5\0\0\0\0"), 7, ARCH_FLOW_INDIRECT_JUMP, 0},
	{"push mem", BYTES("\xff\x30"), 2, ARCH_FLOW_NONE, 0},
	{"inc mem", BYTES("\xff\x00"), 2, ARCH_FLOW_NONE, 0},
	{"ret", BYTES("\xc3"), 1, ARCH_FLOW_RETURN, 0},
	{"rep ret", BYTES("\xf3\xc3"), 2, ARCH_FLOW_RETURN, 0},
	{"bnd ret", BYTES("\xf2\xc3"), 2, ARCH_FLOW_RETURN, 0},
	{"ret imm", BYTES("\xc2\x08\0"), 3, ARCH_FLOW_RETURN, 0},
	{"ret far", BYTES("\xcb"), 1, ARCH_FLOW_RETURN, 0},
	{"iretq", BYTES("\x48\xcf"), 2, ARCH_FLOW_RETURN, 0},
	{"ud2", BYTES("\x0f\x0b"), 2, ARCH_FLOW_STOP, 0},
	{"hlt", BYTES("\xf4"), 1, ARCH_FLOW_STOP, 0},
	{"int3", BYTES("\xcc"), 1, ARCH_FLOW_STOP, 0},

	{"nothing", BYTES(""), 0, 0, 0},
	{"call cut off", BYTES("\xe8\0\0\0"), 0, 0, 0},
	{"mov cut off", BYTES("\x48\x8b\x05\x10\0\0"), 0, 0, 0},
	{"only prefixes", BYTES("\x66\x66\x66"), 0, 0, 0},
	{"16 bytes", BYTES("\x66\x66\x66\x66\x66\x66\x66\x66\x2e\x0f\x1f\x84\0\0\0\0\0"), 0, 0, 0},
	{"push es", BYTES("\x06\0\0\0\0\0"), 0, 0, 0},
	{"jmp rel16 or rel32", BYTES("\x66\xe9\0\0\0\0"), 0, 0, 0},
	{"call rel16 or rel32", BYTES("\x66\xe8\0\0\0\0"), 0, 0, 0},
	{"jcc rel16 or rel32", BYTES("\x66\x0f\x84\0\0\0\0"), 0, 0, 0},
	{"rex that is no rex", BYTES("\x48\x66\xe9\0\0\0\0"), 0, 0, 0},
	{"lock call", BYTES("\xf0\xe8\0\0\0\0"), 0, 0, 0},
};
/* clang-format on */

static void test_decode(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(decode_cases) / sizeof(decode_cases[0]); i++) {
		const struct decode_case *c = &decode_cases[i];
		struct arch_insn insn = {0};
		bool ok = x86_64_decode(c->bytes, c->length, AT, &insn);

		if (ok != (c->expected != 0) || insn.length != c->expected ||
			insn.flow != c->flow || insn.target != c->target)
			fail_msg("%s: %s, length %d, flow %d, target 0x%lx", c->name,
				ok ? "decoded" : "undecodable", insn.length, insn.flow,
				insn.target);
	}
}

/* Addresses wrap around, as on the CPU. */
static void test_decode_wraps(void **state)
{
	struct arch_insn insn;

	(void)state;
	assert_true(x86_64_decode(BYTES("\xe9\x10\0\0\0"), UINT64_MAX - 4, &insn));
	assert_int_equal(insn.target, 0x10);
	assert_true(x86_64_decode(BYTES("\xeb\xf0"), 0, &insn));
	assert_int_equal(insn.target, (uint64_t)-14);
}

static void *decode_often(void *data)
{
	struct arch_insn insn;
	size_t good = 0;

	(void)data;
	for (size_t i = 0; i < 20000; i++)
		good += x86_64_decode(BYTES("\x48\x8b\x05\x10\0\0\0"), AT, &insn);
	return (void *)good;
}

/* Every thread has its own handle, and frees it. */
static void test_threads(void **state)
{
	pthread_t threads[4];
	void *good;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, decode_often, NULL), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &good), 0);
		assert_int_equal((size_t)good, 20000);
	}
}

static void test_nop(void **state)
{
	/* clang-format off */
	static const struct {
		const uint8_t *bytes;
		size_t length, expected;
	} cases[] = {
		{BYTES("\x90"), 1},
		{BYTES("\x90\x90\x90"), 1},
		{BYTES("\x66\x90"), 2},
		{BYTES("\x66\x66\x66\x90"), 4},
		{BYTES("\x0f\x1f\x00"), 3},
		{BYTES("\x0f\x1f\xc0"), 3},
		{BYTES("\x0f\x1f\x40\x00"), 4},
		{BYTES("\x0f\x1f\x44\x00\x00"), 5},
		{BYTES("\x0f\x1f\x44\x00\x00\x90"), 5},
		{BYTES("\x66\x0f\x1f\x44\x00\x00"), 6},
		{BYTES("\x0f\x1f\x80\0\0\0\0"), 7},
		{BYTES("\x0f\x1f\x05\0\0\0\0"), 7},
		{BYTES("\x0f\x1f\x04\x25\0\0\0\0"), 8},
		{BYTES("\x0f\x1f\x84\0\0\0\0\0"), 8},
		{BYTES("\x66\x2e\x0f\x1f\x84\0\0\0\0\0"), 10},
		{BYTES("\x66\x66\x66\x66\x66\x66\x2e\x0f\x1f\x84\0\0\0\0\0"), 15},
		{BYTES("\x66\x66\x66\x66\x66\x66\x66\x2e\x0f\x1f\x84\0\0\0\0\0"), 0},
		{BYTES(""), 0},
		{BYTES("\x66"), 0},
		{BYTES("\x0f\x1f"), 0},
		{BYTES("\x0f\x1f\x44\x00"), 0},	     /* cut off */
		{BYTES("\x0f\x1f\x84\0\0\0\0"), 0},  /* cut off */
		{BYTES("\x0f\x1f\x04"), 0},	     /* cut off */
		{BYTES("\x0f\x1f\x48\x00"), 0},	     /* /1 */
		{BYTES("\xf3\x90"), 0},		     /* pause */
		{BYTES("\x41\x90"), 0},		     /* xchg %r8d,%eax */
		{BYTES("\xf3\x0f\x1e\xfa"), 0},	     /* endbr64 */
		{BYTES("\x87\xc0"), 0},		     /* xchg %eax,%eax clears the high half */
		{BYTES("\x8d\x76\x00"), 0},	     /* lea 0(%rsi),%esi */
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t length = x86_64_nop_length(cases[i].bytes, cases[i].length);

		if (length != cases[i].expected)
			fail_msg("nop %zu: %zu, not %zu", i, length, cases[i].expected);
	}
}

struct move_case {
	const char *name;
	const uint8_t *bytes;
	size_t length;
	enum arch_move_status status;
};

#define NOPS "\x90\x90\x90\x90\x90"

/* clang-format off */
static const struct move_case move_cases[] = {
	{"exactly", BYTES("\x90\x90\x90\x90\x90"), ARCH_MOVE_OK},
	{"call last", BYTES("\x90\x90\x90\xe8\0\0\0\0"), ARCH_MOVE_OK},
	{"call ends at need", BYTES("\x90\x90\x90\xff\xd0"), ARCH_MOVE_OK},
	{"call ends before need", BYTES("\x90\x90\xff\xd0\x90"), ARCH_MOVE_CALL_INSIDE},
	{"ret ends at need", BYTES("\x90\x90\x90\x90\xc3"), ARCH_MOVE_OK},
	{"ret ends before need", BYTES("\x90\x90\x90\xc3\x50"), ARCH_MOVE_FLOW_INSIDE},
	{"jmp ends before need", BYTES("\x90\xeb\x10\x90\x50\x90"), ARCH_MOVE_FLOW_INSIDE},
	{"indirect jmp before need", BYTES("\x90\xff\xe0\x50\x90\x90"), ARCH_MOVE_FLOW_INSIDE},
	{"ud2 before need", BYTES("\x90\x0f\x0b\x50\x90"), ARCH_MOVE_FLOW_INSIDE},
	{"ud2 last", BYTES("\x90\x90\x90\x0f\x0b"), ARCH_MOVE_OK},

	{"ret before long nop, cut off", BYTES("\x90\xc3\x66\x0f\x1f\x44\0"), ARCH_MOVE_FLOW_INSIDE},
	{"ret before too little padding", BYTES("\x90\xc3\x66\x90\x48\x89\xc8"), ARCH_MOVE_FLOW_INSIDE},
	{"ret at the end of the bytes", BYTES("\x90\xc3"), ARCH_MOVE_FLOW_INSIDE},
	{"jmp into the padding", BYTES("\x90\xeb\x01\x90\x90\x90"), ARCH_MOVE_UNSUPPORTED},
	{"call before padding", BYTES("\x90\xff\xd0\x90\x90"), ARCH_MOVE_CALL_INSIDE},

	{"nothing", BYTES(""), ARCH_MOVE_TRUNCATED},
	{"four bytes", BYTES("\x90\x90\x90\x90"), ARCH_MOVE_TRUNCATED},
	{"cut off", BYTES("\x90\x48\x8b\x05\0\0"), ARCH_MOVE_TRUNCATED},
	{"no instruction", BYTES("\x90\x06\0\0\0\0\0\0"), ARCH_MOVE_UNDECODABLE},
	{"no instruction at the end", BYTES("\x90\x06"), ARCH_MOVE_UNDECODABLE},
	{"call rel16", BYTES("\x90\x66\xe8\0\0\0\0"), ARCH_MOVE_UNDECODABLE},

	{"loop", BYTES("\x90\xe2\x10" NOPS), ARCH_MOVE_UNSUPPORTED},
	{"jrcxz", BYTES("\x90\xe3\x10" NOPS), ARCH_MOVE_UNSUPPORTED},
	{"xbegin", BYTES("\xc7\xf8\x10\0\0\0"), ARCH_MOVE_UNSUPPORTED},
	{"syscall", BYTES("\x0f\x05" NOPS), ARCH_MOVE_UNSUPPORTED},
	{"syscall last", BYTES("\x90\x90\x90\x0f\x05"), ARCH_MOVE_UNSUPPORTED},
	{"sysenter", BYTES("\x0f\x34" NOPS), ARCH_MOVE_UNSUPPORTED},
	{"int", BYTES("\xcd\x80" NOPS), ARCH_MOVE_UNSUPPORTED},
	{"int1", BYTES("\xf1" NOPS), ARCH_MOVE_UNSUPPORTED},
	{"int3 last", BYTES("\x90\x90\x90\x90\xcc"), ARCH_MOVE_UNSUPPORTED},
	{"eip", BYTES("\x67\x48\x8b\x05\x10\0\0\0"), ARCH_MOVE_UNSUPPORTED},
	{"jcc into the moved", BYTES("\x90\x74\x01\x48\x89\xc8"), ARCH_MOVE_UNSUPPORTED},
	{"jcc behind the moved", BYTES("\x90\x74\x03\x48\x89\xc8"), ARCH_MOVE_OK},
	{"jcc to the site", BYTES("\x90\x74\xfd\x48\x89\xc8"), ARCH_MOVE_OK},
	{"jmp into the moved", BYTES("\x90\x90\x90\xeb\xfc"), ARCH_MOVE_UNSUPPORTED},
	{"jcc to before the site", BYTES("\x90\x74\xfc\x48\x89\xc8"), ARCH_MOVE_OK},
	{"call into the moved", BYTES("\x90\xe8\xfb\xff\xff\xff"), ARCH_MOVE_UNSUPPORTED},
	{"lea of the moved", BYTES("\x90\x48\x8d\x05\xfd\xff\xff\xff"), ARCH_MOVE_UNSUPPORTED},
	{"lea behind the moved", BYTES("\x90\x48\x8d\x05\0\0\0\0"), ARCH_MOVE_OK},
	{"f3 jmp", BYTES("\xf3\xe9\0\0\0\0"), ARCH_MOVE_UNSUPPORTED},
	{"f3 jcc", BYTES("\xf3\x74\x10" NOPS), ARCH_MOVE_UNSUPPORTED},
	{"far jmp", BYTES("\x90\x90\xff\x6d\x10"), ARCH_MOVE_UNSUPPORTED},
	{"far call", BYTES("\x90\x90\xff\x5d\x10"), ARCH_MOVE_UNSUPPORTED},
	{"jmp 16 bits", BYTES("\x90\x90\x66\xff\xe0"), ARCH_MOVE_UNSUPPORTED},
	{"call 16 bits", BYTES("\x90\x90\x66\xff\xd0"), ARCH_MOVE_UNSUPPORTED},
	{"call *%rsp", BYTES("\x90\x90\x90\xff\xd4"), ARCH_MOVE_UNSUPPORTED},
	{"call *%r12", BYTES("\x90\x90\x41\xff\xd4"), ARCH_MOVE_OK},
	{"call *-8(%rsp)", BYTES("\x90\xff\x54\x24\xf8"), ARCH_MOVE_UNSUPPORTED},
	{"call *-1(%rsp)", BYTES("\x90\xff\x54\x24\xff"), ARCH_MOVE_UNSUPPORTED},
	{"call *-15(%rsp)", BYTES("\x90\xff\x54\x24\xf1"), ARCH_MOVE_UNSUPPORTED},
	{"call *-16(%rsp)", BYTES("\x90\xff\x54\x24\xf0"), ARCH_MOVE_OK},
	{"call *-8(%r12)", BYTES("\x41\xff\x54\x24\xf8"), ARCH_MOVE_OK},
	{"call *max(%rsp)", BYTES("\xff\x94\x24\xff\xff\xff\x7f"), ARCH_MOVE_UNSUPPORTED},
	{"call *(%rsp), 8 prefixes", BYTES("\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\xff\x14\x24"), ARCH_MOVE_OK},
	{"call *(%rsp), 9 prefixes", BYTES("\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\x2e\xff\x14\x24"), ARCH_MOVE_UNSUPPORTED},
	{"call *(%esp)", BYTES("\x90\x67\xff\x14\x24"), ARCH_MOVE_UNSUPPORTED},
};
/* clang-format on */

/* clang-format off */
static const struct move_case padding_cases[] = {
	{"ret before int3", BYTES("\x90\xc3\xcc\xcc\xcc"), ARCH_MOVE_FLOW_INSIDE},
	{"ret before nops", BYTES("\x90\xc3\x90\x66\x90\x90"), ARCH_MOVE_FLOW_INSIDE},
	{"ret before long nop", BYTES("\x90\xc3\x66\x0f\x1f\x44\0\0"), ARCH_MOVE_FLOW_INSIDE},
	{"jmp before padding", BYTES("\x90\xeb\x10\x0f\x1f\0"), ARCH_MOVE_FLOW_INSIDE},
	{"jmp behind the padding", BYTES("\x90\xeb\x03\x0f\x1f\0"), ARCH_MOVE_FLOW_INSIDE},
};
/* clang-format on */

static void test_move_status(void **state)
{
	struct arch_moved moved;

	(void)state;
	for (size_t i = 0; i < sizeof(move_cases) / sizeof(move_cases[0]); i++) {
		const struct move_case *c = &move_cases[i];
		enum arch_move_status status =
			arch_x86_64.move(c->bytes, c->length, AT, TO, X86_64_JUMP_LENGTH, &moved);

		if (status != c->status)
			fail_msg("%s: %d, not %d", c->name, status, c->status);
		if (moved.padding)
			fail_msg("%s: padding", c->name);
	}
}

/* Displacements reach from -2^31 to 2^31 - 1, counted from the end of the copy. */
static void test_move_reach(void **state)
{
	static const struct {
		const uint8_t *bytes;
		size_t length;
		uint64_t to_limit; /* the farthest copy above `from` that works */
	} cases[] = {
		{BYTES("\xe9\0\0\0\0"), 0x80000000},
		{BYTES("\x0f\x84\0\0\0\0"), 0x80000000},
		{BYTES("\x48\x8b\x05\0\0\0\0"), 0x80000000},
		{BYTES("\x48\xc7\x05\0\0\0\0\x01\0\0\0"), 0x80000000},
		{BYTES("\xff\x25\0\0\0\0"), 0x80000000},
		/* the jump ends 8 bytes later than the call: push, movl, jmp *x(%rip) */
		{BYTES("\xff\x15\0\0\0\0"), 0x80000000 - 13},
		{BYTES("\xe8\0\0\0\0"), 0x80000000 - 13},
	};
	struct arch_moved moved;
	uint64_t from = 0x7f0000000000;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t to = from + cases[i].to_limit;

		assert_int_equal(
			arch_x86_64.move(cases[i].bytes, cases[i].length, from, to, 5, &moved),
			ARCH_MOVE_OK);
		assert_int_equal(
			arch_x86_64.move(cases[i].bytes, cases[i].length, from, to + 1, 5, &moved),
			ARCH_MOVE_OUT_OF_REACH);
	}
}

static void test_move_offsets(void **state)
{
	/* nop; je +16; call: copied as 1 + 6 bytes and push, jmp */
	static const uint8_t bytes[] = {0x90, 0x74, 0x10, 0xe8, 0, 0, 0, 0, 0x90};
	struct arch_moved moved;

	(void)state;
	assert_int_equal(arch_x86_64.move(bytes, sizeof(bytes), AT, TO, X86_64_JUMP_LENGTH, &moved),
		ARCH_MOVE_OK);
	assert_int_equal(moved.length, 8);
	assert_int_equal(moved.count, 3);
	assert_int_equal(moved.from_offset[0], 0);
	assert_int_equal(moved.from_offset[1], 1);
	assert_int_equal(moved.from_offset[2], 3);
	assert_int_equal(moved.to_offset[0], 0);
	assert_int_equal(moved.to_offset[1], 1);
	assert_int_equal(moved.to_offset[2], 7);
	assert_int_equal(moved.code_length, 17);
	assert_false(moved.falls_through);
	assert_int_equal(moved.padding, 0);

	assert_int_equal(arch_x86_64.move(bytes, sizeof(bytes), AT, TO, 3, &moved), ARCH_MOVE_OK);
	assert_int_equal(moved.count, 2);
	assert_true(moved.falls_through);

	assert_int_equal(arch_x86_64.move(bytes, sizeof(bytes), AT, TO, 0, &moved), ARCH_MOVE_OK);
	assert_int_equal(moved.count, 0);
	assert_int_equal(moved.code_length, 0);
	assert_true(moved.falls_through);
}

/* The padding is displaced, as far as it is needed, but not copied. */
static void test_move_padding(void **state)
{
	struct arch_moved moved;

	(void)state;
	for (size_t i = 0; i < sizeof(padding_cases) / sizeof(padding_cases[0]); i++) {
		const struct move_case *c = &padding_cases[i];

		if (arch_x86_64.move(c->bytes, c->length, AT, TO, X86_64_JUMP_LENGTH, &moved) !=
				c->status ||
			!moved.padding)
			fail_msg("%s: no padding", c->name);
	}
	assert_int_equal(arch_x86_64.move(BYTES("\x90\xc3\x66\x2e\x0f\x1f\x84\0\0\0\0\0\x55"), AT,
				 TO, X86_64_JUMP_LENGTH, &moved),
		ARCH_MOVE_FLOW_INSIDE);
	assert_int_equal(moved.length, 5);
	assert_int_equal(moved.padding, 3);
	assert_int_equal(moved.count, 2);
	assert_int_equal(moved.code_length, 2);
	assert_false(moved.falls_through);
}

/* Nine instructions are too many for one patch. */
static void test_move_many(void **state)
{
	struct arch_moved moved;

	(void)state;
	assert_int_equal(arch_x86_64.move(BYTES(NOPS NOPS), AT, TO, 8, &moved), ARCH_MOVE_OK);
	assert_int_equal(moved.count, ARCH_MOVED_INSNS_MAX);
	assert_int_equal(
		arch_x86_64.move(BYTES(NOPS NOPS), AT, TO, 9, &moved), ARCH_MOVE_UNSUPPORTED);
}

static void test_jump(void **state)
{
	static const uint8_t expected[] = {0xe9, 0xfb, 0x0f, 0, 0};
	static const uint8_t far[] = {0xff, 0x25, 0, 0, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1};
	static const uint8_t not_far[ARCH_JUMP_MAX] = {0xff, 0x25, 8};
	uint8_t out[ARCH_JUMP_MAX];

	(void)state;
	assert_int_equal(arch_x86_64.jump(AT, AT + 0x1000, out), X86_64_JUMP_LENGTH);
	assert_memory_equal(out, expected, sizeof(expected));
	assert_int_equal(arch_x86_64.jump(0x100000000, 0x100000000 + 0x80000004, out), 5);
	assert_int_equal(arch_x86_64.jump(0x100000000, 0x100000000 + 0x80000005, out), 0);
	assert_int_equal(arch_x86_64.jump(0x100000000, 0x100000000 - 0x7ffffffb, out), 5);
	assert_int_equal(arch_x86_64.jump(0x100000000, 0x100000000 - 0x7ffffffc, out), 0);

	/* The address is aligned, wherever the jump is. */
	for (uint64_t at = AT & ~UINT64_C(7); at < AT + 16; at++) {
		size_t length = arch_x86_64.far_jump(at, 0x0102030405060708, out);

		assert_in_range(length, sizeof(far), X86_64_FAR_JUMP_LENGTH);
		assert_int_equal((at + length) % 8, 0);
		assert_int_equal(out[2], length - sizeof(far));
		assert_memory_equal(out + length - 8, far + 6, 8);
		assert_int_equal(arch_x86_64.jump_target(at, out), 0x0102030405060708);
	}
	assert_int_equal(
		arch_x86_64.far_jump((AT & ~UINT64_C(7)) + 2, 0x0102030405060708, out), 14);
	assert_memory_equal(out, far, sizeof(far));
	assert_int_equal(arch_x86_64.jump_target(AT, not_far), 0);
	assert_int_equal(arch_x86_64.jump_target(AT, expected), AT + 0x1000);
	arch_x86_64.jump(AT, AT - 0x1000, out);
	assert_int_equal(arch_x86_64.jump_target(AT, out), AT - 0x1000);
	out[0] = 0x90;
	assert_int_equal(arch_x86_64.jump_target(AT, out), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nop),
		cmocka_unit_test(test_jump),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_decode),
		cmocka_unit_test(test_decode_wraps),
		cmocka_unit_test(test_move_status),
		cmocka_unit_test(test_move_reach),
		cmocka_unit_test(test_move_offsets),
		cmocka_unit_test(test_move_padding),
		cmocka_unit_test(test_move_many),
	};

	if (!x86_64_can_decode())
		return skip_all("the disassembler library is not installed");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
