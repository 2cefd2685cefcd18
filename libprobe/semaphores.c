/* SPDX-License-Identifier: MIT */
/*
 * A probe may have several semaphores, one for each of its sites, and probes
 * may share one. OCaml's have two counters: SystemTap's at the address that the
 * note names, and 2 bytes behind it the one that OCaml's own tools, and we,
 * count in; but for the provider `ocaml`, which has only the first.
 *
 * They are written through /proc/PID/mem, as some lie in pages that the program
 * makes read-only (RELRO).
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/plan.h"
#include "libprobe/semaphores.h"

uint64_t semaphore_offset(const char *provider)
{
	return plan_is_ocaml(provider) && strcmp(provider, "ocaml") != 0 ? sizeof(uint16_t) : 0;
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

size_t semaphores_of(
	const struct selection *selection, const struct select_probe *probe, uint64_t *addresses)
{
	uint64_t offset = semaphore_offset(probe->provider);
	size_t count = 0, distinct = 0;

	for (size_t i = 0; i < probe->site_count; i++) {
		uint64_t address = selection->sites[probe->first_site + i].semaphore;

		if (address)
			addresses[count++] = address + offset;
	}
	qsort(addresses, count, sizeof(*addresses), compare_addresses);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || addresses[i] != addresses[i - 1])
			addresses[distinct++] = addresses[i];
	return distinct;
}

/* ---- Changes ------------------------------------------------------------------------- */

bool semaphores_add(struct semaphores *semaphores, uint64_t address, int by)
{
	struct semaphore_change *items = semaphores->items;
	size_t count = semaphores->count;

	/* Room for twice as many whenever a power of two is full. */
	if ((count & (count - 1)) == 0) {
		items = reallocarray(items, count ? count * 2 : 1, sizeof(*items));
		if (!items)
			return false;
		semaphores->items = items;
	}
	items[semaphores->count++] =
		(struct semaphore_change){.address = address, .by = by, .is_set = by == 0};
	return true;
}

void semaphores_deinit(struct semaphores *semaphores)
{
	edits_deinit(&semaphores->edits);
	free(semaphores->items);
	*semaphores = (struct semaphores){0};
}

static int compare_changes(const void *a, const void *b)
{
	const struct semaphore_change *x = a, *y = b;

	return x->address < y->address ? -1 : x->address > y->address;
}

/* Changes of one semaphore become one. */
static void merge(struct semaphores *s)
{
	size_t count = 0;

	if (s->count)
		qsort(s->items, s->count, sizeof(*s->items), compare_changes);
	for (size_t i = 0; i < s->count; i++) {
		if (count && s->items[count - 1].address == s->items[i].address) {
			s->items[count - 1].by += s->items[i].by;
			s->items[count - 1].is_set |= s->items[i].is_set;
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
	return edits_prepare(&semaphores->edits, 0);
}

struct probe_error *semaphores_read(struct semaphores *semaphores, pid_t pid)
{
	struct probe_error *error = edits_read(&semaphores->edits, pid);

	for (size_t i = 0; i < semaphores->count && !error; i++) {
		const struct semaphore_change *change = &semaphores->items[i];
		const uint8_t *found = edits_found(&semaphores->edits, i);
		uint16_t now, then;

		if (!found && change->by > 0)
			return probe_error_new(PROBE_ERROR_FORMAT,
				"process %d has no semaphore at %#jx", pid,
				(uintmax_t)change->address);
		if (!found)
			continue;
		memcpy(&now, found, sizeof(now));
		if (change->by > UINT16_MAX - now)
			return probe_error_new(PROBE_ERROR_STATE,
				"the semaphore at %#jx is at its largest value already",
				(uintmax_t)change->address);
		then = change->is_set || -change->by > now ? 0 : now + change->by;
		memcpy(semaphores->edits.items[i].bytes, &then, sizeof(then));
	}
	return error;
}

struct probe_error *semaphores_write(struct semaphores *semaphores, int mem)
{
	return edits_write(&semaphores->edits, mem);
}
