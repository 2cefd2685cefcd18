/* SPDX-License-Identifier: MIT */
/* Counts by call stack, and their output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sink.h"
#include "probe/stacks.h"

static const struct probe_session_probe hit = {.provider = "app", .name = "hit"};
static const struct probe_session_probe other = {.provider = "app", .name = "other"};

/* clang-format off */
static const struct probe_frame
	start = {.ip = 0x1000, .module = "/bin/app", .symbol = "_start", .offset = 0x21},
	main_a = {.ip = 0x1110, .module = "/bin/app", .symbol = "main", .offset = 0x10},
	main_b = {.ip = 0x1120, .module = "/bin/app", .symbol = "main", .offset = 0x20},
	left = {.ip = 0x1200, .module = "/bin/app", .symbol = "left", .offset = 0},
	right = {.ip = 0x1300, .module = "/bin/app", .symbol = "right", .offset = 0},
	/* Two places in one function without a name. */
	bare_a = {.ip = 0x7010, .module = "/lib/x;y.so", .offset = 0x10, .function = 0x8},
	bare_b = {.ip = 0x7020, .module = "/lib/x;y.so", .offset = 0x20, .function = 0x8},
	jit = {.ip = 0xabc123};
/* clang-format on */

#define STACK(how, ...)                                                                            \
	((struct probe_stack){.frames = (const struct probe_frame *const[]){__VA_ARGS__},          \
		.count = sizeof((const struct probe_frame *const[]){__VA_ARGS__}) /                \
			 sizeof(struct probe_frame *),                                             \
		.end = (how)})

static void add(struct probe_stacks *stacks, const struct probe_session_probe *probe,
	const char *comm, struct probe_stack stack, uint64_t count)
{
	assert_null(probe_stacks_add(stacks, probe, comm, &stack, count));
}

/* What a sink makes of them; to be freed. */
static char *shown(const struct probe_stacks *stacks, enum probe_sink_format format,
	const struct probe_view *view)
{
	struct probe_stacks_row *rows;
	struct probe_sink *sink;
	FILE *file = tmpfile();
	char *text = calloc(1, 65536);
	size_t count;

	assert_non_null(file);
	assert_non_null(text);
	assert_null(probe_sink_create(format, fileno(file), "the file", &sink));
	assert_null(probe_stacks_rows(stacks, view->is_interval, &rows, &count));
	probe_sink_stacks(sink, rows, count, view);
	assert_null(probe_sink_flush(sink));
	assert_true(pread(fileno(file), text, 65535, 0) >= 0);
	free(rows);
	probe_sink_free(sink);
	fclose(file);
	return text;
}

static void check(const struct probe_stacks *stacks, enum probe_sink_format format,
	const struct probe_view *view, const char *wanted)
{
	char *text = shown(stacks, format, view);

	assert_string_equal(text, wanted);
	free(text);
}

static struct probe_stacks *stacks_made(void)
{
	struct probe_stacks *stacks;

	assert_null(probe_stacks_create(&stacks));
	return stacks;
}

static struct probe_stacks *sample(void)
{
	struct probe_stacks *stacks = stacks_made();

	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &right, &main_a, &start), 3);
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &left, &main_a, &start), 2);
	/* From another line of main: another stack, and the same function. */
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &left, &main_b, &start), 4);
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &left, &main_b, &start), 1);
	return stacks;
}

static void a_tree_joins_what_is_called_from_the_same_functions(void **state)
{
	struct probe_stacks *stacks = sample();

	(void)state;
	check(stacks, PROBE_SINK_TEXT, &(struct probe_view){0},
		"app:hit: 10 hits, 3 stacks\n"
		"        HITS        %  FRAME\n"
		"          10  100.0 %  _start\n"
		"          10  100.0 %  main\n"
		"           7   70.0 %  - left\n"
		"           3   30.0 %  - right\n");
	check(stacks, PROBE_SINK_TEXT, &(struct probe_view){.top = 1},
		"app:hit: 10 hits, 3 stacks\n"
		"        HITS        %  FRAME\n"
		"           5   50.0 %  _start\n"
		"           5   50.0 %  main\n"
		"           5   50.0 %  left\n"
		"... 2 more stacks (--top), 5 hits\n");
	probe_stacks_free(stacks);
}

/* main was hit itself, and called left: its own hits are in its line alone. */
static void hits_within_the_tree(void **state)
{
	struct probe_stacks *stacks = stacks_made();

	(void)state;
	add(stacks, &other, NULL, STACK(PROBE_STACK_WHOLE, &main_a), 1);
	add(stacks, &other, NULL, STACK(PROBE_STACK_WHOLE, &left, &main_b), 2);
	add(stacks, &hit, NULL, STACK(PROBE_STACK_WHOLE, &jit, &bare_a, &main_b), 1);
	add(stacks, &hit, NULL, STACK(PROBE_STACK_WHOLE, &jit, &bare_b, &main_b), 5);
	check(stacks, PROBE_SINK_TEXT, &(struct probe_view){0},
		"app:hit: 6 hits, 2 stacks\n"
		"        HITS        %  FRAME\n"
		"           6  100.0 %  main\n"
		"           6  100.0 %  x:y.so+0x8\n"
		"           6  100.0 %  0xabc123\n"
		"\n"
		"app:other: 3 hits, 2 stacks\n"
		"        HITS        %  FRAME\n"
		"           3  100.0 %  main\n"
		"           2   66.7 %  left\n");
	probe_stacks_free(stacks);
}

/* A process names its generated code itself: with bytes that a terminal obeys, or that are no text.
 */
static void hostile_symbols(void **state)
{
	static const struct probe_frame evil = {.ip = 0x10,
		.symbol = "a\033[1m\xc2\x9b"
			  "2m\x9b"
			  "3m;\xc3\xa9\xc2\xa0\xc3"};
	const struct probe_view folded = {.folded = true};
	struct probe_stacks *stacks = stacks_made();

	(void)state;
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &evil), 1);
	check(stacks, PROBE_SINK_TEXT, &folded, "app;a?[1m?2m?3m:\xc3\xa9\xc2\xa0? 1\n");
	probe_stacks_free(stacks);
}

static void folded_lines(void **state)
{
	const struct probe_view folded = {.folded = true};
	struct probe_stacks *stacks = sample();

	(void)state;
	check(stacks, PROBE_SINK_TEXT, &folded,
		"app;_start;main;left 7\n"
		"app;_start;main;right 3\n");
	/* What ends a frame or a line does not get into one. */
	add(stacks, &hit, "a;b\nc", STACK(PROBE_STACK_TRUNCATED, &left, &bare_a), 1);
	add(stacks, &hit, NULL, STACK(PROBE_STACK_LOST, &left), 1);
	add(stacks, &other, "app", STACK(PROBE_STACK_WHOLE, &left, &main_a, &start), 9);
	check(stacks, PROBE_SINK_TEXT, &folded,
		"?;[unknown];left;app:hit 1\n"
		"a:b?c;[truncated];x:y.so+0x8;left;app:hit 1\n"
		"app;_start;main;left;app:hit 7\n"
		"app;_start;main;left;app:other 9\n"
		"app;_start;main;right;app:hit 3\n");
	probe_stacks_free(stacks);
}

static void json(void **state)
{
	struct probe_stacks *stacks = stacks_made();

	(void)state;
	add(stacks, &hit, "a\"b", STACK(PROBE_STACK_TRUNCATED, &left, &bare_a, &jit), 7);
	check(stacks, PROBE_SINK_JSON, &(struct probe_view){0},
		"{\"provider\":\"app\",\"name\":\"hit\",\"count\":7,\"comm\":\"a\\\"b\","
		"\"end\":\"truncated\",\"frames\":["
		"{\"ip\":\"0x1200\",\"module\":\"/bin/"
		"app\",\"symbol\":\"left\",\"offset\":\"0x0\"},"
		"{\"ip\":\"0x7010\",\"module\":\"/lib/"
		"x;y.so\",\"symbol\":null,\"offset\":\"0x10\"},"
		"{\"ip\":\"0xabc123\",\"module\":null,\"symbol\":null,\"offset\":null}],\"schema\":"
		"1}\n");
	probe_stacks_free(stacks);
}

static void intervals(void **state)
{
	const struct probe_view interval = {.folded = true, .is_interval = true};
	const struct probe_view whole = {.folded = true};
	struct probe_stacks *stacks = sample();

	(void)state;
	check(stacks, PROBE_SINK_TEXT, &interval,
		"app;_start;main;left 7\n"
		"app;_start;main;right 3\n");
	probe_stacks_mark(stacks);
	check(stacks, PROBE_SINK_TEXT, &interval, "");
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &right, &main_a, &start), 5);
	check(stacks, PROBE_SINK_TEXT, &interval, "app;_start;main;right 5\n");
	probe_stacks_mark(stacks);
	/* What was gathered in the target is read anew each time. */
	probe_stacks_clear(stacks);
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &right, &main_a, &start), 9);
	check(stacks, PROBE_SINK_TEXT, &interval, "app;_start;main;right 1\n");
	check(stacks, PROBE_SINK_TEXT, &whole, "app;_start;main;right 9\n");
	probe_stacks_free(stacks);
}

/* Programs that are loaded elsewhere have the same stacks; what the frames were made of may go. */
static void processes_share_stacks(void **state)
{
	struct probe_stacks *stacks = stacks_made();
	struct probe_frame *frames = calloc(2, sizeof(*frames));
	char *symbol = strdup("left");

	(void)state;
	assert_true(frames && symbol);
	frames[0] = left;
	frames[0].symbol = symbol;
	frames[1] = main_a;
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &frames[0], &frames[1]), 1);
	free(symbol);
	frames[0] = left;
	frames[0].ip += 0x1000;
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &frames[0], &frames[1]), 2);
	/* Another build of the file, and code that is in no file. */
	frames[0].build_id = "abcd";
	add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &frames[0], &frames[1]), 4);
	for (uint64_t i = 0; i < 2; i++) {
		frames[i] = (struct probe_frame){.ip = 0xabc123 + i, .offset = 0xabc123 + i};
		add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &frames[i]), 8 + 8 * i);
	}
	free(frames);
	check(stacks, PROBE_SINK_TEXT, &(struct probe_view){0},
		"app:hit: 31 hits, 4 stacks\n"
		"        HITS        %  FRAME\n"
		"          16   51.6 %  - 0xabc124\n"
		"           8   25.8 %  - 0xabc123\n"
		"           7   22.6 %  - main\n"
		"           7   22.6 %    left\n");
	probe_stacks_free(stacks);
}

/* More than there is room for are counted, and the others stay. */
static void too_many_stacks(void **state)
{
	enum { MANY = (1 << 17) + 1000 };
	struct probe_stacks *stacks = stacks_made();
	struct probe_frame *frames = calloc(MANY, sizeof(*frames));
	struct probe_stacks_row *rows;
	uint64_t sum = 0;
	size_t count;

	(void)state;
	assert_non_null(frames);
	for (size_t i = 0; i < MANY; i++)
		frames[i] = (struct probe_frame){.ip = 0x1000 + i, .offset = 0x1000 + i};
	for (size_t i = 0; i < 2 * MANY; i++)
		add(stacks, &hit, "app", STACK(PROBE_STACK_WHOLE, &frames[i % MANY]), 1);
	assert_int_equal(probe_stacks_left_out(stacks), 2 * 1000);
	assert_null(probe_stacks_rows(stacks, false, &rows, &count));
	assert_int_equal(count, 1 << 17);
	for (size_t i = 0; i < count; i++)
		sum += rows[i].count;
	assert_int_equal(sum, 2 << 17);
	free(rows);
	probe_stacks_free(stacks);
	free(frames);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tree_joins_what_is_called_from_the_same_functions),
		cmocka_unit_test(hits_within_the_tree),
		cmocka_unit_test(hostile_symbols),
		cmocka_unit_test(folded_lines),
		cmocka_unit_test(json),
		cmocka_unit_test(intervals),
		cmocka_unit_test(processes_share_stacks),
		cmocka_unit_test(too_many_stacks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
