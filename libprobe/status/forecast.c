/* SPDX-License-Identifier: MIT */
/*
 * A file's bytes say which plans a site allows. Whether one of them is possible in a process
 * depends on what it has mapped (the page that a pun needs may be in use), on what its memory
 * holds, and on what is patched already. So the same planning is done as by `enable`
 * (libprobe/patch/choose.c), on the state of the process as it is now. Neither is the process
 * stopped nor the lock taken, so what another controller does meanwhile may show.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/status/forecast.h"
#include "libprobe/patch/install.h"

void forecast_deinit(struct forecast *forecast)
{
	for (size_t i = 0; i < forecast->count; i++)
		free(forecast->sites[i].reason);
	free(forecast->sites);
	free(forecast->reason);
	*forecast = (struct forecast){0};
}

const struct forecast_site *forecast_find(const struct forecast *forecast, uint64_t pc)
{
	return ARRAY_FIND(forecast->sites, forecast->count, pc, pc);
}

static struct probe_error *take(const struct install *install, struct forecast *ret)
{
	const struct selection *s = install->selection;

	ret->sites = calloc(s->site_count + 1, sizeof(*ret->sites));
	if (!ret->sites)
		return probe_error_no_memory();
	for (size_t i = 0; i < s->site_count; i++) {
		const struct select_site *site = &s->sites[i];
		struct forecast_site *to = &ret->sites[ret->count];

		if (!site->pc)
			continue;
		*to = (struct forecast_site){.pc = site->pc, .plan = site->chosen};
		if (site->chosen == PROBE_PLAN_REFUSED) {
			to->reason = select_reason_text(site);
			if (!to->reason)
				return probe_error_no_memory();
		}
		ret->count++;
	}
	ARRAY_SORT(ret->sites, ret->count, pc);
	return NULL;
}

static struct probe_error *plan(struct change *change, struct forecast *ret)
{
	static const struct probe_request request = {.keep_going = true};
	struct selection selection = {0};
	struct transaction t = transaction_of(change, TRANSACTION_ADDS);
	struct install install = install_of(&t, &selection, &request);
	struct probe_error *error = select_probes(&change->modules, NULL, 0, &selection);

	install.persistent = install.alone = true;
	if (!error)
		error = install_plan(&install);
	if (!error)
		error = take(&install, ret);
	install_deinit(&install);
	transaction_end(&t);
	selection_deinit(&selection);
	return error;
}

/* Why nothing can be patched in a process is what to say of its sites. */
static struct probe_error *no_plans(struct probe_error *error, struct forecast *ret)
{
	if (error->code == PROBE_ERROR_MEMORY || error->code == PROBE_ERROR_SYSTEM)
		return error;
	if (error->code != PROBE_ERROR_PERMISSION && error->code != PROBE_ERROR_NOT_FOUND) {
		ret->reason = strdup(error->message);
		if (!ret->reason) {
			probe_error_free(error);
			return probe_error_no_memory();
		}
	}
	probe_error_free(error);
	return NULL;
}

struct probe_error *forecast_read(pid_t pid, struct forecast *ret)
{
	struct probe_target *target = NULL;
	struct probe_error *error = probe_target_open(pid, NULL, &target);
	struct change change;

	if (!error)
		error = change_look(target, &change);
	if (error) {
		error = no_plans(error, ret);
	} else {
		error = plan(&change, ret);
		change_end(&change);
	}
	probe_target_close(target);
	return error;
}
