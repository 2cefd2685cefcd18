/* SPDX-License-Identifier: MIT */
/* Invalid and oversized expressions: messages, their columns, limits. */
#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/query/expr_interpreter.h"

/* One argument of each type: arg0 and arg1 of 8 bits, ... arg6 and arg7 of 64. */
#define ARGS "-1@%al 1@%bl -2@%cx 2@%dx -4@%esi 4@%edi -8@%r8 8@%r9"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Messages ----------------------------------------------------------------------------- */

static void check_error(const char *args, const char *text, enum probe_error_code code,
	unsigned int column, const char *why)
{
	struct probe_error *error;
	struct expr_case c;
	char *expected;

	error = expr_case_init(&c, args, text);
	if (!error)
		fail_msg("%s: is no error", text);
	assert_true(asprintf(&expected, "the filter '%s', column %u: %s", text, column, why) > 0);
	assert_string_equal(error->message, expected);
	assert_int_equal(error->code, code);
	free(expected);
	probe_error_free(error);
}

#define KEYS "comm, ustack and probe are whole keys (-k), and no part of an expression"
#define OPERAND "expected a number, an argument (arg0 to arg31), tid, pid, cpu, '(' or a sign"
#define ONLY_COMPARED "a number with a point can only be compared with an argument"
#define DOUBLE "a floating-point number can only be compared, with another one or a constant"
#define NAMES ": expected arg0 to arg31, tid, pid, cpu, str() or starts_with()"
#define OPERATOR "expected an operator or the end"
#define STRING                                                                                     \
	"a string is not a number: expected str(argN) == \"text\", str(argN) != \"text\" or "      \
	"starts_with(str(argN), \"text\")"
#define PAIR_ARG                                                                                   \
	"beside duration, begin. and end., say of which of them the argument is: begin.argN or "   \
	"end.argN"
#define SYM "sym() is a whole key: it has no operators"
#define ESCAPE "expected an escape of C: \\n, \\t, \\\", \\x41, \\101 ..."
#define INT_SHIFT "a number of 32 bits can be shifted by 0 to 31 (1l has 64 bits)"
#define INT_RANGE "the result does not fit 32 bits (1l has 64 bits)"
#define LONG_RANGE "the result does not fit 64 bits"

static const struct {
	const char *text;
	unsigned int column;
	const char *why;
} mistakes[] = {
	/* clang-format off */
	{"", 1, OPERAND}, {"   ", 4, OPERAND}, {"arg0 >", 7, OPERAND}, {"arg0 > ", 8, OPERAND},
	{"(", 2, OPERAND}, {"()", 2, OPERAND}, {"!", 2, OPERAND}, {"arg0 && && 1", 9, OPERAND},
	{"arg0 &&& 1", 8, OPERAND}, {"* 1", 3, "expected '(' and a type, such as (u64 *)"}, {"arg0 += 1", 7, OPERAND},
	{"arg0 and arg1", 6, "expected an operator; 'and' is &&"}, {"(arg0 or 1)", 7, "expected an operator; 'or' is ||"},
	{"not arg0", 1, "there is no 'not': it is !"},
	{"arg0 <<= 1", 8, OPERAND}, {"arg0 ->x", 7, OPERAND}, {"@", 1, OPERAND}, {"#", 1, OPERAND},
	{"\x82\x82", 1, OPERAND},
	{"arg0 =! 1", 6, "expected an operator; '==' compares"},
	{"arg0 = 1", 6, "expected an operator; '==' compares"},
	{"(arg0 = 1)", 7, "expected an operator; '==' compares"},
	{"arg0 arg1", 6, OPERATOR}, {"arg0)", 5, OPERATOR}, {"arg0, arg1", 5, OPERATOR},
	{"arg0 ? 1 : 2", 6, OPERATOR}, {"arg0 1", 6, OPERATOR}, {"arg0[1]", 5, OPERATOR},
	{"(int)arg0", 2, "there is no 'int'" NAMES}, {"1 ! 2", 3, OPERATOR}, {"1 ~ 2", 3, OPERATOR},
	{"(arg0", 6, "expected an operator or ')'"}, {"(arg0 1)", 7, "expected an operator or ')'"},
	{"((arg0)", 8, "expected an operator or ')'"},
	{"--arg0", 1, "there is no operator '--': put a blank between"},
	{"arg0 ++1", 6, "there is no operator '++': put a blank between"},
	{"1--1", 2, "there is no operator '--': put a blank between"},
	/* Names. */
	{"arg", 1, "there is no 'arg'" NAMES}, {"arg32", 1, "there is no 'arg32'" NAMES},
	{"1 + arg00", 5, "there is no 'arg00'" NAMES}, {"arg1x", 1, "there is no 'arg1x'" NAMES},
	{"arg4294967296", 1, "there is no 'arg4294967296'" NAMES}, {"Tid", 1, "there is no 'Tid', the nearest is tid" NAMES},
	{"duraton > 5ms", 1, "there is no 'duraton', the nearest is duration" NAMES},
	{"startswith(str(arg0), 'x')", 1, "there is no 'startswith', the nearest is starts_with" NAMES},
	{"_", 1, "there is no '_'" NAMES}, {"tids > 1", 1, "there is no 'tids', the nearest is tid" NAMES},
	{"sizeof(arg0)", 1, "there is no 'sizeof'" NAMES},
	{"abcdefghijabcdefghijabcdefghijabcdefghijk", 1,
		"there is no 'abcdefghijabcdefghijabcdefghijabcdefghij'" NAMES},
	/* Numbers. */
	{"0x", 3, "expected a hexadecimal digit"}, {"0xg", 3, "expected a hexadecimal digit"},
	{"09", 2, "expected octal digits, since the number begins with 0"},
	{"1 == 0778", 9, "expected octal digits, since the number begins with 0"},
	{"1.5f", 4, "expected an operator after the number"},
	{"1.5.5", 4, "expected an operator after the number"},
	{"1e", 2, "expected an operator after the number"},
	{"1e400", 1, "the number does not fit a double"},
	{"1.5 + arg0 + 1.5 * 2", 18, ONLY_COMPARED}, {"!1.5", 1, ONLY_COMPARED},
	{"arg0 in (1.5)", 10, "a list has constant integers, or texts after a string"},
	{"1 < 1.5", 3, ONLY_COMPARED}, {"~1e5", 1, ONLY_COMPARED},
	{"12abc", 3, "expected an operator after the number"},
	{"5msec", 2, "expected an operator after the number"},
	{"0x5ms", 4, "expected an operator after the number"},
	{"05ms", 3, "expected an operator after the number"},
	{"5 ms", 3, OPERATOR}, {"5msu", 2, "expected an operator after the number"},
	{"9223372037s", 1, "the number does not fit 63 bits; add the suffix u"},
	{"99999999999s", 1, "the number does not fit 64 bits"},
	{"end", 4, "expected '.' after end"}, {"end.tid", 5, "expected arg0 to arg31, or str(argN)"},
	{"end.duration", 5, "expected arg0 to arg31, or str(argN)"},
	{"starts_with(end str(arg0), \"\")", 17, "expected str(argN)"},
	{"str(end.arg0)", 5, "a string of the end is end.str(argN)"},
	{"starts_with(str( end.arg0), \"\")", 18, "a string of the end is end.str(argN)"},
	{"begin", 6, "expected '.' after begin"},
	{"begin.cpu", 7, "expected arg0 to arg31, or str(argN)"},
	{"starts_with(begin arg0, \"\")", 19, "expected str(argN)"},
	{"str(begin.arg0)", 5, "a string of the begin is begin.str(argN)"},
	{"begin.str(arg0) == \"\" && str(arg1) == \"\"", 26, PAIR_ARG},
	{"str(ending)", 5, "expected arg0 to arg31"},
	{"duration > 5 && arg0", 17, PAIR_ARG}, {"arg0 == end.arg0", 1, PAIR_ARG},
	{"end.str(arg0) == \"\" && str(arg1) == \"\"", 24, PAIR_ARG},
	{"1uu", 3, "expected an operator after the number"},
	{"1lL", 3, "expected an operator after the number"},
	{"1lul", 4, "expected an operator after the number"},
	{"0b1", 2, "expected an operator after the number"},
	{"1_", 2, "expected an operator after the number"},
	{"9223372036854775808", 1, "the number does not fit 63 bits; add the suffix u"},
	{"-9223372036854775808", 2, "the number does not fit 63 bits; add the suffix u"},
	{"18446744073709551616", 1, "the number does not fit 64 bits"},
	{"18446744073709551616u", 1, "the number does not fit 64 bits"},
	{"1 < 0x10000000000000000", 5, "the number does not fit 64 bits"},
	{"99999999999999999999999999999999", 1, "the number does not fit 64 bits"},
	{"''", 2, "expected a character"}, {"'", 2, "expected a character"},
	{"'a", 3, "expected ' after one character"}, {"'ab'", 3, "expected ' after one character"},
	{"'\xc3\xa9'", 2, "expected ' after one character"},
	{"'\\q'", 2, ESCAPE}, {"'\\", 2, ESCAPE}, {"'\\x'", 2, ESCAPE}, {"'\\8'", 2, ESCAPE},
	{"'\\400'", 2, "the escape is more than a byte"},
	{"'\\x100'", 2, "the escape is more than a byte"},
	/* Results of constants. */
	{"arg0 / 0", 8, "division by 0"}, {"arg0 % (1 - 1)", 8, "division by 0"},
	{"1 / 0", 5, "division by 0"}, {"0 && 1 % 0u", 10, "division by 0"},
	{"2147483647 + 1", 12, INT_RANGE}, {"-2147483647 - 2", 13, INT_RANGE},
	{"65536 * 65536", 7, INT_RANGE}, {"-(-2147483647 - 1)", 1, INT_RANGE},
	{"(-2147483647 - 1) / -1", 19, INT_RANGE},
	{"9223372036854775807 + 1", 21, LONG_RANGE}, {"-9223372036854775807 - 2", 22, LONG_RANGE},
	{"4294967296 * 4294967296", 12, LONG_RANGE}, {"-(-9223372036854775807 - 1)", 1, LONG_RANGE},
	{"(-9223372036854775807 - 1) / -1", 28, LONG_RANGE},
	{"1 << 32", 3, INT_SHIFT}, {"1 >> -1", 3, INT_SHIFT}, {"1u << 32", 4, INT_SHIFT},
	{"1l << 64", 4, "a number of 64 bits can be shifted by 0 to 63"},
	{"arg4 >> 32", 9, INT_SHIFT}, {"arg0 << 32", 9, INT_SHIFT}, {"arg5 << -1", 9, INT_SHIFT},
	{"arg7 >> 64", 9, "a number of 64 bits can be shifted by 0 to 63"},
	/* Strings. */
	{"str", 4, "expected '(' after str"}, {"str arg0", 5, "expected '(' after str"},
	{"str()", 5, "expected arg0 to arg31"}, {"str(1)", 5, "expected arg0 to arg31"},
	{"str(arg32)", 5, "expected arg0 to arg31"}, {"str(tid)", 5, "expected arg0 to arg31"},
	{"str(arg0", 9, "expected ')' after the argument"},
	{"str(arg0,)", 10, "expected arg0 to arg31, the length"},
	{"str(arg0,3) == \"a\"", 10, "expected arg0 to arg31, the length"},
	{"str(arg0,arg1,arg2)", 14, "expected ')' after the argument"},
	{"arg0 in 1", 9, "expected '(' and a list after in"},
	{"arg0 in ()", 10, "expected a number, an argument (arg0 to arg31), tid, pid, cpu, '(' or a sign"},
	{"arg0 in (1,)", 12, "expected a number, an argument (arg0 to arg31), tid, pid, cpu, '(' or a sign"},
	{"arg0 in (1 2)", 12, "expected ',' or ')'"}, {"arg0 in (1, 2", 14, "expected ',' or ')'"},
	{"arg0 in (1, arg1)", 13, "a list has constant integers, or texts after a string"},
	{"arg0 in (1 in (1))", 10, "a list has constant integers, or texts after a string"},
	{"arg0 in (\"a\")", 10, "a text can only follow str(argN) == or !=, or be in starts_with()"},
	{"str(arg0) in (1)", 15, "expected a text in double quotes"},
	{"str(arg0) in (\"a\" \"b\")", 19, "expected ',' or ')'"},
	{"str(arg0) in (\"a\", 1)", 20, "expected a text in double quotes"},
	{"arg0 not 3", 6, OPERATOR}, {"arg0 inside", 6, OPERATOR}, {"in (1)", 1, "there is no 'in'" NAMES},
	{"norm(arg0)", 6, "expected str(argN)"}, {"norm str(arg0)", 6, "expected '(' after norm"},
	{"norm(str(arg0)", 15, "expected ')' after the string"},
	{"norm(str(arg0)) == \"a\"", 1, "norm() is a key, and compared with nothing"},
	{"norm(str(arg0)) in (\"a\")", 1, "norm() is a key, and compared with nothing"},
	{"starts_with(norm(str(arg0)), \"\")", 13, "expected str(argN)"},
	{"comm", 1, KEYS}, {"ustack == 1", 1, KEYS}, {"probe == \"a\"", 1, KEYS}, {"!comm", 2, KEYS},
	{"comm in (\"a\")", 1, KEYS}, {"1 + probe", 5, KEYS}, {"arg0 && comm", 9, KEYS},
	{"starts_with(comm, \"a\")", 13, "expected str(argN)"},
	{"norm(str(arg0)) + 1", 17, "expected '==' or '!=' after a string"},
	{"1 + norm(str(arg0))", 5, STRING},
	{"sym arg0", 5, "expected '(' after sym"}, {"sym(1)", 5, "expected arg0 to arg31"},
	{"sym(str(arg0))", 5, "expected arg0 to arg31"}, {"sym(arg0", 9, "expected ')' after the argument"},
	{"sym(end.str(arg0))", 5, "a string has no name, expected arg0 to arg31"},
	{"sym(arg0) == 1", 11, SYM}, {"1 + sym(arg0)", 5, SYM}, {"!sym(arg0)", 2, SYM},
	{"(sym(arg0))", 2, SYM}, {"sym(arg0) in (1)", 11, SYM}, {"arg0 in (sym(arg0))", 10, SYM},
	{"*arg0", 2, "expected '(' and a type, such as (u64 *)"},
	{"*(long *)arg0", 3, "expected a type: u8, u16, u32, u64, s8, s16, s32 or s64"},
	{"3 * *(u8 *)(arg0 + tid)", 20, "expected a number of bytes, or an index such as arg1 * 8"},
	{"*(u8 *)(arg0 + arg1 * arg2)", 23, "expected the number of bytes of an item"},
	{"str(arg0 + arg1 + arg2) == \"\"", 19, "an address has one argument as an index"},
	{"str(*(u64 *)(arg0 + 1) == \"\"", 24, "expected ')' after the argument"},
	{"*(u8 *)end.arg0", 8, "expected arg0 to arg31"},
	{"str(arg0 * 1)", 10, "expected ')' after the argument"},
	{"str(arg0) ==", 13, "expected a text in double quotes"},
	{"str(arg0) == 'a'", 14, "expected a text in double quotes"},
	{"str(arg0) == str(arg1)", 14, "expected a text in double quotes"},
	{"str(arg0) == (\"a\")", 14, "expected a text in double quotes"},
	{"str(arg0) < \"a\"", 11, "expected '==' or '!=' after a string"},
	{"str(arg0) && 1", 11, "expected '==' or '!=' after a string"},
	{"(str(arg0)) + 1", 13, "expected '==' or '!=' after a string"},
	{"str(arg0) arg1", 11, OPERATOR},
	{"!str(arg0)", 2, STRING}, {"-str(arg0)", 2, STRING}, {"+str(arg0)", 2, STRING},
	{"1 + str(arg0)", 5, STRING}, {"1 == str(arg0)", 6, STRING},
	{"1 + str(arg0) == \"a\"", 5, STRING}, {"!str(arg0) == \"a\"", 2, STRING},
	{"\"a\" == str(arg0)", 1, "a text can only follow str(argN) == or !=, or be in starts_with()"},
	{"arg0 == \"a\"", 9, "a text can only follow str(argN) == or !=, or be in starts_with()"},
	{"str(arg0) == \"a", 14, "the text has no closing quote"},
	{"str(arg0) == \"a\\\"", 14, "the text has no closing quote"},
	{"str(arg0) == \"a\\", 16, ESCAPE}, {"str(arg0) == \"\\e\"", 15, ESCAPE},
	{"str(arg0) == \"\\u00e9\"", 15, ESCAPE},
	{"str(arg0) == \"\xc3\xbc\\q\"", 16, ESCAPE},
	{"str(arg0) == \"a\\0b\"", 16, "a C string cannot contain NUL"},
	{"str(arg0) == \"\\x141\"", 15, "the escape is more than a byte"},
	{"str(arg0) == \"a\" \"b\"", 18, OPERATOR},
	{"starts_with", 12, "expected '(' after starts_with"},
	{"starts_with(arg0, \"a\")", 13, "expected str(argN)"},
	{"starts_with(str(arg0))", 22, "expected ',' and a text in double quotes"},
	{"starts_with(str(arg0), arg1)", 24, "expected a text in double quotes"},
	{"starts_with(str(arg0), \"a\"", 27, "expected ')' after the text"},
	{"starts_with(str(arg0), \"a\", 1)", 27, "expected ')' after the text"},
	{"starts_with(str(arg32), \"a\")", 17, "expected arg0 to arg31"},
	/* clang-format on */
};

static void test_mistakes(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(mistakes); i++)
		check_error(ARGS, mistakes[i].text, PROBE_ERROR_USAGE, mistakes[i].column,
			mistakes[i].why);
}

/* A message is one line, whatever the text contains. */
static void test_one_line(void **state)
{
	struct probe_error *error;
	struct expr *expr;

	(void)state;
	error = expr_parse("the key of --by", "1 +\n\t\x1b[1m", &expr);
	assert_non_null(error);
	assert_null(expr);
	assert_string_equal(error->message, "the key of --by '1 +   [1m', column 6: " OPERAND);
	probe_error_free(error);
}

static void test_arguments(void **state)
{
	(void)state;
	check_error("8@%rax -4@%ebx", "arg0 && arg2 == 1", PROBE_ERROR_USAGE, 9,
		"there is no arg2, the probe has 2 arguments: 8@%rax -4@%ebx");
	check_error(
		"", "arg0", PROBE_ERROR_USAGE, 1, "there is no arg0, the probe has no arguments");
	check_error("8@%rax", "str(arg1) == \"a\"", PROBE_ERROR_USAGE, 1,
		"there is no arg1, the probe has 1 argument: 8@%rax");
	check_error("8@%rax -8f@%xmm0", "arg0 < arg1", PROBE_ERROR_USAGE, 6, DOUBLE);
	check_error("8f@%xmm0", "arg0 + 1 > 2", PROBE_ERROR_USAGE, 6, DOUBLE);
	check_error("8f@%xmm0", "1 && arg0", PROBE_ERROR_USAGE, 3, DOUBLE);
	check_error("8f@%xmm0", "!arg0", PROBE_ERROR_USAGE, 1, DOUBLE);
	check_error("8f@%xmm0", "arg0 in (1, 2)", PROBE_ERROR_USAGE, 6, DOUBLE);
	check_error("8@%rax", "arg0 > 1.5", PROBE_ERROR_USAGE, 6, DOUBLE);
	check_error("8f@%xmm0", "arg0", PROBE_ERROR_USAGE, 1,
		"a floating-point number can only be compared, or be a whole key or value");
	check_error("16f@(%rdi)", "arg0 > 1.5", PROBE_ERROR_USAGE, 1,
		"arg0 is not an integer: it is declared as '16f@(%rdi)'");
	check_error("16@(%rdi)", "!arg0", PROBE_ERROR_USAGE, 2,
		"arg0 is not an integer: it is declared as '16@(%rdi)'");
	check_error("16@%rdi", "arg0 == 5", PROBE_ERROR_USAGE, 1,
		"arg0 is not an integer: it is declared as '16@%rdi'");
	check_error("8@%rax", "str(arg0,arg1) == \"a\"", PROBE_ERROR_USAGE, 1,
		"there is no arg1, the probe has 1 argument: 8@%rax");
	check_error("8@%rax 8f@%xmm0", "str(arg0,arg1) == \"a\"", PROBE_ERROR_UNSUPPORTED, 1,
		"arg0 cannot be captured: '8@%rax', of as many bytes as '8f@%xmm0'");
	check_error("8f@%xmm0", "1 + *(u8 *)arg0", PROBE_ERROR_USAGE, 5,
		"arg0 is not a pointer: it is declared as '8f@%xmm0'");
	check_error("24@(%rdi)", "*(u8 *)arg0", PROBE_ERROR_USAGE, 1,
		"arg0 is not a pointer: it is declared as '24@(%rdi)'");
	check_error("8@%rdi", "*(u8 *)(arg1 + 4)", PROBE_ERROR_USAGE, 1,
		"there is no arg1, the probe has 1 argument: 8@%rdi");
	check_error("8@%rdi 8f@%xmm0", "*(u8 *)(arg0 + arg1)", PROBE_ERROR_USAGE, 1,
		"arg1 is not an index: it is declared as '8f@%xmm0'");
	check_error("8@%rdi 16@(%rsi)", "str(arg0 + arg1 * 8) == \"a\"", PROBE_ERROR_USAGE, 1,
		"arg1 is not an index: it is declared as '16@(%rsi)'");
	check_error("8@%rdi", "str(arg0 + arg1 * 8) == \"a\"", PROBE_ERROR_USAGE, 1,
		"there is no arg1, the probe has 1 argument: 8@%rdi");
	check_error("8f@%xmm0", "str(arg0) == \"a\"", PROBE_ERROR_USAGE, 1,
		"arg0 is not a string: it is declared as '8f@%xmm0'");
	check_error("8@%xmm0", "1 && str(arg0) == \"a\"", PROBE_ERROR_USAGE, 6,
		"arg0 is not a string: it is declared as '8@%xmm0'");
	check_error("24@(%rdi)", "starts_with(str(arg0), \"a\")", PROBE_ERROR_USAGE, 13,
		"arg0 is not a string: it is declared as '24@(%rdi)'");
	check_error("8@%what", "arg0", PROBE_ERROR_UNSUPPORTED, 1,
		"arg0 cannot be read: '8@%what' is not understood");
	check_error("8@%xmm17", "1 + arg0", PROBE_ERROR_UNSUPPORTED, 5,
		"arg0 cannot be captured: '8@%xmm17'");
	check_error(
		"8@%rax", "str(arg0)", PROBE_ERROR_USAGE, 1, "str(arg0) is a string, not a number");
}

/* Strings that are whole keys are not bound as numbers are, but are checked like others. */
static void check_key(const char *args, const char *text, unsigned int column, const char *why)
{
	struct record_layout_site site;
	struct module module = {0};
	struct probe_error *error;
	struct expr *key;
	char *expected;

	record_layout_site_init(&site, arch_of_machine(EM_X86_64), &module, args);
	assert_null(expr_parse("the key", text, &key));
	error = expr_check_string(key, &site);
	expr_free(key);
	if (!why) {
		assert_null(error);
		return;
	}
	assert_non_null(error);
	assert_true(asprintf(&expected, "the key '%s', column %u: %s", text, column, why) > 0);
	assert_string_equal(error->message, expected);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	free(expected);
	probe_error_free(error);
}

static void test_keys(void **state)
{
	(void)state;
	check_key("8@%rdi -4@%esi", "str(arg0 + arg1 * 8, arg1)", 0, NULL);
	check_key("8@%rdi -4@%esi", "norm(str(arg2))", 1,
		"there is no arg2, the probe has 2 arguments: 8@%rdi -4@%esi");
	check_key("8@%rdi", "str(arg0, arg1)", 1,
		"there is no arg1, the probe has 1 argument: 8@%rdi");
	check_key("8@%rdi", "str(arg0 + arg1)", 1,
		"there is no arg1, the probe has 1 argument: 8@%rdi");
	check_key("8@%rdi 8f@%xmm0", "str(arg0 + arg1 * 8)", 1,
		"arg1 is not an index: it is declared as '8f@%xmm0'");
	check_key("8f@%xmm0", "str(arg0)", 1, "arg0 is not a string: it is declared as '8f@%xmm0'");
	check_key("-4@%edi", "str(arg0)", 1, "arg0 is not a string: it is declared as '-4@%edi'");
}

/* ---- Limits ------------------------------------------------------------------------------- */

/* Repeats `part` `times` times between `before` and `behind`; the caller frees it. */
static char *repeated(const char *before, const char *part, size_t times, const char *behind)
{
	char *text = malloc(strlen(before) + times * strlen(part) + strlen(behind) + 1), *to;

	assert_non_null(text);
	to = stpcpy(text, before);
	while (times--)
		to = stpcpy(to, part);
	stpcpy(to, behind);
	return text;
}

static void check_limit(const char *before, const char *part, size_t times, const char *behind,
	unsigned int column, const char *why)
{
	char *text = repeated(before, part, times, behind);
	struct probe_error *error;
	struct expr_case c;

	error = expr_case_init(&c, ARGS, text);
	if (!why && error)
		fail_msg("%s", error->message);
	if (why) {
		assert_non_null(error);
		free(text);
		assert_true(asprintf(&text, "column %u: %s", column, why) > 0);
		if (!strstr(error->message, text))
			fail_msg("%s: not at %s", error->message, text);
		probe_error_free(error);
	} else {
		assert_null(
			expr_ill_formed(&c.bound, c.layout.capture_count, expr_case_strings(&c)));
		expr_case_deinit(&c);
	}
	free(text);
}

#define MANY "there are more than 64 operators and operands"
#define MANY_BOUND "there are more than 64 operators, operands and conversions"
#define DEEP "more than 16 operators are nested"
#define DEEP_BOUND "more than 16 operators and conversions are nested"
#define NESTED "more than 64 parentheses and signs are nested"

static void test_limits(void **state)
{
	(void)state;
	/* 16 comparisons in a row just fit: 63 nodes, and 16 levels. */
	check_limit("arg0==1", "||arg1==2", 15, "", 0, NULL);
	check_limit("arg0==1", "||arg1==2", 16, "", 151, MANY);
	check_limit("arg0", "-arg1", 16, "", 0, NULL);
	check_limit("arg0", "-arg1", 17, "", 85, DEEP);
	check_limit("", "!", 16, "arg0", 0, NULL);
	check_limit("", "!", 17, "arg0", 1, DEEP);
	check_limit("", "1-(", 60, "1", 182, "expected an operator or ')'");
	check_limit("", "arg0-(", 31, "arg1))))))))))))))))))))))))))))))))", 89, DEEP);
	/* Conversions count if they need code. */
	check_limit("arg4==1u", "||arg4==2u", 12, "", 0, NULL);
	check_limit("arg4==1u", "||arg4==2u", 13, "", 131, MANY_BOUND);
	check_limit("0u-arg4", "-arg4", 14, "", 0, NULL);
	check_limit("arg4", "-arg4", 14, "<0u", 0, NULL);
	check_limit("arg4", "-arg4", 15, "<0u", 80, DEEP_BOUND);
	/* Folded operators no longer count; parentheses and signs are not nodes. */
	check_limit("1", "+1", 100000, "", 0, NULL);
	check_limit("", "-", 1, "1", 0, NULL);
	check_limit("", "(", 64,
		"1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))", 0, NULL);
	check_limit("", "(", 65, "1", 66, NESTED);
	check_limit("", "(", 1000000, "1", 66, NESTED);
	check_limit("", "!", 1000000, "1", 66, NESTED);
	check_limit("", "- ", 1000000, "1", 131, NESTED);
	check_limit("", "1+(", 1000000, "1", 193, MANY);
	check_limit("1", "                ", 100000, "", 0, NULL);
}

static void test_text_limits(void **state)
{
	(void)state;
	check_limit("arg7 in (0", ",1", 63, ")", 0, NULL);
	check_limit("arg7 in (0", ",1", 64, ")", 138, "there are more than 64 numbers in the list");
	check_limit("str(arg7) in (\"\"", ",\"\"", 31, ")", 0, NULL);
	check_limit("str(arg7) in (\"\"", ",\"\"", 32, ")", 111,
		"there are more than 32 texts in the list");
	check_limit("str(arg7) == \"", "x", 255, "\"", 0, NULL);
	check_limit("str(arg7) == \"", "x", 256, "\"", 270, "texts have at most 255 bytes");
	check_limit("str(arg7) == \"", "\\x41", 255, "\"", 0, NULL);
	check_limit("str(arg7) == \"", "\\x41", 256, "\"", 1035, "texts have at most 255 bytes");
	check_limit("str(arg7) == \"", "\xc3\xbc", 128, "\"", 142, "texts have at most 255 bytes");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_one_line),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_text_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
