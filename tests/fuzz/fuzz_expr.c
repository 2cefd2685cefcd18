/* SPDX-License-Identifier: MIT */
/*
 * Expressions: any text is parsed, and bound to sites that declare other types.
 *
 * The result has the properties that code generation relies on, and the same value within
 * parentheses and within operations that do not change values. A message is one line, and its
 * column is inside the text.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/query/expr_interpreter.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ten arguments; the last is read through a pointer. */
static const char *const notes[] = {
	"-1@%al 1@%bl -2@%cx 2@%dx -4@%esi 4@%edi -8@%r8 8@%r9 -4@%xmm0 8@(%r10)",
	"8@%r9 -8@%r8 4@%edi -4@%esi 2@%dx -2@%cx 1@%bl -1@%al 4@%xmm1 -4@16(%rsp)",
	"4@$-1 8@%r9 8f@%xmm0 8@%rax 16@(%rdi) 8@%%",
};

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void check_message(const struct probe_error *error, size_t length)
{
	const char *column = strstr(error->message, "', column ");
	size_t number = 0;

	/* The text may contain these words, too: the last ones are ours. */
	for (const char *next = column; next; next = strstr(next + 1, "', column "))
		column = next;
	require(column && !strchr(error->message, '\n'));
	number = strtoul(column + strlen("', column "), NULL, 10);
	require(number >= 1 && number <= length + 1);
	require(error->code == PROBE_ERROR_USAGE || error->code == PROBE_ERROR_UNSUPPORTED);
}

/* Values that depend only on the argument, so that every tree gets the same. */
static bool value_of(const struct expr_case *c, unsigned int round, uint64_t *ret)
{
	static const uint64_t values[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, 0x7fffffff,
		UINT64_C(0xffffffff80000000), 255, 33};
	static const struct expr_string texts[] = {{"", 0}, {"a", 1}, {"ab", 2}, {"SELECT", 6}};
	struct expr_string strings[ARCH_ARGS_MAX];
	uint64_t words[ARCH_ARGS_MAX];
	struct expr_input input = {.words = words,
		.strings = strings,
		.tid = (int32_t)(round + 1),
		.pid = 4194303,
		.cpu = (int32_t)round};

	for (uint8_t i = 0; i < c->layout.capture_count; i++) {
		const struct arch_capture *capture = &c->layout.captures[i];
		const struct arch_arg *arg = &capture->arg;
		bool is_signed = capture->step_count
					 ? capture->steps[capture->step_count - 1].is_signed
					 : arg->is_signed;
		/* A number that a begin has kept has 64 bits. */
		unsigned int shift = capture->begun ? 0 : 64 - 8 * arch_capture_size(capture);
		unsigned int n = expr_case_arg(c, i) + round;
		uint64_t value = values[n % 8] + round;

		/* As a stub would record it. */
		if (arg->kind == ARCH_ARG_FP_REGISTER)
			words[i] = arg->size == 4 ? (uint32_t)value : value;
		else if (is_signed)
			words[i] = (uint64_t)((int64_t)(value << shift) >> shift);
		else
			words[i] = value << shift >> shift;
		strings[i] = texts[n % 4];
		if (strings[i].length > c->layout.captures[i].bytes_max)
			strings[i].length = c->layout.captures[i].bytes_max;
	}
	return expr_evaluate(&c->bound, &input, ret);
}

static void check_around(const char *args, const struct expr_case *plain, const char *before,
	const char *text, const char *behind)
{
	char *around = malloc(strlen(before) + strlen(text) + strlen(behind) + 1);
	struct probe_error *error;
	struct expr_case c;

	require(around);
	stpcpy(stpcpy(stpcpy(around, before), text), behind);
	error = expr_case_init(&c, args, around);
	for (unsigned int round = 0; !error && round < 8; round++) {
		uint64_t value = 0, other = 0;
		bool is_there = value_of(plain, round, &value);

		require(value_of(&c, round, &other) == is_there);
		require(!is_there || value == other);
	}
	if (error) /* it may be too long now */
		require(strstr(error->message, "more than") != NULL);
	else
		expr_case_deinit(&c);
	probe_error_free(error);
	free(around);
}

static void check(const char *args, const char *text)
{
	struct probe_error *error;
	struct expr_case c;

	error = expr_case_init(&c, args, text);
	if (error) {
		check_message(error, strlen(text));
		probe_error_free(error);
		return;
	}
	require(!expr_ill_formed(&c.bound, c.layout.capture_count, expr_case_strings(&c)));
	/* sym() is the whole of an expression. */
	if (!expr_is_symbol(c.expr)) {
		check_around(args, &c, "(", text, ")");
		check_around(args, &c, "~ ~(", text, ")");
		check_around(args, &c, "0ul+(", text, ")");
	}
	check_around(args, &c, "", text, "\n");
	expr_case_deinit(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	require(text);
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
		check(notes[i], text);
	free(text);
	return 0;
}
