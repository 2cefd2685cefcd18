/* SPDX-License-Identifier: MIT */
/*
 * Parses operands of aarch64, as gcc and clang print them for the constraint "nor" of <sys/sdt.h>:
 *
 *	operand  = register | [ "#" ] sum | "[" register [ "," offset ] "]"
 *	offset   = [ "#" ] [ ":lo12:" ] sum | register [ "," extend [ [ "#" ] number ] ]
 *	extend   = "lsl" | "sxtx" | "uxtx"
 *
 * Newer versions of gcc print no `#` before numbers; older versions did. clang addresses nearly
 * everything through one register. Register names have no prefix, so a symbol may look like a
 * register. A word that looks like a register but is not the name of one makes the operand UNKNOWN.
 *
 * The table shows how struct arch_arg (arch/arg.h) represents each operand:
 *
 *	x0 ... x30, fp, lr, ip0, ip1	REGISTER; base 0 to 30, width 8
 *	w0 ... w30			REGISTER; width 4
 *	sp, wsp				REGISTER; base 31, width 8 or 4
 *	xzr, wzr			IMMEDIATE 0; size 8 or 4 if the note states none
 *	b1 h1 s1 d1 q1 v1		FP_REGISTER; base 1, width 1, 2, 4, 8, 16, 16
 *	5, #-5				IMMEDIATE; 64-bit values are taken modulo 2^64
 *	sym+8				IMMEDIATE; disp + the symbol's address (not its contents)
 *	[x0] [sp, 60] [x0, #-16]	MEMORY; index NONE, scale 1
 *	[x1, x2] [x1, x2, lsl 3]	MEMORY; scale 1 or 8
 *	[x0, #:lo12:sym+8]		MEMORY; symbol_bits 12: x0 holds the page from adrp
 *
 * These operands are UNKNOWN on purpose: local labels, which are in no symbol table; index
 * registers extended from 32 bits (uxtw, sxtw); write-back; shifts above 3; x31; vector elements.
 *
 * gcc prints `[x0, #:lo12:.LANCHOR0]` for a static variable, unless it runs with
 * -fno-section-anchors. The adrp before the site tells the page. But nothing in the file tells
 * which variable of that page the label stands for.
 *
 * Sources: Arm ARM (DDI 0487), C1.2.5 "Register names" and C1.3.3 "Load/store addressing modes";
 * gcc, aarch64_print_address_internal().
 */
#include "arch/spec.h"

enum {
	REGISTER_COUNT = 32,
	STACK_POINTER = 31,
	SHIFT_MAX = 3, /* struct arch_arg has a scale of 8 at most */
	PAGE_BITS = 12 /* adrp sets the bits above these; the next instruction adds these bits */
};

/* clang-format off */
/* Registers named by a letter and a number. */
static const struct {
	char letter[2];
	uint8_t width;
	enum arch_arg_kind kind;
} numbered[] = {
	{"x", 8, ARCH_ARG_REGISTER},
	{"w", 4, ARCH_ARG_REGISTER},
	{"b", 1, ARCH_ARG_FP_REGISTER},
	{"h", 2, ARCH_ARG_FP_REGISTER},
	{"s", 4, ARCH_ARG_FP_REGISTER},
	{"d", 8, ARCH_ARG_FP_REGISTER},
	{"q", 16, ARCH_ARG_FP_REGISTER},
	{"v", 16, ARCH_ARG_FP_REGISTER},
};

static const struct {
	const char *name;
	int8_t number; /* ARCH_REG_NONE for the zero register */
	uint8_t width;
} named[] = {
	{"sp", STACK_POINTER, 8},
	{"wsp", STACK_POINTER, 4},
	{"xzr", ARCH_REG_NONE, 8},
	{"wzr", ARCH_REG_NONE, 4},
	{"fp", 29, 8},
	{"lr", 30, 8},
	{"ip0", 16, 8},
	{"ip1", 17, 8},
};
/* clang-format on */

struct reg {
	enum arch_arg_kind kind; /* ARCH_ARG_REGISTER or ARCH_ARG_FP_REGISTER */
	int8_t number;		 /* ARCH_REG_NONE for the zero register */
	uint8_t width;
};

static bool find_register(const char *name, size_t length, struct reg *ret)
{
	size_t i;
	int number;

	for (i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		if (!spec_word_is(name, length, named[i].name))
			continue;
		*ret = (struct reg){ARCH_ARG_REGISTER, named[i].number, named[i].width};
		return true;
	}
	for (i = 0; i < sizeof(numbered) / sizeof(numbered[0]); i++) {
		if (!length || !spec_word_is(name, 1, numbered[i].letter))
			continue;
		/* Register 31 is called sp or xzr, wsp or wzr. */
		number = spec_word_number(name, length, 1,
			numbered[i].kind == ARCH_ARG_REGISTER ? STACK_POINTER : REGISTER_COUNT);
		if (number < 0)
			return false;
		*ret = (struct reg){numbered[i].kind, (int8_t)number, numbered[i].width};
		return true;
	}
	return false;
}

/*
 * Returns true for a letter and digits, perhaps with a suffix: a register, a vector element (v0.2d,
 * z7, p3), or x31, which is not a register.
 */
static bool looks_like_register(const char *word, size_t length)
{
	size_t i = 1;

	while (i < length && word[i] >= '0' && word[i] <= '9')
		i++;
	return i > 1 && (i == length || word[i] == '.');
}

/* Returns true for a local label (.LC0, .LANCHOR0), which is in no symbol table. */
static bool is_local_label(const struct spec_sum *sum)
{
	return sum->symbol && sum->symbol_length > 2 && spec_word_is(sum->symbol, 2, ".l");
}

/* Consumes a 64-bit general register; ARCH_REG_NONE for the zero register. */
static bool take_address_register(struct spec_text *text, int8_t *number_ret)
{
	const char *name;
	size_t length = spec_word(text, &name);
	struct reg reg;

	if (!find_register(name, length, &reg) || reg.kind != ARCH_ARG_REGISTER || reg.width != 8)
		return false;
	*number_ret = reg.number;
	return true;
}

/* Consumes `lsl 3`, `sxtx` or `uxtx` after an index register. */
static bool take_extend(struct spec_text *text, struct arch_arg *arg)
{
	const char *name;
	size_t length = spec_word(text, &name);
	uint64_t shift = 0;
	bool is_lsl = spec_word_is(name, length, "lsl");

	if (!is_lsl && !spec_word_is(name, length, "sxtx") && !spec_word_is(name, length, "uxtx"))
		return false;
	if (is_lsl || spec_peek(text) != ']') {
		spec_take(text, '#');
		if (!spec_number(text, &shift) || shift > SHIFT_MAX)
			return false;
	}
	if (arg->index != ARCH_REG_NONE)
		arg->scale = (uint8_t)(1 << shift);
	return true;
}

/* Consumes the part after the comma in `[x0, ...]`. */
static bool take_offset(struct spec_text *text, struct arch_arg *arg)
{
	struct spec_text ahead = *text;
	const char *name;
	size_t length = spec_word(&ahead, &name);
	struct spec_sum sum;
	struct reg reg;

	if (find_register(name, length, &reg)) {
		if (!take_address_register(text, &arg->index) || arg->index == STACK_POINTER)
			return false;
		return !spec_take(text, ',') || take_extend(text, arg);
	}
	spec_take(text, '#');
	if (spec_take(text, ':')) {
		length = spec_word(text, &name);
		if (!spec_word_is(name, length, "lo12") || !spec_take(text, ':'))
			return false;
		arg->symbol_bits = PAGE_BITS;
	}
	if (!spec_sum(text, &sum) || !sum.symbol != !arg->symbol_bits || is_local_label(&sum))
		return false;
	spec_set(arg, ARCH_ARG_MEMORY, &sum);
	return true;
}

/* Consumes the part after the bracket in `[x0]`. */
static bool take_memory(struct spec_text *text, struct arch_arg *arg)
{
	if (!take_address_register(text, &arg->base) || arg->base == ARCH_REG_NONE)
		return false;
	if (spec_take(text, ',') && !take_offset(text, arg))
		return false;
	arg->kind = ARCH_ARG_MEMORY;
	return spec_take(text, ']');
}

static bool take_immediate(struct spec_text *text, struct arch_arg *arg)
{
	struct spec_sum sum;

	spec_take(text, '#');
	if (!spec_sum(text, &sum))
		return false;
	if (sum.symbol && looks_like_register(sum.symbol, sum.symbol_length))
		return false;
	if (is_local_label(&sum))
		return false;
	spec_set(arg, ARCH_ARG_IMMEDIATE, &sum);
	return true;
}

static bool take_operand(struct spec_text *text, struct arch_arg *arg)
{
	struct spec_text ahead = *text;
	const char *name;
	size_t length;
	struct reg reg;

	if (spec_take(text, '['))
		return take_memory(text, arg);
	length = spec_word(&ahead, &name);
	if (!find_register(name, length, &reg))
		return take_immediate(text, arg);
	*text = ahead;
	if (reg.number == ARCH_REG_NONE) {
		arg->kind = ARCH_ARG_IMMEDIATE;
		if (!arg->has_size)
			arg->size = reg.width;
		return true;
	}
	arg->kind = reg.kind;
	arg->base = reg.number;
	arg->width = reg.width;
	return true;
}

size_t aarch64_parse_args(const char *args, struct arch_arg ret[ARCH_ARGS_MAX])
{
	return spec_parse_args(args, take_operand, ret);
}
