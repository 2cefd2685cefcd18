/* SPDX-License-Identifier: MIT */
/*
 * What a controller does for hooks (hook.h), and what it is told about them. Addresses are those in
 * the process that is changed.
 */
#ifndef LIBPROBE_SELF_ATTACH_H
#define LIBPROBE_SELF_ATTACH_H

#include "arch/arch.h"
#include "libprobe/self/helper/message.h"
#include "libprobe/registry/registry.h"

/* Where the counters of a hook's calls are: see struct reg_session. */
struct hook_counters {
	uint32_t session; /* 0: there is none */
	uint32_t cpus;
	uint32_t slot_count;
	uint8_t slots_shift;
	uint64_t slots;
};

/* The sessions of all hooks. */
struct attach_known {
	/* Distinguishes this library's sessions from those of another copy of it in the program. */
	uint64_t caller;
	uint32_t *sessions; /* in the order in which a site's stubs are entered; owned */
	uint32_t count;
	uint32_t before; /* so many of them come before the hook in question */
};
/* Of this process; `hook` may be NULL. False without memory. With the lock (connect.c). */
struct hook;
bool attach_know(const struct hook *hook, struct attach_known *ret);
void attach_known_deinit(struct attach_known *known);
void attach_known_add(struct buffer *request, const struct attach_known *known);
/* Reads what attach_known_add() has written; false: the message is bad, or there is no memory. */
bool attach_known_read(struct message *request, struct attach_known *ret);

/* What stubs call. */
struct attach_call {
	uint64_t function; /* enter_called() */
	uint64_t guard;	   /* of a word that is not 0, in a forked child either: see arch_stub */
};

/* Of the request of CONTROLLER_ATTACH: first struct attach_known, then this, the pattern's text,
 * and the sites. */
struct attach_head {
	struct attach_call call;
	uint32_t session; /* of the hook; 0: none yet */
	uint32_t keep_going;
	uint64_t site_count;
};
/* A site that the process has described; its captures follow. */
struct attach_site {
	uint64_t pc, key, data; /* `data` goes to the function */
	uint8_t capture_count, recorded;
};
/* The result. */
struct attached {
	struct hook_counters counters;
	struct arch_extent stubs[]; /* of each new site; empty if it has none */
};

/*
 * Of CONTROLLER_FOLLOW: struct attach_known, and this; the result is a struct hook_counters. Of
 * CONTROLLER_DETACH: struct attach_known, and a session (u32); the result is a bool: no thread is
 * or will get into its stubs.
 */
struct follow_head {
	struct attach_call call;
	uint64_t data;
};

#endif
