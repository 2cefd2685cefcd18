/* SPDX-License-Identifier: MIT */
/*
 * Before the stop, all edits are known and have buffers, and the registry that describes the result
 * is written. During the stop, one word makes it the current registry. At any time, the registry
 * lists at least the changes that exist in the target:
 *
 *   adding    announced -> sites patched -> registry -> semaphores raised
 *   ending    announced -> sites restored -> semaphores lowered -> registry
 *
 * If a controller is killed before it writes the word, the registry still announces all sites that
 * the controller may have changed. If it is killed after the word, the registry may list semaphores
 * that were not raised. So semaphores are never lowered below 0.
 *
 * If a thousand sites or more change, they do so in several stops. The target runs between them, so
 * its longest pause does not grow with the number of sites. Only the last stop writes the word. A
 * controller that is killed between two stops leaves what one leaves that is killed in a stop:
 * sites that are announced, of which some are patched. An error after the first stop is undone by
 * ending what was added (install.c); what was to end stays so, and the next controller finishes.
 *
 * Counts of probes that are already on change together with everything else. The announcement has
 * the old counts, because the change may get no further than the announcement.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/patch/patch.h"

/* ==== Semaphores ============================================================================== */

/*
 * A probe may have a semaphore for each site, and share it with others. OCaml's have two counters:
 * the first is raised by SystemTap and other tracers, the second, 2 bytes behind, counts users of
 * handlers. Probes of the provider `ocaml` have only the second counter. Tracers must not raise it,
 * because OCaml's tools would then believe that the handlers are on.
 *
 * If only semaphores change, the threads are not stopped ("The stop"). Semaphores are written
 * through /proc/PID/mem for two reasons. Some are in read-only pages (RELRO). And a running program
 * may execute another one at any moment: the descriptor then belongs to memory that is gone, and
 * the write fails, but process_vm_writev(2) would write into the other program.
 */

size_t semaphores_of(const struct selection *selection, const struct select_probe *probe,
	bool handlers, uint64_t *addresses)
{
	size_t count = 0, kept = 0;

	if (handlers ? !sdt_is_ocaml(probe->kind) : probe->kind == SDT_OCAML_HANDLERS)
		return 0;
	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t address = selection->sites[probe->first_site + i].semaphore;

		if (address)
			addresses[count++] =
				address + (handlers ? semaphore_offset(probe->kind) : 0);
	}
	array_sort(addresses, count, sizeof(*addresses), 0);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || addresses[i] != addresses[i - 1])
			addresses[kept++] = addresses[i];
	return kept;
}

/* ---- Changes ------------------------------------------------------------------------- */

bool semaphores_add(struct semaphores *semaphores, uint64_t address, uint64_t label, int by)
{
	return ARRAY_ADD(semaphores->items, semaphores->count,
		(struct semaphore_change){
			.address = address, .label = label, .by = by, .is_set = by == 0});
}

/*
 * Adds all semaphores of a registry without changing their values, so that semaphores_keep() can
 * set their least values.
 */
static bool semaphores_add_all(struct semaphores *semaphores, const struct registry *registry)
{
	bool ok = true;

	for (size_t i = 0; i < registry->semaphore_count && ok; i++)
		ok = ARRAY_ADD(semaphores->items, semaphores->count,
			(struct semaphore_change){.address = registry->semaphores[i].address,
				.label = registry->semaphores[i].label});
	return ok;
}

void semaphores_deinit(struct semaphores *semaphores)
{
	edits_deinit(&semaphores->edits);
	free(semaphores->items);
	*semaphores = (struct semaphores){0};
}

struct probe_error *semaphores_prepare(struct semaphores *s)
{
	struct probe_error *error;
	size_t count = 0;

	/* Merge changes of the same semaphore. */
	ARRAY_SORT(s->items, s->count, address);
	for (size_t i = 0; i < s->count; i++) {
		if (count && s->items[count - 1].address == s->items[i].address &&
			s->items[count - 1].label == s->items[i].label) {
			s->items[count - 1].by += s->items[i].by;
			s->items[count - 1].is_set |= s->items[i].is_set;
			s->items[count - 1].value |= s->items[i].value;
		} else {
			s->items[count++] = s->items[i];
		}
	}
	s->count = count;
	for (size_t i = 0; i < s->count; i++) {
		struct edit *edit = edits_add(&s->edits, s->items[i].address,
			s->items[i].label ? arch_host()->jump_length : sizeof(uint16_t));

		if (!edit)
			return probe_error_no_memory();
		edit->is_write = true;
	}
	error = edits_prepare(&s->edits);
	/* The whole guard is read, and the part that changes is written. */
	for (size_t i = 0; i < s->count && !error; i++)
		if (s->items[i].label)
			s->edits.items[i].length = arch_host()->insn_align;
	return error;
}

/*
 * Sets each prepared semaphore to at least the sum that sessions have added, in case a controller
 * was killed between changing the registry and the semaphores. With guards_only, other semaphores
 * stay as they are.
 */
static void semaphores_keep(
	struct semaphores *semaphores, const struct registry *registry, bool guards_only)
{
	for (size_t i = 0; i < registry->semaphore_count; i++) {
		const struct reg_semaphore *s = &registry->semaphores[i];
		struct semaphore_change *change =
			ARRAY_FIND(semaphores->items, semaphores->count, address, s->address);
		const struct reg_probe *probe = registry_probe(registry, s->key, s->session);

		if (change && (s->label || !guards_only) && probe && probe->refcount &&
			s->added + change->least <= UINT16_MAX)
			change->least += s->added;
	}
}

/* Returns a semaphore's value after a change, computed from its present value. */
static int32_t changed(const struct semaphore_change *change, uint16_t now)
{
	int32_t then = change->is_set ? change->value : now + change->by;

	return !change->is_set && then < change->least ? change->least : then < 0 ? 0 : then;
}

/* Finds the bytes of a guard after a change. Returns false if something else is there. */
static bool read_guard(
	const struct semaphore_change *change, const uint8_t *found, struct edit *edit)
{
	const struct arch *arch = arch_host();
	uint8_t bytes[ARCH_JUMP_MAX];
	enum arch_guard state = arch_guard(arch, change->address, change->label, found, bytes);
	bool is_own = state == ARCH_GUARD_OFF || state == ARCH_GUARD_ON;
	bool on = change->least || (change->by >= 0 && state == ARCH_GUARD_ON);

	memcpy(edit->bytes, on ? bytes : arch->guard_off, arch->insn_align);
	edit->is_write = is_own && on != (state == ARCH_GUARD_ON);
	return is_own;
}

struct probe_error *semaphores_read(struct semaphores *semaphores, pid_t pid)
{
	struct probe_error *error = edits_read(&semaphores->edits, pid);

	for (size_t i = 0; i < semaphores->count && !error; i++) {
		const struct semaphore_change *change = &semaphores->items[i];
		const uint8_t *found = edits_found(&semaphores->edits, i);
		uint16_t now, value;
		int32_t then;

		if (found && change->label &&
			!read_guard(change, found, &semaphores->edits.items[i]))
			found = NULL;
		if (!found && change->by > 0)
			return probe_error_new(PROBE_ERROR_FORMAT, "process %d has no %s at %#jx",
				pid, change->label ? "guard" : "semaphore",
				(uintmax_t)change->address);
		if (!found || change->label)
			continue;
		memcpy(&now, found, sizeof(now));
		then = changed(change, now);
		if (then > UINT16_MAX)
			return probe_error_new(PROBE_ERROR_STATE,
				"the semaphore at %#jx is already at its maximum",
				(uintmax_t)change->address);
		value = then;
		memcpy(semaphores->edits.items[i].bytes, &value, sizeof(value));
		/* Do not write an unchanged value: other tools may write it at any moment. */
		semaphores->edits.items[i].is_write = value != now;
	}
	return error;
}

bool semaphores_coming(const struct semaphores *semaphores, uint64_t address, uint16_t *ret)
{
	const struct semaphore_change *change =
		ARRAY_FIND(semaphores->items, semaphores->count, address, address);
	size_t i = change ? (size_t)(change - semaphores->items) : 0;

	if (!change || !edits_found(&semaphores->edits, i))
		return false;
	memcpy(ret, semaphores->edits.items[i].bytes, sizeof(*ret));
	return true;
}

size_t semaphores_short(const struct registry *registry, pid_t pid)
{
	AUTO(semaphores_deinit) struct semaphores all = {0};
	struct probe_error *error = semaphores_add_all(&all, registry) ? semaphores_prepare(&all)
								       : probe_error_no_memory();
	size_t count = 0;

	semaphores_keep(&all, registry, false);
	error = error ?: semaphores_read(&all, pid);
	for (size_t i = 0; i < all.edits.count && !error; i++)
		count += edits_found(&all.edits, i) && all.edits.items[i].is_write;
	probe_error_free(error);
	return count;
}

/* ==== Toggles ================================================================================= */

/*
 * OCaml's compiler leaves a comparison without effect at each site, which one byte turns into a
 * call of the probe's handler. A word after SystemTap's semaphore counts the handler's users
 * ("Semaphores"). A tool that changes it from or to 0 also writes the bytes of all sites.
 * ocaml-probes does so from within the program, and does not know our registry: so we keep no state
 * of handlers, but read the count before writing it, and switch by the new one.
 *
 * A controller that is killed in between leaves handlers on without a count, or off with a count.
 * The next change, by any tool, sets count and byte.
 */

static const char overwritten[] =
	"the memory there is neither the comparison nor the call that the file has there: another "
	"tool may have patched it";
static const char is_shared[] =
	"it is mapped shared: to switch it would change the file, and every process that has it "
	"mapped";

/* May a probe's sites be toggles, by its kind and the request? */
static bool toggles_asked(const struct select_probe *probe, const struct probe_request *request)
{
	struct plan_order order = plan_order_of(request->plans, request->plan_count);

	return plan_is_asked(&order, &plan_toggle) && arch_host()->toggle &&
	       sdt_is_ocaml(probe->kind);
}

/* ---- Reading ---------------------------------------------------------------------------- */

/* Sets *ret if all sites of a probe are toggles in the file, or it has only a semaphore. */
static struct probe_error *find_plans(
	struct selection *s, const struct select_probe *probe, bool *ret)
{
	static const struct plan_order order = {.plans = {&plan_toggle}, .count = 1};
	AUTO_FREE const struct sdt_note **notes = calloc(probe->site_count + 1, sizeof(*notes));
	AUTO_FREE struct plan *plans = calloc(probe->site_count + 1, sizeof(*plans));
	struct probe_error *error =
		notes && plans ? install_make_plans(s) : probe_error_no_memory();
	size_t count = 0;

	for (size_t i = 0; i < probe->site_count && !error; i++)
		if (s->sites[probe->first_site + i].pc)
			notes[count++] = s->sites[probe->first_site + i].note;
	if (count && !error)
		error = install_plan_notes(probe->module, notes, count, &order, plans);
	*ret = !error;
	count = 0;
	for (size_t i = 0; i < probe->site_count && *ret; i++) {
		struct select_site *site = &s->sites[probe->first_site + i];

		if (!site->pc)
			continue;
		*ret = plans[count].ocaml;
		*site->plan = plans[count++];
	}
	return error;
}

/*
 * Returns the registry's site if our call replaces its toggle, or NULL. Then the count alone
 * switches the handler.
 */
static const struct reg_site *find_call(const struct change *change, const struct select_site *site)
{
	const struct reg_site *reg = registry_site(&change->registry, site->pc);

	return reg && reg->count ? reg : NULL;
}

/* Sets *on if the site calls its handler. Returns NULL, or why the site cannot be switched. */
static const char *look_at(const struct change *change, const struct select_site *site, bool *on)
{
	const struct arch_toggle *toggle = change->arch->toggle;
	const struct reg_site *call = find_call(change, site);
	uint8_t found[PLAN_BYTES];

	if (maps_is_shared(&change->maps, site->pc))
		return is_shared;
	if (memory_read(change->pid, site->pc + toggle->offset, found, toggle->covers) !=
		toggle->covers)
		return overwritten;
	/* OCaml's tools may have written the first byte of our call. */
	if (call && memcmp(found + 1, call->patched + 1, toggle->covers - 1U) == 0)
		return NULL;
	if (!plan_holds_toggle(toggle, site->plan, found))
		return overwritten;
	*on = *on || found[0] == toggle->on;
	return NULL;
}

struct handlers {
	bool on;	/* a site calls its handler, or has a count of users above 0 */
	uint16_t count; /* the highest count of users among the probe's semaphores */
	size_t sites, refused;
	struct select_site *first; /* the first site that was refused */
};

static struct probe_error *look_at_probe(const struct change *change, struct selection *s,
	const struct select_probe *probe, struct handlers *ret)
{
	AUTO_FREE uint64_t *addresses = calloc(probe->site_count + 1, sizeof(*addresses));
	size_t count = addresses ? semaphores_of(s, probe, true, addresses) : 0;

	*ret = (struct handlers){0};
	for (size_t i = 0; i < probe->site_count; i++) {
		struct select_site *site = &s->sites[probe->first_site + i];
		const char *reason = site->pc ? look_at(change, site, &ret->on) : NULL;

		ret->sites += site->pc != 0;
		if (!reason)
			continue;
		select_refuse(site, reason);
		ret->first = ret->first ? ret->first : site;
		ret->refused++;
	}
	for (size_t i = 0; i < count; i++) {
		uint16_t value = 0;

		if (memory_read(change->pid, addresses[i], &value, sizeof(value)) != sizeof(value))
			continue;
		ret->on = ret->on || value;
		if (value > ret->count)
			ret->count = value;
	}
	return addresses ? NULL : probe_error_no_memory();
}

/* ---- Changing --------------------------------------------------------------------------- */

static struct probe_error *add_probe(struct transaction *t, const struct selection *s,
	const struct select_probe *probe, const struct probe_request *request, bool on)
{
	const struct arch_toggle *toggle = t->change->arch->toggle;
	struct toggles *toggles = &t->toggles;
	AUTO_FREE uint64_t *addresses = calloc(probe->site_count + 1, sizeof(*addresses));
	size_t count = addresses ? semaphores_of(s, probe, true, addresses) : 0;
	uint64_t offset = semaphore_offset(probe->kind);
	int times = select_times(probe);
	bool ok = addresses != NULL;

	for (size_t i = 0; i < count && ok; i++)
		ok = request->force
			     ? ARRAY_ADD(t->semaphores.items, t->semaphores.count,
				       (struct semaphore_change){.address = addresses[i],
					       .is_set = true,
					       .value = on})
			     : semaphores_add(&t->semaphores, addresses[i], 0, on ? times : -times);
	for (size_t i = 0; i < probe->site_count && ok; i++) {
		const struct select_site *site = &s->sites[probe->first_site + i];

		if (!site->pc || site->reasons[0] || find_call(t->change, site))
			continue;
		ok = ARRAY_ROOM(toggles->items, toggles->count) &&
		     edits_add(&toggles->edits, site->pc + toggle->offset, sizeof(toggle->on));
		if (ok)
			toggles->items[toggles->count++] = (struct toggle){
				.semaphore = site->semaphore ? site->semaphore + offset : 0,
				.on = on};
	}
	return ok ? NULL : probe_error_no_memory();
}

static struct probe_error *report_refused(const struct change *change, const struct selection *s,
	const struct select_probe *probe, const struct handlers *handlers, bool keep_going,
	struct probe_report *report)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < probe->site_count && !error; i++) {
		const struct select_site *site = &s->sites[probe->first_site + i];

		if (site->reasons[0])
			error = report_refusal(report, probe, site);
	}
	report->plans[plan_id(NULL)] = report->refusal_count;
	if (error || keep_going || !probe->exact)
		return error;
	return probe_error_new(PROBE_ERROR_REFUSED,
		"process %d: %zu of %zu sites of %s:%s cannot be switched, so nothing is changed%s",
		change->pid, handlers->refused, handlers->sites, probe->provider, probe->name,
		handlers->refused < handlers->sites ? " (--keep-going does the rest)" : "");
}

static struct probe_error *take_probe(struct transaction *t, struct selection *s,
	struct select_probe *probe, const struct probe_request *request, bool on,
	struct probe_report *report)
{
	struct handlers handlers;
	struct probe_error *error = look_at_probe(t->change, s, probe, &handlers);

	if (error || (!on && !handlers.on && !request->force))
		return error;
	probe->unwanted = true;
	if (handlers.refused)
		error = report_refused(t->change, s, probe, &handlers, request->keep_going, report);
	if (!error && on && !request->force && handlers.count + select_times(probe) > UINT16_MAX)
		error = probe_error_new(PROBE_ERROR_STATE,
			"%s:%s: its reference count is already at its maximum", probe->provider,
			probe->name);
	if (error || (handlers.sites && handlers.refused == handlers.sites))
		return error;
	report->probes += on || handlers.on;
	report->sites += on || handlers.on ? handlers.sites - handlers.refused : 0;
	report->plans[plan_toggle.id] += handlers.sites - handlers.refused;
	return add_probe(t, s, probe, request, on);
}

struct probe_error *toggles_count(const struct change *change, struct selection *s,
	const struct select_probe *probe, const struct probe_request *request, bool *ret,
	uint16_t *count_ret)
{
	struct handlers handlers;
	struct probe_error *error = NULL;

	*ret = toggles_asked(probe, request);
	if (*ret)
		error = find_plans(s, probe, ret);
	if (error || !*ret)
		return error;
	error = look_at_probe(change, s, probe, &handlers);
	/*
	 * A tool may have died after switching the handler on. Count one user, so that the caller
	 * switches it off.
	 */
	*count_ret = handlers.on && !handlers.count ? 1 : handlers.count;
	return error;
}

struct probe_error *toggles_take(struct transaction *t, struct selection *s,
	const struct probe_request *request, bool on, struct probe_report *report)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < s->probe_count && !error; i++) {
		struct select_probe *probe = &s->probes[i];
		bool is_toggle = false;

		if (!toggles_asked(probe, request))
			continue;
		error = find_plans(s, probe, &is_toggle);
		if (!error && is_toggle)
			error = take_probe(t, s, probe, request, on, report);
	}
	if (!error)
		selection_drop_unwanted(s);
	return error;
}

/* ==== Transaction ============================================================================= */

enum { INTERRUPTED_TRIES = 20 };

struct transaction transaction_of(struct change *change, enum transaction_kind kind)
{
	return (struct transaction){.change = change, .kind = kind};
}

void transaction_end(struct transaction *t)
{
	edits_deinit(&t->text);
	semaphores_deinit(&t->semaphores);
	edits_deinit(&t->toggles.edits);
	free(t->toggles.items);
	windows_close(&t->windows);
	free(t->counts);
	code_release_all(&t->change->taken);
	*t = transaction_of(t->change, t->kind);
}

bool transaction_count(struct transaction *t, uint64_t key, int by)
{
	return ARRAY_ADD(t->counts, t->count_count, (struct transaction_count){key, by});
}

/* ---- The way back ----------------------------------------------------------------------- */

struct probe_error *transaction_keep_way_back(struct transaction *t)
{
	const struct registry *r = &t->change->registry;

	t->before = (struct code_extent){r->image, r->image_size};
	return code_keep(&t->change->taken, t->before) ? NULL : probe_error_no_memory();
}

/* Drops errors: the caller reports the first one. */
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
	probe_error_free(error ?: change_reread(t->change));
}

/* ---- Preparing -------------------------------------------------------------------------- */

/* Changes the count, and the semaphores, of a probe in its session by `by`. */
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
		ok = ok && (!semaphores || semaphores_add(semaphores, items[i].address,
						   items[i].label, by));
	}
	return ok;
}

void transaction_uncount(struct transaction *t)
{
	for (; t->counted > 0; t->counted--)
		change_count(t, t->counts[t->counted - 1].key, -t->counts[t->counted - 1].by, NULL);
}

struct probe_error *transaction_prepare(struct transaction *t)
{
	const struct registry *r = &t->change->registry;
	struct probe_error *error = edits_prepare(&t->text);
	bool ok;

	for (size_t i = 0; i < t->toggles.count; i++)
		t->toggles.edits.items[i].is_write = true;
	error = error ?: edits_prepare(&t->toggles.edits);
	if (error)
		return error;
	ok = t->kind != TRANSACTION_ENDS || semaphores_add_all(&t->semaphores, r);
	for (; t->counted < t->count_count && ok; t->counted++)
		ok = change_count(
			t, t->counts[t->counted].key, t->counts[t->counted].by, &t->semaphores);
	error = ok ? semaphores_prepare(&t->semaphores) : probe_error_no_memory();
	semaphores_keep(&t->semaphores, r, t->kind != TRANSACTION_ENDS);
	/* If no probe was ever enabled, the target has no registry. */
	if (error || t->kind == TRANSACTION_MENDS || !r->home)
		return error;
	error = change_place_image(t->change, &t->next);
	if (!error && t->text.count && t->next.size > CHANGE_PIECE_BYTES)
		error = change_fill(t->change, t->next.start, NULL, t->next.size);
	return error;
}

/* ---- The stop --------------------------------------------------------------------------- */

/*
 * A change of counters alone needs no stop: the program only compares them with 0. Other tools may
 * change a counter between our reading and our writing it, so nothing else is done in between, and
 * a counter whose new value is its old one is not written. Tools of OCaml stop the process with
 * ptrace(2) while they change a counter and the code of its sites: while one is attached, or if
 * code has to change, we stop the process, too.
 */

/*
 * Reads what will be written. The bytes of toggles follow from the new counts in their semaphores.
 */
struct probe_error *transaction_read(struct transaction *t)
{
	const struct arch_toggle *toggle = arch_host()->toggle;
	struct edits *edits = &t->toggles.edits;
	struct probe_error *error = edits_read(&t->text, t->change->pid)
					    ?: semaphores_read(&t->semaphores, t->change->pid);

	if (!error && t->toggles.count)
		error = edits_read(edits, t->change->pid);
	for (size_t i = 0; i < t->toggles.count && !error; i++) {
		const struct toggle *item = &t->toggles.items[i];
		struct edit *edit = &edits->items[i];
		const uint8_t *found = edits_found(edits, i);
		uint16_t count;

		if (!found || (*found != toggle->on && *found != toggle->off))
			return probe_error_new(PROBE_ERROR_REFUSED,
				"process %d: the memory at %#jx was changed by another tool: try "
				"again",
				t->change->pid, (uintmax_t)edit->address);
		edit->bytes[0] = item->on ? toggle->on : toggle->off;
		if (item->semaphore && semaphores_coming(&t->semaphores, item->semaphore, &count))
			edit->bytes[0] = count ? toggle->on : toggle->off;
		edit->is_write = edit->bytes[0] != *found;
	}
	return error;
}

/* Writes sites and toggles. After an error, no site or toggle is changed. */
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

static bool is_stopped(const struct transaction *t)
{
	return t->change->stopped || t->change->target->held;
}

/*
 * Returns true if the bytes of a toggle or guard change, or if another tool may be about to change
 * a toggle.
 */
static bool needs_stop(const struct transaction *t)
{
	bool writes = false;

	for (size_t i = 0; i < t->semaphores.count; i++)
		writes |= t->semaphores.items[i].label && t->semaphores.edits.items[i].is_write;
	for (size_t i = 0; i < t->toggles.count; i++)
		writes |= t->toggles.edits.items[i].is_write;
	return writes ||
	       (t->toggles.count && procfs_status_number(t->change->pid, "TracerPid:") != 0);
}

/* Without a stop, reads again what others may have changed since. Errors: PROBE_ERROR_STATE. */
static struct probe_error *check_race(struct transaction *t)
{
	struct probe_error *error = transaction_read(t);

	if (error || !needs_stop(t))
		return error;
	t->raced = true;
	/* Without a stop, no byte of code is written, not even to take back a change. */
	for (size_t i = 0; i < t->toggles.count; i++)
		t->toggles.edits.items[i].is_write = false;
	for (size_t i = 0; i < t->semaphores.count; i++)
		t->semaphores.edits.items[i].is_write &= !t->semaphores.items[i].label;
	return probe_error_new(PROBE_ERROR_STATE,
		"process %d: another tool is changing its handlers or guards: try again",
		t->change->pid);
}

static struct probe_error *write_semaphores(struct transaction *t)
{
	struct probe_error *error = is_stopped(t) ? NULL : check_race(t);

	return error ?: edits_write(&t->semaphores.edits, t->change->mem);
}

bool transaction_is_last(const struct transaction *t)
{
	return t->text.turn + (size_t)1 >= t->turns;
}

struct probe_error *transaction_write(struct transaction *t)
{
	const struct registry *r = &t->change->registry;
	struct code_extent now = {r->image, r->image_size};
	bool raise = t->kind != TRANSACTION_ENDS;
	int mem = t->change->mem;
	/* In a stop, the program cannot replace our memory. Counts are written without one. */
	struct probe_error *error = change_confirm(t->change);

	if (!error && !transaction_is_last(t)) {
		t->written = !raise;
		return edits_write(&t->text, mem);
	}
	error = error ?: write_text(t);
	if (error)
		return error;
	if (!raise)
		error = write_semaphores(t);
	else if (t->next.start)
		error = change_write_image(t->change, t->next);
	if (!error) {
		if (raise)
			error = write_semaphores(t);
		else if (t->next.start)
			error = change_write_image(t->change, t->next);
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
	t->written = true;
	/* the registry now lists the memory that the change has taken */
	code_release_all(&t->change->taken);
	return NULL;
}

struct probe_error *transaction_commit_counts(struct transaction *t)
{
	struct probe_error *error;

	if (!t->count_count && !t->semaphores.count && !t->toggles.count)
		return NULL;
	error = transaction_prepare(t);
	if (error)
		return error;
	if (!t->atomic && !is_stopped(t)) {
		error = transaction_read(t);
		if (!error && !needs_stop(t))
			error = transaction_write(t);
		if (t->written || (error && !t->raced))
			return error;
		probe_error_free(error);
	}
	error = t->change->stopped ? NULL : change_stop(t->change);
	error = error ?: transaction_read(t) ?: transaction_write(t);
	change_resume(t->change);
	return error;
}

/* Makes stops until one has written the present turn. */
static struct probe_error *commit_turn(struct transaction *t,
	struct probe_error *(*look)(void *data, bool *again_ret), void *data, const char *what)
{
	for (int i = 0; i < INTERRUPTED_TRIES; i++) {
		struct probe_error *error = change_stop(t->change);
		bool again = false;

		if (error)
			return error;
		error = look(data, &again);
		if (!error && !again)
			error = transaction_write(t);
		change_resume(t->change);
		if (!error && !again)
			return NULL;
		error = error ?: windows_wait(&t->windows);
		if (error)
			return error;
	}
	return probe_error_new(
		PROBE_ERROR_STATE, "process %d: %s: try again", t->change->pid, what);
}

struct probe_error *transaction_commit(struct transaction *t,
	struct probe_error *(*look)(void *data, bool *again_ret), void *data, const char *what)
{
	struct probe_error *error;

	t->text.turn = 0;
	error = commit_turn(t, look, data, what);
	while (!error && !transaction_is_last(t)) {
		t->text.turn++;
		error = commit_turn(t, look, data, what);
	}
	return error;
}
