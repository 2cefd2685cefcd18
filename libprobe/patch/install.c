/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/clock.h"
#include "libprobe/base/page.h"
#include "libprobe/base/procfs.h"
#include "libprobe/patch/patch.h"
#include "probe/catalogue.h"

/* ==== Commit ================================================================================== */

/*
 * A site that is patched in the stop. Its first edit reads the bytes that must be there, the second
 * writes the patch. Edits and buffers are allocated before the stop.
 */
struct commit_site {
	/* address of the patch; sites are sorted by it, and do not overlap */
	uint64_t patch;
	const struct install *install;
	size_t index;
	/* NULL, or the patch that makes room for the site's hop */
	const struct install_site *made;
	uint16_t turn;
};

struct commit {
	struct transaction *transaction;
	struct commit_site *sites;
	size_t site_count;
	size_t *hops; /* indices of the sites whose short jump leads to a hop */
	size_t hop_count;
};

static const struct install_site *site_of(const struct commit_site *at)
{
	return at->made ? at->made : &at->install->sites[at->index];
}

static const struct select_site *selected(const struct commit_site *at)
{
	return &at->install->selection->sites[at->index];
}

/* ---- Preparing ---------------------------------------------------------------------- */

static bool find_sites(struct commit *c)
{
	for (const struct install *a = c->transaction->installs; a; a = a->next) {
		for (size_t k = 0; k < a->made_count; k++) {
			if (!ARRAY_ADD(c->sites, c->site_count,
				    (struct commit_site){.patch = a->made[k].reg.patch,
					    .install = a,
					    .index = a->made[k].first,
					    .made = &a->made[k]}))
				return false;
		}
		for (size_t k = 0; k < a->order_count; k++) {
			size_t i = a->order[k];
			const struct install_site *as = &a->sites[i];

			if (as->first != i || as->joins || !as->head)
				continue;
			if (!ARRAY_ADD(c->sites, c->site_count,
				    (struct commit_site){
					    .patch = as->reg.patch, .install = a, .index = i}))
				return false;
		}
	}
	ARRAY_SORT(c->sites, c->site_count, patch);
	for (size_t k = 0; k < c->site_count; k++) {
		if (!site_of(&c->sites[k])->reg.hop)
			continue;
		if (!ARRAY_ADD(c->hops, c->hop_count, k))
			return false;
	}
	return true;
}

/* The order in which sites are patched. */
enum { MAKES_ROOM, ENDS, STARTS, RANKS };

static int rank_of(const struct commit_site *at)
{
	const struct select_probe *probe = &at->install->selection->probes[selected(at)->probe];
	bool ends = probe->kind == SDT_EXIT || (at->install->request->pairs && probe->pattern % 2);

	return at->made ? MAKES_ROOM : ends ? ENDS : STARTS;
}

/*
 * Gives the sites turns, the ends first: no start is on without its end. Hops in code are written
 * in earlier stops, so that no short jump ever leads to a hop that is not there.
 */
static struct probe_error *take_turns(struct commit *c)
{
	struct transaction *t = c->transaction;
	size_t taken = 0;

	for (int rank = 0; rank < RANKS; rank++) {
		for (size_t k = 0; k < c->site_count; k++)
			if (rank_of(&c->sites[k]) == rank)
				c->sites[k].turn = (uint16_t)(taken++ / TRANSACTION_SITES);
		if (rank == MAKES_ROOM)
			taken = (taken + TRANSACTION_SITES - 1) / TRANSACTION_SITES *
				TRANSACTION_SITES;
	}
	t->turns = (taken + TRANSACTION_SITES - 1) / TRANSACTION_SITES;
	if (t->turns >= EDITS_ALL)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"process %d: %zu sites are more than one command switches", t->change->pid,
			c->site_count);
	t->text.turn = EDITS_ALL;
	return NULL;
}

/* Adds two edits for each site: the first reads the bytes that its patch needs, the second writes.
 */
static struct probe_error *prepare_text(struct commit *c)
{
	struct edits *text = &c->transaction->text;
	struct probe_error *error = find_sites(c) ? take_turns(c) : probe_error_no_memory();

	if (error)
		return error;
	for (size_t k = 0; k < c->site_count; k++) {
		const struct arch *arch = c->transaction->change->arch;
		const struct select_site *site = selected(&c->sites[k]);
		const struct install_site *as = site_of(&c->sites[k]);
		const struct reg_site *reg = &as->reg;
		/* the patch, or the jump that will lead to the new stubs: in the site or a stub */
		uint64_t at = as->is_new ? reg->patch : as->link ? as->link : reg->entry;
		struct edit *edit;

		if (!(c->sites[k].made	 ? edits_add(text, reg->patch, reg->covers)
			    : as->is_new ? edits_add(text,
						   reg->pc - plan_starts_before(
								     site->plan, site->chosen),
						   plan_needs(site->plan, site->chosen))
					 : edits_add(text, reg->patch, reg->length)))
			return probe_error_no_memory();
		edit = edits_add(text, at, 0);
		if (!edit)
			return probe_error_no_memory();
		edit->is_write = true;
		text->items[2 * k].turn = edit->turn = c->sites[k].turn;
		/* the page was made private when the site was first patched */
		edit->is_private = !as->is_new;
		if (as->is_new)
			memcpy(edit->bytes, reg->patched, reg->length);
		if (c->sites[k].made)
			memcpy(edit->bytes + reg->length,
				c->sites[k].install->sites[as->first].reg.hop_patched, reg->length);
		edit->length = c->sites[k].made ? as->write_end - as->write_start
			       : as->is_new	? reg->length
			       : as->link	? arch->jump(as->link, as->head, edit->bytes)
						: site_entry_jump(reg, as->head, edit->bytes);
		if (!edit->length)
			return probe_error_new(PROBE_ERROR_REFUSED,
				"no stub can be placed near %#jx", (uintmax_t)reg->pc);
	}
	return NULL;
}

/* Adds a probe's semaphore, or a guard, to the registry, and its change to `semaphores`. */
static bool add_semaphore(const struct install *a, const struct select_probe *probe,
	uint64_t address, uint64_t label, struct semaphores *semaphores)
{
	uint16_t times = select_times(probe);
	struct reg_semaphore *added = registry_add_semaphore(&a->change->registry);
	bool ok = added && semaphores_add(semaphores, address, label, times);

	if (added)
		*added = (struct reg_semaphore){.key = probe->key,
			.address = address,
			.label = label,
			.session = a->session,
			.added = ok ? times : 0};
	return ok;
}

/*
 * Adds a probe's semaphores with their guards: its own, and those of its provider's probes that
 * the catalogue says go with it.
 */
static bool add_semaphores_of(
	const struct install *a, const struct select_probe *probe, struct semaphores *semaphores)
{
	const struct probe_meaning *meaning =
		probe_catalogue_find(a->request->catalogue, probe->provider, probe->name, SIZE_MAX);
	const struct sdt_notes *notes = &probe->module->notes;
	AUTO_FREE uint64_t *addresses =
		calloc(probe->site_count + notes->count + 1, sizeof(*addresses));
	size_t guard_count;
	const struct sdt_guard *guards = sdt_guards(probe->module->object, &guard_count);
	uint64_t bias = probe->module->bias;
	size_t count = addresses ? semaphores_of(a->selection, probe, false, addresses) : 0;
	bool ok = addresses != NULL;

	for (size_t i = 0; i < notes->count && ok && meaning && meaning->with; i++) {
		const struct sdt_note *note = &notes->notes[i];

		if (note->semaphore && strcmp(note->provider, probe->provider) == 0 &&
			catalogue_name_matches(meaning->with, note->name))
			addresses[count++] = note->semaphore + bias;
	}
	array_sort(addresses, count, sizeof(*addresses), 0);
	for (size_t i = 0; i < count && ok; i++) {
		if (i && addresses[i] == addresses[i - 1])
			continue;
		ok = add_semaphore(a, probe, addresses[i], 0, semaphores);
		for (size_t k = 0; k < guard_count && ok; k++)
			if (guards[k].semaphore + bias == addresses[i] &&
				!guard_reason(a->change, probe->module, k))
				ok = add_semaphore(a, probe, guards[k].pc + bias,
					guards[k].label + bias, semaphores);
	}
	return ok;
}

/* After an error, marks the semaphores as not raised, so that undoing does not lower them. */
static void forget_semaphores(const struct install *a)
{
	for (size_t i = 0; i < a->selection->probe_count; i++) {
		size_t count;
		struct reg_semaphore *semaphores = registry_semaphores(
			&a->change->registry, a->selection->probes[i].key, &count);

		for (size_t k = 0; k < count; k++)
			if (semaphores[k].session == a->session)
				semaphores[k].added = 0;
	}
}

/* Changes the registry to what it will be after the commit. */
static struct probe_error *prepare_registry(const struct commit *c)
{
	struct registry *r = &c->transaction->change->registry;
	bool ok = true;

	for (size_t k = 0; k < c->site_count; k++) {
		const struct install_site *as = site_of(&c->sites[k]);
		const struct edit *edit = &c->transaction->text.items[2 * k + 1];
		struct reg_site *site = registry_site(r, as->reg.pc);

		/* The bytes that the restored site must have. */
		if (!as->is_new && site && !site->pun && !as->link)
			memcpy(site->patched, edit->bytes, site->length);
	}
	for (const struct install *a = c->transaction->installs; a && ok; a = a->next) {
		struct reg_session *session = registry_session(r, a->session);

		for (size_t i = 0; i < a->selection->probe_count && ok; i++)
			ok = a->selection->probes[i].refused ||
			     add_semaphores_of(
				     a, &a->selection->probes[i], &c->transaction->semaphores);
		if (session && a->persistent)
			session->flags |= REG_SESSION_PERSISTENT;
		if (session && (a->persistent || a->caller)) {
			session->owner = 0;
			session->owner_start = a->caller;
		}
	}
	registry_sort(r);
	return ok ? NULL : probe_error_no_memory();
}

/* ---- Verifying ------------------------------------------------------------------------ */

/* Verifies one site. */
static struct probe_error *verify_site(const struct commit *c, size_t k)
{
	const struct edits *text = &c->transaction->text;
	const struct commit_site *at = &c->sites[k];
	const uint8_t *found = edits_found(text, 2 * k);
	uintmax_t address = text->items[2 * k].address;
	const struct select_probe *probe = &at->install->selection->probes[selected(at)->probe];
	const struct reg_site *reg = &site_of(at)->reg;
	/* A patched site must hold its jump, a new one what its plan allows. */
	bool differs =
		found && (at->made ? memcmp(found, at->install->sites[at->index].made_bytes,
					     reg->covers) != 0
				 : site_of(at)->is_new
					 ? !plan_holds(at->install->change->arch,
						   selected(at)->plan, selected(at)->chosen, found)
					 : memcmp(found, reg->patched, reg->length) != 0);

	at->install->change->gone |= !found;
	at->install->change->differs |= differs;
	if (!found)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"%s:%s: there is no memory at %#jx: %s was closed", probe->provider,
			probe->name, address, probe->module->path);
	if (differs)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"%s:%s: the memory at %#jx does not hold what %s holds: another "
			"tool may have patched it",
			probe->provider, probe->name, address, probe->module->path);
	return NULL;
}

/*
 * Verifies all sites and hops, or only hops if nothing has changed since the check before the stop.
 */
static struct probe_error *verify(const struct commit *c)
{
	const struct edits *text = &c->transaction->text;
	bool is_known = edits_are_as_noted(text);
	struct probe_error *error = NULL;

	for (size_t k = 0; k < c->site_count && !is_known && !error; k++)
		error = edits_is_due(text, 2 * k) ? verify_site(c, k) : NULL;
	for (size_t i = 0; i < c->hop_count && !error; i++) {
		const struct commit_site *at = &c->sites[c->hops[i]];
		const struct select_probe *probe =
			&at->install->selection->probes[selected(at)->probe];

		/* Before the first stop, hops in code are not there. */
		if (edits_is_due(text, 2 * c->hops[i]) &&
			!(site_of(at)->made && text->turn == EDITS_ALL) &&
			!site_has_hop(&site_of(at)->reg, at->install->change->pid))
			error = probe_error_new(PROBE_ERROR_REFUSED,
				"%s:%s: the jump at %#jx was overwritten by another tool",
				probe->provider, probe->name, (uintmax_t)site_of(at)->reg.hop);
	}
	return error;
}

/* ---- Threads ------------------------------------------------------------------------ */

/*
 * Moves a thread inside the bytes of a coming patch to the copy of these instructions, by writing
 * its registers at once. If we die, the thread continues in the copy, which does the same. Returns
 * false if it cannot be moved.
 */
static bool move_thread(const struct install_site *as, struct control_thread *thread)
{
	uint64_t offset = arch_get(&thread->regs, ARCH_PC) - as->reg.patch;

	for (size_t k = 0; k < as->moved.count; k++) {
		if (as->moved.from_offset[k] != offset)
			continue;
		arch_set(&thread->regs, ARCH_PC, as->moved_to + as->moved.to_offset[k]);
		return registers_write(thread->tid, &thread->regs);
	}
	return false;
}

/* Returns the new site, due in this stop, whose patch has `pc` after its first byte, or NULL. */
static const struct install_site *window_of(const struct commit *c, uint64_t pc)
{
	size_t above = ARRAY_SEARCH(c->sites, c->site_count, patch, pc);
	const struct install_site *as = above ? site_of(&c->sites[above - 1]) : NULL;

	return as && as->is_new && pc < as->write_end &&
			       edits_is_due(&c->transaction->text, 2 * (above - 1))
		       ? as
		       : NULL;
}

/* Adds the instructions that jumps will cover. A thread may be at the first byte of a jump. */
static struct probe_error *prepare_windows(const struct commit *c)
{
	struct windows *windows = &c->transaction->windows;

	for (size_t i = 0; i < c->site_count; i++) {
		const struct install_site *as = site_of(&c->sites[i]);

		for (size_t k = 0; as->is_new && k < as->moved.count; k++) {
			uint64_t pc = as->reg.patch + as->moved.from_offset[k];

			if (pc > as->reg.patch && pc < as->write_end &&
				!places_add(&windows->places, pc, pc + 1))
				return probe_error_no_memory();
		}
	}
	return windows_prepare(windows, c->transaction->change);
}

/*
 * Moves threads out of coming jumps. Returns true if one cannot be moved, or if a signal handler
 * will return there.
 */
static bool is_in_the_way(const struct commit *c)
{
	struct control *control = &c->transaction->change->control;
	const struct frames *frames = &c->transaction->windows.frames;
	bool any = false;

	for (size_t i = control->count; i < frames->count && !any; i++)
		any = window_of(c, frames->pcs[i]) != NULL;
	for (size_t i = 0; i < control->count && !any; i++) {
		const struct install_site *as = window_of(c, frames->pcs[i]);

		any = as && !move_thread(as, &control->threads[i]);
	}
	return any;
}

/* ---- The stop -------------------------------------------------------------------------- */

/* Checks that stubs can read the time stamp counter. */
static struct probe_error *check_counter(const struct install *a)
{
	const struct reg_session *session = registry_session(&a->change->registry, a->session);

	if (session->flags & REG_SESSION_KERNEL_TIME)
		return NULL;
	/* The kernel will write into the session's data, so check that its memory is still ours. */
	return change_confirm(a->change)
		       ?: threads_check_counter(
				  a->change, session->data + offsetof(struct data_header, answer));
}

/* Checks everything during the stop, for transaction_commit(). */
static struct probe_error *look(void *data, bool *again_ret)
{
	const struct commit *c = data;
	struct change *change = c->transaction->change;
	struct probe_error *error = NULL;
	bool has_stubs = false, calls_kernel;

	if (registry_is_stale(&change->registry, change->pid))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d: another controller has changed its probes meanwhile: try "
			"again",
			change->pid);
	for (const struct install *a = c->transaction->installs; a; a = a->next)
		has_stubs |= !install_is_gate(a);
	if (has_stubs)
		error = threads_check(change->target, &change->control, &change->thread);
	for (const struct install *a = c->transaction->installs; a && !error; a = a->next) {
		if (a->stubs.takes_time)
			error = check_counter(a);
		calls_kernel = a->stubs.asks || a->stubs.asks_name || a->stubs.asks_cpu ||
			       a->stubs.waits || install_is_gate(a) ||
			       registry_session(&change->registry, a->session)->flags &
				       REG_SESSION_KERNEL_TIME;
		if (!error && calls_kernel)
			error = threads_check_dispatch(change);
	}
	error = error
		?: transaction_read(c->transaction)
		?: verify(c)
		?: windows_read(&c->transaction->windows, change);
	*again_ret = !error && is_in_the_way(c);
	return error;
}

/* Patches the sites. After an error, install_commit() ends what was added. */
static struct probe_error *install_patch(struct transaction *t)
{
	struct commit c = {.transaction = t};
	struct probe_error *error;

	error = prepare_text(&c)
		?: prepare_registry(&c)
		?: transaction_prepare(t)
		?: transaction_read(t)
		?: verify(&c);
	/* With several turns, the bytes change between two looks. */
	if (!error && t->turns < 2)
		error = edits_note(&t->text);
	if (!error) {
		error = edits_pretouch(&t->text, t->change->mem);
		/* A library that was missing may be mapped again by now. */
		t->change->gone |= error && error->code != PROBE_ERROR_NOT_FOUND;
	}
	error = error
		?: prepare_windows(&c)
		?: transaction_commit(t, look, &c,
			"a signal handler would return into the bytes that a patch replaces");
	for (const struct install *a = error ? t->installs : NULL; a; a = a->next)
		forget_semaphores(a);
	if (error)
		transaction_uncount(t);
	free(c.sites);
	free(c.hops);
	return error;
}

/* ==== Closed ================================================================================== */

/*
 * The target may close libraries while their sites are patched. Modules are read before the stop,
 * so a library may be unmapped by the time of the stop. If it was opened again at the same address,
 * its sites look as if another tool had written there, and are refused.
 */

enum { CLOSINGS_MAX = 50 };

/* Is a module of these installs not mapped any more? */
static bool any_closed(const struct install *installs)
{
	const struct change *change = installs->change;
	bool closed = false;
	AUTO(modules_deinit) struct modules now = {0};
	struct probe_error *error = modules_read(change->pid, change->target->files, &now);

	for (const struct install *a = installs; a && !error && !closed; a = a->next)
		for (size_t i = 0; i < a->selection->probe_count && !closed; i++) {
			const struct module *m = a->selection->probes[i].module, *found = NULL;

			for (size_t k = 0; k < now.count && !found; k++)
				if (now.items[k].bias == m->bias &&
					now.items[k].inode == m->inode &&
					now.items[k].dev_major == m->dev_major &&
					now.items[k].dev_minor == m->dev_minor)
					found = &now.items[k];
			closed = !found;
		}
	probe_error_free(error);
	return closed;
}

/*
 * Returns the error to report if memory differed from the files. Takes over `error`, which may be
 * NULL. If a library was unmapped or moved, maybe for a moment, returns PROBE_ERROR_STATE instead,
 * and makes the target try again (struct attempt). `installs` is a list, linked by `next`.
 */
static struct probe_error *closed_error(const struct install *installs, struct probe_error *error)
{
	const struct change *change = installs->change;
	struct probe_target *target = change->target;

	if (!error && !change->gone && !change->differs)
		return NULL;
	if (target->closings == CLOSINGS_MAX || (!change->gone && !any_closed(installs)))
		return error;
	target->closings++;
	probe_error_free(error);
	target->lessons++;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has closed a library while its sites were being patched: try again",
		change->pid);
}

/* ==== Install ================================================================================= */

enum { ROUGH_STUB_BYTES = 512, PLAN_TRIES = 4 };

/* ---- The session -------------------------------------------------------------------- */

/*
 * Maps the home page, before the data, near the first site. Without a site, the session has only
 * gates, in the C library and the loader, which are mapped last, so the page is then near the last
 * module.
 */
static struct probe_error *make_home(struct install *a)
{
	const struct selection *s = a->selection;
	const struct modules *m = &a->change->modules;
	const struct module *near = s->probe_count ? s->probes[0].module : &m->items[m->count - 1];
	/* If the module is too large (build.c), at least the first site must be in reach. */
	struct code_extent reaches[] = {{near->start, near->end - near->start},
		{a->order_count ? s->sites[a->order[0]].pc : near->start, 1}};
	struct probe_error *error;
	uint64_t unused;

	if (a->change->registry.home)
		return NULL;
	error = change_alloc_code(
		a->change, s->site_count * ROUGH_STUB_BYTES + page_bytes(), reaches, 2, &unused);
	if (!error)
		code_release(&a->change->taken);
	return error;
}

/*
 * In a process that was forked with our code, the inherited guard is 0, so that inherited stubs do
 * nothing. New stubs get a guard of their own, the next word of the page; those of a copied session
 * do without, because they act as the inherited ones do.
 */
static struct probe_error *renew_guard(const struct install *install)
{
	static const uint32_t one = 1;
	struct change *c = install->change;
	struct registry *r = &c->registry;
	struct probe_error *error;
	bool inherited;

	if (!r->home)
		return NULL;
	if (!r->guard)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d has unmapped or replaced a page of probectl, and a thread may "
			"still return to code that needs it: nothing is added until `probectl "
			"repair -p %d` can free the rest",
			c->pid, c->pid);
	if (install->is_copy)
		return NULL;
	error = registry_is_inherited(r, c->pid, &inherited);
	if (error || !inherited)
		return error;
	r->guard += sizeof(uint64_t);
	if (r->guard % REGISTRY_PAGE == GUARD_PROCESSES_OFFSET)
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d inherited probes over too many generations: disable them first",
			c->pid);
	return change_write(c, r->guard, &one, sizeof(one));
}

/*
 * Makes this the first of the processes that will share the session's flights, numbered by a word
 * of the guard's page.
 */
static struct probe_error *number_process(struct change *c, struct reg_session *session)
{
	static const uint32_t one = 1;
	uint64_t page = registry_guard_page(&c->registry);

	for (uint64_t word = page + GUARD_PROCESSES_OFFSET; word < page + GUARD_MARK_OFFSET;
		word += sizeof(one)) {
		bool taken = false;

		for (size_t i = 0; i < c->registry.session_count; i++)
			taken |= c->registry.sessions[i].process == word;
		if (taken)
			continue;
		session->process = word;
		return change_write(c, word, &one, sizeof(one));
	}
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d has too many sessions that time pairs in forked children: end some "
		"first",
		c->pid);
}

/* Creates the session in the registry, and maps its data. */
static struct probe_error *create_session(struct install *install)
{
	struct change *c = install->change;
	struct reg_session session = {
		.id = c->registry.next_session++,
		.flags = (install->caller ? REG_SESSION_CALLS : 0) |
			 (install->stubs.takes_time && c->target->no_counter
					 ? REG_SESSION_KERNEL_TIME
					 : 0),
		/* Until the commit, even a persistent session is owned by this process. */
		.owner = getpid(),
		.owner_start = procfs_start_time(getpid()),
		.stamp = clock_monotonic_ns(),
		.cpus = sysconf(_SC_NPROCESSORS_CONF),
	};
	struct data_header header = {
		.magic = DATA_MAGIC, .session = session.id, .guard = 1, .processes = 1};
	const struct lasting_file file = {.path = install->data.file, .layout = &session};
	size_t probes = install->selection->probe_count + install->data.spare_probes;
	bool has_flights = false;
	struct probe_error *error;
	struct stat st;

	error = data_lay_out(&session, probes, &install->data.needs);
	for (size_t i = 0; i < install->data.part_count && !error; i++) {
		error = data_lay_out_part(&session, probes, install->data.parts[i]);
		has_flights |= install->data.parts[i]->layout.flights != 0;
	}
	error = error
		?: make_home(install)
		?: change_map_data(c, session.data_size, &file, install->caller != 0,
			&session.data, &install->data.fd);
	if (error)
		return error;
	data_place(&session);
	if ((session.flights || has_flights) && install->stubs.follow_children)
		error = number_process(c, &session);
	if (error)
		return error;
	for (size_t i = 0; i < install->data.part_count; i++)
		data_place_part(&session, install->data.parts[i]);
	header.home = c->registry.home;
	header.maker = lasting_maker(c->pid);
	if (pwrite(install->data.fd, &header, sizeof(header), 0) != sizeof(header))
		return probe_error_new(PROBE_ERROR_SYSTEM, "cannot write shared memory");
	if (fstat(install->data.fd, &st) < 0)
		return probe_error_system(errno, "cannot look at shared memory");
	session.inode = st.st_ino;
	if (!ARRAY_ADD(c->registry.sessions, c->registry.session_count, session))
		return probe_error_no_memory();
	install->session = session.id;
	install->data.created = true;
	install->data.size = session.data_size;
	return NULL;
}

struct install install_of(struct transaction *transaction, struct selection *selection,
	const struct probe_request *request)
{
	return (struct install){.change = transaction->change,
		.transaction = transaction,
		.selection = selection,
		.request = request,
		.data.fd = -1};
}

void install_deinit(struct install *install)
{
	if (install->data.fd >= 0)
		close(install->data.fd);
	free(install->sites);
	free(install->order);
	free(install->puns.pages);
	free(install->neighbours);
	free(install->made);
}

static void add_report(const struct install *install)
{
	struct probe_report *report = install->report;
	const struct selection *s = install->selection;

	for (size_t i = 0; i < s->probe_count; i++)
		report->probes += !s->probes[i].refused;
	for (size_t i = 0; i < s->site_count; i++) {
		if (!install->sites[i].wanted)
			continue;
		report->sites++;
		report->plans[plan_id(s->sites[i].chosen)]++;
	}
	report->plans[plan_id(NULL)] = report->refusal_count;
	if (install->change->stop_ns > report->stop_ns)
		report->stop_ns = install->change->stop_ns;
}

/* Reports that stubs follow fewer pointers because they may not ask the kernel about memory. */
static struct probe_error *report_denied(const struct install *a, struct probe_report *report)
{
	const struct seccomp *seccomp = &a->change->seccomp;

	if (a->stubs.asks && !(seccomp->allowed & SECCOMP_ASK))
		return report_note(report,
			"%s, which probes need to check that memory is readable: strings and "
			"pointers are followed only to constants and variables of the program",
			seccomp_why(seccomp, SECCOMP_ASK));
	if (a->stubs.asks_stack && !(seccomp->allowed & SECCOMP_STACK))
		return report_note(report,
			"%s, which probes need to find the end of a thread's stack: stacks are cut "
			"after the page of the stack pointer, except the main thread's",
			seccomp_why(seccomp, SECCOMP_STACK));
	return NULL;
}

/* ---- All of it ------------------------------------------------------------------------ */

struct probe_error *install_heal(struct change *change)
{
	struct orphans orphans = {0};
	/* A target held since its execve(2) has no code or data of ours. */
	struct probe_error *error = change->target->alone ? NULL : orphans_remove(change, &orphans);

	if (!error && orphans.mappings)
		error = change_reread_maps(change);
	if (!error && (uninstall_find_stale(change) || uninstall_has_leftovers(&change->registry)))
		error = uninstall_unreferenced(change) ?: change_reread_maps(change);
	return error;
}

/*
 * Undoes installs after an error; their sessions may be older. Whatever cannot be undone becomes
 * stale, and is removed when this process ends.
 */
static void abandon(struct change *change, const struct install *installs)
{
	struct registry *r = &change->registry;
	struct orphans orphans;
	struct probe_error *error;
	bool any = false;

	for (const struct install *a = installs; a; a = a->next) {
		struct reg_session *session = registry_session(r, a->session);

		if (a->data.created && session)
			registry_retire(r, session);
		for (size_t i = 0; i < a->selection->probe_count; i++) {
			struct reg_probe *probe =
				registry_probe(r, a->selection->probes[i].key, a->session);

			if (probe)
				probe->refcount = 0;
		}
		any = any || session;
	}
	if (any)
		probe_error_free(uninstall_unreferenced(change));
	/* Remove mappings that are not in the registry yet. */
	error = change_reread(change);
	probe_error_free(error ?: orphans_remove(change, &orphans));
}

/*
 * Plans the sites and maps the pages of puns, before anything else. If the target has just taken
 * such a page, plans again, the last time without puns.
 */
static struct probe_error *plan_and_map(struct install *install, struct probe_report *report)
{
	struct probe_error *error = NULL;
	bool again = true;

	for (int i = 0; i < PLAN_TRIES && !error && again; i++) {
		install->puns.none = i == PLAN_TRIES - 1;
		error = install_plan(install) ?: puns_map(install, &again);
	}
	error = closed_error(install, error) ?: install_refusals(install, report);
	if (error)
		puns_drop(install);
	return error;
}

static struct probe_error *create_and_build(struct install *install, struct probe_report *report)
{
	const struct registry *r = &install->change->registry;
	struct data_arenas arenas = {0};
	struct probe_error *error = change_judge(install->change) ?: renew_guard(install);

	if (!error && !install->session)
		error = create_session(install);
	error = error ?: install_build(install);
	/* The session's data has the addresses of our code. */
	for (size_t i = 0; i < r->arena_count && arenas.count < DATA_ARENAS_MAX; i++) {
		arenas.items[arenas.count].start = r->arenas[i].start;
		arenas.items[arenas.count++].size = r->arenas[i].size;
	}
	if (!error && install->data.fd >= 0 &&
		pwrite(install->data.fd, &arenas, sizeof(arenas), DATA_ARENAS_OFFSET) !=
			sizeof(arenas))
		error = probe_error_new(PROBE_ERROR_SYSTEM, "cannot write shared memory");
	error = error ?: report_denied(install, report);
	if (!error && install->take)
		error = install->take(install->take_data, install);
	if (error)
		abandon(install->change, install);
	return error;
}

enum { LEFT_SESSIONS_MAX = 128 };

/* Limits of leftovers, in bytes of address space: data takes memory only where it was touched. */
#define LEFT_DATA_MAX (UINT64_C(8) << 30)
#define LEFT_CODE_MAX (UINT64_C(64) << 20)

/*
 * Returns PROBE_ERROR_STATE if ended sessions have left too much code and data to add anything.
 * (They leave code to which threads may return.)
 */
static struct probe_error *check_leftovers(const struct change *change)
{
	const struct registry *r = &change->registry;
	uint64_t data = 0, code = 0;
	size_t sessions = 0;

	for (size_t i = 0; i < r->session_count; i++)
		if (r->sessions[i].flags & REG_SESSION_RETIRED) {
			sessions++;
			data += r->sessions[i].data_size;
		}
	for (size_t i = 0; i < r->stub_count; i++)
		code += r->stubs[i].pc ? 0 : r->stubs[i].size;
	for (size_t i = 0; i < r->site_count; i++)
		code += r->sites[i].pc ? 0 : r->sites[i].tail_size + r->sites[i].pun_size;
	if (sessions < LEFT_SESSIONS_MAX && data < LEFT_DATA_MAX && code < LEFT_CODE_MAX)
		return NULL;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d: the memory of %zu ended sessions (%ju KiB of code, %ju KiB of data) "
		"cannot be freed yet, because a thread may return to it: nothing is added until "
		"`probectl repair -p %d` can free it",
		change->pid, sessions, (uintmax_t)code >> 10, (uintmax_t)data >> 10, change->pid);
}

struct probe_error *install_add(struct install *install, struct probe_report *report)
{
	struct change *c = install->change;
	const struct reg_session *session;
	bool any = false;
	struct probe_error *error = NULL;

	install->report = report;
	/* Another controller may have died, and this install may add to an old session. */
	if (uninstall_find_dead(c) || uninstall_has_leftovers(&c->registry)) {
		error = uninstall_unreferenced(c);
		/* A pun may need a page that was unmapped. */
		error = error ?: change_reread_maps(c);
	}
	if (error)
		return error;
	/* The program may just have unmapped memory of the session, and so ended the session. */
	session = registry_session(&c->registry, install->session);
	if (install->session && (!session || session->flags & REG_SESSION_RETIRED))
		return probe_error_new(PROBE_ERROR_STATE,
			c->lost ? "process %d has mapped memory over that of probectl, or "
				  "unmapped it: the session has ended"
				: "process %d: another controller has ended the session",
			c->pid);
	error = check_leftovers(c) ?: plan_and_map(install, report);
	if (error)
		return error;
	for (size_t i = 0; i < install->selection->probe_count; i++)
		any |= !install->selection->probes[i].refused;
	/* A persistent session would do nothing if all probes are refused. */
	if (install->persistent && !any) {
		add_report(install);
		return NULL;
	}
	error = create_and_build(install, report);
	if (error)
		return error;
	install->next = install->transaction->installs;
	install->transaction->installs = install;
	return NULL;
}

struct probe_error *install_commit(struct transaction *t)
{
	struct probe_error *error;

	if (!t->installs)
		return transaction_commit_counts(t);
	error = install_patch(t);
	if (error) {
		abandon(t->change, t->installs);
		return closed_error(t->installs, error);
	}
	for (const struct install *a = t->installs; a; a = a->next)
		add_report(a);
	t->change->target->closings = 0;
	return NULL;
}

struct probe_error *install_all(struct install *install, struct probe_report *report)
{
	struct probe_error *error = install_add(install, report);

	/* A session without probes is in the registry already, and needs no patch. */
	if (error || (!install->persistent && !install->selection->probe_count))
		return error;
	return install_commit(install->transaction);
}
