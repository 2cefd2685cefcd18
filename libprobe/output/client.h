/* SPDX-License-Identifier: MIT */
/*
 * A client that posts messages to one server, on libcurl, and never waits.
 *
 * Messages are sent one after the other. One that the server could not take now (429, 502, 503,
 * 504, or no connection) is sent again, after 1 s, 2 s and so on up to 30 s, or when the server
 * says. Meanwhile others queue up; where they have no room, the oldest goes. One that the server
 * does not want is gone at once. What is gone is counted.
 */
#ifndef LIBPROBE_OUTPUT_CLIENT_H
#define LIBPROBE_OUTPUT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/error.h"

/* Without the library's header, none.c replaces all of it with errors. */
#if __has_include(<curl/curl.h>)
#define HTTP_CLIENT_BUILT
#endif

enum { HTTP_KINDS_MAX = 2, HTTP_WHY_BYTES = 160 };

/* What became of the items of one kind that messages held. */
struct http_sent {
	uint64_t done, lost;
};

struct http_client;

/*
 * Prepares a client for a URL, to which messages add their paths. `headers` are those of the user,
 * as probe_otlp_open() has them. Nothing is sent yet. Errors: see there.
 */
PROBE_MUST_CHECK struct probe_error *http_client_open(
	const char *url, const char *headers, struct http_client **ret);
/* What is still queued is gone. NULL is allowed. */
void http_client_close(struct http_client *client);

/*
 * Queues a message of JSON, which has `items` of a kind, and takes ownership of its body. `path`
 * is static. An answer that says that some of them were rejected has their number behind
 * `rejected`.
 */
struct http_message {
	unsigned int kind;
	const char *path, *rejected;
	char *body;
	size_t length;
	uint64_t items;
};
void http_client_post(struct http_client *client, const struct http_message *message);

/* As those of a server (probe/metrics.h). */
int http_client_fd(const struct http_client *client);
uint64_t http_client_due_ns(const struct http_client *client);
void http_client_run(struct http_client *client);

/* Gives up what is queued: it counts as lost. */
void http_client_give_up(struct http_client *client);
/* Whether there is something left to send. */
bool http_client_is_busy(const struct http_client *client);
/* What became of a kind so far. */
struct http_sent http_client_sent(const struct http_client *client, unsigned int kind);
/* Why the last message was not taken; "" if none was refused. Owned by the client. */
const char *http_client_why(const struct http_client *client);

/* ---- headers.c ------------------------------------------------------------------- */

/*
 * Takes the next of several headers, NAME=VALUE,NAME=VALUE, whose values may have %XX: "NAME:
 * VALUE", which the caller frees. False after the last one, of NULL, and after an error:
 * PROBE_ERROR_USAGE, PROBE_ERROR_MEMORY.
 */
bool http_next_header(const char **headers, char **ret, struct probe_error **error_ret);

#endif
