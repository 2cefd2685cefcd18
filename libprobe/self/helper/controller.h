/* SPDX-License-Identifier: MIT */
/*
 * The controller is a process that changes its target for a thread of the target, the caller, which
 * waits at the other end of a socket. It is an executed program or a copy of the target (helper.c).
 */
#ifndef LIBPROBE_SELF_CONTROLLER_H
#define LIBPROBE_SELF_CONTROLLER_H

#include <stdbool.h>

#include "libprobe/self/helper/message.h"
#include "libprobe/registry/registry.h"
#include "probe/target.h"

enum controller_act {
	CONTROLLER_SWITCH, /* enable and disable probes: switch.c */
	CONTROLLER_ATTACH, /* install the stubs of a hook: hook.c */
	CONTROLLER_FOLLOW, /* install the loader's stub: hook.c */
	CONTROLLER_DETACH, /* remove the stubs of a hook: hook.c */
	CONTROLLER_STOP,   /* stop all threads for a moment: self.c */
	CONTROLLER_ACTS
};

/* An act on the target. `request` is not trusted. `result` is zero at first. */
typedef struct probe_error *controller_do(struct probe_target *target, struct message *request,
	struct probe_report *report, void *result, size_t result_bytes);
controller_do switch_act, attach_act, follow_act, detach_act, stop_act;

struct probe_error *controller_bad_request(void)
	__attribute__((returns_nonnull, warn_unused_result));

/* The beginning of a request: facts that the caller knows about its process. */
struct controller_work {
	uint32_t act;	     /* enum controller_act */
	pid_t pid, tid;	     /* ids of the caller's process and of the caller itself */
	uint64_t start_time; /* start time of the process, in clock ticks since boot */
	uint64_t result_bytes;
	struct arch_gadgets gadgets;
	struct arch_thread model;
};

/* Identifies the build of the library. */
extern const char controller_identity[];

/* Serves the caller at the other end of the socket, then ends this process. */
void controller_main(int socket) __attribute__((noreturn));

#endif
