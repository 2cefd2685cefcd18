/* SPDX-License-Identifier: MIT */
/*
 * What the argument parsers of all ISAs share: splitting a note's argument
 * string, the sizes, and a lexer with constant expressions.
 */
#ifndef ARCH_SPEC_H
#define ARCH_SPEC_H

#include "arch/arch.h"

/* What is still to be read of one argument: [at, end), within the note's string. */
struct spec_text {
	const char *at;
	const char *end;
};

/* A constant expression: value (+ symbol). */
struct spec_sum {
	int64_t value;	    /* modulo 2^64 */
	const char *symbol; /* into the note's string, or NULL */
	size_t symbol_length;
};

/*
 * Parses the operand behind `N@` into kind, base, index, scale, width, shift,
 * disp and symbol of `arg`; the rest is set, and these are set as for
 * ARCH_ARG_UNKNOWN. It need not look at what it leaves unread, and may leave
 * rubbish in `arg` when it fails.
 * Returns false for what is not understood.
 */
typedef bool spec_operand_fn(struct spec_text *text, struct arch_arg *arg);

/*
 * Parses a whole argument string with an ISA's operand parser: see parse_args
 * in arch/arch.h. An argument that is not understood, or not to its end, is
 * ARCH_ARG_UNKNOWN: its spec is set, its size, sign and float as far as the
 * note states them (else 8, false, false), and nothing else.
 */
size_t spec_parse_args(
	const char *args, spec_operand_fn *operand, struct arch_arg ret[ARCH_ARGS_MAX]);

/* The next character behind blanks, which are skipped; '\0' at the end. */
char spec_peek(struct spec_text *text);

/* Takes `c` (and blanks before it) if it comes next. */
bool spec_take(struct spec_text *text, char c);

/*
 * Takes the longest run of letters, digits, `_ . $ @` and bytes above 0x7f,
 * the characters of an ELF symbol in assembly. Returns its length, maybe 0.
 */
size_t spec_word(struct spec_text *text, const char **ret);

/* Is the word `name` (in lower case)? The assembler ignores the case of registers. */
bool spec_word_is(const char *word, size_t length, const char *name);

/*
 * The number in decimal, without sign or leading zero, that ends the word from
 * `from`, as in "xmm12". Returns it if it is below `limit` (at most 100), else -1.
 */
int spec_word_number(const char *word, size_t length, size_t from, int limit);

/*
 * Takes an unsigned number as the assembler reads it: decimal, 0x..., or octal
 * with a leading zero. Fails above 64 bits, and when a letter follows
 * (`1f` is a label).
 */
bool spec_number(struct spec_text *text, uint64_t *ret);

/*
 * Takes a constant expression of + - ~ *, parentheses, numbers, and at most
 * one symbol, which must be added. Its value, and each one on the way, lies in
 * -2^63 ... 2^64-1. Fails for anything else, and so for `sym@GOTPCREL` and
 * other relocations that do not mean the symbol's own address.
 */
bool spec_sum(struct spec_text *text, struct spec_sum *ret);

/* Makes the sum the displacement, and with it the argument one of a kind. */
void spec_set(struct arch_arg *arg, enum arch_arg_kind kind, const struct spec_sum *sum);

#endif
