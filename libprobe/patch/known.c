/* SPDX-License-Identifier: MIT */
/* Plans of a file that many processes have mapped: its proofs search all its code once. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"

struct file_plan {
	bool is_entry; /* of a note that is ours; see plan_entry_provider */
	enum probe_plan order[PROBE_PLAN_COUNT]; /* each at most once */
	size_t order_count;
	struct plan plan;
};

static bool is_entry(const struct sdt_note *note)
{
	return note->provider == plan_entry_provider;
}

static const struct plan *find_plan(const struct file *file, const struct sdt_note *note,
	const enum probe_plan *order, size_t order_count)
{
	for (size_t i = 0; i < file->plan_count; i++) {
		const struct file_plan *p = &file->plans[i];

		if (p->plan.pc == note->pc && p->is_entry == is_entry(note) &&
			p->order_count == order_count &&
			memcmp(p->order, order, order_count * sizeof(*order)) == 0)
			return &p->plan;
	}
	return NULL;
}

/* Without memory it is computed again next time. */
static void keep_plan(struct file *file, const struct sdt_note *note, const enum probe_plan *order,
	size_t order_count, const struct plan *plan)
{
	struct file_plan *p;

	if (order_count > PROBE_PLAN_COUNT || !ARRAY_ROOM(file->plans, file->plan_count))
		return;
	p = &file->plans[file->plan_count++];
	*p = (struct file_plan){
		.is_entry = is_entry(note), .order_count = order_count, .plan = *plan};
	memcpy(p->order, order, order_count * sizeof(*order));
}

struct probe_error *file_plan_sites(struct file *file, const struct sdt_note *const *notes,
	size_t count, const enum probe_plan *order, size_t order_count, struct plan *ret)
{
	struct probe_error *error;
	size_t known = 0;

	while (known < count) {
		const struct plan *plan = find_plan(file, notes[known], order, order_count);

		if (!plan)
			break;
		ret[known++] = *plan;
	}
	if (known == count)
		return NULL;
	error = plan_sites(file->object, &file->notes, notes, count, order, order_count, ret);
	for (size_t i = 0; i < count && !error; i++)
		if (!find_plan(file, notes[i], order, order_count))
			keep_plan(file, notes[i], order, order_count, &ret[i]);
	return error;
}
