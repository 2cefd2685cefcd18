/* SPDX-License-Identifier: MIT */
/* Messages between the caller of a change and the process that makes the change. */
#ifndef LIBPROBE_SELF_MESSAGE_H
#define LIBPROBE_SELF_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"

enum message_kind {
	MESSAGE_HELLO = 1, /* to the caller: the build of the library */
	MESSAGE_WORK,	   /* to the controller: a request */
	MESSAGE_CALL,	   /* to the caller: make a system call; helper.c */
	MESSAGE_MATCH,	   /* to the caller: does a function of the program select a probe? */
	MESSAGE_ANSWER,	   /* to the controller: the answer to MESSAGE_CALL and MESSAGE_MATCH */
	MESSAGE_REPLY	   /* to the caller: the result of a request; message.c */
};

/* A received message. Initialise with {0}. */
struct message {
	enum message_kind kind;
	char *bytes;
	size_t length, at;
	bool is_bad; /* more was read than the message holds, or a text has no end */
};
void message_deinit(struct message *message);

/* Sends a message. Returns false if the receiver is gone, or if `bytes` ran out of memory. */
bool message_send(int socket, enum message_kind kind, const struct buffer *bytes);

enum message_result { MESSAGE_GOT, MESSAGE_ENDED, MESSAGE_LATE };
/*
 * Receives the next message, until `end_ns` (CLOCK_MONOTONIC; 0: without limit). MESSAGE_ENDED: the
 * sender is gone or has sent something else, or there is no memory for the message. `process` is a
 * descriptor of the sender (pidfd), or -1; it shows the sender's end even if another process has
 * the socket open.
 */
enum message_result message_receive(int socket, int process, uint64_t end_ns, struct message *ret);

/* Reads the next bytes of a message; zeros if the message is too short. */
void message_read(struct message *message, void *ret, size_t size);
/* Returns the next text, which the message owns, or "" if the message is too short. */
const char *message_text(struct message *message);
/* Returns `count`; 0, and sets is_bad, if so many items of `item_bytes` exceed the message. */
size_t message_count(struct message *message, uint64_t count, size_t item_bytes);
/* Appends a text. */
void message_add_text(struct buffer *buffer, const char *text);

#endif
