/* SPDX-License-Identifier: MIT */
/*
 * Whether code overwrites the arithmetic flags (CF, PF, AF, ZF, SF, OF) before it can read one.
 *
 * Only instructions on the lists are passed: those that keep all of these flags, and none of which
 * reads one or leads elsewhere; until one that writes all of them. Logical operations leave AF
 * undefined, so no program expects its old value behind them. Shifts may write none (a count of 0),
 * inc and dec keep CF, adc and sbb read it: these are on no list.
 *
 * VEX, EVEX and XOP begin with bytes that are on no list, either.
 *
 * Source: Intel SDM volume 1, appendix A (EFLAGS cross-reference); volume 2, appendix A.
 */
#include "arch/x86/decode/flags.h"
#include "arch/x86/decode/insn.h"

enum { ADC = 2, SBB = 3, NOT = 2, NEG = 3, PUSH = 6 };

enum effect { OTHER, KEEPS, OVERWRITES };

/* add, or, and, sub, xor, cmp; but not adc and sbb. */
static enum effect of_operation(uint8_t operation)
{
	return operation == ADC || operation == SBB ? OTHER : OVERWRITES;
}

/* 0f and a second byte: nop, movzx, movsx, and moves of vector registers. */
static enum effect of_two_bytes(uint8_t second)
{
	switch (second) {
	case 0x10: /* movups, movss, movupd, movsd */
	case 0x11:
	case 0x1f: /* nop */
	case 0x28: /* movaps, movapd */
	case 0x29:
	case 0x57: /* xorps */
	case 0x6e: /* movd, movq */
	case 0x6f: /* movq, movdqa, movdqu */
	case 0x7e:
	case 0x7f:
	case 0xb6: /* movzx */
	case 0xb7:
	case 0xbe: /* movsx */
	case 0xbf:
	case 0xd6: /* movq */
	case 0xef: /* pxor */
		return KEEPS;
	default:
		return OTHER;
	}
}

static enum effect of_one_byte(uint8_t opcode, uint8_t operation)
{
	if (opcode < 0x40 && (opcode & 7) < 6)
		return of_operation(opcode >> 3);
	if ((opcode >= 0x50 && opcode <= 0x5f) ||     /* push, pop */
		(opcode >= 0x86 && opcode <= 0x8b) || /* xchg, mov */
		(opcode >= 0x90 && opcode <= 0x99) || /* nop, xchg, cdqe, cqo */
		(opcode >= 0xb0 && opcode <= 0xbf))   /* mov */
		return KEEPS;
	switch (opcode) {
	case 0x63: /* movsxd */
	case 0x68: /* push */
	case 0x6a:
	case 0x8d: /* lea */
		return KEEPS;
	case 0x80:
	case 0x81:
	case 0x83:
		return of_operation(operation);
	case 0x84: /* test */
	case 0x85:
	case 0xa8:
	case 0xa9:
		return OVERWRITES;
	case 0xc6: /* mov; others begin or end a transaction */
	case 0xc7:
		return operation == 0 ? KEEPS : OTHER;
	case 0xf6: /* test, not, neg */
	case 0xf7:
		return operation < NOT || operation == NEG ? OVERWRITES
		       : operation == NOT		   ? KEEPS
							   : OTHER;
	case 0xff:
		return operation == PUSH ? KEEPS : OTHER;
	default:
		return OTHER;
	}
}

static enum effect effect_of(const uint8_t *bytes, size_t length)
{
	struct x86_64_prefixes prefixes = x86_64_prefixes(bytes, length);
	const uint8_t *at = bytes + prefixes.length;
	size_t left = length - prefixes.length;

	if (!left)
		return OTHER;
	if (at[0] == 0x0f)
		return left > 1 ? of_two_bytes(at[1]) : OTHER;
	if (prefixes.repeat)
		return OTHER;
	return of_one_byte(at[0], left > 1 ? at[1] >> 3 & 7 : UINT8_MAX);
}

bool x86_64_overwrites_flags(const uint8_t *bytes, size_t length)
{
	struct arch_insn insn;

	for (size_t at = 0; at < length; at += insn.length) {
		enum effect effect;

		if (!x86_64_decode(bytes + at, length - at, 0, &insn) ||
			insn.flow != ARCH_FLOW_NONE)
			return false;
		effect = effect_of(bytes + at, insn.length);
		if (effect != KEEPS)
			return effect == OVERWRITES;
	}
	return false;
}
