/* SPDX-License-Identifier: MIT */
/*
 * The part of attaching that happens while the target stands still: as little
 * as possible. The bytes of all sites are compared once more, with one system
 * call; pages that will be written are made the target's own before.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libprobe/attach.h"
#include "libprobe/frames.h"
#include "libprobe/memory.h"
#include "libprobe/seccomp.h"
#include "libprobe/space.h"

enum { INTERRUPTED_TRIES = 20, INTERRUPTED_WAIT_NS = 2000000 };

/* What has to be at a site for its patch to be right. */
struct expected {
	uint64_t address;
	const uint8_t *bytes;
	size_t length;
};

static struct expected expect(const struct attach *a, size_t i)
{
	const struct attach_site *as = &a->sites[i];
	const struct plan *plan = &a->selection->sites[i].plan;
	size_t length;

	if (!as->is_new)
		return (struct expected){as->reg.patch, as->reg.patched, as->reg.length};
	switch ((enum probe_plan)as->reg.plan) {
	case PROBE_PLAN_RELOCATE:
		length = as->moved.length;
		break;
	case PROBE_PLAN_LONG_NOP:
		length = plan->nop_offset + plan->nop_length;
		break;
	default: /* the nop, and what the pun or the toggle gives a new meaning */
		length = plan->ocaml ? 6 : 5;
		break;
	}
	if (length > plan->byte_count)
		length = plan->byte_count;
	return (struct expected){as->reg.pc, plan->bytes, length};
}

/* Compares the bytes of all sites with what their plans were made for. */
static struct probe_error *verify(const struct attach *a)
{
	size_t count = a->selection->site_count, pieces = 0;
	struct memory_piece *items = calloc(count + 1, sizeof(*items));
	uint8_t *buffer = malloc(count * PLAN_BYTES + 1);
	struct probe_error *error = NULL;

	if (!items || !buffer)
		error = probe_error_no_memory();
	for (size_t i = 0; i < count && !error; i++) {
		struct expected e = expect(a, i);

		if (a->sites[i].wanted)
			items[pieces++] =
				(struct memory_piece){e.address, buffer + i * PLAN_BYTES, e.length};
	}
	if (!error)
		error = memory_read_pieces(a->change->pid, items, pieces);
	for (size_t i = 0; i < count && !error; i++) {
		struct expected e = expect(a, i);
		const struct select_probe *probe =
			&a->selection->probes[a->selection->sites[i].probe];

		if (a->sites[i].wanted && memcmp(buffer + i * PLAN_BYTES, e.bytes, e.length) != 0)
			error = probe_error_new(PROBE_ERROR_REFUSED,
				"%s:%s: the memory at %#jx does not hold what %s holds: another "
				"tool may have patched it",
				probe->provider, probe->name, (uintmax_t)e.address,
				probe->module->path);
	}
	free(items);
	free(buffer);
	return error;
}

/*
 * Makes the pages that are about to be written private copies, by writing
 * bytes that are there already: that takes longer than the patching itself.
 */
static struct probe_error *pretouch(const struct attach *a)
{
	struct probe_error *error = NULL;
	uint64_t last = 0;

	for (size_t i = 0; i < a->selection->site_count && !error; i++) {
		const struct reg_site *reg = &a->sites[i].reg;

		if (!a->sites[i].wanted || !a->sites[i].is_new || reg->patch / SPACE_PAGE == last)
			continue;
		error = memory_write_code(a->change->mem, reg->patch, reg->original, 1);
		last = reg->patch / SPACE_PAGE;
	}
	return error;
}

/* ---- Threads ------------------------------------------------------------------------ */

/* Sends a thread that is inside bytes about to change to their copy. */
static bool move_thread(const struct attach_site *as, struct control_thread *thread)
{
	uint64_t offset = thread->regs.rip - as->reg.pc;

	for (size_t k = 0; k < as->moved.count; k++) {
		if (as->moved.from_offset[k] != offset)
			continue;
		thread->regs.rip = as->reg.tail + as->moved.to_offset[k];
		thread->regs_changed = true;
		return true;
	}
	return false;
}

static int compare_addresses(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Is any of the sorted addresses in (start, end)? */
static bool any_inside(const uint64_t *pcs, size_t count, uint64_t start, uint64_t end)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pcs[middle] <= start)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && pcs[low] < end;
}

/*
 * Threads that stand between the first and the last byte of a jump to come are
 * moved; *again_ret is set if a signal handler will return to such a place.
 */
static struct probe_error *clear_windows(struct attach *a, bool *again_ret)
{
	struct control *control = &a->change->control;
	struct frames frames;
	struct probe_error *error;

	*again_ret = false;
	error = frames_read(control, &a->change->maps, &a->change->gadgets, &frames);
	if (error)
		return error;
	qsort(frames.pcs, frames.count, sizeof(*frames.pcs), compare_addresses);
	for (size_t i = 0; i < a->selection->site_count && !*again_ret; i++) {
		const struct attach_site *as = &a->sites[i];
		uint64_t end = as->reg.patch + as->reg.length;
		bool moved = false;

		if (!as->wanted || !as->is_new || as->reg.length == 1 ||
			!any_inside(frames.pcs, frames.count, as->reg.patch, end))
			continue;
		for (size_t k = 0; k < control->count; k++) {
			struct control_thread *thread = &control->threads[k];

			if (thread->regs.rip > as->reg.patch && thread->regs.rip < end)
				moved = move_thread(as, thread);
		}
		*again_ret = !moved;
	}
	frames_deinit(&frames);
	return NULL;
}

/* ---- Writing -------------------------------------------------------------------------- */

/* The jump that leads to a site's first stub, redirected to a new one. */
static struct probe_error *link_stub(struct attach *a, const struct attach_site *as)
{
	uint8_t jump[16];
	size_t length = as->reg.pun ? a->change->arch->far_jump(as->reg.entry, as->stub, jump)
				    : a->change->arch->jump(as->reg.entry, as->stub, jump);

	if (!length)
		return probe_error_new(PROBE_ERROR_REFUSED, "no stub can be placed near %#jx",
			(uintmax_t)as->reg.pc);
	return memory_write_code(a->change->mem, as->reg.entry, jump, length);
}

static struct probe_error *patch(struct attach *a)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; i < a->selection->site_count && !error; i++) {
		struct attach_site *as = &a->sites[i];
		struct reg_site *site;

		if (!as->wanted)
			continue;
		if (as->is_new) {
			error = memory_write_code(
				a->change->mem, as->reg.patch, as->reg.patched, as->reg.length);
		} else {
			error = link_stub(a, as);
			site = registry_site(&a->change->registry, as->reg.pc);
			/* What is there now is what a later removal has to find. */
			if (!error && site && !site->pun)
				a->change->arch->jump(site->entry, as->stub, site->patched);
		}
		as->patched = !error;
	}
	return error;
}

static void unpatch(struct attach *a)
{
	for (size_t i = 0; i < a->selection->site_count; i++) {
		struct attach_site *as = &a->sites[i];

		if (as->patched && as->is_new)
			probe_error_free(memory_write_code(
				a->change->mem, as->reg.patch, as->reg.original, as->reg.length));
		as->patched = false;
	}
}

/* Raises the semaphores that attach_build() has announced. */
static struct probe_error *raise_semaphores(struct attach *a)
{
	struct registry *r = &a->change->registry;
	struct probe_error *error = NULL;

	for (size_t i = 0; i < r->semaphore_count && !error; i++) {
		struct reg_semaphore *s = &r->semaphores[i];

		if (s->session != a->session || !s->pending)
			continue;
		error = semaphore_add(a->change, s->address, 1);
		s->pending = error != NULL;
	}
	return error;
}

/* Stubs run in every thread, and each may have a filter of its own. */
static struct probe_error *check_filters(const struct change *c)
{
	struct probe_error *error = NULL;

	for (size_t i = 0; c->filtered && i < c->control.count && !error; i++)
		error = seccomp_check(c->pid, c->control.threads[i].tid);
	return error;
}

/* One stop. *again_ret: nothing was done, as a signal handler is in the way. */
static struct probe_error *commit_once(struct attach *a, bool *again_ret)
{
	struct change *c = a->change;
	struct probe_error *error = change_stop(c);

	if (error)
		return error;
	if (registry_is_stale(&c->registry, c->pid))
		error = probe_error_new(PROBE_ERROR_STATE,
			"process %d: its probes were changed by somebody else meanwhile: try again",
			c->pid);
	if (!error)
		error = check_filters(c);
	if (!error)
		error = verify(a);
	if (!error)
		error = clear_windows(a, again_ret);
	if (!error && !*again_ret)
		error = patch(a);
	if (!error && !*again_ret)
		error = raise_semaphores(a);
	if (error)
		unpatch(a);
	change_resume(c);
	return error;
}

struct probe_error *attach_commit(struct attach *attach)
{
	struct probe_error *error = verify(attach);
	struct reg_session *session;
	bool again = false;

	if (!error)
		error = pretouch(attach);
	for (int i = 0; i < INTERRUPTED_TRIES && !error; i++) {
		again = false;
		error = commit_once(attach, &again);
		if (!again)
			break;
		nanosleep(&(struct timespec){.tv_nsec = INTERRUPTED_WAIT_NS}, NULL);
	}
	if (!error && again)
		error = probe_error_new(PROBE_ERROR_STATE,
			"process %d: a signal handler stays where a site is to be patched: try "
			"again",
			attach->change->pid);
	if (error)
		return error;
	session = registry_session(&attach->change->registry, attach->session);
	if (attach->persistent && session) {
		session->flags |= REG_SESSION_PERSISTENT;
		session->owner = 0;
	}
	return change_store(attach->change);
}
