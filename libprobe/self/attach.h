/* SPDX-License-Identifier: MIT */
/*
 * The messages between hooks (hook.h) and the controller that changes the process. Addresses are
 * addresses in the process that is changed.
 */
#ifndef LIBPROBE_SELF_ATTACH_H
#define LIBPROBE_SELF_ATTACH_H

#include "arch/arch.h"
#include "libprobe/self/helper/message.h"
#include "libprobe/registry/registry.h"

/* The memory that holds the counters of a hook's calls: see struct reg_session. */
struct hook_counters {
	uint32_t session; /* 0 if the hook has no session */
	uint32_t cpus;
	uint32_t slot_count;
	uint8_t slots_shift;
	uint64_t slots;
};

/* The sessions of all hooks of this process. */
struct attach_known {
	/* Distinguishes this library's sessions from those of another copy of the library. */
	uint64_t caller;
	uint32_t *sessions; /* in the order in which a hit enters a site's stubs; owned */
	uint32_t count;
	uint32_t before; /* number of sessions that come before the hook's */
};
/* With the lock: collects the sessions of all hooks. `hook` may be NULL. False without memory. */
struct hook;
bool attach_know(const struct hook *hook, struct attach_known *ret);
void attach_known_deinit(struct attach_known *known);
void attach_known_add(struct buffer *request, const struct attach_known *known);
/* Reads the data of attach_known_add(). Returns false if the message is bad, or without memory. */
bool attach_known_read(struct message *request, struct attach_known *ret);

/* The function that stubs call. */
struct attach_call {
	uint64_t function; /* address of enter_called() */
	/* Address of a word that is never 0, not even in a forked child: see arch_stub. */
	uint64_t guard;
};

/* The request of CONTROLLER_ATTACH: struct attach_known, this, the pattern's text, the sites. */
struct attach_head {
	struct attach_call call;
	uint32_t session; /* the hook's session, or 0 */
	uint32_t keep_going;
	uint64_t site_count;
};
/* A site that the process has described. The site's captures follow it. */
struct attach_site {
	uint64_t pc, key, data; /* `data` is passed to the function */
	uint8_t capture_count, recorded;
};
/* The result of CONTROLLER_ATTACH. */
struct attached {
	struct hook_counters counters;
	struct arch_extent stubs[]; /* for each site, its new stubs; empty if it has none */
};

/*
 * The request of CONTROLLER_FOLLOW is struct attach_known and this struct; the result is a struct
 * hook_counters. The request of CONTROLLER_DETACH is struct attach_known and a session (u32); the
 * result is a bool: true if no thread is in the session's stubs or can still enter them.
 */
struct follow_head {
	struct attach_call call;
	uint64_t data;
};

#endif
