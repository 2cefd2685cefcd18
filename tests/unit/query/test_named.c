/* SPDX-License-Identifier: MIT */
/* Expressions with names: for each probe they are what its arguments are called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/session/session.h"
#include "libprobe/query/query.h"
#include "tests/unit/query/catalogue_made.h"

static const char text[] = "provider p\n"
			   "probe a__start query:string id\n"
			   "probe a__done id status:bool\n"
			   "probe b id:string\n"
			   "provider q\n"
			   "probe c other\n"
			   "provider fn:one\n"
			   "probe f kind size:s32 -> s32\n"
			   "provider fn:two\n"
			   "probe f size:u64 -> u8\n";
static struct probe_catalogue *catalogue; /* of the text; main() makes it */

static struct probe_error *init(
	struct asked *asked, struct probe_session_options options, const char *pattern_text)
{
	struct probe_pattern *pattern;
	struct probe_error *error;

	options.catalogue = catalogue;
	assert_null(probe_pattern_parse(pattern_text, &pattern));
	if (options.gather.pairing == PROBE_PAIRING_NAMES)
		probe_pattern_pair(pattern);
	error = asked_init_named(asked, &options, (const struct probe_pattern *const *)&pattern, 1);
	probe_pattern_free(pattern);
	return error;
}

static struct probe_error *find(const struct asked *asked, enum pair_role role, const char *name,
	size_t args, const struct asked **ret)
{
	const struct select_probe probe = {.provider = "p", .name = name};

	return asked_for(asked, (struct pair_part){.role = role}, &probe, args, ret);
}

static void expect(struct probe_error *error, const char *message)
{
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
}

static const struct probe_session_options counting = {.kind = PROBE_SESSION_GATHER};

static void test_probes(void **state)
{
	struct probe_session_options options = counting;
	const struct asked *its, *again;
	struct asked asked;

	(void)state;
	options.filter = "id == 7 && tid > 0";
	assert_null(init(&asked, options, "p:a*"));
	assert_null(find(&asked, PAIR_NONE, "a__start", 2, &its));
	assert_string_equal(its->filter->text, "arg1 == 7 && tid > 0");
	assert_null(find(&asked, PAIR_NONE, "a__start", 2, &again));
	assert_ptr_equal(its, again);
	assert_null(find(&asked, PAIR_NONE, "a-done", 2, &its));
	assert_string_equal(its->filter->text, "arg0 == 7 && tid > 0");
	expect(find(&asked, PAIR_NONE, "a-done", 3, &its),
		"p:a-done: the filter 'id == 7 && tid > 0': there is no argument 'id', the probe "
		"has none whose name is known");
	/* A string is no number. */
	expect(find(&asked, PAIR_NONE, "b", 1, &its),
		"p:b: the filter 'str(arg0) == 7 && tid > 0', column 14: expected a text in double "
		"quotes");
	asked_deinit(&asked);
}

/* For whoever has no catalogue: one text, if it is the same for all probes that were found. */
static void test_plain(void **state)
{
	struct probe_session_options options = counting, plain;
	const struct asked *its;
	struct asked asked;

	(void)state;
	options.filter = "id == 7";
	options.gather.keys[0] = "tid";
	options.gather.key_count = 1;
	assert_null(init(&asked, options, "p:a*"));
	assert_null(find(&asked, PAIR_NONE, "a__start", 2, &its));
	plain = options;
	assert_null(asked_plain(&asked, &plain));
	assert_string_equal(plain.filter, "arg1 == 7");
	assert_ptr_equal(plain.gather.keys[0], options.gather.keys[0]);
	assert_null(find(&asked, PAIR_NONE, "a__done", 2, &its));
	expect(asked_plain(&asked, &plain),
		"the filter 'id == 7': its names are 'arg1 == 7' for one of the probes and 'arg0 "
		"== 7' for another, and a session that is kept has one text for all; give each a "
		"session of its own, or use argN");
	asked_deinit(&asked);
}

static void test_keys(void **state)
{
	struct probe_session_options options = counting;
	const struct asked *its;
	struct asked asked;

	(void)state;
	options.gather.keys[0] = "tid";
	options.gather.keys[1] = "query";
	options.gather.key_count = 2;
	assert_null(init(&asked, options, "p:a__start"));
	assert_false(asked.key_string[0]);
	assert_true(asked.key_string[1]);
	assert_null(find(&asked, PAIR_NONE, "a__start", 2, &its));
	assert_string_equal(its->keys[0]->text, "tid");
	assert_string_equal(its->keys[1]->text, "str(arg0)");
	asked_deinit(&asked);

	options.gather.keys[0] = "id";
	options.gather.key_count = 1;
	assert_null(init(&asked, options, "p:*"));
	assert_false(asked.key_string[0]);
	expect(find(&asked, PAIR_NONE, "b", 1, &its),
		"p:b: the key 'id' is a string for some of the probes, and a number for others");
	asked_deinit(&asked);
}

/* An expression has to make sense only for the probes that it is about. */
static void test_pairs(void **state)
{
	struct probe_session_options options = counting;
	const struct asked *its;
	struct asked asked;

	(void)state;
	options.gather.pairing = PROBE_PAIRING_NAMES;
	options.gather.keys[0] = "status";
	options.gather.key_count = 1;
	options.gather.match = "id";
	options.filter = "duration > 1ms && end.status";
	assert_null(init(&asked, options, "p:a*"));
	assert_true(asked.of_pair);
	assert_null(find(&asked, PAIR_BEGIN, "a__start", 2, &its));
	assert_string_equal(its->match->text, "arg1");
	assert_null(find(&asked, PAIR_END, "a__done", 2, &its));
	assert_string_equal(its->match->text, "arg0");
	assert_string_equal(its->keys[0]->text, "arg1");
	assert_string_equal(its->filter->text, "duration > 1ms && end.arg1");
	expect(find(&asked, PAIR_END, "a__start", 2, &its),
		"p:a__start: the filter 'duration > 1ms && end.status': there is no argument "
		"'status', the probe has query, id");
	asked_deinit(&asked);
}

/* Names of the begin, in what is asked of the end. */
static void test_begin(void **state)
{
	struct probe_session_options options = counting;
	const struct asked *its;
	struct asked asked;

	(void)state;
	options.gather.pairing = PROBE_PAIRING_LISTED;
	options.gather.keys[0] = "norm(begin.query)";
	options.gather.key_count = 1;
	options.filter = "begin.id == 1 && end.id == 2";
	assert_null(init(&asked, options, "p:a*"));
	assert_true(asked.parts.is_norm[0]);
	assert_int_equal(asked.kept_count, 2);
	assert_null(find(&asked, PAIR_BEGIN, "a__start", 2, &its));
	assert_null(find(&asked, PAIR_END, "a__done", 2, &its));
	assert_string_equal(its->filter->text, "begin.arg1 == 1 && end.arg0 == 2");
	assert_string_equal(its->keys[0]->text, "norm(begin.str(arg0))");
	/* Another begin, that has the names elsewhere, or not at all. */
	expect(find(&asked, PAIR_BEGIN, "b", 1, &its),
		"p:b: the filter 'begin.id == 1 && end.id == 2': the names are other arguments of "
		"p:a__start, which is a begin, too");
	expect(find(&asked, PAIR_BEGIN, "a__start", 3, &its),
		"p:a__start: the filter 'begin.id == 1 && end.id == 2': there is no argument 'id', "
		"the probe has none whose name is known");
	asked_deinit(&asked);
	options.filter = "begin.other == 1";
	expect(init(&asked, options, "p:b"),
		"p:b: the filter 'begin.other == 1': there is no argument 'other', the probe has "
		"id");
	/* Only begins are looked at. */
	options.filter = "begin.status";
	options.gather.key_count = 0;
	options.gather.pairing = PROBE_PAIRING_NAMES;
	expect(init(&asked, options, "p:a*"),
		"p:a__start: the filter 'begin.status': there is no argument 'status', the probe "
		"has query, id");
}

static void test_none(void **state)
{
	struct probe_session_options options = counting;
	const struct asked *its;
	struct asked asked;

	(void)state;
	options.filter = "arg0 == 1";
	assert_null(init(&asked, options, "p:*"));
	assert_null(asked.names);
	assert_null(find(&asked, PAIR_NONE, "b", 9, &its));
	assert_ptr_equal(its, &asked);
	asked_deinit(&asked);
	options.filter = "other == 1";
	expect(init(&asked, options, "p:b"),
		"p:b: the filter 'other == 1': there is no argument 'other', the probe has id");
	expect(init(&asked, options, "r:b"),
		"the filter 'other == 1', column 1: there is no 'other': expected arg0 to arg31, "
		"tid, pid, cpu, str() or starts_with()");
	assert_null(init(&asked, options, "usdt:/x:q:*"));
	asked_deinit(&asked);
	options.filter = "other ==";
	expect(init(&asked, options, "q:*"),
		"the filter 'arg0 ==', column 8: expected a number, an argument (arg0 to arg31), "
		"tid, pid, cpu, '(' or a sign");
}

/* A pattern of functions names those of its file only. */
static void test_functions(void **state)
{
	struct select_probe probe = {.provider = "fn:one", .name = "f"};
	struct probe_session_options options = counting;
	const struct asked *its;
	struct asked asked;

	(void)state;
	options.gather.pairing = PROBE_PAIRING_NAMES;
	options.filter = "begin.size > 1 && end.retval < 0";
	assert_null(init(&asked, options, "fn:one:f"));
	assert_null(asked_for(&asked, (struct pair_part){.role = PAIR_BEGIN}, &probe, 18, &its));
	probe.name = "f:return";
	assert_null(asked_for(&asked, (struct pair_part){.role = PAIR_END}, &probe, 2, &its));
	assert_string_equal(its->filter->text, "begin.arg1 > 1 && end.arg0 < 0");
	asked_deinit(&asked);
	options.filter = "begin.kind > 1";
	expect(init(&asked, options, "fn:two.so:f"),
		"fn:two:f: the filter 'begin.kind > 1': there is no argument 'kind', the probe has "
		"size");
	assert_null(init(&asked, options, "fn:one:f"));
	asked_deinit(&asked);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_probes),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_begin),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_functions),
	};
	int failed;

	catalogue = catalogue_made(text);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	probe_catalogue_free(catalogue);
	return failed;
}
