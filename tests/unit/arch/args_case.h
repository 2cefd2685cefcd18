/* SPDX-License-Identifier: MIT */
/* Shared by the tests of the argument parsers. */
#ifndef TESTS_UNIT_ARGS_CASE_H
#define TESTS_UNIT_ARGS_CASE_H

#include <elf.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"
#include "tests/unit/skip.h"

typedef size_t args_parse_fn(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

/* One argument and what it must become. Registers are by number; 0 is a register. */
struct args_case {
	const char *spec;
	enum arch_arg_kind kind;
	uint32_t size;
	const char *flags; /* of "s" signed, "f" float, "n" no size in the note */
	int base, index;
	unsigned int scale, width, shift;
	int64_t disp;
	const char *symbol; /* or NULL */
};

#define NONE ARCH_REG_NONE
/* clang-format off */
#define UNKNOWN_CASE(spec, size, flags) \
	{spec, ARCH_ARG_UNKNOWN, size, flags, NONE, NONE, 1, 0, 0, 0, NULL}
#define IMMEDIATE_CASE(spec, size, flags, value, symbol) \
	{spec, ARCH_ARG_IMMEDIATE, size, flags, NONE, NONE, 1, 0, 0, value, symbol}
#define REGISTER_CASE(spec, size, flags, base, width, shift) \
	{spec, ARCH_ARG_REGISTER, size, flags, base, NONE, 1, width, shift, 0, NULL}
#define FP_CASE(spec, size, flags, base, width) \
	{spec, ARCH_ARG_FP_REGISTER, size, flags, base, NONE, 1, width, 0, 0, NULL}
#define MEMORY_CASE(spec, size, flags, base, index, scale, disp, symbol) \
	{spec, ARCH_ARG_MEMORY, size, flags, base, index, scale, 0, 0, disp, symbol}
/* clang-format on */

static inline void args_check_one(const struct args_case *c, const struct arch_arg *arg)
{
	size_t symbol_length = c->symbol ? strlen(c->symbol) : 0;

	if (arg->spec_length != strlen(c->spec) ||
		memcmp(arg->spec, c->spec, arg->spec_length) != 0)
		fail_msg("%s: spec is \"%.*s\"", c->spec, (int)arg->spec_length, arg->spec);
	if (arg->kind != c->kind)
		fail_msg("%s: kind %d, expected %d", c->spec, arg->kind, c->kind);
	if (arg->size != c->size)
		fail_msg("%s: size %u, expected %u", c->spec, arg->size, c->size);
	if (arg->is_signed != !!strchr(c->flags, 's'))
		fail_msg("%s: is_signed %d", c->spec, arg->is_signed);
	if (arg->is_float != !!strchr(c->flags, 'f'))
		fail_msg("%s: is_float %d", c->spec, arg->is_float);
	if (arg->has_size != !strchr(c->flags, 'n'))
		fail_msg("%s: has_size %d", c->spec, arg->has_size);
	if (arg->base != c->base || arg->index != c->index || arg->scale != c->scale)
		fail_msg("%s: base %d index %d scale %u", c->spec, arg->base, arg->index,
			arg->scale);
	if (arg->width != c->width || arg->shift != c->shift)
		fail_msg("%s: width %u shift %u", c->spec, arg->width, arg->shift);
	if (arg->disp != c->disp)
		fail_msg("%s: disp %lld", c->spec, (long long)arg->disp);
	if (!!arg->symbol != !!c->symbol || arg->symbol_length != symbol_length ||
		(c->symbol && memcmp(arg->symbol, c->symbol, symbol_length) != 0))
		fail_msg("%s: symbol \"%.*s\"", c->spec, (int)arg->symbol_length,
			arg->symbol ? arg->symbol : "");
}

/* A register, by its name alone. */
static inline void args_check_register(args_parse_fn *parse, const char *name,
	enum arch_arg_kind kind, int number, unsigned int width)
{
	const struct args_case c = {name, kind, width, "n", number, NONE, 1, width, 0, 0, NULL};
	struct arch_arg args[ARCH_ARGS_MAX];

	assert_int_equal(parse(name, args), 1);
	args_check_one(&c, &args[0]);
}

/* Each case alone, and then between two others that must stay as they are. */
static inline void args_check(
	args_parse_fn *parse, const struct args_case *cases, size_t count, const char *neighbour)
{
	struct arch_arg args[ARCH_ARGS_MAX];
	char *text;
	size_t i;

	for (i = 0; i < count; i++) {
		assert_int_equal(parse(cases[i].spec, args), 1);
		args_check_one(&cases[i], &args[0]);

		assert_true(asprintf(&text, "%s %s  %s ", neighbour, cases[i].spec, neighbour) > 0);
		if (parse(text, args) != 3)
			fail_msg("%s: not one argument", cases[i].spec);
		args_check_one(&cases[i], &args[1]);
		assert_int_equal(args[0].kind, ARCH_ARG_REGISTER);
		assert_int_equal(args[2].kind, ARCH_ARG_REGISTER);
		free(text);
	}
}

/* What must hold of any result, for whatever bytes. Returns the number of arguments. */
static inline size_t args_check_sane(args_parse_fn *parse, const char *text)
{
	const char *end = text + strlen(text);
	struct arch_arg args[ARCH_ARGS_MAX];
	size_t count = parse(text, args);
	size_t i;

	assert_in_range(count, 0, ARCH_ARGS_MAX);
	for (i = 0; i < count; i++) {
		const struct arch_arg *arg = &args[i];

		assert_true(arg->spec >= text && arg->spec_length > 0);
		assert_true(arg->spec_length <= (size_t)(end - arg->spec));
		assert_true(arg->size > 0);
		assert_true(arg->base >= ARCH_REG_PC && arg->base < 32);
		assert_true(arg->index >= ARCH_REG_NONE && arg->index < 32);
		assert_true(
			arg->scale == 1 || arg->scale == 2 || arg->scale == 4 || arg->scale == 8);
		assert_true(!arg->symbol == !arg->symbol_length);
		if (arg->symbol) {
			assert_true(arg->symbol >= arg->spec);
			assert_true(
				arg->symbol + arg->symbol_length <= arg->spec + arg->spec_length);
		}
		text = arg->spec + arg->spec_length;
	}
	return count;
}

/* Strings that no compiler prints. */
static inline void args_check_hostile(args_parse_fn *parse, const char *item)
{
	static const char *const shapes[] = {"%c", "8@%c", "8@%c%%rax", "8@%%r%cx 4@$1", "8%c@%%al",
		"8@(%%rax%c)", "8@[x0%c]", "8@[x0, %c", "8@$1%c", "8@sym%c(%%rip)", "%c@%c"};
	enum { LONG = 1 << 20 };
	char *text = malloc(LONG + 1);
	char small[64];
	size_t i, j, length = strlen(item);
	int c;

	assert_non_null(text);
	for (c = 1; c < 256; c++) {
		for (i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
			snprintf(small, sizeof(small), shapes[i], c, c);
			args_check_sane(parse, small);
		}
		memset(text, c, LONG);
		text[LONG] = '\0';
		assert_true(args_check_sane(parse, text) <= 1);
	}
	/* Every prefix of an ordinary string; thousands of items. */
	for (i = 0; i + length + 1 <= LONG; i += length + 1) {
		memcpy(text + i, item, length);
		text[i + length] = ' ';
	}
	text[i] = '\0';
	assert_int_equal(args_check_sane(parse, text), ARCH_ARGS_MAX);
	for (j = length * 3; j > 0; j--) {
		text[j] = '\0';
		args_check_sane(parse, text);
	}
	/* Brackets that never close before many blanks, and words that join. */
	for (i = 0; i + 4 <= LONG; i += 4)
		memcpy(text + i, i < LONG / 2 ? "8@( " : "ptr ", 4);
	text[i] = '\0';
	assert_int_equal(args_check_sane(parse, text), ARCH_ARGS_MAX);
	memset(text, ' ', LONG);
	text[LONG] = '\0';
	assert_int_equal(args_check_sane(parse, text), 0);
	free(text);
}

/*
 * The arguments that readelf(1) finds in a file, each understood. Skips where
 * the file or readelf is absent.
 */
static inline void args_check_file(const struct arch *arch, const char *path, size_t notes_expected)
{
	Elf64_Ehdr header = {0};

	struct arch_arg args[ARCH_ARGS_MAX];
	size_t capacity = 0, notes = 0, count, i;
	char *command, *line = NULL, *at;
	FILE *file = fopen(path, "r");
	FILE *pipe;

	if (!file)
		skip_because("no %s here", path);
	if (fread(&header, sizeof(header), 1, file) != 1 || header.e_machine != arch->elf_machine) {
		fclose(file);
		skip_because("%s is for another machine", path);
	}
	fclose(file);
	assert_true(asprintf(&command, "LC_ALL=C readelf -nW '%s' 2>/dev/null", path) > 0);
	pipe = popen(command, "r");
	free(command);
	assert_non_null(pipe);
	while (getline(&line, &capacity, pipe) > 0) {
		at = strstr(line, "Arguments: ");
		if (!at)
			continue;
		notes++;
		count = arch->parse_args(at + strlen("Arguments: "), args);
		for (i = 0; i < count; i++) {
			if (args[i].kind == ARCH_ARG_UNKNOWN)
				fail_msg("%s: \"%.*s\" in %s", path, (int)args[i].spec_length,
					args[i].spec, at);
			assert_true(args[i].has_size);
		}
	}
	free(line);
	if (pclose(pipe) != 0)
		skip_because("readelf failed or is absent");
	print_message("%s: %zu notes\n", path, notes);
	assert_int_equal(notes, notes_expected);
}

#endif
