/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target: the argument parsers of all ISAs, on any string.
 *
 * The sanitizers detect reads out of bounds. This checks what callers rely on: everything
 * points into the string and in order, numbers are in range, and an argument has the same
 * meaning on its own.
 */
#include <stdlib.h>
#include <string.h>

#include "arch/spec.h"
#include "arch/spec.h"

typedef size_t parse_fn(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
	if (!condition)
		abort();
}

static void check_arg(const struct arch_arg *arg, const char *from, const char *end)
{
	const char *spec_end = arg->spec + arg->spec_length;
	bool is_register = arg->kind == ARCH_ARG_REGISTER || arg->kind == ARCH_ARG_FP_REGISTER;

	require(arg->spec >= from && arg->spec_length && spec_end <= end);
	require(arg->size > 0);
	require(arg->scale == 1 || arg->scale == 2 || arg->scale == 4 || arg->scale == 8);
	require(arg->shift == 0 || (arg->shift == 8 && arg->width == 1 && arg->base < 4));
	require(is_register == (arg->width != 0));
	require(arg->base >= (is_register ? 0 : ARCH_REG_PC) && arg->base < 32);
	require(arg->index >= ARCH_REG_NONE && arg->index < 32);
	require(arg->base != ARCH_REG_PC || arg->symbol);
	require(!arg->symbol == !arg->symbol_length);
	if (arg->symbol)
		require(arg->symbol >= arg->spec && arg->symbol + arg->symbol_length <= spec_end);
	if (arg->kind != ARCH_ARG_MEMORY)
		require(arg->index == ARCH_REG_NONE && arg->scale == 1);
	if (is_register || arg->kind == ARCH_ARG_UNKNOWN)
		require(!arg->symbol && !arg->disp);
}

static void check_alone(parse_fn *parse, const struct arch_arg *arg)
{
	struct arch_arg alone[ARCH_ARGS_MAX];
	char *copy = strndup(arg->spec, arg->spec_length);

	require(copy && parse(copy, alone) == 1);
	require(alone[0].spec_length == arg->spec_length);
	/* In a note with Intel syntax, plain numbers become UNKNOWN. */
	if (arg->kind != ARCH_ARG_UNKNOWN)
		require(alone[0].kind == arg->kind && alone[0].base == arg->base &&
			alone[0].index == arg->index && alone[0].disp == arg->disp);
	require(alone[0].size == arg->size && alone[0].has_size == arg->has_size);
	free(copy);
}

static void check(parse_fn *parse, const char *text, size_t length)
{
	struct arch_arg args[ARCH_ARGS_MAX];
	const char *from = text;
	size_t count = parse(text, args);
	size_t i;

	require(count <= ARCH_ARGS_MAX);
	for (i = 0; i < count; i++) {
		check_arg(&args[i], from, text + length);
		check_alone(parse, &args[i]);
		from = args[i].spec + args[i].spec_length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	require(text);
	check(x86_64_parse_args, text, strlen(text));
	check(aarch64_parse_args, text, strlen(text));
	free(text);
	return 0;
}
