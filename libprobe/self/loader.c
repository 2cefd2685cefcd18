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

#include "libprobe/follow/follow.h"
#include "libprobe/patch/patch.h"
#include "libprobe/self/helper/helper.h"
#include "libprobe/self/loader.h"

#pragma weak _r_debug

/* ---- Hits ------------------------------------------------------------------------------- */

/*
 * Threads that hold the loader's lock come here, and those that use a new name of a user event: at
 * worst they look for a new library once more.
 */
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

/* ---- Attaching: in the controller ----------------------------------------------------------- */

static void describe_stub(const void *data, const struct reg_session *session, uint32_t slot,
	uint32_t number, struct arch_stub *stub)
{
	const struct follow_head *head = data;

	(void)session;
	(void)slot;
	(void)number;
	stub->kind = ARCH_STUB_CALL;
	stub->guard = head->call.guard;
	stub->call = head->call.function;
	stub->call_data = head->data;
}

static struct probe_error *attach_once(struct probe_target *target,
	const struct attach_known *known, const struct follow_head *head, struct hook_counters *ret)
{
	AUTO_CHANGE struct change change;
	struct probe_error *error = attach_begin(target, known, &change);
	uint32_t session;

	if (!error)
		error = gate_attach_call(&change, known->caller, describe_stub, head, &session);
	if (!error)
		*ret = attach_counters(&change.registry, session);
	return error;
}

struct probe_error *follow_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	struct attempt attempt = attempt_begin(target, report);
	struct attach_known known = {0};
	bool good = attach_known_read(request, &known);
	struct probe_error *error = NULL;
	struct follow_head head;

	message_read(request, &head, sizeof(head));
	if (request->is_bad || result_bytes != sizeof(struct hook_counters))
		error = controller_bad_request();
	else if (!good)
		error = probe_error_no_memory();
	while (!error && attempt_next(&attempt))
		attempt.error = attach_once(target, &known, &head, result);
	attach_known_deinit(&known);
	return error ? error : attempt.error;
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
	struct helper_work work = {.act = CONTROLLER_FOLLOW, .report = &report};
	struct follow_head head = {.call = attach_call_of_process()};
	struct attach_known known;
	struct probe_error *error;

	if (!hook)
		return probe_error_no_memory();
	head.data = (uintptr_t)hook->sites->items;
	work.result = &hook->counters;
	work.result_bytes = sizeof(hook->counters);
	error = hook_check_processor();
	if (!error && !attach_know(NULL, &known))
		error = probe_error_no_memory();
	if (!error) {
		attach_known_add(&work.request, &known);
		attach_known_deinit(&known);
		buffer_bytes(&work.request, &head, sizeof(head));
		error = helper_run(&work);
	}
	hook->is_kept = work.died;
	probe_report_deinit(&report);
	if (error)
		hook_free(hook);
	else
		*ret = hook;
	return error;
}
