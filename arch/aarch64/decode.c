/* SPDX-License-Identifier: MIT */
/*
 * Decodes aarch64. In the Arm ARM (DDI 0487), C4.1 "A64 instruction set encoding", bits 25 to 28
 * tell the group of an instruction. In most groups no instruction depends on its own address. The
 * table lists the instructions that do, and all branches. A branch that is not in the table is
 * AARCH64_UNKNOWN; so are instructions that later architectures may add.
 *
 * FIXED are:
 *	svc		the kernel restarts a system call at the address of its svc, and shows
 *			this address to seccomp filters
 *	bti, paciasp	landing pads: an indirect branch may arrive there
 *	hints from 32	some change the next instruction (pacm)
 *	cpym, sete ...	parts of a copy that must stay together: the kernel may go back to the
 *			first part
 *	stxr ...	fails if more than a few instructions ran since the ldxr
 *	tstart		if the transaction fails, execution continues at the tstart
 */
#include "arch/aarch64/decode.h"
#include "arch/aarch64/encoding.h"

struct pattern {
	uint32_t mask, bits;
	enum aarch64_kind kind;
};

/* The first pattern that matches an instruction gives its kind. */
static const struct pattern patterns[] = {
	/* -- instructions that depend on their own address -- */
	{0x9f000000, 0x10000000, AARCH64_ADR}, {0x9f000000, 0x90000000, AARCH64_ADRP},
	{0xff000000, 0xdc000000, AARCH64_UNKNOWN}, /* a literal of unknown size */
	{0x3b000000, 0x18000000, AARCH64_LITERAL}, {0xfc000000, 0x14000000, AARCH64_B},
	{0xfc000000, 0x94000000, AARCH64_BL}, {0xff000000, 0x54000000, AARCH64_B_COND},
	{0x7e000000, 0x34000000, AARCH64_CB}, {0x7e000000, 0x36000000, AARCH64_TB},
	/* -- branches to registers: plain; authenticated with modifier 0; with a register -- */
	{0xfffffc1f, 0xd61f0000, AARCH64_BR}, {0xfffff81f, 0xd61f081f, AARCH64_BR},
	{0xfffff800, 0xd71f0800, AARCH64_BR}, {0xfffffc1f, 0xd63f0000, AARCH64_BLR},
	{0xfffff81f, 0xd63f081f, AARCH64_BLR}, {0xfffff800, 0xd73f0800, AARCH64_BLR},
	{0xfffffc1f, 0xd65f0000, AARCH64_RET}, {0xfffffbff, 0xd65f0bff, AARCH64_RET},
	/* -- instructions that raise exceptions -- */
	{0xffe0001f, 0xd4000001, AARCH64_FIXED},					/* svc */
	{0xff000000, 0xd4000000, AARCH64_TRAP}, {0xffff0000, 0x00000000, AARCH64_TRAP}, /* udf */
	/* -- hints, whose numbers are bits 5 to 11; other system instructions -- */
	{0xffffffbf, 0xd503233f, AARCH64_FIXED}, /* paciasp, pacibsp */
	{0xfffffc1f, 0xd503201f, AARCH64_PLAIN}, {0xfffff01f, 0xd503201f, AARCH64_FIXED},
	{0xffffffe0, 0xd5233060, AARCH64_FIXED}, /* tstart */
	{0xffc00000, 0xd5000000, AARCH64_PLAIN},
	{0x1c000000, 0x14000000, AARCH64_UNKNOWN}, /* other branches and system instructions */
	/* -- instructions that differ from the rest of their groups, which follow -- */
	{0x3b200c00, 0x19000400, AARCH64_FIXED},   /* copies and fills of memory */
	{0x3fc00000, 0x08000000, AARCH64_FIXED},   /* exclusive stores */
	{0x7f800000, 0x13800000, AARCH64_PLAIN},   /* extr */
	{0x1f800000, 0x13800000, AARCH64_UNKNOWN}, /* autiasppc and autibsppc are in this space */
	{0x7fff8000, 0x5ac18000, AARCH64_UNKNOWN}, /* paciasppc and similar ones */
	/* -- whole groups -- */
	{0x1e000000, 0x04000000, AARCH64_PLAIN}, /* SVE */
	{0x1c000000, 0x10000000, AARCH64_PLAIN}, /* constants */
	{0x0a000000, 0x08000000, AARCH64_PLAIN}, /* memory */
	{0x0e000000, 0x0a000000, AARCH64_PLAIN}, /* registers */
	{0x0e000000, 0x0e000000, AARCH64_PLAIN}, /* vectors, floating point */
};

enum aarch64_kind aarch64_kind_of(uint32_t insn)
{
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		if ((insn & patterns[i].mask) == patterns[i].bits)
			return patterns[i].kind;
	return AARCH64_UNKNOWN;
}

uint64_t aarch64_target(uint32_t insn, enum aarch64_kind kind, uint64_t address)
{
	switch (kind) {
	case AARCH64_ADR:
		return address + (uint64_t)aarch64_page_field(insn);
	case AARCH64_ADRP:
		return (address & ~UINT64_C(0xfff)) + (uint64_t)aarch64_page_field(insn) * 0x1000;
	case AARCH64_B:
	case AARCH64_BL:
		return address + (uint64_t)aarch64_distance(insn, 0, 26);
	case AARCH64_LITERAL:
	case AARCH64_B_COND:
	case AARCH64_CB:
		return address + (uint64_t)aarch64_distance(insn, 5, 19);
	case AARCH64_TB:
		return address + (uint64_t)aarch64_distance(insn, 5, 14);
	default:
		return 0;
	}
}

static enum arch_flow flow_of(enum aarch64_kind kind)
{
	switch (kind) {
	case AARCH64_B:
		return ARCH_FLOW_JUMP;
	case AARCH64_BL:
		return ARCH_FLOW_CALL;
	case AARCH64_B_COND:
	case AARCH64_CB:
	case AARCH64_TB:
		return ARCH_FLOW_BRANCH;
	case AARCH64_BR:
		return ARCH_FLOW_INDIRECT_JUMP;
	case AARCH64_BLR:
		return ARCH_FLOW_INDIRECT_CALL;
	case AARCH64_RET:
		return ARCH_FLOW_RETURN;
	case AARCH64_TRAP:
		return ARCH_FLOW_STOP;
	default:
		return ARCH_FLOW_NONE;
	}
}

bool aarch64_decode(const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret)
{
	enum aarch64_kind kind;
	uint32_t insn;

	if (length < AARCH64_INSN_LENGTH || address % AARCH64_INSN_LENGTH)
		return false;
	insn = aarch64_load(bytes);
	kind = aarch64_kind_of(insn);
	if (kind == AARCH64_UNKNOWN)
		return false;
	*ret = (struct arch_insn){.length = AARCH64_INSN_LENGTH, .flow = flow_of(kind)};
	if (ret->flow == ARCH_FLOW_JUMP || ret->flow == ARCH_FLOW_CALL ||
		ret->flow == ARCH_FLOW_BRANCH)
		ret->target = aarch64_target(insn, kind, address);
	return true;
}
