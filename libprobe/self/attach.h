/* SPDX-License-Identifier: MIT */
/*
 * The messages that hooks (hook.h) exchange with the controller that changes the process. All
 * addresses are addresses in that process.
 */
#ifndef LIBPROBE_SELF_ATTACH_H
#define LIBPROBE_SELF_ATTACH_H

#include "arch/arch.h"
#include "libprobe/self/helper/message.h"
#include "libprobe/registry/registry.h"

/* Where a hook's calls are counted: the counters of its session (struct reg_session). */
struct hook_counters {
	uint32_t session; /* 0 if the hook has no session */
	uint32_t cpus;
	uint32_t slot_count;
	uint8_t slots_shift;
	uint64_t slots;
};

/* The sessions of all hooks of this process. */
struct attach_known {
	/*
	 * The library that made the sessions. A program may contain several copies of the library.
	 */
	uint64_t caller;
	uint32_t *sessions; /* in the order in which a hit goes through their stubs; owned */
	uint32_t count;
	uint32_t before; /* how many of the sessions come before the hook's */
};
/*
 * Collects the sessions of all hooks. Call it with the lock. `hook` may be NULL. Returns false if
 * there is no memory.
 */
struct hook;
bool attach_know(const struct hook *hook, struct attach_known *ret);
void attach_known_deinit(struct attach_known *known);
void attach_known_add(struct buffer *request, const struct attach_known *known);
/*
 * Reads what attach_known_add() has written. Returns false if the message is bad or there is no
 * memory.
 */
bool attach_known_read(struct message *request, struct attach_known *ret);

/* The function that stubs call. */
struct attach_call {
	uint64_t function; /* address of enter_called() */
	/*
	 * The address of a word that is never 0: stubs check it, see arch_stub. It is not 0 in a
	 * forked child either.
	 */
	uint64_t guard;
};

/*
 * Part of the request of CONTROLLER_ATTACH: struct attach_known, struct attach_head, the text of
 * the pattern, the sites.
 */
struct attach_head {
	struct attach_call call;
	uint32_t session; /* the hook's session, or 0 */
	uint32_t keep_going;
	uint64_t site_count;
};
/* A site that the process has described. The captures of the site follow in the message. */
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
 * The request of CONTROLLER_FOLLOW is a struct attach_known and a struct follow_head; its result is
 * a struct hook_counters.
 *
 * The request of CONTROLLER_DETACH is a struct attach_known and the number of a session (uint32_t).
 * Its result is a bool: true if no thread is in the session's stubs or can still enter them.
 */
struct follow_head {
	struct attach_call call;
	uint64_t data;
};

#endif
