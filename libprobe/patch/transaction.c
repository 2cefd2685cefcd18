/* SPDX-License-Identifier: MIT */
/*
 * Before the stop it is known what is written and where, and the buffers exist. So does the
 * registry that describes the result: during the stop, one word makes it the current one. The
 * registry always lists at least what is there:
 *
 *   adding    announced -> sites patched -> registry -> semaphores raised
 *   ending    announced -> sites restored -> semaphores lowered -> registry
 *
 * A controller that is killed before the word leaves sites that the registry announced to be
 * changed; after it, semaphores that the registry lists as raised. Those are never lowered
 * below 0.
 *
 * Counts of probes that are on already change with the rest. They are announced as they were, since
 * the change may get no further than the announcement.
 */
#include <stdlib.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"

enum { INTERRUPTED_TRIES = 20 };

struct transaction transaction_of(struct change *change, enum transaction_kind kind)
{
	return (struct transaction){.change = change, .kind = kind};
}

void transaction_end(struct transaction *t)
{
	edits_deinit(&t->text);
	semaphores_deinit(&t->semaphores);
	toggles_deinit(&t->toggles);
	windows_close(&t->windows);
	free(t->counts);
	code_release_all(&t->change->taken);
	*t = transaction_of(t->change, t->kind);
}

bool transaction_count(struct transaction *t, uint64_t key, int by)
{
	if (!ARRAY_ROOM(t->counts, t->count_count))
		return false;
	t->counts[t->count_count++] = (struct transaction_count){key, by};
	return true;
}

/* ---- The way back ----------------------------------------------------------------------- */

struct probe_error *transaction_keep_way_back(struct transaction *t)
{
	const struct registry *r = &t->change->registry;

	t->before = (struct code_extent){r->image, r->image_size};
	return code_keep(&t->change->taken, t->before) ? NULL : probe_error_no_memory();
}

void transaction_go_back(struct transaction *t)
{
	struct probe_error *error;
	bool stops;

	if (!t->before.start || t->written)
		return;
	error = change_begin_write(t->change, &stops);
	if (!error) {
		error = change_publish(t->change, t->before);
		change_end_write(t->change, stops);
	}
	probe_error_free(error ? error : change_reread(t->change)); /* the first is reported */
}

/* ---- Preparing -------------------------------------------------------------------------- */

/* All that a probe's session added to semaphores changes as its count does. */
static bool change_count(struct transaction *t, uint64_t key, int by, struct semaphores *semaphores)
{
	struct registry *r = &t->change->registry;
	struct reg_probe *probe = registry_persistent(r, key);
	struct reg_semaphore *items;
	bool ok = true;
	size_t count;

	probe->refcount += by;
	items = registry_semaphores(r, key, &count);
	for (size_t i = 0; i < count; i++) {
		if (items[i].session != probe->session)
			continue;
		items[i].added += by;
		ok = ok && (!semaphores || semaphores_add(semaphores, items[i].address, by));
	}
	return ok;
}

void transaction_uncount(struct transaction *t)
{
	for (; t->counted > 0; t->counted--)
		change_count(t, t->counts[t->counted - 1].key, -t->counts[t->counted - 1].by, NULL);
}

static struct probe_error *prepare_semaphores(struct transaction *t)
{
	const struct registry *r = &t->change->registry;
	bool ok = t->kind != TRANSACTION_ENDS || semaphores_add_all(&t->semaphores, r);
	struct probe_error *error;

	for (; t->counted < t->count_count && ok; t->counted++)
		ok = change_count(
			t, t->counts[t->counted].key, t->counts[t->counted].by, &t->semaphores);
	error = ok ? semaphores_prepare(&t->semaphores) : probe_error_no_memory();
	if (t->kind == TRANSACTION_ENDS)
		semaphores_keep(&t->semaphores, r);
	return error;
}

struct probe_error *transaction_prepare(struct transaction *t)
{
	struct probe_error *error = edits_prepare(&t->text);

	if (!error)
		error = toggles_prepare(&t->toggles);
	if (!error)
		error = prepare_semaphores(t);
	/* A process in which nothing was ever enabled has no registry. */
	if (error || t->kind == TRANSACTION_MENDS || !t->change->registry.home)
		return error;
	return change_place_image(t->change, &t->next);
}

/* ---- The stop --------------------------------------------------------------------------- */

struct probe_error *transaction_read(struct transaction *t)
{
	struct probe_error *error = edits_read(&t->text, t->change->pid);

	if (!error)
		error = semaphores_read(&t->semaphores, t->change->pid);
	return error ? error : toggles_read(&t->toggles, &t->semaphores, t->change->pid);
}

static struct probe_error *publish(const struct transaction *t)
{
	return t->next.start ? change_write_image(t->change, t->next) : NULL;
}

/* Sites and toggles: all or none. */
static struct probe_error *write_text(struct transaction *t)
{
	struct probe_error *error = edits_write(&t->text, t->change->mem);

	if (error)
		return error;
	error = edits_write(&t->toggles.edits, t->change->mem);
	if (error)
		edits_revert(&t->text, t->change->mem);
	return error;
}

/* Writes only memory that is still ours, and the program's as it was read. */
static struct probe_error *write_all(struct transaction *t)
{
	const struct registry *r = &t->change->registry;
	struct code_extent now = {r->image, r->image_size};
	bool raise = t->kind != TRANSACTION_ENDS;
	int mem = t->change->mem;
	struct probe_error *error = write_text(t);

	if (error)
		return error;
	error = raise ? publish(t) : semaphores_write(&t->semaphores, mem);
	if (!error) {
		error = raise ? semaphores_write(&t->semaphores, mem) : publish(t);
		if (error && raise)
			probe_error_free(change_publish(t->change, now));
		else if (error)
			edits_revert(&t->semaphores.edits, mem);
	}
	if (error) {
		edits_revert(&t->toggles.edits, mem);
		edits_revert(&t->text, mem);
		return error;
	}
	return NULL;
}

struct probe_error *transaction_write(struct transaction *t)
{
	/*
	 * The program may have replaced the memory that holds the registry and the stubs in use.
	 * All threads are stopped, unless only counts change.
	 */
	struct probe_error *error = change_confirm(t->change);

	if (!error)
		error = write_all(t);
	if (error)
		return error;
	t->written = true;
	code_release_all(&t->change->taken); /* the registry names all of it now */
	return NULL;
}

struct probe_error *transaction_commit_counts(struct transaction *t)
{
	struct probe_error *error;

	if (!t->count_count && !t->semaphores.count && !t->toggles.count)
		return NULL;
	error = transaction_prepare(t);
	if (!error && (t->atomic || t->toggles.count))
		error = change_stop(t->change);
	if (!error)
		error = transaction_read(t);
	if (!error)
		error = transaction_write(t);
	change_resume(t->change);
	return error;
}

/* One stop. *again_ret: nothing was done, because a thread is in the way. */
static struct probe_error *commit_once(struct transaction *t,
	struct probe_error *(*look)(void *data, bool *again_ret), void *data, bool *again_ret)
{
	struct probe_error *error = change_stop(t->change);

	*again_ret = false;
	if (error)
		return error;
	error = look(data, again_ret);
	if (!error && !*again_ret)
		error = transaction_write(t);
	change_resume(t->change);
	return error;
}

struct probe_error *transaction_commit(struct transaction *t,
	struct probe_error *(*look)(void *data, bool *again_ret), void *data, const char *what)
{
	for (int i = 0; i < INTERRUPTED_TRIES; i++) {
		bool again;
		struct probe_error *error = commit_once(t, look, data, &again);

		if (error || !again)
			return error;
		error = windows_wait(&t->windows);
		if (error)
			return error;
	}
	return probe_error_new(
		PROBE_ERROR_STATE, "process %d: %s: try again", t->change->pid, what);
}
