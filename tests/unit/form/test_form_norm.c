/* SPDX-License-Identifier: MIT */
/*
 * Normal forms of SQL and of paths, whole and cut off anywhere. Three readers must agree on
 * every text: code that was written without a table, norm_text(), and the form of stubs, which the
 * machine of the tests and this processor run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "arch/norm.h"
#include "libprobe/base/page.h"
#include "tests/unit/query/expr_random.h"
#include "tests/unit/form/form_world.h"
#include "tests/unit/skip.h"

enum { TEXT_MAX = 400, PLAIN_TEXTS = 100000, FORM_TEXTS = 6000 };

/* ---- Without a table -------------------------------------------------------------------- */

/* Where the reader is. */
struct scan {
	const uint8_t *at, *end;
};

/* Of ASCII, whatever the locale: bytes above are parts of names. */
static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

static bool is_name(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_' ||
	       c == '$' || c >= 0x80;
}

static bool is_path(const uint8_t *text, size_t length)
{
	bool has_slash = false;

	for (size_t i = 0; i < length; i++) {
		if (text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r'))
			return false;
		has_slash |= text[i] == '/';
	}
	return has_slash;
}

static size_t norm_path(const uint8_t *text, size_t length, uint8_t *out)
{
	uint8_t *start = out;

	for (size_t i = 0; i < length; i++) {
		if (!is_digit(text[i]))
			*out++ = text[i];
		else if (i == 0 || !is_digit(text[i - 1]))
			*out++ = 'N';
	}
	return (size_t)(out - start);
}

/* Behind what a quote encloses; a doubled one is part of it. */
static void skip_quoted(struct scan *s, bool has_escapes)
{
	uint8_t quote = *s->at++;

	for (; s->at < s->end; s->at++) {
		if (has_escapes && *s->at == '\\' && s->at + 1 < s->end) {
			s->at++;
		} else if (*s->at == quote) {
			if (s->at + 1 == s->end || s->at[1] != quote)
				break;
			s->at++;
		}
	}
	if (s->at < s->end)
		s->at++;
}

/* A number may have a point, an exponent with a sign, and letters. */
static void skip_number(struct scan *s)
{
	for (; s->at < s->end; s->at++) {
		bool is_sign =
			(*s->at == '+' || *s->at == '-') && (s->at[-1] == 'e' || s->at[-1] == 'E');

		if (!is_name(*s->at) && *s->at != '.' && !is_sign)
			break;
	}
}

/* Behind $tag$...$tag$, if there is one. */
static bool skip_dollars(struct scan *s)
{
	const uint8_t *open = s->at + 1, *close;
	size_t length;

	while (open < s->end && is_name(*open) && *open != '$')
		open++;
	if (open == s->end || *open != '$' || is_digit(s->at[1]))
		return false;
	length = (size_t)(++open - s->at);
	close = memmem(open, (size_t)(s->end - open), s->at, length);
	s->at = close ? close + length : s->end;
	return true;
}

/* Behind a comment: up to the end of the line, or to its own end. */
static void skip_comment(struct scan *s, const char *end)
{
	size_t length = strlen(end);
	const uint8_t *found = memmem(s->at + 2, (size_t)(s->end - s->at) - 2, end, length);

	s->at = found ? found + length : s->end;
}

static void skip_name(struct scan *s)
{
	while (s->at < s->end && is_name(*s->at))
		s->at++;
}

/* Moves behind the next piece; whether it is a literal. */
static bool take_literal(struct scan *s)
{
	uint8_t c = *s->at, next = s->at + 1 < s->end ? s->at[1] : 0;

	if ((c == 'E' || c == 'e') && next == '\'') {
		s->at++;
		skip_quoted(s, true);
		return true;
	}
	if (c == '\'') {
		skip_quoted(s, false);
		return true;
	}
	if (is_digit(c) || (c == '.' && is_digit(next))) {
		skip_number(s);
		return true;
	}
	if (c == '$' && skip_dollars(s))
		return true;
	if (c == '-' && next == '-')
		skip_comment(s, "\n");
	else if (c == '/' && next == '*')
		skip_comment(s, "*/");
	else if (c == '"' || c == '`')
		skip_quoted(s, false);
	else if (is_name(c))
		skip_name(s);
	else
		s->at++;
	return false;
}

/* Is a number's sign next? Behind an operand, `-` is an operator. `out` is the end of the output.
 */
static bool is_sign(const struct scan *s, const uint8_t *start, const uint8_t *out)
{
	const uint8_t *next = s->at + 1;

	if (*s->at != '-' || next == s->end ||
		!(is_digit(*next) || (*next == '.' && next + 1 < s->end && is_digit(next[1]))))
		return false;
	while (out > start && out[-1] == ' ')
		out--;
	return out > start && memchr("(,=<>+-*/%|", out[-1], 11);
}

static size_t norm_sql(const uint8_t *text, size_t length, uint8_t *out)
{
	struct scan s = {text, text + length};
	uint8_t *start = out;

	while (s.at < s.end) {
		const uint8_t *from;

		s.at += is_sign(&s, start, out);
		from = s.at;
		if (take_literal(&s)) {
			*out++ = '?';
			continue;
		}
		memmove(out, from, (size_t)(s.at - from));
		out += s.at - from;
	}
	return (size_t)(out - start);
}

static size_t plain_norm(const uint8_t *text, size_t length, uint8_t *out)
{
	return is_path(text, length) ? norm_path(text, length, out) : norm_sql(text, length, out);
}

/* ---- Texts ------------------------------------------------------------------------------ */

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
		/* A normal form is its own. */
		if (!strchr(cases[i].text, '-') || cases[i].text[0] != 's') {
			uint8_t twice[sizeof(out)];
			size_t again = norm_text(out, length, twice);

			twice[again] = '\0';
			assert_string_equal((const char *)twice, cases[i].normal);
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

/* ---- Agreement --------------------------------------------------------------------------- */

/* Statements as servers get them. */
static const char *const statements[] = {
	"UPDATE pgbench_accounts SET abalance = abalance + -4211 WHERE aid = 77123;",
	"SELECT abalance FROM pgbench_accounts WHERE aid = 77123;",
	"INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (3, 1, 77123, -4211, "
	"CURRENT_TIMESTAMP);",
	"UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;",
	"vacuum pgbench_branches",
	"select count(*) from \"Order Lines\" where \"Net 1\" >= 1.5e-3 and d < '2024-01-31'::date",
	"SELECT /* page 17 */ `id`, `t1`.`c2` FROM `t1` LIMIT 20, 10 -- it's the 3rd\n",
	"create function f(int) returns int as $body$ begin return $1 + 1; $b$ $ end $body$ "
	"language plpgsql",
	"select E'it\\'s', U&'d\\0061t', B'1010', $$it's$$, x'1F', 1e+5-2e5, .5-.25, -(-3)",
	"BEGIN; SET search_path = 'a', 'b''c'; END;",
	"https://shop.example:8443/cart/1234/item/77?page=2&size=50",
	"GET /index.php?id=7 HTTP/1.1",
	"/var/lib/postgresql/15/main/base/16384/2619_fsm",
};
enum { STATEMENTS = sizeof(statements) / sizeof(statements[0]) };

/* A text of pieces that mean something, next to each other in any order. */
static size_t random_text(uint64_t *random, uint8_t *text, size_t max)
{
	static const char *const pieces[] = {"'", "''", "E'", "e'", "\\", "\\'", "$", "$$", "$a$",
		"$ab$", "$a", "a$", "$1", "-", "--", "-1", "- ", "/", "/*", "*/", "*", ".", ".5",
		"1", "20", "1e5", "1E-5", "0x1f", "e", "E", "t2", "select ", "and", " ", " ", "  ",
		"\n", "\t", "\r", "(", ")", ",", ", ", "=", "<", ">", "+", "%", "|", "||", ";",
		"\"", "\"\"", "`", "\xc3\xa9", "?", "N", "\x01", "_"};
	enum { PIECES = sizeof(pieces) / sizeof(pieces[0]) };
	size_t wanted = expr_random(random) % (max + 1), length = 0;
	/* Paths have no blanks, and most of the quotes are closed if there are few. */
	unsigned int few = 2 + (unsigned int)(expr_random(random) % PIECES);
	size_t first = expr_random(random) % PIECES;

	while (length < wanted) {
		uint64_t chosen = expr_random(random);
		const char *piece = pieces[(first + chosen % few) % PIECES];
		size_t bytes = strlen(piece);

		if (chosen >> 60 == 0)
			piece = statements[chosen / PIECES % STATEMENTS], bytes = strlen(piece);
		if (bytes > wanted - length)
			bytes = wanted - length;
		memcpy(text + length, piece, bytes);
		length += bytes;
	}
	return length;
}

static void compare(const uint8_t *text, size_t length, const char *who, const uint8_t *form,
	size_t form_length)
{
	uint8_t expected[TEXT_MAX];
	size_t expected_length = plain_norm(text, length, expected);

	if (form_length != expected_length || memcmp(form, expected, expected_length) != 0)
		fail_msg("%s makes '%.*s' of '%.*s', and not '%.*s'", who, (int)form_length,
			(const char *)form, (int)length, (const char *)text, (int)expected_length,
			(const char *)expected);
}

static void compare_table(const uint8_t *text, size_t length)
{
	uint8_t out[TEXT_MAX];

	compare(text, length, "the table", out, norm_text(text, length, out));
}

static void table(void **state)
{
	uint64_t random = 88172645463325252U;
	uint8_t text[TEXT_MAX];

	(void)state;
	for (int i = 0; i < PLAIN_TEXTS; i++)
		compare_table(text, random_text(&random, text, i % 8 ? 40 : TEXT_MAX));
	for (size_t i = 0; i < STATEMENTS; i++)
		for (size_t length = 0; length <= strlen(statements[i]); length++)
			compare_table((const uint8_t *)statements[i], length);
}

/* ---- The form ---------------------------------------------------------------------------- */

enum { PAIR, NORM = PAIR + 2, KEY = NORM + NORM_TEMPS, TEXT = WORLD_TEMPS + WORLD_SAVED };
_Static_assert(TEXT_MAX <= 8 * WORLD_DATA, "a text has room");

static const struct arch_capture capture = {.is_string = true, .bytes_max = TEXT_MAX};
static const struct arch_stub stub = {.captures = &capture,
	.capture_count = 1,
	.action_count = 1,
	.actions = {{.kind = ARCH_ACTION_GATHER,
		.gather = {.key_count = 1, .keys = {{.is_norm = true}}}}}};

static void write_norm(struct form *f, void *arg)
{
	struct stub_plan *p = arg;
	int end = form_label(f);

	p->norm = form_label(f);
	form_norm_key(f, p, 0);
	form_jump(f, end);
	form_norm_tables(f, p);
	form_place(f, end);
}

/* `end` is where memory ends that can be read. */
static void compare_form(struct form_fixture *x, form_native_function *function, uint8_t *end,
	const uint8_t *text, size_t length, uint64_t bits)
{
	uint64_t word;

	memcpy(end - length, text, length);
	memset(&x->memory.temps, 0, sizeof(x->memory) - WORLD_BELOW);
	x->memory.temps[PAIR] = (uintptr_t)end - length;
	x->memory.temps[PAIR + 1] = length | bits;
	form_fixture_run(x, function, "a normal form");
	word = x->memory.temps[KEY];
	assert_int_equal(word - ring_string_length(word), bits);
	compare(text, length, "the form", (const uint8_t *)x->memory.data,
		ring_string_length(word));
	/* Nothing is written behind what the text had. */
	for (size_t i = length; i < sizeof(x->memory.data); i++)
		assert_int_equal(((const uint8_t *)x->memory.data)[i], 0);
}

static void forms_of_stubs(void **state)
{
	struct form_fixture *x = *state;
	struct stub_plan plan = {.stub = &stub,
		.temp = {PAIR},
		.actions = {{.action = &stub.actions[0],
			.key_temp = {KEY},
			.norm_temp = NORM,
			.text_temp = {TEXT}}},
		.at = plan.actions};
	size_t page = page_bytes();
	uint8_t *memory =
		mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	form_native_function *function;
	uint8_t text[TEXT_MAX];

	if (!form_native_is_possible())
		skip_because("there is no back end for this processor");
	function = form_fixture_make(x, write_norm, &plan);
	assert_ptr_not_equal(memory, MAP_FAILED);
	assert_int_equal(mprotect(memory + page, page, PROT_NONE), 0);
	for (size_t i = 0; i < STATEMENTS; i++)
		for (size_t length = 0; length <= strlen(statements[i]); length++)
			compare_form(x, function, memory + page, (const uint8_t *)statements[i],
				length, UINT64_C(1) << RING_STRING_TRUNCATED_BIT);
	for (int i = 0; i < FORM_TEXTS; i++)
		compare_form(x, function, memory + page, text,
			random_text(&x->random, text, i % 8 ? 40 : TEXT_MAX), 0);
	/* One that cannot be read. */
	compare_form(x, function, memory + page, text, 0, UINT64_C(1) << RING_STRING_NULL_BIT);
	munmap(memory, 2 * page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(forms), cmocka_unit_test(cut),
		cmocka_unit_test(table),
		cmocka_unit_test_setup_teardown(
			forms_of_stubs, form_fixture_setup, form_fixture_teardown)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
