/* SPDX-License-Identifier: MIT */
/*
 * The part of attaching that happens while the target stands still: as little
 * as possible. What is written is known before, in what memory, and the buffers
 * are there. Pages that will be written are made the target's own before.
 *
 * The registry that tells what has been done is written before, too: under the
 * stop, one word makes it the current one, between patching the sites and
 * raising the semaphores. Killed before that word, a controller leaves patched
 * sites that the registry has announced; killed behind it, semaphores that it
 * says are raised, and that are lowered to 0 at the least.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#include "libprobe/patch/install.h"
#include "libprobe/process/edits.h"
#include "libprobe/target/target.h"
#include "libprobe/target/threads.h"

enum {
	INTERRUPTED_TRIES = 20,
};

/* What is prepared before the stop. */
struct commit {
	/* Two for each site that is patched: the bytes that must be there, and the patch. */
	struct edits text;
	size_t *sites; /* their indices, by address */
	size_t site_count;
	struct semaphores semaphores;
	uint64_t image, image_size; /* of the registry to come */
};

/* ---- Preparing ---------------------------------------------------------------------- */

/* Adds the bytes that have to be right at a site for its patch to be. */
static struct edit *expect(const struct install *a, size_t i, struct edits *edits)
{
	const struct install_site *as = &a->sites[i];

	if (!as->is_new)
		return edits_add(edits, as->reg.patch, as->reg.length);
	return edits_add(edits, as->reg.pc,
		plan_needs(a->change->arch, &a->selection->sites[i].plan,
			(enum probe_plan)as->reg.plan));
}

/* Are they? */
static bool is_expected(const struct install *a, size_t i, const uint8_t *found)
{
	const struct install_site *as = &a->sites[i];

	if (!as->is_new)
		return memcmp(found, as->reg.patched, as->reg.length) == 0;
	return plan_holds(a->change->arch, &a->selection->sites[i].plan,
		(enum probe_plan)as->reg.plan, found);
}

/* The bytes to be written for a site. */
static struct probe_error *describe_edit(const struct install *a, size_t i, struct edit *edit)
{
	const struct arch *arch = a->change->arch;
	const struct install_site *as = &a->sites[i];

	edit->is_write = true;
	if (as->is_new) {
		memcpy(edit->bytes, as->reg.patched, as->reg.length);
		edit->length = as->reg.length;
		return NULL;
	}
	/* The jump that leads to the first stub is redirected to the new one. */
	edit->length = as->reg.pun ? arch->far_jump(as->reg.entry, as->head, edit->bytes)
				   : arch->jump(as->reg.entry, as->head, edit->bytes);
	return edit->length ? NULL
			    : probe_error_new(PROBE_ERROR_REFUSED,
				      "no stub can be placed near %#jx", (uintmax_t)as->reg.pc);
}

static struct probe_error *prepare_text(const struct install *a, struct commit *c)
{
	struct probe_error *error = NULL;

	c->sites = calloc(a->order_count + 1, sizeof(*c->sites));
	if (!c->sites)
		return probe_error_no_memory();
	for (size_t k = 0; k < a->order_count && !error; k++) {
		size_t i = a->order[k];
		const struct install_site *as = &a->sites[i];
		struct edit *edit;

		/* A toggle has no stub. */
		if (as->first != i || !(as->head || (as->wanted && as->is_new)))
			continue;
		c->sites[c->site_count++] = i;
		if (!expect(a, i, &c->text) ||
			!(edit = edits_add(
				  &c->text, as->is_new ? as->reg.patch : as->reg.entry, 0)))
			return probe_error_no_memory();
		error = describe_edit(a, i, edit);
	}
	return error ? error : edits_prepare(&c->text);
}

/* The semaphores of every probe of the selection, in the registry and to be raised. */
static struct probe_error *prepare_semaphores(const struct install *a, struct commit *c)
{
	const struct selection *s = a->selection;
	uint64_t *addresses = calloc(s->site_count + 1, sizeof(*addresses));
	bool ok = addresses != NULL;

	for (size_t i = 0; i < s->probe_count && ok; i++) {
		size_t count =
			s->probes[i].refused ? 0 : semaphores_of(s, &s->probes[i], addresses);

		for (size_t k = 0; k < count && ok; k++) {
			struct reg_semaphore *added = registry_add_semaphore(&a->change->registry);

			ok = added && semaphores_add(&c->semaphores, addresses[k], 1);
			if (added)
				*added = (struct reg_semaphore){.key = s->probes[i].key,
					.address = addresses[k],
					.session = a->session,
					.added = ok};
		}
	}
	registry_sort(&a->change->registry);
	free(addresses);
	return ok ? semaphores_prepare(&c->semaphores) : probe_error_no_memory();
}

/* They were not raised: what is undone now must not lower them. */
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

/* The registry as it is to be afterwards. */
static struct probe_error *prepare_image(const struct install *a, struct commit *c)
{
	struct registry *r = &a->change->registry;
	struct reg_session *session = registry_session(r, a->session);
	struct probe_error *error;

	for (size_t k = 0; k < c->site_count; k++) {
		const struct install_site *as = &a->sites[c->sites[k]];
		const struct edit *edit = &c->text.items[2 * k + 1];
		struct reg_site *site = registry_site(r, as->reg.pc);

		/* What is there then is what a later removal has to find. */
		if (!as->is_new && site && !site->pun)
			memcpy(site->patched, edit->bytes, site->length);
	}
	if (session && a->persistent)
		session->flags |= REG_SESSION_PERSISTENT;
	if (session && (a->persistent || a->caller)) {
		session->owner = 0;
		session->owner_start = a->caller;
	}
	c->image_size = registry_image_size(r);
	/* Anywhere: images are data. */
	error = change_alloc_code(a->change, c->image_size, r->home, r->home + 1, &c->image);
	return error ? error : registry_write(r, a->change->mem, c->image);
}

/* ---- Verifying ------------------------------------------------------------------------ */

/* Compares the bytes of all sites with what their plans were made for. */
static struct probe_error *verify(const struct install *a, struct commit *c)
{
	struct probe_error *error = edits_read(&c->text, a->change->pid);

	for (size_t k = 0; k < c->site_count && !error; k++) {
		size_t i = c->sites[k];
		uint64_t at = c->text.items[2 * k].address;
		const uint8_t *found = edits_found(&c->text, 2 * k);
		const struct select_probe *probe =
			&a->selection->probes[a->selection->sites[i].probe];

		if (!found)
			error = probe_error_new(PROBE_ERROR_REFUSED,
				"%s:%s: there is no memory at %#jx", probe->provider, probe->name,
				(uintmax_t)at);
		else if (!is_expected(a, i, found))
			error = probe_error_new(PROBE_ERROR_REFUSED,
				"%s:%s: the memory at %#jx does not hold what %s holds: another "
				"tool may have patched it",
				probe->provider, probe->name, (uintmax_t)at, probe->module->path);
	}
	return error;
}

/* ---- Threads ------------------------------------------------------------------------ */

/*
 * Sends a thread that is inside bytes about to change to their copy. At once,
 * not when it is let go: should we die in between, the kernel lets it go where
 * its registers say, and the copy is as good as the original.
 */
static bool move_thread(const struct install_site *as, struct control_thread *thread)
{
	uint64_t offset = thread->regs.rip - as->reg.patch;

	for (size_t k = 0; k < as->moved.count; k++) {
		if (as->moved.from_offset[k] != offset)
			continue;
		thread->regs.rip = as->reg.tail + as->moved.to_offset[k];
		return ptrace(PTRACE_SETREGS, thread->tid, NULL, &thread->regs) == 0;
	}
	return false;
}

/* The site whose patch, once written, has pc behind its first byte; NULL: none. */
static const struct install_site *window_of(
	const struct install *a, const struct commit *c, uint64_t pc)
{
	size_t low = 0, high = c->site_count;

	/* The last site whose patch begins below pc; patches do not meet. */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (a->sites[c->sites[middle]].reg.patch < pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low) {
		const struct install_site *as = &a->sites[c->sites[low - 1]];

		return as->is_new && pc < as->reg.patch + as->reg.length ? as : NULL;
	}
	return NULL;
}

/* Where instructions begin that will be covered, but for those at the jumps' own addresses. */
static struct probe_error *prepare_windows(struct install *a, const struct commit *c)
{
	for (size_t i = 0; i < c->site_count; i++) {
		const struct install_site *as = &a->sites[c->sites[i]];

		for (size_t k = 0; as->is_new && k < as->moved.count; k++) {
			uint64_t pc = as->reg.patch + as->moved.from_offset[k];

			if (pc > as->reg.patch && pc < as->reg.patch + as->reg.length &&
				!windows_add(&a->windows, pc, pc + 1))
				return probe_error_no_memory();
		}
	}
	return windows_prepare(&a->windows, a->change);
}

/*
 * Threads that stand between the first and the last byte of a jump to come are
 * moved; *again_ret is set if a signal handler will return to such a place.
 */
static struct probe_error *clear_windows(struct install *a, const struct commit *c, bool *again_ret)
{
	struct control *control = &a->change->control;
	const struct frames *frames = &a->windows.frames;
	struct probe_error *error = windows_read(&a->windows, a->change);

	for (size_t i = control->count; !error && i < frames->count && !*again_ret; i++)
		*again_ret = window_of(a, c, frames->pcs[i]) != NULL;
	for (size_t i = 0; !error && i < control->count && !*again_ret; i++) {
		const struct install_site *as = window_of(a, c, frames->pcs[i]);

		*again_ret = as && !move_thread(as, &control->threads[i]);
	}
	return error;
}

/* ---- The stop -------------------------------------------------------------------------- */

/* Everything has been looked at. An error leaves all as it was. */
static struct probe_error *write_all(struct install *a, struct commit *c)
{
	struct change *change = a->change;
	uint64_t old = change->registry.image, old_size = change->registry.image_size;
	struct probe_error *error = edits_write(&c->text, change->mem);

	if (error)
		return error;
	error = registry_publish(&change->registry, change->mem, c->image, c->image_size);
	if (!error) {
		error = semaphores_write(&c->semaphores, change->mem);
		if (error)
			probe_error_free(
				registry_publish(&change->registry, change->mem, old, old_size));
	}
	if (error)
		edits_revert(&c->text, change->mem);
	return error;
}

/* Stubs that take the time of a hit must not fault. */
static struct probe_error *check_counter(const struct install *a)
{
	const struct reg_session *session = registry_session(&a->change->registry, a->session);

	return session->flags & REG_SESSION_KERNEL_TIME
		       ? NULL
		       : threads_check_counter(
				 a->change, session->data + offsetof(struct data_header, answer));
}

/* One stop. *again_ret: nothing was done, as a signal handler is in the way. */
static struct probe_error *commit_once(struct install *a, struct commit *c, bool *again_ret)
{
	struct change *change = a->change;
	struct probe_error *error = change_stop(change);

	*again_ret = false;
	if (error)
		return error;
	if (registry_is_stale(&change->registry, change->pid))
		error = probe_error_new(PROBE_ERROR_STATE,
			"process %d: its probes were changed by somebody else meanwhile: try again",
			change->pid);
	if (!error && !a->is_gate)
		error = threads_check(change->target, &change->control, &change->thread);
	if (!error && a->takes_time)
		error = check_counter(a);
	if (!error)
		error = verify(a, c);
	if (!error)
		error = semaphores_read(&c->semaphores, change->pid);
	if (!error)
		error = clear_windows(a, c, again_ret);
	if (!error && !*again_ret)
		error = write_all(a, c);
	change_resume(change);
	return error;
}

static struct probe_error *commit_tries(struct install *a, struct commit *c)
{
	for (int i = 0; i < INTERRUPTED_TRIES; i++) {
		bool again;
		struct probe_error *error = commit_once(a, c, &again);

		if (error || !again)
			return error;
		error = windows_wait(&a->windows);
		if (error)
			return error;
	}
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d: a signal handler stays where a site is to be patched: try again",
		a->change->pid);
}

struct probe_error *install_commit(struct install *install)
{
	struct change *change = install->change;
	struct commit c = {0};
	struct probe_error *error = prepare_text(install, &c);

	if (!error)
		error = verify(install, &c);
	if (!error)
		error = edits_pretouch(&c.text, change->mem);
	if (!error)
		error = prepare_semaphores(install, &c);
	if (!error)
		error = prepare_image(install, &c);
	if (!error)
		error = prepare_windows(install, &c);
	if (!error)
		error = commit_tries(install, &c);
	if (error)
		forget_semaphores(install);
	change->taken.count = 0; /* the registry itself knows where its image is */
	edits_deinit(&c.text);
	semaphores_deinit(&c.semaphores);
	free(c.sites);
	return error;
}
