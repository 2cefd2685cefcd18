/* SPDX-License-Identifier: MIT */
/* Begins and ends: by the names that real programs have, and by patterns. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/query/query.h"

enum { PROBES_MAX = 32 };

static struct select_probe probes[PROBES_MAX];
static struct pair_part parts[PROBES_MAX];
static struct selection selection = {.probes = probes};
/* NULL, but for the test of its pairs. */
static struct probe_catalogue *catalogue;
static struct module modules[2] = {{.path = "/a"}, {.path = "/b"}};

/* Probes "provider:name", of one module; NULL begins the next module. */
static void select_these(const char *const *names)
{
	static char providers[PROBES_MAX][32];
	struct module *module = modules;

	selection.probe_count = 0;
	for (; *names || names[1]; names++) {
		struct select_probe *p = &probes[selection.probe_count];
		const char *colon = *names ? strchr(*names, ':') : NULL;

		if (!*names) {
			module++;
			continue;
		}
		snprintf(providers[selection.probe_count], sizeof(*providers), "%.*s",
			(int)(colon - *names), *names);
		*p = (struct select_probe){.module = module,
			.provider = providers[selection.probe_count++],
			.name = colon + 1};
	}
}
#define SELECT(...) select_these((const char *const[]){__VA_ARGS__, NULL, NULL})

/* "b0 e0 - ...": the role of each probe, and its pair. */
static const char *by_names(void)
{
	static char text[PROBES_MAX * 4];
	struct probe_error *error;
	uint32_t pairs = 0;
	size_t at = 0;

	error = pairs_assign(&selection, NULL, PROBE_PAIRING_NAMES, catalogue, parts, &pairs);
	if (error) {
		snprintf(
			text, sizeof(text), "%s", error->code == PROBE_ERROR_NOT_FOUND ? "!" : "?");
		probe_error_free(error);
		return text;
	}
	for (size_t i = 0; i < selection.probe_count; i++)
		at += (size_t)(parts[i].role == PAIR_NONE
				       ? snprintf(text + at, sizeof(text) - at, "- ")
				       : snprintf(text + at, sizeof(text) - at, "%c%u ",
						 parts[i].role == PAIR_BEGIN ? 'b' : 'e',
						 parts[i].pair));
	text[at ? at - 1 : 0] = '\0';
	return text;
}

static void test_postgres(void **state)
{
	(void)state;
	SELECT("p:query__done", "p:query__parse__done", "p:query__parse__start", "p:query__start",
		"p:statement__status", "p:transaction__abort", "p:transaction__commit",
		"p:transaction__start", "p:buffer__checkpoint__sync__start", "p:lwlock__acquire",
		"p:lwlock__release");
	assert_string_equal(by_names(), "e1 e0 b0 b1 - e2 e2 b2 - - -");
}

static void test_hotspot(void **state)
{
	(void)state;
	SELECT("h:class__initialization__clinit", "h:class__initialization__end",
		"h:class__initialization__required", "h:class__initialization__super__failed",
		"h:gc__begin", "h:gc__end", "h:mem__pool__gc__begin", "h:mem__pool__gc__end",
		"h:method__entry", "h:method__return", "h:monitor__contended__enter",
		"h:monitor__contended__entered", "h:monitor__contended__exit", "h:monitor__wait",
		"h:monitor__waited", "h:vmops__begin", "h:vmops__end", "h:vmops__request");
	assert_string_equal(by_names(), "- e6 b6 e6 b0 e0 b1 e1 b3 e3 b4 e4 - b5 e5 b2 e2 -");
}

static void test_spellings(void **state)
{
	(void)state;
	/* Dashes; one underscore; the whole name; not a part of a word. */
	SELECT("a:gc-start", "a:gc__done", "a:tx_begin", "a:tx_end", "a:begin", "a:end",
		"a:restart", "a:redone");
	assert_string_equal(by_names(), "b0 e0 b1 e1 b2 e2 - -");
	/* An end has one begin, and only the first rule with an existing end applies. */
	SELECT("a:x__begin", "a:x__end", "a:x__start", "a:y__enter", "a:y__exit");
	assert_string_equal(by_names(), "- e0 b0 b1 e1");
}

static void test_borders(void **state)
{
	(void)state;
	/* Neither across providers nor across modules. */
	SELECT("a:x__start", "b:x__done", NULL, "b:x__start");
	assert_string_equal(by_names(), "!");
	SELECT("a:x__done", "a:x__start", NULL, "a:x__done", "a:x__start");
	assert_string_equal(by_names(), "e0 b0 e1 b1");
	selection.probe_count = 0;
	assert_string_equal(by_names(), "");
}

/* The error of pairing by patterns, or NULL. */
static const char *by_patterns(enum probe_pairing pairing, const char *const *texts, size_t count)
{
	static char message[256];
	struct probe_pattern *patterns[8];
	struct probe_error *error;
	uint32_t pairs = 0;

	for (size_t i = 0; i < count; i++) {
		error = probe_pattern_parse(texts[i], &patterns[i]);
		assert_null(error);
	}
	for (size_t i = 0; i < selection.probe_count; i++)
		for (probes[i].pattern = 0; !probe_pattern_matches(patterns[probes[i].pattern],
			     "/a", probes[i].provider, probes[i].name);)
			probes[i].pattern++;
	selection.pattern_count = count;
	error = pairs_assign(&selection, (const struct probe_pattern *const *)patterns, pairing,
		catalogue, parts, &pairs);
	for (size_t i = 0; i < count; i++)
		probe_pattern_free(patterns[i]);
	if (!error)
		return NULL;
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	snprintf(message, sizeof(message), "%s", error->message);
	probe_error_free(error);
	return message;
}
#define TEXTS(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / 8

static void is_part(size_t probe, enum pair_role role, uint32_t pair)
{
	assert_int_equal(parts[probe].role, role);
	assert_int_equal(parts[probe].pair, pair);
}

/* Pairs that the catalogue lists, which go before the rules; those of others stay. */
static void test_catalogue(void **state)
{
	char path[] = "/tmp/test_pairsXXXXXX";
	static const char mine[] = "provider a\nprobe x__start\npair x__start z-shut *__over\n";
	int fd = mkstemp(path);

	(void)state;
	assert_null(probe_catalogue_create(&catalogue));
	SELECT("libstdcxx:catch", "libstdcxx:rethrow", "libstdcxx:throw");
	assert_string_equal(by_names(), "e0 - b0");
	SELECT("libc:pthread_join", "libc:pthread_join_ret", "libc:wrlock_acquire_write",
		"libc:wrlock_entry", "libc:x__done", "libc:x__start");
	assert_string_equal(by_names(), "b0 e0 e1 b1 e2 b2");
	assert_int_equal(write(fd, mine, sizeof(mine) - 1), sizeof(mine) - 1);
	assert_null(probe_catalogue_add(catalogue, path));
	SELECT("a:x__done", "a:x__start", "a:y__over", "a:z__shut", "b:x__done", "b:x__start");
	assert_string_equal(by_names(), "- b0 e0 e0 e1 b1");
	/* Begins with the arguments of another probe; the one that gives them begins nothing. */
	SELECT("postgresql:query__execute__done", "postgresql:query__execute__start",
		"postgresql:query__start", "postgresql:statement__status");
	assert_string_equal(by_names(), "e0 b0 - b0");
	assert_true(parts[0].single && parts[1].single && parts[3].single);
	assert_true(parts[1].takes && !parts[1].gives && parts[3].gives && !parts[3].takes);
	SELECT("postgresql:query__execute__done", "postgresql:query__execute__start",
		"postgresql:statement__status");
	assert_null(by_patterns(PROBE_PAIRING_LISTED,
		TEXTS("postgresql:statement__status", "postgresql:query__execute__start",
			"postgresql:query__execute__done")));
	is_part(0, PAIR_END, 0);
	is_part(1, PAIR_BEGIN, 0);
	is_part(2, PAIR_BEGIN, 0);
	assert_true(parts[1].takes && parts[2].gives && parts[0].single);
	/* Without that probe, the pair still does not nest. */
	SELECT("postgresql:query__execute__done", "postgresql:query__execute__start");
	assert_string_equal(by_names(), "e0 b0");
	assert_true(parts[0].single && parts[1].single && !parts[1].takes);
	/* Without its listed ends, the rules apply. */
	SELECT("a:x__done", "a:x__start", "b:y__over");
	assert_string_equal(by_names(), "e0 b0 -");
	close(fd);
	unlink(path);
	probe_catalogue_free(catalogue);
	catalogue = NULL;
	SELECT("libstdcxx:catch", "libstdcxx:throw");
	assert_string_equal(by_names(), "!");
}

/* ---- Patterns --------------------------------------------------------------------------- */

static void test_listed(void **state)
{
	(void)state;
	SELECT("a:in", "a:out", "a:up", "a:down");
	assert_null(by_patterns(PROBE_PAIRING_LISTED, TEXTS("a:in", "a:out", "a:up", "a:down")));
	is_part(0, PAIR_BEGIN, 0);
	is_part(1, PAIR_END, 0);
	is_part(2, PAIR_BEGIN, 1);
	is_part(3, PAIR_END, 1);
	assert_string_equal(by_patterns(PROBE_PAIRING_LISTED, TEXTS("a:in", "a:out", "a:*")),
		"3 probes do not make pairs: each begin needs its end");
	assert_string_equal(by_patterns(PROBE_PAIRING_LISTED, TEXTS("a:in", "a:*")),
		"a:in matches both 'a:in' and 'a:*': it can begin or end only one pair");
}

static void test_one(void **state)
{
	(void)state;
	SELECT("a:in", "a:out", "a:up");
	assert_null(by_patterns(PROBE_PAIRING_ONE, TEXTS("a:in", "a:out", "a:u*", "a:up")));
	is_part(0, PAIR_BEGIN, 0);
	is_part(1, PAIR_END, 0);
	is_part(2, PAIR_END, 0);
	assert_non_null(by_patterns(PROBE_PAIRING_ONE, TEXTS("a:*")));
	assert_non_null(by_patterns(PROBE_PAIRING_ONE, TEXTS("a:in", "a:*")));
}

/* ---- One after another -------------------------------------------------------------------- */

/* The pairs of `count` names of one provider are those of all of them at once. */
static void same_as_at_once(const struct pairing *pairing, char *const *names, size_t count)
{
	uint32_t pairs = 0;

	assert_int_equal(pairing->count, count);
	pairs_by_name(names, count, parts, &pairs);
	for (size_t i = 0; i < count; i++) {
		const struct pairing_probe *probe = &pairing->probes[i];

		if (probe->role != parts[i].role)
			fail_msg("%s: %d, not %d", names[i], probe->role, parts[i].role);
		if (probe->role != PAIR_END)
			continue;
		assert_int_equal(parts[probe->begin].role, PAIR_BEGIN);
		assert_int_equal(parts[probe->begin].pair, parts[i].pair);
	}
}

/* In whatever order they come: all words behind some stems that are parts of others. */
static void test_one_after_another(void **state)
{
	static const char *const stems[] = {
		"", "x__", "x__super__", "super__", "x__y__", "xsuper__"};
	static const char *const words[] = {"start", "begin", "done", "failed", "super__failed",
		"required", "entry", "exit", "acquired", "enter", "entered", "end", "other"};
	enum { STEMS = sizeof(stems) / sizeof(*stems), WORDS = sizeof(words) / sizeof(*words) };
	char texts[STEMS * WORDS][32], *names[PROBES_MAX];

	(void)state;
	for (size_t i = 0; i < STEMS * WORDS; i++)
		snprintf(texts[i], sizeof(texts[i]), "%s%s", stems[i / WORDS], words[i % WORDS]);
	srand(1);
	for (int round = 0; round < 300; round++) {
		struct pairing pairing = {0};
		size_t count = 0;

		for (size_t i = 0; i < 2 * PROBES_MAX && count < PROBES_MAX; i++) {
			char *name = texts[(size_t)rand() % (STEMS * WORDS)];
			bool is_new = true;

			for (size_t k = 0; k < count; k++)
				is_new &= strcmp(names[k], name) != 0;
			if (!is_new)
				continue;
			assert_null(pairing_add(&pairing, "a", name));
			names[count++] = name;
			same_as_at_once(&pairing, names, count);
		}
		pairing_deinit(&pairing);
	}
}

/* The entry and the exits of a function, whatever words their names have. */
static void test_functions_one_after_another(void **state)
{
	static const struct {
		const char *provider, *name;
		enum pair_role may_be, role;
		size_t begin;
	} probes[] = {
		{"fn:a", "f", PAIR_BEGIN, PAIR_BEGIN, 0},
		{"fn:a", "f:return", PAIR_END, PAIR_END, 0},
		{"fn:a", "x__done:return", PAIR_END, PAIR_END, 4},
		{"fn:a", "x__start", PAIR_BEGIN, PAIR_NONE, 0},
		{"fn:a", "x__done", PAIR_BEGIN, PAIR_BEGIN, 0},
		{"fn:b", "f:return", PAIR_END, PAIR_NONE, 0},
		{"fn:a", "operator-", PAIR_BEGIN, PAIR_NONE, 0},
		{"fn:a", "operator__:return", PAIR_END, PAIR_NONE, 0},
	};
	struct pairing pairing = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(probes) / sizeof(*probes); i++)
		assert_null(pairing_add(&pairing, probes[i].provider, probes[i].name));
	for (size_t i = 0; i < sizeof(probes) / sizeof(*probes); i++) {
		assert_int_equal(pairing.probes[i].may_be, probes[i].may_be);
		assert_int_equal(pairing.probes[i].role, probes[i].role);
		if (probes[i].role == PAIR_END)
			assert_int_equal(pairing.probes[i].begin, probes[i].begin);
	}
	pairing_deinit(&pairing);
}

static void test_reversed(void **state)
{
	(void)state;
	assert_true(pair_looks_reversed("query__done", "query__start"));
	assert_true(pair_looks_reversed("query-done", "query__start"));
	assert_true(pair_looks_reversed("return", "entry"));
	assert_false(pair_looks_reversed("query__start", "query__done"));
	assert_false(pair_looks_reversed("query__done", "parse__start"));
	assert_false(pair_looks_reversed("query__done", "query__abort"));
	assert_false(pair_looks_reversed("a", "b"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_postgres),
		cmocka_unit_test(test_hotspot),
		cmocka_unit_test(test_spellings),
		cmocka_unit_test(test_borders),
		cmocka_unit_test(test_catalogue),
		cmocka_unit_test(test_listed),
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_one_after_another),
		cmocka_unit_test(test_functions_one_after_another),
		cmocka_unit_test(test_reversed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
