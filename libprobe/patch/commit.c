/* SPDX-License-Identifier: MIT */
/*
 * The part of installing that happens while the target stands still: as little as possible.
 * The transaction knows what is written, and has the buffers. Pages that will be written are
 * made the target's own before.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"
#include "probe/catalogue.h"

/* A site that is patched. There are two edits for it: what must be there, and the patch. */
struct commit_site {
	uint64_t patch; /* where that begins: sites are sorted by it, and do not overlap */
	const struct install *install;
	size_t index;
};

struct commit {
	struct transaction *transaction;
	struct commit_site *sites;
	size_t site_count;
	size_t *hops; /* indices of those whose jump leads over another one */
	size_t hop_count;
};

static const struct install_site *site_of(const struct commit_site *at)
{
	return &at->install->sites[at->index];
}

static const struct select_site *selected(const struct commit_site *at)
{
	return &at->install->selection->sites[at->index];
}

/* ---- Preparing ---------------------------------------------------------------------- */

/* Adds the bytes that have to be right at a site for its patch to be. */
static struct edit *expect(const struct commit_site *at, struct edits *edits)
{
	const struct install_site *as = site_of(at);
	const struct select_site *site = selected(at);

	if (!as->is_new)
		return edits_add(edits, as->reg.patch, as->reg.length);
	return edits_add(edits, as->reg.pc - plan_starts_before(site->plan, site->chosen),
		plan_needs(site->plan, site->chosen));
}

/* Are they? */
static bool is_expected(const struct commit_site *at, const uint8_t *found)
{
	const struct install_site *as = site_of(at);

	if (!as->is_new)
		return memcmp(found, as->reg.patched, as->reg.length) == 0;
	return plan_holds(
		at->install->change->arch, selected(at)->plan, selected(at)->chosen, found);
}

/* Where a site's patch is written, or the jump that leads to its new stubs. */
static uint64_t edit_address(const struct install_site *as)
{
	return as->is_new ? as->reg.patch : as->link ? as->link : as->reg.entry;
}

/* The bytes to be written for a site. */
static struct probe_error *describe_edit(const struct commit_site *at, struct edit *edit)
{
	const struct install_site *as = site_of(at);

	edit->is_write = true;
	if (as->is_new) {
		memcpy(edit->bytes, as->reg.patched, as->reg.length);
		edit->length = as->reg.length;
		return NULL;
	}
	edit->is_private = true; /* it was written when the site was patched */
	/* The jump that leads to the first stub, or to one that comes later, is redirected. */
	edit->length = as->link ? at->install->change->arch->jump(as->link, as->head, edit->bytes)
				: site_entry_jump(&as->reg, as->head, edit->bytes);
	return edit->length ? NULL
			    : probe_error_new(PROBE_ERROR_REFUSED,
				      "no stub can be placed near %#jx", (uintmax_t)as->reg.pc);
}

static bool find_hops(struct commit *c)
{
	for (size_t k = 0; k < c->site_count; k++) {
		if (!site_of(&c->sites[k])->reg.hop)
			continue;
		if (!ARRAY_ROOM(c->hops, c->hop_count))
			return false;
		c->hops[c->hop_count++] = k;
	}
	return true;
}

static bool find_sites(struct commit *c)
{
	for (const struct install *a = c->transaction->installs; a; a = a->next)
		for (size_t k = 0; k < a->order_count; k++) {
			size_t i = a->order[k];
			const struct install_site *as = &a->sites[i];

			if (as->first != i || as->joins || !as->head)
				continue;
			if (!ARRAY_ROOM(c->sites, c->site_count))
				return false;
			c->sites[c->site_count++] = (struct commit_site){as->reg.patch, a, i};
		}
	ARRAY_SORT(c->sites, c->site_count, patch);
	return find_hops(c);
}

static struct probe_error *prepare_text(struct commit *c)
{
	struct edits *text = &c->transaction->text;
	struct probe_error *error = find_sites(c) ? NULL : probe_error_no_memory();

	for (size_t k = 0; k < c->site_count && !error; k++) {
		const struct install_site *as = site_of(&c->sites[k]);
		struct edit *edit;

		if (!expect(&c->sites[k], text) || !(edit = edits_add(text, edit_address(as), 0)))
			return probe_error_no_memory();
		error = describe_edit(&c->sites[k], edit);
	}
	return error;
}

/* What a probe's count raises, in the registry and to be raised. */
static bool add_semaphores_of(
	const struct install *a, const struct select_probe *probe, struct semaphores *semaphores)
{
	const struct probe_meaning *meaning =
		probe_catalogue_find(a->request->catalogue, probe->provider, probe->name, SIZE_MAX);
	size_t count;
	uint64_t *addresses =
		semaphores_raised(a->selection, probe, meaning ? meaning->with : NULL, &count);
	uint16_t times = select_times(probe);
	bool ok = addresses != NULL;

	for (size_t i = 0; i < count && ok; i++) {
		struct reg_semaphore *added = registry_add_semaphore(&a->change->registry);

		ok = added && semaphores_add(semaphores, addresses[i], times);
		if (added)
			*added = (struct reg_semaphore){.key = probe->key,
				.address = addresses[i],
				.session = a->session,
				.added = ok ? times : 0};
	}
	free(addresses);
	return ok;
}

/* The semaphores of every probe of a selection. */
static bool add_semaphores(const struct install *a, struct semaphores *semaphores)
{
	const struct selection *s = a->selection;
	bool ok = true;

	for (size_t i = 0; i < s->probe_count && ok; i++)
		ok = s->probes[i].refused || add_semaphores_of(a, &s->probes[i], semaphores);
	return ok;
}

/* They were not raised, so undoing must not lower them. */
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

/* The registry as it will be afterwards. */
static struct probe_error *prepare_registry(const struct commit *c)
{
	struct registry *r = &c->transaction->change->registry;
	bool ok = true;

	for (size_t k = 0; k < c->site_count; k++) {
		const struct install_site *as = site_of(&c->sites[k]);
		const struct edit *edit = &c->transaction->text.items[2 * k + 1];
		struct reg_site *site = registry_site(r, as->reg.pc);

		/* A later removal has to find what is there then. */
		if (!as->is_new && site && !site->pun && !as->link)
			memcpy(site->patched, edit->bytes, site->length);
	}
	for (const struct install *a = c->transaction->installs; a && ok; a = a->next) {
		struct reg_session *session = registry_session(r, a->session);

		ok = add_semaphores(a, &c->transaction->semaphores);
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

static bool has_hop(const struct commit_site *at)
{
	return site_has_hop(&site_of(at)->reg, at->install->change->pid);
}

/* Compares the bytes of a site with what its plan was made for. */
static struct probe_error *verify_bytes(const struct commit *c, size_t k)
{
	const struct edits *text = &c->transaction->text;
	const struct commit_site *at = &c->sites[k];
	const uint8_t *found = edits_found(text, 2 * k);
	const struct select_probe *probe = &at->install->selection->probes[selected(at)->probe];

	at->install->change->gone |= !found;
	at->install->change->differs |= found && !is_expected(at, found);
	if (!found)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"%s:%s: there is no memory at %#jx: %s was closed", probe->provider,
			probe->name, (uintmax_t)text->items[2 * k].address, probe->module->path);
	if (!is_expected(at, found))
		return probe_error_new(PROBE_ERROR_REFUSED,
			"%s:%s: the memory at %#jx does not hold what %s holds: another tool may "
			"have patched it",
			probe->provider, probe->name, (uintmax_t)text->items[2 * k].address,
			probe->module->path);
	return NULL;
}

static struct probe_error *verify_hop(const struct commit *c, size_t k)
{
	const struct commit_site *at = &c->sites[k];
	const struct select_probe *probe = &at->install->selection->probes[selected(at)->probe];

	if (has_hop(at))
		return NULL;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"%s:%s: the jump at %#jx was overwritten by another tool", probe->provider,
		probe->name, (uintmax_t)site_of(at)->reg.hop);
}

/* All sites; but not the bytes that have been compared before the stop, if they are the same. */
static struct probe_error *verify(const struct commit *c)
{
	bool is_known = edits_are_as_noted(&c->transaction->text);
	struct probe_error *error = NULL;

	for (size_t k = 0; k < c->site_count && !error && !is_known; k++)
		error = verify_bytes(c, k);
	for (size_t i = 0; i < c->hop_count && !error; i++)
		error = verify_hop(c, c->hops[i]);
	return error;
}

/* ---- Threads ------------------------------------------------------------------------ */

/*
 * Sends a thread that is inside bytes about to change to their copy. This is done at once, not when
 * the thread is resumed: if we die in between, the kernel resumes it where its registers point, and
 * the copy is as good as the original.
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

/* The site whose patch, once written, has pc after its first byte; NULL: none. */
static const struct install_site *window_of(const struct commit *c, uint64_t pc)
{
	size_t above = ARRAY_SEARCH(c->sites, c->site_count, patch, pc);
	const struct install_site *as = above ? site_of(&c->sites[above - 1]) : NULL;

	return as && as->is_new && pc < as->reg.patch + as->reg.length ? as : NULL;
}

/* Where instructions begin that will be covered, except those at the jumps' own addresses. */
static struct probe_error *prepare_windows(const struct commit *c)
{
	struct windows *windows = &c->transaction->windows;

	for (size_t i = 0; i < c->site_count; i++) {
		const struct install_site *as = site_of(&c->sites[i]);

		for (size_t k = 0; as->is_new && k < as->moved.count; k++) {
			uint64_t pc = as->reg.patch + as->moved.from_offset[k];

			if (pc > as->reg.patch && pc < as->reg.patch + as->reg.length &&
				!windows_add(windows, pc, pc + 1))
				return probe_error_no_memory();
		}
	}
	return windows_prepare(windows, c->transaction->change);
}

/*
 * Threads that stand between the first and the last byte of a jump to come are
 * moved. Will a signal handler return to such a place?
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

/* Stubs that take the time of a hit must not fault. */
static struct probe_error *check_counter(const struct install *a)
{
	const struct reg_session *session = registry_session(&a->change->registry, a->session);
	struct probe_error *error;

	if (session->flags & REG_SESSION_KERNEL_TIME)
		return NULL;
	/* The kernel writes its answer into the session's data. */
	error = change_confirm(a->change);
	return error ? error
		     : threads_check_counter(
			       a->change, session->data + offsetof(struct data_header, answer));
}

static bool calls_kernel(const struct install *a)
{
	const struct reg_session *session = registry_session(&a->change->registry, a->session);

	return a->asks || a->asks_name || a->asks_cpu || a->waits || a->is_gate ||
	       session->flags & REG_SESSION_KERNEL_TIME;
}

/* See transaction_commit(). */
static struct probe_error *look(void *data, bool *again_ret)
{
	const struct commit *c = data;
	struct change *change = c->transaction->change;
	struct probe_error *error = NULL;
	bool has_stubs = false;

	if (registry_is_stale(&change->registry, change->pid))
		return probe_error_new(PROBE_ERROR_STATE,
			"process %d: another controller has changed its probes meanwhile: try "
			"again",
			change->pid);
	for (const struct install *a = c->transaction->installs; a; a = a->next)
		has_stubs |= !a->is_gate;
	if (has_stubs)
		error = threads_check(change->target, &change->control, &change->thread);
	for (const struct install *a = c->transaction->installs; a && !error; a = a->next) {
		if (a->takes_time)
			error = check_counter(a);
		if (!error && calls_kernel(a))
			error = threads_check_dispatch(change);
	}
	if (!error)
		error = transaction_read(c->transaction);
	if (!error)
		error = verify(c);
	if (!error)
		error = windows_read(&c->transaction->windows, change);
	*again_ret = !error && is_in_the_way(c);
	return error;
}

struct probe_error *install_patch(struct transaction *t)
{
	struct commit c = {.transaction = t};
	struct probe_error *error = prepare_text(&c);

	if (!error)
		error = prepare_registry(&c);
	if (!error)
		error = transaction_prepare(t);
	if (!error)
		error = transaction_read(t);
	if (!error)
		error = verify(&c);
	if (!error)
		error = edits_note(&t->text);
	if (!error) {
		error = edits_pretouch(&t->text, t->change->mem);
		/* The process runs: a library that is not there may be open again by now. */
		t->change->gone |= error && error->code != PROBE_ERROR_NOT_FOUND;
	}
	if (!error)
		error = prepare_windows(&c);
	if (!error)
		error = transaction_commit(t, look, &c,
			"a signal handler would return into the bytes that a patch replaces");
	for (const struct install *a = error ? t->installs : NULL; a; a = a->next)
		forget_semaphores(a);
	if (error)
		transaction_uncount(t);
	free(c.sites);
	free(c.hops);
	return error;
}
