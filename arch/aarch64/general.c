/* SPDX-License-Identifier: MIT */
/*
 * Recognizes instructions that change only general registers, flags and memory. Bits 25 to 28 tell
 * the groups of vector instructions, and one bit tells loads and stores of vectors. Only the listed
 * system instructions qualify, because others include smstart and writes to FPCR. A system call
 * does not qualify: it clears parts of SVE's vectors.
 *
 * Source: Arm ARM (DDI 0487), C4.1 "A64 instruction set encoding".
 */
#include "arch/aarch64/general.h"
#include "arch/aarch64/decode.h"
#include "arch/aarch64/encoding.h"

struct pattern {
	uint32_t mask, bits;
};

static const struct pattern general[] = {
	{0xfffff01f, 0xd503201f}, /* hints */
	{0xfffff01f, 0xd503301f}, /* barriers, clrex */
	{0xfff00000, 0xd5300000}, /* mrs */
	{0xffffffe0, 0xd51b4200}, /* msr nzcv */
	{0x1c000000, 0x10000000}, /* constants */
	{0x7c000000, 0x14000000}, /* b, bl */
	{0xfe000000, 0x54000000}, /* b.cond, bc.cond */
	{0x7c000000, 0x34000000}, /* cbz, cbnz, tbz, tbnz */
	{0x0e000000, 0x0a000000}, /* registers */
	{0x0e000000, 0x08000000}, /* memory, except vectors */
};

bool aarch64_is_general(const uint8_t *bytes, size_t length)
{
	enum aarch64_kind kind;
	uint32_t insn;

	if (length < AARCH64_INSN_LENGTH)
		return false;
	insn = aarch64_load(bytes);
	kind = aarch64_kind_of(insn);
	if (kind == AARCH64_RET || kind == AARCH64_TRAP)
		return true;
	for (size_t i = 0; kind != AARCH64_UNKNOWN && i < sizeof(general) / sizeof(*general); i++)
		if ((insn & general[i].mask) == general[i].bits)
			return true;
	return false;
}
