/* SPDX-License-Identifier: MIT */
/*
 * Decoding x86-64 code: where an instruction ends, and where it can go.
 *
 * Lengths come from the disassembler library. The effect on control flow is read from the
 * opcode after the prefixes (Intel SDM vol. 2, appendix A; AMD APM vol. 3), because the
 * library's text and details cost more than they tell. For a direct branch the two must agree
 * on the length: the displacement ends where the instruction does.
 *
 * They disagree where CPUs do: with a 66 prefix, `e8`, `e9`, `0f 8x` and xbegin have two bytes
 * of displacement on AMD and four on Intel. No compiler emits that, and it is refused. 66 with
 * REX.W is harmless, and every thread-local access of a shared library has it (`66 66 48 e8`).
 *
 * VEX (c4, c5), EVEX (62) and XOP (8f) contain no branches.
 */
#include <string.h>

#include "arch/x86/decode/disasm.h"
#include "arch/x86/decode/insn.h"

struct x86_64_prefixes x86_64_prefixes(const uint8_t *bytes, size_t length)
{
	struct x86_64_prefixes ret = {0};

	for (; ret.length < length && ret.length < ARCH_INSN_MAX; ret.length++) {
		uint8_t byte = bytes[ret.length];

		switch (byte) {
		case 0x66:
			ret.operand_size = true;
			break;
		case 0x67:
			ret.address_size = true;
			break;
		case 0xf0:
			ret.lock = true;
			break;
		case 0xf2:
		case 0xf3:
			ret.repeat = byte;
			break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x64:
		case 0x65:
			ret.segment = byte;
			break;
		default:
			if ((byte & 0xf0) != 0x40)
				return ret;
			ret.rex = byte;
			continue;
		}
		/* A REX that is not the last prefix is ignored. */
		ret.rex = 0;
	}
	return ret;
}

/* A transfer of control, as its opcode describes it. */
struct transfer {
	enum arch_flow flow;
	uint8_t opcode_size;
	uint8_t displacement_size; /* of a direct transfer, else 0 */
};

static struct transfer transfer_0f(uint8_t second)
{
	if (second >= 0x80 && second <= 0x8f)
		return (struct transfer){ARCH_FLOW_BRANCH, 2, 4};
	switch (second) {
	case 0x07: /* sysret */
	case 0x35: /* sysexit */
		return (struct transfer){.flow = ARCH_FLOW_RETURN};
	case 0x0b: /* ud2 */
	case 0xb9: /* ud1 */
	case 0xff: /* ud0 */
		return (struct transfer){.flow = ARCH_FLOW_STOP};
	default:
		return (struct transfer){.flow = ARCH_FLOW_NONE};
	}
}

/* `opcode` has at least one byte; `next` is the byte after it, or 0. */
static struct transfer transfer_of(uint8_t opcode, uint8_t next)
{
	if (opcode >= 0x70 && opcode <= 0x7f)
		return (struct transfer){ARCH_FLOW_BRANCH, 1, 1};
	switch (opcode) {
	case 0xe0:
	case 0xe1:
	case 0xe2:
	case 0xe3: /* loopne, loope, loop, jrcxz */
		return (struct transfer){ARCH_FLOW_BRANCH, 1, 1};
	case 0xe8:
		return (struct transfer){ARCH_FLOW_CALL, 1, 4};
	case 0xe9:
		return (struct transfer){ARCH_FLOW_JUMP, 1, 4};
	case 0xeb:
		return (struct transfer){ARCH_FLOW_JUMP, 1, 1};
	case 0xc2:
	case 0xc3:
	case 0xca:
	case 0xcb:
	case 0xcf:
		return (struct transfer){.flow = ARCH_FLOW_RETURN};
	case 0xcc: /* int3: padding, or a debugger's */
	case 0xf4: /* hlt */
		return (struct transfer){.flow = ARCH_FLOW_STOP};
	case 0xc7: /* xbegin goes to its target when the transaction fails */
		if (next == 0xf8)
			return (struct transfer){ARCH_FLOW_BRANCH, 2, 4};
		break;
	case 0xff:
		if ((next >> 3 & 7) == 2 || (next >> 3 & 7) == 3)
			return (struct transfer){.flow = ARCH_FLOW_INDIRECT_CALL};
		if ((next >> 3 & 7) == 4 || (next >> 3 & 7) == 5)
			return (struct transfer){.flow = ARCH_FLOW_INDIRECT_JUMP};
		break;
	case 0x0f:
		return transfer_0f(next);
	}
	return (struct transfer){.flow = ARCH_FLOW_NONE};
}

/* The target of a direct transfer; false if the length does not match. */
static bool transfer_target(const struct transfer *transfer, const struct x86_64_prefixes *prefixes,
	const uint8_t *bytes, size_t length, uint64_t address, uint64_t *ret)
{
	const uint8_t *at = bytes + length - transfer->displacement_size;
	int32_t displacement = (int8_t)at[0];

	if (prefixes->lock || (prefixes->operand_size && !(prefixes->rex & X86_64_REX_W)))
		return false;
	if (length !=
		(size_t)prefixes->length + transfer->opcode_size + transfer->displacement_size)
		return false;
	if (transfer->displacement_size == 4)
		memcpy(&displacement, at, sizeof(displacement));
	*ret = address + length + (uint64_t)(int64_t)displacement;
	return true;
}

bool x86_64_can_decode(void)
{
	return disasm_available();
}

bool x86_64_decode(const uint8_t *bytes, size_t length, uint64_t address, struct arch_insn *ret)
{
	struct x86_64_prefixes prefixes;
	struct transfer transfer;
	uint64_t target = 0;
	size_t size;

	if (length > ARCH_INSN_MAX)
		length = ARCH_INSN_MAX;
	size = disasm_length(bytes, length);
	if (!size)
		return false;
	prefixes = x86_64_prefixes(bytes, size);
	if (prefixes.length >= size)
		return false;
	transfer = transfer_of(bytes[prefixes.length],
		prefixes.length + 1u < size ? bytes[prefixes.length + 1] : 0);
	if (transfer.displacement_size &&
		!transfer_target(&transfer, &prefixes, bytes, size, address, &target))
		return false;
	*ret = (struct arch_insn){.length = size, .flow = transfer.flow, .target = target};
	return true;
}

/* The length of a ModRM byte and its SIB and displacement (64-bit addressing), or 0 if cut off. */
static size_t operand_length(const uint8_t *bytes, size_t length)
{
	static const uint8_t displacement[] = {0, 1, 4, 0};
	size_t size;
	uint8_t mod, rm;

	if (length < 1)
		return 0;
	mod = bytes[0] >> 6;
	rm = bytes[0] & 7;
	size = 1 + displacement[mod];
	if (mod != 3 && rm == 4) {
		if (length < 2)
			return 0;
		size += 1;
		if (mod == 0 && (bytes[1] & 7) == 5)
			size += 4;
	} else if (mod == 0 && rm == 5) {
		size += 4;
	}
	return size <= length ? size : 0;
}

/*
 * Nops as assemblers write them: 66* 90 and (66 | 2e)* 0f 1f /0 (Intel SDM vol. 2, "NOP":
 * recommended multi-byte sequences; gas pads with more 66). `f3 90` is pause, `41 90` an
 * exchange, `f3 0f 1e fa` endbr64: these are not nops here.
 */
size_t x86_64_nop_length(const uint8_t *bytes, size_t length)
{
	bool segment = false;
	size_t at = 0, operand, size = 0;

	if (length > ARCH_INSN_MAX)
		length = ARCH_INSN_MAX;
	for (; at < length && (bytes[at] == 0x66 || bytes[at] == 0x2e); at++)
		segment |= bytes[at] == 0x2e;
	if (at < length && bytes[at] == 0x90 && !segment) {
		size = at + 1;
	} else if (length - at > 2 && bytes[at] == 0x0f && bytes[at + 1] == 0x1f &&
		   (bytes[at + 2] & 0x38) == 0) {
		operand = operand_length(bytes + at + 2, length - at - 2);
		size = operand ? at + 2 + operand : 0;
	}
	return size;
}

size_t x86_64_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	int64_t distance = (int64_t)(to - (at + X86_64_JUMP_LENGTH));
	int32_t displacement = (int32_t)distance;

	if (displacement != distance)
		return 0;
	out[0] = 0xe9;
	memcpy(out + 1, &displacement, sizeof(displacement));
	return X86_64_JUMP_LENGTH;
}

size_t x86_64_short_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	int64_t distance = (int64_t)(to - (at + X86_64_SHORT_JUMP_LENGTH));

	if (distance != (int8_t)distance)
		return 0;
	out[0] = 0xeb;
	out[1] = (uint8_t)distance;
	return X86_64_SHORT_JUMP_LENGTH;
}

/*
 * jmp *padding(%rip), and behind it the address. This is aligned, because the program may have
 * EFLAGS.AC set: it would get a SIGBUS otherwise (arch/x86/stub/alignment.c).
 */
static const uint8_t far_jump[] = {0xff, 0x25};

enum { FAR_JUMP_INSN = 6, FAR_PADDING_MAX = 7 };

size_t x86_64_far_jump(uint64_t at, uint64_t to, uint8_t *out)
{
	uint32_t padding = -(uint32_t)(at + FAR_JUMP_INSN) & FAR_PADDING_MAX;
	uint8_t *address = out + FAR_JUMP_INSN + padding;

	memcpy(out, far_jump, sizeof(far_jump));
	memcpy(out + sizeof(far_jump), &padding, sizeof(padding));
	memset(out + FAR_JUMP_INSN, 0xcc, padding);
	memcpy(address, &to, sizeof(to));
	return (size_t)(address - out) + sizeof(to);
}

uint64_t x86_64_jump_target(uint64_t at, const uint8_t *bytes)
{
	int32_t displacement;
	uint64_t to;

	if (bytes[0] == 0xe9) {
		memcpy(&displacement, bytes + 1, sizeof(displacement));
		return at + X86_64_JUMP_LENGTH + (int64_t)displacement;
	}
	if (memcmp(bytes, far_jump, sizeof(far_jump)) != 0)
		return 0;
	memcpy(&displacement, bytes + sizeof(far_jump), sizeof(displacement));
	if (displacement < 0 || displacement > FAR_PADDING_MAX)
		return 0;
	memcpy(&to, bytes + FAR_JUMP_INSN + displacement, sizeof(to));
	return to;
}
