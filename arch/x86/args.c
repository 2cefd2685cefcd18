/* SPDX-License-Identifier: MIT */
/*
 * Parses operands of x86-64 in AT&T syntax, as gcc and clang print them for the constraint "nor" of
 * <sys/sdt.h>, and as people write them in assembly:
 *
 *	operand   = "$" sum | register | [ sum ] [ address ]
 *	address   = "(" [ register ] [ "," [ register ] [ "," scale ] ] ")"
 *	          | "(" [ register ] "," scale ")"
 *	register  = "%" name
 *
 * `sum` is parsed by spec_sum(). Besides the plain forms, compilers print a constant before the
 * symbol (gcc, PIC: `8+sym(%rip)`) or after it (`sym+8(%rip)`, `sym-8(%rip)`), a zero before a base
 * that needs a displacement byte (`0(%rbp)`, `0(%r13,%rax,4)`), bare numbers for objects at fixed
 * addresses (`4660`, `-16`), `$sym` for addresses in code that is not PIC, and `%fs:(%rax)` for
 * thread-local variables, which this parser does not support.
 *
 * In Intel syntax (-masm=intel) a bare word may be a register, and a bare number is an immediate. A
 * note uses one syntax throughout. So if one of its arguments is clearly in Intel syntax, its bare
 * numbers are UNKNOWN: a hit that read them as addresses would fault.
 *
 * How operands are represented (see also struct arch_arg):
 *
 *	%eax			REGISTER; base 0, the ISA's number, width 4
 *	%ah			REGISTER; base 0, width 1, shift 8
 *	%xmm3 %ymm3 %zmm3	FP_REGISTER; base 3, width 16, 32, 64
 *	$-5			IMMEDIATE; disp. 64-bit values are taken modulo 2^64
 *	$sym+8			IMMEDIATE; disp + the symbol's address (not its contents)
 *	8(%rax,%rcx,4)		MEMORY; without an index: index NONE, scale 1
 *	sym+8(%rip)		MEMORY; base PC, symbol, disp 8
 *	sym+8(%rax)		MEMORY; base 0, symbol, disp 8
 *	sym+8  4660  0x1234	MEMORY; base NONE: an absolute address
 *
 * If a register is wider than the argument's size, the value is the register's low bytes. If the
 * register is narrower, it is extended as the sign of the size says (<sys/sdt.h>: the size governs,
 * not the register's name). A size other than 1, 2, 4 and 8 is that of an aggregate.
 *
 * These are deliberately UNKNOWN: segment overrides (%fs:0, of thread-local variables); 32-bit base
 * or index registers, whose sum wraps at 4 GiB; displacements beyond 32 bits with a register;
 * N(%rip), because a note has no next instruction to count from; sym@GOTPCREL and similar;
 * differences of symbols; %st, %mm0, %k0, segment and control registers; and Intel syntax.
 *
 * Sources: GNU as manual, "80386 Dependent Features: Memory References"; Intel SDM volume 2, tables
 * 2-2 and 3-1 (encoding of registers); gcc, ix86_print_operand_address() and
 * output_pic_addr_const().
 */
#include "arch/spec.h"

enum {
	GENERAL_COUNT = 16,
	LEGACY_COUNT = 8, /* number of registers with a name instead of a number (rax to rdi) */
	HIGH_BYTE_COUNT = 4,
	VECTOR_COUNT = 32,
	STACK_POINTER = 4,
	NAME_MAX_LENGTH = 5 /* longest register name, without its % */
};

/* clang-format off */
static const char legacy_names[LEGACY_COUNT][4][4] = {
	{"al",  "ax", "eax", "rax"},
	{"cl",  "cx", "ecx", "rcx"},
	{"dl",  "dx", "edx", "rdx"},
	{"bl",  "bx", "ebx", "rbx"},
	{"spl", "sp", "esp", "rsp"},
	{"bpl", "bp", "ebp", "rbp"},
	{"sil", "si", "esi", "rsi"},
	{"dil", "di", "edi", "rdi"},
};

/* Bits 8 to 15 of rax, rcx, rdx and rbx. */
static const char high_byte_names[HIGH_BYTE_COUNT][3] = {"ah", "ch", "dh", "bh"};
/* clang-format on */

struct reg {
	enum arch_arg_kind kind; /* ARCH_ARG_REGISTER or ARCH_ARG_FP_REGISTER */
	int8_t number;
	uint8_t width;
	uint8_t shift;
};

/* Finds r8 to r15, perhaps with a suffix for the width. */
static bool find_numbered(const char *name, size_t length, struct reg *ret)
{
	uint8_t width = 8;
	int number;

	if (!spec_word_is(name, 1, "r"))
		return false;
	if (spec_word_is(name + length - 1, 1, "d"))
		width = 4;
	else if (spec_word_is(name + length - 1, 1, "w"))
		width = 2;
	else if (spec_word_is(name + length - 1, 1, "b"))
		width = 1;
	number = spec_word_number(name, width == 8 ? length : length - 1, 1, GENERAL_COUNT);
	if (number < LEGACY_COUNT)
		return false;
	*ret = (struct reg){ARCH_ARG_REGISTER, (int8_t)number, width, 0};
	return true;
}

static bool find_legacy(const char *name, size_t length, struct reg *ret)
{
	int i, log2;

	for (i = 0; i < LEGACY_COUNT; i++) {
		for (log2 = 0; log2 < 4; log2++) {
			if (!spec_word_is(name, length, legacy_names[i][log2]))
				continue;
			*ret = (struct reg){ARCH_ARG_REGISTER, (int8_t)i, (uint8_t)(1 << log2), 0};
			return true;
		}
	}
	for (i = 0; i < HIGH_BYTE_COUNT; i++) {
		if (spec_word_is(name, length, high_byte_names[i])) {
			*ret = (struct reg){ARCH_ARG_REGISTER, (int8_t)i, 1, 8};
			return true;
		}
	}
	return false;
}

static bool find_vector(const char *name, size_t length, struct reg *ret)
{
	int number = spec_word_number(name, length, 3, VECTOR_COUNT);
	uint8_t width;

	if (number < 0)
		return false;
	if (spec_word_is(name, 3, "xmm"))
		width = 16;
	else if (spec_word_is(name, 3, "ymm"))
		width = 32;
	else if (spec_word_is(name, 3, "zmm"))
		width = 64;
	else
		return false;
	*ret = (struct reg){ARCH_ARG_FP_REGISTER, (int8_t)number, width, 0};
	return true;
}

/* Finds a register by its name without the %. */
static bool find_register(const char *name, size_t length, struct reg *ret)
{
	if (length < 2 || length > NAME_MAX_LENGTH)
		return false;
	return find_numbered(name, length, ret) || find_legacy(name, length, ret) ||
	       find_vector(name, length, ret);
}

/* Consumes a base (maybe ARCH_REG_PC) or an index (maybe ARCH_REG_NONE, for %riz). */
static bool take_address_register(struct spec_text *text, bool is_index, int8_t *number_ret)
{
	const char *name;
	size_t length;
	struct reg reg;

	if (!spec_take(text, '%'))
		return false;
	length = spec_word(text, &name);
	if (spec_word_is(name, length, is_index ? "riz" : "rip")) {
		*number_ret = is_index ? ARCH_REG_NONE : ARCH_REG_PC;
		return true;
	}
	if (!find_register(name, length, &reg) || reg.kind != ARCH_ARG_REGISTER || reg.width != 8)
		return false;
	*number_ret = reg.number;
	return !is_index || reg.number != STACK_POINTER;
}

static bool take_scale(struct spec_text *text, uint8_t *ret)
{
	uint64_t scale;

	if (!spec_number(text, &scale))
		return false;
	*ret = (uint8_t)scale;
	return scale == 1 || scale == 2 || scale == 4 || scale == 8;
}

/* Consumes the text inside the parentheses, and the closing parenthesis. */
static bool take_address(struct spec_text *text, struct arch_arg *arg)
{
	if (spec_peek(text) == '%' && !take_address_register(text, false, &arg->base))
		return false;
	if (spec_take(text, ',')) {
		if (spec_peek(text) != '%') {
			/* In `sym(,1)` there is no index, so the scale has no effect. */
			if (!take_scale(text, &arg->scale))
				return false;
		} else if (!take_address_register(text, true, &arg->index) ||
			   (spec_take(text, ',') && !take_scale(text, &arg->scale))) {
			return false;
		}
		if (arg->index == ARCH_REG_NONE)
			arg->scale = 1;
	} else if (arg->base == ARCH_REG_NONE) {
		return false; /* `()` */
	}
	return spec_take(text, ')');
}

/* Returns true if an address comes next, not an expression in parentheses. */
static bool is_address(const struct spec_text *text)
{
	struct spec_text ahead = *text;
	char c;

	if (!spec_take(&ahead, '('))
		return false;
	c = spec_peek(&ahead);
	return c == '%' || c == ',' || c == ')';
}

static bool take_memory(struct spec_text *text, struct arch_arg *arg)
{
	struct spec_sum sum = {0};
	struct reg reg;

	if (!is_address(text) && !spec_sum(text, &sum))
		return false;
	if (is_address(text)) {
		spec_take(text, '(');
		if (!take_address(text, arg))
			return false;
	} else if (sum.symbol && find_register(sum.symbol, sum.symbol_length, &reg)) {
		return false; /* Intel syntax */
	}
	if (arg->base == ARCH_REG_PC && (arg->index != ARCH_REG_NONE || !sum.symbol))
		return false;
	/* Only an absolute address may exceed the 32 bits of a displacement. */
	if ((arg->base != ARCH_REG_NONE || arg->index != ARCH_REG_NONE) &&
		sum.value != (int32_t)sum.value)
		return false;
	spec_set(arg, ARCH_ARG_MEMORY, &sum);
	return true;
}

static bool take_immediate(struct spec_text *text, struct arch_arg *arg)
{
	struct spec_sum sum;

	if (!spec_sum(text, &sum))
		return false;
	spec_set(arg, ARCH_ARG_IMMEDIATE, &sum);
	return true;
}

static bool take_operand(struct spec_text *text, struct arch_arg *arg)
{
	const char *name;
	size_t length;
	struct reg reg;

	if (spec_take(text, '$'))
		return take_immediate(text, arg);
	if (!spec_take(text, '%'))
		return take_memory(text, arg);
	length = spec_word(text, &name);
	if (!find_register(name, length, &reg))
		return false;
	arg->kind = reg.kind;
	arg->base = reg.number;
	arg->width = reg.width;
	arg->shift = reg.shift;
	return true;
}

/* Returns true if an argument that was not understood is in Intel syntax. */
static bool is_intel(const struct arch_arg *arg)
{
	struct spec_text text = {arg->spec, arg->spec + arg->spec_length};
	const char *at, *name;
	size_t length;
	struct reg reg;

	for (at = text.at; at < text.end; at++) {
		if (*at == '[')
			return true;
		if (*at == '@')
			text.at = at + 1;
	}
	length = spec_word(&text, &name);
	return find_register(name, length, &reg);
}

size_t x86_64_parse_args(const char *args, struct arch_arg ret[ARCH_ARGS_MAX])
{
	size_t count = spec_parse_args(args, take_operand, ret);
	bool intel = false;
	size_t i;

	for (i = 0; i < count && !intel; i++)
		intel = ret[i].kind == ARCH_ARG_UNKNOWN && is_intel(&ret[i]);
	for (i = 0; i < count && intel; i++) {
		if (ret[i].kind == ARCH_ARG_MEMORY && ret[i].base == ARCH_REG_NONE &&
			ret[i].index == ARCH_REG_NONE && !ret[i].symbol) {
			ret[i].kind = ARCH_ARG_UNKNOWN;
			ret[i].disp = 0;
		}
	}
	return count;
}
