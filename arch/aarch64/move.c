/* SPDX-License-Identifier: MIT */
/*
 * Moves aarch64 instructions to another address, as far away as b reaches (128 MiB).
 *
 * Most instructions are copied unchanged. An instruction that depends on its address is replaced by
 * code with the same effect on registers, flags and memory:
 *
 *	adr	adr, or adrp and add, which reach 4 GiB
 *	adrp	adrp, which reaches 4 GiB
 *	ldr	the same ldr with another distance, or
 *			adrp x1, x		with the register that ldr loads
 *			add  x1, x1, :lo12:x
 *			ldr  x1, [x1]
 *		a vector register cannot hold an address, so x16 holds it. x16 is saved on the
 *		stack. The program has no data below sp, because the ABI lets signal handlers use
 *		that memory:
 *			str  x16, [sp, -16]!
 *			adrp, add, ldr with x16
 *			ldr  x16, [sp], 16
 *	prfm	the same prfm with another distance, or a nop, because prfm is only a hint
 *	b.cond, cbz, tbz ...	the same with another distance, or the opposite branch around a b
 *	bl, blr	x30 = the original return address, because unwinders, exceptions and conservative
 *		stack scanners look up that address; then a jump. The callee returns to the original
 *		code, so only the last moved instruction can be a call. With a guarded control stack
 *		(GCS) this return would fault, so a target that uses GCS must not be patched.
 *
 * A moved blr becomes a br. If its target is a `bti c`, blr is allowed to jump there, but br is
 * not, unless the br is in memory without PROT_BTI. Arenas are such memory.
 */
#include "arch/aarch64/decode.h"
#include "arch/aarch64/encoding.h"
#include "arch/aarch64/move.h"

#define NOP UINT32_C(0xd503201f)
#define B UINT32_C(0x14000000)
#define ADR UINT32_C(0x10000000)      /* adr x0, . */
#define ADRP UINT32_C(0x90000000)     /* adrp x0, . */
#define ADD UINT32_C(0x91000000)      /* add x0, x0, #0 */
#define PUSH_X16 UINT32_C(0xf81f0ff0) /* str x16, [sp, -16]! */
#define POP_X16 UINT32_C(0xf84107f0)  /* ldr x16, [sp], 16 */
#define CALL_BIT UINT32_C(0x00200000) /* with this bit cleared, blr is br */
/* Conditions 14 and 15 both mean "always", so they have no opposite. */
#define CONDITION_NEVER 14
#define LITERAL_IS_VECTOR UINT32_C(0x04000000)

enum { COPY_MAX = 5, NO_REGISTER = 31, X16 = 16, X30 = 30 };
_Static_assert(COPY_MAX *AARCH64_INSN_LENGTH *ARCH_MOVED_INSNS_MAX <= ARCH_MOVED_BYTES_MAX,
	"the longest copies fit");

/* An instruction that is being moved. */
struct move {
	uint32_t insn;
	enum aarch64_kind kind;
	uint64_t from, to; /* addresses of the original and of its copy */
	uint64_t target;   /* the address that the instruction jumps to or reads */
	uint32_t code[COPY_MAX];
	size_t count;
};

static uint64_t here(const struct move *move)
{
	return move->to + move->count * AARCH64_INSN_LENGTH;
}

static void emit(struct move *move, uint32_t insn)
{
	move->code[move->count++] = insn;
}

/* Emits the instruction with a new distance; returns false if the target is too far. */
static bool emit_distance(struct move *move, uint32_t insn, unsigned int low, unsigned int bits)
{
	if (!aarch64_set_distance(&insn, low, bits, (int64_t)(move->target - here(move))))
		return false;
	emit(move, insn);
	return true;
}

static enum arch_move_status emit_jump(struct move *move)
{
	return emit_distance(move, B, 0, 26) ? ARCH_MOVE_OK : ARCH_MOVE_OUT_OF_REACH;
}

static enum arch_move_status emit_page(struct move *move, uint32_t reg, uint64_t target)
{
	uint32_t insn = ADRP | reg;
	int64_t pages = (int64_t)((target & ~UINT64_C(0xfff)) - (here(move) & ~UINT64_C(0xfff)));

	if (!aarch64_set_page_field(&insn, pages / 0x1000))
		return ARCH_MOVE_OUT_OF_REACH;
	emit(move, insn);
	return ARCH_MOVE_OK;
}

static enum arch_move_status emit_address(struct move *move, uint32_t reg, uint64_t target)
{
	uint32_t insn = ADR | reg;
	enum arch_move_status status;

	if (aarch64_set_page_field(&insn, (int64_t)(target - here(move)))) {
		emit(move, insn);
		return ARCH_MOVE_OK;
	}
	status = emit_page(move, reg, target);
	emit(move, ADD | (uint32_t)(target & 0xfff) << 10 | reg << 5 | reg);
	return status;
}

static enum arch_move_status move_address(struct move *move)
{
	uint32_t reg = move->insn & 31;

	/* register 31 is the zero register in adr, but sp in add */
	if (reg == NO_REGISTER) {
		emit(move, NOP);
		return ARCH_MOVE_OK;
	}
	return move->kind == AARCH64_ADRP ? emit_page(move, reg, move->target)
					  : emit_address(move, reg, move->target);
}

/*
 * Returns, for a literal load, the ldr or ldrsw from [x0] that loads the same register. The fields
 * opc and V select the form.
 */
static uint32_t load_of(uint32_t insn)
{
	static const uint32_t general[] = {0xb9400000, 0xf9400000, 0xb9800000}; /* w, x, sw */
	static const uint32_t vector[] = {0xbd400000, 0xfd400000, 0x3dc00000};	/* s, d, q */

	return (insn & LITERAL_IS_VECTOR ? vector : general)[insn >> 30] | (insn & 31);
}

static enum arch_move_status move_literal(struct move *move)
{
	bool is_vector = move->insn & LITERAL_IS_VECTOR,
	     is_hint = !is_vector && move->insn >> 30 == 3;
	uint32_t base = is_vector ? X16 : move->insn & 31;
	enum arch_move_status status;

	if (emit_distance(move, move->insn, 5, 19))
		return ARCH_MOVE_OK;
	if (is_hint) {
		emit(move, NOP);
		return ARCH_MOVE_OK;
	}
	if (base == NO_REGISTER)
		/* A load into the zero register. */
		return ARCH_MOVE_UNSUPPORTED;
	if (is_vector)
		emit(move, PUSH_X16);
	status = emit_address(move, base, move->target);
	emit(move, load_of(move->insn) | base << 5);
	if (is_vector)
		emit(move, POP_X16);
	return status;
}

/*
 * Emits a branch with the opposite condition that skips the next instruction, a jump to the
 * original target.
 */
static enum arch_move_status emit_around(struct move *move, uint32_t opposite, unsigned int bits)
{
	aarch64_set_distance(&opposite, 5, bits, 2 * AARCH64_INSN_LENGTH);
	emit(move, opposite);
	return emit_jump(move);
}

static enum arch_move_status move_branch(struct move *move)
{
	bool is_test = move->kind == AARCH64_TB, has_condition = move->kind == AARCH64_B_COND;
	unsigned int bits = is_test ? 14 : 19;

	if (emit_distance(move, move->insn, 5, bits))
		return ARCH_MOVE_OK;
	if (has_condition && (move->insn & 15) >= CONDITION_NEVER)
		return emit_jump(move);
	/*
	 * The opposite branch has the lowest bit of the condition flipped, or bit 24 of cbz and
	 * tbz.
	 */
	return emit_around(move, move->insn ^ (has_condition ? 1 : 1 << 24), bits);
}

static enum arch_move_status move_call(struct move *move)
{
	uint64_t back = move->from + AARCH64_INSN_LENGTH;
	bool is_direct = move->kind == AARCH64_BL;
	/*
	 * The lowest five bits are the modifier register of blraa. In the other forms they are 0,
	 * or 31 for sp or no modifier.
	 */
	bool uses_x30 = (move->insn >> 5 & 31) == X30 ||
			((move->insn >> 24 & 1) && (move->insn & 31) == X30);
	enum arch_move_status status;

	if (!is_direct && uses_x30)
		return ARCH_MOVE_UNSUPPORTED;
	status = emit_address(move, X30, back);
	if (status != ARCH_MOVE_OK)
		return status;
	if (is_direct)
		return emit_jump(move);
	emit(move, move->insn & ~CALL_BIT);
	return ARCH_MOVE_OK;
}

static enum arch_move_status move_one(struct move *move)
{
	switch (move->kind) {
	case AARCH64_ADR:
	case AARCH64_ADRP:
		return move_address(move);
	case AARCH64_LITERAL:
		return move_literal(move);
	case AARCH64_B:
		return emit_jump(move);
	case AARCH64_B_COND:
	case AARCH64_CB:
	case AARCH64_TB:
		return move_branch(move);
	case AARCH64_BL:
	case AARCH64_BLR:
		return move_call(move);
	case AARCH64_PLAIN:
	case AARCH64_BR:
	case AARCH64_RET:
		emit(move, move->insn);
		return ARCH_MOVE_OK;
	case AARCH64_FIXED:
	case AARCH64_TRAP:
		return ARCH_MOVE_UNSUPPORTED;
	case AARCH64_UNKNOWN:
		break;
	}
	return ARCH_MOVE_UNDECODABLE;
}

/*
 * Returns ARCH_MOVE_OK if an instruction with this flow may be followed by another moved
 * instruction.
 */
static enum arch_move_status check_inside(enum arch_flow flow)
{
	if (flow == ARCH_FLOW_NONE || flow == ARCH_FLOW_BRANCH)
		return ARCH_MOVE_OK;
	return flow == ARCH_FLOW_CALL || flow == ARCH_FLOW_INDIRECT_CALL ? ARCH_MOVE_CALL_INSIDE
									 : ARCH_MOVE_FLOW_INSIDE;
}

/* Moves the instruction at offset ret->length. */
static enum arch_move_status move_next(const uint8_t *bytes, size_t length, size_t need,
	uint64_t from, uint64_t to, struct arch_moved *ret)
{
	struct move move = {.from = from + ret->length, .to = to + ret->code_length};
	enum arch_move_status status;
	struct arch_insn insn;

	if (length - ret->length < AARCH64_INSN_LENGTH)
		return ARCH_MOVE_TRUNCATED;
	if (!aarch64_decode(bytes + ret->length, length - ret->length, move.from, &insn))
		return ARCH_MOVE_UNDECODABLE;
	if (ret->count == ARCH_MOVED_INSNS_MAX)
		return ARCH_MOVE_UNSUPPORTED;
	status = check_inside(insn.flow);
	ret->falls_through = status == ARCH_MOVE_OK;
	if (status != ARCH_MOVE_OK && (size_t)ret->length + AARCH64_INSN_LENGTH < need)
		return status;
	move.insn = aarch64_load(bytes + ret->length);
	move.kind = aarch64_kind_of(move.insn);
	move.target = aarch64_target(move.insn, move.kind, move.from);
	status = move_one(&move);
	if (status != ARCH_MOVE_OK)
		return status;
	/*
	 * No moved instruction may lead into the moved bytes. It may lead to their start, because
	 * the patch is there.
	 */
	if (move.target - from > 0 && move.target - from < need && move.kind != AARCH64_ADRP)
		return ARCH_MOVE_UNSUPPORTED;
	ret->from_offset[ret->count] = ret->length;
	ret->to_offset[ret->count++] = (uint8_t)ret->code_length;
	for (size_t i = 0; i < move.count; i++, ret->code_length += AARCH64_INSN_LENGTH)
		aarch64_store(ret->code + ret->code_length, move.code[i]);
	ret->length += AARCH64_INSN_LENGTH;
	return ARCH_MOVE_OK;
}

enum arch_move_status aarch64_move(const uint8_t *bytes, size_t length, uint64_t from, uint64_t to,
	size_t need, struct arch_moved *ret)
{
	enum arch_move_status status = ARCH_MOVE_OK;

	*ret = (struct arch_moved){.falls_through = true};
	while (ret->length < need && status == ARCH_MOVE_OK)
		status = move_next(bytes, length, need, from, to, ret);
	return status;
}
