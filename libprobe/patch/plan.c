/* SPDX-License-Identifier: MIT */
/*
 * Finds out which plans a site's bytes allow, although other tools may use the site, too.
 *
 * Kernel uprobes (perf, bpftrace, SystemTap) and debuggers put a breakpoint on the nop. When a
 * thread hits the breakpoint, the instruction that the *file* has there is executed elsewhere, and
 * the thread continues at the end of that instruction:
 *
 *	site:	nop	or a breakpoint, while another tool uses it
 *	back:	jump	ours, where a thread continues in both cases	(behind)
 *
 * If a jump of ours began at the nop itself, such a thread would enter the jump at its second byte,
 * and the target would crash. So the jump is written after the nop, over instructions that are
 * moved. A longer nop stays, too, and the jump is written after it: while the kernel has a uprobe
 * on a nop of five or ten bytes, it turns the nop into a call of its own (arch_uprobe_optimize(),
 * arch/x86/kernel/uprobes.c; Linux 6.18 and later). usdt.h writes a nop of one byte and a longer
 * nop, and the kernel may use either. So these nops may hold any bytes; that is no reason to refuse
 * a site.
 *
 * If the instructions after the nop must stay, a pun changes only the first byte of the nop. If
 * another tool puts a breakpoint on this byte, our byte is gone, and a thread that hits the
 * breakpoint continues at the next instruction of the file. Then no hit is counted until we write
 * our byte again. A pun must not rely on the nop of another site: a breakpoint on that nop would
 * change the target of the jump.
 *
 * Sites may be adjacent, one nop after another. Each nop may have another tool's breakpoint, so all
 * nops stay, and one jump after the last nop serves all these sites (libprobe/patch/neighbours.c).
 * This is correct if no branch leads to an address right after one of the nops: then a thread that
 * reaches the jump has passed all the nops. Rows of short nops may be long (see "Rows" below). Rows
 * with longer nops between the short ones have up to PLAN_NOPS_MAX bytes.
 *
 * A jump over a long nop is a pun, too, if another tool may use the nop as a site. When the kernel
 * removes its uprobe, it restores one byte of the nop, or all bytes if it had rewritten all. So the
 * bytes of our jump must form a nop with the restored byte (arch/x86/x86_64.c).
 *
 * If a jump does not fit after the nop, a short jump may fit. The short jump leads to unused bytes
 * near by, which hold the full jump (libprobe/patch/plans/hop.c):
 *
 *	site:	nop
 *		short jump ---.	   over two bytes or more that can be moved
 *	other:	...	      |
 *		ret	      |
 *	spare:	jump <--------'	   in the padding between two functions
 *
 * If a short jump does not fit either, two jumps may share bytes, or a jump may end in the code's
 * own bytes (libprobe/patch/plans/tight.c).
 *
 * OCaml's own tools write the toggle after the nop at any moment. So the jump that traces an OCaml
 * site is before the nop (libprobe/patch/plans/before.c). If that is impossible, the toggle becomes
 * a call of our code: OCaml's tools do not touch the bytes after the toggle.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/patch/patch.h"

/* ==== Rows ==================================================================================== */

/*
 * A test program may have hundreds of sites in a row. A separate proof for each site, over all
 * bytes up to the jump, would need one search of the file for each length:
 *
 *	site 1		nop
 *	site 2		nop	nothing may enter here, or site 1 cannot share the jump,
 *	site 3		nop	nor here, or neither site 1 nor site 2 can share it
 *	site 3 + 1	jump	the proof of site 3, as if it were alone
 *
 * So only the last site of each row is planned. One search then answers, for all other sites,
 * whether anything enters right after them. The plan of such a site is the plan of the last site of
 * its row, with changed offsets.
 */

/* ---- Finding -------------------------------------------------------------------------- */

/* Lists the sites of all notes; several notes may have one address. */
static bool list_sites(struct rows *rows, const struct sdt_notes *all)
{
	rows->sites = calloc(all->count + 1, sizeof(*rows->sites));
	if (!rows->sites)
		return false;
	for (size_t i = 0; i < all->count; i++)
		rows->sites[i] = (struct row_site){.pc = all->notes[i].pc,
			.note = &all->notes[i],
			.is_plain = all->notes[i].kind == SDT_NOP,
			.planned = SIZE_MAX};
	ARRAY_SORT(rows->sites, all->count, pc);
	for (size_t i = 0; i < all->count; i++) {
		struct row_site *before = rows->count ? &rows->sites[rows->count - 1] : NULL;

		if (before && before->pc == rows->sites[i].pc)
			before->is_plain &= rows->sites[i].is_plain;
		else
			rows->sites[rows->count++] = rows->sites[i];
	}
	return true;
}

static bool rows_is_short_nop(struct object *object, const struct arch *arch, uint64_t pc)
{
	const struct object_segment *segment = object_segment_of(object, pc);
	uint8_t bytes[ARCH_INSN_MAX];
	size_t size =
		segment && segment->executable ? object_read(object, pc, bytes, sizeof(bytes)) : 0;

	return arch->site_nop < arch->jump_length &&
	       arch->nop_length(bytes, size) == arch->site_nop;
}

static size_t find_site(const struct rows *rows, uint64_t pc)
{
	size_t i = ARRAY_SEARCH(rows->sites, rows->count, pc, pc);

	return i < rows->count && rows->sites[i].pc == pc ? i : SIZE_MAX;
}

/* Adds a note (in a row: of its last site) to rows->notes, once. Returns its index. */
static size_t list_note(struct rows *rows, const struct sdt_note *note)
{
	size_t i = note->kind == SDT_NOP ? find_site(rows, note->pc) : SIZE_MAX;
	struct row_site *last;

	if (i == SIZE_MAX || !rows->sites[i].is_plain) {
		rows->notes[rows->note_count] = note;
		return rows->note_count++;
	}
	last = &rows->sites[rows->sites[i].last];
	if (last->planned == SIZE_MAX) {
		last->planned = rows->note_count;
		rows->notes[rows->note_count++] = last->note;
	}
	return last->planned;
}

/*
 * Finds the rows in `all`, and the notes to plan for the requested ones. The caller frees the
 * arrays, even after an error. Errors: PROBE_ERROR_MEMORY.
 */
static struct probe_error *rows_init(struct object *object, const struct arch *arch,
	const struct sdt_notes *all, const struct sdt_note *const *notes, size_t count,
	struct rows *ret)
{
	*ret = (struct rows){.notes = calloc(count + 1, sizeof(*ret->notes)),
		.planned = calloc(count + 1, sizeof(*ret->planned))};
	if (!ret->notes || !ret->planned || !list_sites(ret, all))
		return probe_error_no_memory();
	/*
	 * Find the last site of each row. A row that is too long has several parts; only the last
	 * can have a jump, because a site follows each of the others.
	 */
	for (size_t i = ret->count; i-- > 0;) {
		struct row_site *site = &ret->sites[i], *next = site + 1;

		site->last = i;
		if (i + 1 < ret->count && next->pc - site->pc == arch->site_nop && site->is_plain &&
			next->is_plain && ret->sites[next->last].pc - site->pc < PLAN_ROW_MAX &&
			rows_is_short_nop(object, arch, site->pc) &&
			rows_is_short_nop(object, arch, next->pc))
			site->last = next->last;
	}
	for (size_t i = 0; i < count; i++)
		ret->planned[i] = list_note(ret, notes[i]);
	return NULL;
}

/* ---- Proving -------------------------------------------------------------------------- */

/*
 * Proves that nothing enters between the nops of rows with planned last sites. Errors: as prove().
 */
static struct probe_error *rows_prove(struct planning *p, struct rows *rows)
{
	/* Only the addresses in these plans are used. */
	AUTO_FREE struct plan *plans = calloc(rows->count + 1, sizeof(*plans));
	struct probe_error *error;

	if (!plans)
		return probe_error_no_memory();
	for (size_t i = 0; i < rows->count; i++) {
		const struct row_site *site = &rows->sites[i];

		plans[i].pc = site->pc;
		if (site->last != i && rows->sites[site->last].planned != SIZE_MAX)
			plan_ask(p, (struct proof){.plan = &plans[i],
					    .move = &plans[i].behind,
					    .window = (uint8_t)(p->arch->site_nop + 1)});
	}
	error = plan_prove(p);
	for (size_t i = 0; i < rows->count && !error; i++)
		rows->sites[i].cannot = plans[i].behind.cannot;
	/* If a site cannot share the last site's jump, no earlier site can. */
	for (size_t i = rows->count; i-- > 0 && !error;) {
		struct row_site *site = &rows->sites[i];

		if (site->last != i && !site->cannot && site->last != i + 1)
			site->cannot = site[1].cannot;
	}
	for (size_t i = 1; i < rows->count && !error; i++) {
		const struct row_site *before = &rows->sites[i - 1];

		if (before->last == rows->sites[i].last && !before->cannot)
			rows->sites[i].lead =
				(uint16_t)(before->lead + rows->sites[i].pc - before->pc);
	}
	return error;
}

/* ---- Plans ---------------------------------------------------------------------------- */

static struct plan_way *way_of(struct plan *plan, const struct plan_ops *ops)
{
	return (struct plan_way *)((char *)plan + ops->way);
}

/* Turns the way of a row's last site into the way of `site`, `row` bytes before it. */
static void see_move(const struct row_site *site, size_t row, struct plan_way *move)
{
	/* the part of the lead that is before the row */
	size_t lead = move->lead > row ? move->lead - row : 0;

	move->offset = (int16_t)(move->offset + (int)row);
	if (site->cannot) {
		move->cannot = site->cannot;
		move->length = 0;
	}
	move->lead = lead > site->lead ? lead : site->lead;
	if (!move->length)
		move->lead = 0;
}

/* Returns the plan of requested note `i`, from the plans of rows->notes. */
static struct plan rows_plan(
	const struct rows *rows, const struct plan *planned, const struct sdt_note *note, size_t i)
{
	struct plan plan = planned[rows->planned[i]];
	size_t at = note->kind == SDT_NOP ? find_site(rows, note->pc) : SIZE_MAX;
	const struct row_site *site = at == SIZE_MAX ? NULL : &rows->sites[at];

	if (!site || !site->is_plain)
		return plan;
	plan.row = (int16_t)(plan.pc - site->pc);
	plan.pc = site->pc;
	for (size_t k = 0; k < PLAN_COUNT; k++) {
		const struct plan_ops *ops = plan_defaults.plans[k];

		if (ops->follows_nops)
			see_move(site, (size_t)plan.row, way_of(&plan, ops));
		else if (plan.row)
			*way_of(&plan, ops) = (struct plan_way){0}; /* it is the last site's */
	}
	if (!plan.row)
		return plan;
	plan.is_followed = true;
	plan.pun.cannot = plan_in_distance;
	plan.nop_fixed = 0;
	return plan;
}

/* ==== Plan ==================================================================================== */

_Static_assert(PLAN_NOPS_MAX + ARCH_INSN_MAX < PLAN_BYTES, "what is moved has to fit as well");

#define X(constant, number, name) UINT64_C(1) << number
_Static_assert((UINT64_C(1) << PROBE_PLAN_NONE | UINT64_C(1) << PROBE_PLAN_RESERVED |
		       UINT64_C(1) << PROBE_PLAN_REFUSED | PROBE_PLANS(X, |)) ==
		       (UINT64_C(1) << PROBE_PLAN_COUNT) - 1,
	"PROBE_PLANS uses each number below PROBE_PLAN_COUNT once");
#undef X

#define X(constant, number, name) &plan_##name,
const struct plan_order plan_defaults = {.plans = {PROBE_PLANS(X, )}, .count = PLAN_COUNT};
#undef X

/* The plan of sites that older versions patched. No new site gets it. */
static const struct plan_ops plan_reserved = {.id = PROBE_PLAN_RESERVED};

static const char no_nop[] = "the bytes there are not the nop that the note promises";

/* ---- The table ------------------------------------------------------------------------- */

const struct plan_ops *plan_of(unsigned int id)
{
	for (size_t i = 0; i < PLAN_COUNT; i++)
		if (plan_defaults.plans[i]->id == id)
			return plan_defaults.plans[i];
	return id == plan_reserved.id ? &plan_reserved : NULL;
}

enum probe_plan plan_id(const struct plan_ops *ops)
{
	return ops ? ops->id : PROBE_PLAN_REFUSED;
}

const char *probe_plan_name(enum probe_plan plan)
{
	switch (plan) {
	case PROBE_PLAN_NONE:
		break;
	case PROBE_PLAN_RESERVED:
		return "reserved";
	case PROBE_PLAN_REFUSED:
		return "refused";
#define X(constant, number, name)                                                                  \
	case constant:                                                                             \
		return #name;
		PROBE_PLANS(X, )
#undef X
	}
	return "none";
}

enum probe_plan probe_plan_named(const char *name, size_t length)
{
	for (size_t i = 0; i < PLAN_COUNT; i++) {
		enum probe_plan plan = plan_defaults.plans[i]->id;
		const char *its_name = probe_plan_name(plan);

		if (strlen(its_name) == length && memcmp(its_name, name, length) == 0)
			return plan;
	}
	return PROBE_PLAN_NONE;
}

struct plan_order plan_order_of(const enum probe_plan *plans, size_t count)
{
	struct plan_order order = {.count = 0};

	if (!plans)
		return plan_defaults;
	for (size_t i = 0; i < count; i++) {
		const struct plan_ops *ops = plan_of(plans[i]);

		if (ops && ops->way && !plan_is_asked(&order, ops))
			order.plans[order.count++] = ops;
	}
	return order;
}

/* ---- From the bytes ------------------------------------------------------------------ */

/* Returns true for the length of <sys/sdt.h>'s nop, which is too short for a jump. */
static bool is_short_nop(const struct arch *arch, size_t length)
{
	return length == arch->site_nop && length < arch->jump_length;
}

/*
 * Returns the bytes from the site on that may get other tools' breakpoints: its nop, further sites'
 * nops, and usdt.h's long nop. A jump must begin after them.
 */
static size_t nops_length(const struct arch *arch, const struct rows *rows, const struct plan *plan,
	bool *is_followed_ret)
{
	size_t last = plan_nop_at(arch, plan, 0), at = last;

	while (at && at < PLAN_NOPS_MAX) {
		size_t next = plan_nop_at(arch, plan, at);
		bool named = next && rows_have_site(rows, plan->pc + at, 1);

		if (at + next > PLAN_NOPS_MAX ||
			!(named || (next >= arch->jump_length && is_short_nop(arch, last))))
			break;
		at += next;
		last = next;
		if (!named)
			break;
		*is_followed_ret = true;
	}
	return at;
}

/*
 * A gate's site has no nop. Another tool's breakpoint may be on the first instruction, and threads
 * continue after that instruction. So it stays, unless it is as long as a jump, or never falls
 * through.
 */
static void plan_entry(const struct arch *arch, struct plan *plan)
{
	struct arch_insn insn;

	if (arch->can_decode && !arch->can_decode())
		return; /* plan_prove() reports the missing decoder */
	if (!arch->decode(plan->bytes, plan->byte_count, plan->pc, &insn))
		plan->behind.cannot = "the first instruction cannot be decoded";
	else if (insn.flow == ARCH_FLOW_NONE && insn.length < arch->jump_length)
		plan->behind.offset = insn.length;
	else if (insn.length < arch->jump_length &&
		 (insn.flow == ARCH_FLOW_BRANCH || insn.flow == ARCH_FLOW_INDIRECT_CALL))
		plan->behind.cannot = "the first instruction may jump elsewhere and come back";
}

/* Sets all that follows from the bytes at the site, without a search. */
static void plan_bytes(const struct planning *p, struct plan *plan)
{
	const struct arch *arch = p->arch;
	size_t first = plan_nop_at(arch, plan, 0),
	       second = first ? plan_nop_at(arch, plan, first) : 0;

	plan->short_nop = is_short_nop(arch, first);
	plan->behind.offset = (int16_t)nops_length(arch, p->rows, plan, &plan->is_followed);
	if (first >= arch->jump_length)
		plan->nop = (struct plan_way){.relies = (uint8_t)first};
	else if (plan->short_nop && second >= arch->jump_length)
		plan->nop = (struct plan_way){.offset = (int16_t)first, .relies = (uint8_t)second};
	if (!first)
		plan->behind.cannot = no_nop;
	for (size_t i = 0; i < PLAN_COUNT; i++)
		if (plan_defaults.plans[i]->look)
			plan_defaults.plans[i]->look(p, plan);
}

/* ---- Planning -------------------------------------------------------------------------- */

/* Returns a plan with the file's bytes at the site. */
static struct plan read_plan(const struct planning *p, const struct sdt_note *note)
{
	const struct object_segment *segment = object_segment_of(p->object, note->pc);
	struct plan plan = {.pc = note->pc, .ocaml = sdt_is_ocaml(note->kind)};
	uint8_t keep;

	plan.behind.jump = p->arch->jump_length;
	plan.hop.jump = p->arch->short_jump_length;
	if (!segment || !segment->executable)
		return plan;
	plan.byte_count = object_read(p->object, plan.pc, plan.bytes, PLAN_BYTES);
	plan.refused = note->refused || note->kind == SDT_GATE;
	plan.behind.cannot = note->refused;
	if (note->refused)
		return plan;
	plan.is_entry = note->kind == SDT_ENTRY || note->exit == SDT_TAIL_ENTRY;
	plan.start = note->start;
	plan.breaks = note->breaks;
	keep = note->kind == SDT_EXIT	 ? note->entry_keep
	       : note->pc == note->start ? note->keep
					 : ARCH_NO_JUMP;
	plan.entry_end =
		note->start + p->arch->jump_length + (keep == ARCH_NO_JUMP ? PLAN_BYTES : keep);
	if (note->keep == ARCH_NO_JUMP)
		plan.behind.cannot = plan_breakpoint;
	else
		plan.behind.offset = note->keep;
	if (note->keep_short == ARCH_NO_JUMP)
		plan.hop.cannot = plan_breakpoint;
	else
		plan.hop.offset = note->keep_short;
	if (note->kind == SDT_GATE)
		plan_entry(p->arch, &plan);
	else if (note->kind == SDT_EXIT)
		plan.is_exit = !plan.is_entry;
	else if (!plan.is_entry)
		plan_bytes(p, &plan);
	return plan;
}

/* ---- Exits beside entries --------------------------------------------------------------- */

/*
 * A jump at the entry of a short function covers the exit:
 *
 *	start	mov 8(%rdi),%rax	stays
 *		add $7,%rax		jmp entry ------> stubs of the entry ----> add $7,%rax
 *	exit	ret			...		  stubs of the exit <-----'
 *						  \-----> ret
 *
 * Nothing enters between the two, so whatever is at the exit has come by the jump. One patch serves
 * both sites, as in a row (neighbours.c), whichever of them is on.
 */

/* Returns the plan of the entry whose jump would cover the exit of a note; pc is 0 if none does. */
static struct plan read_entry(const struct planning *p, const struct sdt_note *note)
{
	uint64_t jump = note->start + note->entry_keep;
	struct sdt_note entry = *note;

	if (note->kind != SDT_EXIT || note->refused || note->entry_keep == ARCH_NO_JUMP ||
		note->pc == note->start || note->pc - jump >= p->arch->jump_length)
		return (struct plan){0};
	entry.kind = SDT_ENTRY;
	entry.pc = note->start;
	entry.keep = note->entry_keep;
	entry.keep_short = ARCH_NO_JUMP;
	return read_plan(p, &entry);
}

/* Finds the exit among the instructions that move at an entry. */
static void find_exit(const struct arch *arch, struct plan *plan)
{
	struct plan_way *way = &plan->behind;
	struct arch_insn insn;

	if (!plan->is_entry || plan->pc != plan->start || !plan_is_possible(plan, &plan_behind))
		return;
	for (size_t at = 0; at < way->length && !way->has_exit; at += insn.length) {
		size_t from = (size_t)way->offset + at;

		if (!arch->decode(
			    plan->bytes + from, plan->byte_count - from, plan->pc + from, &insn))
			return;
		way->has_exit =
			from && (insn.flow == ARCH_FLOW_RETURN || insn.flow == ARCH_FLOW_JUMP);
		way->exit_at = (uint8_t)at;
	}
}

/* Lets exits share the patches of entries. */
static void join_exits(struct planning *p)
{
	for (size_t i = 0; i < p->count; i++) {
		struct plan *entry = &p->entries[i], *plan = &p->plans[i];
		struct plan_way behind;

		find_exit(p->arch, plan);
		find_exit(p->arch, entry);
		behind = entry->behind;
		if (!behind.has_exit ||
			entry->pc + (uint64_t)behind.offset + behind.exit_at != plan->pc)
			continue;
		entry->row = (int16_t)(entry->pc - plan->pc);
		behind.offset = (int16_t)(behind.offset + entry->row);
		entry->behind = behind;
		entry->pc = plan->pc;
		entry->is_entry = false;
		entry->is_exit = true;
		*plan = *entry;
	}
}

/* Adds earlier sites that could share the jump of plan `of`. Returns false if out of memory. */
static bool find_neighbours(struct planning *p, size_t of)
{
	const struct plan *plan = &p->plans[of];
	uint64_t patch = plan->pc + plan->behind.offset;
	uint64_t reach = plan->pc < PLAN_NOPS_MAX ? plan->pc : PLAN_NOPS_MAX - 1;
	const struct row_site *sites = p->rows->sites;
	size_t i = ARRAY_SEARCH(sites, p->rows->count, pc, plan->pc - reach);

	for (; i < p->rows->count && sites[i].pc < plan->pc; i++) {
		struct plan before;

		/* Another site of the row follows. */
		if (sites[i].last != i)
			continue;
		before = read_plan(p, sites[i].note);
		if (before.behind.cannot || before.pc + before.behind.offset != patch)
			continue;
		if (!ARRAY_ADD(p->neighbours, p->neighbour_count, (struct neighbour){before, of}))
			return false;
	}
	return true;
}

/*
 * Extends the leads to earlier sites whose instructions can move, because then nothing enters up to
 * the jump.
 */
static void take_neighbours(const struct planning *p)
{
	for (size_t i = 0; i < p->neighbour_count; i++) {
		const struct plan *before = &p->neighbours[i].plan;
		struct plan *plan = &p->plans[p->neighbours[i].of];
		uint16_t lead = (uint16_t)(plan->pc - before->pc);

		for (size_t k = 0; k < PLAN_COUNT; k++) {
			const struct plan_ops *ops = plan_defaults.plans[k];
			struct plan_way *way = way_of(plan, ops);

			if (ops->follows_nops && plan_way(before, ops)->length && lead > way->lead)
				way->lead = lead;
		}
	}
}

/* Examines the requested plans, either those with is_last or all others. */
static struct probe_error *examine(struct planning *p, bool last)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < p->order->count && !error; i++)
		if (p->order->plans[i]->examine && p->order->plans[i]->is_last == last)
			error = p->order->plans[i]->examine(p);
	return error;
}

/* Plans rows->notes, and all requested notes by them. */
static struct probe_error *plan_rows(struct planning *p, struct rows *rows,
	const struct sdt_note *const *notes, size_t count, struct plan *ret)
{
	AUTO_FREE struct plan *plans = calloc(rows->note_count + 1, sizeof(*plans));
	AUTO_FREE struct plan *entries = calloc(rows->note_count + 1, sizeof(*entries));
	struct probe_error *error;
	bool follows_nops = false;

	if (!plans || !entries)
		return probe_error_no_memory();
	p->plans = plans;
	p->entries = entries;
	p->count = rows->note_count;
	for (size_t i = 0; i < p->count; i++) {
		plans[i] = read_plan(p, rows->notes[i]);
		entries[i] = read_entry(p, rows->notes[i]);
		if (plans[i].byte_count && !plans[i].ocaml && !plans[i].behind.cannot &&
			rows->notes[i]->kind == SDT_NOP && !find_neighbours(p, i))
			return probe_error_no_memory();
	}
	error = examine(p, false);
	if (!error)
		take_neighbours(p);
	if (!error)
		join_exits(p);
	for (size_t i = 0; i < p->order->count; i++)
		follows_nops |= p->order->plans[i]->follows_nops;
	if (!error && follows_nops)
		error = rows_prove(p, rows);
	for (size_t i = 0; i < count && !error; i++)
		ret[i] = rows_plan(rows, plans, notes[i], i);
	return error;
}

struct probe_error *plan_sites(struct object *object, const struct sdt_notes *all,
	const struct sdt_note *const *notes, size_t count, const struct plan_order *order,
	struct plan *ret)
{
	const struct arch *arch = arch_of_machine(object_machine(object));
	struct rows rows = {0};
	struct planning p = {
		.object = object, .arch = arch, .all = all, .rows = &rows, .order = order};
	struct probe_error *error;

	if (!arch || !arch->scan || !object_is_64bit(object))
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s: probes of this machine type can be listed, not enabled",
			object_path(object));
	error = rows_init(object, arch, all, notes, count, &rows)
			?: plan_rows(&p, &rows, notes, count, ret);
	p.plans = ret;
	p.count = count;
	error = error ?: examine(&p, true);
	free(p.neighbours);
	free(rows.sites);
	free(rows.notes);
	free(rows.planned);
	return error;
}

/* ---- In memory -------------------------------------------------------------------------- */
