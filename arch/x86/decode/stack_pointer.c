/* SPDX-License-Identifier: MIT */
/*
 * Checks whether %rsp points to a stack.
 *
 * Stubs push onto the stack, as signal handlers do. Hand-written code can use %rsp as any other
 * register while signals are blocked, for example to read a table with `pop`. So this decodes
 * the code that leads to a site, from the start of its function, in address order. If %rsp is
 * set to an address of the program's data, to a constant, or to an argument, a stub would write
 * there.
 *
 * A value loaded from memory is taken for a saved stack pointer, as in longjmp(3) and
 * coroutines; a value copied or computed from %rsp or %rbp is taken for one of the same stack
 * (variable-length arrays, alignment).
 *
 * Source: Intel SDM volume 2, MOV, LEA, XCHG, POP, LEAVE; appendix B.
 */
#include "arch/x86/decode/disasm.h"
#include "arch/x86/emit.h"
#include "arch/x86/decode/insn.h"

enum { REX_R = 4, MODE_REGISTER = 3, RM_SIB = 4, RM_PC = 5 };

enum {
	MOV_TO_RM = 0x89,
	MOV_FROM_RM = 0x8b,
	LEA = 0x8d,
	XCHG = 0x87,
	XCHG_RAX = 0x90, /* and the seven after it */
	MOV_CONST = 0xb8,
	MOV_CONST32 = 0xc7,
	POP_RSP = 0x5c,
	LEAVE = 0xc9
};

/* What is known about the registers. */
struct known {
	uint16_t stack; /* one bit for each register that may point to the stack */
	bool lost;	/* %rsp does not point to the stack */
};

static bool is_stack(const struct known *k, int reg)
{
	return reg == RSP ? !k->lost : k->stack >> reg & 1;
}

static void set(struct known *k, int reg, bool stack)
{
	if (reg == RSP)
		k->lost = !stack;
	else if (stack)
		k->stack |= 1u << reg;
}

/* The base register of an address; REG_NONE for a constant or a %rip-relative address. */
static int base_of(const uint8_t *modrm, uint8_t rex)
{
	int mode = *modrm >> 6, rm = *modrm & 7, base = rm;

	if (rm == RM_SIB)
		base = modrm[1] & 7;
	if (mode == 0 && base == RM_PC)
		return REG_NONE;
	return base | (rex & X86_64_REX_B ? 8 : 0);
}

static void follow_modrm(struct known *k, uint8_t opcode, const uint8_t *modrm, uint8_t rex)
{
	int reg = (*modrm >> 3 & 7) | (rex & REX_R ? 8 : 0);
	int rm = (*modrm & 7) | (rex & X86_64_REX_B ? 8 : 0);
	bool is_register = *modrm >> 6 == MODE_REGISTER, stack = is_stack(k, reg);
	int base;

	if (opcode == LEA) {
		base = base_of(modrm, rex);
		set(k, reg, base != REG_NONE && is_stack(k, base));
	} else if (opcode == MOV_FROM_RM) {
		set(k, reg, !is_register || is_stack(k, rm));
	} else if (is_register && opcode == MOV_TO_RM) {
		set(k, rm, stack);
	} else if (is_register && opcode == MOV_CONST32) {
		set(k, rm, false);
	} else if (is_register && opcode == XCHG) {
		set(k, reg, is_stack(k, rm));
		set(k, rm, stack);
	}
}

static void follow(struct known *k, const uint8_t *bytes, size_t length)
{
	struct x86_64_prefixes p = x86_64_prefixes(bytes, length);
	const uint8_t *at = bytes + p.length;
	uint8_t opcode = p.length < length ? *at : 0;
	int low = (opcode & 7) | (p.rex & X86_64_REX_B ? 8 : 0);
	bool stack = is_stack(k, low);

	if (opcode == LEAVE || (opcode == POP_RSP && !(p.rex & X86_64_REX_B)))
		set(k, RSP, true);
	else if (!(p.rex & X86_64_REX_W))
		return;
	else if ((opcode & 0xf8) == MOV_CONST)
		set(k, low, false);
	else if ((opcode & 0xf8) == XCHG_RAX && low != RAX) {
		set(k, low, is_stack(k, RAX));
		set(k, RAX, stack);
	} else if (p.length + 1u < length) {
		follow_modrm(k, opcode, at + 1, p.rex);
	}
}

/* May the code contain one of these instructions with %rsp? */
bool x86_64_may_lose_stack(const uint8_t *bytes, size_t length)
{
	for (size_t i = 0; i + 1 < length; i++) {
		uint8_t opcode = bytes[i + 1], operand = i + 2 < length ? bytes[i + 2] : 0;

		if (!(bytes[i] >= 0x48 && bytes[i] <= 0x4f))
			continue;
		if (opcode == MOV_CONST + RSP || opcode == XCHG_RAX + RSP)
			return true;
		if ((opcode == LEA || opcode == MOV_FROM_RM || opcode == XCHG) &&
			(operand >> 3 & 7) == RSP && !(bytes[i] & REX_R))
			return true;
		if ((opcode == MOV_TO_RM || opcode == MOV_CONST32 || opcode == XCHG) &&
			operand >> 6 == MODE_REGISTER && (operand & 7) == RSP)
			return true;
	}
	return false;
}

bool x86_64_loses_stack(const uint8_t *bytes, size_t length)
{
	struct known known = {.stack = 1 << RBP};
	size_t at = 0, size;

	for (; at < length && (size = disasm_length(bytes + at, length - at)); at += size)
		follow(&known, bytes + at, size);
	return known.lost;
}
