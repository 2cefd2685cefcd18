/* SPDX-License-Identifier: MIT */
/*
 * The ways in which a site can be patched, below the plans: what a plan asks about the bytes and
 * the file, and which bytes belong to which patch. Nothing here knows which plans there are.
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

/* ==== Ways ==================================================================================== */

/* No kernel has smaller pages, so relocation keeps offsets within a page of this size. */
enum { PAGE = 4096 };
enum { LOWEST = 0x10000 }; /* vm.mmap_min_addr is at most this */

const char plan_crosses[] = "the jump would cross a page, and could not be written in one step";

const char plan_no_decoder[] =
	"libcapstone.so.4 cannot be loaded: is it installed, and is there enough memory?";

const char plan_in_distance[] = "another site, where other tools put breakpoints, "
				"would be part of the jump's distance";

const char plan_breakpoint[] =
	"a debugger's breakpoint for the function would be inside the jump, or a uprobe there "
	"would leave a wrong one";

const char plan_code_ends[] = "the code ends after the site";

const char plan_leads_nowhere[] =
	"the address that its bytes would jump to is in the file itself, or below all memory";

static const char none_possible[] = "none of the requested plans is possible there";

static const char no_short_nop[] =
	"its nop is as long as a jump, which none of the requested plans is for: use behind or nop";

bool plan_is_asked(const struct plan_order *order, const struct plan_ops *ops)
{
	for (size_t i = 0; i < order->count; i++)
		if (order->plans[i] == ops)
			return true;
	return false;
}

const struct plan_way *plan_way(const struct plan *plan, const struct plan_ops *ops)
{
	static const struct plan_way none = {0};

	return ops->way ? (const struct plan_way *)((const char *)plan + ops->way) : &none;
}

bool plan_can_lead(const struct object *object, struct arch_extent to)
{
	bool is_fixed = object_type(object) == ET_EXEC;
	size_t count;
	const struct object_segment *segments = object_segments(object, &count);

	for (uint64_t at = to.start; at - to.start < to.size; at = (at & ~(PAGE - 1ULL)) + PAGE) {
		uint64_t page = at & ~(PAGE - 1ULL);
		bool is_files = false;

		for (size_t i = 0; i < count; i++)
			is_files |= page + PAGE > segments[i].address &&
				    page < segments[i].address + segments[i].size;
		/*
		 * A file that can be mapped anywhere may be mapped at a high address, so addresses
		 * may wrap.
		 */
		if (!is_files && (!is_fixed || (int64_t)page >= LOWEST))
			return true;
	}
	return false;
}

bool rows_have_site(const struct rows *rows, uint64_t start, size_t length)
{
	size_t i = ARRAY_SEARCH(rows->sites, rows->count, pc, start);

	return i < rows->count && rows->sites[i].pc - start < length;
}

size_t plan_nop_at(const struct arch *arch, const struct plan *plan, size_t at)
{
	return arch->nop_length(plan->bytes + at, plan->byte_count - at);
}

/* Is an offset that of the plan `before`? Else all that is known begins at the row's end. */
static bool is_before(const struct plan *plan, int offset)
{
	return offset < 0 && plan->row >= 0;
}

size_t plan_code(const struct plan *plan, int offset, const uint8_t **ret)
{
	size_t at = (size_t)(offset - plan->row);

	if (is_before(plan, offset)) {
		*ret = plan->before_bytes + (offset - plan->before.offset);
		return (size_t)(plan->before.length - (offset - plan->before.offset));
	}
	if (at > plan->byte_count)
		at = plan->byte_count;
	*ret = plan->bytes + at;
	return plan->byte_count - at;
}

bool plan_is_shared(const struct plan *plan, const struct plan_ops *ops)
{
	if (!ops)
		return false;
	const struct plan_way *way = plan_way(plan, ops);

	return ops->follows_nops && (plan->is_followed || way->lead || way->has_exit);
}

/* Returns how many bytes, from the patch on, a way relies on. */
static size_t covers(const struct plan_way *way)
{
	return way->length > way->relies ? way->length : way->relies;
}

static bool crosses(const struct plan *plan, const struct plan_way *way)
{
	uint64_t patch = plan->pc + (uint64_t)way->offset;

	return covers(way) && patch / PAGE != (patch + way->jump - 1) / PAGE;
}

bool plan_is_possible(const struct plan *plan, const struct plan_ops *ops)
{
	const struct plan_way *way = plan_way(plan, ops);

	return covers(way) && !way->cannot && !crosses(plan, way);
}

const char *plan_reason(const struct plan *plan, const struct plan_ops *ops)
{
	const struct plan_way *way = plan_way(plan, ops);

	return !plan->byte_count    ? "its address is not in the code of the file"
	       : way->cannot	    ? way->cannot
	       : crosses(plan, way) ? plan_crosses
				    : NULL;
}

const char *plan_impossible(const struct plan *plan)
{
	return plan->nop.relies && !plan->nop.offset ? no_short_nop : none_possible;
}

const struct plan_ops *plan_choose(
	const struct plan *plan, const struct plan_order *order, const char **reason_ret)
{
	*reason_ret = NULL;
	for (size_t i = 0; i < order->count; i++)
		if (plan_is_possible(plan, order->plans[i]))
			return order->plans[i];
	for (size_t i = 0; i < order->count && !*reason_ret; i++)
		*reason_ret = plan_reason(plan, order->plans[i]);
	if (!*reason_ret)
		*reason_ret = plan_impossible(plan);
	return NULL;
}

void plan_ask(struct planning *p, struct proof question)
{
	p->no_memory |= !ARRAY_ROOM(p->proofs, p->proof_count);
	if (!p->no_memory)
		p->proofs[p->proof_count++] = question;
}

void plan_ask_move(struct planning *p, const struct plan *plan, struct plan_way *way)
{
	plan_ask(p, (struct proof){.plan = plan,
			    .move = way,
			    .window = (uint8_t)(way->offset + way->jump),
			    .need = way->jump});
}

struct probe_error *plan_prove(struct planning *p)
{
	AUTO_FREE struct proof *proofs = p->proofs;
	size_t count = p->proof_count;

	p->proofs = NULL;
	p->proof_count = 0;
	if (p->no_memory)
		return probe_error_no_memory();
	if (!count)
		return NULL;
	if (p->arch->can_decode && !p->arch->can_decode())
		return probe_error_new(PROBE_ERROR_UNSUPPORTED, "%s", plan_no_decoder);
	return prove(p->object, p->arch, p->all, proofs, count);
}

bool plan_has_break(const struct plan *plan, uint64_t at, uint8_t length)
{
	for (unsigned int i = 0; i < 64; i++)
		if (plan->breaks >> i & 1 && plan->start + i > at && plan->start + i < at + length)
			return true;
	return false;
}

bool plan_is_wanting(const struct planning *p, const struct plan *plan)
{
	const char *reason;

	return plan->short_nop && !plan_choose(plan, p->order, &reason);
}

size_t plan_bytes_before(const struct plan *plan)
{
	return plan->row < 0		 ? (size_t)-plan->row
	       : plan->before.offset < 0 ? (size_t)-plan->before.offset
					 : 0;
}

size_t plan_starts_before(const struct plan *plan, const struct plan_ops *ops)
{
	const struct plan_way *way = plan_way(plan, ops);

	return plan->row < 0 ? (size_t)-plan->row : way->offset < 0 ? (size_t)-way->offset : 0;
}

size_t plan_needs(const struct plan *plan, const struct plan_ops *ops)
{
	const struct plan_way *way = plan_way(plan, ops);
	size_t before = plan_starts_before(plan, ops);
	size_t needed = covers(way) + (size_t)way->offset + before;
	size_t known = (size_t)plan->row + plan->byte_count + before;

	return is_before(plan, way->offset) || needed < known ? needed : known;
}

/*
 * Another tool's breakpoint may replace the first byte of an instruction. A long nop may hold any
 * bytes, because the kernel rewrites it.
 */
bool plan_stays(
	const struct arch *arch, const struct plan *plan, size_t offset, const uint8_t *found)
{
	for (size_t at = 0, length; at < offset; at += length) {
		length = plan_nop_at(arch, plan, at);
		if (!length || length > offset - at)
			/* the first instruction of a function, not a nop */
			length = offset - at;
		else if (length >= arch->jump_length && length > arch->site_nop)
			continue;
		if (memcmp(found + at, plan->bytes + at, length) != 0 &&
			!arch_has_breakpoint(arch, found + at, plan->bytes + at, length))
			return false;
	}
	return true;
}

bool plan_holds(const struct arch *arch, const struct plan *plan, const struct plan_ops *ops,
	const uint8_t *found)
{
	const struct plan_way *way = plan_way(plan, ops);
	size_t needed = plan_needs(plan, ops), row = plan->row > 0 ? (size_t)plan->row : 0;
	size_t stays = way->offset > plan->row ? (size_t)(way->offset - plan->row) : 0;

	if (ops->holds)
		return ops->holds(arch, plan, found);
	if (is_before(plan, way->offset))
		return memcmp(found, plan->before_bytes, needed) == 0;
	if (needed < row)
		return false;
	/* A row's nops, which stay, are all alike. */
	for (size_t at = 0; at < row; at += arch->site_nop)
		if (memcmp(found + at, plan->bytes, arch->site_nop) != 0 &&
			!arch_has_breakpoint(arch, found + at, plan->bytes, arch->site_nop))
			return false;
	found += row;
	needed -= row;
	return stays <= needed && plan_stays(arch, plan, stays, found) &&
	       memcmp(found + stays, plan->bytes + stays, needed - stays) == 0;
}

/* ==== Claims ================================================================================== */

enum { CLAIM_MAX = UINT8_MAX };

const char claims_overlap[] = "its bytes overlap those of another patched site";

static const char borrowed[] = "threads of the program make calls for the controller by this code";

static const char guarded[] = "its bytes overlap those of a guard, which probectl switches";

const char claims_no_spare[] = "the bytes near by that a short jump could lead to are taken";

/* Returns the claim of a patch that relies on `covers` bytes and writes the first `length`. */
static struct claim claim_of(uint64_t patch, unsigned int length, unsigned int covers)
{
	return (struct claim){
		patch, patch + (covers < length ? length : covers), patch + length, NULL};
}

struct claim claim_of_plan(const struct select_site *site, const struct plan_ops *ops)
{
	const struct plan_way *way = plan_way(site->plan, ops);

	return claim_of(site->pc + (uint64_t)way->offset, way->jump,
		way->length > way->relies ? way->length : way->relies);
}

struct claim claim_of_hop(const struct arch *arch, uint64_t hop, uint8_t made)
{
	uint8_t jump = arch->jump_length;

	return made ? claim_of(hop - jump, 2U * jump, made) : claim_of(hop, jump, jump);
}

/* Returns the bytes of code that move to make room for a site's hop, or 0. */
static uint8_t plan_made(const struct select_site *site, uint64_t hop)
{
	for (size_t i = 0; i < site->plan->spare_count; i++)
		if (hop && site->plan->spares[i] + (site->pc - site->plan->pc) == hop)
			return site->plan->made[i];
	return 0;
}

const char *claims_meet(const struct claims *claims, struct claim claim)
{
	for (size_t i = ARRAY_SEARCH(claims->items, claims->count, start, claim.start - CLAIM_MAX);
		i < claims->count && claims->items[i].start < claim.end; i++) {
		const struct claim *other = &claims->items[i];

		if (other->start == other->end) {
			if (other->start > claim.start && other->start < claim.written_end)
				return claims_overlap;
			continue;
		}
		if ((other->start < claim.written_end && claim.start < other->end) ||
			(other->start < claim.end && claim.start < other->written_end))
			return other->reason ? other->reason : claims_overlap;
	}
	return NULL;
}

/* Inserts a claim in order. Returns false if out of memory. */
static bool claims_add(struct claims *claims, struct claim claim)
{
	size_t at;

	if (!ARRAY_ROOM(claims->items, claims->count))
		return false;
	at = ARRAY_SEARCH(claims->items, claims->count, start, claim.start);
	memmove(claims->items + at + 1, claims->items + at,
		(claims->count++ - at) * sizeof(*claims->items));
	claims->items[at] = claim;
	return true;
}

bool claims_add_site(struct claims *claims, const struct arch *arch, const struct reg_site *site)
{
	/* A restored site has no bytes, only the address to which its tail or last stub leads. */
	uint64_t end = site->tail_size ? site->patch + site->covers : site->tail;
	struct claim claim = {end, end, end, NULL};

	if (site->pc)
		claim = claim_of(site->patch, site->length,
			site->covers > site->relies ? site->covers : site->relies);

	return claims_add(claims, claim) &&
	       (!site->hop || claims_add(claims, claim_of_hop(arch, site->hop, 0)));
}

bool claims_add_guards(struct claims *claims, const struct arch *arch, const struct module *module)
{
	size_t count;
	const struct sdt_guard *guards = sdt_guards(module->object, &count);

	for (size_t i = 0; i < count; i++) {
		struct claim claim = claim_of_hop(arch, guards[i].pc + module->bias, 0);

		claim.reason = guarded;
		if (!claims_add(claims, claim))
			return false;
	}
	return true;
}

bool claims_add_gadgets(struct claims *claims, const struct arch_gadgets *gadgets)
{
	const struct arch_process *arch = arch_process();
	const struct arch_extent items[] = {{gadgets->call, arch->call_bytes},
		{gadgets->leave, arch->leave_bytes}, {gadgets->sigreturn, arch->sigreturn_bytes}};

	for (size_t i = 0; i < sizeof(items) / sizeof(*items); i++) {
		struct claim claim = {.start = items[i].start,
			.end = items[i].start + items[i].size,
			.written_end = items[i].start + items[i].size,
			.reason = borrowed};

		if (claim.start && !claims_add(claims, claim))
			return false;
	}
	return true;
}

bool claims_have_jump(
	const struct claims *claims, const struct select_site *site, const struct plan_ops *ops)
{
	return plan_is_shared(site->plan, ops) && ops == claims->shared_plan &&
	       site->pc + (uint64_t)plan_way(site->plan, ops)->offset == claims->shared;
}

bool claims_take(const struct arch *arch, struct claims *claims, const struct select_site *site,
	uint64_t hop)
{
	struct claim claim = claim_of_plan(site, site->chosen);

	if (claims_have_jump(claims, site, site->chosen))
		return true;
	if (plan_is_shared(site->plan, site->chosen)) {
		claims->shared = claim.start;
		claims->shared_hop = hop;
		claims->shared_plan = site->chosen;
	}
	return claims_add(claims, claim) &&
	       (!hop || claims_add(claims, claim_of_hop(arch, hop, plan_made(site, hop))));
}

void claims_deinit(struct claims *claims)
{
	free(claims->items);
	*claims = (struct claims){0};
}
