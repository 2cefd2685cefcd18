/* SPDX-License-Identifier: MIT */
/*
 * The plan `before`: a jump before the site, for sites that allow no jump after the nop. Examples
 * are sites where a branch leads to the instruction right after the nop, as in `if (enabled)
 * PROBE()`, and OCaml's sites.
 *
 * The nop of an OCaml site is followed by its toggle. OCaml's own tools read and write the first
 * byte of the toggle at any moment. The code that the toggle calls saves only the registers that
 * are live after the site, and may leave by an exception. So the arguments exist only up to the
 * site, and a stub must read them there. The jump replaces the last instructions before the site:
 *
 *	start	lea counter(%rip),%rbx		jmp moved ----> lea counter(%rip),%rbx
 *		mov (%rbx),%rbx			...		mov (%rbx),%rbx
 *	pc	nop				nop		stub ... stub
 *		cmp or call			cmp <---------- jmp pc
 *
 * A thread that entered after the start of these instructions would reach the site without running
 * the stubs. So nothing may enter [start + 1, pc + 1), which is proved as for every moved
 * instruction. All moved instructions must fall through, and none may be a call, because a call
 * returns to the original address. The function is decoded from its start, so the starts of its
 * instructions are known. The first instruction of the function stays, and so does every nop,
 * because other tools put breakpoints there.
 *
 * Before an exit, a branch often leads to the last few instructions, `pop %rbx; ret`. There a short
 * jump may fit, which leads to a spare, as that of a hop does (hop.c).
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

enum { CHUNK_BYTES = 4096, PAGE_BYTES = 4096 };

static const char no_start[] = "its function cannot be decoded from the start: the instructions "
			       "before the site are unknown";
static const char no_room[] = "too few instructions that fall through stand before the site";
static const char cannot_move[] =
	"the instructions before the site cannot move, or something may enter them";

/* The last movable instructions before a site, in ascending order. */
struct begins {
	uint64_t at[ARCH_MOVED_INSNS_MAX];
	size_t count;
};

/*
 * Finds the instructions before `pc` that may move, by decoding from `start`. Returns false if no
 * instruction begins at `pc`.
 */
static bool find_begins(const struct object *object, const struct arch *arch, uint64_t start,
	uint64_t pc, struct begins *ret)
{
	uint8_t bytes[CHUNK_BYTES];
	uint64_t first = 0, at = start;
	size_t size = 0;

	ret->count = 0;
	while (at < pc) {
		struct arch_insn insn;

		if (at - first + ARCH_INSN_MAX > size) {
			first = at;
			size = object_read(object, at, bytes, sizeof(bytes));
		}
		if (at - first >= size ||
			!arch->decode(bytes + (at - first), size - (at - first), at, &insn))
			return false;
		if ((insn.flow == ARCH_FLOW_NONE || insn.flow == ARCH_FLOW_BRANCH) &&
			!arch->nop_length(bytes + (at - first), insn.length)) {
			if (ret->count == ARCH_MOVED_INSNS_MAX)
				memmove(ret->at, ret->at + 1, --ret->count * sizeof(*ret->at));
			ret->at[ret->count++] = at;
		} else {
			ret->count = 0;
		}
		at += insn.length;
	}
	return at == pc;
}

/* Returns the length of the instruction that leaves a function at an exit; 0 for other sites. */
static size_t exit_length(const struct arch *arch, const struct plan *plan)
{
	struct arch_insn insn;

	return plan->is_exit && arch->decode(plan->bytes, plan->byte_count, plan->pc, &insn)
		       ? insn.length
		       : 0;
}

/*
 * Asks whether the instructions before a site can move, as if a site, `ret`, were at their start.
 * Those before an exit move with it, and with as few others as possible, since more may be entered
 * in their middle; padding may follow them. Returns NULL, or the reason why the question is
 * pointless.
 */
static const char *ask(struct object *object, const struct arch *arch, const struct plan *plan,
	uint8_t jump, struct plan *ret)
{
	uint64_t end = plan->pc + exit_length(arch, plan);
	struct object_function function;
	struct begins begins;
	uint64_t start = 0;

	if (!object_function_at(object, plan->pc, &function) ||
		!find_begins(object, arch, function.range.start, plan->pc, &begins))
		return no_start;
	/*
	 * The jump ends at the site or earlier (at an exit, behind the instruction there), lies in
	 * one page, and does not begin at the function's first instruction. The highest such start
	 * moves the fewest instructions.
	 */
	for (size_t i = begins.count; i-- > 0 && !start;) {
		uint64_t at = begins.at[i];

		if (end - at > PLAN_BEFORE_BYTES || at == function.range.start)
			break;
		if (end - at >= jump && !plan_has_break(plan, at, jump) &&
			at % PAGE_BYTES + jump <= PAGE_BYTES)
			start = at;
	}
	if (!start)
		return no_room;
	*ret = (struct plan){.pc = start};
	ret->byte_count = object_read(object, start, ret->bytes, sizeof(ret->bytes));
	return NULL;
}

/* Asks for proofs of jumps of this length. */
static struct probe_error *ask_all(struct planning *p, uint8_t jump, struct plan *asked)
{
	const struct arch *arch = p->arch;
	/* A toggle's last byte must not be before the moved instructions. */
	const uint8_t margin = arch->toggle ? arch->toggle->offset + arch->toggle->covers - 1 : 1;
	const char *reason;
	size_t last;

	for (size_t i = 0; i < p->count; i++) {
		struct plan *plan = &p->plans[i];

		/* Sites that are not OCaml's need this plan only if no better one is possible. */
		if ((!plan->ocaml && !plan_is_wanting(p, plan) &&
			    !(plan->is_exit && arch->far_jump &&
				    !plan_choose(plan, p->order, &reason))) ||
			(jump < arch->jump_length && !plan->is_exit))
			continue;
		if (arch->can_decode && !arch->can_decode())
			return probe_error_new(PROBE_ERROR_UNSUPPORTED, "%s", plan_no_decoder);
		plan->before.cannot = ask(p->object, arch, plan, jump, &asked[i]);
		last = exit_length(arch, plan);
		/* Nothing may enter right behind a nop either; an exit moves, too. */
		if (!plan->before.cannot)
			plan_ask(p,
				(struct proof){.plan = &asked[i],
					.move = &asked[i].behind,
					.window = (uint8_t)(plan->pc - asked[i].pc + last + !last),
					.need = (uint8_t)(plan->pc - asked[i].pc + last),
					.margin = margin});
	}
	return NULL;
}

/* Sets the ways of sites that have none yet by the answers for jumps of this length. */
static void set_all(const struct planning *p, uint8_t jump, const struct plan *asked)
{
	for (size_t i = 0; i < p->count; i++) {
		struct plan *plan = &p->plans[i];
		const struct plan_way *answer = &asked[i].behind;
		size_t length;

		if (!asked[i].pc || plan->before.length)
			continue;
		length = plan->pc - asked[i].pc + exit_length(p->arch, plan);
		plan->before.cannot = answer->cannot ? cannot_move : NULL;
		if (answer->cannot || answer->length != length)
			continue;
		plan->before.offset = (int16_t)(asked[i].pc - plan->pc);
		plan->before.jump = jump;
		plan->before.length = (uint8_t)length;
		memcpy(plan->before_bytes, asked[i].bytes, length);
	}
}

static struct probe_error *examine(struct planning *p)
{
	const uint8_t jumps[] = {p->arch->jump_length, p->arch->short_jump_length};
	AUTO_FREE struct plan *asked = calloc(2 * p->count + 1, sizeof(*asked));
	struct probe_error *error = asked ? NULL : probe_error_no_memory();

	for (size_t k = 0; k < 2 && jumps[k] && !error; k++)
		error = ask_all(p, jumps[k], asked + k * p->count);
	error = error ?: plan_prove(p);
	/* A short jump is the second choice: it takes bytes elsewhere. */
	for (size_t k = 0; k < 2 && jumps[k] && !error; k++)
		set_all(p, jumps[k], asked + k * p->count);
	return error ?: plan_find_spares(p, &plan_before) ?: plan_make_spares(p);
}

static const char *take(struct install *a, size_t i)
{
	const struct plan *plan = a->selection->sites[i].plan;

	return plan_is_short(a->change->arch, plan, &plan_before) ? hops_take(a, i) : NULL;
}

/*
 * Builds a copy of the instructions before a site, to run before the first stub. It leaves room for
 * a jump to the first stub, which write_landings() writes. The last stub leads to the site.
 */
static struct probe_error *build(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct select_site *site = &a->selection->sites[i];
	struct install_site *as = &a->sites[i];
	const struct plan *plan = site->plan;
	struct reg_site *reg = &as->reg;
	size_t first = (size_t)-plan->before.offset, last = plan->before.length - first;
	struct probe_error *error;

	build_skip(arch, p, 0);
	reg->patch = site->pc - first;
	reg->pun = as->moved_to = p->start + p->used;
	if (arch->move(plan->before_bytes, first, reg->patch, reg->pun, first, &as->moved) !=
		ARCH_MOVE_OK)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"the instructions at %#jx cannot be moved to %#jx", (uintmax_t)reg->patch,
			(uintmax_t)reg->pun);
	memcpy(p->bytes + p->used, as->moved.code, as->moved.code_length);
	p->used += as->moved.code_length;
	reg->entry = p->start + p->used;
	p->used += arch->far_jump(reg->entry, reg->entry, p->bytes + p->used);
	reg->pun_size = (uint32_t)(p->start + p->used - reg->pun);
	reg->tail = site->pc;
	reg->covers = plan->before.length;
	as->entry = reg->pun;
	error = build_jump(a, as, reg->pun, reg);
	if (error)
		return error;
	memcpy(reg->original, plan->before_bytes, reg->length);
	return plan->is_exit
		       ? build_leave(a, as, site->pc, plan->before_bytes + first, last, last, p)
		       : NULL;
}

const struct plan_ops plan_before = {
	.id = PROBE_PLAN_BEFORE,
	.way = offsetof(struct plan, before),
	.is_last = true,
	.takes_spares = true,
	.examine = examine,
	.take = take,
	.build = build,
};
