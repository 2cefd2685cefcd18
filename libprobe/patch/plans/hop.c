/* SPDX-License-Identifier: MIT */
/*
 * The plan `hop`: a short jump after the nops, where a full jump does not fit. The short jump leads
 * to bytes near by, the spare, which are unused or made so, and hold the full jump.
 * libprobe/patch/plan.c has the picture; libprobe/patch/build.c builds the code.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

/* ==== Spares ================================================================================== */

/*
 * Compilers align functions and loops, and fill the gaps with nops; linkers use int3. Padding that
 * follows an unconditional jump or a return is unused: no thread runs into it.
 *
 *	ret
 *	nop ...		spare: room for a jump, and for another jump behind it
 *	nop ...
 *	next function
 *
 * Two conditions must hold. First, the function before the padding, decoded from its start, ends
 * with an instruction that does not fall through. Second, nothing in the module leads into the
 * padding. This is proved as for a site, by searching the bytes at every offset
 * (libprobe/patch/prove.c). All the padding from its first byte up to the jump must be free of
 * entries, because nops fall through to the jump. A call counts as an instruction that falls
 * through, even if it never returns: its return address is in the padding, and unwinders look it
 * up.
 *
 * Live patching reserves a row of one-byte nops before functions for its own jumps
 * (-fpatchable-function-entry). Such rows are not used, and neither is the nop of a site.
 */

enum { PADDING_MAX = 64, PAGE = 4096, MADE_ASKED = 8, PASSES_MAX = 16 };

static const char no_spare[] =
	"no five unused bytes are within reach of a short jump after the site";

struct spare {
	uint64_t at;
	uint64_t padding; /* the start of the padding */
	/* as if a site were at the byte before `at`, to ask what enters after that byte */
	struct plan plan;
	struct plan_way move;
};

struct spares {
	struct object *object;
	const struct arch *arch;
	struct spare *items;
	size_t count;
	bool failed; /* there was no memory for a spare or for the code of a function */
};

/* ---- Padding --------------------------------------------------------------------------- */

/* Returns the length of the nop or trap at the start of `bytes`, or 0. */
static size_t padding_at(const struct arch *arch, const uint8_t *bytes, size_t size)
{
	size_t length = arch->nop_length(bytes, size);

	if (length == 1 && arch->nop_length(bytes + 1, size - 1) == 1)
		return 0;
	return length ? length : size && arch->is_breakpoint(bytes) ? arch->breakpoint_length : 0;
}

/* Adds all places in padding with room for a jump. */
static void add_padding(struct spares *s, uint64_t start, uint64_t end)
{
	uint8_t jump = s->arch->jump_length;

	for (uint64_t at = start; end - at >= jump && at - start < PADDING_MAX && !s->failed;
		at += jump) {
		s->failed = !ARRAY_ROOM(s->items, s->count);
		if (s->failed)
			return;
		s->items[s->count++] = (struct spare){
			.at = at, .padding = start, .plan = {.pc = at - 1}, .move = {.offset = 1}};
	}
}

/* Returns the end of the padding at `start`, at most the next function's start. */
static uint64_t end_between(struct spares *s, uint64_t start)
{
	uint8_t bytes[PADDING_MAX];
	size_t size = object_read(s->object, start, bytes, sizeof(bytes)), at = 0, length;
	struct object_function next;

	while (at < size && (length = padding_at(s->arch, bytes + at, size - at))) {
		for (size_t i = 0; i < length; i++)
			if (object_function_at(s->object, start + at + i, &next))
				return start + at;
		at += length;
	}
	return start + at;
}

/* Adds the padding in and right after a function; may leave out what is outside [low, high). */
static void add_function(struct spares *s, struct object_range range, uint64_t low, uint64_t high)
{
	size_t before = s->count, size = range.end - range.start, at = 0, start = 0;
	bool ends = false, is_padding = false;
	AUTO_FREE uint8_t *bytes = NULL;

	/* A broken table may say that a function is larger than the file. */
	if (size >= object_size(s->object))
		return;
	bytes = malloc(size + 1);
	s->failed = s->failed || !bytes;
	if (!bytes || object_read(s->object, range.start, bytes, size) != size)
		at = size + 1;
	while (at < size && range.start + at < high) {
		size_t padding = padding_at(s->arch, bytes + at, size - at);
		struct arch_insn insn;

		if (!s->arch->decode(bytes + at, size - at, range.start + at, &insn) ||
			(padding && padding != insn.length && insn.flow != ARCH_FLOW_STOP)) {
			/* an instruction cannot be decoded, so findings here are uncertain */
			s->count = before;
			at = size + 1;
			break;
		}
		if (padding && ends && !is_padding)
			start = at;
		if (!padding && is_padding && range.start + at > low)
			add_padding(s, range.start + start, range.start + at);
		is_padding = padding && (ends || is_padding);
		ends = insn.flow == ARCH_FLOW_JUMP || insn.flow == ARCH_FLOW_INDIRECT_JUMP ||
		       insn.flow == ARCH_FLOW_RETURN;
		at += insn.length;
	}
	if (at == size && (is_padding || ends)) {
		uint64_t end = end_between(s, range.end);

		start = is_padding ? start : size;
		if (end > low)
			add_padding(s, range.start + start, end);
	}
}

/* ---- Near a site ------------------------------------------------------------------------- */

static uint64_t patch_of(const struct plan *plan, const struct plan_ops *ops)
{
	return plan->pc + (uint64_t)plan_way(plan, ops)->offset;
}

bool plan_is_short(const struct arch *arch, const struct plan *plan, const struct plan_ops *ops)
{
	return ops && ops->takes_spares && plan_way(plan, ops)->length &&
	       plan_way(plan, ops)->jump < arch->jump_length;
}

/* Adds the padding that a short jump at a site reaches. */
static void add_around(struct spares *s, const struct plan *plan, const struct plan_ops *ops)
{
	uint64_t reach = s->arch->short_reach, patch = patch_of(plan, ops);
	uint64_t low = patch > reach ? patch - reach : 0, high = patch + reach;

	for (uint64_t at = low; at < high && !s->failed;) {
		struct object_function function;

		if (!object_function_at(s->object, at, &function) || function.range.end <= at) {
			at++;
			continue;
		}
		add_function(s, function.range, low, high);
		at = function.range.end;
	}
}

/* Returns true if it is proved that nothing leads to a spare, or to the padding before it. */
static bool is_free(const struct spares *s, const struct spare *spare)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->items[i].padding == spare->padding && s->items[i].at <= spare->at &&
			s->items[i].move.cannot)
			return false;
	return true;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a < b ? b - a : a - b;
}

/* Gives a plan the spares that its short jump reaches, nearest first. */
static void give(const struct spares *s, struct plan *plan, const struct plan_ops *ops)
{
	uint64_t patch = patch_of(plan, ops);
	uint8_t jump[ARCH_JUMP_MAX];

	for (size_t i = 0; i < s->count; i++) {
		uint64_t at = s->items[i].at;
		size_t k = plan->spare_count;

		/* Skip padding that the site's own short jump may replace. */
		if (at < patch + plan_way(plan, ops)->length && patch < at + s->arch->jump_length)
			continue;
		if (!s->arch->short_jump(patch, at, jump) || !is_free(s, &s->items[i]))
			continue;
		while (k > 0 && distance(plan->spares[k - 1], patch) > distance(at, patch)) {
			if (k < PLAN_SPARES)
				plan->spares[k] = plan->spares[k - 1];
			k--;
		}
		if (k == PLAN_SPARES)
			continue;
		plan->spares[k] = at;
		plan->spare_count += plan->spare_count < PLAN_SPARES;
	}
}

struct probe_error *plan_find_spares(struct planning *p, const struct plan_ops *ops)
{
	struct spares s = {.object = p->object, .arch = p->arch};
	struct probe_error *error = NULL;
	size_t kept = 0;

	for (size_t i = 0; i < p->count; i++)
		if (plan_is_short(p->arch, &p->plans[i], ops))
			add_around(&s, &p->plans[i], ops);
	/* Several sites may be near the same padding. */
	ARRAY_SORT(s.items, s.count, at);
	for (size_t i = 0; i < s.count; i++)
		if (!kept || s.items[kept - 1].at != s.items[i].at)
			s.items[kept++] = s.items[i];
	s.count = kept;
	if (s.failed)
		error = probe_error_no_memory();
	for (size_t i = 0; i < s.count && !error; i++)
		plan_ask(p, (struct proof){.plan = &s.items[i].plan,
				    .move = &s.items[i].move,
				    .window = (uint8_t)(s.arch->jump_length + 1)});
	error = error ?: plan_prove(p);
	for (size_t i = 0; i < s.count && !error; i++)
		if (rows_have_site(p->rows, s.items[i].at, s.arch->jump_length))
			s.items[i].move.cannot = "it is a site";
	for (size_t i = 0; i < p->count && !error; i++) {
		struct plan *plan = &p->plans[i];

		if (!plan_is_short(p->arch, plan, ops))
			continue;
		give(&s, plan, ops);
		if (!plan->spare_count)
			((struct plan_way *)((char *)plan + ops->way))->cannot = no_spare;
	}
	free(s.items);
	return error;
}

/* ==== Made ==================================================================================== */

/*
 * Where nothing is padding (gcc -O0, -Og, -O1; rare code), code of the same function makes room for
 * two jumps. It moves, and the first jump leads to its copy. The second jump is a spare:
 *
 *	made	mov ...		jmp copy -----> mov ...
 *		mov ...		jmp entry <-.	mov ...
 *		...		...	    |	jmp back
 *	exit	leave		jmp short --'
 *		ret
 *
 * The proof is that of every moved instruction. Besides, control must flow into this code from the
 * function's start by direct branches: what only follows in the file may be a table.
 */

/* An instruction begins at a byte of a function; control flows there; a branch leads there. */
enum { BEGINS = 1, RUNS = 2, ENTERED = 4 };

struct code {
	struct object_range range;
	uint8_t *bytes, *marks;
	size_t size;
};

/* The question whether the code at plan.pc can move, to make a spare for `way` of `of`. */
struct made {
	struct plan *of;
	struct plan_way *way;
	struct plan plan;
	struct plan_way move;
};

/* Marks what control reaches by the branches that are known. Returns true if there are more. */
static bool mark_code(const struct arch *arch, struct code *code)
{
	bool runs = true, more = false;
	struct arch_insn insn;

	for (size_t at = 0; at < code->size; at += insn.length) {
		uint64_t pc = code->range.start + at, to;

		runs |= (code->marks[at] & RUNS) != 0;
		if (!arch->decode(code->bytes + at, code->size - at, pc, &insn))
			break;
		code->marks[at] |= BEGINS | (runs ? RUNS : 0);
		to = insn.target - code->range.start;
		if ((insn.flow == ARCH_FLOW_BRANCH || insn.flow == ARCH_FLOW_JUMP) &&
			to < code->size) {
			more |= runs && to <= at && !(code->marks[to] & RUNS);
			code->marks[to] |= ENTERED | (runs ? RUNS : 0);
		}
		/* Behind a call of what is in the function, there may be a text. */
		if (insn.flow == ARCH_FLOW_JUMP || insn.flow == ARCH_FLOW_INDIRECT_JUMP ||
			insn.flow == ARCH_FLOW_RETURN || insn.flow == ARCH_FLOW_STOP ||
			(insn.flow == ARCH_FLOW_CALL && to > 0 && to < code->size))
			runs = false;
	}
	return more;
}

static void free_code(struct code *code)
{
	free(code->bytes);
	free(code->marks);
	*code = (struct code){0};
}

/* Reads the function that contains `pc`, unless `code` is that function. */
static bool read_code(
	struct object *object, const struct arch *arch, uint64_t pc, struct code *code)
{
	struct object_function function;

	if (pc - code->range.start < code->size)
		return true;
	free_code(code);
	if (!object_function_at(object, pc, &function) ||
		function.range.end - function.range.start >= object_size(object))
		return true;
	code->range = function.range;
	code->size = function.range.end - function.range.start;
	code->bytes = malloc(code->size + 1);
	code->marks = calloc(1, code->size + 1);
	if (!code->bytes || !code->marks)
		return false;
	code->size = object_read(object, code->range.start, code->bytes, code->size);
	/* A file may have any number of branches back; what they lead to is left where it is. */
	for (int pass = 0; pass < PASSES_MAX && mark_code(arch, code); pass++)
		continue;
	return true;
}

/* Returns the number of bytes that move if a spare is made at `at`, or 0. */
static uint8_t made_length(
	const struct arch *arch, const struct code *code, const struct plan *plan, uint64_t at)
{
	size_t from = at - code->range.start, two = 2 * (size_t)arch->jump_length;
	struct arch_moved moved;
	struct arch_insn insn = {0};

	if (from >= code->size || !(code->marks[from] & BEGINS) || !(code->marks[from] & RUNS) ||
		at < plan->entry_end || at % PAGE + two > PAGE ||
		arch->move(code->bytes + from, code->size - from, at, at, two, &moved) !=
			ARCH_MOVE_OK ||
		moved.length > PLAN_BEFORE_BYTES || plan_has_break(plan, at, moved.length))
		return 0;
	for (size_t i = 0; i < moved.count; i++) {
		size_t k = from + moved.from_offset[i];

		if ((i && code->marks[k] & ENTERED) || !(code->marks[k] & BEGINS) ||
			arch->nop_length(code->bytes + k, code->size - k) ||
			!arch->decode(code->bytes + k, code->size - k, at + k - from, &insn))
			return 0;
	}
	/* The last instruction may be a call, and no exit. */
	return moved.falls_through || insn.flow == ARCH_FLOW_CALL ||
			       insn.flow == ARCH_FLOW_INDIRECT_CALL
		       ? moved.length
		       : 0;
}

/* Returns a way whose short jump lacks nothing but a spare, or NULL. */
static struct plan_way *way_without_spare(const struct planning *p, struct plan *plan)
{
	struct plan_way *way = plan->hop.cannot == no_spare ? &plan->hop : &plan->before;
	const char *reason;

	return (plan->is_entry || plan->is_exit) && plan->start && way->cannot == no_spare &&
			       !plan_choose(plan, p->order, &reason)
		       ? way
		       : NULL;
}

/* Adds the code near a plan's patch, the nearest first. Returns false if out of memory. */
static bool add_near(struct planning *p, struct plan *plan, struct plan_way *way, struct code *code,
	struct made **made, size_t *count)
{
	const struct arch *arch = p->arch;
	uint64_t patch = plan->pc + (uint64_t)way->offset, low = patch, high = patch + way->length;
	size_t first = *count;

	if (!read_code(p->object, arch, plan->pc, code))
		return false;
	for (uint64_t far = 0; far < 4 * (uint64_t)arch->short_reach; far++) {
		uint64_t at = far % 2 ? patch + far / 2 : patch - far / 2;
		uint64_t spare = at + arch->jump_length;
		uint8_t length, jump[ARCH_JUMP_MAX];

		/* Pieces of code that do not overlap: other sites may need one of them. */
		if (*count - first == MADE_ASKED || !arch->short_jump(patch, spare, jump) ||
			(at >= low && at < high))
			continue;
		length = made_length(arch, code, plan, at);
		if (!length || (at < low && at + length > low))
			continue;
		if (!ARRAY_ADD(*made, *count,
			    (struct made){.of = plan,
				    .way = way,
				    .plan = {.pc = at, .byte_count = length}}))
			return false;
		memcpy((*made)[*count - 1].plan.bytes, code->bytes + (at - code->range.start),
			length);
		low = at < low ? at : low;
		high = at + length > high ? at + length : high;
	}
	return true;
}

struct probe_error *plan_make_spares(struct planning *p)
{
	const uint8_t two = (uint8_t)(2 * p->arch->jump_length);
	AUTO_FREE struct made *made = NULL;
	struct probe_error *error;
	struct code code = {0};
	size_t count = 0;
	bool ok = true;

	for (size_t i = 0; i < p->count && ok && p->arch->short_jump_length; i++) {
		struct plan_way *way = way_without_spare(p, &p->plans[i]);

		ok = !way || add_near(p, &p->plans[i], way, &code, &made, &count);
	}
	free_code(&code);
	for (size_t i = 0; i < count && ok; i++)
		plan_ask(p, (struct proof){.plan = &made[i].plan,
				    .move = &made[i].move,
				    .window = two,
				    .need = two,
				    .margin = 1});
	error = ok ? plan_prove(p) : probe_error_no_memory();
	for (size_t i = 0; i < count && !error; i++) {
		struct plan *plan = made[i].of;

		if (made[i].move.cannot || plan->spare_count == PLAN_SPARES ||
			rows_have_site(p->rows, made[i].plan.pc, made[i].move.length))
			continue;
		plan->made[plan->spare_count] = made[i].move.length;
		plan->spares[plan->spare_count++] = made[i].plan.pc + p->arch->jump_length;
		made[i].way->cannot = NULL;
	}
	return error;
}

/* ==== Hop ===================================================================================== */

/* Can a way's instructions move, and is its jump in one page wherever the file is mapped? */
static bool fits(const struct plan *plan, const struct plan_way *way)
{
	uint64_t patch = plan->pc + (uint64_t)way->offset;

	return way->length && patch / PAGE == (patch + way->jump - 1) / PAGE;
}

static struct probe_error *examine(struct planning *p)
{
	if (!p->arch->short_jump_length)
		return NULL;
	for (size_t i = 0; i < p->count; i++) {
		struct plan *plan = &p->plans[i];

		if (!plan->is_entry)
			plan->hop.offset = plan->behind.offset;
		if (plan->byte_count && !plan->ocaml &&
			(plan->hop.offset || plan->is_entry || plan->is_exit) && !plan->refused &&
			!plan->hop.cannot && !fits(plan, &plan->behind))
			plan_ask_move(p, plan, &plan->hop);
	}
	for (size_t i = 0; i < p->neighbour_count; i++) {
		struct plan *before = &p->neighbours[i].plan;
		const struct plan *after = &p->plans[p->neighbours[i].of];

		before->hop.offset = before->behind.offset;
		if (!fits(after, &after->behind))
			plan_ask_move(p, before, &before->hop);
	}
	return plan_prove(p) ?: plan_find_spares(p, &plan_hop);
}

bool plan_takes_spare(
	const struct arch *arch, const struct plan *plan, const struct plan_order *order)
{
	const char *reason;

	return plan_is_short(arch, plan, plan_choose(plan, order, &reason));
}

const char *hops_take(struct install *a, size_t i)
{
	const struct select_site *site = &a->selection->sites[i];
	struct install_site *as = &a->sites[i];
	uint64_t bias = site->pc - site->plan->pc;
	const char *reason = NULL;

	if (claims_have_jump(&a->claims, site, &plan_hop)) {
		as->hop = a->claims.shared_hop;
		return NULL;
	}
	for (size_t k = 0; k < site->plan->spare_count; k++) {
		uint64_t hop = site->plan->spares[k] + bias;
		uint8_t made = site->plan->made[k], found[PLAN_BEFORE_BYTES];
		struct claim claim = claim_of_hop(a->change->arch, hop, made);
		size_t length = claim.end - claim.start;

		if (claims_meet(&a->claims, claim) ||
			maps_is_shared(&a->change->maps, claim.start) ||
			hops_original(a, as, claim.start, length, as->made_bytes) != length ||
			memory_read(a->change->pid, claim.start, found, length) != length ||
			memcmp(found, as->made_bytes, length) != 0)
			continue;
		if (made)
			reason = windows_reason(&a->transaction->windows, a->change);
		if (reason)
			continue;
		as->hop = hop;
		as->made = made;
		return NULL;
	}
	return reason ? reason : claims_no_spare;
}

const struct plan_ops plan_hop = {
	.id = PROBE_PLAN_HOP,
	.way = offsetof(struct plan, hop),
	.follows_nops = true,
	.takes_spares = true,
	.examine = examine,
	.take = hops_take,
	.build = neighbours_describe,
};
