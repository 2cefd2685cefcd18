/* SPDX-License-Identifier: MIT */
/* The command line, and the assembly of output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/options.h"
#include "cli/processes.h"
#include "cli/print/print.h"
#include "libprobe/base/utf8.h"

struct values {
	struct common_options common;
	bool flag;
	unsigned int verbose;
	const char *text, *how;
	uint64_t number, time, size;
};

static struct probe_error *parse(struct values *values, char **argv)
{
	const struct option_row rows[] = {
		OPTIONS_PID(&values->common),
		OPTIONS_PROBE(&values->common),
		{.letter = 'f', .name = "flag", .kind = OPTION_FLAG, .target = &values->flag},
		{.letter = 'v', .kind = OPTION_COUNTER, .target = &values->verbose},
		{.letter = 'o', .name = "out", .kind = OPTION_STRING, .target = &values->text},
		{.letter = 'n', .kind = OPTION_NUMBER, .target = &values->number},
		{.name = "time", .kind = OPTION_DURATION, .target = &values->time},
		{.name = "size", .kind = OPTION_SIZE, .target = &values->size},
		{.name = "how", .kind = OPTION_OPTIONAL, .target = &values->how},
	};
	const struct command_line line = {.synopsis = "x", .help = "", OPTION_ROWS(rows)};
	int argc = 0;

	while (argv[argc])
		argc++;
	*values = (struct values){0};
	return options_parse(&line, argc, argv, &values->common);
}

#define ARGV(...)                                                                                  \
	(char *[])                                                                                 \
	{                                                                                          \
		"x", __VA_ARGS__, NULL                                                             \
	}

static void succeeds(struct values *values, char **argv)
{
	struct probe_error *error = parse(values, argv);

	if (error)
		fail_msg("%s", error->message);
}

static void fails(char **argv, const char *message)
{
	struct values values;
	struct probe_error *error = parse(&values, argv);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
	options_deinit(&values.common);
}

static void test_options(void **state)
{
	struct values v;

	(void)state;
	succeeds(&v, ARGV("a", "-fvv", "-o", "-", "b", "-n5", "--time=1.5", "--size", "64k", "-"));
	assert_true(v.flag);
	assert_int_equal(v.verbose, 2);
	assert_string_equal(v.text, "-");
	assert_int_equal(v.number, 5);
	assert_int_equal(v.time, 1500000000);
	assert_int_equal(v.size, 65536);
	assert_int_equal(v.common.operand_count, 3);
	assert_string_equal(v.common.operands[0], "a");
	assert_string_equal(v.common.operands[1], "b");
	assert_string_equal(v.common.operands[2], "-");
	assert_null(v.common.program);
	options_deinit(&v.common);
}

/* What follows it is its value only with =. */
static void test_optional(void **state)
{
	struct values v;

	(void)state;
	succeeds(&v, ARGV("a"));
	assert_null(v.how);
	options_deinit(&v.common);
	succeeds(&v, ARGV("--how", "a"));
	assert_string_equal(v.how, "");
	assert_int_equal(v.common.operand_count, 1);
	options_deinit(&v.common);
	succeeds(&v, ARGV("--how=x=1", "a"));
	assert_string_equal(v.how, "x=1");
	assert_int_equal(v.common.operand_count, 1);
	options_deinit(&v.common);
}

static void test_program(void **state)
{
	struct values v;

	(void)state;
	succeeds(&v, ARGV("-p", "7,8,7", "a", "-p9", "-e", "b:c", "--probe=d", "--", "prog", "-f"));
	assert_int_equal(v.common.pids.count, 3);
	assert_int_equal(v.common.pids.items[0], 7);
	assert_int_equal(v.common.pids.items[2], 9);
	assert_int_equal(v.common.patterns.count, 2);
	assert_string_equal(probe_pattern_text(v.common.patterns.items[1]), "d");
	assert_int_equal(v.common.operand_count, 1);
	assert_string_equal(v.common.program[0], "prog");
	assert_string_equal(v.common.program[1], "-f");
	assert_null(v.common.program[2]);
	assert_false(v.flag);
	options_deinit(&v.common);
	succeeds(&v, ARGV("--"));
	assert_non_null(v.common.program);
	assert_null(v.common.program[0]);
	options_deinit(&v.common);
}

static void test_usage_errors(void **state)
{
	(void)state;
	fails(ARGV("-q"), "unknown option '-q' (see 'probectl x --help')");
	fails(ARGV("-fq"), "unknown option '-q' (see 'probectl x --help')");
	fails(ARGV("--quiet"), "unknown option '--quiet' (see 'probectl x --help')");
	fails(ARGV("--fla"),
		"unknown option '--fla'; the nearest is '--flag' (see 'probectl x --help')");
	fails(ARGV("--szie=1"),
		"unknown option '--szie=1'; the nearest is '--size' (see 'probectl x --help')");
	fails(ARGV("--flag=1"), "this option takes no value: '--flag=1' (see 'probectl x --help')");
	fails(ARGV("-p"), "option '-p' needs a value: -p PID (see 'probectl x --help')");
	fails(ARGV("--time"),
		"option '--time' needs a value: --time TIME (see 'probectl x --help')");
	fails(ARGV("-p", "1,"), "-p: '1,' is not a process id (expected e.g. 123 or 123,456)");
	fails(ARGV("-p0"), "-p: '0' is not a process id (expected e.g. 123 or 123,456)");
	fails(ARGV("-p", "-1"), "-p: '-1' is not a process id (expected e.g. 123 or 123,456)");
	fails(ARGV("-p", "2147483648"),
		"-p: '2147483648' is not a process id (expected e.g. 123 or 123,456)");
	fails(ARGV("-n", "5x"), "-n: '5x' is not a number (expected e.g. 100)");
	fails(ARGV("-n", "18446744073709551616"),
		"-n: '18446744073709551616' is not a number (expected e.g. 100)");
	fails(ARGV("-e", ""), "bad probe '', column 1: expected provider:name");
}

static void check_duration(const char *text, uint64_t expected)
{
	uint64_t ns = 0;
	struct probe_error *error = parse_duration(text, &ns);

	assert_null(error);
	assert_int_equal(ns, expected);
}

static void test_durations(void **state)
{
	static const char *const wrong[] = {"", "s", "1x", "-1", "1.", "1.s", ".5", "1.5.5", "1 s",
		"1.1234567891", "18446744074", "99999999999999999999", "1e3", "5124095h",
		"9223372036.854775808"};

	(void)state;
	check_duration("2", 2000000000);
	check_duration("0.25", 250000000);
	check_duration("1.5s", 1500000000);
	check_duration("500ms", 500000000);
	check_duration("10us", 10000);
	check_duration("7ns", 7);
	check_duration("3m", UINT64_C(180000000000));
	check_duration("1.5h", UINT64_C(5400000000000));
	check_duration("0.999999999h", UINT64_C(3599999996400));
	check_duration("9223372036854775807ns", INT64_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		uint64_t ns;
		struct probe_error *error = parse_duration(wrong[i], &ns);

		assert_non_null(error);
		assert_int_equal(error->code, PROBE_ERROR_USAGE);
		probe_error_free(error);
	}
}

static void test_sizes(void **state)
{
	static const char *const wrong[] = {"", "k", "1kk", "1T", "-1", "17179869184G"};
	uint64_t bytes;

	(void)state;
	assert_null(parse_size("4096", &bytes));
	assert_int_equal(bytes, 4096);
	assert_null(parse_size("1.5M", &bytes));
	assert_int_equal(bytes, 1536 * 1024);
	assert_null(parse_size("2G", &bytes));
	assert_int_equal(bytes, UINT64_C(2147483648));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct probe_error *error = parse_size(wrong[i], &bytes);

		assert_non_null(error);
		probe_error_free(error);
	}
}

/* ---- Output ------------------------------------------------------------------- */

static void check_out(struct buffer *out, const char *expected)
{
	assert_int_equal(out->length, strlen(expected));
	assert_memory_equal(out->data, expected, out->length);
	buffer_deinit(out);
}

static void test_out(void **state)
{
	struct buffer out = {0};

	(void)state;
	buffer_unsigned(&out, 0);
	buffer_char(&out, ' ');
	buffer_unsigned(&out, UINT64_MAX);
	buffer_char(&out, ' ');
	buffer_hex(&out, 0);
	buffer_pad(&out, 0, 2);
	buffer_hex(&out, UINT64_C(0xfedcba9876543210));
	buffer_hex_bytes(&out, "\x0f", 1);
	buffer_bytes(&out, "", 0);
	check_out(&out, "0 18446744073709551615 0x0  0xfedcba98765432100f");
}

static void test_printable(void **state)
{
	struct buffer out = {0};

	(void)state;
	/* A newline, an escape sequence, a C1 control, an umlaut, a stray byte. */
	buffer_printable(&out, "a\"\\\n\033[1m\xc2\x9b\xc3\xa4\xff\xc3");
	check_out(&out, "a\"\\\\n\\033[1m\\302\\233\xc3\xa4\\377\\303");
}

static void test_utf8(void **state)
{
	(void)state;
	assert_int_equal(utf8_character("", 0), 0);
	assert_int_equal(utf8_character("a", 1), 1);
	assert_int_equal(utf8_character("\xc3\xa4", 2), 2);
	assert_int_equal(utf8_character("\xc3\xa4", 1), 0);
	assert_int_equal(utf8_character("\xe2\x82\xac", 3), 3);
	assert_int_equal(utf8_character("\xf4\x8f\xbf\xbf", 4), 4);
	assert_int_equal(utf8_character("\xf4\x90\x80\x80", 4), 0);
	assert_int_equal(utf8_character("\xc0\x80", 2), 0);
	assert_int_equal(utf8_character("\xe0\x9f\xbf", 3), 0);
	assert_int_equal(utf8_character("\xf0\x8f\xbf\xbf", 4), 0);
	assert_int_equal(utf8_character("\xed\xa0\x80", 3), 0);
	assert_int_equal(utf8_character("\x80", 1), 0);
}

/* What was found by name may have ended since; what was given by its id may not. */
static void test_ended(void **state)
{
	pid_t pids[] = {INT32_MAX, INT32_MAX, getppid()};
	struct common_options common = {.pids = {pids, 3}, .pids_given = 1};
	struct probe_error *error;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		error = probe_error_new(PROBE_ERROR_NOT_FOUND, "there is no process");
		error = processes_unless_ended(&common, i, error);
		assert_int_equal(error == NULL, i == 1);
		probe_error_free(error);
	}
	assert_null(processes_unless_ended(&common, 0, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_optional),
		cmocka_unit_test(test_program),
		cmocka_unit_test(test_usage_errors),
		cmocka_unit_test(test_durations),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_out),
		cmocka_unit_test(test_printable),
		cmocka_unit_test(test_utf8),
		cmocka_unit_test(test_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
