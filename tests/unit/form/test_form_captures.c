/* SPDX-License-Identifier: MIT */
/*
 * Captures as code in the form of stubs: what leads to readable memory is captured, and nothing
 * else is read. The machine of the tests and this processor must agree.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <cmocka.h>

#include "arch/layout.h"
#include "libprobe/base/page.h"
#include "tests/unit/form/form_world.h"
#include "tests/unit/skip.h"

enum {
	/* Temporaries. */
	MASK = 0,
	PAGES,
	PAIR = PAGES + KEPT_PAGES,
	SPILL = PAIR + 2,
	TAG = WORLD_TEMPS - 1,
	/* Registers at the site, in its frame. */
	POINTER = 2,
	NUMBER = 3,
	FRAME_POINTER = 5,
	COPY_MAX = 40
};

#define CUT (UINT64_C(1) << RING_STRING_TRUNCATED_BIT)
#define NONE (UINT64_C(1) << RING_STRING_NULL_BIT)

static const struct stub_isa isa = {.frame_pointer = FRAME_POINTER, .registers = 16, .vectors = 16};

/* Some readable pages, of which the last byte is at end[-1], and one that is not. */
struct memory {
	uint8_t *start, *end;
};

struct subject {
	struct form_fixture *fixture;
	struct memory memory;
	struct stub_isa isa;
	struct arch_capture capture;
	struct arch_stub stub;
	struct stub_plan plan;
	bool asks_tagged;
};

static void subject_init(struct subject *s, struct form_fixture *x)
{
	uint64_t page = page_bytes();

	*s = (struct subject){.fixture = x, .isa = isa};
	s->isa.stack_pointer = (int8_t)form_native_stack;
	s->memory.start =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(s->memory.start, MAP_FAILED);
	s->memory.end = s->memory.start + 2 * page;
	assert_int_equal(mprotect(s->memory.end, page, PROT_NONE), 0);
	s->stub = (struct arch_stub){.captures = &s->capture,
		.recorded = 1,
		.action_count = 1,
		.actions = {{.kind = ARCH_ACTION_RECORD}},
		.capture_count = 1,
		.page_bytes = (uint32_t)page,
		.may_call_kernel = true,
		.may_ask_stack = true};
	/* What is above the stack pointer is data. */
	x->frame.size = (int)offsetof(struct form_memory, data) - WORLD_BELOW;
}

static void subject_deinit(struct subject *s)
{
	munmap(s->memory.start, 3 * page_bytes());
}

static void write_capture(struct form *f, void *arg)
{
	struct subject *s = arg;
	struct stub_plan *p = &s->plan;
	int done = form_label(f);

	p->check = form_label(f);
	p->check_stack = form_label(f);
	p->measure = form_label(f);
	p->extent = form_label(f);
	form_prepare_none(f, p);
	form_prepare(f, p, 1);
	form_prepare_stacks(f, p);
	form_jump(f, done);
	form_capture_subroutines(f, p);
	form_place(f, done);
}

static form_native_function *make(struct subject *s, struct arch_capture capture, bool keeps_pages)
{
	s->capture = capture;
	assert_true(capture_is_possible(&s->isa, &s->capture));
	s->plan = (struct stub_plan){.stub = &s->stub,
		.isa = &s->isa,
		.actions = {{.action = &s->stub.actions[0]}},
		.at = s->plan.actions,
		.checked = capture_is_checked(&s->isa, &s->capture),
		.strings = capture.is_string,
		.extents = capture.has_length && !capture.is_string,
		.stacks = capture.stack != ARCH_STACK_NOT,
		.keeps_pages = keeps_pages,
		.asks_tagged = s->asks_tagged,
		.tag_of_temp = TAG,
		.mask_temp = MASK,
		.pages_temp = PAGES,
		.temp = {PAIR},
		.spill = {SPILL}};
	return form_fixture_make(s->fixture, write_capture, s);
}

/* With kept pages or without; asked for once, or with the tag, too. */
static form_native_function *make_way(struct subject *s, struct arch_capture capture, int way)
{
	s->asks_tagged = way & 2;
	return make(s, capture, way & 1);
}

static void hit(
	struct subject *s, form_native_function *function, const void *pointer, uint64_t number)
{
	struct form_fixture *x = s->fixture;

	x->memory.saved[POINTER] = (uintptr_t)pointer;
	x->memory.saved[NUMBER] = number;
	x->memory.temps[MASK] = 0;
	form_fixture_run(x, function, "capture");
}

static uint64_t word(const struct subject *s)
{
	return s->fixture->memory.temps[PAIR + 1];
}

static bool is_readable(const struct subject *s)
{
	return (uint32_t)s->fixture->memory.temps[MASK] == 1;
}

static struct arch_arg at_pointer(uint32_t size, int64_t disp)
{
	return (struct arch_arg){.kind = ARCH_ARG_MEMORY,
		.size = size,
		.base = POINTER,
		.index = ARCH_REG_NONE,
		.disp = disp};
}

static struct arch_arg in_register(int8_t number)
{
	return (struct arch_arg){.kind = ARCH_ARG_REGISTER,
		.size = 8,
		.width = 8,
		.is_signed = true,
		.base = number,
		.index = ARCH_REG_NONE};
}

/* The same address with a tag, if this processor ignores that. */
static const void *tagged(const void *pointer)
{
#if defined(__aarch64__)
	return (const void *)((uintptr_t)pointer | UINT64_C(0xa5) << 56);
#else
	return pointer;
#endif
}

static void scalars(void **state)
{
	struct subject s;

	subject_init(&s, *state);
	memset(s.memory.start, 0x81, (size_t)(s.memory.end - s.memory.start));
	for (uint32_t size = 1; size <= 8; size *= 2) {
		for (int way = 0; way < 4; way++) {
			form_native_function *function = make_way(
				&s, (struct arch_capture){.arg = at_pointer(size, 16)}, way);
			const uint64_t *value = &s.fixture->memory.temps[PAIR];

			for (int away = -20; away <= 3; away++) {
				const uint8_t *place = s.memory.end + away;
				bool readable = away <= -(int)size;

				hit(&s, function, tagged(place - 16), 0);
				assert_int_equal(is_readable(&s), readable);
				assert_int_equal(*value,
					readable ? UINT64_C(0x8181818181818181) >> (64 - 8 * size)
						 : 0);
			}
			/* on two pages */
			hit(&s, function, s.memory.end - page_bytes() - 17, 0);
			assert_true(is_readable(&s));
			hit(&s, function, NULL, 0);
			assert_false(is_readable(&s));
			hit(&s, function, (const void *)(UINT64_C(0x8000) << 48), 0);
			assert_false(is_readable(&s));
		}
	}
	subject_deinit(&s);
}

/* Nothing can be asked: only what is near the stack pointer is read. */
static void not_asked(void **state)
{
	struct subject s;
	form_native_function *function;
	struct arch_arg arg = at_pointer(8, 0);

	subject_init(&s, *state);
	s.stub.may_call_kernel = false;
	function = make(&s, (struct arch_capture){.arg = arg}, false);
	hit(&s, function, s.memory.start, 0);
	assert_false(is_readable(&s));
	s.fixture->memory.data[0] = 77;
	hit(&s, function, s.fixture->memory.data, 0);
	assert_true(is_readable(&s));
	assert_int_equal(s.fixture->memory.temps[PAIR], 77);
	arg.base = FRAME_POINTER;
	arg.disp = 8;
	function = make(&s, (struct arch_capture){.arg = arg}, false);
	s.fixture->memory.saved[FRAME_POINTER] = (uintptr_t)s.fixture->memory.data;
	s.fixture->memory.data[1] = 78;
	hit(&s, function, NULL, 0);
	assert_true(is_readable(&s));
	assert_int_equal(s.fixture->memory.temps[PAIR], 78);
	s.fixture->memory.saved[FRAME_POINTER] = (uintptr_t)s.memory.start;
	hit(&s, function, NULL, 0);
	assert_false(is_readable(&s));
	subject_deinit(&s);
}

static void strings(void **state)
{
	enum { MAX = 32 };
	struct arch_capture capture = {
		.arg = in_register(POINTER), .is_string = true, .bytes_max = MAX};
	struct subject s;

	subject_init(&s, *state);
	memset(s.memory.start, 'x', (size_t)(s.memory.end - s.memory.start));
	for (int way = 0; way < 4; way++) {
		form_native_function *function = make_way(&s, capture, way);

		/* None ends before the page does. */
		for (uint64_t n = 1; n < 2 * MAX; n++) {
			hit(&s, function, tagged(s.memory.end - n), 0);
			assert_int_equal(
				s.fixture->memory.temps[PAIR], (uintptr_t)s.memory.end - n);
			assert_int_equal(word(&s), (n < MAX ? n : MAX) | CUT);
		}
		/* Some do, and begin anywhere in a word, and on the page before. */
		for (uint64_t begin = 0; begin < 9; begin++) {
			for (uint64_t n = 0; n < 2 * MAX; n++) {
				uint8_t *place = s.memory.end - page_bytes() - 20 + begin;

				place[n] = 0;
				hit(&s, function, place, 0);
				assert_int_equal(word(&s), n <= MAX ? n : MAX | CUT);
				place[n] = 'x';
			}
		}
		hit(&s, function, NULL, 0);
		assert_int_equal(word(&s), NONE);
		hit(&s, function, s.memory.end, 0);
		assert_int_equal(word(&s), NONE);
	}
	subject_deinit(&s);
}

static void lengths(void **state)
{
	enum { MAX = 100 };
	struct arch_capture capture = {.arg = in_register(POINTER),
		.has_length = true,
		.length = in_register(NUMBER),
		.bytes_max = MAX};
	struct subject s;
	form_native_function *function;

	subject_init(&s, *state);
	memset(s.memory.start, 'x', (size_t)(s.memory.end - s.memory.start));
	function = make(&s, capture, true);
	for (uint64_t n = 0; n < 120; n++) {
		hit(&s, function, tagged(s.memory.end - page_bytes() - 50), n);
		assert_int_equal(word(&s), n <= MAX ? n : MAX | CUT);
		hit(&s, function, tagged(s.memory.end - 50), n);
		assert_int_equal(word(&s), n <= 50 ? n : 50 | CUT);
	}
	hit(&s, function, s.memory.end, 4);
	assert_int_equal(word(&s), NONE);
	hit(&s, function, NULL, 0);
	assert_int_equal(word(&s), 0);
	hit(&s, function, s.memory.start, (uint64_t)-4);
	assert_int_equal(word(&s), 0);
	capture.is_string = true;
	function = make(&s, capture, false);
	s.memory.end[-3] = 0;
	hit(&s, function, tagged(s.memory.end - 10), 5);
	assert_int_equal(word(&s), 5);
	hit(&s, function, tagged(s.memory.end - 10), 10);
	assert_int_equal(word(&s), 7);
	hit(&s, function, s.memory.end - 2, 10);
	assert_int_equal(word(&s), 2 | CUT);
	subject_deinit(&s);
}

/* A pointer leads to a pointer, which leads to elements. */
static void steps(void **state)
{
	struct arch_capture capture = {.arg = in_register(POINTER),
		.steps = {{.offset = 8, .size = 8},
			{.offset = -4, .size = 4, .is_signed = true, .scale = -12}},
		.step_count = 2,
		.has_index = true,
		.index = in_register(NUMBER)};
	struct subject s;
	form_native_function *function;
	const uint8_t *place;

	subject_init(&s, *state);
	function = make(&s, capture, true);
	place = tagged(s.memory.end);
	memcpy(s.memory.start + 8, &place, sizeof(place));
	memset(s.memory.end - 28, 0xfe, 4);
	hit(&s, function, tagged(s.memory.start), 2);
	assert_true(is_readable(&s));
	assert_int_equal(s.fixture->memory.temps[PAIR], UINT64_C(0xfffffffffefefefe));
	hit(&s, function, s.memory.start, (uint64_t)-1);
	assert_false(is_readable(&s));
	hit(&s, function, s.memory.start + 8, 0);
	assert_false(is_readable(&s));
	hit(&s, function, s.memory.end, 0);
	assert_false(is_readable(&s));
	subject_deinit(&s);
}

static void vectors_and_names(void **state)
{
	struct arch_capture vector = {
		.arg = {.kind = ARCH_ARG_FP_REGISTER, .size = 16, .width = 16, .index = -1}};
	struct subject s;
	uint64_t *spill;
	char name[17] = "";

	subject_init(&s, *state);
	spill = &s.fixture->memory.temps[SPILL];
	s.fixture->world.vector_value = 0x3ff123456789abcd;
	hit(&s, make(&s, vector, false), NULL, 0);
	assert_int_equal(s.fixture->memory.temps[PAIR], (uintptr_t)spill);
	assert_int_equal(word(&s), 16);
	assert_int_equal(spill[0], 0x3ff123456789abcd);
	assert_int_equal(prctl(PR_GET_NAME, name), 0);
	hit(&s, make(&s, (struct arch_capture){.is_comm = true}, false), NULL, 0);
	assert_int_equal(word(&s), strlen(name));
	assert_string_equal(spill, name);
	subject_deinit(&s);
}

static void stacks(void **state)
{
	enum { FRAMES = 8 };
	struct arch_capture bytes = {.stack = ARCH_STACK_BYTES, .bytes_max = 64};
	struct arch_capture frames = {.stack = ARCH_STACK_FRAMES, .bytes_max = 8 * FRAMES};
	struct subject s;
	uint64_t *data, *found;

	subject_init(&s, *state);
	data = s.fixture->memory.data;
	found = &s.fixture->memory.temps[SPILL + STACK_TEMPS];
	hit(&s, make(&s, bytes, false), NULL, 0);
	assert_int_equal(s.fixture->memory.temps[PAIR], (uintptr_t)data);
	assert_int_equal(word(&s), 64);
	/* Three frames; the last one leads below itself. */
	data[2] = (uintptr_t)&data[6];
	data[6] = (uintptr_t)&data[20];
	data[20] = (uintptr_t)&data[4];
	data[3] = 0x1111;
	data[7] = 0x2222;
	data[21] = 0x3333;
	s.fixture->memory.saved[FRAME_POINTER] = (uintptr_t)&data[2];
	hit(&s, make(&s, frames, true), NULL, 0);
	assert_int_equal(s.fixture->memory.temps[PAIR], (uintptr_t)found);
	assert_int_equal(word(&s), 3 * 8);
	assert_int_equal(found[0], 0x1111);
	assert_int_equal(found[1], 0x2222);
	assert_int_equal(found[2], 0x3333);
	s.fixture->memory.saved[FRAME_POINTER] = 3;
	hit(&s, make(&s, frames, false), NULL, 0);
	assert_int_equal(word(&s), 0);
	subject_deinit(&s);
}

static void write_copy(struct form *f, void *arg)
{
	struct subject *s = arg;

	form_load(f, FORM_SCRATCH, form_temp(0), sizeof(uint64_t), false);
	form_address(f, FORM_FROM, (uintptr_t)s->memory.end);
	form_two(f, FORM_SUB, true, FORM_FROM, FORM_SCRATCH);
	form_address(f, FORM_POINTER, (uintptr_t)s->fixture->memory.data);
	form_copy(f);
}

/* Up to the last byte that can be read, and no byte more is written. */
static void copies(void **state)
{
	struct form_fixture *x = *state;
	struct subject s;
	form_native_function *function;

	subject_init(&s, x);
	for (uint8_t i = 0; i < COPY_MAX; i++)
		s.memory.end[i - COPY_MAX] = i;
	function = form_fixture_make(x, write_copy, &s);
	for (uint64_t n = 0; n <= COPY_MAX; n++) {
		uint8_t expected[COPY_MAX + 8];

		memset(x->memory.data, 0xff, sizeof(x->memory.data));
		memset(expected, 0xff, sizeof(expected));
		memcpy(expected, s.memory.end - n, n);
		x->memory.temps[0] = n;
		form_fixture_run(x, function, "copy");
		assert_memory_equal(x->memory.data, expected, sizeof(expected));
	}
	subject_deinit(&s);
}

#define FORM_TEST(name)                                                                            \
	cmocka_unit_test_setup_teardown(name, form_fixture_setup, form_fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {FORM_TEST(scalars), FORM_TEST(not_asked),
		FORM_TEST(strings), FORM_TEST(lengths), FORM_TEST(steps),
		FORM_TEST(vectors_and_names), FORM_TEST(stacks), FORM_TEST(copies)};

	if (!form_native_is_possible())
		return skip_all("there is no back end for this processor");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
