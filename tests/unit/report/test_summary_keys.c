/* SPDX-License-Identifier: MIT */
/* Summaries of values: the frequent ones, and those that are asked for. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/report/report.h"
#include "tests/unit/report/summary_events.h"

static void test_top_exact(void **state)
{
	struct top *top = top_create(8);
	const struct top_slot **sorted;

	(void)state;
	for (uint64_t i = 0; i < 36; i++) {
		struct probe_value value = summary_number(i < 28 ? i % 7 : 3);

		assert_true(top_add(top, &value));
	}
	sorted = top_sorted(top);
	assert_false(top->approximate);
	assert_int_equal(top->used, 7);
	assert_int_equal(sorted[0]->value.u, 3);
	assert_int_equal(sorted[0]->count, 12);
	assert_int_equal(sorted[0]->error, 0);
	assert_int_equal(sorted[6]->count, 4);
	free(sorted);
	top_free(top);
}

/* Among many values, the frequent ones are found, and no count is too low. */
static void test_top_approximate(void **state)
{
	struct top *top = top_create(64);
	uint64_t truth[20] = {0}, seed = 1, counted = 0;
	const struct top_slot **sorted;

	(void)state;
	for (size_t i = 0; i < 100000; i++) {
		struct probe_value value;
		char text[32];

		seed = seed * 6364136223846793005u + 1442695040888963407u;
		if (seed >> 60 < 8)
			snprintf(text, sizeof(text), "often %u", (unsigned int)(seed >> 40 & 15));
		else
			snprintf(text, sizeof(text), "once %zu", i);
		if (seed >> 60 < 8)
			truth[seed >> 40 & 15]++;
		value = summary_string(text);
		assert_true(top_add(top, &value));
	}
	sorted = top_sorted(top);
	assert_true(top->approximate);
	assert_int_equal(top->total, 100000);
	for (size_t i = 0; i < top->used; i++) {
		unsigned int which;
		char text[32];

		counted += sorted[i]->count;
		if (i >= 16)
			continue;
		snprintf(text, sizeof(text), "%.*s", (int)sorted[i]->value.length,
			sorted[i]->value.bytes);
		assert_int_equal(sscanf(text, "often %u", &which), 1);
		assert_true(sorted[i]->count >= truth[which]);
		assert_true(sorted[i]->count - sorted[i]->error <= truth[which]);
		assert_true(sorted[i]->error <= 100000 / 64);
	}
	assert_int_equal(counted, 100000);
	free(sorted);
	top_free(top);
}

static void test_keys(void **state)
{
	static const char *const wrong[] = {"", "arg", "arg32", "argx", "arg1x", "str(arg1",
		"str()", "str(tid)", "Tid", "arg0 "};
	struct probe_summary_options options = {
		.keys = (const char *const[]){"arg0"}, .key_count = 1};
	struct probe_summary *summary;
	struct summary_top *tops;
	struct probe_error *error;
	size_t count;
	char text[300];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		error = probe_summary_create(
			&(struct probe_summary_options){.keys = &wrong[i], .key_count = 1},
			&summary);
		assert_non_null(error);
		assert_int_equal(error->code, PROBE_ERROR_USAGE);
		probe_error_free(error);
		error = probe_summary_create(
			&(struct probe_summary_options){.match = wrong[i]}, &summary);
		assert_non_null(error);
		probe_error_free(error);
	}
	/* Unlimited values are shown where requested, and only there. */
	for (size_t asked = 0; asked < 2; asked++) {
		summary = summary_made(asked ? &options : NULL);
		for (uint64_t i = 0; i < 5000; i++) {
			struct probe_value value = summary_number(i);

			summary_hit(summary, i, 1, "ids", &value);
		}
		for (uint64_t i = 0; i < 50; i++) {
			struct probe_value value = summary_number(i % 5);

			summary_hit(summary, i, 1, "few", &value);
			/* Formatted like C; negative ones, too. */
			value = (struct probe_value){
				.kind = PROBE_VALUE_SIGNED, .i = (int64_t)(i % 5) - 2};
			summary_hit(summary, i, 1, "few signed", &value);
			value = summary_number(UINT64_C(0x7f0000000000) + i % 5);
			summary_hit(summary, i, 1, "addresses", &value);
			value = summary_number(1);
			summary_hit(summary, i, 1, "constant", &value);
		}
		tops = summary_tops(summary, &count);
		assert_int_equal(count, asked ? 5 : 2);
		assert_string_equal(tops[0].probe->name, asked ? "ids" : "few");
		assert_int_equal(tops[0].top->approximate, asked);
		free(tops);
		probe_summary_free(summary);
	}
	/* Strings of which each came only a few times, too rarely to be shown: an empty table. */
	for (size_t asked = 0; asked < 2; asked++) {
		const struct probe_summary_view view = {.title = "rare"};
		size_t length;
		char *rendered;

		summary = summary_made(asked ? &options : NULL);
		for (uint64_t i = 0; i < 20000; i++) {
			struct probe_value value;

			snprintf(text, sizeof(text), "%" PRIu64, i / 5 * 5 % 19 + i / 5);
			value = summary_string(text);
			summary_hit(summary, i, 1, "rare", &value);
		}
		free(summary_tops(summary, &count));
		assert_int_equal(count, asked);
		assert_null(probe_summary_render(
			summary, PROBE_SUMMARY_TEXT, &view, &rendered, &length));
		assert_int_equal(
			asked, strstr(rendered, "\ndb:rare by arg0\n20000 hits have values, "
						"each at most ") != NULL);
		free(rendered);
		probe_summary_free(summary);
	}
	/* A string is kept up to a limit, and differs from one of just that length. */
	memset(text, 'x', sizeof(text));
	summary = summary_made(NULL);
	for (size_t i = 0; i < 4; i++) {
		struct probe_value value = summary_string("");

		value.bytes = text;
		value.length = i < 2 ? SUMMARY_KEY_BYTES_MAX : SUMMARY_KEY_BYTES_MAX + i;
		summary_hit(summary, i, 1, "long", &value);
	}
	tops = summary_tops(summary, &count);
	assert_int_equal(count, 1);
	assert_int_equal(tops[0].key.kind, KEY_STRING);
	assert_int_equal(tops[0].top->used, 2);
	assert_int_equal(tops[0].top->slots[1]->value.length, SUMMARY_KEY_BYTES_MAX);
	assert_true(tops[0].top->slots[1]->value.truncated);
	free(tops);
	probe_summary_free(summary);
}

/* Queries that differ in their literals are one value; ends are not matched by such. */
static void test_normal_forms(void **state)
{
	const char *const key = "norm(str(arg0))";
	struct probe_summary *summary =
		summary_made(&(struct probe_summary_options){.keys = &key, .key_count = 1});
	struct probe_value values[] = {summary_string("set a = a + 5"), summary_number(5),
		summary_string("set a = a + -17"), summary_string("select 'x'")};
	struct summary_top *tops;
	struct buffer name = {0};
	size_t count;

	(void)state;
	for (size_t i = 0; i < 4; i++)
		summary_hit(summary, i, 1, "q", &values[i]);
	tops = summary_tops(summary, &count);
	assert_int_equal(count, 1);
	assert_int_equal(tops[0].top->total, 3);
	assert_int_equal(tops[0].top->used, 2);
	assert_int_equal(tops[0].top->slots[0]->count, 2);
	assert_int_equal(tops[0].top->slots[0]->value.length, 13);
	assert_memory_equal(tops[0].top->slots[0]->value.bytes, "set a = a + ?", 13);
	key_print(&name, &tops[0].key);
	assert_int_equal(name.length, strlen(key));
	assert_memory_equal(name.data, key, name.length);
	buffer_deinit(&name);
	free(tops);
	probe_summary_free(summary);
	for (size_t i = 0; i < 4; i++) {
		const char *const matches[] = {
			key, "arg0:norm(str(arg0))", "arg0:sym(arg0)", "probe"};
		struct probe_error *error = probe_summary_create(
			&(struct probe_summary_options){.match = matches[i]}, &summary);

		assert_non_null(error);
		assert_int_equal(error->code, PROBE_ERROR_USAGE);
		probe_error_free(error);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_top_exact),
		cmocka_unit_test(test_top_approximate),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_normal_forms),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
