/* SPDX-License-Identifier: MIT */
/* The functions connected to this process's probes, the lock of its changes, its list of probes. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/self/helper/helper.h"
#include "libprobe/query/query.h"
#include "libprobe/base/array.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"
#include "libprobe/self/self.h"
#include "probe/self.h"

/* ==== Connect ================================================================================= */

/*
 * Connects functions to probes. A hook has the functions with one pattern and one priority, and a
 * stub at each site. Hooks are in the order of calls, and so are a site's stubs. A new function
 * comes after all of its priority, and shares the last hook if the pattern is the same.
 *
 * A hook without functions is detached at once. If a thread is still in a stub, as when a function
 * disconnects itself, the hook goes on a list that later connects and disconnects check.
 */

/* Protected by the lock. */
static struct {
	struct hook **hooks; /* sorted: higher priority first, then older hooks */
	size_t count;
	struct hook **left; /* hooks that are detached but not freed yet */
	size_t left_count;
	/* The loader's hook, also in `hooks`; NULL if libraries are not followed. */
	struct hook *loader;
	followed_call *told;
	void *told_data;
} all;

/* A library was opened, and no functions are connected to its probes yet. */
static atomic_bool is_behind;

/* ---- The hooks -------------------------------------------------------------------------- */

static bool self_lock_soon(int *cancel_ret);

/* Returns the number of hooks before a new one of this priority. */
static size_t hooks_before(int priority)
{
	size_t i = 0;

	while (i < all.count && all.hooks[i]->priority >= priority)
		i++;
	return i;
}

static void insert_hook(struct hook *hook)
{
	size_t at = hooks_before(hook->priority);

	memmove(all.hooks + at + 1, all.hooks + at, (all.count - at) * sizeof(*all.hooks));
	all.hooks[at] = hook;
	all.count++;
}

static void forget_hook(const struct hook *hook)
{
	size_t at = 0;

	while (all.hooks[at] != hook)
		at++;
	all.count--;
	memmove(all.hooks + at, all.hooks + at + 1, (all.count - at) * sizeof(*all.hooks));
}

/* Collects the sessions of all hooks. `hook` may be NULL. Returns false if memory is short. */
static bool know(const struct hook *hook, struct attach_known *ret)
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

static struct probe_error *attach_hook(
	struct hook *hook, bool keep_going, struct probe_report *report)
{
	AUTO(attach_known_deinit) struct attach_known known;

	return know(hook, &known) ? hook_attach(hook, &known, keep_going, report)
				  : probe_error_no_memory();
}

static struct probe_error *detach_hook(struct hook *hook, bool *gone_ret)
{
	AUTO(attach_known_deinit) struct attach_known known;

	return hook_detach(hook, know(hook, &known) ? &known : NULL, gone_ret);
}

/* Frees detached hooks whose stubs no thread is in any more, as far as that is known now. */
static void collect(void)
{
	/* Remove it only after detaching, which reads the list (know()). */
	for (size_t i = all.left_count; i-- > 0;) {
		struct hook *hook = all.left[i];
		bool gone;

		probe_error_free(detach_hook(hook, &gone));
		if (!gone)
			continue;
		all.left[i] = all.left[--all.left_count];
		hook_free(hook);
	}
}

/*
 * Makes room for a hook, and for it in the list of detached hooks, so that listing it cannot fail.
 */
static struct probe_error *reserve(void)
{
	return ARRAY_ROOM(all.hooks, all.count) && ARRAY_ROOM(all.left, all.count + all.left_count)
		       ? NULL
		       : probe_error_no_memory();
}

static struct probe_error *add_hook(const char *pattern, int priority, struct hook **ret)
{
	struct hook *hook;
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct probe_error *error = reserve() ?: hook_create(pattern, priority, &hook);

	if (error)
		return error;
	hook->waits = all.loader != NULL;
	insert_hook(hook);
	error = attach_hook(hook, false, &report);
	if (error && report.refusal_count)
		error = probe_error_prefix(error, "%s:%s: %s", report.refusals[0].provider,
			report.refusals[0].name, report.refusals[0].reason);
	if (error) {
		forget_hook(hook);
		hook_free(hook);
		return error;
	}
	*ret = hook;
	return NULL;
}

/* Detaches a hook without functions, and lists it if it cannot be freed yet. */
static struct probe_error *end_hook(struct hook *hook)
{
	bool gone;
	struct probe_error *error = detach_hook(hook, &gone);

	forget_hook(hook);
	if (gone)
		hook_free(hook);
	else
		all.left[all.left_count++] = hook;
	return error;
}

/* ---- The functions ------------------------------------------------------------------------ */

static struct probe_error *stop_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	struct control control;
	struct probe_error *error =
		control_stop(target->pid, target->lender, CONTROL_PATIENCE_NS, &control);

	(void)request;
	(void)report;
	(void)result;
	(void)result_bytes;
	if (!error)
		control_resume(&control);
	return error;
}

struct probe_error *function_stop(struct function *function)
{
	function_call *call = atomic_load(&function->call);
	AUTO(probe_report_deinit) struct probe_report report = {0};
	struct helper_work work = {.act = CONTROLLER_STOP, .report = &report};
	struct probe_error *error;

	atomic_store(&function->call, NULL); /* pairs with the load in call_noted() */
	if (callers_order())
		return NULL;
	error = helper_run(&work);
	if (error)
		atomic_store(&function->call, call);
	return probe_error_prefix(error,
		"the function stays connected, because a filter forbids membarrier(2), and the "
		"threads cannot be stopped instead");
}

/* A function as its user gave it: `call`, or a function of any type that `call` calls. */
struct given {
	function_call *call;
	void (*inner)(void); /* then `call` does not matter for whether two are the same */
	void *data;
};

/* Returns the place of a connected function, or NULL. */
static struct function *functions_find(const struct functions *functions, const struct given *given)
{
	for (struct function_block *b = functions->first; b; b = b->next)
		for (struct function *f = b->items; f < b->items + FUNCTIONS_AT_ONCE; f++)
			if (f->data == given->data && f->inner == given->inner && f->call &&
				(given->inner || f->call == given->call))
				return f;
	return NULL;
}

/* Finds a connected function, and its hook. */
static struct function *find_function(
	const char *pattern, const struct given *given, struct hook **hook_ret)
{
	struct function *found = NULL;

	for (size_t i = 0; i < all.count && !found; i++) {
		*hook_ret = all.hooks[i];
		if (!strcmp(all.hooks[i]->text, pattern))
			found = functions_find(&all.hooks[i]->functions, given);
	}
	return found;
}

static struct probe_error *add(const char *pattern, int priority, const struct given *given)
{
	struct hook *hook;
	struct probe_error *error;
	size_t before;

	if (!given->call)
		return probe_error_new(
			PROBE_ERROR_USAGE, "%s: there is no function to be connected", pattern);
	collect();
	if (find_function(pattern, given, &hook))
		return probe_error_new(PROBE_ERROR_STATE,
			"%s: the function is connected already, with the same data", pattern);
	before = hooks_before(priority);
	hook = before ? all.hooks[before - 1] : NULL;
	if (!hook || !hook->pattern || hook->priority != priority || strcmp(hook->text, pattern) ||
		!functions_accept(&hook->functions)) {
		error = add_hook(pattern, priority, &hook);
		if (error)
			return error;
	}
	if (functions_add(&hook->functions, given->call, given->inner, given->data,
		    general_function((uintptr_t)given->call)))
		return NULL;
	if (!hook->functions.count)
		probe_error_free(end_hook(hook));
	return probe_error_no_memory();
}

static struct probe_error *connect_given(
	const char *pattern, int priority, const struct given *given)
{
	int cancel = self_lock();
	struct probe_error *error = add(pattern, priority, given);

	self_unlock(cancel);
	return error;
}

struct probe_error *probe_self_register_prio(
	const char *pattern, int priority, function_call *function, void *data)
{
	return connect_given(pattern, priority, &(struct given){.call = function, .data = data});
}

struct probe_error *probe_self_register(const char *pattern, function_call *function, void *data)
{
	return probe_self_register_prio(pattern, PROBE_SELF_PRIORITY, function, data);
}

struct probe_error *probe_self_register_typed(
	const char *pattern, function_call *through, void (*function)(void), void *data)
{
	return connect_given(pattern, PROBE_SELF_PRIORITY,
		&(struct given){function ? through : NULL, function, data});
}

static struct probe_error *disconnect_given(const char *pattern, const struct given *given)
{
	struct function *found;
	struct probe_error *error;
	struct hook *hook;
	int cancel = self_lock();

	found = find_function(pattern, given, &hook);
	error = found ? function_stop(found)
		      : probe_error_new(PROBE_ERROR_NOT_FOUND,
				"%s: the function is not connected with this data", pattern);
	self_unlock(cancel);
	if (error)
		return error;
	/*
	 * Release the lock while waiting, because the function's thread may need it. The hook is
	 * not freed in the meantime.
	 */
	function_wait(found);
	cancel = self_lock();
	functions_remove(&hook->functions, found);
	collect();
	if (!hook->functions.count)
		error = end_hook(hook);
	self_unlock(cancel);
	return error;
}

struct probe_error *probe_self_unregister(const char *pattern, function_call *function, void *data)
{
	return disconnect_given(pattern, &(struct given){.call = function, .data = data});
}

struct probe_error *probe_self_unregister_typed(
	const char *pattern, void (*function)(void), void *data)
{
	return disconnect_given(pattern, &(struct given){.inner = function, .data = data});
}

/* ---- Libraries ----------------------------------------------------------------------------- */

/* Connects functions to new libraries' probes. Goes on after an error; returns the first. */
static struct probe_error *update(struct probe_report *report)
{
	struct probe_error *first = NULL;

	collect();
	for (size_t i = 0; i < all.count; i++) {
		struct probe_error *error =
			all.hooks[i]->pattern ? attach_hook(all.hooks[i], true, report) : NULL;

		first = probe_error_first(first, error);
	}
	return first;
}

struct probe_error *probe_self_update(struct probe_report *report)
{
	int cancel = self_lock();
	struct probe_error *error = update(report);

	self_unlock(cancel);
	return error;
}

/*
 * Runs when a library was opened. If the lock is not free in time, its owner does the work later.
 */
static void on_opened(void)
{
	int cancel;

	atomic_store(&is_behind, true);
	if (self_lock_soon(&cancel))
		self_unlock(cancel);
}

struct probe_error *probe_self_follow(followed_call *told, void *data)
{
	AUTO(attach_known_deinit) struct attach_known known = {0};
	struct probe_error *error;
	struct hook *hook;
	int cancel = self_lock();

	error = all.loader ? probe_error_new(PROBE_ERROR_STATE, "libraries are followed already")
			   : reserve();
	if (!error && !know(NULL, &known))
		error = probe_error_no_memory();
	error = error ?: loader_create(on_opened, &known, &hook);
	if (!error) {
		insert_hook(hook);
		all.loader = hook;
		all.told_data = data;
		all.told = told;
		/* A library may have been opened before the hook was ready. */
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

/* ==== Self ==================================================================================== */

/* ---- The lock --------------------------------------------------------------------------- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static __thread bool is_owner __attribute__((tls_model("initial-exec")));
static __thread bool is_taken_to_fork __attribute__((tls_model("initial-exec")));

enum { SOON_SECONDS = 2 };

/* Takes the lock before a fork, unless the thread has it, which means that this library forks. */
static void before_fork(void)
{
	if (is_owner)
		return;
	pthread_mutex_lock(&lock);
	is_owner = is_taken_to_fork = true;
}

static void after_fork(void)
{
	if (!is_taken_to_fork)
		return;
	is_owner = is_taken_to_fork = false;
	pthread_mutex_unlock(&lock);
}

static void after_fork_in_child(void)
{
	if (is_taken_to_fork) {
		callers_after_fork();
		for (size_t i = 0; i < all.count; i++)
			hook_after_fork(all.hooks[i]);
		for (size_t i = 0; i < all.left_count; i++)
			hook_after_fork(all.left[i]);
	}
	helper_allow_copy();
	after_fork();
}

static void set_up(void)
{
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

int self_lock(void)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_once(&once, set_up);
	helper_prepare();
	unwind_prepare();
	pthread_mutex_lock(&lock);
	is_owner = true;
	return cancel;
}

/*
 * Like self_lock(), for a thread that may hold the loader's lock. The owner of our lock may wait
 * for that, so the wait is limited. Returns false if the thread has our lock already, or after the
 * limit.
 */
static bool self_lock_soon(int *cancel_ret)
{
	struct timespec end;

	if (is_owner)
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, cancel_ret);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += SOON_SECONDS;
	is_owner = pthread_mutex_clocklock(&lock, CLOCK_MONOTONIC, &end) == 0;
	if (!is_owner)
		pthread_setcancelstate(*cancel_ret, NULL);
	return is_owner;
}

void self_unlock(int cancel)
{
	/* Unlock, and then read the flag again: a thread that waited too long has set it. */
	do {
		struct probe_report report = {0};
		struct probe_error *error = NULL;
		followed_call *told = all.told;
		void *data = all.told_data;

		is_owner = true;
		/* Connect functions to libraries that were opened while the lock was taken. */
		if (atomic_exchange(&is_behind, false))
			error = update(&report);
		helper_end(false);
		is_owner = false;
		pthread_mutex_unlock(&lock);
		if (told && (error || report.sites || report.refusal_count))
			told(&report, error, data);
		probe_error_free(error);
		probe_report_deinit(&report);
	} while (atomic_load(&is_behind) && pthread_mutex_trylock(&lock) == 0);
	pthread_setcancelstate(cancel, NULL);
}

/* ---- Looking ---------------------------------------------------------------------------- */

struct probe_error *probe_self_list(struct probe_list *list)
{
	struct probe_error *error = procfs_check();

	return error ?: probe_list_add_process(list, getpid());
}

/* Copies a string to *at, and moves *at behind the copy. */
static const char *copy_string(char **at, const char *text)
{
	char *copy = *at;

	*at = stpcpy(copy, text) + 1;
	return copy;
}

/* Packs states and their strings into one block. */
static struct probe_status *pack(const struct probe_status *states, size_t count)
{
	size_t bytes = (count + 1) * sizeof(*states);
	struct probe_status *ret;
	char *at;

	for (size_t i = 0; i < count; i++)
		bytes += strlen(states[i].provider) + strlen(states[i].name) +
			 strlen(states[i].path) + 3;
	ret = malloc(bytes);
	if (!ret)
		return NULL;
	at = (char *)(ret + count + 1);
	for (size_t i = 0; i < count; i++) {
		ret[i] = states[i];
		ret[i].provider = copy_string(&at, states[i].provider);
		ret[i].name = copy_string(&at, states[i].name);
		ret[i].path = copy_string(&at, states[i].path);
	}
	return ret;
}

struct probe_error *probe_self_status(struct probe_status **ret, size_t *count_ret)
{
	struct probe_target *self;
	AUTO_FREE struct probe_status *states = NULL;
	struct probe_error *error = probe_target_open(getpid(), NULL, &self);

	if (error)
		return error;
	error = probe_target_status(self, &states, count_ret);
	if (!error) {
		*ret = pack(states, *count_ret);
		if (!*ret)
			error = probe_error_no_memory();
	}
	probe_target_close(self);
	return error;
}

/* ==== Switch ================================================================================== */

enum switch_how { SWITCH_ENABLE, SWITCH_DISABLE, SWITCH_SEVERAL };

/* The plans, the patterns and the actions follow in the message. */
struct switch_head {
	uint32_t how;
	uint8_t keep_going, later, force, atomic, pairs, many, has_plans;
	uint64_t plan_count, pattern_count, action_count;
};

/* The pattern's text follows in the message. */
struct switch_pattern {
	uint8_t is_there;
	/*
	 * The program's function of probe_pattern_predicate(), and its argument; 0 if it has none.
	 */
	uint64_t function, data;
};

/* The patterns of the action follow in the message. */
struct switch_action {
	uint8_t disable;
};

/* ---- In the controller ---------------------------------------------------------------------- */

struct switching {
	struct switch_head head;
	enum probe_plan *plans;
	const struct probe_pattern **patterns;
	struct probe_action *actions;
	struct probe_pattern **owned; /* all patterns of the request; owned */
	struct proxy_predicate *predicates;
	size_t owned_count;
	int socket; /* socket to the program */
};

static struct probe_error *read_pattern(
	struct message *request, struct switching *s, const struct probe_pattern **ret)
{
	struct probe_pattern **to = &s->owned[s->owned_count];
	struct proxy_predicate *predicate = &s->predicates[s->owned_count];
	struct switch_pattern p;
	struct probe_error *error;
	const char *text;

	*ret = NULL;
	message_read(request, &p, sizeof(p));
	if (!p.is_there)
		return NULL;
	text = message_text(request);
	*predicate = (struct proxy_predicate){s->socket, p.function, p.data};
	error = request->is_bad ? controller_bad_request()
		: p.function	? probe_pattern_predicate(text, proxy_matches, predicate, to)
				: probe_pattern_parse(text, to);
	if (error)
		return error;
	*ret = *to;
	s->owned_count++;
	return NULL;
}

static struct probe_error *read_request(struct message *request, struct switching *s)
{
	struct switch_head *h = &s->head;
	struct probe_error *error = NULL;
	size_t all;

	message_read(request, h, sizeof(*h));
	h->plan_count = message_count(request, h->plan_count, sizeof(*s->plans));
	h->pattern_count = message_count(request, h->pattern_count, sizeof(struct switch_pattern));
	h->action_count = message_count(request, h->action_count, sizeof(struct switch_action));
	all = h->pattern_count + 2 * h->action_count + 1;
	s->plans = calloc(h->plan_count + 1, sizeof(*s->plans));
	s->patterns = calloc(h->pattern_count + 1, sizeof(*s->patterns));
	s->actions = calloc(h->action_count + 1, sizeof(*s->actions));
	s->owned = calloc(all, sizeof(*s->owned));
	s->predicates = calloc(all, sizeof(*s->predicates));
	if (!s->plans || !s->patterns || !s->actions || !s->owned || !s->predicates)
		return probe_error_no_memory();
	message_read(request, s->plans, h->plan_count * sizeof(*s->plans));
	for (size_t i = 0; i < h->pattern_count && !error; i++)
		error = read_pattern(request, s, &s->patterns[i]);
	for (size_t i = 0; i < h->action_count && !error; i++) {
		struct switch_action a;

		message_read(request, &a, sizeof(a));
		s->actions[i].disable = a.disable;
		error = read_pattern(request, s, &s->actions[i].pattern)
				?: read_pattern(request, s, &s->actions[i].end);
	}
	return error || !request->is_bad ? error : controller_bad_request();
}

static struct probe_error *switch_act(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes)
{
	struct switching s = {.socket = *(const int *)target->proxy->data};
	struct probe_error *error = read_request(request, &s);
	const struct probe_request wanted = {.patterns = s.patterns,
		.pattern_count = s.head.pattern_count,
		.keep_going = s.head.keep_going,
		.later = s.head.later,
		.force = s.head.force,
		.atomic = s.head.atomic,
		.pairs = s.head.pairs,
		.many = s.head.many,
		.plans = s.head.has_plans ? s.plans : NULL,
		.plan_count = s.head.plan_count};

	(void)result;
	(void)result_bytes;
	if (!error && s.head.how == SWITCH_SEVERAL)
		error = probe_target_switch(
			target, s.actions, s.head.action_count, &wanted, report);
	else if (!error && s.head.how == SWITCH_ENABLE)
		error = probe_target_enable(target, &wanted, report);
	else if (!error)
		error = probe_target_disable(target, &wanted, report);
	for (size_t i = 0; i < s.owned_count; i++)
		probe_pattern_free(s.owned[i]);
	free(s.owned);
	free(s.predicates);
	free(s.plans);
	free(s.patterns);
	free(s.actions);
	return error;
}

/* ---- In the process ------------------------------------------------------------------------- */

static void add_pattern(struct buffer *to, const struct probe_pattern *pattern)
{
	struct switch_pattern p = {.is_there = pattern != NULL};

	if (pattern)
		pattern_predicate(pattern, &p.function, &p.data);
	buffer_bytes(to, &p, sizeof(p));
	if (pattern)
		message_add_text(to, probe_pattern_text(pattern));
}

static struct probe_error *change(enum switch_how how, const struct probe_action *actions,
	size_t count, const struct probe_request *request, struct probe_report *report)
{
	const struct switch_head head = {.how = how,
		.keep_going = request->keep_going,
		.later = request->later,
		.force = request->force,
		.atomic = request->atomic,
		.pairs = request->pairs,
		.many = request->many,
		.has_plans = request->plans != NULL,
		.plan_count = request->plans ? request->plan_count : 0,
		.pattern_count = request->pattern_count,
		.action_count = count};
	struct helper_work work = {.act = CONTROLLER_SWITCH, .report = report};
	struct probe_error *error;
	int cancel;

	buffer_bytes(&work.request, &head, sizeof(head));
	buffer_bytes(&work.request, request->plans, head.plan_count * sizeof(*request->plans));
	for (size_t i = 0; i < request->pattern_count; i++)
		add_pattern(&work.request, request->patterns[i]);
	for (size_t i = 0; i < count; i++) {
		const struct switch_action a = {.disable = actions[i].disable};

		buffer_bytes(&work.request, &a, sizeof(a));
		add_pattern(&work.request, actions[i].pattern);
		add_pattern(&work.request, actions[i].end);
	}
	cancel = self_lock();
	error = helper_run(&work);
	self_unlock(cancel);
	return error;
}

struct probe_error *probe_self_enable(
	const struct probe_request *request, struct probe_report *report)
{
	return change(SWITCH_ENABLE, NULL, 0, request, report);
}

struct probe_error *probe_self_disable(
	const struct probe_request *request, struct probe_report *report)
{
	return change(SWITCH_DISABLE, NULL, 0, request, report);
}

struct probe_error *probe_self_switch(const struct probe_action *actions, size_t count,
	const struct probe_request *request, struct probe_report *report)
{
	return change(SWITCH_SEVERAL, actions, count, request, report);
}

/* ==== Acts ==================================================================================== */

controller_do *const self_acts[CONTROLLER_ACTS] = {
	[CONTROLLER_SWITCH] = switch_act,
	[CONTROLLER_ATTACH] = attach_act,
	[CONTROLLER_FOLLOW] = follow_act,
	[CONTROLLER_DETACH] = detach_act,
	[CONTROLLER_STOP] = stop_act,
};
