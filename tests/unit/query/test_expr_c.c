/* SPDX-License-Identifier: MIT */
/*
 * Expressions follow C: the compiler compiles each of these as well, and type and value must be
 * the same for any arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/query/expr_interpreter.h"

#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wbool-operation"
#pragma GCC diagnostic ignored "-Wlogical-not-parentheses"
#ifdef __clang__
#pragma GCC diagnostic ignored "-Wconstant-logical-operand"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wbitwise-instead-of-logical"
#else
#pragma GCC diagnostic ignored "-Wbool-compare"
#pragma GCC diagnostic ignored "-Wint-in-bool-context"
#endif

/* One argument of each type. */
static const char args_note[] = "-1@%al 1@%bl -2@%cx 2@%dx -4@%esi 4@%edi -8@%r8 8@%r9";

struct variables {
	int8_t arg0;
	uint8_t arg1;
	int16_t arg2;
	uint16_t arg3;
	int32_t arg4;
	uint32_t arg5;
	int64_t arg6;
	uint64_t arg7;
	int tid, pid, cpu;
};

/* ---- The expressions ---------------------------------------------------------------------- */

/* clang-format off */
#define WITH_EACH(X, left, op) \
	X(left op arg0) X(left op arg1) X(left op arg2) X(left op arg3) \
	X(left op arg4) X(left op arg5) X(left op arg6) X(left op arg7)
#define EACH_WITH_EACH(X, op) \
	WITH_EACH(X, arg0, op) WITH_EACH(X, arg1, op) WITH_EACH(X, arg2, op) \
	WITH_EACH(X, arg3, op) WITH_EACH(X, arg4, op) WITH_EACH(X, arg5, op) \
	WITH_EACH(X, arg6, op) WITH_EACH(X, arg7, op)

/* Defined for all values. */
#define TOTAL(X) \
	EACH_WITH_EACH(X, <) EACH_WITH_EACH(X, <=) EACH_WITH_EACH(X, >) EACH_WITH_EACH(X, >=) \
	EACH_WITH_EACH(X, ==) EACH_WITH_EACH(X, !=) EACH_WITH_EACH(X, &) EACH_WITH_EACH(X, |) \
	EACH_WITH_EACH(X, ^) EACH_WITH_EACH(X, &&) EACH_WITH_EACH(X, ||) \
	WITH_EACH(X, arg7, +) WITH_EACH(X, arg7, -) WITH_EACH(X, arg7, *) \
	X(arg5 + arg4) X(arg5 - arg4) X(arg5 * arg4) X(arg0 - arg5) X(arg5 * arg3) X(arg5 - 1) \
	X(arg5 + 4294967295) X(arg5 * 3u) X(arg4 + 1u) X(arg0 * 1u) X(arg3 * 65535u) \
	WITH_EACH(X, 0, ==) WITH_EACH(X, 0u, >) WITH_EACH(X, -1, <) WITH_EACH(X, -1, ==) \
	WITH_EACH(X, 255, ==) WITH_EACH(X, 0xffffffff, ==) WITH_EACH(X, 0x80000000, <=) \
	WITH_EACH(X, 2147483648, <=) WITH_EACH(X, -1l, <) WITH_EACH(X, -1ul, ==) \
	WITH_EACH(X, ~0u, >=) WITH_EACH(X, 0xffffffffffffffff, ==) WITH_EACH(X, '\xff', ==) \
	WITH_EACH(X, , ~) WITH_EACH(X, , !) WITH_EACH(X, , !!) WITH_EACH(X, , +) WITH_EACH(X, ~, !) \
	X(-arg0) X(-arg1) X(-arg2) X(-arg3) X(-arg5) X(-arg7) X(- -arg5) X(~-arg3) X(-~arg5) \
	X(arg5 << (arg1 & 31)) X(arg7 << (arg1 & 63)) X(arg5 >> (arg3 & 31)) X(arg7 >> (arg3 & 63)) \
	X(arg4 >> (arg6 & 31)) X(arg6 >> (arg7 & 63)) X(arg0 >> 3) X(arg1 >> 7) X(arg2 >> 15) \
	X(arg3 << 15) X(arg1 << 22) X(arg5 << 31) X(arg5 >> 31) X(arg7 >> 63ul) X(arg6 >> '?') \
	X(1u << (arg4 & 31)) X(1ul << (arg5 & 63)) X(arg5 >> (arg7 & 31)) X(arg5 << 1ul) \
	X(arg0 / 3) X(arg1 / 3) X(arg2 % 7) X(arg3 % 7) X(arg4 / 10) X(arg5 / 10) X(arg6 / 10) \
	X(arg7 / 10) X(arg4 % -10) X(arg5 % 10) X(arg6 % 10) X(arg7 % 10) X(arg5 / -1) X(arg7 % -1) \
	X(arg4 / 7u) X(arg4 % 7u) X(arg0 / 5ul) X(arg6 % 5u) X(arg5 / 5l) X(1000 / (arg1 | 1)) \
	X(tid == arg4) X(pid > 0u) X(cpu - 1 < arg5) X(tid & 1) X(-cpu) X(pid ^ arg7) \
	X(arg0 != 0 && 100 / arg0 > 3) X(arg7 == 0 || 100 / arg7 == 0) X(!arg1 || 7 % arg1) \
	X(arg4 | arg5 ^ arg6 & arg7 == arg0 < arg1 << 2) X(arg0 < arg1 < arg2 < arg3) \
	X(arg0 == arg1 != arg2 == arg3) X(arg5 & 3 == 3) X((arg5 & 3) == 3) X(arg5 | 1 == 1) \
	X(arg7 - arg5 - arg3) X(arg7 - (arg5 - arg3)) X(arg7 / 3 * 3) X(arg7 / (3 * 3)) \
	X(arg7 % 10 / 3) X(arg7 * 2 % 7) X(arg5 + 2u * arg3) X((arg5 + 2u) * arg3) \
	X(arg5 << 1 << 2) X(arg5 >> 1 + 2) X(arg5 << 3 - 1) X(arg5 < arg7 << 1) X(arg5 >> 2 > arg3) \
	X(arg0 || arg1 && arg2) X((arg0 || arg1) && arg2) X(arg0 && arg1 || arg2 && arg3) \
	X(arg0 | arg1 && arg2) X(arg0 && arg1 & arg2) X(arg0 ^ arg1 | arg2) X(arg0 | arg1 ^ arg2) \
	X(arg0 & arg1 ^ arg2) X(arg0 ^ arg1 & arg2) X(!arg0 == arg1) X(!(arg0 == arg1)) \
	X(~arg5 & arg3) X(~(arg5 & arg3)) X(-arg5 * arg3) X(!arg4 + arg5) X(!arg6 < arg7) \
	X((arg0 < arg1) == (arg2 < arg3)) X((arg0 < arg1) + (arg2 < arg3)) X((arg0 > 0) > -1u) \
	X((arg5 > 3u) - 2 < 0) X((arg5 > 3u) - 2 < 0u) X(1 || arg0) X(0 && arg0) X(arg4 && 0) \
	X(-1 < 0u == arg1) X(arg4 > 100 && (arg6 == 3 || !(arg5 & 0x80)))

/* Defined for small values other than 0. */
#define PARTIAL(X) \
	EACH_WITH_EACH(X, +) EACH_WITH_EACH(X, -) EACH_WITH_EACH(X, *) \
	EACH_WITH_EACH(X, /) EACH_WITH_EACH(X, %) \
	X(arg0 - arg1 - arg2) X(arg0 - (arg1 - arg2)) X(arg4 * arg2 / arg0) X(arg4 * (arg2 / arg0)) \
	X(arg4 / arg2 * arg0) X(arg4 % arg2 * arg0) X(arg4 * arg2 % arg0) X(arg4 + arg2 * arg0) \
	X((arg4 + arg2) * arg0) X(arg4 - arg2 / arg0) X(arg4 * arg2 + arg6 * arg0) X(-arg4 - -arg6) \
	X(-arg6 / arg4) X(arg6 % arg4 < arg2 + arg0) X(arg6 - arg4 == arg2 - arg0) X(-(arg4 + arg5)) \
	X(arg4 - arg2 >> 1) X(arg4 - (arg2 >> 1)) X(arg1 + arg3 << 2) X(arg1 + (arg3 << 2))

#define CONSTANTS(X) \
	X(0) X(1) X(-1) X(2147483647) X(2147483648) X(-2147483648) X(4294967295) X(4294967296) \
	X(9223372036854775807) X(-9223372036854775807 - 1) X(18446744073709551615u) X(0x7fffffff) \
	X(0x80000000) X(0XFFFFFFFF) X(0x100000000) X(0x7fffffffffffffff) X(0x8000000000000000) \
	X(0xffffffffffffffff) X(010) X(017777777777) X(037777777777) X(040000000000) X(00) \
	X(01777777777777777777777) X(4294967295u) X(4294967296u) X(1u) X(1U) X(1l) X(1L) X(1ul) \
	X(1LU) X(1ll) X(1ULL) X(0xffffffffl) X(0xffffffffffffffffl) X(0x1uL) X(1LLu) \
	X('a') X('0') X('\'') X('"') X('\"') X('\\') X('\n') X('\t') X('\a') X('\b') X('\f') X('\v') \
	X('\r') X('\?') X('\0') X('\7') X('\101') X('\377') X('\x41') X('\xff') X('\x80') X('\x007f') \
	X(1 + 2 * 3) X((1 + 2) * 3) X(7 / 2) X(-7 / 2) X(7 / -2) X(-7 % 3) X(7 % -3) X(-7 / 2u) \
	X(-1 < 0u) X(-1 < 0) X(-1l < 0u) X(-1l < 0ul) X(-1 == 4294967295u) X(-1 == 4294967295) \
	X(-1 == 0xffffffff) X(5u - 6) X(5u - 6 < 0) X(5u - 6l) X(-1u) X(-1ul) X(-2147483647 - 1) \
	X(~0) X(~0u) X(~0l) X(~0ul) X(!0) X(!5) X(!!5) X(- -5) X(+5) X(-+5) X(~-1) X(-'a') \
	X(1 << 30) X(1u << 31) X(1l << 40) X(1ul << 63) X(-1 >> 1) X(-1u >> 1) \
	X(-1l >> 63) X(0x80000000 >> 31) X(1 << 1ul) X(1 << '\2') X(8 >> 1 << 1) X(1 && 2) X(0 || 0) \
	X(0 && 1) X(0 || 7) X(0xf0 & 0x3c) X(0xf0 | 0x3c) X(0xf0 ^ 0x3c) X(-1 & 0xffu) X(-1 ^ 1ul) \
	X(1 < 2 < 3) X(3 > 2 > 1) X(1 == 1 == 1) X(2 == 2 == 2) X(1 | 2 == 2) X(6 & 3 == 3) \
	X(65536 * 65536u) X(65536 * 65536l) X(4294967295u + 1) X(4294967295u * 2) \
	X(18446744073709551615u + 1) X(0ul - 1) X(1000000007 % 1000) X(7u % 4) X(-7 % 4u) \
	X(1 <= 1) X(2 <= 1) X(-1 <= 0u) X(1 >= 1) X(1 >= 2) X(-1 >= 0u) X(1 != 2) X(-1 != ~0u)

/* ---- What the compiler makes of them ------------------------------------------------------ */

struct compiled {
	const char *text;
	bool wide, is_signed;
};

#define TYPED(e) {#e, sizeof(e) == 8, (__typeof__(e))-1 < (__typeof__(e))1},
#define VALUE(e) *ret++ = (uint64_t)(e);
#define DECLARE(v) \
	int8_t arg0 = (v)->arg0; uint8_t arg1 = (v)->arg1; \
	int16_t arg2 = (v)->arg2; uint16_t arg3 = (v)->arg3; \
	int32_t arg4 = (v)->arg4; uint32_t arg5 = (v)->arg5; \
	int64_t arg6 = (v)->arg6; uint64_t arg7 = (v)->arg7; \
	int tid = (v)->tid, pid = (v)->pid, cpu = (v)->cpu; \
	(void)arg0; (void)arg1; (void)arg2; (void)arg3; (void)arg4; (void)arg5; (void)arg6; \
	(void)arg7; (void)tid; (void)pid; (void)cpu

/* All expressions of a list: their texts and types, and their values for given arguments. */
#define COMPILED(list, LIST) \
	static const struct compiled *list##_texts(size_t *count_ret) \
	{ \
		DECLARE(&(struct variables){0}); \
		static const struct compiled texts[] = {LIST(TYPED)}; \
		*count_ret = sizeof(texts) / sizeof(texts[0]); \
		return texts; \
	} \
	static void list##_values(const struct variables *v, uint64_t *ret) \
	{ \
		DECLARE(v); \
		LIST(VALUE) \
	}
COMPILED(total, TOTAL)
COMPILED(partial, PARTIAL)
COMPILED(constants, CONSTANTS)
/* clang-format on */

/* ---- The comparison ----------------------------------------------------------------------- */

enum { ROUNDS = 400, EXPRESSIONS_MAX = 1200, WORDS = 8 };

struct list {
	const struct compiled *(*texts)(size_t *count_ret);
	void (*values)(const struct variables *v, uint64_t *ret);
	void (*choose)(struct variables *ret, unsigned int round);
};

static uint64_t value_of(const struct expr_case *c, const struct variables *v)
{
	const uint64_t words[WORDS] = {(uint64_t)v->arg0, v->arg1, (uint64_t)v->arg2, v->arg3,
		(uint64_t)v->arg4, v->arg5, (uint64_t)v->arg6, v->arg7};
	uint64_t captured[ARCH_ARGS_MAX] = {0}, value;
	struct expr_input input = {.words = captured, .tid = v->tid, .pid = v->pid, .cpu = v->cpu};

	for (uint8_t i = 0; i < c->layout.capture_count; i++)
		captured[i] = words[expr_case_arg(c, i)];
	if (!expr_evaluate(&c->bound, &input, &value))
		fail_msg("the hit is rejected");
	return value;
}

static void check_type(const struct expr_case *c, const struct compiled *compiled)
{
	const struct arch_expr_node *whole = &c->nodes[c->bound.count - 1];
	const char *why = expr_ill_formed(&c->bound, c->layout.capture_count, 0);

	if (why)
		fail_msg("%s: %s", compiled->text, why);
	if (expr_is_signed(whole) != compiled->is_signed)
		fail_msg("%s: is %ssigned in C", compiled->text, compiled->is_signed ? "" : "un");
	/* The node does not contain the type of a 0 or 1 result. */
	if (whole->kind < ARCH_EXPR_LT && whole->kind != ARCH_EXPR_NOT &&
		whole->wide != compiled->wide)
		fail_msg("%s: has %d bits in C", compiled->text, compiled->wide ? 64 : 32);
}

static void compare(const struct list *list)
{
	static uint64_t values[ROUNDS][EXPRESSIONS_MAX];
	static struct variables variables[ROUNDS];
	const struct compiled *texts;
	struct probe_error *error;
	struct expr_case c;
	size_t count;

	texts = list->texts(&count);
	assert_in_range(count, 1, EXPRESSIONS_MAX);
	for (unsigned int round = 0; round < ROUNDS; round++) {
		list->choose(&variables[round], round);
		list->values(&variables[round], values[round]);
	}
	for (size_t i = 0; i < count; i++) {
		error = expr_case_init(&c, args_note, texts[i].text);
		if (error)
			fail_msg("%s", error->message);
		check_type(&c, &texts[i]);
		for (unsigned int round = 0; round < ROUNDS; round++) {
			uint64_t value = value_of(&c, &variables[round]);

			if (value != values[round][i])
				fail_msg("%s: %#lx, in C %#lx, in round %u", texts[i].text,
					(unsigned long)value, (unsigned long)values[round][i],
					round);
		}
		expr_case_deinit(&c);
	}
}

/* The same sequence in each run (Marsaglia, "Xorshift RNGs", 2003). */
static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Values at the limits of some type, small ones, and random ones. */
static uint64_t interesting(uint64_t *state)
{
	uint64_t kind = next(state) % 8, near = next(state) % 5 - 2;
	unsigned int bit = next(state) % 65;

	if (kind < 4)
		return (bit < 64 ? UINT64_C(1) << bit : 0) + near;
	return kind < 7 ? near * (next(state) % 50) : next(state);
}

static void choose_any(struct variables *ret, unsigned int round)
{
	uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (round + 1);

	*ret = (struct variables){.arg0 = (int8_t)interesting(&state),
		.arg1 = (uint8_t)interesting(&state),
		.arg2 = (int16_t)interesting(&state),
		.arg3 = (uint16_t)interesting(&state),
		.arg4 = (int32_t)interesting(&state),
		.arg5 = (uint32_t)interesting(&state),
		.arg6 = (int64_t)interesting(&state),
		.arg7 = interesting(&state),
		.tid = 1 + next(&state) % 4194304,
		.pid = 1 + next(&state) % 4194304,
		.cpu = next(&state) % 64};
	if (ret->tid % 4 == 0)
		ret->arg4 = ret->tid; /* tests equality, too */
	if (ret->arg4 == INT32_MIN)
		ret->arg4++; /* which C does not divide by -1 or negate */
}

static int small(uint64_t *state, bool is_signed)
{
	int value = 1 + next(state) % 100;

	return is_signed && next(state) % 2 ? -value : value;
}

static void choose_small(struct variables *ret, unsigned int round)
{
	uint64_t state = UINT64_C(0xd1342543de82ef95) * (round + 1);

	*ret = (struct variables){.arg0 = (int8_t)small(&state, true),
		.arg1 = (uint8_t)small(&state, false),
		.arg2 = (int16_t)small(&state, true),
		.arg3 = (uint16_t)small(&state, false),
		.arg4 = small(&state, true),
		.arg5 = (uint32_t)small(&state, false),
		.arg6 = small(&state, true),
		.arg7 = (uint64_t)small(&state, false),
		.tid = 1,
		.pid = 2,
		.cpu = 3};
}

static void test_total(void **state)
{
	(void)state;
	compare(&(struct list){total_texts, total_values, choose_any});
}

static void test_partial(void **state)
{
	(void)state;
	compare(&(struct list){partial_texts, partial_values, choose_small});
}

/* They are folded into one node. */
static void test_constants(void **state)
{
	static uint64_t values[EXPRESSIONS_MAX];
	const struct compiled *texts;
	struct probe_error *error;
	struct expr_case c;
	size_t count;

	(void)state;
	texts = constants_texts(&count);
	assert_in_range(count, 1, EXPRESSIONS_MAX);
	constants_values(&(struct variables){0}, values);
	for (size_t i = 0; i < count; i++) {
		error = expr_case_init(&c, args_note, texts[i].text);
		if (error)
			fail_msg("%s", error->message);
		assert_int_equal(c.bound.count, 1);
		assert_int_equal(c.nodes[0].kind, ARCH_EXPR_CONST);
		if (c.nodes[0].value != values[i] || c.nodes[0].wide != texts[i].wide ||
			c.nodes[0].is_signed != texts[i].is_signed)
			fail_msg("%s: %#lx, %d bits, signed: %d; in C %#lx, %d, %d", texts[i].text,
				(unsigned long)c.nodes[0].value, c.nodes[0].wide ? 64 : 32,
				c.nodes[0].is_signed, (unsigned long)values[i],
				texts[i].wide ? 64 : 32, texts[i].is_signed);
		expr_case_deinit(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_total),
		cmocka_unit_test(test_partial),
		cmocka_unit_test(test_constants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
