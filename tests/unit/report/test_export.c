/* SPDX-License-Identifier: MIT */
/*
 * A record of known hits in each format, compared with the files of tests/golden/export. After
 * an intended change of a format, UPDATE_GOLDEN=1 rewrites them; review the difference.
 */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "libprobe/session/session.h"
#include "probe/ctf.h"
#include "probe/export.h"
#include "probe/reader.h"

enum { ARGS_MAX = 5, OUTPUT_BYTES = 1 << 16, PID = 101, THREAD = 102 };
/* 2100-01-01: records begin when they are made, and have no earlier times. */
static const uint64_t base_ns = 4102444800000000000;

enum {
	QUERY_START,
	QUERY_DONE,
	STEP_START,
	STEP_DONE,
	JOB_START,
	JOB_DONE,
	LOAD,
	CHECKPOINT_START,
	IDLE,
	PROBES
};

static struct probe_session_probe probes[PROBES] = {
	[QUERY_START] = {.provider = "db", .name = "query__start", .path = "/bin/db"},
	[QUERY_DONE] = {.provider = "db", .name = "query__done", .path = "/bin/db"},
	[STEP_START] = {.provider = "db", .name = "step-start", .path = "/bin/db"},
	[STEP_DONE] = {.provider = "db", .name = "step-done", .path = "/bin/db"},
	[JOB_START] = {.provider = "db", .name = "job__start", .path = "/bin/db"},
	[JOB_DONE] = {.provider = "db", .name = "job__done", .path = "/bin/db"},
	[LOAD] = {.provider = "db", .name = "load", .path = "/bin/db"},
	[CHECKPOINT_START] = {.provider = "db", .name = "checkpoint__start", .path = "/bin/db"},
	[IDLE] = {.provider = "db", .name = "idle", .path = "/bin/db"},
};

#define U64                                                                                        \
	{                                                                                          \
		.size = 8                                                                          \
	}
static struct session_site sites[PROBES] = {
	[QUERY_START] = {.layout = {.arg_count = 2, .args = {U64, U64}}},
	[QUERY_DONE] = {.layout = {.arg_count = 2, .args = {U64, {.size = 4, .is_signed = true}}}},
	[STEP_START] = {.layout = {.arg_count = 1, .args = {U64}}},
	[STEP_DONE] = {.layout = {.arg_count = 1, .args = {U64}}},
	[JOB_START] = {.layout = {.arg_count = 1, .args = {U64}}},
	[JOB_DONE] = {.layout = {.arg_count = 1, .args = {U64}}},
	[LOAD] = {.layout = {.arg_count = 5,
			  .args = {{.size = 8, .is_float = true}, U64, U64, U64, U64}}},
};
static const struct probe_session session = {
	.probes = probes, .probe_count = PROBES, .sites = sites, .site_count = PROBES};

#define NUMBER(n)                                                                                  \
	{                                                                                          \
		.kind = PROBE_VALUE_UNSIGNED, .u = (n)                                             \
	}
#define STRING(s)                                                                                  \
	{                                                                                          \
		.kind = PROBE_VALUE_STRING, .bytes = (s), .length = sizeof(s) - 1                  \
	}

static const struct hit {
	uint64_t ns;
	size_t probe;
	pid_t tid;
	struct probe_value args[ARGS_MAX];
} hits[] = {
	{0, CHECKPOINT_START, PID, {{0}}},
	{1000, QUERY_START, PID, {NUMBER(1), STRING("SELECT \"a\", 'b;c'\nFROM t")}},
	{1500, STEP_START, PID, {NUMBER(1)}},
	{1600, IDLE, PID, {{0}}},
	{2500, STEP_DONE, PID, {NUMBER(1)}},
	{2600, LOAD, PID,
		{{.kind = PROBE_VALUE_FLOAT, .f = 0.25}, NUMBER(UINT64_MAX),
			{.kind = PROBE_VALUE_NULL},
			{.kind = PROBE_VALUE_BYTES, .bytes = "\x01\xff", .length = 2},
			{.kind = PROBE_VALUE_TEXT,
				.u = 4096,
				.bytes = "cut, \xff",
				.length = 6,
				.truncated = true}}},
	{3000, JOB_START, PID, {NUMBER(7)}},
	{4000, QUERY_DONE, PID, {NUMBER(1), {.kind = PROBE_VALUE_SIGNED, .i = -1}}},
	{4100, QUERY_START, THREAD, {NUMBER(2), STRING("@BEGIN\u202e")}},
	{4200, JOB_DONE, THREAD, {NUMBER(7)}},
	{4300, STEP_DONE, THREAD, {NUMBER(9)}},
	{4321, QUERY_DONE, THREAD, {NUMBER(2), {.kind = PROBE_VALUE_SIGNED, .i = 0}}},
	{1000005000, QUERY_START, PID, {NUMBER(3), STRING("")}},
};

static char folder[64];

static int record_make(void **state)
{
	struct probe_error *error;
	struct probe_ctf *ctf;

	(void)state;
	strcpy(folder, "/tmp/probectl-export.XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	error = probe_ctf_create(folder, NULL, &ctf);
	for (size_t i = 0; i < sizeof(hits) / sizeof(hits[0]) && !error; i++) {
		const struct hit *hit = &hits[i];
		const struct probe_hit its = {.time_ns = base_ns + hit->ns,
			.pid = PID,
			.tid = hit->tid,
			.cpu = 0,
			.probe = hit->probe,
			.pc = 0x1000 + hit->probe,
			.args = hit->args,
			.arg_count = sites[hit->probe].layout.arg_count};

		for (uint8_t k = 0; k < its.arg_count; k++)
			sites[hit->probe].layout.args[k].number = k;
		sites[hit->probe].pc = its.pc;
		sites[hit->probe].probe = hit->probe;
		error = probe_ctf_hit(ctf, &session, &its, hit->tid == PID ? "db" : "db;worker");
	}
	if (!error)
		error = probe_ctf_discarded(ctf, &session, 5);
	if (!error)
		error = probe_ctf_flush(ctf);
	probe_ctf_free(ctf);
	probe_error_free(error);
	return error ? -1 : 0;
}

static int record_remove(void **state)
{
	DIR *directory = opendir(folder);
	struct dirent *entry;

	(void)state;
	while (directory && (entry = readdir(directory)))
		unlinkat(dirfd(directory), entry->d_name, 0);
	if (directory)
		closedir(directory);
	return rmdir(folder);
}

static size_t read_all(FILE *file, char *ret)
{
	size_t length = fread(ret, 1, OUTPUT_BYTES - 1, file);

	ret[length] = '\0';
	return length;
}

/* The record in a format; if `json` is not NULL, its JSON instead. */
static size_t export_record(enum probe_export_format format,
	const struct probe_export_options *options, FILE *json, char *ret)
{
	FILE *file = tmpfile();
	struct probe_export *export;
	struct probe_reader *reader;
	struct probe_event event;
	bool there = true;
	size_t length;

	assert_non_null(file);
	if (json)
		assert_null(probe_reader_open_json(fileno(json), "the JSON", &reader));
	else
		assert_null(probe_reader_open(folder, &reader));
	assert_null(probe_export_create(format, options, fileno(file), "the file", &export));
	for (;;) {
		assert_null(probe_reader_next(reader, &event, &there));
		if (!there)
			break;
		assert_null(probe_export_event(export, &event));
	}
	assert_null(probe_export_finish(export));
	probe_export_free(export);
	probe_reader_close(reader);
	rewind(file);
	length = read_all(file, ret);
	fclose(file);
	return length;
}

static void compare(const char *name, const char *output, size_t length)
{
	static char golden[OUTPUT_BYTES];
	bool update = getenv("UPDATE_GOLDEN") != NULL;
	size_t golden_length = 0;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "tests/golden/export/%s", name);
	file = fopen(path, update ? "we" : "re");
	assert_non_null(file);
	if (update)
		assert_int_equal(fwrite(output, 1, length, file), length);
	else
		golden_length = read_all(file, golden);
	fclose(file);
	if (!update && (golden_length != length || memcmp(golden, output, length) != 0))
		fail_msg("not what is in %s:\n%s", path, output);
}

static void check(const char *name, enum probe_export_format format,
	const struct probe_export_options *options)
{
	static char output[OUTPUT_BYTES];

	compare(name, output, export_record(format, options, NULL, output));
}

static void test_json(void **state)
{
	(void)state;
	check("hits.json", PROBE_EXPORT_JSON, &(struct probe_export_options){0});
}

static void test_csv(void **state)
{
	(void)state;
	check("hits.csv", PROBE_EXPORT_CSV, &(struct probe_export_options){0});
	/* The same, whether or not the columns are known. */
	check("hits.csv", PROBE_EXPORT_CSV, &(struct probe_export_options){.columns = 5});
}

static void test_folded(void **state)
{
	static const char *const keys[] = {"str(arg1)", "tid", "arg4", "arg0"};

	(void)state;
	check("hits.folded", PROBE_EXPORT_FOLDED, &(struct probe_export_options){0});
	check("count.folded", PROBE_EXPORT_FOLDED, &(struct probe_export_options){.hits = true});
	check("key.folded", PROBE_EXPORT_FOLDED,
		&(struct probe_export_options){.keys = &keys[0], .key_count = 1});
	check("keys.folded", PROBE_EXPORT_FOLDED,
		&(struct probe_export_options){.keys = keys, .key_count = 4});
}

/* Interpreters have one pair for all functions: their frames are the names alone. */
static void test_functions(void **state)
{
	static const char *const key = "str(arg0)";
	static const char *const steps[][2] = {{"function__entry", "f"}, {"bif__entry", "b"},
		{"nif__entry", "n"}, {"other__entry", "o"}, {"other__return", "o"},
		{"nif__return", "n"}, {"bif__return", "b"}, {"function__return", "f"}};
	static char output[OUTPUT_BYTES];
	FILE *json = tmpfile();

	(void)state;
	assert_non_null(json);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		fprintf(json,
			"{\"ts\":%zu,\"pid\":1,\"tid\":1,\"cpu\":0,\"comm\":\"beam\",\"provider\":"
			"\"erlang\",\"name\":\"%s\",\"args\":[\"%s\"]}\n",
			1000 + i, steps[i][0], steps[i][1]);
	rewind(json);
	export_record(PROBE_EXPORT_FOLDED,
		&(struct probe_export_options){.keys = &key, .key_count = 1}, json, output);
	assert_string_equal(output, "beam;f 2\nbeam;f;b 2\nbeam;f;b;n 2\nbeam;f;b;n;erlang:other o "
				    "1\n");
	fclose(json);
}

static void test_flamegraph(void **state)
{
	static const char *const key = "str(arg1)";

	(void)state;
	check("hits.svg", PROBE_EXPORT_FLAMEGRAPH, &(struct probe_export_options){0});
	check("count.svg", PROBE_EXPORT_FLAMEGRAPH,
		&(struct probe_export_options){.hits = true, .keys = &key, .key_count = 1});
}

static void test_trace_event(void **state)
{
	static const char *const key = "arg1";

	(void)state;
	check("hits.trace-event", PROBE_EXPORT_TRACE_EVENT, &(struct probe_export_options){0});
	check("match.trace-event", PROBE_EXPORT_TRACE_EVENT,
		&(struct probe_export_options){.match = "arg0", .keys = &key, .key_count = 1});
}

/* JSON gives the same result, except for what it lacks. */
static void test_from_json(void **state)
{
	static char direct[OUTPUT_BYTES], again[OUTPUT_BYTES];
	const struct probe_export_options none = {0};
	FILE *json = tmpfile();
	size_t length;

	(void)state;
	assert_non_null(json);
	length = export_record(PROBE_EXPORT_JSON, &none, NULL, direct);
	assert_int_equal(fwrite(direct, 1, length, json), length);
	rewind(json);
	assert_int_equal(export_record(PROBE_EXPORT_JSON, &none, json, again), length);
	assert_string_equal(direct, again);
	rewind(json);
	export_record(PROBE_EXPORT_FOLDED, &none, NULL, direct);
	export_record(PROBE_EXPORT_FOLDED, &none, json, again);
	assert_string_equal(direct, again);
	fclose(json);
}

/* Spans come by their ends: one within the other first; between threads; of any names. */
static void test_spans(void **state)
{
	static const char text[] =
		"{\"ts\":1790000000000003000,\"pid\":1,\"tid\":2,\"cpu\":0,\"comm\":\"c\","
		"\"provider\":\"a\",\"name\":\"inner__done\",\"args\":[1],\"duration\":1000,"
		"\"begin\":"
		"{\"ts\":1790000000000002000,\"pid\":1,\"tid\":2,\"provider\":\"a\",\"name\":"
		"\"inner__start\",\"args\":[\"x 1\"]},\"schema\":1}\n"
		"{\"ts\":1790000000000004000,\"pid\":1,\"tid\":2,\"cpu\":0,\"comm\":\"c\","
		"\"provider\":\"a\",\"name\":\"outer__done\",\"args\":[],\"duration\":3001,"
		"\"begin\":"
		"{\"ts\":1790000000000001000,\"pid\":1,\"tid\":2,\"provider\":\"a\",\"name\":"
		"\"outer__start\",\"args\":[\"y 2\"]},\"schema\":1}\n"
		"{\"ts\":1790000000000008000,\"pid\":1,\"tid\":3,\"cpu\":0,\"comm\":\"d\","
		"\"provider\":\"a\",\"name\":\"foo\",\"args\":[5],\"duration\":4000,\"begin\":{"
		"\"ts\":"
		"1790000000000004000,\"pid\":1,\"tid\":2,\"provider\":\"a\",\"name\":\"bar\","
		"\"args\":"
		"[6]},\"schema\":1}\n"
		/* Across the outer one. */
		"{\"ts\":1790000000000009000,\"pid\":1,\"tid\":2,\"cpu\":0,\"comm\":\"c\","
		"\"provider\":\"a\",\"name\":\"late__done\",\"args\":[],\"duration\":6000,"
		"\"begin\":"
		"{\"ts\":1790000000000003000,\"pid\":1,\"tid\":2,\"provider\":\"a\",\"name\":"
		"\"late__start\",\"args\":[]},\"schema\":1}\n"
		/* Around it. */
		"{\"ts\":1790000000000009500,\"pid\":1,\"tid\":2,\"cpu\":0,\"comm\":\"c\","
		"\"provider\":\"a\",\"name\":\"all__done\",\"args\":[],\"duration\":9400,\"begin\":"
		"{\"ts\":1790000000000000100,\"pid\":1,\"tid\":2,\"provider\":\"a\",\"name\":"
		"\"all__start\",\"args\":[]},\"schema\":1}\n";
	static char output[OUTPUT_BYTES];
	const struct probe_export_options none = {0};
	const struct probe_value args[] = {NUMBER(1)};
	const struct probe_event begin = {
		.provider = "a", .name = "s", .pid = 1, .tid = 1, .args = args, .arg_count = 1};
	const struct probe_event span = {
		.provider = "a", .name = "d", .pid = 1, .tid = 1, .begin = &begin};
	FILE *json = tmpfile(), *file = tmpfile();
	struct probe_export *exporter;
	struct probe_error *error;

	(void)state;
	assert_non_null(json);
	assert_non_null(file);
	assert_int_equal(fwrite(text, 1, sizeof(text) - 1, json), sizeof(text) - 1);
	rewind(json);
	export_record(PROBE_EXPORT_JSON, &none, json, output);
	assert_string_equal(output, text);
	rewind(json);
	compare("spans.trace-event", output,
		export_record(PROBE_EXPORT_TRACE_EVENT, &none, json, output));
	rewind(json);
	compare("spans.csv", output, export_record(PROBE_EXPORT_CSV, &none, json, output));
	assert_null(probe_export_create(
		PROBE_EXPORT_FOLDED, &none, fileno(file), "the file", &exporter));
	error = probe_export_event(exporter, &span);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_UNSUPPORTED);
	probe_error_free(error);
	probe_export_free(exporter);
	fclose(json);
	fclose(file);
}

/* Hits were lost between f's calls of g: neither f nor the g around the gap has a known time. */
static void test_lost(void **state)
{
	static const char *const lines[] = {"f", "g", "g:return", "g", NULL, "g:return", "g",
		"g:return", "f:return", "f", "f:return"};
	static char output[OUTPUT_BYTES];
	FILE *json = tmpfile();

	(void)state;
	assert_non_null(json);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (lines[i])
			fprintf(json,
				"{\"ts\":%zu,\"pid\":1,\"tid\":1,\"cpu\":0,\"comm\":\"c\","
				"\"provider\":\"fn:a\",\"name\":\"%s\",\"args\":[]}\n",
				1000 + (i << i), lines[i]);
		else
			fprintf(json, "{\"lost\":3}\n");
	rewind(json);
	export_record(PROBE_EXPORT_FOLDED, &(struct probe_export_options){0}, json, output);
	assert_string_equal(output, "c;fn:a:f 5632\nc;fn:a:f;fn:a:g 6\nc;fn:a:g 512\n");
	rewind(json);
	export_record(PROBE_EXPORT_TRACE_EVENT, &(struct probe_export_options){0}, json, output);
	assert_null(strstr(output, "\"ph\":\"B\""));
	assert_null(strstr(output, "\"dur\":0.16"));
	assert_non_null(strstr(output, "\"dur\":0.006"));
	fclose(json);
}

static void check_usage(const struct probe_export_options *options, const char *message)
{
	struct probe_export *export;
	struct probe_error *error = probe_export_create(
		PROBE_EXPORT_FOLDED, options, STDOUT_FILENO, "the output", &export);

	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_USAGE);
	assert_string_equal(error->message, message);
	probe_error_free(error);
}

#define KEYS "expected argN, str(argN), norm(str(argN)), sym(argN), tid, pid, cpu, comm or probe"

static void test_options(void **state)
{
	static const char *const keys[9] = {"arg", "arg0", "str(arg1"};
	static const char *const stack = "ustack";
	enum probe_export_format format;

	(void)state;
	assert_true(probe_export_format("perfetto", &format));
	assert_int_equal(format, PROBE_EXPORT_TRACE_EVENT);
	assert_true(probe_export_format("ndjson", &format));
	assert_int_equal(format, PROBE_EXPORT_JSON);
	assert_false(probe_export_format("xml", &format));
	check_usage(&(struct probe_export_options){.keys = &keys[0], .key_count = 1},
		"'arg' is not a key (" KEYS ")");
	check_usage(&(struct probe_export_options){.keys = &stack, .key_count = 1},
		"'ustack' is a key only while a program runs: probectl trace -c -k ustack; "
		"probectl export -F folded --count shows stacks that were recorded");
	check_usage(&(struct probe_export_options){.keys = keys, .key_count = 9},
		"at most 8 keys can be given");
	check_usage(&(struct probe_export_options){.keys = &keys[1], .key_count = 3},
		"'str(arg1' is not a key (" KEYS ")");
	check_usage(&(struct probe_export_options){.match = "arg0:1"},
		"what is matched: 'arg0:1' is neither argN nor argN:argN (of begin and end)");
}

/* No format contains control characters, neither in ASCII nor in UTF-8. */
static void test_terminal(void **state)
{
	static const char hostile[] = "\xc2\x9b"
				      "2J\x1b]0;x\a\x7f\xc2\x80\xc3\xa9";
	const struct probe_value args[] = {
		{.kind = PROBE_VALUE_STRING, .bytes = hostile, .length = sizeof(hostile) - 1},
		{.kind = PROBE_VALUE_SIGNED, .i = 1}};
	const struct probe_event event = {.time_ns = 5,
		.pid = 1,
		.tid = 1,
		.comm = hostile,
		.provider = hostile,
		.name = hostile,
		.args = args,
		.arg_count = 2};
	static const char *const key = "str(arg0)";
	const struct probe_export_options options = {.hits = true, .keys = &key, .key_count = 1};
	unsigned char output[4096];

	(void)state;
	for (enum probe_export_format i = PROBE_EXPORT_JSON; i <= PROBE_EXPORT_FLAMEGRAPH; i++) {
		FILE *file = tmpfile();
		struct probe_export *export;
		ssize_t length;

		assert_non_null(file);
		assert_null(probe_export_create(i, &options, fileno(file), "file", &export));
		assert_null(probe_export_event(export, &event));
		assert_null(probe_export_finish(export));
		probe_export_free(export);
		length = pread(fileno(file), output, sizeof(output), 0);
		assert_true(length > 0);
		assert_non_null(memmem(output, (size_t)length, "\xc3\xa9", 2));
		for (ssize_t k = 0; k < length; k++) {
			assert_true(output[k] >= ' ' || output[k] == '\n' || output[k] == '\r');
			assert_true(output[k] != 0x7f);
			assert_false(output[k] == 0xc2 && output[k + 1] < 0xa0);
		}
		fclose(file);
	}
}

static void test_no_pairs(void **state)
{
	struct probe_export *export;
	struct probe_error *error;

	(void)state;
	assert_null(probe_export_create(PROBE_EXPORT_FOLDED, &(struct probe_export_options){0},
		STDOUT_FILENO, "the output", &export));
	error = probe_export_finish(export);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	probe_error_free(error);
	probe_export_free(export);
}

static void check_not_found(const struct probe_export_options *options, const char *message)
{
	static const struct probe_value args[] = {NUMBER(1)};
	const struct probe_event event = {
		.provider = "db", .name = "x", .comm = "db", .args = args, .arg_count = 1};
	FILE *file = tmpfile();
	struct probe_export *export;
	struct probe_error *error;

	assert_non_null(file);
	assert_null(probe_export_create(
		PROBE_EXPORT_FOLDED, options, fileno(file), "the file", &export));
	assert_null(probe_export_event(export, &event));
	error = probe_export_finish(export);
	assert_non_null(error);
	assert_int_equal(error->code, PROBE_ERROR_NOT_FOUND);
	assert_string_equal(error->message, message);
	probe_error_free(error);
	probe_export_free(export);
	fclose(file);
}

/* Each key has to exist: the others do not stand for it. */
static void test_no_such_key(void **state)
{
	static const char *const keys[] = {"arg0", "tid", "str(arg0)"};

	(void)state;
	check_not_found(&(struct probe_export_options){.hits = true, .keys = keys, .key_count = 3},
		"no hit has a value for the key 'str(arg0)'");
	check_not_found(&(struct probe_export_options){.hits = true, .match = "arg1:arg0"},
		"no hit has a value to match by 'arg1:arg0'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_csv),
		cmocka_unit_test(test_folded),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_flamegraph),
		cmocka_unit_test(test_trace_event),
		cmocka_unit_test(test_from_json),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_terminal),
		cmocka_unit_test(test_no_pairs),
		cmocka_unit_test(test_no_such_key),
	};

	return cmocka_run_group_tests(tests, record_make, record_remove);
}
