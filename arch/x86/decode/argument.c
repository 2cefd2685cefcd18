/* SPDX-License-Identifier: MIT */
/*
 * Checks whether the fourth argument of a system call, %r10, is still needed after the call.
 *
 * The kernel preserves %r10, so a compiler may rely on its value. This follows all paths after
 * the `syscall` up to the function's return or a call, where the ABI lets the register change
 * ("System V ABI, AMD64 Architecture Processor Supplement", figure 3.4). An instruction that
 * names the register at all ends the search: it counts as needed. So does anything that is not
 * understood.
 *
 * Source: Intel SDM volume 2, 2.1.5 (ModRM, SIB), 2.2.1 (REX); appendix A.
 */
#include "arch/x86/decode/argument.h"
#include "arch/x86/decode/disasm.h"
#include "arch/x86/decode/insn.h"

enum { REX_X = 2, REX_R = 4, LOW_R10 = 2, MODE_REGISTER = 3, RM_SIB = 4 };
enum { TWO_BYTES = 0x0f, SYSCALL = 0x05, EVEX = 0x62, VEX3 = 0xc4, VEX2 = 0xc5, XOP = 0x8f };
enum { INSNS_MAX = 64 };

/* Vector instructions encode registers elsewhere; a system call reads %r10 without naming it. */
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
 * Follows the path from an offset on; *left is how many more instructions to examine, on all
 * paths.
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
