/* SPDX-License-Identifier: MIT */
/* Argument parsing for all ISAs: splitting the string, sizes, a lexer with constant expressions. */
#pragma once

#include "arch/arch.h"

/* Implement parse_args of arch/arch.h. */
size_t x86_64_parse_args(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);
size_t aarch64_parse_args(const char *args, struct arch_arg ret[ARCH_ARGS_MAX]);

/* The unread part of an argument: [at, end). */
struct spec_text {
	const char *at;
	const char *end;
};

/* The result of a constant expression: value, plus the symbol's address. */
struct spec_sum {
	int64_t value;	    /* modulo 2^64 */
	const char *symbol; /* points into the note's string, or NULL */
	size_t symbol_length;
};

/*
 * Parses the operand after `N@` into kind, base, index, scale, width, shift, disp and symbol, which
 * are set as for an ARCH_ARG_UNKNOWN. Returns false if it is not understood. May leave text unread.
 */
typedef bool spec_operand_fn(struct spec_text *text, struct arch_arg *arg);

/*
 * Parses an argument string with an ISA's operand parser (parse_args in arch/arch.h). An argument
 * not understood to its end is ARCH_ARG_UNKNOWN, with its text, size, is_signed and is_float (8,
 * false and false without a size).
 */
size_t spec_parse_args(
	const char *args, spec_operand_fn *operand, struct arch_arg ret[ARCH_ARGS_MAX]);

/* Skips blanks and returns the next character, unconsumed; '\0' at the end. */
char spec_peek(struct spec_text *text);

/* Consumes blanks and `c`, if that comes next. */
bool spec_take(struct spec_text *text, char c);

/* Consumes letters, digits, `_ . $ @` and bytes above 0x7f. Returns how many, maybe 0. */
size_t spec_word(struct spec_text *text, const char **ret);

/* Is the word `name` (lower case)? Case is ignored, as by the assembler. */
bool spec_word_is(const char *word, size_t length, const char *name);

/*
 * Returns the decimal number from offset `from` on ("xmm12"); -1 for none, a sign, a leading zero,
 * or one not below `limit` (at most 100).
 */
int spec_word_number(const char *word, size_t length, size_t from, int limit);

/*
 * Consumes a number as the assembler does: decimal, 0x..., or octal. Returns false beyond 64 bits,
 * or before a letter (`1f` is a label).
 */
bool spec_number(struct spec_text *text, uint64_t *ret);

/*
 * Consumes a constant expression of + - ~ *, parentheses, numbers, and one added symbol at most.
 * All values must be in -2^63 ... 2^64-1. Returns false for anything else, such as `sym@GOTPCREL`.
 */
bool spec_sum(struct spec_text *text, struct spec_sum *ret);

/* Sets the kind, and displacement and symbol from the sum. */
void spec_set(struct arch_arg *arg, enum arch_arg_kind kind, const struct spec_sum *sum);
