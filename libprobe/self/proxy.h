/* SPDX-License-Identifier: MIT */
/* System calls that the copy of this process asks the caller of a change to make. */
#ifndef LIBPROBE_SELF_PROXY_H
#define LIBPROBE_SELF_PROXY_H

#include <stddef.h>

#include "libprobe/stop/control.h"

struct proxy_request {
	uint64_t magic;
	int64_t number;
	uint64_t args[6];
	uint64_t has_text; /* instead of the first argument */
	char text[CONTROL_TEXT_MAX];
};

/* In the copy: struct target_proxy.call; `socket` points to the copy's end. */
bool proxy_ask(void *socket, struct control_call *call);

/*
 * In the caller: if a message of the copy is a request, makes the call, answers, and returns true.
 */
bool proxy_serve(int socket, const void *message, size_t length);

#endif
