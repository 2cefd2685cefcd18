/* SPDX-License-Identifier: MIT */
/*
 * Tables of keys (arch/layout.h): finding the cell of a key.
 *
 * In a CPU's own table the search is part of the sequence that changes the cell. Creating an
 * entry stores its tag last; then the sequence restarts and finds it. In the table that threads
 * without rseq share, an entry is claimed by its tag first.
 *
 * The hash multiplies by 2^64 divided by the golden ratio (Knuth, The Art of Computer
 * Programming, volume 3, 6.4) and folds the upper half into the lower.
 */
#include "arch/layout.h"
#include "arch/x86/stub/plan.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

enum { AT_TAG = 0, AT_OWNER = 8, AT_WORDS = 16 };

static const struct arch_key *key_of(const struct stub_plan *p, int k)
{
	return &p->stub->gather.keys[k];
}

static int32_t bytes_at(const struct stub_plan *p)
{
	return AT_WORDS + 8 * p->stub->gather.key_count;
}

/* %rsi, %edx = address and length of a string of the key. */
static void emit_string(struct emit *e, const struct stub_plan *p, int k)
{
	int pair = p->temp[key_of(p, k)->string];

	emit_mem(e, true, OP_MOV_LOAD, RSI, temp_at(pair));
	emit_mem(e, false, OP_MOV_LOAD, RDX, temp_at(pair + 1));
	emit_imm(e, false, IMM_AND, RDX, RING_STRING_LENGTH);
}

/* ---- The hash ------------------------------------------------------------------------ */

/* %rax *= %rcx with its upper half folded into the lower; changes `scratch`. */
static void emit_mix(struct emit *e, int scratch)
{
	emit_reg(e, true, OP_IMUL, RAX, RCX);
	emit_reg(e, true, OP_MOV_LOAD, scratch, RAX);
	emit_shift(e, true, false, scratch, 32);
	emit_reg(e, true, OP_XOR, RAX, scratch);
}

/* The subroutine: adds %edx bytes at %rsi to the hash in %rax; changes %r8 to %r10. */
void emit_hash_subroutine(struct emit *e, const struct stub_plan *p)
{
	int words = emit_label(e), few = emit_label(e), done = emit_label(e);

	emit_place(e, p->hash);
	emit_reg(e, false, OP_XOR, R9, R9);
	emit_imm(e, false, IMM_CMP, RDX, 8);
	emit_jump_label(e, CC_B, few);
	emit_mem(e, true, OP_LEA, R10, mem_at(RDX, -8));
	emit_place(e, words);
	emit_mem(e, true, OP_XOR, RAX, mem_indexed(RSI, R9, 0));
	emit_mix(e, R8);
	emit_imm(e, true, IMM_ADD, R9, 8);
	emit_reg(e, true, OP_CMP, R9, R10);
	emit_jump_label(e, CC_B, words);
	emit_mem(e, true, OP_XOR, RAX, mem_indexed(RSI, R10, 0));
	emit_jump_label(e, -1, done);
	emit_place(e, few);
	emit_reg(e, false, OP_CMP, R9, RDX);
	emit_jump_label(e, CC_AE, done);
	emit_mem(e, false, OP_MOVZX8, R8, mem_indexed(RSI, R9, 0));
	emit_reg(e, true, OP_XOR, RAX, R8);
	emit_reg(e, true, OP_IMUL, RAX, RCX);
	emit_imm(e, false, IMM_ADD, R9, 1);
	emit_jump_label(e, -1, few);
	emit_place(e, done);
	emit_mix(e, R8);
	emit_u8(e, 0xc3); /* ret */
}

void emit_key(struct emit *e, const struct stub_plan *p)
{
	const struct arch_gather *g = &p->stub->gather;

	for (int k = 0; k < g->key_count; k++) {
		if (!g->keys[k].number)
			continue;
		emit_expr(e, p, &p->frame, g->keys[k].number, p->lost);
		emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->key_temp[k]));
	}
	emit_const(e, RCX, GOLDEN);
	emit_const(e, RAX, g->owner);
	for (int k = 0; k < g->key_count; k++) {
		emit_mem(e, true, OP_XOR, RAX, temp_at(p->key_temp[k]));
		emit_mix(e, RDX);
		if (g->keys[k].number)
			continue;
		emit_string(e, p, k);
		emit_call_label(e, p->hash);
	}
	emit_imm(e, true, IMM_OR, RAX, 1);
	emit_mem(e, true, OP_MOV_STORE, RAX, temp_at(p->tag_temp));
}

/* ---- Searching -------------------------------------------------------------------------- */

/* Jumps to `differ` unless the %edx bytes at %rsi equal those at %r8; changes %rax, %r9. */
static void emit_compare(struct emit *e, int differ)
{
	int words = emit_label(e), few = emit_label(e), done = emit_label(e);

	emit_reg(e, false, OP_XOR, R9, R9);
	emit_imm(e, false, IMM_CMP, RDX, 8);
	emit_jump_label(e, CC_B, few);
	emit_place(e, words);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_indexed(RSI, R9, 0));
	emit_mem(e, true, OP_CMP, RAX, mem_indexed(R8, R9, 0));
	emit_jump_label(e, CC_NE, differ);
	emit_imm(e, true, IMM_ADD, R9, 8);
	emit_mem(e, true, OP_LEA, RAX, mem_at(RDX, -8));
	emit_reg(e, true, OP_CMP, R9, RAX);
	emit_jump_label(e, CC_B, words);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_indexed(RSI, RDX, -8));
	emit_mem(e, true, OP_CMP, RAX, mem_indexed(R8, RDX, -8));
	emit_jump_label(e, CC_NE, differ);
	emit_jump_label(e, -1, done);
	emit_place(e, few);
	emit_reg(e, false, OP_CMP, R9, RDX);
	emit_jump_label(e, CC_AE, done);
	emit_mem(e, false, OP_MOVZX8, RAX, mem_indexed(RSI, R9, 0));
	emit_mem(e, false, OP_CMP8, RAX, mem_indexed(R8, R9, 0));
	emit_jump_label(e, CC_NE, differ);
	emit_imm(e, false, IMM_ADD, R9, 1);
	emit_jump_label(e, -1, few);
	emit_place(e, done);
}

/* Advances %r8 past a string of %edx bytes. */
static void emit_next_string(struct emit *e)
{
	emit_imm(e, true, IMM_ADD, RDX, 7);
	emit_imm(e, true, IMM_AND, RDX, -8);
	emit_reg(e, true, OP_ADD, R8, RDX);
}

/* Jumps to `differ` unless the entry at %rcx has the key. */
static void emit_match(struct emit *e, const struct stub_plan *p, int differ)
{
	const struct arch_gather *g = &p->stub->gather;

	emit_imm_mem(e, false, IMM_CMP, mem_at(RCX, AT_OWNER), (int32_t)g->owner);
	emit_jump_label(e, CC_NE, differ);
	for (int k = 0; k < g->key_count; k++) {
		emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(p->key_temp[k]));
		emit_mem(e, true, OP_CMP, RAX, mem_at(RCX, AT_WORDS + 8 * k));
		emit_jump_label(e, CC_NE, differ);
	}
	emit_mem(e, true, OP_LEA, R8, mem_at(RCX, bytes_at(p)));
	for (int k = 0; k < g->key_count; k++) {
		if (g->keys[k].number)
			continue;
		emit_string(e, p, k);
		emit_compare(e, differ);
		emit_next_string(e);
	}
}

/* Writes the key into the entry at %rcx, its tag last; changes %rax, %rdx, %rsi, %r8 to %r10. */
static void emit_fill(struct emit *e, const struct stub_plan *p)
{
	const struct arch_gather *g = &p->stub->gather;

	emit_const(e, RAX, g->owner);
	emit_mem(e, true, OP_MOV_STORE, RAX, mem_at(RCX, AT_OWNER));
	for (int k = 0; k < g->key_count; k++) {
		emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(p->key_temp[k]));
		emit_mem(e, true, OP_MOV_STORE, RAX, mem_at(RCX, AT_WORDS + 8 * k));
	}
	emit_mem(e, true, OP_LEA, R8, mem_at(RCX, bytes_at(p)));
	for (int k = 0; k < g->key_count; k++) {
		if (g->keys[k].number)
			continue;
		emit_string(e, p, k);
		emit_copy(e);
		emit_next_string(e);
	}
	emit_mem(e, true, OP_MOV_LOAD, RAX, temp_at(p->tag_temp));
	emit_mem(e, true, OP_MOV_STORE, RAX, mem_at(RCX, AT_TAG));
}

/*
 *	rdi	the table
 *	r10	number of the entry looked at, which is at rcx
 *	r11	how many more may be looked at
 */
void emit_lookup(struct emit *e, const struct stub_plan *p, int again, int full)
{
	const struct arch_gather *g = &p->stub->gather;
	int next = emit_label(e), same = emit_label(e), free_entry = emit_label(e);
	int advance = emit_label(e), found = emit_label(e);
	bool shared = again < 0;

	emit_mem(e, true, OP_MOV_LOAD, R10, temp_at(p->tag_temp));
	emit_shift(e, true, false, R10, 32);
	emit_imm(e, false, IMM_AND, R10, (int32_t)g->entries - 1);
	emit_const(e, R11, TABLE_PROBES_MAX);
	emit_place(e, next);
	emit_multiply(e, RCX, R10, (int32_t)g->entry_bytes);
	emit_reg(e, true, OP_ADD, RCX, RDI);
	emit_mem(e, true, OP_MOV_LOAD, RAX, mem_at(RCX, AT_TAG));
	emit_mem(e, true, OP_CMP, RAX, temp_at(p->tag_temp));
	emit_jump_label(e, CC_E, same);
	emit_reg(e, true, OP_TEST, RAX, RAX);
	emit_jump_label(e, CC_E, free_entry);
	emit_place(e, advance);
	emit_imm(e, false, IMM_ADD, R10, 1);
	emit_imm(e, false, IMM_AND, R10, (int32_t)g->entries - 1);
	emit_imm(e, false, IMM_SUB, R11, 1);
	emit_jump_label(e, CC_NE, next);
	emit_jump_label(e, -1, full);

	emit_place(e, free_entry);
	if (shared) { /* %rax is 0 */
		emit_const(e, RDX, TABLE_TAG_FILLING);
		emit_lock(e);
		emit_mem(e, true, OP_CMPXCHG, RDX, mem_at(RCX, AT_TAG));
		emit_jump_label(e, CC_NE, next);
	}
	emit_fill(e, p);
	emit_jump_label(e, -1, shared ? found : again);

	emit_place(e, same);
	emit_match(e, p, advance);
	emit_place(e, found);
	emit_mem(e, true, OP_LEA, RDI, mem_at(RCX, (int32_t)g->entry_cell));
}
