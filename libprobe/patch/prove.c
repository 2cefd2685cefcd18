/* SPDX-License-Identifier: MIT */
/*
 * Proves that instructions may be moved.
 *
 * A jump after the nop of a site overwrites the first bytes of the instructions there. Copies of
 * those instructions run after the stub instead. So no thread may enter those instructions from
 * elsewhere in the program. Nor may a thread enter right after the nop, because it would be counted
 * as a hit. The window of a site is the bytes from the second byte of the nop to the last byte of
 * the jump:
 *
 *	pc	nop
 *	pc + 1	jump		window, for a nop of one byte: as long as a jump;
 *	  ...			after a longer nop, the rest of the nop belongs to it, too
 *
 * Something enters the window only if somewhere in the module there is
 *
 *   - a direct branch with a 32-bit displacement to it    arch->scan(), anywhere
 *   - a direct branch with an 8-bit displacement           within arch->short_reach
 *   - its address, as a 64-bit word (computed goto, jump   every aligned word of
 *     tables, relocations, exported symbols) or constant   every segment, except
 *                                                          program headers (sizes)
 *   - a 32-bit distance from a table to it (jump tables    every table whose
 *     of position-independent code)                        address the code takes; up
 *                                                          to the next such table, and
 *                                                          what leads to its function
 *   - a distance from a label of its function (GCC's       no function both takes
 *     labels as values; on some instruction sets jump      such an address and has
 *     tables in general), kept anywhere                    an indirect jump
 *   - a guard that is on                                   its note (sdt_guards())
 *   - a landing pad of an exception table                  the function's table
 *   - the start of a function, for callers in other files  symbols and .eh_frame
 *   - a call that returns to it                            arch->move()
 *
 * The search looks for all of these in the bytes, at every offset, not in decoded instructions. It
 * finds a superset of the real entries, so "nothing found" is a proof that does not depend on
 * symbols, function bounds or the decoder. A reference to the middle of an instruction that will be
 * moved is ignored. This is safe because the instructions follow the nop, so the decoder knows for
 * certain where they begin. (In a program without PIE, the string "ABC" may look like such an
 * address.) Bytes that look like a short branch by chance would be found at every third site. So
 * for short branches only, the function is decoded to see whether it really has such a branch.
 */
#include <stdlib.h>
#include <string.h>
#include <elf.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

enum { GAP_MAX = 4096, TABLE_ENTRIES_MAX = 16384, INSIDE_BITS = 64 };
_Static_assert(PLAN_NOPS_MAX + ARCH_INSN_MAX < INSIDE_BITS, "a window has a bit for each byte");

static const char table_unreadable[] = "its exception table cannot be read";
static const char entered[] = "something in the module may jump to the bytes after the site";
static const char entered_short[] = "a branch enters the instructions after the site";
static const char landing_pad[] = "an exception lands in the bytes after the site";
static const char function_starts[] = "a function may start in the bytes after the site";
static const char signal_return[] = "signal handlers return to the bytes after the site";
static const char another_site[] = "another site is in the bytes after the site";

struct around {
	struct object_range range;
	/* whether the function jumps to an address in a register or in memory */
	enum { JUMPS_UNKNOWN, JUMPS_NOT, JUMPS_INDIRECTLY } jumps;
};

/* An address, maybe of a jump table, that the code at `from` takes. */
struct table {
	uint64_t base, from;
};

/* Addresses are link-time. */
struct word_search {
	struct object *object;
	const struct arch *arch;
	const uint8_t *file;
	size_t file_size;
	/* Windows of the sites, all as long as the longest. A site has one for each question. */
	struct arch_windows windows;
	struct proof *proofs;	  /* the question for each window */
	struct around *functions; /* the function that contains each window */
	uint64_t *sites;	  /* addresses of all notes and guards, sorted */
	size_t site_count;
	struct table *tables;
	size_t table_count;
	bool no_memory; /* a table is missing */
	/* The last range that decodable_range() found. */
	struct object_range gap;
};

/* Returns the segment's bytes in the file, or NULL if it has none. */
static const uint8_t *segment_bytes(
	const struct word_search *s, const struct object_segment *segment, size_t *size_ret)
{
	if (segment->offset >= s->file_size)
		return NULL;
	*size_ret = s->file_size - segment->offset;
	if (segment->file_size < *size_ret)
		*size_ret = segment->file_size;
	return s->file + segment->offset;
}

static void enter(struct word_search *s, size_t site)
{
	if (!s->proofs[site].move->cannot)
		s->proofs[site].move->cannot = entered;
}

/*
 * Handles a reference to `target`, an address in a window. Ignores it if it is in the middle of an
 * instruction, because any bytes may look like such a reference, and where no instruction can be.
 */
static void on_reference(void *data, size_t site, uint64_t target)
{
	struct word_search *s = data;
	uint64_t distance = target - s->windows.sites[site];

	if (target % s->arch->insn_align == 0 && distance < s->proofs[site].window &&
		!(s->proofs[site].inside >> distance & 1))
		enter(s, site);
}

/* Marks the windows that contain `target`, which something refers to. */
static void refer(struct word_search *s, uint64_t target)
{
	size_t found = arch_windows_find(&s->windows, target);

	for (; found != SIZE_MAX && target - s->windows.sites[found] < s->windows.jump_length;
		found--)
		on_reference(s, found, target);
}

/* Returns a function's bytes in the file, or NULL if it has none. */
static const uint8_t *range_bytes(
	const struct word_search *s, struct object_range range, size_t *size_ret)
{
	const struct object_segment *segment = object_segment_of(s->object, range.start);
	const uint8_t *bytes = segment ? segment_bytes(s, segment, size_ret) : NULL;
	uint64_t offset = segment ? range.start - segment->address : 0;

	if (!bytes || offset >= *size_ret)
		return NULL;
	*size_ret -= offset;
	if (range.end - range.start < *size_ret)
		*size_ret = range.end - range.start;
	return bytes + offset;
}

/* Returns true if a function may jump to an address in a register or in memory. */
static bool has_indirect_jump(const struct word_search *s, struct object_range range)
{
	size_t size, at = 0;
	const uint8_t *bytes = range_bytes(s, range, &size);

	if (!bytes)
		return true;
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
 * The code takes a label's address. If the label's function has an indirect jump, it may compute
 * other targets from the label, so this marks all windows in the function. Otherwise the label may
 * be the only target (__builtin_setjmp). s->functions is in the order of the sites.
 */
static void refer_label(struct word_search *s, uint64_t label)
{
	size_t i = ARRAY_SEARCH_ABOVE(s->functions, s->windows.count, range.end, label);

	for (; i < s->windows.count && s->functions[i].range.start < label; i++) {
		struct around *around = &s->functions[i];

		if (around->jumps == JUMPS_UNKNOWN)
			around->jumps =
				has_indirect_jump(s, around->range) ? JUMPS_INDIRECTLY : JUMPS_NOT;
		if (around->jumps == JUMPS_INDIRECTLY)
			enter(s, i);
	}
}

/*
 * Finds where an entry of the table at `base` leads. Returns false if that is not to code.
 */
static bool read_entry(
	const struct word_search *s, uint64_t base, uint64_t index, uint64_t *target_ret)
{
	const struct object_segment *segment = object_segment_of(s->object, base);
	uint64_t at = base - segment->address + index * sizeof(int32_t);
	const uint8_t *bytes;
	int32_t distance;
	size_t size;

	bytes = segment_bytes(s, segment, &size);
	if (!bytes || at >= size || size - at < sizeof(distance))
		return false;
	memcpy(&distance, bytes + at, sizeof(distance));
	*target_ret = base + (uint64_t)(int64_t)distance;
	segment = object_segment_of(s->object, *target_ret);
	return segment && segment->executable && *target_ret % s->arch->insn_align == 0;
}

/*
 * The code takes the address `base`: of a label, or of a jump table, which may lie between
 * functions and holds distances from itself to code. .eh_frame_hdr is skipped: it looks like a jump
 * table, and data beside the code may seem to take its address.
 */
static void on_constant(void *data, uint64_t from, uint64_t base)
{
	struct word_search *s = data;
	const struct object_segment *segment = object_segment_of(s->object, base);
	struct object_range functions = object_function_table(s->object);
	struct object_function function;
	uint64_t target;

	if (!segment || (base >= functions.start && base < functions.end))
		return;
	if (segment->executable)
		refer_label(s, base);
	/* A function begins with code, whose address is often taken, and not with a table. */
	if (!read_entry(s, base, 0, &target) ||
		(object_function_at(s->object, base, &function) && function.range.start == base))
		return;
	if (!ARRAY_ADD(s->tables, s->table_count, (struct table){base, from}))
		s->no_memory = true;
}

/* Is `target` in one of the functions that take the address of tables[first..end)? */
static bool is_own(const struct word_search *s, size_t first, size_t end, uint64_t target)
{
	for (size_t i = first; i < end; i++) {
		struct object_function function;

		if (!object_function_at(s->object, s->tables[i].from, &function) ||
			(target >= function.range.start && target < function.range.end))
			return true;
	}
	return false;
}

/*
 * Searches tables[first..end), which are one. No table says where it ends. Compilers put tables one
 * behind the other, and what follows leads to other places, since its distances are from elsewhere.
 * So where another table begins, only what leads to the function of this one counts.
 */
static void search_table(struct word_search *s, size_t first, size_t end)
{
	uint64_t base = s->tables[first].base, target;
	uint64_t next = end < s->table_count ? s->tables[end].base : UINT64_MAX;

	for (size_t i = 0; i < TABLE_ENTRIES_MAX && read_entry(s, base, i, &target); i++)
		if (base + i * sizeof(int32_t) < next ||
			(arch_windows_find(&s->windows, target) != SIZE_MAX &&
				is_own(s, first, end, target)))
			refer(s, target);
}

static void search_tables(struct word_search *s)
{
	ARRAY_SORT(s->tables, s->table_count, base);
	for (size_t i = 0, end; i < s->table_count; i = end) {
		for (end = i + 1; end < s->table_count; end++)
			if (s->tables[end].base != s->tables[i].base)
				break;
		search_table(s, i, end);
	}
}

/*
 * The instruction before `at` + 1 takes the address of a label of its function, or the address of
 * the function's end if the last instruction is a br. So the function is found by the instruction's
 * address, not by the label's.
 */
static void on_label(void *data, uint64_t at)
{
	refer_label(data, at + 1);
}

static void search_object(struct word_search *s)
{
	struct arch_scan scan = {.windows = &s->windows,
		.position_dependent = object_type(s->object) == ET_EXEC,
		.data = s,
		.reference = on_reference,
		.constant = on_constant,
		.label = on_label};
	struct object_range headers = object_program_headers(s->object);
	const struct object_segment *segments;
	const struct sdt_guard *guards;
	size_t count;

	segments = object_segments(s->object, &count);
	for (size_t i = 0; i < count; i++) {
		size_t size, skip = -segments[i].address & 7;
		const uint8_t *bytes = segment_bytes(s, &segments[i], &size);

		if (!bytes || size < skip)
			continue;
		for (size_t at = skip; at + 8 <= size; at += 8) {
			uint64_t word, offset = (uint64_t)(bytes + at - s->file);

			if (offset >= headers.start && offset < headers.end)
				continue;
			memcpy(&word, bytes + at, sizeof(word));
			refer(s, word);
		}
		if (segments[i].executable)
			s->arch->scan(bytes, size, segments[i].address, &scan);
	}
	search_tables(s);
	guards = sdt_guards(s->object, &count);
	for (size_t i = 0; i < count; i++)
		refer(s, guards[i].label);
	for (size_t i = 0; i < s->windows.count && s->arch->scan_function; i++) {
		struct object_range range = s->functions[i].range;
		size_t size;
		const uint8_t *bytes = range_bytes(s, range, &size);

		if (bytes && (!i || s->functions[i - 1].range.start != range.start))
			s->arch->scan_function(bytes, size, range.start, &scan);
	}
}

/* ---- Short branches ------------------------------------------------------------ */

/* Returns true if the function, decoded from its start, has a branch into the window. */
static bool function_enters(
	const struct word_search *s, const struct proof *proof, const struct object_range *range)
{
	const struct plan *plan = proof->plan;
	size_t size, at = 0;
	const uint8_t *bytes = range_bytes(s, *range, &size);

	if (!bytes)
		return true;
	while (at < size && range->start + at < plan->pc + proof->window + s->arch->short_reach) {
		struct arch_insn insn;

		if (!s->arch->decode(bytes + at, size - at, range->start + at, &insn))
			return true;
		if ((insn.flow == ARCH_FLOW_BRANCH || insn.flow == ARCH_FLOW_JUMP) &&
			insn.target > plan->pc && insn.target < plan->pc + proof->window)
			return true;
		/*
		 * If an instruction contains the site but begins before it, the decoding is wrong.
		 */
		if (proof->need && range->start + at < plan->pc &&
			range->start + at + insn.length > plan->pc)
			return true;
		at += insn.length;
	}
	return false;
}

/*
 * Finds code around an address to decode from its start: the function or, if no table lists one
 * (the C runtime's start-up code), the range between functions. Returns false if the range is too
 * large.
 */
static bool decodable_range(struct word_search *s, uint64_t address, struct object_range *ret)
{
	const struct object_segment *segment = object_segment_of(s->object, address);
	struct object_function function;
	uint64_t at;

	if (object_function_at(s->object, address, &function)) {
		*ret = function.range;
		return true;
	}
	if (!segment)
		return false;
	/* Without its tables, a file may have thousands of sites in one range. */
	if (address < s->gap.start || address >= s->gap.end)
		s->gap = (struct object_range){address, address};
	for (at = s->gap.start; at > segment->address && address - at < GAP_MAX; at--)
		if (object_function_at(s->object, at - 1, &function))
			break;
	s->gap.start = at;
	for (at = s->gap.end; at < segment->address + segment->file_size && at - address < GAP_MAX;
		at++)
		if (object_function_at(s->object, at, &function))
			break;
	s->gap.end = at;
	*ret = s->gap;
	return ret->end - address < GAP_MAX && address - ret->start < GAP_MAX;
}

/*
 * Looks for bytes at any offset that look like a short branch into a window. If it finds some,
 * decodes the function, and counts only branches that the decoder finds.
 */
static const char *check_short_branches(struct word_search *s, const struct proof *proof)
{
	const struct plan *plan = proof->plan;
	const struct object_segment *segment = object_segment_of(s->object, plan->pc);
	struct object_range range = {0};
	uint64_t start, end, reach = s->arch->short_reach;
	const uint8_t *bytes;
	size_t size;

	bytes = segment ? segment_bytes(s, segment, &size) : NULL;
	if (!bytes || size < 2)
		return entered_short;
	start = plan->pc - segment->address > reach ? plan->pc - reach : segment->address;
	end = plan->pc + proof->window + reach;
	if (end > segment->address + size - 1)
		end = segment->address + size - 1;
	for (uint64_t at = start; at < end; at++) {
		uint64_t target;

		if (!s->arch->short_branch(bytes + (at - segment->address), at, &target) ||
			target <= plan->pc || target >= plan->pc + proof->window)
			continue;
		if (at >= range.start && at < range.end)
			continue; /* this function was searched already, for an earlier candidate */
		if (!decodable_range(s, at, &range) || function_enters(s, proof, &range))
			return entered_short;
	}
	return NULL;
}

/* ---- Exceptions ------------------------------------------------------------------ */

struct landing {
	const struct plan *plan;
	uint8_t length; /* length of the window, in bytes */
	bool found;
};

static void on_landing_pad(uint64_t address, void *data)
{
	struct landing *landing = data;

	if (address > landing->plan->pc && address < landing->plan->pc + landing->length)
		landing->found = true;
}

static const char *check_landing_pads(const struct word_search *s, const struct proof *proof)
{
	const struct plan *plan = proof->plan;
	struct landing landing = {.plan = plan, .length = proof->window};
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
		return "the bytes after the site cannot be decoded";
	case ARCH_MOVE_TRUNCATED:
		return "the code ends after the site";
	case ARCH_MOVE_CALL_INSIDE:
		return "a call returns to the bytes after the site";
	case ARCH_MOVE_FLOW_INSIDE:
		/*
		 * Padding behind a jump or return may be overwritten unless something leads to it.
		 */
		return moved->padding ? NULL : "a jump or return follows the site";
	case ARCH_MOVE_UNSUPPORTED:
		return "an instruction after the site cannot run elsewhere";
	case ARCH_MOVE_OUT_OF_REACH:
		return "an instruction after the site refers to something too far away";
	}
	return "the instructions after the site cannot be moved";
}

/* Orders by address, then by the window's length. */
static int compare_proofs(const void *a, const void *b)
{
	const struct proof *x = a, *y = b;

	if (x->plan->pc != y->plan->pc)
		return x->plan->pc < y->plan->pc ? -1 : 1;
	if (x->window != y->window)
		return x->window < y->window ? -1 : 1;
	return (int)x->move->offset - (int)y->move->offset;
}

/*
 * Returns true if a site is in [start, end). Its bytes must not move, because another tool's
 * breakpoint there would be inside our jump.
 */
static bool has_another_site(const struct word_search *s, uint64_t start, uint64_t end)
{
	size_t first = array_search(s->sites, s->site_count, sizeof(*s->sites), 0, start);

	return first < s->site_count && s->sites[first] < end;
}

/*
 * Returns a bit set of offsets inside the instructions to move, except the offset after a prefix: a
 * branch may skip a prefix, as glibc skips `lock`.
 */
static uint64_t find_inside(
	const struct word_search *s, const struct proof *proof, const struct arch_moved *moved)
{
	const struct plan_way *move = proof->move;
	uint64_t inside = 0;

	for (size_t i = 0; i < moved->count; i++) {
		size_t from = move->offset + moved->from_offset[i];
		size_t end = move->offset + (i + 1 < moved->count ? moved->from_offset[i + 1]
								  : moved->length - moved->padding);
		const uint8_t *bytes = proof->plan->bytes + from;

		if (s->arch->prefix_length)
			from += s->arch->prefix_length(bytes, end - from);
		for (from++; from < end && from < INSIDE_BITS; from++)
			inside |= UINT64_C(1) << from;
	}
	return inside;
}

/* Finds out whether the instructions after a site can run at another address. */
static void try_move(const struct word_search *s, struct proof *proof)
{
	const struct plan *plan = proof->plan;
	struct plan_way *move = proof->move;
	uint64_t at = plan->pc + move->offset;
	struct arch_moved moved = {0};

	/* The copy's address is unknown: assume one near the original. */
	move->cannot = move_reason(
		s->arch->move(plan->bytes + move->offset, plan->byte_count - move->offset, at,
			at + (1 << 20), proof->need, &moved),
		&moved);
	move->length = moved.length;
	/* Only after a site is it certain where instructions begin, not before it. */
	if (!move->cannot && !proof->margin)
		proof->inside = find_inside(s, proof, &moved);
	/* A note at pc itself belongs to this site, so look only behind it. */
	if (!move->cannot && (has_another_site(s, at > plan->pc ? at : at + 1, at + move->length) ||
				     has_another_site(s, at - proof->margin, at)))
		move->cannot = another_site;
}

/* Nothing in the file may lead to a function, and yet another file or a debugger may call it. */
static const char *check_starts(const struct word_search *s, const struct proof *proof)
{
	struct object_range inside = {proof->plan->pc + 1, proof->plan->pc + proof->window};

	return object_function_starts(s->object, inside) ? function_starts : NULL;
}

/* Unwinders know a signal frame by the code to which the handler returns, and compare its bytes. */
static const char *check_signal_return(const struct word_search *s, const struct proof *proof)
{
	const struct arch_process *process = s->arch->process;
	uint64_t start = proof->plan->pc + (uint64_t)proof->move->offset;
	uint64_t end = proof->plan->pc + proof->window;
	const struct object_segment *segment = object_segment_of(s->object, start);
	uint64_t around = process ? process->sigreturn_bytes - 1U : 0;
	struct arch_gadgets found = {0};
	struct object_range range;
	const uint8_t *bytes;
	size_t size;

	if (!around || !segment)
		return NULL;
	range.start = start - segment->address > around ? start - around : segment->address;
	range.end = end + around;
	bytes = range_bytes(s, range, &size);
	if (bytes)
		process->find_gadgets(bytes, size, range.start, &found);
	return found.sigreturn ? signal_return : NULL;
}

/* Answers sorted questions in one search. */
static struct probe_error *prove_windows(struct word_search *s, struct proof *proofs, size_t count)
{
	AUTO_FREE uint64_t *sites = calloc(count, sizeof(*sites));
	AUTO_FREE struct around *functions = calloc(count, sizeof(*functions));
	uint8_t longest = 0;

	if (!sites || !functions)
		return probe_error_no_memory();
	s->functions = functions;
	s->proofs = proofs;
	for (size_t i = 0; i < count; i++) {
		if (proofs[i].need)
			try_move(s, &proofs[i]);
		sites[i] = proofs[i].plan->pc;
		longest = proofs[i].window > longest ? proofs[i].window : longest;
		/* A range that is too large counts as having an indirect jump. */
		if (!decodable_range(s, sites[i], &functions[i].range))
			functions[i].jumps = JUMPS_INDIRECTLY;
	}
	arch_windows_init(&s->windows, sites, count, longest);
	search_object(s);
	for (size_t i = 0; i < count; i++) {
		struct plan_way *move = proofs[i].move;

		if (!move->cannot && s->arch->short_branch)
			move->cannot = check_short_branches(s, &proofs[i]);
		if (!move->cannot)
			move->cannot = check_landing_pads(s, &proofs[i]);
		if (!move->cannot)
			move->cannot = check_starts(s, &proofs[i]);
		if (!move->cannot)
			move->cannot = check_signal_return(s, &proofs[i]);
		if (move->cannot)
			move->length = 0;
	}
	return s->no_memory ? probe_error_no_memory() : NULL;
}

struct probe_error *prove(struct object *object, const struct arch *arch,
	const struct sdt_notes *notes, struct proof *proofs, size_t count)
{
	struct word_search *s = calloc(1, sizeof(*s));
	struct probe_error *error;
	size_t distinct = 0, guard_count;
	const struct sdt_guard *guards = sdt_guards(object, &guard_count);

	if (!s)
		return probe_error_no_memory();
	s->object = object;
	s->arch = arch;
	error = object_load(object, &s->file, &s->file_size);
	s->sites = calloc(notes->count + guard_count + 1, sizeof(*s->sites));
	if (!error && !s->sites)
		error = probe_error_no_memory();
	for (; !error && s->site_count < notes->count; s->site_count++)
		s->sites[s->site_count] = notes->notes[s->site_count].pc;
	for (size_t i = 0; !error && i < guard_count; i++)
		s->sites[s->site_count++] = guards[i].pc;
	array_sort(s->sites, s->site_count, sizeof(*s->sites), 0);
	/*
	 * Move the first question about each address to the front. Several notes may name one
	 * address, because linkers fold identical functions.
	 */
	qsort(proofs, count, sizeof(*proofs), compare_proofs);
	for (size_t i = 0; i < count; i++) {
		struct proof proof = proofs[i];

		if (distinct && compare_proofs(&proofs[distinct - 1], &proof) == 0)
			continue;
		proofs[i] = proofs[distinct];
		proofs[distinct++] = proof;
	}
	if (!error && distinct)
		error = prove_windows(s, proofs, distinct);
	for (size_t i = distinct; i < count && !error; i++) {
		const struct proof *same =
			bsearch(&proofs[i], proofs, distinct, sizeof(*proofs), compare_proofs);

		*proofs[i].move = *same->move;
	}
	free(s->sites);
	free(s->tables);
	free(s);
	return error;
}
