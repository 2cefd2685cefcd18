/* SPDX-License-Identifier: MIT */
/* Messages between a change's caller and the process that makes the change. */
#ifndef LIBPROBE_SELF_MESSAGE_H
#define LIBPROBE_SELF_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"

enum message_kind {
	MESSAGE_HELLO = 1, /* to the caller: which build of the library this is */
	MESSAGE_WORK,	   /* to the controller: what to do */
	MESSAGE_CALL,	   /* to the caller: a system call; proxy.c */
	MESSAGE_MATCH,	   /* to the caller: whether a function of the program names a probe */
	MESSAGE_ANSWER,	   /* to the controller: of the last two */
	MESSAGE_REPLY	   /* to the caller: what was done; reply.c */
};

/* One that was received. Initialise with {0}. */
struct message {
	enum message_kind kind;
	char *bytes;
	size_t length, at;
	bool is_bad; /* more was read than it holds, or a text has no end */
};
void message_deinit(struct message *message);

/* Sends one; false: the other side is gone, or `bytes` ran out of memory. */
bool message_send(int socket, enum message_kind kind, const struct buffer *bytes);

enum message_result { MESSAGE_GOT, MESSAGE_ENDED, MESSAGE_LATE };
/*
 * Receives the next one, until a time (CLOCK_MONOTONIC, ns; 0: for ever). MESSAGE_ENDED: the other
 * side is gone, or has sent something else, or there is no memory for it. `process` is a descriptor
 * of the other side (pidfd), or -1: it may be gone although somebody else has its end open.
 */
enum message_result message_receive(int socket, int process, uint64_t end_ns, struct message *ret);

/* The next bytes of a message; zeros if it has too few. */
void message_read(struct message *message, void *ret, size_t size);
/* The next text, which stays the message's; "" if there is none. */
const char *message_text(struct message *message);
/* How many items of a size at least follow, if `count` says so: no more than the message holds. */
size_t message_count(struct message *message, uint64_t count, size_t item_bytes);
/* Appends a text. */
void message_add_text(struct buffer *buffer, const char *text);

#endif
