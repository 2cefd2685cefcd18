/* SPDX-License-Identifier: MIT */
/* Expressions: grammar, types, strings, and values that C leaves undefined. */
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

/* ---- Trees -------------------------------------------------------------------------------- */

static void print_arg(FILE *out, const struct expr_case *c, uint8_t capture)
{
	fprintf(out, "%sarg%u", c->layout.captures[capture].begun ? "begin." : "",
		expr_case_arg(c, capture));
}

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
	case ARCH_EXPR_DOUBLE:
	case ARCH_EXPR_FLOAT:
		fputs(node->kind == ARCH_EXPR_DOUBLE	? "double "
			: node->kind == ARCH_EXPR_FLOAT ? "float "
							: "",
			out);
		print_arg(out, c, node->capture);
		break;
	case ARCH_EXPR_TID:
		fputs("tid", out);
		break;
	case ARCH_EXPR_PID:
		fputs("pid", out);
		break;
	case ARCH_EXPR_DURATION:
		fputs("duration", out);
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
		[ARCH_EXPR_IN] = "in",
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
		fprintf(out, "(%s ", names[node->kind]);
		print_arg(out, c, node->capture);
		fprintf(out, " \"%.*s\")", node->text_length, node->text);
	} else {
		fprintf(out, "(%s:%s ", names[node->kind], type);
		print_node(out, c, node->left);
		if (node->kind >= ARCH_EXPR_ADD) {
			fputc(' ', out);
			print_node(out, c, node->right);
		}
		for (size_t i = 0; i < node->list_count; i++)
			fprintf(out, " %lld", (long long)node->list[i]);
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
	/* Of pairs, and times. */
	{"duration", "duration:l"}, {"end.arg4", "arg4:i"}, {"duration > 5ms", "(>:l duration:l 5000000:l)"},
	{"10us + 1s - 3ns", "1000009997:l"}, {"0ns", "0:l"}, {"end.arg7 == duration / 1us",
	"(==:ul arg7:ul (/:l duration:l 1000:l))"}, {"end . arg0", "arg0:i"},
	{"end.str(arg7) != \"a\"", "(!:i (is arg7 \"a\"))"},
	{"starts_with(end.str(arg7), \"a\")", "(begins arg7 \"a\")"},
	/* What the begin has kept has 64 bits. */
	{"begin.arg4", "begin.arg4:l"}, {"begin . arg7", "begin.arg7:ul"}, {"begin.arg5", "begin.arg5:l"},
	{"begin.arg0 == end.arg0", "(==:l begin.arg0:l arg0:i)"},
	{"begin.str(arg7) != \"a\"", "(!:i (is begin.arg7 \"a\"))"},
	{"starts_with(begin.str(arg7), \"ab\") && begin.str(arg7) == \"ab\"",
	"(&&:i (begins begin.arg7 \"ab\") (is begin.arg7 \"ab\"))"},
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
	/* Shifts have the type of the left operand; && and || convert nothing. */
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
	/* Left-associative within a level. */
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
	/* Lists have one type. */
	{"arg4 in (1, 3,5)", "(in:i arg4:i 1 3 5)"},
	{"arg4 not in(1)", "(!:i (in:i arg4:i 1))"},
	{"!arg4 in (-1, 2 * 3)", "(in:i (!:i arg4:i) -1 6)"},
	{"arg4 in (1, 2u)", "(in:u (to:u arg4:i) 1 2)"},
	{"arg5 in (-1)", "(in:u arg5:u -1)"},
	{"arg5 in (-1, 5l)", "(in:l arg5:u -1 5)"},
	{"arg4 in (1, 0x100000000)", "(in:l arg4:i 1 4294967296)"},
	{"arg7 in (3)", "(in:ul arg7:ul 3)"},
	{"arg4 + 1 in ('a') && tid", "(&&:i (in:i (+:i arg4:i 1:i) 97) tid:i)"},
	{"arg4 & arg4 in (1)", "(&:i arg4:i (in:i arg4:i 1))"},
	{"arg4 in (1) == 1u", "(==:u (to:u (in:i arg4:i 1)) 1:u)"},
	{"3 in (3)", "(in:i 3:i 3)"},
	{"str(arg7) in (\"a\")", "(is arg7 \"a\")"},
	{"str(arg7) not in (\"a\" , \"bc\")", "(!:i (||:i (is arg7 \"a\") (is arg7 \"bc\")))"},
	{"str(arg7) in (\"a\",\"b\",\"c\") && tid", "(&&:i (||:i (||:i (is arg7 \"a\") "
		"(is arg7 \"b\")) (is arg7 \"c\")) tid:i)"},
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

/* Numbers in half a vector register are captured without sign extension. */
static void test_vector_registers(void **state)
{
	(void)state;
	check_tree("-4@%xmm0", "arg0 < 0", "(<:i (to:i arg0:ul) 0:i)");
	check_tree("4@%xmm0", "arg0 < 0u", "(<:u (to:u arg0:ul) 0:u)");
	check_tree("-4@%xmm0", "arg0 < 0u", "(<:u (to:u (to:i arg0:ul)) 0:u)");
	check_tree("-8@%xmm0", "arg0 < 0", "(<:l arg0:l 0:l)");
}

/* ---- Strings ------------------------------------------------------------------------------ */

/* Constants are the bits of doubles. */
static void test_doubles(void **state)
{
	static const char args[] = "8f@%xmm0 4f@%xmm1 -4f@(%rax) -8@%rax";
	static const struct {
		const char *text, *tree;
	} cases[] = {
		{"arg0 > 1.5", "(>:ul double arg0:ul 4609434218613702656:ul)"},
		{"arg1 <= arg2", "(<=:ul float arg1:ul float arg2:ul)"},
		{"-1.5e0 != arg0 && arg3",
			"(&&:i (!=:ul 13832806255468478464:ul double arg0:ul) arg3:l)"},
		{"arg0 == 2", "(==:ul double arg0:ul 4611686018427387904:ul)"},
		{"arg0 == -2", "(==:ul double arg0:ul 13835058055282163712:ul)"},
		{"arg0 == 18446744073709551615u", "(==:ul double arg0:ul 4895412794951729152:ul)"},
		{"arg0 == -0.0", "(==:ul double arg0:ul 0:ul)"},
		{"!(arg0 < 1e3)", "(!:i (<:ul double arg0:ul 4652007308841189376:ul))"},
		{"(arg0 < 0.5) + arg3",
			"(+:l (<:ul double arg0:ul 4602678819172646912:ul) arg3:l)"},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++)
		check_tree(args, cases[i].text, cases[i].tree);
}

static void test_string_captures(void **state)
{
	struct probe_error *error;
	struct expr_case c;

	(void)state;
	/* One capture for all texts: the length of the longest plus one byte. */
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
		struct capture string;
	} cases[] = {{"str(arg0)", true, {.arg = 0}}, {" ( str ( arg31 ) ) ", true, {.arg = 31}},
		{"str(arg3,arg4)", true, {.arg = 3, .has_length = true, .length = 4}},
		{"str( arg4 , arg31 )", true, {.arg = 4, .has_length = true, .length = 31}},
		{"end.str(arg2)", true, {.arg = 2}},
		{"begin.str(arg3)", true, {.arg = 3, .of_begin = true}},
		{"begin.str(arg3, arg1)", true,
			{.arg = 3, .of_begin = true, .has_length = true, .length = 1}},
		{"begin.arg3", false, {0}}, {"arg0", false, {0}},
		{"str(arg0, arg1) == \"a\"", false, {0}}, {"str(arg0) == \"a\"", false, {0}},
		{"1", false, {0}}, {"starts_with(str(arg0), \"a\")", false, {0}}};

	(void)state;
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct probe_error *error;
		struct capture expected = cases[i].string, string = {0};
		struct expr *expr;

		error = expr_parse("the key", cases[i].text, &expr);
		if (error)
			fail_msg("%s", error->message);
		assert_int_equal(expr_is_string(expr, &string), cases[i].is_string);
		expected.is_string = cases[i].is_string;
		assert_true(capture_is(&string, &expected));
		expr_free(expr);
	}
	expr_free(NULL);
}

/* One text is bound to many sites with arguments of other types and places. */
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
		struct record_layout layout = {0};
		struct record_layout_site site;
		uint8_t count;

		record_layout_site_init(&site, &arch_x86_64, &module, args[i]);
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
	if (!expr_evaluate(&c.bound, &input, &value))
		value = REJECTED;
	expr_case_deinit(&c);
	return value;
}

/* Two expressions as one, the first of which has a value of its own. */
static void test_both(void **state)
{
	static const struct {
		uint64_t words[2];
		uint64_t first, both;
	} cases[] = {{{7, 4}, 6, 1}, {{7, 3}, 6, 0}, {{8, 4}, 0, 0}, {{100, 9}, 4, 0}};
	struct arch_expr_node nodes[ARCH_EXPR_NODES_MAX];
	struct record_layout layout = {0};
	struct record_layout_site site;
	struct module module = {0};
	struct expr *first, *second, *many;
	struct probe_error *error;
	char text[200] = "arg0";
	uint8_t count, own;

	(void)state;
	record_layout_site_init(&site, &arch_x86_64, &module, "8@%rax -8@%rbx");
	assert_null(expr_parse("the filter", "arg0 & 6", &first));
	assert_null(expr_parse("the other", "arg1 > 3 && arg0 < 100", &second));
	assert_null(expr_bind_both(first, second, &layout, &site, nodes, &count, &own));
	assert_int_equal(layout.capture_count, 2);
	for (size_t i = 0; i < COUNT(cases); i++) {
		const struct expr_input input = {.words = cases[i].words};
		uint64_t value;

		assert_true(expr_evaluate(&(struct arch_expr){nodes, own}, &input, &value));
		assert_int_equal(value, cases[i].first);
		assert_true(expr_evaluate(&(struct arch_expr){nodes, count}, &input, &value));
		assert_int_equal(value, cases[i].both);
	}
	for (int i = 0; i < 16; i++)
		strcat(text, " + arg1");
	assert_null(expr_parse("the other", text, &many));
	assert_null(expr_bind(many, &layout, &site, nodes, &count));
	error = expr_bind_both(many, first, &layout, &site, nodes, &count, &own);
	assert_non_null(error);
	probe_error_free(error);
	expr_free(first);
	expr_free(second);
	expr_free(many);
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
	/* An unreadable operand rejects the hit, even if it would not be evaluated. */
	assert_int_equal(worth("arg0 == 1 || str(arg4) == \"a\"", words, NULL), REJECTED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_trees),
		cmocka_unit_test(test_vector_registers),
		cmocka_unit_test(test_doubles),
		cmocka_unit_test(test_string_captures),
		cmocka_unit_test(test_is_string),
		cmocka_unit_test(test_many_sites),
		cmocka_unit_test(test_both),
		cmocka_unit_test(test_undefined_in_c),
		cmocka_unit_test(test_strings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
