/* SPDX-License-Identifier: MIT */
/*
 * Connects functions to probes. Functions with the same pattern share a hook; a hook without
 * functions is detached at once. If a thread is still in one of its stubs then (a function
 * disconnects itself), the hook is put on a list, which every later connect or disconnect
 * checks again.
 */
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/self/hook.h"
#include "libprobe/self/self.h"

/* State of this process; protected by the lock. */
static struct {
	struct hook **hooks;
	size_t count;
	struct hook **left; /* detached, but not yet freed */
	size_t left_count;
} all;

/* ---- The hooks -------------------------------------------------------------------------- */

static struct hook *find_hook(const char *text)
{
	for (size_t i = 0; i < all.count; i++)
		if (!strcmp(all.hooks[i]->text, text))
			return all.hooks[i];
	return NULL;
}

static void forget_hook(const struct hook *hook)
{
	size_t i = 0;

	while (all.hooks[i] != hook)
		i++;
	all.hooks[i] = all.hooks[--all.count];
}

/*
 * Frees hooks that no thread is in any more. If that cannot be determined now, a later call
 * tries again.
 */
static void collect(void)
{
	/* The list is valid at all times: copies read it (hook_has_session()). */
	for (size_t i = all.left_count; i-- > 0;) {
		struct hook *hook = all.left[i];
		bool gone;

		probe_error_free(hook_detach(hook, &gone));
		if (!gone)
			continue;
		all.left[i] = all.left[--all.left_count];
		hook_free(hook);
	}
}

static struct probe_error *add_hook(const char *pattern, struct hook **ret)
{
	struct hook *hook, **hooks = array_grow(all.hooks, all.count, sizeof(*hooks)), **left;
	struct probe_report report = {0};
	struct probe_error *error;

	if (!hooks)
		return probe_error_no_memory();
	all.hooks = hooks;
	/* Reserve room here for the end, where adding must not fail. */
	left = array_grow(all.left, all.count + all.left_count, sizeof(*left));
	if (!left)
		return probe_error_no_memory();
	all.left = left;
	error = hook_create(pattern, &hook);
	if (error)
		return error;
	error = hook_attach(hook, false, &report);
	if (error && report.refusal_count)
		error = probe_error_prefix(error, "%s:%s: %s", report.refusals[0].provider,
			report.refusals[0].name, report.refusals[0].reason);
	probe_report_deinit(&report);
	if (error) {
		hook_free(hook);
		return error;
	}
	all.hooks[all.count++] = hook;
	*ret = hook;
	return NULL;
}

/* Detaches a hook without functions. If that fails, it goes on the list, too. */
static struct probe_error *end_hook(struct hook *hook)
{
	bool gone;
	struct probe_error *error = hook_detach(hook, &gone);

	forget_hook(hook);
	if (gone)
		hook_free(hook);
	else
		all.left[all.left_count++] = hook;
	return error;
}

bool hook_has_session(uint32_t id)
{
	bool found = false;

	for (size_t i = 0; i < all.count; i++)
		found = found || all.hooks[i]->counters.session == id;
	for (size_t i = 0; i < all.left_count; i++)
		found = found || all.left[i]->counters.session == id;
	return found;
}

void self_after_fork(void)
{
	for (size_t i = 0; i < all.count; i++)
		hook_after_fork(all.hooks[i]);
	for (size_t i = 0; i < all.left_count; i++)
		hook_after_fork(all.left[i]);
}

/* ---- The functions ------------------------------------------------------------------------ */

static struct probe_error *add(const char *pattern, function_call *function, void *data)
{
	struct hook *hook = find_hook(pattern);
	struct probe_error *error;

	if (!function)
		return probe_error_new(
			PROBE_ERROR_USAGE, "%s: there is no function to be connected", pattern);
	collect();
	if (hook && functions_find(&hook->functions, function, data))
		return probe_error_new(PROBE_ERROR_STATE,
			"%s: the function is connected already, with the same data", pattern);
	if (!hook) {
		error = add_hook(pattern, &hook);
		if (error)
			return error;
	}
	if (functions_add(&hook->functions, function, data))
		return NULL;
	if (!hook->functions.count)
		probe_error_free(end_hook(hook));
	return probe_error_no_memory();
}

struct probe_error *probe_self_register(const char *pattern, function_call *function, void *data)
{
	struct probe_error *error;
	int cancel = self_lock();

	error = add(pattern, function, data);
	self_unlock(cancel);
	return error;
}

struct probe_error *probe_self_unregister(const char *pattern, function_call *function, void *data)
{
	struct function *found = NULL;
	struct probe_error *error = NULL;
	struct hook *hook;
	int cancel = self_lock();

	hook = find_hook(pattern);
	if (hook)
		found = functions_find(&hook->functions, function, data);
	if (found)
		function_stop(found);
	self_unlock(cancel);
	if (!found)
		return probe_error_new(PROBE_ERROR_NOT_FOUND,
			"%s: the function is not connected with this data", pattern);
	/* Its place keeps the hook alive. A thread in the function may wait for the lock. */
	function_wait(found);
	cancel = self_lock();
	functions_remove(&hook->functions, found);
	collect();
	if (!hook->functions.count)
		error = end_hook(hook);
	self_unlock(cancel);
	return error;
}

struct probe_error *probe_self_update(struct probe_report *report)
{
	struct probe_error *error = NULL;
	int cancel = self_lock();

	collect();
	for (size_t i = 0; i < all.count && !error; i++)
		error = hook_attach(all.hooks[i], true, report);
	self_unlock(cancel);
	return error;
}
