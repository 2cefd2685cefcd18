/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/base/buffer.h"
#include "libprobe/base/event.h"
#include "libprobe/query/query.h"

static const char jvm[] = "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so";

static struct probe_pattern *parse(const char *text)
{
	struct probe_pattern *pattern;
	struct probe_error *error = probe_pattern_parse(text, &pattern);

	if (error)
		fail_msg("%s", error->message);
	assert_string_equal(probe_pattern_text(pattern), text);
	return pattern;
}

static bool matches(const char *text, const char *path, const char *provider, const char *name)
{
	struct probe_pattern *pattern = parse(text);
	bool result = probe_pattern_matches(pattern, path, provider, name);

	probe_pattern_free(pattern);
	return result;
}

/* Whether `text` matches hotspot:class__loaded of libjvm. */
static bool matches_jvm(const char *text)
{
	return matches(text, jvm, "hotspot", "class__loaded");
}

static void fails(const char *text, const char *message)
{
	struct probe_pattern *pattern;
	struct probe_error *error = probe_pattern_parse(text, &pattern);

	assert_non_null(error);
	assert_null(pattern);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
}

static void test_globs(void **state)
{
	(void)state;
	assert_true(matches_jvm("hotspot:class__loaded"));
	assert_true(matches_jvm("hotspot:class__*"));
	assert_true(matches_jvm("hot*:cl?ss__[a-z]oaded"));
	assert_true(matches_jvm("class__loaded"));
	assert_true(matches_jvm("*"));
	assert_true(matches_jvm("*:*"));
	assert_true(matches_jvm(":class__loaded"));
	assert_true(matches_jvm("hotspot:"));
	assert_true(matches_jvm("hotspot:class[[:punct:]]_loaded"));
	assert_true(matches_jvm("hotspot:class__loaded "));
	assert_false(matches_jvm("hotspot:class__unloaded"));
	assert_false(matches_jvm("hotspot"));
	assert_false(matches_jvm("hotspot:class"));
	assert_false(matches_jvm("HOTSPOT:class__loaded"));
	assert_false(matches_jvm("hotspot_jni:*"));
}

static void test_dashes(void **state)
{
	(void)state;
	assert_true(matches_jvm("hotspot:class-loaded"));
	assert_true(matches_jvm("class-*"));
	assert_true(matches_jvm("class\\-loaded"));
	assert_true(matches("a:b-c", "/x", "a", "b-c"));
	assert_true(matches("a:b__c", "/x", "a", "b-c"));
	assert_true(matches("a:b[a-c]c", "/x", "a", "bbc"));
	assert_false(matches("a:b[a-c]c", "/x", "a", "b_c"));
	assert_false(matches("a:b-c", "/x", "a", "b_c"));
	assert_true(matches("/^hotspot:class-loaded$/", jvm, "hotspot", "class__loaded"));
	assert_true(matches("/^a:b__c$/", "/x", "a", "b-c"));
}

/* Each name that is printed is a pattern for this name only. */
static void test_printed(void **state)
{
	static const char *const names[] = {"plain", "a.b-c", "a b", " a", "b ", "db:open", "f()",
		"f(x)", "a)", "*", "a?c", "[b-c]", "b]", "a:b]", "a\\b", "{c}", "\"", "\"q\"",
		"q\"", "a \"b\"", ":\"x", "a /b/", "::", "a[b-c"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct buffer text = {0};
		char *printed;

		event_put_probe(&text, "prov", names[i]);
		printed = buffer_take(&text, NULL);
		assert_non_null(printed);
		for (size_t k = 0; k < sizeof(names) / sizeof(*names); k++)
			if (matches(printed, "/x", "prov", names[k]) != (i == k))
				fail_msg("%s and '%s'", printed, names[k]);
		free(printed);
	}
	assert_false(event_needs_quotes("prov", "a.b-c d"));
	assert_false(event_needs_quotes("fn:app", "ns::f(int)"));
}

static void test_quotes(void **state)
{
	(void)state;
	assert_true(matches("p:\"db:open\"", "/x", "p", "db:open"));
	assert_true(matches("\"db:open\"", "/x", "p", "db:open"));
	assert_true(matches("/x:p:\"db:open\"", "/x", "p", "db:open"));
	assert_false(matches("/y:p:\"db:open\"", "/x", "p", "db:open"));
	assert_false(matches("p:\"db:open\"", "/x", "q", "db:open"));
	assert_true(matches("*:\"a(b)\"", "/x", "p", "a(b)"));
	assert_true(matches("p:\"a(b)\"(arg0,str(arg1))", "/x", "p", "a(b)"));
	assert_true(matches("p:\"{a} /b/\"", "/x", "p", "{a} /b/"));
	assert_true(matches("p:\"a-[*?\\\"", "/x", "p", "a-[*?\\"));
	assert_false(matches("p:\"a*\"", "/x", "p", "ab"));
	/* Quotes of the name itself. */
	assert_true(matches("p:a\"b", "/x", "p", "a\"b"));
	assert_true(matches("p:\"a\"b\"", "/x", "p", "a\"b"));
	assert_true(matches("p:\"a-b\"", "/x", "p", "a__b"));
}

/* A record tells the provider of a function, not the path of its file. */
static void test_unknown_path(void **state)
{
	static const char *const files[] = {"fn:libc:malloc", "fn:c:malloc", "fn:libc.so.6:malloc",
		"fn:libc:mal*", "fn:l?bc.so*:malloc", "fn:libc:/^mal/", "uprobe:libc:malloc",
		"fn:/lib/x86_64-linux-gnu/libc.so.6:malloc"};

	(void)state;
	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (!matches(files[i], "", "fn:libc", "malloc") ||
			matches(files[i], "", "fn:libc", "malloc:return") ||
			matches(files[i], "", "fn:libm", "malloc"))
			fail_msg("%s", files[i]);
	assert_true(matches("fn:libc.so.6:malloc:return", "", "fn:libc", "malloc:return"));
	assert_true(matches("fn:/lib/libc.so.6:mal*:return", "", "fn:libc", "malloc:return"));
	assert_true(matches("fn:my.sock.prog:f", "", "fn:my.sock.prog", "f"));
	assert_true(matches("/usr/bin/app:p:n", "", "p", "n"));
	assert_false(matches("fn:/lib/libc.so.6:malloc", "", "libc", "malloc"));
}

static void test_paths(void **state)
{
	(void)state;
	assert_true(matches_jvm("libjvm.so:hotspot:class__loaded"));
	assert_true(matches_jvm("libjvm*:hotspot:*"));
	assert_true(matches_jvm("*/server/*:hotspot:*"));
	assert_true(matches_jvm("/usr/lib/jvm/*/libjvm.so:hotspot:*"));
	assert_true(matches_jvm("/usr/lib/jvm/*/libjvm.so:*"));
	assert_true(matches_jvm("server/libjvm.so:hotspot:*"));
	assert_true(matches_jvm("./server/libjvm.so:hotspot:*"));
	assert_false(matches_jvm("libjvm:hotspot:*"));
	assert_false(matches_jvm("/libjvm.so:hotspot:*"));
	assert_false(matches_jvm("erver/libjvm.so:hotspot:*"));
	assert_true(matches("/opt/a (b)/x:prov:name", "/opt/a (b)/x", "prov", "name"));
	assert_true(matches("/opt/a:b/x:prov:name", "/opt/a:b/x", "prov", "name"));
}

static void test_symbolic_link(void **state)
{
	char directory[] = "/tmp/test_pattern.XXXXXX";
	char file[64], link[64], text[128];

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(file, sizeof(file), "%s/python3.11", directory);
	snprintf(link, sizeof(link), "%s/python3", directory);
	snprintf(text, sizeof(text), "%s:python:line", link);
	fclose(fopen(file, "w"));
	assert_int_equal(symlink("python3.11", link), 0);
	assert_true(matches(text, file, "python", "line"));
	assert_true(matches(text, link, "python", "line"));
	assert_false(matches(text, "/usr/bin/python3.11", "python", "line"));
	unlink(link);
	unlink(file);
	rmdir(directory);
}

static void test_other_tools(void **state)
{
	(void)state;
	assert_true(matches_jvm("sdt_hotspot:class__loaded"));
	assert_true(matches_jvm("%sdt_hotspot:class__loaded"));
	assert_true(matches("sdt_x:y", "/x", "sdt_x", "y"));
	assert_false(matches_jvm("sdt_:class__loaded"));
	assert_true(matches_jvm("usdt:/usr/lib/jvm/*/libjvm.so:hotspot:class__loaded"));
	assert_true(matches_jvm("usdt:/usr/lib/jvm/*/libjvm.so:class__loaded"));
	assert_true(matches_jvm("usdt:*:class__loaded"));
	assert_true(matches_jvm("usdt::class__loaded"));
	assert_true(matches_jvm("usdt::hotspot:class__loaded"));
	assert_true(matches_jvm("u:jvm:class__loaded"));
	assert_true(matches_jvm("u:libjvm:hotspot:class__loaded"));
	assert_false(matches_jvm("u:jv:class__loaded"));
	assert_true(matches("u:c:setjmp", "/lib/libc.so.6", "libc", "setjmp"));
	assert_true(matches("usdt:libc:setjmp", "/lib/libc-2.31.so", "libc", "setjmp"));
	assert_false(matches("u:c:setjmp", "/lib/libc-client.so", "libc", "setjmp"));
	/* A provider with that name. */
	assert_true(matches("u:name", "/x", "u", "name"));
	assert_true(matches("usdt:name", "/x", "usdt", "name"));
}

static void test_regular_expressions(void **state)
{
	(void)state;
	assert_true(matches_jvm("/class__(un)?loaded/"));
	assert_true(matches_jvm("/^hotspot:class/"));
	assert_true(matches_jvm("/hotspot:.*(loaded|gc)$/"));
	assert_false(matches_jvm("/^class/"));
	assert_true(matches("/a/b:c/", "/x", "p/a/b", "c"));
}

static void check_captures(const char *text, size_t count, const struct capture *expected)
{
	struct probe_pattern *pattern = parse(text);
	struct capture captures[CAPTURES_MAX];
	size_t found;

	assert_true(pattern_has_captures(pattern));
	assert_null(pattern_captures(pattern, "a", "b", 32, false, captures, &found));
	assert_int_equal(found, count);
	for (size_t i = 0; i < count; i++) {
		assert_true(capture_is(&captures[i], &expected[i]));
	}
	probe_pattern_free(pattern);
}

static void test_captures(void **state)
{
	const struct capture one[] = {{.arg = 3}};
	const struct capture two[] = {{.arg = 31}, {.arg = 0, .is_string = true}};
	const struct capture sized[] = {
		{.arg = 2, .is_string = true, .has_length = true, .length = 3},
		{.arg = 0, .has_length = true, .length = 31}};
	struct probe_pattern *pattern = parse("hotspot:*");
	(void)state;
	assert_false(pattern_has_captures(pattern));
	probe_pattern_free(pattern);
	check_captures("a:b(arg3)", 1, one);
	check_captures("a:b ( arg31 , str( arg0 ) )", 2, two);
	check_captures("/(a|b)/(arg31,str(arg0))", 2, two);
	check_captures("usdt:/x:a:b(arg31,str(arg0))", 2, two);
	check_captures("a:b(str(arg2,arg3),bytes(arg0,arg31))", 2, sized);
	check_captures("a:b( str ( arg2 , arg3 ) , bytes( arg0,arg31 ) )", 2, sized);
	assert_true(matches("a:b(arg0)", "/x", "a", "b"));
	assert_true(matches("/^(a:b)$/(arg0)", "/x", "a", "b"));
	assert_false(matches("/^(a:b)$/(arg0)", "/x", "a", "bc"));
}

/* Names of addresses: of arguments, and of what they point to. */
static void test_symbols(void **state)
{
	const struct capture two[] = {
		{.arg = 1, .is_symbol = true}, {.arg = 0,
						       .steps = {{.offset = 8, .size = 8}},
						       .step_count = 1,
						       .is_symbol = true}};
	struct probe_pattern *pattern = parse("a:b(arg0,sym(arg1))");

	(void)state;
	check_captures("a:b(sym(arg1), sym( *(u64 *)(arg0 + 8) ))", 2, two);
	assert_true(pattern_has_symbols(pattern));
	probe_pattern_free(pattern);
	pattern = parse("a:b(arg0,str(arg1))");
	assert_false(pattern_has_symbols(pattern));
	probe_pattern_free(pattern);
}

/* Numbers behind pointers: what is written first is read last. */
static void test_steps(void **state)
{
	const struct capture one[] = {{.arg = 1, .steps = {{8, 8, false, 0}}, .step_count = 1}};
	const struct capture bare[] = {{.arg = 0, .steps = {{0, 4, true, 0}}, .step_count = 1}};
	const struct capture three[] = {
		{.arg = 0,
			.steps = {{-16, 8, false, 0}, {4, 8, false, 0}, {0x20, 1, false, 0}},
			.step_count = 3},
		{.arg = 2, .steps = {{24, 8, false, 0}}, .step_count = 1, .is_string = true},
		{.arg = 2,
			.steps = {{1, 2, true, 0}},
			.step_count = 1,
			.has_length = true,
			.length = 3}};

	(void)state;
	check_captures("a:b(*(u64 *)(arg1 + 8))", 1, one);
	check_captures("a:b(*(u64*)(arg1+8))", 1, one);
	check_captures("a:b( * ( u64 * ) ( ( arg1 + 010 ) ) )", 1, one);
	check_captures("a:b(*(u64 *)((arg1 + 0x10) - 5 - 3))", 1, one);
	check_captures("a:b(*(s32 *)arg0)", 1, bare);
	check_captures("a:b(*(s32 *)(arg0))", 1, bare);
	check_captures("a:b(*(u8 *)(*(u64 *)(*(u64 *)(arg0 - 16) + 4) + 32), "
		       "str(*(u64 *)(arg2 + 24)), bytes(*(s16 *)(arg2 + 1), arg3))",
		3, three);
}

/* Items of arrays, and strings in the middle. */
static void test_items(void **state)
{
	const struct capture items[] = {
		{.steps = {{0, 4, false, 8}}, .step_count = 1, .has_index = true, .index = 1},
		{.arg = 1,
			.steps = {{16, 8, false, -4}, {-1, 1, true, 1}},
			.step_count = 2,
			.has_index = true,
			.index = 31},
		{.steps = {{8, 0, false, 0}}, .step_count = 1, .is_string = true},
		{.steps = {{0, 8, false, 8}, {0, 8, false, 0}, {4, 8, false, 0}, {1, 0, false, 12}},
			.step_count = 4,
			.has_index = true,
			.index = 2,
			.has_length = true,
			.length = 1},
		{.arg = 3, .is_string = true}};

	(void)state;
	check_captures("a:b(*(u32 *)(arg0 + arg1 * 8),*(s8 *)(*(u64 *)((arg1 + 16) - arg31*0x4) + "
		       "arg31 - 1),str(arg0 + 8),bytes(*(u64 *)(*(u64 *)*(u64 *)(arg0 + arg2 * "
		       "7 + arg2) + 4) + 1 + arg2 * 12,arg1),str((arg3)))",
		5, items);
}

static void test_wrong_steps(void **state)
{
	(void)state;
	fails("a:b(*(u8 *)(arg0 + arg1 + arg2))",
		"bad probe 'a:b(*(u8 *)(arg0 + arg1 + arg2))', column 27: an address has one "
		"argument as an index");
	fails("a:b(*(u8 *)(arg0 + arg1 * arg2))",
		"bad probe 'a:b(*(u8 *)(arg0 + arg1 * arg2))', column 27: expected the number of "
		"bytes of an item");
	fails("a:b(*(u8 *)(arg0 + arg1 * 2147483647 + arg1))",
		"bad probe 'a:b(*(u8 *)(arg0 + arg1 * 2147483647 + arg1))', column 44: the "
		"distance does not fit 31 bits");
	fails("a:b(str(arg0 + ))", "bad probe 'a:b(str(arg0 + ))', column 16: expected a number of "
				   "bytes, or an index such as arg1 * 8");
	fails("a:b(arg0 + 8)", "bad probe 'a:b(arg0 + 8)', column 10: expected ',' or ')'");
	fails("a:b(*arg0)", "bad probe 'a:b(*arg0)', column 6: expected '(' and a type, such as "
			    "(u64 *)");
	fails("a:b(*(int *)arg0)", "bad probe 'a:b(*(int *)arg0)', column 7: expected a type: u8, "
				   "u16, u32, u64, s8, s16, s32 or s64");
	fails("a:b(*(u640 *)arg0)", "bad probe 'a:b(*(u640 *)arg0)', column 7: expected a type: "
				    "u8, u16, u32, u64, s8, s16, s32 or s64");
	fails("a:b(*(u64)arg0)",
		"bad probe 'a:b(*(u64)arg0)', column 10: expected '*)' after the type");
	fails("a:b(*(u8 *)tid)", "bad probe 'a:b(*(u8 *)tid)', column 12: expected arg0 to arg31");
	fails("a:b(*(u8 *)(arg0 * 2))", "bad probe 'a:b(*(u8 *)(arg0 * 2))', column 18: expected "
					"'+', '-' or ')' after the address");
	fails("a:b(*(u8 *)(arg0 + tid))", "bad probe 'a:b(*(u8 *)(arg0 + tid))', column 20: "
					  "expected a number of bytes, or an index such as arg1 * "
					  "8");
	fails("a:b(*(u8 *)(arg0 + 2147483648))",
		"bad probe 'a:b(*(u8 *)(arg0 + 2147483648))', column 20: the distance does not "
		"fit 31 bits");
	fails("a:b(*(u8 *)*(u64 *)*(u64 *)*(u64 *)arg0)",
		"bad probe 'a:b(*(u8 *)*(u64 *)*(u64 *)*(u64 *)arg0)', column 40: more than 3 "
		"pointers are followed");
	fails("a:b(*(u8 *)(((((((((((((((((arg0))))))))))))))))))",
		"bad probe 'a:b(*(u8 *)(((((((((((((((((arg0))))))))))))))))))', column 29: more "
		"than 16 parentheses are nested");
}

#define LENGTH "expected the length: arg0 to arg31, or a number of bytes up to 8192"
#define CAPTURE "expected arg0 to arg31, str(argN), bytes(argN,argM) or sym(argN)"

static void test_mistakes(void **state)
{
	(void)state;
	fails("", "bad probe '', column 1: expected provider:name");
	fails("(arg0)", "bad probe '(arg0)', column 1: expected provider:name");
	fails("a:b()", "bad probe 'a:b()', column 5: " CAPTURE);
	fails("a:b(arg32)", "bad probe 'a:b(arg32)', column 5: " CAPTURE);
	fails("a:b(arg99999999999)", "bad probe 'a:b(arg99999999999)', column 5: " CAPTURE);
	fails("a:b(sym arg0)", "bad probe 'a:b(sym arg0)', column 9: expected '(' after sym");
	fails("a:b(sym(arg0,arg1))", "bad probe 'a:b(sym(arg0,arg1))', column 13: expected ')'");
	fails("a:b(sym(str(arg0)))",
		"bad probe 'a:b(sym(str(arg0)))', column 9: expected arg0 to arg31");
	fails("a:b(str(x))", "bad probe 'a:b(str(x))', column 9: expected arg0 to arg31");
	fails("a:b(str arg0)", "bad probe 'a:b(str arg0)', column 9: expected '(' after str");
	fails("a:b(bytes arg0)",
		"bad probe 'a:b(bytes arg0)', column 11: expected '(' after bytes");
	fails("a:b(bytes(arg0))", "bad probe 'a:b(bytes(arg0))', column 15: expected ',' and the "
				  "length: an argument, or a number of bytes");
	fails("a:b(bytes(arg0,x))", "bad probe 'a:b(bytes(arg0,x))', column 16: " LENGTH);
	fails("a:b(hex(arg0,0))", "bad probe 'a:b(hex(arg0,0))', column 14: " LENGTH);
	fails("a:b(str(arg0,8193))", "bad probe 'a:b(str(arg0,8193))', column 14: " LENGTH);
	fails("a:b(str(arg0,-1))", "bad probe 'a:b(str(arg0,-1))', column 14: " LENGTH);
	fails("a:b(str(arg0,arg1,arg2))",
		"bad probe 'a:b(str(arg0,arg1,arg2))', column 18: expected ')'");
	fails("a:b(arg0 arg1)", "bad probe 'a:b(arg0 arg1)', column 10: expected ',' or ')'");
	fails("a:b(arg0,)", "bad probe 'a:b(arg0,)', column 10: " CAPTURE);
	fails("a:b(arg0",
		"bad probe 'a:b(arg0', column 4: the arguments, as in (arg0), must come last");
	fails("a:b(arg0)c",
		"bad probe 'a:b(arg0)c', column 4: the arguments, as in (arg0), must come last");
	fails("a:b)", "bad probe 'a:b)', column 4: the arguments, as in (arg0), must come last");
	fails("a:[b", "bad probe 'a:[b', column 3: this bracket is not closed");
	fails("/a", "bad probe '/a', column 3: expected ':' and a probe after the path, or '/' at "
		    "the end of a regular expression");
	fails("./a", "bad probe './a', column 4: expected ':' and a probe after the path");
	fails("a:b { @[comm] = count(); }",
		"bad probe 'a:b { @[comm] = count(); }', column 5: instead of actions in braces, "
		"-c counts, and -t sum, avg, hist or latency gather, with a row for each value of "
		"-k KEY");
	fails("a:b /arg0 > 1/", "bad probe 'a:b /arg0 > 1/', column 5: a condition is given with "
				"-f here, as in -f 'arg0 > 5'");
	fails("process(\"x\").mark(\"b\")",
		"bad probe 'process(\"x\").mark(\"b\")', column 1: SystemTap's "
		"process(\"FILE\").mark(\"NAME\") is FILE:NAME here");
	fails("/(/", "bad probe '/(/', column 2: Unmatched ( or \\(");
	probe_pattern_free(NULL);
}

static void test_too_many_captures(void **state)
{
	char text[256] = "a:b(arg0";

	(void)state;
	for (int i = 0; i < 32; i++)
		strcat(text, ",arg0");
	strcat(text, ")");
	struct probe_pattern *pattern;
	struct probe_error *error = probe_pattern_parse(text, &pattern);

	assert_non_null(error);
	assert_non_null(strstr(error->message, "column 165: there are more than 32 arguments"));
	probe_error_free(error);
}

static void check_nearest(
	const char *text, const char *const *names, size_t count, const char *message)
{
	struct probe_pattern *pattern = parse(text);
	struct probe_error *error =
		probe_pattern_no_match(pattern, "libx.so", "probectl list", names, count);

	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	assert_string_equal(error->message, message);
	probe_error_free(error);
	probe_pattern_free(pattern);
}

static void test_nearest(void **state)
{
	static const char *const names[] = {"hotspot:gc__begin", "hotspot:gc__end",
		"hotspot:gc__end", "hotspot:class__loaded", "hotspot:class__unloaded",
		"postgresql:query__start"};
	static const char *const quoted[] = {"p:db:open", "p:abcde()"};

	(void)state;
	check_nearest("hotspot:gc__ende", names, 6,
		"no probe matches 'hotspot:gc__ende' in libx.so; the nearest: hotspot:gc__end, "
		"hotspot:gc__begin");
	check_nearest("memory_sbrk_more", names, 6,
		"no probe matches 'memory_sbrk_more' in libx.so, and none has a name like it "
		"(`probectl list` shows what there is)");
	check_nearest("query-strat", names, 6,
		"no probe matches 'query-strat' in libx.so; the nearest: postgresql:query__start");
	check_nearest("class", names, 6,
		"no probe matches 'class' in libx.so; the nearest: hotspot:class__loaded, "
		"hotspot:class__unloaded");
	check_nearest("usdt:/x/libx.so:hotspot:gc__bgin(arg0)", names, 1,
		"no probe matches 'usdt:/x/libx.so:hotspot:gc__bgin(arg0)' in libx.so; the "
		"nearest: hotspot:gc__begin");
	check_nearest("p:db:opne", quoted, 2,
		"no probe matches 'p:db:opne' in libx.so; the nearest: p:\"db:open\"");
	check_nearest("p:\"db:opne\"(str(arg0))", quoted, 2,
		"no probe matches 'p:\"db:opne\"(str(arg0))' in libx.so; the nearest: "
		"p:\"db:open\"");
	check_nearest("p:abcde", quoted, 2,
		"no probe matches 'p:abcde' in libx.so; the nearest: p:\"abcde()\"");
	check_nearest("zzz", names, 6,
		"no probe matches 'zzz' in libx.so, and none has a name like it (`probectl "
		"list` shows what there is)");
	check_nearest("/x/liby.so:hotspot:gc__end", names, 6,
		"no probe matches '/x/liby.so:hotspot:gc__end' in libx.so: hotspot:gc__end is "
		"there, but not in that file (`probectl list -v` shows where)");
	check_nearest("kprobe:do_sys_open", names, 6,
		"no probe matches 'kprobe:do_sys_open' in libx.so: probes of the kernel are for "
		"bpftrace or perf, probectl traces programs (`probectl list` shows what there is)");
	check_nearest("uprobe:/bin/bash:readline", NULL, 0,
		"no probe matches 'uprobe:/bin/bash:readline': there are no names of functions in "
		"libx.so, which is stripped; a package with its debug symbols has them");
	check_nearest("zzz", NULL, 0, "no probe matches 'zzz': there are no probes in libx.so");
}

static void test_nearest_of_long_names(void **state)
{
	char typed[600], name[600];
	const char *names[] = {name};

	(void)state;
	memset(typed, '-', sizeof(typed));
	memset(name, '_', sizeof(name));
	typed[599] = name[599] = '\0';
	typed[0] = 'x';
	struct probe_pattern *pattern = parse(typed);
	struct probe_error *error = probe_pattern_no_match(pattern, "x", "y", names, 1);

	assert_non_null(strstr(error->message, "nearest"));
	probe_error_free(error);
	probe_pattern_free(pattern);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_globs),
		cmocka_unit_test(test_dashes),
		cmocka_unit_test(test_printed),
		cmocka_unit_test(test_quotes),
		cmocka_unit_test(test_unknown_path),
		cmocka_unit_test(test_paths),
		cmocka_unit_test(test_symbolic_link),
		cmocka_unit_test(test_other_tools),
		cmocka_unit_test(test_regular_expressions),
		cmocka_unit_test(test_captures),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_items),
		cmocka_unit_test(test_wrong_steps),
		cmocka_unit_test(test_mistakes),
		cmocka_unit_test(test_too_many_captures),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_nearest_of_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
