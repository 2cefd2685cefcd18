/* SPDX-License-Identifier: MIT */
#ifndef LIBPROBE_SELF_SELF_H
#define LIBPROBE_SELF_SELF_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch/arch.h"
#include "arch/general.h"
#include "libprobe/base/error.h"
#include "libprobe/query/query.h"
#include "libprobe/registry/registry.h"
#include "libprobe/self/helper/helper.h"
#include "probe/self.h"

/* ---- Callers ------------------------------------------------------------------------------- */

/*
 * Notes which connected functions each thread is in. A thread makes notes with plain stores, in a
 * record of its own. A thread that disconnects a function reads all records.
 */

enum { CALLER_CALLS = 15 };

/* The record of a thread. It is never freed; after the thread's end, another thread takes it. */
struct caller {
	/* Low half: the id of the owning thread; high half: the number of owners so far. */
	_Alignas(128) _Atomic uint64_t owner;
	/* The function that the thread is in at each depth of nesting, or NULL. */
	_Atomic(const void *) in[CALLER_CALLS];
};

/* This thread's record, or NULL. */
extern __thread struct caller *callers_own __attribute__((tls_model("initial-exec")));

/*
 * True if notes are plain stores, and callers_order() makes the kernel order them before other
 * threads' later loads. False if each note needs a slower instruction for that. Set by
 * callers_init().
 */
extern bool callers_are_ordered;

/* Call this before a function is connected. The caller holds the lock. */
void callers_init(void);

/*
 * Afterwards, for each other thread, either we see its notes made before, or it sees what we wrote
 * before. Returns false if membarrier(2) is not possible. Call it with the lock.
 */
bool callers_order(void);

/* Tries to find a record for this thread, which has none. Does not change errno. */
void callers_claim(void);

/* Returns true if another thread is in the function `what`, according to its notes. */
bool callers_are_in(const void *what);

/* For a child that was just forked: frees the records of the parent's other threads. */
void callers_after_fork(void);

/*
 * Returns where this thread, in `depth` calls, notes the next call; NULL if it must count the call.
 */
GENERAL_ONLY static inline _Atomic(const void *) *callers_place(unsigned int depth)
{
	struct caller *own = callers_own;

	return own && depth < CALLER_CALLS ? &own->in[depth] : NULL;
}

/* Notes a call. Pairs with callers_order(). */
GENERAL_ONLY static inline void callers_enter(_Atomic(const void *) *place, const void *what)
{
	if (callers_are_ordered) {
		atomic_store_explicit(place, what, memory_order_relaxed);
		atomic_signal_fence(memory_order_seq_cst);
	} else {
		atomic_store(place, what);
	}
}

/* Clears the note after the call. Pairs with the loads in callers_are_in(). */
GENERAL_ONLY static inline void callers_leave(_Atomic(const void *) *place)
{
	atomic_store_explicit(place, NULL, memory_order_release);
}

/* ---- Functions ----------------------------------------------------------------------------- */

/*
 * The functions of a hook (struct hook). Other threads call them without a lock (hits.c) while
 * functions are added and removed.
 */

typedef void function_call(const struct probe_self_hit *hit, void *data);

enum { FUNCTIONS_AT_ONCE = 4 };

/*
 * A place for a function. After a removal, another function may get the place. It is freed only
 * with the hook.
 */
struct function {
	_Atomic(function_call *)
		call; /* NULL if the place is free, or while its function is being disconnected */
	void *data;
	void (*inner)(void); /* function that `call` calls (probe_self_hit.function), or NULL */
	bool is_general; /* the function changes only general registers, see general_function() */
	bool is_taken;	 /* the place is in use; protected by the lock */
	/* Calls begun and ended by threads without a place for a note (struct caller). */
	_Atomic uint64_t in, out;
};

struct function_block {
	struct function items[FUNCTIONS_AT_ONCE];
	_Atomic uint32_t used; /* no function was ever stored from this index on */
	_Atomic(struct function_block *) next;
};

/*
 * The functions of a hook, in the order of calls. Initialise with {0}. At functions_deinit(), no
 * thread may be in one of them.
 */
struct functions {
	_Atomic(struct function_block *) first;
	size_t count; /* places in use; protected by the lock */
};
void functions_deinit(struct functions *functions);

/* Returns true if a function can be added behind the others. */
bool functions_accept(const struct functions *functions);
/* Adds a function behind the others. The caller holds the lock. NULL if memory is short. */
struct function *functions_add(struct functions *functions, function_call *call,
	void (*inner)(void), void *data, bool is_general);

/*
 * Prevents new calls, with the lock. After an error, the function is still called. Errors:
 * PROBE_ERROR_UNSUPPORTED (neither membarrier(2) nor a stop of all threads is possible).
 */
PROBE_MUST_CHECK struct probe_error *function_stop(struct function *function);
/* Waits until no other thread is in the function. The caller must not hold the lock. */
void function_wait(struct function *function);
/* Frees the function's place. The caller holds the lock. */
void functions_remove(struct functions *functions, struct function *function);

/* The hits that this thread is handling, the innermost first. */
struct running {
	struct running *outer;
	const void *hook;
	const struct function *counted; /* the function whose call was counted, or NULL */
	unsigned int depth;
};
extern __thread struct running *functions_running __attribute__((tls_model("initial-exec")));

/* For a child that was just forked: the calls of the parent's other threads count as ended. */
void functions_after_fork(struct functions *functions);

/* ---- General ------------------------------------------------------------------------------- */

/*
 * Returns true if this function, with all that it calls, provably changes only general registers,
 * flags and memory. False for calls by pointer or through a library's table, writable code, or too
 * much code.
 */
bool general_function(uint64_t address);

/* ---- Messages of hooks --------------------------------------------------------------------- */

/* The messages between hooks (struct hook) and the controller, with addresses of the hooked
 * process. */

/* The counters of a hook's session (struct reg_session). */
struct hook_counters {
	uint32_t session; /* 0 if the hook has no session */
	uint32_t cpus;
	uint32_t slot_count;
	uint8_t slots_shift;
	uint64_t slots;
};

struct attach_known {
	/*
	 * the copy of the library that made these sessions, because a program may contain several
	 */
	uint64_t caller;
	uint32_t *sessions; /* in the order in which a hit goes through their stubs; owned */
	uint32_t count;
	uint32_t before; /* number of the sessions whose stubs run before those of the hook */
};
void attach_known_deinit(struct attach_known *known);
void attach_known_add(struct buffer *request, const struct attach_known *known);
/* Reads what attach_known_add() wrote. Returns false if it is bad, or if memory is short. */
bool attach_known_read(struct message *request, struct attach_known *ret);

struct attach_call {
	uint64_t function; /* address of enter_called() */
	/* The address of a word for stubs to check (arch_stub), never 0 even in a forked child. */
	uint64_t guard;
};

/* The request of CONTROLLER_ATTACH: struct attach_known, this, the pattern's text, the sites. */
struct attach_head {
	struct attach_call call;
	uint32_t session; /* the hook's session, or 0 */
	uint32_t keep_going;
	uint64_t site_count;
};
/* A site that the process has described. Its captures follow in the message. */
struct attach_site {
	uint64_t pc, key, data; /* `data` is passed to the function */
	uint8_t capture_count, recorded;
};
/* The result of CONTROLLER_ATTACH. */
struct attached {
	struct hook_counters counters;
	/* The new stubs of each site; empty for a site without new stubs. */
	struct arch_extent stubs[];
};

/*
 * The request of CONTROLLER_FOLLOW is a struct attach_known and this struct; its result is a struct
 * hook_counters.
 *
 * The request of CONTROLLER_DETACH is a struct attach_known and a session's number (uint32_t); its
 * result is true (bool) if no thread is in, or can enter, the session's stubs.
 */
struct follow_head {
	struct attach_call call;
	uint64_t data;
};

/* ---- Unwind -------------------------------------------------------------------------------- */

/* Lets unwinders walk from a connected function, through the stub, to the probed function. */

struct unwind;

/* Loads the unwinder, so that attaching a hook need not. */
void unwind_prepare(void);

/* ---- Hook ---------------------------------------------------------------------------------- */

/*
 * A hook: a pattern, the functions connected to its probes, and a session in this process's
 * registry, whose stubs call them.
 */

/* A site of a hook. Stubs pass its address, so it must exist while a thread may be in a stub. */
struct hook_site {
	struct hook *hook;
	uint64_t pc, key; /* address, and the probe's key (select_key()) */
	char *provider, *name, *path;
	struct record_layout layout;
	bool is_plain; /* see record_layout_is_plain() */
};

/* Sites that were patched together. */
struct hook_sites {
	struct hook_sites *next;
	struct hook_site *items;
	size_t count;
	const struct arch *arch;
	struct unwind *unwind;
};

struct hook {
	char *text;
	int priority;		       /* priority of the hook's functions */
	struct probe_pattern *pattern; /* NULL for the hook of the loader (loader_create()) */
	bool waits;		       /* a library with the pattern's probes may be loaded later */
	struct functions functions;
	struct hook_sites *sites;
	struct hook_counters counters;
	/* A dead controller may have left stubs that call this hook, so it is never freed. */
	bool is_kept;
	struct hook *next_kept;
};

/*
 * Handles a hit, for stubs (arch_call); `site` is a struct hook_site's address. In hits.c.
 * GENERAL_ONLY (arch/general.h).
 */
void enter_called(const uint64_t *frame, uint64_t site);

/* Patches nothing yet. Errors: PROBE_ERROR_USAGE (bad pattern), PROBE_ERROR_MEMORY. */
PROBE_MUST_CHECK struct probe_error *hook_create(const char *text, int priority, struct hook **ret);
/* Returns a number of this library: a program may contain another copy. */
uint64_t hook_caller(void);

/* Frees a hook whose sites are not patched any more. Does nothing if a controller has died. */
void hook_free(struct hook *hook);

/*
 * Patches the matching sites that are not patched yet. Errors: PROBE_ERROR_NOT_FOUND (no site
 * matches now or was patched before, and no library is expected), and those of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *hook_attach(struct hook *hook,
	const struct attach_known *known, bool keep_going, struct probe_report *report);

/* Undoes hook_attach(). `known` is NULL if memory was short. *gone_ret: no thread is in, or can
 * enter, the stubs. Else call it again. */
PROBE_MUST_CHECK struct probe_error *hook_detach(
	struct hook *hook, const struct attach_known *known, bool *gone_ret);

/* For a child that was just forked: forgets the calls of the parent's other threads. */
void hook_after_fork(struct hook *hook);

/* ---- Loader -------------------------------------------------------------------------------- */

/* A hook of the loader, hit when a library is opened, before its constructors run. */

/*
 * Patches the loader. From then on, opened() is called when libraries have been mapped, in the
 * thread that opens them, which holds the loader's lock. Free the hook like other hooks. Errors: as
 * gate_attach_call(), and those of probe/self.h.
 */
PROBE_MUST_CHECK struct probe_error *loader_create(
	void (*opened)(void), const struct attach_known *known, struct hook **ret);

/* ---- Self ---------------------------------------------------------------------------------- */

/*
 * Takes the lock of changes in this process. In a child forked while it is held, the lock is free
 * and the state consistent. Its holder cannot be cancelled (pthread_cancel(3)). Pass the result to
 * self_unlock().
 */
int self_lock(void);
void self_unlock(int cancel);

typedef void followed_call(
	const struct probe_report *report, const struct probe_error *error, void *data);

#endif
