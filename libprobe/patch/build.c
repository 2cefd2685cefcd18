/* SPDX-License-Identifier: MIT */
/*
 * Generates the code of a session, before any thread is stopped.
 *
 *   site:   nop
 *           jmp stub ------> stub of the newest session
 *                              jmp -----> stub of an older session ...
 *                                           jmp -----> tail: the moved
 *   after the jump   <------------------------ jmp     instructions
 *
 * The jump of a punned site leads to a page that only this site uses. The page holds the jump to
 * the stub. Such a page is also used by twins, by jumps of which only a part can be chosen, and by
 * the copy of the instructions before an OCaml site. A long nop that the jump overwrites needs no
 * tail: the last stub jumps to the end of the nop.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

/* ==== Build =================================================================================== */

/*
 * Returns the code to which a new stub leads: the target of the site's jump, the tail, or the
 * target of the last older stub that must be entered first. *order becomes the order of that stub,
 * 0 for the tail.
 */
static uint64_t next_code(const struct install *a, struct install_site *first, uint32_t *order)
{
	const struct reg_stub *stubs;
	size_t count, at = 0;

	*order = first->order;
	if (first->head)
		return first->head;
	stubs = registry_stubs(&a->change->registry, first->reg.pc, &count);
	while (at < count &&
		!(a->stubs.comes_before && a->stubs.comes_before(a->stubs.data, stubs[at].session)))
		at++;
	first->link = at < count ? stubs[at].start + stubs[at].next_jump : 0;
	first->below = *order = at ? stubs[at - 1].order : 0;
	return at ? stubs[at - 1].start : first->reg.tail;
}

static uint32_t site_number(const struct install *a, size_t i)
{
	return a->stubs.numbers ? a->stubs.numbers[i] : a->stubs.first_site + (uint32_t)i;
}

/*
 * Returns true if the instructions after the stubs overwrite the arithmetic flags. Only moved
 * instructions count, because they do not change while they are in the tail; nops and stubs before
 * them read no flags. For a patched site, the registry has the instructions that the jump replaced.
 */
static bool frees_flags(const struct install *a, size_t i)
{
	const struct arch *arch = a->change->arch;
	const struct install_site *as = &a->sites[a->sites[i].first];
	const struct select_site *site = &a->selection->sites[a->sites[i].first];
	const struct plan *plan = site->plan;
	const struct plan_way *move = plan_way(plan, site->chosen);
	const uint8_t *bytes;

	if (!arch->overwrites_flags || install_is_gate(a) || !site->chosen->follows_nops)
		return false;
	if (!as->is_new)
		return arch->overwrites_flags(as->reg.original, as->reg.length);
	return move->length <= plan_code(plan, move->offset, &bytes) &&
	       arch->overwrites_flags(bytes, move->length);
}

/* Describes the stub of a site: what it does, and what it may use. */
static struct arch_stub describe(const struct install *a, size_t i)
{
	const struct change *c = a->change;
	const struct select_site *site = &a->selection->sites[i];
	const struct select_probe *probe = &a->selection->probes[site->probe];
	const struct reg_session *session = registry_session(&c->registry, a->session);
	const struct reg_probe *counted = registry_probe(&c->registry, probe->key, a->session);
	struct arch_stub stub = {
		.thread = c->thread,
		.guard = a->stubs.follow_children
				 ? session->data + offsetof(struct data_header, guard)
				 : c->registry.guard,
		.own = a->stubs.follow_children ? c->registry.guard : 0,
		.cpus = session->cpus,
		.site = site_number(a, i),
		.safe = a->stubs.safe,
		.page_bytes = (uint32_t)page_bytes(),
		.frees_flags = frees_flags(a, i),
		.may_call_kernel = c->seccomp.allowed & SECCOMP_ASK,
		.may_ask_time = c->seccomp.allowed & SECCOMP_TIME,
		.may_ask_name = c->seccomp.allowed & SECCOMP_NAME,
		.may_ask_cpu = c->seccomp.allowed & SECCOMP_CPU,
		.may_ask_stack = c->seccomp.allowed & SECCOMP_STACK,
		.action_count = 1,
		.actions = {{
			.kind = install_is_gate(a) ? ARCH_ACTION_GATE : ARCH_ACTION_COUNT,
			.slots = session->slots,
			.slots_shift = session->slots_shift,
			.slot_offset = counted->slot * sizeof(struct probe_slot),
			.gate = {session->data + a->stubs.gate_offset, a->stubs.gate_unless},
		}},
	};

	if (threads_is_loader(probe->module))
		stub.thread = (struct arch_thread){0};
	if (arch_process()->describe_processor)
		arch_process()->describe_processor(&stub.thread);
	stub.thread.no_counter = session->flags & REG_SESSION_KERNEL_TIME;
	stub.thread.has_rseq = stub.thread.has_rseq && !stub.thread.no_counter;
	if (a->stubs.describe)
		a->stubs.describe(a->stubs.data, session, counted->slot, stub.site, &stub);
	return stub;
}

static struct probe_error *stub_error(
	const struct install *a, size_t i, enum arch_stub_status status)
{
	const struct select_probe *probe = &a->selection->probes[a->selection->sites[i].probe];

	if (status == ARCH_STUB_UNSUPPORTED && a->change->target->no_counter &&
		!(a->change->seccomp.allowed & SECCOMP_TIME))
		return seccomp_error(&a->change->seccomp, SECCOMP_TIME);
	if (status == ARCH_STUB_UNSUPPORTED && !(a->change->seccomp.allowed & SECCOMP_ASK))
		return seccomp_error(&a->change->seccomp, SECCOMP_ASK);
	if (status == ARCH_STUB_UNSUPPORTED && !(a->change->seccomp.allowed & SECCOMP_CPU))
		return seccomp_error(&a->change->seccomp, SECCOMP_CPU);
	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"%s:%s: no code can be generated for it: %s", probe->provider, probe->name,
		status == ARCH_STUB_NO_ROOM	   ? "it would be too long"
		: status == ARCH_STUB_OUT_OF_REACH ? "there is no free memory near enough"
		: a->data.needs.ring_bytes ? "its arguments take too much room in the ring (see -b)"
					   : "this processor cannot do what is asked of it");
}

/* Returns true if a hit reads a clock. */
static bool reads_clock(const struct arch_stub *stub)
{
	bool reads = stub->rate != 0;

	for (size_t i = 0; i < stub->action_count; i++)
		reads |= stub->actions[i].kind == ARCH_ACTION_RECORD ||
			 stub->actions[i].flights.table;
	return reads;
}

static bool records(const struct arch_stub *stub)
{
	bool any = false;

	for (size_t i = 0; i < stub->action_count; i++)
		any |= stub->actions[i].kind == ARCH_ACTION_RECORD;
	return any;
}

static bool captures_name(const struct arch_stub *stub)
{
	for (size_t i = 0; i < stub->capture_count; i++)
		if (stub->captures[i].is_comm)
			return true;
	return false;
}

/* Sets *ret to the maximum size of the code of a site, with alignment. */
static struct probe_error *measure(
	const struct install *a, size_t i, uint64_t *patch_inout, size_t *ret)
{
	const struct module *module = a->selection->probes[a->selection->sites[i].probe].module;
	uint64_t at = module->start & ~(uint64_t)(ARCH_STUB_ALIGN - 1);
	struct arch_stub stub = describe(a, i);
	uint8_t scratch[ARCH_STUB_MAX];
	struct arch_stub_code code;
	enum arch_stub_status status;

	if (a->change->seccomp.strict && reads_clock(&stub))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"a thread of process %d is under strict seccomp, and would be killed for "
			"reading a clock, which records and times need (seccomp(2)): count hits "
			"instead",
			a->change->pid);
	/* Without the thread's id and system calls, records would have the main thread's id. */
	if (records(&stub) && !stub.thread.has_tid && !stub.may_call_kernel)
		return seccomp_error(&a->change->seccomp, SECCOMP_ASK);
	if (captures_name(&stub) && !stub.may_ask_name)
		return seccomp_error(&a->change->seccomp, SECCOMP_NAME);
	if (a->stubs.waits && !(a->change->seccomp.allowed & SECCOMP_WAIT))
		return seccomp_error(&a->change->seccomp, SECCOMP_WAIT);
	stub.next = at;
	status = a->change->arch->stub(&stub, at, scratch, sizeof(scratch), &code);
	if (status != ARCH_STUB_OK)
		return stub_error(a, i, status);
	/*
	 * At another address, constants may be longer, and a jump may have to avoid a page's end.
	 */
	*ret = code.length + 3 * ARCH_STUB_ALIGN;
	if (a->sites[i].is_new)
		*ret += ARCH_MOVED_BYTES_MAX + ARCH_JUMP_MAX + 2 * ARCH_STUB_ALIGN +
			neighbours_bytes(a, i, patch_inout);
	return NULL;
}

static struct probe_error *describe_patch(struct install *a, size_t i, struct piece *p)
{
	const struct select_site *site = &a->selection->sites[i];
	const struct arch *arch = a->change->arch;
	struct reg_site *reg = &a->sites[i].reg;
	struct probe_error *error;

	*reg = (struct reg_site){.pc = site->pc,
		.plan = (uint8_t)plan_id(site->chosen),
		.entry = a->sites[i].entry,
		.length = arch->jump_length,
		.covers = arch->jump_length};
	error = site->chosen->build(a, i, p);
	if (error || reg->pun)
		return error;
	if (reg->entry)
		puns_place(&a->change->registry, reg->entry, &reg->pun, &reg->pun_size);
	else
		reg->entry = reg->patch;
	memcpy(reg->original, site->plan->bytes + (reg->patch - site->pc), reg->length);
	return NULL;
}

/* Checks that the patch is within the bytes of its plan; if not, this library has a bug. */
static struct probe_error *check_patch(const struct install_site *as)
{
	return as->reg.patch >= as->write_start && as->reg.patch + as->reg.length <= as->write_end
		       ? NULL
		       : probe_error_new(PROBE_ERROR_REFUSED,
				 "the patch at %#jx would not be the one that was chosen",
				 (uintmax_t)as->reg.pc);
}

/* Emits the stub of a site and, for a new site, the jump to it. */
static struct probe_error *build_stub(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	struct install_site *as = &a->sites[i], *first = &a->sites[as->first];
	struct arch_stub stub = describe(a, i);
	enum arch_stub_status status;
	uint64_t jump;

	as->reg = first->reg;
	stub.next = next_code(a, first, &as->order);
	first->order = ++as->order;
	build_skip(arch, p, 0);
	do { /* the jump to the next code may be rewritten later, so it must not cross a page */
		as->stub = p->start + p->used;
		status = arch->stub(
			&stub, as->stub, p->bytes + p->used, p->size - p->used, &as->code);
		if (status != ARCH_STUB_OK)
			return stub_error(a, i, status);
		jump = as->stub + as->code.next_jump;
		if (!page_is_crossed(jump, arch->jump_length))
			break;
		build_skip(arch, p, 1);
	} while (p->used < p->size);
	p->used += as->code.length;
	first->head = as->stub;
	a->stubs.asks |= as->code.asks;
	a->stubs.asks_name |= as->code.asks_name;
	a->stubs.asks_cpu |= as->code.asks_cpu;
	a->stubs.asks_stack |= as->code.asks_stack;
	if (!first->is_new)
		return NULL;
	if (site_is_chained(&first->reg))
		return neighbours_lead(a, &first->reg, first->head, p);
	jump = first->entry ? first->entry : first->head;
	if (!arch->jump(first->reg.patch, jump, first->reg.patched))
		return stub_error(a, i, ARCH_STUB_OUT_OF_REACH);
	if (plan_of(first->reg.plan)->amend)
		plan_of(first->reg.plan)->amend(first, arch, first->reg.patched);
	return NULL;
}

/* Sets *ret to the maximum size of the code of order[first..end). */
static struct probe_error *measure_module(
	const struct install *a, size_t first, size_t end, size_t *ret)
{
	struct probe_error *error = NULL;
	uint64_t patch = 0;

	*ret = 0;
	for (size_t i = first; i < end && !error; i++) {
		size_t site = a->order[i], size = 0;

		if (a->sites[site].wanted)
			error = measure(a, site, &patch, &size);
		*ret += size;
	}
	return error;
}

static void extend(struct code_extent *reach, uint64_t address)
{
	uint64_t end = reach->start + reach->size;

	if (address < reach->start)
		reach->start = address;
	reach->size = (address < end ? end : address + 1) - reach->start;
}

/* Extends `reach` by the targets of a site's moved instructions. */
static void extend_by_targets(struct code_extent *reach, const struct arch *arch,
	const struct select_site *site, const struct plan_way *move)
{
	const uint8_t *bytes;
	size_t known = plan_code(site->plan, move->offset, &bytes);
	struct arch_insn insn;

	for (size_t at = 0; at < move->length; at += insn.length) {
		if (at >= known || !arch->decode(bytes + at, known - at,
					   site->pc + (uint64_t)move->offset + at, &insn))
			return;
		if (insn.flow == ARCH_FLOW_BRANCH || insn.flow == ARCH_FLOW_JUMP ||
			insn.flow == ARCH_FLOW_CALL)
			extend(reach, insn.target);
	}
}

/* Returns the extent of order[first..end) and of the targets of their moved instructions. */
static struct code_extent sites_reach(const struct install *a, size_t first, size_t end)
{
	const struct select_site *sites = a->selection->sites;
	struct code_extent reach = {sites[a->order[first]].pc, 1};

	for (size_t i = first; i < end; i++) {
		const struct select_site *site = &sites[a->order[i]];

		extend(&reach, site->pc);
		if (site->chosen)
			extend_by_targets(
				&reach, a->change->arch, site, plan_way(site->plan, site->chosen));
	}
	return reach;
}

/*
 * Allocates code memory in reach of the whole module, because moved instructions may jump anywhere
 * in it; if the module is too large, in reach of sites_reach(). A new arena is announced at once,
 * so that a killed controller leaves no unknown memory.
 */
static struct probe_error *allocate_piece(
	const struct install *a, size_t first, size_t end, struct piece *p)
{
	const struct module *module = install_module(a, a->order[first]);
	size_t arenas = a->change->registry.arena_count;
	struct code_extent reaches[] = {
		{module->start, module->end - module->start}, sites_reach(a, first, end)};
	struct probe_error *error = change_alloc_code(a->change, p->size, reaches, 2, &p->start);

	return error || a->change->registry.arena_count == arenas ? error
								  : change_store(a->change, true);
}

/* Builds the code of order[first..end), the sites of a module. The caller frees p->bytes. */
static struct probe_error *build_module(
	struct install *a, size_t first, size_t end, struct piece *p)
{
	const struct module *module = install_module(a, a->order[first]);
	struct probe_error *error;

	safe_memory(module, &a->change->maps, &a->stubs.safe);
	error = measure_module(a, first, end, &p->size);
	if (!error && p->size)
		error = allocate_piece(a, first, end, p);
	if (error)
		return error;
	p->bytes = malloc(p->size + 1);
	if (!p->bytes)
		return probe_error_no_memory();
	for (size_t i = first; i < end && !error; i++) {
		size_t site = a->order[i];
		struct install_site *as = &a->sites[site];

		if (!as->wanted)
			continue;
		if (as->is_new && as->first == site) {
			error = describe_patch(a, site, p);
			error = error ? error : check_patch(as);
		}
		if (!error)
			error = build_stub(a, site, p);
	}
	return error;
}

/* ---- The registry -------------------------------------------------------------------- */

/* Adds probes' names to the registry. Gates and calls of functions have only keys. */
static struct probe_error *keep_names(const struct install *a)
{
	const struct selection *s = a->selection;
	AUTO_FREE struct reg_name *names = calloc(s->probe_count + 1, sizeof(*names));

	if (!names)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->probe_count; i++)
		names[i] = (struct reg_name){
			s->probes[i].key, s->probes[i].provider, s->probes[i].name};
	return registry_add_names(
		&a->change->registry, names, install_is_gate(a) || a->caller ? 0 : s->probe_count);
}

/* Gives each probe a counter: the one that it had before, or a new one. */
static struct probe_error *add_probes(struct install *a)
{
	struct registry *r = &a->change->registry;

	for (size_t i = 0; i < a->selection->probe_count; i++) {
		struct reg_session *session = registry_session(r, a->session);
		struct reg_probe *probe;

		/* A persistent session does not show the hits of refused probes. */
		if (a->selection->probes[i].refused && a->persistent)
			continue;
		probe = registry_add_probe(r);
		if (!probe)
			return probe_error_no_memory();
		if (!a->stubs.slots && session->slot_count == session->slot_capacity)
			return probe_error_new(
				PROBE_ERROR_STATE, "the session has no counter left");
		*probe = (struct reg_probe){.key = a->selection->probes[i].key,
			.session = a->session,
			.refcount = select_times(&a->selection->probes[i]),
			.slot = a->stubs.slots ? a->stubs.slots[i] : session->slot_count++};
	}
	registry_sort(r);
	return keep_names(a);
}

/*
 * Raises the order numbers of a site's older stubs, so that new stubs can be linked between them.
 */
static void raise_orders(const struct install *a, size_t first)
{
	const struct install_site *as = &a->sites[first];
	size_t count;
	struct reg_stub *stubs = registry_stubs(&a->change->registry, as->reg.pc, &count);

	for (size_t i = 0; i < count; i++)
		if (stubs[i].order > as->below)
			stubs[i].order += as->order - as->below;
}

static struct probe_error *announce_site(struct registry *r, const struct reg_site *reg)
{
	struct reg_site *site = registry_add_site(r);

	if (!site)
		return probe_error_no_memory();
	*site = *reg;
	return NULL;
}

/* Announces the new sites and stubs in the registry. */
static struct probe_error *announce(struct install *a)
{
	struct registry *r = &a->change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < a->neighbour_count && !error; i++)
		error = announce_site(r, &a->neighbours[i]);
	for (size_t i = 0; i < a->selection->site_count; i++)
		if (a->sites[i].link)
			raise_orders(a, i);
	for (size_t i = 0; i < a->selection->site_count && !error; i++) {
		const struct install_site *as = &a->sites[i];
		struct reg_stub *stub;

		if (!as->wanted)
			continue;
		if (as->is_new && as->first == i && !site_is_chained(&as->reg))
			error = announce_site(r, &as->reg);
		if (error || !as->stub)
			continue;
		stub = registry_add_stub(r);
		if (!stub)
			return probe_error_no_memory();
		*stub = (struct reg_stub){.pc = as->reg.pc,
			.key = a->selection->probes[a->selection->sites[i].probe].key,
			.start = as->stub,
			.size = as->code.length,
			.next_jump = as->code.next_jump,
			.session = a->session,
			.order = as->order,
			.site = site_number(a, i)};
	}
	registry_sort(r);
	/* the registry now lists the memory that the new code has taken */
	code_release_all(&a->change->taken);
	return error;
}

/* ---- All of it ----------------------------------------------------------------------- */

/* The code of all modules, for pieces_free(). */
struct pieces {
	struct piece *items;
	size_t count;
};

static void pieces_free(struct pieces *pieces)
{
	for (size_t i = 0; i < pieces->count; i++)
		free(pieces->items[i].bytes);
	free(pieces->items);
}

static struct probe_error *build_all(struct install *a, struct pieces *pieces)
{
	struct probe_error *error = NULL;

	for (size_t i = 0, end; i < a->order_count && !error; i = end) {
		end = install_module_end(a, i);
		if (!ARRAY_ROOM(pieces->items, pieces->count))
			return probe_error_no_memory();
		pieces->items[pieces->count] = (struct piece){0};
		error = build_module(a, i, end, &pieces->items[pieces->count++]);
	}
	return error;
}

/* Writes the code and the registry that lists it, in one stop. */
static struct probe_error *write_all(const struct install *a, const struct pieces *pieces)
{
	struct change *c = a->change;
	struct code_extent image;
	struct probe_error *error = change_place_image(c, &image);
	bool stops;

	if (!error)
		error = change_begin_write(c, &stops);
	if (error)
		return error;
	for (size_t i = 0; i < pieces->count && !error; i++) {
		const struct piece *p = &pieces->items[i];

		if (p->used)
			error = memory_write_code(c->mem, p->start, p->bytes, p->used);
	}
	if (!error)
		error = puns_write(a);
	if (!error)
		error = change_write_image(c, image);
	change_end_write(c, stops);
	if (!error)
		code_release(&c->taken); /* the registry now lists the memory of its own image */
	return error;
}

struct probe_error *install_build(struct install *install)
{
	struct pieces pieces __attribute__((cleanup(pieces_free))) = {0};
	struct probe_error *error = puns_announce(install);

	if (!error)
		error = add_probes(install);
	if (!error)
		error = build_all(install, &pieces);
	if (!error)
		error = announce(install);
	if (!error)
		error = write_all(install, &pieces);
	if (!error)
		error = hops_write(install);
	return error;
}
