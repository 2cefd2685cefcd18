/* SPDX-License-Identifier: MIT */
/*
 * The contents of records: which arguments are captured, and values read back, even from
 * hostile bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <elf.h>

#include "libprobe/query/query.h"

enum { RECORD = sizeof(struct ring_record) };
#define TRUNCATED (UINT64_C(1) << RING_STRING_TRUNCATED_BIT)
#define ABSENT (UINT64_C(1) << RING_STRING_NULL_BIT)

/* What the symbols of arguments name. */
uint64_t layout_variable = 5;
static const struct probe_session_options plain, guessing = {.guess_strings = true};

static struct record_layout record_layout_of(const char *args, const struct capture *wanted,
	size_t count, const struct probe_session_options *options)
{
	struct module module = {.bias = 0x10000};
	struct probe_error *error = object_open("/proc/self/exe", &module.object);
	struct record_layout_site site;
	struct record_layout layout;

	if (error)
		fail_msg("%s", error->message);
	record_layout_site_init(&site, arch_of_machine(EM_X86_64), &module, args);
	record_layout_init(&layout, &site, wanted, count, options);
	object_close(module.object);
	return layout;
}

/*
 * Writes a record: each word in the size of its capture, and one more, the mask, if there is one;
 * then the tail. Returns its length.
 */
static size_t put_record(const struct record_layout *l, const uint64_t *words, size_t count,
	const char *tail, size_t tail_size, uint8_t *record)
{
	size_t at = RECORD;

	for (size_t i = 0; i < count; i++) {
		uint32_t mask = l->recorded <= 8 ? 1 : l->recorded <= 16 ? 2 : 4;
		uint32_t size = i < l->recorded ? arch_capture_fixed(&l->captures[i]) : mask;

		memcpy(record + at, &words[i], size);
		at += size;
	}
	if (tail_size)
		memcpy(record + at, tail, tail_size);
	return (at + tail_size + 3) / 4 * 4;
}

/* A record in memory of exactly its size, so that reading past it is detected. */
static size_t read_words(const struct record_layout *l, const uint64_t *words, size_t count,
	const char *tail, size_t tail_size, struct probe_value values[ARCH_ARGS_MAX])
{
	uint8_t room[RECORD + 8 * ARCH_ARGS_MAX + 1024] = {0};
	size_t size = put_record(l, words, count, tail, tail_size, room), length;
	static uint8_t *record;

	free(record); /* values point into the last one */
	record = malloc(size);
	assert_non_null(record);
	memcpy(record, room, size);
	length = record_layout_read(l, record, size, values);
	if (!length) {
		free(record);
		record = NULL;
	}
	return length;
}

#define WORDS(...) (const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8

/* ---- Numbers ------------------------------------------------------------------------ */

static void test_numbers(void **state)
{
	struct record_layout l =
		record_layout_of("-4@%eax 4@%eax -1@%al 8@%rdi 2@$7 -8@$-9", NULL, 0, &plain);
	struct probe_value v[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(l.arg_count, 6);
	assert_int_equal(l.capture_count, 6);
	assert_false(l.checked);
	assert_int_equal(read_words(&l, WORDS(-5, 0xfffffffb, -3, -1, 7, -9), NULL, 0, v),
		RECORD + 28); /* 27 of them */
	assert_int_equal(v[0].kind, PROBE_VALUE_SIGNED);
	assert_int_equal(v[0].i, -5);
	assert_int_equal(v[1].kind, PROBE_VALUE_UNSIGNED);
	assert_int_equal(v[1].u, 0xfffffffb);
	assert_int_equal(v[2].i, -3);
	assert_int_equal(v[3].u, UINT64_MAX);
	assert_int_equal(v[4].u, 7);
	assert_int_equal(v[5].i, -9);
	/* Too short for a record. */
	assert_int_equal(read_words(&l, WORDS(1, 2, 3, 4, 5), NULL, 0, v), 0);
	assert_int_equal(record_layout_read(&l, (const uint8_t[RECORD]){0}, RECORD, v), 0);
}

static void test_floats(void **state)
{
	struct record_layout l =
		record_layout_of("8f@%xmm0 4f@%xmm1 -4@%xmm2 2@%xmm3", NULL, 0, &plain);
	struct probe_value v[ARCH_ARGS_MAX];
	uint64_t words[4] = {0, 0, UINT64_C(0x1122334480000000), 7};
	double wide = -0.5;
	float narrow = 2.25f;

	(void)state;
	memcpy(&words[0], &wide, sizeof(wide));
	memcpy(&words[1], &narrow, sizeof(narrow));
	memset((uint8_t *)&words[1] + 4, 0xff, 4); /* the rest of the register */
	assert_int_equal(l.capture_count, 3);	   /* two bytes of a vector are not captured */
	assert_int_equal(read_words(&l, words, 3, NULL, 0, v), RECORD + 16);
	assert_int_equal(v[0].kind, PROBE_VALUE_FLOAT);
	assert_true(v[0].f == -0.5);
	assert_true(v[1].f == 2.25);
	/* An integer in a vector register is extended here. */
	assert_int_equal(v[2].kind, PROBE_VALUE_SIGNED);
	assert_int_equal(v[2].i, INT32_MIN);
	assert_int_equal(v[3].kind, PROBE_VALUE_NULL);
}

static void test_unknown(void **state)
{
	struct record_layout l =
		record_layout_of("4@what 8@%rax 8@no_such_symbol(%rip) 8@(%rip)", NULL, 0, &plain);
	struct probe_value v[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(l.arg_count, 4);
	assert_int_equal(l.capture_count, 1);
	assert_int_equal(read_words(&l, WORDS(3), NULL, 0, v), RECORD + 8);
	assert_int_equal(v[0].kind, PROBE_VALUE_NULL);
	assert_int_equal(v[1].u, 3);
	assert_int_equal(v[2].kind, PROBE_VALUE_NULL);
	assert_int_equal(v[3].kind, PROBE_VALUE_NULL);
	l = record_layout_of("", NULL, 0, &plain);
	assert_int_equal(l.arg_count, 0);
	assert_int_equal(record_layout_read(&l, (const uint8_t[RECORD]){0}, RECORD, v), RECORD);
}

static void test_checked(void **state)
{
	struct record_layout l =
		record_layout_of("8@(%rdi) 8@%rsi 4@8(%rax,%rbx,2)", NULL, 0, &plain);
	struct probe_value v[ARCH_ARGS_MAX];

	(void)state;
	assert_true(l.checked);
	assert_int_equal(read_words(&l, WORDS(1, 2, 3, 7), NULL, 0, v), RECORD + 24);
	assert_int_equal(v[0].u, 1);
	assert_int_equal(v[2].u, 3);
	assert_int_equal(read_words(&l, WORDS(1, 2, 3, 2), NULL, 0, v), RECORD + 24);
	assert_int_equal(v[0].kind, PROBE_VALUE_NULL);
	assert_int_equal(v[1].u, 2);
	assert_int_equal(v[2].kind, PROBE_VALUE_NULL);
	assert_int_equal(read_words(&l, WORDS(1, 2, 3), NULL, 0, v), 0);
}

/* ---- Symbols ------------------------------------------------------------------------ */

static void test_symbols(void **state)
{
	struct record_layout l =
		record_layout_of("8@layout_variable(%rip) 4@layout_variable+4(%rip) "
				 "8@layout_variable(%rax)",
			NULL, 0, &plain);
	const struct arch_arg *arg = &l.captures[0].arg;

	(void)state;
	assert_int_equal(l.capture_count, 3);
	assert_null(arg->symbol);
	assert_int_equal(arg->base, ARCH_REG_NONE);
	assert_int_equal(l.captures[1].arg.disp, arg->disp + 4);
	assert_true(l.captures[0].is_static);
	assert_true(l.captures[1].is_static);
	/* Only where an address may begin. */
	assert_false(l.captures[2].is_static);
	assert_true(l.checked);
}

/* A note may name an address outside all segments: it must be checked at each hit. */
static void test_symbols_beyond(void **state)
{
	static const char *const args[] = {
		"8@layout_variable+100000000(%rip)",
		"8@layout_variable-100000000(%rip)",
		"4096@layout_variable+0x7fffff00(%rip)",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(args) / sizeof(*args); i++) {
		struct record_layout l = record_layout_of(args[i], NULL, 0, &plain);

		assert_int_equal(l.capture_count, 1);
		assert_false(l.captures[0].is_static);
		assert_true(l.checked);
	}
}

/* ---- Strings and aggregates ----------------------------------------------------------- */

static const struct capture string_and_number[] = {{.arg = 0, .is_string = true}, {.arg = 1}};

static void test_strings(void **state)
{
	struct record_layout l = record_layout_of("8@%rdi -4@%esi", string_and_number, 2, &plain);
	struct probe_value v[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(l.captures[0].bytes_max, 256);
	assert_int_equal(read_words(&l, WORDS(5, -1), "hello", 5, v), RECORD + 16);
	assert_int_equal(v[0].kind, PROBE_VALUE_STRING);
	assert_int_equal(v[0].length, 5);
	assert_memory_equal(v[0].bytes, "hello", 5);
	assert_false(v[0].truncated);
	assert_int_equal(v[1].i, -1);
	assert_int_equal(read_words(&l, WORDS(3 | TRUNCATED, 0), "abc", 3, v), RECORD + 12);
	assert_true(v[0].truncated);
	assert_int_equal(read_words(&l, WORDS(0, 0), NULL, 0, v), RECORD + 8);
	assert_int_equal(v[0].kind, PROBE_VALUE_STRING);
	assert_int_equal(v[0].length, 0);
	assert_int_equal(read_words(&l, WORDS(ABSENT, 0), NULL, 0, v), RECORD + 8);
	assert_int_equal(v[0].kind, PROBE_VALUE_NULL);
	assert_int_equal(record_layout_of("8@%rdi", string_and_number, 1,
				 &(struct probe_session_options){.string_bytes = UINT16_MAX})
				 .captures[0]
				 .bytes_max,
		PROBE_STRING_BYTES_MAX);
}

static void test_hostile_lengths(void **state)
{
	static const uint64_t lengths[] = {9, 16, 17, 257, 265, 4096, UINT32_MAX, UINT32_MAX - 7,
		UINT64_MAX, UINT64_C(0xfffffff8), TRUNCATED | 0xffff, ABSENT | 0x10000};
	struct record_layout l = record_layout_of("8@%rdi -4@%esi", string_and_number, 2, &plain);
	struct probe_value v[ARCH_ARGS_MAX];
	char tail[512] = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++)
		assert_int_equal(read_words(&l, WORDS(lengths[i], 0), "12345678", 8, v), 0);
	/* Complete, but longer than any stub would make it. */
	assert_int_equal(read_words(&l, WORDS(257, 0), tail, 512, v), 0);
	assert_int_equal(read_words(&l, WORDS(256, 0), tail, 256, v), RECORD + 8 + 256);
}

static void test_aggregates(void **state)
{
	struct record_layout l =
		record_layout_of("16@%xmm0 24@(%rdi) 4096@(%rsi)", NULL, 0, &plain);
	struct probe_value v[ARCH_ARGS_MAX];
	char tail[16 + 24 + 256];

	(void)state;
	memset(tail, 'x', sizeof(tail));
	memcpy(tail, "0123456789abcdef", 16);
	assert_int_equal(l.capture_count, 3);
	assert_true(l.checked);
	assert_int_equal(read_words(&l, WORDS(16, 24, 256 | TRUNCATED, 7), tail, sizeof(tail), v),
		RECORD + 12 + 1 + sizeof(tail) + 3);
	assert_int_equal(v[0].kind, PROBE_VALUE_BYTES);
	assert_int_equal(v[0].length, 16);
	assert_memory_equal(v[0].bytes, "0123456789abcdef", 16);
	assert_int_equal(v[1].length, 24);
	assert_int_equal(v[2].length, 256);
	assert_true(v[2].truncated);
}

/* Operands that have only the lower half of 16 bytes. */
static void test_halves(void **state)
{
	struct record_layout l = record_layout_of("16@%rdi -16@$5 4@%esi", NULL, 0, &plain);
	struct probe_value v[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(l.capture_count, 3);
	assert_false(l.checked);
	assert_int_equal(read_words(&l, WORDS(8 | TRUNCATED, 8 | TRUNCATED, 7),
				 "01234567\5\0\0\0\0\0\0\0", 16, v),
		RECORD + 12 + 16);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(v[i].kind, PROBE_VALUE_BYTES);
		assert_int_equal(v[i].length, 8);
		assert_true(v[i].truncated);
	}
	assert_memory_equal(v[0].bytes, "01234567", 8);
	assert_int_equal(v[2].u, 7);
	/* No pointer is that wide. */
	assert_int_equal(record_layout_of("16@%rdi", NULL, 0, &guessing).capture_count, 1);
}

static void test_guesses(void **state)
{
	struct record_layout l = record_layout_of("8@%rdi 4@%esi", NULL, 0, &guessing);
	struct probe_value v[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(l.arg_count, 2);
	assert_int_equal(l.capture_count, 3); /* the pointer, the text there, the number */
	assert_int_equal(read_words(&l, WORDS(0x1234, 4, 9), "text", 4, v), RECORD + 20);
	assert_int_equal(v[0].kind, PROBE_VALUE_TEXT);
	assert_int_equal(v[0].u, 0x1234);
	assert_memory_equal(v[0].bytes, "text", 4);
	assert_int_equal(v[1].u, 9);
	assert_int_equal(read_words(&l, WORDS(0x1234, 4, 9), "te\001t", 4, v), RECORD + 20);
	assert_int_equal(v[0].kind, PROBE_VALUE_UNSIGNED);
	assert_int_equal(v[0].u, 0x1234);
	assert_int_equal(read_words(&l, WORDS(0x1234, ABSENT, 9), NULL, 0, v), RECORD + 16);
	assert_int_equal(v[0].kind, PROBE_VALUE_UNSIGNED);
	assert_int_equal(read_words(&l, WORDS(0, 0, 9), NULL, 0, v), RECORD + 16);
	assert_int_equal(v[0].kind, PROBE_VALUE_UNSIGNED);
}

/* As many bytes as another argument says: unchanged, or as text up to a NUL. */
static void test_stated_lengths(void **state)
{
	static const struct capture wanted[] = {{.arg = 0, .has_length = true, .length = 1},
		{.arg = 0, .is_string = true, .has_length = true, .length = 1}, {.arg = 0}};
	struct record_layout l = record_layout_of("8@%rdi -4@%esi", wanted, 3, &plain);
	struct probe_value v[ARCH_ARGS_MAX];
	struct module module = {0};
	struct record_layout_site site;

	(void)state;
	assert_int_equal(l.capture_count, 3);
	assert_int_equal(l.captures[0].bytes_max, 256);
	assert_int_equal(read_words(&l, WORDS(6, 6, 77),
				 "ab\0cd\xff"
				 "ab\0cd\xff",
				 12, v),
		RECORD + 16 + 12);
	assert_int_equal(v[0].kind, PROBE_VALUE_BYTES);
	assert_int_equal(v[0].length, 6);
	assert_memory_equal(v[0].bytes, "ab\0cd\xff", 6);
	assert_int_equal(v[1].kind, PROBE_VALUE_STRING);
	assert_int_equal(v[1].length, 2);
	assert_int_equal(v[2].u, 77);
	/* Truncated, with a NUL before the cut. */
	read_words(&l, WORDS(4 | TRUNCATED, 4 | TRUNCATED, 0), "abcdab\0d", 8, v);
	assert_true(v[0].truncated);
	assert_int_equal(v[0].length, 4);
	assert_false(v[1].truncated);
	read_words(&l, WORDS(ABSENT, ABSENT, 0), NULL, 0, v);
	assert_int_equal(v[0].kind, PROBE_VALUE_NULL);
	assert_int_equal(v[1].kind, PROBE_VALUE_NULL);
	/* An expression that uses the pointer itself does not get the bytes. */
	record_layout_site_init(&site, arch_of_machine(EM_X86_64), &module, "8@%rdi -4@%esi");
	record_layout_init(&l, &site, wanted, 1, &plain);
	assert_int_equal(record_layout_capture(&l, &site, &(struct capture){0}, 0), 1);
	/* Nor does a string without the length, or one with it; each is captured once. */
	for (int i = 0; i < 2; i++) {
		struct capture string = {.is_string = true};

		assert_int_equal(record_layout_capture(&l, &site, &string, 9), 2);
		string.has_length = true;
		string.length = 1;
		assert_int_equal(record_layout_capture(&l, &site, &string, 9), 3);
	}
	assert_int_equal(record_layout_capture(&l, &site,
				 &(struct capture){.is_string = true, .has_length = true}, 9),
		4);
	assert_true(l.captures[3].is_string && l.captures[3].has_length);
	/* Invalid lengths. */
	assert_int_equal(record_layout_of("8@%rdi", wanted, 1, &plain).capture_count, 0);
	assert_int_equal(record_layout_of("8@%rdi 8f@%xmm0", wanted, 1, &plain).capture_count, 0);
	assert_int_equal(record_layout_of("8@%rdi 16@(%rdi)", wanted, 1, &plain).capture_count, 0);
}

/* ---- Stacks ----------------------------------------------------------------------------- */

/* A record of a site with one argument, and `words` before it. */
static struct record_layout_stack stack_of(enum probe_stack_kind kind, struct unwind_saved saved,
	const uint64_t *words, size_t count, const char *bytes, size_t size)
{
	static struct record_layout layout;
	static const struct probe_session_options copies = {.stack_bytes = 512};
	struct record_layout_site site;
	struct module module = {0};
	struct probe_value values[ARCH_ARGS_MAX];
	struct record_layout_stack stack;
	static uint8_t record[1024];
	size_t length;

	record_layout_site_init(&site, arch_of_machine(EM_X86_64), &module, "8@%rdi");
	site.stack = kind;
	site.saved = saved;
	record_layout_init(&layout, &site, NULL, 0, &copies);
	assert_int_equal(layout.arg_count, 1);
	assert_int_equal(layout.recorded, count);
	memset(record, 0, sizeof(record));
	length = put_record(&layout, words, count, bytes, size, record);
	assert_int_equal(record_layout_read(&layout, record, length, values), length);
	assert_int_equal(values[0].u, words[count - 1]);
	if (!record_layout_read_stack(&layout, record, &stack))
		return (struct record_layout_stack){0};
	assert_memory_equal(stack.bytes, bytes, size);
	return stack;
}

/* What is known to be a string is one, whatever it holds, beside its number. */
static void test_known(void **state)
{
	const struct capture wanted[] = {{.arg = 0, .is_string = true, .beside = true},
		{.arg = 1, .is_string = true, .beside = true, .has_length = true, .length = 2},
		{.arg = 2}};
	struct record_layout l = record_layout_of("8@%rdi 8@%rsi 4@%edx", wanted, 3, &plain);
	struct probe_value v[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(l.capture_count, 5);
	assert_false(record_layout_is_plain(&l));
	assert_true(read_words(&l, WORDS(0x1000, 2, 0x2000, 4, 4),
		"\x01\xff"
		"a\0bc",
		6, v));
	assert_int_equal(v[0].kind, PROBE_VALUE_TEXT);
	assert_true(v[0].known);
	assert_int_equal(v[0].u, 0x1000);
	assert_int_equal(v[0].length, 2);
	assert_memory_equal(v[0].bytes, "\x01\xff", 2);
	assert_int_equal(v[1].u, 0x2000);
	assert_int_equal(v[1].length, 1);
	assert_int_equal(v[2].u, 4);
	/* Empty, and one that could not be read. */
	assert_true(read_words(&l, WORDS(0x1000, 0, 0, ABSENT, 4), NULL, 0, v));
	assert_int_equal(v[0].kind, PROBE_VALUE_TEXT);
	assert_int_equal(v[0].length, 0);
	assert_int_equal(v[1].kind, PROBE_VALUE_UNSIGNED);
	assert_int_equal(v[1].u, 0);
}

static void test_stacks(void **state)
{
	static const uint64_t copy[] = {1, 2, 3, 4, 5, 6, 7, 16, 99}, frames[] = {0x1234, 16, 99};
	const struct unwind_saved none = {-1, -1}, caller = {8, -1}, frame = {8, 16};
	struct record_layout_stack stack;

	(void)state;
	stack = stack_of(PROBE_STACK_COPY, none, copy, 9, "0123456789abcdef", 16);
	assert_memory_equal(stack.registers, copy, 7 * sizeof(*copy));
	assert_int_equal(stack.length, 16);
	stack = stack_of(PROBE_STACK_FRAMES, caller, frames, 3, "0123456789abcdef", 16);
	assert_null(stack.registers);
	assert_int_equal(stack.length, 16);
	assert_int_equal(stack.caller, 0x1234);
	/* The chain begins in the memory where the function has saved its caller's frame pointer.
	 */
	stack = stack_of(PROBE_STACK_FRAMES, frame, frames, 3, "0123456789abcdef", 16);
	assert_int_equal(stack.length, 16);
	assert_int_equal(stack.caller, 0x1234);
	stack = stack_of(PROBE_STACK_FRAMES, none, frames + 1, 2, "0123456789abcdef", 16);
	assert_null(stack.registers);
	assert_int_equal(stack.length, 16);
	assert_int_equal(stack.caller, 0);
	stack = stack_of(PROBE_STACK_NONE, caller, frames + 2, 1, "", 0);
	assert_null(stack.bytes);
}

/* On aarch64 a function that calls nothing has its return address in x30. */
static void test_return_register(void **state)
{
	const struct arch *arch = arch_of_machine(EM_AARCH64);
	struct module module = {0};
	struct record_layout_site site;
	struct record_layout layout = {0};

	(void)state;
	record_layout_site_init(&site, arch, &module, "");
	assert_int_equal(record_layout_capture_return(&layout, &site), -1);
	site.saved.return_at = UNWIND_IN_REGISTER;
	assert_int_equal(record_layout_capture_return(&layout, &site), 0);
	assert_int_equal(layout.captures[0].arg.kind, ARCH_ARG_REGISTER);
	assert_int_equal(layout.captures[0].arg.base, 30);
	assert_true(arch_capturable(arch, &layout.captures[0].arg));
	site.saved.return_at = 24;
	assert_int_equal(record_layout_capture_return(&layout, &site), 1);
	assert_int_equal(layout.captures[1].arg.kind, ARCH_ARG_MEMORY);
	assert_int_equal(layout.captures[1].arg.disp, 24);
	/* On x86-64 no register has it. */
	site.arch = arch_of_machine(EM_X86_64);
	site.saved.return_at = UNWIND_IN_REGISTER;
	assert_int_equal(record_layout_capture_return(&layout, &site), -1);
}

/* ---- Which arguments -------------------------------------------------------------------- */

static const struct capture both_strings[] = {
	{.arg = 0, .is_string = true}, {.arg = 1, .is_string = true}};

static void test_wanted(void **state)
{
	static const struct capture wanted[] = {
		{.arg = 1}, {.arg = 0}, {.arg = 7}, {.arg = 7, .is_string = true}};
	struct record_layout l = record_layout_of("8@%rdi 8@%rsi", wanted, 4, &plain);
	struct probe_value v[ARCH_ARGS_MAX];

	(void)state;
	assert_int_equal(l.arg_count, 4);
	assert_int_equal(read_words(&l, WORDS(11, 22), NULL, 0, v), RECORD + 16);
	assert_int_equal(v[0].u, 11);
	assert_int_equal(v[1].u, 22);
	assert_int_equal(v[2].kind, PROBE_VALUE_NULL);
	assert_int_equal(v[3].kind, PROBE_VALUE_NULL);
	/* A string at a float or an aggregate makes no sense. */
	l = record_layout_of("8f@%xmm0 16@(%rdi)", both_strings, 2, &plain);
	assert_int_equal(l.capture_count, 0);
	/* No stub follows a pointer in a vector register, or of three bytes. */
	l = record_layout_of("8@%xmm0 3@(%rdi)", both_strings, 2, &plain);
	assert_int_equal(l.capture_count, 0);
}

static void test_many(void **state)
{
	char args[1024] = "";
	struct record_layout l;
	struct probe_value v[ARCH_ARGS_MAX];
	uint64_t words[ARCH_ARGS_MAX] = {0};

	(void)state;
	for (int i = 0; i < 60; i++)
		strcat(args, "8@%rdi ");
	l = record_layout_of(args, NULL, 0, &plain);
	assert_int_equal(l.arg_count, ARCH_ARGS_MAX);
	assert_int_equal(l.capture_count, ARCH_ARGS_MAX);
	assert_int_equal(
		read_words(&l, words, ARCH_ARGS_MAX, NULL, 0, v), RECORD + 8 * ARCH_ARGS_MAX);
	/* Twice as many as there is room for: the last ones are not captured. */
	l = record_layout_of(args, NULL, 0, &guessing);
	assert_int_equal(l.arg_count, ARCH_ARGS_MAX);
	assert_int_equal(l.capture_count, ARCH_ARGS_MAX);
	assert_int_equal(read_words(&l, words, ARCH_ARGS_MAX, NULL, 0, v),
		RECORD + (8 + 4) * ARCH_ARGS_MAX / 2);
	assert_int_equal(v[0].kind, PROBE_VALUE_UNSIGNED);
	assert_int_equal(v[ARCH_ARGS_MAX - 1].kind, PROBE_VALUE_NULL);
}

/* Whatever the target writes: nothing outside is read, and spans stay inside the record. */
static void test_random(void **state)
{
	static const struct capture wanted[] = {{.arg = 0, .is_string = true}, {.arg = 1},
		{.arg = 2, .is_string = true}, {.arg = 3},
		{.arg = 0, .is_string = true, .has_length = true, .length = 2},
		{.arg = 0, .has_length = true, .length = 2}};
	struct record_layout l =
		record_layout_of("8@%rdi 24@(%rsi) 8@(%rax) 4f@%xmm1", wanted, 6, &plain);
	unsigned int seed = 3;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t size = (unsigned int)rand_r(&seed) % 200, length;
		struct probe_value v[ARCH_ARGS_MAX];
		uint8_t *record = malloc(size + 1);

		assert_non_null(record);
		record = realloc(record, size ? size : 1);
		for (size_t i = 0; i < size; i++)
			record[i] = rand_r(&seed) % 4 ? rand_r(&seed) % 3 : rand_r(&seed);
		length = record_layout_read(&l, record, size, v);
		assert_true(length <= size);
		for (size_t i = 0; length && i < l.arg_count; i++)
			if (v[i].kind == PROBE_VALUE_STRING || v[i].kind == PROBE_VALUE_BYTES)
				assert_true((const uint8_t *)v[i].bytes + v[i].length <=
					    record + length);
		free(record);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_floats),
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_checked),
		cmocka_unit_test(test_symbols),
		cmocka_unit_test(test_symbols_beyond),
		cmocka_unit_test(test_strings),
		cmocka_unit_test(test_hostile_lengths),
		cmocka_unit_test(test_aggregates),
		cmocka_unit_test(test_halves),
		cmocka_unit_test(test_stated_lengths),
		cmocka_unit_test(test_guesses),
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_stacks),
		cmocka_unit_test(test_return_register),
		cmocka_unit_test(test_wanted),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
