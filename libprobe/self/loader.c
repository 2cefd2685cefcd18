/* SPDX-License-Identifier: MIT */
/*
 * The loader calls a function of its own for debuggers, `_dl_debug_state`, before and after it
 * changes its list of libraries; libprobe/follow/gate.c has the details. Its entry gets a stub
 * like that of a probe. The library is mapped then, and nothing of it has run: not even what
 * selects its functions (IFUNC) during relocation.
 *
 * Sources: <link.h>, struct r_debug.
 */
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/follow/gate.h"
#include "libprobe/patch/attempt.h"
#include "libprobe/self/enter.h"
#include "libprobe/self/helper.h"
#include "libprobe/self/loader.h"

#pragma weak _r_debug

/* ---- Hits ------------------------------------------------------------------------------- */

/* Only threads that hold the loader's lock come here. */
static void on_state(const struct probe_self_hit *hit, void *data)
{
	static bool adding;
	void (*opened)(void) = (void (*)(void))(uintptr_t)data;

	(void)hit;
	if (!&_r_debug || _r_debug.r_state == RT_ADD) {
		adding = true;
	} else if (_r_debug.r_state == RT_CONSISTENT && adding) {
		adding = false;
		opened();
	}
}

/* ---- Attaching: in the copy --------------------------------------------------------------- */

static void describe_stub(const void *data, const struct reg_session *session, uint32_t slot,
	uint32_t number, struct arch_stub *stub)
{
	static const uint32_t always = 1;

	(void)session;
	(void)slot;
	(void)number;
	stub->kind = ARCH_STUB_CALL;
	stub->guard = (uintptr_t)&always;
	stub->call = (uintptr_t)enter_called;
	stub->call_data = (uintptr_t)data;
}

static struct probe_error *attach_once(
	struct probe_target *target, const struct hook_site *site, struct hook_counters *ret)
{
	AUTO_CHANGE struct change change;
	struct probe_error *error = hook_change_begin(target, &change);
	uint32_t session;

	if (!error)
		error = gate_attach_call(&change, hook_caller(), describe_stub, site, &session);
	if (!error)
		*ret = hook_counters_of(&change.registry, session);
	return error;
}

static struct probe_error *attach_act(
	struct probe_target *target, void *data, struct probe_report *report, void *result)
{
	struct attempt attempt = attempt_begin(target, report);

	while (attempt_next(&attempt))
		attempt.error = attach_once(target, data, result);
	return attempt.error;
}

/* ---- Life ----------------------------------------------------------------------------------- */

static struct hook *new_hook(void (*opened)(void))
{
	struct hook *hook = calloc(1, sizeof(*hook));

	if (!hook)
		return NULL;
	hook->priority = INT_MAX;
	hook->text = strdup("");
	hook->sites = calloc(1, sizeof(*hook->sites));
	if (hook->sites)
		hook->sites->items = calloc(1, sizeof(*hook->sites->items));
	if (hook->text && hook->sites && hook->sites->items &&
		functions_add(&hook->functions, on_state, (void *)(uintptr_t)opened, false)) {
		hook->sites->count = 1;
		hook->sites->items[0].hook = hook;
		return hook;
	}
	hook_free(hook);
	return NULL;
}

struct probe_error *loader_create(void (*opened)(void), struct hook **ret)
{
	struct hook *hook = new_hook(opened);
	struct probe_report report = {0};
	struct helper_work work = {.act = attach_act, .report = &report};
	struct probe_error *error;

	if (!hook)
		return probe_error_no_memory();
	work.data = hook->sites->items;
	work.result = &hook->counters;
	work.result_bytes = sizeof(hook->counters);
	error = enter_init(true);
	if (!error)
		error = helper_run(&work);
	hook->is_kept = work.died;
	probe_report_deinit(&report);
	if (error)
		hook_free(hook);
	else
		*ret = hook;
	return error;
}
