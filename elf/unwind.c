/* SPDX-License-Identifier: MIT */
/*
 * Unwinds with .eh_frame.
 *
 * libdw can unwind stacks itself (dwfl_getthread_frames()), but interprets the call frame
 * instructions each time, which takes microseconds. A probe's stacks have the same few hundred
 * addresses, so we ask libdw once for each address, and cache the rules in a form that is applied
 * in tens of ns.
 */
#include <elfutils/libdw.h>
#include "unwind.h"
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "elf/internal.h"
#include "elf/unwind.h"
#include "libprobe/base/map.h"

/* How to find a register's value in the caller (DWARF 5, 6.4.1). */
enum unwind_how {
	UNWIND_UNDEFINED,
	UNWIND_SAME,
	UNWIND_REGISTER, /* register + offset */
	UNWIND_CFA,	 /* canonical frame address (CFA) + offset */
	UNWIND_AT_CFA,	 /* the memory at CFA + offset */
	UNWIND_EXPRESSION
};

struct unwind_rule {
	enum unwind_how how;
	uint8_t reg;
	/* the CFA's rule: the expression is the value, not its address */
	bool is_cfa;
	int64_t offset;
	Dwarf_Op *ops; /* owned */
	size_t op_count;
};

/* The rules for one address of a file. */
struct unwind_rules {
	bool none; /* the address has no rules */
	bool is_signal;
	uint8_t return_address; /* number of the register whose rule gives the return address */
	struct unwind_rule cfa;
	struct unwind_rule registers[UNWIND_REGISTERS];
};

/* ==== Unwind rules ============================================================================ */

/*
 * Rules of call frame information.
 *
 * libdw returns every rule as a DWARF expression. Nearly all are "register plus offset" or "in
 * memory at the CFA plus offset", which are recognised when the rule is built. Others (signal
 * frames, the PLT, realigned stacks) run on a small stack machine with 64-bit numbers (DWARF 5,
 * 2.5.1). Files are untrusted, so the machine's stack is bounded, and it refuses jumps, which could
 * loop.
 */

enum { STACK_MAX = 32, OPS_MAX = 64 };

/* ---- Building rules ----------------------------------------------------------- */

/* Recognises DW_OP_bregN and its long form: a register plus an offset. */
static bool is_register(const Dwarf_Op *op, uint8_t *reg_ret, int64_t *offset_ret)
{
	uint64_t reg = op->number;

	if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg31) {
		reg = op->atom - DW_OP_breg0;
		*offset_ret = (int64_t)op->number;
	} else if (op->atom == DW_OP_bregx) {
		*offset_ret = (int64_t)op->number2;
	} else {
		return false;
	}
	*reg_ret = (uint8_t)reg;
	return reg < UNWIND_REGISTERS;
}

/* Recognises DW_OP_regN and its long form: the value is in another register. */
static bool is_in_register(const Dwarf_Op *op, uint8_t *reg_ret)
{
	uint64_t reg = op->number;

	if (op->atom >= DW_OP_reg0 && op->atom <= DW_OP_reg31)
		reg = op->atom - DW_OP_reg0;
	else if (op->atom != DW_OP_regx)
		return false;
	*reg_ret = (uint8_t)reg;
	return reg < UNWIND_REGISTERS;
}

/*
 * Recognises "CFA" and "CFA + offset": the value's address or, with DW_OP_stack_value, the value.
 */
static bool make_of_cfa(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count)
{
	size_t at = 1;

	if (ops[0].atom != DW_OP_call_frame_cfa)
		return false;
	rule->offset = 0;
	if (at < count && ops[at].atom == DW_OP_plus_uconst)
		rule->offset = (int64_t)ops[at++].number;
	rule->how = UNWIND_AT_CFA;
	if (at < count && ops[at].atom == DW_OP_stack_value) {
		rule->how = UNWIND_CFA;
		at++;
	}
	return at == count;
}

static bool make_expression(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count)
{
	if (!count || count > OPS_MAX)
		return false;
	rule->ops = malloc(count * sizeof(*rule->ops));
	if (!rule->ops)
		return false;
	memcpy(rule->ops, ops, count * sizeof(*rule->ops));
	rule->op_count = count;
	rule->how = UNWIND_EXPRESSION;
	return true;
}

/* Build rules from libdw's expressions. Return false if one is invalid, or if out of memory. */
static bool unwind_rule_init_cfa(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count)
{
	*rule = (struct unwind_rule){.is_cfa = true};
	if (count == 0)
		return false;
	if (count == 1 && is_register(&ops[0], &rule->reg, &rule->offset)) {
		rule->how = UNWIND_REGISTER;
		return true;
	}
	return make_expression(rule, ops, count);
}

static bool unwind_rule_init(struct unwind_rule *rule, const Dwarf_Op *ops, size_t count)
{
	*rule = (struct unwind_rule){.how = ops ? UNWIND_UNDEFINED : UNWIND_SAME};
	if (count == 0 || make_of_cfa(rule, ops, count))
		return true;
	if (count == 1 && is_in_register(&ops[0], &rule->reg)) {
		rule->how = UNWIND_REGISTER;
		return true;
	}
	return make_expression(rule, ops, count);
}

static void unwind_rule_deinit(struct unwind_rule *rule)
{
	free(rule->ops);
	*rule = (struct unwind_rule){0};
}

/* ---- Computing ------------------------------------------------------------------ */

struct machine {
	const struct unwind_registers *registers;
	const struct unwind_memory *memory;
	uint64_t cfa;
	uint64_t stack[STACK_MAX];
	size_t depth;
};

static bool push(struct machine *m, uint64_t value)
{
	if (m->depth == STACK_MAX)
		return false;
	m->stack[m->depth++] = value;
	return true;
}

static bool known(const struct unwind_registers *registers, uint8_t reg, uint64_t *ret)
{
	if (!(registers->known >> reg & 1))
		return false;
	*ret = registers->values[reg];
	return true;
}

/* Runs an operation that only pushes. */
static bool run_leaf(struct machine *m, const Dwarf_Op *op, bool *is_leaf_ret)
{
	uint64_t value;
	int64_t offset;
	uint8_t reg;

	*is_leaf_ret = true;
	if (is_register(op, &reg, &offset))
		return known(m->registers, reg, &value) && push(m, value + (uint64_t)offset);
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		return push(m, op->atom - DW_OP_lit0);
	/* DW_OP_const1u, const1s, const2u ... constu, consts */
	if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)
		return push(m, op->number);
	*is_leaf_ret = op->atom == DW_OP_call_frame_cfa;
	return *is_leaf_ret && push(m, m->cfa);
}

/* Runs an operation that replaces the top of the stack. */
static bool run_unary(struct machine *m, const Dwarf_Op *op, bool *is_unary_ret)
{
	uint64_t *top = &m->stack[m->depth - 1];

	*is_unary_ret = true;
	switch (op->atom) {
	case DW_OP_deref:
		return m->memory->read(m->memory->data, *top, top);
	case DW_OP_plus_uconst:
		*top += op->number;
		return true;
	case DW_OP_neg:
		*top = -*top;
		return true;
	case DW_OP_not:
		*top = ~*top;
		return true;
	case DW_OP_dup:
		return push(m, *top);
	case DW_OP_drop:
		m->depth--;
		return true;
	case DW_OP_nop:
	case DW_OP_stack_value:
		return true;
	default:
		*is_unary_ret = false;
		return false;
	}
}

/* Returns the result of an operation on two numbers. *is_it_ret is false if it is none. */
static uint64_t compute(uint8_t atom, uint64_t a, uint64_t b, bool *is_it_ret)
{
	*is_it_ret = true;
	switch (atom) {
	case DW_OP_plus:
		return a + b;
	case DW_OP_minus:
		return a - b;
	case DW_OP_mul:
		return a * b;
	case DW_OP_and:
		return a & b;
	case DW_OP_or:
		return a | b;
	case DW_OP_xor:
		return a ^ b;
	case DW_OP_shl:
		return b < 64 ? a << b : 0;
	case DW_OP_shr:
		return b < 64 ? a >> b : 0;
	case DW_OP_eq:
		return a == b;
	case DW_OP_ne:
		return a != b;
	case DW_OP_ge:
		return (int64_t)a >= (int64_t)b;
	case DW_OP_gt:
		return (int64_t)a > (int64_t)b;
	case DW_OP_le:
		return (int64_t)a <= (int64_t)b;
	case DW_OP_lt:
		return (int64_t)a < (int64_t)b;
	default:
		*is_it_ret = false;
		return 0;
	}
}

static bool run_op(struct machine *m, const Dwarf_Op *op)
{
	bool is_it, done = run_leaf(m, op, &is_it);
	uint64_t *under;

	if (is_it || !m->depth)
		return done;
	done = run_unary(m, op, &is_it);
	if (is_it || m->depth < 2)
		return done;
	under = &m->stack[m->depth - 2];
	if (op->atom == DW_OP_swap) {
		uint64_t top = under[1];

		under[1] = under[0];
		under[0] = top;
		return true;
	}
	m->depth--;
	*under = compute(op->atom, under[0], under[1], &is_it);
	return is_it;
}

/*
 * Runs an expression and returns the value. That is the memory at the result or, for the CFA or
 * after DW_OP_stack_value, the result itself.
 */
static bool compute_expression(const struct unwind_rule *rule, struct machine *m, uint64_t *ret)
{
	const Dwarf_Op *last = &rule->ops[rule->op_count - 1];

	for (size_t i = 0; i < rule->op_count; i++)
		if (!run_op(m, &rule->ops[i]))
			return false;
	if (!m->depth)
		return false;
	*ret = m->stack[m->depth - 1];
	if (rule->is_cfa || last->atom == DW_OP_stack_value)
		return true;
	return m->memory->read(m->memory->data, *ret, ret);
}

/*
 * Computes a rule's value. Returns false if an input is unknown. The CFA's rule does not use `cfa`.
 */
static bool unwind_rule_compute(const struct unwind_rule *rule,
	const struct unwind_registers *registers, uint64_t cfa, const struct unwind_memory *memory,
	uint64_t *ret)
{
	struct machine machine;

	switch (rule->how) {
	case UNWIND_UNDEFINED:
	case UNWIND_SAME:
		return false;
	case UNWIND_REGISTER:
		if (!known(registers, rule->reg, ret))
			return false;
		*ret += (uint64_t)rule->offset;
		return true;
	case UNWIND_CFA:
		*ret = cfa + (uint64_t)rule->offset;
		return true;
	case UNWIND_AT_CFA:
		return memory->read(memory->data, cfa + (uint64_t)rule->offset, ret);
	case UNWIND_EXPRESSION:
		break;
	}
	machine = (struct machine){.registers = registers, .memory = memory, .cfa = cfa};
	return compute_expression(rule, &machine, ret);
}

/* ==== Unwind ================================================================================== */

/* clang-format off */
#define FUNCTIONS(X) \
	X(getcfi_elf, dwarf_getcfi_elf) X(cfi_end, dwarf_cfi_end) \
	X(cfi_addrframe, dwarf_cfi_addrframe) X(frame_info, dwarf_frame_info) \
	X(frame_cfa, dwarf_frame_cfa) X(frame_register, dwarf_frame_register)
/* clang-format on */

struct libdw_cfi {
	FUNCTIONS(LIBRARY_MEMBER)
};

enum {
	/* The cache is emptied when it has this many addresses; real programs have fewer. */
	KNOWN_MAX = 1 << 16
};

struct unwind {
	struct libdw_cfi libdw;
	Dwarf_CFI *cfi;	  /* NULL if the file has no call frame information */
	struct map known; /* struct unwind_rules by address */
};

static struct probe_error *functions_load(struct libdw_cfi *libdw)
{
	static const char *const names[] = {FUNCTIONS(LIBRARY_NAME) NULL};

	return library_load(&LIBDW("unwinding stacks needs"), names, libdw);
}

struct probe_error *unwind_check(void)
{
	struct libdw_cfi libdw;

	return functions_load(&libdw);
}

struct probe_error *unwind_open(struct object *object, struct unwind **ret)
{
	struct unwind *unwind = calloc(1, sizeof(*unwind));
	struct probe_error *error;

	if (!unwind)
		return probe_error_no_memory();
	error = functions_load(&unwind->libdw);
	if (error) {
		unwind_close(unwind);
		return error;
	}
	unwind->cfi = unwind->libdw.getcfi_elf(object->elf);
	*ret = unwind;
	return NULL;
}

/* ---- The cache -------------------------------------------------------------------- */

static void forget(struct unwind *unwind)
{
	struct unwind_rules *rules;

	for (size_t i = 0; (rules = map_next(&unwind->known, &i));) {
		for (size_t k = 0; k < UNWIND_REGISTERS; k++)
			unwind_rule_deinit(&rules->registers[k]);
		unwind_rule_deinit(&rules->cfa);
	}
	map_clear(&unwind->known);
}

void unwind_close(struct unwind *unwind)
{
	if (!unwind)
		return;
	forget(unwind);
	if (unwind->cfi)
		unwind->libdw.cfi_end(unwind->cfi);
	free(unwind);
}

/* ---- Asking libdw ----------------------------------------------------------------- */

static bool read_rules(const struct libdw_cfi *libdw, Dwarf_Frame *frame, struct unwind_rules *ret)
{
	int return_address = libdw->frame_info(frame, NULL, NULL, &ret->is_signal);
	Dwarf_Op own[3], *ops;
	size_t count;

	if (return_address < 0 || return_address >= UNWIND_REGISTERS)
		return false;
	ret->return_address = (uint8_t)return_address;
	if (libdw->frame_cfa(frame, &ops, &count) || !unwind_rule_init_cfa(&ret->cfa, ops, count))
		return false;
	for (int i = 0; i < UNWIND_REGISTERS; i++) {
		/* Registers that the machine does not have stay undefined. */
		if (libdw->frame_register(frame, i, own, &ops, &count)) {
			ops = own;
			count = 0;
		}
		if (!unwind_rule_init(&ret->registers[i], ops, count))
			return false;
	}
	return true;
}

/* Returns the rules of an address, valid until the next call. NULL if out of memory. */
static const struct unwind_rules *find_rules(struct unwind *unwind, uint64_t address)
{
	struct unwind_rules *rules = map_find(&unwind->known, MAP_KEY(MAP_OBJECT(address)));
	Dwarf_Frame *frame = NULL;

	if (rules)
		return rules;
	if (unwind->known.count == KNOWN_MAX)
		forget(unwind);
	rules = map_add(&unwind->known, sizeof(*rules), MAP_KEY(MAP_OBJECT(address)));
	if (!rules)
		return NULL;
	rules->none = !unwind->cfi ||
		      unwind->libdw.cfi_addrframe(unwind->cfi, address, &frame) != 0 ||
		      !read_rules(&unwind->libdw, frame, rules);
	free(frame);
	return rules;
}

/* Returns the distance from the stack pointer to a saved register; -1 if not saved or unknown. */
static int32_t saved_at(const struct unwind_rules *rules, uint8_t reg)
{
	const struct unwind_rule *where = &rules->registers[reg];
	int64_t offset = (int64_t)((uint64_t)rules->cfa.offset + (uint64_t)where->offset);

	if (where->how != UNWIND_AT_CFA || offset < 0 || offset > INT32_MAX)
		return -1;
	return (int32_t)offset;
}

struct unwind_saved unwind_saved(struct unwind *unwind, uint64_t address, uint8_t sp, uint8_t fp)
{
	const struct unwind_rules *rules = find_rules(unwind, address);
	struct unwind_saved saved = {-1, -1};

	if (!rules || rules->none || rules->cfa.how != UNWIND_REGISTER || rules->cfa.reg != sp)
		return saved;
	saved.return_at = rules->registers[rules->return_address].how == UNWIND_SAME
				  ? UNWIND_IN_REGISTER
				  : saved_at(rules, rules->return_address);
	if (saved.return_at != -1)
		saved.frame_at = saved_at(rules, fp);
	return saved;
}

/* ---- Steps ------------------------------------------------------------------------ */

static void compute_register(const struct unwind_rules *rules, size_t reg,
	const struct unwind_registers *from, uint64_t cfa, const struct unwind_memory *memory,
	struct unwind_registers *to)
{
	const struct unwind_rule *rule = &rules->registers[reg];
	bool is_known;

	if (rule->how == UNWIND_SAME) {
		to->values[reg] = from->values[reg];
		to->known |= from->known & UINT64_C(1) << reg;
		return;
	}
	is_known = unwind_rule_compute(rule, from, cfa, memory, &to->values[reg]);
	to->known |= (uint64_t)is_known << reg;
}

/*
 * Computes the CFA. The stack pointer may be unknown, after a step by frame pointers. If frame
 * pointer and return address are saved side by side, the frame pointer leads to them, at a known
 * distance from the CFA.
 */
static bool compute_cfa(const struct unwind_rules *rules, uint8_t fp,
	const struct unwind_registers *from, const struct unwind_memory *memory, uint64_t *ret)
{
	const struct unwind_rule *frame = &rules->registers[fp],
				 *back = &rules->registers[rules->return_address];

	if (rules->cfa.how != UNWIND_REGISTER || from->known >> rules->cfa.reg & 1)
		return unwind_rule_compute(&rules->cfa, from, 0, memory, ret);
	if (frame->how != UNWIND_AT_CFA || back->how != UNWIND_AT_CFA ||
		(uint64_t)back->offset != (uint64_t)frame->offset + 8 || !(from->known >> fp & 1))
		return false;
	*ret = from->values[fp] - (uint64_t)frame->offset;
	return true;
}

enum unwind_status unwind_step(struct unwind *unwind, uint64_t address, uint8_t fp,
	const struct unwind_memory *memory, struct unwind_registers *registers, bool *is_signal_ret)
{
	const struct unwind_rules *rules = find_rules(unwind, address);
	struct unwind_registers from = *registers, to = {0};
	uint64_t cfa;

	if (!rules || rules->none)
		return UNWIND_NO_RULES;
	if (rules->registers[rules->return_address].how == UNWIND_UNDEFINED)
		return UNWIND_OUTERMOST;
	/* If the return address's column is not a register, the rules expect the pc in it. */
	if (!(from.known >> rules->return_address & 1)) {
		from.values[rules->return_address] = from.pc;
		from.known |= UINT64_C(1) << rules->return_address;
	}
	if (!compute_cfa(rules, fp, &from, memory, &cfa))
		return UNWIND_FAILED;
	for (size_t i = 0; i < UNWIND_REGISTERS; i++)
		compute_register(rules, i, &from, cfa, memory, &to);
	if (!(to.known >> rules->return_address & 1))
		return UNWIND_FAILED;
	to.pc = to.values[rules->return_address];
	*registers = to;
	*is_signal_ret = rules->is_signal;
	return to.pc ? UNWIND_CALLER : UNWIND_OUTERMOST;
}
