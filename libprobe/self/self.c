/* SPDX-License-Identifier: MIT */
/* The functions connected to this process's probes, the lock of its changes, its list of probes. */
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "libprobe/base/array.h"
#include "libprobe/base/procfs.h"
#include "libprobe/ptrace/ptrace.h"
#include "libprobe/registry/registry.h"
#include "libprobe/self/callers.h"
#include "libprobe/self/functions.h"
#include "libprobe/self/general.h"
#include "libprobe/self/helper/helper.h"
#include "libprobe/self/hook.h"
#include "libprobe/self/loader.h"
#include "libprobe/self/self.h"
#include "libprobe/self/unwind.h"
#include "probe/self.h"

/* ==== Callers ================================================================================= */

/*
 * How to disconnect a function while other threads may be calling it: A calling thread first notes
 * the function, and then checks that the function is still connected. The disconnecting thread
 * first sets the pointer to the function to NULL, and then reads the notes of all threads:
 *
 *	caller                          disconnecting thread
 *	note = function                 function->call = NULL
 *	(compiler's order only)         callers_order()
 *	function->call is NULL? leave   wait while there is a note
 *	call it
 *	note = NULL
 *
 * A processor may delay the caller's first store until after its load of function->call. So the
 * caller could miss the NULL while its note is not visible yet. A locked instruction for each call
 * would prevent this, but it takes longer than the rest of the call. Calls are frequent and
 * disconnecting is rare. So the disconnecting thread calls membarrier(2): the kernel interrupts
 * every processor that runs a thread of this process, which completes the processor's stores.
 *
 * Later, a seccomp filter may forbid membarrier(2). Then we stop all threads, as for any change of
 * probes. This has the same effect, because a stopped thread has left its processor. If the stop is
 * forbidden, too, no function can be disconnected.
 *
 * All threads can find all records, and each record belongs to one thread. But the end of a thread
 * is not reported, so a thread that needs a record takes one whose thread has ended. Only threads
 * of this process get records. A child of vfork(2), or of another clone(2) that shares the memory,
 * may use the thread pointer of a thread that sleeps meanwhile. It then also uses that thread's
 * record. Such a child gets no record of its own: after its end, the thread would go on to use a
 * record that looks free. Threads without records count their calls with locked instructions
 * (functions.h).
 *
 * Sources: membarrier(2); Documentation/scheduler/membarrier.rst of Linux.
 */

enum { BLOCK_BYTES = 8192, BLOCK_CALLERS = BLOCK_BYTES / sizeof(struct caller) - 1 };

struct caller_block {
	_Alignas(128) _Atomic(struct caller_block *) next;
	struct caller items[BLOCK_CALLERS];
};
_Static_assert(sizeof(struct caller_block) <= BLOCK_BYTES, "a block is mapped in whole pages");

__thread struct caller *callers_own __attribute__((tls_model("initial-exec")));
bool callers_are_ordered;

static _Atomic(struct caller_block *) blocks;
static _Atomic pid_t process; /* id of this process; 0 as long as no thread may have a record */

/* ---- Records --------------------------------------------------------------------------- */

enum { OWNER_SHIFT = 32 };

static pid_t thread_of(uint64_t owner)
{
	return (pid_t)(uint32_t)owner;
}

/* Is a record free? An owner with our own id was an earlier thread, which has ended. */
static bool is_free(pid_t thread, pid_t own)
{
	return !thread || thread == own;
}

static bool is_gone(pid_t thread, pid_t own)
{
	(void)own;
	return syscall(SYS_tgkill, getpid(), thread, 0) < 0 && errno == ESRCH;
}

/* Takes a record, unless another thread does: the number of owners tells equal ids apart. */
static bool take(struct caller *caller, pid_t own, bool (*may)(pid_t thread, pid_t own))
{
	uint64_t owner = atomic_load(&caller->owner);
	uint64_t next = ((owner >> OWNER_SHIFT) + 1) << OWNER_SHIFT | (uint32_t)own;

	return may(thread_of(owner), own) &&
	       atomic_compare_exchange_strong(&caller->owner, &owner, next);
}

static struct caller *find(pid_t own, bool (*may)(pid_t thread, pid_t own))
{
	for (struct caller_block *b = atomic_load(&blocks); b; b = atomic_load(&b->next))
		for (size_t i = 0; i < BLOCK_CALLERS; i++)
			if (take(&b->items[i], own, may))
				return &b->items[i];
	return NULL;
}

/* Makes a block of records, by mmap(2), because the hit may be inside malloc(3). */
static struct caller *make_block(pid_t own)
{
	struct caller_block *block =
		mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct caller_block *first = atomic_load(&blocks);

	if (block == MAP_FAILED)
		return NULL;
	atomic_store_explicit(&block->items[0].owner, (uint64_t)own, memory_order_relaxed);
	/* Publishes the complete block. Pairs with the loads of `blocks`. */
	do
		atomic_store_explicit(&block->next, first, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&blocks, &first, block));
	return &block->items[0];
}

void callers_claim(void)
{
	pid_t own = (pid_t)syscall(SYS_gettid);
	int saved = errno;

	if (getpid() == atomic_load(&process)) {
		callers_own = find(own, is_free);
		if (!callers_own)
			callers_own = find(own, is_gone);
		if (!callers_own)
			callers_own = make_block(own);
	}
	errno = saved;
}

bool callers_are_in(const void *what)
{
	for (struct caller_block *b = atomic_load(&blocks); b; b = atomic_load(&b->next))
		for (size_t i = 0; i < BLOCK_CALLERS; i++)
			for (size_t k = 0; &b->items[i] != callers_own && k < CALLER_CALLS; k++)
				if (atomic_load(&b->items[i].in[k]) == what)
					return true;
	return false;
}

void callers_after_fork(void)
{
	for (struct caller_block *b = blocks; b; b = b->next)
		for (size_t i = 0; i < BLOCK_CALLERS; i++) {
			struct caller *caller = &b->items[i];

			caller->owner = caller == callers_own ? (uint64_t)getpid() : 0;
			for (size_t k = 0; caller != callers_own && k < CALLER_CALLS; k++)
				caller->in[k] = NULL;
		}
	if (process)
		process = getpid();
}

/* ---- Order ----------------------------------------------------------------------------- */

static bool ask_kernel(int command)
{
	return syscall(SYS_membarrier, command, 0, 0) == 0;
}

/* Calls membarrier(2); a forked child may have to register first. */
static bool barrier(void)
{
	return ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED) ||
	       (errno == EPERM && ask_kernel(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
		       ask_kernel(MEMBARRIER_CMD_PRIVATE_EXPEDITED));
}

void callers_init(void)
{
	if (process)
		return;
	callers_are_ordered = ask_kernel(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
	process = getpid();
}

struct probe_error *stop_act(struct probe_target *target, struct message *request,
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

/*
 * Afterwards, for each other thread, either we see its notes made before, or it sees what we wrote
 * before. Call it with the lock. Errors: PROBE_ERROR_UNSUPPORTED (neither membarrier(2) nor a stop
 * of all threads is possible).
 */
static struct probe_error *callers_order(void)
{
	struct probe_report report = {0};
	struct helper_work work = {.act = CONTROLLER_STOP, .report = &report};
	struct probe_error *error;

	if (!callers_are_ordered || barrier())
		return NULL;
	error = helper_run(&work);
	probe_report_deinit(&report);
	return error ? probe_error_prefix(error,
			       "the function stays connected, because a filter forbids "
			       "membarrier(2), and the threads cannot be stopped instead")
		     : NULL;
}

/* ==== Functions =============================================================================== */

/*
 * The section "Callers" says how a thread that disconnects a function learns whether others are in
 * it. Without a place for a note (too deeply nested, or no record), a call is counted: `in` before
 * the check that the function is connected, `out` after the call. These operations, and setting
 * `call` to NULL, are sequentially consistent, so the caller sees NULL, or the disconnecting thread
 * the new `in`. That thread reads `out` first: if both are equal, no call was in progress.
 *
 * Places are not freed while their hook can be hit, so callers walk over them freely.
 */

enum { SPINS = 100, WAIT_NS = 200000 };

__thread struct running *functions_running __attribute__((tls_model("initial-exec")));

/* ---- Places --------------------------------------------------------------------------- */

void functions_deinit(struct functions *functions)
{
	struct function_block *block = functions->first;

	while (block) {
		struct function_block *next = block->next;

		free(block);
		block = next;
	}
	functions->first = NULL;
}

static struct function_block *add_block(_Atomic(struct function_block *) *last)
{
	struct function_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	atomic_store(last, block); /* pairs with the loads in call_from() */
	return block;
}

/* Finds the first free place at the end, or NULL if the last place is in use. */
static struct function *free_end(
	const struct functions *functions, struct function_block **block_ret)
{
	struct function *end = NULL;

	for (struct function_block *b = functions->first; b; b = b->next)
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++) {
			if (b->items[i].is_taken) {
				end = NULL;
			} else if (!end) {
				end = &b->items[i];
				*block_ret = b;
			}
		}
	return end;
}

static struct function *find_free(struct functions *functions, struct function_block **block_ret)
{
	_Atomic(struct function_block *) *at = &functions->first;
	struct function *end = free_end(functions, block_ret);
	struct function_block *block;

	if (end)
		return end;
	while ((block = *at))
		at = &block->next;
	*block_ret = add_block(at);
	return *block_ret ? &(*block_ret)->items[0] : NULL;
}

/*
 * Can a function be added without wasting memory? A free place before the last used one cannot be
 * used again. Call it with the lock.
 */
static bool functions_accept(const struct functions *functions)
{
	struct function_block *unused;
	size_t places = 0;

	for (struct function_block *b = functions->first; b; b = b->next)
		places += FUNCTIONS_AT_ONCE;
	return places == functions->count || free_end(functions, &unused);
}

struct function *functions_add(
	struct functions *functions, function_call *call, void *data, bool is_general)
{
	struct function_block *block;
	struct function *f = find_free(functions, &block);

	if (!f)
		return NULL;
	callers_init();
	f->is_taken = true;
	f->data = data;
	f->is_general = is_general;
	atomic_store(&f->call, call); /* also publishes the members written before */
	if (f - block->items >= (ptrdiff_t)block->used)
		atomic_store(&block->used, (uint32_t)(f - block->items) + 1);
	functions->count++;
	return f;
}

static struct function *functions_find(
	const struct functions *functions, function_call *call, void *data)
{
	for (struct function_block *b = functions->first; b && call; b = b->next)
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++)
			if (b->items[i].call == call && b->items[i].data == data)
				return &b->items[i];
	return NULL;
}

/* ---- Disconnecting ----------------------------------------------------------------------- */

struct probe_error *function_stop(struct function *function)
{
	function_call *call = atomic_load(&function->call);
	struct probe_error *error;

	atomic_store(&function->call, NULL); /* pairs with the load in call_noted() */
	error = callers_order();
	if (error)
		atomic_store(&function->call, call);
	return error;
}

/* Returns how many counted calls of the function this thread is in. */
static uint64_t own_calls(const struct function *function)
{
	uint64_t count = 0;

	for (const struct running *r = functions_running; r; r = r->outer)
		count += r->counted == function;
	return count;
}

static uint64_t calls(const struct function *function)
{
	uint64_t out = atomic_load(&function->out);

	return atomic_load(&function->in) - out;
}

void function_wait(struct function *function)
{
	uint64_t own = own_calls(function);
	int cancel;

	/* A cancelled thread would never free the place. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	for (int i = 0; calls(function) != own || callers_are_in(function); i++) {
		if (i < SPINS)
			sched_yield();
		else
			nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
	}
	pthread_setcancelstate(cancel, NULL);
}

void functions_remove(struct functions *functions, struct function *function)
{
	function->is_taken = false;
	functions->count--;
}

void functions_after_fork(struct functions *functions)
{
	for (struct function_block *b = functions->first; b; b = b->next)
		for (size_t i = 0; i < FUNCTIONS_AT_ONCE; i++)
			b->items[i].out += calls(&b->items[i]) - own_calls(&b->items[i]);
}

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

/* Returns the hook that a new function can share, or NULL. */
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

/* Frees detached hooks whose stubs no thread is in any more, as far as can be found out now. */
static void collect(void)
{
	/* Remove it only after detaching, which reads the list (attach_know()). */
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

/* Makes room for a hook, and in the list of detached ones, so that adding to that cannot fail. */
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

/* Detaches a hook without functions, and lists it if it cannot be freed yet. */
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

/* For a child that was just forked, with the lock. */
static void self_after_fork(void)
{
	callers_after_fork();
	for (size_t i = 0; i < all.count; i++)
		hook_after_fork(all.hooks[i]);
	for (size_t i = 0; i < all.left_count; i++)
		hook_after_fork(all.left[i]);
}

/* ---- The functions ------------------------------------------------------------------------ */

/* Finds a connected function, and its hook. */
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
	/*
	 * Without the lock, which the function's thread may need. The hook is not freed meanwhile.
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

/* ---- Libraries ----------------------------------------------------------------------------- */

/* Connects functions to new libraries' probes. Goes on after an error, and returns the first. */
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

/* Connects functions to libraries opened while the lock was taken. Call it with the lock. */
static void self_catch_up(struct followed *ret)
{
	if (!atomic_exchange(&is_behind, false))
		return;
	ret->error = update(&ret->report);
	ret->told = all.told;
	ret->data = all.told_data;
}

static bool self_is_behind(void)
{
	return atomic_load(&is_behind);
}

/* Calls the program's callback and frees `followed`. Call it without the lock. */
static void self_tell(struct followed *followed)
{
	const struct probe_report *report = &followed->report;

	if (followed->told && (followed->error || report->sites || report->refusal_count))
		followed->told(report, followed->error, followed->data);
	probe_error_free(followed->error);
	probe_report_deinit(&followed->report);
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

/* Takes the lock before a fork, unless the thread has it: then this library forks itself. */
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
	if (is_taken_to_fork)
		self_after_fork();
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
 * Like self_lock(), for a thread that may hold the loader's lock, for which our lock's owner may
 * wait: so the wait is limited. Returns false if it has the lock already, or after the limit.
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
	/* Unlock, then read the flag again: a thread that waited in vain has set it. */
	do {
		struct followed followed = {0};

		is_owner = true;
		self_catch_up(&followed);
		helper_end();
		is_owner = false;
		pthread_mutex_unlock(&lock);
		self_tell(&followed);
	} while (self_is_behind() && pthread_mutex_trylock(&lock) == 0);
	pthread_setcancelstate(cancel, NULL);
}

/* ---- Looking ---------------------------------------------------------------------------- */

struct probe_error *probe_self_list(struct probe_list *list)
{
	struct probe_error *error = procfs_check();

	return error ? error : probe_list_add_process(list, getpid());
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
	struct probe_status *states = NULL;
	struct probe_error *error = probe_target_open(getpid(), NULL, &self);

	if (error)
		return error;
	error = probe_target_status(self, &states, count_ret);
	if (!error) {
		*ret = pack(states, *count_ret);
		free(states);
		if (!*ret)
			error = probe_error_no_memory();
	}
	probe_target_close(self);
	return error;
}
