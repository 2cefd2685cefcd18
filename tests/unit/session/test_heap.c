/* SPDX-License-Identifier: MIT */
/* Memory by call stack: what is allocated, freed, lost, and shown of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/heap.h"
#include "probe/sink.h"

static const struct probe_session_probe alloc = {
	.provider = "app", .name = "alloc", .role = PROBE_ROLE_BEGIN};
static const struct probe_session_probe release = {
	.provider = "app", .name = "free", .role = PROBE_ROLE_END};

static const struct probe_frame left = {.ip = 0x1200, .module = "/bin/app", .symbol = "left"},
				right = {.ip = 0x1300, .module = "/bin/app", .symbol = "right"},
				outer = {.ip = 0x1000, .module = "/bin/app", .symbol = "main"};

static const struct probe_stack by_left = {(const struct probe_frame *const[]){&left, &outer}, 2,
					PROBE_STACK_WHOLE},
				by_right = {(const struct probe_frame *const[]){&right, &outer}, 2,
					PROBE_STACK_WHOLE};

/* Sessions are told from each other by their addresses alone. */
static const char places[2];
#define SESSION(n) ((const struct probe_session *)(const void *)&places[n])

static struct probe_heap *new_heap(void)
{
	struct probe_heap *heap;

	assert_null(probe_heap_create(&heap));
	return heap;
}

static void add(struct probe_heap *heap, int session, pid_t pid,
	const struct probe_session_probe *probe, const struct probe_stack *stack,
	const uint64_t *numbers, size_t count)
{
	struct probe_value args[3];
	struct probe_hit hit = {.pid = pid, .args = args, .arg_count = count, .stack = stack};

	for (size_t i = 0; i < count; i++)
		args[i] = (struct probe_value){.kind = PROBE_VALUE_UNSIGNED, .u = numbers[i]};
	assert_null(probe_heap_add(heap, SESSION(session), probe, &hit, "app"));
}

#define ALLOC(heap, stack, ...)                                                                    \
	add(heap, 0, 1, &alloc, &(stack), (const uint64_t[]){__VA_ARGS__},                         \
		sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#define FREE(heap, pointer) add(heap, 0, 1, &release, NULL, (const uint64_t[]){pointer}, 1)

/* "left TOTAL/N LIVE/N; right ..." in the order of the rows. */
static void shows(const struct probe_heap *heap, bool live, bool is_interval, const char *expected)
{
	struct probe_stacks_row *rows;
	char text[512] = "";
	size_t count, length = 0;

	assert_null(probe_heap_rows(heap, live, is_interval, &rows, &count));
	for (size_t i = 0; i < count; i++) {
		const struct probe_stacks_row *row = &rows[i];

		assert_true(row->is_heap);
		assert_int_equal(row->count, live ? row->live_bytes : row->total_bytes);
		length += (size_t)snprintf(text + length, sizeof(text) - length,
			"%s%s %llu/%llu %llu/%llu", i ? "; " : "",
			row->stack.count ? row->stack.frames[0]->symbol : "?",
			(unsigned long long)row->total_bytes, (unsigned long long)row->total_count,
			(unsigned long long)row->live_bytes, (unsigned long long)row->live_count);
	}
	free(rows);
	assert_string_equal(text, expected);
}

static void doubts_are(const struct probe_heap *heap, struct probe_heap_doubts expected)
{
	struct probe_heap_doubts doubts = probe_heap_doubts(heap);

	assert_memory_equal(&doubts, &expected, sizeof(doubts));
}

static void what_is_freed_is_not_live(void **state)
{
	struct probe_heap *heap = new_heap();

	(void)state;
	ALLOC(heap, by_left, 0x10, 100);
	ALLOC(heap, by_left, 0x20, 200);
	ALLOC(heap, by_right, 0x30, 250);
	FREE(heap, 0x20);
	shows(heap, true, false, "right 250/1 250/1; left 300/2 100/1");
	shows(heap, false, false, "left 300/2 100/1; right 250/1 250/1");
	FREE(heap, 0x10);
	FREE(heap, 0x30);
	shows(heap, false, false, "left 300/2 0/0; right 250/1 0/0");
	/* The same place again, by others. */
	ALLOC(heap, by_right, 0x10, 1);
	shows(heap, true, false, "right 251/2 1/1; left 300/2 0/0");
	doubts_are(heap, (struct probe_heap_doubts){0});
	probe_heap_free(heap);
	probe_heap_free(NULL);
}

static void samples_stand_for_their_weight(void **state)
{
	struct probe_heap *heap = new_heap();

	(void)state;
	ALLOC(heap, by_left, 0x10, 100, 524288);
	ALLOC(heap, by_left, 0x20, 1 << 20, 1 << 21);
	FREE(heap, 0x10);
	shows(heap, true, false, "left 2621440/2 2097152/1");
	probe_heap_free(heap);
}

static void what_was_not_seen_is_counted(void **state)
{
	const struct probe_value text = {.kind = PROBE_VALUE_STRING, .bytes = "x", .length = 1};
	const struct probe_hit odd = {.pid = 1, .args = &text, .arg_count = 1};
	struct probe_heap *heap = new_heap();

	(void)state;
	/* A free before anything, and one twice. */
	FREE(heap, 0x10);
	ALLOC(heap, by_left, 0x10, 100);
	FREE(heap, 0x10);
	FREE(heap, 0x10);
	doubts_are(heap, (struct probe_heap_doubts){.unknown_frees = 2});
	/* A free was lost: the old block is not live any more. */
	ALLOC(heap, by_left, 0x10, 100);
	ALLOC(heap, by_right, 0x10, 50);
	shows(heap, true, false, "right 50/1 50/1; left 200/2 0/0");
	doubts_are(heap, (struct probe_heap_doubts){.unknown_frees = 2, .unfreed = 1});
	/* No memory is neither allocated nor freed. */
	ALLOC(heap, by_left, 0, 100);
	FREE(heap, 0);
	doubts_are(heap, (struct probe_heap_doubts){.unknown_frees = 2, .unfreed = 1});
	/* No bytes; no pointer. */
	ALLOC(heap, by_left, 0x40);
	assert_null(probe_heap_add(heap, SESSION(0), &alloc, &odd, NULL));
	assert_null(probe_heap_add(heap, SESSION(0), &release, &odd, NULL));
	doubts_are(heap,
		(struct probe_heap_doubts){.unknown_frees = 2, .unfreed = 1, .unreadable = 3});
	shows(heap, true, false, "right 50/1 50/1; left 200/2 0/0");
	probe_heap_free(heap);
}

static void processes_have_pointers_of_their_own(void **state)
{
	const uint64_t block[] = {0x10, 100};
	struct probe_heap *heap = new_heap();

	(void)state;
	add(heap, 0, 1, &alloc, &by_left, block, 2);
	add(heap, 0, 2, &alloc, &by_left, block, 2);
	add(heap, 1, 1, &alloc, &by_left, block, 2);
	shows(heap, true, false, "left 300/3 300/3");
	add(heap, 1, 1, &release, NULL, block, 1);
	add(heap, 1, 2, &release, NULL, block, 1);
	shows(heap, true, false, "left 300/3 200/2");
	doubts_are(heap, (struct probe_heap_doubts){.unknown_frees = 1});
	probe_heap_free(heap);
}

/* Many, so that the table grows and holes are closed; compared with a plain array. */
/* What a session that is freed had not given back stays live, and its pointers are forgotten. */
static void sessions_are_forgotten(void **state)
{
	enum {
		BLOCKS = 700
	}; /* close to half of the first table: many are not where they belong */
	struct probe_heap *heap = new_heap();

	(void)state;
	for (uint64_t i = 0; i < BLOCKS; i++)
		add(heap, (int)(i % 2), 1, &alloc, &by_left, (const uint64_t[]){16 + i * 16, 1}, 2);
	probe_heap_forget(heap, SESSION(1));
	shows(heap, true, false, "left 700/700 700/700");
	for (uint64_t i = 0; i < BLOCKS; i++)
		add(heap, (int)(i % 2), 1, &release, NULL, (const uint64_t[]){16 + i * 16}, 1);
	shows(heap, true, false, "left 700/700 350/350");
	doubts_are(heap, (struct probe_heap_doubts){.unknown_frees = BLOCKS / 2});
	probe_heap_free(heap);
}

static void many_blocks(void **state)
{
	enum { PLACES = 5000, STEPS = 200000 };
	bool *taken = calloc(PLACES, sizeof(*taken));
	struct probe_heap *heap = new_heap();
	uint64_t random = 1, live = 0, total = 0, unknown = 0;
	char text[128];

	(void)state;
	assert_non_null(taken);
	for (int i = 0; i < STEPS; i++) {
		size_t place;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		place = (size_t)(random >> 33) % PLACES;
		if (random >> 63 && !taken[place]) {
			ALLOC(heap, by_left, 0x1000 + 16 * place, 16);
			taken[place] = true;
			live++;
			total++;
		} else {
			FREE(heap, 0x1000 + 16 * place);
			unknown += !taken[place];
			live -= taken[place];
			taken[place] = false;
		}
	}
	snprintf(text, sizeof(text), "left %llu/%llu %llu/%llu", (unsigned long long)(16 * total),
		(unsigned long long)total, (unsigned long long)(16 * live),
		(unsigned long long)live);
	shows(heap, true, false, text);
	doubts_are(heap, (struct probe_heap_doubts){.unknown_frees = unknown});
	probe_heap_free(heap);
	free(taken);
}

static void intervals(void **state)
{
	struct probe_heap *heap = new_heap();

	(void)state;
	ALLOC(heap, by_left, 0x10, 100);
	ALLOC(heap, by_right, 0x20, 10);
	FREE(heap, 0x20);
	shows(heap, false, true, "left 100/1 100/1; right 10/1 0/0");
	probe_heap_mark(heap);
	/* What is live is shown again; what is neither is not. */
	shows(heap, true, true, "left 0/0 100/1");
	ALLOC(heap, by_right, 0x20, 30);
	shows(heap, false, true, "right 30/1 30/1; left 0/0 100/1");
	shows(heap, false, false, "left 100/1 100/1; right 40/2 30/1");
	probe_heap_free(heap);
}

static void prints(const struct probe_heap *heap, enum probe_sink_format format,
	const struct probe_view *view, const char *expected)
{
	struct probe_stacks_row *rows;
	struct probe_sink *sink;
	char text[4096] = "";
	FILE *file = tmpfile();
	size_t count;

	assert_non_null(file);
	assert_null(probe_sink_create(format, fileno(file), "the file", &sink));
	assert_null(probe_heap_rows(heap, view->live, false, &rows, &count));
	probe_sink_stacks(sink, rows, count, view);
	assert_null(probe_sink_flush(sink));
	rewind(file);
	assert_true(fread(text, 1, sizeof(text) - 1, file) > 0);
	assert_string_equal(text, expected);
	probe_sink_free(sink);
	free(rows);
	fclose(file);
}

static void output(void **state)
{
	struct probe_view view = {.tracer = "heap", .live = true};
	struct probe_heap *heap = new_heap();

	(void)state;
	ALLOC(heap, by_left, 0x10, 100);
	ALLOC(heap, by_right, 0x20, 300);
	FREE(heap, 0x20);
	prints(heap, PROBE_SINK_TEXT, &view,
		"app:alloc: 400 bytes allocated (2 allocations), 100 bytes live (1 allocation), "
		"1 stack\n"
		"       BYTES        %  FRAME\n"
		"         100  100.0 %  main\n"
		"         100  100.0 %  left\n");
	view.live = false;
	view.top = 1;
	prints(heap, PROBE_SINK_TEXT, &view,
		"app:alloc: 400 bytes allocated (2 allocations), 100 bytes live (1 allocation), "
		"2 stacks\n"
		"       BYTES        %  FRAME\n"
		"         300   75.0 %  main\n"
		"         300   75.0 %  right\n"
		"... 1 more stack (--top), 100 bytes\n");
	view.folded = true;
	prints(heap, PROBE_SINK_TEXT, &view, "app;main;left 100\napp;main;right 300\n");
	view.live = true;
	prints(heap, PROBE_SINK_TEXT, &view, "app;main;left 100\n");
	FREE(heap, 0x10);
	view.folded = false;
	prints(heap, PROBE_SINK_TEXT, &view,
		"app:alloc: 400 bytes allocated (2 allocations), 0 bytes live (0 allocations), "
		"0 stacks\n"
		"       BYTES        %  FRAME\n");
	probe_heap_free(heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_freed_is_not_live),
		cmocka_unit_test(samples_stand_for_their_weight),
		cmocka_unit_test(what_was_not_seen_is_counted),
		cmocka_unit_test(processes_have_pointers_of_their_own),
		cmocka_unit_test(sessions_are_forgotten),
		cmocka_unit_test(many_blocks),
		cmocka_unit_test(intervals),
		cmocka_unit_test(output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
