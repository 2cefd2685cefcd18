/* SPDX-License-Identifier: MIT */
/*
 * The proof that instructions may be moved.
 *
 * A jump over a site overwrites the first bytes of the instructions behind
 * the nop. They run in the stub instead, so nothing else may enter the bytes
 * 1 to 4 of the site, its window. Something enters there only if somewhere in
 * the module there is
 *
 *   - a direct branch with a 32-bit displacement to it    arch->scan(), anywhere
 *   - a direct branch with an 8-bit displacement           within 130 bytes
 *   - its address, as a 64-bit word (computed goto, jump   every aligned word of
 *     tables, relocations, exported symbols) or constant   every segment, but for
 *                                                          program headers (sizes)
 *   - a 32-bit distance from a table to it (jump tables    every table whose
 *     of position-independent code)                        address the code takes
 *   - a distance from a label of its function (GCC's       no function both takes
 *     labels as values), kept anywhere                     such an address and has
 *                                                          an indirect jump
 *   - a landing pad of an exception table                  the function's table
 *   - a call that returns to it                            arch->move()
 *
 * All of them are searched for in the bytes, at every offset, not in decoded
 * instructions: what is found is a superset of what exists, and so "nothing
 * found" is a proof that does not depend on symbols, function bounds or the
 * decoder. Only for the short branches, where chance would find one at every
 * third site, the function is decoded to see whether a candidate is real.
 */
#include <stdlib.h>
#include <string.h>
#include <elf.h>

#include "libprobe/plan.h"

enum {
	SHORT_REACH = 130,
	GAP_MAX = 4096,
	TABLE_ENTRIES_MAX = 16384,
	OCAML_CMP = 0x3d,
	OCAML_CALL = 0xe8
};

const enum probe_plan plan_default_order[4] = {
	PROBE_PLAN_TOGGLE, PROBE_PLAN_LONG_NOP, PROBE_PLAN_RELOCATE, PROBE_PLAN_PUN};

const char plan_entry_provider[] = "probectl";

static const char table_unreadable[] = "its exception table cannot be read";
static const char entered[] = "something in the module may jump behind the nop";
static const char entered_short[] = "a branch enters the instructions behind the nop";
static const char landing_pad[] = "an exception lands behind the nop";

bool plan_is_ocaml(const char *provider)
{
	static const char *const providers[] = {"ocaml", "ocaml.1", "ocaml_1", "ocaml_2"};

	for (size_t i = 0; i < sizeof(providers) / sizeof(*providers); i++)
		if (strcmp(provider, providers[i]) == 0)
			return true;
	return false;
}

/* The function that a site is in. */
struct around {
	struct object_range range;
	enum { JUMPS_UNKNOWN, JUMPS_NOT, JUMPS_INDIRECTLY } jumps; /* see has_indirect_jump() */
};

/* The search through one object. */
struct search {
	struct object *object;
	const struct arch *arch;
	const uint8_t *file;
	size_t file_size;
	struct arch_windows windows;
	struct plan **plans;	  /* of the windows, in their order */
	struct around *functions; /* that they are in */
};

/* The file's bytes of a segment, as far as the file has them. */
static const uint8_t *segment_bytes(
	const struct search *s, const struct object_segment *segment, size_t *size_ret)
{
	if (segment->offset >= s->file_size)
		return NULL;
	*size_ret = s->file_size - segment->offset;
	if (segment->file_size < *size_ret)
		*size_ret = segment->file_size;
	return s->file + segment->offset;
}

static void on_reference(void *data, size_t site)
{
	struct search *s = data;

	if (!s->plans[site]->cannot_move)
		s->plans[site]->cannot_move = entered;
}

/* Something leads to an address, which windows that overlap may share. */
static void refer(struct search *s, uint64_t target)
{
	size_t found = arch_windows_find(&s->windows, target);

	for (; found != SIZE_MAX && target - s->windows.sites[found] < s->windows.jump_length;
		found--)
		on_reference(s, found);
}

/* Has a function, decoded, a jump to where a register or a word says? */
static bool has_indirect_jump(const struct search *s, struct object_range range)
{
	const struct object_segment *segment = object_segment_of(s->object, range.start);
	const uint8_t *bytes;
	size_t size, at = 0;

	bytes = segment ? segment_bytes(s, segment, &size) : NULL;
	if (!bytes || range.start - segment->address >= size)
		return true;
	bytes += range.start - segment->address;
	size -= range.start - segment->address;
	if (range.end - range.start < size)
		size = range.end - range.start;
	while (at < size) {
		struct arch_insn insn;

		if (!s->arch->decode(bytes + at, size - at, range.start + at, &insn) ||
			insn.flow == ARCH_FLOW_INDIRECT_JUMP)
			return true;
		at += insn.length;
	}
	return false;
}

/*
 * A label's address is taken within a function. It may be all that is wanted
 * (__builtin_setjmp), but the code may also compute others from it, to jump to
 * one. Functions are in the order of their sites.
 */
static void refer_label(struct search *s, uint64_t label)
{
	size_t low = 0, high = s->windows.count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (s->functions[middle].range.end <= label)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < s->windows.count && s->functions[low].range.start < label; low++) {
		struct around *around = &s->functions[low];

		if (around->jumps == JUMPS_UNKNOWN)
			around->jumps =
				has_indirect_jump(s, around->range) ? JUMPS_INDIRECTLY : JUMPS_NOT;
		if (around->jumps == JUMPS_INDIRECTLY)
			on_reference(s, low);
	}
}

/*
 * The code takes an address: of a label, or of a jump table, which holds
 * distances from its own start to code. Tables may be in the text.
 */
static void on_constant(void *data, uint64_t base)
{
	struct search *s = data;
	const struct object_segment *segment = object_segment_of(s->object, base);
	const uint8_t *bytes;
	size_t size;

	if (!segment)
		return;
	if (segment->executable)
		refer_label(s, base);
	bytes = segment_bytes(s, segment, &size);
	if (!bytes || base - segment->address >= size)
		return;
	bytes += base - segment->address;
	size -= base - segment->address;
	for (size_t i = 0; i < TABLE_ENTRIES_MAX && (i + 1) * 4 <= size; i++) {
		const struct object_segment *to;
		int32_t distance;

		memcpy(&distance, bytes + i * 4, sizeof(distance));
		refer(s, base + (int64_t)distance);
		to = object_segment_of(s->object, base + (int64_t)distance);
		if (!to || !to->executable)
			return;
	}
}

/* Every aligned word of the file that is an address in a window. */
static void search_words(struct search *s, const uint8_t *bytes, size_t size)
{
	struct object_range headers = object_program_headers(s->object);
	uint64_t offset = (uint64_t)(bytes - s->file);

	for (size_t i = 0; i + 8 <= size; i += 8) {
		uint64_t word;

		if (offset + i >= headers.start && offset + i < headers.end)
			continue;
		memcpy(&word, bytes + i, sizeof(word));
		refer(s, word);
	}
}

static void search_object(struct search *s)
{
	struct arch_scan scan = {.windows = &s->windows,
		.position_dependent = object_type(s->object) == ET_EXEC,
		.data = s,
		.reference = on_reference,
		.constant = on_constant};
	const struct object_segment *segments;
	size_t count;

	segments = object_segments(s->object, &count);
	for (size_t i = 0; i < count; i++) {
		size_t size, skip = -segments[i].address & 7;
		const uint8_t *bytes = segment_bytes(s, &segments[i], &size);

		if (!bytes || size < skip)
			continue;
		search_words(s, bytes + skip, size - skip);
		if (segments[i].executable)
			s->arch->scan(bytes, size, segments[i].address, &scan);
	}
}

/* ---- Short branches ------------------------------------------------------------ */

/* Does the function, decoded from its start, have a branch into the window? */
static bool function_enters(
	const struct search *s, const struct plan *plan, const struct object_range *range)
{
	const struct object_segment *segment = object_segment_of(s->object, range->start);
	const uint8_t *bytes;
	size_t size, at = 0;

	bytes = segment ? segment_bytes(s, segment, &size) : NULL;
	if (!bytes || range->start - segment->address >= size)
		return true;
	bytes += range->start - segment->address;
	size -= range->start - segment->address;
	if (range->end - range->start < size)
		size = range->end - range->start;
	while (at < size && range->start + at < plan->pc + s->arch->jump_length + SHORT_REACH) {
		struct arch_insn insn;

		if (!s->arch->decode(bytes + at, size - at, range->start + at, &insn))
			return true;
		if ((insn.flow == ARCH_FLOW_BRANCH || insn.flow == ARCH_FLOW_JUMP) &&
			insn.target > plan->pc && insn.target < plan->pc + s->arch->jump_length)
			return true;
		/* The site must be where an instruction begins. */
		if (range->start + at < plan->pc && range->start + at + insn.length > plan->pc)
			return true;
		at += insn.length;
	}
	return false;
}

/*
 * The code around an address that can be decoded from its start: the function
 * there or, where no table tells of one (start-up code of the C runtime), what
 * lies between the functions before and behind it.
 */
static bool decodable_range(const struct search *s, uint64_t address, struct object_range *ret)
{
	const struct object_segment *segment = object_segment_of(s->object, address);
	struct object_function function;
	uint64_t at;

	if (object_function_at(s->object, address, &function)) {
		*ret = function.range;
		return true;
	}
	for (at = address; at > segment->address && address - at < GAP_MAX; at--)
		if (object_function_at(s->object, at - 1, &function))
			break;
	ret->start = at;
	for (at = address; at < segment->address + segment->file_size && at - address < GAP_MAX;
		at++)
		if (object_function_at(s->object, at, &function))
			break;
	ret->end = at;
	return ret->end - address < GAP_MAX && address - ret->start < GAP_MAX;
}

/*
 * Looks for short branches into a window, first at every offset. A candidate is
 * believed only if the function it is in, decoded, really has one.
 */
static const char *check_short_branches(const struct search *s, const struct plan *plan)
{
	const struct object_segment *segment = object_segment_of(s->object, plan->pc);
	struct object_range range = {0};
	uint64_t start, end;
	const uint8_t *bytes;
	size_t size;

	bytes = segment ? segment_bytes(s, segment, &size) : NULL;
	if (!bytes || size < 2)
		return entered_short;
	start = plan->pc - segment->address > SHORT_REACH ? plan->pc - SHORT_REACH
							  : segment->address;
	end = plan->pc + s->arch->jump_length + SHORT_REACH;
	if (end > segment->address + size - 1)
		end = segment->address + size - 1;
	for (uint64_t at = start; at < end; at++) {
		uint64_t target;

		if (!s->arch->short_branch(bytes + (at - segment->address), at, &target) ||
			target <= plan->pc || target >= plan->pc + s->arch->jump_length)
			continue;
		if (at >= range.start && at < range.end)
			continue; /* looked at already */
		if (!decodable_range(s, at, &range) || function_enters(s, plan, &range))
			return entered_short;
	}
	return NULL;
}

/* ---- Exceptions ------------------------------------------------------------------ */

struct landing {
	const struct plan *plan;
	uint8_t jump_length;
	bool found;
};

static void on_landing_pad(uint64_t address, void *data)
{
	struct landing *landing = data;

	if (address > landing->plan->pc && address < landing->plan->pc + landing->jump_length)
		landing->found = true;
}

static const char *check_landing_pads(const struct search *s, const struct plan *plan)
{
	struct landing landing = {.plan = plan, .jump_length = s->arch->jump_length};
	struct object_function function;

	if (!object_function_at(s->object, plan->pc, &function) || !function.lsda)
		return NULL;
	if (!object_landing_pads(s->object, &function, on_landing_pad, &landing))
		return table_unreadable;
	return landing.found ? landing_pad : NULL;
}

/* ---- Single sites ------------------------------------------------------------------- */

static const char *move_reason(enum arch_move_status status, const struct arch_moved *moved)
{
	switch (status) {
	case ARCH_MOVE_OK:
		return NULL;
	case ARCH_MOVE_UNDECODABLE:
		return "the bytes behind the nop cannot be decoded";
	case ARCH_MOVE_TRUNCATED:
		return "the code ends behind the nop";
	case ARCH_MOVE_CALL_INSIDE:
		return "a call returns behind the nop";
	case ARCH_MOVE_FLOW_INSIDE:
		/* Padding behind it may go: the search tells whether anything leads there. */
		return moved->padding ? NULL : "a jump or return stands right behind the nop";
	case ARCH_MOVE_UNSUPPORTED:
		return "an instruction behind the nop cannot run elsewhere";
	case ARCH_MOVE_OUT_OF_REACH:
		return "an instruction behind the nop refers to something too far away";
	}
	return "the instructions behind the nop cannot be moved";
}

/* What the bytes of a site say by themselves. */
static void plan_bytes(const struct arch *arch, bool ocaml, struct plan *plan)
{
	size_t first = arch->nop_length(plan->bytes, plan->byte_count);
	size_t second = first ? arch->nop_length(plan->bytes + first, plan->byte_count - first) : 0;

	plan->one_byte_nop = first == 1;
	if (first >= arch->jump_length) {
		plan->nop_length = first;
	} else if (first == 1 && second >= arch->jump_length) {
		plan->nop_offset = first;
		plan->nop_length = second;
	}
	plan->ocaml = ocaml && first == 1 && plan->byte_count >= 6 &&
		      (plan->bytes[1] == OCAML_CMP || plan->bytes[1] == OCAML_CALL);
}

static int compare_plans(const void *a, const void *b)
{
	const struct plan *x = *(struct plan *const *)a, *y = *(struct plan *const *)b;

	return x->pc < y->pc ? -1 : x->pc > y->pc;
}

/* The function that a site is in; where nothing tells, what is around it. */
static struct object_range function_of(const struct search *s, uint64_t pc)
{
	struct object_function function;

	if (object_function_at(s->object, pc, &function))
		return function.range;
	return (struct object_range){pc > GAP_MAX ? pc - GAP_MAX : 0, pc + GAP_MAX};
}

/* What the bytes at each site say; drops those whose address another has. Returns the rest. */
static size_t begin_proofs(struct search *s, size_t count, uint64_t *sites)
{
	size_t distinct = 0;

	for (size_t i = 0; i < count; i++) {
		struct arch_moved moved = {0};
		struct plan *p = s->plans[i];

		if (distinct && sites[distinct - 1] == p->pc) {
			p->cannot_move = "two notes name this address";
			continue;
		}
		/* Where the copy will be does not matter yet: next to the original. */
		p->cannot_move =
			move_reason(s->arch->move(p->bytes, p->byte_count, p->pc, p->pc + (1 << 20),
					    s->arch->jump_length, &moved),
				&moved);
		p->moved_length = moved.length;
		sites[distinct] = p->pc;
		s->functions[distinct].range = function_of(s, p->pc);
		s->plans[distinct++] = p;
	}
	return distinct;
}

/* Decides cannot_move for every plan in s->plans. */
static struct probe_error *prove(struct search *s, size_t count)
{
	uint64_t *sites = calloc(count, sizeof(*sites));
	struct probe_error *error = object_load(s->object, &s->file, &s->file_size);
	size_t distinct;

	s->functions = calloc(count, sizeof(*s->functions));
	if (!error && (!sites || !s->functions))
		error = probe_error_no_memory();
	if (error) {
		free(sites);
		return error;
	}
	qsort(s->plans, count, sizeof(*s->plans), compare_plans);
	distinct = begin_proofs(s, count, sites);
	arch_windows_init(&s->windows, sites, distinct, s->arch->jump_length);
	search_object(s);
	for (size_t i = 0; i < distinct; i++) {
		struct plan *p = s->plans[i];

		if (!p->cannot_move)
			p->cannot_move = check_short_branches(s, p);
		if (!p->cannot_move)
			p->cannot_move = check_landing_pads(s, p);
	}
	free(sites);
	return NULL;
}

struct probe_error *plan_sites(struct object *object, const struct sdt_note *const *notes,
	size_t count, bool relocation, struct plan *ret)
{
	struct search *s;
	struct probe_error *error = NULL;
	size_t candidates = 0;

	s = calloc(1, sizeof(*s));
	if (s)
		s->plans = calloc(count ? count : 1, sizeof(*s->plans));
	if (!s || !s->plans) {
		free(s);
		return probe_error_no_memory();
	}
	s->object = object;
	s->arch = arch_of_machine(object_machine(object));
	if (!s->arch || !s->arch->stub || !object_is_64bit(object))
		error = probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s: probes of this machine type can be listed, not enabled",
			object_path(object));
	for (size_t i = 0; i < count && !error; i++) {
		const struct object_segment *segment = object_segment_of(object, notes[i]->pc);

		ret[i] = (struct plan){.pc = notes[i]->pc};
		if (!segment || !segment->executable)
			continue;
		ret[i].byte_count = object_read(object, ret[i].pc, ret[i].bytes, PLAN_BYTES);
		plan_bytes(s->arch, plan_is_ocaml(notes[i]->provider), &ret[i]);
		if (notes[i]->provider == plan_entry_provider)
			ret[i].one_byte_nop = true;
		if (ret[i].one_byte_nop && !ret[i].nop_length && !ret[i].ocaml)
			s->plans[candidates++] = &ret[i];
	}
	if (!error && relocation && candidates && s->arch->can_decode && !s->arch->can_decode())
		error = probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"the disassembler library libcapstone.so.4 is missing: install it");
	if (!error && relocation && candidates)
		error = prove(s, candidates);
	free(s->functions);
	free(s->plans);
	free(s);
	return error;
}

enum probe_plan plan_choose(const struct plan *plan, const enum probe_plan *order, size_t count,
	const char **reason_ret)
{
	*reason_ret = !plan->byte_count ? "its address is not in the code of the file"
		      : !plan->one_byte_nop && !plan->nop_length
			      ? "the bytes there are not the nop that the note promises"
		      : plan->cannot_move ? plan->cannot_move
					  : "none of the plans asked for is possible there";
	for (size_t i = 0; i < count; i++) {
		bool possible = false;

		switch (order[i]) {
		case PROBE_PLAN_TOGGLE:
			possible = plan->ocaml;
			break;
		case PROBE_PLAN_LONG_NOP:
			possible = plan->nop_length > 0;
			break;
		case PROBE_PLAN_RELOCATE:
			possible = plan->one_byte_nop && !plan->nop_length && !plan->ocaml &&
				   !plan->cannot_move;
			break;
		case PROBE_PLAN_PUN:
			possible = plan->one_byte_nop && !plan->ocaml;
			break;
		case PROBE_PLAN_NONE:
		case PROBE_PLAN_REFUSED:
			break;
		}
		if (possible)
			return order[i];
	}
	return PROBE_PLAN_REFUSED;
}
