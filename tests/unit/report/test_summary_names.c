/* SPDX-License-Identifier: MIT */
/* Summaries by the names that the catalogue has for arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/report/report.h"
#include "tests/unit/query/catalogue_made.h"

static const char probes[] = "provider shop\n"
			     "words State 0=open 1=paid\n"
			     "probe order__begin customer:string state:State\n"
			     "probe order__done total customer:string\n"
			     "probe move a b\n"
			     "probe move b a c\n"
			     "probe same a b\n"
			     "probe same a b c\n";

static struct probe_catalogue *catalogue; /* of probes; main() makes it */

static struct probe_value string(const char *text, uint8_t number)
{
	return (struct probe_value){.kind = PROBE_VALUE_STRING,
		.number = number,
		.bytes = text,
		.length = strlen(text)};
}

static struct probe_value number(int64_t value, uint8_t which)
{
	return (struct probe_value){.kind = PROBE_VALUE_SIGNED, .number = which, .i = value};
}

static void add(struct probe_summary *summary, uint64_t time_ns, pid_t tid, const char *name,
	const struct probe_value *args, size_t count)
{
	const struct probe_event event = {.time_ns = time_ns,
		.provider = "shop",
		.name = name,
		.pid = 1,
		.tid = tid,
		.args = args,
		.arg_count = count};

	assert_null(probe_summary_add(summary, &event));
}

static struct probe_summary *made(const char *key, const char *match)
{
	const struct probe_summary_options options = {.keys = &key,
		.key_count = key != NULL,
		.match = match,
		.pairs = true,
		.catalogue = catalogue};
	struct probe_summary *summary;

	assert_null(probe_summary_create(&options, &summary));
	return summary;
}

/* Orders of two customers, whose texts differ in a number. */
static void add_orders(struct probe_summary *summary)
{
	for (uint64_t i = 0; i < 4; i++) {
		const char *customer = i % 2 ? "shop 12" : "shop 3";
		const struct probe_value begin[] = {string(customer, 1), number(i % 2, 2)};
		const struct probe_value end[] = {number(5, 1), string(customer, 2)};

		add(summary, 1000 + i * 100, 7, "order__begin", begin, 2);
		add(summary, 1010 + i * 100, 8, "order__done", end, 2);
	}
}

static bool says(
	const struct probe_summary *summary, enum probe_summary_format format, const char *line)
{
	const struct probe_summary_view view = {.title = "t", .ascii = true};
	size_t length;
	char *text;
	bool found;

	assert_null(probe_summary_render(summary, format, &view, &text, &length));
	found = strstr(text, line) != NULL;
	if (!found)
		print_message("%s\n", text);
	free(text);
	return found;
}

/* A string by its name, in another place of each probe; and its normal form. */
static void test_strings(void **state)
{
	static const struct {
		const char *key, *first;
		uint64_t count;
	} cases[] = {{"customer", "shop 12", 2}, {"str(customer)", "shop 12", 2},
		{"norm(customer)", "shop ?", 4}, {"norm(str(customer))", "shop ?", 4}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct probe_summary *summary = made(cases[i].key, NULL);
		char line[100];

		add_orders(summary);
		assert_int_equal(summary->probe_count, 2);
		for (size_t k = 0; k < 2; k++) {
			const struct top *top = summary->probes[k]->tops[0];
			const struct top_slot **sorted = top_sorted(top);

			assert_int_equal(sorted[0]->count, cases[i].count);
			assert_memory_equal(
				sorted[0]->value.bytes, cases[i].first, strlen(cases[i].first));
			free(sorted);
		}
		snprintf(line, sizeof(line), "shop:order__begin by %s\n", cases[i].key);
		assert_true(says(summary, PROBE_SUMMARY_TEXT, line));
		assert_null(probe_summary_check_keys(summary, NULL));
		probe_summary_free(summary);
	}
}

/* Pairs are matched by a name that each end has elsewhere, and shown by the words of numbers. */
static void test_pairs(void **state)
{
	struct probe_summary *summary = made("state", "customer");

	(void)state;
	add_orders(summary);
	assert_int_equal(summary->pair_count, 1);
	assert_int_equal(summary->pairs[0]->times.count, 4);
	assert_int_equal(summary->values.count, 2);
	assert_true(says(
		summary, PROBE_SUMMARY_TEXT, "shop:order__begin -> shop:order__done by state\n"));
	assert_true(says(summary, PROBE_SUMMARY_TEXT, "10ns  paid\n"));
	assert_true(says(summary, PROBE_SUMMARY_TEXT, "50.0%  open\n"));
	assert_true(says(summary, PROBE_SUMMARY_HTML, ",\"text\":\"paid\","));
	assert_true(says(summary, PROBE_SUMMARY_JSON, "\"key\":\"state\",\"value\":1,"));
	probe_summary_free(summary);
}

/* Two summaries by names: the same keys, though each has its own. */
static void test_compared(void **state)
{
	struct probe_summary *before = made("state", "customer"),
			     *after = made("state", "customer");
	const struct probe_summary_view view = {.title = "t", .ascii = true};
	size_t length;
	char *text;

	(void)state;
	add_orders(before);
	add_orders(after);
	assert_null(probe_summary_compare(
		before, &view, after, &view, PROBE_SUMMARY_TEXT, &text, &length));
	assert_non_null(strstr(text, "shop:order__begin by state\n"));
	assert_non_null(strstr(text, "paid\n"));
	assert_non_null(strstr(text, "shop:order__begin -> shop:order__done by state\n"));
	free(text);
	probe_summary_free(before);
	probe_summary_free(after);
}

static void assert_missing(struct probe_summary *summary, const char *message)
{
	struct probe_error *error = probe_summary_check_keys(summary, NULL);

	assert_non_null(error);
	assert_string_equal(error->message, message);
	probe_error_free(error);
	probe_summary_free(summary);
}

static void test_missing(void **state)
{
	const struct probe_value arg = number(1, 1);
	struct probe_summary *summary = made("custmer", NULL);

	(void)state;
	/* Of a probe that nobody knows less is said. */
	add(summary, 1, 1, "unknown", &arg, 1);
	add_orders(summary);
	assert_missing(summary,
		"shop:order__begin: the key 'custmer': there is no argument 'custmer', the probe "
		"has customer, state; the nearest is 'customer'");
	summary = made("customer", NULL);
	add(summary, 1, 1, "unknown", &arg, 1);
	assert_missing(summary,
		"shop:unknown: the key 'customer': there is no argument 'customer', the probe has "
		"none whose name is known");
	/* The name is known, but the argument was not recorded as a string. */
	summary = made("norm(customer)", NULL);
	add(summary, 1, 1, "order__begin", (struct probe_value[]){number(1, 1), number(1, 2)}, 2);
	assert_missing(summary, "no hit has a value for the key 'norm(customer)'");
}

/* Of a list, all versions that are known must agree. */
static void test_lists(void **state)
{
	const struct probe_value second = number(9, 2), all[] = {number(1, 1), number(2, 2)};
	struct probe_summary *summary = made("b", NULL);

	(void)state;
	add(summary, 1, 1, "same", &second, 1);
	add(summary, 2, 1, "move", all, 2);
	assert_int_equal(summary->probes[0]->tops[0]->slots[0]->value.i, 9);
	assert_int_equal(summary->probes[1]->tops[0]->slots[0]->value.i, 2);
	assert_null(probe_summary_check_keys(summary, NULL));
	probe_summary_free(summary);

	summary = made("b", NULL);
	add(summary, 1, 1, "move", &second, 1);
	assert_missing(summary,
		"shop:move: the key 'b': this name is not the same argument in all versions of the "
		"program; use argN");
}

static void test_no_names(void **state)
{
	static const char *const keys[] = {"str(", "cust omer", "norm()", "1", "arg99", "begin"};

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const struct probe_summary_options options = {
			.keys = &keys[i], .key_count = 1, .catalogue = catalogue};
		struct probe_summary *summary;
		struct probe_error *error = probe_summary_create(&options, &summary);
		char message[200];

		assert_non_null(error);
		snprintf(message, sizeof(message),
			"'%s' is not a key (expected argN, str(argN), norm(str(argN)), "
			"sym(argN), tid, pid, cpu, comm or probe, or the name of an argument)",
			keys[i]);
		assert_string_equal(error->message, message);
		probe_error_free(error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_compared),
		cmocka_unit_test(test_missing),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_no_names),
	};
	int failed;

	catalogue = catalogue_made(probes);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	probe_catalogue_free(catalogue);
	return failed;
}
