/* SPDX-License-Identifier: MIT */
/* Plans of a file that many processes have mapped: its proofs search all its code once. */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/patch/patch.h"

struct file_plan {
	bool is_entry; /* of a note that is ours; see plan_entry_provider */
	struct plan_order order;
	struct plan plan;
};

static bool is_entry(const struct sdt_note *note)
{
	return note->provider == plan_entry_provider;
}

static const struct plan *find_plan(
	const struct file *file, const struct sdt_note *note, const struct plan_order *order)
{
	for (size_t i = 0; i < file->plan_count; i++) {
		const struct file_plan *p = &file->plans[i];

		if (p->plan.pc == note->pc && p->is_entry == is_entry(note) &&
			p->order.count == order->count &&
			memcmp(p->order.plans, order->plans,
				order->count * sizeof(*order->plans)) == 0)
			return &p->plan;
	}
	return NULL;
}

/* Without memory it is computed again next time. */
static void keep_plan(struct file *file, const struct sdt_note *note,
	const struct plan_order *order, const struct plan *plan)
{
	if (ARRAY_ROOM(file->plans, file->plan_count))
		file->plans[file->plan_count++] = (struct file_plan){
			.is_entry = is_entry(note), .order = *order, .plan = *plan};
}

struct probe_error *file_plan_sites(struct file *file, const struct sdt_note *const *notes,
	size_t count, const struct plan_order *order, struct plan *ret)
{
	struct probe_error *error;
	size_t known = 0;

	while (known < count) {
		const struct plan *plan = find_plan(file, notes[known], order);

		if (!plan)
			break;
		ret[known++] = *plan;
	}
	if (known == count)
		return NULL;
	error = plan_sites(file->object, &file->notes, notes, count, order, ret);
	for (size_t i = 0; i < count && !error; i++)
		if (!find_plan(file, notes[i], order))
			keep_plan(file, notes[i], order, &ret[i]);
	return error;
}
