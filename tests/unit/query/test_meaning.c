/* SPDX-License-Identifier: MIT */
/* Names of arguments: what they stand for in expressions and lists, and what a list without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/query/query.h"
#include "tests/unit/query/catalogue_made.h"

static const char text[] =
	"provider p\n"
	"words Kind 3=blue -1=none\n"
	"probe x query:string kind:Kind class:string(size) size data:bytes(size)\n"
	"probe y ...\n"
	"words Other 9=nine\n"
	"probe b kind query:string(size) size other:Other\n"
	"probe two same other\n"
	"probe two same more other\n"
	"probe inner text:string+24\n";
static struct probe_catalogue *catalogue; /* of the text; main() makes it */

static const struct probe_meaning *meaning(const char *name)
{
	return probe_catalogue_find(catalogue, "p", name, SIZE_MAX);
}

static void test_replace(void **state)
{
	static const struct {
		const char *text, *replaced;
	} cases[] = {
		{"query == \"query\" && kind > 2", "str(arg0) == \"query\" && arg1 > 2"},
		{"starts_with(query, \"kind \\\" kind\")",
			"starts_with(str(arg0), \"kind \\\" kind\")"},
		{"str(query) != 'k' && str( class ) == \"\"",
			"str(arg0) != 'k' && str( arg2,arg3 ) == \"\""},
		{"class == \"a\"", "str(arg2,arg3) == \"a\""},
		{"kind == blue || kind == none", "arg1 == 3 || arg1 == -1"},
		{"end.query == \"a\" && duration > 10ms && end.str(query) == \"b\"",
			"end.str(arg0) == \"a\" && duration > 10ms && end.str(arg0) == \"b\""},
		{"begin.query == \"a\" && query != \"kind\" && begin.kind == kind",
			"begin.str(arg1,arg2) == \"a\" && str(arg0) != \"kind\" && begin.arg0 == "
			"arg1"},
		{"begin.str(query, size) == \"\" && kind > size",
			"begin.str(arg1, arg2) == \"\" && arg1 > arg3"},
		{"begin.other == nine && kind == blue", "begin.arg3 == 9 && arg1 == 3"},
		{"sym(kind)", "sym(arg1)"},
		{"sym(begin.query)", "sym(begin.str(arg1,arg2))"},
		{"norm(query)", "norm(str(arg0))"},
		{"norm(begin.query)", "norm(begin.str(arg1,arg2))"},
		{"kind in (1, 2) && kind not in (blue)", "arg1 in (1, 2) && arg1 not in (3)"},
		{"(query, size, str(class,size), bytes(data))",
			"(str(arg0), arg3, str(arg2,arg3), bytes(arg4,arg3))"},
		{"(data)", "(bytes(arg4,arg3))"},
		{"str(*(u64 *)(kind + 8)) == \"a\"", "str(*(u64 *)(arg1 + 8)) == \"a\""},
		{"*( s32* )kind * (size)", "*( s32* )arg1 * (arg3)"},
		{"(str(query),kind)", "(str(arg0),arg1)"},
		{"tid + 0x10u + arg31", "tid + 0x10u + arg31"},
		{"query == \"not closed", "str(arg0) == \"not closed"},
		{"'\\", "'\\"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct probe_error *error;
		char *replaced;

		error = meaning_replace(
			"the text", cases[i].text, meaning("x"), meaning("b"), NULL, &replaced);
		if (error)
			fail_msg("%s", error->message);
		assert_string_equal(replaced, cases[i].replaced);
		free(replaced);
	}
}

static void test_used(void **state)
{
	(void)state;
	assert_true(meaning_names_used("query"));
	assert_true(meaning_names_used("arg0 + x1"));
	assert_true(meaning_names_used("str(arg0)==\"a\"&&b"));
	assert_true(meaning_names_used("argument"));
	assert_false(meaning_names_used(""));
	assert_false(meaning_names_used("arg0 > 0x1f && tid == 12 || str(arg1) == \"query\""));
	assert_false(meaning_names_used("starts_with(str(arg0), \"a\") && cpu == 1 && pid != 'a'"));
	assert_false(meaning_names_used("str(*(u64 *)(arg1 + 8))"));
	assert_false(meaning_names_used("end.arg0 == 1 && duration > 1ms"));
}

static void fails(const char *expression, const char *name, const char *message)
{
	struct probe_error *error;
	char *replaced;

	error = meaning_replace(
		"the filter", expression, name ? meaning(name) : NULL, NULL, NULL, &replaced);
	assert_non_null(error);
	assert_null(replaced);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
}

static void test_unknown(void **state)
{
	(void)state;
	fails("kind == 1 && colour", "x",
		"the filter 'kind == 1 && colour': there is no argument 'colour', the probe has "
		"query, kind, class, size, data");
	/* The words of its numbers, too. */
	fails("kind == bleu", "x",
		"the filter 'kind == bleu': there is no argument 'bleu', the probe has "
		"query, kind, class, size, data; the nearest is 'blue'");
	fails("qurey", "x",
		"the filter 'qurey': there is no argument 'qurey', the probe has "
		"query, kind, class, size, data; the nearest is 'query'");
	fails("a", "y",
		"the filter 'a': there is no argument 'a', the probe has none whose name is known");
	fails("a", NULL,
		"the filter 'a': there is no argument 'a', the probe has none whose name is known");
	/* What a pair has begun with has other arguments. */
	fails("begin.query == \"a\"", "x",
		"the filter 'begin.query == \"a\"': there is no argument 'query', the probe has "
		"none whose name is known");
}

static void is_plain(const char *pattern_text, const char *expected)
{
	struct probe_pattern *pattern;
	char *plain;

	assert_null(probe_pattern_parse_named(pattern_text, catalogue, &pattern));
	assert_null(probe_pattern_plain_text(pattern, &plain));
	assert_string_equal(plain, expected);
	free(plain);
	probe_pattern_free(pattern);
}

static void is_not_plain(const char *pattern_text, const char *message)
{
	struct probe_pattern *pattern;
	struct probe_error *error;
	char *plain;

	assert_null(probe_pattern_parse_named(pattern_text, catalogue, &pattern));
	error = probe_pattern_plain_text(pattern, &plain);
	assert_non_null(error);
	assert_null(plain);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
	probe_pattern_free(pattern);
}

static void test_plain(void **state)
{
	(void)state;
	is_plain("p:x (query, kind)", "p:x (str(arg0), arg1)");
	is_plain("x(class,arg4)", "x(str(arg2,arg3),arg4)");
	is_plain("/x/(arg0)", "/x/(arg0)");
	is_plain("p:x", "p:x");
	is_not_plain("p:*(query)",
		"'p:*(query)': wildcards match probes with other arguments, too; use argN in the "
		"list");
	is_not_plain("p:x(colour)",
		"p:x: the list '(colour)': there is no argument 'colour', the probe has query, "
		"kind, class, size, data");
	is_not_plain("q:x(query)",
		"the list '(query)': there is no argument 'query', the probe has "
		"none whose name is known");
	is_plain("p:inner(text)", "p:inner(str(arg0 + 24))");
	is_plain(
		"p:inner(str(text + 2), str(text))", "p:inner(str(arg0 + 24 + 2), str(arg0 + 24))");
	/* Two versions. */
	is_plain("p:two(same)", "p:two(arg0)");
	is_not_plain("p:two(other)",
		"p:two: the list '(other)': these names are not the same arguments in all "
		"programs and versions, which give '(arg1)' and '(arg2)'; use one of these");
}

static void check(const struct capture *capture, unsigned char arg, bool is_string, int length)
{
	assert_int_equal(capture->arg, arg);
	assert_int_equal(capture->is_string, is_string);
	assert_int_equal(capture->has_length ? capture->length : -1, length);
}

static void test_captures(void **state)
{
	struct capture captures[CAPTURES_MAX];

	(void)state;
	assert_int_equal(meaning_captures(meaning("x"), 5, captures), 4);
	check(&captures[0], 0, true, -1);
	check(&captures[1], 1, false, -1);
	check(&captures[2], 2, true, 3);
	check(&captures[3], 4, false, 3);
	/* The text begins behind where the argument points. */
	assert_int_equal(meaning_captures(meaning("inner"), 1, captures), 1);
	check(&captures[0], 0, true, -1);
	assert_int_equal(captures[0].step_count, 1);
	assert_int_equal(captures[0].steps[0].offset, 24);
	assert_int_equal(captures[0].steps[0].size, 0);
	/* Further arguments are numbers. */
	assert_int_equal(meaning_captures(meaning("y"), 2, captures), 2);
	check(&captures[1], 1, false, -1);
	assert_int_equal(meaning_captures(meaning("y"), 40, captures), 32);
}

/* For programs: every argument as a number, and the same texts as above beside them. */
static void test_captures_all(void **state)
{
	struct capture captures[CAPTURES_MAX];

	(void)state;
	assert_int_equal(meaning_captures_all(meaning("x"), 6, captures), 6);
	check(&captures[0], 0, true, -1);
	assert_true(captures[0].beside);
	check(&captures[1], 1, false, -1);
	assert_false(captures[1].beside);
	check(&captures[2], 2, true, 3);
	assert_true(captures[2].beside);
	check(&captures[3], 3, false, -1);
	check(&captures[4], 4, false, 3); /* bytes stand for their address */
	assert_false(captures[4].beside);
	check(&captures[5], 5, false, -1);
	assert_int_equal(meaning_captures_all(meaning("inner"), 1, captures), 1);
	check(&captures[0], 0, true, -1);
	assert_true(captures[0].beside);
	assert_int_equal(captures[0].step_count, 1);
	assert_int_equal(captures[0].steps[0].offset, 24);
	assert_int_equal(meaning_captures_all(meaning("y"), 40, captures), 32);
}

static void test_pattern(void **state)
{
	struct capture captures[CAPTURES_MAX];
	struct probe_pattern *pattern;
	struct probe_error *error;
	size_t count;

	(void)state;
	assert_null(probe_pattern_parse_named("p:*(size, query)", catalogue, &pattern));
	assert_true(pattern_has_captures(pattern));
	assert_null(pattern_captures(pattern, "p", "x", 5, false, captures, &count));
	assert_int_equal(count, 2);
	check(&captures[0], 3, false, -1);
	check(&captures[1], 0, true, -1);
	/* Another version of the program. */
	error = pattern_captures(pattern, "p", "x", 4, false, captures, &count);
	assert_string_equal(error->message, "p:x: the list '(size, query)': there is no argument "
					    "'size', the probe has none whose name is known");
	probe_error_free(error);
	/* Where another probe has it, this one has nothing in its place. */
	assert_null(pattern_captures(pattern, "p", "x", 4, true, captures, &count));
	assert_int_equal(count, 2);
	check(&captures[0], CAPTURES_MAX - 1, false, -1);
	assert_null(pattern_captures(pattern, "p", "b", 1, true, captures, &count));
	assert_int_equal(count, 2);
	probe_pattern_free(pattern);
	/* It makes no list: this is known for each probe. */
	assert_null(probe_pattern_parse_named("p:x(size + 1)", catalogue, &pattern));
	error = pattern_captures(pattern, "p", "x", 5, false, captures, &count);
	assert_string_equal(
		error->message, "p:x: bad probe '(arg3 + 1)', column 7: expected ',' or ')'");
	probe_error_free(error);
	probe_pattern_free(pattern);
	error = probe_pattern_parse("p:x(size)", &pattern);
	assert_string_equal(error->message, "bad probe 'p:x(size)', column 5: expected arg0 to "
					    "arg31, str(argN), bytes(argN,argM) or sym(argN)");
	probe_error_free(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_used),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_captures),
		cmocka_unit_test(test_captures_all),
		cmocka_unit_test(test_pattern),
	};
	int failed;

	catalogue = catalogue_made(text);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	probe_catalogue_free(catalogue);
	return failed;
}
