/* SPDX-License-Identifier: MIT */
/* The errors for refused accesses to a process. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "libprobe/base/error.h"

/* Facts that may explain a refused access (EACCES, EPERM). */
enum { PERMISSION_PROFILE = 256 };
struct permission_facts {
	pid_t pid;
	long tracer; /* id of the thread that traces the process, or 0 */
	char tracer_name[32];
	bool is_unwritable; /* the process's memory is readable, but not writable */
	long uid, own_uid;  /* users of the process and of this process; -1 if unknown */
	long scope;	    /* kernel.yama.ptrace_scope, or -1 */
	bool is_allowed;    /* no rule except a security module's forbids the access */
	/* AppArmor's profile of this process and of the other process; "" if none. */
	char own_profile[PERMISSION_PROFILE], profile[PERMISSION_PROFILE];
};

/*
 * Gets AppArmor's profile from an attr/current file. Returns false if no profile restricts the
 * process.
 */
bool permission_profile(const char *text, char profile[PERMISSION_PROFILE]);

/* Returns the error for a refused access, which names the rule that forbids it. */
struct probe_error *permission_denied(const struct permission_facts *facts)
	__attribute__((returns_nonnull, warn_unused_result));

/* Returns the error for EPERM or EACCES of ptrace(2), or of writing /proc/PID/mem. */
struct probe_error *permission_trace_error(pid_t pid)
	__attribute__((returns_nonnull, warn_unused_result));

/* Returns the error for EPERM or EACCES of opening /proc/PID/maps. */
struct probe_error *permission_maps_error(pid_t pid)
	__attribute__((returns_nonnull, warn_unused_result));
