/* SPDX-License-Identifier: MIT */
/*
 * Moves x86-64 instructions to another address.
 *
 * A 5-byte jump over a 1-byte nop also overwrites the instructions after the nop. Copies of these
 * run in the stub, and must have the same effect there on registers, flags, memory and the stack:
 *
 *	from:	nop			to:	nop
 *		mov  x(%rip),%rax		mov  x(%rip),%rax	new displacement
 *		call f				push $ret; movl $ret>>32,4(%rsp)
 *	ret:	...				jmp  f
 *
 * - An operand relative to %rip gets a displacement to the same address. The disassembler library
 *   says where the displacement is, and the ModRM byte must agree.
 * - A direct branch becomes its rel32 form with the same target.
 * - A call pushes the original return address, because unwinders, exceptions and conservative stack
 *   scanners look it up. A call instruction in the stub cannot do that, so other instructions push
 *   the address without changing a register or flag, and a jump follows. The callee returns to the
 *   original code, so only the last moved instruction may be a call. This has two costs. The CPU's
 *   return predictor misses once. With a shadow stack (CET) the return would fault, so a target
 *   that uses one must not be patched. The copy of an indirect call reads its operand after the
 *   push, the original before: an operand based on %rsp is corrected by 8, and an operand that
 *   overlaps the slot below %rsp is refused.
 * - Instructions that use their own address in other ways are refused: syscall puts it into %rcx,
 *   an interrupt reports it to a handler, xbegin rolls back to it. (An x87 instruction leaves its
 *   address in the FPU's state; only handlers of unmasked x87 exceptions look at that.)
 * - loop, jrcxz and similar instructions have no rel32 form. They are rare and are refused.
 * - A jump or return may end the code before the patch ends, if only padding follows that no code
 *   enters (arch_moved.padding).
 * - No branch may lead into the moved bytes, because the patch overwrites them. An instruction that
 *   branches into them is refused. It may branch to the first byte, where the patch begins.
 */
#include <string.h>

#include "arch/x86/decode/disasm.h"
#include "arch/x86/decode/insn.h"

/* The longest copy is that of a call: push (5 bytes), movl (8), and a jump (at most 15 + 4). */
enum { COPY_MAX = 5 + 8 + ARCH_INSN_MAX + 4 };

/* One instruction being moved. */
struct move {
	const uint8_t *bytes; /* bytes of the original */
	uint64_t from;	      /* address of the original */
	struct arch_insn insn;
	struct x86_64_prefixes prefixes;
	uint64_t to; /* address of the copy */
	uint8_t code[COPY_MAX];
	size_t code_length;
	bool has_target; /* `target` is set: a branch target or a %rip-relative operand */
	uint64_t target;
};

static void emit(struct move *move, const void *bytes, size_t length)
{
	memcpy(move->code + move->code_length, bytes, length);
	move->code_length += length;
}

static void emit_byte(struct move *move, uint8_t byte)
{
	emit(move, &byte, 1);
}

/*
 * Writes the 32-bit displacement to move->target at code + at. `tail` is the number of bytes of the
 * instruction after the displacement.
 */
static enum arch_move_status set_displacement(struct move *move, size_t at, size_t tail)
{
	uint64_t next = move->to + at + 4 + tail;
	int64_t distance = (int64_t)(move->target - next);
	int32_t displacement = (int32_t)distance;

	if (displacement != distance)
		return ARCH_MOVE_OUT_OF_REACH;
	memcpy(move->code + at, &displacement, sizeof(displacement));
	return ARCH_MOVE_OK;
}

/* Appends a displacement to `target`. The displacement is the last part of an instruction. */
static enum arch_move_status emit_target(struct move *move, uint64_t target)
{
	size_t at = move->code_length;

	move->has_target = true;
	move->target = target;
	emit(move, &(uint32_t){0}, 4);
	return set_displacement(move, at, 0);
}

/* Pushes the address after the original call. Changes no register and no flag. */
static void emit_push_return(struct move *move)
{
	static const uint8_t store_high[] = {0xc7, 0x44, 0x24, 0x04}; /* movl $imm,4(%rsp) */
	uint64_t address = move->from + move->insn.length;
	uint32_t low = (uint32_t)address, high = (uint32_t)(address >> 32);

	emit_byte(move, 0x68); /* push, sign-extended */
	emit(move, &low, sizeof(low));
	if ((uint64_t)(int64_t)(int32_t)low != address) {
		emit(move, store_high, sizeof(store_high));
		emit(move, &high, sizeof(high));
	}
}

/* Copies an instruction that does not branch. Only a %rip-relative operand changes. */
static enum arch_move_status move_plain(struct move *move)
{
	uint8_t length = move->insn.length;
	struct disasm_insn insn;
	int32_t displacement;
	bool relative;
	size_t at;

	if (!disasm_insn(move->bytes, length, &insn) || insn.length != length)
		return ARCH_MOVE_UNDECODABLE;
	if (insn.modrm_offset >= length)
		return ARCH_MOVE_UNSUPPORTED;
	/* With mod 0, rm 5 means %rip in every encoding: legacy, VEX, EVEX. */
	relative = insn.modrm_offset && (move->bytes[insn.modrm_offset] & 0xc7) == 0x05;
	if (insn.reads_pc32 || insn.reads_pc != relative)
		return ARCH_MOVE_UNSUPPORTED;
	emit(move, move->bytes, length);
	if (!relative)
		return ARCH_MOVE_OK;

	at = insn.modrm_offset + 1u;
	if (at + 4 > length)
		return ARCH_MOVE_UNSUPPORTED;
	memcpy(&displacement, move->bytes + at, sizeof(displacement));
	if (displacement != insn.disp)
		return ARCH_MOVE_UNSUPPORTED;
	move->has_target = true;
	move->target = move->from + length + (uint64_t)(int64_t)displacement;
	return set_displacement(move, at, length - at - 4);
}

/*
 * Moves a conditional branch. Keeps the prefix bnd and the hints of jcc; other prefixes have no
 * meaning here.
 */
static enum arch_move_status move_branch(struct move *move)
{
	const uint8_t *opcode = move->bytes + move->prefixes.length;
	uint8_t condition = opcode[0] == 0x0f ? opcode[1] : opcode[0];

	/* loop, loope, loopne, jrcxz; xbegin */
	if ((opcode[0] & 0xfc) == 0xe0 || opcode[0] == 0xc7 || move->prefixes.repeat == 0xf3)
		return ARCH_MOVE_UNSUPPORTED;
	if (move->prefixes.repeat)
		emit_byte(move, move->prefixes.repeat);
	if (move->prefixes.segment == 0x2e || move->prefixes.segment == 0x3e)
		emit_byte(move, move->prefixes.segment);
	emit_byte(move, 0x0f);
	emit_byte(move, 0x80 | (condition & 0x0f));
	return emit_target(move, move->insn.target);
}

/* Moves a direct jump, or the jump that ends a moved direct call. */
static enum arch_move_status move_jump(struct move *move)
{
	if (move->prefixes.repeat == 0xf3)
		return ARCH_MOVE_UNSUPPORTED;
	if (move->prefixes.repeat)
		emit_byte(move, move->prefixes.repeat);
	emit_byte(move, 0xe9);
	return emit_target(move, move->insn.target);
}

/* Emits the memory operand disp(%rsp,...): ModRM, SIB, and the displacement plus 8. */
static enum arch_move_status emit_stack_operand(struct move *move, const uint8_t *modrm)
{
	uint8_t mod = modrm[0] >> 6, sib = modrm[1];
	int32_t displacement = 0;

	if (mod == 1)
		displacement = (int8_t)modrm[2];
	else if (mod == 2)
		memcpy(&displacement, modrm + 2, sizeof(displacement));
	/* The operand would overlap the pushed address, or the addition would overflow. */
	if ((displacement > -16 && displacement < 0) || displacement > INT32_MAX - 8)
		return ARCH_MOVE_UNSUPPORTED;
	displacement += 8;
	emit_byte(move, 0x80 | 4 << 3 | 4); /* mod 2: disp32; /4: jmp; rm 4: SIB */
	emit_byte(move, sib);
	emit(move, &displacement, sizeof(displacement));
	return ARCH_MOVE_OK;
}

/* Emits a push of the return address, then a jmp with the operand of the original call. */
static enum arch_move_status move_indirect_call(struct move *move)
{
	const struct x86_64_prefixes *prefixes = &move->prefixes;
	const uint8_t *modrm = move->bytes + prefixes->length + 1;
	uint8_t mod = modrm[0] >> 6, rm = modrm[0] & 7;
	size_t operand = move->insn.length - prefixes->length - 1;
	bool base_is_12 = prefixes->rex & X86_64_REX_B; /* rm 4, or base 4, means %r12 */
	static const uint8_t displacement_size[] = {0, 1, 4, 0};
	int32_t displacement;
	size_t at;

	if ((modrm[0] >> 3 & 7) != 2 || prefixes->operand_size || prefixes->address_size ||
		prefixes->lock || prefixes->repeat == 0xf3)
		return ARCH_MOVE_UNSUPPORTED;
	emit_push_return(move);
	emit(move, move->bytes, prefixes->length);
	emit_byte(move, 0xff);
	if (mod == 3 && (operand != 1 || (rm == 4 && !base_is_12)))
		return ARCH_MOVE_UNSUPPORTED;
	if (mod != 3 && rm == 4 && (modrm[1] & 7) == 4 && !base_is_12) {
		/* The copy of the operand takes 6 bytes, and prefixes may leave too few. */
		if (operand != 2u + displacement_size[mod] ||
			prefixes->length + 1 + 6 > ARCH_INSN_MAX)
			return ARCH_MOVE_UNSUPPORTED;
		return emit_stack_operand(move, modrm);
	}
	at = move->code_length + 1;
	emit_byte(move, (modrm[0] & 0xc7) | 4 << 3);
	emit(move, modrm + 1, operand - 1);
	if (mod != 0 || rm != 5)
		return ARCH_MOVE_OK;
	if (operand != 5)
		return ARCH_MOVE_UNSUPPORTED;
	memcpy(&displacement, modrm + 1, sizeof(displacement));
	move->has_target = true;
	move->target = move->from + move->insn.length + (uint64_t)(int64_t)displacement;
	return set_displacement(move, at, 0);
}

/* Whether an instruction that is not a branch uses its own address. */
static bool knows_its_address(const struct move *move)
{
	const uint8_t *opcode = move->bytes + move->prefixes.length;
	size_t left = move->insn.length - move->prefixes.length;

	switch (opcode[0]) {
	case 0xcc:
	case 0xcd:
	case 0xf1: /* int3, int, int1 */
		return true;
	case 0x0f:
		return left > 1 && (opcode[1] == 0x05 || opcode[1] == 0x34); /* syscall, sysenter */
	default:
		return false;
	}
}

static enum arch_move_status move_by_flow(struct move *move)
{
	switch (move->insn.flow) {
	case ARCH_FLOW_BRANCH:
		return move_branch(move);
	case ARCH_FLOW_JUMP:
		return move_jump(move);
	case ARCH_FLOW_CALL:
		emit_push_return(move);
		return move_jump(move);
	case ARCH_FLOW_INDIRECT_CALL:
		return move_indirect_call(move);
	case ARCH_FLOW_INDIRECT_JUMP:
		/*
		 * The opcode extension 5 is a far jump. The prefix 66 makes a 16-bit target on AMD.
		 */
		if ((move->bytes[move->prefixes.length + 1] >> 3 & 7) != 4 ||
			move->prefixes.operand_size)
			return ARCH_MOVE_UNSUPPORTED;
		return move_plain(move);
	case ARCH_FLOW_NONE:
	case ARCH_FLOW_RETURN:
	case ARCH_FLOW_STOP:
		break;
	}
	return knows_its_address(move) ? ARCH_MOVE_UNSUPPORTED : move_plain(move);
}

/* Returns why an instruction could not be decoded: ARCH_MOVE_TRUNCATED if more bytes would help. */
static enum arch_move_status undecodable(const uint8_t *bytes, size_t length)
{
	uint8_t padded[ARCH_INSN_MAX] = {0};

	if (!length)
		return ARCH_MOVE_TRUNCATED;
	if (length >= sizeof(padded))
		return ARCH_MOVE_UNDECODABLE;
	memcpy(padded, bytes, length);
	return disasm_length(padded, sizeof(padded)) > length ? ARCH_MOVE_TRUNCATED
							      : ARCH_MOVE_UNDECODABLE;
}

/*
 * Returns ARCH_MOVE_OK if code may continue after an instruction with this flow, otherwise why not.
 */
static enum arch_move_status check_inside(enum arch_flow flow)
{
	switch (flow) {
	case ARCH_FLOW_NONE:
	case ARCH_FLOW_BRANCH:
		return ARCH_MOVE_OK;
	case ARCH_FLOW_CALL:
	case ARCH_FLOW_INDIRECT_CALL:
		return ARCH_MOVE_CALL_INSIDE;
	default:
		return ARCH_MOVE_FLOW_INSIDE;
	}
}

/*
 * Returns the length, at least `need`, of the nops and int3 at the start of `bytes`; 0 if other
 * bytes come before that length. Such padding follows a function or precedes an aligned loop.
 */
static size_t padding_length(const uint8_t *bytes, size_t length, size_t need)
{
	size_t at = 0, size;

	while (at < need && need <= ARCH_INSN_MAX) {
		if (at < length && bytes[at] == 0xcc)
			size = 1;
		else
			size = x86_64_nop_length(bytes + at, length - at);
		if (!size)
			return 0;
		at += size;
	}
	return at;
}

/* Moves the instruction at offset ret->length and adds it to *ret. */
static enum arch_move_status move_next(
	const uint8_t *bytes, size_t length, size_t need, struct move *move, struct arch_moved *ret)
{
	enum arch_move_status status;
	size_t end, padding = 0;

	move->bytes = bytes + ret->length;
	if (!x86_64_decode(move->bytes, length - ret->length, move->from, &move->insn))
		return undecodable(move->bytes, length - ret->length);
	if (ret->count == ARCH_MOVED_INSNS_MAX)
		return ARCH_MOVE_UNSUPPORTED;
	end = (size_t)ret->length + move->insn.length;
	if (end < need) {
		status = check_inside(move->insn.flow);
		if (status == ARCH_MOVE_FLOW_INSIDE)
			padding = padding_length(bytes + end, length - end, need - end);
		if (status != ARCH_MOVE_OK && !padding)
			return status;
	}
	move->prefixes = x86_64_prefixes(move->bytes, move->insn.length);
	status = move_by_flow(move);
	if (status != ARCH_MOVE_OK)
		return status;
	if (move->code_length > sizeof(ret->code) - ret->code_length)
		return ARCH_MOVE_UNSUPPORTED;

	ret->from_offset[ret->count] = ret->length;
	ret->to_offset[ret->count] = (uint8_t)ret->code_length;
	ret->count++;
	ret->falls_through = check_inside(move->insn.flow) == ARCH_MOVE_OK;
	memcpy(ret->code + ret->code_length, move->code, move->code_length);
	ret->code_length += move->code_length;
	ret->length = (uint8_t)(end + padding);
	ret->padding = (uint8_t)padding;
	return ARCH_MOVE_OK;
}

enum arch_move_status x86_64_move(const uint8_t *bytes, size_t length, uint64_t from, uint64_t to,
	size_t need, struct arch_moved *ret)
{
	uint64_t targets[ARCH_MOVED_INSNS_MAX];
	size_t target_count = 0;

	*ret = (struct arch_moved){.falls_through = true};
	while (ret->length < need) {
		struct move move = {.from = from + ret->length, .to = to + ret->code_length};
		enum arch_move_status status = move_next(bytes, length, need, &move, ret);

		if (status != ARCH_MOVE_OK)
			return status;
		if (move.has_target)
			targets[target_count++] = move.target;
	}
	for (size_t i = 0; i < target_count; i++) {
		if (targets[i] - from > 0 && targets[i] - from < ret->length) {
			ret->padding = 0;
			return ARCH_MOVE_UNSUPPORTED;
		}
	}
	return ret->padding ? ARCH_MOVE_FLOW_INSIDE : ARCH_MOVE_OK;
}
