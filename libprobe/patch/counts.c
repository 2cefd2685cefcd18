/* SPDX-License-Identifier: MIT */
/*
 * A change says in the registry what it is about to do before it does it. If it cannot go on
 * then (a debugger is attached, so the process cannot be stopped), what the registry says is not
 * what the user was told: that the command has failed. So that is taken back.
 *
 * If the controller is killed meanwhile, the registry names at least what is there: counts that
 * go up are stored before their semaphores are written, those that go down are stored after.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/patch/counts.h"
#include "libprobe/patch/semaphores.h"

static void *copy(const void *items, size_t count, size_t size)
{
	void *ret = calloc(count + 1, size);

	if (ret && count)
		memcpy(ret, items, count * size);
	return ret;
}

struct probe_error *counts_keep(const struct registry *r, struct counts *ret)
{
	*ret = (struct counts){
		.probes = copy(r->probes, r->probe_count, sizeof(*r->probes)),
		.semaphores = copy(r->semaphores, r->semaphore_count, sizeof(*r->semaphores)),
		.probe_count = r->probe_count,
		.semaphore_count = r->semaphore_count,
	};
	return ret->probes && ret->semaphores ? NULL : probe_error_no_memory();
}

void counts_deinit(struct counts *counts)
{
	free(counts->probes);
	free(counts->semaphores);
	*counts = (struct counts){0};
}

/* What a session has added to a semaphore; NULL: nothing that is known. */
static struct reg_semaphore *find_semaphore(
	const struct registry *r, const struct reg_semaphore *wanted)
{
	size_t count;
	struct reg_semaphore *items = registry_semaphores(r, wanted->key, &count);

	for (size_t i = 0; i < count; i++)
		if (items[i].session == wanted->session && items[i].address == wanted->address)
			return &items[i];
	return NULL;
}

/* By how much each semaphore has to change, as it was written for what `r` says. */
static bool find_differences(const struct counts *counts, const struct registry *r,
	struct semaphores *ret, bool *any_up_ret)
{
	bool ok = true;

	*any_up_ret = false;
	for (size_t i = 0; i < counts->semaphore_count && ok; i++) {
		const struct reg_semaphore *before = &counts->semaphores[i];
		const struct reg_semaphore *now = find_semaphore(r, before);
		int by = now ? (int)before->added - (int)now->added : 0;

		*any_up_ret = *any_up_ret || by > 0;
		ok = !by || semaphores_add(ret, before->address, by);
	}
	return ok;
}

static void set_counts(const struct counts *counts, const struct registry *r)
{
	for (size_t i = 0; i < counts->probe_count; i++) {
		const struct reg_probe *before = &counts->probes[i];
		struct reg_probe *now = registry_probe(r, before->key, before->session);

		if (now)
			now->refcount = before->refcount;
	}
	for (size_t i = 0; i < counts->semaphore_count; i++) {
		struct reg_semaphore *now = find_semaphore(r, &counts->semaphores[i]);

		if (now)
			now->added = counts->semaphores[i].added;
	}
}

static struct probe_error *write_all(struct change *change, struct semaphores *semaphores)
{
	struct probe_error *error = semaphores_read(semaphores, change->pid);

	return error ? error : semaphores_write(semaphores, change->mem);
}

void counts_put_back(const struct counts *counts, struct change *change, bool written)
{
	struct semaphores semaphores = {0};
	struct probe_error *error = NULL;
	bool any_up = false;

	if (written && !find_differences(counts, &change->registry, &semaphores, &any_up))
		error = probe_error_no_memory();
	if (!error)
		error = semaphores_prepare(&semaphores);
	if (!error)
		error = change_reread(change);
	if (!error)
		set_counts(counts, &change->registry);
	if (!error && !any_up && semaphores.count)
		error = write_all(change, &semaphores);
	if (!error && change->registry.home)
		error = change_store(change);
	if (!error && any_up)
		error = write_all(change, &semaphores);
	probe_error_free(error); /* the first one is told */
	semaphores_deinit(&semaphores);
}
