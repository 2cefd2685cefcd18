/* SPDX-License-Identifier: MIT */
/*
 * Shared by the argument parsers of all ISAs: splitting a note's argument string, sizes, and a
 * lexer with constant expressions.
 */
#ifndef ARCH_SPEC_H
#define ARCH_SPEC_H

#include "arch/arch.h"

/* The unread part of one argument: [at, end), within the note's string. */
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
 * Parses the operand after `N@` into kind, base, index, scale, width, shift, disp and symbol of
 * `arg`. The other members are set already, and these are set as for ARCH_ARG_UNKNOWN. It may
 * leave text unread, and on failure `arg` may hold anything. Returns false if it does not
 * understand the operand.
 */
typedef bool spec_operand_fn(struct spec_text *text, struct arch_arg *arg);

/*
 * Parses a whole argument string with an ISA's operand parser: see parse_args in arch/arch.h.
 * An argument that is not understood, or not to its end, becomes ARCH_ARG_UNKNOWN with its spec
 * and with the size, sign and float that the note states (else 8, false, false); nothing else
 * is set.
 */
size_t spec_parse_args(
	const char *args, spec_operand_fn *operand, struct arch_arg ret[ARCH_ARGS_MAX]);

/* Skips blanks and returns the next character; '\0' at the end. */
char spec_peek(struct spec_text *text);

/* Consumes `c` (and blanks before it) if it comes next. */
bool spec_take(struct spec_text *text, char c);

/*
 * Consumes the longest run of letters, digits, `_ . $ @` and bytes above 0x7f: the characters
 * of an ELF symbol in assembly. Returns its length, possibly 0.
 */
size_t spec_word(struct spec_text *text, const char **ret);

/* Whether the word is `name` (lower case). The assembler ignores the case of registers. */
bool spec_word_is(const char *word, size_t length, const char *name);

/*
 * The decimal number, without sign or leading zero, from offset `from` to the word's end, as in
 * "xmm12". Returns -1 if there is none, or it is not below `limit` (at most 100).
 */
int spec_word_number(const char *word, size_t length, size_t from, int limit);

/*
 * Consumes an unsigned number as the assembler reads it: decimal, 0x..., or octal with a
 * leading zero. Fails above 64 bits, and if a letter follows (`1f` is a label).
 */
bool spec_number(struct spec_text *text, uint64_t *ret);

/*
 * Consumes a constant expression of + - ~ *, parentheses, numbers, and at most one symbol,
 * which must be added. Its value and all intermediate values are in -2^63 ... 2^64-1. Fails for
 * anything else, including `sym@GOTPCREL` and other relocations that do not stand for the
 * symbol's own address.
 */
bool spec_sum(struct spec_text *text, struct spec_sum *ret);

/* Sets the argument's kind, and its displacement and symbol from the sum. */
void spec_set(struct arch_arg *arg, enum arch_arg_kind kind, const struct spec_sum *sum);

#endif
