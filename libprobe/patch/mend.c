/* SPDX-License-Identifier: MIT */
/*
 * Patches sites again that something has restored, even if only the first byte. Their stubs and
 * tails still exist. They were made from the file's bytes, so the site must hold exactly these, and
 * all threads are stopped when it is compared. A thread that is where the patch will be written, or
 * will return there from a signal handler, gets a moment to leave: it cannot be moved, because it
 * is no longer known which instruction of the tail replaces which of the site.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/patch.h"
#include "libprobe/registry/registry.h"

/* The sites to patch again; for each, two edits: the expected bytes, and the patch. */
struct mending {
	const struct reg_site **sites;
	uint8_t (*wanted)[EDIT_BYTES]; /* the file's bytes, window_of() of them */
	size_t count;
	struct transaction transaction;
};

/* From the patch on, what is written or relied on. */
static size_t window_of(const struct reg_site *site)
{
	size_t covers = site->covers > site->relies ? site->covers : site->relies;

	return covers > site->length ? covers : site->length;
}

/* What the file holds where the patch replaces something, or relies on it. */
static bool read_file(
	const struct change *change, const struct reg_site *site, uint8_t bytes[EDIT_BYTES])
{
	const struct module *module = modules_find(&change->modules, site->patch);
	size_t size = window_of(site);

	return module && module->object && size <= EDIT_BYTES &&
	       object_read(module->object, site->patch - module->bias, bytes, size) == size &&
	       site_is_in_file(&change->modules, site);
}

/* The program may have copied its text to memory that other processes have as well. */
static bool is_private(const struct change *change, const struct reg_site *site)
{
	const struct mapping *mapping = maps_find(&change->maps, site->patch);

	return mapping && !mapping->is_shared;
}

static bool add(struct mending *m, const struct change *change, const struct reg_site *site)
{
	struct edit *edit;

	if (!is_private(change, site) || !read_file(change, site, m->wanted[m->count]))
		return true;
	edit = edits_add(&m->transaction.text, site->patch, window_of(site));
	edit = edit ? edits_add(&m->transaction.text, site->patch, site->length) : NULL;
	if (!edit)
		return false;
	edit->is_write = true;
	memcpy(edit->bytes, site->patched, site->length);
	m->sites[m->count++] = site;
	return true;
}

static struct probe_error *find(struct mending *m, const struct change *change)
{
	const struct registry *r = &change->registry;
	enum site_state *states = NULL;
	struct edits edits = {0};
	struct probe_error *error = site_read_all(r, change->pid, &edits, &states);

	m->sites = calloc(r->site_count + 1, sizeof(*m->sites));
	m->wanted = calloc(r->site_count + 1, sizeof(*m->wanted));
	if (!error && (!m->sites || !m->wanted))
		error = probe_error_no_memory();
	for (size_t i = 0; i < r->site_count && !error; i++)
		if (r->sites[i].pc &&
			(states[i] == SITE_ORIGINAL ||
				(states[i] == SITE_FOREIGN &&
					site_is_mixed(&r->sites[i], edits_found(&edits, i)))) &&
			site_is_wanted(r, &r->sites[i]) && !add(m, change, &r->sites[i]))
			error = probe_error_no_memory();
	edits_deinit(&edits);
	free(states);
	return error;
}

/* A short jump is of use only while the other one is there. */
static bool leads_home(const struct mending *m, const struct reg_site *site)
{
	return !site->hop || site_has_hop(site, m->transaction.change->pid);
}

/* Has something else been written there since? Such a site is left alone. */
static void check(struct mending *m)
{
	struct edits *edits = &m->transaction.text;

	for (size_t i = 0; i < m->count; i++) {
		const uint8_t *found = edits_found(edits, 2 * i);
		size_t length = m->sites[i]->length;

		edits->items[2 * i + 1].is_write = found && site_is_mixed(m->sites[i], found) &&
						   leads_home(m, m->sites[i]) &&
						   memcmp(found + length, m->wanted[i] + length,
							   window_of(m->sites[i]) - length) == 0;
	}
}

/*
 * Where the bytes begin that no thread may continue at while they are written. At a patch's first
 * byte any may, and so it may at the second jump of a twin, as one does after a breakpoint.
 */
static uint64_t window_start(const struct mending *m, const struct reg_site *site)
{
	const struct plan_ops *plan = plan_of(site->plan);

	return site->patch + 1 +
	       (plan && plan->is_double ? m->transaction.change->arch->site_nop : 0);
}

/* Would a thread continue between the bytes of a patch? */
static bool in_the_way(const struct mending *m)
{
	for (size_t i = 0; i < m->count; i++)
		if (frames_within(&m->transaction.windows.frames, window_start(m, m->sites[i]),
			    m->sites[i]->patch + m->sites[i]->length))
			return true;
	return false;
}

static struct probe_error *prepare_windows(struct mending *m)
{
	struct windows *windows = &m->transaction.windows;
	const struct change *change = m->transaction.change;
	const char *reason = windows_reason(windows, change);

	if (reason)
		return probe_error_new(PROBE_ERROR_REFUSED,
			"process %d: no site can be patched again: %s", change->pid, reason);
	for (size_t i = 0; i < m->count; i++)
		if (!windows_add(windows, window_start(m, m->sites[i]),
			    m->sites[i]->patch + m->sites[i]->length))
			return probe_error_no_memory();
	return windows_prepare(windows, change);
}

/* See transaction_commit(). */
static struct probe_error *look(void *data, bool *again_ret)
{
	struct mending *m = data;
	struct transaction *t = &m->transaction;
	struct probe_error *error = transaction_read(t);

	if (!error)
		error = windows_read(&t->windows, t->change);
	if (error)
		return error;
	frames_sort(&t->windows.frames);
	check(m);
	*again_ret = in_the_way(m);
	return NULL;
}

static struct probe_error *mend(struct mending *m)
{
	struct transaction *t = &m->transaction;
	struct probe_error *error = transaction_prepare(t);

	if (!error)
		error = transaction_read(t);
	if (!error)
		error = edits_pretouch(&t->text, t->change->mem);
	if (!error)
		error = prepare_windows(m);
	return error ? error
		     : transaction_commit(t, look, m,
			       "a thread does not leave the bytes that a patch replaces");
}

struct probe_error *mend_sites(struct change *change, size_t *count_ret)
{
	struct mending m = {.transaction = transaction_of(change, TRANSACTION_MENDS)};
	struct probe_error *error = find(&m, change);

	*count_ret = 0;
	if (!error && m.count)
		error = mend(&m);
	for (size_t i = 0; i < m.count && !error; i++)
		*count_ret += m.transaction.text.items[2 * i + 1].is_write;
	transaction_end(&m.transaction);
	free(m.sites);
	free(m.wanted);
	return error;
}
