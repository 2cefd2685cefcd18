/* SPDX-License-Identifier: MIT */
/* Expressions: grammar, types, strings, messages, limits, and what comes out where C says nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/expr_interpreter.h"

/* One argument of each type: arg0 and arg1 of 8 bits, ... arg6 and arg7 of 64. */
#define ARGS "-1@%al 1@%bl -2@%cx 2@%dx -4@%esi 4@%edi -8@%r8 8@%r9"
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- Trees -------------------------------------------------------------------------------- */

static void print_leaf(FILE *out, const struct expr_case *c, const struct arch_expr_node *node)
{
	switch (node->kind) {
	case ARCH_EXPR_CONST:
		if (node->is_signed)
			fprintf(out, "%lld", (long long)node->value);
		else
			fprintf(out, "%llu", (unsigned long long)node->value);
		break;
	case ARCH_EXPR_CAPTURE:
		fprintf(out, "arg%u", expr_case_arg(c, node->capture));
		break;
	case ARCH_EXPR_TID:
		fputs("tid", out);
		break;
	case ARCH_EXPR_PID:
		fputs("pid", out);
		break;
	default:
		fputs("cpu", out);
		break;
	}
}

/* (OPERATOR:TYPE OPERANDS), with the types in which operators are computed. */
static void print_node(FILE *out, const struct expr_case *c, uint8_t index)
{
	static const char *const names[] = {[ARCH_EXPR_STRING_IS] = "is",
		[ARCH_EXPR_STRING_BEGINS] = "begins",
		[ARCH_EXPR_NEGATE] = "-",
		[ARCH_EXPR_COMPLEMENT] = "~",
		[ARCH_EXPR_NOT] = "!",
		[ARCH_EXPR_CONVERT] = "to",
		[ARCH_EXPR_ADD] = "+",
		[ARCH_EXPR_SUB] = "-",
		[ARCH_EXPR_MUL] = "*",
		[ARCH_EXPR_DIV] = "/",
		[ARCH_EXPR_MOD] = "%",
		[ARCH_EXPR_SHL] = "<<",
		[ARCH_EXPR_SHR] = ">>",
		[ARCH_EXPR_AND] = "&",
		[ARCH_EXPR_OR] = "|",
		[ARCH_EXPR_XOR] = "^",
		[ARCH_EXPR_LT] = "<",
		[ARCH_EXPR_LE] = "<=",
		[ARCH_EXPR_GT] = ">",
		[ARCH_EXPR_GE] = ">=",
		[ARCH_EXPR_EQ] = "==",
		[ARCH_EXPR_NE] = "!=",
		[ARCH_EXPR_BOTH] = "&&",
		[ARCH_EXPR_EITHER] = "||"};
	const struct arch_expr_node *node = &c->nodes[index];
	const char *type = node->wide ? node->is_signed ? "l" : "ul" : node->is_signed ? "i" : "u";

	if (node->kind < ARCH_EXPR_STRING_IS) {
		print_leaf(out, c, node);
		fprintf(out, ":%s", type);
	} else if (node->kind < ARCH_EXPR_NEGATE) {
		fprintf(out, "(%s arg%u \"%.*s\")", names[node->kind],
			expr_case_arg(c, node->capture), node->text_length, node->text);
	} else {
		fprintf(out, "(%s:%s ", names[node->kind], type);
		print_node(out, c, node->left);
		if (node->kind >= ARCH_EXPR_ADD) {
			fputc(' ', out);
			print_node(out, c, node->right);
		}
		fputc(')', out);
	}
}

static void check_tree(const char *args, const char *text, const char *expected)
{
	char shown[2000] = "";
	FILE *out = fmemopen(shown, sizeof(shown), "w");
	struct probe_error *error;
	struct expr_case c;
	const char *why;

	error = expr_case_init(&c, args, text);
	if (error)
		fail_msg("%s", error->message);
	why = expr_ill_formed(&c.bound, c.layout.capture_count, expr_case_strings(&c));
	if (why)
		fail_msg("%s: %s", text, why);
	assert_non_null(out);
	print_node(out, &c, c.bound.count - 1);
	fclose(out);
	assert_string_equal(shown, expected);
	expr_case_deinit(&c);
}

static const char *const trees[][2] = {
	/* clang-format off */
	/* Operands. */
	{"arg4", "arg4:i"}, {"tid", "tid:i"}, {"pid", "pid:i"}, {"cpu", "cpu:i"},
	{" \t\n( ( arg7 ) ) ", "arg7:ul"}, {"0x10UL", "16:ul"}, {"'a'", "97:i"},
	/* Promotions. */
	{"arg0", "arg0:i"}, {"arg1", "arg1:i"}, {"arg2", "arg2:i"}, {"arg3", "arg3:i"},
	{"arg5", "arg5:u"}, {"arg6", "arg6:l"},
	/* Conversions: only those that change bits are nodes. */
	{"arg4 < 0u", "(<:u (to:u arg4:i) 0:u)"},
	{"0u > arg4", "(>:u 0:u (to:u arg4:i))"},
	{"arg4 < 0", "(<:i arg4:i 0:i)"},
	{"arg4 == -1", "(==:i arg4:i -1:i)"},
	{"arg5 == -1", "(==:u arg5:u 4294967295:u)"},
	{"arg7 == -1", "(==:ul arg7:ul 18446744073709551615:ul)"},
	{"arg4 == 0xffffffff", "(==:u (to:u arg4:i) 4294967295:u)"},
	{"arg4 == 4294967295", "(==:l arg4:i 4294967295:l)"},
	{"arg0 < 0u", "(<:u (to:u arg0:i) 0:u)"},
	{"arg1 < arg0", "(<:i arg1:i arg0:i)"},
	{"arg4 < arg5", "(<:u (to:u arg4:i) arg5:u)"},
	{"arg5 < arg6", "(<:l arg5:u arg6:l)"},
	{"arg4 < arg7", "(<:ul arg4:i arg7:ul)"},
	{"arg5 < arg7", "(<:ul arg5:u arg7:ul)"},
	{"arg6 < arg7", "(<:ul arg6:l arg7:ul)"},
	{"arg6 + 1u", "(+:l arg6:l 1:l)"},
	{"(arg6 < arg7) < 1u", "(<:u (to:u (<:ul arg6:l arg7:ul)) 1:u)"},
	{"!arg7 == 1", "(==:i (!:ul arg7:ul) 1:i)"},
	{"!arg7 + 1u", "(+:u (to:u (!:ul arg7:ul)) 1:u)"},
	{"-arg1", "(-:i arg1:i)"}, {"-arg5", "(-:u arg5:u)"}, {"~arg6", "(~:l arg6:l)"},
	{"+arg1", "arg1:i"},
	/* Shifts have the type of what is shifted; && and || convert nothing. */
	{"arg4 << 1ul", "(<<:i arg4:i 1:ul)"},
	{"1 << arg7", "(<<:i 1:i arg7:ul)"},
	{"arg5 >> arg6", "(>>:u arg5:u arg6:l)"},
	{"arg4 && arg7", "(&&:i arg4:i arg7:ul)"},
	{"(arg4 || arg5) + 1u", "(+:u (to:u (||:i arg4:i arg5:u)) 1:u)"},
	/* Each level, against the next one. */
	{"arg4 || arg4 && tid", "(||:i arg4:i (&&:i arg4:i tid:i))"},
	{"arg4 && arg4 || tid", "(||:i (&&:i arg4:i arg4:i) tid:i)"},
	{"arg4 && arg4 | tid", "(&&:i arg4:i (|:i arg4:i tid:i))"},
	{"arg4 | arg4 && tid", "(&&:i (|:i arg4:i arg4:i) tid:i)"},
	{"arg4 | arg4 ^ tid", "(|:i arg4:i (^:i arg4:i tid:i))"},
	{"arg4 ^ arg4 | tid", "(|:i (^:i arg4:i arg4:i) tid:i)"},
	{"arg4 ^ arg4 & tid", "(^:i arg4:i (&:i arg4:i tid:i))"},
	{"arg4 & arg4 ^ tid", "(^:i (&:i arg4:i arg4:i) tid:i)"},
	{"arg4 & arg4 == tid", "(&:i arg4:i (==:i arg4:i tid:i))"},
	{"arg4 != arg4 & tid", "(&:i (!=:i arg4:i arg4:i) tid:i)"},
	{"arg4 == arg4 <= tid", "(==:i arg4:i (<=:i arg4:i tid:i))"},
	{"arg4 > arg4 == tid", "(==:i (>:i arg4:i arg4:i) tid:i)"},
	{"arg4 < arg4 << tid", "(<:i arg4:i (<<:i arg4:i tid:i))"},
	{"arg4 >> arg4 >= tid", "(>=:i (>>:i arg4:i arg4:i) tid:i)"},
	{"arg4 << arg4 + tid", "(<<:i arg4:i (+:i arg4:i tid:i))"},
	{"arg4 - arg4 >> tid", "(>>:i (-:i arg4:i arg4:i) tid:i)"},
	{"arg4 + arg4 * tid", "(+:i arg4:i (*:i arg4:i tid:i))"},
	{"arg4 / arg4 - tid", "(-:i (/:i arg4:i arg4:i) tid:i)"},
	{"arg4 % -tid", "(%:i arg4:i (-:i tid:i))"},
	{"!arg4 * ~tid", "(*:i (!:i arg4:i) (~:i tid:i))"},
	/* Within a level, from the left. */
	{"arg4 - cpu - tid", "(-:i (-:i arg4:i cpu:i) tid:i)"},
	{"arg4 - (cpu - tid)", "(-:i arg4:i (-:i cpu:i tid:i))"},
	{"arg4 / cpu * tid % pid", "(%:i (*:i (/:i arg4:i cpu:i) tid:i) pid:i)"},
	{"arg4 < cpu > tid", "(>:i (<:i arg4:i cpu:i) tid:i)"},
	{"arg4 == cpu != tid", "(!=:i (==:i arg4:i cpu:i) tid:i)"},
	{"arg4<<cpu>>tid", "(>>:i (<<:i arg4:i cpu:i) tid:i)"},
	{"- -arg4", "(-:i (-:i arg4:i))"}, {"!!arg4", "(!:i (!:i arg4:i))"},
	/* Constants are folded, but nothing else is. */
	{"1 << 31", "-2147483648:i"},
	{"arg4 & ~(4 - 1)", "(&:i arg4:i -4:i)"},
	{"arg4 + 1 + 2", "(+:i (+:i arg4:i 1:i) 2:i)"},
	{"1 + 2 + arg4", "(+:i 3:i arg4:i)"},
	{"0 && arg4", "(&&:i 0:i arg4:i)"},
	{"arg4 * 0", "(*:i arg4:i 0:i)"},
	/* Strings. */
	{"str(arg7) == \"SELECT\"", "(is arg7 \"SELECT\")"},
	{"str( arg7 )!=\"a\"", "(!:i (is arg7 \"a\"))"},
	{"(str(arg7)) == \"\"", "(is arg7 \"\")"},
	{"starts_with ( str ( arg6 ) , \"ab\" )", "(begins arg6 \"ab\")"},
	{"!starts_with(str(arg7),\"\")", "(!:i (begins arg7 \"\"))"},
	{"str(arg7) == \"a\" || arg4 > 1", "(||:i (is arg7 \"a\") (>:i arg4:i 1:i))"},
	{"str(arg7) == \"a\" == 1u", "(==:u (to:u (is arg7 \"a\")) 1:u)"},
	{"arg4 & str(arg7) == \"a\"", "(&:i arg4:i (is arg7 \"a\"))"},
	{"str(arg7) == \"\\101\\x42\\tc\\\"\\\\\\'\\?d\"", "(is arg7 \"AB\tc\"\\'?d\")"},
	{"str(arg7) == \"\\0612\\x7\"", "(is arg7 \"12\a\")"},
	{"str(arg7) == \"gr\xc3\xbc\xc3\x9f\"", "(is arg7 \"gr\xc3\xbc\xc3\x9f\")"},
	/* clang-format on */
};

static void test_trees(void **state)
{
	(void)state;
	for (size_t i = 0; i < COUNT(trees); i++)
		check_tree(ARGS, trees[i][0], trees[i][1]);
}

/* Numbers in half a vector register are captured without their sign. */
static void test_vector_registers(void **state)
{
	(void)state;
	check_tree("-4@%xmm0", "arg0 < 0", "(<:i (to:i arg0:ul) 0:i)");
	check_tree("4@%xmm0", "arg0 < 0u", "(<:u (to:u arg0:ul) 0:u)");
	check_tree("-4@%xmm0", "arg0 < 0u", "(<:u (to:u (to:i arg0:ul)) 0:u)");
	check_tree("-8@%xmm0", "arg0 < 0", "(<:l arg0:l 0:l)");
}

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

#define OPERAND "expected a number, an argument (arg0 to arg31), tid, pid, cpu, '(' or a sign"
#define NAMES ": expected arg0 to arg31, tid, pid, cpu, str() or starts_with()"
#define OPERATOR "expected an operator or the end"
#define STRING                                                                                     \
	"a string is no number: expected str(argN) == \"text\", str(argN) != \"text\" or "         \
	"starts_with(str(argN), \"text\")"
#define ESCAPE "expected an escape of C: \\n, \\t, \\\", \\x41, \\101 ..."
#define INT_SHIFT "a number of 32 bits can be shifted by 0 to 31 (1l has 64 bits)"
#define INT_RANGE "the result is more than 32 bits hold (1l has 64 bits)"
#define LONG_RANGE "the result is more than 64 bits hold"

static const struct {
	const char *text;
	unsigned int column;
	const char *why;
} mistakes[] = {
	/* clang-format off */
	{"", 1, OPERAND}, {"   ", 4, OPERAND}, {"arg0 >", 7, OPERAND}, {"arg0 > ", 8, OPERAND},
	{"(", 2, OPERAND}, {"()", 2, OPERAND}, {"!", 2, OPERAND}, {"arg0 && && 1", 9, OPERAND},
	{"arg0 &&& 1", 8, OPERAND}, {"* 1", 1, OPERAND}, {"arg0 += 1", 7, OPERAND},
	{"arg0 <<= 1", 8, OPERAND}, {"arg0 ->x", 7, OPERAND}, {"@", 1, OPERAND}, {"#", 1, OPERAND},
	{"arg0 =! 1", 6, "expected an operator; '==' compares"},
	{"arg0 = 1", 6, "expected an operator; '==' compares"},
	{"(arg0 = 1)", 7, "expected an operator; '==' compares"},
	{"arg0 arg1", 6, OPERATOR}, {"arg0)", 5, OPERATOR}, {"arg0, arg1", 5, OPERATOR},
	{"arg0 ? 1 : 2", 6, OPERATOR}, {"arg0 1", 6, OPERATOR}, {"arg0[1]", 5, OPERATOR},
	{"(int)arg0", 2, "there is no 'int'" NAMES}, {"1 ! 2", 3, OPERATOR}, {"1 ~ 2", 3, OPERATOR},
	{"(arg0", 6, "expected an operator or ')'"}, {"(arg0 1)", 7, "expected an operator or ')'"},
	{"((arg0)", 8, "expected an operator or ')'"},
	{"--arg0", 1, "there is no '--': put a blank between them"},
	{"arg0 ++1", 6, "there is no '++': put a blank between them"},
	{"1--1", 2, "there is no '--': put a blank between them"},
	/* Names. */
	{"arg", 1, "there is no 'arg'" NAMES}, {"arg32", 1, "there is no 'arg32'" NAMES},
	{"1 + arg00", 5, "there is no 'arg00'" NAMES}, {"arg1x", 1, "there is no 'arg1x'" NAMES},
	{"arg4294967296", 1, "there is no 'arg4294967296'" NAMES}, {"Tid", 1, "there is no 'Tid'" NAMES},
	{"_", 1, "there is no '_'" NAMES}, {"tids > 1", 1, "there is no 'tids'" NAMES},
	{"sizeof(arg0)", 1, "there is no 'sizeof'" NAMES},
	{"abcdefghijabcdefghijabcdefghijabcdefghijk", 1,
		"there is no 'abcdefghijabcdefghijabcdefghijabcdefghij'" NAMES},
	/* Numbers. */
	{"0x", 3, "expected a hexadecimal digit"}, {"0xg", 3, "expected a hexadecimal digit"},
	{"09", 2, "expected octal digits, since the number begins with 0"},
	{"1 == 0778", 9, "expected octal digits, since the number begins with 0"},
	{"1.5", 2, "expected an operator; numbers are whole"},
	{"0.5", 2, "expected an operator; numbers are whole"},
	{"1e5", 2, "expected an operator behind the number"},
	{"12abc", 3, "expected an operator behind the number"},
	{"1uu", 3, "expected an operator behind the number"},
	{"1lL", 3, "expected an operator behind the number"},
	{"1lul", 4, "expected an operator behind the number"},
	{"0b1", 2, "expected an operator behind the number"},
	{"1_", 2, "expected an operator behind the number"},
	{"9223372036854775808", 1, "the number is more than 63 bits hold; write it with u"},
	{"-9223372036854775808", 2, "the number is more than 63 bits hold; write it with u"},
	{"18446744073709551616", 1, "the number is more than 64 bits hold"},
	{"18446744073709551616u", 1, "the number is more than 64 bits hold"},
	{"1 < 0x10000000000000000", 5, "the number is more than 64 bits hold"},
	{"99999999999999999999999999999999", 1, "the number is more than 64 bits hold"},
	{"''", 2, "expected a character"}, {"'", 2, "expected a character"},
	{"'a", 3, "expected ' behind one character"}, {"'ab'", 3, "expected ' behind one character"},
	{"'\xc3\xa9'", 2, "expected ' behind one character"},
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
	{"str", 4, "expected '(' behind str"}, {"str arg0", 5, "expected '(' behind str"},
	{"str()", 5, "expected arg0 to arg31"}, {"str(1)", 5, "expected arg0 to arg31"},
	{"str(arg32)", 5, "expected arg0 to arg31"}, {"str(tid)", 5, "expected arg0 to arg31"},
	{"str(arg0", 9, "expected ')' behind the argument"},
	{"str(arg0 + 1)", 10, "expected ')' behind the argument"},
	{"str(arg0) ==", 13, "expected a text in double quotes"},
	{"str(arg0) == 'a'", 14, "expected a text in double quotes"},
	{"str(arg0) == str(arg1)", 14, "expected a text in double quotes"},
	{"str(arg0) == (\"a\")", 14, "expected a text in double quotes"},
	{"str(arg0) < \"a\"", 11, "expected '==' or '!=' behind a string"},
	{"str(arg0) && 1", 11, "expected '==' or '!=' behind a string"},
	{"(str(arg0)) + 1", 13, "expected '==' or '!=' behind a string"},
	{"str(arg0) arg1", 11, OPERATOR},
	{"!str(arg0)", 2, STRING}, {"-str(arg0)", 2, STRING}, {"+str(arg0)", 2, STRING},
	{"1 + str(arg0)", 5, STRING}, {"1 == str(arg0)", 6, STRING},
	{"1 + str(arg0) == \"a\"", 5, STRING}, {"!str(arg0) == \"a\"", 2, STRING},
	{"\"a\" == str(arg0)", 1, "a text can only stand behind str(argN) == or !=, or in starts_with()"},
	{"arg0 == \"a\"", 9, "a text can only stand behind str(argN) == or !=, or in starts_with()"},
	{"str(arg0) == \"a", 14, "the text has no closing quote"},
	{"str(arg0) == \"a\\\"", 14, "the text has no closing quote"},
	{"str(arg0) == \"a\\", 16, ESCAPE}, {"str(arg0) == \"\\e\"", 15, ESCAPE},
	{"str(arg0) == \"\\u00e9\"", 15, ESCAPE},
	{"str(arg0) == \"\xc3\xbc\\q\"", 16, ESCAPE},
	{"str(arg0) == \"a\\0b\"", 16, "the strings of C hold no NUL"},
	{"str(arg0) == \"\\x141\"", 15, "the escape is more than a byte"},
	{"str(arg0) == \"a\" \"b\"", 18, OPERATOR},
	{"starts_with", 12, "expected '(' behind starts_with"},
	{"starts_with(arg0, \"a\")", 13, "expected str(argN)"},
	{"starts_with(str(arg0))", 22, "expected ',' and a text in double quotes"},
	{"starts_with(str(arg0), arg1)", 24, "expected a text in double quotes"},
	{"starts_with(str(arg0), \"a\"", 27, "expected ')' behind the text"},
	{"starts_with(str(arg0), \"a\", 1)", 27, "expected ')' behind the text"},
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

/* A message is one line, whatever the text is. */
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
		"there is no arg2, the probe has 2 arguments");
	check_error(
		"", "arg0", PROBE_ERROR_USAGE, 1, "there is no arg0, the probe has no arguments");
	check_error("8@%rax", "str(arg1) == \"a\"", PROBE_ERROR_USAGE, 1,
		"there is no arg1, the probe has 1 argument");
	check_error("8@%rax -8f@%xmm0", "arg0 < arg1", PROBE_ERROR_USAGE, 8,
		"arg1 is no integer: it is declared as '-8f@%xmm0'");
	check_error("16@(%rdi)", "!arg0", PROBE_ERROR_USAGE, 2,
		"arg0 is no integer: it is declared as '16@(%rdi)'");
	check_error("8f@%xmm0", "str(arg0) == \"a\"", PROBE_ERROR_USAGE, 1,
		"arg0 is no string: it is declared as '8f@%xmm0'");
	check_error("8@%xmm0", "1 && str(arg0) == \"a\"", PROBE_ERROR_USAGE, 6,
		"arg0 is no string: it is declared as '8@%xmm0'");
	check_error("24@(%rdi)", "starts_with(str(arg0), \"a\")", PROBE_ERROR_USAGE, 13,
		"arg0 is no string: it is declared as '24@(%rdi)'");
	check_error("8@%what", "arg0", PROBE_ERROR_UNSUPPORTED, 1,
		"arg0 cannot be read: '8@%what' is not understood");
	check_error("8@%xmm17", "1 + arg0", PROBE_ERROR_UNSUPPORTED, 5,
		"arg0 cannot be captured: '8@%xmm17'");
	check_error("8@%rax", "str(arg0)", PROBE_ERROR_USAGE, 1,
		"str(arg0) is a string, and no number");
}

/* ---- Limits ------------------------------------------------------------------------------- */

/* `times` times `part`, between `before` and `behind`; the caller frees it. */
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
#define DEEP "more than 16 operators are within each other"
#define DEEP_BOUND "more than 16 operators and conversions are within each other"
#define NESTED "more than 64 parentheses and signs are within each other"

static void test_limits(void **state)
{
	(void)state;
	/* 16 comparisons in a row are what there is room for: 63 nodes, and 16 levels. */
	check_limit("arg0==1", "||arg1==2", 15, "", 0, NULL);
	check_limit("arg0==1", "||arg1==2", 16, "", 151, MANY);
	check_limit("arg0", "-arg1", 16, "", 0, NULL);
	check_limit("arg0", "-arg1", 17, "", 85, DEEP);
	check_limit("", "!", 16, "arg0", 0, NULL);
	check_limit("", "!", 17, "arg0", 1, DEEP);
	check_limit("", "1-(", 60, "1", 182, "expected an operator or ')'");
	check_limit("", "arg0-(", 31, "arg1))))))))))))))))))))))))))))))))", 89, DEEP);
	/* Conversions count where they are work. */
	check_limit("arg4==1u", "||arg4==2u", 12, "", 0, NULL);
	check_limit("arg4==1u", "||arg4==2u", 13, "", 131, MANY_BOUND);
	check_limit("0u-arg4", "-arg4", 14, "", 0, NULL);
	check_limit("arg4", "-arg4", 14, "<0u", 0, NULL);
	check_limit("arg4", "-arg4", 15, "<0u", 80, DEEP_BOUND);
	/* What is folded counts no more; parentheses and signs are no nodes. */
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
	check_limit("str(arg7) == \"", "x", 255, "\"", 0, NULL);
	check_limit("str(arg7) == \"", "x", 256, "\"", 270, "texts have at most 255 bytes");
	check_limit("str(arg7) == \"", "\\x41", 255, "\"", 0, NULL);
	check_limit("str(arg7) == \"", "\\x41", 256, "\"", 1035, "texts have at most 255 bytes");
	check_limit("str(arg7) == \"", "\xc3\xbc", 128, "\"", 142, "texts have at most 255 bytes");
}

/* ---- Strings ------------------------------------------------------------------------------ */

static void test_string_captures(void **state)
{
	struct probe_error *error;
	struct expr_case c;

	(void)state;
	/* One capture for all texts: the longest and the byte that tells a longer string. */
	error = expr_case_init(&c, ARGS,
		"str(arg7) == \"a\" || starts_with(str(arg7), \"abcd\") || str(arg6) == \"\" || "
		"str(arg7) != \"ab\" || arg7 == 0");
	if (error)
		fail_msg("%s", error->message);
	assert_int_equal(c.layout.capture_count, 3);
	assert_int_equal(c.layout.recorded, 0);
	assert_true(c.layout.captures[0].is_string);
	assert_int_equal(expr_case_arg(&c, 0), 7);
	assert_int_equal(c.layout.captures[0].bytes_max, 5);
	assert_true(c.layout.captures[1].is_string);
	assert_int_equal(expr_case_arg(&c, 1), 6);
	assert_int_equal(c.layout.captures[1].bytes_max, 1);
	assert_false(c.layout.captures[2].is_string);
	expr_case_deinit(&c);
}

static void test_is_string(void **state)
{
	static const struct {
		const char *text;
		bool is_string;
		unsigned int arg;
	} cases[] = {{"str(arg0)", true, 0}, {" ( str ( arg31 ) ) ", true, 31}, {"arg0", false, 0},
		{"str(arg0) == \"a\"", false, 0}, {"1", false, 0},
		{"starts_with(str(arg0), \"a\")", false, 0}};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct probe_error *error;
		unsigned int arg = 77;
		struct expr *expr;

		error = expr_parse("the key", cases[i].text, &expr);
		if (error)
			fail_msg("%s", error->message);
		assert_int_equal(expr_is_string(expr, &arg), cases[i].is_string);
		assert_int_equal(arg, cases[i].is_string ? cases[i].arg : 77);
		expr_free(expr);
	}
	expr_free(NULL);
}

/* One text is bound to many sites, whose arguments have other types and places. */
static void test_many_sites(void **state)
{
	static const char *const args[] = {"-4@%eax", "4@%ebx", "-8@8(%rsp)", "8@$5"};
	struct module module = {0};
	struct probe_error *error;
	struct expr *expr;

	(void)state;
	error = expr_parse("the value", "arg0 - 1", &expr);
	assert_null(error);
	for (size_t i = 0; i < COUNT(args); i++) {
		struct arch_expr_node nodes[ARCH_EXPR_NODES_MAX];
		struct layout layout = {0};
		struct layout_site site;
		uint8_t count;

		layout_site_init(&site, &arch_x86_64, &module, args[i]);
		error = expr_bind(expr, &layout, &site, nodes, &count);
		assert_null(error);
		assert_int_equal(count, 3);
		assert_int_equal(nodes[2].wide, i >= 2);
		assert_int_equal(expr_is_signed(&nodes[2]), i % 2 == 0);
		assert_int_equal(layout.capture_count, 1);
	}
	expr_free(expr);
}

/* ---- Values ------------------------------------------------------------------------------- */

enum { REJECTED = 0x7e1ec7 };

/* Of -8, 8, -4 and 4 bytes; then a string. */
static uint64_t worth(const char *text, const uint64_t words[4], const char *string)
{
	struct expr_string strings[ARCH_ARGS_MAX] = {0};
	uint64_t captured[ARCH_ARGS_MAX] = {0}, value;
	struct expr_input input = {.words = captured, .strings = strings};
	struct probe_error *error;
	struct expr_case c;

	error = expr_case_init(&c, "-8@%rax 8@%rbx -4@%ecx 4@%edx 8@%rsi", text);
	if (error)
		fail_msg("%s", error->message);
	for (uint8_t i = 0; i < c.layout.capture_count; i++) {
		unsigned int arg = expr_case_arg(&c, i);

		if (c.layout.captures[i].is_string && string)
			strings[i] = (struct expr_string){
				string, strnlen(string, c.layout.captures[i].bytes_max)};
		else if (c.layout.captures[i].is_string)
			input.unreadable |= UINT64_C(1) << i;
		else
			captured[i] = words[arg];
	}
	if (!expr_interpret(&c.bound, &input, &value))
		value = REJECTED;
	expr_case_deinit(&c);
	return value;
}

/* Where C leaves the result undefined. */
static void test_undefined_in_c(void **state)
{
	const uint64_t least[4] = {(uint64_t)INT64_MIN, 33, (uint64_t)INT32_MIN, 0};
	const uint64_t minus[4] = {(uint64_t)-1, 0, (uint64_t)-1, 65};

	(void)state;
	assert_int_equal(worth("arg0 / -1", least, NULL), INT64_MIN);
	assert_int_equal(worth("arg2 / -1", least, NULL), (uint64_t)INT32_MIN);
	assert_int_equal(worth("arg0 % -1", least, NULL), 0);
	assert_int_equal(worth("arg2 % -1", least, NULL), 0);
	assert_int_equal(worth("-arg2", least, NULL), (uint64_t)INT32_MIN);
	assert_int_equal(worth("arg2 - 1", least, NULL), INT32_MAX);
	assert_int_equal(worth("arg0 - 1", least, NULL), INT64_MAX);
	assert_int_equal(worth("arg2 * 2 == 0", least, NULL), 1);
	assert_int_equal(worth("1 << arg1", least, NULL), 2);
	assert_int_equal(worth("1l << arg3", minus, NULL), 2);
	assert_int_equal(worth("arg2 >> arg3", minus, NULL), (uint64_t)-1);
	assert_int_equal(worth("arg2 << 4", minus, NULL), (uint64_t)-16);
	assert_int_equal(worth("arg0 / arg1", minus, NULL), REJECTED);
	assert_int_equal(worth("arg2 % arg3", least, NULL), REJECTED);
	assert_int_equal(worth("arg3 && 1 / arg3", least, NULL), 0);
	assert_int_equal(worth("!arg3 || 1 / arg3", least, NULL), 1);
	assert_int_equal(worth("arg3 || 1 / arg3", least, NULL), REJECTED);
	assert_int_equal(worth("1 / arg3 || 1", least, NULL), REJECTED);
}

static void test_strings(void **state)
{
	const uint64_t words[4] = {1, 2, 3, 4};

	(void)state;
	assert_int_equal(worth("str(arg4) == \"SELECT\"", words, "SELECT"), 1);
	assert_int_equal(worth("str(arg4) == \"SELECT\"", words, "SELECTS"), 0);
	assert_int_equal(worth("str(arg4) == \"SELECT\"", words, "SELEC"), 0);
	assert_int_equal(worth("str(arg4) == \"SELECT\"", words, "SELECt"), 0);
	assert_int_equal(worth("str(arg4) != \"SELECT\"", words, "SELECT 1"), 1);
	assert_int_equal(worth("str(arg4) == \"\"", words, ""), 1);
	assert_int_equal(worth("str(arg4) == \"\"", words, "x"), 0);
	assert_int_equal(worth("starts_with(str(arg4), \"SEL\")", words, "SELECT"), 1);
	assert_int_equal(worth("starts_with(str(arg4), \"SEL\")", words, "SEL"), 1);
	assert_int_equal(worth("starts_with(str(arg4), \"SEL\")", words, "SE"), 0);
	assert_int_equal(worth("starts_with(str(arg4), \"\")", words, ""), 1);
	assert_int_equal(worth("str(arg4) == \"a\" || str(arg4) == \"long\"", words, "long"), 1);
	assert_int_equal(worth("str(arg4) == \"a\" || str(arg4) == \"long\"", words, "ab"), 0);
	/* What cannot be read rejects the hit, even where it would not be looked at. */
	assert_int_equal(worth("arg0 == 1 || str(arg4) == \"a\"", words, NULL), REJECTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_vector_registers),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_one_line),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_text_limits),
		cmocka_unit_test(test_string_captures),
		cmocka_unit_test(test_is_string),
		cmocka_unit_test(test_many_sites),
		cmocka_unit_test(test_undefined_in_c),
		cmocka_unit_test(test_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
