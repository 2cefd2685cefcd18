/* SPDX-License-Identifier: MIT */
/* The messages between the caller of a change and its controller. */
#ifndef LIBPROBE_SELF_MESSAGE_H
#define LIBPROBE_SELF_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/buffer.h"

enum message_kind {
	MESSAGE_HELLO = 1, /* to the caller: which build of the library the controller is */
	MESSAGE_WORK,	   /* to the controller: a request */
	MESSAGE_CALL,	   /* to the caller: asks it to make a system call; helper.c */
	/* To the caller: does a function of the program select a probe? */
	MESSAGE_MATCH,
	MESSAGE_ANSWER, /* to the controller: the answer to MESSAGE_CALL and MESSAGE_MATCH */
	MESSAGE_REPLY	/* to the caller: the result of a request; message.c */
};

/* A received message. Initialise with {0}. */
struct message {
	enum message_kind kind;
	char *bytes;
	size_t length, at;
	bool is_bad; /* more bytes were read than the message has, or a text lacks its NUL */
};
void message_deinit(struct message *message);

/* Returns false if the receiver is gone, or if memory ran out while `bytes` was filled. */
bool message_send(int socket, enum message_kind kind, const struct buffer *bytes);

enum message_result { MESSAGE_GOT, MESSAGE_ENDED, MESSAGE_LATE };
/*
 * Receives a message, until `end_ns` (CLOCK_MONOTONIC; 0: without limit). MESSAGE_ENDED: the sender
 * is gone or sent nonsense, or memory is short. `process` is its pidfd or -1, and tells its end
 * even if another process has the socket open.
 */
enum message_result message_receive(int socket, int process, uint64_t end_ns, struct message *ret);

/* Reads the next bytes of a message; zeros if it is too short. */
void message_read(struct message *message, void *ret, size_t size);
/* Returns the next text, which the message owns; "" if it is too short. */
const char *message_text(struct message *message);
/*
 * Returns `count` if the message has so many items of `item_bytes`; else sets is_bad and returns 0.
 */
size_t message_count(struct message *message, uint64_t count, size_t item_bytes);
/* Appends a text with its NUL. */
void message_add_text(struct buffer *buffer, const char *text);

#endif
