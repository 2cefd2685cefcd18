/* SPDX-License-Identifier: MIT */
/*
 * A jump before the site, for sites that allow none after it: where a branch enters right after the
 * nop, as in `if (enabled) PROBE()`, and OCaml's sites.
 *
 * The nop of an OCaml site is followed by its toggle, whose first byte OCaml's own tools read and
 * write at any moment. The code that the toggle calls saves only the registers that are live after
 * the site, and may leave by an exception. So the arguments exist only before the site, and the
 * jump replaces the instructions that lead to it:
 *
 *	start	lea counter(%rip),%rbx		jmp moved ----> lea counter(%rip),%rbx
 *		mov (%rbx),%rbx			...		mov (%rbx),%rbx
 *	pc	nop				nop		stub ... stub
 *		cmp or call			cmp <---------- jmp pc
 *
 * Whatever enters after the start would reach the site without the stubs. So nothing may enter
 * [start + 1, pc + 1), which is proved as for every moved instruction; all of them must fall
 * through, and none may be a call, which returns to the original. Where the instructions begin is
 * known because the function is decoded from its start. Its first instruction stays, and so
 * does every nop: that is where other tools put what is theirs.
 */
#include <stdlib.h>

#include "libprobe/patch/patch.h"

enum { CHUNK_BYTES = 4096, PAGE_BYTES = 4096 };

static const char no_start[] = "its function cannot be decoded from the start: the instructions "
			       "before the nop are unknown";
static const char no_room[] = "too few instructions that fall through stand before the nop";
static const char cannot_move[] =
	"the instructions before the nop cannot move, or something may enter them";

/* Where the last instructions before a site begin, the latest last. */
struct begins {
	uint64_t at[ARCH_MOVED_INSNS_MAX];
	size_t count;
};

static void begins_add(struct begins *begins, uint64_t at)
{
	if (begins->count == ARCH_MOVED_INSNS_MAX) {
		for (size_t i = 1; i < begins->count; i++)
			begins->at[i - 1] = begins->at[i];
		begins->count--;
	}
	begins->at[begins->count++] = at;
}

/* Decodes from `start` to `pc`; false if that is not where an instruction begins. */
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
			!arch->nop_length(bytes + (at - first), insn.length))
			begins_add(ret, at);
		else
			ret->count = 0;
		at += insn.length;
	}
	return at == pc;
}

/*
 * The latest start from which a jump fits before the site, within one page and after the first
 * instruction of the function; 0: there is none.
 */
static uint64_t choose_start(
	const struct begins *begins, uint64_t function, uint64_t pc, size_t jump)
{
	for (size_t i = begins->count; i-- > 0;) {
		uint64_t start = begins->at[i];

		if (pc - start > PLAN_BEFORE_BYTES || start == function)
			break;
		if (pc - start >= jump && start % PAGE_BYTES <= PAGE_BYTES - jump)
			return start;
	}
	return 0;
}

/* The question whether the instructions before a site can move, as that of a site at the start. */
static const char *ask(
	struct object *object, const struct arch *arch, const struct plan *plan, struct plan *ret)
{
	struct object_function function;
	struct begins begins;
	uint64_t start;

	if (!object_function_at(object, plan->pc, &function) ||
		!find_begins(object, arch, function.range.start, plan->pc, &begins))
		return no_start;
	start = choose_start(&begins, function.range.start, plan->pc, arch->jump_length);
	if (!start)
		return no_room;
	*ret = (struct plan){.pc = start};
	ret->byte_count = object_read(object, start, ret->bytes, sizeof(ret->bytes));
	return NULL;
}

/* The answer to it. */
static void answer(struct plan *plan, const struct plan *asked)
{
	size_t length = (size_t)(plan->pc - asked->pc);

	plan->before.cannot = asked->behind.cannot ? cannot_move : NULL;
	if (asked->behind.cannot || asked->behind.length != length)
		return;
	plan->before.length = (uint8_t)length;
	for (size_t i = 0; i < length; i++)
		plan->before_bytes[i] = asked->bytes[i];
}

static struct proof proof_of(const struct arch *arch, const struct plan *plan, struct plan *asked)
{
	uint8_t length = (uint8_t)(plan->pc - asked->pc);

	return (struct proof){.plan = asked,
		.move = &asked->behind,
		.window = (uint8_t)(length + 1),
		.need = length,
		.margin = (uint8_t)(arch->toggle->offset + arch->toggle->covers - 1)};
}

/* Sites other than OCaml's mostly have something better. */
static bool is_wanted(const struct plan *plan, const enum probe_plan *order, size_t order_count)
{
	const char *reason;

	return plan->ocaml || (plan->short_nop && plan_choose(plan, order, order_count, &reason) ==
							  PROBE_PLAN_REFUSED);
}

struct probe_error *before_plan(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const enum probe_plan *order, size_t order_count,
	struct plan *plans, size_t count)
{
	struct plan *asked = calloc(count + 1, sizeof(*asked));
	struct proof *proofs = calloc(count + 1, sizeof(*proofs));
	struct probe_error *error = asked && proofs ? NULL : probe_error_no_memory();
	size_t proof_count = 0;

	for (size_t i = 0; i < count && !error; i++) {
		if (!is_wanted(&plans[i], order, order_count))
			continue;
		if (arch->can_decode && !arch->can_decode())
			error = probe_error_new(PROBE_ERROR_UNSUPPORTED, "%s", plan_no_decoder);
		else if (!(plans[i].before.cannot = ask(object, arch, &plans[i], &asked[i])))
			proofs[proof_count++] = proof_of(arch, &plans[i], &asked[i]);
	}
	if (!error && proof_count)
		error = prove(object, arch, all, proofs, proof_count);
	for (size_t i = 0; i < count && !error; i++)
		if (asked[i].pc)
			answer(&plans[i], &asked[i]);
	free(asked);
	free(proofs);
	return error;
}
