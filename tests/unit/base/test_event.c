/* SPDX-License-Identifier: MIT */
/* Packed events: what comes out is what went in; one that was damaged leads nowhere else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "libprobe/base/event.h"

static const struct probe_value args[] = {
	{.kind = PROBE_VALUE_SIGNED, .i = -7},
	{.kind = PROBE_VALUE_STRING, .bytes = "bytes", .length = 5},
};
static const struct probe_frame leaf = {.ip = 0x1010,
	.module = "/bin/app",
	.symbol = "leaf",
	.offset = 16,
	.function = 0x1000,
	.file = "/src/app.c",
	.line = 7};
static const struct probe_frame bare = {.ip = 0x2020, .offset = 0x2020};
static const struct probe_frame *const frames[] = {&leaf, &bare};
static const struct probe_stack stack = {frames, 2, PROBE_STACK_TRUNCATED};
static const struct probe_event event = {
	.time_ns = 5,
	.provider = "p",
	.name = "n",
	.pid = 1,
	.tid = 2,
	.args = args,
	.arg_count = 2,
	.stack = &stack,
	.texts = 9,
};

/* In memory of exactly its size, elsewhere than where it was packed. */
static void *packed(size_t *size_ret)
{
	size_t size = event_packed_size(&event);
	void *first = malloc(size), *moved = malloc(size);

	assert_non_null(first);
	assert_non_null(moved);
	event_pack(&event, first);
	memcpy(moved, first, size);
	free(first);
	*size_ret = size;
	return moved;
}

static void same_text(const char *got, const char *want)
{
	if (want)
		assert_string_equal(got, want);
	else
		assert_null(got);
}

static void comes_out_as_it_went_in(void **state)
{
	size_t size;
	void *block = packed(&size);
	const struct probe_event *got = event_unpack(block, size);

	(void)state;
	assert_non_null(got);
	assert_string_equal(got->name, "n");
	assert_int_equal(got->texts, 0); /* other events may come to the same place */
	assert_null(got->comm);
	assert_int_equal(got->args[0].i, -7);
	assert_memory_equal(got->args[1].bytes, "bytes", 5);
	assert_int_equal(got->stack->count, 2);
	assert_int_equal(got->stack->end, PROBE_STACK_TRUNCATED);
	for (size_t i = 0; i < 2; i++) {
		const struct probe_frame *frame = got->stack->frames[i];

		assert_int_equal(frame->ip, frames[i]->ip);
		assert_int_equal(frame->offset, frames[i]->offset);
		assert_int_equal(frame->function, frames[i]->function);
		assert_int_equal(frame->line, frames[i]->line);
		same_text(frame->module, frames[i]->module);
		same_text(frame->symbol, frames[i]->symbol);
		same_text(frame->file, frames[i]->file);
	}
	free(block);
}

/* Any byte may be another: then it is refused, or everything is still inside the block. */
static void damage_is_refused(void **state)
{
	size_t size, refused = 0;
	char *block = packed(&size);

	(void)state;
	for (size_t at = 0; at < size; at++) {
		static const unsigned char bits[] = {0x01, 0x80, 0xff};

		for (size_t b = 0; b < sizeof(bits); b++) {
			char *copy = malloc(size);
			const struct probe_event *got;
			size_t length = 0;

			assert_non_null(copy);
			memcpy(copy, block, size);
			copy[at] = (char)(copy[at] ^ bits[b]);
			got = event_unpack(copy, size);
			refused += !got;
			for (size_t i = 0; got && got->stack && i < got->stack->count; i++) {
				const struct probe_frame *frame = got->stack->frames[i];

				assert_in_range((uintptr_t)frame, (uintptr_t)copy,
					(uintptr_t)copy + size - sizeof(*frame));
				length += frame->module ? strlen(frame->module) : 0;
				length += frame->symbol ? strlen(frame->symbol) : 0;
				length += frame->file ? strlen(frame->file) : 0;
			}
			assert_true(length < 3 * 2 * size);
			free(copy);
		}
	}
	assert_true(refused > 20);
	free(block);
}

/* One that ends anywhere before its end is refused. */
static void a_part_is_refused(void **state)
{
	size_t size;
	char *block = packed(&size);

	(void)state;
	for (size_t part = 0; part + 8 < size; part += 8) {
		char *copy = malloc(part + 1);

		assert_non_null(copy);
		memcpy(copy, block, part);
		assert_null(event_unpack(copy, part));
		free(copy);
	}
	free(block);
}

/* A begin lies behind its end, and nowhere in it: a part of the end would become pointers twice. */
static void begins_lie_behind_their_ends(void **state)
{
	const struct probe_event begin = {.time_ns = 3, .provider = "p", .name = "b", .comm = "c"};
	const struct probe_event end = {
		.time_ns = 5, .provider = "p", .name = "e", .begin = &begin, .duration_ns = 2};
	size_t size = event_packed_size(&end);
	char *block = malloc(size), *copy = malloc(size);
	const struct probe_event *got;

	(void)state;
	assert_non_null(block);
	assert_non_null(copy);
	event_pack(&end, block);
	memcpy(copy, block, size);
	got = event_unpack(copy, size);
	assert_non_null(got);
	assert_string_equal(got->name, "e");
	assert_int_equal(got->duration_ns, 2);
	assert_string_equal(got->begin->name, "b");
	assert_string_equal(got->begin->comm, "c");
	assert_null(got->begin->begin);
	for (size_t at = 8; at < size + 8; at += 8) {
		struct probe_event *damaged = (struct probe_event *)copy;

		memcpy(copy, block, size);
		/* What a begin in the middle of it would find is as good as can be. */
		memset(damaged + 1, 0, (uintptr_t)damaged->begin - sizeof(*damaged));
		damaged->kind = PROBE_EVENT_LOST;
		damaged->provider = damaged->name = NULL;
		damaged->begin = (const struct probe_event *)at;
		got = event_unpack(copy, size);
		assert_true(!got || (const char *)got->begin >= copy + sizeof(*got));
	}
	free(block);
	free(copy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_out_as_it_went_in),
		cmocka_unit_test(damage_is_refused),
		cmocka_unit_test(a_part_is_refused),
		cmocka_unit_test(begins_lie_behind_their_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
