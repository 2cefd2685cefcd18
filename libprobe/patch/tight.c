/* SPDX-License-Identifier: MIT */
/*
 * Sites with less room after the nop than a jump needs, and none before it.
 *
 * If something enters right after the nop, but nowhere after that, two jumps are written, one byte
 * apart (struct arch_twin). What comes from the nop is a hit; what enters, and a thread that
 * continues after a breakpoint of another tool at the nop, runs only the moved instructions:
 *
 *	pc	nop		jmp first ----> stub ... stub ----> nop		copies
 *	pc + 1	entered		   jmp second ---------------------> mov
 *		mov						     jmp back
 *
 * Both lead to one page, which is chosen so that it is free. What is proved is that the
 * instructions can be moved that begin at pc + 1: something may enter there, but not later.
 *
 * If fewer bytes than a jump takes are free, because something enters after them or a page ends,
 * they become the first bytes of a jump; its other bytes are those of the code, which stay:
 *
 *	pc	nop		nop
 *	pc + 1	48 89 c7	e9 xx yy	jmp, somewhere in the 64 KiB that can be chosen
 *	entered	83 c0 01	83 c0 01	its two other bytes
 *
 * One free byte leaves no choice, like that of a pun; two leave 256 bytes, three 64 KiB, and four
 * 16 MiB. Neither plan relies on a byte where another tool may put a breakpoint for a site.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/patch.h"

enum { TIGHT_PARTS = ARCH_JUMP_MAX, TIGHT_PAGE = 4096 };

static const char no_twins[] = "there are no two jumps that begin one byte apart";
static const char no_parts[] = "no part of a jump can be chosen alone";
static const char code_ends[] = "the code ends after the nop";
static const char near_site[] = "another site is in the bytes after the nop";
static const char page_end[] = "a page ends in the bytes after the nop";

/* What is asked about one site: a twin, and parts of jumps of 1, 2, 3 ... bytes. */
struct tight {
	struct plan *plan;
	struct plan after; /* as if the byte after the nop were a site: it may be entered */
	struct plan_move parts[TIGHT_PARTS];
};

struct asking {
	const struct arch *arch;
	const struct rows *rows;
	struct tight *items;
	size_t count;
	struct proof *proofs;
	size_t proof_count;
};

/* Is a plan possible only if it is one of these? */
static bool is_tight(const struct plan *plan, const enum probe_plan *order, size_t order_count)
{
	const char *reason;

	return plan->short_nop && !plan->ocaml && !plan->nop_length &&
	       plan_choose(plan, order, order_count, &reason) == PROBE_PLAN_REFUSED;
}

static void ask_twin(struct asking *a, struct tight *tight)
{
	struct plan *plan = tight->plan;
	size_t nop = a->arch->site_nop, length = a->arch->twin_length;

	if (!length)
		plan->twin.cannot = no_twins;
	else if (rows_have_site(a->rows, plan->pc + nop, length - nop))
		plan->twin.cannot = near_site;
	else if (plan->pc % TIGHT_PAGE + length > TIGHT_PAGE)
		plan->twin.cannot = page_end;
	if (plan->twin.cannot)
		return;
	plan->twin.jump = (uint8_t)length;
	tight->after.pc = plan->pc + nop;
	tight->after.byte_count = plan->byte_count - nop;
	memcpy(tight->after.bytes, plan->bytes + nop, tight->after.byte_count);
	a->proofs[a->proof_count++] = (struct proof){.plan = &tight->after,
		.move = &tight->after.behind,
		.window = a->arch->jump_length,
		.need = a->arch->jump_length};
}

static void ask_parts(struct asking *a, struct tight *tight)
{
	struct plan *plan = tight->plan;
	uint64_t patch = plan->pc + plan->behind.offset;
	unsigned int jump = a->arch->jump_length, room = TIGHT_PAGE - patch % TIGHT_PAGE;

	plan->part = (struct plan_move){.offset = plan->behind.offset};
	if (!a->arch->part)
		plan->part.cannot = no_parts;
	else if (plan->is_followed || rows_have_site(a->rows, patch, jump))
		plan->part.cannot = near_site;
	else if (plan->byte_count < plan->behind.offset + (size_t)jump)
		plan->part.cannot = code_ends;
	for (unsigned int k = 1; k < jump && k <= room && !plan->part.cannot; k++) {
		tight->parts[k] =
			(struct plan_move){.offset = plan->part.offset, .jump = (uint8_t)k};
		a->proofs[a->proof_count++] = (struct proof){.plan = plan,
			.move = &tight->parts[k],
			.window = (uint8_t)(plan->part.offset + k),
			.need = (uint8_t)k};
	}
}

static void answer_twin(const struct asking *a, struct tight *tight)
{
	struct plan_move *twin = &tight->plan->twin;

	if (!tight->after.pc)
		return;
	twin->cannot = tight->after.behind.cannot;
	twin->length = twin->cannot ? 0 : (uint8_t)(a->arch->site_nop + tight->after.behind.length);
}

/* The longest part leaves the most places to choose from. */
static void answer_parts(const struct object *object, const struct asking *a, struct tight *tight)
{
	const struct plan *plan = tight->plan;
	struct plan_move *part = &tight->plan->part;

	for (unsigned int k = a->arch->jump_length; k-- > 1 && !part->length;)
		if (tight->parts[k].jump) {
			*part = tight->parts[k];
			part->length = part->cannot ? 0 : part->length;
		}
	if (!part->length || plan_can_lead(object, a->arch->part(plan->bytes + part->offset,
							   plan->pc + part->offset, part->jump)))
		return;
	part->cannot = plan_leads_nowhere;
	part->length = 0;
}

static bool asking_init(struct asking *a, const enum probe_plan *order, size_t order_count,
	struct plan *plans, size_t count)
{
	a->items = calloc(count + 1, sizeof(*a->items));
	for (size_t i = 0; i < count && a->items; i++)
		if (is_tight(&plans[i], order, order_count))
			a->items[a->count++].plan = &plans[i];
	a->proofs = calloc(a->count * a->arch->jump_length + 1, sizeof(*a->proofs));
	return a->items && a->proofs;
}

struct probe_error *tight_plan(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct rows *rows, const enum probe_plan *order,
	size_t order_count, struct plan *plans, size_t count)
{
	bool twin = plan_is_asked(order, order_count, PROBE_PLAN_TWIN);
	bool part = plan_is_asked(order, order_count, PROBE_PLAN_PART);
	struct asking a = {.arch = arch, .rows = rows};
	struct probe_error *error = NULL;

	if (!twin && !part)
		return NULL;
	if (!asking_init(&a, order, order_count, plans, count))
		error = probe_error_no_memory();
	for (size_t i = 0; i < a.count && !error; i++) {
		if (twin)
			ask_twin(&a, &a.items[i]);
		if (part)
			ask_parts(&a, &a.items[i]);
	}
	if (!error && a.proof_count && arch->can_decode && !arch->can_decode())
		error = probe_error_new(PROBE_ERROR_UNSUPPORTED, "%s", plan_no_decoder);
	if (!error && a.proof_count)
		error = prove(object, arch, all, a.proofs, a.proof_count);
	for (size_t i = 0; i < a.count && !error; i++) {
		if (twin)
			answer_twin(&a, &a.items[i]);
		if (part)
			answer_parts(object, &a, &a.items[i]);
	}
	free(a.items);
	free(a.proofs);
	return error;
}
