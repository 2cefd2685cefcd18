/* SPDX-License-Identifier: MIT */
/*
 * A probe may have several semaphores, one for each of its sites, and probes may share one. OCaml's
 * have two counters: the one that SystemTap and other tracers raise is at the address that the note
 * names, and 2 bytes after it is the one that says whether handlers are called. The provider
 * `ocaml` has only the latter, at that address, so there is none for tracers: if one raised it,
 * OCaml's tools would believe that the handlers are switched on already.
 *
 * They are written through /proc/PID/mem, as some lie in pages that the program
 * makes read-only (RELRO).
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/query/query.h"
#include "libprobe/patch/patch.h"

uint64_t semaphore_offset(const char *provider)
{
	return plan_is_ocaml(provider) && strcmp(provider, "ocaml") != 0 ? sizeof(uint16_t) : 0;
}

/* Sorts them; equal ones become one. */
static size_t distinct(uint64_t *addresses, size_t count)
{
	size_t kept = 0;

	array_sort(addresses, count, sizeof(*addresses), 0);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || addresses[i] != addresses[i - 1])
			addresses[kept++] = addresses[i];
	return kept;
}

/* The distinct ones at this offset from the address of the note. */
static size_t collect(const struct selection *selection, const struct select_probe *probe,
	uint64_t offset, uint64_t *addresses)
{
	size_t count = 0;

	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t address = selection->sites[probe->first_site + i].semaphore;

		if (address)
			addresses[count++] = address + offset;
	}
	return distinct(addresses, count);
}

size_t semaphores_of(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses)
{
	bool is_handlers = plan_is_ocaml(probe->provider) && !semaphore_offset(probe->provider);

	return is_handlers ? 0 : collect(selection, probe, 0, addresses);
}

uint64_t *semaphores_raised(const struct selection *selection, const struct select_probe *probe,
	const char *with, size_t *count_ret)
{
	const struct sdt_notes *notes = &probe->module->notes;
	uint64_t *addresses = calloc(probe->site_count + notes->count + 1, sizeof(*addresses));
	size_t count = addresses ? semaphores_of(selection, probe, addresses) : 0;

	for (size_t i = 0; i < notes->count && with && addresses; i++) {
		const struct sdt_note *note = &notes->notes[i];

		if (note->semaphore && strcmp(note->provider, probe->provider) == 0 &&
			catalogue_name_matches(with, note->name))
			addresses[count++] = note->semaphore + probe->module->bias;
	}
	*count_ret = addresses ? distinct(addresses, count) : 0;
	return addresses;
}

size_t semaphores_of_handlers(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses)
{
	return plan_is_ocaml(probe->provider)
		       ? collect(selection, probe, semaphore_offset(probe->provider), addresses)
		       : 0;
}

/* ---- Changes ------------------------------------------------------------------------- */

static bool add_change(struct semaphores *semaphores, struct semaphore_change change)
{
	if (!ARRAY_ROOM(semaphores->items, semaphores->count))
		return false;
	semaphores->items[semaphores->count++] = change;
	return true;
}

bool semaphores_add(struct semaphores *semaphores, uint64_t address, int by)
{
	return add_change(semaphores,
		(struct semaphore_change){.address = address, .by = by, .is_set = by == 0});
}

bool semaphores_set(struct semaphores *semaphores, uint64_t address, uint16_t value)
{
	return add_change(semaphores,
		(struct semaphore_change){.address = address, .is_set = true, .value = value});
}

bool semaphores_add_all(struct semaphores *semaphores, const struct registry *registry)
{
	bool ok = true;

	for (size_t i = 0; i < registry->semaphore_count && ok; i++)
		ok = add_change(semaphores,
			(struct semaphore_change){.address = registry->semaphores[i].address});
	return ok;
}

void semaphores_deinit(struct semaphores *semaphores)
{
	edits_deinit(&semaphores->edits);
	free(semaphores->items);
	*semaphores = (struct semaphores){0};
}

/* Changes of one semaphore become one. */
static void merge(struct semaphores *s)
{
	size_t count = 0;

	ARRAY_SORT(s->items, s->count, address);
	for (size_t i = 0; i < s->count; i++) {
		if (count && s->items[count - 1].address == s->items[i].address) {
			s->items[count - 1].by += s->items[i].by;
			s->items[count - 1].is_set |= s->items[i].is_set;
			s->items[count - 1].value |= s->items[i].value;
		} else {
			s->items[count++] = s->items[i];
		}
	}
	s->count = count;
}

struct probe_error *semaphores_prepare(struct semaphores *semaphores)
{
	merge(semaphores);
	for (size_t i = 0; i < semaphores->count; i++) {
		struct edit *edit = edits_add(
			&semaphores->edits, semaphores->items[i].address, sizeof(uint16_t));

		if (!edit)
			return probe_error_no_memory();
		edit->is_write = true;
	}
	return edits_prepare(&semaphores->edits);
}

void semaphores_keep(struct semaphores *semaphores, const struct registry *registry)
{
	for (size_t i = 0; i < registry->semaphore_count; i++) {
		const struct reg_semaphore *s = &registry->semaphores[i];
		struct semaphore_change *change =
			ARRAY_FIND(semaphores->items, semaphores->count, address, s->address);
		const struct reg_probe *probe = registry_probe(registry, s->key, s->session);

		if (change && probe && probe->refcount && s->added + change->least <= UINT16_MAX)
			change->least += s->added;
	}
}

/* The value after a change. */
static int32_t changed(const struct semaphore_change *change, uint16_t now)
{
	int32_t then = change->is_set ? change->value : now + change->by;

	return !change->is_set && then < change->least ? change->least : then < 0 ? 0 : then;
}

struct probe_error *semaphores_read(struct semaphores *semaphores, pid_t pid)
{
	struct probe_error *error = edits_read(&semaphores->edits, pid);

	for (size_t i = 0; i < semaphores->count && !error; i++) {
		const struct semaphore_change *change = &semaphores->items[i];
		const uint8_t *found = edits_found(&semaphores->edits, i);
		uint16_t now, value;
		int32_t then;

		if (!found && change->by > 0)
			return probe_error_new(PROBE_ERROR_FORMAT,
				"process %d has no semaphore at %#jx", pid,
				(uintmax_t)change->address);
		if (!found)
			continue;
		memcpy(&now, found, sizeof(now));
		then = changed(change, now);
		if (then > UINT16_MAX)
			return probe_error_new(PROBE_ERROR_STATE,
				"the semaphore at %#jx is already at its maximum",
				(uintmax_t)change->address);
		value = then;
		memcpy(semaphores->edits.items[i].bytes, &value, sizeof(value));
		/* Others may write what we leave alone. */
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

struct probe_error *semaphores_write(struct semaphores *semaphores, int mem)
{
	return edits_write(&semaphores->edits, mem);
}

size_t semaphores_short(const struct registry *registry, pid_t pid)
{
	struct semaphores all = {0};
	struct probe_error *error = NULL;
	size_t count = 0;

	if (!semaphores_add_all(&all, registry))
		error = probe_error_no_memory();
	if (!error)
		error = semaphores_prepare(&all);
	semaphores_keep(&all, registry);
	if (!error)
		error = semaphores_read(&all, pid);
	for (size_t i = 0; i < all.edits.count && !error; i++)
		count += edits_found(&all.edits, i) && all.edits.items[i].is_write;
	probe_error_free(error);
	semaphores_deinit(&all);
	return count;
}
