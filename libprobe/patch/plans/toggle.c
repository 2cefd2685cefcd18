/* SPDX-License-Identifier: MIT */
/*
 * The plans `toggle` and `call`. An OCaml site is a nop and a comparison, whose first byte is the
 * toggle: another value makes it a call of the handler (struct arch_toggle). `toggle` writes only
 * this byte (libprobe/patch/transaction.c). `call` traces: it makes the comparison a call of our
 * code. OCaml's tools do not write the bytes behind the toggle.
 */
#include <string.h>

#include "libprobe/patch/patch.h"

static const char no_count[] = "there is no counter for the users of its handler";

uint64_t semaphore_offset(enum sdt_kind kind)
{
	return kind == SDT_OCAML ? sizeof(uint16_t) : 0;
}

bool plan_holds_toggle(
	const struct arch_toggle *toggle, const struct plan *plan, const uint8_t *found)
{
	return (found[0] == toggle->on || found[0] == toggle->off) &&
	       memcmp(found + 1, plan->bytes + toggle->offset + 1, toggle->covers - 1U) == 0;
}

/*
 * Sets the plans of an OCaml site if a toggle, on or off, follows its nop. If none does, the site
 * is not treated as OCaml's.
 */
static void look(const struct planning *p, struct plan *plan)
{
	const struct arch_toggle *toggle = p->arch->toggle;
	size_t nop = p->arch->nop_length(plan->bytes, plan->byte_count);

	plan->ocaml = plan->ocaml && toggle && nop == toggle->offset &&
		      plan->byte_count >= (size_t)toggle->offset + toggle->covers &&
		      plan_holds_toggle(toggle, plan, plan->bytes + toggle->offset);
	if (!plan->ocaml)
		return;
	/* no plan uses bytes behind the toggle */
	plan->byte_count = (size_t)toggle->offset + toggle->covers;
	plan->toggle =
		(struct plan_way){.offset = toggle->offset, .jump = 1, .relies = toggle->covers};
	plan->call = (struct plan_way){
		.offset = toggle->offset, .jump = p->arch->jump_length, .relies = toggle->covers};
}

static bool holds(const struct arch *arch, const struct plan *plan, const uint8_t *found)
{
	return plan_stays(arch, plan, arch->toggle->offset, found) &&
	       plan_holds_toggle(arch->toggle, plan, found + arch->toggle->offset);
}

static const char *take(struct install *a, size_t i)
{
	return a->selection->sites[i].semaphore ? NULL : no_count;
}

/*
 * Builds the code before an OCaml site's first stub, and the code after the last stub, which calls
 * the handler if the program would have called it.
 */
static struct probe_error *build(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct arch_toggle *toggle = arch->toggle;
	const struct select_site *site = &a->selection->sites[i];
	struct install_site *as = &a->sites[i];
	struct reg_site *reg = &as->reg;
	const uint8_t *file = site->plan->bytes + toggle->offset;
	uint64_t back = site->pc + toggle->offset + toggle->covers;
	int32_t distance;
	size_t length;

	memcpy(&distance, file + 1, sizeof(distance));
	reg->patch = site->pc + toggle->offset;
	reg->count = site->semaphore + semaphore_offset(site->note->kind);
	memcpy(reg->original, file, reg->length);
	reg->original[0] = toggle->off;
	build_skip(arch, p, 0);
	reg->pun = as->entry = p->start + p->used;
	p->used += toggle->enter(p->bytes + p->used);
	reg->entry = p->start + p->used;
	p->used += arch->far_jump(reg->entry, reg->entry, p->bytes + p->used);
	reg->pun_size = (uint32_t)(p->start + p->used - reg->pun);
	build_skip(arch, p, 0);
	reg->tail = p->start + p->used;
	length = toggle->leave(reg->tail, reg->count, back + (uint64_t)(int64_t)distance, back,
		p->bytes + p->used);
	p->used += length;
	reg->tail_size = (uint32_t)length;
	return length ? NULL
		      : probe_error_new(PROBE_ERROR_REFUSED,
				"no code can be placed near enough to %#jx", (uintmax_t)site->pc);
}

/* Turns the jump into a call, whose distance is encoded in the same way. */
static void amend(const struct install_site *as, const struct arch *arch, uint8_t *patched)
{
	(void)as;
	patched[0] = arch->toggle->on;
}

const struct plan_ops plan_toggle = {
	.id = PROBE_PLAN_TOGGLE,
	.way = offsetof(struct plan, toggle),
	.is_switch = true,
	.look = look,
	.holds = holds,
};

const struct plan_ops plan_call = {
	.id = PROBE_PLAN_CALL,
	.way = offsetof(struct plan, call),
	.holds = holds,
	.take = take,
	.build = build,
	.amend = amend,
};
