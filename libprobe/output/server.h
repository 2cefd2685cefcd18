/* SPDX-License-Identifier: MIT */
/*
 * A small HTTP server, on libmicrohttpd: pages that are read (GET, HEAD), and nothing else.
 *
 * It has no thread. Its descriptor belongs into the caller's loop, which calls http_server_run();
 * no call ever waits. A thread of its own would need locks around whatever the pages are made of,
 * and one in a program that starts others by fork(2) is a danger of its own.
 */
#ifndef LIBPROBE_OUTPUT_SERVER_H
#define LIBPROBE_OUTPUT_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libprobe/base/error.h"

/* Without the library's header, none.c replaces all of it with errors. */
#if __has_include(<microhttpd.h>)
#define HTTP_SERVER_BUILT
#endif

enum { HTTP_PAGES_MAX = 4 };

/* What a server has. */
struct http_pages {
	/* The content types of the pages, by number; NULL: there is none of this number. */
	const char *types[HTTP_PAGES_MAX];
	/* The page at a path, for a client that sent this `Accept` (or NULL); negative: none. */
	int (*find)(const char *path, const char *accept);
	/* Makes it; the server frees *ret. */
	struct probe_error *(*make)(int page, void *data, char **ret, size_t *length_ret);
	void *data;
};

struct http_server;

/*
 * Listens at ADDR:PORT; errors are those of probe_metrics_listen(). `pages` is borrowed.
 */
PROBE_MUST_CHECK struct probe_error *http_server_open(
	const char *address, const struct http_pages *pages, struct http_server **ret);
void http_server_close(struct http_server *server);

/* The address that it listens at, as a part of a URL: "[::1]:9100". Owned by the server. */
const char *http_server_address(const struct http_server *server);

/* See probe_metrics_server_fd() and so on. */
int http_server_fd(const struct http_server *server);
uint64_t http_server_due_ns(const struct http_server *server);
void http_server_run(struct http_server *server);
/* Pages are made again when they are asked for next. */
void http_server_renew(struct http_server *server);

/* ---- address.c ----------------------------------------------------------------- */

/*
 * Makes a socket that listens, and its address as a part of a URL, of HTTP_ADDRESS_BYTES. Nothing
 * is looked up: a name service might take long. Errors: as http_server_open().
 */
enum { HTTP_ADDRESS_BYTES = 64 };
PROBE_MUST_CHECK struct probe_error *http_listen(
	const char *address, int *fd_ret, char shown[HTTP_ADDRESS_BYTES]);

/*
 * Whether a request's `Host` (HOST or HOST:PORT) names this machine: an address, localhost, or the
 * machine's host name, alone or in a domain that resolv.conf(5) searches. Under any other name a
 * web page of somebody else could read ours through a browser: its own name, made to resolve to
 * this machine ("DNS rebinding"), is of the same origin.
 */
bool http_host_is_ours(const char *host);

#endif
