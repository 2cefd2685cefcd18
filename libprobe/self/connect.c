/* SPDX-License-Identifier: MIT */
/*
 * Connects functions to probes. Each hook has functions of one pattern and one priority, and a
 * stub at each site. The hooks are in the order in which their functions are called: a site's
 * stubs, from the first that a hit enters, are in the same order. A new function comes last of
 * its priority; it shares the hook that is last there if that has the same pattern.
 *
 * A hook without functions is detached at once. If a thread is still in one of its stubs then (a
 * function disconnects itself), the hook is put on a list, which every later connect or disconnect
 * checks again.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "libprobe/base/array.h"
#include "libprobe/self/callers.h"
#include "libprobe/self/general.h"
#include "libprobe/self/hook.h"
#include "libprobe/self/loader.h"
#include "libprobe/self/self.h"

/* State of this process; protected by the lock. */
static struct {
	struct hook **hooks; /* those with a higher priority first, then the older ones */
	size_t count;
	struct hook **left; /* detached, but not yet freed */
	size_t left_count;
	struct hook *loader; /* one of the hooks, while libraries are followed */
	followed_call *told;
	void *told_data;
} all;

/* A library was opened whose probes are not connected yet. */
static atomic_bool is_behind;

/* ---- The hooks -------------------------------------------------------------------------- */

/* How many hooks come before a new function of that priority. */
static size_t hooks_before(int priority)
{
	size_t i = 0;

	while (i < all.count && all.hooks[i]->priority >= priority)
		i++;
	return i;
}

/* The hook that a new function shares; NULL if it needs one of its own. */
static struct hook *hook_to_share(const char *text, int priority)
{
	size_t i = hooks_before(priority);
	struct hook *last = i ? all.hooks[i - 1] : NULL;

	return last && last->pattern && last->priority == priority && !strcmp(last->text, text) &&
			       functions_accept(&last->functions)
		       ? last
		       : NULL;
}

static void insert_hook(struct hook *hook)
{
	size_t at = hooks_before(hook->priority);

	memmove(all.hooks + at + 1, all.hooks + at, (all.count - at) * sizeof(*all.hooks));
	all.hooks[at] = hook;
	all.count++;
}

static size_t index_of(const struct hook *hook)
{
	size_t i = 0;

	while (all.hooks[i] != hook)
		i++;
	return i;
}

static void forget_hook(const struct hook *hook)
{
	size_t at = index_of(hook);

	all.count--;
	memmove(all.hooks + at, all.hooks + at + 1, (all.count - at) * sizeof(*all.hooks));
}

/*
 * Frees hooks that no thread is in any more. If that cannot be determined now, a later call
 * tries again.
 */
static void collect(void)
{
	/* The list is valid at all times: detaching reads it (attach_know()). */
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

/* Room for one more hook, also for its end, where adding must not fail. */
static struct probe_error *reserve(void)
{
	if (!ARRAY_ROOM(all.hooks, all.count))
		return probe_error_no_memory();
	if (!ARRAY_ROOM(all.left, all.count + all.left_count))
		return probe_error_no_memory();
	return NULL;
}

static struct probe_error *add_hook(const char *pattern, int priority, struct hook **ret)
{
	struct hook *hook;
	struct probe_report report = {0};
	struct probe_error *error = reserve();

	if (!error)
		error = hook_create(pattern, priority, &hook);
	if (error)
		return error;
	hook->waits = all.loader != NULL;
	insert_hook(hook);
	error = hook_attach(hook, false, &report);
	if (error && report.refusal_count)
		error = probe_error_prefix(error, "%s:%s: %s", report.refusals[0].provider,
			report.refusals[0].name, report.refusals[0].reason);
	probe_report_deinit(&report);
	if (error) {
		forget_hook(hook);
		hook_free(hook);
		return error;
	}
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

bool attach_know(const struct hook *hook, struct attach_known *ret)
{
	*ret = (struct attach_known){.caller = hook_caller()};
	ret->sessions = calloc(all.count + all.left_count + 1, sizeof(*ret->sessions));
	if (!ret->sessions)
		return false;
	for (size_t i = 0; i < all.count; i++) {
		if (all.hooks[i] == hook)
			ret->before = ret->count;
		if (all.hooks[i]->counters.session)
			ret->sessions[ret->count++] = all.hooks[i]->counters.session;
	}
	for (size_t i = 0; i < all.left_count; i++)
		if (all.left[i]->counters.session)
			ret->sessions[ret->count++] = all.left[i]->counters.session;
	return true;
}

void self_after_fork(void)
{
	callers_after_fork();
	for (size_t i = 0; i < all.count; i++)
		hook_after_fork(all.hooks[i]);
	for (size_t i = 0; i < all.left_count; i++)
		hook_after_fork(all.left[i]);
}

/* ---- The functions ------------------------------------------------------------------------ */

/* A connected function, and its hook. */
static struct function *find_function(
	const char *pattern, function_call *function, void *data, struct hook **hook_ret)
{
	struct function *found = NULL;

	for (size_t i = 0; i < all.count && !found; i++) {
		*hook_ret = all.hooks[i];
		if (!strcmp(all.hooks[i]->text, pattern))
			found = functions_find(&all.hooks[i]->functions, function, data);
	}
	return found;
}

static struct probe_error *add(
	const char *pattern, int priority, function_call *function, void *data)
{
	struct hook *hook;
	struct probe_error *error;

	if (!function)
		return probe_error_new(
			PROBE_ERROR_USAGE, "%s: there is no function to be connected", pattern);
	collect();
	if (find_function(pattern, function, data, &hook))
		return probe_error_new(PROBE_ERROR_STATE,
			"%s: the function is connected already, with the same data", pattern);
	hook = hook_to_share(pattern, priority);
	if (!hook) {
		error = add_hook(pattern, priority, &hook);
		if (error)
			return error;
	}
	if (functions_add(&hook->functions, function, data, general_function((uintptr_t)function)))
		return NULL;
	if (!hook->functions.count)
		probe_error_free(end_hook(hook));
	return probe_error_no_memory();
}

struct probe_error *probe_self_register_prio(
	const char *pattern, int priority, function_call *function, void *data)
{
	struct probe_error *error;
	int cancel = self_lock();

	error = add(pattern, priority, function, data);
	self_unlock(cancel);
	return error;
}

struct probe_error *probe_self_register(const char *pattern, function_call *function, void *data)
{
	return probe_self_register_prio(pattern, PROBE_SELF_PRIORITY, function, data);
}

struct probe_error *probe_self_unregister(const char *pattern, function_call *function, void *data)
{
	struct function *found;
	struct probe_error *error;
	struct hook *hook;
	int cancel = self_lock();

	found = find_function(pattern, function, data, &hook);
	error = found ? function_stop(found)
		      : probe_error_new(PROBE_ERROR_NOT_FOUND,
				"%s: the function is not connected with this data", pattern);
	self_unlock(cancel);
	if (error)
		return error;
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

/* ---- Libraries ----------------------------------------------------------------------------- */

/* One error does not keep the other functions from being connected. */
static struct probe_error *update(struct probe_report *report)
{
	struct probe_error *first = NULL;

	collect();
	for (size_t i = 0; i < all.count; i++) {
		struct probe_error *error =
			all.hooks[i]->pattern ? hook_attach(all.hooks[i], true, report) : NULL;

		if (first)
			probe_error_free(error);
		else
			first = error;
	}
	return first;
}

struct probe_error *probe_self_update(struct probe_report *report)
{
	struct probe_error *error;
	int cancel = self_lock();

	error = update(report);
	self_unlock(cancel);
	return error;
}

void self_catch_up(struct followed *ret)
{
	if (!atomic_exchange(&is_behind, false))
		return;
	ret->error = update(&ret->report);
	ret->told = all.told;
	ret->data = all.told_data;
}

bool self_is_behind(void)
{
	return atomic_load(&is_behind);
}

void self_tell(struct followed *followed)
{
	const struct probe_report *report = &followed->report;

	if (followed->told && (followed->error || report->sites || report->refusal_count))
		followed->told(report, followed->error, followed->data);
	probe_error_free(followed->error);
	probe_report_deinit(&followed->report);
}

/* If the lock is not available, the thread that has it does this before it unlocks. */
static void on_opened(void)
{
	int cancel;

	atomic_store(&is_behind, true);
	if (self_lock_soon(&cancel))
		self_unlock(cancel);
}

struct probe_error *probe_self_follow(followed_call *told, void *data)
{
	struct probe_error *error;
	struct hook *hook;
	int cancel = self_lock();

	error = all.loader ? probe_error_new(PROBE_ERROR_STATE, "libraries are followed already")
			   : reserve();
	if (!error)
		error = loader_create(on_opened, &hook);
	if (!error) {
		insert_hook(hook);
		all.loader = hook;
		all.told_data = data;
		all.told = told;
		/* One may have been opened meanwhile. */
		atomic_store(&is_behind, true);
	}
	self_unlock(cancel);
	return error;
}

struct probe_error *probe_self_unfollow(void)
{
	struct probe_error *error;
	int cancel = self_lock();

	collect();
	error = all.loader ? end_hook(all.loader)
			   : probe_error_new(PROBE_ERROR_STATE, "libraries are not followed");
	all.loader = NULL;
	all.told = NULL;
	self_unlock(cancel);
	return error;
}
