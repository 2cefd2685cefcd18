/* SPDX-License-Identifier: MIT */
/*
 * The part of argument parsing that all ISAs share: splitting a note's argument string, sizes, and
 * a lexer with constant expressions.
 */
#ifndef ARCH_SPEC_H
#define ARCH_SPEC_H

#include "arch/arch.h"

/* The unread part of one argument: [at, end), within the note's string. */
struct spec_text {
	const char *at;
	const char *end;
};

/* The result of a constant expression: value (plus the symbol's address). */
struct spec_sum {
	int64_t value;	    /* modulo 2^64 */
	const char *symbol; /* points into the note's string, or NULL */
	size_t symbol_length;
};

/*
 * Parses the operand after `N@` into kind, base, index, scale, width, shift, disp and symbol of
 * `arg`. The caller has set the other members, and has given these the values of an
 * ARCH_ARG_UNKNOWN. Returns false if the operand is not understood; `arg` may then hold anything.
 * May leave text unread.
 */
typedef bool spec_operand_fn(struct spec_text *text, struct arch_arg *arg);

/*
 * Parses a whole argument string with an ISA's operand parser: see parse_args in arch/arch.h. An
 * argument that is not understood to its end becomes ARCH_ARG_UNKNOWN. It then has only its text
 * and the size, is_signed and is_float that the note states (8, false and false if the note has no
 * size).
 */
size_t spec_parse_args(
	const char *args, spec_operand_fn *operand, struct arch_arg ret[ARCH_ARGS_MAX]);

/* Skips blanks and returns the next character without consuming it, or '\0' at the end. */
char spec_peek(struct spec_text *text);

/* If `c` comes next, perhaps after blanks, consumes the blanks and `c`. Otherwise returns false. */
bool spec_take(struct spec_text *text, char c);

/*
 * Consumes the longest run of letters, digits, `_ . $ @` and bytes above 0x7f: the characters
 * of an ELF symbol in assembly. Returns its length, possibly 0.
 */
size_t spec_word(struct spec_text *text, const char **ret);

/* Whether the word is `name` (lower case). Case is ignored, as the assembler does for registers. */
bool spec_word_is(const char *word, size_t length, const char *name);

/*
 * Returns the decimal number from offset `from` to the word's end, as in "xmm12". Returns -1 for no
 * number, a sign, a leading zero, or a number not below `limit` (at most 100).
 */
int spec_word_number(const char *word, size_t length, size_t from, int limit);

/*
 * Consumes an unsigned number as the assembler reads it: decimal, 0x..., or octal with a leading
 * zero. Returns false if the number exceeds 64 bits, or if a letter follows (`1f` is a label).
 */
bool spec_number(struct spec_text *text, uint64_t *ret);

/*
 * Consumes a constant expression of + - ~ *, parentheses, numbers, and at most one symbol, which
 * must be added. All values, including intermediate ones, must be in -2^63 ... 2^64-1. Returns
 * false for anything else, including `sym@GOTPCREL` and other relocations that do not stand for the
 * symbol's own address.
 */
bool spec_sum(struct spec_text *text, struct spec_sum *ret);

/* Sets the argument's kind, and its displacement and symbol from the sum. */
void spec_set(struct arch_arg *arg, enum arch_arg_kind kind, const struct spec_sum *sum);

#endif
