/* SPDX-License-Identifier: MIT */
/*
 * Generating the code of a session, before anything stands still.
 *
 *   site:   jmp stub ------> stub of the newest session
 *                              jmp -----> stub of an older one ...
 *                                           jmp -----> tail: the moved
 *   behind the site  <------------------------ jmp     instructions
 *
 * A punned site's jump leads to a page of its own, which holds the jump to the
 * stub. A site whose nop is long enough needs no tail: the last stub jumps
 * behind the nop.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/attach.h"
#include "libprobe/memory.h"
#include "libprobe/space.h"
#include "libprobe/threads.h"

/* The code of one module's sites, in one piece. */
struct piece {
	struct module *module;
	uint64_t start; /* in the target */
	uint8_t *bytes;
	size_t size, used;
};

/* The stub that the site's jump leads to now, or its tail. */
static uint64_t first_code(const struct registry *r, const struct reg_site *site)
{
	for (size_t i = r->stub_count; i-- > 0;)
		if (r->stubs[i].pc == site->pc)
			return r->stubs[i].start;
	return site->tail;
}

/* The read-only data of a module, where a string needs no check. */
static void safe_range(const struct module *module, struct arch_stub *stub)
{
	const struct object_segment *segments;
	size_t count;

	segments = object_segments(module->object, &count);
	for (size_t i = 0; i < count; i++) {
		const struct object_segment *s = &segments[i];

		if (!s->readable || s->writable || s->executable ||
			s->file_size <= stub->safe_end - stub->safe_start)
			continue;
		stub->safe_start = s->address + module->bias;
		stub->safe_end = stub->safe_start + s->file_size;
	}
}

/* What the stub of a site is to do. */
static struct arch_stub describe(const struct attach *a, size_t i)
{
	const struct change *c = a->change;
	const struct select_site *site = &a->selection->sites[i];
	const struct select_probe *probe = &a->selection->probes[site->probe];
	const struct reg_session *session = registry_session(&c->registry, a->session);
	const struct reg_probe *counted = registry_probe(&c->registry, probe->key, a->session);
	struct arch_stub stub = {
		.kind = a->is_gate   ? ARCH_STUB_GATE
			: a->layouts ? ARCH_STUB_RECORD
				     : ARCH_STUB_COUNT,
		.thread = c->thread,
		.guard = a->follow_children ? session->data + offsetof(struct data_header, guard)
					    : c->registry.guard,
		.slots = session->slots,
		.slots_shift = session->slots_shift,
		.cpus = session->cpus,
		.slot_offset = counted->slot * sizeof(struct probe_slot),
		.rings = session->rings,
		.rings_shift = session->rings_shift,
		.ring_bytes = session->ring_bytes,
		.site = a->first_site + i,
		.gate = session->data + DATA_GATE_OFFSET,
		.gate_unless = a->gate_unless,
		.may_call_kernel = true,
	};

	if (threads_is_loader(probe->module))
		stub.thread = (struct arch_thread){0};
	if (a->layouts) {
		stub.captures = a->layouts[i].captures;
		stub.capture_count = a->layouts[i].capture_count;
		safe_range(probe->module, &stub);
	}
	return stub;
}

static struct probe_error *stub_error(
	const struct attach *a, size_t i, enum arch_stub_status status)
{
	const struct select_probe *probe = &a->selection->probes[a->selection->sites[i].probe];

	return probe_error_new(PROBE_ERROR_UNSUPPORTED,
		"%s:%s: no code can be generated for it: %s", probe->provider, probe->name,
		status == ARCH_STUB_NO_ROOM ? "it would be too long"
		: status == ARCH_STUB_OUT_OF_REACH
			? "there is no place near enough"
			: "its arguments take too much room in the ring (see -b)");
}

/* How many bytes the code of a site may take, at most, with alignment. */
static struct probe_error *measure(const struct attach *a, size_t i, size_t *ret)
{
	const struct module *module = a->selection->probes[a->selection->sites[i].probe].module;
	uint64_t at = module->start & ~(uint64_t)(ARCH_STUB_ALIGN - 1);
	struct arch_stub stub = describe(a, i);
	uint8_t scratch[ARCH_STUB_MAX];
	struct arch_stub_code code;
	enum arch_stub_status status;

	stub.next = at;
	status = a->change->arch->stub(&stub, at, scratch, sizeof(scratch), &code);
	if (status != ARCH_STUB_OK)
		return stub_error(a, i, status);
	/* Constants may take more bytes at other addresses; a jump may be moved off a page's end.
	 */
	*ret = code.length + 3 * ARCH_STUB_ALIGN;
	if (a->sites[i].is_new)
		*ret += ARCH_MOVED_BYTES_MAX + ARCH_STUB_ALIGN;
	return NULL;
}

static void align_piece(struct piece *p)
{
	while ((p->start + p->used) % ARCH_STUB_ALIGN)
		p->bytes[p->used++] = 0xcc;
}

/* The moved instructions of a relocated site, and the jump back. */
static struct probe_error *build_tail(struct attach *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	const struct select_site *site = &a->selection->sites[i];
	struct attach_site *as = &a->sites[i];
	struct reg_site *reg = &as->reg;
	enum arch_move_status status;

	align_piece(p);
	reg->tail = p->start + p->used;
	status = arch->move(site->plan.bytes, site->plan.byte_count, site->pc, reg->tail,
		arch->jump_length, &as->moved);
	if (status != ARCH_MOVE_OK && !(status == ARCH_MOVE_FLOW_INSIDE && as->moved.padding))
		return probe_error_new(PROBE_ERROR_REFUSED,
			"the instructions at %#jx cannot be moved to %#jx", (uintmax_t)site->pc,
			(uintmax_t)reg->tail);
	memcpy(p->bytes + p->used, as->moved.code, as->moved.code_length);
	p->used += as->moved.code_length;
	if (as->moved.falls_through)
		p->used += arch->jump(
			p->start + p->used, site->pc + as->moved.length, p->bytes + p->used);
	reg->tail_size = p->start + p->used - reg->tail;
	return NULL;
}

/* Describes how a new site is patched; see reg_site. */
static struct probe_error *describe_patch(struct attach *a, size_t i, struct piece *p)
{
	const struct select_site *site = &a->selection->sites[i];
	const struct plan *plan = &site->plan;
	struct reg_site *reg = &a->sites[i].reg;
	struct probe_error *error = NULL;
	int32_t distance;

	*reg = (struct reg_site){.pc = site->pc,
		.key = a->selection->probes[site->probe].key,
		.plan = site->chosen,
		.length = a->change->arch->jump_length};
	switch (site->chosen) {
	case PROBE_PLAN_RELOCATE:
		reg->patch = site->pc;
		error = build_tail(a, i, p);
		break;
	case PROBE_PLAN_LONG_NOP:
		reg->patch = site->pc + plan->nop_offset;
		reg->tail = reg->patch + plan->nop_length;
		break;
	case PROBE_PLAN_PUN:
		memcpy(&distance, plan->bytes + 1, sizeof(distance));
		reg->patch = site->pc;
		reg->tail = site->pc + 1;
		reg->entry = site->pc + 5 + (int64_t)distance;
		reg->pun = reg->entry & ~(uint64_t)(SPACE_PAGE - 1);
		reg->pun_size = SPACE_PAGE;
		reg->length = 1;
		break;
	default: /* a toggle */
		reg->patch = site->pc + 1;
		reg->length = 1;
		break;
	}
	if (!reg->entry)
		reg->entry = reg->patch;
	memcpy(reg->original, plan->bytes + (reg->patch - site->pc), reg->length);
	return error;
}

/* Emits the stub of a site, and the jump that will lead to it. */
static struct probe_error *build_stub(struct attach *a, size_t i, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	struct attach_site *as = &a->sites[i];
	struct arch_stub stub = describe(a, i);
	enum arch_stub_status status;
	uint64_t jump;

	stub.next = as->is_new ? as->reg.tail : first_code(&a->change->registry, &as->reg);
	do { /* the jump out may be written anew later: not across two pages */
		align_piece(p);
		as->stub = p->start + p->used;
		status = arch->stub(
			&stub, as->stub, p->bytes + p->used, p->size - p->used, &as->code);
		if (status != ARCH_STUB_OK)
			return stub_error(a, i, status);
		jump = as->stub + as->code.next_jump;
		if (jump / SPACE_PAGE == (jump + arch->jump_length - 1) / SPACE_PAGE)
			break;
		p->bytes[p->used++] = 0xcc;
	} while (p->used < p->size);
	p->used += as->code.length;
	if (as->is_new && as->reg.plan == PROBE_PLAN_PUN)
		as->reg.patched[0] = 0xe9;
	else if (as->is_new && !arch->jump(as->reg.patch, as->stub, as->reg.patched))
		return stub_error(a, i, ARCH_STUB_OUT_OF_REACH);
	return NULL;
}

/* Builds and writes the code of one module's sites. */
static struct probe_error *build_module(struct attach *a, struct module *module)
{
	struct selection *s = a->selection;
	struct piece p = {.module = module};
	struct probe_error *error = NULL;

	for (size_t i = 0; i < s->site_count && !error; i++) {
		size_t size = 0;

		if (s->probes[s->sites[i].probe].module != module || !a->sites[i].wanted ||
			s->sites[i].chosen == PROBE_PLAN_TOGGLE)
			continue;
		error = measure(a, i, &size);
		p.size += size;
	}
	if (!error && p.size)
		error = change_alloc_code(a->change, p.size, module->start, module->end, &p.start);
	if (error)
		return error;
	p.bytes = malloc(p.size + 1);
	if (!p.bytes)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->site_count && !error; i++) {
		if (s->probes[s->sites[i].probe].module != module || !a->sites[i].wanted)
			continue;
		if (a->sites[i].is_new)
			error = describe_patch(a, i, &p);
		if (!error && s->sites[i].chosen == PROBE_PLAN_TOGGLE)
			a->sites[i].reg.patched[0] = 0xe8;
		else if (!error)
			error = build_stub(a, i, &p);
	}
	if (!error && p.used)
		error = memory_write_code(a->change->mem, p.start, p.bytes, p.used);
	free(p.bytes);
	return error;
}

/* Maps the page of a punned site and writes the jump to its stub there. */
static struct probe_error *build_pun(struct attach *a, size_t i)
{
	const struct arch *arch = a->change->arch;
	const struct attach_site *as = &a->sites[i];
	struct probe_error *error = change_map_pun(a->change, as->reg.pun);
	uint8_t jump[16];

	if (error)
		return error;
	return memory_write_code(
		a->change->mem, as->reg.entry, jump, arch->far_jump(as->reg.entry, as->stub, jump));
}

/* Gives each probe of the selection a counter. */
static struct probe_error *add_probes(struct attach *a)
{
	struct registry *r = &a->change->registry;

	for (size_t i = 0; i < a->selection->probe_count; i++) {
		struct reg_session *session = registry_session(r, a->session);
		struct reg_probe *probe;

		/* An attached session shows it, without a hit. */
		if (a->selection->probes[i].refused && a->persistent)
			continue;
		probe = registry_add_probe(r);
		if (!probe)
			return probe_error_no_memory();
		if (session->slot_count == session->slot_capacity)
			return probe_error_new(
				PROBE_ERROR_STATE, "the session has no counter left");
		*probe = (struct reg_probe){.key = a->selection->probes[i].key,
			.session = a->session,
			.refcount = 1,
			.slot = session->slot_count++};
	}
	return NULL;
}

/* Announces the semaphores of every probe of the selection. */
static struct probe_error *announce_semaphores(struct attach *a)
{
	struct selection *s = a->selection;
	uint64_t *addresses = calloc(s->site_count + 1, sizeof(*addresses));
	struct probe_error *error = addresses ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < s->probe_count && !error; i++) {
		size_t count =
			s->probes[i].refused ? 0 : semaphores_of(s, &s->probes[i], addresses);

		for (size_t k = 0; k < count && !error; k++) {
			struct reg_semaphore *added = registry_add_semaphore(&a->change->registry);

			if (!added) {
				error = probe_error_no_memory();
				break;
			}
			*added = (struct reg_semaphore){.address = addresses[k],
				.key = s->probes[i].key,
				.session = a->session,
				.added = 1,
				.pending = 1};
			error = memory_read_all(a->change->pid, added->address, &added->before,
				sizeof(added->before));
		}
	}
	free(addresses);
	return error;
}

/* Announces in the registry what is about to be done. */
static struct probe_error *announce(struct attach *a)
{
	struct registry *r = &a->change->registry;
	struct probe_error *error;

	for (size_t i = 0; i < a->selection->site_count; i++) {
		const struct attach_site *as = &a->sites[i];
		struct reg_site *site;
		struct reg_stub *stub;

		if (!as->wanted)
			continue;
		if (as->is_new) {
			site = registry_add_site(r);
			if (!site)
				return probe_error_no_memory();
			*site = as->reg;
		}
		if (!as->stub)
			continue;
		stub = registry_add_stub(r);
		if (!stub)
			return probe_error_no_memory();
		*stub = (struct reg_stub){.pc = as->reg.pc,
			.start = as->stub,
			.size = as->code.length,
			.next_jump = as->code.next_jump,
			.session = a->session};
	}
	error = announce_semaphores(a);
	a->change->taken.count = 0; /* the arrays name it all now */
	return error;
}

struct probe_error *attach_build(struct attach *attach)
{
	struct change *c = attach->change;
	struct probe_error *error = add_probes(attach);

	for (size_t i = 0; i < c->modules.count && !error; i++)
		error = build_module(attach, &c->modules.items[i]);
	for (size_t i = 0; i < attach->selection->site_count && !error; i++)
		if (attach->sites[i].wanted && attach->sites[i].is_new && attach->sites[i].reg.pun)
			error = build_pun(attach, i);
	if (!error)
		error = announce(attach);
	if (!error)
		error = change_store(c);
	return error;
}
