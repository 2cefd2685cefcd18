/* SPDX-License-Identifier: MIT */
/* The parts of streams, without a target: sets, the queue, limits, and a log's index. */
#include <errno.h>
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

#include "libprobe/stream/stream.h"
#include "tests/unit/stream/stream_live.h"

/* ---- Sets --------------------------------------------------------------------------------------
 */

static bool has(const struct probe_stream_set *set, uint32_t type)
{
	bool ret;

	live_ok(probe_stream_set_has(set, type, &ret));
	return ret;
}

static void test_sets(void **state)
{
	struct probe_stream_set set = {0}, other;
	struct probe_value value;

	(void)state;
	for (uint32_t i = 0; i < PROBE_STREAM_TYPES_END; i++)
		assert_false(has(&set, i));
	live_ok(probe_stream_set_put(&set, PROBE_STREAM_TYPES_END - 1, true));
	live_ok(probe_stream_set_put(&set, PROBE_STREAM_TYPES_END - 1, true));
	assert_true(has(&set, PROBE_STREAM_TYPES_END - 1));
	value = stream_set_value(&set);
	assert_int_equal(value.length, sizeof(set));
	live_ok(probe_stream_set_put(&set, PROBE_STREAM_TYPES_END - 1, false));
	live_ok(probe_stream_set_put(&set, PROBE_STREAM_STOP, false));
	assert_int_equal(stream_set_value(&set).length, 0);
	live_ok(probe_stream_set_fill(&set, PROBE_STREAM_OWN_TYPES));
	assert_true(has(&set, PROBE_STREAM_ERROR) && has(&set, PROBE_STREAM_FLUSH_STOP));
	assert_false(has(&set, PROBE_STREAM_UNNAMED) || has(&set, 100));
	value = stream_set_value(&set);
	assert_int_equal(value.length, 1);
	live_ok(probe_stream_set_read(&value, &other));
	assert_memory_equal(&set, &other, sizeof(set));
	live_ok(probe_stream_set_fill(&set, PROBE_STREAM_ALL_TYPES));
	assert_true(has(&set, 0) && has(&set, PROBE_STREAM_TYPES_END - 1));
	live_ok(probe_stream_set_fill(&set, PROBE_STREAM_WOPID_TYPES));
	assert_int_equal(stream_set_value(&set).length, 0);
	is_error(probe_stream_set_fill(&set, (enum probe_stream_fill)7), EINVAL);
	is_error(probe_stream_set_put(&set, PROBE_STREAM_TYPES_END, true), EINVAL);
	is_error(probe_stream_set_put(&set, UINT32_MAX, false), EINVAL);
	is_error(probe_stream_set_has(&set, PROBE_STREAM_TYPES_END, &(bool){0}), EINVAL);
	value.length = sizeof(set) + 1;
	is_error(probe_stream_set_read(&value, &other), EINVAL);
}

/* ---- Names -------------------------------------------------------------------------------------
 */

static void test_names(void **state)
{
	char longer[PROBE_STREAM_TYPE_NAME_MAX + 1];
	struct stream_types *types;
	uint32_t a, b;

	(void)state;
	live_ok(stream_types_create(&types));
	live_ok(stream_types_of_probe(types, "p", "n", &a));
	live_ok(stream_types_of_name(types, "p:n", &b));
	assert_int_equal(a, b);
	assert_string_equal(types->types[a].provider, "p");
	assert_string_equal(types->types[a].name, "n");
	live_ok(stream_types_of_name(types, "alone", &b));
	assert_int_not_equal(a, b);
	assert_string_equal(types->types[b].provider, "");
	assert_string_equal(types->types[b].name, "alone");
	memset(longer, 'n', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	live_ok(stream_types_of_probe(types, "posix_trace", "posix_trace_unnamed_userevent", &b));
	assert_int_equal(b, PROBE_STREAM_UNNAMED);
	live_ok(stream_types_of_probe(types, "p", longer, &b));
	assert_int_equal(b, PROBE_STREAM_UNNAMED);
	assert_int_equal(system_event_type("posix_trace", "resume"), PROBE_STREAM_RESUME);
	assert_int_equal(system_event_type("posix_trace", "event"), PROBE_STREAM_SYSTEM_TYPES);
	assert_int_equal(system_event_type("other", "resume"), PROBE_STREAM_SYSTEM_TYPES);
	stream_types_free(types);
}

/* ---- The queue ---------------------------------------------------------------------------------
 */

static struct probe_value text(const char *bytes)
{
	return (struct probe_value){
		.kind = PROBE_VALUE_STRING, .bytes = bytes, .length = strlen(bytes)};
}

/* Events of all sizes, into memory of all sizes, at all alignments: no byte is outside. */
static void test_queue(void **state)
{
	const struct probe_value args[] = {{.kind = PROBE_VALUE_UNSIGNED, .u = 7}, text("hello"),
		{.kind = PROBE_VALUE_TEXT, .u = 1, .bytes = "yes", .length = 3},
		{.kind = PROBE_VALUE_NULL}};
	enum { COUNT = 4, BYTES = COUNT * sizeof(struct probe_value) + 8, MARGIN = 16 };
	struct stream_item item = {.type = PROBE_STREAM_UNNAMED,
		.event = {.args = args, .arg_count = COUNT, .comm = "thread"}};
	struct buffer queue = {0};
	struct stream_types *types;
	_Alignas(16) char memory[BYTES + 64 + 2 * MARGIN];
	struct probe_stream_event event;

	(void)state;
	live_ok(stream_types_create(&types));
	for (size_t size = 0; size <= BYTES + 32; size++)
		for (size_t skip = 0; skip < 8; skip += 4) {
			char *data = memory + MARGIN + skip;
			bool whole = size >= BYTES + (skip ? 4 : 0);

			memset(memory, 0x55, sizeof(memory));
			live_ok(stream_queue_put(&queue, &item));
			assert_true(stream_queue_take(&queue, types, &event, data, size));
			assert_int_equal(event.truncation,
				whole ? PROBE_STREAM_WHOLE : PROBE_STREAM_TRUNCATED_READ);
			assert_true(event.data_used <= size);
			assert_int_equal(data[size], 0x55);
			assert_int_equal(data[-1], 0x55);
			for (size_t i = 0; i < event.event.arg_count; i++)
				assert_true(
					event.event.args[i].kind < PROBE_VALUE_STRING ||
					event.event.args[i].bytes + event.event.args[i].length <=
						data + size);
			if (!whole)
				continue;
			assert_memory_equal(event.event.args[1].bytes, "hello", 5);
			assert_memory_equal(event.event.args[2].bytes, "yes", 3);
			if (size >= BYTES + 4 + sizeof("thread"))
				assert_string_equal(event.event.comm, "thread");
		}
	assert_false(stream_queue_take(&queue, types, &event, NULL, 0));
	/* In order, whatever the amount. */
	for (uint64_t i = 0; i < 20000; i++) {
		item.event.time_ns = i;
		live_ok(stream_queue_put(&queue, &item));
		if (i % 3 == 2) {
			assert_true(stream_queue_take(
				&queue, types, &event, memory + MARGIN, BYTES + 32));
			assert_int_equal(event.event.time_ns, i / 3);
			assert_memory_equal(event.event.args[1].bytes, "hello", 5);
		}
	}
	buffer_deinit(&queue);
	stream_types_free(types);
}

static void test_limit(void **state)
{
	const struct probe_value args[] = {{.kind = PROBE_VALUE_UNSIGNED, .u = 7}, text("hello"),
		{.kind = PROBE_VALUE_TEXT, .u = 1, .bytes = "yes", .length = 3},
		{.kind = PROBE_VALUE_STRING, .bytes = "x", .length = 1, .truncated = true}};
	struct probe_value to[4];
	bool truncated;

	(void)state;
	assert_int_equal(stream_limit(args, 3, 24, to, &truncated), 3);
	assert_false(truncated);
	assert_int_equal(stream_limit(args, 4, 25, to, &truncated), 4);
	assert_true(truncated); /* when it was recorded */
	assert_int_equal(stream_limit(args, 3, 23, to, &truncated), 3);
	assert_true(truncated && to[2].truncated && to[2].length == 2);
	assert_int_equal(stream_limit(args, 3, 20, to, &truncated), 2);
	assert_true(truncated && !to[1].truncated);
	assert_int_equal(stream_limit(args, 3, 10, to, &truncated), 2);
	assert_true(truncated && to[1].length == 2);
	assert_int_equal(stream_limit(args, 3, 7, to, &truncated), 0);
	assert_true(truncated);
}

/* ---- The index of a log --------------------------------------------------------- */

static void write_file(const char *folder, const char *text_of_it)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/.stream", folder);
	file = fopen(path, "we");
	assert_non_null(file);
	fputs(text_of_it, file);
	fclose(file);
}

static struct probe_error *read_index(const char *folder, struct stream_index *index)
{
	*index = (struct stream_index){0};
	live_ok(stream_types_create(&index->types));
	return stream_index_read(folder, index);
}

#define FIRST "probectl-stream 1\n"
static void test_index(void **state)
{
	static const char *const bad[] = {"", "x\n", "probectl-stream 2\n", FIRST "type\n",
		FIRST "type 17 a", FIRST "type 18 a\n", FIRST "type 17 \n", FIRST "type 17 %0\n",
		FIRST "type 17 %00\n", FIRST "type 17 a\ntype 18 a\n", FIRST "type -1 a\n",
		FIRST "status 1 2 3\n", FIRST "status 1 0 0 0 0 0 0 99999999999999999999\n",
		FIRST "attributes 1 1 1 1 9 0 0 0 0 0\n", FIRST "attributes 1 1 1 1 1 0 9 0 0 0\n"};
	char folder[] = "/tmp/probectl-stream.XXXXXX", path[64], draft[64], other[64];
	struct stream_index index = {.attributes = {.created_ns = 12,
					     .clock_resolution_ns = 1,
					     .version = "v 1",
					     .user_event_bytes = 5},
		.status = {.overrun = true, .flush_error = ENOSPC, .lost = 9, .flushed = 77}};
	struct stream_index read;
	struct stat status;
	uint32_t type;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/.stream", folder);
	live_ok(read_index(folder, &read)); /* from a record that is not a log */
	assert_int_equal(read.attributes.created_ns, 0);
	stream_index_deinit(&read);

	index.attributes.options = (struct probe_stream_options){.name = "a\nb%c \xff",
		.stream_bytes = 100,
		.policy = PROBE_STREAM_FLUSH,
		.inherit = true,
		.log_policy = PROBE_STREAM_LOG_APPEND,
		.log_bytes = UINT64_MAX};
	live_ok(stream_types_create(&index.types));
	live_ok(stream_types_of_probe(index.types, "p", "n\n", &type));
	live_ok(stream_types_of_name(index.types, "q:\x7f r", &type));
	/* In a folder where another user plants links. */
	write_file(folder, "mine");
	snprintf(draft, sizeof(draft), "%s/.stream.new", folder);
	snprintf(other, sizeof(other), "%s/other", folder);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(link(other, draft), 0);
	live_ok(stream_index_write(folder, &index));
	assert_int_equal(stat(other, &status), 0);
	assert_int_equal(status.st_size, strlen("mine"));
	assert_int_equal(unlink(other), 0);
	live_ok(read_index(folder, &read));
	assert_string_equal(read.attributes.options.name, "a\nb%c \xff");
	assert_string_equal(read.attributes.version, "v 1");
	assert_int_equal(read.attributes.created_ns, 12);
	assert_int_equal(read.attributes.user_event_bytes, 5);
	assert_int_equal(read.attributes.options.policy, PROBE_STREAM_FLUSH);
	assert_int_equal(read.attributes.options.log_policy, PROBE_STREAM_LOG_APPEND);
	assert_true(read.attributes.options.inherit);
	assert_true(read.attributes.options.log_bytes == UINT64_MAX);
	assert_memory_equal(&read.status, &index.status, sizeof(read.status));
	assert_int_equal(read.types->next, index.types->next);
	assert_string_equal(read.types->types[type].text, "q:\x7f r");
	stream_index_deinit(&read);

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		write_file(folder, bad[i]);
		is_error(read_index(folder, &read), EINVAL);
		stream_index_deinit(&read);
	}
	write_file(folder, "probectl-stream 1\nlater than this one\n");
	live_ok(read_index(folder, &read));
	stream_index_deinit(&read);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0); /* does not wait for a writer */
	is_error(read_index(folder, &read), EINVAL);
	stream_index_deinit(&read);
	unlink(path);
	assert_int_equal(rmdir(folder), 0);
	is_error(stream_index_write(folder, &index), ENOENT);
	stream_types_free(index.types);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sets),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_limit),
		cmocka_unit_test(test_index),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
