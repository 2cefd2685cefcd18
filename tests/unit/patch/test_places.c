/* SPDX-License-Identifier: MIT */
/* Which words are places, and what is recognised around them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "arch/process.h"
#include "libprobe/patch/patch.h"
#include "tests/unit/skip.h"

enum { WORDS = 512, FIRST = 0x400000 };

static const uint64_t selectors = UINT64_C(0x2b) << 48 | 0x33;

static struct seen {
	uint64_t words[WORDS], at[WORDS], images[WORDS];
	struct place_image image;
	size_t word_count, image_count, saved; /* as program counters of images */
} seen;

static bool on_word(void *data, uint64_t at, uint64_t word, bool is_context)
{
	struct seen *s = data;

	s->at[s->word_count] = at;
	s->words[s->word_count++] = word;
	s->saved += is_context;
	return true;
}

static bool on_image(void *data, const struct place_image *image)
{
	struct seen *s = data;

	s->images[s->image_count++] = image->at;
	s->image = *image;
	return true;
}

/* Its code. */
static struct mapping code = {.start = 0x1000, .end = 0x2000, .readable = true, .executable = true};
static const struct maps maps = {&code, 1, NULL};
static const struct place_visitor visitor = {&seen, on_word, on_image, .maps = &maps};
static const struct place_visitor only_images = {&seen, on_word, on_image, true, &maps};

static void scan(const struct places *places, const uint64_t *words, size_t count, size_t step)
{
	seen = (struct seen){0};
	assert_true(
		places_scan(places, FIRST, (const uint8_t *)words, count * 8, step * 8, &visitor));
}

static void test_have(void **state)
{
	struct places p = {0};

	(void)state;
	assert_false(places_have(&p, 0));
	places_prepare(&p);
	assert_false(places_have(&p, 0));
	assert_true(places_add(&p, 5, 5)); /* nothing */
	assert_true(places_add(&p, 0x2000, 0x2010));
	assert_true(places_add(&p, 0x1000, 0x1001));
	assert_true(places_add(&p, 0x2008, 0x2100));
	assert_true(places_add(&p, 0x7fff00000000, 0x7fff00000040));
	places_prepare(&p);
	assert_int_equal(p.count, 3);
	assert_false(places_have(&p, 0xfff));
	assert_true(places_have(&p, 0x1000));
	assert_false(places_have(&p, 0x1001));
	assert_false(places_have(&p, 0x1fff));
	assert_true(places_have(&p, 0x2000));
	assert_true(places_have(&p, 0x20ff));
	assert_false(places_have(&p, 0x2100));
	assert_true(places_have(&p, 0x7fff0000003f));
	assert_false(places_have(&p, 0x7fff00000040));
	assert_false(places_have(&p, UINT64_MAX));
	places_deinit(&p);
}

/* Each word at its place, in blocks of any length; words past the step belong to the next one. */
static void test_words(void **state)
{
	struct places p = {0};
	uint64_t words[WORDS] = {0};

	(void)state;
	assert_true(places_add(&p, 0x1000, 0x1100));
	assert_true(places_add(&p, 0x9000, 0x9001));
	places_prepare(&p);
	for (size_t count = 1; count < 40; count++)
		for (size_t i = 0; i < count; i++) {
			words[i] = 0x10ff;
			scan(&p, words, count, count);
			assert_int_equal(seen.word_count, 1);
			assert_int_equal(seen.words[0], 0x10ff);
			assert_int_equal(seen.at[0], FIRST + i * 8);
			scan(&p, words, count, i);
			assert_int_equal(seen.word_count, 0);
			words[i] = 0x5000; /* between them */
			scan(&p, words, count, count);
			assert_int_equal(seen.word_count, 0);
			words[i] = 0;
		}
	places_deinit(&p);
}

enum { IMAGE_BYTES = 240 }; /* of it, up to behind the address of the state */

static void need_layout(void)
{
	if (arch_process() != &x86_64_process)
		skip_because("these frames are of x86-64: test_search has this machine's");
}

/* A frame as the kernel makes it, whatever it returns to. */
static void make_frame(uint64_t *words, uint64_t rsp, uint64_t rip)
{
	words[0] = 0xdeadbeef;
	words[3] = 0x700000;
	words[4] = 0;
	words[5] = 0x8000;
	words[21] = rsp;
	words[22] = rip;
	words[24] = selectors;
	words[29] = 0x401000;
}

static void test_frames(void **state)
{
	struct places p = {0};
	uint64_t words[WORDS] = {0};

	(void)state;
	need_layout();
	assert_true(places_add(&p, 0x1000, 0x1100));
	places_prepare(&p);
	make_frame(words + 100, 0x12340, 0x1010);
	scan(&p, words, WORDS, WORDS);
	assert_int_equal(seen.word_count, 1);
	assert_int_equal(seen.saved, 1);
	assert_int_equal(seen.image_count, 1);
	assert_int_equal(seen.image.at, FIRST + 800);
	assert_int_equal(seen.image.sp, 0x12340);
	assert_int_equal(seen.image.pc, 0x1010);
	assert_int_equal(seen.image.stack, 0x700000);
	assert_int_equal(seen.image.stack_end, 0x708000);
	assert_int_equal(seen.image.state, 0x401000);
	assert_false(seen.image.is_remote);
	/* The piece in which it begins reports it. */
	scan(&p, words, WORDS, 100);
	assert_int_equal(seen.image_count, 0);
	scan(&p, words, 100 + IMAGE_BYTES / 8, 101);
	assert_int_equal(seen.image_count, 1);
	/* No alternate stack; one of this library's. */
	words[104] = 2;
	scan(&p, words, WORDS, WORDS);
	assert_int_equal(seen.image.stack_end, 0);
	words[104] = 7;
	scan(&p, words, WORDS, WORDS);
	assert_true(seen.image.is_remote);
	/* The end of memory, in the middle of it. */
	for (size_t count = 100; count <= 124; count++) {
		scan(&p, words, count, count);
		assert_int_equal(seen.image_count, 0);
		assert_int_equal(seen.word_count, count > 122);
		assert_int_equal(seen.saved, 0);
	}
	places_deinit(&p);
}

/* Data may contain addresses of our code; a frame there was interrupted there. */
static void test_code(void **state)
{
	struct places p = {.are_code = true};
	uint64_t words[WORDS] = {0};

	(void)state;
	need_layout();
	assert_true(places_add(&p, 0x1000, 0x1100));
	assert_true(places_add(&p, 0x1100, 0x1200));
	places_prepare(&p);
	words[3] = 0x1000;
	words[4] = 0x1100;
	words[5] = 0x1101;
	scan(&p, words, WORDS, WORDS);
	assert_int_equal(seen.word_count, 0);
	make_frame(words + 100, 0x12340, 0x1100);
	scan(&p, words, WORDS, WORDS);
	assert_int_equal(seen.word_count, 1);
	assert_int_equal(seen.saved, 1);
	places_deinit(&p);
}

/* A copy of a frame, or of the registers alone, at any byte of the memory. */
static void test_any_address(void **state)
{
	struct places code = {.are_code = true}, all = {0};
	uint64_t frame[IMAGE_BYTES / 8] = {0};
	static uint64_t words[WORDS];
	enum { REGISTERS = 40 };

	(void)state;
	need_layout();
	assert_true(places_add(&code, 0x1000, 0x1100));
	assert_true(places_add(&all, 0x1000, 0x1100));
	places_prepare(&code);
	places_prepare(&all);
	make_frame(frame, 0x12340, 0x1010);
	for (size_t at = 0; at + sizeof(frame) <= 1024; at++) {
		memset(words, 0, sizeof(words));
		memcpy((uint8_t *)words + at, frame, sizeof(frame));
		for (int i = 0; i < 3; i++) {
			seen = (struct seen){0};
			assert_true(places_scan(i ? &all : &code, FIRST, (uint8_t *)words, 1024,
				1024, i == 2 ? &only_images : &visitor));
			assert_int_equal(seen.word_count, 1);
			assert_int_equal(seen.saved, 1);
			assert_int_equal(seen.at[0], FIRST + at + 176);
			assert_int_equal(seen.image_count, 1);
			assert_int_equal(seen.images[0], FIRST + at);
		}
	}
	/* Where a copy of mcontext_t begins, at the start of memory. */
	for (size_t at = 0; at < 64; at++) {
		memset(words, 0, sizeof(words));
		memcpy((uint8_t *)words + at, (uint8_t *)frame + REGISTERS,
			sizeof(frame) - REGISTERS);
		scan(&code, words, WORDS, WORDS);
		assert_int_equal(seen.saved, 1);
		assert_int_equal(seen.at[0], FIRST + at + 176 - REGISTERS);
		scan(&code, words, WORDS, (at + 176 - REGISTERS) / 8);
		assert_int_equal(seen.word_count, 0);
	}
	places_deinit(&code);
	places_deinit(&all);
}

/* Registers without a mark: between a stack pointer and flags, at any byte of the memory. */
static void test_registers(void **state)
{
	const uint64_t flags = UINT64_C(0x60001000), words[3] = {0x12340, 0x1010, flags};
	const uint64_t others[][3] = {{0x12348, 0x1010, flags}, {0, 0x1010, flags},
		{0x12340, 0x1100, flags}, {0x12340, 0x1010, 0x400000},
		{0x12340, 0x1010, flags << 32}, {0x1010, 0x1010, flags}};
	static uint8_t memory[WORDS * 8];
	struct places p = {.are_code = true};

	(void)state;
	if (!arch_process()->layout->flag_bits)
		skip_because("there is a mark among the registers here");
	assert_true(places_add(&p, 0x1000, 0x1100));
	places_prepare(&p);
	for (size_t at = 0; at + sizeof(words) <= 256; at++) {
		memset(memory, 0, sizeof(memory));
		memcpy(memory + at, words, sizeof(words));
		scan(&p, (uint64_t *)memory, 32, 32);
		assert_int_equal(seen.word_count, 1);
		assert_int_equal(seen.saved, 1);
		assert_int_equal(seen.at[0], FIRST + at + 8);
		assert_int_equal(seen.image_count, 1);
		assert_int_equal(seen.image.sp, 0x12340);
		scan(&p, (uint64_t *)memory, 32, at / 8);
		assert_int_equal(seen.word_count, 0);
		for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
			memcpy(memory + at, others[i], sizeof(others[i]));
			scan(&p, (uint64_t *)memory, 32, 32);
			assert_int_equal(seen.word_count, 0);
		}
	}
	places_deinit(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers),
		cmocka_unit_test(test_have),
		cmocka_unit_test(test_words),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_code),
		cmocka_unit_test(test_any_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
