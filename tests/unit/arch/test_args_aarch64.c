/* SPDX-License-Identifier: MIT */
/* Argument specifications of aarch64, on any host, and the table of ISAs. */
/* Not under ThreadSanitizer: nothing has threads. */
#include "tests/unit/arch/args_case.h"

#include <elf.h>

#include "arch/spec.h"

enum { FP = 29, LR = 30, SP = 31 };

/* clang-format off */
static const struct args_case operands[] = {
	REGISTER_CASE("8@x0", 8, "", 0, 8, 0),
	REGISTER_CASE("-8@x30", 8, "s", 30, 8, 0),
	REGISTER_CASE("-4@w0", 4, "s", 0, 4, 0),
	REGISTER_CASE("1@w19", 1, "", 19, 4, 0),
	REGISTER_CASE("8@sp", 8, "", SP, 8, 0),
	REGISTER_CASE("4@wsp", 4, "", SP, 4, 0),
	REGISTER_CASE("8@fp", 8, "", FP, 8, 0),
	REGISTER_CASE("8@x29", 8, "", FP, 8, 0),
	REGISTER_CASE("8@lr", 8, "", LR, 8, 0),
	REGISTER_CASE("8@ip1", 8, "", 17, 8, 0),
	REGISTER_CASE("8@X5", 8, "", 5, 8, 0),
	REGISTER_CASE("16@x2", 16, "", 2, 8, 0),
	REGISTER_CASE("x3", 8, "n", 3, 8, 0),
	REGISTER_CASE("w3", 4, "n", 3, 4, 0),
	FP_CASE("4f@s0", 4, "f", 0, 4),
	FP_CASE("8f@d31", 8, "f", 31, 8),
	FP_CASE("2f@h1", 2, "f", 1, 2),
	FP_CASE("1@b1", 1, "", 1, 1),
	FP_CASE("16f@q7", 16, "f", 7, 16),
	FP_CASE("8f@v8", 8, "f", 8, 16),
	FP_CASE("d2", 8, "n", 2, 8),

	IMMEDIATE_CASE("8@xzr", 8, "", 0, NULL),
	IMMEDIATE_CASE("-4@wzr", 4, "s", 0, NULL),
	IMMEDIATE_CASE("xzr", 8, "n", 0, NULL),
	IMMEDIATE_CASE("wzr", 4, "n", 0, NULL),
	IMMEDIATE_CASE("4@5", 4, "", 5, NULL),
	IMMEDIATE_CASE("-4@-5", 4, "s", -5, NULL),
	IMMEDIATE_CASE("-4@#5", 4, "s", 5, NULL),
	IMMEDIATE_CASE("-4@#-0x10", 4, "s", -16, NULL),
	IMMEDIATE_CASE("5", 8, "n", 5, NULL),
	IMMEDIATE_CASE("-5", 8, "n", -5, NULL),
	IMMEDIATE_CASE("8@-9223372036854775808", 8, "", INT64_MIN, NULL),
	IMMEDIATE_CASE("8@0xffffffffffffffff", 8, "", -1, NULL),
	IMMEDIATE_CASE("8@glob", 8, "", 0, "glob"),
	IMMEDIATE_CASE("8@glob+8", 8, "", 8, "glob"),
	IMMEDIATE_CASE("8@x_1", 8, "", 0, "x_1"),

	MEMORY_CASE("4@[sp, 60]", 4, "", SP, NONE, 1, 60, NULL),
	MEMORY_CASE("4@[sp,60]", 4, "", SP, NONE, 1, 60, NULL),
	MEMORY_CASE("8@[ x0 ]", 8, "", 0, NONE, 1, 0, NULL),
	MEMORY_CASE("8@[x0]", 8, "", 0, NONE, 1, 0, NULL),
	MEMORY_CASE("-1@[x0, #16]", 1, "s", 0, NONE, 1, 16, NULL),
	MEMORY_CASE("8@[x29, -16]", 8, "", FP, NONE, 1, -16, NULL),
	MEMORY_CASE("8@[fp, #-16]", 8, "", FP, NONE, 1, -16, NULL),
	MEMORY_CASE("8@[sp, 16+8]", 8, "", SP, NONE, 1, 24, NULL),
	MEMORY_CASE("8@[x1, x2]", 8, "", 1, 2, 1, 0, NULL),
	MEMORY_CASE("8@[x1, x2, lsl 3]", 8, "", 1, 2, 8, 0, NULL),
	MEMORY_CASE("8@[x1, x2, lsl #2]", 8, "", 1, 2, 4, 0, NULL),
	MEMORY_CASE("8@[x1, x2, LSL 0]", 8, "", 1, 2, 1, 0, NULL),
	MEMORY_CASE("8@[x1, x2, sxtx]", 8, "", 1, 2, 1, 0, NULL),
	MEMORY_CASE("8@[x1, x2, sxtx 1]", 8, "", 1, 2, 2, 0, NULL),
	MEMORY_CASE("8@[x1, xzr, lsl 3]", 8, "", 1, NONE, 1, 0, NULL),
	MEMORY_CASE("8@[x0, #:lo12:glob]", 8, "", 0, NONE, 1, 0, "glob"),
	MEMORY_CASE("4@[x21, :lo12:glob+8]", 4, "", 21, NONE, 1, 8, "glob"),
	MEMORY_CASE("[sp]", 8, "n", SP, NONE, 1, 0, NULL),
	MEMORY_CASE("8f@[sp, 8]", 8, "f", SP, NONE, 1, 8, NULL),
	MEMORY_CASE("800@[x2]", 800, "", 2, NONE, 1, 0, NULL),
	MEMORY_CASE("-16@[sp, 16]", 16, "s", SP, NONE, 1, 16, NULL),
};

static const struct args_case unknown[] = {
	UNKNOWN_CASE("8@x31", 8, ""),
	UNKNOWN_CASE("8@w31", 8, ""),
	UNKNOWN_CASE("8@x32", 8, ""),
	UNKNOWN_CASE("8@x00", 8, ""),
	UNKNOWN_CASE("8@v32", 8, ""),
	UNKNOWN_CASE("8@v0.2d", 8, ""),
	UNKNOWN_CASE("8@v0.d[1]", 8, ""),
	UNKNOWN_CASE("8@z0", 8, ""),
	UNKNOWN_CASE("8@p3", 8, ""),
	UNKNOWN_CASE("8@x0,x1", 8, ""),
	UNKNOWN_CASE("8@#", 8, ""),
	UNKNOWN_CASE("8@-", 8, ""),
	UNKNOWN_CASE("8@18446744073709551616", 8, ""),
	UNKNOWN_CASE("8@-9223372036854775809", 8, ""),
	UNKNOWN_CASE("8@.LC0", 8, ""),
	UNKNOWN_CASE("8@glob@GOT", 8, ""),
	UNKNOWN_CASE("8@:lo12:glob", 8, ""),
	UNKNOWN_CASE("4@[x21, #:lo12:.LANCHOR2]", 4, ""),
	UNKNOWN_CASE("8@[x0, #:lo12:8]", 8, ""),
	UNKNOWN_CASE("8@[x0, :hi12:glob]", 8, ""),
	UNKNOWN_CASE("8@[x0, glob]", 8, ""),
	UNKNOWN_CASE("8@[x0, :got_lo12:glob]", 8, ""),
	UNKNOWN_CASE("8@[x0, glob]", 8, ""),
	UNKNOWN_CASE("8@[glob]", 8, ""),
	UNKNOWN_CASE("8@[w0]", 8, ""),
	UNKNOWN_CASE("8@[d0]", 8, ""),
	UNKNOWN_CASE("8@[xzr]", 8, ""),
	UNKNOWN_CASE("8@[5]", 8, ""),
	UNKNOWN_CASE("8@[]", 8, ""),
	UNKNOWN_CASE("8@[x0, ]", 8, ""),
	UNKNOWN_CASE("8@[x0 x1]", 8, ""),
	UNKNOWN_CASE("8@[x0, sp]", 8, ""),
	UNKNOWN_CASE("8@[x0, w1]", 8, ""),
	UNKNOWN_CASE("8@[x0, w1, uxtw]", 8, ""),
	UNKNOWN_CASE("8@[x0, w1, sxtw 3]", 8, ""),
	UNKNOWN_CASE("8@[x0, x1, lsl]", 8, ""),
	UNKNOWN_CASE("8@[x0, x1, lsl 4]", 8, ""),
	UNKNOWN_CASE("8@[x0, x1, lsr 3]", 8, ""),
	UNKNOWN_CASE("8@[x0, x1, lsl 3, 5]", 8, ""),
	UNKNOWN_CASE("8@[x0, 8]!", 8, ""),
	UNKNOWN_CASE("8@[x0],8", 8, ""),
	UNKNOWN_CASE("8@[x0", 8, ""),
	UNKNOWN_CASE("8@%rax", 8, ""),
	UNKNOWN_CASE("8@8(%rax)", 8, ""),
	UNKNOWN_CASE("8@$5", 8, ""),
};
/* clang-format on */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void test_operands(void **state)
{
	(void)state;
	args_check(aarch64_parse_args, operands, COUNT(operands), "4@w1");
}

static void test_unknown(void **state)
{
	(void)state;
	args_check(aarch64_parse_args, unknown, COUNT(unknown), "4@w1");
}

static void test_register_names(void **state)
{
	static const struct {
		char letter;
		enum arch_arg_kind kind;
		int count;
		unsigned int width;
	} sets[] = {{'w', ARCH_ARG_REGISTER, 31, 4}, {'x', ARCH_ARG_REGISTER, 31, 8},
		{'b', ARCH_ARG_FP_REGISTER, 32, 1}, {'h', ARCH_ARG_FP_REGISTER, 32, 2},
		{'s', ARCH_ARG_FP_REGISTER, 32, 4}, {'d', ARCH_ARG_FP_REGISTER, 32, 8},
		{'q', ARCH_ARG_FP_REGISTER, 32, 16}, {'v', ARCH_ARG_FP_REGISTER, 32, 16}};
	char name[16];

	(void)state;
	for (size_t i = 0; i < COUNT(sets); i++) {
		for (int reg = 0; reg < sets[i].count; reg++) {
			snprintf(name, sizeof(name), "%c%d", sets[i].letter, reg);
			args_check_register(
				aarch64_parse_args, name, sets[i].kind, reg, sets[i].width);
		}
	}
}

/* The string that stopped other tools (it is bash's, on aarch64), and OpenJDK's. */
static void test_notes(void **state)
{
	struct arch_arg args[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(
		aarch64_parse_args("8@x20 8@[x22, #:lo12:.LANCHOR0] -4@[x0, 52]", args), 3);
	assert_int_equal(args[0].kind, ARCH_ARG_REGISTER);
	assert_int_equal(args[1].kind, ARCH_ARG_UNKNOWN);
	assert_int_equal(args[2].kind, ARCH_ARG_MEMORY);
	assert_int_equal(args[2].disp, 52);
	assert_int_equal(
		aarch64_parse_args(
			"8@x22 8@x20 8@x23 8@x0 8@x26 8@x27 8@[sp, 112] 8@[sp, 120]", args),
		8);
	assert_int_equal(args[7].kind, ARCH_ARG_MEMORY);
	assert_int_equal(args[7].disp, 120);
	assert_int_equal(aarch64_parse_args("8@[x0, 8 4@w1", args), 3);
	assert_int_equal(args[0].kind, ARCH_ARG_UNKNOWN);
	assert_int_equal(args[2].kind, ARCH_ARG_REGISTER);
}

static void test_hostile(void **state)
{
	(void)state;
	args_check_hostile(aarch64_parse_args, "-4@[x1, x2, lsl 3]");
}

static void test_table(void **state)
{
	(void)state;
	assert_ptr_equal(arch_of_machine(EM_AARCH64), &arch_aarch64);
	assert_ptr_equal(arch_of_machine(EM_X86_64), &arch_x86_64);
	assert_null(arch_of_machine(EM_NONE));
	assert_null(arch_of_machine(EM_386));
	assert_ptr_equal(arch_of_args(EM_AARCH64), &arch_aarch64);
	assert_ptr_equal(arch_of_args(EM_386), &arch_x86_64);
	assert_null(arch_of_args(EM_NONE));
	assert_string_equal(arch_aarch64.name, "aarch64");
	assert_ptr_equal(arch_aarch64.parse_args, aarch64_parse_args);
	assert_non_null(arch_aarch64.stubs);
}

#define FILE_TEST(name, path, notes)                                                               \
	static void test_##name(void **state)                                                      \
	{                                                                                          \
		(void)state;                                                                       \
		args_check_file(&arch_aarch64, path, notes);                                       \
	}

FILE_TEST(postgres, "/usr/lib/postgresql/15/bin/postgres", 71)
FILE_TEST(libruby, "/usr/lib/aarch64-linux-gnu/libruby-3.1.so.3.1", 39)
FILE_TEST(python, "/usr/bin/python3.11", 8)
FILE_TEST(libstdcxx, "/usr/lib/aarch64-linux-gnu/libstdc++.so.6", 3)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_operands),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_register_names),
		cmocka_unit_test(test_notes),
		cmocka_unit_test(test_hostile),
		cmocka_unit_test(test_postgres),
		cmocka_unit_test(test_libruby),
		cmocka_unit_test(test_python),
		cmocka_unit_test(test_libstdcxx),
		cmocka_unit_test(test_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
