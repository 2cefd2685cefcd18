/* SPDX-License-Identifier: MIT */
/*
 * Instructions that change only general registers, arithmetic flags and memory. The lists have the
 * opcodes that compilers use; other opcodes may do anything. The legacy maps of one and two bytes
 * suffice, because VEX, EVEX and XOP begin with other bytes (c4, c5, 62, 8f).
 *
 * A repeat or operand-size prefix selects vector instructions only for unlisted opcodes. With a
 * listed opcode, it changes the operand's size, repeats, is ignored, or makes another general
 * instruction (popcnt, tzcnt, lzcnt, pause, endbr64).
 *
 * Source: Intel SDM vol. 2, appendix A.
 */

#include "arch/x86/decode/insn.h"
#include "arch/x86/emit.h"

/* ==== General ================================================================================= */

struct range {
	uint8_t first, last;
};

/* clang-format off */
static const struct range one_byte[] = {
	{0x50, 0x5f},	/* push, pop */
	{0x63, 0x63},	/* movsxd */
	{0x68, 0x6b},	/* push, imul */
	{0x70, 0x7f},	/* jcc */
	{0x80, 0x81}, {0x83, 0x83},	/* add ... cmp */
	{0x84, 0x8b}, {0x8d, 0x8d},	/* test, xchg, mov, lea */
	{0x90, 0x99},	/* nop, xchg, cdqe, cqo */
	{0xa4, 0xaf},	/* movs, cmps, test, stos, lods, scas */
	{0xb0, 0xbf},	/* mov */
	{0xc0, 0xc3},	/* shifts, ret */
	{0xc6, 0xc7},	/* mov; see below */
	{0xc9, 0xc9},	/* leave */
	{0xd0, 0xd3},	/* shifts */
	{0xe0, 0xe3},	/* loop, jrcxz */
	{0xe8, 0xe9}, {0xeb, 0xeb},	/* call, jmp */
	{0xf6, 0xf7},	/* test, not, neg, mul, div */
	{0xfe, 0xff},	/* inc, dec, push; see below */
};
static const struct range two_bytes[] = {
	{0x0b, 0x0b},	/* ud2 */
	{0x1e, 0x1f},	/* endbr64, nop */
	{0x31, 0x31},	/* rdtsc */
	{0x40, 0x4f},	/* cmovcc */
	{0x80, 0x9f},	/* jcc, setcc */
	{0xa3, 0xa5},	/* bt, shld */
	{0xab, 0xad},	/* bts, shrd */
	{0xaf, 0xb1},	/* imul, cmpxchg */
	{0xb3, 0xb3},	/* btr */
	{0xb6, 0xb7},	/* movzx */
	{0xba, 0xbf},	/* bt..., bsf, bsr, movsx */
	{0xc0, 0xc1},	/* xadd */
	{0xc8, 0xcf},	/* bswap */
};
/* clang-format on */

static bool is_listed(const struct range *ranges, size_t count, uint8_t opcode)
{
	for (size_t i = 0; i < count; i++)
		if (opcode >= ranges[i].first && opcode <= ranges[i].last)
			return true;
	return false;
}

bool x86_64_is_general(const uint8_t *bytes, size_t length)
{
	struct x86_64_prefixes prefixes = x86_64_prefixes(bytes, length);
	const uint8_t *at = bytes + prefixes.length;
	size_t left = length - prefixes.length;
	uint8_t operation = left > 1 ? at[1] >> 3 & 7 : 0;

	if (!left)
		return false;
	if (at[0] < 0x40 && (at[0] & 7) < 6) /* add, or, adc, sbb, and, sub, xor, cmp */
		return true;
	if (at[0] == 0x0f)
		return left > 1 &&
		       (is_listed(two_bytes, sizeof(two_bytes) / sizeof(*two_bytes), at[1]) ||
			       (at[1] == 0xb8 && prefixes.repeat == 0xf3)); /* popcnt */
	if (at[0] == 0xc6 || at[0] == 0xc7)
		return left > 1 && operation == 0; /* not xabort, xbegin */
	if (at[0] == 0xfe)
		return left > 1 && operation < 2;
	if (at[0] == 0xff) /* calls and jumps through a pointer can go anywhere */
		return left > 1 && (operation < 2 || operation == 6);
	return is_listed(one_byte, sizeof(one_byte) / sizeof(*one_byte), at[0]);
}

/* ==== Argument ================================================================================ */

/*
 * Finds out whether the fourth argument of a system call, %r10, is still needed after it.
 *
 * The kernel preserves %r10, so a compiler may rely on its value. We follow all paths after the
 * `syscall` up to the return or a call, which may change the register ("System V ABI, AMD64
 * Architecture Processor Supplement", figure 3.4). If an instruction names %r10 in any way, or is
 * not understood, %r10 counts as needed.
 *
 * Source: Intel SDM volume 2, 2.1.5 (ModRM, SIB), 2.2.1 (REX); appendix A.
 */

enum { REX_X = 2, REX_R = 4, LOW_R10 = 2, MODE_REGISTER = 3, RM_SIB = 4 };
enum { TWO_BYTES = 0x0f, SYSCALL = 0x05, EVEX = 0x62, VEX3 = 0xc4, VEX2 = 0xc5, XOP = 0x8f };
enum { INSNS_MAX = 64 };

/*
 * Returns true if an instruction may use %r10 unseen by names_r10(): vector instructions encode
 * registers elsewhere, and a system call reads %r10 without naming it.
 */
static bool is_obscure(const uint8_t *opcode, size_t length)
{
	return *opcode == EVEX || *opcode == VEX3 || *opcode == VEX2 || *opcode == XOP ||
	       (length > 1 && *opcode == TWO_BYTES && opcode[1] == SYSCALL);
}

static bool names_r10(const uint8_t *bytes, const struct disasm_insn *insn)
{
	struct x86_64_prefixes p = x86_64_prefixes(bytes, insn->length);
	const uint8_t *modrm = bytes + insn->modrm_offset;

	if (p.length >= insn->length || is_obscure(bytes + p.length, insn->length - p.length))
		return true;
	if (!insn->modrm_offset) /* the opcode's last byte encodes the register */
		return p.rex & X86_64_REX_B;
	if (p.rex & REX_R && (*modrm >> 3 & 7) == LOW_R10)
		return true;
	if (*modrm >> 6 == MODE_REGISTER || (*modrm & 7) != RM_SIB)
		return p.rex & X86_64_REX_B && (*modrm & 7) == LOW_R10;
	return (p.rex & X86_64_REX_B && (modrm[1] & 7) == LOW_R10) ||
	       (p.rex & REX_X && (modrm[1] >> 3 & 7) == LOW_R10);
}

/*
 * Returns true if all paths from `at` end before an instruction that may use %r10. *left limits the
 * search.
 */
static bool path_ends(const uint8_t *bytes, size_t length, uint64_t at, int *left)
{
	while (at < length && (*left)-- > 0) {
		struct disasm_insn operands;
		struct arch_insn insn;

		if (!disasm_insn(bytes + at, length - at, &operands) ||
			!x86_64_decode(bytes + at, length - at, at, &insn) ||
			names_r10(bytes + at, &operands))
			return false;
		switch (insn.flow) {
		case ARCH_FLOW_RETURN:
		case ARCH_FLOW_CALL:
			return true;
		case ARCH_FLOW_NONE:
			at += insn.length;
			break;
		case ARCH_FLOW_BRANCH:
			if (!path_ends(bytes, length, insn.target, left))
				return false;
			at += insn.length;
			break;
		case ARCH_FLOW_JUMP:
			at = insn.target;
			break;
		default:
			return false;
		}
	}
	return false;
}

bool x86_64_argument_dies(const uint8_t *bytes, size_t length)
{
	int left = INSNS_MAX;

	return path_ends(bytes, length, 0, &left);
}

/* ==== Flags =================================================================================== */

/*
 * Finds out whether code overwrites all arithmetic flags (CF, PF, AF, ZF, SF, OF) before it reads
 * one.
 *
 * The code must consist of listed instructions that keep all flags, read none and do not branch, up
 * to an instruction that writes all flags. Logical operations leave AF undefined, which counts as
 * writing: no program expects it. Not listed are shifts (a shift by 0 writes no flag), inc and dec
 * (they keep CF), adc and sbb (they read it), and VEX, EVEX and XOP.
 *
 * Source: Intel SDM volume 1, appendix A (EFLAGS cross-reference); volume 2, appendix A.
 */

enum { ADC = 2, SBB = 3, NOT = 2, NEG = 3, PUSH = 6 };

enum effect { OTHER, KEEPS, OVERWRITES };

/* add, or, and, sub, xor, cmp; but not adc and sbb. */
static enum effect of_operation(uint8_t operation)
{
	return operation == ADC || operation == SBB ? OTHER : OVERWRITES;
}

/* clang-format off */
/* After 0f: nop, movzx, movsx, moves and logic of vectors keep the flags. */
static const struct range two_bytes_keep[] = {
	{0x10, 0x11},	/* movups, movss, movupd, movsd */
	{0x1f, 0x1f},	/* nop */
	{0x28, 0x29},	/* movaps, movapd */
	{0x57, 0x57},	/* xorps */
	{0x6e, 0x6f}, {0x7e, 0x7f}, {0xd6, 0xd6},	/* movd, movq, movdqa, movdqu */
	{0xb6, 0xb7},	/* movzx */
	{0xbe, 0xbf},	/* movsx */
	{0xef, 0xef},	/* pxor */
};
static const struct range one_byte_keep[] = {
	{0x50, 0x5f},	/* push, pop */
	{0x63, 0x63},	/* movsxd */
	{0x68, 0x68}, {0x6a, 0x6a},	/* push */
	{0x86, 0x8b}, {0x8d, 0x8d},	/* xchg, mov, lea */
	{0x90, 0x99},	/* nop, xchg, cdqe, cqo */
	{0xb0, 0xbf},	/* mov */
};
/* clang-format on */

static enum effect of_one_byte(uint8_t opcode, uint8_t operation)
{
	if (opcode < 0x40 && (opcode & 7) < 6)
		return of_operation(opcode >> 3);
	if (is_listed(one_byte_keep, sizeof(one_byte_keep) / sizeof(*one_byte_keep), opcode))
		return KEEPS;
	switch (opcode) {
	case 0x80:
	case 0x81:
	case 0x83:
		return of_operation(operation);
	case 0x84: /* test */
	case 0x85:
	case 0xa8:
	case 0xa9:
		return OVERWRITES;
	case 0xc6: /* mov; other operations begin or end a transaction */
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
		return left > 1 && is_listed(two_bytes_keep,
					   sizeof(two_bytes_keep) / sizeof(*two_bytes_keep), at[1])
			       ? KEEPS
			       : OTHER;
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

/* ==== Stack pointer =========================================================================== */

/*
 * Finds out whether %rsp points to a stack.
 *
 * Stubs push, as signal handlers do. Hand-written code can use %rsp like any register while signals
 * are blocked, for example to read a table with `pop`. So we decode from the function's start to
 * the site, in address order. If %rsp is set to an address of data, a constant or an argument, a
 * stub would overwrite the program's memory.
 *
 * A value from memory is taken for a saved stack pointer, as in longjmp(3) and coroutines; a value
 * computed from %rsp or %rbp is taken for an address in the same stack (variable-length arrays,
 * alignment).
 *
 * Source: Intel SDM volume 2, MOV, LEA, XCHG, POP, LEAVE; appendix B.
 */

enum {
	RM_PC = 5,
	MOV_TO_RM = 0x89,
	MOV_FROM_RM = 0x8b,
	LEA = 0x8d,
	XCHG = 0x87,
	/* xchg with %rax; the low three bits are the register */
	XCHG_RAX = 0x90,
	MOV_CONST = 0xb8,
	MOV_CONST32 = 0xc7,
	POP_RSP = 0x5c,
	LEAVE = 0xc9
};

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

/* Returns an address's base register; REG_NONE for a constant or %rip-relative one. */
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

/* Returns true if the code may set %rsp to an unknown address. */
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
