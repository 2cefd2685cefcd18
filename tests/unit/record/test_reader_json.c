/* SPDX-License-Identifier: MIT */
/*
 * Reading what `probectl trace --json` prints: hits, stacks and spans come back, and mistakes are
 * named.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/reader.h"
#include "tests/unit/record/read_back.h"

static const struct probe_frame bare = {.ip = 0x2020, .offset = 0x2020};

/* A reader of a text; close *fd_ret after it. */
static struct probe_reader *text_reader(const char *text, int *fd_ret)
{
	struct probe_reader *reader;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], text, strlen(text)), strlen(text));
	close(fds[1]);
	*fd_ret = fds[0];
	assert_null(probe_reader_open_json(fds[0], "text", &reader));
	assert_int_equal(probe_reader_args_max(reader), SIZE_MAX);
	return reader;
}

static void test_json(void **state)
{
	struct probe_reader *reader;
	struct probe_event event;
	int fd;

	(void)state;
	reader = text_reader("{\"ts\":1795313982144730531,\"pid\":1,\"tid\":2,\"cpu\":3,\"comm\":"
			     "\"c\",\"provider\":\"p\",\"name\":\"n\",\"pc\":\"0x1f\",\"args\":[-2,"
			     "18446744073709551615,0.5,null,\"a\\u0000b\"],\"truncated\":[4,9]}\n"
			     "\n{\"lost\":7,\"provider\":\"p\",\"name\":\"n\"}\n{\"lost\":8}",
		&fd);
	assert_true(read_next(reader, &event));
	assert_int_equal(event.kind, PROBE_EVENT_HIT);
	assert_int_equal(event.time_ns, 1795313982144730531);
	assert_int_equal(event.pid, 1);
	assert_int_equal(event.tid, 2);
	assert_int_equal(event.cpu, 3);
	assert_int_equal(event.pc, 0x1f);
	assert_string_equal(event.comm, "c");
	assert_int_equal(event.arg_count, 5);
	check_value(&event.args[0], &(struct probe_value){.kind = PROBE_VALUE_SIGNED, .i = -2});
	check_value(&event.args[1],
		&(struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = UINT64_MAX});
	check_value(&event.args[2], &(struct probe_value){.kind = PROBE_VALUE_FLOAT, .f = 0.5});
	check_value(&event.args[3], &(struct probe_value){.kind = PROBE_VALUE_NULL});
	check_value(&event.args[4], &(struct probe_value){.kind = PROBE_VALUE_STRING,
					    .truncated = true,
					    .bytes = "a\0b",
					    .length = 3});
	assert_true(read_next(reader, &event));
	assert_int_equal(event.kind, PROBE_EVENT_LOST);
	assert_int_equal(event.lost, 7);
	assert_string_equal(event.name, "n");
	assert_true(read_next(reader, &event));
	assert_int_equal(event.lost, 8);
	assert_null(event.name);
	assert_false(read_next(reader, &event));
	probe_reader_close(reader);
	close(fd);
}

/* Texts beside their pointers; what does not fit together is skipped. */
static void test_json_named(void **state)
{
	static const char hit[] = "{\"ts\":1,\"pid\":1,\"tid\":2,\"provider\":\"p\",\"name\":\"n\","
				  "\"args\":[4096,null,7],";
	struct probe_reader *reader;
	struct probe_event event;
	char text[1024];
	int fd;

	(void)state;
	snprintf(text, sizeof(text),
		"%s\"named\":{\"b\":\"\",\"a\":\"text\"},\"named_args\":[2,0]}\n"
		"%s\"named\":{\"a\":\"x\",\"b\":7},\"named_args\":[1,0,2]}\n"
		"%s\"named\":[],\"named_args\":[0]}\n",
		hit, hit, hit);
	reader = text_reader(text, &fd);
	assert_true(read_next(reader, &event));
	assert_int_equal(event.args[0].kind, PROBE_VALUE_TEXT);
	assert_true(event.args[0].known);
	assert_int_equal(event.args[0].u, 4096);
	assert_int_equal(event.args[0].length, 4);
	assert_memory_equal(event.args[0].bytes, "text", 4);
	assert_int_equal(event.args[2].kind, PROBE_VALUE_TEXT);
	assert_int_equal(event.args[2].length, 0);
	for (int i = 0; i < 2; i++) {
		assert_true(read_next(reader, &event));
		assert_int_equal(event.args[0].kind, PROBE_VALUE_SIGNED);
		assert_int_equal(event.args[1].kind, PROBE_VALUE_NULL);
		assert_int_equal(event.args[2].kind, PROBE_VALUE_SIGNED);
	}
	assert_false(read_next(reader, &event));
	probe_reader_close(reader);
	close(fd);
}

/* As `trace --stack --json` prints them. What is no frame, or too many, is left out. */
static void test_json_stacks(void **state)
{
	static const char hit[] = "{\"ts\":1,\"pid\":1,\"tid\":2,\"provider\":\"p\",\"name\":\"n\","
				  "\"args\":[],";
	static const struct probe_frame frame = {.ip = 0x1010,
		.module = "/bin/app",
		.symbol = "leaf",
		.offset = 16,
		.file = "/src/app.c",
		.line = 7};
	const struct probe_frame *const two[] = {&frame, &bare};
	const struct probe_stack whole = {two, 2, PROBE_STACK_TRUNCATED},
				 none = {NULL, 0, PROBE_STACK_LOST};
	struct probe_reader *reader;
	struct probe_event event;
	char text[16384];
	int fd, length;

	(void)state;
	length = snprintf(text, sizeof(text),
		"%s\"stack\":\"truncated\",\"frames\":[{\"ip\":\"0x1010\",\"module\":\"/bin/app\","
		"\"symbol\":\"leaf\",\"offset\":\"0x10\",\"file\":\"/src/app.c\",\"line\":7},7,"
		"{\"ip\":\"0x2020\",\"module\":null,\"symbol\":null,\"offset\":\"0x2020\"}]}\n"
		"%s\"stack\":\"unknown\",\"frames\":[]}\n%s\"frames\":7}\n"
		"%s\"stack\":\"whole\",\"frames\":[{}",
		hit, hit, hit, hit);
	for (int i = 0; i < PROBE_FRAMES_MAX; i++)
		length += snprintf(text + length, sizeof(text) - (size_t)length, ",{}");
	snprintf(text + length, sizeof(text) - (size_t)length, "]}");
	reader = text_reader(text, &fd);
	assert_true(read_next(reader, &event));
	check_stack(event.stack, &whole);
	assert_true(read_next(reader, &event));
	check_stack(event.stack, &none);
	assert_true(read_next(reader, &event));
	assert_null(event.stack);
	assert_true(read_next(reader, &event));
	assert_int_equal(event.stack->count, PROBE_FRAMES_MAX);
	assert_int_equal(event.stack->end, PROBE_STACK_TRUNCATED);
	assert_false(read_next(reader, &event));
	probe_reader_close(reader);
	close(fd);
}

/* The begin of a span is in another thread, or has its name. */
static void test_json_span(void **state)
{
	struct probe_reader *reader;
	struct probe_event event;
	int fd;

	(void)state;
	reader = text_reader(
		"{\"ts\":900,\"pid\":1,\"tid\":2,\"cpu\":3,\"comm\":\"c\",\"provider\":\"p\","
		"\"name\":"
		"\"d\",\"args\":[5],\"duration\":801,\"begin\":{\"ts\":100,\"pid\":1,\"tid\":2,"
		"\"provider\":\"q\",\"name\":\"s\",\"args\":[\"x\",\"yy\"],\"truncated\":[1]}}\n"
		"{\"ts\":900,\"pid\":1,\"tid\":2,\"comm\":\"c\",\"provider\":\"p\",\"name\":\"d\","
		"\"args\":[],\"duration\":1,\"begin\":{\"ts\":899,\"pid\":1,\"tid\":4,\"provider\":"
		"\"q\",\"name\":\"s\",\"args\":[]}}\n"
		"{\"ts\":1000,\"pid\":1,\"tid\":2,\"provider\":\"p\",\"name\":\"d\",\"args\":[]}\n",
		&fd);
	assert_true(read_next(reader, &event));
	assert_int_equal(event.kind, PROBE_EVENT_HIT);
	assert_string_equal(event.name, "d");
	assert_int_equal(event.arg_count, 1);
	assert_int_equal(event.duration_ns, 801);
	assert_non_null(event.begin);
	assert_null(event.begin->begin);
	assert_int_equal(event.begin->time_ns, 100);
	assert_int_equal(event.begin->cpu, -1);
	assert_string_equal(event.begin->comm, "c");
	assert_string_equal(event.begin->provider, "q");
	assert_string_equal(event.begin->name, "s");
	assert_int_equal(event.begin->arg_count, 2);
	check_value(&event.begin->args[1],
		&(struct probe_value){
			.kind = PROBE_VALUE_STRING, .truncated = true, .bytes = "yy", .length = 2});
	assert_true(read_next(reader, &event));
	assert_int_equal(event.begin->tid, 4);
	assert_null(event.begin->comm);
	assert_true(read_next(reader, &event));
	assert_null(event.begin);
	assert_false(read_next(reader, &event));
	probe_reader_close(reader);
	close(fd);
}

static void test_json_refused(void **state)
{
	static const struct {
		const char *text, *message;
	} cases[] = {
		{"\n{", "text, line 2: the object does not end"},
		{"1 2\n", "text, line 1: this is not a JSON object (does the program write "},
		{"{\"a\":}\n", "text, line 1: "},
		{"{\"lost\":1}{\"lost\":2}\n",
			"text, line 1: there is more after the object: the program writes there"},
		{"{\"hits\":1}\n", "text, line 1: this is not a hit, as `probectl trace --json` "},
		{"{\"ts\":9,\"pid\":1,\"tid\":2,\"provider\":\"p\",\"name\":\"n\",\"args\":[],"
		 "\"begin\":{}}\n",
			"text, line 1: this is not a span, as `probectl trace -t span --json` "},
		{"{\"ts\":9,\"pid\":1,\"tid\":2,\"provider\":\"p\",\"name\":\"n\",\"args\":[],"
		 "\"duration\":1,\"begin\":{\"ts\":8}}\n",
			"text, line 1: this is not a hit, as `probectl trace --json` "},
		{"{\"lost\":1,\"schema\":2}\n",
			"text, line 1: a newer probectl has written this (schema 2; this one "},
		{"[[[[[[[[[[[[[[[[",
			"text, line 1: this is not JSON, as `probectl trace --json` prints it "
			"(nesting too deep)"},
		{"loop:nop 1\n",
			"text, line 1: this is not JSON, as `probectl trace --json` prints it ("},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct probe_reader *reader;
		struct probe_event event;
		struct probe_error *error;
		bool there;
		int fd;

		reader = text_reader(cases[i].text, &fd);
		error = probe_reader_next(reader, &event, &there);
		assert_non_null(error);
		assert_int_equal(error->code, PROBE_ERROR_FORMAT);
		if (strncmp(error->message, cases[i].message, strlen(cases[i].message)) != 0)
			fail_msg("not '%s': %s", cases[i].message, error->message);
		probe_error_free(error);
		probe_reader_close(reader);
		close(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_named),
		cmocka_unit_test(test_json_stacks),
		cmocka_unit_test(test_json_span),
		cmocka_unit_test(test_json_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
