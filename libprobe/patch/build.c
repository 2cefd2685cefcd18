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
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"

/* ==== Landings ================================================================================ */

/*
 * Memory for puns, at arbitrary addresses, because a site's bytes determine where its jump leads
 * (struct arch, pun). A change maps these pages before all other memory, so that no arena or data
 * takes their place. If an arena is already at the jump's target, the jump to the stub is written
 * into it, if the bytes are free.
 *
 * If the target has taken a page since its maps were read, the sites are planned again.
 */

const char puns_taken[] =
	"the address that its bytes would jump to is in use, or where the heap or the stack grows";

/* At the last addresses of each page (13 of 4,096), a jump would cross the page's end. */
static const char pun_crosses[] =
	"the jump at the address that its bytes would jump to would cross a page";

/* ---- Taking -------------------------------------------------------------------------- */

size_t install_module_end(const struct install *install, size_t from)
{
	const struct module *module = install_module(install, install->order[from]);

	while (from < install->order_count &&
		install_module(install, install->order[from]) == module)
		from++;
	return from;
}

bool install_is_gate(const struct install *install)
{
	const struct selection *s = install->selection;

	return s->site_count && s->sites[0].note->kind == SDT_GATE;
}

/* Returns true for an ended pun's page that the program has sealed. */
static bool is_spare(const struct change *c, uint64_t page)
{
	const struct registry *r = &c->registry;
	bool spare = false;

	for (size_t i = 0; i < r->arena_count; i++)
		spare = spare || (r->arenas[i].sealed && r->arenas[i].start == page &&
					 r->arenas[i].size == page_bytes());
	for (size_t i = 0; i < r->site_count; i++)
		spare = spare && r->sites[i].pun != page;
	for (size_t i = 0; i < c->taken.count; i++)
		spare = spare && c->taken.items[i].start != page;
	return spare;
}

static const char *take(struct install *install, uint64_t entry)
{
	uint64_t page = page_of(entry), *pages = install->puns.pages;
	size_t jump = install->change->arch->far_jump_length;
	/* The page's index in the sorted array, or where to insert it. */
	size_t at = array_search(pages, install->puns.page_count, sizeof(*pages), 0, page);

	if (install->puns.none)
		return puns_taken;
	/* A jump must be within a page, because it is written in one step. */
	if (page_of(entry + jump - 1) != page)
		return pun_crosses;
	if (code_arena(&install->change->registry, entry))
		return code_take(&install->change->registry, &install->change->taken, entry, jump)
			       ? NULL
			       : puns_taken;
	/* Puns do not share pages, but the page of an ended pun may be used again. */
	if (is_spare(install->change, page))
		return code_keep(&install->change->taken, (struct code_extent){page, page_bytes()})
			       ? NULL
			       : "out of memory";
	if ((at < install->puns.page_count && pages[at] == page) ||
		!space_is_free(&install->change->maps, page, page + page_bytes()))
		return puns_taken;
	if (!ARRAY_ROOM(install->puns.pages, install->puns.page_count))
		return "out of memory";
	pages = install->puns.pages;
	memmove(pages + at + 1, pages + at, (install->puns.page_count++ - at) * sizeof(*pages));
	pages[at] = page;
	return NULL;
}

const char *puns_take(struct install *install, struct arch_pun pun, uint64_t *entry_ret)
{
	uint64_t reach = install->change->arch->jump_reach;
	const char *reason = take(install, *entry_ret = pun.first);

	if (!reason || !pun.step)
		return reason;
	/* Try places above and below the first one in turn, as far as the jump reaches. */
	for (uint64_t far = 0; far < reach - pun.step; far += pun.step) {
		if (!take(install, *entry_ret = pun.first + far) ||
			!take(install, *entry_ret = pun.first - pun.step - far))
			return NULL;
	}
	return reason;
}

/* ---- Mapping ------------------------------------------------------------------------- */

static void drop_pages(struct change *change, const uint64_t *pages, size_t count)
{
	AUTO_FREE struct own_extent *extents = calloc(count + 1, sizeof(*extents));

	for (size_t i = 0; extents && i < count; i++)
		extents[i] = (struct own_extent){pages[i], page_bytes(), OWN_NAMED, false, false};
	/* If unmapping fails, the pages become orphans. */
	if (extents)
		probe_error_free(own_unmap(change, extents, count));
}

/*
 * Maps code pages at addresses that were free. If *done_ret is less than `count` without an error,
 * the next page is in use.
 */
static struct probe_error *map_pages(
	struct change *change, const uint64_t *pages, size_t count, size_t *done_ret)
{
	struct control_call calls[CHANGE_FILE_CALLS];
	struct probe_error *error;

	*done_ret = 0;
	for (size_t i = 0; i < count; i++)
		calls[i] = change_call_map_code(pages[i], page_bytes());
	/*
	 * All calls map the same page of the file; each mapping gets its own copy when it is
	 * written.
	 */
	error = change_map_file(change, page_bytes(), NULL, calls, count, NULL);
	while (*done_ret < count && calls[*done_ret].result == (int64_t)pages[*done_ret])
		++*done_ret;
	if (*done_ret == count)
		return error;
	/* Before 4.17, kernels ignore MAP_FIXED_NOREPLACE, and may map elsewhere. */
	if (!error && calls[*done_ret].result > 0)
		drop_pages(change, &(uint64_t){(uint64_t)calls[*done_ret].result}, 1);
	if (error && calls[*done_ret].result != -EEXIST)
		return error;
	probe_error_free(error);
	return NULL;
}

struct probe_error *puns_map(struct install *install, bool *again_ret)
{
	struct probe_error *error = NULL;

	*again_ret = false;
	while (install->puns.mapped < install->puns.page_count && !error && !*again_ret) {
		size_t left = install->puns.page_count - install->puns.mapped, done;
		size_t count = left < CHANGE_FILE_CALLS ? left : CHANGE_FILE_CALLS;

		error = map_pages(
			install->change, install->puns.pages + install->puns.mapped, count, &done);
		install->puns.mapped += done;
		*again_ret = !error && done < count;
	}
	if (error || *again_ret)
		puns_drop(install);
	if (!error && (*again_ret || install->puns.mapped))
		error = change_reread_maps(install->change);
	return error;
}

void puns_drop(struct install *install)
{
	drop_pages(install->change, install->puns.pages, install->puns.mapped);
	install->puns.mapped = install->puns.page_count = 0;
	code_release_all(&install->change->taken);
}

static struct probe_error *write_landings(const struct install *install)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < install->selection->site_count && !error; i++) {
		const struct install_site *as = &install->sites[i];
		uint8_t jump[ARCH_JUMP_MAX];
		size_t length;

		if (!as->wanted || !as->is_new || !as->head || !as->reg.pun ||
			site_is_chained(&as->reg))
			continue;
		length = install->change->arch->far_jump(as->reg.entry, as->head, jump);
		error = memory_write_code(install->change->mem, as->reg.entry, jump, length);
		if (error || !as->twin.second)
			continue;
		length = install->change->arch->far_jump(as->twin.second, as->reg.tail, jump);
		error = memory_write_code(install->change->mem, as->twin.second, jump, length);
	}
	return error;
}

/* ---- Hops ------------------------------------------------------------------------------ */

static struct probe_error *write_hops(const struct install *install)
{
	const struct change *c = install->change;
	size_t length = c->arch->jump_length;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < install->selection->site_count && !error; i++) {
		const struct install_site *as = &install->sites[i];
		uint8_t found[ARCH_JUMP_MAX];

		/* A hop in code is written with the jump that makes room for it (install.c). */
		if (!as->wanted || !as->is_new || as->joins || as->first != i || !as->reg.hop ||
			as->made)
			continue;
		if (memory_read(c->pid, as->reg.hop, found, length) != length ||
			memcmp(found, as->reg.hop_original, length) != 0)
			error = probe_error_new(PROBE_ERROR_REFUSED,
				"process %d: the memory at %#jx is not as it was: another tool may "
				"have patched it",
				c->pid, (uintmax_t)as->reg.hop);
		else
			error = memory_write_code(c->mem, as->reg.hop, as->reg.hop_patched, length);
	}
	return error;
}

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

	*order = first->head_order;
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
	size_t before = 0; /* bytes of the patch before an exit */
	const uint8_t *bytes;

	if (!arch->overwrites_flags || install_is_gate(a) || !site->chosen->follows_nops)
		return false;
	if (!as->is_new && site->pc > as->reg.patch)
		before = site->pc - as->reg.patch;
	if (!as->is_new)
		return arch->overwrites_flags(as->reg.original + before, as->reg.length - before);
	if (plan->row < 0)
		before = move->exit_at;
	return move->length <= plan_code(plan, move->offset, &bytes) &&
	       arch->overwrites_flags(bytes + before, move->length - before);
}

/* Describes the stub of a site: what it does, and what it may use. */
static struct arch_stub describe(const struct install *a, size_t i)
{
	const struct change *c = a->change;
	const struct select_site *site = &a->selection->sites[i];
	const struct select_probe *probe = &a->selection->probes[site->probe];
	const struct reg_session *session = registry_session(&c->registry, a->session);
	const struct reg_probe *counted = registry_probe(&c->registry, probe->key, a->session);
	/* The first word of the guard's page is 0 in a forked child, whatever was added there. */
	const uint64_t own = a->is_copy ? registry_guard_page(&c->registry) : c->registry.guard;
	struct arch_stub stub = {
		.thread = c->thread,
		.guard = a->stubs.follow_children
				 ? session->data + offsetof(struct data_header, guard)
				 : c->registry.guard,
		.own = a->stubs.follow_children ? own : 0,
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

/* Adds the maximum size of the code of a site, with alignment, to *size. */
static struct probe_error *measure(
	const struct install *a, size_t i, uint64_t *patch_inout, size_t *size)
{
	const struct module *module = a->selection->probes[a->selection->sites[i].probe].module;
	uint64_t at = module->start & ~(uint64_t)(ARCH_STUB_ALIGN - 1);
	struct arch_stub stub = describe(a, i);
	uint8_t scratch[ARCH_STUB_MAX];
	struct arch_stub_code code;
	enum arch_stub_status status;
	bool records = false, reads_clock = stub.rate != 0, has_name = false;

	for (size_t k = 0; k < stub.action_count; k++) {
		records |= stub.actions[k].kind == ARCH_ACTION_RECORD;
		reads_clock |= stub.actions[k].flights.table != 0;
	}
	for (size_t k = 0; k < stub.capture_count; k++)
		has_name |= stub.captures[k].is_comm;
	if (a->change->seccomp.strict && (records || reads_clock))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"a thread of process %d is under strict seccomp, and would be killed for "
			"reading a clock, which records and times need (seccomp(2)): count hits "
			"instead",
			a->change->pid);
	/* Without the thread's id and system calls, records would have the main thread's id. */
	if (records && !stub.thread.has_tid && !stub.may_call_kernel)
		return seccomp_error(&a->change->seccomp, SECCOMP_ASK);
	if (has_name && !stub.may_ask_name)
		return seccomp_error(&a->change->seccomp, SECCOMP_NAME);
	if (a->stubs.waits && !(a->change->seccomp.allowed & SECCOMP_WAIT))
		return seccomp_error(&a->change->seccomp, SECCOMP_WAIT);
	stub.next = at;
	status = arch_make_stub(a->change->arch, &stub, at, scratch, sizeof(scratch), &code);
	if (status != ARCH_STUB_OK)
		return stub_error(a, i, status);
	/*
	 * At another address, constants may be longer, and a jump may have to avoid a page's end.
	 */
	*size += code.length + 3 * ARCH_STUB_ALIGN;
	if (a->sites[i].is_new)
		*size += (a->sites[i].made ? 2 : 1) *
				 (ARCH_MOVED_BYTES_MAX + 2 * ARCH_JUMP_MAX + 3 * ARCH_STUB_ALIGN) +
			 neighbours_bytes(a, i, patch_inout);
	return NULL;
}

/* Builds the patch that makes room for a site's hop: a site of its own, without stubs. */
static struct probe_error *build_made(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct install_site *as = &a->sites[i];
	struct claim claim = claim_of_hop(arch, as->hop, as->made);
	struct install_site *made;
	struct probe_error *error;

	if (!ARRAY_ROOM(a->made, a->made_count))
		return probe_error_no_memory();
	made = &a->made[a->made_count++];
	*made = (struct install_site){.is_new = true,
		.first = i,
		.write_start = claim.start,
		.write_end = claim.written_end,
		.reg = {.pc = claim.start,
			.patch = claim.start,
			.entry = claim.start,
			.plan = plan_behind.id,
			.length = arch->jump_length}};
	memcpy(made->reg.original, as->made_bytes, arch->jump_length);
	error = build_copy(arch, made, as->made_bytes, as->made, 2U * arch->jump_length, p);
	if (!error && !arch->jump(made->reg.patch, made->reg.tail, made->reg.patched))
		error = build_too_far(&made->reg);
	return error;
}

static struct probe_error *describe_patch(struct install *a, size_t i, struct piece *p)
{
	const struct select_site *site = &a->selection->sites[i];
	const struct arch *arch = a->change->arch;
	struct install_site *as = &a->sites[i];
	struct reg_site *reg = &as->reg;
	struct probe_error *error;

	*reg = (struct reg_site){.pc = site->pc,
		.plan = (uint8_t)site->chosen->id,
		.entry = as->entry,
		.length = arch->jump_length,
		.covers = arch->jump_length};
	error = site->chosen->build(a, i, p);
	if (!error && as->made)
		error = build_made(a, i, p);
	if (error)
		return error;
	/* A patch outside the bytes of its plan would be a bug of this library. */
	if (reg->patch < as->write_start || reg->patch + reg->length > as->write_end)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"the patch at %#jx would not be the one that was chosen",
			(uintmax_t)reg->pc);
	if (reg->pun)
		return NULL;
	if (!reg->entry) {
		reg->entry = reg->patch;
	} else if (code_arena(&a->change->registry, reg->entry)) {
		reg->pun = reg->entry;
		reg->pun_size = arch->far_jump_length;
	} else {
		reg->pun = page_of(reg->entry);
		reg->pun_size = (uint32_t)page_bytes();
	}
	memcpy(reg->original, site->plan->bytes + (reg->patch - site->pc), reg->length);
	return NULL;
}

/* Emits the stub of a site and, for a new site, the jump to it. */
static struct probe_error *build_stub(struct install *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	struct install_site *as = &a->sites[i], *first = &a->sites[as->first];
	const struct plan_ops *ops = a->selection->sites[as->first].chosen;
	struct arch_stub stub = describe(a, i);
	enum arch_stub_status status;
	uint64_t jump;

	as->reg = first->reg;
	stub.next = next_code(a, first, &as->order);
	first->head_order = ++as->order;
	build_skip(arch, p, 0);
	do { /* the jump to the next code may be rewritten later, so it must not cross a page */
		as->stub = p->start + p->used;
		status = arch_make_stub(
			arch, &stub, as->stub, p->bytes + p->used, p->size - p->used, &as->code);
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
	if (first->reg.hop)
		return NULL;
	jump = first->entry ? first->entry : first->head;
	if (!arch->jump(first->reg.patch, jump, first->reg.patched))
		return stub_error(a, i, ARCH_STUB_OUT_OF_REACH);
	if (ops->amend)
		ops->amend(first, arch, first->reg.patched);
	return NULL;
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
 * Builds the code of order[first..end), the sites of a module. The caller frees p->bytes.
 *
 * The memory is in reach of the whole module, because moved instructions may jump anywhere in it;
 * if the module is too large, in reach of sites_reach(). A new arena is announced at once, so that
 * a killed controller leaves no unknown memory.
 */
static struct probe_error *build_module(
	struct install *a, size_t first, size_t end, struct piece *p)
{
	const struct module *module = install_module(a, a->order[first]);
	size_t arenas = a->change->registry.arena_count;
	struct code_extent reaches[] = {
		{module->start, module->end - module->start}, sites_reach(a, first, end)};
	struct probe_error *error = NULL;
	uint64_t patch = 0;

	safe_memory(module, &a->change->maps, &a->stubs.safe);
	for (size_t i = first; i < end && !error; i++)
		if (a->sites[a->order[i]].wanted)
			error = measure(a, a->order[i], &patch, &p->size);
	if (!error && p->size)
		error = change_alloc_code(a->change, p->size, reaches, 2, &p->start);
	if (!error && a->change->registry.arena_count != arenas)
		error = change_store(a->change, true);
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
		if (as->is_new && as->first == site)
			error = describe_patch(a, site, p);
		error = error ?: build_stub(a, site, p);
	}
	return error;
}

/* ---- The registry -------------------------------------------------------------------- */

/*
 * Gives each probe a counter: the one that it had before, or a new one. Adds the probes' names to
 * the registry; gates and calls of functions have only keys.
 */
static struct probe_error *add_probes(struct install *a)
{
	struct registry *r = &a->change->registry;
	const struct selection *s = a->selection;
	AUTO_FREE struct reg_name *names = calloc(s->probe_count + 1, sizeof(*names));

	if (!names)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->probe_count; i++) {
		struct reg_session *session = registry_session(r, a->session);
		struct reg_probe *probe;

		names[i] = (struct reg_name){
			s->probes[i].key, s->probes[i].provider, s->probes[i].name};
		/* A persistent session does not show the hits of refused probes. */
		if (s->probes[i].refused && a->persistent)
			continue;
		probe = registry_add_probe(r);
		if (!probe)
			return probe_error_no_memory();
		if (!a->stubs.slots && session->slot_count == session->slot_capacity)
			return probe_error_new(
				PROBE_ERROR_STATE, "the session has no counter left");
		*probe = (struct reg_probe){.key = s->probes[i].key,
			.session = a->session,
			.refcount = select_times(&s->probes[i]),
			.slot = a->stubs.slots ? a->stubs.slots[i] : session->slot_count++};
	}
	registry_sort(r);
	return registry_add_names(r, names, install_is_gate(a) || a->caller ? 0 : s->probe_count);
}

/* Announces the new sites and stubs in the registry. */
static struct probe_error *announce(struct install *a)
{
	struct registry *r = &a->change->registry;

	for (size_t i = 0; i < a->neighbour_count; i++)
		if (!ARRAY_ADD(r->sites, r->site_count, a->neighbours[i]))
			return probe_error_no_memory();
	for (size_t i = 0; i < a->made_count; i++)
		if (!ARRAY_ADD(r->sites, r->site_count, a->made[i].reg))
			return probe_error_no_memory();
	/* New stubs may be linked between older stubs of a site, so the newer of these move up. */
	for (size_t i = 0; i < a->selection->site_count; i++) {
		const struct install_site *as = &a->sites[i];
		size_t count;
		struct reg_stub *stubs = registry_stubs(r, as->reg.pc, &count);

		for (size_t k = 0; as->link && k < count; k++)
			if (stubs[k].order > as->below)
				stubs[k].order += as->head_order - as->below;
	}
	for (size_t i = 0; i < a->selection->site_count; i++) {
		const struct install_site *as = &a->sites[i];
		const struct reg_stub stub = {.pc = as->reg.pc,
			.key = a->selection->probes[a->selection->sites[i].probe].key,
			.start = as->stub,
			.size = as->code.length,
			.next_jump = as->code.next_jump,
			.session = a->session,
			.order = as->order,
			.site = site_number(a, i)};

		if (!as->wanted)
			continue;
		if (as->is_new && as->first == i && !site_is_chained(&as->reg) &&
			!ARRAY_ADD(r->sites, r->site_count, as->reg))
			return probe_error_no_memory();
		if (as->stub && !ARRAY_ADD(r->stubs, r->stub_count, stub))
			return probe_error_no_memory();
	}
	registry_sort(r);
	/* the registry now lists the memory that the new code has taken */
	code_release_all(&a->change->taken);
	return NULL;
}

/* ---- All of it ----------------------------------------------------------------------- */

/* Writes the code and the registry that lists it: in one stop, unless they are large. */
static struct probe_error *write_all(
	const struct install *a, const struct piece *pieces, size_t count)
{
	struct change *c = a->change;
	struct code_extent image;
	struct probe_error *error = change_place_image(c, &image);
	bool stops;

	if (!error && image.size > CHANGE_PIECE_BYTES)
		error = change_fill(c, image.start, NULL, image.size);
	for (size_t i = 0; i < count && !error; i++)
		if (pieces[i].used > CHANGE_PIECE_BYTES)
			error = change_fill(c, pieces[i].start, pieces[i].bytes, pieces[i].used);
	error = error ?: change_begin_write(c, &stops);
	if (error)
		return error;
	for (size_t i = 0; i < count && !error; i++)
		if (pieces[i].used && pieces[i].used <= CHANGE_PIECE_BYTES)
			error = memory_write_code(
				c->mem, pieces[i].start, pieces[i].bytes, pieces[i].used);
	error = error ?: write_landings(a) ?: change_write_image(c, image);
	change_end_write(c, stops);
	if (!error)
		code_release(&c->taken); /* the registry now lists the memory of its own image */
	return error;
}

struct probe_error *install_build(struct install *install)
{
	struct piece *pieces = NULL;
	struct registry *r = &install->change->registry;
	size_t count = 0;
	struct probe_error *error = NULL;

	/*
	 * Puns' pages are arenas. They are freed with their sites or, if the library is closed,
	 * with the last session.
	 */
	for (size_t i = 0; i < install->puns.mapped; i++) {
		uint64_t page = install->puns.pages[i];
		const struct mapping *m = maps_find(&install->change->maps, page);

		if (!ARRAY_ADD(r->arenas, r->arena_count,
			    (struct reg_arena){page, page_bytes(), m ? m->inode : 0, 0}))
			return probe_error_no_memory();
	}
	if (install->puns.mapped)
		error = change_store(install->change, true);
	error = error ?: add_probes(install);
	for (size_t i = 0, end; i < install->order_count && !error; i = end) {
		end = install_module_end(install, i);
		if (!ARRAY_ROOM(pieces, count)) {
			error = probe_error_no_memory();
			break;
		}
		pieces[count] = (struct piece){0};
		error = build_module(install, i, end, &pieces[count++]);
	}
	error = error
		?: announce(install)
		?: write_all(install, pieces, count)
		?: write_hops(install);
	for (size_t i = 0; i < count; i++)
		free(pieces[i].bytes);
	free(pieces);
	return error;
}
