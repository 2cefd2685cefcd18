/* SPDX-License-Identifier: MIT */
/* The messages between hooks (hook.h) and the controller, with addresses of the hooked process. */
#ifndef LIBPROBE_SELF_ATTACH_H
#define LIBPROBE_SELF_ATTACH_H

#include "arch/arch.h"
#include "libprobe/self/helper/message.h"
#include "libprobe/registry/registry.h"

/* The counters of a hook's session (struct reg_session). */
struct hook_counters {
	uint32_t session; /* 0 if the hook has no session */
	uint32_t cpus;
	uint32_t slot_count;
	uint8_t slots_shift;
	uint64_t slots;
};

struct attach_known {
	/* the copy of the library that made these sessions: a program may contain several */
	uint64_t caller;
	uint32_t *sessions; /* in the order in which a hit goes through their stubs; owned */
	uint32_t count;
	uint32_t before; /* how many of the sessions come before that of the hook */
};
/*
 * Collects the sessions of all hooks, with the lock. `hook` may be NULL. False if memory is short.
 */
struct hook;
bool attach_know(const struct hook *hook, struct attach_known *ret);
void attach_known_deinit(struct attach_known *known);
void attach_known_add(struct buffer *request, const struct attach_known *known);
/* Reads what attach_known_add() wrote. Returns false if it is bad, or if memory is short. */
bool attach_known_read(struct message *request, struct attach_known *ret);

struct attach_call {
	uint64_t function; /* address of enter_called() */
	/*
	 * The address of a word, for stubs to check (arch_stub), that is never 0, not even in a
	 * forked child.
	 */
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
 * The request of CONTROLLER_FOLLOW is a struct attach_known and this; its result a struct
 * hook_counters.
 *
 * The request of CONTROLLER_DETACH is a struct attach_known and a session's number (uint32_t); its
 * result is true (bool) if no thread is in, or can enter, the session's stubs.
 */
struct follow_head {
	struct attach_call call;
	uint64_t data;
};

#endif
