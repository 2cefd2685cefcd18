/* SPDX-License-Identifier: MIT */
/*
 * The process that changes this one, for a caller that waits at the other end of a socket. It is
 * an executed program, or a copy of this process (start.h); what it does is the same.
 */
#ifndef LIBPROBE_SELF_CONTROLLER_H
#define LIBPROBE_SELF_CONTROLLER_H

#include <stdbool.h>

#include "libprobe/self/helper/message.h"
#include "libprobe/registry/registry.h"
#include "probe/target.h"

enum controller_act {
	CONTROLLER_SWITCH, /* switch.c */
	CONTROLLER_ATTACH, /* attach.c: the stubs of a hook */
	CONTROLLER_FOLLOW, /* loader.c: that of the loader */
	CONTROLLER_DETACH, /* attach.c */
	CONTROLLER_STOP,   /* callers.c */
	CONTROLLER_ACTS
};

/*
 * Does one of them to the target. `request` holds what the caller has said of it, and is checked by
 * each. `result` is zeros at first.
 */
typedef struct probe_error *controller_do(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes);
controller_do switch_act, attach_act, follow_act, detach_act, stop_act;

/* The error for a request that a controller does not understand. */
struct probe_error *controller_bad_request(void)
	__attribute__((returns_nonnull, warn_unused_result));

/* At the beginning of a request, with what the caller knows of the process. */
struct controller_work {
	uint32_t act;	     /* enum controller_act */
	pid_t pid, tid;	     /* the process, and the caller's thread */
	uint64_t start_time; /* of the process */
	uint64_t result_bytes;
	struct arch_gadgets gadgets;
	struct arch_thread model;
};

/* What identifies the build of the library that a controller belongs to. */
extern const char controller_identity[];

/* Serves the caller at the other end of the socket, and ends the process. */
void controller_main(int socket) __attribute__((noreturn));

#endif
