/* SPDX-License-Identifier: MIT */
/*
 * A summary of fixed events, as text and JSON: byte for byte what is in tests/golden/summary. After
 * an intended change, PROBE_GOLDEN=write stores the new output there; review it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "probe/summary.h"

#define START UINT64_C(1790000000123456789)

/* The path of a file below the folder of this one; tests run in the root of the sources. */
static void path_of(const char *name, char ret[static 512])
{
	const char *slash = strrchr(__FILE__, '/');

	snprintf(ret, 512, "%.*s/summary/%s", slash ? (int)(slash - __FILE__) : 1,
		slash ? __FILE__ : ".", name);
}

static void add(struct probe_summary *summary, uint64_t time_ns, int thread, const char *provider,
	const char *name, const struct probe_value *args, size_t arg_count)
{
	static const char *const comms[] = {"server", "worker", "<b>\"evil\"&\xff</b>"};
	struct probe_event event = {.time_ns = START + time_ns,
		.pid = thread == 2 ? 777 : 400,
		.tid = thread == 2 ? 777 : 400 + thread,
		.cpu = thread,
		.comm = comms[thread],
		.provider = provider,
		.name = name,
		.args = args,
		.arg_count = arg_count};

	assert_null(probe_summary_add(summary, &event));
}

/* A query, which takes longer the later it is; now and then a lock is waited for. */
static void query(struct probe_summary *summary, uint64_t number)
{
	static const char *const texts[] = {"select 1", "commit", "</script><b>", "sel'ect \"x\""};
	const char *text = texts[number % 7 % 4];
	uint64_t begin = number * 10000000, length = 20000 + number * number / 2;
	struct probe_value args[] = {
		{.kind = PROBE_VALUE_STRING, .bytes = text, .length = strlen(text)},
		{.kind = PROBE_VALUE_SIGNED, .i = (int64_t)(number % 5) - 1},
		{.kind = PROBE_VALUE_UNSIGNED, .u = UINT64_C(0x7ffe00000000) + number % 3},
	};
	int thread = (int)(number % 3);

	add(summary, begin, thread, "db", "query__start", args, 3);
	if (number % 4 == 0) {
		add(summary, begin + 1000, thread, "db", "lock-wait-start", NULL, 0);
		add(summary, begin + 1000 + length / 3, thread, "db", "lock-wait-done", NULL, 0);
	}
	/* The last one is in flight. */
	if (number < 999)
		add(summary, begin + length, thread, "db",
			number % 50 ? "query__done" : "query__failed", args, 2);
}

static struct probe_summary *summed_up(void)
{
	struct probe_event lost = {
		.kind = PROBE_EVENT_LOST, .time_ns = START + 6005000000, .lost = 42};
	struct probe_summary *summary;

	assert_null(probe_summary_create(NULL, &summary));
	add(summary, 0, 0, "evil", "<script>alert(1)</script>", NULL, 0);
	for (uint64_t i = 0; i < 1000; i++) {
		if (i == 600)
			assert_null(probe_summary_add(summary, &lost));
		/* A pause. */
		if (i < 300 || i >= 400)
			query(summary, i);
	}
	return summary;
}

static void check(const char *name, enum probe_summary_format format, bool ascii)
{
	const struct probe_summary_view view = {
		.title = "golden & <co>", .top = 10, .ascii = ascii};
	const char *mode = getenv("PROBE_GOLDEN");
	struct probe_summary *summary = summed_up();
	char path[512], *text, *wanted;
	size_t length, wanted_length;
	FILE *file;

	assert_null(probe_summary_render(summary, format, &view, &text, &length));
	probe_summary_free(summary);
	path_of(name, path);
	if (mode && strcmp(mode, "write") == 0) {
		file = fopen(path, "w");
		assert_non_null(file);
		assert_int_equal(fwrite(text, 1, length, file), length);
		assert_int_equal(fclose(file), 0);
	}
	file = fopen(path, "r");
	assert_non_null(file);
	wanted = calloc(1, length + 2);
	assert_non_null(wanted);
	wanted_length = fread(wanted, 1, length + 1, file);
	fclose(file);
	for (size_t i = 0; i < length && i < wanted_length; i++) {
		if (text[i] != wanted[i])
			fail_msg("%s differs at byte %zu:\n%.200s\nwanted:\n%.200s", path, i,
				text + (i < 80 ? 0 : i - 80), wanted + (i < 80 ? 0 : i - 80));
	}
	assert_int_equal(length, wanted_length);
	free(wanted);
	free(text);
}

static void test_text(void **state)
{
	(void)state;
	check("report.txt", PROBE_SUMMARY_TEXT, false);
}

static void test_ascii(void **state)
{
	(void)state;
	check("report.ascii", PROBE_SUMMARY_TEXT, true);
}

static void test_json(void **state)
{
	(void)state;
	check("report.json", PROBE_SUMMARY_JSON, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_ascii),
		cmocka_unit_test(test_json),
	};

	setenv("TZ", "UTC", 1);
	tzset();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
