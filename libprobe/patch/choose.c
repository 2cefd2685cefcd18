/* SPDX-License-Identifier: MIT */
/*
 * Chooses a plan for each site from the proof in the file (prove.c), the mappings of the process,
 * and the claims of other sites. Sites at one address share a patch (install_site.first).
 */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "arch/process.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/map.h"
#include "libprobe/base/page.h"
#include "libprobe/patch/patch.h"

/* ==== Sequences =============================================================================== */

/*
 * Some programs keep data for each CPU (tcmalloc, librseq), and change the data in restartable
 * sequences. A sequence is a range of code. If its thread is preempted, moved or signalled within
 * the range, the kernel aborts the sequence. After a hit in the middle of a sequence, the thread is
 * outside the range while it runs the stub and the moved instructions, so the kernel does not abort
 * the sequence. Two threads may then change the same data. So a site in such a range is refused.
 * (The kernel's own breakpoints have the same effect.)
 *
 * A range is described by a struct rseq_cs of <linux/rseq.h>. Most of these structs are in a
 * section __rseq_cs, but a program may also fill in a variable. So the search for them reads all
 * data of the module in memory. A description looks like this:
 *
 *	u32 version, flags	0, and a few bits
 *	u64 start		in the module's code
 *	u64 length		bytes from start to the end of the last instruction
 *	u64 abort		in the module's code; the signature is in the 4 bytes before it
 *
 * Pages that the program has not written are read from its file. No description crosses a page,
 * because the kernel's struct is aligned.
 *
 * Descriptions on a stack or on the heap are not found.
 *
 * Sources: rseq(2); include/uapi/linux/rseq.h and rseq_get_rseq_cs() in kernel/rseq.c of Linux;
 * RSEQ_SIG of <sys/rseq.h>, which glibc and librseq have registered.
 */

enum {
	FLAGS_MAX = 7,
	LENGTH_MAX = 1 << 20,
	CHUNK_WORDS = 8192,
	SEGMENT_MAX = 64 << 20 /* at most this many bytes of a segment are searched */
};

/* words of a struct rseq_cs */
enum { VERSION_FLAGS, START, LENGTH, ABORT, WORDS };

struct sequence {
	uint64_t start, end; /* range of addresses in the target */
};

/* Finds sites of a module where no stub may run, whatever the plan. Initialise with {0}. */
struct unfit {
	const struct arch *arch;
	const struct module *module; /* the module of the sites; borrowed */
	struct sequence *sequences;
	size_t count;
	/* Code from a function's start (link-time) where the stack pointer points to a stack. */
	struct object_range harmless;
};

static bool is_code(const struct module *module, uint64_t address)
{
	const struct object_segment *s;

	if (address < module->start || address >= module->end)
		return false;
	s = object_segment_of(module->object, address - module->bias);
	return s && s->executable;
}

static bool is_sequence(pid_t pid, const struct module *module, const uint64_t *words)
{
	uint32_t signature;

	if ((uint32_t)words[VERSION_FLAGS] || words[VERSION_FLAGS] >> 32 > FLAGS_MAX ||
		!words[LENGTH] || words[LENGTH] > LENGTH_MAX || !is_code(module, words[START]) ||
		!is_code(module, words[ABORT]) || words[ABORT] - words[START] < words[LENGTH])
		return false;
	return memory_read(pid, words[ABORT] - sizeof(signature), &signature, sizeof(signature)) ==
		       sizeof(signature) &&
	       signature == arch_process()->rseq_signature;
}

/* Searches a segment in pieces that overlap, because a description may cross their ends. */
static struct probe_error *search_segment(struct unfit *u, int pagemap, struct served *known,
	const struct object_segment *segment, uint64_t *buffer)
{
	const size_t chunk = CHUNK_WORDS * sizeof(*buffer), overlap = (WORDS - 1) * sizeof(*buffer);
	const struct module *module = u->module;
	uint64_t at = (segment->address + module->bias + 7) & ~UINT64_C(7);
	uint64_t size = segment->size < SEGMENT_MAX ? segment->size : SEGMENT_MAX;
	uint64_t end = segment->address + module->bias + size;
	uint64_t file_end = page_after(segment->address + module->bias + segment->file_size);

	while (at < end && end - at > overlap) {
		size_t run = end - at < chunk ? end - at : chunk, got;
		bool is_there = true;

		if (at >= file_end)
			run = memory_run(pagemap, at, run, &is_there);
		else if (file_end - at < run)
			run = file_end - at;
		got = is_there ? memory_read_known(known, at, buffer, run) / sizeof(*buffer) : 0;
		for (size_t i = 0; i + WORDS <= got; i++) {
			uint64_t start = buffer[i + START];

			if (!is_sequence(known->pid, module, buffer + i))
				continue;
			if (!ARRAY_ADD(u->sequences, u->count,
				    (struct sequence){start, start + buffer[i + LENGTH]}))
				return probe_error_no_memory();
		}
		at += is_there && run > overlap + 7 ? (run - overlap) & ~(size_t)7
						    : (run + 7) & ~(size_t)7;
	}
	return NULL;
}

/*
 * Finds the sequences that the module's data in memory describes at this moment, as far as the data
 * is readable. Errors: PROBE_ERROR_MEMORY.
 */
static struct probe_error *read_sequences(struct unfit *u, pid_t pid)
{
	/*
	 * Descriptions hold addresses, so read-only data of a file that can be mapped anywhere has
	 * no descriptions.
	 */
	bool is_fixed = object_type(u->module->object) == ET_EXEC;
	AUTO_FREE uint64_t *buffer = calloc(CHUNK_WORDS, sizeof(*buffer));
	const struct object_segment *segments;
	struct probe_error *error = NULL;
	AUTO(served_end) struct served known = served_of(pid);
	size_t count;
	AUTO_FD int pagemap = -1;

	if (!buffer)
		return probe_error_no_memory();
	pagemap = memory_open_pagemap(pid);
	segments = object_segments(u->module->object, &count);
	for (size_t i = 0; i < count && !error; i++)
		if (!segments[i].executable && (segments[i].writable || is_fixed))
			error = search_segment(u, pagemap, &known, &segments[i], buffer);
	return error;
}

/* ==== Unfit =================================================================================== */

enum { FUNCTION_MAX = 1 << 20 };

/* Asks a predicate about the file's bytes in [start, end). True also if they are unreadable. */
static bool does(const struct unfit *u, bool (*question)(const uint8_t *bytes, size_t length),
	uint64_t start, uint64_t end)
{
	size_t size = end - start;
	AUTO_FREE uint8_t *bytes = malloc(size);

	return !bytes || object_read(u->module->object, start, bytes, size) != size ||
	       question(bytes, size);
}

/*
 * Returns true if the stack pointer may not point to a stack at `pc`, judged by the code from the
 * function's start (false if the start is unknown). A function may have thousands of sites, so code
 * is searched once.
 */
static bool loses_stack(struct unfit *u, uint64_t pc)
{
	struct object *object = u->module->object;
	uint64_t address = pc - u->module->bias, start = address;
	uint64_t from;
	struct object_function function;

	if (object_function_at(object, address, &function))
		start = function.range.start;
	else if (!object_symbol_at(object, address, &start))
		return false;
	if (start >= address || address - start > FUNCTION_MAX)
		return false;
	if (u->harmless.start != start)
		u->harmless = (struct object_range){start, start};
	if (address <= u->harmless.end)
		return false;
	/* The last instruction may end after the searched code. */
	from = u->harmless.end - start > ARCH_INSN_MAX ? u->harmless.end - ARCH_INSN_MAX : start;
	if (does(u, u->arch->may_lose_stack, from, address))
		return does(u, u->arch->loses_stack, start, address);
	u->harmless.end = address;
	return false;
}

/* Returns why no stub may run at an address, or NULL. */
static const char *unfit_reason(struct unfit *unfit, uint64_t pc)
{
	for (size_t i = 0; i < unfit->count; i++)
		if (pc >= unfit->sequences[i].start && pc < unfit->sequences[i].end)
			return "it is in a restartable sequence of the program (rseq(2)), which a "
			       "probe would keep from being aborted";
	if (unfit->arch->loses_stack && loses_stack(unfit, pc))
		return "the stack pointer points to no stack there";
	return NULL;
}

/* Drops a plan's spares where code in a restartable sequence would have to move. */
static void drop_unfit(const struct unfit *unfit, struct plan *plan)
{
	uint64_t jump = unfit->arch->jump_length, bias = unfit->module->bias;
	uint8_t kept = 0;

	for (size_t k = 0; k < plan->spare_count; k++) {
		uint64_t start = plan->spares[k] + bias - jump;
		bool fits = true;

		for (size_t i = 0; i < unfit->count && plan->made[k]; i++)
			fits &= start >= unfit->sequences[i].end ||
				start + plan->made[k] <= unfit->sequences[i].start;
		plan->spares[kept] = plan->spares[k];
		plan->made[kept] = plan->made[k];
		kept += fits;
	}
	plan->spare_count = kept;
}

/* ==== Known =================================================================================== */

/* The plans of a file's sites. They stay with the file, because many processes may map it. */

#define PLAN_KEY(note, order)                                                                      \
	MAP_KEY(MAP_OBJECT((note)->pc), MAP_OBJECT((note)->kind),                                  \
		{(order)->plans, (order)->count * sizeof(*(order)->plans)})

/* ==== Choose ================================================================================== */

static const char is_shared[] =
	"it is mapped shared: a patch would change the file, and every process that has it mapped";
static const char is_copied[] = "the program has copied this code to shared memory: a patch would "
				"change it in every process that has it mapped";
static const char has_shared_semaphore[] = "its semaphore is mapped shared: raising it would "
					   "change the file, and every process that has it mapped";
static const char not_all_exits[] = "not all exits of the function can be patched";
static const char tail_calls[] = "it returns in another function, which only tracers notice";
static const char changed[] =
	"the memory there does not hold what the file holds: another tool may have patched it, or "
	"the file has changed since";

/* ---- Planning --------------------------------------------------------------------- */

/* Returns why a site in shared memory cannot be patched, or NULL if its memory is private. */
static const char *why_shared(const struct install *a, size_t site)
{
	uint64_t pc = a->selection->sites[site].pc;

	if (!maps_is_shared(&a->change->maps, pc))
		return NULL;
	return module_has_mapping(install_module(a, site), maps_find(&a->change->maps, pc))
		       ? is_shared
		       : is_copied;
}

/* Returns true if a patch may replace more than one instruction at this site. */
static bool has_boundary(
	const struct install *a, const struct select_site *site, const struct plan_way *way)
{
	const uint8_t *bytes;
	struct arch_insn insn;
	size_t size;

	if (way->offset < 0 || !way->length)
		return way->length > 0;
	size = plan_code(site->plan, way->offset, &bytes);
	return !a->change->arch->decode(bytes, size, site->pc + (uint64_t)way->offset, &insn) ||
	       insn.length < way->jump;
}

/*
 * Returns why a plan that the file allows is impossible in this process, or NULL. `found`: the
 * bytes in memory from plan_bytes_before() before the site on, or NULL if unreadable.
 */
static const char *check_plan(
	struct install *a, size_t i, const struct plan_ops *plan, const uint8_t *found)
{
	const struct select_site *site = &a->selection->sites[i];
	struct install_site *as = &a->sites[i];
	struct claim claim = claim_of_plan(site, plan);
	const char *reason = NULL;

	as->entry = as->hop = as->made = 0;
	as->twin = (struct arch_twin){0};
	if (!claims_have_jump(&a->claims, site, plan))
		reason = claims_meet(&a->claims, claim);
	if (reason)
		return reason;
	if (maps_is_shared(&a->change->maps, claim.start))
		return is_shared;
	found += found ? plan_bytes_before(site->plan) - plan_starts_before(site->plan, plan) : 0;
	if (!found || !plan_holds(a->change->arch, site->plan, plan, found)) {
		*(found ? &a->change->differs : &a->change->gone) = true;
		return changed;
	}
	if (page_is_crossed(claim.start, claim.written_end - claim.start))
		return plan_crosses;
	if (has_boundary(a, site, plan_way(site->plan, plan)))
		reason = windows_reason(&a->transaction->windows, a->change);
	return reason || !plan->take ? reason : plan->take(a, i);
}

/* Chooses a plan for a site that is not patched. `found` is as for check_plan(). */
static struct probe_error *choose(
	struct install *a, size_t i, const struct plan_order *order, const uint8_t *found)
{
	struct select_site *site = &a->selection->sites[i];
	struct install_site *as = &a->sites[i];

	site->chosen = NULL;
	for (size_t k = 0; k < order->count && !site->chosen; k++) {
		const struct plan_ops *plan = order->plans[k];
		bool is_possible = plan_is_possible(site->plan, plan);
		const char *reason;

		/* This plan only switches the program's own handler: see transaction.c. */
		if (is_possible && plan->is_switch)
			continue;
		reason =
			is_possible ? check_plan(a, i, plan, found) : plan_reason(site->plan, plan);
		if (is_possible && !reason)
			site->chosen = plan;
		if (reason)
			select_add_reason(site, reason);
	}
	if (site->chosen) {
		struct claim claim = claim_of_plan(site, site->chosen);

		as->write_start = claim.start;
		as->write_end = claim.written_end;
	}
	if (a->alone) {
		a->puns.page_count = 0;
		code_release_all(&a->change->taken);
	} else if (site->chosen) {
		return claims_take(a->change->arch, &a->claims, site, as->hop)
			       ? NULL
			       : probe_error_no_memory();
	}
	if (!site->chosen && !site->reasons[0])
		select_add_reason(site, plan_impossible(site->plan));
	return NULL;
}

/* Reads the memory at the sites to be planned, in ascending order. */
static struct probe_error *read_found(const struct install *a, const struct plan *plans,
	const size_t *sites, size_t count, struct edits *found)
{
	for (size_t i = 0; i < count; i++)
		if (!edits_add(found,
			    a->selection->sites[sites[i]].pc - plan_bytes_before(&plans[i]),
			    plan_bytes_before(&plans[i]) + (size_t)plans[i].row +
				    plans[i].byte_count))
			return probe_error_no_memory();
	return edits_prepare(found) ?: edits_read(found, a->change->pid);
}

struct probe_error *install_plan_notes(struct module *module, const struct sdt_note *const *notes,
	size_t count, const struct plan_order *order, struct plan *ret)
{
	struct file *file = module->file;
	struct probe_error *error;
	size_t known = 0;

	/* An emulator runs code of another machine, but our jump would be for the host. */
	if (arch_of_machine(object_machine(module->object)) != arch_host())
		return probe_error_new(PROBE_ERROR_UNSUPPORTED,
			"%s: it is code of another machine type than the process: its probes can "
			"be listed, not enabled",
			module->path);
	if (!file)
		return plan_sites(module->object, &module->notes, notes, count, order, ret);
	for (; known < count; known++) {
		const struct plan *plan = map_find(&file->plans, PLAN_KEY(notes[known], order));

		if (!plan)
			break;
		ret[known] = *plan;
	}
	if (known == count)
		return NULL;
	error = plan_sites(file->object, &file->notes, notes, count, order, ret);
	/* Without memory, a plan is not kept. */
	for (size_t i = 0; i < count && !error; i++) {
		struct plan *plan = map_add(&file->plans, sizeof(*plan), PLAN_KEY(notes[i], order));

		if (plan)
			*plan = ret[i];
	}
	return error;
}

/* Chooses plans for unpatched sites of a module, in ascending order. */
static struct probe_error *choose_all(
	struct install *a, const size_t *sites, size_t count, const struct plan_order *order)
{
	struct selection *s = a->selection;
	struct module *module = install_module(a, sites[0]);
	AUTO_FREE const struct sdt_note **notes = calloc(count, sizeof(*notes));
	AUTO_FREE struct plan *plans = calloc(count, sizeof(*plans));
	AUTO(edits_deinit) struct edits found = {0};
	struct unfit unfit = {.arch = a->change->arch, .module = module};
	struct probe_error *error = notes && plans ? NULL : probe_error_no_memory();

	for (size_t i = 0; i < count && !error; i++)
		notes[i] = s->sites[sites[i]].note;
	error = error
		?: install_plan_notes(module, notes, count, order, plans)
		?: read_found(a, plans, sites, count, &found)
		?: read_sequences(&unfit, a->change->pid);
	for (size_t k = 0; k < 2 * count && !error; k++) {
		size_t i = k % count;
		struct select_site *site = &s->sites[sites[i]];
		size_t before = plan_bytes_before(&plans[i]);
		const char *reason;

		if (plan_takes_spare(a->change->arch, &plans[i], order) != (k >= count))
			continue;
		reason = unfit_reason(&unfit, site->pc);
		if (!reason && before)
			reason = unfit_reason(&unfit, site->pc - before);
		if (!reason)
			reason = why_shared(a, sites[i]);
		*site->plan = plans[i];
		drop_unfit(&unfit, site->plan);
		if (reason)
			select_add_reason(site, reason);
		else
			error = choose(a, sites[i], order, edits_found(&found, i));
	}
	free(unfit.sequences);
	return error;
}

/*
 * Tries plans with is_last, once each, for sites with a short nop and without a plan. Few need
 * them, and each proof searches the whole file again. Overwrites `sites`.
 */
static struct probe_error *choose_last(
	struct install *a, size_t *sites, size_t count, const struct plan_order *order)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < order->count && !error; i++) {
		size_t again = 0;
		struct plan_order only = {.plans = {order->plans[i]}, .count = 1};

		if (!order->plans[i]->is_last)
			continue;
		for (size_t k = 0; k < count; k++) {
			const struct select_site *s = &a->selection->sites[sites[k]];
			const struct plan_way *way = plan_way(s->plan, order->plans[i]);

			if (!s->chosen && (s->plan->short_nop || s->plan->is_exit) &&
				!s->plan->ocaml && !way->length && !way->cannot)
				sites[again++] = sites[k];
		}
		if (again)
			error = choose_all(a, sites, again, &only);
		count = again;
	}
	return error;
}

/* Plans the unpatched sites among order[first..end), which are of one module. */
static struct probe_error *plan_module(struct install *a, size_t first, size_t end)
{
	struct selection *s = a->selection;
	struct plan_order order = plan_order_of(a->request->plans, a->request->plan_count);
	AUTO_FREE size_t *sites = calloc(end - first, sizeof(*sites));
	struct module *module = install_module(a, a->order[first]);
	struct probe_error *error = module_read_notes(module);
	size_t count = 0;

	if (!error && (!sites || !claims_add_guards(&a->claims, a->change->arch, module)))
		error = probe_error_no_memory();
	for (size_t i = first; !error && i < end; i++) {
		if (!a->sites[a->order[i]].is_new || a->sites[a->order[i]].first != a->order[i])
			continue;
		sites[count++] = a->order[i];
		select_refuse(&s->sites[a->order[i]], module->reason);
	}
	count = module->object ? count : 0;
	if (!error && count)
		error = choose_all(a, sites, count, &order);
	error = error ?: choose_last(a, sites, count, &order);
	for (size_t i = first; !error && i < end; i++) {
		const struct install_site *as = &a->sites[a->order[i]];
		const struct select_site *planned = &s->sites[as->first];
		struct select_site *site = &s->sites[a->order[i]];

		/* Sites at one address have one plan; exits that are refused have the entry's. */
		if (!as->is_new || site == planned)
			continue;
		if (site->note->refused) {
			select_refuse(site, site->note->refused);
			continue;
		}
		site->chosen = planned->chosen;
		memcpy(site->reasons, planned->reasons, sizeof(site->reasons));
	}
	return error;
}

struct probe_error *install_make_plans(struct selection *selection)
{
	if (!selection->plans)
		selection->plans = calloc(selection->site_count + 1, sizeof(*selection->plans));
	if (!selection->plans)
		return probe_error_no_memory();
	for (size_t i = 0; i < selection->site_count; i++)
		selection->sites[i].plan = &selection->plans[i];
	return NULL;
}

/*
 * Is the patch of a function's entry not where its arguments are described? Another controller may
 * have known of other breakpoints, by a debug file that was there or not.
 */
static bool is_elsewhere(const struct select_site *site, const struct reg_site *known)
{
	const struct sdt_note *note = site->note;
	uint64_t at = known->patch - known->pc;

	return (note->kind == SDT_ENTRY || note->exit == SDT_TAIL_ENTRY) && *note->args &&
	       at != note->keep && at != note->keep_short;
}

/* Finds out which sites are new. If its patch was overwritten, a site of the registry is refused.
 */
static struct probe_error *look_up_all(struct install *a)
{
	const struct registry *r = &a->change->registry;
	AUTO_FREE enum site_state *states = NULL;
	AUTO(edits_deinit) struct edits edits = {0};
	struct probe_error *error = install_make_plans(a->selection)
					    ?: site_read_all(r, a->change->pid, &edits, &states);

	for (size_t i = 0; i < a->selection->site_count && !error; i++) {
		struct select_site *site = &a->selection->sites[i];
		const struct reg_site *known = site->pc ? registry_site(r, site->pc) : NULL;

		a->sites[i].wanted = site->pc != 0;
		a->sites[i].is_new = !known;
		if (!known)
			continue;
		a->sites[i].reg = *known;
		site->chosen = plan_of(known->plan);
		if (site->note->refused)
			select_refuse(site, site->note->refused);
		else if (states[known - r->sites] != SITE_PATCHED)
			select_refuse(site, "something else has overwritten its patch (see "
					    "probectl status)");
		else if (why_shared(a, i))
			select_refuse(site, why_shared(a, i));
		else if (is_elsewhere(site, known))
			select_refuse(site, "it is patched where its arguments are unknown");
	}
	return error;
}

/*
 * The last of the stubs at an address runs first. If a function's only instruction is its exit,
 * too, it is entered before it is left. One that returns in another by a tail call, and so may end
 * wherever that one may, ends after it.
 */
static int compare_sites(const void *a, const void *b, void *data)
{
	const struct selection *s = data;
	size_t x = *(const size_t *)a, y = *(const size_t *)b;
	bool is_entry = s->probes[s->sites[x].probe].kind == SDT_ENTRY;
	const struct sdt_note *its = s->sites[x].note, *other = s->sites[y].note;

	if (s->sites[x].pc != s->sites[y].pc)
		return s->sites[x].pc < s->sites[y].pc ? -1 : 1;
	/* The first one is planned. */
	if (!its->refused != !other->refused)
		return its->refused ? 1 : -1;
	if (is_entry != (s->probes[s->sites[y].probe].kind == SDT_ENTRY))
		return is_entry ? 1 : -1;
	if (its->tails != other->tails)
		return its->tails > other->tails ? -1 : 1;
	return x < y ? -1 : x > y;
}

/* Sorts the sites by address, and finds sites with the same address. */
static void order_sites(struct install *a)
{
	struct selection *s = a->selection;

	for (size_t i = 0; i < s->site_count; i++)
		if (a->sites[i].wanted)
			a->order[a->order_count++] = i;
	qsort_r(a->order, a->order_count, sizeof(*a->order), compare_sites, s);
	for (size_t i = 0; i < a->order_count; i++) {
		size_t site = a->order[i], before = i ? a->order[i - 1] : site;
		bool shares = i && s->sites[before].pc == s->sites[site].pc;

		a->sites[site].first = shares ? a->sites[before].first : site;
	}
}

/*
 * Refuses sites whose semaphores are in shared memory, where they cannot be raised. For a note
 * without a site, returns an error.
 */
static struct probe_error *refuse_shared_semaphores(const struct install *a)
{
	const struct selection *s = a->selection;

	for (size_t i = 0; i < s->site_count; i++) {
		struct select_site *site = &s->sites[i];
		const struct select_probe *probe = &s->probes[site->probe];

		if (!site->semaphore || !maps_is_shared(&a->change->maps, site->semaphore))
			continue;
		if (!site->pc)
			return probe_error_new(PROBE_ERROR_REFUSED, "%s:%s: %s", probe->provider,
				probe->name, has_shared_semaphore);
		site->semaphore = 0;
		select_refuse(site, has_shared_semaphore);
	}
	return NULL;
}

/* ---- Guards ----------------------------------------------------------------------- */

const char *guard_reason(const struct change *change, const struct module *module, size_t i)
{
	const struct arch *arch = change->arch;
	size_t count, length = arch->jump_length;
	const struct sdt_guard *guards = sdt_guards(module->object, &count), *guard = &guards[i];
	uint64_t pc = guard->pc + module->bias, label = guard->label + module->bias;
	uint8_t found[ARCH_JUMP_MAX], bytes[ARCH_JUMP_MAX];
	enum arch_guard state;

	for (size_t k = ARRAY_SEARCH(guards, count, pc, guard->pc - (length - 1));
		k < count && guards[k].pc - guard->pc + length - 1 < 2 * length - 1; k++)
		if (guards[k].pc != guard->pc || guards[k].label != guard->label)
			return "another guard overlaps one of the probe's guards";
	if (!is_code(module, pc) || !is_code(module, label) || label % arch->insn_align)
		return "the note of one of its guards names no code";
	if (maps_is_shared(&change->maps, pc))
		return is_shared;
	state = memory_read(change->pid, pc, found, length) == length
			? arch_guard(arch, pc, label, found, bytes)
			: ARCH_GUARD_NONE;
	return state == ARCH_GUARD_OFF || state == ARCH_GUARD_ON
		       ? NULL
		       : "the memory at one of its guards does not hold a guard: another tool may "
			 "have patched it";
}

/* Refuses a probe: its sites keep their reasons behind the new one. */
static void refuse_probe(
	struct selection *s, const struct select_probe *probe, const char *why, const char *reason)
{
	for (size_t i = 0; i < probe->site_count; i++) {
		select_refuse(&s->sites[probe->first_site + i], why);
		if (reason)
			select_add_reason(&s->sites[probe->first_site + i], reason);
	}
}

/* Refuses probes with a guard that cannot be switched: the program would not pass their sites. */
static void refuse_guarded(const struct install *a)
{
	struct selection *s = a->selection;

	for (size_t i = 0; i < s->site_count; i++) {
		const struct select_probe *probe = &s->probes[s->sites[i].probe];
		const char *reason = NULL;
		size_t count;
		const struct sdt_guard *guards = sdt_guards(probe->module->object, &count);

		/* All sites of a probe with guards have the same semaphore. */
		for (size_t k = 0; k < count && !reason && i == probe->first_site; k++)
			if (guards[k].semaphore + probe->module->bias == s->sites[i].semaphore)
				reason = guard_reason(a->change, probe->module, k);
		if (reason)
			refuse_probe(s, probe, reason, NULL);
	}
}

/*
 * Refuses the exits of a function if one of them is refused, and its entry if the request pairs
 * them: its calls would seem never to return.
 */
static void refuse_partial_exits(const struct install *a)
{
	struct selection *s = a->selection;

	for (size_t i = 0; i < s->probe_count; i++) {
		const struct select_probe *probe = &s->probes[i], *entry;
		const struct select_site *first = NULL;

		for (size_t k = 0; k < probe->site_count && probe->kind == SDT_EXIT && !first; k++)
			if (!s->sites[probe->first_site + k].chosen)
				first = &s->sites[probe->first_site + k];
		if (!first)
			continue;
		refuse_probe(s, probe, not_all_exits, first->reasons[0]);
		entry = select_entry_of(s->probes, probe);
		if (entry && entry->pattern < a->request->pattern_count &&
			pattern_wants(a->request->patterns[entry->pattern], true))
			refuse_probe(s, entry, not_all_exits, first->reasons[1]);
	}
}

/*
 * Lets another site be the first of its address if the first one is refused. Functions may share an
 * exit that only one of them can have.
 */
static void pass_plans(struct install *a)
{
	struct select_site *sites = a->selection->sites;

	for (size_t i = 0; i < a->order_count; i++) {
		size_t site = a->order[i], first = a->sites[site].first;

		if (!a->sites[site].wanted || a->sites[first].wanted)
			continue;
		sites[site].plan = sites[first].plan;
		a->sites[site] = a->sites[first];
		a->sites[site].wanted = true;
		for (size_t k = i; k < a->order_count && a->sites[a->order[k]].first == first; k++)
			a->sites[a->order[k]].first = site;
	}
}

/* Marks the probes whose sites are all refused: they are not switched on. */
static void mark_refused(struct install *a)
{
	struct selection *s = a->selection;

	for (size_t i = 0; i < s->probe_count; i++) {
		struct select_probe *probe = &s->probes[i];
		size_t sites = 0, wanted = 0;

		for (size_t k = 0; k < probe->site_count; k++) {
			sites += s->sites[probe->first_site + k].pc != 0;
			wanted += a->sites[probe->first_site + k].wanted;
		}
		probe->refused = sites > 0 && wanted == 0;
	}
}

/* If the program has no code for calls, the first call fails, and says so. */
static struct probe_error *claim_gadgets(struct install *install)
{
	struct change *change = install->change;
	struct probe_error *error = change_find_gadgets(change);

	if (error && error->code != PROBE_ERROR_UNSUPPORTED)
		return error;
	probe_error_free(error);
	return claims_add_gadgets(&install->claims, &change->gadgets) ? NULL
								      : probe_error_no_memory();
}

struct probe_error *install_plan(struct install *install)
{
	const struct registry *r = &install->change->registry;
	struct selection *s = install->selection;
	struct probe_error *error;

	install->order_count = install->made_count = 0;
	free(install->order);
	free(install->sites);
	install->sites = calloc(s->site_count + 1, sizeof(*install->sites));
	install->order = calloc(s->site_count + 1, sizeof(*install->order));
	if (!install->sites || !install->order)
		return probe_error_no_memory();
	error = look_up_all(install);
	if (!error)
		order_sites(install);
	error = error ?: claim_gadgets(install);
	for (size_t i = 0; i < r->site_count && !error; i++)
		if (!claims_add_site(&install->claims, install->change->arch, &r->sites[i]))
			error = probe_error_no_memory();
	for (size_t i = 0, end; i < install->order_count && !error; i = end) {
		end = install_module_end(install, i);
		error = plan_module(install, i, end);
	}
	claims_deinit(&install->claims);
	error = error ?: refuse_shared_semaphores(install);
	if (!error)
		refuse_guarded(install);
	for (size_t i = 0; install->persistent && i < s->site_count; i++)
		if (s->sites[i].note->exit)
			select_refuse(&s->sites[i], tail_calls);
	if (!error)
		refuse_partial_exits(install);
	for (size_t i = 0; i < s->site_count; i++)
		if (!s->sites[i].chosen)
			install->sites[i].wanted = false;
	pass_plans(install);
	mark_refused(install);
	return error;
}

struct probe_error *install_refusals(const struct install *install, struct probe_report *report)
{
	const struct selection *s = install->selection;
	const struct select_site *first = NULL, *named = NULL;
	struct probe_error *error = NULL;
	size_t refused = 0;

	for (size_t i = 0; i < s->site_count && !error; i++) {
		const struct select_probe *probe = &s->probes[s->sites[i].probe];

		if (!s->sites[i].pc || s->sites[i].chosen ||
			(probe->kind == SDT_EXIT && i != probe->first_site))
			continue;
		first = refused++ ? first : &s->sites[i];
		named = !named && probe->exact ? &s->sites[i] : named;
		error = report_refusal(report, probe, &s->sites[i]);
	}
	if (error || !first || install->request->keep_going ||
		(!named && (install->served || refused < install->order_count)))
		return error;
	return report_refusal_error(install->change->pid, refused, install->order_count,
		&s->probes[(named ? named : first)->probe]);
}
