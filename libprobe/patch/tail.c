/* SPDX-License-Identifier: MIT */
/*
 * The code behind a site's stubs, and the jump at the site. A tail is a copy of the instructions
 * that the jump replaces, with a jump back to what follows them (docs/patching.md).
 */
#include <string.h>

#include "libprobe/patch/patch.h"

struct module *install_module(const struct install *install, size_t site)
{
	return install->selection->probes[install->selection->sites[site].probe].module;
}

size_t hops_original(const struct install *install, const struct install_site *as, uint64_t at,
	size_t size, uint8_t *bytes)
{
	const struct module *module = install_module(install, (size_t)(as - install->sites));

	return module->object ? object_read(module->object, at - module->bias, bytes, size) : 0;
}

void build_skip(const struct arch *arch, struct piece *p, size_t length)
{
	length += -(p->start + p->used + length) % ARCH_STUB_ALIGN;
	arch_fill(arch, p->bytes + p->used, length);
	p->used += length;
}

struct probe_error *build_copy(const struct arch *arch, struct install_site *as,
	const uint8_t *bytes, size_t size, size_t need, struct piece *p)
{
	struct reg_site *reg = &as->reg;
	enum arch_move_status status;

	build_skip(arch, p, 0);
	reg->tail = p->start + p->used;
	status = arch->move(bytes, size, reg->patch, reg->tail, need, &as->moved);
	if (status != ARCH_MOVE_OK && !(status == ARCH_MOVE_FLOW_INSIDE && as->moved.padding))
		return probe_error_new(PROBE_ERROR_REFUSED,
			"the instructions at %#jx cannot be moved to %#jx", (uintmax_t)reg->patch,
			(uintmax_t)reg->tail);
	as->moved_to = reg->tail;
	memcpy(p->bytes + p->used, as->moved.code, as->moved.code_length);
	p->used += as->moved.code_length;
	if (as->moved.falls_through)
		p->used += arch->jump(
			p->start + p->used, reg->patch + as->moved.length, p->bytes + p->used);
	reg->tail_size = p->start + p->used - reg->tail;
	reg->covers = as->moved.length;
	return NULL;
}

struct probe_error *build_tail(
	struct install *a, size_t i, const struct plan_way *move, struct piece *p)
{
	const struct select_site *site = &a->selection->sites[i];
	const uint8_t *bytes;
	size_t size = plan_code(site->plan, move->offset, &bytes);

	a->sites[i].reg.patch = site->pc + (uint64_t)move->offset;
	return build_copy(a->change->arch, &a->sites[i], bytes, size, move->jump, p);
}

struct probe_error *build_too_far(const struct reg_site *reg)
{
	return probe_error_new(
		PROBE_ERROR_REFUSED, "no stub can be placed near %#jx", (uintmax_t)reg->pc);
}

struct probe_error *build_jump(const struct install *a, const struct install_site *as,
	uint64_t entry, struct reg_site *reg)
{
	const struct arch *arch = a->change->arch;

	if (!as->hop)
		return arch->jump(reg->patch, entry, reg->patched) ? NULL : build_too_far(reg);
	reg->hop = as->hop;
	reg->length = arch->short_jump_length;
	if (hops_original(a, as, reg->hop, arch->jump_length, reg->hop_original) !=
			arch->jump_length ||
		!arch->jump(reg->hop, entry, reg->hop_patched) ||
		!arch->short_jump(reg->patch, reg->hop, reg->patched))
		return build_too_far(reg);
	return NULL;
}

struct probe_error *build_leave(struct install *a, struct install_site *as, uint64_t pc,
	const uint8_t *bytes, size_t size, size_t need, struct piece *p)
{
	const struct arch *arch = a->change->arch;
	struct arch_moved *before = &as->moved, moved;
	enum arch_move_status status;

	if (before->count == ARCH_MOVED_INSNS_MAX)
		return probe_error_new(PROBE_ERROR_REFUSED, "too many instructions at %#jx move",
			(uintmax_t)as->reg.patch);
	before->from_offset[before->count] = (uint8_t)(pc - as->reg.patch);
	before->to_offset[before->count++] = (uint8_t)before->code_length;
	build_skip(arch, p, 0);
	as->reg.tail = p->start + p->used;
	status = arch->move(bytes, size, pc, as->reg.tail, need, &moved);
	if ((status != ARCH_MOVE_OK && !(status == ARCH_MOVE_FLOW_INSIDE && moved.padding)) ||
		moved.falls_through)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"the instruction at %#jx cannot be moved to %#jx", (uintmax_t)pc,
			(uintmax_t)as->reg.tail);
	memcpy(p->bytes + p->used, moved.code, moved.code_length);
	p->used += moved.code_length;
	as->reg.tail_size = (uint32_t)moved.code_length;
	return NULL;
}
