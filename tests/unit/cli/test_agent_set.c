/* SPDX-License-Identifier: MIT */
/* The file of the agent: its words, its mistakes, and who may write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/agent/set.h"
#include "cli/agent/words.h"

static void words_as_in_a_shell(void **state)
{
	static const struct {
		const char *line, *words; /* each in [] */
	} cases[] = {
		{"", ""},
		{"  a\tb  ", "[a][b]"},
		{"'a  b' c", "[a  b][c]"},
		{"a'b'\"c\"d", "[abcd]"},
		{"'' \"\"", "[][]"},
		{"\"a\\\"b\\\\c\\n\\$\"", "[a\"b\\c\\n$]"},
		{"a\\ b \\'", "[a b][']"},
		{"'$x | `y`' slow:* (arg0) ~ {time}", "[$x | `y`][slow:*][(arg0)][~][{time}]"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[200] = "", **words = NULL;
		size_t count = 0;

		assert_null(words_split(cases[i].line, &words, &count));
		for (size_t k = 0; k < count; k++) {
			strcat(strcat(text, "["), words[k]);
			strcat(text, "]");
		}
		assert_string_equal(text, cases[i].words);
		words_free(words, count);
	}
}

static void words_that_mean_something_else(void **state)
{
	static const char *const lines[] = {"a 'b", "a \"b", "a \"b\\", "a\\", "$x", "\"$x\"",
		"\"`x`\"", "a | b", "a>b", "a;b", "a &", "`x`"};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char **words = NULL;
		size_t count = 0;

		if (!words_split(lines[i], &words, &count))
			fail_msg("%s was accepted", lines[i]);
		words_free(words, count);
	}
}

static struct probe_error *parse(const char *text, struct agent_set *set)
{
	*set = (struct agent_set){0};
	return set_parse("f", text, strlen(text), set);
}

static void sessions(void **state)
{
	struct agent_set set, other;

	(void)state;
	assert_null(parse("# a comment\r\n\n [one] \n command=trace -c 'a b' \\\n  x:y\n"
			  "output = '/var/log/o ne'\n[two.2]\n\tcommand = record -o /r/{time}",
		&set));
	assert_int_equal(set.count, 2);
	assert_string_equal(set.items[0].name, "one");
	assert_int_equal(set.items[0].word_count, 4);
	assert_string_equal(set.items[0].words[2], "a b");
	assert_string_equal(set.items[0].words[3], "x:y");
	assert_null(set.items[0].words[4]);
	assert_string_equal(set.items[0].output, "/var/log/o ne");
	assert_string_equal(set.items[1].name, "two.2");
	assert_null(set.items[1].output);

	assert_null(parse("[one]\noutput=\"/var/log/o ne\"\ncommand = trace -c a\\ b x:y\n"
			  "[two]\ncommand = trace -c 'a b' x:y\n",
		&other));
	assert_true(set_entry_same(&set.items[0], &other.items[0]));
	assert_false(set_entry_same(&set.items[0], &other.items[1]));
	assert_false(set_entry_same(&set.items[1], &other.items[0]));
	set_deinit(&set);
	set_deinit(&other);

	assert_null(parse("", &set));
	assert_int_equal(set.count, 0);
	set_deinit(&set);
}

static void mistakes(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"command = trace x:y", "f:1: a [NAME] is missing above this line"},
		{"[a]\n[b]\ncommand = trace x:y", "f:2: [a] above has no line 'command = ...'"},
		{"[a]", "f:2: [a] above has no line 'command = ...'"},
		{"[a]\ncommand = trace \\\n x\n[a]", "f:4: there are two sessions [a]"},
		{"[a]\ncommand = trace\ncommand = trace", "f:3: [a] has two commands"},
		{"[a]\ncommand = trace\noutput=/a\noutput=/b", "f:4: [a] has two outputs"},
		{"[a]\noutput = a",
			"f:2: an output is one file, named from the root: output = /FILE"},
		{"[a]\noutput = /a /b",
			"f:2: an output is one file, named from the root: output = /FILE"},
		{"[a]\ncommand = probectl trace",
			"f:2: a command begins with 'trace' or 'record', without 'probectl'"},
		{"[a]\ncommand =",
			"f:2: a command begins with 'trace' or 'record', without 'probectl'"},
		{"[a]\ncommand = agent f",
			"f:2: a command begins with 'trace' or 'record', without 'probectl'"},
		{"[a]\ncommand = trace 'x", "f:2: a ' is missing"},
		{"[a]\nrestart = no",
			"f:2: there is no key 'restart', only 'command' and 'output'"},
		{"[a]\ncomman = trace",
			"f:2: there is no key 'comman', only 'command' and 'output'"},
		{"[a]\nrubbish", "f:2: expected [NAME], or KEY = VALUE"},
		{"[]", "f:1: expected [NAME], of letters, digits, '-', '_' and '.', up to 63 "
		       "bytes"},
		{"[a/b]", "f:1: expected [NAME], of letters, digits, '-', '_' and '.', up to 63 "
			  "bytes"},
		{"[a", "f:1: expected [NAME], of letters, digits, '-', '_' and '.', up to 63 "
		       "bytes"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct agent_set set;
		struct probe_error *error = parse(cases[i].text, &set);

		assert_non_null(error);
		assert_string_equal(error->message, cases[i].message);
		probe_error_free(error);
		set_deinit(&set);
	}
}

static void zero_bytes_and_too_much(void **state)
{
	struct agent_set set = {0};
	struct probe_error *error = set_parse("f", "[a]\0]", 5, &set);
	char text[(SET_SESSIONS + 1) * 32] = "";

	(void)state;
	assert_non_null(error);
	assert_non_null(strstr(error->message, "a byte of zero"));
	probe_error_free(error);
	for (int i = 0; i <= SET_SESSIONS; i++)
		sprintf(text + strlen(text), "[s%d]\ncommand = trace\n", i);
	error = parse(text, &set);
	assert_non_null(error);
	assert_non_null(strstr(error->message, "more than 128 sessions"));
	probe_error_free(error);
	set_deinit(&set);
}

/* Any bytes: nothing but an error or a set comes of them. */
static void anything(void **state)
{
	static const char alphabet[] = "[]a='\"\\\n \t$#/command=trace \noutput=/x\n[b]\n\xff\r";

	(void)state;
	srandom(1);
	for (int i = 0; i < 200000; i++) {
		size_t length = (size_t)random() % 64;
		struct agent_set set = {0};
		char text[64];

		for (size_t k = 0; k < length; k++)
			text[k] = alphabet[(size_t)random() % sizeof(alphabet)];
		probe_error_free(set_parse("f", text, length, &set));
		set_deinit(&set);
	}
}

static void refused(const char *path, const char *why)
{
	struct agent_set set = {0};
	struct probe_error *error = set_read(path, &set);

	assert_non_null(error);
	if (!strstr(error->message, why))
		fail_msg("'%s' instead of '%s'", error->message, why);
	probe_error_free(error);
	set_deinit(&set);
}

static void trust(void **state)
{
	char path[] = "/tmp/probectl-set.XXXXXX";
	struct agent_set set = {0};
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "[a]\ncommand = trace\n", 20), 20);
	assert_null(set_read(path, &set));
	assert_int_equal(set.count, 1);
	set_deinit(&set);
	fchmod(fd, 0602);
	refused(path, "can be written by others");
	fchmod(fd, 0620);
	if (geteuid() == 0)
		refused(path, "can be written by others");
	if (geteuid() == 0 && fchown(fd, 65534, 0) == 0) {
		fchmod(fd, 0600);
		refused(path, "belongs to user 65534");
	}
	fchmod(fd, 0600);
	assert_int_equal(ftruncate(fd, SET_FILE_BYTES + 1), 0);
	if (geteuid() != 0)
		refused(path, "larger than 1 MiB");
	close(fd);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	refused(path, "is not a file");
	unlink(path);
	refused(path, "cannot open");
	refused("/tmp", "is not a file");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(words_as_in_a_shell),
		cmocka_unit_test(words_that_mean_something_else),
		cmocka_unit_test(sessions),
		cmocka_unit_test(mistakes),
		cmocka_unit_test(zero_bytes_and_too_much),
		cmocka_unit_test(anything),
		cmocka_unit_test(trust),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
